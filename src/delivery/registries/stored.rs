//! The stored form of registries.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::registry::{FileFault, GitSource, Registry, Source, SyncFailure};
use crate::git::{Commit, RefName, RemoteUrl};
use domain::{Identifier, Malformed, RegistryId, RegistryStep, VariableName};
use records::RegistryStepV1;
use records::stored::{self, Stored, stored, stored_as};
use store::record::{self, RecordError, records};

records!(RegistryV1<'a> = "step registry");

pub const REGISTRIES: &[u8] = b"R/";

/// `R/{organization}/{registry}`
pub fn key(organization: &Identifier, id: RegistryId) -> Vec<u8> {
    [REGISTRIES, organization.as_str().as_bytes(), b"/", &id.0.0].concat()
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
// Whether this machine's repositories may be named by now is looked at when it is synced.
stored_as!(&'a str: |url| url.as_str(), |url| Self::parse(url, true); RemoteUrl);
stored! { struct FailureV1 of SyncFailure { message: String, faults: Vec<FileFault> } }
stored! { struct FaultV1 of FileFault { file: String, message: String } }

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

    #[test]
    fn fuzzed_registries_are_read_or_refused() {
        fuzz_record([format_4("registry")], decode, encode);
    }
}
