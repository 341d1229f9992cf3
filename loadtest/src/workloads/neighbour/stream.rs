//! Owns the event stream of the organization that is measured: how long it takes from sending a claim until the stream
//! shows it.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::engine::{Fault, LoadTest};
use crate::wire::{Connection, Grant, Requests, Terms};

/// From one claim to the next.
const PAUSE: Duration = Duration::from_millis(20);
/// An event that takes longer is lost.
const LOST: Duration = Duration::from_secs(10);
/// Events before the one that is waited for are dropped when there are so many bytes of them.
const KEPT_BYTES: usize = 64 * 1024;

pub struct Stream {
    events: TcpStream,
    claiming: Connection,
    requests: Requests,
    environment: u32,
}

impl Stream {
    pub async fn open(test: &LoadTest, environment: u32) -> Result<Self, Fault> {
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
        // From its head on, the stream shows what happens.
        tokio::time::timeout(LOST, until_shown(&mut events, b"\r\n\r\n", &mut received))
            .await
            .map_err(|_| Fault::Neighbour("an event stream did not begin".to_owned()))??;
        let claiming = Connection::open(test.server.address).await.map_err(Fault::neighbour)?;
        Ok(Self { events, claiming, requests: Requests::new(scope), environment })
    }

    /// Claims and releases until the time is up; says how long each event took.
    pub async fn follow(mut self, limit: Duration) -> Result<Vec<Duration>, Fault> {
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
