//! An attacker who rewrites the chain cannot forge its seals, and the audit finds the place.

use super::*;
use crate::audit::SealFault;
use crate::seal::{Seal, seal_key, seals_of};
use store::end_of_prefix;
use store::journal::{self, Head, Page};

fn acme() -> Identifier {
    identifier("acme")
}

fn keyed(store: &Arc<MemoryStore>) -> Events {
    Events::new(store.clone()).with_key(AuditKey::new([7; 32]))
}

/// A journal with a seal after every tenth event.
async fn sealed(count: u64) -> (Arc<MemoryStore>, Events) {
    let store = Arc::new(MemoryStore::new());
    let events = keyed(&store);
    let mut sealer = Sealer::new(events.clone()).unwrap();
    for number in 1..=count {
        happen(&store, "acme", EventType::SessionClaimed);
        if number % 10 == 0 {
            assert_eq!(sealer.seal().await.unwrap(), 1);
            assert_eq!(sealer.seal().await.unwrap(), 0, "nothing is new");
        }
    }
    (store, events)
}

/// Changes one event and recomputes every later hash, like an attacker who can write to the disk.
fn rewrite(store: &MemoryStore, from: u64) {
    let next = Head::decode(&store.get(&journal::head_key("acme")).unwrap().unwrap()).unwrap().next;
    let mut batch = Batch::default();
    let mut before = None;
    for number in from / PAGE_ENTRIES..next.div_ceil(PAGE_ENTRIES) {
        let mut page = Page::decode(&store.get(&journal::page_key("acme", number)).unwrap().unwrap()).unwrap();
        page.before = before.unwrap_or(page.before);
        let mut last = page.before;
        for (entry, number) in page.entries.iter_mut().zip(page.first..) {
            if number == from {
                *entry.body.last_mut().unwrap() ^= 1;
            }
            last = journal::chained(&last, number, &entry.body);
            entry.hash = last;
        }
        before = Some(last);
        batch.put(journal::page_key("acme", number), page.encode());
    }
    batch.put(journal::head_key("acme"), Head { next, hash: before.unwrap() }.encode());
    store.commit(batch).unwrap();
}

/// Adds an event after the rewritten ones, like a server started on them.
fn append(store: &MemoryStore) {
    let Head { next, hash } = Head::decode(&store.get(&journal::head_key("acme")).unwrap().unwrap()).unwrap();
    let key = journal::page_key("acme", next / PAGE_ENTRIES);
    let page = store.get(&key).unwrap().map(|bytes| Page::decode(&bytes).unwrap());
    let mut page = page.unwrap_or(Page { first: next, before: hash, entries: Vec::new() });
    let mut entry =
        Page::decode(&store.get(&journal::page_key("acme", 0)).unwrap().unwrap()).unwrap().entries.remove(0);
    (entry.sequence, entry.hash) = (u64::MAX, journal::chained(&hash, next, &entry.body));
    let head = Head { next: next + 1, hash: entry.hash };
    page.entries.push(entry);
    let mut batch = Batch::default();
    batch.put(key, page.encode());
    batch.put(journal::head_key("acme"), head.encode());
    store.commit(batch).unwrap();
}

fn seals(store: &MemoryStore) -> Vec<Seal> {
    let prefix = seals_of(&acme());
    let found = store.scan(&prefix, &end_of_prefix(&prefix), usize::MAX).unwrap();
    found.iter().rev().map(|(_, bytes)| Seal::decode(bytes).unwrap()).collect()
}

#[tokio::test]
async fn seals_are_chained_and_there_is_about_one_per_page() {
    let (store, events) = sealed(200).await;
    let made = seals(&store);
    assert_eq!((made[0].since, made[0].next, made.last().unwrap().next), (10, 10, 200));
    assert!(made.len() < 12, "{}", made.len());
    assert!(made.windows(2).all(|pair| pair[1].before == pair[0].mac && pair[1].since == pair[0].next));
    let report = events.audit(&acme(), &[]).unwrap();
    assert_eq!((report.fault, report.seals), (None, SealStatus::Checked { from: 10, next: 200 }));
    let report = Events::new(store).audit(&acme(), &[]).unwrap();
    assert_eq!((report.fault, report.seals), (None, SealStatus::Unchecked));
}

