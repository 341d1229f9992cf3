//! Creating, changing, deleting and reading secrets.

use std::pin::pin;

use futures_util::FutureExt;

use super::*;
use store::{Batch, StoreError};

#[tokio::test]
async fn a_pipelines_own_secret_wins_over_the_organizations() {
    let store = Arc::new(MemoryStore::new());
    let vault = vault(&store);
    create(&vault, "acme", None, "TOKEN", "for all").await;
    create(&vault, "acme", None, "URL", "same for all").await;
    create(&vault, "acme", Some("web"), "TOKEN", "for web").await;
    create(&vault, "acme", Some("web-2"), "TOKEN", "for web-2").await;
    create(&vault, "acme2", None, "FOREIGN", "of others").await;
    assert_eq!(opened(&vault, "acme", "web"), pairs(&[("TOKEN", "for web"), ("URL", "same for all")]));
    assert_eq!(opened(&vault, "acme", "shop"), pairs(&[("TOKEN", "for all"), ("URL", "same for all")]));
    assert_eq!(opened(&vault, "nobody", "web"), []);
}

#[tokio::test]
async fn secrets_are_listed_by_pipeline_and_name() {
    let store = Arc::new(MemoryStore::new());
    let vault = vault(&store);
    for (scope, called) in [(Some("a"), "X"), (Some("a-b"), "X"), (None, "Z"), (Some("a"), "B"), (None, "A")] {
        create(&vault, "acme", scope, called, "v").await;
    }
    create(&vault, "acme2", None, "FOREIGN", "v").await;
    let listed = |scope: Option<&str>| -> Vec<_> {
        let listed = vault.list(&id("acme"), scope.map(id).as_ref()).unwrap();
        listed.into_iter().map(|s| (s.pipeline.map_or(String::new(), |p| p.to_string()), s.name.to_string())).collect()
    };
    assert_eq!(listed(None), pairs(&[("", "A"), ("", "Z"), ("a", "B"), ("a", "X"), ("a-b", "X")]));
    assert_eq!(listed(Some("a")), pairs(&[("a", "B"), ("a", "X")]));
    assert_eq!(listed(Some("nothing")), []);
}

#[tokio::test]
async fn an_answered_change_is_read_after_a_restart() {
    let store = Arc::new(MemoryStore::new());
    let made = {
        let vault = vault(&store);
        let new = NewSecret { description: description("for the registry"), ..new(Some("web"), "TOKEN", "s3cret") };
        vault.create(&id("acme"), new, MADE, |_, _| ()).await.unwrap()
    };
    let vault = vault(&Arc::new(store.crash()));
    assert_eq!(vault.get(&id("acme"), Some(&id("web")), &name("TOKEN")).unwrap(), Some(made.clone()));
    assert_eq!(vault.get(&id("acme"), None, &name("TOKEN")).unwrap(), None);
    assert_eq!((made.version, made.created_at, made.updated_at), (1, NOW, NOW));
    assert_eq!(made.description.as_str(), "for the registry");
    assert_eq!(opened(&vault, "acme", "web"), pairs(&[("TOKEN", "s3cret")]));
}

#[tokio::test]
async fn an_update_keeps_what_it_does_not_name_and_raises_the_version() {
    let store = Arc::new(MemoryStore::new());
    let vault = vault(&store);
    create(&vault, "acme", None, "TOKEN", "old").await;
    let (acme, token) = (id("acme"), name("TOKEN"));
    let described = SecretChange { value: None, description: Some(description("why")) };
    let updated = vault.update(&acme, None, &token, described, None, CHANGED).await.unwrap();
    assert_eq!((updated.version, updated.created_at, updated.updated_at), (2, NOW, LATER));
    assert_eq!(opened(&vault, "acme", "web"), pairs(&[("TOKEN", "old")]));
    let changed = SecretChange { value: Some(value("new")), description: None };
    let updated = vault.update(&acme, None, &token, changed, Some(vec![1, 2]), CHANGED).await.unwrap();
    assert_eq!((updated.version, updated.description.as_str()), (3, "why"));
    assert_eq!(opened(&vault, "acme", "web"), pairs(&[("TOKEN", "new")]));
    let gone = vault.update(&acme, Some(&id("web")), &token, SecretChange::default(), None, CHANGED).await;
    assert!(matches!(gone, Err(SecretError::NotFound)));
}

