//! Requests that one node forwards to another: unchanged, signed, each once, and without loops.

use std::sync::Arc;

use parking_lot::Mutex;
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::postgres::PostgresServer;
use crate::support::waiting::until;
use crate::support::wire::{Wire, head};
use crate::support::{Answer, Server, Setup};

const KEY: &str = super::nodes::MASTER_KEY;

/// Two nodes: the owner of the sample's shard, and another one.
struct Pair {
    owner: Server,
    other: Server,
    _postgres: PostgresServer,
}

fn setup(postgres: &PostgresServer, name: &str) -> Setup {
    let setup = Setup::default().settings("[cluster]\nshards = 1\n").variable("LOCKKEEPER_MASTER_KEY", KEY);
    let setup = setup.variable("LOCKKEEPER_CLUSTER_ENGINE", "postgres").variable("LOCKKEEPER_CLUSTER_NODE", name);
    setup.variable("LOCKKEEPER_CLUSTER_POSTGRES", &postgres.url())
}

async fn until_ready(node: &Server) {
    let client = node.anonymous();
    let is_ready = async || client.send(client.request(Method::GET, "/readyz")).await.status == 200;
    until("the node is ready", is_ready).await;
}

impl Pair {
    /// `None` if PostgreSQL is not installed. The first node starts alone, and keeps the only shard for a minute.
    async fn start(advertise: Option<&str>) -> Option<Self> {
        Self::start_with(advertise, |other| other).await
    }

    async fn start_with(advertise: Option<&str>, change_other: impl FnOnce(Setup) -> Setup) -> Option<Self> {
        let postgres = PostgresServer::start()?;
        let owner = setup(&postgres, "n1");
        let owner = match advertise {
            Some(url) => owner.variable("LOCKKEEPER_CLUSTER_ADVERTISE", url),
            None => owner,
        };
        let owner = owner.start();
        until_ready(&owner).await;
        let other = change_other(setup(&postgres, "n2")).start();
        until_ready(&other).await;
        Some(Self { owner, other, _postgres: postgres })
    }
}

async fn exchange(server: &Server, request: &str) -> Answer {
    let mut wire = Wire::open(server).await;
    wire.send(request).await;
    wire.answer().await.unwrap()
}

/// The number of requests that a node received, from clients and other nodes.
async fn requests(node: &Server) -> u64 {
    let client = node.admin();
    let metrics = client.send(client.request(Method::GET, "/metrics")).await.ok().text;
    let counts = metrics.lines().filter(|line| line.starts_with("lockkeeper_http_requests_total{"));
    counts
        .filter(|line| !line.contains("/metrics"))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

#[tokio::test]
async fn a_request_reaches_the_owner_as_the_client_sent_it() {
    let Some(pair) = Pair::start(None).await else { return };
    let organization = "/api/v1/organizations/acme";
    let environments = format!("{organization}/pipelines/web/ephemeral-environments");
    for target in [
        format!("{organization}/events?type=it's"),
        format!("{organization}/events?type='&type=%27"),
        format!("{environments}?label=it's"),
        format!("{environments}/it's"),
        format!("{environments}/../ephemeral-environments/review-1"),
        format!("{environments}/./review-1"),
        format!("{environments}/%2e%2e/review-1"),
        format!("{environments}//review-1"),
        format!("{environments}/review-1?"),
        format!("{environments}/review-1?a={{|}}&b=\\^"),
        format!("{environments}/review-1?a=`\""),
        format!("{environments}/rev%69ew-1"),
        format!("{environments}/review-1/history?limit=2&cursor=it's"),
    ] {
        let request = format!("{}\r\n", head("GET", &target));
        let (direct, before) = (exchange(&pair.owner, &request).await, requests(&pair.owner).await);
        let passed_on = exchange(&pair.other, &request).await;
        assert_eq!(passed_on.status, direct.status, "{target}: {passed_on:?}");
        assert!(direct.status.as_u16() < 500, "{direct:?}");
        if direct.text.is_empty() {
            // Not HTTP: refused before anything is forwarded.
            continue;
        }
        let said = |answer: &Answer| {
            let mut said = answer.json();
            said["requestId"].take();
            said
        };
        assert_eq!(said(&passed_on), said(&direct), "{target}");
        // A path that no node knows is not forwarded.
        let sent = requests(&pair.owner).await - before;
        assert_eq!(sent, u64::from(direct.json()["code"] != "route_not_found"), "{target}");
    }
    // With a chunked body.
    let claim = format!("{environments}/review-1/sessions?");
    let chunked = head("POST", &claim) + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let claimed = exchange(&pair.other, &(chunked + "8\r\n{\"contex\r\n8\r\nt\":\"it's\r\n2\r\n\"}\r\n0\r\n\r\n"))
        .await
        .created();
    assert_eq!(claimed.data()["context"], "it's");
}

/// A relay in front of the owner, which records the other node's requests, and can change them.
#[derive(Clone, Default)]
struct Relay {
    seen: Arc<Mutex<Vec<u8>>>,
    change: Arc<Mutex<Option<(&'static str, &'static str)>>>,
}

impl Relay {
    async fn before_owner() -> Option<(Self, Pair)> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (relay, pair) = (Relay::default(), Pair::start(Some(&url)).await?);
        let (relaying, port) = (relay.clone(), pair.owner.port());
        tokio::spawn(async move {
            while let Ok((from, _)) = listener.accept().await {
                let to = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                tokio::spawn(relaying.clone().pass(from, to));
            }
        });
        Some((relay, pair))
    }

    async fn pass(self, from: TcpStream, to: TcpStream) {
        let ((mut from_node, mut to_node), (mut from_owner, mut to_owner)) = (from.into_split(), to.into_split());
        tokio::spawn(async move { tokio::io::copy(&mut from_owner, &mut to_node).await });
        let mut piece = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from_node.read(&mut piece).await {
            let mut text = String::from_utf8(piece[..count].to_vec()).unwrap();
            if let Some((sent, changed)) = *self.change.lock() {
                text = text.replace(sent, changed);
            }
            self.seen.lock().extend_from_slice(text.as_bytes());
            to_owner.write_all(text.as_bytes()).await.unwrap();
        }
    }

    fn seen(&self) -> String {
        String::from_utf8(self.seen.lock().clone()).unwrap()
    }

    fn requests(&self) -> usize {
        self.seen().matches("lockkeeper-via: ").count()
    }
}

