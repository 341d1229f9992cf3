//! Owns the systems as they stand side by side: started, given their names, and each with its ledger.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::TempDir;

use crate::compare::disk;
use crate::compare::etcd::Etcd;
use crate::compare::http_lock::HttpLock;
use crate::compare::ledger::Ledger;
use crate::compare::options::{Plan, Source};
use crate::compare::peer::{Fault, System};
use crate::compare::postgres::Postgres;
use crate::compare::redis::Redis;
use crate::compare::servers::{Peers, Server, ServerError, Started};
use crate::compare::turn::{Gauge, Turn};
use crate::compare::work::{self, Shift, Work};
use crate::report::model::Check;
use crate::server::target::TargetError;
use crate::server::token::{Token, TokenError};

#[derive(Debug, thiserror::Error)]
pub enum FieldError {
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
    #[error("cannot make a directory for the servers: {0}")]
    Directory(io::Error),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("cannot get a token from {0}: {1}")]
    NoToken(String, io::Error),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("Lockkeeper cannot be prepared: {0}")]
    Lockkeeper(Fault),
}

/// The servers. They end before their directory does: fields are dropped in this order.
pub struct Servers {
    lockkeeper: Lockkeeper,
    bare: Option<Server>,
    peers: Peers,
    pub directory: TempDir,
    pub left_out: Vec<(System, String)>,
}

struct Lockkeeper {
    address: SocketAddr,
    authority: String,
    token: Token,
    pid: Option<u32>,
    /// Only if it was started here.
    _server: Option<Server>,
}

/// What the clients need.
pub struct Field {
    pub systems: BTreeMap<System, Entry>,
}

pub struct Entry {
    reach: Reach,
    gauge: Gauge,
    ledger: Arc<Mutex<Ledger>>,
}

enum Reach {
    Http(HttpLock),
    Redis(Redis),
    Postgres(Postgres),
    Etcd(Etcd),
}

impl Servers {
    /// Blocks for some seconds, on purpose: a start that is cut short could leave something behind.
    pub fn start(plan: &Plan) -> Result<Self, FieldError> {
        let directory = tempfile::Builder::new()
            .prefix("loadtest-compare-")
            .tempdir_in(&plan.directory)
            .map_err(FieldError::Directory)?;
        // Let through those who run the peers, who are not us if we are root.
        let through = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(directory.path(), through).map_err(FieldError::Directory)?;
        let lockkeeper = Lockkeeper::start(plan, &directory)?;
        let mut left_out = Vec::new();
        let bare = if plan.systems.contains(&System::Bare) {
            let mut command = Command::new(&plan.bare);
            command.args(["--listen", "127.0.0.1:0", "--workers", &plan.workers.to_string()]);
            match Server::start("bare-actix", command, directory.path()) {
                Ok(server) => Some(server),
                Err(error) => {
                    left_out.push((System::Bare, format!("{error} ('cargo build --release -p bare-actix' makes it)")));
                    None
                }
            }
        } else {
            None
        };
        let peers = Peers::start(&plan.systems, directory.path())?;
        left_out.extend(peers.left_out.iter().cloned());
        Ok(Self { lockkeeper, bare, peers, directory, left_out })
    }

    /// Of the disk on which all of them write.
    pub fn fdatasync_microseconds(&self) -> io::Result<f64> {
        disk::fdatasync_microseconds(self.directory.path())
    }
}

impl Lockkeeper {
    fn start(plan: &Plan, directory: &TempDir) -> Result<Self, FieldError> {
        let program = match &plan.lockkeeper {
            Source::Program(program) => program,
            Source::Running { target, allow_remote, token, pid } => {
                let address = target.reach(*allow_remote)?;
                let authority = target.authority();
                return Ok(Self { address, authority, token: token.clone(), pid: *pid, _server: None });
            }
        };
        let no_token = |error| FieldError::NoToken(program.display().to_string(), error);
        let printed = Command::new(program).arg("token").stdin(Stdio::null()).output().map_err(no_token)?;
        let token = Token::parse(&String::from_utf8_lossy(&printed.stdout))?;
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"LOCKKEEPER_")) {
            command.env_remove(name);
        }
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory.path().join("lockkeeper"));
        command.env("LOCKKEEPER_BOOTSTRAP_TOKEN", token.reveal()).env("LOCKKEEPER_RATE_LIMIT", "off");
        command.env("LOCKKEEPER_WORKERS", plan.workers.to_string());
        // It looks for a settings file where it stands, and must not find anyone's.
        command.current_dir(directory.path());
        let server = Server::start("lockkeeper", command, directory.path())?;
        let (address, pid) = (server.address, Some(server.pid()));
        Ok(Self { address, authority: address.to_string(), token, pid, _server: Some(server) })
    }
}

