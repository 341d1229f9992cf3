//! Events about secrets: once per change, in its batch, in the name of the initiator, and without values.

use std::pin::pin;

use futures_util::FutureExt;

use super::*;
use ::events::{Events, RecordedEvent};
use domain::{EventType, EventValue, IdSeed, Initiator, Person, RequestRef, TokenId, UserId};
use store::StoreError;

#[tokio::test]
async fn every_change_of_a_secret_records_one_event_with_its_author() {
    let store = Arc::new(MemoryStore::new());
    let vault = vault(&store);
    let (acme, token, mia) = (id("acme"), name("TOKEN"), mia());
    let cause = Cause::by(&mia, NOW);
    vault.create(&acme, new(None, "TOKEN", "s3cret"), cause, |_, _| ()).await.unwrap();
    vault.create(&acme, new(Some("web"), "TOKEN", "s3cret"), cause, |_, _| ()).await.unwrap();
    let change = SecretChange { value: Some(value("s3cret-2")), description: None };
    vault.update(&acme, None, &token, change, None, cause).await.unwrap();
    let change = SecretChange { value: None, description: Some(description("hush-hush")) };
    vault.update(&acme, Some(&id("web")), &token, change, None, cause).await.unwrap();
    assert!(vault.delete(&acme, None, &token, None, cause).await.unwrap());
    vault.delete_pipeline(&pipeline("acme", "web"), Cause::system(LATER)).await.unwrap();

    let told = told(&store);
    let seen: Vec<_> = told.iter().map(|event| (event.event_type, event.pipeline.clone(), version(event))).collect();
    let web = Some(id("web"));
    assert_eq!(
        seen,
        [
            (EventType::SecretCreated, None, 1),
            (EventType::SecretCreated, web.clone(), 1),
            (EventType::SecretUpdated, None, 2),
            (EventType::SecretUpdated, web.clone(), 2),
            (EventType::SecretDeleted, None, 2),
            (EventType::SecretDeleted, web, 2),
        ]
    );
    let (last, others) = told.split_last().unwrap();
    assert!(others.iter().all(|event| event.by.as_ref() == Some(&mia) && event.at == NOW));
    assert_eq!((&last.by, last.at), (&None, LATER), "nobody asked for that one in particular");
    for event in &told {
        assert!(event.data.contains(&("name".into(), EventValue::Text("TOKEN".into()))), "{event:?}");
    }
    assert!(told[2].data.contains(&("valueChanged".into(), EventValue::Flag(true))));
    assert!(told[3].data.contains(&("valueChanged".into(), EventValue::Flag(false))));
    let journal = format!("{told:?}");
    assert!(!journal.contains("s3cret") && !journal.contains("hush"), "{journal}");
}

#[tokio::test]
async fn a_refusal_records_no_event() {
    let store = Arc::new(MemoryStore::new());
    let vault = vault(&store);
    let (acme, token) = (id("acme"), name("TOKEN"));
    create(&vault, "acme", None, "TOKEN", "s3cret").await;
    vault.create(&acme, new(None, "TOKEN", "other"), CHANGED, |_, _| ()).await.unwrap_err();
    let change = || SecretChange { value: Some(value("new")), description: None };
    vault.update(&acme, None, &token, change(), Some(vec![7]), CHANGED).await.unwrap_err();
    assert!(!vault.delete(&acme, Some(&id("web")), &token, None, CHANGED).await.unwrap());
    vault.delete_pipeline(&pipeline("acme", "web"), CHANGED).await.unwrap();
    store.refuse_with(Some(StoreError::Overloaded));
    vault.update(&acme, None, &token, change(), None, CHANGED).await.unwrap_err();
    store.refuse_with(None);
    assert_eq!(told(&store).len(), 1);
}

#[tokio::test]
async fn a_secret_and_its_event_are_durable_together_or_not_at_all() {
    let store = Arc::new(MemoryStore::new());
    let vault = vault(&store);
    let acme = id("acme");
    store.hold();
    let mut making = pin!(vault.create(&acme, new(None, "TOKEN", "s3cret"), MADE, |_, _| ()));
    assert!(making.as_mut().now_or_never().is_none());
    let lost = Arc::new(store.crash());
    assert!(told(&lost).is_empty() && super::vault(&lost).list(&acme, None).unwrap().is_empty());
    assert!(store.release_one());
    let kept = Arc::new(store.crash());
    assert_eq!((told(&kept).len(), super::vault(&kept).list(&acme, None).unwrap().len()), (1, 1));
}

#[tokio::test]
async fn all_secrets_that_an_organization_can_have_go_with_their_pipeline_in_one_batch() {
    let store = Arc::new(MemoryStore::new());
    let vault = vault(&store);
    let longest = |prefix: &str, length: usize| format!("{prefix}{}", "x".repeat(length - prefix.len()));
    let (organization, pipeline) = (longest("o", 63), longest("p", 63));
    for number in 0..SECRETS_MAX {
        let called = longest(&format!("S{number}_"), 63);
        create(&vault, &organization, Some(&pipeline), &called, "v").await;
    }
    let by = Person { id: UserId(IdSeed([7; 12])), name: longest("n", 63).into() };
    let initiator = Initiator {
        person: by,
        via: Some(RequestRef { token: TokenId(IdSeed([8; 12])), request: "r".repeat(128).into() }),
    };
    vault.delete_pipeline(&super::pipeline(&organization, &pipeline), Cause::by(&initiator, LATER)).await.unwrap();
    assert!(vault.list(&id(&organization), None).unwrap().is_empty());
}

fn mia() -> Initiator {
    let person = Person { id: UserId(IdSeed([7; 12])), name: Arc::from("mia") };
    Initiator { person, via: Some(RequestRef { token: TokenId(IdSeed([8; 12])), request: Arc::from("req_1") }) }
}

fn told(store: &Arc<MemoryStore>) -> Vec<RecordedEvent> {
    Events::new(store.clone()).read(&id("acme"), 0).unwrap()
}

fn version(event: &RecordedEvent) -> u64 {
    let found = event.data.iter().find(|(name, _)| &**name == "version").map(|(_, datum)| datum);
    match found {
        Some(EventValue::Number(version)) => *version,
        Some(EventValue::Text(_) | EventValue::Flag(_)) | None => panic!("{event:?}"),
    }
}
