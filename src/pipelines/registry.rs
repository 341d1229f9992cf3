//! All pipelines. Readers see what is durable and nothing else; writers decide on the newest state, durable or not, hand
//! their change in, and answer when it is durable.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};

use super::declared::{self, Declared};
use super::pipeline::{Definition, Pipeline, Stopped};
use super::stored;
use crate::domain::{Agent, Context, Data, Expected, Identifier, Notice, PipelineKey, Timestamp};
use crate::events::{self, Cause, Happening};
use crate::store::{Batch, Sequence, Store, StoreError, durable_up_to, end_of_prefix};

/// Far beyond the organizations we know, few enough to keep in memory and to list.
pub const PIPELINES_MAX: usize = 1_000;

/// Cheap to clone.
#[derive(Clone)]
pub struct Pipelines {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn Store>,
    /// What readers see.
    published: RwLock<Known>,
    /// How many changes are handed in and not published, so that a reader need not look for them where there are none.
    unpublished: AtomicUsize,
    /// Whoever changes something holds it while both the store and this take the change, so that they agree on the
    /// order, and never while waiting for the disk.
    changing: Mutex<Changing>,
    /// Shared by those who make an environment somewhere, had alone by who deletes a pipeline since it has none.
    entrance: tokio::sync::RwLock<()>,
}

struct Changing {
    /// As it will be when all that was handed in is durable.
    newest: Known,
    /// Handed in and not published, in the order of the store.
    unpublished: VecDeque<Unpublished>,
    last_change: Sequence,
}

struct Unpublished {
    sequence: Sequence,
    key: PipelineKey,
    /// None if it was deleted.
    pipeline: Option<Arc<Pipeline>>,
}

/// The pipelines of each organization, by id.
#[derive(Clone, Default)]
pub(super) struct Known {
    by_organization: HashMap<Identifier, BTreeMap<Identifier, Arc<Pipeline>>>,
    /// The newest that was ever given. One order for all pipelines: one that is made again under an old name has none of
    /// the old revisions.
    last_revision: u64,
}

/// What a put came to.
#[derive(Debug)]
pub struct Put {
    pub pipeline: Arc<Pipeline>,
    pub created: bool,
}

/// Held while an environment is made in a pipeline, which cannot be deleted meanwhile.
pub struct Entering<'a> {
    _entrance: tokio::sync::RwLockReadGuard<'a, ()>,
}

/// Held from when a pipeline's environments are counted until it is deleted: none is made meanwhile.
pub struct Closing<'a> {
    _entrance: tokio::sync::RwLockWriteGuard<'a, ()>,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum PipelinesError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("there is no such pipeline")]
    NotFound,
    #[error("the pipeline is not, or no longer, as the caller expects")]
    Changed,
    #[error("the organization has {PIPELINES_MAX} pipelines, which is the most it can have")]
    TooMany,
}

/// What a decision makes of a pipeline, and what is told of it.
enum Becomes {
    Unchanged,
    Changed(Arc<Pipeline>, Notice),
    /// As it was last.
    Deleted(Arc<Pipeline>),
}

