//! Watches the shard of the histories: which node owns it, and when another took over. Polls the shard's record in etcd
//! through a majority, so that a take-over lies between the start of the last read that did not see it and the end of
//! the first that did. Reading the nodes' logs instead would require trust in the server and a second clock.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::linearizability::history::{Interval, Moment};
use crate::sync::locked;
use crate::wire::etcd::{EtcdClient, ShardRecord};

/// The sample organization's shard: the CRC-32C of `acme` modulo the number of shards.
const SHARD: u16 = 2;
/// The poll interval: short enough that hardly any answer falls into the same interval as a take-over.
const EVERY: Duration = Duration::from_millis(25);
/// The time after which the next member is asked.
const PATIENCE: Duration = Duration::from_millis(700);
/// A cluster whose etcd does not answer for this long will not recover.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

pub struct Takeovers {
    seen: Arc<Mutex<EpochLog>>,
    origin: Instant,
    reading: JoinHandle<()>,
}

#[derive(Default)]
struct EpochLog {
    newest: Option<Reading>,
    takeovers: Vec<Interval>,
}

#[derive(Clone)]
struct Reading {
    /// When the read was sent.
    sent: Moment,
    epoch: u64,
    /// The node's name; none if its last owner has left.
    owner: Option<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot read the record of the histories' shard in etcd")]
pub struct Unreadable;

impl Takeovers {
    pub fn watch(members: Vec<SocketAddr>, origin: Instant) -> Self {
        let seen = Arc::<Mutex<EpochLog>>::default();
        let reading = tokio::spawn(read_for_ever(members, origin, seen.clone()));
        Self { seen, origin, reading }
    }

    /// The node that owned the shard when its record was last read.
    pub fn owner(&self) -> Option<String> {
        self.seen().newest.as_ref()?.owner.clone()
    }

    /// All take-overs until now, and perhaps later ones.
    pub async fn until_now(&self) -> Result<Vec<Interval>, Unreadable> {
        let now = moment(self.origin);
        let deadline = Instant::now() + LONGEST_WAIT;
        while Instant::now() < deadline {
            if self.seen().newest.as_ref().is_some_and(|newest| newest.sent >= now) {
                return Ok(self.seen().takeovers.clone());
            }
            tokio::time::sleep(EVERY).await;
        }
        Err(Unreadable)
    }

    fn seen(&self) -> MutexGuard<'_, EpochLog> {
        locked(&self.seen)
    }
}

impl Drop for Takeovers {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

async fn read_for_ever(members: Vec<SocketAddr>, origin: Instant, seen: Arc<Mutex<EpochLog>>) {
    let mut etcd = None;
    for member in members.iter().cycle() {
        loop {
            let sent = moment(origin);
            let record = tokio::time::timeout(PATIENCE, read(&mut etcd, *member)).await;
            let Some(ShardRecord { epoch, owner }) = record.ok().flatten() else { break };
            locked(&seen).note(Reading { sent, epoch, owner }, moment(origin));
            tokio::time::sleep(EVERY).await;
        }
        etcd = None;
        tokio::time::sleep(EVERY).await;
    }
}

/// None if the member does not answer or the record does not exist yet.
async fn read(etcd: &mut Option<EtcdClient>, member: SocketAddr) -> Option<ShardRecord> {
    if etcd.is_none() {
        *etcd = Some(EtcdClient::connect(member).await.ok()?);
    }
    etcd.as_mut()?.shard_records().await.ok()?.remove(&SHARD)
}

impl EpochLog {
    fn note(&mut self, reading: Reading, ended: Moment) {
        if let Some(before) = &self.newest {
            let takeover = Interval { since: before.sent, by: ended };
            self.takeovers.extend((before.epoch..reading.epoch).map(|_| takeover));
        }
        self.newest = Some(reading);
    }
}

fn moment(origin: Instant) -> Moment {
    u64::try_from(origin.elapsed().as_nanos()).unwrap_or(Moment::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(sent: Moment, epoch: u64) -> Reading {
        Reading { sent, epoch, owner: None }
    }

    #[test]
    fn a_take_over_lies_between_two_reads_that_differ() {
        let mut seen = EpochLog::default();
        for (sent, epoch) in [(10, 3), (20, 3), (30, 4), (40, 6)] {
            seen.note(reading(sent, epoch), sent + 5);
        }
        let interval = |since, by| Interval { since, by };
        assert_eq!(seen.takeovers, [interval(20, 35), interval(30, 45), interval(30, 45)]);
    }
}
