//! The pipelines of every organization: declared by files, changed and stopped through the API. All are both in memory
//! and in the store. Independent of environments and of how a deployment runs.
//!
//! Changes follow [`Published`](store::Published): writers decide on the newest state and are answered when their
//! change is durable; readers see durable state. A declaration is applied when it is new or has changed. Until then,
//! changes through the API stay, including deletions, also across restarts. Each file uses only those before it:
//! pipeline, change.

mod change;
mod pipeline;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use change::{NewestPipelines, PublishedPipelines};
use pipeline::Stopped;

use domain::{
    Context, EventData, Expected, Identifier, Initiator, PipelineData, PipelineKey, PipelineStoppedData, Timestamp,
};
use events::Cause;
use records::stored::{Difference, differences};
use store::{Batch, Published, Store, StoreError, for_each};

pub use pipeline::{
    API_URL_PATTERN, Definition, EXPECTED_STATUSES_MAX, Pipeline, Provider, REPOSITORY_URL_PATTERN, Repository,
    STATUSES, check_api_url, check_repository_url, default_branch, default_method, step_name,
};

/// Per organization: well above all known uses, and few enough to keep in memory and to list.
pub const PIPELINES_MAX: usize = 1_000;

/// Cheap to clone.
#[derive(Clone)]
pub struct Pipelines {
    inner: Arc<Inner>,
}

struct Inner {
    pipelines: PublishedPipelines,
    /// Shared by requests that create an environment; held exclusively by a request that deletes a pipeline without
    /// environments.
    entrance: tokio::sync::RwLock<()>,
}

/// The outcome of a put.
#[derive(Debug)]
pub struct Put {
    pub pipeline: Arc<Pipeline>,
    pub created: bool,
}

/// Held while an environment is created, so that its pipeline is not deleted meanwhile.
pub struct Entering<'a> {
    _entrance: tokio::sync::RwLockReadGuard<'a, ()>,
}

/// Held while a pipeline's environments are counted and it is deleted, so that none is created meanwhile.
pub struct Closing<'a> {
    _entrance: tokio::sync::RwLockWriteGuard<'a, ()>,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum PipelinesError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the pipeline does not exist")]
    NotFound,
    #[error("the pipeline is not at the expected revision")]
    Changed,
    #[error("the organization has the maximum of {PIPELINES_MAX} pipelines")]
    TooMany,
}

impl Pipelines {
    /// Loads the stored pipelines, and applies the declarations that are new or have changed.
    pub async fn open(store: Arc<dyn Store>, declared: Vec<Declared>, now: Timestamp) -> Result<Self, StoreError> {
        let pipelines = Published::load(store, store::keys::PIPELINES, |record| {
            let pipeline = Arc::new(change::decode(record)?);
            Ok((change::set(&pipeline.key, Some(pipeline.clone())), pipeline.revision))
        })?;
        apply(&pipelines, declared, now).await?;
        Ok(Self { inner: Arc::new(Inner { pipelines, entrance: tokio::sync::RwLock::new(()) }) })
    }

    /// Applies the declarations of files that are new or have changed.
    pub async fn declare(&self, declared: Vec<Declared>, now: Timestamp) -> Result<(), StoreError> {
        apply(&self.inner.pipelines, declared, now).await
    }

    /// Deletes a pipeline that its file no longer declares, if it exists. The caller holds `Closing` and has checked
    /// that the pipeline has no environments.
    pub async fn prune(&self, key: &PipelineKey, _: &Closing<'_>, now: Timestamp) -> Result<(), StoreError> {
        prune(&self.inner.pipelines, key, now).await
    }

    pub fn get(&self, organization: &Identifier, id: &str) -> Option<Arc<Pipeline>> {
        self.inner.pipelines.read().get(organization, id).cloned()
    }

    /// The pipelines of an organization, by id.
    pub fn list(&self, organization: &Identifier) -> Vec<Arc<Pipeline>> {
        self.inner.pipelines.read().of(organization).cloned().collect()
    }

    /// Like [`Self::list`], in the newest state, durable or not, for callers that base a decision on it.
    pub fn newest(&self, organization: &Identifier) -> Vec<Arc<Pipeline>> {
        self.inner.pipelines.with_newest(|newest| newest.of(organization).cloned().collect())
    }

