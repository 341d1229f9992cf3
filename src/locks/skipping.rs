//! Raises the fencing tokens of a store that was restored from a backup: what was given after the backup is not given again.

use std::ops::ControlFlow;

use super::keys;
use store::{Batch, Store, StoreError, end_of_prefix, walk};

/// Environments in one batch: far fewer than fit, even if each has a hundred deployments.
const AT_ONCE: usize = 32;

/// Lets every environment, and those that will be made, skip so many tokens. Returns how many environments there are,
/// deleted ones too: their names may be used again.
pub fn skip_fencing_tokens(
    store: &dyn Store,
    count: u64,
    mut commit: impl FnMut(Batch) -> Result<(), StoreError>,
) -> Result<usize, StoreError> {
    if count == 0 {
        return Ok(0);
    }
    let (mut batch, mut environments) = (Batch::default(), 0);
    // A walk goes on after the last key it has read, so each is raised once.
    walk(store, keys::ENVIRONMENTS, &end_of_prefix(keys::ENVIRONMENTS), |key, record| {
        let raised = records::skip_tokens(record, count).map_err(|error| error.under(key))?;
        batch.put(key, raised);
        environments += 1;
        if batch.changes().len() >= AT_ONCE {
            commit(std::mem::take(&mut batch))?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let before = store.get(keys::NEW_ENVIRONMENTS)?;
    let before = before.map_or(Ok(0), |record| records::decode_new_environments(&record))?;
    batch.put(keys::NEW_ENVIRONMENTS, records::encode_new_environments(before.saturating_add(count)));
    commit(batch)?;
    Ok(environments)
}
