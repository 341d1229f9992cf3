//! Owns the client of Lockkeeper and, since its paths have the same shape, of the bare actix-web server.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::compare::peer::{Claim, Client, Fault, Peer, name_of};
use crate::server::token::Token;
use crate::wire::answer::{Grant, problem_code};
use crate::wire::connection::Connection;

/// The longest that the server allows; a turn is over long before.
const WAIT_SECONDS: u32 = 300;
/// Counts one `fdatasync` each.
const SYNC_COUNTER: &[u8] = b"\nlockkeeper_log_groups_total ";

#[derive(Clone)]
pub struct HttpLock {
    pub address: SocketAddr,
    requests: Arc<Requests>,
    /// Whether there is a lock behind it, and so a fencing token.
    fenced: bool,
}

pub struct HttpClient {
    connection: Connection,
    requests: Arc<Requests>,
    request: Vec<u8>,
    session: Vec<u8>,
    name: u32,
    fenced: bool,
}

/// The bytes that are the same for all names, put together in a reused buffer.
struct Requests {
    base: String,
    claim: String,
    claim_waiting: String,
    no_body: String,
    empty_object: String,
}

impl HttpLock {
    pub fn lockkeeper(address: SocketAddr, authority: &str, path: &str, token: &Token) -> Self {
        let headers = format!(" HTTP/1.1\r\nHost: {authority}\r\nAuthorization: Bearer {}\r\n", token.reveal());
        Self { address, requests: Arc::new(Requests::new(path, &headers)), fenced: true }
    }

    /// Sends what Lockkeeper's clients send, so that both have as much to read.
    pub fn bare(address: SocketAddr, path: &str) -> Self {
        let token = "lk_000000000000000000000000000000000000";
        let headers = format!(" HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n");
        Self { address, requests: Arc::new(Requests::new(path, &headers)), fenced: false }
    }

    /// Makes the environments that are claimed; those that are there already are fine.
    pub async fn prepare(&self, names: u32) -> Result<(), Fault> {
        let mut connection = Connection::open(self.address).await?;
        for name in 0..names {
            let request = self.requests.put(name);
            let status = connection.exchange(&request).await?;
            accept(&connection, status, &[200, 201])?;
        }
        Ok(())
    }

    /// How often the server has synced its log so far. None if it does not say.
    pub async fn syncs(&self) -> Option<u64> {
        let mut connection = Connection::open(self.address).await.ok()?;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        let status = connection.exchange(request.as_bytes()).await.ok()?;
        if status == 200 { counter(connection.body(), SYNC_COUNTER) } else { None }
    }

    pub fn read_environment(&self, name: u32) -> Vec<u8> {
        self.requests.read_environment(name)
    }

    /// A request that reads a session of this environment, which is made and released for it.
    pub async fn read_session(&self, client: &mut HttpClient, name: u32) -> Result<Vec<u8>, Fault> {
        match client.claim(name).await? {
            Claim::Granted(_) => client.release().await?,
            Claim::Busy => return Err(Fault::Busy),
        }
        Ok(self.requests.read_session(name, &client.session))
    }
}

impl Peer for HttpLock {
    type Client = HttpClient;

    async fn connect(&self, _number: u32) -> Result<HttpClient, Fault> {
        Ok(HttpClient {
            connection: Connection::open(self.address).await?,
            requests: Arc::clone(&self.requests),
            request: Vec::with_capacity(512),
            session: Vec::with_capacity(64),
            name: 0,
            fenced: self.fenced,
        })
    }
}

impl Client for HttpClient {
    async fn claim(&mut self, name: u32) -> Result<Claim, Fault> {
        self.requests.claim(name, false, &mut self.request);
        self.ask_for(name).await
    }

    async fn claim_waiting(&mut self, name: u32) -> Result<Claim, Fault> {
        self.requests.claim(name, true, &mut self.request);
        self.ask_for(name).await
    }

    async fn release(&mut self) -> Result<(), Fault> {
        self.requests.release(self.name, &self.session, &mut self.request);
        let status = self.connection.exchange(&self.request).await?;
        accept(&self.connection, status, &[200])
    }
}

