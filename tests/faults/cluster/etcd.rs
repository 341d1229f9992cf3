//! Real etcd members: on loopback, with free ports and a separate directory.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use tempfile::TempDir;

/// The limits that a node requires; a fast election; and no fsync: members are killed here, but their machine is not.
const FLAGS: [&str; 5] = [
    "--max-txn-ops=4096",
    "--max-request-bytes=4194304",
    "--heartbeat-interval=50",
    "--election-timeout=500",
    "--unsafe-no-fsync",
];

/// Killed when dropped.
pub struct EtcdServers {
    dir: TempDir,
    flags: Vec<String>,
    ports: Vec<(u16, u16)>,
    processes: Vec<Option<Child>>,
}

impl EtcdServers {
    /// `None`, with a message, if etcd is not installed.
    pub fn start(count: usize) -> Option<Self> {
        Self::start_with(count, &[])
    }

    /// With additional flags.
    pub fn start_with(count: usize, flags: &[&str]) -> Option<Self> {
        if Command::new("etcd").arg("--version").output().is_err() {
            println!("skipped: etcd is not installed");
            return None;
        }
        let ports = (0..count).map(|_| (free_port(), free_port())).collect();
        let processes = (0..count).map(|_| None).collect();
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut servers = Self { dir: tempfile::tempdir().unwrap(), flags, ports, processes };
        let ready: Vec<_> = (0..count).map(|place| servers.spawn(place)).collect();
        ready.into_iter().for_each(wait_until_ready);
        Some(servers)
    }

    /// Their addresses for clients.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.ports.iter().map(|(client, _)| SocketAddr::from(([127, 0, 0, 1], *client))).collect()
    }

    pub fn urls(&self) -> String {
        let urls: Vec<_> = self.ports.iter().map(|(client, _)| format!("http://127.0.0.1:{client}")).collect();
        urls.join(",")
    }

    pub fn kill(&mut self, place: usize) {
        if let Some(mut process) = self.processes[place].take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    pub fn restart(&mut self, place: usize) {
        self.restart_all(&[place]);
    }

    /// At the same time: one alone may have no majority.
    pub fn restart_all(&mut self, places: &[usize]) {
        let ready: Vec<_> = places.iter().map(|place| self.spawn(*place)).collect();
        ready.into_iter().for_each(wait_until_ready);
    }

    /// SIGSTOP or SIGCONT.
    pub fn signal(&self, place: usize, signal: &str) {
        let pid = self.processes[place].as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    fn spawn(&mut self, place: usize) -> mpsc::Receiver<String> {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let named = |(place, (_, peer)): (usize, &(u16, u16))| format!("m{place}={}", url(*peer));
        let cluster: Vec<_> = self.ports.iter().enumerate().map(named).collect();
        let (client, peer) = self.ports[place];
        let mut process = Command::new("etcd")
            .args(["--logger=zap", "--log-outputs=stderr", &format!("--name=m{place}")])
            .arg(format!("--data-dir={}", self.dir.path().join(format!("m{place}")).display()))
            .args([format!("--listen-client-urls={}", url(client)), format!("--advertise-client-urls={}", url(client))])
            .args([format!("--listen-peer-urls={}", url(peer)), format!("--initial-advertise-peer-urls={}", url(peer))])
            .arg(format!("--initial-cluster={}", cluster.join(",")))
            .args(FLAGS)
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(process.stderr.take().unwrap());
        // Reads to the end, since a full pipe would block the member; nobody reads the lines once it is ready.
        std::thread::spawn(move || output.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        self.processes[place] = Some(process);
        lines
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// It prints that once it has a leader and listens.
fn wait_until_ready(lines: mpsc::Receiver<String>) {
    let mut said = Vec::new();
    for line in lines {
        if line.contains("serving client traffic") || line.contains("serving insecure client requests") {
            return;
        }
        said.push(line);
    }
    panic!("etcd has ended: {said:#?}");
}

impl Drop for EtcdServers {
    fn drop(&mut self) {
        (0..self.processes.len()).for_each(|place| self.kill(place));
    }
}
