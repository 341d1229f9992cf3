//! Going on without a master key that is lost for good.

use std::path::Path;

use super::audit_key;
use super::kept::KEPT;
use super::master_key::{KeyFiles, MasterKey, OpenError};
use super::rotation::{is_unused, opens_any};
use super::stored::{RINGS, SECRETS};
use crate::store::{Batch, Store, StoreError, commit_durably, end_of_prefix};

/// Keys are short: a tenth of the store's largest batch.
const DELETED_AT_ONCE: usize = 1_000;

/// Deletes everything that only a lost master key opens: secrets, what other parts keep sealed, data keys and the audit key.
/// Nothing happens while the present key opens any of it, or where nothing is sealed.
pub async fn forget_sealed(
    store: &dyn Store,
    data_dir: &Path,
    from_environment: Option<&MasterKey>,
) -> Result<(), OpenError> {
    let present = match from_environment {
        Some(master) => Some(master.clone()),
        None => KeyFiles(data_dir).current()?,
    };
    if is_unused(store)? {
        return Ok(());
    }
    if let Some(master) = &present
        && opens_any(store, master)?
    {
        tracing::warn!(
            "--forget-master-key: the master key of the data is there, so nothing is forgotten; leave it out"
        );
        return Ok(());
    }
    let secrets = delete_all(store, SECRETS).await?;
    let kept = delete_all(store, KEPT).await?;
    // Last, so that an interrupted start still finds that the key is missing.
    delete_all(store, RINGS).await?;
    let mut batch = Batch::default();
    audit_key::forget(&mut batch);
    commit_durably(store, batch).await?;
    tracing::warn!(
        secrets,
        webhook_secrets = kept,
        "the master key is lost: deleted all secrets and the signing secrets of webhooks, which must be set anew; the seals of \
         the audit log so far can no longer be checked"
    );
    Ok(())
}

async fn delete_all(store: &dyn Store, prefix: &[u8]) -> Result<usize, StoreError> {
    let end = end_of_prefix(prefix);
    let mut deleted = 0;
    loop {
        let pairs = store.scan(prefix, &end, DELETED_AT_ONCE)?;
        if pairs.is_empty() {
            return Ok(deleted);
        }
        deleted += pairs.len();
        let mut batch = Batch::default();
        pairs.into_iter().for_each(|(key, _)| batch.delete(key));
        commit_durably(store, batch).await?;
    }
}
