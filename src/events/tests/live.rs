//! Audits while events are recorded, sealed, dropped and archived.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::*;

/// Enough for the end to move during most of the audits.
const AUDITS: u64 = 300;
/// Rounds of the writer between two sweeps, so that there are events to drop.
const ROUNDS_PER_SWEEP: u64 = 50;

fn acme() -> Identifier {
    identifier("acme")
}

#[derive(Default)]
struct Progress {
    stop: AtomicBool,
    audits: AtomicU64,
    dropped: AtomicU64,
}

/// Records, seals and sweeps until told to stop. Returns the number of events. Sweeps once per audit: a server sweeps
/// far less often, and an audit that is disturbed repeatedly gives up.
async fn write(store: Arc<MemoryStore>, events: Events, progress: Arc<Progress>) -> u64 {
    let long = Duration::from_secs(1_000_000);
    let retention = Retention { max_events: 300, max_age: long, max_security_events: 64, security_max_age: long };
    let mut sweeper = Sweeper::new(events.clone(), retention);
    let mut sealer = Sealer::new(events).unwrap();
    let (mut round, mut swept_during) = (0, None);
    while !progress.stop.load(Ordering::Relaxed) {
        round += 1;
        happen(&store, "acme", EventType::SessionClaimed);
        happen(&store, "acme", EventType::MemberAdded);
        sealer.seal().await.unwrap();
        let audit = Some(progress.audits.load(Ordering::Relaxed));
        if round % ROUNDS_PER_SWEEP == 0 && audit != swept_during {
            let dropped = sweeper.sweep(Timestamp::from_millis(5), |_| None).await.unwrap();
            progress.dropped.fetch_add(dropped, Ordering::Relaxed);
            swept_during = audit;
        }
    }
    2 * round
}

#[test]
fn a_chain_that_grows_and_loses_its_oldest_events_meanwhile_is_intact() {
    let store = Arc::new(MemoryStore::new());
    let events = Events::new(store.clone()).with_key(AuditKey::new([7; 32]));
    let progress = Arc::new(Progress::default());
    let writing = write(store.clone(), events.clone(), progress.clone());
    let writer =
        std::thread::spawn(move || tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(writing));
    let mut heads = Vec::new();
    while progress.audits.load(Ordering::Relaxed) < AUDITS || progress.dropped.load(Ordering::Relaxed) < 1_000 {
        let report = events.audit(&acme(), &heads).unwrap();
        assert_eq!(report.fault, None);
        assert!(report.expected.iter().all(|(_, found)| *found != ExpectationStatus::Absent), "{:?}", report.expected);
        heads = report.head.into_iter().collect();
        progress.audits.fetch_add(1, Ordering::Relaxed);
    }
    progress.stop.store(true, Ordering::Relaxed);
    assert!(writer.join().unwrap() > 1_000);
}
