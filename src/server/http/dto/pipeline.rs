//! A pipeline, with the definitions of its stages.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use super::statuses::{ApprovalRule, Named, Provider};
use super::values::{InputValueView, Text, Time, UserView};
use domain::{Action, Context, HttpCall, Stage, Step, StepReference, VariableName};
use locks::pipelines::{Pipeline, Repository};

/// What is deployed to its environments, and how.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Pipeline)]
pub struct PipelineView<'a> {
    /// Unique in the organization.
    #[schema(example = "web")]
    id: &'a str,
    /// For people.
    #[schema(example = "Web shop")]
    name: &'a str,
    /// A short name for links.
    #[schema(example = "web")]
    slug: &'a str,
    status: PipelineStatus,
    /// Who stopped it; null while it runs.
    stopped_by: Option<UserView<'a>>,
    /// When it was stopped; null while it runs.
    stopped_at: Option<Time>,
    /// Why it was stopped, or null.
    #[schema(example = "the database is being moved")]
    stop_reason: Option<&'a str>,
    /// In the order in which they run.
    stages: Vec<StageView<'a>>,
    /// For all steps; an environment's own variables win over them.
    #[schema(example = json!({ "SHOP_PORT": "8443" }))]
    variables: BTreeMap<&'a str, &'a str>,
    /// Whether people may approve what they triggered themselves.
    #[schema(example = true)]
    self_approval: bool,
    /// How many environments it has.
    #[schema(example = 3)]
    environment_count: u64,
    /// Where its code is, or null.
    repository: Option<RepositoryView<'a>>,
}

/// In a stopped pipeline, running deployments finish and new ones wait until it is resumed.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum PipelineStatus {
    Running,
    Stopped,
}

/// A stage: steps that run one after the other.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StageDefinition)]
pub struct StageView<'a> {
    /// Unique in its pipeline.
    #[schema(example = "build")]
    name: &'a str,
    approval: ApprovalRule,
    /// For all its steps together.
    #[schema(example = 3600)]
    timeout_seconds: u32,
    /// Whether it is started again automatically if a crash of the server cut it off.
    #[schema(example = false)]
    idempotent: bool,
    /// In the order in which they run.
    steps: Vec<StepView<'a>>,
}

/// It has one of `run`, `http` and `uses`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepDefinition)]
pub struct StepView<'a> {
    /// Unique in its stage.
    #[schema(example = "step-1")]
    name: &'a str,
    /// A program and its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<String>, required = false, example = json!(["echo", "hello"]))]
    run: Option<&'a [Arc<str>]>,
    /// A request to make.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = HttpCallView, required = false)]
    http: Option<HttpCallView<'a>>,
    /// A step of a registry, as `registry/step@version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "tools/build@1.2.0")]
    uses: Option<Text<&'a StepReference>>,
    /// The inputs of that step.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = BTreeMap<String, InputValueView>, required = false, example = json!({ "TARGET": "all" }))]
    with: Option<BTreeMap<&'a str, InputValueView<'a>>>,
}

/// A request that a step makes.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = HttpCall)]
pub struct HttpCallView<'a> {
    /// An HTTP method.
    #[schema(example = "POST")]
    method: &'a str,
    /// Redirects are not followed.
    #[schema(example = "https://deploy.example/hooks/shop")]
    url: &'a str,
    /// Sent with it.
    #[schema(example = json!({ "X-Tier": "review" }))]
    headers: BTreeMap<&'a str, &'a str>,
    /// Null if it has none.
    #[schema(example = "tested")]
    body: Option<&'a str>,
    /// The statuses that count as success. If empty: any 2xx.
    #[schema(example = json!([200, 204]))]
    expect_status: &'a [u16],
}

/// Where the code is that a pipeline deploys.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Repository)]
pub struct RepositoryView<'a> {
    provider: Provider,
    /// https or ssh.
    #[schema(example = "https://git.example/shop.git")]
    url: &'a str,
    /// Into which fixes are to be merged.
    #[schema(example = "main")]
    default_branch: &'a str,
    /// The name of the secret with the token for pushing and opening pull requests.
    #[schema(example = "GIT_TOKEN")]
    credential: Option<&'a str>,
    /// The API of a GitHub server of your own; null: derived from the URL.
    #[schema(example = "https://github.example/api/v3")]
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
            status: if stopped.is_some() { PipelineStatus::Stopped } else { PipelineStatus::Running },
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
            approval: Named(stage.approval),
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
            provider: Named(repository.provider),
            url: &repository.url,
            default_branch: &repository.default_branch,
            credential: repository.credential.as_ref().map(VariableName::as_str),
            api_url: repository.api_url.as_deref(),
        }
    }
}
