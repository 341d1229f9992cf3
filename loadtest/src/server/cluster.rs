//! Owns a cluster started by the load test: etcd members, nodes, and the network between them, all on loopback.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::server::members::Members;
use crate::server::process::{Launch, Process, ProcessError, Running, Variables, directory, free_address};
use crate::server::proxy::{From, Network, Proxy};

/// Placeholder for the cluster's directory in an organization's file.
pub const HOME: &str = "{home}";
/// Few shards, so that each of them has load.
const SHARDS: u16 = 4;
/// A killed or paused node is replaced in about six seconds.
pub const LONGEST_TAKEOVER: Duration = Duration::from_secs(60);
pub const READY_POLL: Duration = Duration::from_millis(50);
/// Timeout for one node, which may be paused.
const READY_PATIENCE: Duration = Duration::from_secs(2);
/// Exit code of a node after another one has taken over a shard from it.
const EXIT_DEPOSED: i32 = 75;
/// The master key of all nodes; not secret, since it protects nothing here.
const MASTER_KEY: &str = "1111111111111111111111111111111111111111111111111111111111111111";

pub struct ClusterShape {
    pub nodes: u32,
    pub members: u32,
    /// The id and the file of each organization; empty for the sample organization.
    pub organizations: Vec<(String, String)>,
    /// Whether there are proxies, with which the network can be cut.
    pub proxied: bool,
    /// Further settings of all nodes.
    pub variables: Variables,
}

impl ClusterShape {
    /// A cluster that serves the sample organization.
    pub fn new(nodes: u32, members: u32) -> Self {
        Self { nodes, members, organizations: Vec::new(), proxied: false, variables: Vec::new() }
    }
}

pub struct Cluster {
    /// Declared before etcd, so that the nodes are dropped first: without etcd they would log errors.
    nodes: Vec<Process>,
    variables: Vec<Variables>,
    /// The proxies must live as long as the nodes.
    _proxies: Vec<Proxy>,
    pub network: Network,
    pub members: Members,
    home: TempDir,
}

impl Cluster {
    /// Waits until every shard has an owner. The token belongs to an admin of every organization.
    pub async fn start(launch: &Launch, shape: ClusterShape) -> Result<Self, ProcessError> {
        let home = directory("lockkeeper-cluster-")?;
        let members = Members::start(shape.members as usize).await?;
        let network = Network::default();
        let (mut proxies, mut nodes, mut variables) = (Vec::new(), Vec::new(), Vec::new());
        let files = organization_files(home.path(), &shape.organizations)?;
        for number in 1..=shape.nodes {
            let address = free_address().map_err(ProcessError::Home)?;
            let mut settings = [shape.variables.clone(), launch.variables.clone()].concat();
            if shape.proxied {
                let (etcd, advertise) = between(&network, (&name_of(number), address), &members, &mut proxies).await?;
                settings.extend(node_variables(&etcd, number));
                settings.push(("LOCKKEEPER_CLUSTER_ADVERTISE".to_owned(), advertise));
            } else {
                settings.extend(node_variables(&members.urls(), number));
            }
            // The bootstrap token belongs to the first organization's admin, so each organization is the first one
            // once.
            for count in (1..=files.len()).filter(|_| number == 1) {
                let settings = settings.iter().cloned().chain(organizations_variable(files[..count].iter().rev()));
                let mut process = Process::start_on(address, of_node(launch, settings.collect())).await?;
                process.running.stop().await?;
            }
            settings.extend(organizations_variable(files.iter()));
            nodes.push(Process::start_on(address, of_node(launch, settings.clone())).await?);
            variables.push(settings);
        }
        Ok(Self { nodes, variables, _proxies: proxies, network, members, home })
    }

    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.running.address()).collect()
    }

    /// A directory that exists as long as the cluster.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn pids(&self) -> Vec<u32> {
        self.nodes.iter().filter_map(|node| node.running.pid()).chain(self.members.pids()).collect()
    }

    pub fn node(&mut self, node: usize) -> &mut Running {
        &mut self.nodes[node].running
    }

    /// Stops the node gracefully; returns whether it found on exit that it had lost its shards.
    pub async fn stop(&mut self, node: usize) -> Result<bool, ProcessError> {
        match self.nodes[node].running.stop().await {
            Err(ProcessError::EndedBadly(status)) if is_deposed(status) => Ok(true),
            stopped => stopped.map(|()| false),
        }
    }

    /// Restarts the node. Does not wait until every shard has an owner.
    pub async fn serve_again(&mut self, node: usize) -> Result<(), ProcessError> {
        self.nodes[node].serve_again().await
    }

    /// Sets variables for the next start of the node.
    pub fn set_variables(&mut self, node: usize, more: Variables) {
        self.nodes[node].launch.variables = [self.variables[node].clone(), more].concat();
    }

    /// Copies the logs of all nodes and members, as evidence.
    pub fn keep_logs(&self, directory: &Path, prefix: &str) -> std::io::Result<()> {
        std::fs::create_dir_all(directory)?;
        let nodes = (1..).zip(&self.nodes).map(|(number, node)| (name_of(number), node.log()));
        let members = (0..self.members.count()).map(|member| (member_name(member), self.members.log(member)));
        for (name, log) in nodes.chain(members) {
            std::fs::copy(log, directory.join(format!("{prefix}{name}.log")))?;
        }
        Ok(())
    }

    /// The index of the node with this name.
    pub fn named(&self, name: &str) -> Option<usize> {
        (1..=self.nodes.len()).find(|number| name_of(*number as u32) == name).map(|number| number - 1)
    }

    /// Nodes that ended since the last call because others had taken their shards. Any other end is an error.
    pub fn deposed(&mut self) -> Result<Vec<usize>, ProcessError> {
        let mut deposed = Vec::new();
        for (place, process) in self.nodes.iter_mut().enumerate() {
            match process.running.ended()? {
                Some(status) if is_deposed(status) => deposed.push(place),
                Some(status) => return Err(ProcessError::EndedBadly(status)),
                None => {}
            }
        }
        Ok(deposed)
    }

    /// Whether all nodes report that every shard has an owner.
    pub async fn is_ready(&self) -> bool {
        for node in &self.nodes {
            let ready = tokio::time::timeout(READY_PATIENCE, node.running.is_answering("/readyz")).await;
            if !matches!(ready, Ok(true)) {
                return false;
            }
        }
        true
    }

    /// Waits until all nodes report that every shard has an owner; restarts deposed nodes.
    pub async fn until_ready(&mut self, within: Duration) -> Result<(), ProcessError> {
        let deadline = Instant::now() + within;
        while Instant::now() < deadline {
            for node in self.deposed()? {
                self.serve_again(node).await?;
            }
            if self.is_ready().await {
                return Ok(());
            }
            tokio::time::sleep(READY_POLL).await;
        }
        Err(ProcessError::NotReady)
    }
}

