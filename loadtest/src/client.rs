//! Owns one client: a connection, its share of the environments, and the loops that make the load. Closed loop: the
//! next request goes out when the last one is answered.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::answer::{Grant, problem_code};
use crate::connection::Connection;
use crate::environments::Share;
use crate::request::Requests;
use crate::tally::{Operation, Tally};

/// A client that cannot connect this often in a row leaves its workload instead of hammering a dead server.
const MAX_FAILURES_IN_A_ROW: u32 = 20;
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    Prepare,
    Health,
    Cycle,
    Read,
}

/// What the clients of one thread share.
pub struct Shared {
    pub address: SocketAddr,
    pub requests: Requests,
    pub prefix: String,
    pub other_clients: bool,
    /// The workload is over: finish what is begun, begin nothing.
    pub closing: AtomicBool,
    /// Never contended, as all who lock it run on one thread. Shared, because histograms for each of 20,000 clients
    /// would take gigabytes.
    tally: Mutex<Tally>,
}

pub struct Client {
    shared: Arc<Shared>,
    share: Share,
    /// The environment whose cycle is under way.
    cycling: Option<u32>,
    connection: Option<Connection>,
    connected_before: bool,
    failures_in_a_row: u32,
    request: Vec<u8>,
    session_id: Vec<u8>,
}

/// Has been counted already; says what may be done next.
enum Failure {
    /// The request never left, so the server's state is known.
    NotSent,
    Failed,
}

impl Shared {
    pub fn new(address: SocketAddr, requests: Requests, prefix: String, other_clients: bool) -> Self {
        let closing = AtomicBool::new(false);
        Self { address, requests, prefix, other_clients, closing, tally: Mutex::default() }
    }

    pub fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    pub fn new(shared: Arc<Shared>, share: Share) -> Self {
        Self {
            shared,
            share,
            cycling: None,
            connection: None,
            connected_before: false,
            failures_in_a_row: 0,
            request: Vec::with_capacity(512),
            session_id: Vec::with_capacity(64),
        }
    }

    /// Until the workload is done, is closing, or cannot go on.
    pub async fn perform(&mut self, workload: Workload) {
        self.failures_in_a_row = 0;
        match workload {
            Workload::Prepare => self.prepare().await,
            Workload::Health => self.health().await,
            Workload::Cycle => self.cycle().await,
            Workload::Read => self.read().await,
        }
        if self.failures_in_a_row >= MAX_FAILURES_IN_A_ROW {
            self.error(format!("a connection gave up after {MAX_FAILURES_IN_A_ROW} failures in a row"));
        }
    }

    /// The workload was ended from outside while a request was under way.
    pub fn abandoned(&mut self) {
        self.connection = None;
        self.leave_out_cycling();
        self.error("no answer long after the workload's end".to_owned());
    }

    async fn prepare(&mut self) {
        for number in self.share.numbers() {
            if !self.goes_on() {
                return;
            }
            self.shared.requests.put(number, &mut self.request);
            // A run without all its environments is none, so the first failure ends it.
            if self.ask(Operation::Put).await.is_err() {
                return;
            }
        }
    }

    async fn health(&mut self) {
        self.shared.requests.health(&mut self.request);
        while self.goes_on() {
            _ = self.ask(Operation::Health).await;
        }
    }

    async fn read(&mut self) {
        while self.goes_on() {
            let Some(number) = self.next_environment() else { return };
            self.shared.requests.read(number, &mut self.request);
            _ = self.ask(Operation::Read).await;
        }
    }

    async fn cycle(&mut self) {
        while self.goes_on() {
            let Some(number) = self.next_environment() else { return };
            self.cycling = Some(number);
            if let Err(Failure::Failed) = self.claim_and_release(number).await {
                self.leave_out_cycling();
            }
            self.cycling = None;
        }
    }

    async fn claim_and_release(&mut self, number: u32) -> Result<(), Failure> {
        self.shared.requests.claim(number, &mut self.request);
        self.ask(Operation::Claim).await?;
        self.note_grant(number)?;
        self.shared.requests.release(number, &self.session_id, &mut self.request);
        // A release that was not sent leaves the lock held.
        self.ask(Operation::Release).await.map_err(|_| Failure::Failed)
    }

    /// Keeps the session's id for the release and checks its fencing token.
    fn note_grant(&mut self, number: u32) -> Result<(), Failure> {
        let body = self.connection.as_ref().map_or(&[][..], Connection::body);
        let Some(grant) = Grant::parse(body) else {
            self.error("claim: the answer has no usable data.sessionId and data.fencingToken".to_owned());
            return Err(Failure::Failed);
        };
        self.session_id.clear();
        self.session_id.extend_from_slice(grant.session_id.as_bytes());
        let fencing_token = grant.fencing_token;
        if let Err(violation) = self.share.granted(number, fencing_token, self.shared.other_clients) {
            let prefix = &self.shared.prefix;
            self.shared.tally().findings.violation(format!("{prefix}{number:06}: {violation}"));
        }
        Ok(())
    }

    /// It may be locked now, and then the next claim would rightly be refused.
    fn leave_out_cycling(&mut self) {
        if let Some(number) = self.cycling.take() {
            self.share.leave_out(number);
            self.shared.tally().findings.left_out += 1;
        }
    }

    fn next_environment(&mut self) -> Option<u32> {
        let next = self.share.advance();
        if next.is_none() {
            self.error("a connection has no environment left whose state it knows".to_owned());
        }
        next
    }

