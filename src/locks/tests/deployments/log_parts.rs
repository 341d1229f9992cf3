//! In a cluster, the nodes with parts of a deployment's log are recorded in the batch that begins a stage, and dropped
//! with the deployment.

use super::*;
use crate::{LogKeeper, keys};
use domain::{DroppedLog, IdSeed, LogPart};

struct Keeper {
    node: &'static str,
    uploads: bool,
}

impl LogKeeper for Keeper {
    fn node(&self) -> &str {
        self.node
    }

    fn uploads(&self) -> bool {
        self.uploads
    }

    fn has(&self, organization: &Identifier, _: DeploymentId, _: u32) -> bool {
        *organization == pipeline().organization
    }
}

impl Bench {
    fn on_node(self, node: &'static str, uploads: bool) -> Self {
        self.environments.set_log_keeper(Box::new(Keeper { node, uploads }));
        self
    }

    fn dropped_logs(&self) -> Vec<DroppedLog> {
        let entries = self.environments.dropped_logs(None, 10).unwrap();
        entries.into_iter().map(|entry| entry.log.unwrap()).collect()
    }

    fn log_parts(&self, id: DeploymentId) -> Vec<(u32, String)> {
        let parts = self.environments.log_parts(&pipeline().organization, id).unwrap();
        parts.into_iter().map(|part| (part.number, part.node.to_string())).collect()
    }
}

#[actix::test]
async fn it_is_durable_which_node_has_the_output_of_a_stage_before_there_is_any() {
    let bench = Bench::with_environment().await.on_node("n1", false);
    let (session, id) = bench.deployed(&["build"]).await;
    assert_eq!(bench.log_parts(id), [], "nothing has begun");
    bench.store.hold();
    bench.in_the_background(async move |all| drop(all.ask(&key(), BeginStage(attempt(id))).await)).await;
    assert_eq!(bench.killed(0).on_node("n1", false).log_parts(id), []);
    bench.store.release();
    bench.let_others_run().await;
    assert_eq!(bench.log_parts(id), [(0, "n1".to_owned())]);
    bench.begin(id).await;
    assert_eq!(bench.log_parts(id).len(), 1, "a repeated report");
    bench.fail(id).await;
    // Another node continues the deployment.
    let other = bench.killed(1_000).on_node("n2", false);
    other.retry(&session, id, "build").await.unwrap();
    let second = domain::StageAttempt { attempt: 2, ..attempt(id) };
    other.environments.ask(&key(), BeginStage(second)).await.unwrap();
    assert_eq!(other.log_parts(id), [(0, "n1".to_owned()), (1, "n2".to_owned())]);
}

#[actix::test]
async fn what_may_be_in_the_store_of_logs_is_known_until_it_is_removed_there() {
    for uploads in [false, true] {
        let bench = Bench::over(Arc::new(MemoryStore::new()), 1).on_node("n1", uploads);
        bench.make().await;
        let (session, id) = bench.deployed(&["build"]).await;
        bench.begin(id).await;
        bench.end(id, StageEnd::Succeeded).await;
        bench.release(&session).await.unwrap();
        bench.pipeline.set(Default::default());
        assert_eq!(bench.dropped_logs(), []);
        bench.sessions(16).await;
        assert_eq!((bench.deployment(id), bench.log_parts(id)), (None, vec![]));
        // Dropped logs are also found after the owner has changed.
        let bench = bench.killed(1_000).on_node("n2", uploads);
        let dropped = bench.dropped_logs();
        let part = LogPart { number: 0, node: "n1".into(), in_store: true };
        let log = DroppedLog { organization: pipeline().organization, deployment: id, parts: vec![part] };
        assert_eq!(dropped, if uploads { vec![log.clone()] } else { vec![] });
        bench.environments.log_is_removed(&log).await.unwrap();
        assert_eq!(bench.dropped_logs(), []);
    }
}

#[actix::test]
async fn on_one_machine_nothing_is_recorded_of_parts() {
    let bench = Bench::with_environment().await;
    let (_, id) = bench.deployed(&["build"]).await;
    bench.begin(id).await;
    assert_eq!(bench.store.scan(b"n", b"o", 10).unwrap(), []);
}

#[actix::test]
async fn an_entry_of_a_dropped_log_that_cannot_be_read_hides_no_other() {
    let bench = Bench::with_environment().await;
    let good = |seed| keys::dropped_log(&pipeline().organization, DeploymentId(IdSeed([seed; 12]))).to_vec();
    let part = LogPart { number: 0, node: "n1".into(), in_store: true };
    let mut batch = Batch::default();
    let entries = [good(1), good(2), b"nd/acme/short".to_vec(), good(3)];
    for key in &entries {
        batch.put(key.clone(), records::encode_log_parts(std::slice::from_ref(&part)));
    }
    batch.put(good(2), b"not a record");
    bench.store.commit(batch).unwrap();
    let mut found = Vec::new();
    while let Some(entry) =
        bench.environments.dropped_logs(found.last().map(|(key, _): &(Vec<u8>, _)| &**key), 1).unwrap().pop()
    {
        found.push((entry.key, entry.log.is_ok()));
    }
    let expected = [(good(1), true), (good(2), false), (good(3), true), (b"nd/acme/short".to_vec(), false)];
    assert_eq!(found, expected);
}
