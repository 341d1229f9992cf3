//! One change of a pipeline: its record, its event, and what readers see of it once it is durable.

use std::sync::Arc;

use super::pipeline::{Definition, Pipeline};
use super::stored;
use domain::{Context, EventData, EventType, Identifier, PipelineKey, Timestamp};
use events::{Cause, NewEvent};
use store::{Batch, Newest, Published, RecordChange};

/// By organization and id.
pub type PublishedPipelines = Published<Identifier, Identifier, Pipeline>;
pub type NewestPipelines = Newest<Identifier, Identifier, Pipeline>;
pub type PipelineChange = RecordChange<Identifier, Identifier, Pipeline>;

/// The pipeline with a new definition; whether it is stopped stays as it is.
pub fn redefined(
    newest: &mut NewestPipelines,
    key: &PipelineKey,
    definition: Definition,
    now: Timestamp,
) -> Arc<Pipeline> {
    let stopped = newest.get(&key.organization, &key.pipeline).and_then(|present| present.stopped.clone());
    let revision = newest.next_revision(now.as_millis());
    Arc::new(definition.into_pipeline(key.clone(), stopped, revision))
}

pub fn put(batch: &mut Batch, pipeline: &Arc<Pipeline>, event_type: EventType, cause: Cause<'_>) -> PipelineChange {
    batch.put(stored::key(&pipeline.key), stored::encode(pipeline));
    record(batch, event_type, pipeline, cause);
    set(&pipeline.key, Some(pipeline.clone()))
}

pub fn delete(batch: &mut Batch, last: &Pipeline, cause: Cause<'_>) -> PipelineChange {
    batch.delete(stored::key(&last.key));
    record(batch, EventType::PipelineDeleted, last, cause);
    set(&last.key, None)
}

pub fn set(key: &PipelineKey, value: Option<Arc<Pipeline>>) -> PipelineChange {
    RecordChange { group: key.organization.clone(), key: key.pipeline.clone(), value }
}

fn record(batch: &mut Batch, event_type: EventType, pipeline: &Pipeline, cause: Cause<'_>) {
    let reason = pipeline.stopped.as_ref().and_then(|stopped| stopped.reason.as_ref());
    let data = EventData::default()
        .with("name", pipeline.name.as_str())
        .with("revision", pipeline.revision)
        .with_some("reason", reason.map(Context::as_str).filter(|_| event_type == EventType::PipelineStopped));
    let event = NewEvent::new(event_type, cause, &data).in_pipeline(&pipeline.key.pipeline);
    events::record(batch, &pipeline.key.organization, &event);
}