impl Pipelines {
    /// Loads what there is, and applies those declarations that are new or have changed.
    pub async fn open(store: Arc<dyn Store>, declared: Vec<Declared>, now: Timestamp) -> Result<Self, StoreError> {
        let mut known = Known::default();
        for (_, record) in store.scan(stored::PIPELINES, &end_of_prefix(stored::PIPELINES), usize::MAX)? {
            let pipeline = stored::decode(&record).map_err(|unreadable| StoreError::Read(unreadable.to_string()))?;
            known.last_revision = known.last_revision.max(pipeline.revision);
            known.set(&pipeline.key.clone(), Some(Arc::new(pipeline)));
        }
        declared::apply(&*store, &mut known, declared, now).await?;
        let changing =
            Changing { newest: known.clone(), unpublished: VecDeque::new(), last_change: Sequence::default() };
        let shared = Shared {
            store,
            published: RwLock::new(known),
            unpublished: AtomicUsize::new(0),
            changing: Mutex::new(changing),
            entrance: tokio::sync::RwLock::new(()),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    pub fn get(&self, organization: &Identifier, id: &str) -> Option<Arc<Pipeline>> {
        self.shared.published().get(organization, id).cloned()
    }

    /// The pipelines of an organization, by id.
    pub fn list(&self, organization: &Identifier) -> Vec<Arc<Pipeline>> {
        self.shared.published().of(organization).cloned().collect()
    }

    /// The same as they will be when all that was handed in is durable, for those who decide something by it.
    pub fn newest(&self, organization: &Identifier) -> Vec<Arc<Pipeline>> {
        self.shared.changing.lock().newest.of(organization).cloned().collect()
    }

    /// Makes it, or replaces all of it but whether it is stopped.
    pub async fn put(
        &self,
        key: &PipelineKey,
        definition: Definition,
        expected: Option<&Expected>,
        by: &Agent,
        now: Timestamp,
    ) -> Result<Put, PipelinesError> {
        let decide = |newest: &mut Known| {
            let present = newest.get(&key.organization, key.pipeline.as_str()).cloned();
            check(present.as_deref(), expected)?;
            if let Some(pipeline) = present.as_ref().filter(|present| present.is_as(&definition)) {
                return Ok((Becomes::Unchanged, Put { pipeline: pipeline.clone(), created: false }));
            }
            if present.is_none() && newest.of(&key.organization).count() >= PIPELINES_MAX {
                return Err(PipelinesError::TooMany);
            }
            let pipeline = newest.defined(key, definition, now);
            let created = present.is_none();
            let notice = if created { Notice::PipelineCreated } else { Notice::PipelineUpdated };
            Ok((Becomes::Changed(pipeline.clone(), notice), Put { pipeline, created }))
        };
        self.change(Cause::by(by, now), decide, |_, _| ()).await
    }

    /// Deletes it; the caller has seen, since it is `Closing`, that it has no environments.
    pub async fn delete(
        &self,
        key: &PipelineKey,
        expected: Option<&Expected>,
        _: &Closing<'_>,
        by: &Agent,
        now: Timestamp,
    ) -> Result<(), PipelinesError> {
        let decide = |newest: &mut Known| {
            let present = newest.get(&key.organization, key.pipeline.as_str()).ok_or(PipelinesError::NotFound)?;
            check(Some(present), expected)?;
            Ok((Becomes::Deleted(present.clone()), ()))
        };
        self.change(Cause::by(by, now), decide, |(), _| ()).await
    }

    /// Stops it, with what `beside` adds to the batch; what that returns is held until it is durable or refused. One that
    /// is stopped already stays as it was stopped first.
    pub async fn stop<Held>(
        &self,
        key: &PipelineKey,
        reason: Option<Context>,
        by: &Agent,
        now: Timestamp,
        beside: impl FnOnce(&Pipeline, &mut Batch) -> Held,
    ) -> Result<Arc<Pipeline>, PipelinesError> {
        let stopped = Stopped { by: by.person.clone(), at: now, reason };
        let to = |present: &Pipeline| present.stopped.is_none().then_some(Some(stopped));
        self.switch(key, to, Notice::PipelineStopped, Cause::by(by, now), beside).await
    }

    /// The same the other way round. Those whose deployments wait have to be told by the caller.
    pub async fn resume<Held>(
        &self,
        key: &PipelineKey,
        by: &Agent,
        now: Timestamp,
        beside: impl FnOnce(&Pipeline, &mut Batch) -> Held,
    ) -> Result<Arc<Pipeline>, PipelinesError> {
        let to = |present: &Pipeline| present.stopped.is_some().then_some(None);
        self.switch(key, to, Notice::PipelineResumed, Cause::by(by, now), beside).await
    }

    /// Before an environment is made in a pipeline. None if that has been deleted.
    pub async fn entering(&self, key: &PipelineKey) -> Option<Entering<'_>> {
        let entrance = self.shared.entrance.read().await;
        let exists = self.get(&key.organization, key.pipeline.as_str()).is_some();
        exists.then_some(Entering { _entrance: entrance })
    }

    /// Before it is looked whether a pipeline can be deleted.
    pub async fn closing(&self) -> Closing<'_> {
        Closing { _entrance: self.shared.entrance.write().await }
    }

    /// `to` says how it is to be stopped or not; None if it is so already.
    async fn switch<Held>(
        &self,
        key: &PipelineKey,
        to: impl FnOnce(&Pipeline) -> Option<Option<Stopped>>,
        notice: Notice,
        cause: Cause<'_>,
        beside: impl FnOnce(&Pipeline, &mut Batch) -> Held,
    ) -> Result<Arc<Pipeline>, PipelinesError> {
        let decide = |newest: &mut Known| {
            let present = newest.get(&key.organization, key.pipeline.as_str()).ok_or(PipelinesError::NotFound)?.clone();
            let Some(stopped) = to(&present) else {
                return Ok((Becomes::Unchanged, present));
            };
            let revision = newest.next_revision(cause.at);
            let pipeline = Arc::new(Pipeline { stopped, revision, ..(*present).clone() });
            Ok((Becomes::Changed(pipeline.clone(), notice), pipeline))
        };
        self.change(cause, decide, |pipeline, batch| beside(pipeline, batch)).await
    }

    /// Also a refusal waits until what it speaks of is durable.
    async fn change<T, Held>(
        &self,
        cause: Cause<'_>,
        decide: impl FnOnce(&mut Known) -> Result<(Becomes, T), PipelinesError>,
        beside: impl FnOnce(&T, &mut Batch) -> Held,
    ) -> Result<T, PipelinesError> {
        let (decided, sequence) = {
            let mut changing = self.shared.changing.lock();
            let decided = decide(&mut changing.newest).and_then(|(becomes, reply)| {
                let mut batch = Batch::default();
                let held = beside(&reply, &mut batch);
                self.shared.hand_in(&mut changing, cause, becomes, batch)?;
                Ok((reply, held))
            });
            (decided, changing.last_change)
        };
        if let Err(PipelinesError::Store(error)) = decided {
            return Err(error.into());
        }
        durable_up_to(&*self.shared.store, sequence).await;
        self.shared.publish_durable();
        decided.map(|(reply, _)| reply)
    }
}

