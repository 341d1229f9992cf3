//! The stored form of registries.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::registry::{FileFault, GitSource, Registry, Source, SyncFailure};
use crate::domain::{IdSeed, Identifier, Malformed, RegistryId, RegistryStep, Timestamp, VariableName};
use crate::git::{Commit, RefName, RemoteUrl};
use crate::pipelines::RegistryStepV1;
use crate::store::record::{self, RecordError, records};

records!(RegistryV1<'a> = "step registry");

pub const REGISTRIES: &[u8] = b"R/";

/// `R/{organization}/{registry}`
pub fn key(organization: &Identifier, id: RegistryId) -> Vec<u8> {
    [REGISTRIES, organization.as_str().as_bytes(), b"/", &id.0.0].concat()
}

#[derive(Serialize, Deserialize)]
struct RegistryV1<'a> {
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

#[derive(Serialize, Deserialize)]
struct GitV1<'a> {
    url: &'a str,
    reference: &'a str,
    credential: Option<&'a str>,
    commit: Option<&'a str>,
}

#[derive(Serialize, Deserialize)]
struct FailureV1<'a> {
    message: &'a str,
    #[serde(borrow)]
    faults: Vec<(&'a str, &'a str)>,
}

pub fn encode(registry: &Registry) -> Vec<u8> {
    record::encode(&RegistryV1 {
        organization: registry.organization.as_str(),
        id: registry.id.0.0,
        name: registry.name.as_str(),
        git: match &registry.source {
            Source::Inline => None,
            Source::Git(git) => Some(GitV1 {
                url: git.url.as_str(),
                reference: git.reference.as_str(),
                credential: git.credential.as_ref().map(VariableName::as_str),
                commit: git.commit.as_ref().map(Commit::as_str),
            }),
        },
        steps: registry.steps.values().map(|step| RegistryStepV1::from(&**step)).collect(),
        failure: registry.failure.as_ref().map(|failure| FailureV1 {
            message: &failure.message,
            faults: failure.faults.iter().map(|fault| (&*fault.file, &*fault.message)).collect(),
        }),
        created_at: registry.created_at.as_millis(),
        updated_at: registry.updated_at.as_millis(),
        synced_at: registry.synced_at.map(Timestamp::as_millis),
        revision: registry.revision,
    })
}

pub fn decode(bytes: &[u8]) -> Result<Registry, RecordError> {
    record::read::<RegistryV1<'_>, _>(bytes)
}

impl TryFrom<RegistryV1<'_>> for Registry {
    type Error = Malformed;

    fn try_from(form: RegistryV1<'_>) -> Result<Self, Malformed> {
        let steps = form.steps.into_iter().map(|step| {
            let step = RegistryStep::try_from(step)?;
            Ok(((step.name.clone(), step.version.clone()), Arc::new(step)))
        });
        Ok(Self {
            organization: Identifier::parse(form.organization)?,
            id: RegistryId(IdSeed(form.id)),
            name: Identifier::parse(form.name)?,
            source: form.git.map(GitSource::try_from).transpose()?.map_or(Source::Inline, Source::Git),
            steps: Arc::new(steps.collect::<Result<_, Malformed>>()?),
            failure: form.failure.map(|failure| Arc::new(SyncFailure::from(failure))),
            created_at: Timestamp::from_millis(form.created_at),
            updated_at: Timestamp::from_millis(form.updated_at),
            synced_at: form.synced_at.map(Timestamp::from_millis),
            revision: form.revision,
        })
    }
}

impl TryFrom<GitV1<'_>> for GitSource {
    type Error = Malformed;

    fn try_from(form: GitV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            // Whether this machine's repositories may be named by now is looked at when it is synced.
            url: RemoteUrl::parse(form.url, true)?,
            reference: RefName::parse(form.reference)?,
            credential: form.credential.map(VariableName::parse).transpose()?,
            commit: form.commit.map(Commit::parse).transpose()?,
        })
    }
}

impl From<FailureV1<'_>> for SyncFailure {
    fn from(form: FailureV1<'_>) -> Self {
        let fault = |(file, message): (&str, &str)| FileFault { file: file.to_owned(), message: message.to_owned() };
        Self { message: form.message.to_owned(), faults: form.faults.into_iter().map(fault).collect() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::domain::{Action, Description, Input, InputKind, InputValue, VariableValue};
    use crate::store::fixtures::{assert_written_as_format_4, format_4};

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
        let fault = FileFault { file: "steps/scan.toml".to_owned(), message: "is no step".to_owned() };
        let registry = Registry {
            organization: identifier("acme"),
            id: RegistryId(IdSeed([1; 12])),
            name: identifier("tools"),
            source: Source::Git(git),
            steps: Arc::new(steps.into_iter().collect()),
            failure: Some(Arc::new(SyncFailure { message: "one file is wrong".to_owned(), faults: vec![fault] })),
            created_at: Timestamp::from_millis(1),
            updated_at: Timestamp::from_millis(2),
            synced_at: Some(Timestamp::from_millis(3)),
            revision: 4,
        };
        assert_written_as_format_4("registry", &encode(&registry));
        assert_eq!(decode(&format_4("registry")).unwrap(), registry);
    }
}
