//! Which master key a data directory has, and how it gets another. A rotation can be cut off at any moment: a new key is
//! durable before it wraps anything, an old one goes when nothing needs it, and in between both are there. The next start,
//! or the next rotation, carries on from what it finds.

use std::ops::ControlFlow;
use std::path::Path;

use super::kept;
use super::master_key::{KeyFiles, MasterKey, OpenError};
use super::sealing::Ring;
use super::stored::{self, Record, WrappedRing};
use super::value::SecretValue;
use crate::store::{Batch, Store, StoreError, durable_up_to, end_of_prefix, walk};

/// As many as a server may have, so that in practice all change their master key in one batch; with two keys each they
/// are half of what a batch of the store takes.
const RINGS_AT_ONCE: usize = 1_000;
/// With values and descriptions as long as they may be, two thirds of what a batch of the store takes.
const SECRETS_AT_ONCE: usize = 16;

/// What a rotation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rotated {
    /// Organizations with new data keys.
    pub organizations: usize,
    /// Secrets sealed anew, with what other parts keep sealed.
    pub secrets: usize,
}

/// The master key of a data directory: the operator's, or that of its file, which a first start makes. Finishes a rotation
/// that was cut off.
pub async fn unlock(
    store: &dyn Store,
    data_dir: &Path,
    from_environment: Option<MasterKey>,
) -> Result<MasterKey, OpenError> {
    let master = match from_environment {
        Some(master) => master,
        None => of_file(store, data_dir).await?,
    };
    let secrets = seal_anew(store, &[&master]).await?;
    if secrets > 0 {
        tracing::info!(secrets, "finished a rotation of the keys of secrets that was cut off");
    }
    Ok(master)
}

/// Gives a data directory a new master key, and every organization a new data key under which all its secrets are sealed
/// anew. `variables` has the key that was and the one to be, where they are the operator's; otherwise both are files.
pub async fn rotate(
    store: &dyn Store,
    data_dir: &Path,
    variables: Option<(MasterKey, MasterKey)>,
) -> Result<Rotated, OpenError> {
    if let Some((old, new)) = variables {
        check_all_open(store, &[&new, &old])?;
        return replace(store, &old, &new, || Ok(())).await;
    }
    let files = KeyFiles(data_dir);
    let old = current(store, &files)?;
    let new = match files.next()? {
        Some(begun) => begun,
        None => {
            check_all_open(store, &[&old])?;
            files.make_next()?
        }
    };
    replace(store, &old, &new, || files.promote_next()).await
}

async fn of_file(store: &dyn Store, data_dir: &Path) -> Result<MasterKey, OpenError> {
    let files = KeyFiles(data_dir);
    let current = current(store, &files)?;
    let Some(next) = files.next()? else {
        return Ok(current);
    };
    tracing::info!("a rotation of the keys of secrets was cut off; finishing it");
    replace(store, &current, &next, || files.promote_next()).await?;
    files.current()?.ok_or_else(|| files.missing())
}

/// A key that is missing is made, unless there is something that it would have to open.
fn current(store: &dyn Store, files: &KeyFiles<'_>) -> Result<MasterKey, OpenError> {
    match files.current()? {
        Some(current) => Ok(current),
        None if is_unused(store)? => files.make_current(),
        None => Err(files.missing()),
    }
}

fn is_unused(store: &dyn Store) -> Result<bool, StoreError> {
    Ok(store.scan(stored::RINGS, &end_of_prefix(stored::RINGS), 1)?.is_empty())
}

/// `settle` makes `new` the master key for good. It is called when no data key is wrapped under `old` any more.
async fn replace(
    store: &dyn Store,
    old: &MasterKey,
    new: &MasterKey,
    settle: impl FnOnce() -> Result<(), OpenError>,
) -> Result<Rotated, OpenError> {
    // What an earlier rotation left undone first, so that no organization ever has more than two keys.
    let left_undone = seal_anew(store, &[new, old]).await?;
    let organizations = wrap_anew(store, old, new).await?;
    settle()?;
    let secrets = left_undone + seal_anew(store, &[new]).await?;
    Ok(Rotated { organizations, secrets })
}

/// Gives every organization a data key more and wraps all it has under `new`, but for those where that has been done.
async fn wrap_anew(store: &dyn Store, old: &MasterKey, new: &MasterKey) -> Result<usize, OpenError> {
    let mut changed = Vec::new();
    for wrapped in rings(store)? {
        if wrapped.unwrap(&new.key).is_some() {
            continue;
        }
        let ring = unwrap(&wrapped, &[old])?.0.renewed();
        changed.push((wrapped.organization, ring));
    }
    for part in changed.chunks(RINGS_AT_ONCE) {
        let mut batch = Batch::default();
        for (organization, ring) in part {
            batch.put(stored::ring_key(organization), stored::encode_ring(organization, ring, &new.key));
        }
        commit(store, batch).await?;
    }
    Ok(changed.len())
}

