//! Owns `neighbour`: one organization claims, deploys, lists and follows its events, alone and beside another one that
//! tries to exhaust every limited resource.

use std::sync::Arc;
use std::time::{Duration, Instant};

use attacks::Attack;
use serde::Deserialize;
use tenant::Tenant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::engine::{Fault, LoadTest, Observation, Operation};
use crate::report::{Goal, quotient};
use crate::settings::{Common, within};
use crate::wire::{Connection, Grant, Requests, Terms};
use crate::workloads::cycles::{Act, sessions};
use crate::workloads::kind::{Kind, one_environment_each};

mod attacks;
mod tenant;

const ALONE: &str = "alone";
const BESIDE: &str = "beside a neighbour";
/// Maximum slowdown compared to running alone.
const AT_MOST: f64 = 3.0;
const MEASURED: [Operation; 4] = [Operation::Claim, Operation::Deploy, Operation::List, Operation::Release];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    environments: u32,
    /// Environments of the neighbour, all included in each of its lists.
    crowd: u32,
    /// The neighbour's connections per kind of attack.
    each: u32,
    /// The kinds of attack; all of them by default.
    #[serde(default = "Attack::all")]
    attacks: Vec<Attack>,
}

impl Kind for Settings {
    const NEEDS_OWN_SERVER: bool = true;

    fn check(&self, common: &Common) -> Result<(), String> {
        within("crowd", self.crowd.into(), 1, 100_000)?;
        within("each", self.each.into(), 1, 200)?;
        one_environment_each(self.environments, common)
    }

    fn connections(&self, common: &Common) -> u32 {
        common.connections + self.each * self.attacks.len() as u32 + 2
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        let tenant = Tenant::move_in(test).await?;
        tenant.prepare(self.crowd).await?;
        // The last environment is for the stream.
        test.environments(1..=self.environments + 1, "{}").await?;
        test.connect(test.common.connections).await?;
        for _ in 0..test.common.rounds {
            let alone = self.round(test, None).await?;
            let beside = self.round(test, Some(&tenant)).await?;
            for (name, alone, beside) in alone.iter().zip(&beside).map(|((name, a), (_, b))| (name, a, b)) {
                let name = format!("{name} p99 beside a neighbour against alone");
                test.ratio(&name, quotient(*beside, *alone));
                test.aim_ratio(&name, Goal::AtMost(AT_MOST));
            }
        }
        Ok(())
    }
}

impl Settings {
    /// Returns the p99 of every operation, in microseconds.
    async fn round(
        &self,
        test: &mut LoadTest,
        tenant: Option<&Arc<Tenant>>,
    ) -> Result<Vec<(&'static str, f64)>, Fault> {
        let phase = if tenant.is_some() { BESIDE } else { ALONE };
        let mut attacking = tenant.map(|tenant| attacks::begin(tenant, &self.attacks, self.each)).transpose()?;
        if let Some(attacking) = &mut attacking {
            attacking.is_under_way().await?;
        }
        let stream = Stream::open(test, self.environments + 1).await?;
        let limit = Duration::from_secs(test.common.seconds);
        let load = sessions(test.common.connections, self.environments, &[Act::Deploy, Act::List]);
        let mut shown = Vec::new();
        let seen = test
            .measure_beside(test.segment(phase), load, async |_| {
                shown = stream.follow(limit).await?;
                Ok(())
            })
            .await?;
        if let Some(attacking) = attacking {
            for (what, count) in attacking.end().await? {
                test.figure(phase, &what, "count", Some(count as f64));
            }
        }
        let p99s = p99s(&seen, &mut shown);
        for (name, p99) in &p99s {
            test.figure(phase, &format!("{name} p99"), "µs", Some(*p99));
        }
        Ok(p99s)
    }
}

