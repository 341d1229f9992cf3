//! A browser from the server's view: keeps a cookie, and reports which page makes its requests.

use std::net::IpAddr;

use parking_lot::Mutex;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::{Answer, Client, Server, http_builder};

pub struct Browser {
    client: Client,
    cookie: Mutex<Option<String>>,
    /// The cookie that marks a known browser.
    known: Mutex<Option<String>>,
    name: &'static str,
}

impl Browser {
    /// A browser on a page of the server.
    pub fn new(server: &Server) -> Self {
        Self { client: server.anonymous(), cookie: Mutex::new(None), known: Mutex::new(None), name: "lockkeeper" }
    }

    /// A browser on another machine: this one has all addresses that begin with 127.
    pub fn from_address(server: &Server, address: [u8; 4]) -> Self {
        let http = http_builder().local_address(IpAddr::from(address)).build().unwrap();
        Self { client: server.anonymous().over(http), ..Self::new(server) }
    }

    /// With TLS, where the cookie has another name.
    pub fn over_tls(client: Client) -> Self {
        Self { client, cookie: Mutex::new(None), known: Mutex::new(None), name: "__Host-lockkeeper" }
    }

    /// The same browser after a restart of the server.
    pub fn at(self, server: &Server) -> Self {
        Self { client: self.client.at(server), ..self }
    }

    pub fn cookie(&self) -> Option<String> {
        self.cookie.lock().clone()
    }

    pub fn keep(&self, cookie: &str) {
        *self.cookie.lock() = Some(cookie.to_owned());
    }

    /// From a page of the server, with the cookie if there is one.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, path).header("Sec-Fetch-Site", "same-origin")
    }

    /// The same without a header about the page.
    pub fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, path);
        let sign_in = self.cookie().map(|cookie| format!("{}={cookie}", self.name));
        let cookies: Vec<String> = sign_in.into_iter().chain(self.known.lock().clone()).collect();
        if cookies.is_empty() {
            return request;
        }
        request.header("Cookie", format!("theme=dark; {}", cookies.join("; ")))
    }

    /// Keeps a returned cookie.
    pub async fn send(&self, request: RequestBuilder) -> Answer {
        let answer = self.client.send(request).await;
        let value = answer.header("set-cookie").split(';').next().unwrap().strip_prefix(&format!("{}=", self.name));
        if let Some(value) = value {
            *self.cookie.lock() = Some(value.to_owned()).filter(|value| !value.is_empty());
        }
        let known = format!("{}-known-", self.name);
        let all = answer.headers.get_all("set-cookie").iter().filter_map(|cookie| cookie.to_str().ok());
        if let Some(cookie) = all.filter_map(|cookie| cookie.split(';').next()).find(|pair| pair.starts_with(&known)) {
            *self.known.lock() = Some(cookie.to_owned());
        }
        answer
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(self.request(Method::POST, path).json(&body)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path)).await
    }

    pub async fn claim(&self, environment: &str) -> Answer {
        let path = format!("/api/v1/organizations/acme{}/sessions", crate::support::at(environment));
        self.post(&path, json!({ "ttlSeconds": 600 })).await
    }

    pub async fn sign_ins(&self) -> Vec<Value> {
        self.get("/auth/sign-ins").await.ok().data().as_array().unwrap().clone()
    }
}
