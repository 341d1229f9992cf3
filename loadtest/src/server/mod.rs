//! Owns the server under test: one that runs already, or one that is started, killed, restarted and measured here.
//!
//! From top to bottom: `cluster`, `etcd`, `etcd_client`, `process`, `proxy`, `target`, `usage`.

pub mod cluster;
pub mod etcd;
pub mod etcd_client;
pub mod process;
pub mod proxy;
pub mod target;
pub mod usage;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::wire::Token;

pub use cluster::{Cluster, ClusterLaunch, HOME, LONGEST_TAKEOVER, READY_POLL, member_name, name_of};
pub use etcd_client::{EtcdClient, EtcdError, ShardRecord, shard_records};
pub use process::{Launch, POLL, Process, ProcessError, Running, kill_all};
pub use target::{Target, TargetError};

/// Where the server under test comes from.
pub enum Source {
    /// A program to start.
    Program(PathBuf),
    Running {
        address: SocketAddr,
        authority: String,
        token: Token,
        pid: Option<u32>,
    },
}

/// For a server that we start.
#[derive(Default)]
pub struct Extras {
    pub arguments: Vec<String>,
    /// Its settings as environment variables.
    pub variables: Vec<(String, String)>,
    pub data_dir: Option<PathBuf>,
}

pub struct Server {
    pub address: SocketAddr,
    pub authority: String,
    meter: Meter,
    process: Option<Process>,
    /// Of which `address` is one node.
    cluster: Option<Cluster>,
}

/// Reads what the server takes of the machine, also while somebody else restarts it.
#[derive(Clone, Default)]
pub struct Meter {
    /// 0: not known.
    pid: Arc<AtomicU32>,
}

/// What a process has used so far.
#[derive(Clone, Copy)]
pub struct CpuTime {
    pid: u32,
    microseconds: u64,
}

impl CpuTime {
    /// In microseconds. None if the server was started anew in between: what the old one used last is lost.
    pub fn since(self, before: Self) -> Option<u64> {
        (self.pid == before.pid).then(|| self.microseconds.saturating_sub(before.microseconds))
    }
}

impl Meter {
    /// None if its process is not known, or gone; the errors then tell the story.
    pub fn cpu(&self) -> Option<CpuTime> {
        let pid = self.pid()?;
        Some(CpuTime { pid, microseconds: usage::cpu_time(pid).ok()? })
    }

    /// Resident memory in bytes.
    pub fn memory(&self) -> Option<u64> {
        self.pid().and_then(|pid| usage::resident_memory(pid).ok())
    }

    pub fn pid(&self) -> Option<u32> {
        Some(self.pid.load(Ordering::Relaxed)).filter(|pid| *pid != 0)
    }

    fn set(&self, pid: Option<u32>) {
        self.pid.store(pid.unwrap_or(0), Ordering::Relaxed);
    }
}

impl Server {
    /// With the token that opens it; started, if it is ours to start.
    pub async fn open(source: Source, extras: Extras) -> Result<(Self, Token), ProcessError> {
        let meter = Meter::default();
        match source {
            Source::Running { address, authority, token, pid } => {
                meter.set(pid);
                Ok((Self { address, authority, meter, process: None, cluster: None }, token))
            }
            Source::Program(program) => {
                let token = Token::random();
                let Extras { arguments, variables, data_dir } = extras;
                let launch = Launch { program, arguments, variables, data_dir, token: token.clone() };
                let process = Process::start(launch).await?;
                meter.set(process.running.pid());
                let address = process.address();
                let authority = address.to_string();
                Ok((Self { address, authority, meter, process: Some(process), cluster: None }, token))
            }
        }
    }

    /// A cluster that is ours.
    pub async fn open_cluster(launch: ClusterLaunch) -> Result<(Self, Token), ProcessError> {
        let token = launch.token.clone();
        let cluster = Cluster::start(launch).await?;
        let address = cluster.addresses()[0];
        let meter = Meter::default();
        Ok((Self { address, authority: address.to_string(), meter, process: None, cluster: Some(cluster) }, token))
    }

    pub fn cluster(&mut self) -> Result<&mut Cluster, ProcessError> {
        self.cluster.as_mut().ok_or(ProcessError::NotOurs)
    }

    pub fn is_ours(&self) -> bool {
        self.process.is_some()
    }

    pub fn meter(&self) -> Meter {
        self.meter.clone()
    }

    pub fn cpu(&self) -> Option<CpuTime> {
        self.meter.cpu()
    }

    pub fn memory(&self) -> Option<u64> {
        self.meter.memory()
    }

    /// Bytes that its data takes on the disk.
    pub fn data_bytes(&self) -> Option<u64> {
        usage::disk_bytes(self.process.as_ref()?.data_dir()).ok()
    }

    /// A directory that lives as long as the server, if it is ours.
    pub fn home(&self) -> Option<&Path> {
        self.process.as_ref().map(Process::home)
    }

    /// For its next start: further settings, and another token for the first organization's admin.
    pub fn change(&mut self, variables: Vec<(String, String)>, token: Token) -> Result<(), ProcessError> {
        self.process.as_mut().ok_or(ProcessError::NotOurs)?.change(variables, token);
        Ok(())
    }

    /// `kill -9`.
    pub fn kill(&mut self) -> Result<(), ProcessError> {
        self.meter.set(None);
        self.process.as_mut().ok_or(ProcessError::NotOurs)?.running.kill()
    }

    /// Starts it again on the same address and data; says how long it took until it was ready.
    pub async fn start_again(&mut self) -> Result<Duration, ProcessError> {
        let process = self.process.as_mut().ok_or(ProcessError::NotOurs)?;
        let took = process.start_again().await?;
        self.meter.set(process.running.pid());
        Ok(took)
    }

    /// Lets it end by itself, if it is ours.
    pub async fn stop(&mut self) -> Result<(), ProcessError> {
        // The last nodes of a cluster would have nobody to hand over to.
        self.cluster = None;
        match &mut self.process {
            Some(process) => process.running.stop().await,
            None => Ok(()),
        }
    }
}
