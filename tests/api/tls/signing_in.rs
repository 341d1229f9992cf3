//! Signing in over TLS: browsers protect the cookie from other hosts in the domain and from connections without TLS.

use reqwest::Method;
use serde_json::json;

use super::Site;
use crate::sign_in::browser::Browser;
use crate::support::ADMIN_TOKEN;

#[tokio::test]
async fn over_tls_the_cookie_is_bound_to_the_host_and_no_other_one_is_taken() {
    let site = Site::new();
    let server = site.start();
    let client = server.anonymous().over(site.http(None));
    let browser = Browser::over_tls(client.clone());
    let answer = browser.post("/auth/sign-in", json!({ "token": ADMIN_TOKEN })).await.has_status(204);
    let cookie = answer.header("set-cookie");
    assert!(cookie.starts_with("__Host-lockkeeper=lks_"), "{cookie}");
    for part in ["Path=/", "Secure", "HttpOnly", "SameSite=Strict"] {
        assert!(cookie.split("; ").any(|found| found == part), "{part}: {cookie}");
    }
    assert_eq!(browser.get("/api/v1/whoami").await.ok().data()["user"]["name"], "admin");
    for (origin, is_own) in [(server.address.clone(), true), (server.address.replace("https", "http"), false)] {
        let answer = browser.send(browser.bare(Method::GET, "/api/v1/whoami").header("Origin", &origin)).await;
        assert_eq!(answer.status == 200, is_own, "{origin}: {answer:?}");
    }
    // Another host in the domain could set one without the prefix.
    let text = browser.cookie().unwrap();
    let request = client.request(Method::GET, "/api/v1/whoami").header("Cookie", format!("lockkeeper={text}"));
    client.send(request.header("Sec-Fetch-Site", "same-origin")).await.refused(401, "missing_token");
}

#[tokio::test]
async fn a_link_leads_to_a_name_of_the_certificate_or_to_the_public_url_and_nowhere_else() {
    let site = Site::new();
    site.install(&site.authority.issue(&["localhost", "lock.example"]));
    let links = async |server: &crate::support::Server, host: &str| {
        let admin = server.admin().over(site.http(None));
        let ana = admin.get("/members?name=ana").await.ok().data()[0]["userId"].as_str().unwrap().to_owned();
        let path = admin.path(&format!("/members/{ana}/invitation"));
        admin.send(admin.request(Method::POST, &path).header("Host", host).json(&json!({}))).await
    };
    let server = site.start();
    for host in ["lock.example", "lock.example:8443"] {
        let url = links(&server, host).await.created().data()["url"].clone();
        assert!(url.as_str().unwrap().starts_with(&format!("https://{host}/invitation#")), "{url}");
    }
    for host in ["evil.example", "lock.example.evil", "10.0.0.1"] {
        links(&server, host).await.refused(403, "public_url_required");
    }
    drop(server);
    let server =
        site.setup("").settings(&format!("public_url = 'https://lock.acme.example'\n{}", site.settings(""))).start();
    let url = links(&server, "evil.example").await.created().data()["url"].clone();
    assert!(url.as_str().unwrap().starts_with("https://lock.acme.example/invitation#"), "{url}");
}

#[tokio::test]
async fn single_sign_on_begins_at_a_name_of_the_certificate_and_nowhere_else() {
    let site = Site::new();
    site.install(&site.authority.issue(&["localhost", "lock.example"]));
    // No provider answers there: the address of the server is checked first.
    let file = "[organization]\nid = 'acme'\n[[members]]\nname = 'admin'\nrole = 'admin'\n[[providers]]\nid = 'test'\n\
                issuer = 'http://127.0.0.1:1'\nclient_id = 'c'\ndefault_role = 'viewer'\n";
    let server = site.setup("").organization(file).start();
    let client = server.anonymous().over(site.http(None));
    let begin = |host: &str| client.request(Method::GET, "/auth/oidc/test?organization=acme").header("Host", host);
    for host in ["evil.example", "lock.example.evil", "10.0.0.1"] {
        client.send(begin(host)).await.refused(403, "public_url_required");
    }
    client.send(begin("lock.example")).await.refused(502, "sso_unavailable");
}
