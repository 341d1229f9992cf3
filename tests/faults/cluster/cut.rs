//! Nodes that the network disconnects: from the engine, in one direction or both, and from each other.

use std::net::SocketAddr;

use loadtest::proxy::{From, Network, Proxy};
use serde_json::json;

use super::EXIT_DEPOSED;
use super::etcd::EtcdServers;
use super::nodes::{Nodes, setup};
use crate::support::at;
use crate::support::waiting::{until, until_found};

const ENGINE: &str = "m0";

/// Two nodes with a proxy on every connection.
struct Apart {
    nodes: Nodes,
    network: Network,
    _proxies: Vec<Proxy>,
}

impl Apart {
    async fn start() -> Option<Self> {
        let etcd = EtcdServers::start(1)?;
        let (network, mut proxies, mut nodes) = (Network::default(), Vec::new(), Vec::new());
        let between = runtime_of_its_own();
        for name in ["n1", "n2"] {
            let from = From::Host(name.to_owned());
            let engine = (ENGINE.to_owned(), etcd.addresses()[0]);
            let to_engine = between.spawn(Proxy::start(network.clone(), from, engine)).await.unwrap().unwrap();
            // The node's address is known only once it serves.
            let itself = (name.to_owned(), SocketAddr::from(([127, 0, 0, 1], 9)));
            let to_node = between.spawn(Proxy::start(network.clone(), From::Named, itself)).await.unwrap().unwrap();
            let node = setup(&etcd, name, "").variable("LOCKKEEPER_CLUSTER_ETCD", &to_engine.url());
            let node = node.variable("LOCKKEEPER_CLUSTER_ADVERTISE", &to_node.url());
            let node = node.start();
            to_node.set_target(SocketAddr::from(([127, 0, 0, 1], node.port())));
            nodes.push(node);
            proxies.extend([to_engine, to_node]);
        }
        let nodes = Nodes { nodes, etcd };
        for node in 0..2 {
            nodes.until_ready(node).await;
        }
        Some(Self { nodes, network, _proxies: proxies })
    }

    fn name(node: usize) -> String {
        format!("n{}", node + 1)
    }
}

/// Nodes need the proxies while a test waits for them to start.
fn runtime_of_its_own() -> tokio::runtime::Handle {
    let (sender, handle) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        sender.send(runtime.handle().clone()).unwrap();
        runtime.block_on(std::future::pending::<()>());
    });
    handle.recv().unwrap()
}

#[tokio::test]
async fn an_owner_that_is_cut_off_from_the_engine_is_replaced_and_shows_nothing_old() {
    let Some(mut apart) = Apart::start().await else { return };
    let (owner, other) = (apart.nodes.owner(), apart.nodes.other());
    let held = apart.nodes.admin(owner).claim("review-1", json!({})).await.created();
    for (from, to) in [(Apart::name(owner), ENGINE.to_owned()), (ENGINE.to_owned(), Apart::name(owner))] {
        apart.network.cut(&from, &to);
    }
    let admin = apart.nodes.admin(other);
    let taken = admin.post_with_key(&format!("{}/force-claim", at("review-1")), "k1", json!({})).await.created();
    assert!(taken.data()["fencingToken"].as_u64() > held.data()["fencingToken"].as_u64());
    apart.nodes.admin(owner).environment("review-1").await.refused(503, "engine_unavailable");
    apart.network.heal();
    assert_eq!(apart.nodes.nodes[owner].wait().code(), Some(EXIT_DEPOSED));
    assert_eq!(admin.environment("review-1").await.ok().data()["lock"]["sessionId"], taken.session());
}

#[tokio::test]
async fn a_claim_whose_confirmation_never_reaches_the_owner_is_made_once() {
    let Some(mut apart) = Apart::start().await else { return };
    let (owner, other) = (apart.nodes.owner(), apart.nodes.other());
    let sessions = format!("{}/sessions", at("review-1"));
    // In one direction only: its writes arrive, but it does not receive the answers.
    apart.network.cut(ENGINE, &Apart::name(owner));
    let lost = {
        let (admin, sessions) = (apart.nodes.admin(owner), sessions.clone());
        tokio::spawn(async move { admin.post_with_key(&sessions, "k1", json!({})).await })
    };
    let admin = apart.nodes.admin(other);
    let claimed = until_found("the claim is made", async || {
        let answer = admin.post_with_key(&sessions, "k1", json!({})).await;
        let is_made = answer.status != 503 && !answer.text.contains("idempotency_key_in_flight");
        is_made.then(|| answer.created())
    })
    .await;
    assert_eq!(claimed.data()["fencingToken"], 1, "executed once");
    let told = lost.await.unwrap();
    // The other node's attempt may have come first.
    let in_flight = told.status == 409 && told.text.contains("idempotency_key_in_flight");
    assert!(told.status == 503 || in_flight || told.session() == claimed.session(), "{told:?}");
    apart.network.heal();
    assert_eq!(apart.nodes.nodes[owner].wait().code(), Some(EXIT_DEPOSED));
    assert_eq!(admin.environment("review-1").await.ok().data()["lock"]["sessionId"], claimed.session());
}

#[tokio::test]
async fn an_owner_whose_answers_never_reach_the_other_node_executes_a_claim_once() {
    let Some(apart) = Apart::start().await else { return };
    let (owner, other) = (apart.nodes.owner(), apart.nodes.other());
    let sessions = format!("{}/sessions", at("review-1"));
    apart.network.cut(&Apart::name(owner), &Apart::name(other));
    let asked = {
        let (admin, sessions) = (apart.nodes.admin(other), sessions.clone());
        tokio::spawn(async move { admin.post_with_key(&sessions, "k1", json!({})).await })
    };
    let direct = apart.nodes.admin(owner);
    let is_held = async || !direct.environment("review-1").await.ok().data()["lock"].is_null();
    until("the claim is made", is_held).await;
    // A retry with the key at the owner gets the same answer.
    let again = direct.post_with_key(&sessions, "k1", json!({})).await.created();
    assert_eq!(again.data()["fencingToken"], 1);
    apart.network.heal();
    assert_eq!(asked.await.unwrap().created().session(), again.session());
}
