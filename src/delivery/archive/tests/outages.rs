//! The writing node and the store, each while the other is down or fails.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};

use super::peer::SmallServer;
use super::*;
use crate::archive::sources::NOT_ASKED_FOR;
use crate::logs::LogOwner;

async fn some_seconds_later() {
    tokio::time::pause();
    tokio::time::advance(NOT_ASKED_FOR).await;
    tokio::time::resume();
}

async fn refusal(node: &TestNode) -> String {
    node.text(&[part("n1", true)]).await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_store_that_fails_is_not_asked_again_for_each_page() {
    let server = SmallServer::empty_store().await;
    let node = TestNode::new("n2", Some(s3(settings(&server.url, ("logs", ""), ("key", "secret")))));
    server.set_down(true);
    assert!(refusal(&node).await.contains("the store of logs does not work"));
    assert_eq!(server.new_gets(), 4, "it is tried again at first");
    for _ in 0..3 {
        assert!(refusal(&node).await.contains("the store of logs does not work"));
    }
    assert_eq!(server.new_gets(), 0);
    some_seconds_later().await;
    let (first, second) = tokio::join!(refusal(&node), refusal(&node));
    assert!(first.contains("does not work") && second.contains("does not work"));
    assert_eq!(server.new_gets(), 1, "one asks for all");
    server.set_down(false);
    assert!(refusal(&node).await.contains("does not work"));
    some_seconds_later().await;
    for _ in 0..2 {
        assert!(refusal(&node).await.contains("does not have it yet"));
        assert_eq!(server.new_gets(), 1);
    }
}

/// The node n1 has written more than it has uploaded; n2 reads its log.
struct Pair {
    _shared: TempDir,
    store: LogStore,
    first: TestNode,
    server: SmallServer,
    /// Whether n1 counts as up.
    lives: Arc<AtomicBool>,
}

impl Pair {
    async fn new() -> Self {
        let shared = tempfile::tempdir().unwrap();
        let store = LogStore::directory(shared.path(), "n1");
        let first = TestNode::new("n1", Some(store.clone()));
        first.write(b"one\n");
        first.until_uploaded().await;
        let server = SmallServer::node(first.logs.clone(), first.file()).await;
        Self { _shared: shared, store, first, server, lives: Arc::new(AtomicBool::new(true)) }
    }

    /// Another node, without any copy.
    fn reader(&self) -> TestNode {
        let (url, lives) = (self.server.url.clone(), self.lives.clone());
        let url_of = move |_: &str| lives.load(Ordering::SeqCst).then(|| url.clone());
        TestNode::among("n2", Some(self.store.clone()), url_of)
    }
}

#[tokio::test]
async fn an_older_object_in_the_store_hides_nothing_of_a_node_that_lives() {
    let (pair, parts) = (Pair::new().await, [part("n1", true)]);
    let reader = pair.reader();
    let mut running = pair.first.begin(ID, b"two\n");
    assert_eq!(reader.text(&parts).await.unwrap(), "one\ntwo\n");
    running.write(AT, b"three\n");
    assert_eq!(reader.text(&parts).await.unwrap(), "one\ntwo\nthree\n", "what was fetched is continued");
    pair.lives.store(false, Ordering::SeqCst);
    assert_eq!(reader.text(&parts).await.unwrap(), "one\ntwo\nthree\n", "the older object takes nothing away");
    assert_eq!(pair.reader().text(&parts).await.unwrap(), "one\n", "the node is gone");
}

#[tokio::test]
async fn without_a_store_a_part_that_was_fetched_while_it_was_written_is_continued() {
    let (pair, parts) = (Pair::new().await, [part("n1", false)]);
    let reader = pair.reader();
    assert_eq!(reader.text(&parts).await.unwrap(), "one\n");
    pair.first.write(b"two\n");
    assert_eq!(reader.text(&parts).await.unwrap(), "one\ntwo\n");
}

#[tokio::test]
async fn the_store_is_asked_for_what_a_living_node_does_not_have_or_does_not_give() {
    let (pair, parts) = (Pair::new().await, [part("n1", true)]);
    pair.server.set_down(true);
    let reader = pair.reader();
    for _ in 0..3 {
        assert_eq!(reader.text(&parts).await.unwrap(), "one\n");
    }
    assert_eq!(pair.server.new_gets(), 1, "it is not asked again at once");
    some_seconds_later().await;
    assert_eq!(reader.text(&parts).await.unwrap(), "one\n");
    assert_eq!(pair.server.new_gets(), 1);
    pair.server.set_down(false);
    pair.first.logs.sweep(|_| LogOwner::Nobody);
    let reader = pair.reader();
    assert_eq!(reader.text(&parts).await.unwrap(), "one\n");
    assert_eq!(pair.server.new_gets(), 1, "it answered that it has nothing");
}

#[tokio::test]
async fn a_part_that_only_a_failing_store_can_have_is_unavailable() {
    let Pair { _shared, first, server, .. } = Pair::new().await;
    first.logs.sweep(|_| LogOwner::Nobody);
    let nowhere = _shared.path().join("not mounted");
    let url_of = move |_: &str| Some(server.url.clone());
    let other = TestNode::among("n2", Some(LogStore::directory(&nowhere, "n2")), url_of);
    let own = TestNode::new("n1", Some(LogStore::directory(&nowhere, "n1")));
    for reader in [other, own] {
        let error = reader.text(&[part("n1", true)]).await.unwrap_err();
        assert!(matches!(error, Unavailable::Store { .. }), "{error}");
    }
    assert_eq!(first.text(&[part("n1", true)]).await.unwrap(), "one\n", "the store has it");
}
