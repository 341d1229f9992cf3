use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::engine::client::*;
use crate::engine::recorder::Recorder;
use crate::history::SessionName;
use crate::wire::{ClaimTemplate, Scope, Terms, Token};

/// The server's reaction to a request.
enum Does {
    Answers(String),
    /// Answers only after this time.
    Stalls(Duration, String),
    HangsUp,
    Nothing,
}

fn answer(status: u16, body: &str) -> Does {
    Does::Answers(format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
}

fn granted(session: &str, fencing: u64) -> Does {
    answer(201, &format!(r#"{{"data": {{"sessionId": "{session}", "fencingToken": {fencing}}}}}"#))
}

/// A server that follows the script, one step per request over any number of connections, and then does nothing.
async fn server(script: Vec<Does>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut script = script.into_iter();
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            while stream.read(&mut request).await.is_ok_and(|bytes| bytes > 0) {
                let text = match script.next() {
                    Some(Does::Answers(text)) => text,
                    Some(Does::Stalls(time, text)) => {
                        tokio::time::sleep(time).await;
                        text
                    }
                    Some(Does::HangsUp) => break,
                    Some(Does::Nothing) | None => {
                        kept.push(stream);
                        break;
                    }
                };
                stream.write_all(text.as_bytes()).await.expect("the client listens");
            }
        }
    });
    address
}

fn thread(address: SocketAddr) -> Arc<ClientThread> {
    let scope = Scope {
        authority: address.to_string(),
        organization: "acme".to_owned(),
        pipeline: "web".to_owned(),
        prefix: "load-".to_owned(),
        token: Token::parse("lk_x").expect("usable"),
    };
    let recorder = Arc::new(Recorder::new(1_000));
    Arc::new(ClientThread::new(0, 1, address, Arc::new(scope), Instant::now(), recorder))
}

async fn client(script: Vec<Does>) -> (Client, ClaimTemplate) {
    let client = Client::new(thread(server(script).await), 0);
    let claim = client.thread.requests.claim(Terms::default());
    (client, claim)
}

fn answers(thread: &ClientThread) -> Vec<Answer> {
    thread.take_records().into_iter().map(|record| record.answer).collect()
}

fn errors(thread: &ClientThread) -> Vec<String> {
    thread.tally().findings.errors.keys().cloned().collect()
}

#[tokio::test]
async fn a_cycle_is_recorded_with_its_session_and_token() {
    let (mut client, claim) = client(vec![granted("ses_1", 7), answer(200, "{}")]).await;
    let session = client.claim(3, &claim).await.expect("granted").session;
    client.release(3, session.clone()).await.expect("released");
    let records = client.thread.take_records();
    assert_eq!(records[0].answer, Answer::Granted { session: session.clone(), fencing: 7 });
    assert_eq!(records[1].request, Request::Release { session });
    assert!(records.iter().all(|record| record.environment == Some(3) && record.sent < record.ended));
    assert!(records[0].ended <= records[1].sent);
    assert_eq!(errors(&client.thread), Vec::<String>::new());
}

