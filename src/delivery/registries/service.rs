//! All registries, for readers and for saving pipelines. Changes are in `change` and `sync`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::registry::{self, Registry, Status};
use crate::git::Git;
use accounts::secrets::Vault;
use domain::nearest::{COMPARED_MAX, did_you_mean};
use domain::{Blueprint, Identifier, RegistryId, RegistryStep, ResolvedStep, StepReference, Use};
use locks::pipelines::Pipelines;
use store::{Published, RecordChange, Records, Store, StoreError};

/// By organization and id.
pub(super) type RegistryRecords = Records<Identifier, RegistryId, Registry>;
pub(super) type RegistryChange = RecordChange<Identifier, RegistryId, Registry>;

/// Parses a file of a repository as a step, or returns all its faults.
pub type ReadStep = fn(&str) -> Result<RegistryStep, Vec<String>>;

/// Cheap to clone.
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
    /// The registries that are being synced.
    pub syncing: Mutex<HashSet<RegistryId>>,
    /// Shared by requests that save a pipeline, exclusive for those that remove steps: held from reading the other side
    /// until the change is handed in.
    pub gate: tokio::sync::RwLock<()>,
}

/// Held while a pipeline is saved: no step is removed meanwhile.
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

    /// The registries of an organization, oldest first.
    pub fn list(&self, organization: &Identifier) -> Vec<Arc<Registry>> {
        self.inner.registries.read().of(organization).cloned().collect()
    }

    pub fn get(&self, organization: &Identifier, id: RegistryId) -> Option<Arc<Registry>> {
        self.inner.registries.read().get(organization, &id).cloned()
    }

    pub fn status(&self, registry: &Registry) -> Status {
        let is_syncing = self.inner.syncing.lock().contains(&registry.id);
        if is_syncing { Status::Syncing } else { registry.last_status() }
    }

    /// Whether `file:` URLs are allowed.
    pub fn allows_file_urls(&self) -> bool {
        self.inner.git.allows_file()
    }

    /// The maximum duration of a sync.
    pub fn sync_timeout(&self) -> Duration {
        self.inner.git.timeout()
    }

    /// The blueprint with its uses resolved, for a deployment that starts now; or why that is impossible.
    pub fn resolved(&self, organization: &Identifier, blueprint: &Arc<Blueprint>) -> Result<Arc<Blueprint>, Arc<str>> {
        if blueprint.uses().next().is_none() {
            return Ok(blueprint.clone());
        }
        let registries = self.inner.registries.read();
        let resolved = blueprint.resolved(&|reference| find(registries.of(organization), reference));
        resolved.map(Arc::new).map_err(|faults| blueprint.why_unresolved(&faults))
    }

    /// Returns a guard to hold while saving a pipeline.
    pub async fn using(&self) -> Using<'_> {
        Using { registries: self, _gate: self.inner.gate.read().await }
    }

    /// Waits until everything handed in so far is durable; called before a refusal that depends on it.
    pub async fn settled(&self) {
        self.inner.registries.settle().await;
    }
}

impl Using<'_> {
    /// The faults of a use: the field (`uses` or `with.NAME`), and the end of a sentence.
    pub fn faults(&self, organization: &Identifier, used: &Use) -> Vec<(String, String)> {
        match self.find(organization, &used.reference) {
            Ok(found) => used.faults(&found.step),
            Err(why) => vec![("uses".to_owned(), format!("names {}, {why}", used.reference))],
        }
    }

    /// Whether the blueprint, with its uses resolved, is within the limits of a pipeline.
    pub fn resolves(&self, organization: &Identifier, blueprint: &Blueprint) -> Result<(), String> {
        let resolved = blueprint.resolved(&|reference| self.find(organization, reference));
        resolved.map(|_| ()).map_err(|faults| blueprint.why_unresolved(&faults).to_string())
    }

    fn find(&self, organization: &Identifier, reference: &StepReference) -> Result<ResolvedStep, String> {
        self.registries.inner.registries.with_newest(|newest| find(newest.of(organization), reference))
    }
}

pub(super) fn load(store: Arc<dyn Store>) -> Result<Published<Identifier, RegistryId, Registry>, StoreError> {
    Published::load(store, store::keys::REGISTRIES, |record| {
        let registry = Arc::new(registry::decode(record)?);
        Ok((set(&registry), registry.revision))
    })
}

pub(super) fn set(registry: &Arc<Registry>) -> RegistryChange {
    RecordChange { group: registry.organization.clone(), key: registry.id, value: Some(registry.clone()) }
}

/// The step of a reference, or the end of a sentence that begins with the reference.
pub(super) fn find<'a>(
    registries: impl Iterator<Item = &'a Arc<Registry>> + Clone,
    reference: &StepReference,
) -> Result<ResolvedStep, String> {
    let wanted = &reference.registry;
    let registry = registries.clone().find(|registry| registry.name == *wanted).ok_or_else(|| {
        let known = registries.take(COMPARED_MAX).map(|registry| registry.name.as_str());
        format!("and there is no registry `{wanted}`{}", did_you_mean(wanted.as_str(), known))
    })?;
    registry.find(&reference.step, &reference.version)
}
