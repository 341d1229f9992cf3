//! Analyses of failed deployments: request, wait, list, and propose a fix.

use std::time::Duration;

use actix_web::http::StatusCode;
use serde_json::{Value, json};

use super::deployments::{deployment_id, find};
use crate::forms::{WaitSeconds, choices, form, rule_schema, texts};
use crate::http::access::Access;
use crate::http::answer::{self, Answered, EarlyReturn};
use crate::http::body::read_body;
use crate::http::call::Call;
use crate::http::clients::{self, Read};
use crate::http::codes::Code;
use crate::http::dto::{Named, Time, UserView, Written, view, written};
use crate::http::idempotent;
use crate::http::outcome::done_in_task;
use crate::http::paging::{self, Query, Slice};
use crate::http::problem::Problem;
use accounts::auth::Permission;
use ambient::entropy;
use analysis::fixes::{FixRequest, Proposed, Title};
use analysis::service::{Analysis, AnalysisFilter, Compared, EngineName, NewAnalysis, PullRequest, Standing, Status};
use analysis::{Alternative, Evidence, Finding, SuggestedFix};
use delivery::git::RefName;
use domain::{AnalysisId, DeploymentId, DeploymentStatus, Identifier, REVISION};
use http1::Request;
use locks::idempotency::{Pending, StoredAnswer, Subject};
use store::Batch;

/// Advice for a request whose outcome is unknown.
const LOOK: &str = "list the deployment's analyses";
const NO_MODEL: &str = "is llm only where the operator has configured a model (analysis.llm_url); leave it out";

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let mut query = Query::of(&call.request);
    let filter = AnalysisFilter {
        deployment: query.text("deploymentId", str::parse::<DeploymentId>),
        pipeline: query.text("pipelineId", Identifier::parse),
        status: query.choice("status", &Status::ALL, Status::as_str),
    };
    listed(&call, &access, query, filter).await
}

pub async fn list_of_deployment(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let query = Query::of(&call.request);
    // An analysis may outlive its deployment; then only the organization's list contains it.
    let id = find(&access, deployment_id(&call)?)?.record.deployment.id;
    listed(&call, &access, query, AnalysisFilter { deployment: Some(id), ..AnalysisFilter::default() }).await
}

async fn listed(call: &Call, access: &Access, mut query: Query, filter: AnalysisFilter) -> Answered {
    let slice = Slice::take(&mut query);
    query.finish()?;
    let (analyses, organization) = (access.realm.analyses.clone(), access.caller.organization.clone());
    let page = access.read_list(move || analyses.list(&organization, &filter, slice.offset, slice.limit)).await?;
    let views = page.analyses.iter().map(AnalysisView::new).collect();
    Ok(paging::slice(&call.request, slice, page.total, views))
}

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let id = call.id("analysisId", Code::AnalysisNotFound)?;
    let wait = clients::wait_of(&call.request)?;
    let read = || read(&access, id).map(|analysis| Read { etag: etag(&analysis), state: analysis });
    let watch = || access.realm.analyses.watch();
    let Read { state, etag } = clients::read_when_changed(&call.request, &access, wait, watch, read).await?;
    answer::tagged(call.request.headers(), &etag, || Ok(answer::ok(AnalysisView::new(&state))))
}

form! {
    /// Options for an analysis. May be empty.
    #[schema("examples": [{ "waitSeconds": 5 }])]
    pub struct AnalysisForm as "AnalysisRequest" {
        /// The engine; the server's default if left out. `llm` requires that the operator has configured a model.
        nullable engine: EngineName,
        /// How long to wait for the analysis to end: the answer is 200 if it ends in time.
        #[schema("examples": [30])]
        nullable wait_seconds: WaitSeconds,
    }
}

form! {
    /// Options for proposing the fix. May be empty.
    #[schema("examples": [{ "title": "Install jq", "draft": true }])]
    pub struct FixForm as "FixPullRequestRequest" {
        /// The branch to push, `lockkeeper/fix-{analysisId}` if left out. Never the default branch.
        #[schema("examples": ["fix/missing-jq"])]
        nullable branch: BranchName,
        /// The pull request's title; the summary of the fix if left out.
        #[schema("examples": ["Install jq"])]
        nullable title: Title,
        /// Whether the pull request is a draft, if the provider has drafts.
        nullable(false) draft: bool,
    }
}

/// The name of a branch. Git allows less than the schema says; the parser is exact.
pub struct BranchName(RefName);

texts! {
    BranchName: |text: &str| RefName::parse(text).map(Self), rule_schema(&REVISION);
    Title: Self::parse, title_schema();
}

