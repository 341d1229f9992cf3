//! Journals as the first build of data format 4 wrote them.

use super::*;
use store::journal::{Head, head_key, page_key};
use testkit::format_4::{assert_written_as_format_4, format_4};

fn record_samples(store: &MemoryStore) {
    let (pipeline, environment, initiator) = (identifier("web"), identifier("review-1"), initiator());
    let data = claimed();
    let claimed = NewEvent {
        at: Timestamp::from_millis(1_794_735_000_123),
        by: Some(&initiator),
        pipeline: Some(&pipeline),
        environment: Some(&environment),
        session: Some(SessionId { seed: IdSeed([3; 12]), origin: Origin::Granted(7) }),
        deployment: Some(DeploymentId(IdSeed([4; 12]))),
        data: &data,
    };
    let queued = SessionId { seed: IdSeed([5; 12]), origin: Origin::Queued(Ticket(9)) };
    let none = AnyEvent(EventType::WebhookDisabled, Vec::new());
    let system = NewEvent::new(&none, Cause::system(Timestamp::from_millis(9)));
    for happening in [claimed, NewEvent { session: Some(queued), ..claimed }, system] {
        let mut batch = Batch::default();
        record(&mut batch, &identifier("acme"), &happening);
        store.commit(batch).unwrap();
    }
}

#[test]
fn journals_of_format_4_are_read() {
    let (acme, written) = (identifier("acme"), MemoryStore::new());
    record_samples(&written);
    for (name, key) in [("journal page", page_key("acme", 0)), ("journal head", head_key("acme"))] {
        assert_written_as_format_4(name, &written.get(&key).unwrap().unwrap());
    }
    let read = Arc::new(MemoryStore::new());
    let mut batch = Batch::default();
    batch.put(page_key("acme", 0), format_4("journal page"));
    batch.put(head_key("acme"), format_4("journal head"));
    read.commit(batch).unwrap();
    let (written, read) = (Events::new(Arc::new(written)), Events::new(read));
    assert_eq!(read.read(&acme, 0).unwrap(), written.read(&acme, 0).unwrap());
    assert_eq!(read.span(&acme).unwrap(), Span { first: 0, next: 3 });
    assert!(read.audit(&acme, &[]).unwrap().is_intact());
}

#[test]
fn notes_beside_journals_of_format_4_are_read() {
    let lost = Head { next: 40, hash: [6; 32] };
    assert_written_as_format_4("lost journal head", &lost.encode());
    assert_written_as_format_4("first event kept", &32u64.to_be_bytes());
    let store = Arc::new(MemoryStore::new());
    let mut batch = Batch::default();
    batch.put(b"EF/acme", format_4("first event kept"));
    batch.put([b"EL/acme/".as_slice(), &40u64.to_be_bytes()].concat(), format_4("lost journal head"));
    store.commit(batch).unwrap();
    let events = Events::new(store);
    assert_eq!(events.span(&identifier("acme")).unwrap().first, 32);
    let expected = Expectation { number: 39, hash: lost.hash };
    assert_eq!(events.lost_heads(&identifier("acme")).unwrap(), [expected]);
}

#[test]
fn event_types_keep_the_numbers_that_they_had_in_format_4() {
    let names: Vec<_> = EventType::ALL.iter().map(|event_type| event_type.as_str()).collect();
    let kept = String::from_utf8(format_4("event types")).unwrap();
    let kept: Vec<_> = kept.split(' ').collect();
    assert_eq!(names[..kept.len()], kept);
}
