//! Finding the master key of a data directory, rotating it, and continuing after it is permanently lost. A rotation may
//! be interrupted at any moment: a new key is durable before it wraps anything, an old one is removed when nothing
//! needs it, and in between both exist. The next start or rotation continues from there.

use std::ops::ControlFlow;
use std::path::Path;

use super::master_key::{KeyFiles, MasterKey, OpenError, known_fingerprint, note_fingerprint};
use super::sealing::{Ring, SecretValue};
use super::secret::{self, Record, WrappedRing};
use super::vault::{rings, unwrap};
use super::{audit_key, kept};
use store::{Batch, Store, StoreError, commit_durably, end_of_prefix, for_each, walk};

/// Organizations per batch: more than a server has in practice; with two keys each, half of the store's largest batch.
const RINGS_PER_BATCH: usize = 1_000;
/// Secrets per batch: at their maximum length, two thirds of the store's largest batch.
const SECRETS_PER_BATCH: usize = 16;

/// The outcome of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rotated {
    /// Organizations with new data keys.
    pub organizations: usize,
    /// Secrets sealed again, including those of other parts of the server.
    pub secrets: usize,
}

/// The master key of a data directory: from the environment, or from its file, which the first start creates. Finishes
/// an interrupted rotation.
pub async fn unlock(
    store: &dyn Store,
    data_dir: &Path,
    from_environment: Option<MasterKey>,
) -> Result<MasterKey, OpenError> {
    let master = match from_environment {
        Some(master) => master,
        None => of_file(store, data_dir).await?,
    };
    let given = master.fingerprint();
    if let Some(known) = known_fingerprint(data_dir).filter(|known| *known != given) {
        tracing::warn!(known, given, "the data was last opened with a master key of another fingerprint");
    }
    let secrets = seal_anew(store, &[&master]).await?;
    if secrets > 0 {
        tracing::info!(secrets, "finished an interrupted rotation of the master key");
    }
    check_audit_key_opens(store, &[&master])?;
    note_fingerprint(data_dir, &given);
    Ok(master)
}

/// Gives a data directory a new master key, and every organization a new data key under which all its secrets are
/// sealed again. `variables` has the old and the new key if they come from the environment; otherwise both are files.
pub async fn rotate(
    store: &dyn Store,
    data_dir: &Path,
    variables: Option<(MasterKey, MasterKey)>,
) -> Result<Rotated, OpenError> {
    if let Some((old, new)) = variables {
        let rotated = rotate_between(store, &old, &new).await?;
        note_fingerprint(data_dir, &new.fingerprint());
        return Ok(rotated);
    }
    let files = KeyFiles(data_dir);
    let old = current(store, &files)?;
    let new = match files.next()? {
        Some(begun) => begun,
        None => {
            check_opens(store, &[&old])?;
            files.make_next()?
        }
    };
    let rotated = replace(store, &old, &new, || files.promote_next()).await?;
    note_fingerprint(data_dir, &new.fingerprint());
    Ok(rotated)
}

/// Rotates from one given key to another, for a store without a data directory.
pub async fn rotate_between(store: &dyn Store, old: &MasterKey, new: &MasterKey) -> Result<Rotated, OpenError> {
    check_opens(store, &[new, old])?;
    replace(store, old, new, || Ok(())).await
}

async fn of_file(store: &dyn Store, data_dir: &Path) -> Result<MasterKey, OpenError> {
    let files = KeyFiles(data_dir);
    let current = current(store, &files)?;
    let Some(next) = files.next()? else {
        return Ok(current);
    };
    tracing::info!("a rotation of the master key was interrupted; finishing it");
    replace(store, &current, &next, || files.promote_next()).await?;
    files.current()?.ok_or_else(|| files.missing(false))
}

/// Creates a missing key, unless stored keys need it. If a rotation was interrupted and the old file was lost, the new
/// key replaces it, provided that everything is under the new key already.
fn current(store: &dyn Store, files: &KeyFiles<'_>) -> Result<MasterKey, OpenError> {
    if let Some(current) = files.current()? {
        return Ok(current);
    }
    if is_unused(store)? {
        return files.make_current();
    }
    match files.next()? {
        Some(next) if opens_all(store, &next)? => {
            tracing::warn!(
                "master.key is missing, and master.key.new of an interrupted rotation opens everything; using that"
            );
            files.promote_next()?;
            files.current()?.ok_or_else(|| files.missing(false))
        }
        next => Err(files.missing(next.is_some())),
    }
}

