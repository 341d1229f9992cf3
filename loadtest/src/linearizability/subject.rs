//! Owns the system under test and its disturbances: a single server, which is killed and restarted on the same data, or
//! paused; or a cluster, whose nodes and etcd members are killed, stopped and restarted, or paused, both for short
//! times and for long enough that others take over.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, value_parser};

use crate::linearizability::clients::{Losses, Shared};
use crate::linearizability::history::{Interval, Moment};
use crate::linearizability::takeovers::{Takeovers, Unreadable};
use crate::random::Random;
use crate::server::{Cluster, ClusterShape, LONGEST_TAKEOVER, Launch, Process, ProcessError, READY_POLL, name_of};
use crate::wire::Token;

/// The time between two disturbances of a single server, in milliseconds.
const QUIET: Range<u64> = 150..1_200;
/// The time between two disturbances of a cluster, in milliseconds.
const QUIET_OF_CLUSTER: Range<u64> = 200..1_500;
/// How often a disturbance of a single server is a kill instead of a pause, in percent.
const KILLS: u64 = 45;
/// The length of a pause, in milliseconds.
const PAUSE: Range<u64> = 20..400;
/// The length of a long pause, in milliseconds: a node loses its shards.
const LONG_PAUSE: Range<u64> = 6_000..12_000;
/// The length of a long pause of an etcd member, in milliseconds: the others elect another leader, or etcd is
/// unavailable.
const LONG_MEMBER_PAUSE: Range<u64> = 2_000..6_000;
/// How long a killed node or member may stay down, in milliseconds.
const AWAY: Range<u64> = 0..3_000;
/// A node that hands a shard over begins to dismiss its waiters at most this long before.
const LEAVING: Moment = 10_000_000_000;

#[derive(Args)]
pub struct Plan {
    /// A lockkeeper program to start
    #[arg(long, value_name = "PATH", required_unless_present = "check", conflicts_with = "check")]
    pub server: Option<PathBuf>,
    /// Check a history from a file instead of running servers
    #[arg(long, value_name = "FILE")]
    pub check: Option<PathBuf>,
    /// Number of histories
    #[arg(long, default_value_t = 1_000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub histories: u32,
    /// Requests in each history
    #[arg(long, default_value_t = 200, value_parser = value_parser!(u32).range(1..=2_000))]
    pub operations: u32,
    /// Clients in each history
    #[arg(long, default_value_t = 6, value_parser = value_parser!(u32).range(1..=16))]
    pub clients: u32,
    /// Histories running at the same time on each server
    #[arg(long, default_value_t = 40, value_parser = value_parser!(u32).range(1..=1_000))]
    pub together: u32,
    /// Servers running at the same time
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u32).range(1..=16))]
    pub servers: u32,
    /// Make each server a cluster of this many nodes
    #[arg(long, value_parser = value_parser!(u32).range(1..=9), conflicts_with = "check")]
    pub nodes: Option<u32>,
    /// Members of each cluster's etcd
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=5), requires = "nodes")]
    pub members: u32,
    /// The seed of the clients' choices; a new one if left out
    #[arg(long, default_value_t = new_seed(), hide_default_value = true)]
    pub seed: u64,
    /// Begin no more histories after this time
    #[arg(long, default_value_t = 900, value_parser = value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Directory for histories that are refused
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub directory: PathBuf,
}

fn new_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("a member of etcd ended with {0}")]
    EtcdEnded(ExitStatus),
    #[error("cannot make an environment for a history")]
    NotPrepared,
    #[error("not all shards of the cluster had an owner {0} s after a disturbance")]
    NotReady(u64),
    #[error("cannot write {0}: {1}")]
    Unwritable(PathBuf, std::io::Error),
}

/// Events of servers and clusters that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disturbance {
    Kill,
    Pause,
    Stop,
    /// A node ended on its own, because others had taken over.
    Deposed,
    MemberKill,
    MemberPause,
    Takeover,
}

/// The number of occurrences.
pub type Disturbances = BTreeMap<Disturbance, u64>;

pub enum Subject {
    Single(Process),
    Cluster(WatchedCluster),
}

pub struct WatchedCluster {
    cluster: Cluster,
    takeovers: Takeovers,
    /// Whether the next disturbance comes before this one has ended.
    hurries: bool,
    /// One line per disturbance, with its time.
    journal: Vec<String>,
}