#[tokio::test]
async fn a_chain_that_was_rewritten_as_a_whole_is_found_at_the_first_seal_that_does_not_match() {
    for from in [0, 5, 39, 40, 100, 199] {
        let (store, events) = sealed(200).await;
        rewrite(&store, from);
        let plain = Events::new(store.clone());
        let first = seals(&store).into_iter().find(|seal| seal.next > from).unwrap();
        for audited in [&events, &plain] {
            let fault = audited.audit(&acme(), &[]).unwrap().fault.unwrap();
            let expected = FaultKind::Seal(SealFault::Rewritten { next: first.next });
            assert_eq!((fault.number, fault.kind), (first.since.min(first.next - 1), expected), "from {from}");
        }
    }
}

#[tokio::test]
async fn seals_that_are_forged_removed_or_ahead_of_the_journal_are_found() {
    let put = |store: &MemoryStore, seal: &Seal| {
        let mut batch = Batch::default();
        batch.put(seal_key(&acme(), seal.next), seal.encode());
        store.commit(batch).unwrap();
    };
    let fault = |events: &Events| events.audit(&acme(), &[]).unwrap().fault.map(|fault| fault.kind);

    // The forger makes new seals for the new chain with a different key.
    let (store, events) = sealed(200).await;
    rewrite(&store, 150);
    let own = AuditKey::new([8; 32]);
    let mut before = None;
    for seal in seals(&store).into_iter().filter(|seal| seal.next > 150) {
        let hash = events.read(&acme(), seal.next - 1).unwrap()[0].hash;
        let forged = own.seal(&acme(), seal.since, seal.next, hash, before.unwrap_or(seal.before));
        before = Some(forged.mac);
        put(&store, &forged);
    }
    assert_eq!(fault(&Events::new(store.clone())), None, "which only the key can tell");
    let next = seals(&store).iter().find(|seal| seal.next > 150).unwrap().next;
    assert_eq!(fault(&events), Some(FaultKind::Seal(SealFault::Forged { next })));

    let (store, events) = sealed(200).await;
    let made = seals(&store);
    let mut batch = Batch::default();
    batch.delete(seal_key(&acme(), made[2].next));
    store.commit(batch).unwrap();
    assert_eq!(fault(&events), Some(FaultKind::Seal(SealFault::Removed { next: made[3].next })));

    let (store, events) = sealed(200).await;
    let mut batch = Batch::default();
    (1..7).for_each(|page| batch.delete(journal::page_key("acme", page)));
    let page = Page::decode(&store.get(&journal::page_key("acme", 0)).unwrap().unwrap()).unwrap();
    batch.put(journal::head_key("acme"), Head { next: 32, hash: page.entries[31].hash }.encode());
    store.commit(batch).unwrap();
    assert_eq!(fault(&events), Some(FaultKind::Seal(SealFault::CutOff { next: 200 })));
}

#[tokio::test]
async fn a_start_keeps_a_seal_that_does_not_match_as_evidence_and_goes_on() {
    let (store, events) = sealed(200).await;
    rewrite(&store, 190);
    let mut sealer = Sealer::new(events.clone()).unwrap();
    for _ in 0..50 {
        append(&store);
        sealer.seal().await.unwrap();
    }
    let fault = events.audit(&acme(), &[]).unwrap().fault.map(|fault| fault.kind);
    assert_eq!(fault, Some(FaultKind::Seal(SealFault::Rewritten { next: 200 })));
    assert_eq!(seals(&store).last().unwrap().next, 250);
}

#[tokio::test]
async fn seals_of_dropped_events_are_dropped_too() {
    let (store, events) = sealed(2_000).await;
    let day = std::time::Duration::from_secs(86_400);
    let retention = Retention { max_events: 100, max_age: day, max_security_events: 64, security_max_age: day };
    let mut sweeper = Sweeper::new(events.clone(), retention);
    sweeper.sweep(Timestamp::from_millis(5), |_| None).await.unwrap();
    assert!(seals(&store).len() < 10, "{}", seals(&store).len());
    let report = events.audit(&acme(), &[]).unwrap();
    assert_eq!(report.fault, None);
    assert!(matches!(report.seals, SealStatus::Checked { next: 2_000, .. }), "{:?}", report.seals);
}
