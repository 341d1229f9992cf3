//! One registry with its steps.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use crate::git::{Commit, RefName, RemoteUrl};
use domain::named::named_enum;
use domain::nearest::{COMPARED_MAX, did_you_mean};
use domain::{Found, Identifier, RegistryId, RegistryStep, Timestamp, VariableName};

/// Per organization: far beyond those we know, few enough to keep in memory and to search.
pub const REGISTRIES_MAX: usize = 100;
/// Steps per registry; each version counts.
pub const STEPS_MAX: usize = 256;
/// All texts of a registry's steps together: a registry is one record, and all registries are in memory.
pub const REGISTRY_BYTES_MAX: usize = 256 * 1024;
/// Versions listed in an error about an unknown version.
const VERSIONS_NAMED: usize = 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registry {
    pub organization: Identifier,
    pub id: RegistryId,
    /// Unique in its organization; pipelines refer to it.
    pub name: Identifier,
    pub source: Source,
    pub steps: Arc<Steps>,
    /// Why the last sync failed, if it did.
    pub failure: Option<Arc<SyncFailure>>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The last successful sync.
    pub synced_at: Option<Timestamp>,
    /// A new one with every change, never one that a registry of this organization had before.
    pub revision: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Steps from a request.
    Inline,
    Git(GitSource),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSource {
    pub url: RemoteUrl,
    /// A branch or a tag.
    pub reference: RefName,
    /// The organization's secret for reading the repository.
    pub credential: Option<VariableName>,
    /// The commit of its steps; none before the first successful sync.
    pub commit: Option<Commit>,
}

named_enum! {
    pub enum Status {
        Syncing = "syncing",
        Ready = "ready",
        Failed = "failed",
    }
}

/// By name and version.
pub type StepKey = (Identifier, Identifier);
pub type Steps = BTreeMap<StepKey, Arc<RegistryStep>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncFailure {
    pub message: String,
    /// Invalid files, if that is the reason.
    pub faults: Vec<FileFault>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFault {
    pub file: String,
    pub message: String,
}

/// A registry as a request defines it.
#[derive(Debug, Clone)]
pub struct NewRegistry {
    pub name: Identifier,
    pub source: NewSource,
}

#[derive(Debug, Clone)]
pub enum NewSource {
    Inline(Steps),
    Git(GitSource),
}

impl Registry {
    /// The step, or why it is missing, as the end of a sentence.
    pub(super) fn find(&self, step: &Identifier, version: &Identifier) -> Result<Found, String> {
        if let Some(found) = self.steps.get(&(step.clone(), version.clone())) {
            return Ok(Found { step: found.clone(), commit: self.commit().map(|commit| Arc::from(commit.as_str())) });
        }
        let versions: Vec<&str> =
            self.steps.keys().filter(|(name, _)| name == step).map(|(_, version)| version.as_str()).collect();
        Err(match versions.len() {
            0 => {
                let mut known: Vec<_> = self.steps.keys().map(|(name, _)| name.as_str()).collect();
                known.dedup();
                let hint = did_you_mean(step.as_str(), known.into_iter().take(COMPARED_MAX));
                format!("and the registry `{}` has no step `{step}`{hint}", self.name)
            }
            1..=VERSIONS_NAMED => format!("and the registry has only these versions: {}", versions.join(", ")),
            count => format!("and the registry has no such version among its {count} of that step"),
        })
    }

    pub fn commit(&self) -> Option<&Commit> {
        match &self.source {
            Source::Inline => None,
            Source::Git(git) => git.commit.as_ref(),
        }
    }
}

impl GitSource {
    /// Whether it is the same repository and reference, at whatever commit.
    pub(super) fn is_same_repository(&self, other: &Self) -> bool {
        (&self.url, &self.reference, &self.credential) == (&other.url, &other.reference, &other.credential)
    }
}

impl SyncFailure {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), faults: Vec::new() }
    }
}

/// Steps by name and version, each there once and all within the bounds. `seen` is called with the place of one that is
/// not, and why, as the end of a sentence.
pub fn steps_of(steps: impl IntoIterator<Item = RegistryStep>, mut seen: impl FnMut(usize, String)) -> Steps {
    let mut all = Steps::new();
    let mut bytes = 0;
    for (place, step) in steps.into_iter().enumerate() {
        let within = bytes <= REGISTRY_BYTES_MAX;
        bytes += step.bytes();
        if within && bytes > REGISTRY_BYTES_MAX {
            seen(place, format!("makes the texts of the steps larger than {REGISTRY_BYTES_MAX} bytes"));
        }
        if place == STEPS_MAX {
            seen(place, format!("is one too many: a registry has at most {STEPS_MAX} steps"));
        }
        match all.entry((step.name.clone(), step.version.clone())) {
            Entry::Vacant(free) => _ = free.insert(Arc::new(step)),
            Entry::Occupied(_) => seen(place, format!("is {}@{}, which is there twice", step.name, step.version)),
        }
    }
    all
}