    /// Creates a pipeline or replaces its definition; a stopped one stays stopped.
    pub async fn put(
        &self,
        key: &PipelineKey,
        definition: Definition,
        expected: Option<&Expected>,
        by: &Initiator,
        now: Timestamp,
    ) -> Result<Put, PipelinesError> {
        let put = self.inner.pipelines.change(|newest, batch| {
            let present = newest.get(&key.organization, &key.pipeline).cloned();
            check(present.as_deref(), expected)?;
            if let Some(pipeline) = present.as_ref().filter(|present| present.is_as(&definition)) {
                return Ok((None, Put { pipeline: pipeline.clone(), created: false }));
            }
            if present.is_none() && newest.of(&key.organization).count() >= PIPELINES_MAX {
                return Err(PipelinesError::TooMany);
            }
            let pipeline = change::redefined(newest, key, definition, now);
            let created = present.is_none();
            let event = if created { EventData::PipelineCreated } else { EventData::PipelineUpdated };
            let change = change::put(batch, &pipeline, event, Cause::by(by, now));
            Ok((Some(change), Put { pipeline, created }))
        });
        put.await
    }

    /// The caller holds `Closing` and has checked that the pipeline has no environments.
    pub async fn delete(
        &self,
        key: &PipelineKey,
        expected: Option<&Expected>,
        _: &Closing<'_>,
        by: &Initiator,
        now: Timestamp,
    ) -> Result<(), PipelinesError> {
        let deleted = self.inner.pipelines.change(|newest, batch| {
            let present = present(newest, key)?;
            check(Some(&present), expected)?;
            Ok((Some(change::delete(batch, &present, Cause::by(by, now))), ()))
        });
        deleted.await
    }

    /// Stops a pipeline. `beside` adds to the batch; its result is held until the batch is durable or refused. A
    /// stopped pipeline keeps its first reason.
    pub async fn stop<Held>(
        &self,
        key: &PipelineKey,
        reason: Option<Context>,
        by: &Initiator,
        now: Timestamp,
        beside: impl FnOnce(&Pipeline, &mut Batch) -> Held,
    ) -> Result<Arc<Pipeline>, PipelinesError> {
        let why = reason.as_ref().map(Context::shared);
        let event = |PipelineData { name, revision }| {
            EventData::PipelineStopped(PipelineStoppedData { name, revision, reason: why })
        };
        let stopped = Stopped { by: by.person.clone(), at: now, reason };
        let to = |present: &Pipeline| present.stopped.is_none().then_some(Some(stopped));
        self.switch(key, to, event, Cause::by(by, now), beside).await
    }

    /// The reverse of `stop`. The caller notifies the environments with waiting deployments.
    pub async fn resume<Held>(
        &self,
        key: &PipelineKey,
        by: &Initiator,
        now: Timestamp,
        beside: impl FnOnce(&Pipeline, &mut Batch) -> Held,
    ) -> Result<Arc<Pipeline>, PipelinesError> {
        let to = |present: &Pipeline| present.stopped.is_some().then_some(None);
        self.switch(key, to, EventData::PipelineResumed, Cause::by(by, now), beside).await
    }

    /// Hold the guard while creating an environment. None if the pipeline does not exist.
    pub async fn entering(&self, key: &PipelineKey) -> Option<Entering<'_>> {
        let entrance = self.inner.entrance.read().await;
        let exists = self.get(&key.organization, key.pipeline.as_str()).is_some();
        exists.then_some(Entering { _entrance: entrance })
    }

    /// Hold the guard while deleting a pipeline.
    pub async fn closing(&self) -> Closing<'_> {
        Closing { _entrance: self.inner.entrance.write().await }
    }

    /// `to` returns the new `stopped`; None if nothing changes.
    async fn switch<Held>(
        &self,
        key: &PipelineKey,
        to: impl FnOnce(&Pipeline) -> Option<Option<Stopped>>,
        event: impl FnOnce(PipelineData) -> EventData,
        cause: Cause<'_>,
        beside: impl FnOnce(&Pipeline, &mut Batch) -> Held,
    ) -> Result<Arc<Pipeline>, PipelinesError> {
        let switched = self.inner.pipelines.change(|newest, batch| {
            let present = present(newest, key)?;
            let Some(stopped) = to(&present) else {
                let held = beside(&present, batch);
                return Ok((None, (present, held)));
            };
            let revision = newest.next_revision(cause.at.as_millis());
            let pipeline = Arc::new(Pipeline { stopped, revision, ..(*present).clone() });
            let held = beside(&pipeline, batch);
            Ok((Some(change::put(batch, &pipeline, event, cause)), (pipeline, held)))
        });
        switched.await.map(|(pipeline, _held)| pipeline)
    }
}

