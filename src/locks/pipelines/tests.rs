//! Pipelines over a store that can be held back, made to refuse, and reopened. The order of publishing is tested with
//! `store::Published`.

#![allow(clippy::unwrap_used)]

mod events;

use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;

use super::*;
use domain::{
    Action, ApprovalRule, Blueprint, Context, Expected, HttpCall, IdSeed, Identifier, Initiator, Person, PipelineKey,
    RequestRef, Stage, Step, Timestamp, TokenId, UserId, VariableName, VariableValue,
};
use records::stored::Difference;
use store::{Batch, MemoryStore, Store, StoreError};

const NOW: Timestamp = Timestamp::from_millis(1_000);

#[tokio::test]
async fn no_pipeline_is_shown_before_it_is_durable() {
    let store = Arc::new(MemoryStore::new());
    let pipelines = open(&store, &[]).await;
    store.hold();
    let mut making = pin!(put(&pipelines, "one", None));
    assert!(making.as_mut().now_or_never().is_none());
    assert!(pipelines.get(&acme(), "web").is_none() && pipelines.list(&acme()).is_empty());
    store.release();
    assert!(making.await.unwrap().created);
    assert_eq!(pipelines.get(&acme(), "web").unwrap().name, "one");

    store.hold();
    let mut stopping = pin!(stop(&pipelines, "moving", |_, _| ()));
    assert!(stopping.as_mut().now_or_never().is_none());
    assert!(pipelines.get(&acme(), "web").unwrap().stopped.is_none());
    store.release();
    assert_eq!(stopping.await.unwrap().stopped, Some(stopped("moving")));
}

#[tokio::test]
async fn a_change_that_the_store_refuses_leaves_all_as_it_was() {
    let store = Arc::new(MemoryStore::new());
    let pipelines = open(&store, &[]).await;
    let made = pipelines.put(&web(), named("one"), None, &mia(), NOW).await.unwrap().pipeline;
    store.refuse_with(Some(StoreError::Overloaded));
    assert!(matches!(pipelines.put(&web(), named("two"), None, &mia(), NOW).await, Err(PipelinesError::Store(_))));
    assert!(pipelines.stop(&web(), reason("x"), &mia(), NOW, |_, _| ()).await.is_err());
    assert!(delete(&pipelines, web(), None).await.is_err());
    store.refuse_with(None);
    assert_eq!(pipelines.get(&acme(), "web"), Some(made.clone()));
    let again = pipelines.put(&web(), named("one"), None, &mia(), NOW).await.unwrap();
    assert_eq!((again.created, again.pipeline), (false, made), "and nothing has changed");
}

#[tokio::test]
async fn a_refusal_waits_until_the_state_it_is_based_on_is_durable() {
    let store = Arc::new(MemoryStore::new());
    let pipelines = open(&store, &[]).await;
    pipelines.put(&web(), named("one"), None, &mia(), NOW).await.unwrap();
    store.hold();
    assert!(delete(&pipelines, web(), None).now_or_never().is_none());
    let mut refused = pin!(delete(&pipelines, web(), None));
    assert!(refused.as_mut().now_or_never().is_none(), "that it is gone may still be lost");
    store.release();
    assert!(matches!(refused.await, Err(PipelinesError::NotFound)));
}

#[tokio::test]
async fn a_pipeline_survives_a_restart_unchanged() {
    let store = Arc::new(MemoryStore::new());
    let pipelines = open(&store, &[]).await;
    pipelines.put(&web(), full(), None, &mia(), NOW).await.unwrap();
    pipelines.stop(&web(), reason("moving"), &mia(), NOW, |_, _| ()).await.unwrap();
    let before = pipelines.get(&acme(), "web").unwrap();
    assert!(before.is_as(&full()) && before.stopped.is_some());
    let again = open(&store, &[]).await;
    assert_eq!(again.get(&acme(), "web"), Some(before));
}

#[tokio::test]
async fn stopping_and_resuming_twice_changes_nothing() {
    let store = Arc::new(MemoryStore::new());
    let pipelines = open(&store, &[]).await;
    pipelines.put(&web(), named("one"), None, &mia(), NOW).await.unwrap();
    let first = pipelines.stop(&web(), reason("moving"), &mia(), NOW, |_, _| ()).await.unwrap();
    let second = pipelines.stop(&web(), reason("again"), &mia(), NOW, |_, _| ()).await.unwrap();
    assert_eq!(first, second, "as it was stopped first");
    let resumed = pipelines.resume(&web(), &mia(), NOW, |_, _| ()).await.unwrap();
    assert!(resumed.stopped.is_none() && resumed.revision > first.revision);
    assert_eq!(pipelines.resume(&web(), &mia(), NOW, |_, _| ()).await.unwrap(), resumed);
    let nowhere = PipelineKey { pipeline: identifier("nowhere"), ..web() };
    assert!(matches!(pipelines.resume(&nowhere, &mia(), NOW, |_, _| ()).await, Err(PipelinesError::NotFound)));
}

