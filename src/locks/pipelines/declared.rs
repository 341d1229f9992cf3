//! Pipelines that a file declares. A declaration is applied when it is new or has changed; until then changes through the
//! API hold, deletions included, through restarts too.

use std::collections::BTreeMap;

use super::change::{self, PublishedPipelines};
use super::pipeline::Definition;
use super::stored;
use domain::{EventType, Identifier, PipelineKey, Timestamp};
use events::Cause;
use records::stored::{Difference, differences};
use store::{Store, StoreError, for_each};

/// Changes between two waits for the disk: a few megabytes at most.
const APPLIED_PER_WAIT: usize = 32;

/// A pipeline as a file declares it.
#[derive(Debug, Clone)]
pub struct Declared {
    pub key: PipelineKey,
    pub definition: Definition,
}

/// Applies, durably, the declarations that are not what they last were. Whether a pipeline is stopped is no part of its
/// declaration. An operator's file may exceed the limit on the number of pipelines.
pub async fn apply(pipelines: &PublishedPipelines, declared: Vec<Declared>, now: Timestamp) -> Result<(), StoreError> {
    let mut changed = 0;
    let count = declared.len();
    for Declared { key, definition } in declared {
        let (declaration_key, declaration) = (stored::declaration_key(&key), stored::encode_declaration(&definition));
        if pipelines.store().get(&declaration_key)?.as_ref() == Some(&declaration) {
            continue;
        }
        pipelines.decide(|newest, batch| {
            batch.put(declaration_key, declaration);
            let present = newest.get(&key.organization, &key.pipeline);
            if present.is_some_and(|present| present.is_as(&definition)) {
                return Ok::<_, StoreError>((None, ()));
            }
            let event_type = if present.is_some() { EventType::PipelineUpdated } else { EventType::PipelineCreated };
            let pipeline = change::redefined(newest, &key, definition, now);
            Ok((Some(change::put(batch, &pipeline, event_type, Cause::system(now))), ()))
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

/// What the file of an organization last declared of each pipeline, in its stored form.
fn last_declared(store: &dyn Store, organization: &Identifier) -> Result<BTreeMap<PipelineKey, Vec<u8>>, StoreError> {
    let mut declared = BTreeMap::new();
    for_each(store, &stored::declarations_of(organization), |key, declaration| {
        declared.extend(stored::parse_declaration_key(key).map(|key| (key, declaration.to_vec())));
        Ok(())
    })?;
    Ok(declared)
}

/// How the pipelines that a file declares differ from those that it last declared.
pub fn pipeline_differences(
    store: &dyn Store,
    organization: &Identifier,
    declared: &[Declared],
) -> Result<BTreeMap<PipelineKey, Difference>, StoreError> {
    let form = |declared: &Declared| (declared.key.clone(), stored::encode_declaration(&declared.definition));
    let exists = |key: &PipelineKey| Ok(store.get(&stored::key(key))?.is_some());
    differences(last_declared(store, organization)?, declared.iter().map(form), exists)
}

/// Deletes a pipeline that its file no longer declares, and the mark that it did, in one batch. The caller has checked, holding
/// the gate, that it has no environments.
pub async fn prune(pipelines: &PublishedPipelines, key: &PipelineKey, now: Timestamp) -> Result<(), StoreError> {
    let pruned = pipelines.change(|newest, batch| {
        batch.delete(stored::declaration_key(key));
        let present = newest.get(&key.organization, &key.pipeline).cloned();
        Ok((present.map(|present| change::delete(batch, &present, Cause::system(now))), ()))
    });
    pruned.await
}
