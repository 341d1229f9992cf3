//! Which events are dropped, and which are never dropped.

use std::time::Duration;

use super::*;

pub const DAY: i64 = 86_400_000;

pub fn sweeper(store: &Arc<MemoryStore>, max_events: u64) -> (Events, Sweeper) {
    let events = Events::new(store.clone());
    let day = Duration::from_millis(DAY as u64);
    let retention = Retention { max_events, max_age: day, max_security_events: 64, security_max_age: 10 * day };
    (events.clone(), Sweeper::new(events, retention))
}

pub async fn sweep(sweeper: &mut Sweeper, now: i64) -> u64 {
    sweeper.sweep(Timestamp::from_millis(now), |_| None).await.unwrap()
}

fn first(events: &Events) -> u64 {
    let acme = identifier("acme");
    let span = events.span(&acme).unwrap();
    for page in 0..span.next.div_ceil(PAGE_ENTRIES) {
        let is_kept = !events.read(&acme, page * PAGE_ENTRIES).unwrap().is_empty();
        assert_eq!(is_kept, page * PAGE_ENTRIES >= span.first, "page {page} of {span:?}");
    }
    assert_eq!(events.list(&acme, &Filter::default(), 0, 1).unwrap().total, span.next - span.first);
    assert_eq!(events.audit(&acme, &[]).unwrap().fault, None);
    span.first
}

#[tokio::test]
async fn beyond_the_number_the_oldest_pages_go_and_never_what_a_crash_may_go_back_to() {
    let store = Arc::new(MemoryStore::new());
    let (events, mut sweeper) = sweeper(&store, 100);
    for _ in 0..1_000 {
        happen(&store, "acme", EventType::SessionClaimed);
    }
    assert_eq!((sweep(&mut sweeper, 5).await, first(&events)), (896, 896));
    assert_eq!((sweep(&mut sweeper, 5).await, first(&events)), (0, 896));
    store.fall_behind(true);
    for _ in 0..1_000 {
        happen(&store, "acme", EventType::SessionClaimed);
    }
    sweep(&mut sweeper, 5).await;
    assert_eq!(first(&events), 992, "the log begins after number 999, whose page is still there");
    sweep(&mut sweeper, 5).await;
    assert_eq!(first(&events), 992, "nothing has been applied since");
    store.fall_behind(false);
    sweep(&mut sweeper, 5).await;
    assert_eq!(first(&events), 1_888);
}

#[tokio::test]
async fn what_is_too_old_goes_when_all_of_its_page_is_but_never_the_newest_page() {
    let store = Arc::new(MemoryStore::new());
    let (events, mut sweeper) = sweeper(&store, 1_000_000);
    for number in 0..100 {
        happen_at(&store, "acme", EventType::SessionClaimed, if number == 40 { DAY } else { 0 });
    }
    sweep(&mut sweeper, DAY).await;
    assert_eq!((sweep(&mut sweeper, DAY).await, first(&events)), (0, 0), "a day old is not too old");
    assert_eq!((sweep(&mut sweeper, DAY + 1).await, first(&events)), (32, 32), "event 40 is younger");
    assert_eq!((sweep(&mut sweeper, 9 * DAY).await, first(&events)), (64, 96));
    assert_eq!((sweep(&mut sweeper, 99 * DAY).await, first(&events)), (0, 96));
    happen_at(&store, "acme", EventType::SecretDeleted, 99 * DAY);
    let newest = events.list(&identifier("acme"), &Filter::default(), 0, 1).unwrap().events;
    assert_eq!((newest[0].id.number, newest[0].event_type), (100, EventType::SecretDeleted));
}

#[tokio::test]
async fn what_somebody_has_still_to_be_told_of_is_held_back_up_to_twice_the_number() {
    let store = Arc::new(MemoryStore::new());
    let (events, mut sweeper) = sweeper(&store, 100);
    for _ in 0..1_000 {
        happen(&store, "acme", EventType::SessionClaimed);
    }
    let now = Timestamp::from_millis(5);
    sweeper.sweep(now, |_| Some(3)).await.unwrap();
    assert_eq!(first(&events), 800);
    sweeper.sweep(now, |_| Some(850)).await.unwrap();
    assert_eq!(first(&events), 832);
    sweeper.sweep(Timestamp::from_millis(9 * DAY), |_| Some(850)).await.unwrap();
    assert_eq!(first(&events), 832, "also where they are too old");
    sweeper.sweep(now, |_| Some(2_000)).await.unwrap();
    assert_eq!(first(&events), 896);
}

#[tokio::test]
async fn an_event_that_was_dropped_is_expired_and_one_that_never_was_is_unknown() {
    let store = Arc::new(MemoryStore::new());
    let (events, mut sweeper) = sweeper(&store, 100);
    for _ in 0..300 {
        happen(&store, "acme", EventType::SessionClaimed);
    }
    let acme = identifier("acme");
    let old = events.read(&acme, 10).unwrap()[0].id;
    sweep(&mut sweeper, 5).await;
    sweep(&mut sweeper, 5).await;
    assert_eq!(events.after(&acme, old).unwrap(), Resumption::Expired);
    assert_eq!(events.get(&acme, old).unwrap(), None);
    let foreign = EventId { number: 250, check: [1; 4] };
    assert_eq!(events.after(&acme, foreign).unwrap(), Resumption::Unknown);
}
