//! Reads pieces of logs from the store and the other nodes. After a failure, a source is not asked again for some
//! seconds, so that few readers wait for it.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::bytes::Bytes;

use super::object::ObjectError;
use super::store::LogStore;
use crate::logs::LogFile;
use cluster::peers::{Forward, PeerClient};
use domain::{DeploymentId, Identifier};

/// The largest piece of a part in one request to another node or to the store.
pub const PART_BYTES_MAX: usize = 1024 * 1024;
/// The time limit for a piece from another node.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

pub struct Sources {
    store: Option<LogStore>,
    store_outage: Mutex<Outage>,
    client: PeerClient,
    /// The nodes that failed some seconds ago, by name.
    node_outages: Mutex<HashMap<String, Outage>>,
}

/// The bytes of a piece; `None` if the source does not have the part.
type Piece = Result<Option<Vec<u8>>, ObjectError>;

/// The request for a part of a log on another node, from this byte.
pub fn part_target(organization: &Identifier, deployment: DeploymentId, number: u32, from: u64) -> String {
    format!("/cluster/logs/{organization}/{deployment}/{number}?from={from}")
}

impl Sources {
    pub fn new(store: Option<LogStore>, client: PeerClient) -> Self {
        Self { store, store_outage: Mutex::default(), client, node_outages: Mutex::default() }
    }

    pub fn store(&self) -> Option<&LogStore> {
        self.store.as_ref()
    }

    /// A piece of a part from the store. Logs when the store begins to fail, and when it works again.
    pub async fn ask_store(&self, store: &LogStore, file: &LogFile, from: u64) -> Piece {
        let asking = self.store_outage.lock().asking(Instant::now());
        let piece = match asking {
            Asking::Patiently => store.get(file, from, PART_BYTES_MAX).await,
            Asking::Once => store.get_once(file, from, PART_BYTES_MAX).await,
            Asking::Not => return Err(failed_before()),
        };
        let mut outage = self.store_outage.lock();
        match &piece {
            Ok(_) if outage.worked() => tracing::info!("logs can be read from the store of logs again"),
            Ok(_) => {}
            Err(error) => {
                let now = Instant::now();
                let begins = if error.is_passing { outage.failed(now) } else { outage.refused(now) };
                if begins {
                    let deployment = file.deployment;
                    tracing::warn!(%deployment, %error, "cannot read from the store of logs; it is asked again every few seconds");
                }
            }
        }
        piece
    }

    /// A piece from the node that wrote the part.
    pub async fn ask_node(&self, (node, url): (&str, &str), target: String) -> Piece {
        let asking = self.node_outages.lock().get_mut(node).map(|outage| outage.asking(Instant::now()));
        if asking == Some(Asking::Not) {
            return Err(failed_before());
        }
        let slow = |_| ObjectError::passing("it took too long");
        let asked = tokio::time::timeout(ANSWERED_WITHIN, self.send((node, url), target));
        let piece = asked.await.map_err(slow).flatten();
        let mut outages = self.node_outages.lock();
        match &piece {
            Ok(_) => _ = outages.remove(node),
            Err(_) => {
                let now = Instant::now();
                outages.retain(|_, outage| !outage.is_over(now));
                outages.entry(node.to_owned()).or_default().failed(now);
            }
        }
        piece
    }

    async fn send(&self, (node, url): (&str, &str), target: String) -> Piece {
        let (headers, body, request_id) = (Vec::new(), Bytes::new(), "log-part");
        let forward =
            Forward { method: "GET", target: &target, headers, body, request_id, client: None, encrypted: false };
        let answer = self.client.send((node, url), forward).await;
        let answer = answer.map_err(|error| ObjectError::passing(error.to_string()))?;
        match answer.status {
            200 if answer.length().is_some_and(|length| length <= PART_BYTES_MAX as u64) => {
                Ok(Some(answer.whole().await.map_err(ObjectError::passing)?.to_vec()))
            }
            204 => Ok(None),
            status => Err(ObjectError::passing(format!("it answered {status}"))),
        }
    }
}

