//! The dashboard as a browser loads it: the page at every URL, its files, and none of it for programs.

use reqwest::Method;

use crate::support::{Answer, Server};

/// Sent by browsers when a person opens a URL.
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'";

#[tokio::test]
async fn every_address_of_the_dashboard_shows_its_page() {
    let server = Server::start();
    let first = ask(&server, Method::GET, "/", BROWSER).await.ok();
    for path in [
        "/sign-in",
        "/sign-in?organization=acme&name=admin",
        "/invitation",
        "/acme",
        "/acme/",
        "/acme/web",
        "/acme/web/review-1",
        "/acme/web/review-1/ses_01a1dcfadc8773e9b7e277941",
        "/acme/-/deployments/dep_01a1dcfadc8773e9b7e27794",
        "/acme/settings/tokens",
    ] {
        let page = ask(&server, Method::GET, path, BROWSER).await.ok();
        assert_eq!(page.text, first.text, "{path}");
        for (name, expected) in [
            ("content-type", "text/html; charset=utf-8"),
            ("cache-control", "no-cache"),
            ("content-security-policy", POLICY),
            ("x-frame-options", "DENY"),
        ] {
            assert_eq!(page.header(name), expected, "{name} of {path}");
        }
        let head = ask(&server, Method::HEAD, path, BROWSER).await.ok();
        assert_eq!((&*head.text, head.header("content-length")), ("", &*first.text.len().to_string()), "{path}");
    }
    for path in ["/", "/sign-in", "/invitation"] {
        assert_eq!(ask(&server, Method::GET, path, "*/*").await.ok().text, first.text, "{path} whoever asks");
        ask(&server, Method::POST, path, BROWSER).await.refused(405, "method_not_allowed");
    }
}

#[tokio::test]
async fn a_wrong_path_of_a_program_is_a_404_and_never_a_page() {
    let server = Server::start();
    for path in ["/acme", "/acme/web/review-1", "/favicon.ico", "/robots.txt"] {
        for accept in ["application/json", "*/*", "image/avif,image/webp,*/*;q=0.8"] {
            ask(&server, Method::GET, path, accept).await.refused(404, "route_not_found");
        }
        ask(&server, Method::POST, path, BROWSER).await.refused(404, "route_not_found");
    }
    for path in [
        "/api",
        "/api/v1/nothing",
        "/api/v2/organizations/acme/pipelines",
        "/organizations/acme",
        "/docs/nothing.js",
        "/assets",
        "/assets/nothing.js",
        "/problems",
        "/healthz/x",
        "/readyz/x",
        "/metrics/x",
        "//acme",
    ] {
        ask(&server, Method::GET, path, BROWSER).await.refused(404, "route_not_found");
    }
}

#[tokio::test]
async fn files_of_this_version_may_be_kept_for_ever_and_there_are_no_others() {
    let server = Server::start();
    let page = ask(&server, Method::GET, "/", BROWSER).await.ok();
    let files = files_of(&page);
    assert!(!files.is_empty(), "{}", page.text);
    for path in &files {
        let file = ask(&server, Method::GET, path, "*/*").await.ok();
        let expected = if path.ends_with(".js") {
            "text/javascript; charset=utf-8"
        } else if path.ends_with(".css") {
            "text/css; charset=utf-8"
        } else {
            "image/svg+xml"
        };
        assert_eq!(file.header("content-type"), expected, "{path}");
        assert_eq!(file.header("cache-control"), "public, max-age=31536000, immutable", "{path}");
        assert_eq!(file.header("content-security-policy"), POLICY, "{path}");
        assert_eq!(file.header("content-length"), file.text.len().to_string(), "{path}");
        assert!(!file.text.is_empty(), "{path}");
        let head = ask(&server, Method::HEAD, path, "*/*").await.ok();
        assert_eq!((&*head.text, head.header("content-length")), ("", file.header("content-length")), "{path}");
    }
    let version = files[0].split('/').nth(2).unwrap();
    let of_another = files[0].replace(version, "0123456789abcdef");
    for path in [&*of_another, &format!("/assets/{version}/index.html"), &format!("/assets/{version}/../mod.rs")] {
        let refused = ask(&server, Method::GET, path, "*/*").await.refused(404, "route_not_found");
        assert_eq!(refused.header("cache-control"), "no-store", "{path}");
    }
}

#[tokio::test]
async fn who_has_the_page_already_is_told_so() {
    let server = Server::start();
    let page = ask(&server, Method::GET, "/", BROWSER).await.ok();
    let mut paths = files_of(&page);
    paths.extend(["/".to_owned(), "/acme/web".to_owned()]);
    for path in paths {
        let first = ask(&server, Method::GET, &path, BROWSER).await.ok();
        let anonymous = server.anonymous();
        let again = anonymous.request(Method::GET, &path).header("accept", BROWSER);
        let again = anonymous.send(again.header("if-none-match", first.header("etag"))).await.has_status(304);
        for name in ["etag", "cache-control", "content-security-policy"] {
            assert_eq!(again.header(name), first.header(name), "{name} of {path}");
        }
    }
}

/// All files that the page loads, all from this server.
fn files_of(page: &Answer) -> Vec<String> {
    let named = ["src=\"", "href=\""].iter().flat_map(|attribute| page.text.split(attribute).skip(1));
    let named: Vec<_> = named.map(|rest| rest.split('"').next().unwrap().to_owned()).collect();
    let is_own = |path: &String| path.starts_with('#') || path.starts_with('/') && !path.starts_with("//");
    assert!(named.iter().all(is_own), "{named:?}");
    assert!(!page.text.contains("<style") && !page.text.contains(" style=") && !page.text.contains("javascript:"));
    named.into_iter().filter(|path| path.starts_with("/assets/")).collect()
}

async fn ask(server: &Server, method: Method, path: &str, accept: &str) -> Answer {
    let anonymous = server.anonymous();
    anonymous.send(anonymous.request(method, path).header("accept", accept)).await
}
