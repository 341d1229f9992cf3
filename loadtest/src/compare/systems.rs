//! Owns the systems of a comparison: starts them, creates their locks, and keeps a ledger for each.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use crate::compare::etcd::Etcd;
use crate::compare::http_lock::HttpLock;
use crate::compare::peer::Fault;
use crate::compare::peer_script::{Peers, PeersError, Started};
use crate::compare::plan::{Plan, System};
use crate::compare::postgres::Postgres;
use crate::compare::redis::Redis;
use crate::compare::turn::{CostSource, Ledger, Turn};
use crate::compare::work::{Contest, Work, WorkSize};
use crate::report::Check;
use crate::server::{Cluster, ClusterShape, Launch, ProcessError, Running, Server, Source};
use crate::sync::locked;
use crate::wire::Token;

pub const HOW_TO_BUILD_BARE: &str = "`cargo build --profile dist -p bare-actix` makes it";

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
    #[error("cannot make a directory for the servers: {0}")]
    Directory(io::Error),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Peers(#[from] PeersError),
}

/// The servers. Fields drop in declaration order: the servers before their directory.
pub struct Servers {
    lockkeeper: Server,
    token: Token,
    cluster: Option<Cluster>,
    bare: Option<Running>,
    peers: Peers,
    pub directory: TempDir,
    pub left_out: Vec<(System, String)>,
}

pub struct Systems {
    pub systems: BTreeMap<System, Entry>,
}

pub struct Entry {
    reach: Reach,
    cost: CostSource,
    ledger: Arc<Mutex<Ledger>>,
}

enum Reach {
    Http(HttpLock),
    Redis(Redis),
    Postgres(Postgres),
    Etcd(Etcd),
}

impl Servers {
    /// Must not be cancelled, even by a signal: an interrupted start could leave a peer running.
    pub async fn start(plan: &Plan, mut source: Source) -> Result<Self, StartError> {
        let directory = tempfile::Builder::new()
            .prefix("loadtest-compare-")
            .tempdir_in(plan.directory())
            .map_err(StartError::Directory)?;
        // Peers may run as another user if we are root, and need access to the directory.
        let through = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(directory.path(), through).map_err(StartError::Directory)?;
        let mut launch = None;
        if let Source::Program(program) = &mut source {
            program.variables = vec![("LOCKKEEPER_WORKERS".to_owned(), plan.workers.to_string())];
            launch = Some(program.clone());
            program.data_dir = Some(directory.path().join("lockkeeper"));
        }
        let (lockkeeper, token) = Server::open(source, None).await?;
        let mut left_out = Vec::new();
        let cluster = start_cluster(plan, launch).await.unwrap_or_else(|reason| {
            let asked = plan.systems.iter().filter(|system| system.is_of_cluster());
            left_out.extend(asked.map(|system| (*system, reason.clone())));
            None
        });
        let bare = start_bare(plan, &directory).await.unwrap_or_else(|reason| {
            left_out.push((System::Bare, reason));
            None
        });
        let peers = Peers::start(&plan.systems, directory.path())?;
        left_out.extend(peers.left_out.iter().cloned());
        Ok(Self { lockkeeper, token, cluster, bare, peers, directory, left_out })
    }
}

/// Three nodes on three members, with the same settings as the single server.
async fn start_cluster(plan: &Plan, launch: Option<Launch>) -> Result<Option<Cluster>, String> {
    if !plan.systems.iter().any(|system| system.is_of_cluster()) {
        return Ok(None);
    }
    let launch = launch.ok_or("a cluster is started only with --server")?;
    Cluster::start(&launch, ClusterShape::new(3, 3)).await.map(Some).map_err(|error| error.to_string())
}

async fn start_bare(plan: &Plan, directory: &TempDir) -> Result<Option<Running>, String> {
    if !plan.systems.contains(&System::Bare) {
        return Ok(None);
    }
    let program = plan.bare();
    if !program.is_file() {
        return Err(format!("there is no program at {}: {HOW_TO_BUILD_BARE}", program.display()));
    }
    let mut command = Command::new(program);
    command.args(["--listen", "127.0.0.1:0", "--workers", &plan.workers.to_string()]);
    let started = Running::start(command, &directory.path().join("bare-actix.log")).await;
    started.map(Some).map_err(|error| error.to_string())
}