/// Whether this key opens all data keys and the audit key.
fn opens_all(store: &dyn Store, master: &MasterKey) -> Result<bool, StoreError> {
    let opens_rings = rings(store)?.iter().all(|wrapped| wrapped.unwrap(&master.key).is_some());
    Ok(opens_rings && !audit_key::is_foreign(store, &[master])?)
}

/// Whether nothing is sealed under any master key.
fn is_unused(store: &dyn Store) -> Result<bool, StoreError> {
    Ok(store.scan(store::keys::DATA_KEYS, &end_of_prefix(store::keys::DATA_KEYS), 1)?.is_empty()
        && !audit_key::exists(store)?)
}

/// `settle` makes `new` the only master key. It is called when `old` no longer wraps any data key.
async fn replace(
    store: &dyn Store,
    old: &MasterKey,
    new: &MasterKey,
    settle: impl FnOnce() -> Result<(), OpenError>,
) -> Result<Rotated, OpenError> {
    // If neither key opens the audit key, the new one must not replace the old one.
    check_audit_key_opens(store, &[new, old])?;
    // Finish an earlier rotation first, so that no organization ever has more than two keys.
    let left_undone = seal_anew(store, &[new, old]).await?;
    audit_key::rewrap(store, old, new).await?;
    let organizations = wrap_anew(store, old, new).await?;
    settle()?;
    let secrets = left_undone + seal_anew(store, &[new]).await?;
    Ok(Rotated { organizations, secrets })
}

/// Gives every organization a new data key and wraps all its keys under `new`, unless that has been done.
async fn wrap_anew(store: &dyn Store, old: &MasterKey, new: &MasterKey) -> Result<usize, OpenError> {
    let mut changed = Vec::new();
    for wrapped in rings(store)? {
        if wrapped.unwrap(&new.key).is_some() {
            continue;
        }
        let ring = unwrap(&wrapped, &[old])?.0.renewed();
        changed.push((wrapped.organization, ring));
    }
    for part in changed.chunks(RINGS_PER_BATCH) {
        let mut batch = Batch::default();
        for (organization, ring) in part {
            batch.put(secret::ring_key(organization), secret::encode_ring(organization, ring, &new.key));
        }
        commit_durably(store, batch).await?;
    }
    Ok(changed.len())
}

/// Seals every secret under its organization's newest data key, and then drops the older keys.
async fn seal_anew(store: &dyn Store, masters: &[&MasterKey]) -> Result<usize, OpenError> {
    let mut secrets = 0;
    for wrapped in rings(store)? {
        let (ring, master) = unwrap(&wrapped, masters)?;
        if ring.is_settled() {
            continue;
        }
        let organization = &wrapped.organization;
        let sealed = |key: &[u8], bytes: &[u8]| sealed_anew(&ring, key, bytes);
        secrets += put_anew(store, secret::organization_prefix(organization), sealed).await?;
        let kept = |key: &[u8], bytes: &[u8]| Ok(kept::sealed_anew(&ring, organization, key, bytes)?);
        secrets += put_anew(store, kept::prefix(organization), kept).await?;
        let mut batch = Batch::default();
        batch.put(secret::ring_key(organization), secret::encode_ring(organization, &ring.settled(), &master.key));
        commit_durably(store, batch).await?;
    }
    Ok(secrets)
}

/// The record sealed under the newest data key; None if it already is.
fn sealed_anew(ring: &Ring, key: &[u8], bytes: &[u8]) -> Result<Option<Vec<u8>>, OpenError> {
    let mut record = Record::decode(key, bytes)?;
    if record.sealed.key == ring.current_id() {
        return Ok(None);
    }
    let value = open(ring, &record)?;
    record.sealed = ring.seal(&record.identity(), &value);
    Ok(Some(record.encode()))
}

/// Replaces the records of a prefix that have a new form; returns how many.
async fn put_anew(
    store: &dyn Store,
    prefix: Vec<u8>,
    anew: impl Fn(&[u8], &[u8]) -> Result<Option<Vec<u8>>, OpenError>,
) -> Result<usize, OpenError> {
    let (mut from, end) = (prefix.clone(), end_of_prefix(&prefix));
    let mut count = 0;
    loop {
        let pairs = store.scan(&from, &end, SECRETS_PER_BATCH)?;
        let Some((last, _)) = pairs.last() else {
            return Ok(count);
        };
        from = [last.as_slice(), &[0]].concat();
        let mut batch = Batch::default();
        for (key, bytes) in &pairs {
            if let Some(record) = anew(key, bytes)? {
                batch.put(key.clone(), record);
                count += 1;
            }
        }
        commit_durably(store, batch).await?;
    }
}