choices! {
    EngineName as "AnalysisEngine": "What makes an analysis: a catalogue of failures, or a model.";
    Status as "AnalysisStatus": "The status of an analysis.";
}

fn title_schema() -> Value {
    let mut schema = rule_schema(&Title::RULE);
    schema["pattern"] = json!(Title::PATTERN);
    schema
}

pub async fn create(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::Analyse)?;
    Query::of(&call.request).finish()?;
    let body = read_body(&mut call, &mut access).await?;
    let (pending, kept) = match idempotent::check_key(&call.request, &access, body.bytes()) {
        Err(EarlyReturn::Replay(kept)) => (None, Some(kept)),
        checked => (checked?, None),
    };
    let AnalysisForm { engine, wait_seconds } = body.form()?;
    let wait = Duration::from_secs(wait_seconds.map_or(0, WaitSeconds::u64));
    if let Some(kept) = kept {
        return asked_before(&call.request, &access, kept, wait).await;
    }
    if engine == Some(EngineName::Llm) && access.realm.analyses.engines().llm.is_none() {
        return Err(Problem::invalid_field("engine", NO_MODEL).into());
    }
    let Some(default) = access.realm.analyses.engines().default else {
        return Err(Code::AnalysisDisabled.into());
    };
    let found = find(&access, deployment_id(&call)?)?;
    check_failed(found.record.deployment.status)?;
    let new = NewAnalysis {
        environment: found.environment,
        deployment: found.record.deployment.id,
        engine: engine.unwrap_or(default),
        requested_by: access.initiator(),
        holder: access.caller.holder(),
    };
    let (analyses, now) = (access.realm.analyses.clone(), (access.realm.clock)());
    let starting =
        async move { analyses.start(new, entropy::id_seed(), idempotent::keep(pending, || now, rendered)).await };
    let analysis = done_in_task(access.node.answer_timeout, LOOK, starting).await?;
    let analysis = ended_within(&call.request, &access, analysis, wait).await?;
    Ok(idempotent::response(rendered(&analysis)))
}

/// Refuses deployments that have not failed.
fn check_failed(status: DeploymentStatus) -> Result<(), Problem> {
    let detail = match status {
        DeploymentStatus::Failed => return Ok(()),
        DeploymentStatus::Succeeded => "the deployment succeeded; there is nothing to analyse",
        DeploymentStatus::Cancelled => "the deployment was cancelled and did not fail; see its `error`",
        DeploymentStatus::Queued
        | DeploymentStatus::Running
        | DeploymentStatus::AwaitingApproval
        | DeploymentStatus::Cancelling => "the deployment has not ended; try again when it has failed",
    };
    Err(Problem::new(Code::DeploymentNotFailed, detail).with("deploymentStatus", status.as_str()))
}

/// Waits for an analysis to end while the client is connected; returns its newest state.
async fn ended_within(
    request: &Request,
    access: &Access,
    analysis: Analysis,
    wait: Duration,
) -> Result<Analysis, Problem> {
    let (analyses, id) = (&access.realm.analyses, analysis.id);
    let has_ended = |analysis: &Analysis| analysis.status() != Status::Running;
    let read = || Ok(analyses.get(&access.caller.organization, id)?);
    clients::newest_within(request, access, wait, analysis, has_ended, || analyses.watch(), read).await
}

/// The answer to a retried request. The stored answer is from the start of the analysis; a retry that waits gets the
/// newest state instead.
async fn asked_before(request: &Request, access: &Access, kept: Box<StoredAnswer>, wait: Duration) -> Answered {
    let found = match kept.subject {
        Some(Subject::Analysis(id)) if !wait.is_zero() => access.realm.analyses.get(&access.caller.organization, id)?,
        _ => None,
    };
    let Some(analysis) = found else { return Err(EarlyReturn::Replay(kept)) };
    let analysis = ended_within(request, access, analysis, wait).await?;
    Ok(idempotent::replayed(rendered(&analysis)))
}

