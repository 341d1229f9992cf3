//! Owns what a run is to do, and why it may fail.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use crate::linearizability::takeovers::Unreadable;
use crate::server::process::ProcessError;

pub struct Plan {
    pub program: PathBuf,
    pub histories: u32,
    pub operations: u32,
    pub clients: u32,
    /// Histories at a time on each server.
    pub together: u32,
    pub servers: u32,
    /// Of a cluster; none: a server alone.
    pub nodes: Option<u32>,
    /// Of the cluster's etcd.
    pub members: u32,
    pub seed: u64,
    pub limit: Duration,
    /// Where histories that are refused are written to.
    pub directory: PathBuf,
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