impl Subject {
    pub async fn start(plan: &Plan, origin: Instant) -> Result<(Self, Shared), RunError> {
        let token = Token::random();
        let launch = Launch::new(plan.server.clone().unwrap_or_default(), Vec::new(), token.clone());
        let Some(nodes) = plan.nodes else {
            let process = Process::start(launch).await?;
            let shared = Shared::new(vec![process.running.address()], &token, origin);
            return Ok((Self::Single(process), shared));
        };
        let cluster = Cluster::start(&launch, ClusterShape::new(nodes, plan.members)).await?;
        let takeovers = Takeovers::watch(cluster.members.addresses(), origin);
        // From now on no take-over is missed.
        takeovers.until_now().await?;
        let shared = Shared::new(cluster.addresses(), &token, origin);
        Ok((Self::Cluster(WatchedCluster { cluster, takeovers, hurries: false, journal: Vec::new() }), shared))
    }

    /// Time between two disturbances, in milliseconds.
    pub fn quiet(&self) -> Range<u64> {
        match self {
            Self::Single(_) => QUIET,
            Self::Cluster(_) => QUIET_OF_CLUSTER,
        }
    }

    pub async fn disturb(
        &mut self,
        shared: &Shared,
        random: &mut Random,
        losses: &mut Losses,
        done: &mut Disturbances,
    ) -> Result<(), RunError> {
        let process = match self {
            Self::Cluster(cluster) => return cluster.disturb(shared, random, losses, done).await,
            Self::Single(process) => process,
        };
        if random.percent(KILLS) {
            process.running.kill()?;
            let killed = shared.now();
            losses.kills.push(killed);
            shared.nodes[0].end(killed);
            process.start_again().await?;
            count(done, Disturbance::Kill);
        } else {
            process.running.pause()?;
            sleep(random, PAUSE).await;
            process.running.resume()?;
            count(done, Disturbance::Pause);
        }
        Ok(())
    }

    /// Waits until the subject answers again.
    pub async fn settle(&mut self, shared: &Shared, done: &mut Disturbances) -> Result<(), RunError> {
        match self {
            Self::Single(_) => Ok(()),
            Self::Cluster(cluster) => cluster.until_ready(shared, done).await,
        }
    }

    /// Called when the clients are done; adds the losses that only an outside observer sees.
    pub async fn complete(&self, losses: &mut Losses) -> Result<(), RunError> {
        let Self::Cluster(cluster) = self else { return Ok(()) };
        losses.takeovers = cluster.takeovers.until_now().await?;
        // Each take-over may have been planned.
        let before = |takeover: &Interval| Interval { since: takeover.since.saturating_sub(LEAVING), ..*takeover };
        losses.stops.extend(losses.takeovers.iter().map(before));
        Ok(())
    }

    /// Keeps the logs of all nodes and members of a cluster, and the journal of disturbances, as evidence.
    pub fn keep_logs(&self, directory: &Path, prefix: &str) -> Result<(), RunError> {
        let Self::Cluster(WatchedCluster { cluster, journal, .. }) = self else { return Ok(()) };
        let kept = cluster.keep_logs(directory, &format!("{prefix}-"));
        kept.map_err(|error| RunError::Unwritable(directory.to_owned(), error))?;
        let path = directory.join(format!("{prefix}-disturbances.txt"));
        std::fs::write(&path, journal.concat()).map_err(|error| RunError::Unwritable(path, error))
    }

