//! Import and export in both directions, on the engine in memory. Despite lost answers and interruptions, everything
//! arrives or the cluster is not ready.

#![allow(clippy::unwrap_used)]

use std::future::Future;
use std::num::NonZeroU16;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use super::record_owner::UnownedRecord;
use super::{ExportError, ImportError, NotReady, Target, Totals, export, give_up, import, ready};
use accounts::secrets::{self, FoundAuditKey, MasterKey};
use domain::Identifier;
use events::{Events, SealStatus, Sealer};
use store::engine::memory::{Cluster, Faults, MemoryEngine};
use store::engine::{ClusterRecord, ClusterState, Engine, Owner, Pairs, Shard};
use store::{
    Batch, EngineOptions, EngineStore, FORMAT_NUMBER, LoggedStore, MIN_SEGMENT_BYTES, MemoryStore, Options, Sequence,
    Store, StoreError, commit_durably, end_of_prefix,
};

const ORGANIZATIONS: [&str; 5] = ["acme", "initech", "team-1", "umbrella", "hooli"];
const LOSSY: Faults = Faults {
    lost_before_percent: 10,
    lost_after_percent: 10,
    late_percent: 5,
    delays: 2,
    is_away: false,
    refuses_compares: false,
};
/// Each request takes several steps, so that it can be interrupted between any two.
const SLOW: Faults = Faults { lost_before_percent: 0, lost_after_percent: 0, late_percent: 0, ..LOSSY };

fn master() -> MasterKey {
    MasterKey::parse(&"1".repeat(64)).unwrap()
}

/// Records and events of several organizations, under keys that name them, and some that belong to all.
async fn source() -> MemoryStore {
    let store = MemoryStore::new();
    for number in 0..90u32 {
        let mut batch = Batch::default();
        for organization in ORGANIZATIONS {
            batch.put(format!("P/{organization}/{number}").into_bytes(), number.to_be_bytes().repeat(50));
            batch.append(organization, number.to_be_bytes());
        }
        commit_durably(&store, batch).await.unwrap();
    }
    let mut batch = Batch::default();
    batch.put([&b"TR/"[..], &[7; 32]].concat(), b"revoked");
    commit_durably(&store, batch).await.unwrap();
    secrets::audit_key(&store, &master()).await.unwrap();
    store
}

fn target<E: Engine>(engine: &E, shards: u16, run: u128) -> Target<'_, E> {
    let owner = Owner { node: "import".to_owned(), url: String::new(), run };
    let shards = NonZeroU16::new(shards).unwrap();
    Target { engine, shards, key: master().short_hash(), owner, millis: 1_000 }
}

fn engine(cluster: &Arc<Cluster>, faults: Faults) -> MemoryEngine {
    MemoryEngine::of(cluster, 7, faults)
}

fn all(store: &dyn Store) -> Pairs {
    store.scan(b"", &end_of_prefix(b""), usize::MAX).unwrap().into_iter().collect()
}

fn options() -> Options {
    Options { segment_bytes: MIN_SEGMENT_BYTES, min_free_bytes: 0, ..Options::default() }
}

/// Exports the cluster and opens the new data directory.
async fn exported(engine: &MemoryEngine, home: &Path) -> LoggedStore {
    let to = home.join(ambient::entropy::run().to_string());
    export(engine, &master(), (&to, 0, options()), |_| ()).await.unwrap();
    LoggedStore::open(&to, options()).unwrap()
}

async fn shards_of(engine: &MemoryEngine) -> Vec<(Shard, Pairs)> {
    let mut shards = Vec::new();
    for number in 0..32 {
        shards.extend(engine.copy(number).await.unwrap());
    }
    shards
}

