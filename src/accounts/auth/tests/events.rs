//! Events about members and tokens: once per change, in its batch, in the name of the initiator.

use super::*;
use ::events::{Events, RecordedEvent};
use domain::{EventType, EventValue};

#[tokio::test]
async fn every_change_of_a_member_or_token_records_one_event_with_its_author() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin"]).await;
    let began = told(&store).len();
    let admin = initiator(&accounts, "admin");
    let cause = Cause::by(&admin, Timestamp::from_millis(7));
    let ana = accounts.add_member(member("ana"), cause, |_, _| ()).await.unwrap();
    accounts.change_member(&acme(), ana.id, to_role(Role::Viewer), cause).await.unwrap();
    let first = accounts.create_token(new(&accounts, "ana"), cause, |_, _| ()).await.unwrap();
    let second = accounts.create_token(new(&accounts, "ana"), cause, |_, _| ()).await.unwrap();
    accounts.revoke(&acme(), first.token.id, None, cause).await.unwrap();
    accounts.remove_member(&acme(), ana.id, cause).await.unwrap();

    let told = &told(&store)[began..];
    let user = ana.id.to_string();
    let of_token = |token: &OpenToken| format!("tokenId={} name=ci userId={user}", token.token.id);
    let expected = [
        (EventType::MemberAdded, format!("userId={user} name=ana role=developer")),
        (EventType::MemberUpdated, format!("userId={user} name=ana role=viewer previousRole=developer")),
        (EventType::TokenCreated, of_token(&first)),
        (EventType::TokenCreated, of_token(&second)),
        (EventType::TokenRevoked, of_token(&first)),
        (EventType::TokenRevoked, format!("{} reason=member_removed", of_token(&second))),
        (EventType::MemberRemoved, format!("userId={user} name=ana role=viewer")),
    ];
    assert_eq!(told.iter().map(|event| (event.event_type, data(event))).collect::<Vec<_>>(), expected);
    assert!(told.iter().all(|event| event.by.as_ref() == Some(&admin) && event.at == cause.at));
    let journal = format!("{told:?}");
    assert!(!journal.contains(&first.text.reveal()[3..]) && !journal.contains(&second.text.reveal()[3..]));
}

#[tokio::test]
async fn a_request_that_changes_nothing_records_no_event() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin", "ana"]).await;
    let made = create(&accounts, "ana").await.unwrap();
    let before = told(&store);
    accounts.change_member(&acme(), user(&accounts, "ana"), to_role(Role::Developer), START).await.unwrap();
    accounts.change_member(&acme(), user(&accounts, "admin"), to_role(Role::Viewer), START).await.unwrap_err();
    accounts.add_member(member("ana"), START, |_, _| ()).await.unwrap_err();
    revoke(&accounts, TokenId(IdSeed([1; 12]))).await.unwrap_err();
    accounts.authenticate(made.text.reveal(), NOW).unwrap();
    accounts.write_usage().await.unwrap();
    store.refuse_with(Some(StoreError::Overloaded));
    accounts.remove_member(&acme(), user(&accounts, "ana"), START).await.unwrap_err();
    revoke(&accounts, made.token.id).await.unwrap_err();
    store.refuse_with(None);
    open(&store, &["admin", "ana"]).await;
    assert_eq!(told(&store), before);
}

#[tokio::test]
async fn a_file_that_declares_what_is_so_already_records_no_event() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin", "ana"]).await;
    accounts.change_member(&acme(), user(&accounts, "ana"), to_role(Role::Viewer), START).await.unwrap();
    let before = told(&store);
    let viewer = NewMember { role: Role::Viewer, ..member("ana") };
    Accounts::open(store.clone(), vec![member("admin"), viewer], NOW).await.unwrap();
    assert_eq!(told(&store), before);
}

#[tokio::test]
async fn changes_by_a_start_are_recorded_as_the_systems() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin", "ana"]).await;
    create_by(&accounts, "admin", "ana").await.unwrap();
    let began = told(&store).len();
    let promoted = NewMember { role: Role::Maintainer, ..member("ben") };
    let again = Accounts::open(store.clone(), vec![member("admin"), promoted], NOW).await.unwrap();
    let (text, other) = (TokenText::generate(), TokenText::generate());
    for text in [&text, &text, &other] {
        again.bootstrap(&acme(), text, NOW).await.unwrap();
    }
    let told = &told(&store)[began..];
    assert!(told.iter().all(|event| event.by.is_none()));
    assert_eq!(
        told.iter().map(|event| event.event_type).collect::<Vec<_>>(),
        [
            EventType::MemberAdded,
            EventType::TokenRevoked,
            EventType::MemberRemoved,
            EventType::TokenCreated,
            EventType::TokenRevoked,
            EventType::TokenCreated
        ]
    );
    assert!(data(&told[4]).ends_with("reason=superseded"));
}

#[tokio::test]
async fn a_removal_its_revocations_and_their_events_are_durable_together_or_not_at_all() {
    let store = Arc::new(MemoryStore::new());
    let accounts = open(&store, &["admin", "ana"]).await;
    for _ in 0..3 {
        create(&accounts, "ana").await.unwrap();
    }
    let before = told(&store);
    store.hold();
    let (organization, ana) = (acme(), user(&accounts, "ana"));
    let mut removing = pin!(accounts.remove_member(&organization, ana, START));
    assert!(removing.as_mut().now_or_never().is_none());
    let lost = Arc::new(store.crash());
    assert_eq!((told(&lost), ids(&open(&lost, &["admin", "ana"]).await).await.len()), (before.clone(), 3));
    assert!(store.release_one() && !store.release_one(), "it is one batch");
    let kept = Arc::new(store.crash());
    assert_eq!(told(&kept).len(), before.len() + 4);
    let kept = open(&kept, &["admin", "ana"]).await;
    assert!(ids(&kept).await.is_empty() && kept.member(&acme(), ana).is_none());
}

pub fn told(store: &Arc<MemoryStore>) -> Vec<RecordedEvent> {
    Events::new(store.clone()).read(&acme(), 0).unwrap()
}

pub fn data(event: &RecordedEvent) -> String {
    let pair = |(name, datum): &(Box<str>, EventValue)| match datum {
        EventValue::Text(text) => format!("{name}={text}"),
        EventValue::Number(number) => format!("{name}={number}"),
        EventValue::Flag(_) => panic!("{event:?}"),
    };
    event.data.iter().map(pair).collect::<Vec<_>>().join(" ")
}
