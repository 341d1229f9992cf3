//! Owns a cluster under histories: nodes and members of etcd that are killed, stopped and started again, or stand still, for
//! so long that others take over or not.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::linearizability::clients::{Losses, Shared};
use crate::linearizability::disturbances::Disturbances;
use crate::linearizability::history::{Interval, Moment};
use crate::linearizability::plan::{Plan, RunError};
use crate::linearizability::random::Random;
use crate::linearizability::single::PAUSE;
use crate::linearizability::takeovers::Takeovers;
use crate::server::cluster::{LONGEST_TAKEOVER, is_deposed, member_name, name_of, node_variables};
use crate::server::etcd::Members;
use crate::server::process::{Launch, Process, ProcessError, free_address};
use crate::wire::token::Token;

/// Between two disturbances, in milliseconds.
pub const QUIET: Range<u64> = 200..1_500;
/// In milliseconds. A node that is paused for this long loses its shards.
const LONG_PAUSE: Range<u64> = 6_000..12_000;
/// Of a member: the others elect another leader, or there is no etcd for so long.
const LONG_MEMBER_PAUSE: Range<u64> = 2_000..6_000;
/// How long a node or member that was killed may be away, in milliseconds.
const AWAY: Range<u64> = 0..3_000;
/// An owner that hands a shard over by itself begins at most so long before with sending those away who wait.
const LEAVING: Moment = 10_000_000_000;
const READY_POLL: Duration = Duration::from_millis(50);
/// For the answer of one node, which may stand still.
const READY_PATIENCE: Duration = Duration::from_secs(2);

pub struct Cluster {
    /// Before etcd, without which they would complain: fields are dropped in this order.
    nodes: Vec<Process>,
    takeovers: Takeovers,
    members: Members,
    /// The next disturbance does not wait until this one is over.
    hurries: bool,
    /// A line for each disturbance, with its time.
    journal: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
enum Disturbance {
    KillNode,
    PauseNode,
    PauseNodeLong,
    StopNode,
    KillMember,
    PauseMember,
    PauseMemberLong,
}

impl Disturbance {
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

impl Cluster {
    pub async fn start(plan: &Plan, nodes: u32, origin: Instant) -> Result<(Self, Shared), RunError> {
        let members = Members::start(plan.members as usize).await?;
        let token = Token::random();
        let mut started = Vec::new();
        for number in 1..=nodes {
            let launch = Launch {
                program: plan.program.clone(),
                arguments: Vec::new(),
                variables: node_variables(&members.urls(), number),
                data_dir: None,
                token: token.clone(),
            };
            started.push(Process::start_on(free_address().map_err(ProcessError::Home)?, launch).await?);
        }
        let takeovers = Takeovers::watch(members.addresses(), origin);
        // From now on none is missed.
        takeovers.until_now().await?;
        let shared = Shared::new(started.iter().map(Process::address), &token, origin);
        Ok((Self { nodes: started, takeovers, members, hurries: false, journal: Vec::new() }, shared))
    }

    pub async fn disturb(
        &mut self,
        shared: &Shared,
        random: &mut Random,
        losses: &mut Losses,
    ) -> Result<Disturbances, RunError> {
        let mut done = Disturbances { deposed: self.replace_deposed(shared).await?, ..Disturbances::default() };
        // More often than the others, the owner of the histories' shard.
        let owner = self.takeovers.owner().and_then(|name| self.numbered(&name));
        let any = random.below(self.nodes.len() as u64) as usize;
        let node = owner.filter(|_| random.percent(60)).unwrap_or(any);
        let member = random.below(self.members.count() as u64) as usize;
        let disturbance = Disturbance::choose(random);
        let is_owner = if owner == Some(node) { ", the owner," } else { "" };
        self.note(shared, &format!("{disturbance:?}: {}{is_owner} or m{member}", name_of(node as u32 + 1)));
        match disturbance {
            Disturbance::KillNode => {
                self.nodes[node].kill()?;
                shared.nodes[node].end(shared.now());
                if random.percent(50) {
                    sleep(random, AWAY).await;
                }
                self.nodes[node].serve_again().await?;
                done.kills += 1;
            }
            Disturbance::PauseNode => {
                self.pause(node, random, PAUSE).await?;
                done.pauses += 1;
            }
            Disturbance::PauseNodeLong => {
                self.pause(node, random, LONG_PAUSE).await?;
                done.pauses += 1;
            }
            Disturbance::StopNode => {
                let since = shared.now();
                let stopped = self.nodes[node].stop().await;
                let by = shared.now();
                losses.stops.push(Interval { since, by });
                shared.nodes[node].end(by);
                done.stops += 1;
                match stopped {
                    Err(ProcessError::EndedBadly(status)) if is_deposed(status) => done.deposed += 1,
                    stopped => stopped?,
                }
                self.nodes[node].serve_again().await?;
            }
            Disturbance::KillMember => {
                self.members.kill(member)?;
                sleep(random, AWAY).await;
                self.members.start_again(member)?;
                done.member_kills += 1;
            }
            Disturbance::PauseMember => {
                self.pause_member(member, random, PAUSE).await?;
                done.member_pauses += 1;
            }
            Disturbance::PauseMemberLong => {
                self.pause_member(member, random, LONG_MEMBER_PAUSE).await?;
                done.member_pauses += 1;
            }
        }
        self.note(shared, "done");
        // Otherwise the next one may come in the middle of a take-over; not always, or nothing would ever be answered.
        self.hurries = !self.hurries && random.percent(40);
        if !self.hurries {
            done.deposed += self.until_ready(shared).await?;
        }
        Ok(done)
    }

