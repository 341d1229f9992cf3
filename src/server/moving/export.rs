//! Copies a cluster into a new data directory while its nodes serve it.
//!
//! Each shard is read at one moment. An organization is in one shard, and no change concerns two organizations, so each
//! organization is copied consistently; the moments of two shards may be seconds apart.

use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;

use super::engine::{NotReady, answered, ready};
use super::import::Totals;
use accounts::secrets::{FoundAuditKey, MasterKey, OpenError as SecretsError, find_audit_key};
use domain::Identifier;
use events::{AuditKey, Events};
use store::engine::{Engine, EngineError, Version};
use store::record::RecordError;
use store::{Changes, Filling, NewDataDir, OpenError, Options, Sequence, Snapshot, StoreError, keys};

/// Found by tickets, which no two shards give.
const TICKETED: [&[u8]; 2] = [keys::LEFT, keys::POINTERS];

/// Why there is no data directory: one sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    NotReady(#[from] NotReady),
    #[error("cluster: {0}; nothing was exported; run the command again when the engine answers and accepts it")]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the cluster cannot be exported: {0}; check the disk of the new data directory, and run the command again")]
    Store(#[from] StoreError),
    #[error(
        "the cluster cannot be exported: {0}; export it with the version of its nodes; if it is that one, restore the engine from \
         its backup"
    )]
    Record(#[from] RecordError),
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    #[error(
        "the key that seals the events of shard {0} does not open with LOCKKEEPER_MASTER_KEY; start the nodes, which make a new \
         one, and export again"
    )]
    AuditKey(u16),
    #[error("a node has written while the cluster was exported; stop all nodes, or export with a --fencing-margin")]
    Written,
    #[error(
        "organization {0} is in two shards: the data of the engine is damaged; restore the engine from its backup, and export again"
    )]
    Twice(Identifier),
}

/// The result of an export.
#[derive(Debug, Default)]
pub struct Exported {
    pub totals: Totals,
    pub shards: u16,
    /// The last batch of all shards; the data directory continues after it.
    pub sequence: Sequence,
    /// How many environments had their next fencing token raised.
    pub raised: usize,
}

/// Creates a data directory, which must be missing or empty, and raises all fencing tokens by `margin`. On failure
/// nothing is left behind. `progress` gets the totals so far after each shard.
pub async fn export<E: Engine>(
    engine: &E,
    master: &MasterKey,
    (to, margin, options): (&Path, u64, Options),
    mut progress: impl FnMut(&Totals),
) -> Result<Exported, ExportError> {
    let cluster = ready(engine, master.short_hash()).await?;
    let new = NewDataDir::begin(to)?;
    let filling = Filling::begin(&new.folder(), Sequence(0), options)?;
    let mut merging = Merging { filling, audit_key: None, new_environments: None, exported: Exported::default() };
    let mut copied = Vec::new();
    for number in 0..cluster.shards.get() {
        let Some((shard, pairs)) = answered(async || engine.copy(number).await).await? else { continue };
        copied.push((number, shard.version));
        merging.add(Snapshot::new(shard, pairs), master)?;
        progress(&merging.exported.totals);
    }
    // If an import or a rotation began meanwhile, the copied shards do not belong together.
    ready(engine, cluster.key).await?;
    // Without a margin, tokens that a node granted meanwhile would be granted again.
    if margin == 0 && !are_unchanged(engine, cluster.shards, &copied).await? {
        return Err(ExportError::Written);
    }
    let (filling, mut exported) = merging.finish()?;
    let store = filling.finish()?;
    exported.raised = locks::skip_fencing_tokens(&store, margin, |batch| store.commit_patiently(batch))?;
    store.close();
    drop(store);
    new.finish()?;
    Ok(exported)
}

