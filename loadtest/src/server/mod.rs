//! Owns the server under test: an already running one, or one that is started, killed, restarted and measured here.
//!
//! From top to bottom: `cluster`, `members` (of etcd), `target`, `process`, `proxy`, `usage`.

mod cluster;
mod members;
mod process;
pub mod proxy;
mod target;
pub mod usage;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::wire::Token;

pub use cluster::{
    Cluster, ClusterShape, HOME, LONGEST_TAKEOVER, READY_POLL, member_name, name_of, organizations_variable,
};
pub use process::{Launch, POLL, Process, ProcessError, Running, kill_all};
pub use target::{Against, MAX_IDENTIFIER, Source, identifier};

pub struct Server {
    pub address: SocketAddr,
    pub authority: String,
    meter: Meter,
    process: Option<Process>,
    /// The cluster, if there is one; `address` is one of its nodes.
    cluster: Option<Cluster>,
}

/// Reads the server's resource usage, even while other code restarts it.
#[derive(Clone, Default)]
pub struct Meter {
    /// 0 means unknown.
    pid: Arc<AtomicU32>,
}

/// CPU time that a process has used so far.
#[derive(Clone, Copy)]
pub struct CpuTime {
    pid: u32,
    microseconds: u64,
}

impl CpuTime {
    /// The difference in microseconds. None if the server was restarted in between: the old process's last usage is
    /// lost.
    pub fn since(self, before: Self) -> Option<u64> {
        (self.pid == before.pid).then(|| self.microseconds.saturating_sub(before.microseconds))
    }
}

impl Meter {
    /// None if the server's process is unknown or gone.
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
    /// Returns the server and its token. A server that is not running yet is started, as a cluster of this shape or as
    /// a single server.
    pub async fn open(source: Source, shape: Option<ClusterShape>) -> Result<(Self, Token), ProcessError> {
        let meter = Meter::default();
        let launch = match source {
            Source::Running { address, authority, token, pid } => {
                meter.set(pid);
                return Ok((Self { address, authority, meter, process: None, cluster: None }, token));
            }
            Source::Program(launch) => launch,
        };
        let token = launch.token.clone();
        let (mut process, mut cluster) = (None, None);
        let address = match shape {
            Some(shape) => cluster.insert(Cluster::start(&launch, shape).await?).addresses()[0],
            None => {
                let process = process.insert(Process::start(launch).await?);
                meter.set(process.running.pid());
                process.running.address()
            }
        };
        Ok((Self { address, authority: address.to_string(), meter, process, cluster }, token))
    }

    pub fn cluster(&mut self) -> Result<&mut Cluster, ProcessError> {
        self.cluster.as_mut().ok_or(ProcessError::NotOurs)
    }

    pub fn is_ours(&self) -> bool {
        self.process.is_some()
    }

    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Bytes that the server's data uses on disk.
    pub fn data_bytes(&self) -> Option<u64> {
        usage::disk_bytes(self.process.as_ref()?.data_dir()).ok()
    }

    /// A directory that exists as long as the server, if we started it.
    pub fn home(&self) -> Result<&Path, ProcessError> {
        self.process.as_ref().map(Process::home).ok_or(ProcessError::NotOurs)
    }

    /// The settings of the server's next start.
    pub fn launch(&mut self) -> Result<&mut Launch, ProcessError> {
        Ok(&mut self.process.as_mut().ok_or(ProcessError::NotOurs)?.launch)
    }

    /// Kills the server with `kill -9`.
    pub fn kill(&mut self) -> Result<(), ProcessError> {
        self.meter.set(None);
        self.process.as_mut().ok_or(ProcessError::NotOurs)?.running.kill()
    }

    /// Restarts the server on the same address and data; returns the time until it was ready.
    pub async fn start_again(&mut self) -> Result<Duration, ProcessError> {
        let process = self.process.as_mut().ok_or(ProcessError::NotOurs)?;
        let took = process.start_again().await?;
        self.meter.set(process.running.pid());
        Ok(took)
    }

    /// Stops the server gracefully if we started it.
    pub async fn stop(&mut self) -> Result<(), ProcessError> {
        // Killed, since the last nodes of a cluster would have nobody to hand over to.
        self.cluster = None;
        match &mut self.process {
            Some(process) => process.running.stop().await,
            None => Ok(()),
        }
    }
}
