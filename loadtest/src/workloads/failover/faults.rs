//! The faults: the name and the requirements of each, the allowed time until the next grant, and its actions on the
//! cluster until the cluster is whole again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::engine::Fault;
use crate::history::Moment;
use crate::server::{Cluster, member_name, name_of};
use crate::wire::etcd::{EtcdClient, EtcdError, ShardRecord};
use crate::workloads::failover::fault_run::FaultRun;

/// Debian's location; below it is a directory named after the architecture.
const LIBRARIES: &str = "/usr/lib";
const FAKETIME: &str = "faketime/libfaketimeMT.so.1";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClusterFault {
    KillOwner,
    PauseOwner,
    KillLeader,
    PauseLeader,
    /// Kills the owner and etcd's leader.
    KillBoth,
    PauseBoth,
    CutOwnerFromEtcd,
    CutOwnerFromNodes,
    /// Nothing that the owner sends arrives, at etcd or at other nodes; it still receives.
    OwnerCannotSend,
    /// Nothing arrives at the owner: its transactions take effect, but their answers are lost.
    OwnerCannotReceive,
    TwoMembersDead,
    /// etcd accepts no more writes until space is freed.
    EtcdFull,
    /// One node's clock is an hour ahead, another's an hour behind; then owners are killed.
    ClocksOff,
    /// etcd is compacted continuously, even while a shard is loaded.
    Compaction,
    /// Each node is stopped with SIGTERM and restarted.
    RollingRestart,
}

impl ClusterFault {
    pub fn name(self) -> &'static str {
        match self {
            Self::KillOwner => "owner killed",
            Self::PauseOwner => "owner paused",
            Self::KillLeader => "etcd's leader killed",
            Self::PauseLeader => "etcd's leader paused",
            Self::KillBoth => "both killed",
            Self::PauseBoth => "both paused",
            Self::CutOwnerFromEtcd => "owner cut from etcd",
            Self::CutOwnerFromNodes => "owner cut from nodes",
            Self::OwnerCannotSend => "owner cannot send",
            Self::OwnerCannotReceive => "owner cannot receive",
            Self::TwoMembersDead => "two members dead",
            Self::EtcdFull => "etcd full",
            Self::ClocksOff => "clocks off by an hour",
            Self::Compaction => "compaction",
            Self::RollingRestart => "rolling restart",
        }
    }

    pub fn members_needed(self) -> u32 {
        if self.hits_leader() || self == Self::TwoMembersDead { 3 } else { 1 }
    }

    fn hits_leader(self) -> bool {
        matches!(self, Self::KillLeader | Self::PauseLeader | Self::KillBoth | Self::PauseBoth)
    }

    /// The goal for the time from the last grant before the fault to the next, in the affected shards.
    pub fn granted_within_seconds(self) -> Option<f64> {
        let is_killed = matches!(self, Self::KillOwner | Self::KillLeader);
        if is_killed { Some(10.0) } else { (self == Self::RollingRestart).then_some(2.0) }
    }

    /// Whether the fault affects only the shards of one owner.
    fn hits_owner(self) -> bool {
        matches!(self, Self::KillOwner | Self::PauseOwner | Self::KillBoth | Self::PauseBoth) || self.cuts()
    }

    fn cuts(self) -> bool {
        matches!(
            self,
            Self::CutOwnerFromEtcd | Self::CutOwnerFromNodes | Self::OwnerCannotSend | Self::OwnerCannotReceive
        )
    }

    /// Whether steps run during the fault; they must not overlap with those of the next owner. A stopping node waits
    /// for its steps, so faults that measure a stop run none.
    pub fn has_steps(self) -> bool {
        self.hits_owner() && self != Self::CutOwnerFromNodes
    }

    /// Why the fault is not possible on this machine.
    pub fn missing(self) -> Option<&'static str> {
        (self == Self::ClocksOff && faketime().is_none()).then_some("libfaketime is not installed")
    }
}

/// The library that changes a program's clock.
pub fn faketime() -> Option<PathBuf> {
    let entries = std::fs::read_dir(LIBRARIES).ok()?;
    entries.filter_map(Result::ok).map(|entry| entry.path().join(FAKETIME)).find(|path| path.exists())
}

const LOOK_AGAIN: Duration = Duration::from_millis(50);
const ETCD_ANSWERS_WITHIN: Duration = Duration::from_secs(30);
/// A member may be paused: after this time the next one is asked.
const MEMBER_ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// Space left for the cluster before etcd is filled.
const ROOM_BYTES: i64 = 24 * 1024 * 1024;
const JUNK: &[u8] = b"junk/";
const JUNK_BYTES: usize = 1024 * 1024;
/// Twice as much as fits.
const MAX_JUNK: u32 = 64;
const COMPACTED_EVERY: Duration = Duration::from_millis(100);

pub struct Lengths {
    pub paused: Duration,
    pub away: Duration,
    pub recovered_within: Duration,
}

