//! One registry with its steps, and its stored form.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::git::{Commit, RefName, RemoteUrl};
use domain::named::named_enum;
use domain::nearest::{COMPARED_MAX, did_you_mean};
use domain::{Identifier, Malformed, RegistryId, RegistryStep, ResolvedStep, Timestamp, VariableName};
use records::RegistryStepV1;
use records::stored::{self, Stored, stored, stored_as};
use store::keys::{REGISTRIES, in_organization};
use store::record::{self, RecordError, records};

/// Per organization: well above the numbers we know, few enough to keep in memory and to search.
pub const REGISTRIES_MAX: usize = 100;
/// Steps per registry; each version counts.
pub const STEPS_MAX: usize = 256;
/// The limit on all texts of a registry's steps: a registry is one record, and all registries are in memory.
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
    /// The failure of the last sync, if it failed.
    pub failure: Option<Arc<SyncError>>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The last successful sync.
    pub synced_at: Option<Timestamp>,
    /// A new number with every change, never reused within the organization.
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
    /// The commit that the steps are from; none before the first successful sync.
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
pub struct SyncError {
    pub message: String,
    /// Invalid files, if that is the reason.
    pub faults: Vec<FileError>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
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
    pub(super) fn find(&self, step: &Identifier, version: &Identifier) -> Result<ResolvedStep, String> {
        if let Some(found) = self.steps.get(&(step.clone(), version.clone())) {
            return Ok(ResolvedStep {
                step: found.clone(),
                commit: self.commit().map(|commit| Arc::from(commit.as_str())),
            });
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

    /// The status, ignoring a sync in progress.
    pub(super) fn last_status(&self) -> Status {
        if self.failure.is_some() { Status::Failed } else { Status::Ready }
    }

    pub fn commit(&self) -> Option<&Commit> {
        match &self.source {
            Source::Inline => None,
            Source::Git(git) => git.commit.as_ref(),
        }
    }
}

impl GitSource {
    /// Whether repository and reference are the same, at any commit.
    pub(super) fn is_same_repository(&self, other: &Self) -> bool {
        (&self.url, &self.reference, &self.credential) == (&other.url, &other.reference, &other.credential)
    }
}

impl SyncError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), faults: Vec::new() }
    }
}

/// Indexes the steps by name and version. `seen` is called for each duplicate and each step beyond the limits, with its
/// position and the fault, as the end of a sentence.
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

records!(RegistryV1<'a> = "step registry");

/// `R/{organization}/{registry}`
pub fn key(organization: &Identifier, id: RegistryId) -> Vec<u8> {
    [&in_organization(REGISTRIES, organization.as_str()), id.0.0.as_slice()].concat()
}

#[derive(Serialize, Deserialize)]
pub struct RegistryV1<'a> {
    organization: &'a str,
    id: [u8; 12],
    name: &'a str,
    #[serde(borrow)]
    git: Option<GitV1<'a>>,
    #[serde(borrow)]
    steps: Vec<RegistryStepV1<'a>>,
    #[serde(borrow)]
    failure: Option<FailureV1<'a>>,
    created_at: i64,
    updated_at: i64,
    synced_at: Option<i64>,
    revision: u64,
}

stored! {
    struct GitV1 of GitSource {
        url: RemoteUrl,
        reference: RefName,
        credential: Option<VariableName>,
        commit: Option<Commit>,
    }
}

