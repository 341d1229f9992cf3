//! The nodes of a cluster and the shards that they own, as people see them.

pub trait Surveyed: Send + Sync {
    /// The cluster as this node sees it.
    fn overview(&self) -> Overview;

    fn number_of(&self, organization: &str) -> u16;
}

/// The nodes of a cluster and their shards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overview {
    pub nodes: Vec<NodeSeen>,
    /// By their numbers.
    pub shards: Vec<ShardSeen>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSeen {
    pub node: String,
    /// Of its program.
    pub version: String,
    pub lives: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardSeen {
    /// `None` while it is being taken over.
    pub owner: Option<String>,
    pub epoch: u64,
}
