//! Events about pipelines: recorded once per change, in its batch, and attributed to the initiator.

use super::*;
use ::events::{Events, RecordedEvent};
use domain::{EventType, EventValue};

#[tokio::test]
async fn every_change_of_a_pipeline_records_one_event_with_its_author() {
    let store = Arc::new(MemoryStore::new());
    let pipelines = open(&store, &[]).await;
    put(&pipelines, "one", None).await.unwrap();
    put(&pipelines, "two", None).await.unwrap();
    stop(&pipelines, "moving", |_, _| ()).await.unwrap();
    let resumed = pipelines.resume(&web(), &mia(), NOW, |_, _| ()).await.unwrap();
    delete(&pipelines, web(), None).await.unwrap();
    let told = told(&store);
    let event_types: Vec<_> = told.iter().map(|event| event.event_type).collect();
    assert_eq!(
        event_types,
        [
            EventType::PipelineCreated,
            EventType::PipelineUpdated,
            EventType::PipelineStopped,
            EventType::PipelineResumed,
            EventType::PipelineDeleted
        ]
    );
    for event in &told {
        assert_eq!((event.by.as_ref(), event.at), (Some(&mia()), NOW));
        assert_eq!(event.pipeline, Some(identifier("web")));
        let has_reason = datum(event, "reason").is_some();
        assert_eq!(has_reason, event.event_type == EventType::PipelineStopped);
    }
    assert_eq!(datum(&told[0], "name"), Some(EventValue::Text("one".into())));
    assert_eq!(datum(&told[2], "reason"), Some(EventValue::Text("moving".into())));
    assert_eq!(datum(&told[3], "revision"), Some(EventValue::Number(resumed.revision)));
    assert_eq!(datum(&told[4], "name"), Some(EventValue::Text("two".into())));
}

#[tokio::test]
async fn a_request_that_changes_nothing_records_no_event() {
    let store = Arc::new(MemoryStore::new());
    let pipelines = open(&store, &[("web", named("one"))]).await;
    pipelines.resume(&web(), &mia(), NOW, |_, _| ()).await.unwrap();
    stop(&pipelines, "moving", |_, _| ()).await.unwrap();
    let before = told(&store);
    put(&pipelines, "one", None).await.unwrap();
    // The record beside the unchanged pipeline is stored anyway.
    stop(&pipelines, "again", |_, batch| batch.put(b"beside", Vec::new())).await.unwrap();
    put(&pipelines, "x", Some(Expected::Absent)).await.unwrap_err();
    open(&store, &[("web", named("one"))]).await;
    assert_eq!((told(&store), before.len()), (before, 2));
}

#[tokio::test]
async fn changes_by_a_file_are_recorded_as_the_systems() {
    let store = Arc::new(MemoryStore::new());
    open(&store, &[("web", named("one"))]).await;
    open(&store, &[("web", named("two"))]).await;
    let told = told(&store);
    let seen: Vec<_> = told.iter().map(|event| (event.event_type, event.by.clone(), event.pipeline.clone())).collect();
    let web = Some(identifier("web"));
    assert_eq!(seen, [(EventType::PipelineCreated, None, web.clone()), (EventType::PipelineUpdated, None, web)]);
}

#[tokio::test]
async fn a_change_and_its_event_are_durable_together_or_not_at_all() {
    let store = Arc::new(MemoryStore::new());
    let pipelines = open(&store, &[]).await;
    store.refuse_with(Some(StoreError::Overloaded));
    put(&pipelines, "refused", None).await.unwrap_err();
    store.refuse_with(None);
    store.hold();
    let mut making = pin!(put(&pipelines, "one", None));
    assert!(making.as_mut().now_or_never().is_none());
    let lost = Arc::new(store.crash());
    assert!(told(&lost).is_empty() && open(&lost, &[]).await.list(&acme()).is_empty());
    store.release_one();
    let kept = Arc::new(store.crash());
    assert_eq!((told(&kept).len(), open(&kept, &[]).await.list(&acme()).len()), (1, 1));
}

fn told(store: &Arc<MemoryStore>) -> Vec<RecordedEvent> {
    Events::new(store.clone()).read(&acme(), 0).unwrap()
}

fn datum(event: &RecordedEvent, name: &str) -> Option<EventValue> {
    event.data.iter().find(|(known, _)| &**known == name).map(|(_, datum)| datum.clone())
}
