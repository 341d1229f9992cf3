//! Each kind of tampering is detected and reported at the first affected event.

use super::*;
use store::journal::{self, Entry, Page};

const EVENTS: u64 = 3 * PAGE_ENTRIES + 10;

fn acme() -> Identifier {
    identifier("acme")
}

fn recorded() -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    for number in 0..EVENTS {
        happen_at(&store, "acme", EventType::ALL[number as usize % 9], number as i64);
        happen_at(&store, "umbrella", EventType::ALL[number as usize % 5], number as i64);
    }
    store
}

fn page(store: &MemoryStore, organization: &str, page: u64) -> Page {
    Page::decode(&store.get(&journal::page_key(organization, page)).unwrap().unwrap()).unwrap()
}

fn commit(store: &MemoryStore, change: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::default();
    change(&mut batch);
    store.commit(batch).unwrap();
}

fn edit(store: &MemoryStore, number: u64, change: impl FnOnce(&mut Vec<Entry>)) {
    let mut edited = page(store, "acme", number);
    change(&mut edited.entries);
    commit(store, |batch| batch.put(journal::page_key("acme", number), edited.encode()));
}

fn fault(store: &Arc<MemoryStore>) -> Option<(u64, FaultKind)> {
    let report = Events::new(store.clone()).audit(&acme(), &[]).unwrap();
    assert_eq!(report.is_intact(), report.fault.is_none());
    report.fault.map(|fault| (fault.number, fault.kind))
}

#[test]
fn what_nobody_touched_is_intact() {
    let store = recorded();
    let report = Events::new(store.clone()).audit(&acme(), &[]).unwrap();
    assert_eq!((report.fault, report.first, report.next), (None, 0, EVENTS));
    let last = page(&store, "acme", 3).entries.pop().unwrap();
    assert_eq!(report.head, Some(Expectation { number: EVENTS - 1, hash: last.hash }));
    let organizations: Vec<_> = Events::new(store).audited().unwrap().into_iter().collect();
    assert_eq!(organizations, [acme(), identifier("umbrella")]);
}

#[test]
fn a_change_within_an_event_is_found() {
    for (number, place) in [(0, 0), (0, 31), (1, 5), (3, 0), (3, 9)] {
        let at = number * PAGE_ENTRIES + place as u64;
        let store = recorded();
        edit(&store, number, |entries| *entries[place].body.last_mut().unwrap() ^= 1);
        assert_eq!(fault(&store), Some((at, FaultKind::Changed)), "{at}");
        let store = recorded();
        edit(&store, number, |entries| entries[place].hash[7] ^= 1);
        assert_eq!(fault(&store), Some((at, FaultKind::HashChanged)), "{at}");
    }
}

#[test]
fn an_event_that_is_removed_is_found_wherever_it_was() {
    for (number, place) in [(0, 0), (0, 30), (1, 5), (3, 0)] {
        let store = recorded();
        edit(&store, number, |entries| _ = entries.remove(place));
        assert_eq!(fault(&store), Some((number * PAGE_ENTRIES + place as u64, FaultKind::Removed)));
    }
    for (number, last) in [(0, 31), (2, 31), (3, 9)] {
        let store = recorded();
        edit(&store, number, |entries| _ = entries.pop());
        let at = number * PAGE_ENTRIES + last;
        assert_eq!(fault(&store), Some((at, FaultKind::Missing { last: at })));
    }
}

#[test]
fn a_page_that_is_removed_is_found_wherever_it_was() {
    for number in 0..4 {
        let store = recorded();
        commit(&store, |batch| batch.delete(journal::page_key("acme", number)));
        let (first, last) = (number * PAGE_ENTRIES, ((number + 1) * PAGE_ENTRIES).min(EVENTS) - 1);
        assert_eq!(fault(&store), Some((first, FaultKind::Missing { last })));
    }
}

#[test]
fn events_that_change_places_are_found() {
    let store = recorded();
    edit(&store, 1, |entries| entries.swap(4, 9));
    assert_eq!(fault(&store), Some((PAGE_ENTRIES + 4, FaultKind::Moved { to: PAGE_ENTRIES + 9 })));
    let store = recorded();
    let (first, second) = (page(&store, "acme", 0), page(&store, "acme", 1));
    commit(&store, |batch| {
        batch.put(journal::page_key("acme", 0), second.encode());
        batch.put(journal::page_key("acme", 1), first.encode());
    });
    assert_eq!(fault(&store), Some((0, FaultKind::Misplaced { says: PAGE_ENTRIES })));
}

