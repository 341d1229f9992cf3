//! The secrets of every organization: the newest state in memory for writers, the store for readers. Also a snapshot of
//! the secrets of one pipeline, and the data keys of every organization.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::master_key::{MasterKey, OpenError};
use super::sealing::{Ring, SecretValue};
use super::secret::{self, NewSecret, Record, SECRETS_MAX, Secret, SecretChange, SecretError, WrappedRing};
use domain::{EventData, Identifier, PipelineKey, SecretData, SecretUpdatedData, VariableName};
use events::{Cause, NewEvent};
use store::{Batch, Committer, Ordered, Sequence, Store, StoreError, end_of_prefix, for_each};

pub struct Vault {
    master: MasterKey,
    /// For writers, durable or not.
    organizations: Ordered<Organizations>,
}

type Organizations = HashMap<Identifier, Organization>;

struct Organization {
    ring: Arc<Ring>,
    secrets: BTreeMap<Slot, Entry>,
}

/// The pipeline of a secret, if it has one, and its name.
type Slot = (Option<Identifier>, VariableName);

struct Entry {
    secret: Secret,
    /// Once the log is durable up to this sequence, the store has this version of the secret.
    changed: Sequence,
}

impl Vault {
    /// Refuses a master key that does not open the stored data keys.
    pub fn open(store: Arc<dyn Store>, master: MasterKey) -> Result<Self, OpenError> {
        let mut organizations = HashMap::new();
        for wrapped in rings(&*store)? {
            let (ring, _) = unwrap(&wrapped, &[&master])?;
            organizations.insert(wrapped.organization, Organization::new(ring));
        }
        let mut orphan = None;
        visit(&*store, store::keys::SECRETS, |record| {
            let Some(organization) = organizations.get_mut(&record.organization) else {
                orphan = Some(record.organization);
                return;
            };
            organization.put(record.secret, Sequence::default());
        })?;
        if let Some(organization) = orphan {
            return Err(OpenError::KeyLost { organization });
        }
        Ok(Self { master, organizations: Ordered::new(store, organizations) })
    }

    /// The secrets of a pipeline, or all of the organization and its pipelines, ordered by pipeline and name.
    pub fn list(&self, organization: &Identifier, pipeline: Option<&Identifier>) -> Result<Vec<Secret>, SecretError> {
        let prefix = match pipeline {
            Some(_) => secret::scope_prefix(organization, pipeline),
            None => secret::organization_prefix(organization),
        };
        let mut secrets = Vec::new();
        visit(self.store(), &prefix, |record| secrets.push(record.secret))?;
        secrets.sort_unstable_by(|a, b| (&a.pipeline, &a.name).cmp(&(&b.pipeline, &b.name)));
        Ok(secrets)
    }

    pub fn get(
        &self,
        organization: &Identifier,
        pipeline: Option<&Identifier>,
        name: &VariableName,
    ) -> Result<Option<Secret>, SecretError> {
        Ok(self.record(organization, pipeline, name)?.map(|record| record.secret))
    }

    /// `beside` adds to the same batch; its result is held until the batch is durable or refused.
    pub async fn create<Held>(
        &self,
        organization: &Identifier,
        new: NewSecret,
        cause: Cause<'_>,
        beside: impl FnOnce(&Secret, &mut Batch) -> Held,
    ) -> Result<Secret, SecretError> {
        let NewSecret { pipeline, name, value, description } = new;
        let created = self.organizations.change(|organizations, committer| {
            let known = organizations.get(organization);
            if known.is_some_and(|known| known.secrets.contains_key(&(pipeline.clone(), name.clone()))) {
                return Err(SecretError::Exists);
            }
            if known.is_some_and(|known| known.secrets.len() >= SECRETS_MAX) {
                return Err(SecretError::TooMany);
            }
            let mut batch = Batch::default();
            let ring = known.map_or_else(|| Arc::new(Ring::generate()), |known| known.ring.clone());
            if known.is_none() {
                self.put_ring(&mut batch, organization, &ring);
            }
            let version = ring.floor + 1;
            let secret = Secret { name, description, pipeline, version, created_at: cause.at, updated_at: cause.at };
            put_record(&mut batch, organization, &ring, &secret, &value);
            record(&mut batch, organization, &EventData::SecretCreated(described(&secret)), &secret, cause);
            let held = beside(&secret, &mut batch);
            let changed = committer.commit(batch)?;
            let known = organizations.entry(organization.clone());
            let known = known.or_insert_with(|| Organization { ring, secrets: BTreeMap::new() });
            known.put(secret.clone(), changed);
            Ok((secret, held))
        });
        created.await.map(|(secret, _held)| secret)
    }

