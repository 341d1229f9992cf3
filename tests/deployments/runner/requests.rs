//! Steps that are HTTP requests.

use std::sync::Arc;

use domain::{Action, HttpCall, StageEnd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::harness::{FOR_EVER, Harness, deployment, environment, failed, job, within_reason};

pub fn call(url: String) -> HttpCall {
    HttpCall { method: Arc::from("POST"), url: Arc::from(url), headers: Vec::new(), body: None, expect_status: vec![] }
}

/// Answers one request and returns it; without an answer it keeps the connection open.
pub async fn answering(answer: Option<String>) -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let request = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !is_whole(&String::from_utf8_lossy(&request)) {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
        }
        match answer {
            Some(answer) => stream.write_all(answer.as_bytes()).await.unwrap(),
            None => assert_eq!(stream.read_buf(&mut request).await.unwrap_or(0), 0),
        }
        String::from_utf8(request).unwrap()
    });
    (address, request)
}

/// Whether a request has arrived with its whole body.
fn is_whole(request: &str) -> bool {
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.is_none_or(|length| length.parse::<usize>().unwrap() <= body.len())
}

pub fn answer(status: &str, body: &str) -> Option<String> {
    let length = body.len();
    Some(format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"))
}

#[tokio::test]
async fn a_request_is_sent_with_its_variables_and_logged_without_its_secrets() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.set_variables(&[("TOKEN", "s3cr3t/&value", true), ("NAME", "a b", false)]);
    let (address, request) = answering(answer("201 Created", "you said s3cr3t/&value")).await;
    let mut call = call(format!("{address}/hooks/${{TOKEN}}?name=${{NAME}}&plain=$${{NAME}}"));
    call.headers = vec![(Arc::from("authorization"), Arc::from("Bearer ${TOKEN}"))];
    call.body = Some(Arc::from("commit ${LOCKKEEPER_COMMIT}"));
    let (end, steps) = harness.run(job(1, vec![Action::Http(call)])).await;
    assert_eq!((end, steps[0].exit_code), (StageEnd::Succeeded, None));
    let request = within_reason(request).await.unwrap();
    let target = "/hooks/s3cr3t%2F%26value?name=a%20b&plain=${NAME}";
    assert!(request.starts_with(&format!("POST {target} HTTP/1.1\r\n")), "{request}");
    assert!(request.contains("authorization: Bearer s3cr3t/&value\r\n"));
    assert_eq!(harness.text(1), format!("POST {address}/hooks/***\nHTTP/1.1 201 Created\nyou said ***\n"));
}

#[tokio::test]
async fn credentials_of_a_url_are_sent_unless_the_step_has_its_own() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.set_variables(&[("PASSWORD", "p@ss:w/rd", true)]);
    for (number, own, sent) in [(1, None, "Basic bWU6cEBzczp3L3Jk"), (2, Some("Bearer mine"), "Bearer mine")] {
        let (address, request) = answering(answer("200 OK", "")).await;
        let mut call = call(address.replace("http://", "http://me:${PASSWORD}@"));
        call.headers = own.map(|own| (Arc::from("Authorization"), Arc::from(own))).into_iter().collect();
        assert_eq!(harness.run(job(number, vec![Action::Http(call)])).await.0, StageEnd::Succeeded);
        let request = within_reason(request).await.unwrap();
        let headers: Vec<_> = request.lines().filter_map(|line| line.strip_prefix("authorization: ")).collect();
        assert_eq!(headers, [sent]);
        assert!(harness.text(number).starts_with(&format!("POST {address}\n")), "{}", harness.text(number));
    }
}

#[tokio::test]
async fn no_value_takes_a_request_to_another_path() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.set_variables(&[("WHERE", "..", false)]);
    let (end, _) =
        harness.run(job(1, vec![Action::Http(call("http://127.0.0.1:1/apps/${WHERE}/stop".to_owned()))])).await;
    let told = "the path of its URL contains `.` or `..` between slashes, which would lead elsewhere";
    assert_eq!(end, failed(&format!("step `step-1` could not be prepared: {told}")));
}

#[tokio::test]
async fn a_secret_in_the_host_is_masked() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.set_variables(&[("TENANT", "Hidden-Tenant", true)]);
    harness.run(job(1, vec![Action::Http(call("http://${TENANT}.invalid/".to_owned()))])).await;
    assert!(harness.text(1).starts_with("POST http://***.invalid/\n"), "{}", harness.text(1));
}

#[tokio::test]
async fn an_answer_that_was_not_expected_fails_the_step() {
    let mut harness = Harness::new(1, FOR_EVER);
    let (address, _request) = answering(answer("500 Internal Server Error", "boom")).await;
    let (end, _) = harness.run(job(1, vec![Action::Http(call(address))])).await;
    assert_eq!(end, failed("step `step-1` was answered with status 500"));
    assert!(harness.text(1).contains("\nHTTP/1.1 500 Internal Server Error\nboom\n"));
    let (address, _request) = answering(answer("302 Found", "")).await;
    let mut redirected = call(address);
    redirected.expect_status = vec![302];
    assert_eq!(harness.run(job(2, vec![Action::Http(redirected)])).await.0, StageEnd::Succeeded);
}

#[tokio::test]
async fn an_unknown_variable_is_named() {
    let mut harness = Harness::new(1, FOR_EVER);
    let (end, _) = harness.run(job(1, vec![Action::Http(call("http://127.0.0.1:1/${NOBODY}".to_owned()))])).await;
    assert_eq!(end, failed("step `step-1` could not be prepared: there is no variable `NOBODY`"));
}

#[tokio::test]
async fn a_request_without_an_answer_fails_or_is_cancelled() {
    let mut harness = Harness::new(1, FOR_EVER);
    let (end, _) = harness.run(job(1, vec![Action::Http(call("http://127.0.0.1:1/".to_owned()))])).await;
    let StageEnd::Failed(reason) = end else { panic!("nobody listens there") };
    assert!(reason.starts_with("step `step-1` got no response: "), "{reason}");
    let (address, _request) = answering(None).await;
    harness.runner.start(job(2, vec![Action::Http(call(address))]));
    harness.line(2, "POST ").await;
    harness.runner.stop(&environment("web"), deployment(2));
    assert_eq!(harness.end().await.1, StageEnd::Cancelled);
}

#[tokio::test]
async fn a_value_in_a_body_of_json_stays_within_its_quotes() {
    let mut harness = Harness::new(1, FOR_EVER);
    harness.set_variables(&[("NAME", r#"x","admin":"yes"#, false)]);
    for (number, content_type, sent) in [
        (1, "application/json; charset=utf-8", r#"{"name": "x\",\"admin\":\"yes"}"#),
        (2, "text/plain", r#"{"name": "x","admin":"yes"}"#),
    ] {
        let (address, request) = answering(answer("200 OK", "")).await;
        let mut call = call(address);
        call.headers = vec![(Arc::from("Content-Type"), Arc::from(content_type))];
        call.body = Some(Arc::from(r#"{"name": "${NAME}"}"#));
        let (end, _) = harness.run(job(number, vec![Action::Http(call)])).await;
        assert_eq!(end, StageEnd::Succeeded);
        let request = within_reason(request).await.unwrap();
        assert!(request.ends_with(sent), "{request}");
    }
}
