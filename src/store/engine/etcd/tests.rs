//! Tests of the engine with real etcd members: their limits, TLS, users, space, pages, versions.

#![allow(clippy::unwrap_used)]

use std::net::TcpListener;
use std::num::NonZeroU16;

use prost::Message;
use zeroize::Zeroizing;

use super::fixture::{EtcdServers, SIZED};
use super::members::Members;
use super::messages::Done;
use super::{Credentials, Etcd, EtcdSettings};
use crate::StoreError;
use crate::batch::{Changes, Sequence};
use crate::engine::{
    ClusterRecord, ClusterState, Engine, EngineError, EngineTls, Owner, Pairs, Shard, Tenure, Transaction,
};
use testkit::authority::Authority;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn owner() -> Owner {
    Owner { node: "n1".to_owned(), url: "http://n1:8080".to_owned(), run: 1 }
}

async fn taken(engine: &Etcd) -> Tenure {
    engine.take(&Shard::vacant(0), &owner()).await.unwrap().unwrap()
}

fn puts(keys: impl Iterator<Item = u32>, value: &[u8]) -> Changes {
    keys.map(|key| (key.to_be_bytes().to_vec(), Some(value.to_vec()))).collect()
}

async fn commit(engine: &Etcd, tenure: &mut Tenure, changes: &Changes) -> Result<(), EngineError> {
    let last = Sequence(tenure.shard().sequence.0 + 1);
    engine.commit(tenure, &Transaction { last, millis: 0, changes }).await
}

fn refusal(outcome: Result<impl Sized, EngineError>) -> String {
    match outcome {
        Err(EngineError::Refused(error)) => error.to_string(),
        Err(error @ (EngineError::Away(_) | EngineError::Deposed)) => panic!("{error}"),
        Ok(_) => panic!("not refused"),
    }
}

#[test]
fn limits_that_are_too_low_are_found_at_the_start() {
    for (flags, missing) in [
        (&[][..], Some("--max-txn-ops=4096 --max-request-bytes=4194304")),
        (&["--max-txn-ops=4096"], Some("--max-request-bytes=4194304")),
        (&["--max-txn-ops=4095", "--max-request-bytes=4194304"], Some("--max-txn-ops=4096")),
        (&["--max-txn-ops=4096", "--max-request-bytes=4190000"], Some("--max-request-bytes=4194304")),
        (SIZED, None),
    ] {
        let Some(servers) = EtcdServers::start(1, flags) else { return };
        let probed = block_on(servers.engine().probe());
        match missing {
            Some(missing) => {
                let said = format!("the engine refuses: start the etcd at {} with {missing}", servers.urls()[0]);
                assert_eq!(refusal(probed), said);
            }
            None => probed.unwrap(),
        }
    }
}

#[test]
fn the_largest_transaction_is_taken() {
    let Some(servers) = EtcdServers::start(1, SIZED) else { return };
    let engine = servers.engine();
    block_on(async {
        let mut tenure = taken(&engine).await;
        let limits = engine.limits();
        let most = limits.changes as u32;
        commit(&engine, &mut tenure, &puts(0..most, &[1; 900])).await.unwrap();
        commit(&engine, &mut tenure, &puts(0..1, &vec![1; limits.bytes - 100])).await.unwrap();
        let pairs = engine.load(0, tenure.shard().version).await.unwrap();
        assert_eq!((pairs.len(), pairs[&[0; 4][..]].len()), (most as usize, limits.bytes - 100));
        let refused = commit(&engine, &mut tenure, &puts(0..most + 1, b"1")).await;
        assert!(refusal(refused).contains("too many operations"));
    });
}