#[tokio::test]
async fn a_change_of_another_version_is_refused_and_changes_nothing() {
    let store = Arc::new(MemoryStore::new());
    let vault = vault(&store);
    create(&vault, "acme", None, "TOKEN", "old").await;
    let (acme, token) = (id("acme"), name("TOKEN"));
    for expected in [vec![], vec![2, 3]] {
        let change = SecretChange { value: Some(value("new")), description: None };
        let refused = vault.update(&acme, None, &token, change, Some(expected.clone()), CHANGED).await;
        assert!(matches!(refused, Err(SecretError::VersionMismatch { current: 1 })));
        let refused = vault.delete(&acme, None, &token, Some(expected), CHANGED).await;
        assert!(matches!(refused, Err(SecretError::VersionMismatch { current: 1 })));
    }
    assert_eq!(opened(&vault, "acme", "web"), pairs(&[("TOKEN", "old")]));
    assert!(vault.delete(&acme, None, &token, Some(vec![1]), CHANGED).await.unwrap());
    assert!(!vault.delete(&acme, None, &token, Some(vec![1]), CHANGED).await.unwrap());
}

#[tokio::test]
async fn a_description_changed_while_the_value_is_on_its_way_to_the_disk_keeps_the_new_value() {
    let store = Arc::new(MemoryStore::new());
    let vault = vault(&store);
    create(&vault, "acme", None, "TOKEN", "old").await;
    let (acme, token) = (id("acme"), name("TOKEN"));
    store.hold();
    let change =
        |value, description| vault.update(&acme, None, &token, SecretChange { value, description }, None, CHANGED);
    let mut valued = pin!(change(Some(value("new")), None));
    let mut described = pin!(change(None, Some(description("why"))));
    assert!(valued.as_mut().now_or_never().is_none());
    assert!(described.as_mut().now_or_never().is_none());
    let mut valued_again = pin!(change(Some(value("newest")), None));
    assert!(valued_again.as_mut().now_or_never().is_none());
    assert_eq!(opened(&vault, "acme", "web"), pairs(&[("TOKEN", "old")]), "nobody sees what is not durable");
    assert!(store.release_one());
    assert!(described.as_mut().now_or_never().is_none(), "the value that has become durable is no longer the newest");
    store.release();
    assert_eq!(described.await.unwrap().version, 4);
    assert_eq!((valued.await.unwrap().version, valued_again.await.unwrap().version), (2, 3));
    assert_eq!(opened(&vault, "acme", "web"), pairs(&[("TOKEN", "newest")]));
}

#[tokio::test]
async fn a_secret_created_again_never_reuses_a_version_of_its_name() {
    let store = Arc::new(MemoryStore::new());
    let first = vault(&store);
    create(&first, "acme", None, "TOKEN", "old").await;
    let change = || SecretChange { value: Some(value("newer")), description: None };
    first.update(&id("acme"), None, &name("TOKEN"), change(), None, CHANGED).await.unwrap();
    first.delete(&id("acme"), None, &name("TOKEN"), None, CHANGED).await.unwrap();
    let second = vault(&Arc::new(store.crash()));
    assert_eq!(create(&second, "acme", None, "TOKEN", "new").await.version, 3);
    assert_eq!(create(&second, "globex", None, "TOKEN", "new").await.version, 1);
    assert_eq!(second.update(&id("acme"), None, &name("TOKEN"), change(), None, CHANGED).await.unwrap().version, 4);
}

#[tokio::test]
async fn of_concurrent_creations_of_one_name_one_wins_and_the_others_are_refused_when_it_is_durable() {
    let store = Arc::new(MemoryStore::new());
    let vault = vault(&store);
    let acme = id("acme");
    store.hold();
    let mut first = pin!(vault.create(&acme, new(None, "TOKEN", "first"), MADE, |_, _| ()));
    let mut second = pin!(vault.create(&acme, new(None, "TOKEN", "second"), MADE, |_, _| ()));
    let mut of_pipeline = pin!(vault.create(&acme, new(Some("web"), "TOKEN", "other"), MADE, |_, _| ()));
    assert!(first.as_mut().now_or_never().is_none());
    assert!(second.as_mut().now_or_never().is_none());
    assert!(of_pipeline.as_mut().now_or_never().is_none());
    store.release();
    assert!(first.await.is_ok());
    assert!(matches!(second.await, Err(SecretError::Exists)));
    assert!(of_pipeline.await.is_ok());
    assert_eq!(opened(&vault, "acme", "shop"), pairs(&[("TOKEN", "first")]));
}

