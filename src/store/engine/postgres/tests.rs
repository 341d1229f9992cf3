//! Against a real PostgreSQL, beside the conformance of stores.

#![allow(clippy::unwrap_used)]

use super::fixture::PostgresServer;
use super::{Postgres, PostgresSettings};
use crate::store::engine::{Engine, EngineError};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

/// Asks until there is an answer: the server may be slow beside other tests.
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
    let engine = |url: String| Postgres::new(&PostgresSettings { url, quota_bytes: 1 << 30 }).unwrap();
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
        let settings = PostgresSettings { url: url.to_owned(), quota_bytes: 1 << 30 };
        assert!(matches!(Postgres::new(&settings), Err(EngineError::Refused(_))), "{url}");
    }
}