pub async fn propose_fix(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::Analyse)?;
    let (FixForm { branch, title, draft }, pending) = idempotent::begin(&mut call, &mut access).await?;
    let wish = FixRequest { branch: branch.map(|BranchName(name)| name), title, draft };
    let id = call.id("analysisId", Code::AnalysisNotFound)?;
    let analysis = read(&access, id)?;
    // Runs in a separate task, so that a pushed branch is recorded even if the caller disconnects.
    let mut proposing = actix_web::rt::spawn(propose(access.clone(), id, wish, pending));
    let Ok(proposed) = tokio::time::timeout(access.node.answer_timeout, &mut proposing).await else {
        actix_web::rt::spawn(async move {
            if let Ok(Err(problem)) = proposing.await {
                tracing::warn!(analysis = %id, %problem, "proposing a fix failed after its request timed out");
            }
        });
        let later = idempotent::answer(StatusCode::ACCEPTED, Some(url(&analysis)), AnalysisView::new(&analysis));
        return Ok(idempotent::response(later));
    };
    let Proposed { analysis, pull_request, is_new } = proposed.map_err(Problem::internal)??;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(idempotent::response(rendered_fix(status, &analysis, &pull_request)))
}

async fn propose(
    access: Access,
    id: AnalysisId,
    wish: FixRequest,
    pending: Option<Pending>,
) -> Result<Proposed, Problem> {
    let now = (access.realm.clock)();
    let keep = |made: &PullRequest, analysis: &Analysis, batch: &mut Batch| {
        pending.map(|pending| pending.keep(batch, &rendered_fix(StatusCode::CREATED, analysis, made), now))
    };
    let (organization, by) = (&access.caller.organization, access.initiator());
    let proposed = access.realm.fixes.propose(organization, id, &wish, (&by, access.caller.holder()), keep).await?;
    let (url, is_new) = (&proposed.pull_request.url, proposed.is_new);
    tracing::info!(analysis = %id, %url, is_new, by = %by.person.name, "fix proposed");
    Ok(proposed)
}

fn rendered(analysis: &Analysis) -> StoredAnswer {
    let status = if analysis.status() == Status::Running { StatusCode::ACCEPTED } else { StatusCode::OK };
    let subject = Subject::Analysis(analysis.id);
    idempotent::answer_about(subject, status, url(analysis), AnalysisView::new(analysis))
}

fn rendered_fix(status: StatusCode, analysis: &Analysis, made: &PullRequest) -> StoredAnswer {
    idempotent::answer(status, Some(url(analysis)), FixView::new(analysis, made))
}

fn read(access: &Access, id: AnalysisId) -> Result<Analysis, Problem> {
    Ok(access.realm.analyses.get(&access.caller.organization, id)?.ok_or(Code::AnalysisNotFound)?)
}

fn etag(analysis: &Analysis) -> String {
    format!("\"{}\"", analysis.revision)
}

fn url(analysis: &Analysis) -> String {
    format!("/api/v1/organizations/{}/analyses/{}", analysis.environment.pipeline.organization, analysis.id)
}

view! {
    /// An analysis: why a deployment failed.
    pub struct AnalysisView<'a> as Analysis of (analysis: &'a Analysis)
    let report = analysis.report();
    let pipeline = &analysis.environment.pipeline;
    {
        analysis_id: written::AnalysisId = Written(analysis.id),
        /// The deployment that failed.
        deployment_id: written::DeploymentId = Written(analysis.deployment),
        /// The deployment's pipeline.
        #[schema(example = "shop")]
        pipeline_id: &'a str = pipeline.pipeline.as_str(),
        /// The deployment's environment.
        #[schema(example = "staging-1")]
        env_name: &'a str = analysis.environment.name.as_str(),
        status: written::AnalysisStatus = Named(analysis.status()),
        /// The requested engine; once the analysis is completed, the engine that answered.
        engine: written::EngineName = Named(analysis.answered_by()),
        /// The root cause; null until the analysis is completed.
        root_cause: Option<RootCauseView<'a>> = report.map(RootCauseView::new),
        /// The confidence in the root cause, from 0 to 1. Null until the analysis is completed.
        #[schema(minimum = 0.0, maximum = 1.0, example = 0.9)]
        confidence: Option<f64> = report.map(|report| report.confidence),
        /// The suggested fix; null if there is none.
        suggested_fix: Option<SuggestedFixView<'a>> =
            report.and_then(|report| report.fix.as_ref()).map(SuggestedFixView::new),
        /// Other failures in the log, most likely first: consequences of the root cause, or the cause itself if the
        /// confidence is low. At most 3; empty until the analysis is completed.
        #[schema(max_items = 3)]
        alternatives: Vec<AlternativeView<'a>> =
            report.iter().flat_map(|report| &report.alternatives).map(AlternativeView::new).collect(),
        /// The environment's last successful deployment before the failed one, if there is one.
        compared_with: Option<ComparedView<'a>> =
            report.and_then(|report| report.compared_with.as_ref()).map(ComparedView::new),
        /// The pull request; null until `POST …/fix-pull-request` has opened it.
        pull_request: Option<PullRequestView<'a>> = analysis.pull_request.as_ref().map(PullRequestView::new),
        /// The member who requested the analysis.
        requested_by: UserView<'a> = UserView::new(&analysis.requested_by.person),
        /// When the analysis was requested.
        created_at: Time = Time(analysis.created_at),
        /// When the analysis ended; null before.
        completed_at: Option<Time> = analysis.completed_at().map(Time),
        /// Why the analysis itself failed; null if it did not.
        #[schema(example = "the log could not be read")]
        error: Option<&'a str> = match &analysis.standing {
            Standing::Failed { reason, .. } => Some(reason),
            Standing::Running | Standing::Completed { .. } => None,
        },
    }
}

