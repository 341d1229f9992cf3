//! Tests against a real PostgreSQL, in addition to the conformance suite.

#![allow(clippy::unwrap_used)]

use zeroize::Zeroizing;

use super::fixture::PostgresServer;
use super::{Postgres, PostgresSettings};
use crate::engine::{Engine, EngineError, EngineTls};
use testkit::authority::Authority;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

/// Retries until there is an answer: the server may be slow while other tests run.
fn answer<T>(mut ask: impl AsyncFnMut() -> Result<T, EngineError>) -> Result<T, EngineError> {
    block_on(async {
        loop {
            match ask().await {
                Err(EngineError::Away(_)) => {}
                answer => return answer,
            }
        }
    })
}

#[test]
fn a_server_that_may_lose_commits_is_refused_at_the_start() {
    let Some(server) = PostgresServer::start(&["synchronous_commit=off"]) else { return };
    let engine = server.engine();
    match answer(async || engine.probe().await) {
        Err(EngineError::Refused(error)) => {
            assert!(error.to_string().contains("set synchronous_commit = on"), "{error}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_wrong_password_is_refused_and_a_server_that_is_not_there_is_away() {
    let Some(mut server) = PostgresServer::start(&[]) else { return };
    let engine = |url: String| Postgres::new(&PostgresSettings { url, tls: None, quota_bytes: 1 << 30 }).unwrap();
    for right in [engine(server.url()), engine(server.url())] {
        answer(async || right.probe().await).unwrap();
        let room = answer(async || right.room().await).unwrap();
        assert!(room.used_bytes > 1_000_000 && !room.is_full(), "{room:?}");
    }
    let wrong = engine(server.url().replace("only-for-tests", "wrong"));
    match answer(async || wrong.shards().await) {
        Err(EngineError::Refused(error)) => assert!(error.to_string().contains("password"), "{error}"),
        other => panic!("{other:?}"),
    }
    server.kill();
    assert!(matches!(block_on(engine(server.url()).shards()), Err(EngineError::Away(_))));
    for url in ["no url", "http://127.0.0.1/x"] {
        let settings = PostgresSettings { url: url.to_owned(), tls: None, quota_bytes: 1 << 30 };
        assert!(matches!(Postgres::new(&settings), Err(EngineError::Refused(_))), "{url}");
    }
}

#[test]
fn with_tls_the_server_and_its_name_are_checked_and_we_show_our_certificate() {
    let (authority, other) = (Authority::new("ours"), Authority::new("other"));
    let issued = authority.issue(&["127.0.0.1"]);
    let files = [
        ("ca.pem", authority.certificate.as_str()),
        ("cert.pem", &issued.certificate),
        ("key.pem", &issued.key),
        ("hba", "hostssl all all 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n"),
    ];
    // Relative to the data folder, except the last, which is relative to the server's folder.
    let flags =
        ["ssl=on", "ssl_ca_file=../ca.pem", "ssl_cert_file=../cert.pem", "ssl_key_file=../key.pem", "hba_file=hba"];
    let Some(server) = PostgresServer::start_with(&files, flags.map(str::to_owned).into()) else { return };
    let engine =
        |url: String, tls: Option<EngineTls>| Postgres::new(&PostgresSettings { url, tls, quota_bytes: 1 << 30 });
    let tls = |authority: &Authority, identity: Option<&Authority>| {
        let identity = identity.map(|issuer| issuer.issue_for_client("lockkeeper"));
        let identity =
            identity.map(|issued| (issued.certificate.into_bytes(), Zeroizing::new(issued.key.into_bytes())));
        Some(EngineTls { authority: authority.certificate.clone().into_bytes(), identity })
    };
    for url in [server.url(), format!("{}?sslmode=verify-full", server.url())] {
        let encrypted = engine(url, tls(&authority, Some(&authority))).unwrap();
        answer(async || encrypted.probe().await).unwrap();
    }
    let asked = |url, tls| block_on(engine(url, tls).unwrap().shards());
    let another_name = server.url().replace("127.0.0.1", "localhost");
    for (url, tls) in [
        (server.url(), tls(&other, Some(&authority))),
        (another_name, tls(&authority, Some(&authority))),
        (server.url(), tls(&authority, None)),
        (server.url(), tls(&authority, Some(&other))),
        (server.url(), None),
    ] {
        assert!(asked(url, tls).is_err());
    }
    let refusal = |made: Result<Postgres, EngineError>| match made {
        Err(EngineError::Refused(error)) => error.to_string(),
        _ => panic!("taken"),
    };
    let unchecked = refusal(engine(format!("{}?sslmode=require", server.url()), None));
    assert!(unchecked.contains("cluster.engine_ca"), "{unchecked}");
    let no_certificate = EngineTls { authority: b"text".to_vec(), identity: None };
    assert!(refusal(engine(server.url(), Some(no_certificate))).contains("no certificate in PEM"));
}
