//! The operations that concern the server as a whole, and need a token.

use serde_json::json;

use super::operation::Operation;
use crate::http::codes::Code;
use crate::http::resources::operator::ClusterView;

pub fn backup() -> Operation {
    let content = json!({ "application/octet-stream": { "schema": { "type": "string", "format": "binary" } } });
    Operation::api("Operating", "takeBackup")
        .titled("Back up")
        .about(
            "Everything that the server has, as it was at one moment, for `lockkeeper restore`; while it is taken, the server \
             works as usual. The master key is not part of it. Only for an admin, and only if the server has no other \
             organization: otherwise its operator takes it. An answer that ends too early is not a backup: \
             `lockkeeper backup` checks that.",
        )
        .answers_content(200, "The backup", content, &[])
        .fails(&[Code::SeveralOrganizations, Code::BackupInProgress])
}

pub fn get_cluster() -> Operation {
    Operation::api("Operating", "getCluster")
        .titled("Nodes and Shards")
        .about(
            "The machines that share the work: their nodes, the shards that each owns, and the shard of this organization. A server \
             on one machine has neither.",
        )
        .answers::<ClusterView>(200, "The cluster, as the owner of the organization's shard sees it", &[])
}
