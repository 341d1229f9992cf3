//! Owns the etcd members started by the load test: on loopback, with free ports and a separate directory.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;

use crate::server::process::{POLL, ProcessError, Running, START_TIMEOUT, directory, free_address, last_words};
use crate::wire::etcd::{EtcdClient, EtcdError};

/// The limits that a node of a cluster requires, and fast leader elections.
const FLAGS: [&str; 6] = [
    "--max-txn-ops=4096",
    "--max-request-bytes=4194304",
    "--heartbeat-interval=50",
    "--election-timeout=500",
    "--logger=zap",
    "--log-outputs=stderr",
];

pub struct Members {
    /// Declared before the members' directory, so that they are dropped first.
    running: Vec<Running>,
    /// The addresses of each member for clients, and for other members.
    ports: Vec<(SocketAddr, SocketAddr)>,
    home: TempDir,
    /// Additional flags for later starts.
    pub flags: Vec<String>,
}

impl Members {
    /// Starts the members, and waits until all of them have a leader.
    pub async fn start(count: usize) -> Result<Self, ProcessError> {
        let home = directory("lockkeeper-etcd-")?;
        let ports = (0..count).map(|_| Ok((free_address()?, free_address()?)));
        let ports = ports.collect::<std::io::Result<_>>().map_err(ProcessError::Home)?;
        let mut members = Self { running: Vec::new(), ports, home, flags: Vec::new() };
        for member in 0..count {
            let running = members.spawn(member)?;
            members.running.push(running);
        }
        for member in 0..count {
            members.until_ready(member).await?;
        }
        Ok(members)
    }

    pub fn count(&self) -> usize {
        self.ports.len()
    }

    /// The client addresses.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.ports.iter().map(|(client, _)| *client).collect()
    }

    pub fn urls(&self) -> String {
        self.ports.iter().map(|(client, _)| url(*client)).collect::<Vec<_>>().join(",")
    }

    pub fn member(&mut self, member: usize) -> &mut Running {
        &mut self.running[member]
    }

    /// Restarts a member on the same data; does not wait until it is ready.
    pub fn start_again(&mut self, member: usize) -> Result<(), ProcessError> {
        self.running[member] = self.spawn(member)?;
        Ok(())
    }

    /// The index of the leader.
    pub async fn leader(&self) -> Result<usize, EtcdError> {
        let mut silent = None;
        for (place, (client, _)) in self.ports.iter().enumerate() {
            let asked = async { EtcdClient::connect(*client).await?.status().await };
            match asked.await {
                Ok(status) if status.header.as_ref().is_some_and(|header| header.member_id == status.leader) => {
                    return Ok(place);
                }
                Ok(_) => {}
                Err(error) => silent = Some(error),
            }
        }
        Err(silent.unwrap_or(EtcdError::NoLeader))
    }

    pub fn pids(&self) -> Vec<u32> {
        self.running.iter().filter_map(Running::pid).collect()
    }

    pub async fn until_ready(&self, member: usize) -> Result<(), ProcessError> {
        let began = Instant::now();
        while began.elapsed() < START_TIMEOUT {
            if self.running[member].is_answering("/health").await {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        Err(ProcessError::EtcdNotReady(last_words(&self.log(member), 0)))
    }

    fn spawn(&self, member: usize) -> Result<Running, ProcessError> {
        let named = |(member, (_, peer)): (usize, &(_, SocketAddr))| format!("m{member}={}", url(*peer));
        let all: Vec<_> = self.ports.iter().enumerate().map(named).collect();
        let (address, peer) = self.ports[member];
        let (client, peer) = (url(address), url(peer));
        let mut command = Command::new("etcd");
        command.arg(format!("--name=m{member}"));
        command.arg(format!("--data-dir={}", self.home.path().join(format!("m{member}")).display()));
        command.args([format!("--listen-client-urls={client}"), format!("--advertise-client-urls={client}")]);
        command.args([format!("--listen-peer-urls={peer}"), format!("--initial-advertise-peer-urls={peer}")]);
        command.arg(format!("--initial-cluster={}", all.join(","))).args(FLAGS).args(&self.flags);
        command.stdout(Stdio::null());
        Running::spawn(command, address, &self.log(member))
    }

    /// A member's log, covering all its restarts.
    pub fn log(&self, member: usize) -> PathBuf {
        self.home.path().join(format!("m{member}.log"))
    }
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}