pub struct Impact {
    pub began: Moment,
    pub shards: Vec<u16>,
    /// Number of changes of a shard's owner.
    pub takeovers: u64,
}

/// Injects a fault. Returns when every shard has an owner again.
pub async fn inject(
    fault: ClusterFault,
    cluster: &mut Cluster,
    field: &FaultRun,
    lengths: &Lengths,
) -> Result<Impact, Fault> {
    let before = owners(cluster).await?;
    let (victim, owned) = busiest(cluster, &before)?;
    let began = field.now();
    let shards = if fault.hits_owner() { owned } else { before.keys().copied().collect() };
    let node: Vec<_> = fault.hits_owner().then_some(victim).into_iter().collect();
    let leader = if fault.hits_leader() { vec![cluster.members.leader().await?] } else { Vec::new() };
    match fault {
        ClusterFault::KillOwner | ClusterFault::KillLeader | ClusterFault::KillBoth => {
            kill(cluster, &node, &leader, lengths).await?;
        }
        ClusterFault::PauseOwner | ClusterFault::PauseLeader | ClusterFault::PauseBoth => {
            node.iter().try_for_each(|node| cluster.node(*node).pause())?;
            leader.iter().try_for_each(|member| cluster.members.member(*member).pause())?;
            tokio::time::sleep(lengths.paused).await;
            leader.iter().try_for_each(|member| cluster.members.member(*member).resume())?;
            node.iter().try_for_each(|node| cluster.node(*node).resume())?;
        }
        ClusterFault::CutOwnerFromEtcd
        | ClusterFault::CutOwnerFromNodes
        | ClusterFault::OwnerCannotSend
        | ClusterFault::OwnerCannotReceive => {
            cut(cluster, victim, fault);
            tokio::time::sleep(lengths.away).await;
            cluster.network.heal();
        }
        ClusterFault::TwoMembersDead => kill(cluster, &[], &[0, 1], lengths).await?,
        ClusterFault::EtcdFull => fill(cluster, lengths).await?,
        ClusterFault::ClocksOff => clocks_off(cluster, lengths).await?,
        ClusterFault::Compaction => compact(cluster, victim, lengths).await?,
        ClusterFault::RollingRestart => restart_all(cluster, lengths, |_| Vec::new()).await?,
    }
    cluster.until_ready(lengths.recovered_within).await?;
    let after = owners(cluster).await?;
    let taken = |(shard, now): (&u16, &ShardRecord)| Some(now.epoch.saturating_sub(before.get(shard)?.epoch));
    Ok(Impact { began, shards, takeovers: after.iter().filter_map(taken).sum() })
}