/// Fails if anything in the vault, or the audit key, opens with none of these keys. A rotation checks this before it
/// changes anything, since it could not seal such a record again.
pub fn check_opens(store: &dyn Store, masters: &[&MasterKey]) -> Result<(), OpenError> {
    check_audit_key_opens(store, masters)?;
    for wrapped in rings(store)? {
        let (ring, _) = unwrap(&wrapped, masters)?;
        let prefix = secret::organization_prefix(&wrapped.organization);
        let mut damaged = None;
        walk(store, &prefix, &end_of_prefix(&prefix), |key, bytes| {
            damaged = open(&ring, &Record::decode(key, bytes)?).err();
            Ok(if damaged.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        damaged.map_or(Ok(()), Err)?;
        let organization = &wrapped.organization;
        for_each(store, &kept::prefix(organization), |key, bytes| kept::check(&ring, organization, key, bytes))?;
    }
    Ok(())
}

fn check_audit_key_opens(store: &dyn Store, masters: &[&MasterKey]) -> Result<(), OpenError> {
    match masters.last() {
        Some(blamed) if audit_key::is_foreign(store, masters)? => Err(blamed.foreign_seals()),
        Some(_) | None => Ok(()),
    }
}

/// Whether this key opens any data key, or the audit key.
pub fn opens_any(store: &dyn Store, master: &MasterKey) -> Result<bool, StoreError> {
    let opens_ring = rings(store)?.iter().any(|wrapped| wrapped.unwrap(&master.key).is_some());
    Ok(opens_ring || audit_key::opens(store, master)?)
}

fn open(ring: &Ring, record: &Record) -> Result<SecretValue, OpenError> {
    ring.open(&record.identity(), &record.sealed).ok_or_else(|| OpenError::DoesNotOpen {
        organization: record.organization.clone(),
        name: record.secret.name.clone(),
    })
}

/// Keys are short: a tenth of the store's largest batch.
const DELETED_AT_ONCE: usize = 1_000;

/// Deletes everything that only a lost master key opens: secrets, sealed values of other parts, data keys and the audit
/// key. What an available key opens stays; the key of an interrupted rotation is available too.
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
    let audit_is_lost = audit_key::is_foreign(store, &masters)?;
    if lost.is_empty() && !audit_is_lost {
        if !is_unused(store)? {
            tracing::warn!(
                "--forget-master-key: the master key of the data is there, so nothing is forgotten; leave it out"
            );
        }
    } else {
        forget_lost(store, &lost, audit_is_lost).await?;
    }
    // Otherwise the next start would find no key, or create one that opens none of the remaining records.
    let is_needed = !kept.is_empty() || (audit_key::exists(store)? && !audit_is_lost);
    if is_needed && from_environment.is_none() && current.is_none() && next.is_some() {
        files.promote_next()?;
    }
    Ok(())
}

async fn forget_lost(store: &dyn Store, lost: &[WrappedRing], audit_is_lost: bool) -> Result<(), OpenError> {
    let (mut secrets, mut webhook_secrets) = (0, 0);
    for WrappedRing { organization, .. } in lost {
        let of_organization = delete_all(store, &secret::organization_prefix(organization)).await?;
        let kept = delete_all(store, &kept::prefix(organization)).await?;
        // Last, so that after an interruption the next start still finds the key missing.
        let mut batch = Batch::default();
        batch.delete(secret::ring_key(organization));
        commit_durably(store, batch).await?;
        tracing::warn!(%organization, secrets = of_organization, webhook_secrets = kept, "deleted secrets without a master key");
        secrets += of_organization;
        webhook_secrets += kept;
    }
    if audit_is_lost {
        let mut batch = Batch::default();
        batch.delete(store::keys::AUDIT_KEY);
        commit_durably(store, batch).await?;
        tracing::warn!("deleted the key of the audit log: its seals so far can no longer be checked");
    }
    tracing::warn!(
        secrets,
        webhook_secrets,
        "the master key is lost: the deleted secrets and signing secrets of webhooks must be set again"
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