    /// Sends `self.request`; the body of an expected answer stays in the connection.
    async fn ask(&mut self, operation: Operation) -> Result<(), Failure> {
        // A connection that the server announced to close is kept until here, because its last body is still read.
        let mut connection = match self.connection.take().filter(|connection| !connection.closes()) {
            Some(connection) => connection,
            None => self.connect(operation).await?,
        };
        let sent_at = Instant::now();
        let status = match connection.exchange(&self.request).await {
            Ok(status) => status,
            Err(error) => {
                self.broken(format!("{}: {error}", operation.name())).await;
                return Err(Failure::Failed);
            }
        };
        let answered_at = Instant::now();
        self.failures_in_a_row = 0;
        let expected = self.shared.tally().answered(operation, status, answered_at, answered_at - sent_at);
        if !expected {
            let code = problem_code(connection.body()).unwrap_or("without a problem code");
            self.error(format!("{}: answered {status} {code}", operation.name()));
        }
        self.connection = Some(connection);
        if expected { Ok(()) } else { Err(Failure::Failed) }
    }

    async fn connect(&mut self, operation: Operation) -> Result<Connection, Failure> {
        match Connection::open(self.shared.address).await {
            Ok(connection) => {
                if self.connected_before {
                    self.shared.tally().findings.reconnects += 1;
                }
                self.connected_before = true;
                Ok(connection)
            }
            Err(error) => {
                self.broken(format!("{}: {error}", operation.name())).await;
                Err(Failure::NotSent)
            }
        }
    }

    async fn broken(&mut self, what: String) {
        self.error(what);
        self.failures_in_a_row += 1;
        tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
    }

    fn error(&self, what: String) {
        self.shared.tally().findings.error(what);
    }

    fn goes_on(&self) -> bool {
        !self.shared.closing.load(Ordering::Relaxed) && self.failures_in_a_row < MAX_FAILURES_IN_A_ROW
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::options::Plan;

    fn answer(status: u16, body: &str) -> String {
        format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    fn granted(fencing_token: u64) -> String {
        answer(201, &format!(r#"{{"data": {{"sessionId": "ses_1", "fencingToken": {fencing_token}}}}}"#))
    }

    /// Runs a client with environments 1 and 2 against a server that gives these answers in turn, closes the workload
    /// with the last of them and then falls silent. Returns the client and the first lines of its requests.
    async fn cycle_against(answers: Vec<String>) -> (Client, Vec<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let plan = Plan { address: listener.local_addr().expect("bound"), ..Plan::sample() };
        let shared = Arc::new(Shared::new(plan.address, Requests::new(&plan), plan.prefix.clone(), false));
        let mut client = Client::new(shared.clone(), Share::new(1..3));
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut lines = Vec::new();
            for (index, answer) in answers.iter().enumerate() {
                let mut request = vec![0; 4096];
                let length = stream.read(&mut request).await.expect("a request");
                lines.push(String::from_utf8_lossy(&request[..length]).lines().next().unwrap_or_default().to_owned());
                shared.closing.store(index + 1 == answers.len(), Ordering::Relaxed);
                stream.write_all(answer.as_bytes()).await.expect("the client listens");
            }
            lines
        });
        client.perform(Workload::Cycle).await;
        (client, server.await.expect("the server does not panic"))
    }

    #[tokio::test]
    async fn a_cycle_releases_the_session_it_claimed_and_then_takes_the_next_environment() {
        let (client, lines) = cycle_against(vec![granted(7), answer(200, "{}"), granted(1), answer(200, "{}")]).await;
        let base = "/api/v1/organizations/acme/pipelines/web/ephemeral-environments";
        assert_eq!(
            lines,
            [
                format!("POST {base}/load-000001/sessions HTTP/1.1"),
                format!("DELETE {base}/load-000001/sessions/ses_1 HTTP/1.1"),
                format!("POST {base}/load-000002/sessions HTTP/1.1"),
                format!("DELETE {base}/load-000002/sessions/ses_1 HTTP/1.1"),
            ]
        );
        let tally = client.shared.tally();
        assert_eq!((tally.count(Operation::Claim), tally.count(Operation::Release)), (2, 2));
        assert_eq!((tally.findings.error_count(), tally.findings.violation_count), (0, 0));
    }

    #[tokio::test]
    async fn a_refused_claim_is_an_error_and_its_environment_is_left_out() {
        let locked = answer(409, r#"{"code": "environment_locked"}"#);
        let (client, lines) = cycle_against(vec![locked, granted(1), answer(200, "{}"), granted(2)]).await;
        assert!(lines[1].contains("load-000002/sessions ") && lines[3].contains("load-000002/sessions "), "{lines:?}");
        let tally = client.shared.tally();
        assert_eq!(tally.findings.errors["claim: answered 409 environment_locked"], 1);
        assert_eq!(tally.findings.statuses[&(Operation::Claim, 409)], 1);
    }

    #[tokio::test]
    async fn a_fencing_token_that_does_not_rise_is_reported_with_its_environment() {
        let ok = || answer(200, "{}");
        let (client, _) = cycle_against(vec![granted(5), ok(), granted(1), ok(), granted(5), ok()]).await;
        let tally = client.shared.tally();
        assert_eq!(tally.findings.violations, ["load-000001: fencing token 5 came after 5: it must rise"]);
    }

    #[tokio::test]
    async fn a_connection_that_breaks_within_a_cycle_leaves_its_environment_out() {
        let (mut client, _) = cycle_against(vec![granted(5)]).await;
        assert_eq!(client.shared.tally().findings.left_out, 1);
        assert_eq!([client.share.advance(), client.share.advance()], [Some(2), Some(2)]);
    }
}
