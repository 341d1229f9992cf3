//! Registries of steps that pipelines use by name and version: some hold what a request said, some what a git repository
//! has under `steps/`, pinned to a commit until the next sync. Knows nothing of HTTP.
//!
//! What pipelines use of a registry is not taken from them: a change that would is refused, and so is a pipeline that names
//! what is not there. Both are decided under one gate, on what was handed in last.

mod book;
mod changing;
mod fetch;
mod registry;
mod stored;
mod syncing;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

pub use changing::Refusal;
pub use registry::{
    FileFault, GitSource, NewRegistry, NewSource, REGISTRIES_MAX, REGISTRY_BYTES_MAX, Registry, STEPS_MAX, Source,
    Status, StepKey, Steps, SyncFailure, steps_of,
};
pub use syncing::Synced;

use book::Book;

use crate::domain::{Blueprint, Found, Identifier, RegistryId, RegistryStep, StepReference, Use};
use crate::git::Git;
use crate::pipelines::Pipelines;
use crate::secrets::Vault;
use crate::store::{Store, StoreError, durable_up_to};

/// Reads a file of a repository as a step, or says all that is wrong with it.
pub type ReadStep = fn(&str) -> Result<RegistryStep, Vec<String>>;

/// Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Registries {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn Store>,
    book: Book,
    pipelines: Pipelines,
    vault: Arc<Vault>,
    git: Git,
    read_step: ReadStep,
    /// Those that are being synced.
    syncing: Mutex<HashSet<RegistryId>>,
    /// Shared by those who save a pipeline, had alone by who takes steps away: from looking at the other side until the
    /// change is handed in.
    gate: tokio::sync::RwLock<()>,
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
        let shared = Shared {
            book: Book::open(store.clone())?,
            store,
            pipelines,
            vault,
            git,
            read_step,
            syncing: Mutex::default(),
            gate: tokio::sync::RwLock::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Those of an organization, oldest first.
    pub fn list(&self, organization: &Identifier) -> Vec<Arc<Registry>> {
        self.shared.book.published().of(organization).cloned().collect()
    }

    pub fn get(&self, organization: &Identifier, id: RegistryId) -> Option<Arc<Registry>> {
        self.shared.book.published().get(organization, id).cloned()
    }

    pub fn status(&self, registry: &Registry) -> Status {
        if self.shared.syncing.lock().contains(&registry.id) {
            return Status::Syncing;
        }
        if registry.failure.is_some() { Status::Failed } else { Status::Ready }
    }

    /// Whether repositories of this machine may be named.
    pub fn allows_file_urls(&self) -> bool {
        self.shared.git.allows_file()
    }

    /// The longest that a repository may take.
    pub fn sync_timeout(&self) -> Duration {
        self.shared.git.timeout()
    }

    /// What a deployment that starts now runs, or why it cannot.
    pub fn resolved(&self, organization: &Identifier, blueprint: &Arc<Blueprint>) -> Result<Arc<Blueprint>, Arc<str>> {
        if blueprint.uses().next().is_none() {
            return Ok(blueprint.clone());
        }
        let known = self.shared.book.published();
        let resolved = blueprint.resolved(&|reference| find(known.of(organization), reference));
        resolved.map(Arc::new).map_err(|faults| blueprint.why_unresolved(&faults))
    }

    /// Before a pipeline is saved.
    pub async fn using(&self) -> Using<'_> {
        Using { registries: self, _gate: self.shared.gate.read().await }
    }

    /// Before somebody is refused for what may not be durable yet.
    pub async fn settled(&self) {
        durable_up_to(&*self.shared.store, self.shared.store.handed_in()).await;
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
        find(self.registries.shared.book.newest().of(organization), reference)
    }
}

/// What there is under a reference, or the end of a sentence that begins with it.
fn find<'a>(
    mut registries: impl Iterator<Item = &'a Arc<Registry>>,
    reference: &StepReference,
) -> Result<Found, String> {
    let registry = registries.find(|registry| registry.name == reference.registry);
    let registry = registry.ok_or_else(|| format!("and there is no registry `{}`", reference.registry))?;
    registry.find(&reference.step, &reference.version)
}