fn failed_before() -> ObjectError {
    ObjectError::passing("it failed a moment ago")
}

/// How long a failed source is not asked again.
pub const NOT_ASKED_FOR: Duration = Duration::from_secs(10);
/// The minimum interval between log lines about one source: a single object may be refused repeatedly.
const LOGGED_EVERY: Duration = Duration::from_secs(60);

/// Remembers for some seconds that a source of logs failed: the store, or a node. Pure.
#[derive(Debug, Default)]
struct Outage {
    /// `None` while the source answers.
    ask_again_at: Option<Instant>,
    logged_at: Option<Instant>,
    /// Whether the failure has been logged, but not yet the recovery.
    is_logged: bool,
}

/// How a source may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asking {
    /// With several attempts.
    Patiently,
    /// The source failed some seconds ago: one reader tries once, on behalf of all.
    Once,
    Not,
}

impl Outage {
    pub fn asking(&mut self, now: Instant) -> Asking {
        match self.ask_again_at {
            None => Asking::Patiently,
            Some(at) if at <= now => {
                self.ask_again_at = Some(now + NOT_ASKED_FOR);
                Asking::Once
            }
            Some(_) => Asking::Not,
        }
    }

    /// Records that the source did not answer. Returns whether to log this.
    pub fn failed(&mut self, now: Instant) -> bool {
        self.ask_again_at = Some(now + NOT_ASKED_FOR);
        self.begins(now)
    }

    /// Records a refusal. It costs no time and may concern a single object, so the source is asked again. Returns
    /// whether to log this.
    pub fn refused(&mut self, now: Instant) -> bool {
        self.ask_again_at = None;
        self.begins(now)
    }

    /// Records an answer. Returns whether to log the recovery.
    pub fn worked(&mut self) -> bool {
        self.ask_again_at = None;
        std::mem::take(&mut self.is_logged)
    }

    /// Whether the source may be asked at this time.
    pub fn is_over(&self, now: Instant) -> bool {
        self.ask_again_at.is_none_or(|at| at <= now)
    }

    fn begins(&mut self, now: Instant) -> bool {
        let begins = !self.is_logged && self.logged_at.is_none_or(|logged_at| logged_at + LOGGED_EVERY <= now);
        if begins {
            self.logged_at = Some(now);
            self.is_logged = true;
        }
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_fails_is_asked_again_by_one_reader_after_some_seconds() {
        let (mut outage, began) = (Outage::default(), Instant::now());
        assert_eq!(outage.asking(began), Asking::Patiently);
        outage.failed(began);
        assert_eq!(outage.asking(began), Asking::Not);
        let later = began + NOT_ASKED_FOR;
        assert_eq!(outage.asking(later - Duration::from_millis(1)), Asking::Not);
        assert_eq!([outage.asking(later), outage.asking(later)], [Asking::Once, Asking::Not]);
        outage.failed(later);
        assert_eq!(outage.asking(later + NOT_ASKED_FOR), Asking::Once, "the reader before may have gone");
        outage.worked();
        assert_eq!([outage.asking(later), outage.asking(later)], [Asking::Patiently; 2]);
    }

    #[test]
    fn a_refusal_does_not_keep_others_from_asking() {
        let (mut outage, now) = (Outage::default(), Instant::now());
        outage.failed(now);
        outage.refused(now);
        assert_eq!(outage.asking(now), Asking::Patiently);
    }

    #[test]
    fn the_log_says_once_that_it_begins_and_once_that_it_is_over() {
        let (mut outage, now) = (Outage::default(), Instant::now());
        assert!(!outage.worked());
        assert_eq!([outage.failed(now), outage.failed(now), outage.refused(now)], [true, false, false]);
        assert_eq!([outage.worked(), outage.worked()], [true, false]);
        assert_eq!([outage.refused(now), outage.worked()], [false, false], "not more than once a minute");
        let later = now + LOGGED_EVERY;
        assert_eq!([outage.refused(later), outage.failed(later), outage.worked()], [true, false, true]);
    }
}
