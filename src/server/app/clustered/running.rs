//! Whether a node of the cluster runs.

use super::status::look_twice;
use cluster::{NodeStatus, ShardOwner, ShardStatus};
use store::engine::{Engine, EngineError};

/// One that has written between two looks, if there is one. Commands that own shards are no nodes, and do not announce
/// themselves.
pub async fn node(engine: &impl Engine) -> Result<Option<String>, EngineError> {
    let status = look_twice(engine).await?;
    let is_active = |node: &NodeStatus| {
        let owns = |shard: &ShardStatus| shard.owner == ShardOwner::Active(node.node.clone());
        node.lives || status.shards.iter().any(owns)
    };
    Ok(status.nodes.iter().find(|node| is_active(node)).map(|node| format!("node {}", node.node)))
}