stored_as!(&'a str: |text| text.as_str(), |text| Self::parse(text); Commit, RefName);
// The sync checks whether `file:` URLs are allowed now.
stored_as!(&'a str: |url| url.as_str(), |url| Self::parse(url, true); RemoteUrl);
stored! { struct FailureV1 of SyncError { message: String, faults: Vec<FileError> } }
stored! { struct FaultV1 of FileError { file: String, message: String } }

pub fn encode(registry: &Registry) -> Vec<u8> {
    record::encode(&registry.to_form())
}

pub fn decode(bytes: &[u8]) -> Result<Registry, RecordError> {
    stored::read(bytes)
}

impl Stored for Registry {
    type Form<'a> = RegistryV1<'a>;

    fn to_form(&self) -> RegistryV1<'_> {
        let Self { organization, id, name, source, steps, failure, created_at, updated_at, synced_at, revision } = self;
        RegistryV1 {
            organization: organization.to_form(),
            id: id.to_form(),
            name: name.to_form(),
            git: match source {
                Source::Inline => None,
                Source::Git(git) => Some(git.to_form()),
            },
            steps: steps.values().map(Stored::to_form).collect(),
            failure: failure.to_form(),
            created_at: created_at.to_form(),
            updated_at: updated_at.to_form(),
            synced_at: synced_at.to_form(),
            revision: *revision,
        }
    }

    fn from_form(form: RegistryV1<'_>) -> Result<Self, Malformed> {
        let steps: Vec<Arc<RegistryStep>> = Stored::from_form(form.steps)?;
        Ok(Self {
            organization: Stored::from_form(form.organization)?,
            id: Stored::from_form(form.id)?,
            name: Stored::from_form(form.name)?,
            source: Option::from_form(form.git)?.map_or(Source::Inline, Source::Git),
            steps: Arc::new(steps.into_iter().map(|step| ((step.name.clone(), step.version.clone()), step)).collect()),
            failure: Stored::from_form(form.failure)?,
            created_at: Stored::from_form(form.created_at)?,
            updated_at: Stored::from_form(form.updated_at)?,
            synced_at: Stored::from_form(form.synced_at)?,
            revision: form.revision,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use domain::{Action, Description, IdSeed, Input, InputKind, InputValue, Timestamp, VariableValue};
    use testkit::format_4::{assert_written_as_format_4, format_4};
    use testkit::fuzz::fuzz_record;

    fn identifier(text: &str) -> Identifier {
        Identifier::parse(text).unwrap()
    }

    #[test]
    fn registries_of_format_4_are_read() {
        let input = |kind, default| Input { kind, required: true, default };
        let name = |text: &str| VariableName::parse(text).unwrap();
        let target = InputValue::string(VariableValue::parse("shop").unwrap());
        let inputs = [
            (name("TARGET"), input(InputKind::String, Some(target))),
            (name("LEVEL"), input(InputKind::Number, Some(InputValue::number("7").unwrap()))),
            (name("STRICT"), input(InputKind::Boolean, None)),
        ];
        let step = RegistryStep {
            name: identifier("scan"),
            version: identifier("1.2.0"),
            description: Description::parse("looks for holes").unwrap(),
            inputs: inputs.into_iter().collect(),
            action: Action::Run(vec!["scan".into()]),
        };
        let steps = [((step.name.clone(), step.version.clone()), Arc::new(step))];
        let git = GitSource {
            url: RemoteUrl::parse("https://git.example/acme/steps.git", true).unwrap(),
            reference: RefName::parse("main").unwrap(),
            credential: Some(name("GIT_TOKEN")),
            commit: Some(Commit::parse(&"a".repeat(40)).unwrap()),
        };
        let fault = FileError { file: "steps/scan.toml".to_owned(), message: "is no step".to_owned() };
        let registry = Registry {
            organization: identifier("acme"),
            id: RegistryId(IdSeed([1; 12])),
            name: identifier("tools"),
            source: Source::Git(git),
            steps: Arc::new(steps.into_iter().collect()),
            failure: Some(Arc::new(SyncError { message: "one file is wrong".to_owned(), faults: vec![fault] })),
            created_at: Timestamp::from_millis(1),
            updated_at: Timestamp::from_millis(2),
            synced_at: Some(Timestamp::from_millis(3)),
            revision: 4,
        };
        assert_written_as_format_4("registry", &encode(&registry));
        assert_eq!(decode(&format_4("registry")).unwrap(), registry);
    }

    #[test]
    fn fuzzed_registries_are_read_or_refused() {
        fuzz_record([format_4("registry")], decode, encode);
    }
}
