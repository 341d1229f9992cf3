//! All registries, for readers and for those who save a pipeline. Changes are in `changing` and `syncing`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::registry::{Registry, Status};
use super::stored;
use crate::domain::{Blueprint, Found, Identifier, RegistryId, RegistryStep, StepReference, Use};
use crate::git::Git;
use crate::pipelines::Pipelines;
use crate::secrets::Vault;
use crate::store::{Published, RecordChange, Records, Store, StoreError, end_of_prefix};

/// By organization and id.
pub(super) type RegistryRecords = Records<Identifier, RegistryId, Registry>;
pub(super) type RegistryChange = RecordChange<Identifier, RegistryId, Registry>;

/// Reads a file of a repository as a step, or says all that is wrong with it.
pub type ReadStep = fn(&str) -> Result<RegistryStep, Vec<String>>;

/// Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Registries {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub registries: Published<Identifier, RegistryId, Registry>,
    pub pipelines: Pipelines,
    pub vault: Arc<Vault>,
    pub git: Git,
    pub read_step: ReadStep,
    /// Those that are being synced.
    pub syncing: Mutex<HashSet<RegistryId>>,
    /// Shared by those who save a pipeline, had alone by who takes steps away: from looking at the other side until the
    /// change is handed in.
    pub gate: tokio::sync::RwLock<()>,
}

/// Held while a pipeline is saved: what it uses stays there meanwhile.
pub struct Using<'a> {
    registries: &'a Registries,
    _gate: tokio::sync::RwLockReadGuard<'a, ()>,
}

impl Registries {
    pub fn open(
        store: Arc<dyn Store>,
        pipelines: Pipelines,
        vault: Arc<Vault>,
        git: Git,
        read_step: ReadStep,
    ) -> Result<Self, StoreError> {
        let inner = Inner {
            registries: load(store)?,
            pipelines,
            vault,
            git,
            read_step,
            syncing: Mutex::default(),
            gate: tokio::sync::RwLock::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Those of an organization, oldest first.
    pub fn list(&self, organization: &Identifier) -> Vec<Arc<Registry>> {
        self.inner.registries.read().of(organization).cloned().collect()
    }

    pub fn get(&self, organization: &Identifier, id: RegistryId) -> Option<Arc<Registry>> {
        self.inner.registries.read().get(organization, &id).cloned()
    }

    pub fn status(&self, registry: &Registry) -> Status {
        if self.inner.syncing.lock().contains(&registry.id) {
            return Status::Syncing;
        }
        if registry.failure.is_some() { Status::Failed } else { Status::Ready }
    }

    /// Whether repositories of this machine may be named.
    pub fn allows_file_urls(&self) -> bool {
        self.inner.git.allows_file()
    }

    /// The longest that a repository may take.
    pub fn sync_timeout(&self) -> Duration {
        self.inner.git.timeout()
    }

    /// What a deployment that starts now runs, or why it cannot.
    pub fn resolved(&self, organization: &Identifier, blueprint: &Arc<Blueprint>) -> Result<Arc<Blueprint>, Arc<str>> {
        if blueprint.uses().next().is_none() {
            return Ok(blueprint.clone());
        }
        let registries = self.inner.registries.read();
        let resolved = blueprint.resolved(&|reference| find(registries.of(organization), reference));
        resolved.map(Arc::new).map_err(|faults| blueprint.why_unresolved(&faults))
    }

    /// Before a pipeline is saved.
    pub async fn using(&self) -> Using<'_> {
        Using { registries: self, _gate: self.inner.gate.read().await }
    }

    /// Before somebody is refused for what may not be durable yet.
    pub async fn settled(&self) {
        self.inner.registries.settle().await;
    }
}

impl Using<'_> {
    /// What is wrong with a use: `uses` or `with.NAME`, and the end of a sentence.
    pub fn faults(&self, organization: &Identifier, used: &Use) -> Vec<(String, String)> {
        match self.find(organization, &used.reference) {
            Ok(found) => used.faults(&found.step),
            Err(why) => vec![("uses".to_owned(), format!("names {}, {why}", used.reference))],
        }
    }

    /// Whether all that it uses, filled in, is within the bounds of a pipeline.
    pub fn resolves(&self, organization: &Identifier, blueprint: &Blueprint) -> Result<(), String> {
        let resolved = blueprint.resolved(&|reference| self.find(organization, reference));
        resolved.map(|_| ()).map_err(|faults| blueprint.why_unresolved(&faults).to_string())
    }

    fn find(&self, organization: &Identifier, reference: &StepReference) -> Result<Found, String> {
        self.registries.inner.registries.with_newest(|newest| find(newest.of(organization), reference))
    }
}

pub(super) fn load(store: Arc<dyn Store>) -> Result<Published<Identifier, RegistryId, Registry>, StoreError> {
    let mut records = Records::default();
    let mut last_revision = 0;
    for (_, record) in store.scan(stored::REGISTRIES, &end_of_prefix(stored::REGISTRIES), usize::MAX)? {
        let registry = stored::decode(&record).map_err(|unreadable| StoreError::Read(unreadable.to_string()))?;
        last_revision = last_revision.max(registry.revision);
        records.set(set(&Arc::new(registry)));
    }
    Ok(Published::new(store, records, last_revision))
}

pub(super) fn set(registry: &Arc<Registry>) -> RegistryChange {
    RecordChange { group: registry.organization.clone(), key: registry.id, value: Some(registry.clone()) }
}

/// What there is under a reference, or the end of a sentence that begins with it.
pub(super) fn find<'a>(
    mut registries: impl Iterator<Item = &'a Arc<Registry>>,
    reference: &StepReference,
) -> Result<Found, String> {
    let registry = registries.find(|registry| registry.name == reference.registry);
    let registry = registry.ok_or_else(|| format!("and there is no registry `{}`", reference.registry))?;
    registry.find(&reference.step, &reference.version)
}
