//! The state of a cluster for its operator, from two reads of the engine. Every live node writes between the two.

use store::engine::{ClusterRecord, ClusterState, NodeRecord, Room, Shard, Version};

/// One read of the engine.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// All shards that ever had an owner. Once a cluster has started, these are all of its shards.
    pub shards: Vec<Shard>,
    pub nodes: Vec<NodeRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterStatus {
    /// `None` if there is no cluster.
    pub state: Option<ClusterState>,
    pub nodes: Vec<NodeStatus>,
    pub shards: Vec<ShardStatus>,
    pub room: Room,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    pub node: String,
    pub url: String,
    pub program: String,
    pub lives: bool,
    /// The number of shards that the node owns.
    pub shards: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardStatus {
    pub number: u16,
    pub epoch: u64,
    pub batches: u64,
    pub owner: ShardOwner,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShardOwner {
    /// A node that has written since the first read.
    Active(String),
    /// A node that has not written since the first read.
    Silent(String),
    /// The last owner has left the shard, possibly naming a successor.
    Nobody { successor: Option<String> },
}

impl ClusterStatus {
    pub fn new(cluster: Option<ClusterRecord>, before: &Snapshot, after: Snapshot, room: Room) -> ClusterStatus {
        // Ignores records of further shards, which an abandoned import may have left.
        let is_of_cluster = |shard: &&Shard| cluster.is_none_or(|cluster| shard.number < cluster.shards.get());
        let shards: Vec<_> =
            after.shards.iter().filter(is_of_cluster).map(|shard| shard_status(before, shard)).collect();
        let nodes = after.nodes.into_iter().map(|node| NodeStatus {
            lives: before.nodes.iter().all(|seen| seen.node != node.node || seen.version != node.version),
            shards: shards.iter().filter(|shard| shard.owner.node() == Some(&node.node)).count(),
            node: node.node,
            url: node.url,
            program: node.program,
        });
        ClusterStatus { state: cluster.map(|cluster| cluster.state), nodes: nodes.collect(), shards, room }
    }

    /// Whether every shard has a live owner, and writes are accepted.
    pub fn is_healthy(&self) -> bool {
        self.state.is_some_and(ClusterState::is_ready)
            && !self.room.is_full()
            && !self.shards.is_empty()
            && self.shards.iter().all(|shard| matches!(shard.owner, ShardOwner::Active(_)))
    }
}

impl ShardOwner {
    pub fn node(&self) -> Option<&str> {
        match self {
            ShardOwner::Active(node) | ShardOwner::Silent(node) => Some(node),
            ShardOwner::Nobody { .. } => None,
        }
    }
}

fn shard_status(before: &Snapshot, shard: &Shard) -> ShardStatus {
    let seen = before.shards.iter().find(|seen| seen.number == shard.number).map_or(Version(0), |seen| seen.version);
    let owner = match &shard.owner {
        Some(owner) if shard.version > seen => ShardOwner::Active(owner.node.clone()),
        Some(owner) => ShardOwner::Silent(owner.node.clone()),
        None => ShardOwner::Nobody { successor: shard.successor.clone() },
    };
    ShardStatus { number: shard.number, epoch: shard.epoch, batches: shard.sequence.0, owner }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::num::NonZeroU16;

    use super::*;
    use store::Sequence;
    use store::engine::Owner;

    fn owned(number: u16, node: &str, version: u64) -> Shard {
        let owner = Owner { node: node.to_owned(), url: String::new(), run: 1 };
        let shard = Shard { version: Version(version), sequence: Sequence(7), ..Shard::vacant(number) };
        shard.taken_by(&owner)
    }

    fn node(node: &str, version: u64) -> NodeRecord {
        NodeRecord {
            node: node.to_owned(),
            url: "http://x".to_owned(),
            program: "1".to_owned(),
            version: Version(version),
        }
    }

    #[test]
    fn whoever_has_written_between_two_looks_lives() {
        let before = Snapshot {
            shards: vec![owned(0, "n1", 5), owned(1, "n2", 6), Shard::vacant(2)],
            nodes: vec![node("n1", 3), node("n2", 4)],
        };
        let left = Shard { successor: Some("n1".to_owned()), ..Shard::vacant(2) };
        let after = Snapshot {
            shards: vec![owned(0, "n1", 9), owned(1, "n2", 6), left],
            nodes: vec![node("n1", 8), node("n2", 4), node("n3", 7)],
        };
        let room = Room { used_bytes: 1, quota_bytes: 1_000, is_exhausted: false };
        let shards = NonZeroU16::new(3).unwrap();
        let cluster = ClusterRecord { format: 4, shards, key: 1, state: ClusterState::Ready };
        let status = ClusterStatus::new(Some(cluster), &before, after.clone(), room);
        let owners: Vec<_> = status.shards.iter().map(|shard| shard.owner.clone()).collect();
        let nobody = ShardOwner::Nobody { successor: Some("n1".to_owned()) };
        assert_eq!(owners, [ShardOwner::Active("n1".to_owned()), ShardOwner::Silent("n2".to_owned()), nobody]);
        let lives: Vec<_> = status.nodes.iter().map(|node| (node.node.as_str(), node.lives, node.shards)).collect();
        assert_eq!(lives, [("n1", true, 1), ("n2", false, 1), ("n3", true, 0)]);
        assert!(!status.is_healthy());
        let one = ClusterRecord { shards: NonZeroU16::MIN, ..cluster };
        let only = |cluster, room| ClusterStatus::new(Some(cluster), &before, after.clone(), room);
        assert!(only(one, room).is_healthy() && only(one, room).shards.len() == 1);
        assert!(!only(one, Room { used_bytes: 900, ..room }).is_healthy(), "full");
        let filling = ClusterRecord { state: ClusterState::Filling { run: 1 }, ..one };
        assert!(!only(filling, room).is_healthy());
    }
}
