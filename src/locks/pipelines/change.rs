//! One change of a pipeline: its record, its event, and the state for readers once it is durable. Also the stored forms
//! of pipelines and their declarations.

use std::sync::Arc;

use super::pipeline::{Definition, Pipeline, Provider, Repository, Stopped};
use domain::{Blueprint, Context, EventData, Identifier, Person, PipelineData, PipelineKey, Timestamp, VariableName};
use events::{Cause, NewEvent};
use records::stored::{self, Stored, stored, stored_enum};
use store::keys::{DECLARED_PIPELINES, PIPELINES, in_organization};
use store::record::{self, RecordError, records};
use store::{Batch, Newest, Published, RecordChange};

/// By organization and id.
pub type PublishedPipelines = Published<Identifier, Identifier, Pipeline>;
pub type NewestPipelines = Newest<Identifier, Identifier, Pipeline>;
pub type PipelineChange = RecordChange<Identifier, Identifier, Pipeline>;

/// The pipeline with a new definition; it stays stopped or running.
pub fn redefined(
    newest: &mut NewestPipelines,
    key: &PipelineKey,
    definition: Definition,
    now: Timestamp,
) -> Arc<Pipeline> {
    let stopped = newest.get(&key.organization, &key.pipeline).and_then(|present| present.stopped.clone());
    let revision = newest.next_revision(now.as_millis());
    Arc::new(definition.into_pipeline(key.clone(), stopped, revision))
}

pub fn put(
    batch: &mut Batch,
    pipeline: &Arc<Pipeline>,
    event: impl FnOnce(PipelineData) -> EventData,
    cause: Cause<'_>,
) -> PipelineChange {
    batch.put(key(&pipeline.key), encode(pipeline));
    record(batch, &event(described(pipeline)), pipeline, cause);
    set(&pipeline.key, Some(pipeline.clone()))
}

pub fn delete(batch: &mut Batch, last: &Pipeline, cause: Cause<'_>) -> PipelineChange {
    batch.delete(key(&last.key));
    record(batch, &EventData::PipelineDeleted(described(last)), last, cause);
    set(&last.key, None)
}

pub fn set(key: &PipelineKey, value: Option<Arc<Pipeline>>) -> PipelineChange {
    RecordChange { group: key.organization.clone(), key: key.pipeline.clone(), value }
}

fn described(pipeline: &Pipeline) -> PipelineData {
    PipelineData { name: Arc::from(&*pipeline.name), revision: pipeline.revision }
}

fn record(batch: &mut Batch, data: &EventData, pipeline: &Pipeline, cause: Cause<'_>) {
    let event = NewEvent::new(data, cause).in_pipeline(&pipeline.key.pipeline);
    events::record(batch, &pipeline.key.organization, &event);
}

records! {
    PipelineV1<'a> = "pipeline",
    DefinitionV1<'a> = "pipeline declaration",
}

/// `P/{organization}/{pipeline}`
pub fn key(pipeline: &PipelineKey) -> Vec<u8> {
    path(PIPELINES, pipeline)
}

/// `PD/{organization}/{pipeline}`: the last declaration in a file.
pub fn declaration_key(pipeline: &PipelineKey) -> Vec<u8> {
    path(DECLARED_PIPELINES, pipeline)
}

/// The prefix of the declarations of an organization's pipelines.
pub fn declarations_of(organization: &Identifier) -> Vec<u8> {
    in_organization(DECLARED_PIPELINES, organization.as_str())
}

pub fn parse_declaration_key(key: &[u8]) -> Option<PipelineKey> {
    let (organization, pipeline) = std::str::from_utf8(key.strip_prefix(DECLARED_PIPELINES)?).ok()?.split_once('/')?;
    let parse = |text| Identifier::parse(text).ok();
    Some(PipelineKey { organization: parse(organization)?, pipeline: parse(pipeline)? })
}

fn path(kind: &[u8], pipeline: &PipelineKey) -> Vec<u8> {
    [&in_organization(kind, pipeline.organization.as_str()), pipeline.pipeline.as_str().as_bytes()].concat()
}

stored! {
    struct PipelineV1 of Pipeline {
        key: PipelineKey,
        name: String,
        slug: Identifier,
        blueprint: Arc<Blueprint>,
        repository: Option<Repository>,
        stopped: Option<Stopped>,
        revision: u64,
    }
}

stored! {
    struct DefinitionV1 of Definition {
        name: String,
        slug: Identifier,
        blueprint: Arc<Blueprint>,
        repository: Option<Repository>,
    }
}

stored! {
    struct RepositoryV1 of Repository {
        provider: Provider,
        url: Arc<str>,
        default_branch: Arc<str>,
        credential: Option<VariableName>,
        api_url: Option<Arc<str>>,
    }
}

stored_enum!(ProviderV1 of Provider { Git, GitHub });
stored! { struct StoppedV1 of Stopped { by: Person, at: Timestamp, reason: Option<Context> } }

pub fn encode(pipeline: &Pipeline) -> Vec<u8> {
    record::encode(&pipeline.to_form())
}

/// The stored form of a declaration, for comparison with the previous one.
pub fn encode_declaration(definition: &Definition) -> Vec<u8> {
    record::encode(&definition.to_form())
}

pub fn decode(bytes: &[u8]) -> Result<Pipeline, RecordError> {
    stored::read(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use domain::{Action, ApprovalRule, IdSeed, Stage, Step, UserId, VariableValue};
    use testkit::format_4::{assert_written_as_format_4, format_4};
    use testkit::fuzz::fuzz_record;

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

    #[test]
    fn fuzzed_pipelines_are_read_or_refused() {
        fuzz_record([format_4("pipeline")], decode, encode);
    }
}
