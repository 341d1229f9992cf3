//! The secrets of every organization: what there is in memory for those who change it, in the store for those who read.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;

use super::master_key::{MasterKey, OpenError};
use super::rotation;
use super::sealing::Ring;
use super::secret::{NewSecret, SECRETS_MAX, Secret, SecretChange, SecretError};
use super::stored::{self, Record};
use super::value::SecretValue;
use crate::domain::{Data, Identifier, Notice, PipelineKey, VariableName};
use crate::events::{self, Cause, Happening};
use crate::store::{Batch, Sequence, Store, StoreError, durable_up_to, end_of_prefix, walk};

pub struct Vault {
    store: Arc<dyn Store>,
    master: MasterKey,
    /// Whoever changes a secret holds it while both the store and the memory take the change, so that they agree on the
    /// order, and never while waiting for the disk: a request that is given up cannot leave the two apart.
    newest: Mutex<Newest>,
}

/// How everything stands, durable or not. Readers take the store instead, which has only what is durable.
#[derive(Default)]
struct Newest {
    organizations: HashMap<Identifier, Organization>,
    last_change: Sequence,
}

struct Organization {
    ring: Arc<Ring>,
    secrets: BTreeMap<Slot, Entry>,
}

/// The pipeline of a secret, if it has one, and its name.
type Slot = (Option<Identifier>, VariableName);

struct Entry {
    secret: Secret,
    /// The place of its last change; from there on the store has it as it is here.
    changed: Sequence,
}

struct Update<'a> {
    organization: &'a Identifier,
    slot: Slot,
    change: SecretChange,
    expected: Option<Vec<u64>>,
    cause: Cause<'a>,
}

impl Vault {
    /// Refuses a master key that does not open what is there.
    pub fn open(store: Arc<dyn Store>, master: MasterKey) -> Result<Self, OpenError> {
        let mut organizations = HashMap::new();
        for wrapped in rotation::rings(&*store)? {
            let (ring, _) = rotation::unwrap(&wrapped, &[&master])?;
            organizations.insert(wrapped.organization, Organization::new(ring));
        }
        let mut orphan = None;
        visit(&*store, stored::SECRETS, |record| {
            let Some(organization) = organizations.get_mut(&record.organization) else {
                orphan = Some(record.organization);
                return;
            };
            organization.put(record.secret, Sequence::default());
        })?;
        if let Some(organization) = orphan {
            return Err(OpenError::KeyLost { organization });
        }
        Ok(Self { store, master, newest: Mutex::new(Newest { organizations, last_change: Sequence::default() }) })
    }