impl Field {
    /// Gives every system its names; one that does not take them is left out.
    pub async fn prepare(plan: &Plan, servers: &mut Servers) -> Result<Self, FieldError> {
        let mut systems = BTreeMap::new();
        let lockkeeper = &servers.lockkeeper;
        let http = HttpLock::lockkeeper(lockkeeper.address, &lockkeeper.authority, &plan.base, &lockkeeper.token);
        // One more than is walked over: the hot one.
        http.prepare(plan.names + 1).await.map_err(FieldError::Lockkeeper)?;
        let gauge = Gauge { pid: lockkeeper.pid, syncs: Some(http.clone()) };
        systems.insert(System::Lockkeeper, Entry::new(System::Lockkeeper, Reach::Http(http), gauge));
        if let Some(bare) = &servers.bare {
            let reach = Reach::Http(HttpLock::bare(bare.address, &plan.base));
            let gauge = Gauge { pid: Some(bare.pid()), syncs: None };
            systems.insert(System::Bare, Entry::new(System::Bare, reach, gauge));
        }
        for started in &servers.peers.started {
            match reach(started, plan.names + 1).await {
                Ok(reach) => {
                    let gauge = Gauge { pid: Some(started.pid), syncs: None };
                    systems.insert(started.system, Entry::new(started.system, reach, gauge));
                }
                Err(fault) => servers.left_out.push((started.system, fault.to_string())),
            }
        }
        Ok(Self { systems })
    }

    pub fn checks(&self) -> Vec<Check> {
        let locks = self.systems.iter().filter(|(system, _)| system.locks());
        locks.flat_map(|(_, entry)| entry.ledger.lock().unwrap_or_else(PoisonError::into_inner).checks()).collect()
    }
}

async fn reach(started: &Started, names: u32) -> Result<Reach, Fault> {
    match started.system {
        System::Redis => Ok(Reach::Redis(Redis::prepare(started.address).await?)),
        System::Etcd => Ok(Reach::Etcd(Etcd { address: started.address })),
        System::Postgres => {
            let user = started.user.as_deref().unwrap_or("postgres");
            let password = match &started.password_file {
                Some(file) => std::fs::read_to_string(file).map_err(Fault::Password)?,
                None => String::new(),
            };
            Ok(Reach::Postgres(Postgres::prepare(started.address, user, password.trim(), names).await?))
        }
        System::Lockkeeper | System::Bare => unreachable!("these are not started by the script"),
    }
}

impl Entry {
    fn new(system: System, reach: Reach, gauge: Gauge) -> Self {
        Self { reach, gauge, ledger: Arc::new(Mutex::new(Ledger::new(system))) }
    }

    /// None if this system cannot do such work.
    pub async fn take_turn(&self, work: Work, shift: Shift) -> Option<Result<Turn, Fault>> {
        let (ledger, gauge) = (&self.ledger, &self.gauge);
        let turn = match (work, &self.reach) {
            (Work::Cycle, Reach::Http(peer)) => work::cycle(peer, shift, ledger, gauge).await,
            (Work::Cycle, Reach::Redis(peer)) => work::cycle(peer, shift, ledger, gauge).await,
            (Work::Cycle, Reach::Postgres(peer)) => work::cycle(peer, shift, ledger, gauge).await,
            (Work::Cycle, Reach::Etcd(peer)) => work::cycle(peer, shift, ledger, gauge).await,
            (Work::Hot, Reach::Http(peer)) => work::hot(peer, shift, ledger, gauge).await,
            (Work::Hot, Reach::Redis(peer)) => work::hot(peer, shift, ledger, gauge).await,
            (Work::Hot, Reach::Postgres(peer)) => work::hot(peer, shift, ledger, gauge).await,
            (Work::Hot, Reach::Etcd(peer)) => work::hot(peer, shift, ledger, gauge).await,
            (Work::ReadEnvironment | Work::ReadSession, Reach::Http(peer)) => {
                work::read(peer, work, shift, ledger, gauge).await
            }
            (Work::ReadEnvironment | Work::ReadSession, Reach::Redis(_) | Reach::Postgres(_) | Reach::Etcd(_)) => {
                return None;
            }
        };
        Some(turn)
    }
}
