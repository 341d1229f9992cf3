//! The client of Lockkeeper, and of the bare actix-web server, whose paths have the same shape.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::compare::peer::{Claim, Client, Fault, Peer};
use crate::wire::{
    ClaimTemplate, Connection, Grant, LONGEST_WAIT_SECONDS, Requests, Scope, Template, Terms, problem_code,
};

/// Each group is one `fdatasync`.
const SYNC_COUNTER: &[u8] = b"\nlockkeeper_log_groups_total ";

#[derive(Clone)]
pub struct HttpLock {
    /// The nodes of a cluster, or one server; the clients are spread over them.
    addresses: Vec<SocketAddr>,
    script: Arc<Script>,
    /// Whether the server has locks, and so fencing tokens.
    fenced: bool,
}

struct Script {
    requests: Requests,
    claim: ClaimTemplate,
    claim_waiting: ClaimTemplate,
}

pub struct HttpClient {
    connection: Connection,
    script: Arc<Script>,
    request: Vec<u8>,
    session: String,
    name: u32,
    fenced: bool,
}

impl HttpLock {
    pub fn new(addresses: Vec<SocketAddr>, scope: &Scope, fenced: bool) -> Self {
        let requests = Requests::new(scope);
        let claim = requests.claim(Terms::default());
        let claim_waiting = requests.claim(Terms::waiting(LONGEST_WAIT_SECONDS));
        Self { addresses, script: Arc::new(Script { requests, claim, claim_waiting }), fenced }
    }

    /// Creates the environments to be claimed; existing ones are kept.
    pub async fn prepare(&self, names: u32) -> Result<(), Fault> {
        let mut connection = Connection::open(self.addresses[0]).await?;
        let put = self.script.requests.put("{}");
        for name in 1..=names {
            let status = connection.exchange(&written(&put, name, "")).await?;
            accept(&connection, status, &[200, 201])?;
        }
        Ok(())
    }

    /// How often the server has synced its log so far. None if the server does not report that.
    pub async fn syncs(&self) -> Option<u64> {
        let mut connection = Connection::open(self.addresses[0]).await.ok()?;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", self.addresses[0]);
        let status = connection.exchange(request.as_bytes()).await.ok()?;
        if status == 200 { counter(connection.body(), SYNC_COUNTER) } else { None }
    }

    pub fn read_environment(&self, name: u32) -> Vec<u8> {
        written(&self.script.requests.read, name, "")
    }

    /// Builds a request that reads a session of this environment; claims and releases the environment to create the
    /// session.
    pub async fn read_session(&self, client: &mut HttpClient, name: u32) -> Result<Vec<u8>, Fault> {
        match client.claim(name).await? {
            Claim::Granted(_) => client.release().await?,
            Claim::Busy => return Err(Fault::Busy),
        }
        Ok(written(&self.script.requests.read_session, name, &client.session))
    }
}

impl Peer for HttpLock {
    type Client = HttpClient;

    async fn connect(&self, number: u32) -> Result<HttpClient, Fault> {
        Ok(HttpClient {
            connection: Connection::open(self.addresses[number as usize % self.addresses.len()]).await?,
            script: Arc::clone(&self.script),
            request: Vec::with_capacity(512),
            session: String::with_capacity(64),
            name: 0,
            fenced: self.fenced,
        })
    }
}

impl Client for HttpClient {
    async fn claim(&mut self, name: u32) -> Result<Claim, Fault> {
        self.script.claim.template.write(name, "", &mut self.request);
        self.ask_for(name).await
    }

    async fn claim_waiting(&mut self, name: u32) -> Result<Claim, Fault> {
        self.script.claim_waiting.template.write(name, "", &mut self.request);
        self.ask_for(name).await
    }

    async fn release(&mut self) -> Result<(), Fault> {
        self.script.requests.release.write(self.name, &self.session, &mut self.request);
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
        self.session.push_str(grant.session_id);
        self.name = name;
        Ok(Claim::Granted(self.fenced.then_some(grant.fencing_token)))
    }

    /// Ignores the body of the answer.
    pub async fn read(&mut self, request: &[u8]) -> Result<(), Fault> {
        let status = self.connection.exchange(request).await?;
        accept(&self.connection, status, &[200])
    }
}

fn written(template: &Template, name: u32, session: &str) -> Vec<u8> {
    let mut request = Vec::new();
    template.write(name, session, &mut request);
    request
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_found_by_its_whole_name() {
        let metrics = b"# TYPE lockkeeper_log_groups_total counter\nlockkeeper_log_groups_total 42\nother 1\n";
        assert_eq!(counter(metrics, SYNC_COUNTER), Some(42));
        assert_eq!(counter(b"\nlockkeeper_log_groups 42\n", SYNC_COUNTER), None);
    }
}
