//! A real OpenID provider, and a minimal browser that signs in there.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};

use reqwest::header::{LOCATION, SET_COOKIE};
use reqwest::{Method, Url, redirect};
use serde_json::{Value, json};

use crate::support::{Answer, Client, Server, Setup, http_builder};

pub const CLIENT_SECRET: &str = "a client secret that nobody must see";
/// More than a sign-in needs.
const REDIRECTS_MAX: usize = 10;

/// `tests/sso/provider.mjs`, running until dropped.
pub struct Provider {
    child: Child,
    _stdin: ChildStdin,
    pub issuer: String,
}

impl Provider {
    /// None, with a message, if Node.js is not installed.
    pub fn start(arguments: &[&str]) -> Option<Self> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sso");
        let installed = Command::new(format!("{folder}/install")).output().unwrap();
        if !installed.status.success() {
            let why = String::from_utf8_lossy(&installed.stderr);
            println!("skipped: single sign-on needs the provider of tests/sso: {}", why.trim());
            return None;
        }
        let mut command = Command::new("node");
        command.arg(format!("{folder}/provider.mjs")).args(["--secret", CLIENT_SECRET]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        let issuer = ready["issuer"].as_str().unwrap().to_owned();
        Some(Self { _stdin: child.stdin.take().unwrap(), child, issuer })
    }

    /// A server of an organization that has the provider as `test`, with more keys in its entry.
    pub async fn serve(&self, keys: &str) -> Server {
        let server = Setup::default().organization(&self.organization(keys)).start();
        self.returns_to(&server).await;
        server
    }

    pub fn organization(&self, keys: &str) -> String {
        format!(
            "[organization]\nid = 'acme'\n[[members]]\nname = 'root'\nrole = 'admin'\n\
             [[providers]]\nid = 'test'\nname = 'Test provider'\nissuer = '{}'\nclient_id = 'lockkeeper'\n\
             client_secret = '{CLIENT_SECRET}'\nscopes = ['profile', 'email', 'groups']\n\
             roles = [{{ group = 'admins', role = 'admin' }}, {{ group = 'developers', role = 'developer' }}, \
             {{ group = 'viewers', role = 'viewer' }}]\n{keys}\n",
            self.issuer
        )
    }

    /// Redirects browsers to this server from now on.
    pub async fn returns_to(&self, server: &Server) {
        self.control(json!({ "redirects": [format!("{}/auth/oidc/test/callback", server.address)] })).await;
    }

    pub async fn set_groups(&self, user: &str, groups: &[&str]) {
        self.control(json!({ "users": { user: groups } })).await;
    }

    /// Changes the provider; returns the number of requests so far, by path.
    pub async fn control(&self, change: Value) -> Value {
        let client = Client::anonymous(&self.issuer);
        client.send(client.request(Method::POST, "/control").json(&change)).await.ok().json()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A browser with its cookies. It follows only the requested number of redirects.
pub struct Browser {
    http: reqwest::Client,
    cookies: HashMap<String, BTreeMap<String, String>>,
}

impl Browser {
    pub fn new() -> Self {
        let http = http_builder().redirect(redirect::Policy::none()).build().unwrap();
        Self { http, cookies: HashMap::new() }
    }

    /// Follows a link in a page.
    pub async fn open(&mut self, url: &str) -> Answer {
        self.send(Method::GET, url, None).await
    }

    async fn send(&mut self, method: Method, url: &str, form: Option<&str>) -> Answer {
        let url: Url = url.parse().unwrap();
        let origin = url.origin().ascii_serialization();
        let mut request =
            self.http.request(method, url).header("Accept", "text/html,*/*").header("Sec-Fetch-Site", "cross-site");
        if let Some(cookies) = self.cookies.get(&origin) {
            let pairs: Vec<_> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            request = request.header("Cookie", pairs.join("; "));
        }
        if let Some(form) = form {
            request = request.header("Content-Type", "application/x-www-form-urlencoded").body(form.to_owned());
        }
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        for line in headers.get_all(SET_COOKIE) {
            let (name, value) = line.to_str().unwrap().split(';').next().unwrap().split_once('=').unwrap();
            let cookies = self.cookies.entry(origin.clone()).or_default();
            if value.is_empty() {
                cookies.remove(name)
            } else {
                cookies.insert(name.to_owned(), value.to_owned())
            };
        }
        Answer { status, headers, text: response.text().await.unwrap() }
    }

    /// Begins a sign-in here, and finishes it at the provider; returns the URL to which the browser is sent back.
    pub async fn go_to_provider(&mut self, server: &Server, user: &str) -> String {
        let start = format!("{}/auth/oidc/test?organization=acme&return=%2Facme%2Fweb%3Ffilter%3D1", server.address);
        let callback = format!("{}/auth/oidc/test/callback?", server.address);
        let mut url: Url = start.parse().unwrap();
        let mut answer = self.open(&start).await;
        for _ in 0..REDIRECTS_MAX {
            if answer.status == 200 {
                answer = self.send(Method::POST, url.as_str(), Some(&format!("name={user}&password={user}"))).await;
            }
            let location = answer.headers.get(LOCATION).unwrap_or_else(|| panic!("no redirect: {answer:?}"));
            url = url.join(location.to_str().unwrap()).unwrap();
            if url.as_str().starts_with(&callback) {
                return url.into();
            }
            answer = self.open(url.as_str()).await;
        }
        panic!("the provider does not come back");
    }

    /// The whole sign-in; returns the last answer of the server.
    pub async fn sign_in(&mut self, server: &Server, user: &str) -> Answer {
        let callback = self.go_to_provider(server, user).await;
        self.open(&callback).await.has_status(303)
    }

    /// The server's view of this browser's identity, requested by one of its pages.
    pub async fn whoami(&self, server: &Server) -> Answer {
        let client = server.anonymous();
        let cookie = self.cookie(server, "lockkeeper").unwrap_or_default();
        let request = client.request(Method::GET, "/api/v1/whoami").header("Sec-Fetch-Site", "same-origin");
        client.send(request.header("Cookie", format!("lockkeeper={cookie}"))).await
    }

    pub fn cookie(&self, server: &Server, name: &str) -> Option<String> {
        self.cookies.get(&server.address)?.get(name).cloned()
    }

    /// All cookies for the server.
    pub fn cookies_of(&self, server: &Server) -> Vec<String> {
        self.cookies.get(&server.address).into_iter().flatten().map(|(_, value)| value.clone()).collect()
    }
}

/// The target of a redirect.
pub fn location(answer: &Answer) -> &str {
    answer.header("location")
}

/// The error code with which the browser is sent to the sign-in page.
pub fn error_of(answer: &Answer) -> String {
    let url: Url = format!("http://server{}", location(answer)).parse().unwrap();
    assert_eq!((answer.status.as_u16(), url.path()), (303, "/sign-in"), "{answer:?}");
    let error = url.query_pairs().find(|(name, _)| name == "error");
    error.unwrap_or_else(|| panic!("no error: {answer:?}")).1.into_owned()
}