    /// Until every shard has an owner; says how many nodes were deposed meanwhile.
    pub async fn until_ready(&mut self, shared: &Shared) -> Result<u64, RunError> {
        let (deadline, mut deposed) = (Instant::now() + LONGEST_TAKEOVER, 0);
        while Instant::now() < deadline {
            deposed += self.replace_deposed(shared).await?;
            let mut ready = 0;
            for node in &self.nodes {
                ready += usize::from(matches!(tokio::time::timeout(READY_PATIENCE, node.is_ready()).await, Ok(true)));
            }
            if ready == self.nodes.len() {
                self.note(shared, "ready");
                return Ok(deposed);
            }
            tokio::time::sleep(READY_POLL).await;
        }
        Err(RunError::NotReady(LONGEST_TAKEOVER.as_secs()))
    }

    /// Adds all take-overs until now. Each may have been a planned one.
    pub async fn complete(&self, losses: &mut Losses) -> Result<(), RunError> {
        losses.takeovers = self.takeovers.until_now().await?;
        let before = |takeover: &Interval| Interval { since: takeover.since.saturating_sub(LEAVING), ..*takeover };
        losses.stops.extend(losses.takeovers.iter().map(before));
        Ok(())
    }

    /// The logs of all nodes and members, and what was done to them, as evidence.
    pub fn keep_logs(&self, directory: &Path, prefix: &str) -> Result<(), RunError> {
        let nodes = (1..).zip(&self.nodes).map(|(number, node)| (name_of(number), node.log()));
        let members = (0..self.members.count()).map(|member| (member_name(member), self.members.log(member)));
        for (name, log) in nodes.chain(members) {
            let path: PathBuf = directory.join(format!("{prefix}-{name}.log"));
            std::fs::copy(log, &path).map_err(|error| RunError::Unwritable(path, error))?;
        }
        let path = directory.join(format!("{prefix}-disturbances.txt"));
        std::fs::write(&path, self.journal.concat()).map_err(|error| RunError::Unwritable(path, error))
    }

    /// Starts nodes again that have ended because others had taken their shards. Any other end is a fault.
    async fn replace_deposed(&mut self, shared: &Shared) -> Result<u64, RunError> {
        for member in 0..self.members.count() {
            if let Some(status) = self.members.ended(member)? {
                return Err(RunError::EtcdEnded(status));
            }
        }
        let mut deposed = 0;
        for (process, node) in self.nodes.iter_mut().zip(&shared.nodes) {
            let Some(status) = process.ended()? else { continue };
            node.end(shared.now());
            if !is_deposed(status) {
                return Err(ProcessError::EndedBadly(status).into());
            }
            process.serve_again().await?;
            deposed += 1;
        }
        Ok(deposed)
    }

    fn note(&mut self, shared: &Shared, what: &str) {
        self.journal.push(format!("{:.3} s  {what}\n", shared.now() as f64 / 1e9));
    }

    async fn pause(&self, node: usize, random: &mut Random, milliseconds: Range<u64>) -> Result<(), RunError> {
        self.nodes[node].pause()?;
        sleep(random, milliseconds).await;
        Ok(self.nodes[node].resume()?)
    }

    async fn pause_member(&self, member: usize, random: &mut Random, milliseconds: Range<u64>) -> Result<(), RunError> {
        self.members.pause(member)?;
        sleep(random, milliseconds).await;
        Ok(self.members.resume(member)?)
    }

    fn numbered(&self, name: &str) -> Option<usize> {
        (0..self.nodes.len()).find(|node| name_of(*node as u32 + 1) == name)
    }
}

async fn sleep(random: &mut Random, milliseconds: Range<u64>) {
    tokio::time::sleep(Duration::from_millis(random.within(milliseconds))).await;
}
