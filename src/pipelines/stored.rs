//! The stored forms of pipelines and their declarations.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::form::BlueprintV1;
use super::pipeline::{Definition, Pipeline, Provider, Repository, Stopped};
use crate::domain::{Blueprint, Context, Identifier, Malformed, PipelineKey, Timestamp, VariableName};
use crate::store::record::{self, RecordError, records, stored_enum};
use crate::stored::{PersonV1, PipelineKeyV1};

records! {
    PipelineV1<'a> = "pipeline",
    DefinitionV1<'a> = "pipeline declaration",
}

pub const PIPELINES: &[u8] = b"P/";

/// `P/{organization}/{pipeline}`
pub fn key(pipeline: &PipelineKey) -> Vec<u8> {
    path(PIPELINES, pipeline)
}

/// `PD/{organization}/{pipeline}`: what a file last declared of it.
pub fn declaration_key(pipeline: &PipelineKey) -> Vec<u8> {
    path(b"PD/", pipeline)
}

fn path(kind: &[u8], pipeline: &PipelineKey) -> Vec<u8> {
    [kind, pipeline.organization.as_str().as_bytes(), b"/", pipeline.pipeline.as_str().as_bytes()].concat()
}

#[derive(Serialize, Deserialize)]
struct PipelineV1<'a> {
    #[serde(borrow)]
    key: PipelineKeyV1<'a>,
    #[serde(borrow)]
    definition: DefinitionV1<'a>,
    #[serde(borrow)]
    stopped: Option<StoppedV1<'a>>,
    revision: u64,
}

#[derive(Serialize, Deserialize)]
struct DefinitionV1<'a> {
    name: &'a str,
    slug: &'a str,
    #[serde(borrow)]
    blueprint: BlueprintV1<'a>,
    #[serde(borrow)]
    repository: Option<RepositoryV1<'a>>,
}

#[derive(Serialize, Deserialize)]
struct RepositoryV1<'a> {
    provider: ProviderV1,
    url: &'a str,
    default_branch: &'a str,
    credential: Option<&'a str>,
    api_url: Option<&'a str>,
}

stored_enum!(ProviderV1, Provider { Git, GitHub });

#[derive(Serialize, Deserialize)]
struct StoppedV1<'a> {
    #[serde(borrow)]
    by: PersonV1<'a>,
    at: i64,
    reason: Option<&'a str>,
}

pub fn encode(pipeline: &Pipeline) -> Vec<u8> {
    let Pipeline { key, name, slug, blueprint, repository, stopped, revision } = pipeline;
    record::encode(&PipelineV1 {
        key: key.into(),
        definition: definition_form(name, slug, blueprint, repository.as_ref()),
        stopped: stopped.as_ref().map(|stopped| StoppedV1 {
            by: PersonV1::from(&stopped.by),
            at: stopped.at.as_millis(),
            reason: stopped.reason.as_ref().map(Context::as_str),
        }),
        revision: *revision,
    })
}

/// What a file declares, to be compared with what it declared before.
pub fn encode_declaration(definition: &Definition) -> Vec<u8> {
    let Definition { name, slug, blueprint, repository } = definition;
    record::encode(&definition_form(name, slug, blueprint, repository.as_ref()))
}

pub fn decode(bytes: &[u8]) -> Result<Pipeline, RecordError> {
    record::read::<PipelineV1<'_>, _>(bytes)
}

impl TryFrom<PipelineV1<'_>> for Pipeline {
    type Error = Malformed;

    fn try_from(form: PipelineV1<'_>) -> Result<Self, Malformed> {
        let stopped = form.stopped.map(Stopped::try_from).transpose()?;
        Ok(Definition::try_from(form.definition)?.into_pipeline(form.key.try_into()?, stopped, form.revision))
    }
}

impl TryFrom<StoppedV1<'_>> for Stopped {
    type Error = Malformed;

    fn try_from(form: StoppedV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            by: form.by.into(),
            at: Timestamp::from_millis(form.at),
            reason: form.reason.map(Context::parse).transpose()?,
        })
    }
}

fn definition_form<'a>(
    name: &'a str,
    slug: &'a Identifier,
    blueprint: &'a Blueprint,
    repository: Option<&'a Repository>,
) -> DefinitionV1<'a> {
    DefinitionV1 {
        name,
        slug: slug.as_str(),
        blueprint: BlueprintV1::from(blueprint),
        repository: repository.map(|repository| RepositoryV1 {
            provider: repository.provider.into(),
            url: &repository.url,
            default_branch: &repository.default_branch,
            credential: repository.credential.as_ref().map(VariableName::as_str),
            api_url: repository.api_url.as_deref(),
        }),
    }
}

impl TryFrom<DefinitionV1<'_>> for Definition {
    type Error = Malformed;

    fn try_from(form: DefinitionV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            name: form.name.to_owned(),
            slug: Identifier::parse(form.slug)?,
            blueprint: Arc::new(form.blueprint.try_into()?),
            repository: form.repository.map(Repository::try_from).transpose()?,
        })
    }
}

impl TryFrom<RepositoryV1<'_>> for Repository {
    type Error = Malformed;

    fn try_from(form: RepositoryV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            provider: form.provider.into(),
            url: Arc::from(form.url),
            default_branch: Arc::from(form.default_branch),
            credential: form.credential.map(VariableName::parse).transpose()?,
            api_url: form.api_url.map(Arc::from),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::domain::{Action, ApprovalRule, IdSeed, Person, Stage, Step, UserId, VariableValue};
    use crate::store::fixtures::{assert_written_as_format_4, format_4};

    fn identifier(text: &str) -> Identifier {
        Identifier::parse(text).unwrap()
    }

    /// Every kind of step is in the fixture of a deployment's blueprint.
    fn definition() -> Definition {
        let stage = Stage {
            name: identifier("build"),
            approval: ApprovalRule::Always,
            timeout_seconds: 60,
            idempotent: true,
            steps: vec![Step::own(identifier("compile"), Action::Run(vec!["make".into(), "all".into()]))],
        };
        let variable = (VariableName::parse("REGION").unwrap(), VariableValue::parse("north").unwrap());
        Definition {
            name: "Web shop".to_owned(),
            slug: identifier("shop"),
            blueprint: Arc::new(Blueprint {
                stages: vec![stage],
                variables: [variable].into_iter().collect(),
                self_approval: true,
            }),
            repository: Some(Repository {
                provider: Provider::GitHub,
                url: "https://github.example/acme/web.git".into(),
                default_branch: "main".into(),
                credential: Some(VariableName::parse("GIT_TOKEN").unwrap()),
                api_url: Some("https://github.example/api/v3".into()),
            }),
        }
    }

    #[test]
    fn pipelines_of_format_4_are_read() {
        let key = PipelineKey { organization: identifier("acme"), pipeline: identifier("web") };
        let stopped = Stopped {
            by: Person { id: UserId(IdSeed([1; 12])), name: "mia".into() },
            at: Timestamp::from_millis(1_794_735_000_123),
            reason: Some(Context::parse("not before Monday").unwrap()),
        };
        let pipeline = definition().into_pipeline(key, Some(stopped), 7);
        assert_written_as_format_4("pipeline", &encode(&pipeline));
        assert_eq!(decode(&format_4("pipeline")).unwrap(), pipeline);
    }

    #[test]
    fn what_a_file_declared_of_a_pipeline_in_format_4_is_what_it_would_declare_now() {
        assert_written_as_format_4("pipeline declaration", &encode_declaration(&definition()));
    }
}