#[test]
fn a_shard_is_loaded_in_pages_as_it_was_at_a_version() {
    let Some(servers) = EtcdServers::start(1, SIZED) else { return };
    let engine = servers.engine();
    block_on(async {
        let mut tenure = taken(&engine).await;
        for first in (0..24_000).step_by(4000) {
            commit(&engine, &mut tenure, &puts(first..first + 4000, b"old")).await.unwrap();
        }
        let then = tenure.shard().version;
        let changes = (0..4000u32).map(|key| (key.to_be_bytes().to_vec(), (key % 2 == 0).then(|| b"new".to_vec())));
        commit(&engine, &mut tenure, &changes.collect()).await.unwrap();
        let now = tenure.shard().version;

        let old = engine.load(0, then).await.unwrap();
        assert!(old.keys().cloned().eq((0..24_000u32).map(|key| key.to_be_bytes().to_vec())));
        assert!(old.values().all(|value| value == b"old"));
        let new = engine.load(0, now).await.unwrap();
        assert_eq!((new.len(), new.values().filter(|value| *value == b"new").count()), (22_000, 2000));
        assert_eq!(engine.load(1, now).await.unwrap(), Pairs::new(), "another shard has none of it");

        engine.forget(now).await.unwrap();
        engine.forget(then).await.unwrap();
        assert!(refusal(engine.load(0, then).await).contains("compacted"));
        assert_eq!(engine.load(0, now).await.unwrap(), new);

        // Other shards are still written, and an operator compacts everything but the newest version.
        let other = engine.take(&Shard::vacant(1), &owner()).await.unwrap().unwrap();
        engine.forget(other.shard().version).await.unwrap();
        assert_eq!(engine.load(0, now).await.unwrap(), new, "nothing has changed in it since");
        assert!(refusal(engine.load(0, then).await).contains("compacted"));
    });
}

#[test]
fn a_member_that_does_not_answer_is_passed_over() {
    let Some(servers) = EtcdServers::start(1, SIZED) else { return };
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let members = [vec![format!("http://{closed}")], servers.urls()].concat();
    let engine = Etcd::new(EtcdSettings { members, ..servers.settings() }).unwrap();
    block_on(async {
        engine.probe().await.unwrap();
        assert_eq!(engine.shards().await.unwrap(), []);
        let tenure = taken(&engine).await;
        assert_eq!(engine.shards().await.unwrap(), [tenure.shard().clone()]);
    });
    let engine = Etcd::new(EtcdSettings { members: vec![format!("http://{closed}")], ..servers.settings() }).unwrap();
    for outcome in [block_on(engine.shards()).map(drop), block_on(engine.probe()), block_on(engine.room()).map(drop)] {
        assert!(matches!(&outcome, Err(EngineError::Away(reason)) if reason.contains("refused")), "{outcome:?}");
    }
}

#[test]
fn an_engine_without_room_says_so_and_is_cleared() {
    const QUOTA: &str = "--quota-backend-bytes=20000000";
    let Some(servers) = EtcdServers::start(1, &[SIZED, &[QUOTA]].concat()) else { return };
    let engine = Etcd::new(EtcdSettings { quota_bytes: 20_000_000, ..servers.settings() }).unwrap();
    let state = ClusterState::Filling { run: 7 };
    let filling = ClusterRecord { format: 4, shards: NonZeroU16::MIN, key: 1, state };
    block_on(async {
        engine.found(&filling).await.unwrap();
        let mut tenure = taken(&engine).await;
        let empty = engine.room().await.unwrap();
        assert!(!empty.is_full() && !empty.is_exhausted && empty.used_bytes > 0, "{empty:?}");
        let large = puts(0..1, &vec![1; 3 * 1024 * 1024]);
        let refused = loop {
            if let Err(error) = commit(&engine, &mut tenure, &large).await {
                break error;
            }
        };
        assert!(matches!(refused, EngineError::Refused(StoreError::EngineFull)), "{refused}");
        let full = engine.room().await.unwrap();
        assert!(full.is_full() && full.is_exhausted && full.used_bytes > 10_000_000, "{full:?}");
        // A full etcd accepts deletions.
        assert!(matches!(engine.found(&filling).await, Err(EngineError::Refused(StoreError::EngineFull))));
        assert!(!engine.clear(&ClusterRecord { key: 2, ..filling }).await.unwrap());
        assert!(engine.clear(&filling).await.unwrap() && engine.clear(&filling).await.unwrap());
        assert_eq!((engine.cluster().await.unwrap(), engine.shards().await.unwrap()), (None, Vec::new()));
    });
}