#[test]
fn what_is_inserted_is_found() {
    for (number, place) in [(0, 0), (1, 5), (3, 3)] {
        let store = recorded();
        edit(&store, number, |entries| entries.insert(place, entries[place + 2].clone()));
        assert_eq!(fault(&store), Some((number * PAGE_ENTRIES + place as u64, FaultKind::Inserted)));
    }
    let foreign = page(&recorded(), "umbrella", 1).entries[5].clone();
    let store = recorded();
    edit(&store, 1, |entries| entries[5] = foreign);
    assert_eq!(fault(&store), Some((PAGE_ENTRIES + 5, FaultKind::Changed)));
    // At the end, even a correctly chained entry is one too many.
    let store = recorded();
    edit(&store, 3, |entries| {
        let mut more = entries[0].clone();
        let last = entries.last().unwrap();
        (more.hash, more.sequence) = (journal::chained(&last.hash, EVENTS, &more.body), last.sequence);
        entries.push(more);
    });
    assert_eq!(fault(&store), Some((EVENTS, FaultKind::BeyondTheNotes)));
    let store = recorded();
    let copy = page(&store, "acme", 3);
    commit(&store, |batch| batch.put(journal::page_key("acme", 4), copy.encode()));
    assert_eq!(fault(&store), Some((4 * PAGE_ENTRIES, FaultKind::BeyondTheNotes)));
}

#[test]
fn a_page_of_another_organization_or_of_no_form_is_found() {
    let store = recorded();
    let foreign = page(&store, "umbrella", 0);
    commit(&store, |batch| batch.put(journal::page_key("acme", 0), foreign.encode()));
    assert_eq!(fault(&store), Some((0, FaultKind::Unchained)));
    commit(&store, |batch| batch.put(journal::page_key("acme", 0), vec![9; 50]));
    assert_eq!(fault(&store), Some((0, FaultKind::Unreadable)));
}

#[test]
fn a_note_of_the_beginning_or_the_end_that_is_changed_is_found() {
    let store = recorded();
    commit(&store, |batch| batch.put(b"EF/acme", 32_u64.to_be_bytes()));
    assert_eq!(fault(&store), Some((0, FaultKind::BeyondTheNotes)), "what is there before it was not dropped");
    commit(&store, |batch| batch.put(b"EF/acme", 7_u64.to_be_bytes()));
    assert_eq!(fault(&store), Some((7, FaultKind::BeyondTheNotes)));
    let store = recorded();
    let head = journal::Head { next: EVENTS, hash: [3; 32] };
    commit(&store, |batch| batch.put(journal::head_key("acme"), head.encode()));
    assert_eq!(fault(&store), Some((EVENTS - 1, FaultKind::OtherHead)));
    commit(&store, |batch| batch.delete(journal::head_key("acme")));
    assert_eq!(fault(&store), Some((3 * PAGE_ENTRIES, FaultKind::BeyondTheNotes)));
}

#[test]
fn whoever_writes_a_whole_new_chain_is_found_by_a_head_that_was_noted() {
    let noted = Events::new(recorded()).audit(&acme(), &[]).unwrap().head.unwrap();
    let forged = Arc::new(MemoryStore::new());
    for number in 0..EVENTS + 3 {
        happen_at(&forged, "acme", EventType::SecretCreated, number as i64);
    }
    let events = Events::new(forged);
    let report = events.audit(&acme(), &[noted]).unwrap();
    assert_eq!((report.fault.clone(), report.is_intact()), (None, false));
    let store = recorded();
    happen(&store, "acme", EventType::SecretCreated);
    let report = Events::new(store).audit(&acme(), &[noted]).unwrap();
    assert_eq!((report.is_intact(), report.expected), (true, vec![(noted, ExpectationStatus::Present)]));
    assert_eq!(noted.to_string().parse(), Ok(noted));
    for bad in ["", "1", "1:", "1:00", "x:00", &format!("1:{}", "g".repeat(64)), &format!("-1:{}", "0".repeat(64))] {
        assert!(bad.parse::<Expectation>().is_err(), "{bad}");
    }
}

#[tokio::test]
async fn a_server_that_starts_on_a_cut_journal_goes_on_and_keeps_the_evidence() {
    let store = recorded();
    edit(&store, 3, |entries| entries.truncate(4));
    // The restarted journal continues from its pages.
    let store = Arc::new(store.crash());
    let events = Events::new(store.clone());
    events.repair_heads().await.unwrap();
    let lost = PAGE_ENTRIES * 3 + 4;
    assert_eq!(events.next(&acme()).unwrap(), lost);
    for _ in 0..50 {
        happen(&store, "acme", EventType::SecretCreated);
    }
    let (number, wrong) = fault(&store).unwrap();
    assert!(number == EVENTS - 1 && matches!(wrong, FaultKind::Lost { .. }), "{number}: {wrong:?}");
    let before = store.handed_in();
    events.repair_heads().await.unwrap();
    assert_eq!(store.handed_in(), before, "what fits is left as it is");
}