#[tokio::test]
async fn additions_to_the_batch_of_a_stop_are_durable_with_it_and_held_until_then() {
    let store = Arc::new(MemoryStore::new());
    let pipelines = open(&store, &[]).await;
    pipelines.put(&web(), named("one"), None, &mia(), NOW).await.unwrap();
    let held = Arc::new(());
    let beside = |_: &Pipeline, batch: &mut Batch| {
        batch.put(b"beside", Vec::new());
        held.clone()
    };
    store.hold();
    let mut stopping = pin!(stop(&pipelines, "moving", beside));
    assert!(stopping.as_mut().now_or_never().is_none());
    assert_eq!(Arc::strong_count(&held), 2, "held while it is not durable");
    store.release();
    stopping.await.unwrap();
    assert!(Arc::strong_count(&held) == 1 && store.get(b"beside").unwrap().is_some());
    let crashed = Arc::new(store.crash());
    assert!(open(&crashed, &[]).await.get(&acme(), "web").unwrap().stopped.is_some());

    let beside = |_: &Pipeline, batch: &mut Batch| batch.put(b"again", Vec::new());
    pipelines.stop(&web(), reason("again"), &mia(), NOW, beside).await.unwrap();
    assert!(store.get(b"again").unwrap().is_some(), "an answer is kept also where nothing changed");
}

#[tokio::test]
async fn a_stop_survives_a_put_and_a_new_declaration() {
    let store = Arc::new(MemoryStore::new());
    let pipelines = open(&store, &[("web", named("one"))]).await;
    pipelines.stop(&web(), reason("moving"), &mia(), NOW, |_, _| ()).await.unwrap();
    let put = pipelines.put(&web(), named("two"), None, &mia(), NOW).await.unwrap().pipeline;
    assert_eq!(put.stopped, Some(stopped("moving")));
    let again = open(&store, &[("web", named("three"))]).await.get(&acme(), "web").unwrap();
    assert_eq!((again.name.as_str(), &again.stopped), ("three", &Some(stopped("moving"))));
}

#[tokio::test]
async fn a_declaration_is_applied_when_it_is_new_or_has_changed_and_changes_through_the_api_hold_in_between() {
    let store = Arc::new(MemoryStore::new());
    let pipelines = open(&store, &[("web", named("one"))]).await;
    assert_eq!(pipelines.get(&acme(), "web").unwrap().name, "one");
    pipelines.put(&web(), named("by hand"), None, &mia(), NOW).await.unwrap();
    let same = open(&store, &[("web", named("one"))]).await;
    assert_eq!(same.get(&acme(), "web").unwrap().name, "by hand");
    let changed = open(&store, &[("web", named("two"))]).await;
    assert_eq!(changed.get(&acme(), "web").unwrap().name, "two");
    let undeclared = open(&store, &[]).await;
    assert_eq!(undeclared.get(&acme(), "web").unwrap().name, "two", "what a file no longer names stays");
}

#[tokio::test]
async fn a_pruned_pipeline_goes_with_its_mark_in_one_step_and_can_be_declared_again() {
    let store = Arc::new(MemoryStore::new());
    let pipelines = open(&store, &[("web", named("one"))]).await;
    let declared =
        |id: &str| [Declared { key: PipelineKey { pipeline: identifier(id), ..web() }, definition: named("one") }];
    let found = |store: &MemoryStore, declared: &[Declared]| {
        let found = pipeline_differences(store, &acme(), declared).unwrap();
        found.into_iter().map(|(key, difference)| (key.pipeline.to_string(), difference)).collect::<Vec<_>>()
    };
    let renamed = [("shop".to_owned(), Difference::Created), ("web".to_owned(), Difference::Removed)];
    assert_eq!(found(&store, &declared("shop")), renamed);
    assert_eq!(found(&store, &declared("web")), []);
    store.hold();
    let closing = pipelines.closing().await;
    let key = web();
    let mut pruning = pin!(pipelines.prune(&key, &closing, NOW));
    assert!(pruning.as_mut().now_or_never().is_none());
    assert_eq!(found(&store.crash(), &declared("shop")), renamed, "a start after a crash finds the same");
    store.release();
    pruning.await.unwrap();
    assert!(pipelines.get(&acme(), "web").is_none());
    let crashed = Arc::new(store.crash());
    assert_eq!(found(&crashed, &declared("web")), [("web".to_owned(), Difference::Created)]);
    assert!(open(&crashed, &[("web", named("one"))]).await.get(&acme(), "web").is_some());
}

