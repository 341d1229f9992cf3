//! Going on without a master key that is lost for good.

use std::path::Path;

use super::audit_key;
use super::kept;
use super::master_key::{KeyFiles, MasterKey, OpenError};
use super::rings::rings;
use super::rotation::is_unused;
use super::stored::{self, WrappedRing};
use store::{Batch, Store, StoreError, commit_durably, end_of_prefix};

/// Keys are short: a tenth of the store's largest batch.
const DELETED_AT_ONCE: usize = 1_000;

/// Deletes everything that only a lost master key opens: secrets, what other parts keep sealed, data keys and the audit key.
/// What one of the keys that are there opens stays; that of an interrupted rotation is one of them.
pub async fn forget_sealed(
    store: &dyn Store,
    data_dir: &Path,
    from_environment: Option<&MasterKey>,
) -> Result<(), OpenError> {
    let files = KeyFiles(data_dir);
    let (current, next) = (files.current()?, files.next()?);
    let masters: Vec<&MasterKey> = from_environment.into_iter().chain(&current).chain(&next).collect();
    let opens = |wrapped: &WrappedRing| masters.iter().any(|master| wrapped.unwrap(&master.key).is_some());
    let (kept, lost): (Vec<_>, Vec<_>) = rings(store)?.into_iter().partition(opens);
    let mut audit_is_lost = audit_key::exists(store)?;
    for master in &masters {
        audit_is_lost &= !audit_key::opens(store, master)?;
    }
    if lost.is_empty() && !audit_is_lost {
        if !is_unused(store)? {
            tracing::warn!(
                "--forget-master-key: the master key of the data is there, so nothing is forgotten; leave it out"
            );
        }
    } else {
        forget_lost(store, &lost, audit_is_lost).await?;
    }
    // Otherwise a start would find no key, or make one that opens nothing of what is left.
    let is_needed = !kept.is_empty() || (audit_key::exists(store)? && !audit_is_lost);
    if is_needed && from_environment.is_none() && current.is_none() && next.is_some() {
        files.promote_next()?;
    }
    Ok(())
}

async fn forget_lost(store: &dyn Store, lost: &[WrappedRing], audit_is_lost: bool) -> Result<(), OpenError> {
    let (mut secrets, mut webhook_secrets) = (0, 0);
    for WrappedRing { organization, .. } in lost {
        let of_organization = delete_all(store, &stored::organization_prefix(organization)).await?;
        let kept = delete_all(store, &kept::prefix(organization)).await?;
        // Last, so that an interrupted start still finds that the key is missing.
        let mut batch = Batch::default();
        batch.delete(stored::ring_key(organization));
        commit_durably(store, batch).await?;
        tracing::warn!(%organization, secrets = of_organization, webhook_secrets = kept, "deleted secrets without a master key");
        secrets += of_organization;
        webhook_secrets += kept;
    }
    if audit_is_lost {
        let mut batch = Batch::default();
        audit_key::forget(&mut batch);
        commit_durably(store, batch).await?;
        tracing::warn!("deleted the key of the audit log: its seals so far can no longer be checked");
    }
    tracing::warn!(
        secrets,
        webhook_secrets,
        "the master key is lost: the deleted secrets and signing secrets of webhooks must be set anew"
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