    /// `expected`: the secret must have one of these versions.
    pub async fn update(
        &self,
        organization: &Identifier,
        pipeline: Option<&Identifier>,
        name: &VariableName,
        change: SecretChange,
        expected: Option<Vec<u64>>,
        cause: Cause<'_>,
    ) -> Result<Secret, SecretError> {
        let slot = (pipeline.cloned(), name.clone());
        loop {
            // The record whose value stays.
            let kept = match change.value {
                Some(_) => None,
                None => self.settled_record(organization, &slot).await?,
            };
            let updated = self.organizations.change(|organizations, committer| {
                let known = organizations.get_mut(organization).ok_or(SecretError::NotFound)?;
                let entry = known.secrets.get(&slot).ok_or(SecretError::NotFound)?;
                entry.check(expected.as_deref())?;
                let value = match (&change.value, kept) {
                    (Some(value), _) => value.clone(),
                    (None, Some(record)) if record.secret == entry.secret => open(&known.ring, &record)?,
                    // The record is no longer the newest, and is read again.
                    (None, _) => return Ok(None),
                };
                let mut secret =
                    Secret { version: entry.secret.version + 1, updated_at: cause.at, ..entry.secret.clone() };
                if let Some(description) = &change.description {
                    secret.description = description.clone();
                }
                let mut batch = Batch::default();
                put_record(&mut batch, organization, &known.ring, &secret, &value);
                let data = SecretUpdatedData {
                    name: secret.name.shared(),
                    version: secret.version,
                    value_changed: change.value.is_some(),
                    description_changed: change.description.is_some(),
                };
                record(&mut batch, organization, &EventData::SecretUpdated(data), &secret, cause);
                known.put(secret.clone(), committer.commit(batch)?);
                Ok::<_, SecretError>(Some(secret))
            });
            if let Some(secret) = updated.await? {
                return Ok(secret);
            }
        }
    }

    /// False if the secret did not exist.
    pub async fn delete(
        &self,
        organization: &Identifier,
        pipeline: Option<&Identifier>,
        name: &VariableName,
        expected: Option<Vec<u64>>,
        cause: Cause<'_>,
    ) -> Result<bool, SecretError> {
        let slot = (pipeline.cloned(), name.clone());
        let deleted = self.organizations.change(|organizations, committer| {
            let Some(entry) = entry(organizations, organization, &slot) else { return Ok(false) };
            entry.check(expected.as_deref())?;
            self.hand_in_deletes(organizations, committer, organization, vec![slot], cause)?;
            Ok(true)
        });
        deleted.await
    }

    /// Deletes the secrets of a deleted pipeline: a new pipeline of the same name must not get them.
    pub async fn delete_pipeline(&self, pipeline: &PipelineKey, cause: Cause<'_>) -> Result<(), SecretError> {
        let deleted = self.organizations.change(|organizations, committer| {
            let secrets = organizations.get(&pipeline.organization).map(|organization| organization.secrets.keys());
            let slots = secrets.into_iter().flatten();
            let own = slots.filter(|(scope, _)| scope.as_ref() == Some(&pipeline.pipeline)).cloned().collect();
            self.hand_in_deletes(organizations, committer, &pipeline.organization, own, cause)
        });
        deleted.await
    }

    /// The secrets that the steps of a pipeline get, by name: the organization's and its own, which take precedence.
    pub fn open_for(&self, pipeline: &PipelineKey) -> Result<Vec<(VariableName, SecretValue)>, SecretError> {
        self.secrets_for(pipeline)?.by_name()
    }