view! {
    /// The cause of a failed deployment.
    pub struct RootCauseView<'a> as RootCause of (report: &'a Finding) {
        category: written::Category = Named(report.category),
        /// The cause, in one sentence.
        #[schema(example = "the program `jq` is not installed where the step runs")]
        summary: &'a str = &report.summary,
        /// Lines of the log, the most significant first.
        evidence: Vec<EvidenceView<'a>> = report.evidence.iter().map(EvidenceView::new).collect(),
    }
}

view! {
    /// Another possible cause of a failed deployment.
    pub struct AlternativeView<'a> as AlternativeCause of (alternative: &'a Alternative) {
        category: written::Category = Named(alternative.category),
        /// The cause, in one sentence.
        #[schema(example = "a connection is refused: nothing is listening there")]
        summary: &'a str = &alternative.summary,
        /// Lines of the log, the most significant first.
        evidence: Vec<EvidenceView<'a>> = alternative.evidence.iter().map(EvidenceView::new).collect(),
        /// The confidence in this cause, from 0 to 1: less than that in the root cause.
        #[schema(minimum = 0.0, maximum = 1.0, example = 0.2)]
        confidence: f64 = alternative.confidence,
    }
}

view! {
    /// A line of the log that shows the cause.
    pub struct EvidenceView<'a> as Evidence of (evidence: &'a Evidence) {
        /// The stage that wrote the line.
        #[schema(example = "build")]
        stage: &'a str = evidence.stage.as_str(),
        /// The step that wrote the line.
        #[schema(example = "step-1")]
        step: &'a str = evidence.step.as_str(),
        /// The number of the line, from 1, in the answer to `GET …/logs?stage=…&step=…`.
        #[schema(example = 4)]
        line: u32 = evidence.line,
        /// The line as a terminal shows it; only the relevant part of a long line.
        #[schema(example = "sh: 1: jq: not found")]
        text: &'a str = &evidence.text,
    }
}

view! {
    /// How to fix the cause.
    pub struct SuggestedFixView<'a> as SuggestedFix of (fix: &'a SuggestedFix) {
        /// The fix, in one sentence.
        #[schema(example = "install jq in the image of the runner")]
        summary: &'a str = &fix.summary,
        /// A unified diff, if one can be derived.
        #[schema(
            example = "--- a/Dockerfile\n+++ b/Dockerfile\n@@ -1 +1,2 @@\n FROM debian\n+RUN apt-get install -y jq\n"
        )]
        patch: Option<&'a str> = fix.patch.as_deref(),
    }
}

view! {
    /// The deployment that a failed one was compared with.
    pub struct ComparedView<'a> as ComparedDeployment of (compared: &'a Compared) {
        deployment_id: written::DeploymentId = Written(compared.deployment),
        /// The commit that was deployed.
        #[schema(example = "decade2")]
        commit_id: &'a str = compared.commit.as_str(),
    }
}

view! {
    /// The pull request with a fix.
    pub struct PullRequestView<'a> as PullRequest of (made: &'a PullRequest) {
        /// The pull request's page; for a branch without one, the page that compares it, or the remote with the branch.
        #[schema(example = "https://github.example/acme/shop/pull/7")]
        url: &'a str = &made.url,
        /// The branch that was pushed.
        #[schema(example = "fix/missing-jq")]
        branch: &'a str = &made.branch,
        /// The number of the pull request; null for a branch without one.
        #[schema(example = 7)]
        number: Option<u64> = made.number,
        /// When the pull request was opened.
        created_at: Time = Time(made.created_at),
    }
}

view! {
    /// A pull request with its analysis.
    pub struct FixView<'a> as FixPullRequest of (analysis: &Analysis, made: &'a PullRequest) {
        analysis_id: written::AnalysisId = Written(analysis.id),
        #[serde(flatten)]
        pull_request: PullRequestView<'a> = PullRequestView::new(made),
    }
}