#[tokio::test]
async fn a_deletion_is_answered_when_it_is_durable_and_so_is_not_found() {
    let store = Arc::new(MemoryStore::new());
    let vault = vault(&store);
    create(&vault, "acme", None, "TOKEN", "s3cret").await;
    let (acme, token) = (id("acme"), name("TOKEN"));
    store.hold();
    let mut first = pin!(vault.delete(&acme, None, &token, None, CHANGED));
    let mut second = pin!(vault.delete(&acme, None, &token, None, CHANGED));
    assert!(first.as_mut().now_or_never().is_none());
    assert!(second.as_mut().now_or_never().is_none());
    store.release();
    assert!(first.await.unwrap());
    assert!(!second.await.unwrap());
}

#[tokio::test]
async fn a_change_that_the_store_refuses_leaves_everything_as_it_was() {
    let store = Arc::new(MemoryStore::new());
    let vault = vault(&store);
    create(&vault, "acme", None, "TOKEN", "old").await;
    let (acme, token) = (id("acme"), name("TOKEN"));
    store.refuse_with(Some(StoreError::Overloaded));
    let change = SecretChange { value: Some(value("new")), description: None };
    assert!(matches!(vault.update(&acme, None, &token, change, None, CHANGED).await, Err(SecretError::Store(_))));
    assert!(matches!(vault.delete(&acme, None, &token, None, CHANGED).await, Err(SecretError::Store(_))));
    for organization in ["acme", "globex"] {
        let made = vault.create(&id(organization), new(None, "OTHER", "x"), MADE, |_, _| ()).await;
        assert!(matches!(made, Err(SecretError::Store(_))));
    }
    store.refuse_with(None);
    assert_eq!(opened(&vault, "acme", "web"), pairs(&[("TOKEN", "old")]));
    assert_eq!(create(&vault, "acme", None, "OTHER", "x").await.version, 1);
    create(&vault, "globex", None, "OTHER", "y").await;
    assert_eq!(opened(&super::vault(&store), "globex", "web"), pairs(&[("OTHER", "y")]));
}

#[tokio::test]
async fn additions_to_the_batch_of_a_secret_are_durable_with_it_or_not_at_all() {
    let store = Arc::new(MemoryStore::new());
    let vault = vault(&store);
    for key in [b"first", b"again"] {
        let keep = |secret: &Secret, batch: &mut Batch| batch.put(key, secret.name.to_string().into_bytes());
        vault.create(&id("acme"), new(None, "TOKEN", "s3cret"), MADE, keep).await.ok();
    }
    assert_eq!(store.get(b"first").unwrap().unwrap(), b"TOKEN");
    assert_eq!(store.get(b"again").unwrap(), None);
}

#[tokio::test]
async fn an_organization_has_a_thousand_secrets_and_no_more() {
    let store = Arc::new(MemoryStore::new());
    let vault = vault(&store);
    for number in 0..SECRETS_MAX {
        create(&vault, "acme", (number % 2 == 0).then_some("web"), &format!("S{number}"), "v").await;
    }
    let refused = vault.create(&id("acme"), new(None, "MORE", "v"), MADE, |_, _| ()).await;
    assert!(matches!(refused, Err(SecretError::TooMany)));
    create(&vault, "globex", None, "MORE", "v").await;
    assert_eq!(vault.list(&id("acme"), None).unwrap().len(), SECRETS_MAX);
    vault.delete(&id("acme"), None, &name("S1"), None, CHANGED).await.unwrap();
    create(&vault, "acme", None, "MORE", "v").await;
}

#[tokio::test]
async fn the_secrets_of_a_deleted_pipeline_and_no_others_are_deleted() {
    let store = Arc::new(MemoryStore::new());
    let first = vault(&store);
    for (scope, called) in [(None, "ALL"), (Some("web"), "A"), (Some("web"), "B"), (Some("web-2"), "A")] {
        create(&first, "acme", scope, called, "v").await;
    }
    create(&first, "globex", Some("web"), "A", "v").await;
    first.delete_pipeline(&pipeline("acme", "web"), CHANGED).await.unwrap();
    first.delete_pipeline(&pipeline("nobody", "web"), CHANGED).await.unwrap();
    let second = vault(&Arc::new(store.crash()));
    for vault in [&first, &second] {
        assert_eq!(opened(vault, "acme", "web"), pairs(&[("ALL", "v")]));
        assert_eq!(opened(vault, "acme", "web-2"), pairs(&[("A", "v"), ("ALL", "v")]));
        assert_eq!(opened(vault, "globex", "web"), pairs(&[("A", "v")]));
    }
    assert_eq!(create(&second, "acme", Some("web"), "A", "v").await.version, 2);
}
