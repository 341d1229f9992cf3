//! Unauthenticated clients cannot fill the log, however much they send.

use reqwest::Method;

use crate::support::Server;

/// Nearly the maximum length of a path.
const PATH_BYTES: usize = 59_000;
const REQUESTS: usize = 300;
/// For all of them, which are 18 MB: some dozens of lines, each cut.
const LOGGED_MAX: usize = 200_000;

#[tokio::test]
async fn exchanges_without_a_token_are_counted_instead_of_logged() {
    let server = Server::start();
    let client = server.anonymous();
    let path = format!("/api/v1/organizations/{}%0AERROR/tokens/exchange", "x".repeat(PATH_BYTES));
    let form = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=x.y.z&\
                subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aid_token";
    let before = server.log().len();
    for _ in 0..REQUESTS {
        let request = client.request(Method::POST, &path).header("content-type", "application/x-www-form-urlencoded");
        client.send(request.body(form)).await.refused(400, "invalid_grant");
    }
    let log = loop {
        let log = server.log()[before..].to_owned();
        if log.contains(" more token exchanges from 127.0.0.1 in the last 10 s") {
            break log;
        }
        client.send(client.request(Method::GET, "/healthz")).await.ok();
        assert!(log.len() < LOGGED_MAX, "{} bytes", log.len());
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    assert!(log.len() < LOGGED_MAX, "{} bytes", log.len());
    assert!(!log.lines().any(|line| line.starts_with("ERROR")), "a path made a line of its own");
}