#[tokio::test]
async fn a_file_takes_over_what_the_api_made_and_does_not_remove_what_the_api_deleted() {
    let store = Arc::new(MemoryStore::new());
    let pipelines = open(&store, &[("shop", named("one"))]).await;
    put(&pipelines, "by hand", None).await.unwrap();
    delete(&pipelines, PipelineKey { pipeline: identifier("shop"), ..web() }, None).await.unwrap();
    let declared = [Declared { key: web(), definition: named("one") }];
    let found = pipeline_differences(&*store, &acme(), &declared).unwrap();
    let shop = PipelineKey { pipeline: identifier("shop"), ..web() };
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [(shop, Difference::Gone), (web(), Difference::Changed)]);
    pipelines.declare(declared.to_vec(), NOW).await.unwrap();
    assert_eq!(pipelines.get(&acme(), "web").unwrap().name, "one");
}

#[tokio::test]
async fn a_deleted_pipeline_stays_deleted_until_its_declaration_changes() {
    let store = Arc::new(MemoryStore::new());
    let pipelines = open(&store, &[("web", named("one"))]).await;
    delete(&pipelines, web(), None).await.unwrap();
    assert!(pipelines.get(&acme(), "web").is_none());
    assert!(open(&store, &[("web", named("one"))]).await.get(&acme(), "web").is_none());
    assert!(open(&store, &[("web", named("two"))]).await.get(&acme(), "web").is_some());
}

#[tokio::test]
async fn a_start_that_dies_half_way_through_the_declarations_goes_on_with_the_next() {
    let store = Arc::new(MemoryStore::new());
    store.hold();
    let declared = [("web", named("one")), ("shop", named("two"))];
    assert!(open(&store, &declared).now_or_never().is_none());
    store.release_one();
    let crashed = Arc::new(store.crash());
    let ids: Vec<_> = open(&crashed, &declared).await.list(&acme()).iter().map(|p| p.name.clone()).collect();
    assert_eq!(ids, ["two", "one"], "by id");
}

#[tokio::test]
async fn a_precondition_is_checked_against_the_newest_revision_even_if_it_is_not_durable() {
    let store = Arc::new(MemoryStore::new());
    let pipelines = open(&store, &[]).await;
    let revisions = |revision| Some(Expected::Revisions(vec![revision]));
    assert!(put(&pipelines, "x", Some(Expected::Existing)).await.is_err());
    assert!(put(&pipelines, "x", revisions(0)).await.is_err());
    let made = put(&pipelines, "one", Some(Expected::Absent)).await.unwrap().pipeline;
    assert!(matches!(put(&pipelines, "x", Some(Expected::Absent)).await, Err(PipelinesError::Changed)));
    store.hold();
    let mut first = pin!(put(&pipelines, "two", revisions(made.revision)));
    let mut second = pin!(put(&pipelines, "three", revisions(made.revision)));
    assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
    store.release();
    let changed = first.await.unwrap().pipeline;
    assert!(matches!(second.await, Err(PipelinesError::Changed)), "only one of two can be the first");
    assert!(matches!(delete(&pipelines, web(), revisions(made.revision)).await, Err(PipelinesError::Changed)));
    delete(&pipelines, web(), revisions(changed.revision)).await.unwrap();
    let again = put(&pipelines, "two", None).await.unwrap().pipeline;
    assert!(again.revision > changed.revision, "one of the same name has none of the old revisions");
}

#[tokio::test]
async fn an_organization_has_a_thousand_pipelines_and_no_more_also_when_made_at_once() {
    let store = Arc::new(MemoryStore::new());
    let pipelines = open(&store, &[]).await;
    let key = |number: usize| PipelineKey { pipeline: identifier(&format!("p{number}")), ..web() };
    for number in 1..PIPELINES_MAX {
        pipelines.put(&key(number), named("x"), None, &mia(), NOW).await.unwrap();
    }
    store.hold();
    assert!(pipelines.put(&key(0), named("x"), None, &mia(), NOW).now_or_never().is_none());
    let mut refused = pin!(put(&pipelines, "x", None));
    assert!(refused.as_mut().now_or_never().is_none());
    store.release();
    assert!(matches!(refused.await, Err(PipelinesError::TooMany)));
    let elsewhere = PipelineKey { organization: identifier("beta"), ..web() };
    pipelines.put(&elsewhere, named("x"), None, &mia(), NOW).await.unwrap();
    pipelines.put(&key(7), named("changed"), None, &mia(), NOW).await.unwrap();
    delete(&pipelines, key(7), None).await.unwrap();
    assert!(put(&pipelines, "x", None).await.unwrap().created);
}