    /// Makes sure that the organization has a data key.
    pub async fn prepare(&self, organization: &Identifier) -> Result<(), SecretError> {
        let prepared = self.organizations.change(|organizations, committer| {
            if organizations.contains_key(organization) {
                return Ok(());
            }
            let ring = Ring::generate();
            let mut batch = Batch::default();
            self.put_ring(&mut batch, organization, &ring);
            committer.commit(batch)?;
            organizations.insert(organization.clone(), Organization::new(ring));
            Ok(())
        });
        prepared.await
    }

    pub(super) fn ring(&self, organization: &Identifier) -> Option<Arc<Ring>> {
        self.organizations.with_newest(|organizations| Some(organizations.get(organization)?.ring.clone()))
    }

    pub(super) fn store(&self) -> &dyn Store {
        self.organizations.store()
    }

    /// A secret of the organization, for the server's own use.
    pub fn open_one(&self, organization: &Identifier, name: &VariableName) -> Result<Option<SecretValue>, SecretError> {
        let Some(record) = self.record(organization, None, name)? else { return Ok(None) };
        let ring = self.ring(organization);
        ring.map(|ring| open(&ring, &record)).transpose()
    }

    /// The secrets of a pipeline with their versions, to be opened when needed.
    pub fn secrets_for(&self, pipeline: &PipelineKey) -> Result<PipelineSecrets, SecretError> {
        let mut records = Vec::new();
        for scope in [None, Some(&pipeline.pipeline)] {
            visit(self.store(), &secret::scope_prefix(&pipeline.organization, scope), |record| records.push(record))?;
        }
        // Read after the records: memory is ahead of the store, so it has every key they need.
        let ring = self.ring(&pipeline.organization);
        Ok(PipelineSecrets { organization: pipeline.organization.clone(), records, ring })
    }

    fn record(
        &self,
        organization: &Identifier,
        pipeline: Option<&Identifier>,
        name: &VariableName,
    ) -> Result<Option<Record>, StoreError> {
        let key = secret::secret_key(organization, pipeline, name);
        self.store().get(&key)?.map(|bytes| Record::decode(&key, &bytes)).transpose()
    }

    /// The record of a secret, once its last change is durable.
    async fn settled_record(&self, organization: &Identifier, slot: &Slot) -> Result<Option<Record>, SecretError> {
        let (changed, last_change) = self
            .organizations
            .decide(|organizations, _| entry(organizations, organization, slot).map(|entry| entry.changed));
        self.organizations.durable(changed.unwrap_or(last_change)).await;
        Ok(self.record(organization, slot.0.as_ref(), &slot.1)?)
    }

    fn hand_in_deletes(
        &self,
        organizations: &mut Organizations,
        committer: &mut Committer<'_>,
        organization: &Identifier,
        slots: Vec<Slot>,
        cause: Cause<'_>,
    ) -> Result<(), SecretError> {
        let Some(known) = organizations.get_mut(organization).filter(|_| !slots.is_empty()) else {
            return Ok(());
        };
        let mut batch = Batch::default();
        let mut floor = known.ring.floor;
        for secret in slots.iter().filter_map(|slot| Some(&known.secrets.get(slot)?.secret)) {
            batch.delete(secret::secret_key(organization, secret.pipeline.as_ref(), &secret.name));
            record(&mut batch, organization, &EventData::SecretDeleted(described(secret)), secret, cause);
            floor = floor.max(secret.version);
        }
        let ring = Arc::new(known.ring.with_floor(floor));
        if ring.floor != known.ring.floor {
            self.put_ring(&mut batch, organization, &ring);
        }
        // Marked as a removal, although the ring is written.
        batch.mark_as_end();
        committer.commit(batch)?;
        known.ring = ring;
        for slot in &slots {
            known.secrets.remove(slot);
        }
        Ok(())
    }

    fn put_ring(&self, batch: &mut Batch, organization: &Identifier, ring: &Ring) {
        batch.put(secret::ring_key(organization), secret::encode_ring(organization, ring, &self.master.key));
    }
}

fn put_record(batch: &mut Batch, organization: &Identifier, ring: &Ring, secret: &Secret, value: &SecretValue) {
    let sealed = ring.seal(&secret.identity(organization), value);
    let record = Record { organization: organization.clone(), secret: secret.clone(), sealed };
    batch.put(record.key(), record.encode());
}

