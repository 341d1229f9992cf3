//! Pipelines that a file declares. A declaration is applied when it is new or has changed; in between, what the API says
//! holds, through restarts too: also that it deleted one.

use super::pipeline::Definition;
use super::registry::{self, Known};
use super::stored;
use crate::domain::{Notice, PipelineKey, Timestamp};
use crate::events::Cause;
use crate::store::{Batch, Sequence, Store, StoreError, durable_up_to};

/// Handed in before the disk is waited for: a few megabytes at the most.
const APPLIED_AT_ONCE: usize = 32;

/// A pipeline as a file declares it.
#[derive(Debug, Clone)]
pub struct Declared {
    pub key: PipelineKey,
    pub definition: Definition,
}

/// Changes those of `known` whose declarations are not what they last were, durably. Whether one is stopped is no part
/// of its declaration. An operator's file goes before the bound on how many there are.
pub async fn apply(
    store: &dyn Store,
    known: &mut Known,
    declared: Vec<Declared>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut changed = 0;
    let count = declared.len();
    let mut handed_in = Sequence::default();
    for Declared { key, definition } in declared {
        let (declaration_key, declaration) = (stored::declaration_key(&key), stored::encode_declaration(&definition));
        if store.get(&declaration_key)?.as_ref() == Some(&declaration) {
            continue;
        }
        let mut batch = Batch::default();
        batch.put(declaration_key, declaration);
        let present = known.get(&key.organization, key.pipeline.as_str());
        if !present.is_some_and(|present| present.is_as(&definition)) {
            let notice = if present.is_some() { Notice::PipelineUpdated } else { Notice::PipelineCreated };
            let pipeline = known.defined(&key, definition, now);
            batch.put(stored::key(&key), stored::encode(&pipeline));
            registry::record(&mut batch, notice, &pipeline, Cause::system(now));
            known.set(&key, Some(pipeline));
        }
        handed_in = store.commit(batch)?;
        changed += 1;
        if changed % APPLIED_AT_ONCE == 0 {
            durable_up_to(store, handed_in).await;
        }
    }
    durable_up_to(store, handed_in).await;
    if changed > 0 {
        tracing::info!(changed, declared = count, "applied declared pipelines");
    }
    Ok(())
}
