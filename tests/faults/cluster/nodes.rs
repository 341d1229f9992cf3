//! Several nodes on one engine.

use std::time::Duration;

use super::etcd::EtcdServers;
use crate::support::{Client, Server, Setup};

pub struct Nodes {
    pub nodes: Vec<Server>,
    pub etcd: EtcdServers,
}

pub const MASTER_KEY: &str = "1111111111111111111111111111111111111111111111111111111111111111";

/// With additional settings of the cluster.
pub fn setup(etcd: &EtcdServers, name: &str, more: &str) -> Setup {
    let setup = Setup::default().settings(&format!("[cluster]\nshards = 4\n{more}"));
    let setup = setup.variable("LOCKKEEPER_MASTER_KEY", MASTER_KEY).variable("LOCKKEEPER_CLUSTER_ENGINE", "etcd");
    setup.variable("LOCKKEEPER_CLUSTER_ETCD", &etcd.urls()).variable("LOCKKEEPER_CLUSTER_NODE", name)
}

impl Nodes {
    /// `None` where etcd is not installed.
    pub async fn start(count: usize, members: usize) -> Option<Self> {
        Some(Self::start_on(EtcdServers::start(members)?, count).await)
    }

    pub async fn start_on(etcd: EtcdServers, count: usize) -> Self {
        let nodes = (1..=count).map(|number| setup(&etcd, &format!("n{number}"), "").start()).collect();
        let nodes = Self { nodes, etcd };
        for node in 0..count {
            nodes.until_ready(node).await;
        }
        nodes
    }

    pub async fn until_ready(&self, node: usize) {
        let client = self.nodes[node].anonymous();
        while client
            .try_send(client.request(reqwest::Method::GET, "/readyz"))
            .await
            .is_ok_and(|answer| answer.status != 200)
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The node that owns the sample's shard: the last one that has opened it.
    pub fn owner(&self) -> usize {
        // crc32c("acme") modulo 4.
        let opened = |log: String| log.lines().rfind(|line| line.contains("took a shard shard=2 ")).map(epoch);
        let epochs = self.nodes.iter().map(|node| opened(node.log()).unwrap_or(0));
        epochs.enumerate().max_by_key(|(_, epoch)| *epoch).unwrap().0
    }

    /// A node that does not own it.
    pub fn other(&self) -> usize {
        (self.owner() + 1) % self.nodes.len()
    }

    pub fn admin(&self, node: usize) -> Client {
        self.nodes[node].admin()
    }
}

fn epoch(line: &str) -> u64 {
    line.split("epoch=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
}
