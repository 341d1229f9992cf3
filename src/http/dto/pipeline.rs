//! A pipeline, with the definitions of its stages.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use super::values::{InputValueView, Text, Time, UserView};
use crate::domain::{Action, ApprovalRule, Context, HttpCall, Stage, Step, StepReference, VariableName};
use crate::pipelines::{Pipeline, Repository};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Pipeline)]
pub struct PipelineView<'a> {
    #[schema(example = "web")]
    id: &'a str,
    name: &'a str,
    slug: &'a str,
    #[schema(value_type = PipelineStatusName)]
    status: &'static str,
    stopped_by: Option<UserView<'a>>,
    stopped_at: Option<Time>,
    stop_reason: Option<&'a str>,
    /// In the order in which they run.
    stages: Vec<StageView<'a>>,
    /// For all steps; an environment's own variables win over them.
    variables: BTreeMap<&'a str, &'a str>,
    /// Whether people may approve what they triggered themselves.
    self_approval: bool,
    environment_count: u64,
    repository: Option<RepositoryView<'a>>,
}

/// In a stopped pipeline, running deployments finish and new ones wait until it is resumed.
#[derive(ToSchema)]
#[schema(as = PipelineStatus, rename_all = "snake_case")]
#[expect(dead_code, reason = "only describes the texts of `status`")]
pub enum PipelineStatusName {
    Running,
    Stopped,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StageDefinition)]
pub struct StageView<'a> {
    #[schema(example = "build")]
    name: &'a str,
    #[schema(example = "never")]
    approval: &'static str,
    timeout_seconds: u32,
    idempotent: bool,
    steps: Vec<StepView<'a>>,
}

/// It has one of `run`, `http` and `uses`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepDefinition)]
pub struct StepView<'a> {
    #[schema(example = "step-1")]
    name: &'a str,
    /// A program and its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<String>, required = false, example = json!(["echo", "hello"]))]
    run: Option<&'a [Arc<str>]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = HttpCallView, required = false)]
    http: Option<HttpCallView<'a>>,
    /// A step of a registry, as `registry/step@version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "tools/build@1.2.0")]
    uses: Option<Text<&'a StepReference>>,
    /// The inputs of that step.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = BTreeMap<String, InputValueView>, required = false)]
    with: Option<BTreeMap<&'a str, InputValueView<'a>>>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = HttpCall)]
pub struct HttpCallView<'a> {
    #[schema(example = "POST")]
    method: &'a str,
    url: &'a str,
    headers: BTreeMap<&'a str, &'a str>,
    body: Option<&'a str>,
    /// If empty: any 2xx.
    expect_status: &'a [u16],
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Repository)]
pub struct RepositoryView<'a> {
    #[schema(example = "git")]
    provider: &'static str,
    url: &'a str,
    #[schema(example = "main")]
    default_branch: &'a str,
    /// The name of the secret with the token for pushing and opening pull requests.
    credential: Option<&'a str>,
    /// The API of a GitHub server of your own; null: derived from the URL.
    api_url: Option<&'a str>,
}

impl<'a> PipelineView<'a> {
    pub fn new(pipeline: &'a Pipeline, environment_count: u64) -> Self {
        let stopped = pipeline.stopped.as_ref();
        let blueprint = &pipeline.blueprint;
        Self {
            id: pipeline.key.pipeline.as_str(),
            name: &pipeline.name,
            slug: pipeline.slug.as_str(),
            status: if stopped.is_some() { "stopped" } else { "running" },
            stopped_by: stopped.map(|stopped| UserView::from(&stopped.by)),
            stopped_at: stopped.map(|stopped| Time(stopped.at)),
            stop_reason: stopped.and_then(|stopped| stopped.reason.as_ref()).map(Context::as_str),
            stages: blueprint.stages.iter().map(StageView::from).collect(),
            variables: blueprint.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
            self_approval: blueprint.self_approval,
            environment_count,
            repository: pipeline.repository.as_ref().map(RepositoryView::from),
        }
    }
}

impl<'a> From<&'a Stage> for StageView<'a> {
    fn from(stage: &'a Stage) -> Self {
        Self {
            name: stage.name.as_str(),
            approval: match stage.approval {
                ApprovalRule::Never => "never",
                ApprovalRule::Always => "always",
            },
            timeout_seconds: stage.timeout_seconds,
            idempotent: stage.idempotent,
            steps: stage.steps.iter().map(StepView::from).collect(),
        }
    }
}

impl<'a> From<&'a Step> for StepView<'a> {
    fn from(step: &'a Step) -> Self {
        let mut view = Self { name: step.name.as_str(), run: None, http: None, uses: None, with: None };
        match &step.action {
            Action::Run(arguments) => view.run = Some(arguments.as_slice()),
            Action::Http(call) => view.http = Some(HttpCallView::from(call)),
            Action::Uses(used) => {
                view.uses = Some(Text(&used.reference));
                view.with = Some(used.with.iter().map(|(name, value)| (name.as_str(), value.into())).collect());
            }
        }
        view
    }
}

impl<'a> From<&'a HttpCall> for HttpCallView<'a> {
    fn from(call: &'a HttpCall) -> Self {
        Self {
            method: &call.method,
            url: &call.url,
            headers: call.headers.iter().map(|(name, value)| (&**name, &**value)).collect(),
            body: call.body.as_deref(),
            expect_status: &call.expect_status,
        }
    }
}

impl<'a> From<&'a Repository> for RepositoryView<'a> {
    fn from(repository: &'a Repository) -> Self {
        Self {
            provider: repository.provider.as_str(),
            url: &repository.url,
            default_branch: &repository.default_branch,
            credential: repository.credential.as_ref().map(VariableName::as_str),
            api_url: repository.api_url.as_deref(),
        }
    }
}
