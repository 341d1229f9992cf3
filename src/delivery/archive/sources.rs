//! The store and the other nodes, as readers ask them for pieces of logs. One that does not answer is not asked again for some
//! seconds.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::bytes::Bytes;

use super::error::StoreFailure;
use super::outage::{Asking, Outage};
use super::store::LogStore;
use crate::logs::LogFile;
use cluster::peers::{Forward, PeerClient};
use domain::{DeploymentId, Identifier};

/// The largest piece of a part that one node asks another for, or the store.
pub const PART_BYTES_MAX: usize = 1024 * 1024;
/// For a piece from another node.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

pub struct Sources {
    store: Option<LogStore>,
    store_outage: Mutex<Outage>,
    client: PeerClient,
    /// Of the nodes that failed some seconds ago, by name.
    node_outages: Mutex<HashMap<String, Outage>>,
}

/// The bytes of a piece; `None` if the source does not have the part.
type Piece = Result<Option<Vec<u8>>, StoreFailure>;

/// The request for a part of a log that another node has, from this byte on.
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

    /// A piece of a part from the store. Logs when that begins to fail, and when it works again.
    pub async fn ask_store(&self, store: &LogStore, file: &LogFile, from: u64) -> Piece {
        let asking = self.store_outage.lock().asking(Instant::now());
        let piece = match asking {
            Asking::Patiently => store.get(file, from, PART_BYTES_MAX).await,
            Asking::Once => store.get_once(file, from, PART_BYTES_MAX).await,
            Asking::Not => return Err(failed_before()),
        };
        let mut outage = self.store_outage.lock();
        match &piece {
            Ok(_) => {
                if outage.worked() {
                    tracing::info!("logs can be read from the store of logs again");
                }
            }
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
        let slow = |_| StoreFailure::passing("it took too long");
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
        let answer = answer.map_err(|error| StoreFailure::passing(error.to_string()))?;
        match answer.status {
            200 if answer.length().is_some_and(|length| length <= PART_BYTES_MAX as u64) => {
                Ok(Some(answer.whole().await.map_err(StoreFailure::passing)?.to_vec()))
            }
            204 => Ok(None),
            status => Err(StoreFailure::passing(format!("it answered {status}"))),
        }
    }
}

fn failed_before() -> StoreFailure {
    StoreFailure::passing("it failed a moment ago")
}
