//! Pages of other sites, which cannot use the cookie that their visitors' browsers would send.

use reqwest::Method;
use serde_json::json;

use super::{PASSWORD, invited, with_password};
use crate::sign_in::browser::Browser;
use crate::support::{ADMIN_TOKEN, Server, Setup};

#[tokio::test]
async fn a_cookie_counts_only_in_requests_of_our_own_pages() {
    let server = Server::start();
    let browser = invited(&server, "mia", PASSWORD).await;
    let own = server.address.clone();
    let cases: [(&[(&str, &str)], bool); 12] = [
        (&[("Sec-Fetch-Site", "same-origin")], true),
        (&[("Sec-Fetch-Site", "same-origin"), ("Origin", &own)], true),
        (&[("Origin", &own)], true),
        (&[("Sec-Fetch-Site", "same-site")], false),
        (&[("Sec-Fetch-Site", "cross-site")], false),
        (&[("Sec-Fetch-Site", "cross-site"), ("Origin", &own)], false),
        (&[("Sec-Fetch-Site", "none")], false),
        (&[("Origin", "https://evil.example")], false),
        (&[("Origin", "http://127.0.0.1:1")], false),
        (&[("Origin", "null")], false),
        (&[("Referer", &own)], false),
        (&[], false),
    ];
    let organization = "/api/v1/organizations/acme";
    let requests = [
        (Method::GET, "/api/v1/whoami".to_owned(), 200),
        (Method::GET, format!("{organization}/events/stream?type=none"), 400),
        (Method::POST, format!("{organization}/pipelines/web/resume"), 200),
        (Method::PUT, format!("{organization}/pipelines/web/ephemeral-environments/made"), 0),
        (Method::GET, "/auth/sign-ins".to_owned(), 200),
    ];
    for (headers, is_own) in cases {
        for (method, path, status) in &requests {
            let mut request = browser.bare(method.clone(), path).json(&json!({}));
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let answer = browser.send(request).await;
            if is_own {
                let found = answer.status.as_u16();
                assert!(found == *status || (*status == 0 && (found == 200 || found == 201)), "{headers:?} {answer:?}");
            } else {
                answer.refused(403, "cross_site_request");
            }
        }
    }
    browser.get("/auth/sign-ins").await.ok();
}

#[tokio::test]
async fn another_site_signs_nobody_in_or_out_and_a_program_signs_in_without_saying_who_it_is() {
    let server = Server::start();
    let browser = invited(&server, "mia", PASSWORD).await;
    let bodies = [
        ("/auth/sign-in", with_password("mia", PASSWORD)),
        ("/auth/sign-in", json!({ "token": ADMIN_TOKEN })),
        ("/auth/sign-out", json!({ "everywhere": true })),
        ("/auth/password", json!({ "currentPassword": PASSWORD, "newPassword": "another horse" })),
        ("/auth/invitations/lki_0000000000000000000000000000002C8GjS", json!({ "password": "another horse" })),
    ];
    for (path, body) in &bodies {
        for (name, value) in [("Sec-Fetch-Site", "cross-site"), ("Origin", "https://evil.example")] {
            let request = browser.bare(Method::POST, path).header(name, value).json(body);
            let refused = browser.send(request).await.refused(403, "cross_site_request");
            assert_eq!(refused.header("set-cookie"), "");
        }
    }
    browser.get("/api/v1/whoami").await.ok();
    let program = Browser::new(&server);
    let request = program.bare(Method::POST, "/auth/sign-in").json(&with_password("mia", PASSWORD));
    program.send(request).await.has_status(204);
    program.get("/api/v1/whoami").await.ok();
}

#[tokio::test]
async fn without_tls_nobody_signs_in_from_another_machine_unless_a_proxy_has_it() {
    let server = Server::start();
    let browser = Browser::new(&server);
    let body = json!({ "token": ADMIN_TOKEN });
    for host in ["lock.example", "10.0.0.1:8080", "localhost.example"] {
        let request = browser.request(Method::POST, "/auth/sign-in").header("Host", host).json(&body);
        let refused = browser.send(request).await.refused(403, "insecure_sign_in");
        assert!(refused.json()["detail"].as_str().unwrap().contains("tls.certificate"), "{refused:?}");
    }
    let request = browser.request(Method::POST, "/auth/sign-in").header("Host", "lock.localhost:1").json(&body);
    browser.send(request).await.has_status(204);
    // A cookie from this machine is not valid under another host name, which a page with that name could try.
    let request = browser.request(Method::GET, "/api/v1/whoami").header("Host", "lock.example");
    browser.send(request).await.refused(401, "missing_token");

    let proxied = Setup::default().variable("LOCKKEEPER_PUBLIC_URL", "https://lock.example/").start();
    let browser = Browser::over_tls(proxied.anonymous());
    let request = browser.request(Method::POST, "/auth/sign-in").header("Host", "lock.example").json(&body);
    let answer = browser.send(request).await.has_status(204);
    let cookie = answer.header("set-cookie");
    assert!(cookie.starts_with("__Host-lockkeeper=lks_") && cookie.contains("; Secure; "), "{cookie}");
    let request = browser.bare(Method::GET, "/api/v1/whoami").header("Origin", "https://lock.example");
    browser.send(request).await.ok();
    let request = browser.bare(Method::GET, "/api/v1/whoami").header("Origin", "http://lock.example");
    browser.send(request).await.refused(403, "cross_site_request");
    let url = super::invite(&proxied.admin(), "ana").await;
    assert!(url.starts_with("https://lock.example/invitation#lki_"), "{url}");
}