/// Seals every secret under its organization's newest data key, and drops the keys that then have nothing left to open.
async fn seal_anew(store: &dyn Store, masters: &[&MasterKey]) -> Result<usize, OpenError> {
    let mut secrets = 0;
    for wrapped in rings(store)? {
        let (ring, master) = unwrap(&wrapped, masters)?;
        if ring.is_settled() {
            continue;
        }
        let organization = &wrapped.organization;
        let sealed = |key: &[u8], bytes: &[u8]| sealed_anew(&ring, key, bytes);
        secrets += put_anew(store, stored::organization_prefix(organization), sealed).await?;
        // What other parts keep, too.
        let kept = |key: &[u8], bytes: &[u8]| Ok(kept::sealed_anew(&ring, organization, key, bytes)?);
        secrets += put_anew(store, kept::prefix(organization), kept).await?;
        let mut batch = Batch::default();
        batch.put(stored::ring_key(organization), stored::encode_ring(organization, &ring.settled(), &master.key));
        commit(store, batch).await?;
    }
    Ok(secrets)
}

/// A record under the newest data key; none if it is that already.
fn sealed_anew(ring: &Ring, key: &[u8], bytes: &[u8]) -> Result<Option<Vec<u8>>, OpenError> {
    let mut record = Record::decode(key, bytes)?;
    if record.sealed.key == ring.current_id() {
        return Ok(None);
    }
    let value = open(ring, &record)?;
    record.sealed = ring.seal(&record.place(), &value);
    Ok(Some(record.encode()))
}

/// Puts every record of this prefix in its new form, if it has one, and says how many had.
async fn put_anew(
    store: &dyn Store,
    prefix: Vec<u8>,
    anew: impl Fn(&[u8], &[u8]) -> Result<Option<Vec<u8>>, OpenError>,
) -> Result<usize, OpenError> {
    let (mut from, end) = (prefix.clone(), end_of_prefix(&prefix));
    let mut count = 0;
    loop {
        let pairs = store.scan(&from, &end, SECRETS_AT_ONCE)?;
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
        commit(store, batch).await?;
    }
}

/// Before anything is changed: what does not open could not be sealed anew half-way through.
fn check_all_open(store: &dyn Store, masters: &[&MasterKey]) -> Result<(), OpenError> {
    for wrapped in rings(store)? {
        let (ring, _) = unwrap(&wrapped, masters)?;
        let prefix = stored::organization_prefix(&wrapped.organization);
        let mut damaged = None;
        walk(store, &prefix, &end_of_prefix(&prefix), |key, bytes| {
            damaged = open(&ring, &Record::decode(key, bytes)?).err();
            Ok(if damaged.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        damaged.map_or(Ok(()), Err)?;
        let prefix = kept::prefix(&wrapped.organization);
        walk(store, &prefix, &end_of_prefix(&prefix), |key, bytes| {
            kept::check(&ring, &wrapped.organization, key, bytes)?;
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(())
}

fn open(ring: &Ring, record: &Record) -> Result<SecretValue, OpenError> {
    ring.open(&record.place(), &record.sealed).ok_or_else(|| OpenError::DoesNotOpen {
        organization: record.organization.clone(),
        name: record.secret.name.clone(),
    })
}

pub(super) fn rings(store: &dyn Store) -> Result<Vec<WrappedRing>, StoreError> {
    let pairs = store.scan(stored::RINGS, &end_of_prefix(stored::RINGS), usize::MAX)?;
    pairs.iter().map(|(key, bytes)| WrappedRing::decode(key, bytes)).collect()
}

/// The keys, and the master key they were wrapped under. The last of `masters` is the one to be blamed.
pub(super) fn unwrap<'a>(wrapped: &WrappedRing, masters: &[&'a MasterKey]) -> Result<(Ring, &'a MasterKey), OpenError> {
    let found = masters.iter().find_map(|master| Some((wrapped.unwrap(&master.key)?, *master)));
    let blamed = masters.last().expect("every caller has a master key");
    found.ok_or_else(|| blamed.refusal(wrapped.organization.clone()))
}

async fn commit(store: &dyn Store, batch: Batch) -> Result<(), StoreError> {
    if !batch.is_empty() {
        durable_up_to(store, store.commit(batch)?).await;
    }
    Ok(())
}
