//! Compares searches for events with a check of every single event.

use super::*;
use domain::DeploymentId;

const EVENTS: u64 = 5 * PAGE_ENTRIES + 7;

fn acme() -> Identifier {
    identifier("acme")
}

/// Events that differ in every field that filters use.
fn varied() -> Events {
    let store = Arc::new(MemoryStore::new());
    let places: Vec<_> =
        ["web", "shop"].map(identifier).into_iter().zip(["review-1", "review-2"].map(identifier)).collect();
    let by = initiator();
    for number in 0..EVENTS {
        let pick = number as usize;
        let (pipeline, environment) = &places[pick % 2];
        let happening = NewEvent {
            at: Timestamp::from_millis(1_000 + number as i64),
            by: (number % 3 == 0).then_some(&by),
            pipeline: (number % 5 > 0).then_some(pipeline),
            environment: (number % 5 > 1).then_some(environment),
            session: (number % 4 == 0)
                .then_some(SessionId { seed: IdSeed([1; 12]), origin: Origin::Granted(number % 8 + 1) }),
            deployment: (number % 6 == 0).then_some(DeploymentId(IdSeed([(number % 12) as u8; 12]))),
            data: &AnyEvent(EventType::ALL[pick % 7], Vec::new()),
        };
        let mut batch = Batch::default();
        record(&mut batch, &acme(), &happening);
        store.commit(batch).unwrap();
        happen(&store, "umbrella", EventType::TokenCreated);
    }
    Events::new(store)
}

fn filters() -> Vec<Filter> {
    let mut event_types = Notices::default();
    event_types.add(EventType::ALL[3]);
    event_types.add(EventType::ALL[5]);
    let session = SessionId { seed: IdSeed([1; 12]), origin: Origin::Granted(5) };
    vec![
        Filter::default(),
        Filter { event_types: Some(event_types), ..Filter::default() },
        Filter { event_types: Some(Notices::default()), ..Filter::default() },
        Filter { actor: Some(Actor::System), ..Filter::default() },
        Filter { actor: Some(Actor::User(initiator().person.id)), ..Filter::default() },
        Filter { actor: Some(Actor::User(UserId(IdSeed([9; 12])))), ..Filter::default() },
        Filter { pipeline: Some(identifier("web")), ..Filter::default() },
        Filter { environment: Some(identifier("review-2")), ..Filter::default() },
        Filter { session: Some(session), ..Filter::default() },
        Filter { deployment: Some(DeploymentId(IdSeed([6; 12]))), ..Filter::default() },
        Filter { since: Some(Timestamp::from_millis(1_050)), ..Filter::default() },
        Filter { until: Some(Timestamp::from_millis(1_050)), ..Filter::default() },
        Filter {
            since: Some(Timestamp::from_millis(1_020)),
            until: Some(Timestamp::from_millis(1_150)),
            pipeline: Some(identifier("shop")),
            ..Filter::default()
        },
    ]
}

fn all(events: &Events) -> Vec<RecordedEvent> {
    let mut all = Vec::new();
    while (all.len() as u64) < EVENTS {
        all.extend(events.read(&acme(), all.len() as u64).unwrap());
    }
    all
}

#[test]
fn a_list_has_what_is_wanted_newest_first_in_whatever_parts_it_is_read() {
    let events = varied();
    let all = all(&events);
    for filter in filters() {
        let mut expected: Vec<_> = all.iter().filter(|event| filter.wants(&event.head())).cloned().collect();
        expected.reverse();
        for limit in [1, 7, PAGE_ENTRIES, 100] {
            let mut found = Vec::new();
            loop {
                let listed = events.list(&acme(), &filter, found.len() as u64, limit).unwrap();
                assert_eq!(listed.total, expected.len() as u64, "{filter:?}");
                assert!(listed.events.len() as u64 <= limit);
                if listed.events.is_empty() {
                    break;
                }
                found.extend(listed.events);
            }
            assert_eq!(found, expected, "{filter:?} by {limit}");
        }
        assert!(events.list(&acme(), &filter, u64::MAX, 100).unwrap().events.is_empty());
    }
}

#[test]
fn looking_onwards_misses_nothing_and_shows_nothing_twice() {
    let events = varied();
    let all = all(&events);
    for (filter, from) in filters().into_iter().flat_map(|filter| [(filter.clone(), 0), (filter, 45)]) {
        let expected: Vec<_> = all.iter().skip(from).filter(|event| filter.wants(&event.head())).cloned().collect();
        let (mut found, mut next) = (Vec::new(), from as u64);
        loop {
            let range = events.onwards(&acme(), next, &filter).unwrap();
            found.extend(range.events);
            if range.next == next {
                break;
            }
            next = range.next;
        }
        assert_eq!((found, next), (expected, EVENTS), "{filter:?}");
    }
}

#[test]
fn an_event_is_found_by_its_id_and_so_is_the_place_after_it() {
    let events = varied();
    for event in all(&events) {
        assert_eq!(events.get(&acme(), event.id).unwrap(), Some(event.clone()));
        assert_eq!(events.after(&acme(), event.id).unwrap(), Resumption::Next(event.id.number + 1));
        let other = EventId { check: [0; 4], ..event.id };
        assert_eq!(events.get(&acme(), other).unwrap(), None);
        assert_eq!(events.after(&acme(), other).unwrap(), Resumption::Unknown);
    }
    let unborn = EventId { number: EVENTS, check: [0; 4] };
    assert_eq!(events.after(&acme(), unborn).unwrap(), Resumption::Unknown);
    assert_eq!(events.after(&identifier("nobody"), unborn).unwrap(), Resumption::Unknown);
}