impl Systems {
    /// Creates the locks in every system; a system that fails is left out.
    pub async fn prepare(plan: &Plan, servers: &mut Servers) -> Result<Self, Fault> {
        let mut systems = BTreeMap::new();
        let lockkeeper = &servers.lockkeeper;
        let scope = plan.scope(lockkeeper.authority.clone(), servers.token.clone());
        let http = HttpLock::new(vec![lockkeeper.address], &scope, true);
        // One name more than the clients cycle through: the hot lock.
        http.prepare(plan.names + 1).await?;
        let cost = CostSource { pids: lockkeeper.meter().pid().into_iter().collect(), syncs: Some(http.clone()) };
        systems.insert(System::Lockkeeper, Entry::new(System::Lockkeeper, Reach::Http(http), cost));
        if let Some(bare) = &servers.bare {
            // Gets the same requests as Lockkeeper, so that both have equally much to parse.
            let scope = plan.scope(bare.address().to_string(), Token::random());
            let cost = CostSource { pids: bare.pid().into_iter().collect(), syncs: None };
            let reach = Reach::Http(HttpLock::new(vec![bare.address()], &scope, false));
            systems.insert(System::Bare, Entry::new(System::Bare, reach, cost));
        }
        if let Some(cluster) = &servers.cluster {
            for (system, entry) in of_cluster(plan, cluster, &servers.token).await? {
                systems.insert(system, entry);
            }
        }
        for started in &servers.peers.started {
            match reach(started, plan.names + 1).await {
                Ok(reach) => {
                    let cost = CostSource { pids: vec![started.pid], syncs: None };
                    systems.insert(started.system, Entry::new(started.system, reach, cost));
                }
                Err(fault) => servers.left_out.push((started.system, fault.to_string())),
            }
        }
        Ok(Self { systems })
    }

    pub fn checks(&self) -> Vec<Check> {
        let locks = self.systems.iter().filter(|(system, _)| system.locks());
        locks.flat_map(|(_, entry)| locked(&entry.ledger).checks()).collect()
    }
}

/// Both systems run on the same members: idle nodes cost the members a few writes per second.
async fn of_cluster(plan: &Plan, cluster: &Cluster, token: &Token) -> Result<Vec<(System, Entry)>, Fault> {
    let addresses = cluster.addresses();
    let mut entries = Vec::new();
    if plan.systems.contains(&System::Cluster) {
        let http = HttpLock::new(addresses.clone(), &plan.scope(addresses[0].to_string(), token.clone()), true);
        http.prepare(plan.names + 1).await?;
        let cost = CostSource { pids: cluster.pids(), syncs: None };
        entries.push((System::Cluster, Entry::new(System::Cluster, Reach::Http(http), cost)));
    }
    if plan.systems.contains(&System::EtcdCluster) {
        let etcd = Etcd { addresses: cluster.members.addresses() };
        let cost = CostSource { pids: cluster.members.pids(), syncs: None };
        entries.push((System::EtcdCluster, Entry::new(System::EtcdCluster, Reach::Etcd(etcd), cost)));
    }
    Ok(entries)
}

async fn reach(started: &Started, names: u32) -> Result<Reach, Fault> {
    match started.system {
        System::Redis => Ok(Reach::Redis(Redis::prepare(started.address).await?)),
        System::Etcd => Ok(Reach::Etcd(Etcd { addresses: vec![started.address] })),
        System::Postgres => {
            let user = started.user.as_deref().unwrap_or("postgres");
            let password = match &started.password_file {
                Some(file) => std::fs::read_to_string(file).map_err(Fault::Password)?,
                None => String::new(),
            };
            Ok(Reach::Postgres(Postgres::prepare(started.address, user, password.trim(), names).await?))
        }
        System::Lockkeeper | System::Bare | System::Cluster | System::EtcdCluster => {
            unreachable!("these are not started by the script")
        }
    }
}

impl Entry {
    fn new(system: System, reach: Reach, cost: CostSource) -> Self {
        Self { reach, cost, ledger: Arc::new(Mutex::new(Ledger::new(system))) }
    }

    pub async fn take_turn(&self, work: Work, size: WorkSize) -> Option<Result<Turn, Fault>> {
        let contest = Contest::new(size, &self.ledger, &self.cost);
        let turn = match (work, &self.reach) {
            (Work::Cycle, Reach::Http(peer)) => contest.cycle(peer).await,
            (Work::Cycle, Reach::Redis(peer)) => contest.cycle(peer).await,
            (Work::Cycle, Reach::Postgres(peer)) => contest.cycle(peer).await,
            (Work::Cycle, Reach::Etcd(peer)) => contest.cycle(peer).await,
            (Work::Hot, Reach::Http(peer)) => contest.hot(peer).await,
            (Work::Hot, Reach::Redis(peer)) => contest.hot(peer).await,
            (Work::Hot, Reach::Postgres(peer)) => contest.hot(peer).await,
            (Work::Hot, Reach::Etcd(peer)) => contest.hot(peer).await,
            (Work::ReadEnvironment | Work::ReadSession, Reach::Http(peer)) => contest.read(peer, work).await,
            (Work::ReadEnvironment | Work::ReadSession, Reach::Redis(_) | Reach::Postgres(_) | Reach::Etcd(_)) => {
                return None;
            }
        };
        Some(turn)
    }
}
