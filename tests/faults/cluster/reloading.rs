//! SIGHUP on the nodes of a cluster: each applies it for the organizations that it owns.

use reqwest::Method;
use serde_json::json;

use super::nodes::MASTER_KEY;
use super::postgres::PostgresServer;
use crate::support::waiting::until;
use crate::support::{Server, Setup};

fn file(environments: &[&str]) -> String {
    let head = "[organization]\nid = \"acme\"\nprune = \"apply\"\n[[members]]\nname = \"admin\"\nrole = \"admin\"\n";
    let environment = |name: &&str| format!("[[pipelines.environments]]\nname = \"{name}\"\n");
    let environments: String = environments.iter().map(environment).collect();
    format!("{head}[[pipelines]]\nid = \"web\"\nstages = []\n{environments}")
}

#[tokio::test]
async fn the_owner_applies_a_new_file_and_so_does_whoever_takes_over() {
    let Some(postgres) = PostgresServer::start() else { return };
    let start = |name: &str| {
        let setup = Setup::default().settings("[cluster]\nshards = 4\n").organization(&file(&["review-1", "review-2"]));
        let setup = setup.variable("LOCKKEEPER_MASTER_KEY", MASTER_KEY).variable("LOCKKEEPER_CLUSTER_NODE", name);
        let setup = setup.variable("LOCKKEEPER_CLUSTER_ENGINE", "postgres");
        setup.variable("LOCKKEEPER_CLUSTER_POSTGRES", &postgres.url()).start()
    };
    let mut nodes = [start("n1"), start("n2")];
    for node in &nodes {
        until("both are ready", async || status(node, "/readyz").await == Some(200)).await;
    }
    let held = nodes[0].admin().claim("review-2", json!({})).await.created().session();
    for node in &nodes {
        std::fs::write(node.home().join("organization-0.toml"), file(&["review-1", "review-9"])).unwrap();
        node.signal("-HUP");
    }
    let disabled = async |node: &Server| {
        let found = node.admin().environment("review-2").await.json();
        found["data"]["configuration"]["disabled"] == true
    };
    until("the owner applies it", async || disabled(&nodes[0]).await).await;
    for node in &nodes {
        assert!(node.log().contains("reloaded changed=\"acme\""), "{}", node.log());
        node.admin().environment("review-9").await.ok();
    }
    let owner = nodes.iter().position(|node| node.log().contains("removing what the file no longer declares")).unwrap();
    let other = 1 - owner;
    assert!(!nodes[other].log().contains("removing what"), "{}", nodes[other].log());
    nodes[owner].kill();
    until("the other one takes over", async || status(&nodes[other], "/readyz").await == Some(200)).await;
    let admin = nodes[other].admin();
    assert!(disabled(&nodes[other]).await, "it does not declare it again");
    admin.release("review-2", &held).await.ok();
    until("it is removed", async || admin.environment("review-2").await.status == 404).await;
    nodes[other].signal("-HUP");
    assert!(nodes[other].terminate().success());
}

async fn status(node: &Server, path: &str) -> Option<u16> {
    let client = node.anonymous();
    client.try_send(client.request(Method::GET, path)).await.ok().map(|answer| answer.status.as_u16())
}