#[tokio::test]
async fn a_refusal_is_an_error_unless_it_belongs_to_the_workload() {
    let locked = || answer(409, r#"{"code": "environment_locked"}"#);
    let (mut client, claim) = client(vec![locked(), locked()]).await;
    let refused = Failure::Refused { status: 409, code: "environment_locked".into() };
    client.tolerates = &["environment_locked"];
    assert_eq!(client.claim(1, &claim).await.err(), Some(refused));
    assert_eq!(errors(&client.thread), Vec::<String>::new());
    client.tolerates = &[];
    assert!(client.claim(1, &claim).await.is_err());
    assert_eq!(errors(&client.thread), ["claim: answered 409 environment_locked"]);
    let refused = Answer::Refused { status: 409, code: "environment_locked".into() };
    assert_eq!(answers(&client.thread), [refused.clone(), refused]);
}

#[tokio::test]
async fn what_was_sent_and_not_answered_is_unknown() {
    let unknown = answer(503, r#"{"code": "outcome_unknown"}"#);
    let script = vec![Does::HangsUp, unknown, answer(500, "{}"), answer(201, "{}")];
    let (mut client, claim) = client(script).await;
    for _ in 0..4 {
        assert_eq!(client.claim(1, &claim).await.err(), Some(Failure::Unknown));
    }
    assert_eq!(answers(&client.thread), vec![Answer::Unknown; 4]);
    assert_eq!(errors(&client.thread).len(), 4);
}

#[tokio::test]
async fn what_never_left_is_not_recorded() {
    let (mut client, claim) = {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client = Client::new(thread(listener.local_addr().expect("an address")), 0);
        let claim = client.thread.requests.claim(Terms::default());
        (client, claim)
    };
    assert_eq!(client.claim(1, &claim).await.err(), Some(Failure::NotSent));
    assert_eq!(answers(&client.thread), []);
}

#[tokio::test]
async fn a_client_that_vanishes_while_it_waits_leaves_an_unknown_claim() {
    let (mut client, claim) = client(vec![Does::Nothing]).await;
    let waited = tokio::time::timeout(Duration::from_millis(20), client.claim(1, &claim)).await;
    assert!(waited.is_err());
    client.vanish();
    assert_eq!(answers(&client.thread), [Answer::Unknown]);
    assert_eq!(errors(&client.thread), Vec::<String>::new());
    assert_eq!(client.thread.in_flight.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_client_that_is_ended_from_outside_says_that_it_was_not_answered() {
    let (mut client, claim) = client(vec![Does::Nothing]).await;
    let thread = client.thread.clone();
    let ended = tokio::time::timeout(Duration::from_millis(20), async move { client.claim(1, &claim).await.is_ok() });
    assert!(ended.await.is_err());
    assert_eq!(answers(&thread), [Answer::Unknown]);
    assert_eq!(errors(&thread), ["no answer long after the load's end"]);
    assert_eq!(thread.clients.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn who_was_seen_in_line_is_recorded_so_once() {
    let (mut client, claim) = client(vec![granted("ses_1", 1), granted("ses_2", 2)]).await;
    client.seen_in_line.store(42, Ordering::Relaxed);
    client.claim(1, &claim).await.expect("granted");
    client.claim(1, &claim).await.expect("granted");
    let in_line = |record: Record| match record.request {
        Request::Claim { in_line_at, .. } => in_line_at,
        other => panic!("{other:?}"),
    };
    assert_eq!(client.thread.take_records().into_iter().map(in_line).collect::<Vec<_>>(), [Some(Moment(42)), None]);
}

/// In a closed loop, one request measures a stall. In an open loop, every request that was due meanwhile does.
#[tokio::test]
async fn a_stall_counts_for_everybody_who_was_due_meanwhile() {
    const STALL: Duration = Duration::from_millis(300);
    let healthy = || answer(200, "{}");
    let Does::Answers(text) = healthy() else { panic!("an answer") };
    let mut script = vec![Does::Stalls(STALL, text)];
    script.extend((0..100).map(|_| healthy()));
    let thread = thread(server(script).await);
    thread.open(Some(Arrivals::begin(100.0).expect("a thread")));
    let mut client = Client::new(thread.clone(), 0);
    for _ in 0..20 {
        assert!(client.turn().await);
        client.healthz().await.expect("answered");
    }
    thread.close();
    assert!(!client.turn().await);
    let tally = thread.tally();
    let latencies = tally.latencies.of(Operation::Health).expect("latencies");
    // The request that was due 100 ms into the stall waited for the remaining 200 ms, and so on.
    let held_up = latencies.len() - latencies.count_between(0, 100_000);
    assert!(held_up >= 15, "{held_up} of {}", latencies.len());
    assert!(latencies.max() >= 300_000);
    let sent_late = tally.lateness.as_ref().expect("an open loop");
    assert!(sent_late.max() >= 250_000);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_given_up() {
    let address = TcpListener::bind("127.0.0.1:0").await.and_then(|listener| listener.local_addr()).expect("a port");
    let mut client = Client::new(thread(address), 0);
    client.failures_in_a_row = MAX_FAILURES_IN_A_ROW - 1;
    assert!(client.goes_on());
    assert_eq!(client.release(1, SessionName("ses_1".into())).await, Err(Failure::NotSent));
    assert!(!client.goes_on() && client.is_hopeless());
}
