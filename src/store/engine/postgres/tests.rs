//! Against a real PostgreSQL, beside the conformance of stores.

#![allow(clippy::unwrap_used)]

use super::fixture::PostgresServer;
use super::{Postgres, PostgresSettings};
use crate::store::engine::{Engine, EngineError};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

#[test]
fn a_server_that_may_lose_commits_is_refused_at_the_start() {
    let Some(server) = PostgresServer::start(&["synchronous_commit=off"]) else { return };
    match block_on(server.engine().probe()) {
        Err(EngineError::Refused(error)) => {
            assert!(error.to_string().contains("set synchronous_commit = on"), "{error}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_wrong_password_is_refused_and_a_server_that_is_not_there_is_away() {
    let Some(mut server) = PostgresServer::start(&[]) else { return };
    let engine = |url: String| Postgres::new(&PostgresSettings { url, quota_bytes: 1 << 30 }).unwrap();
    block_on(engine(server.url()).probe()).unwrap();
    block_on(engine(server.url()).probe()).unwrap();
    let room = block_on(engine(server.url()).room()).unwrap();
    assert!(room.used_bytes > 1_000_000 && !room.is_full(), "{room:?}");
    let wrong = block_on(engine(server.url().replace("only-for-tests", "wrong")).shards());
    match wrong {
        Err(EngineError::Refused(error)) => assert!(error.to_string().contains("password"), "{error}"),
        other => panic!("{other:?}"),
    }
    server.kill();
    assert!(matches!(block_on(engine(server.url()).shards()), Err(EngineError::Away(_))));
    for url in ["", "no url", "http://127.0.0.1/x"] {
        let refused = Postgres::new(&PostgresSettings { url: url.to_owned(), quota_bytes: 1 << 30 });
        let refused = refused.err().map(|error| error.to_string());
        assert!(url.is_empty() || refused.is_some(), "{url}");
    }
}
