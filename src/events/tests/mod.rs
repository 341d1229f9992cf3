#![allow(clippy::unwrap_used)]

mod archiving;
mod auditing;
mod format_4;
mod listing;
mod live;
mod sealing;
mod sweeping;

use std::sync::Arc;

use super::*;
use domain::samples::AnyEvent;
use domain::{
    DeploymentId, EventType, EventValue, IdSeed, Identifier, Initiator, Origin, Person, RequestRef, SecurityClass,
    SessionId, Ticket, Timestamp, TokenId, UserId,
};
use store::journal::PAGE_ENTRIES;
use store::{Batch, MemoryStore, Store};

fn identifier(text: &str) -> Identifier {
    Identifier::parse(text).unwrap()
}

fn initiator() -> Initiator {
    let person = Person { id: UserId(IdSeed([1; 12])), name: "ana".into() };
    Initiator { person, via: Some(RequestRef { token: TokenId(IdSeed([2; 12])), request: "req_1".into() }) }
}

fn claimed() -> AnyEvent {
    let (commit, token) = (EventValue::Text("c0ffee1".into()), EventValue::Number(7));
    let members = vec![("fencingToken", token), ("commitId", commit), ("draft", EventValue::Flag(true))];
    AnyEvent(EventType::SessionClaimed, members)
}

fn happen(store: &MemoryStore, organization: &str, event_type: EventType) {
    happen_at(store, organization, event_type, 5);
}

fn happen_at(store: &MemoryStore, organization: &str, event_type: EventType, millis: i64) {
    let (mut batch, data) = (Batch::default(), AnyEvent(event_type, Vec::new()));
    let happening = NewEvent::new(&data, Cause::system(Timestamp::from_millis(millis)));
    record(&mut batch, &identifier(organization), &happening);
    store.commit(batch).unwrap();
}

#[test]
fn an_event_reads_back_with_all_it_says() {
    let store = Arc::new(MemoryStore::new());
    let (pipeline, environment) = (identifier("web"), identifier("review-1"));
    for origin in [Origin::Granted(7), Origin::Queued(Ticket(9))] {
        let session = SessionId { seed: IdSeed([3; 12]), origin };
        let happening = NewEvent {
            at: Timestamp::from_millis(1_700_000_000_123),
            by: Some(&initiator()),
            pipeline: Some(&pipeline),
            environment: Some(&environment),
            session: Some(session),
            deployment: Some(DeploymentId(IdSeed([4; 12]))),
            data: &claimed(),
        };
        let mut batch = Batch::default();
        record(&mut batch, &identifier("acme"), &happening);
        store.commit(batch).unwrap();
        let events = Events::new(store.clone());
        let read = events.read(&identifier("acme"), events.next(&identifier("acme")).unwrap() - 1).unwrap();
        let [read] = read.as_slice() else { panic!("{read:?}") };
        assert_eq!((read.event_type, read.at), (EventType::SessionClaimed, happening.at));
        assert_eq!(read.by.as_ref(), happening.by);
        assert_eq!((read.pipeline.as_ref(), read.environment.as_ref()), (Some(&pipeline), Some(&environment)));
        assert_eq!((read.session, read.deployment), (happening.session, happening.deployment));
        let members: Vec<_> = read.data.iter().map(|(name, value)| (&**name, value.clone())).collect();
        assert_eq!(members, claimed().1);
    }
}

#[test]
fn each_organization_has_its_own_numbers_and_an_id_of_one_is_none_of_another() {
    let store = Arc::new(MemoryStore::new());
    for _ in 0..PAGE_ENTRIES + 1 {
        happen(&store, "acme", EventType::SecretCreated);
        happen(&store, "umbrella", EventType::SecretCreated);
    }
    let events = Events::new(store);
    let (acme, umbrella) = (identifier("acme"), identifier("umbrella"));
    assert_eq!(events.organizations().unwrap(), [acme.clone(), umbrella.clone()]);
    assert_eq!(events.span(&acme).unwrap(), Span { first: 0, next: PAGE_ENTRIES + 1 });
    assert_eq!(events.read(&acme, 30).unwrap().len(), 2, "to the end of the page");
    assert_eq!(events.read(&acme, PAGE_ENTRIES).unwrap().len(), 1);
    assert_eq!(events.read(&acme, PAGE_ENTRIES + 1).unwrap(), []);
    for (ours, other) in events.read(&acme, 0).unwrap().iter().zip(events.read(&umbrella, 0).unwrap()) {
        assert_eq!((ours.id.number, ours.id.to_string().parse()), (other.id.number, Ok(ours.id)));
        assert!(events.knows(&acme, ours.id).unwrap() && !events.knows(&acme, other.id).unwrap());
    }
    let unborn = EventId { number: 1_000, check: [0; 4] };
    assert!(!events.knows(&acme, unborn).unwrap());
}

proptest::proptest! {
    #[test]
    fn whatever_lies_in_a_journal_is_read_or_refused(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let with_version = [&[1], bytes.as_slice()].concat();
        for body in [&bytes, &with_version] {
            let (head, event) = (event::decode_head(body), event::decode(0, [0; 32], body));
            if let Ok(event) = event {
                proptest::prop_assert_eq!(head.ok(), Some(event.head()));
            }
        }
    }
}
