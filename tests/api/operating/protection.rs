//! Headers that protect people who open an answer in a browser, or through a cache.

use reqwest::Method;
use serde_json::json;

use crate::support::{Answer, Server, at};

#[tokio::test]
async fn every_answer_says_how_browsers_and_caches_may_treat_it() {
    let server = Server::start();
    let admin = server.admin();
    let held = admin.claim("review-1", json!({})).await.created();
    let session = format!("{}/sessions/{}", at("review-1"), held.session());
    assert_protected(&held, DATA, "no-store", "a claim");
    assert_protected(&admin.post("/tokens", json!({ "name": "t" })).await.created(), DATA, "no-store", "a new token");
    let anonymous = server.anonymous();
    for (client, path, policy, cached) in [
        (&admin, admin.path(&session), DATA, "no-store"),
        (&admin, admin.path(&at("nowhere")), DATA, "no-store"),
        (&admin, admin.path("/events"), DATA, "no-store"),
        (&anonymous, admin.path(&session), DATA, "no-store"),
        (&anonymous, "/nowhere".to_owned(), DATA, "no-store"),
        (&anonymous, "/docs/nowhere.js".to_owned(), DATA, "no-store"),
        (&anonymous, "/healthz".to_owned(), DATA, "no-store"),
        (&anonymous, "/metrics".to_owned(), DATA, "no-store"),
        (&anonymous, "/api/v1/openapi.json".to_owned(), DATA, ""),
        (&anonymous, "/docs/".to_owned(), PAGE, ""),
        (&anonymous, "/docs/swagger-ui-bundle.js".to_owned(), PAGE, ""),
        (&anonymous, "/docs/swagger-initializer.js".to_owned(), PAGE, ""),
    ] {
        for method in [Method::GET, Method::HEAD] {
            let answer = client.send(client.request(method.clone(), &path)).await;
            assert_protected(&answer, policy, cached, &format!("{method} {path}"));
        }
    }
    assert_protected(&admin.delete("/nowhere").await, DATA, "no-store", "DELETE");
}

#[tokio::test]
async fn the_explorer_keeps_no_token_and_its_page_needs_no_more_than_its_policy_allows() {
    let server = Server::start();
    let get = |path: &'static str| {
        let anonymous = server.anonymous();
        async move { anonymous.send(anonymous.request(Method::GET, path)).await.ok().text }
    };
    let (page, initializer) = (get("/docs/").await, get("/docs/swagger-initializer.js").await);
    assert!(initializer.contains("persistAuthorization: false"), "{initializer}");
    // Only scripts from our own files, none inline.
    let mut scripts = page.split("<script").skip(1).map(|script| script.split("</script>").next().unwrap());
    assert!(scripts.all(|script| script.contains("src=\"") && script.ends_with('>')), "{page}");
    assert!(!page.contains("<style") && !page.contains("onload") && !page.contains("javascript:"), "{page}");
}

const DATA: &str = "default-src 'none'; frame-ancestors 'none'";
const PAGE: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn assert_protected(answer: &Answer, policy: &str, cached: &str, what: &str) {
    for (name, expected) in [
        ("content-security-policy", policy),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", cached),
    ] {
        assert_eq!(answer.header(name), expected, "{name} of {what}");
    }
}