    /// The nodes of a cluster are not stopped gracefully: the last ones would have nobody to hand over to, and stops
    /// are already part of the disturbances.
    pub async fn stop(self) -> Result<(), RunError> {
        if let Self::Single(mut process) = self {
            process.running.stop().await?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    KillNode,
    PauseNode,
    PauseNodeLong,
    StopNode,
    KillMember,
    PauseMember,
    PauseMemberLong,
}

impl Step {
    fn choose(random: &mut Random) -> Self {
        match random.below(100) {
            0..=24 => Self::KillNode,
            25..=44 => Self::PauseNode,
            45..=59 => Self::PauseNodeLong,
            60..=74 => Self::StopNode,
            75..=84 => Self::KillMember,
            85..=92 => Self::PauseMember,
            _ => Self::PauseMemberLong,
        }
    }
}

impl WatchedCluster {
    async fn disturb(
        &mut self,
        shared: &Shared,
        random: &mut Random,
        losses: &mut Losses,
        done: &mut Disturbances,
    ) -> Result<(), RunError> {
        self.replace_deposed(shared, done).await?;
        // Prefer the owner of the histories' shard.
        let owner = self.takeovers.owner().and_then(|name| self.cluster.named(&name));
        let any = random.below(self.cluster.count() as u64) as usize;
        let node = owner.filter(|_| random.percent(60)).unwrap_or(any);
        let member = random.below(self.cluster.members.count() as u64) as usize;
        let step = Step::choose(random);
        let is_owner = if owner == Some(node) { ", the owner," } else { "" };
        self.note(shared, &format!("{step:?}: {}{is_owner} or m{member}", name_of(node as u32 + 1)));
        let cluster = &mut self.cluster;
        match step {
            Step::KillNode => {
                cluster.node(node).kill()?;
                shared.nodes[node].end(shared.now());
                if random.percent(50) {
                    sleep(random, AWAY).await;
                }
                cluster.serve_again(node).await?;
                count(done, Disturbance::Kill);
            }
            Step::PauseNode | Step::PauseNodeLong => {
                cluster.node(node).pause()?;
                sleep(random, if matches!(step, Step::PauseNode) { PAUSE } else { LONG_PAUSE }).await;
                cluster.node(node).resume()?;
                count(done, Disturbance::Pause);
            }
            Step::StopNode => {
                let since = shared.now();
                let stopped = cluster.stop(node).await;
                let by = shared.now();
                losses.stops.push(Interval { since, by });
                shared.nodes[node].end(by);
                count(done, Disturbance::Stop);
                if stopped? {
                    count(done, Disturbance::Deposed);
                }
                cluster.serve_again(node).await?;
            }
            Step::KillMember => {
                cluster.members.member(member).kill()?;
                sleep(random, AWAY).await;
                cluster.members.start_again(member)?;
                count(done, Disturbance::MemberKill);
            }
            Step::PauseMember | Step::PauseMemberLong => {
                cluster.members.member(member).pause()?;
                sleep(random, if matches!(step, Step::PauseMember) { PAUSE } else { LONG_MEMBER_PAUSE }).await;
                cluster.members.member(member).resume()?;
                count(done, Disturbance::MemberPause);
            }
        }
        self.note(shared, "done");
        // Skipping the wait lets the next disturbance hit a take-over; done only sometimes, or no request would ever be
        // answered.
        self.hurries = !self.hurries && random.percent(40);
        if self.hurries { Ok(()) } else { self.until_ready(shared, done).await }
    }

    /// Waits until every shard has an owner.
    async fn until_ready(&mut self, shared: &Shared, done: &mut Disturbances) -> Result<(), RunError> {
        let deadline = Instant::now() + LONGEST_TAKEOVER;
        while Instant::now() < deadline {
            self.replace_deposed(shared, done).await?;
            if self.cluster.is_ready().await {
                self.note(shared, "ready");
                return Ok(());
            }
            tokio::time::sleep(READY_POLL).await;
        }
        Err(RunError::NotReady(LONGEST_TAKEOVER.as_secs()))
    }

    /// Restarts nodes that ended because others had taken their shards. Any other end is a fault.
    async fn replace_deposed(&mut self, shared: &Shared, done: &mut Disturbances) -> Result<(), RunError> {
        for member in 0..self.cluster.members.count() {
            if let Some(status) = self.cluster.members.member(member).ended()? {
                return Err(RunError::EtcdEnded(status));
            }
        }
        for node in self.cluster.deposed()? {
            shared.nodes[node].end(shared.now());
            self.cluster.serve_again(node).await?;
            count(done, Disturbance::Deposed);
        }
        Ok(())
    }

    fn note(&mut self, shared: &Shared, what: &str) {
        self.journal.push(format!("{:.3} s  {what}\n", shared.now() as f64 / 1e9));
    }
}

fn count(done: &mut Disturbances, what: Disturbance) {
    *done.entry(what).or_default() += 1;
}

async fn sleep(random: &mut Random, milliseconds: Range<u64>) {
    tokio::time::sleep(Duration::from_millis(random.within(milliseconds))).await;
}
