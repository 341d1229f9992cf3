//! The nodes of a cluster and the shards that they own.

use serde::Serialize;
use utoipa::ToSchema;

use crate::http::overview::{NodeSeen, Overview, ShardSeen};

/// The machines that share the work. One machine alone has no shards, and names no nodes.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Cluster)]
pub struct ClusterView {
    /// The shard of this organization.
    #[schema(example = 3)]
    shard: Option<u16>,
    /// The owner of that shard, which answers the requests of this organization.
    #[schema(example = "n1")]
    owner: Option<String>,
    /// By name. A node that has been away for long is not listed.
    nodes: Vec<ClusterNodeView>,
    /// By number.
    shards: Vec<ClusterShardView>,
}

/// One server of a cluster.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ClusterNode)]
pub struct ClusterNodeView {
    /// Its name, unique in the cluster.
    #[schema(example = "n1")]
    node: String,
    /// Whether it has lately shown a sign of life.
    #[schema(example = true)]
    lives: bool,
    /// How many shards it owns.
    #[schema(example = 5)]
    shards: usize,
    /// The version of its program.
    #[schema(example = "0.1.0")]
    version: String,
}

/// A part of the organizations, with one owner at a time.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ClusterShard)]
pub struct ClusterShardView {
    /// Its number; the first is 0.
    #[schema(example = 3)]
    shard: usize,
    /// `null` while it is being taken over.
    #[schema(example = "n1")]
    owner: Option<String>,
    /// Rises with each change of the owner.
    #[schema(example = 2)]
    epoch: u64,
}

impl ClusterView {
    pub fn one_machine() -> Self {
        Self { shard: None, owner: None, nodes: Vec::new(), shards: Vec::new() }
    }

    pub fn new(overview: &Overview, shard: u16) -> Self {
        let owner = overview.shards.get(usize::from(shard)).and_then(|seen| seen.owner.clone());
        let owned = |node: &str| overview.shards.iter().filter(|seen| seen.owner.as_deref() == Some(node)).count();
        let mut nodes: Vec<_> = overview.nodes.iter().collect();
        nodes.sort_unstable_by_key(|seen| &seen.node);
        let nodes = nodes.into_iter().map(|NodeSeen { node, version, lives }| ClusterNodeView {
            node: node.clone(),
            lives: *lives,
            shards: owned(node),
            version: version.clone(),
        });
        let shards = overview.shards.iter().enumerate().map(|(shard, ShardSeen { owner, epoch })| ClusterShardView {
            shard,
            owner: owner.clone(),
            epoch: *epoch,
        });
        Self { shard: Some(shard), owner, nodes: nodes.collect(), shards: shards.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_is_shown_with_its_shards_and_the_organization_with_its_owner() {
        let node = |name: &str, lives| NodeSeen { node: name.to_owned(), version: "1".to_owned(), lives };
        let shard = |owner: Option<&str>| ShardSeen { owner: owner.map(str::to_owned), epoch: 1 };
        let overview = Overview {
            nodes: vec![node("n2", false), node("n1", true)],
            shards: vec![shard(Some("n1")), shard(None), shard(Some("n1"))],
        };
        let view = ClusterView::new(&overview, 2);
        let nodes: Vec<_> = view.nodes.iter().map(|node| (node.node.as_str(), node.lives, node.shards)).collect();
        assert_eq!(nodes, [("n1", true, 2), ("n2", false, 0)]);
        assert_eq!((view.shard, view.owner.as_deref()), (Some(2), Some("n1")));
        assert_eq!(ClusterView::new(&overview, 1).owner, None);
    }
}