#[test]
fn members_with_certificates_are_checked_and_check_ours() {
    let (authority, other) = (Authority::new("ours"), Authority::new("other"));
    let flags = |dir: &std::path::Path| {
        let issued = authority.issue(&["127.0.0.1"]);
        let file = |name: &str, text: &str| {
            std::fs::write(dir.join(name), text).unwrap();
            dir.join(name).display().to_string()
        };
        let mut flags: Vec<_> = SIZED.iter().map(|flag| (*flag).to_owned()).collect();
        flags.push("--client-cert-auth".to_owned());
        flags.push(format!("--trusted-ca-file={}", file("ca.pem", &authority.certificate)));
        flags.push(format!("--cert-file={}", file("cert.pem", &issued.certificate)));
        flags.push(format!("--key-file={}", file("key.pem", &issued.key)));
        flags
    };
    let Some(servers) = EtcdServers::start_with(1, "https", flags) else { return };
    let shards = |tls| block_on(Etcd::new(EtcdSettings { tls: Some(tls), ..servers.settings() }).unwrap().shards());
    let trusting = |authority: &Authority, identity: Option<&Authority>| {
        let identity = identity.map(|issuer| issuer.issue_for_client("lockkeeper"));
        let identity =
            identity.map(|issued| (issued.certificate.into_bytes(), Zeroizing::new(issued.key.into_bytes())));
        EngineTls { authority: authority.certificate.clone().into_bytes(), identity }
    };
    assert_eq!(shards(trusting(&authority, Some(&authority))).unwrap(), []);
    for refused in [trusting(&authority, None), trusting(&authority, Some(&other)), trusting(&other, Some(&authority))]
    {
        assert!(matches!(shards(refused), Err(EngineError::Away(_))));
    }
    assert!(refusal(Etcd::new(servers.settings())).contains("authority"));
    let unsafe_url = vec!["ftp://127.0.0.1".to_owned()];
    assert!(
        refusal(Etcd::new(EtcdSettings { members: unsafe_url, ..servers.settings() })).contains("begins with http")
    );
    assert!(refusal(Etcd::new(EtcdSettings { members: Vec::new(), ..servers.settings() })).contains("no address"));
}

/// The fields of a request that creates a user, or grants it a role.
#[derive(Clone, PartialEq, Message)]
struct TwoTexts {
    #[prost(string, tag = "1")]
    first: String,
    #[prost(string, tag = "2")]
    second: String,
}

#[test]
fn a_user_is_authenticated_again_when_its_token_is_unknown() {
    let Some(mut servers) = EtcdServers::start(1, SIZED) else { return };
    let engine_of = |servers: &EtcdServers, password: &str| {
        let password = Zeroizing::new(password.to_owned());
        let credentials = Some(Credentials { user: "root".to_owned(), password });
        Etcd::new(EtcdSettings { credentials, ..servers.settings() }).unwrap()
    };
    let engine = engine_of(&servers, "secret");
    assert_eq!(block_on(engine.shards()).unwrap(), [], "nobody asks for a token yet");
    let members = Members::new(&servers.urls(), None, None).unwrap();
    for (path, first, second) in [
        ("/etcdserverpb.Auth/UserAdd", "root", "secret"),
        ("/etcdserverpb.Auth/UserGrantRole", "root", "root"),
        ("/etcdserverpb.Auth/AuthEnable", "", ""),
    ] {
        let question = TwoTexts { first: first.to_owned(), second: second.to_owned() };
        let within = std::time::Duration::from_secs(10);
        block_on(members.ask::<_, Done>(path, question, within)).unwrap();
    }
    block_on(async {
        let refused = engine.take(&Shard::vacant(0), &owner()).await;
        assert!(matches!(refused, Err(EngineError::Away(_))), "it is to be asked again, with a token");
        let tenure = taken(&engine).await;
        assert_eq!(engine.shards().await.unwrap(), [tenure.shard().clone()]);
        assert!(refusal(engine_of(&servers, "wrong").shards().await).contains("invalid user ID or password"));
        assert!(refusal(servers.engine().shards().await).contains("user name is empty"));
    });
    // The member keeps its tokens only in memory.
    servers.kill(0);
    servers.restart(0);
    assert_eq!(block_on(engine.shards()).unwrap().len(), 1);
}
