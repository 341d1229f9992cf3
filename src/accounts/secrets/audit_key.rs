//! The audit key, under which events are sealed: random, created by the first start that needs it, and stored encrypted
//! under the master key. So a new master key leaves the seals unchanged, and a copy of the disk alone cannot forge one.

use std::path::Path;

use serde::Serialize;

use super::master_key::{KeyFiles, MasterKey, OpenError};
use super::sealing::AssociatedData;
use events::AuditKey;
use store::keys::AUDIT_KEY;
use store::{Batch, Store, StoreError, commit_durably};

#[derive(Serialize)]
struct AuditKeyIdentity;

impl AssociatedData for AuditKeyIdentity {
    const KIND: &'static str = "lockkeeper audit key 1";
}

/// The audit key for a verification, which changes nothing.
#[derive(Debug)]
pub enum FoundAuditKey {
    Key(AuditKey),
    /// No server that creates one has run on this data directory yet.
    NotMade,
    /// Neither `LOCKKEEPER_MASTER_KEY` nor a key file.
    NoMasterKey,
    /// The audit key was sealed under another master key.
    DoesNotOpen,
}

/// The audit key of a data directory, created if it has none. A key that does not open is never replaced: the seals of
/// all earlier events would be permanently lost with it.
pub async fn audit_key(store: &dyn Store, master: &MasterKey) -> Result<AuditKey, OpenError> {
    if let Some(sealed) = store.get(AUDIT_KEY)? {
        return open(&sealed, master).ok_or_else(|| master.foreign_seals());
    }
    let key = AuditKey::generate();
    put(store, &key, master).await?;
    Ok(key)
}

pub fn find_audit_key(
    store: &dyn Store,
    data_dir: &Path,
    from_environment: Option<MasterKey>,
) -> Result<FoundAuditKey, OpenError> {
    let Some(record) = store.get(AUDIT_KEY)? else { return Ok(FoundAuditKey::NotMade) };
    let files = KeyFiles(data_dir);
    // During a rotation there are two master keys.
    let masters = match from_environment {
        Some(master) => vec![master],
        None => [files.current()?, files.next()?].into_iter().flatten().collect(),
    };
    if masters.is_empty() {
        return Ok(FoundAuditKey::NoMasterKey);
    }
    let key = masters.iter().find_map(|master| open(&record, master));
    Ok(key.map_or(FoundAuditKey::DoesNotOpen, FoundAuditKey::Key))
}

/// Whether there is an audit key, which only the master key opens.
pub(super) fn exists(store: &dyn Store) -> Result<bool, StoreError> {
    Ok(store.get(AUDIT_KEY)?.is_some())
}

/// Whether there is an audit key that none of these opens.
pub(super) fn is_foreign(store: &dyn Store, masters: &[&MasterKey]) -> Result<bool, StoreError> {
    let record = store.get(AUDIT_KEY)?;
    Ok(record.is_some_and(|record| masters.iter().all(|master| open(&record, master).is_none())))
}

pub(super) fn opens(store: &dyn Store, master: &MasterKey) -> Result<bool, StoreError> {
    Ok(store.get(AUDIT_KEY)?.is_some_and(|record| open(&record, master).is_some()))
}

/// Seals the key under a new master key, unless that has been done.
pub(super) async fn rewrap(store: &dyn Store, old: &MasterKey, new: &MasterKey) -> Result<(), StoreError> {
    let Some(record) = store.get(AUDIT_KEY)? else { return Ok(()) };
    match (open(&record, new), open(&record, old)) {
        (None, Some(key)) => put(store, &key, new).await,
        (Some(_), _) | (None, None) => Ok(()),
    }
}

async fn put(store: &dyn Store, key: &AuditKey, master: &MasterKey) -> Result<(), StoreError> {
    let mut batch = Batch::default();
    batch.put(AUDIT_KEY, master.key.seal(&AuditKeyIdentity, key.reveal()));
    commit_durably(store, batch).await
}

fn open(sealed: &[u8], master: &MasterKey) -> Option<AuditKey> {
    let bytes = master.key.open(&AuditKeyIdentity, sealed)?;
    Some(AuditKey::new(bytes.as_slice().try_into().ok()?))
}