fn p99s(seen: &Observation, shown: &mut [Duration]) -> Vec<(&'static str, f64)> {
    let asked = MEASURED.into_iter().filter_map(|operation| Some((operation.name(), seen.quantile(operation, 0.99)?)));
    shown.sort_unstable();
    let last = shown.len().saturating_sub(1);
    let streamed = shown.get(last * 99 / 100).map(|took| ("event on a stream", took.as_secs_f64() * 1e6));
    asked.chain(streamed).collect()
}

const PAUSE: Duration = Duration::from_millis(20);
/// An event that takes longer counts as lost.
const LOST: Duration = Duration::from_secs(10);
/// Bytes of earlier events to keep while waiting for one.
const KEPT_BYTES: usize = 64 * 1024;

/// The event stream of the measured organization: measures the time from sending a claim until the stream shows it.
struct Stream {
    events: TcpStream,
    claiming: Connection,
    requests: Requests,
    environment: u32,
}

impl Stream {
    async fn open(test: &LoadTest, environment: u32) -> Result<Self, Fault> {
        let scope = &test.scope;
        let mut events = TcpStream::connect(test.server.address).await.map_err(lost)?;
        let request = format!(
            "GET /api/v1/organizations/{}/events/stream?type=session.claimed&envName={} HTTP/1.1\r\nHost: {}\r\n\
             Authorization: Bearer {}\r\n\r\n",
            scope.organization,
            scope.environment_name(environment),
            scope.authority,
            scope.token.reveal()
        );
        events.write_all(request.as_bytes()).await.map_err(lost)?;
        let mut received = Vec::new();
        // The stream shows all events after its head.
        tokio::time::timeout(LOST, until_shown(&mut events, b"\r\n\r\n", &mut received))
            .await
            .map_err(|_| Fault::Neighbour("an event stream did not begin".to_owned()))??;
        let claiming = Connection::open(test.server.address).await.map_err(Fault::neighbour)?;
        Ok(Self { events, claiming, requests: Requests::new(scope), environment })
    }

    /// Claims and releases until the time is up; returns the delay of each event.
    async fn follow(mut self, limit: Duration) -> Result<Vec<Duration>, Fault> {
        let (began, mut took) = (Instant::now(), Vec::new());
        let claim = self.requests.claim(Terms::default());
        let (mut request, mut received) = (Vec::new(), Vec::new());
        while began.elapsed() < limit {
            let sent = Instant::now();
            claim.template.write(self.environment, "", &mut request);
            let session = self.ask(&request).await?;
            let session = Grant::parse(&session).map(|grant| grant.session_id.to_owned());
            let session = session.ok_or_else(|| Fault::Neighbour("a claim's answer names no session".to_owned()))?;
            tokio::time::timeout(LOST, until_shown(&mut self.events, session.as_bytes(), &mut received))
                .await
                .map_err(|_| Fault::Neighbour(format!("the stream did not show {session}")))??;
            took.push(sent.elapsed());
            self.requests.release.write(self.environment, &session, &mut request);
            self.ask(&request).await?;
            tokio::time::sleep(PAUSE).await;
        }
        Ok(took)
    }

    async fn ask(&mut self, request: &[u8]) -> Result<Vec<u8>, Fault> {
        match self.claiming.exchange(request).await {
            Ok(200..=299) => Ok(self.claiming.body().to_vec()),
            Ok(status) => Err(Fault::Neighbour(format!("a request beside the stream was answered with {status}"))),
            Err(error) => Err(Fault::Neighbour(error.to_string())),
        }
    }
}

fn lost(error: std::io::Error) -> Fault {
    Fault::Neighbour(format!("an event stream: {error}"))
}

async fn until_shown(events: &mut TcpStream, text: &[u8], received: &mut Vec<u8>) -> Result<(), Fault> {
    while memchr::memmem::find(received, text).is_none() {
        if received.len() > KEPT_BYTES {
            received.drain(..received.len() / 2);
        }
        if events.read_buf(received).await.map_err(lost)? == 0 {
            return Err(Fault::Neighbour("the server ended an event stream".to_owned()));
        }
    }
    received.clear();
    Ok(())
}
