//! Security events are kept after their pages are dropped, within separate limits.

use super::sweeping::{DAY, sweep};
use super::*;
use crate::archive::{ArchivedEvent, head_key, page_key};
use crate::audit_archive::ArchiveFault;
use std::time::Duration;
use store::journal::Page;

fn acme() -> Identifier {
    identifier("acme")
}

/// A journal with one security event of each class, followed by this many everyday ones.
fn buried(store: &Arc<MemoryStore>, everyday: usize) -> (Events, Sweeper) {
    for event_type in [
        EventType::MemberAdded,
        EventType::TokenCreated,
        EventType::SecretUpdated,
        EventType::WebhookDeleted,
        EventType::SessionOverridden,
        EventType::ApprovalRejected,
    ] {
        happen(store, "acme", event_type);
    }
    (0..everyday).for_each(|_| happen(store, "acme", EventType::SessionClaimed));
    let events = Events::new(store.clone()).with_key(AuditKey::new([7; 32]));
    let retention = Retention {
        max_events: 100,
        max_age: Duration::from_millis(100 * DAY as u64),
        max_security_events: 64,
        security_max_age: Duration::from_millis(1_000 * DAY as u64),
    };
    (events.clone(), Sweeper::new(events, retention))
}

fn numbers(events: &Events, filter: &Filter, offset: u64, limit: u64) -> (Vec<u64>, u64) {
    let listed = events.list(&acme(), filter, offset, limit).unwrap();
    (listed.events.iter().map(|event| event.id.number).collect(), listed.total)
}

#[tokio::test]
async fn however_many_sessions_there_are_security_events_stay_in_the_list_in_order() {
    let store = Arc::new(MemoryStore::new());
    let (events, mut sweeper) = buried(&store, 2_000);
    let before = events.list(&acme(), &Filter::default(), 2_000, 6).unwrap().events;
    assert_eq!(sweep(&mut sweeper, 5).await, 1_888);
    let kept = 2_006 - 1_888;
    assert_eq!(numbers(&events, &Filter::default(), 0, 1).1, kept + 6);
    // Pages that span journal and archive, and pages of the archive only.
    assert_eq!(numbers(&events, &Filter::default(), kept - 2, 4).0, [1_889, 1_888, 5, 4]);
    assert_eq!(numbers(&events, &Filter::default(), kept + 2, 100).0, [3, 2, 1, 0]);
    assert_eq!(numbers(&events, &Filter::default(), kept + 6, 100).0, [0_u64; 0]);
    assert_eq!(events.list(&acme(), &Filter::default(), kept, 6).unwrap().events, before, "each as it was");
    let mut types = Notices::default();
    [EventType::MemberAdded, EventType::SessionOverridden].iter().for_each(|event_type| types.add(*event_type));
    let filter = Filter { event_types: Some(types), ..Filter::default() };
    assert_eq!(numbers(&events, &filter, 0, 9), (vec![4, 0], 2));
    assert_eq!(numbers(&events, &filter, 1, 9), (vec![0], 2));
    for event in &before {
        assert_eq!(events.get(&acme(), event.id).unwrap().as_ref(), Some(event));
        let other = EventId { check: [0; 4], ..event.id };
        assert_eq!(events.get(&acme(), other).unwrap(), None);
    }
    let expected = Expectation { number: 0, hash: before[5].hash };
    let report = events.audit(&acme(), &[expected]).unwrap();
    assert_eq!((report.fault.as_ref(), report.archived), (None, 6));
    assert_eq!(report.expected, [(expected, ExpectationStatus::Present)]);
}