fn described(secret: &Secret) -> SecretData {
    SecretData { name: secret.name.shared(), version: secret.version }
}

/// Records an event, without the value.
fn record(batch: &mut Batch, organization: &Identifier, data: &EventData, secret: &Secret, cause: Cause<'_>) {
    let event = NewEvent::new(data, cause);
    let event = secret.pipeline.as_ref().map_or(event, |pipeline| event.in_pipeline(pipeline));
    events::record(batch, organization, &event);
}

fn visit(store: &dyn Store, prefix: &[u8], mut visit: impl FnMut(Record)) -> Result<(), StoreError> {
    for_each(store, prefix, |key, bytes| Record::decode(key, bytes).map(&mut visit))
}

fn entry<'a>(organizations: &'a Organizations, organization: &Identifier, slot: &Slot) -> Option<&'a Entry> {
    organizations.get(organization)?.secrets.get(slot)
}

impl Organization {
    fn new(ring: Ring) -> Self {
        Self { ring: Arc::new(ring), secrets: BTreeMap::new() }
    }

    fn put(&mut self, secret: Secret, changed: Sequence) {
        self.secrets.insert((secret.pipeline.clone(), secret.name.clone()), Entry { secret, changed });
    }
}

impl Entry {
    fn check(&self, expected: Option<&[u64]>) -> Result<(), SecretError> {
        let current = self.secret.version;
        let fits = expected.is_none_or(|expected| expected.contains(&current));
        fits.then_some(()).ok_or(SecretError::VersionMismatch { current })
    }
}

/// The organization's, then the pipeline's own, which take precedence; still sealed.
pub struct PipelineSecrets {
    organization: Identifier,
    records: Vec<Record>,
    /// None only if there are no records.
    ring: Option<Arc<Ring>>,
}

/// Names secrets with their versions. Two equal ones have the same values, since no version is used twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SecretVersions {
    organization: Identifier,
    versions: Vec<(Option<Identifier>, VariableName, u64)>,
}

impl PipelineSecrets {
    pub fn versions(&self) -> SecretVersions {
        let version = |record: &Record| {
            let secret = &record.secret;
            (secret.pipeline.clone(), secret.name.clone(), secret.version)
        };
        SecretVersions { organization: self.organization.clone(), versions: self.records.iter().map(version).collect() }
    }

    /// The secrets that steps get, by name.
    pub fn by_name(&self) -> Result<Vec<(VariableName, SecretValue)>, SecretError> {
        let Some(ring) = &self.ring else { return Ok(Vec::new()) };
        let by_name: BTreeMap<_, _> = self.records.iter().map(|record| (&record.secret.name, record)).collect();
        by_name.into_iter().map(|(name, record)| Ok((name.clone(), open(ring, record)?))).collect()
    }

    /// The values to mask, including those of the organization that the pipeline overrides.
    pub fn values(&self) -> Result<Vec<SecretValue>, SecretError> {
        let Some(ring) = &self.ring else { return Ok(Vec::new()) };
        self.records.iter().map(|record| open(ring, record)).collect()
    }
}

fn open(ring: &Ring, record: &Record) -> Result<SecretValue, SecretError> {
    let value = ring.open(&record.identity(), &record.sealed);
    value.ok_or_else(|| SecretError::DoesNotOpen { name: record.secret.name.clone() })
}

pub(super) fn rings(store: &dyn Store) -> Result<Vec<WrappedRing>, StoreError> {
    let pairs = store.scan(store::keys::DATA_KEYS, &end_of_prefix(store::keys::DATA_KEYS), usize::MAX)?;
    pairs.iter().map(|(key, bytes)| WrappedRing::decode(key, bytes)).collect()
}

/// The keys, and the master key they were wrapped under. An error names the last of `masters`.
pub(super) fn unwrap<'a>(wrapped: &WrappedRing, masters: &[&'a MasterKey]) -> Result<(Ring, &'a MasterKey), OpenError> {
    let found = masters.iter().find_map(|master| Some((wrapped.unwrap(&master.key)?, *master)));
    let blamed = masters.last().expect("every caller has a master key");
    found.ok_or_else(|| blamed.refusal(wrapped.organization.clone()))
}