/// The shards' owners according to etcd; waits while etcd has no leader.
async fn owners(cluster: &Cluster) -> Result<BTreeMap<u16, ShardRecord>, Fault> {
    let deadline = Instant::now() + ETCD_ANSWERS_WITHIN;
    loop {
        let mut failed = None;
        for address in cluster.members.addresses() {
            let read = async { EtcdClient::connect(address).await?.shard_records().await };
            match tokio::time::timeout(MEMBER_ANSWERS_WITHIN, read).await {
                Ok(Ok(records)) => return Ok(records),
                Ok(Err(error)) => failed = Some(error),
                Err(_) => failed = Some(EtcdError::Silent(address)),
            }
        }
        if let Some(error) = failed.filter(|_| Instant::now() >= deadline) {
            return Err(error.into());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The node that owns the most shards, and those shards.
fn busiest(cluster: &Cluster, owners: &BTreeMap<u16, ShardRecord>) -> Result<(usize, Vec<u16>), Fault> {
    let mut by_node: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
    for (shard, record) in owners {
        by_node.entry(record.owner.as_deref().unwrap_or_default()).or_default().push(*shard);
    }
    let most = by_node.into_iter().max_by_key(|(_, shards)| shards.len());
    let found = most.and_then(|(name, shards)| Some((cluster.named(name)?, shards)));
    found.ok_or_else(|| Fault::Cluster("no node owns a shard".to_owned()))
}

/// Kills nodes and members. They stay down for a while, then are restarted, members first.
async fn kill(cluster: &mut Cluster, nodes: &[usize], members: &[usize], lengths: &Lengths) -> Result<(), Fault> {
    nodes.iter().try_for_each(|node| cluster.node(*node).kill())?;
    members.iter().try_for_each(|member| cluster.members.member(*member).kill())?;
    tokio::time::sleep(lengths.away).await;
    members.iter().try_for_each(|member| cluster.members.start_again(*member))?;
    for member in members {
        cluster.members.until_ready(*member).await?;
    }
    for node in nodes {
        cluster.serve_again(*node).await?;
    }
    Ok(())
}

fn cut(cluster: &Cluster, victim: usize, fault: ClusterFault) {
    let name = |node: usize| name_of(node as u32 + 1);
    let nodes = (0..cluster.count()).filter(|node| *node != victim).map(name);
    let members = (0..cluster.members.count()).map(member_name);
    let (owner, network) = (name(victim), &cluster.network);
    let others: Vec<_> = match fault {
        ClusterFault::CutOwnerFromEtcd => members.collect(),
        ClusterFault::CutOwnerFromNodes => nodes.collect(),
        _ => nodes.chain(members).collect(),
    };
    for other in &others {
        if fault != ClusterFault::OwnerCannotReceive {
            network.cut(&owner, other);
        }
        if fault != ClusterFault::OwnerCannotSend {
            network.cut(other, &owner);
        }
    }
}

/// Sets a quota a little above the current size, and fills etcd with junk until it accepts no more writes. Then
/// recovers as an operator would: delete, compact, defragment, disarm the alarm.
async fn fill(cluster: &mut Cluster, lengths: &Lengths) -> Result<(), Fault> {
    let addresses = cluster.members.addresses();
    let mut used = 0;
    for address in &addresses {
        used = EtcdClient::connect(*address).await?.status().await?.db_size.max(used);
    }
    cluster.members.flags = vec![format!("--quota-backend-bytes={}", used + ROOM_BYTES)];
    restart_members(cluster).await?;
    let mut etcd = EtcdClient::connect(addresses[0]).await?;
    for number in 0..MAX_JUNK {
        let key = [JUNK, number.to_string().as_bytes()].concat();
        match etcd.put(&key, vec![1; JUNK_BYTES]).await {
            Err(error) if error.is_out_of_room() => break,
            // An election may be in progress.
            Err(error) if !error.is_refusal() => return Err(error.into()),
            Err(_) | Ok(()) => {}
        }
    }
    tokio::time::sleep(lengths.away).await;
    etcd.delete(JUNK).await?;
    let newest = etcd.newest_revision().await?;
    etcd.compact(newest).await?;
    for address in &addresses {
        EtcdClient::connect(*address).await?.defragment().await?;
    }
    etcd.disarm().await?;
    cluster.members.flags.clear();
    restart_members(cluster).await
}

async fn restart_members(cluster: &mut Cluster) -> Result<(), Fault> {
    for member in 0..cluster.members.count() {
        cluster.members.member(member).kill()?;
        cluster.members.start_again(member)?;
        cluster.members.until_ready(member).await?;
    }
    Ok(())
}

/// One node is an hour ahead and one an hour behind; the shards move from one to the other.
async fn clocks_off(cluster: &mut Cluster, lengths: &Lengths) -> Result<(), Fault> {
    let library = faketime().map(|path| path.display().to_string()).unwrap_or_default();
    let shifted = |node: usize| {
        let offset = ["+3600", "-3600"].get(node).copied().unwrap_or("+0");
        // Only the time of day: monotonic clocks cannot be set.
        let variables = [
            ("LD_PRELOAD", library.as_str()),
            ("FAKETIME", offset),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("DONT_FAKE_MONOTONIC", "1"),
        ];
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    };
    restart_all(cluster, lengths, shifted).await?;
    for _ in 0..2 {
        let (owner, _) = busiest(cluster, &owners(cluster).await?)?;
        kill(cluster, &[owner], &[], lengths).await?;
        cluster.until_ready(lengths.recovered_within).await?;
    }
    restart_all(cluster, lengths, |_| Vec::new()).await
}

async fn compact(cluster: &mut Cluster, victim: usize, lengths: &Lengths) -> Result<(), Fault> {
    let address = cluster.members.addresses()[0];
    let forgetting = tokio::spawn(async move {
        let mut etcd = EtcdClient::connect(address).await?;
        loop {
            let forgotten = match etcd.newest_revision().await {
                Ok(newest) => etcd.compact(newest).await,
                Err(error) => Err(error),
            };
            match forgotten {
                // Nothing was written since, or an election is in progress.
                Err(error) if !error.is_refusal() => return Err::<(), _>(error),
                Err(_) | Ok(()) => tokio::time::sleep(COMPACTED_EVERY).await,
            }
        }
    });
    tokio::time::sleep(lengths.away).await;
    kill(cluster, &[victim], &[], lengths).await?;
    cluster.until_ready(lengths.recovered_within).await?;
    if forgetting.is_finished() {
        return Err(Fault::Cluster("etcd could not be compacted all the time".to_owned()));
    }
    forgetting.abort();
    Ok(())
}

/// Restarts one node at a time, each with these additional settings.
async fn restart_all(
    cluster: &mut Cluster,
    lengths: &Lengths,
    more: impl Fn(usize) -> Vec<(String, String)>,
) -> Result<(), Fault> {
    for node in 0..cluster.count() {
        cluster.set_variables(node, more(node));
        cluster.stop(node).await?;
        cluster.serve_again(node).await?;
        cluster.until_ready(lengths.recovered_within).await?;
    }
    Ok(())
}