#[tokio::test(start_paused = true)]
async fn everything_arrives_in_any_number_of_shards_and_comes_back_whatever_answers_are_lost() {
    let (store, home) = (source().await, tempfile::tempdir().unwrap());
    let (mut expected, mut last) = (all(&store), store.handed_in());
    let mut source: Box<dyn Store> = Box::new(store);
    for shards in [1, 4, 7, 16, 3] {
        let cluster = Arc::new(Cluster::default());
        let lossy = engine(&cluster, LOSSY);
        let mut told = 0;
        let totals = import(&target(&lossy, shards, 1), &*source, |_| told += 1).await.unwrap();
        assert_eq!((totals.organizations.len(), totals.records, totals.left_out), (5, expected.len() as u64, 0));
        assert!(told > 0);
        let engine = engine(&cluster, Faults::default());
        let found = shards_of(&engine).await;
        assert_eq!(found.len(), usize::from(shards));
        // Each shard has the records that belong to all; each other record is in one shard.
        let count: usize = found.iter().map(|(_, pairs)| pairs.len()).sum();
        assert_eq!(count, expected.len() + 2 * (usize::from(shards) - 1));
        assert!(
            found.iter().all(|(shard, _)| shard.owner.is_none() && shard.sequence == last && shard.millis == 1_000)
        );
        let back = exported(&engine, home.path()).await;
        assert_eq!(all(&back), expected);
        assert_eq!(back.handed_in(), last);
        // The next event continues the journal.
        let mut batch = Batch::default();
        batch.append("acme", b"more");
        commit_durably(&back, batch).await.unwrap();
        (expected, last) = (all(&back), back.handed_in());
        source = Box::new(back);
    }
    let events = Events::new(Arc::from(source));
    for organization in events.organizations().unwrap() {
        assert!(events.audit(&organization, &[]).unwrap().is_intact(), "{organization}");
    }
}

/// Polls `work` for this many steps, then drops it, as if the process had been killed.
async fn interrupted<T>(steps: usize, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    for _ in 0..steps {
        let polled = std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
        if let Poll::Ready(done) = polled {
            return Some(done);
        }
        tokio::task::yield_now().await;
    }
    None
}

#[tokio::test(start_paused = true)]
async fn wherever_an_import_is_killed_the_cluster_is_not_whole_and_the_next_one_makes_it_so() {
    let (store, home) = (source().await, tempfile::tempdir().unwrap());
    let expected = all(&store);
    let (mut killed, mut steps) = (0, 1);
    loop {
        let cluster = Arc::new(Cluster::default());
        let slow = engine(&cluster, SLOW);
        if let Some(done) = interrupted(steps, import(&target(&slow, 4, 1), &store, |_| ())).await {
            done.unwrap();
            break;
        }
        let engine = engine(&cluster, Faults::default());
        let standing = ready(&engine, master().short_hash()).await;
        match standing {
            // The last step has been executed; only its answer was not received.
            Ok(_) => assert!(killed > 15),
            Err(error) => {
                assert!(matches!(error, NotReady::Filling | NotReady::Missing), "{error}");
                let refused = export(&engine, &master(), (&home.path().join("none"), 0, options()), |_| ()).await;
                assert!(matches!(refused, Err(ExportError::NotReady(_))) && !home.path().join("none").exists());
                // With another number of shards, nothing is left in the surplus ones.
                import(&target(&engine, 3, 2), &store, |_| ()).await.unwrap();
                let elsewhere = shards_of(&engine).await.into_iter().filter(|(shard, _)| shard.number >= 3);
                assert_eq!(elsewhere.map(|(_, pairs)| pairs.len()).sum::<usize>(), 0);
            }
        }
        assert_eq!(all(&exported(&engine, home.path()).await), expected);
        killed += 1;
        steps = steps * 9 / 8 + 1;
    }
    assert!(killed > 15, "{killed}");
}