/// Starts the proxies of one node: one to each etcd member, and one in front of the node. Returns the addresses to give
/// the node.
async fn between(
    network: &Network,
    (name, address): (&str, SocketAddr),
    members: &Members,
    proxies: &mut Vec<Proxy>,
) -> Result<(String, String), ProcessError> {
    let mut urls = Vec::new();
    let to_members = members.addresses().into_iter().enumerate().map(|(number, at)| (member_name(number), at));
    for to in to_members.chain([(name.to_owned(), address)]) {
        let from = if to.1 == address { From::Named } else { From::Host(name.to_owned()) };
        let proxy = Proxy::start(network.clone(), from, to).await.map_err(ProcessError::Home)?;
        urls.push(proxy.url());
        proxies.push(proxy);
    }
    let advertise = urls.pop().unwrap_or_default();
    Ok((urls.join(","), advertise))
}

fn organization_files(home: &Path, organizations: &[(String, String)]) -> Result<Vec<PathBuf>, ProcessError> {
    let write = |(id, text): &(String, String)| {
        let path = home.join(format!("{id}.toml"));
        std::fs::write(&path, text.replace(HOME, &home.display().to_string())).map_err(ProcessError::Home)?;
        Ok(path)
    };
    organizations.iter().map(write).collect()
}

pub fn organizations_variable<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Option<(String, String)> {
    let files: Vec<_> = files.map(|file| file.display().to_string()).collect();
    (!files.is_empty()).then(|| ("LOCKKEEPER_ORGANIZATIONS".to_owned(), files.join(":")))
}

fn of_node(launch: &Launch, variables: Variables) -> Launch {
    Launch::new(launch.program.clone(), variables, launch.token.clone())
}

/// The settings of a node, numbered from 1.
fn node_variables(etcd: &str, number: u32) -> Variables {
    let settings = [
        ("LOCKKEEPER_MASTER_KEY", MASTER_KEY.to_owned()),
        ("LOCKKEEPER_CLUSTER_ENGINE", "etcd".to_owned()),
        ("LOCKKEEPER_CLUSTER_ETCD", etcd.to_owned()),
        ("LOCKKEEPER_CLUSTER_NODE", name_of(number)),
        ("LOCKKEEPER_CLUSTER_SHARDS", SHARDS.to_string()),
    ];
    settings.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// The name of a node, numbered from 1.
pub fn name_of(number: u32) -> String {
    format!("n{number}")
}

/// The name of a member, numbered from 0.
pub fn member_name(number: usize) -> String {
    format!("m{number}")
}

fn is_deposed(status: ExitStatus) -> bool {
    status.code() == Some(EXIT_DEPOSED)
}
