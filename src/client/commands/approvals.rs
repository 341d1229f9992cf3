//! `lockkeeper approvals`, `approve` and `reject`: stages that wait for an approval.

use std::str::FromStr;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::deployments::DeploymentName;
use crate::api::{Api, list_all, list_first};
use crate::arguments::identifier;
use crate::failure::Failure;
use crate::output::table::Cell;
use crate::output::text::{Style, harmless};
use crate::output::{Out, text_of, times};

#[derive(clap::Args)]
pub struct ListArgs {
    /// Only approvals with this status: pending, approved, rejected or cancelled; `all` for every one
    #[arg(long, value_name = "STATUS", default_value = "pending")]
    status: String,
}

pub async fn list(args: ListArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    let status = (args.status != "all").then(|| ("status", args.status.clone()));
    let pipeline = api.given_pipeline().map(|pipeline| ("pipelineId", pipeline.to_owned()));
    let filter: Vec<_> = status.into_iter().chain(pipeline).collect();
    let approvals = list_all(api, "/approvals", &filter).await?;
    let none = if args.status == "pending" { "nothing waits for an approval" } else { "no approvals" };
    let now = Timestamp::now();
    out.list(&approvals, |approval| row(approval, now), none)
}

fn row(approval: &Value, now: Timestamp) -> Vec<Cell> {
    vec![
        Cell::whole("APPROVAL", text_of(approval, "approvalId")).styled(Style::Strong),
        Cell::status("STATUS", text_of(approval, "status")),
        Cell::whole("ENVIRONMENT", place(approval)),
        Cell::whole("STAGE", text_of(approval, "stage")),
        Cell::cuttable("COMMIT", text_of(approval, "commitId")),
        Cell::cuttable("FOR", text_of(&approval["requestedBy"], "name")),
        Cell::whole("SINCE", times::since(text_of(approval, "requestedAt"), now).unwrap_or_default()),
        Cell::cuttable("DECIDED", decided(approval)),
    ]
}

fn place(approval: &Value) -> String {
    format!("{}/{}", text_of(approval, "pipelineId"), text_of(approval, "envName"))
}

/// `by mia: looks good`.
fn decided(approval: &Value) -> String {
    let by = approval["decidedBy"]["name"].as_str().map(|by| format!("by {by}"));
    let comment = approval["comment"].as_str();
    [by.as_deref(), comment].into_iter().flatten().collect::<Vec<_>>().join(": ")
}

/// An approval as typed by the user.
#[derive(Debug, Clone)]
pub enum ApprovalName {
    Id(String),
    /// The approval that a deployment waits for.
    PendingFor(DeploymentName),
}

impl FromStr for ApprovalName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("apr_") {
            return identifier(text).map(Self::Id);
        }
        text.parse().map(Self::PendingFor)
    }
}

impl ApprovalName {
    async fn id(&self, api: &Api) -> Result<String, Failure> {
        let deployment = match self {
            Self::Id(id) => return Ok(id.clone()),
            Self::PendingFor(name) => name.id(api).await?,
        };
        let query = [("status", "pending".to_owned()), ("deploymentId", deployment.clone())];
        let pending = list_first(api, "/approvals", &query, 1).await?;
        match pending[0]["approvalId"].as_str().map(identifier) {
            Some(Ok(id)) => Ok(id),
            Some(Err(_)) | None => {
                Err(Failure::NotFound(format!("the deployment {deployment} does not wait for an approval")))
            }
        }
    }
}

#[derive(clap::Args)]
pub struct ApproveArgs {
    /// The approval (apr_…); or the deployment (dep_…) or the environment that waits for it
    #[arg(value_name = "APPROVAL")]
    approval: ApprovalName,
    /// A comment, for others who look at the deployment
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
}

pub async fn approve(args: ApproveArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    decide(api, out, &args.approval, "approve", json!({ "comment": args.comment })).await
}

#[derive(clap::Args)]
pub struct RejectArgs {
    /// The approval (apr_…); or the deployment (dep_…) or the environment that waits for it
    #[arg(value_name = "APPROVAL")]
    approval: ApprovalName,
    /// The reason, for others who look at the deployment
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub async fn reject(args: RejectArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    decide(api, out, &args.approval, "reject", json!({ "reason": args.reason })).await
}

async fn decide(api: &Api, out: &Out, name: &ApprovalName, verb: &str, body: Value) -> Result<(), Failure> {
    let id = name.id(api).await?;
    let approval = api.post(&format!("/approvals/{id}/{verb}"), &body).await?.data;
    out.record(&approval, |approval| {
        let (status, stage) = (text_of(approval, "status"), text_of(approval, "stage"));
        let (commit, place) = (text_of(approval, "commitId"), place(approval));
        vec![harmless(&format!("{status}: stage {stage} of {commit} in {place} ({id})"))]
    })
}
