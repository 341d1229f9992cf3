//! Running out of file descriptors: clients may use many, and durable writes must not depend on how many are left.

use std::collections::BTreeMap;
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::support::waiting::until;
use crate::support::wire::{Wire, head, head_of_json};
use crate::support::{Answer, Server, Setup, at};

const IDLE: usize = 200;
const SHORTAGE: &str = "no file descriptors left: raise the limit (ulimit -n) or lower http.max_connections";

#[tokio::test]
async fn idle_connections_beyond_the_limit_on_descriptors_do_not_end_the_server() {
    let setup = Setup::default().under(&["sh", "-c", "ulimit -n 128; exec \"$0\" \"$@\""]);
    let server = setup.variable("LOCKKEEPER_HTTP_MAX_CONNECTIONS", "5000").start();
    let mut wire = Wire::open(&server).await;
    let before = checkpoints(&mut wire).await;
    let address = server.address.trim_start_matches("http://");
    let idle: Vec<_> = (0..IDLE).map(|_| TcpStream::connect(address).unwrap()).collect();
    let path = server.admin().path(&format!("{}/force-claim", at("review-1")));
    while checkpoints(&mut wire).await < before + 3 {
        send(&mut wire, "POST", &path, &json!({ "context": "crowded" })).await.created();
    }
    assert!(!server.log().contains(SHORTAGE), "{}", server.log());
    let lowered = "http.max_connections is lowered to fit the limit on file descriptors";
    assert_eq!(server.log().matches(lowered).count(), 1, "{}", server.log());

    drop(idle);
    server.admin().force_claim("review-1", json!({})).await.created();
    send(&mut wire, "POST", &path, &json!({})).await.created();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_takes_one_descriptor() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const CONNECTIONS: usize = 3_000;
    /// Descriptors that the server may meanwhile open itself.
    const OTHERS: usize = 20;
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let server = Server::start();
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    let before = descriptors();
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut wire = Wire::open(&server).await;
        ask(&mut wire, "/healthz").await.ok();
        idle.push(wire);
    }
    let taken = descriptors() - before;
    assert!((CONNECTIONS..CONNECTIONS + OTHERS).contains(&taken), "{taken} descriptors");
    drop(idle);
    until("they are closed", async || descriptors() <= before + OTHERS).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn without_a_free_descriptor_the_log_goes_on_as_far_as_it_can_and_then_refuses() {
    let server = Server::start();
    let (mut writer, mut wire) = (Wire::open(&server).await, Wire::open(&server).await);
    let path = server.admin().path(&format!("{}/force-claim", at("review-1")));
    send(&mut wire, "POST", &path, &json!({})).await.created();
    let before = checkpoints(&mut wire).await;
    let limit = set_descriptor_limit(&server, Some(0));

    // More than the rest of one segment and the spare one hold.
    let large_path = server.admin().path(&at("large"));
    let writes = tokio::spawn(async move {
        for n in 0..180 {
            let variables: BTreeMap<_, _> = (0..12).map(|name| (format!("V{name}"), format!("{n:04000}"))).collect();
            let large = json!({ "variables": variables });
            let answer = send(&mut writer, "PUT", &large_path, &large).await;
            assert!(answer.status.is_success(), "{answer:?}");
        }
    });
    while ask(&mut wire, "/readyz").await.status.is_success() {
        assert!(!writes.is_finished());
    }
    ask(&mut wire, "/readyz").await.refused(503, "overloaded");
    send(&mut wire, "POST", &path, &json!({})).await.refused(503, "overloaded");
    until("there is a checkpoint", async || checkpoints(&mut wire).await != before).await;
    assert!(!writes.is_finished());
    let log = server.log();
    assert_eq!(log.matches(SHORTAGE).count(), 1, "{log}");
    assert!(!log.contains("disk is full"), "{log}");

    set_descriptor_limit(&server, limit);
    writes.await.unwrap();
    ask(&mut wire, "/readyz").await.ok();
    server.admin().force_claim("review-1", json!({})).await.created();
}

/// Sets the descriptor limit of a running server, which keeps the open ones, and returns the possible maximum.
#[cfg(target_os = "linux")]
fn set_descriptor_limit(server: &Server, current: Option<u64>) -> Option<u64> {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    let pid = Pid::from_raw(server.pid().try_into().unwrap());
    // The server has inherited our maximum.
    let maximum = getrlimit(Resource::Nofile).maximum;
    prlimit(pid, Resource::Nofile, Rlimit { current, maximum }).unwrap().current
}

async fn send(wire: &mut Wire, method: &str, path: &str, body: &Value) -> Answer {
    let body = body.to_string();
    wire.send(head_of_json(method, path, body.len()) + &body).await;
    wire.answer().await.expect("the server lives")
}

async fn ask(wire: &mut Wire, path: &str) -> Answer {
    wire.send(head("GET", path) + "\r\n").await;
    wire.answer().await.expect("the server lives")
}

async fn checkpoints(wire: &mut Wire) -> u64 {
    let metrics = ask(wire, "/metrics").await.ok().text;
    let counted = metrics.lines().find_map(|line| line.strip_prefix("lockkeeper_checkpoints_total "));
    counted.map_or(0, |count| count.parse().unwrap())
}