#[tokio::test(start_paused = true)]
async fn an_import_that_is_given_up_leaves_an_empty_cluster() {
    let store = source().await;
    let mut steps = 10;
    let engine = loop {
        let engine = engine(&Arc::new(Cluster::default()), SLOW);
        assert!(matches!(give_up(&engine).await, Err(ImportError::NothingToGiveUp)));
        assert!(interrupted(steps, import(&target(&engine, 4, 1), &store, |_| ())).await.is_none(), "{steps}");
        // Interrupted in the middle.
        if shards_of(&engine).await.iter().any(|(_, pairs)| !pairs.is_empty()) {
            break engine;
        }
        steps += 5;
    };
    give_up(&engine).await.unwrap();
    assert!(shards_of(&engine).await.is_empty());
    assert_eq!(engine.cluster().await.unwrap(), None);
    assert!(matches!(ready(&engine, 1).await, Err(NotReady::Missing)));
    import(&target(&engine, 2, 3), &store, |_| ()).await.unwrap();
    assert!(matches!(give_up(&engine).await, Err(ImportError::NothingToGiveUp)), "it has finished");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_has_data_is_refused_and_stays_as_it_was() {
    let store = source().await;
    let cluster = Arc::new(Cluster::default());
    let engine = engine(&cluster, Faults::default());
    import(&target(&engine, 4, 1), &store, |_| ()).await.unwrap();
    let before = shards_of(&engine).await;
    assert!(matches!(import(&target(&engine, 4, 2), &store, |_| ()).await, Err(ImportError::NotEmpty)));
    let record = engine.cluster().await.unwrap().unwrap();
    let rotating = ClusterRecord { state: ClusterState::Rotating { from: 1, run: Some(9) }, ..record };
    assert!(engine.replace(&record, Some(&rotating)).await.unwrap());
    let refused = import(&target(&engine, 4, 2), &store, |_| ()).await;
    assert!(matches!(refused, Err(ImportError::NotReady(NotReady::Rotating))));
    // Somebody has removed the cluster's record.
    assert!(engine.replace(&rotating, None).await.unwrap());
    let refused = import(&target(&engine, 4, 2), &store, |_| ()).await;
    assert!(matches!(refused, Err(ImportError::LeftOver { shard: 0 })));
    assert_eq!(shards_of(&engine).await, before);
}

#[tokio::test(start_paused = true)]
async fn of_two_imports_at_once_at_most_one_finishes_and_its_data_is_whole() {
    let store = source().await;
    for pause in [0, 20, 100, 300, 1_000] {
        let cluster = Arc::new(Cluster::default());
        let (first, second) = (engine(&cluster, SLOW), engine(&cluster, SLOW));
        let (first, second) = (target(&first, 4, 1), target(&second, 4, 2));
        let later = async {
            for _ in 0..pause {
                tokio::task::yield_now().await;
            }
            import(&second, &store, |_| ()).await
        };
        let outcomes = tokio::join!(import(&first, &store, |_| ()), later);
        let stopped = |outcome: &Result<Totals, ImportError>| {
            matches!(outcome, Err(ImportError::Replaced | ImportError::NotEmpty))
        };
        let finished = [&outcomes.0, &outcomes.1].into_iter().filter(|outcome| outcome.is_ok()).count();
        assert!(
            finished <= 1 && [&outcomes.0, &outcomes.1].into_iter().all(|o| o.is_ok() || stopped(o)),
            "{outcomes:?}"
        );
        let engine = engine(&cluster, Faults::default());
        assert_eq!(ready(&engine, master().short_hash()).await.is_ok(), finished == 1);
        if finished == 0 {
            import(&target(&engine, 4, 3), &store, |_| ()).await.unwrap();
        }
        let home = tempfile::tempdir().unwrap();
        assert_eq!(all(&exported(&engine, home.path()).await), all(&store));
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_stood_still_while_another_finished_changes_nothing() {
    let (store, other) = (source().await, MemoryStore::new());
    for gives_up in [true, false] {
        for steps in (1..400).step_by(9) {
            let cluster = Arc::new(Cluster::default());
            let slow = engine(&cluster, SLOW);
            interrupted(60, import(&target(&slow, 4, 1), &store, |_| ())).await;
            let late = target(&slow, 4, 2);
            let mut late = pin!(async {
                if gives_up { give_up(&slow).await } else { import(&late, &other, |_| ()).await.map(drop) }
            });
            if interrupted(steps, late.as_mut()).await.is_some() {
                break;
            }
            let engine = engine(&cluster, Faults::default());
            import(&target(&engine, 4, 3), &store, |_| ()).await.unwrap();
            let pairs = async || shards_of(&engine).await.into_iter().map(|(_, pairs)| pairs).collect::<Vec<_>>();
            let whole = pairs().await;
            let refused = late.await.unwrap_err();
            let late = matches!(refused, ImportError::Replaced | ImportError::NotEmpty | ImportError::NothingToGiveUp);
            assert!(late, "after {steps} steps: {refused}");
            assert!(pairs().await == whole, "data was changed after {steps} steps");
            ready(&engine, master().short_hash()).await.unwrap();
        }
    }
}

/// Both imports have the same key and number of shards, so a ready cluster does not show which one filled it.
#[tokio::test(start_paused = true)]
async fn an_import_that_is_replaced_in_its_last_steps_says_so() {
    let (store, other) = (source().await, MemoryStore::new());
    let first = async |steps: usize| {
        let cluster = Arc::new(Cluster::default());
        let slow = engine(&cluster, SLOW);
        let late = target(&slow, 4, 1);
        let mut late = pin!(import(&late, &store, |_| ()));
        if interrupted(steps, late.as_mut()).await.is_some() {
            return false;
        }
        let engine = engine(&cluster, Faults::default());
        let second = import(&target(&engine, 4, 2), &other, |_| ()).await;
        match (second, late.await) {
            // An import that had not begun finds a cluster with data.
            (Ok(_), Err(ImportError::Replaced | ImportError::NotEmpty)) | (Err(ImportError::NotEmpty), Ok(_)) => true,
            outcomes => panic!("after {steps} steps: {outcomes:?}"),
        }
    };
    let mut all = 1;
    while first(all).await {
        all += 16;
    }
    for steps in all - 32..all {
        first(steps).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_without_room_is_emptied_and_the_history_of_an_attempt_forgotten() {
    let store = source().await;
    for gives_up in [true, false] {
        let cluster = Arc::new(Cluster::default());
        let engine = engine(&cluster, SLOW);
        let mut steps = 10;
        while shards_of(&engine).await.iter().all(|(_, pairs)| pairs.is_empty()) {
            assert!(interrupted(steps, import(&target(&engine, 4, 1), &store, |_| ())).await.is_none(), "{steps}");
            steps += 5;
        }
        let written = shards_of(&engine).await.into_iter().map(|(shard, _)| shard.version).max().unwrap();
        if gives_up {
            cluster.set_full(true);
            let refused = import(&target(&engine, 4, 2), &store, |_| ()).await.unwrap_err();
            assert!(refused.to_string().contains("--give-up") && refused.to_string().contains("etcdctl defrag"));
            give_up(&engine).await.unwrap();
            assert!(shards_of(&engine).await.is_empty() && engine.cluster().await.unwrap().is_none());
            assert!(cluster.forgotten() >= written);
            cluster.set_full(false);
        }
        import(&target(&engine, 4, 3), &store, |_| ()).await.unwrap();
        assert!(cluster.forgotten() >= written);
    }
}

/// Each sentence names a command, a setting or a thing to check.
#[test]
fn every_sentence_says_what_to_do() {
    use store::engine::EngineError;
    use store::record::{Fault, RecordError};
    let store = || StoreError::Read("lost".to_owned());
    let engine = || EngineError::Away("gone".to_owned());
    let record = || RecordError { kind: "session", fault: Fault::Empty };
    let key = || "P/1".to_owned();
    let acme = Identifier::parse("acme").unwrap();
    let sentences: [(String, &str); 23] = [
        (ImportError::Engine(engine()).to_string(), "--give-up"),
        (ImportError::Full.to_string(), "import again"),
        (ImportError::FullToGiveUp.to_string(), "run this command again"),
        (ImportError::NotEmpty.to_string(), "import into an empty one"),
        (ImportError::LeftOver { shard: 3 }.to_string(), "import into an empty one"),
        (ImportError::Replaced.to_string(), "lockkeeper cluster status"),
        (ImportError::NothingToGiveUp.to_string(), "start its nodes"),
        (ImportError::Store(store()).to_string(), "run the import again"),
        (
            ImportError::Unowned(UnownedRecord::Kind { key: key() }).to_string(),
            "use that one; then run the import again",
        ),
        (ImportError::Unowned(UnownedRecord::Name { key: key() }).to_string(), "restore a backup"),
        (ImportError::Unowned(UnownedRecord::Value { key: key(), error: record() }).to_string(), "restore a backup"),
        (ImportError::Incomplete(3).to_string(), "run the import again"),
        (ExportError::Engine(engine()).to_string(), "run the command again"),
        (ExportError::Store(store()).to_string(), "run the command again"),
        (ExportError::Record(record()).to_string(), "the version of its nodes"),
        (ExportError::AuditKey(3).to_string(), "start the nodes"),
        (ExportError::Written.to_string(), "stop all nodes"),
        (ExportError::Twice(acme).to_string(), "restore the engine"),
        (NotReady::Engine(engine()).to_string(), "run the command again"),
        (NotReady::Missing.to_string(), "check cluster.etcd_prefix"),
        (NotReady::Filling.to_string(), "run it again"),
        (NotReady::Rotating.to_string(), "the two exchanged"),
        (NotReady::Format { found: 9 }.to_string(), "use that version"),
    ];
    for (sentence, step) in sentences {
        assert!(sentence.contains(step), "{sentence}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_of_an_unknown_kind_is_not_moved_and_its_cluster_not_whole() {
    let store = source().await;
    let mut batch = Batch::default();
    batch.put(b"zz/acme/1", b"new");
    commit_durably(&store, batch).await.unwrap();
    let engine = engine(&Arc::new(Cluster::default()), Faults::default());
    let refused = import(&target(&engine, 4, 1), &store, |_| ()).await.unwrap_err();
    assert!(refused.to_string().contains("zz/acme/1"), "{refused}");
    assert!(matches!(ready(&engine, master().short_hash()).await, Err(NotReady::Filling)));
}

/// A shard that a node has taken, with its own audit key and sealed events.
async fn sealed_shard(engine: &Arc<MemoryEngine>, number: u16, organization: &str) {
    let owner = Owner { node: "n1".to_owned(), url: String::new(), run: 1 };
    let options = EngineOptions::default();
    let sent = (options.clock)();
    let tenure = engine.take(&Shard::vacant(number), &owner).await.unwrap().unwrap();
    let store = Arc::new(EngineStore::open(engine.clone(), tenure, sent, options).await.unwrap());
    let key = secrets::audit_key(&*store, &master()).await.unwrap();
    let mut sealer = Sealer::new(Events::new(store.clone()).with_key(key)).unwrap();
    for number in 0..100u32 {
        let mut batch = Batch::default();
        batch.append(organization, number.to_be_bytes());
        commit_durably(&*store, batch).await.unwrap();
        if number % 9 == 0 {
            sealer.seal().await.unwrap();
        }
    }
    sealer.seal().await.unwrap();
    store.leave(None);
}

#[tokio::test]
async fn the_seals_of_shards_with_keys_of_their_own_hold_in_the_data_directory() {
    let engine = Arc::new(engine(&Arc::new(Cluster::default()), Faults::default()));
    let state = ClusterState::Ready;
    let shards = NonZeroU16::new(3).unwrap();
    let record = ClusterRecord { format: FORMAT_NUMBER, shards, key: master().short_hash(), state };
    engine.found(&record).await.unwrap();
    for (number, organization) in [(0, "acme"), (1, "initech"), (2, "umbrella")] {
        sealed_shard(&engine, number, organization).await;
    }
    let home = tempfile::tempdir().unwrap();
    let store = Arc::new(exported(&engine, home.path()).await);
    let FoundAuditKey::Key(key) = secrets::find_audit_key(&*store, home.path(), Some(master())).unwrap() else {
        panic!("no audit key")
    };
    let events = Events::new(store.clone()).with_key(key);
    for organization in ["acme", "initech", "umbrella"] {
        let report = events.audit(&Identifier::parse(organization).unwrap(), &[]).unwrap();
        assert!(report.is_intact(), "{organization}: {report:?}");
        assert!(matches!(report.seals, SealStatus::Checked { next: 100, .. }), "{:?}", report.seals);
    }
    assert!(store.handed_in() > Sequence(100));
    let foreign = MasterKey::parse(&"2".repeat(64)).unwrap();
    let refused = export(&*engine, &foreign, (&home.path().join("foreign"), 0, options()), |_| ()).await;
    assert!(matches!(refused, Err(ExportError::NotReady(NotReady::Key))));
}
