//! The steps of a node that has lost its shard: they must end before others run in the same environment.

use std::process::Command;

use serde_json::json;

use super::EXIT_DEPOSED;
use super::etcd::EtcdServers;
use super::nodes::{Nodes, setup};
use crate::support::Server;
use crate::support::waiting::until;

const APART: [&str; 5] = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// Holds a file lock for as long as any of its processes runs, and reports if another one has it. Those with a commit
/// `a…` do not end on their own.
const HELD: &str = "exec 9> $TRACE.held; flock -n 9 || echo overlap >> $TRACE; echo $LOCKKEEPER_COMMIT >> $TRACE; \
                    case $LOCKKEEPER_COMMIT in a*) sleep 600;; esac";

/// The node below a wrapper.
fn terminate(node: &Server) {
    let pid = node.pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    assert!(Command::new("kill").args(["-TERM", children.trim()]).status().unwrap().success());
}

#[tokio::test]
async fn steps_of_a_frozen_node_have_ended_even_if_the_next_owner_is_stopped_soon() {
    let Some(etcd) = EtcdServers::start(1) else { return };
    if !Command::new(APART[0]).args(&APART[1..]).arg("true").status().is_ok_and(|status| status.success()) {
        return println!("skipped: there are no namespaces of processes here");
    }
    let lease = "step_lease_seconds = 20\n";
    let mut nodes = Nodes { nodes: vec![setup(&etcd, "n1", lease).start()], etcd };
    nodes.until_ready(0).await;
    for name in ["n2", "n3"] {
        nodes.nodes.push(setup(&nodes.etcd, name, lease).under(&APART).start());
    }
    let trace = nodes.nodes[0].home().join("trace");
    let admin = nodes.admin(0);
    let stages = json!([{ "name": "held", "steps": [{ "run": ["sh", "-c", HELD] }] }]);
    admin.put("/pipelines/web", json!({ "stages": stages, "variables": { "TRACE": trace } })).await.ok();
    let claimed = admin.claim("review-1", json!({})).await.created().session();
    admin.deploy("review-1", &claimed, json!({ "commitId": "aaaaaaa" })).await.has_status(202);
    let traced = || std::fs::read_to_string(&trace).unwrap_or_default();
    until("the step has begun", async || traced() == "aaaaaaa\n").await;
    nodes.nodes[0].signal("-STOP");
    // Through a node that waits for the next owner.
    nodes.admin(1).environment("review-1").await.ok();
    let second = nodes.owner();
    assert_ne!(second, 0);
    terminate(&nodes.nodes[second]);
    let admin = nodes.admin(3 - second);
    let path = format!("{}/force-claim", crate::support::at("review-1"));
    let next = admin.post_with_key(&path, "k1", json!({})).await.created().session();
    let deployment = admin.deploy("review-1", &next, json!({ "commitId": "bbbbbbb" })).await.has_status(202);
    let deployment = deployment.data()["deploymentId"].as_str().unwrap().to_owned();
    admin.until(&format!("/deployments/{deployment}"), |found| found["status"] == "succeeded").await;
    assert_eq!(traced(), "aaaaaaa\nbbbbbbb\n");
    nodes.nodes[0].signal("-CONT");
    assert_eq!(nodes.nodes[0].wait().code(), Some(EXIT_DEPOSED));
}

#[tokio::test]
async fn steps_of_a_frozen_node_have_ended_before_the_next_deployment_begins() {
    let Some(etcd) = EtcdServers::start(1) else { return };
    if !Command::new(APART[0]).args(&APART[1..]).arg("true").status().is_ok_and(|status| status.success()) {
        return println!("skipped: there are no namespaces of processes here");
    }
    let lease = "step_lease_seconds = 15\n";
    let mut nodes = Nodes { nodes: vec![setup(&etcd, "n1", lease).start()], etcd };
    nodes.until_ready(0).await;
    // Like on another machine: it does not see the first node's processes.
    nodes.nodes.push(setup(&nodes.etcd, "n2", lease).under(&APART).start());
    nodes.until_ready(1).await;
    let (owner, other) = (0, 1);
    let trace = nodes.nodes[other].home().join("trace");
    let admin = nodes.admin(other);
    let stages = json!([{ "name": "held", "steps": [{ "run": ["sh", "-c", HELD] }] }]);
    admin.put("/pipelines/web", json!({ "stages": stages, "variables": { "TRACE": trace } })).await.ok();
    let claimed = admin.claim("review-1", json!({})).await.created().session();
    let lost = admin.deploy("review-1", &claimed, json!({ "commitId": "aaaaaaa" })).await.has_status(202).data();
    let traced = || std::fs::read_to_string(&trace).unwrap_or_default();
    until("the step has begun", async || traced() == "aaaaaaa\n").await;
    nodes.nodes[owner].signal("-STOP");
    // Locks move immediately, and steps when those of the frozen node must have ended.
    let path = format!("{}/force-claim", crate::support::at("review-1"));
    let next = admin.post_with_key(&path, "k1", json!({})).await.created().session();
    let deployment = admin.deploy("review-1", &next, json!({ "commitId": "bbbbbbb" })).await.has_status(202);
    let deployment = deployment.data()["deploymentId"].as_str().unwrap().to_owned();
    let finished = admin.until(&format!("/deployments/{deployment}"), |found| found["status"] == "succeeded").await;
    assert_eq!(traced(), "aaaaaaa\nbbbbbbb\n", "{finished}");
    let logs = |deployment: &str| format!("/deployments/{deployment}/logs");
    admin.get(&logs(&deployment)).await.ok();
    let lost = lost["deploymentId"].as_str().unwrap();
    admin.get(&logs(lost)).await.refused(503, "log_unavailable");
    nodes.nodes[owner].signal("-CONT");
    assert_eq!(nodes.nodes[owner].wait().code(), Some(EXIT_DEPOSED));
}