#[tokio::test]
async fn what_was_overheard_between_nodes_cannot_be_sent_again() {
    let Some((relay, pair)) = Relay::before_owner().await else { return };
    let claimed = pair.other.admin().claim("review-1", json!({ "context": "overheard" })).await.created();
    let overheard = relay.seen();
    let request = &overheard[overheard.rfind("POST /api/v1/organizations/acme/pipelines/web").unwrap()..];
    assert!(request.contains("lockkeeper-via: n2 ") && request.ends_with("{\"context\":\"overheard\"}"), "{request}");
    let owner = pair.owner.admin();
    owner.release("review-1", &claimed.session()).await.has_status(200);
    let again = exchange(&pair.owner, request).await.refused(421, "not_the_owner");
    assert_eq!(again.header("lockkeeper-via-refused"), "seen");
    assert!(pair.owner.log().contains("it has come before"), "{}", pair.owner.log());
    assert_eq!(owner.environment("review-1").await.ok().data()["lockStatus"], "unlocked");
}

#[tokio::test]
async fn a_request_that_was_changed_between_nodes_is_refused_and_sent_once() {
    let Some((relay, pair)) = Relay::before_owner().await else { return };
    let (owner, other) = (pair.owner.admin(), pair.other.admin());
    // Lets the nodes learn each other's time.
    other.environment("review-1").await.ok();
    *relay.change.lock() = Some(("review-1", "review-2"));
    let before = relay.requests();
    let refused = other.claim("review-1", json!({})).await.refused(503, "engine_unavailable");
    assert_eq!(relay.requests() - before, 1, "{refused:?}");
    for (log, node) in [(pair.owner.log(), "the owner"), (pair.other.log(), "the other")] {
        assert!(log.contains("LOCKKEEPER_MASTER_KEY must be the same on all nodes"), "{node}: {log}");
    }
    *relay.change.lock() = Some(("a context", "no context"));
    other.claim("review-1", json!({ "context": "a context" })).await.refused(400, "bad_request");
    for environment in ["review-1", "review-2"] {
        assert_eq!(owner.environment(environment).await.ok().data()["lockStatus"], "unlocked");
    }
}

#[tokio::test]
async fn nodes_whose_clocks_are_an_hour_apart_pass_requests_on() {
    let Some(pair) = Pair::start_with(None, |other| match faketime() {
        Some(library) => {
            other.variable("LD_PRELOAD", &library).variable("FAKETIME", "-3600").variable("DONT_FAKE_MONOTONIC", "1")
        }
        None => other,
    })
    .await
    else {
        return;
    };
    let before = requests(&pair.owner).await;
    pair.other.admin().environment("review-1").await.ok();
    pair.other.admin().claim("review-1", json!({})).await.created();
    assert!(requests(&pair.owner).await - before <= 3, "one of them was signed again");
}

/// The path of Debian's library that fakes a program's time, if it is installed.
fn faketime() -> Option<String> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.filter_map(Result::ok);
    let mut libraries = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    libraries.find(|library| library.exists()).map(|library| library.display().to_string())
}
