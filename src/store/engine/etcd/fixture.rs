//! Real etcd members for tests: on loopback, with free ports and a separate directory.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{Etcd, EtcdSettings};
use crate::engine::ports::free_port;

const PROGRAM: &str = "etcd";
/// The limits that `probe` requires.
pub const SIZED: &[&str] = &["--max-txn-ops=4096", "--max-request-bytes=4194304"];
/// Make three members elect a leader sooner.
const LIVELY: &[&str] = &["--heartbeat-interval=50", "--election-timeout=500"];

/// Settings without members.
pub fn settings() -> EtcdSettings {
    let quota_bytes = 2 * 1024 * 1024 * 1024;
    EtcdSettings { members: Vec::new(), prefix: "lk/".to_owned(), tls: None, credentials: None, quota_bytes }
}

/// Running etcd members, killed on drop.
pub struct EtcdServers {
    dir: TempDir,
    servers: Vec<Server>,
    flags: Vec<String>,
    scheme: &'static str,
}

struct Server {
    client_port: u16,
    peer_port: u16,
    process: Option<Child>,
}

impl EtcdServers {
    /// Prints a note and returns `None` if etcd is not installed.
    pub fn start(count: usize, flags: &[&str]) -> Option<EtcdServers> {
        EtcdServers::start_with(count, "http", |_| flags.iter().map(|flag| (*flag).to_owned()).collect())
    }

    /// `flags` receives the members' directory and may create files in it.
    pub fn start_with(
        count: usize,
        scheme: &'static str,
        flags: impl FnOnce(&Path) -> Vec<String>,
    ) -> Option<EtcdServers> {
        if Command::new(PROGRAM).arg("--version").output().is_err() {
            eprintln!("skipped: etcd is not installed");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let flags = flags(dir.path());
        let server = |_| Server { client_port: free_port(), peer_port: free_port(), process: None };
        let servers = (0..count).map(server).collect();
        let mut servers = EtcdServers { dir, servers, flags, scheme };
        let ready: Vec<_> = (0..count).map(|place| servers.spawn(place)).collect();
        ready.into_iter().for_each(wait_until_ready);
        Some(servers)
    }

    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(|server| format!("{}://127.0.0.1:{}", self.scheme, server.client_port)).collect()
    }

    pub fn settings(&self) -> EtcdSettings {
        EtcdSettings { members: self.urls(), ..settings() }
    }

    /// An engine with its own connections.
    pub fn engine(&self) -> Etcd {
        Etcd::new(self.settings()).unwrap()
    }

    /// `kill -9`.
    pub fn kill(&mut self, place: usize) {
        if let Some(mut process) = self.servers[place].process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Suspends a member without closing its sockets, or resumes it.
    pub fn freeze(&self, place: usize, frozen: bool) {
        let process = self.servers[place].process.as_ref().unwrap();
        let signal = if frozen { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(process), signal).unwrap();
    }

    /// Restarts a killed member with its data.
    pub fn restart(&mut self, place: usize) {
        wait_until_ready(self.spawn(place));
    }

    fn spawn(&mut self, place: usize) -> mpsc::Receiver<String> {
        let peer = |server: &Server| format!("http://127.0.0.1:{}", server.peer_port);
        let named = |(place, server): (usize, &Server)| format!("m{place}={}", peer(server));
        let cluster: Vec<_> = self.servers.iter().enumerate().map(named).collect();
        let (client_url, peer_url) = (&self.urls()[place], peer(&self.servers[place]));
        let mut process = Command::new(PROGRAM)
            .args(["--logger=zap", "--log-outputs=stderr", &format!("--name=m{place}")])
            .arg(format!("--data-dir={}", self.dir.path().join(format!("m{place}")).display()))
            .args([format!("--listen-client-urls={client_url}"), format!("--advertise-client-urls={client_url}")])
            .args([format!("--listen-peer-urls={peer_url}"), format!("--initial-advertise-peer-urls={peer_url}")])
            .arg(format!("--initial-cluster={}", cluster.join(",")))
            .args(LIVELY)
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(process.stderr.take().unwrap());
        // Reads to the end, because a full pipe would block the member; the receiver is dropped once the member is
        // ready.
        std::thread::spawn(move || output.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        self.servers[place].process = Some(process);
        lines
    }
}

/// A member logs this line once it has a leader and listens.
fn wait_until_ready(lines: mpsc::Receiver<String>) {
    let mut said = Vec::new();
    for line in lines {
        let is_ready = line.contains("serving client traffic");
        said.push(line);
        if is_ready {
            return;
        }
    }
    panic!("etcd has ended: {said:#?}");
}

impl Drop for EtcdServers {
    fn drop(&mut self) {
        (0..self.servers.len()).for_each(|place| self.kill(place));
    }
}