fn present(newest: &NewestPipelines, key: &PipelineKey) -> Result<Arc<Pipeline>, PipelinesError> {
    newest.get(&key.organization, &key.pipeline).cloned().ok_or(PipelinesError::NotFound)
}

fn check(present: Option<&Pipeline>, expected: Option<&Expected>) -> Result<(), PipelinesError> {
    let holds = expected.is_none_or(|expected| expected.holds(present.map(|present| present.revision)));
    if holds { Ok(()) } else { Err(PipelinesError::Changed) }
}

/// Changes applied between two waits for the disk: a few megabytes at most.
const APPLIED_PER_WAIT: usize = 32;

/// A pipeline as declared in a file.
#[derive(Debug, Clone)]
pub struct Declared {
    pub key: PipelineKey,
    pub definition: Definition,
}

/// Durably applies the declarations that have changed. A declaration does not say whether its pipeline is stopped. An
/// operator's file may exceed the limit on the number of pipelines.
async fn apply(pipelines: &PublishedPipelines, declared: Vec<Declared>, now: Timestamp) -> Result<(), StoreError> {
    let mut changed = 0;
    let count = declared.len();
    for Declared { key, definition } in declared {
        let (declaration_key, declaration) = (change::declaration_key(&key), change::encode_declaration(&definition));
        if pipelines.store().get(&declaration_key)?.as_ref() == Some(&declaration) {
            continue;
        }
        pipelines.decide(|newest, batch| {
            batch.put(declaration_key, declaration);
            let present = newest.get(&key.organization, &key.pipeline);
            if present.is_some_and(|present| present.is_as(&definition)) {
                return Ok::<_, StoreError>((None, ()));
            }
            let event = if present.is_some() { EventData::PipelineUpdated } else { EventData::PipelineCreated };
            let pipeline = change::redefined(newest, &key, definition, now);
            Ok((Some(change::put(batch, &pipeline, event, Cause::system(now))), ()))
        })?;
        changed += 1;
        if changed % APPLIED_PER_WAIT == 0 {
            pipelines.settle().await;
        }
    }
    if changed > 0 {
        pipelines.settle().await;
        tracing::info!(changed, declared = count, "applied declared pipelines");
    }
    Ok(())
}

/// The last declaration of each pipeline in an organization's file, in stored form.
fn last_declared(store: &dyn Store, organization: &Identifier) -> Result<BTreeMap<PipelineKey, Vec<u8>>, StoreError> {
    let mut declared = BTreeMap::new();
    for_each(store, &change::declarations_of(organization), |key, declaration| {
        declared.extend(change::parse_declaration_key(key).map(|key| (key, declaration.to_vec())));
        Ok(())
    })?;
    Ok(declared)
}

/// How the pipelines that a file declares differ from its last declarations.
pub fn pipeline_differences(
    store: &dyn Store,
    organization: &Identifier,
    declared: &[Declared],
) -> Result<BTreeMap<PipelineKey, Difference>, StoreError> {
    let form = |declared: &Declared| (declared.key.clone(), change::encode_declaration(&declared.definition));
    let exists = |key: &PipelineKey| Ok(store.get(&change::key(key))?.is_some());
    differences(last_declared(store, organization)?, declared.iter().map(form), exists)
}

/// Deletes a pipeline that its file no longer declares, and the mark of its declaration, in one batch. The caller holds
/// the gate and has checked that the pipeline has no environments.
async fn prune(pipelines: &PublishedPipelines, key: &PipelineKey, now: Timestamp) -> Result<(), StoreError> {
    let pruned = pipelines.change(|newest, batch| {
        batch.delete(change::declaration_key(key));
        let present = newest.get(&key.organization, &key.pipeline).cloned();
        Ok((present.map(|present| change::delete(batch, &present, Cause::system(now))), ()))
    });
    pruned.await
}
