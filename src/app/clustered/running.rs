//! Whether a node of the cluster runs.

use super::status::look_twice;
use crate::cluster::ShardOwner;
use crate::store::engine::{Engine, EngineError};

/// One that has written between two looks, if there is one.
pub async fn node(engine: &impl Engine) -> Result<Option<String>, EngineError> {
    let status = look_twice(engine).await?;
    let lives = status.nodes.into_iter().find(|node| node.lives).map(|node| format!("node {}", node.node));
    let owns = status.shards.into_iter().find_map(|shard| match shard.owner {
        ShardOwner::Active(node) => Some(format!("node {node}")),
        ShardOwner::Silent(_) | ShardOwner::Nobody { .. } => None,
    });
    Ok(lives.or(owns))
}