impl Shared {
    /// A change whose caller went away before it was durable is published by the next reader.
    fn published(&self) -> parking_lot::RwLockReadGuard<'_, Known> {
        if self.unpublished.load(Ordering::Acquire) > 0 {
            self.publish_durable();
        }
        self.published.read()
    }

    /// The newest state follows only a change that the store has taken.
    fn hand_in(
        &self,
        changing: &mut Changing,
        cause: Cause<'_>,
        becomes: Becomes,
        mut batch: Batch,
    ) -> Result<(), StoreError> {
        let (key, pipeline) = match becomes {
            Becomes::Unchanged => {
                if !batch.is_empty() {
                    changing.last_change = self.store.commit(batch)?;
                }
                return Ok(());
            }
            Becomes::Changed(pipeline, notice) => {
                batch.put(stored::key(&pipeline.key), stored::encode(&pipeline));
                record(&mut batch, notice, &pipeline, cause);
                (pipeline.key.clone(), Some(pipeline))
            }
            Becomes::Deleted(last) => {
                batch.delete(stored::key(&last.key));
                record(&mut batch, Notice::PipelineDeleted, &last, cause);
                (last.key.clone(), None)
            }
        };
        let sequence = self.store.commit(batch)?;
        changing.last_change = sequence;
        changing.newest.set(&key, pipeline.clone());
        changing.unpublished.push_back(Unpublished { sequence, key, pipeline });
        self.unpublished.store(changing.unpublished.len(), Ordering::Release);
        Ok(())
    }

    /// In the order of the store, whoever comes first.
    fn publish_durable(&self) {
        let mut changing = self.changing.lock();
        let durable = *self.store.durable().borrow();
        let mut published = self.published.write();
        while let Some(change) = changing.unpublished.pop_front_if(|change| change.sequence <= durable) {
            published.set(&change.key, change.pipeline);
        }
        self.unpublished.store(changing.unpublished.len(), Ordering::Release);
    }
}

impl Known {
    pub(super) fn get(&self, organization: &Identifier, id: &str) -> Option<&Arc<Pipeline>> {
        self.by_organization.get(organization)?.get(id)
    }

    fn of(&self, organization: &Identifier) -> impl Iterator<Item = &Arc<Pipeline>> {
        self.by_organization.get(organization).into_iter().flat_map(BTreeMap::values)
    }

    /// The pipeline as it is to be; whether it is stopped stays as it is.
    pub(super) fn defined(&mut self, key: &PipelineKey, definition: Definition, now: Timestamp) -> Arc<Pipeline> {
        let stopped = self.get(&key.organization, key.pipeline.as_str()).and_then(|present| present.stopped.clone());
        let revision = self.next_revision(now);
        Arc::new(definition.into_pipeline(key.clone(), stopped, revision))
    }

    /// Beyond those of pipelines that were deleted before a restart, too, unless the clock was set back.
    fn next_revision(&mut self, now: Timestamp) -> u64 {
        self.last_revision = (self.last_revision + 1).max(u64::try_from(now.as_millis()).unwrap_or(0));
        self.last_revision
    }

    pub(super) fn set(&mut self, key: &PipelineKey, pipeline: Option<Arc<Pipeline>>) {
        let pipelines = self.by_organization.entry(key.organization.clone()).or_default();
        match pipeline {
            Some(pipeline) => _ = pipelines.insert(key.pipeline.clone(), pipeline),
            None => _ = pipelines.remove(&key.pipeline),
        }
    }
}

/// Writes down what happens to a pipeline, in the batch that makes it happen.
pub(super) fn record(batch: &mut Batch, notice: Notice, pipeline: &Pipeline, cause: Cause<'_>) {
    let reason = pipeline.stopped.as_ref().and_then(|stopped| stopped.reason.as_ref());
    let data = Data::default()
        .with("name", pipeline.name.as_str())
        .with("revision", pipeline.revision)
        .with_some("reason", reason.map(Context::as_str).filter(|_| notice == Notice::PipelineStopped));
    let happening = Happening::new(notice, cause.at, cause.by, &data).in_pipeline(&pipeline.key.pipeline);
    events::record(batch, &pipeline.key.organization, &happening);
}

fn check(present: Option<&Pipeline>, expected: Option<&Expected>) -> Result<(), PipelinesError> {
    let holds = match expected {
        None => true,
        Some(Expected::Existing) => present.is_some(),
        Some(Expected::Absent) => present.is_none(),
        Some(Expected::Revisions(expected)) => present.is_some_and(|present| expected.contains(&present.revision)),
    };
    if holds { Ok(()) } else { Err(PipelinesError::Changed) }
}