#[tokio::test]
async fn no_environment_is_made_in_a_pipeline_while_it_is_deleted() {
    let store = Arc::new(MemoryStore::new());
    let pipelines = open(&store, &[("web", named("one"))]).await;
    let key = web();
    let entering = pipelines.entering(&key).await.unwrap();
    let mut closing = pin!(pipelines.closing());
    assert!(closing.as_mut().now_or_never().is_none(), "an environment is being made");
    drop(entering);
    let closing = closing.await;
    let mut entering = pin!(pipelines.entering(&key));
    assert!(entering.as_mut().now_or_never().is_none(), "it is being looked whether there are any");
    pipelines.delete(&key, None, &closing, &mia(), NOW).await.unwrap();
    drop(closing);
    assert!(entering.await.is_none(), "there is no such pipeline any more");
}

#[tokio::test]
async fn a_record_that_cannot_be_read_stops_the_start() {
    let store = Arc::new(MemoryStore::new());
    let mut batch = Batch::default();
    batch.put(change::key(&web()), vec![9, 9, 9]);
    store.commit(batch).unwrap();
    let refused = Pipelines::open(store, Vec::new(), NOW).await;
    assert!(matches!(refused, Err(StoreError::Read(why)) if why.contains("version")));
}

async fn open(store: &Arc<MemoryStore>, declared: &[(&str, Definition)]) -> Pipelines {
    let declared = declared.iter().map(|(id, definition)| Declared {
        key: PipelineKey { pipeline: identifier(id), ..web() },
        definition: definition.clone(),
    });
    Pipelines::open(store.clone(), declared.collect(), NOW).await.unwrap()
}

async fn put(pipelines: &Pipelines, name: &str, expected: Option<Expected>) -> Result<Put, PipelinesError> {
    pipelines.put(&web(), named(name), expected.as_ref(), &mia(), NOW).await
}

async fn stop<Held>(
    pipelines: &Pipelines,
    reason: &str,
    beside: impl FnOnce(&Pipeline, &mut Batch) -> Held,
) -> Result<Arc<Pipeline>, PipelinesError> {
    pipelines.stop(&web(), self::reason(reason), &mia(), NOW, beside).await
}

async fn delete(pipelines: &Pipelines, key: PipelineKey, expected: Option<Expected>) -> Result<(), PipelinesError> {
    let closing = pipelines.closing().await;
    pipelines.delete(&key, expected.as_ref(), &closing, &mia(), NOW).await
}

fn identifier(text: &str) -> Identifier {
    Identifier::parse(text).unwrap()
}

fn acme() -> Identifier {
    identifier("acme")
}

fn web() -> PipelineKey {
    PipelineKey { organization: acme(), pipeline: identifier("web") }
}

fn named(name: &str) -> Definition {
    Definition { name: name.to_owned(), slug: identifier("web"), blueprint: Arc::default(), repository: None }
}

/// A definition with every field that a pipeline can have.
fn full() -> Definition {
    let run = Step::own(step_name(0), Action::Run(vec![Arc::from("echo"), Arc::from("ä $X")]));
    let call = HttpCall {
        method: default_method(true),
        url: Arc::from("https://deploy.example/${COMMIT}"),
        headers: vec![(Arc::from("X-Tier"), Arc::from("review"))],
        body: Some(Arc::from("{}")),
        expect_status: vec![200, 204],
    };
    let http = Step::own(identifier("call"), Action::Http(call));
    let stage = |name, approval, steps| Stage {
        name: identifier(name),
        approval,
        timeout_seconds: 60,
        idempotent: approval == ApprovalRule::Never,
        steps,
    };
    let blueprint = Blueprint {
        stages: vec![
            stage("build", ApprovalRule::Never, vec![run.clone(), http]),
            stage("deploy", ApprovalRule::Always, vec![run]),
        ],
        variables: [(VariableName::parse("TIER").unwrap(), VariableValue::parse("review").unwrap())].into(),
        self_approval: false,
    };
    let repository = Repository {
        provider: Provider::GitHub,
        url: Arc::from("https://github.example/acme/shop"),
        default_branch: default_branch(),
        credential: Some(VariableName::parse("GIT_TOKEN").unwrap()),
        api_url: Some(Arc::from("https://github.example/api/v3")),
    };
    Definition {
        name: "Everything".to_owned(),
        slug: identifier("all"),
        blueprint: Arc::new(blueprint),
        repository: Some(repository),
    }
}

fn stopped(why: &str) -> Stopped {
    Stopped { by: mia().person, at: NOW, reason: reason(why) }
}

fn reason(why: &str) -> Option<Context> {
    Some(Context::parse(why).unwrap())
}

fn mia() -> Initiator {
    let person = Person { id: UserId(IdSeed([7; 12])), name: Arc::from("mia") };
    Initiator { person, via: Some(RequestRef { token: TokenId(IdSeed([8; 12])), request: Arc::from("req_1") }) }
}