async fn are_unchanged(
    engine: &impl Engine,
    shards: NonZeroU16,
    copied: &[(u16, Version)],
) -> Result<bool, EngineError> {
    let known = answered(async || engine.shards().await).await?;
    let mut known = known.iter().filter(|shard| shard.number < shards.get());
    Ok(known.all(|shard| copied.contains(&(shard.number, shard.version))))
}

/// Several shards that are merged into one store.
struct Merging {
    filling: Filling,
    /// From the first shard that has one; the events of the other shards are sealed again with it.
    audit_key: Option<AuditKey>,
    new_environments: Option<Vec<u8>>,
    exported: Exported,
}

impl Merging {
    fn add(&mut self, shard: Snapshot, master: &MasterKey) -> Result<(), ExportError> {
        let number = shard.shard().number;
        let sequence = shard.shard().sequence;
        let shard = Arc::new(shard);
        let resealed = self.reseal(&shard, master)?;
        for (key, value) in shard.pairs() {
            let value = resealed.get(key).and_then(Option::as_ref).unwrap_or(value);
            match key.as_slice() {
                keys::AUDIT_KEY => {}
                keys::NEW_ENVIRONMENTS => {
                    let more = self
                        .new_environments
                        .take()
                        .map_or(Ok(value.clone()), |known| locks::more_skipped(known, value.clone()));
                    self.new_environments = Some(more?);
                }
                _ => self.put(number, key, value)?,
            }
        }
        self.filling.raise(sequence);
        self.exported.sequence = self.exported.sequence.max(sequence);
        self.exported.shards += 1;
        for organization in Events::new(shard).audited()? {
            if !self.exported.totals.organizations.insert(organization.clone()) {
                return Err(ExportError::Twice(organization));
            }
        }
        Ok(())
    }

    fn put(&mut self, number: u16, key: &[u8], value: &[u8]) -> Result<(), ExportError> {
        let is_ticketed = TICKETED.iter().any(|kind| key.starts_with(kind));
        if is_ticketed && self.filling.has(key)? {
            tracing::warn!(shard = number, key = %key.escape_ascii(), "another shard has the same; this one is left out");
            self.exported.totals.left_out += 1;
            return Ok(());
        }
        if key.starts_with(keys::REVOKED_BOOTSTRAP) && self.filling.has(key)? {
            return Ok(());
        }
        self.exported.totals.count(key, value);
        Ok(self.filling.put(key.to_vec(), value.to_vec())?)
    }

    /// The changes that seal the shard's events with the audit key of the data directory.
    fn reseal(&mut self, shard: &Arc<Snapshot>, master: &MasterKey) -> Result<Changes, ExportError> {
        let number = shard.shard().number;
        let own = match find_audit_key(&**shard, Path::new(""), Some(master.clone()))? {
            FoundAuditKey::Key(key) => key,
            FoundAuditKey::NotMade => return Ok(Changes::new()),
            FoundAuditKey::DoesNotOpen | FoundAuditKey::NoMasterKey => return Err(ExportError::AuditKey(number)),
        };
        let Some(common) = &self.audit_key else {
            if let Some(record) = shard.pairs().get(keys::AUDIT_KEY) {
                self.exported.totals.count(keys::AUDIT_KEY, record);
                self.filling.put(keys::AUDIT_KEY.to_vec(), record.clone())?;
            }
            self.audit_key = Some(own);
            return Ok(Changes::new());
        };
        if own == *common {
            return Ok(Changes::new());
        }
        let batch = Events::new(shard.clone()).with_key(own).resealed(common)?;
        let changes = batch.changes();
        Ok(changes.map(|change| (change.key.to_vec(), change.value.map(<[u8]>::to_vec))).collect())
    }

    fn finish(mut self) -> Result<(Filling, Exported), ExportError> {
        if let Some(record) = self.new_environments.take() {
            self.exported.totals.count(keys::NEW_ENVIRONMENTS, &record);
            self.filling.put(keys::NEW_ENVIRONMENTS.to_vec(), record)?;
        }
        Ok((self.filling, self.exported))
    }
}