    /// A pipeline's own, or all of the organization with those of its pipelines; by pipeline and name.
    pub fn list(&self, organization: &Identifier, pipeline: Option<&Identifier>) -> Result<Vec<Secret>, SecretError> {
        let prefix = match pipeline {
            Some(_) => stored::scope_prefix(organization, pipeline),
            None => stored::organization_prefix(organization),
        };
        let mut secrets = Vec::new();
        visit(&*self.store, &prefix, |record| secrets.push(record.secret))?;
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

    /// What `keep` adds goes into the batch that makes the secret; what it returns is held until that is durable or
    /// refused.
    pub async fn create<Held>(
        &self,
        organization: &Identifier,
        new: NewSecret,
        cause: Cause<'_>,
        keep: impl FnOnce(&Secret, &mut Batch) -> Held,
    ) -> Result<Secret, SecretError> {
        let (outcome, sequence) = {
            let newest = &mut *self.newest.lock();
            let outcome = self.hand_in_new(newest, organization, new, cause, keep);
            (outcome, newest.last_change)
        };
        self.once_durable(outcome, sequence).await.map(|(secret, _held)| secret)
    }

    /// `expected`: the versions of which it must have one.
    pub async fn update(
        &self,
        organization: &Identifier,
        pipeline: Option<&Identifier>,
        name: &VariableName,
        change: SecretChange,
        expected: Option<Vec<u64>>,
        cause: Cause<'_>,
    ) -> Result<Secret, SecretError> {
        let update = Update { organization, slot: (pipeline.cloned(), name.clone()), change, expected, cause };
        loop {
            let kept = match update.change.value {
                Some(_) => None,
                None => self.settled_record(organization, &update.slot).await?,
            };
            let (outcome, sequence) = {
                let newest = &mut *self.newest.lock();
                let outcome = self.hand_in_update(newest, &update, kept);
                (outcome, newest.last_change)
            };
            if let Some(secret) = self.once_durable(outcome, sequence).await? {
                return Ok(secret);
            }
        }
    }

    /// Whether there was such a secret.
    pub async fn delete(
        &self,
        organization: &Identifier,
        pipeline: Option<&Identifier>,
        name: &VariableName,
        expected: Option<Vec<u64>>,
        cause: Cause<'_>,
    ) -> Result<bool, SecretError> {
        let slot = (pipeline.cloned(), name.clone());
        let (outcome, sequence) = {
            let newest = &mut *self.newest.lock();
            let outcome = match newest.entry(organization, &slot).map(|entry| entry.check(expected.as_deref())) {
                None => Ok(false),
                Some(Err(mismatch)) => Err(mismatch),
                Some(Ok(())) => self.hand_in_deletes(newest, organization, vec![slot], cause).map(|()| true),
            };
            (outcome, newest.last_change)
        };
        self.once_durable(outcome, sequence).await
    }

    /// A deleted pipeline takes its secrets along: whoever makes one of its name must not find them.
    pub async fn delete_pipeline(&self, pipeline: &PipelineKey, cause: Cause<'_>) -> Result<(), SecretError> {
        let (outcome, sequence) = {
            let newest = &mut *self.newest.lock();
            let organization = newest.organizations.get(&pipeline.organization);
            let slots = organization.into_iter().flat_map(|organization| organization.secrets.keys());
            let own = slots.filter(|(scope, _)| scope.as_ref() == Some(&pipeline.pipeline)).cloned().collect();
            let outcome = self.hand_in_deletes(newest, &pipeline.organization, own, cause);
            (outcome, newest.last_change)
        };
        self.once_durable(outcome, sequence).await
    }

    /// What the steps of a pipeline get: the organization's secrets and its own, which win. By name.
    pub fn open_for(&self, pipeline: &PipelineKey) -> Result<Vec<(VariableName, SecretValue)>, SecretError> {
        let organization = &pipeline.organization;
        let mut records = BTreeMap::new();
        for scope in [None, Some(&pipeline.pipeline)] {
            visit(&*self.store, &stored::scope_prefix(organization, scope), |record| {
                records.insert(record.secret.name.clone(), record);
            })?;
        }
        // Taken after the records: memory is ahead of the store, so it has every key that they need.
        let Some(ring) = self.ring(organization) else { return Ok(Vec::new()) };
        records.into_iter().map(|(name, record)| Ok((name, open(&ring, &record)?))).collect()
    }

    /// Sees to it that the organization has a key to seal with.
    pub async fn prepare(&self, organization: &Identifier) -> Result<(), SecretError> {
        let (outcome, sequence) = {
            let newest = &mut *self.newest.lock();
            let outcome = self.hand_in_ring(newest, organization);
            (outcome, newest.last_change)
        };
        self.once_durable(outcome, sequence).await
    }

    pub(super) fn ring(&self, organization: &Identifier) -> Option<Arc<Ring>> {
        self.newest.lock().organizations.get(organization).map(|found| found.ring.clone())
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Every value that a pipeline's steps may ever have seen as things stand: also those of the organization that its
    /// own hide.
    pub fn values_for(&self, pipeline: &PipelineKey) -> Result<Vec<SecretValue>, SecretError> {
        let organization = &pipeline.organization;
        let mut records = Vec::new();
        for scope in [None, Some(&pipeline.pipeline)] {
            visit(&*self.store, &stored::scope_prefix(organization, scope), |record| records.push(record))?;
        }
        let Some(ring) = self.ring(organization) else {
            return Ok(Vec::new());
        };
        records.iter().map(|record| open(&ring, record)).collect()
    }

    /// A secret of the organization by its name, for what the server itself does for it.
    pub fn open_one(&self, organization: &Identifier, name: &VariableName) -> Result<Option<SecretValue>, SecretError> {
        let Some(record) = self.record(organization, None, name)? else { return Ok(None) };
        let ring = self.ring(organization);
        ring.map(|ring| open(&ring, &record)).transpose()
    }

    /// A refusal waits like a success, since what it speaks of may not be durable yet; only what the store has refused is
    /// told at once.
    async fn once_durable<T>(&self, outcome: Result<T, SecretError>, sequence: Sequence) -> Result<T, SecretError> {
        if !matches!(outcome, Err(SecretError::Store(_))) {
            durable_up_to(&*self.store, sequence).await;
        }
        outcome
    }

    fn record(
        &self,
        organization: &Identifier,
        pipeline: Option<&Identifier>,
        name: &VariableName,
    ) -> Result<Option<Record>, StoreError> {
        let key = stored::secret_key(organization, pipeline, name);
        self.store.get(&key)?.map(|bytes| Record::decode(&key, &bytes)).transpose()
    }

    /// The record of a secret, once its last change is durable.
    async fn settled_record(&self, organization: &Identifier, slot: &Slot) -> Result<Option<Record>, SecretError> {
        let changed = {
            let newest = self.newest.lock();
            newest.entry(organization, slot).map_or(newest.last_change, |entry| entry.changed)
        };
        durable_up_to(&*self.store, changed).await;
        Ok(self.record(organization, slot.0.as_ref(), &slot.1)?)
    }

    fn hand_in_ring(&self, newest: &mut Newest, organization: &Identifier) -> Result<(), SecretError> {
        if newest.organizations.contains_key(organization) {
            return Ok(());
        }
        let ring = Ring::generate();
        let mut batch = Batch::default();
        self.put_ring(&mut batch, organization, &ring);
        newest.last_change = self.store.commit(batch)?;
        newest.organizations.insert(organization.clone(), Organization::new(ring));
        Ok(())
    }

    fn hand_in_new<Held>(
        &self,
        newest: &mut Newest,
        organization: &Identifier,
        new: NewSecret,
        cause: Cause<'_>,
        keep: impl FnOnce(&Secret, &mut Batch) -> Held,
    ) -> Result<(Secret, Held), SecretError> {
        let NewSecret { pipeline, name, value, description } = new;
        let known = newest.organizations.get(organization);
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
        record(&mut batch, organization, Notice::SecretCreated, &secret, cause, Data::default());
        let held = keep(&secret, &mut batch);
        newest.last_change = self.store.commit(batch)?;
        let (entry, changed) = (newest.organizations.entry(organization.clone()), newest.last_change);
        let organization = entry.or_insert_with(|| Organization { ring, secrets: BTreeMap::new() });
        organization.put(secret.clone(), changed);
        Ok((secret, held))
    }

    /// `kept` is the record whose value stays. None where it is no longer the newest: then it is to be read again.
    fn hand_in_update(
        &self,
        newest: &mut Newest,
        update: &Update<'_>,
        kept: Option<Record>,
    ) -> Result<Option<Secret>, SecretError> {
        let known = newest.organizations.get_mut(update.organization).ok_or(SecretError::NotFound)?;
        let entry = known.secrets.get(&update.slot).ok_or(SecretError::NotFound)?;
        entry.check(update.expected.as_deref())?;
        let value = match (&update.change.value, kept) {
            (Some(value), _) => value.clone(),
            (None, Some(record)) if record.secret == entry.secret => open(&known.ring, &record)?,
            (None, _) => return Ok(None),
        };
        let mut secret =
            Secret { version: entry.secret.version + 1, updated_at: update.cause.at, ..entry.secret.clone() };
        if let Some(description) = &update.change.description {
            secret.description = description.clone();
        }
        let mut batch = Batch::default();
        put_record(&mut batch, update.organization, &known.ring, &secret, &value);
        let SecretChange { value, description } = &update.change;
        let what =
            Data::default().with("valueChanged", value.is_some()).with("descriptionChanged", description.is_some());
        record(&mut batch, update.organization, Notice::SecretUpdated, &secret, update.cause, what);
        newest.last_change = self.store.commit(batch)?;
        known.put(secret.clone(), newest.last_change);
        Ok(Some(secret))
    }

    fn hand_in_deletes(
        &self,
        newest: &mut Newest,
        organization: &Identifier,
        slots: Vec<Slot>,
        cause: Cause<'_>,
    ) -> Result<(), SecretError> {
        let Some(known) = newest.organizations.get_mut(organization).filter(|_| !slots.is_empty()) else {
            return Ok(());
        };
        let mut batch = Batch::default();
        let mut floor = known.ring.floor;
        for secret in slots.iter().filter_map(|slot| Some(&known.secrets.get(slot)?.secret)) {
            batch.delete(stored::secret_key(organization, secret.pipeline.as_ref(), &secret.name));
            record(&mut batch, organization, Notice::SecretDeleted, secret, cause, Data::default());
            floor = floor.max(secret.version);
        }
        let ring = Arc::new(known.ring.with_floor(floor));
        if ring.floor != known.ring.floor {
            self.put_ring(&mut batch, organization, &ring);
        }
        newest.last_change = self.store.commit(batch)?;
        known.ring = ring;
        for slot in &slots {
            known.secrets.remove(slot);
        }
        Ok(())
    }

    fn put_ring(&self, batch: &mut Batch, organization: &Identifier, ring: &Ring) {
        batch.put(stored::ring_key(organization), stored::encode_ring(organization, ring, &self.master.key));
    }
}

fn put_record(batch: &mut Batch, organization: &Identifier, ring: &Ring, secret: &Secret, value: &SecretValue) {
    let sealed = ring.seal(&secret.place(organization), value);
    let record = Record { organization: organization.clone(), secret: secret.clone(), sealed };
    batch.put(record.key(), record.encode());
}

/// Writes down what happens to a secret, in the batch that makes it happen; nothing of its value.
fn record(batch: &mut Batch, organization: &Identifier, notice: Notice, secret: &Secret, cause: Cause<'_>, data: Data) {
    let data = data.with("name", secret.name.as_str()).with("version", secret.version);
    let happening = Happening::new(notice, cause.at, cause.by, &data);
    let happening = secret.pipeline.as_ref().map_or(happening, |pipeline| happening.in_pipeline(pipeline));
    events::record(batch, organization, &happening);
}

fn open(ring: &Ring, record: &Record) -> Result<SecretValue, SecretError> {
    let value = ring.open(&record.place(), &record.sealed);
    value.ok_or_else(|| SecretError::DoesNotOpen { name: record.secret.name.clone() })
}

fn visit(store: &dyn Store, prefix: &[u8], mut visit: impl FnMut(Record)) -> Result<(), StoreError> {
    walk(store, prefix, &end_of_prefix(prefix), |key, bytes| {
        visit(Record::decode(key, bytes)?);
        Ok(ControlFlow::Continue(()))
    })
}

impl Newest {
    fn entry(&self, organization: &Identifier, slot: &Slot) -> Option<&Entry> {
        self.organizations.get(organization)?.secrets.get(slot)
    }
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