#[tokio::test]
async fn many_security_events_of_one_class_push_out_only_their_own_and_age_has_its_own_bound() {
    let store = Arc::new(MemoryStore::new());
    let (events, mut sweeper) = buried(&store, 0);
    // These events can be caused by a developer as often as they like.
    (0..1_000).for_each(|_| happen(&store, "acme", EventType::SessionOverridden));
    sweep(&mut sweeper, 5).await;
    let of = |event_type| {
        let mut types = Notices::default();
        types.add(event_type);
        numbers(&events, &Filter { event_types: Some(types), ..Filter::default() }, 0, 5_000).0
    };
    let force_claims = of(EventType::SessionOverridden);
    assert!(force_claims.len() < 64 + 32 + 128 && force_claims.is_sorted_by(|one, next| one > next));
    for event_type in [EventType::MemberAdded, EventType::TokenCreated, EventType::SecretUpdated] {
        assert_eq!(of(event_type).len(), 1, "{event_type}");
    }
    assert_eq!(events.audit(&acme(), &[]).unwrap().fault, None);
    for number in [4, 6, 895, 900] {
        let is_listed = force_claims.contains(&number);
        assert_eq!(events.archived_event(&acme(), number).unwrap().is_some(), is_listed && number < 896, "{number}");
    }
    // A page is dropped when it is full and all its events are old; the few events of the last page are kept.
    sweep(&mut sweeper, 1_001 * DAY).await;
    assert_eq!(of(EventType::MemberAdded).len(), 1);
    assert!(of(EventType::SessionOverridden).len() < force_claims.len());
    assert_eq!(events.audit(&acme(), &[]).unwrap().fault, None);
}

#[tokio::test]
async fn what_is_done_to_the_archive_is_found() {
    let edit = |store: &MemoryStore, class, change: &dyn Fn(&mut Page)| {
        let key = page_key(&acme(), class, 0);
        let mut page = Page::decode(&store.get(&key).unwrap().unwrap()).unwrap();
        change(&mut page);
        let mut batch = Batch::default();
        batch.put(key, page.encode());
        store.commit(batch).unwrap();
    };
    let class = SecurityClass::Members;
    let rechained = |page: &mut Page| {
        // The forger knows how the chains are made, but not the key.
        let mut event = ArchivedEvent::decode(&page.entries[0].body).unwrap();
        *event.body.last_mut().unwrap() ^= 1;
        event.hash = store::journal::chained(&event.before, event.number, &event.body);
        page.entries[0].body = event.encode();
        page.entries[0].hash = store::journal::chained(&page.before, 0, &page.entries[0].body);
    };
    type Tampering<'a> = &'a dyn Fn(&MemoryStore);
    let cases: [(Tampering<'_>, ArchiveFault); 4] = [
        (&|store| edit(store, class, &|page| *page.entries[0].body.last_mut().unwrap() ^= 1), ArchiveFault::Changed),
        (&|store| edit(store, class, &|page| page.entries.clear()), ArchiveFault::Missing),
        (&|store| edit(store, class, &rechained), ArchiveFault::OtherEnd),
        (
            &|store| {
                let mut batch = Batch::default();
                batch.delete(page_key(&acme(), class, 0));
                batch.delete(head_key(&acme(), class));
                store.commit(batch).unwrap();
            },
            ArchiveFault::NoEnd,
        ),
    ];
    for (tamper, fault) in cases {
        let store = Arc::new(MemoryStore::new());
        let (events, mut sweeper) = buried(&store, 500);
        Sealer::new(events.clone()).unwrap().seal().await.unwrap();
        sweep(&mut sweeper, 5).await;
        assert_eq!(events.audit(&acme(), &[]).unwrap().fault, None);
        tamper(&store);
        let found = events.audit(&acme(), &[]).unwrap().fault.map(|fault| fault.kind);
        assert_eq!(found, Some(FaultKind::Archive(class, fault)));
    }
    // A server without the key cannot have written the archive's head.
    let store = Arc::new(MemoryStore::new());
    let (events, mut sweeper) = buried(&store, 500);
    sweep(&mut sweeper, 5).await;
    let other = Events::new(store.clone()).with_key(AuditKey::new([8; 32]));
    let found = other.audit(&acme(), &[]).unwrap().fault.map(|fault| fault.kind);
    assert_eq!(found, Some(FaultKind::Archive(class, ArchiveFault::Forged)));
    assert_eq!(events.audit(&acme(), &[]).unwrap().fault, None);
}