impl HttpClient {
    async fn ask_for(&mut self, name: u32) -> Result<Claim, Fault> {
        let status = self.connection.exchange(&self.request).await?;
        if status == 409 && problem_code(self.connection.body()) == Some("environment_locked") {
            return Ok(Claim::Busy);
        }
        accept(&self.connection, status, &[201])?;
        let grant = Grant::parse(self.connection.body()).ok_or(Fault::NoGrant)?;
        self.session.clear();
        self.session.extend_from_slice(grant.session_id.as_bytes());
        self.name = name;
        Ok(Claim::Granted(self.fenced.then_some(grant.fencing_token)))
    }

    /// For reads, which need nothing of their answer.
    pub async fn read(&mut self, request: &[u8]) -> Result<(), Fault> {
        let status = self.connection.exchange(request).await?;
        accept(&self.connection, status, &[200])
    }
}

fn accept(connection: &Connection, status: u16, expected: &[u16]) -> Result<(), Fault> {
    if expected.contains(&status) {
        return Ok(());
    }
    let code = problem_code(connection.body()).unwrap_or("without a problem code");
    Err(Fault::Status(status, code.to_owned()))
}

fn counter(metrics: &[u8], named: &[u8]) -> Option<u64> {
    let start = metrics.windows(named.len()).position(|window| window == named)? + named.len();
    let line = metrics[start..].split(|byte| *byte == b'\n').next()?;
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}

impl Requests {
    fn new(path: &str, headers: &str) -> Self {
        let with_body = |body: &str| {
            let length = body.len();
            format!("{headers}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        };
        Self {
            base: path.to_owned(),
            claim: format!("/sessions{}", with_body("{}")),
            claim_waiting: format!("/sessions{}", with_body(&format!("{{\"waitSeconds\":{WAIT_SECONDS}}}"))),
            no_body: format!("{headers}\r\n"),
            empty_object: with_body("{}"),
        }
    }

    fn claim(&self, name: u32, waiting: bool, into: &mut Vec<u8>) {
        let rest = if waiting { &self.claim_waiting } else { &self.claim };
        self.write("POST ", name, &[rest.as_bytes()], into);
    }

    fn release(&self, name: u32, session: &[u8], into: &mut Vec<u8>) {
        self.write("DELETE ", name, &[b"/sessions/", session, self.no_body.as_bytes()], into);
    }

    fn put(&self, name: u32) -> Vec<u8> {
        let mut request = Vec::new();
        self.write("PUT ", name, &[self.empty_object.as_bytes()], &mut request);
        request
    }

    fn read_environment(&self, name: u32) -> Vec<u8> {
        let mut request = Vec::new();
        self.write("GET ", name, &[self.no_body.as_bytes()], &mut request);
        request
    }

    fn read_session(&self, name: u32, session: &[u8]) -> Vec<u8> {
        let mut request = Vec::new();
        self.write("GET ", name, &[b"/sessions/", session, self.no_body.as_bytes()], &mut request);
        request
    }

    fn write(&self, method: &str, name: u32, rest: &[&[u8]], into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(method.as_bytes());
        into.extend_from_slice(self.base.as_bytes());
        into.push(b'/');
        into.extend_from_slice(name_of(name).as_bytes());
        for part in rest {
            into.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(request: Vec<u8>) -> String {
        String::from_utf8(request).expect("ASCII")
    }

    #[test]
    fn requests_are_put_together_from_their_parts() {
        let requests = Requests::new("/base", " HTTP/1.1\r\nHost: h\r\n");
        let mut buffer = b"left over".to_vec();
        requests.claim(7, true, &mut buffer);
        let expected = "POST /base/compare-000007/sessions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n\
                        Content-Length: 19\r\n\r\n{\"waitSeconds\":300}";
        assert_eq!(text(buffer), expected);
        let read = text(requests.read_session(1, b"ses_1"));
        assert_eq!(read, "GET /base/compare-000001/sessions/ses_1 HTTP/1.1\r\nHost: h\r\n\r\n");
    }

    #[test]
    fn a_counter_is_found_by_its_whole_name() {
        let metrics = b"# TYPE lockkeeper_log_groups_total counter\nlockkeeper_log_groups_total 42\nother 1\n";
        assert_eq!(counter(metrics, SYNC_COUNTER), Some(42));
        assert_eq!(counter(b"\nlockkeeper_log_groups 42\n", SYNC_COUNTER), None);
    }
}
