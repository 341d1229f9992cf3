//! What the document says of problems. They are written by `http/problem.rs`; a test compares the members.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::environment::HolderView;
use super::session::EndedByView;
use super::values::{Time, UserView};
use super::written::{AnalysisStatus, ApprovalStatus, DeploymentStatus, Expiry, Role, StageStatus};
use super::written::{DeploymentId, SessionId};
use crate::http::codes::Code;

/// Why a request was refused or failed, by RFC 9457. `code` says which of the further members there are.
#[derive(ToSchema)]
#[schema(as = Problem, rename_all = "camelCase")]
#[expect(dead_code, reason = "only describes the members")]
pub struct ProblemView<'a> {
    /// The page about the code.
    #[schema(format = "uri-reference", example = "/problems/environment_locked")]
    r#type: String,
    /// What the code means, in a few words.
    #[schema(example = "The environment is locked")]
    title: String,
    /// The status of the answer.
    #[schema(example = 409)]
    status: u16,
    /// What is wrong this time, and what to do next.
    #[schema(example = "ana has held the environment since 2026-11-15T09:30:00.123Z; wait for it with `waitSeconds`")]
    detail: String,
    code: Code,
    /// The id of the request, which is also in the server's log.
    #[schema(example = "0199f3c2-a4b0-7f3e-9d2c-5a1b2c3d4e5f")]
    request_id: String,
    /// When to try again.
    #[schema(example = 5)]
    retry_after_seconds: Option<u64>,
    /// The faults of the request, all of them.
    errors: Option<Vec<FieldErrorView>>,
    /// Of an exchange of tokens: the code again, where clients of OAuth look for it.
    #[schema(example = "invalid_grant")]
    error: Option<String>,
    /// The lowest role that may do it.
    required_role: Option<Role>,
    /// Who holds the environment, or whose session it is; null if there is no single holder.
    holder: Option<ProblemHolderView<'a>>,
    /// Of a claim of any environment: who holds what it could have had, at most ten, longest first.
    holders: Option<Vec<HolderView<'a>>>,
    /// How many sessions wait, or may wait.
    #[schema(example = 3)]
    queue_length: Option<u64>,
    /// The position of the session in the queue, from 1.
    #[schema(example = 1)]
    queue_position: Option<u64>,
    /// The session that has ended.
    session_id: Option<SessionId>,
    /// When the session ended.
    ended_at: Option<Time>,
    /// Who ended the session; null if nobody did.
    ended_by: Option<EndedByView<'a>>,
    /// Why the session expired; null if it did not.
    end_reason: Option<Expiry>,
    /// The session's own fencing token.
    #[schema(example = 42)]
    fencing_token: Option<u64>,
    /// The deployment that has not stopped yet.
    deployment_id: Option<DeploymentId>,
    deployment_status: Option<DeploymentStatus>,
    stage_status: Option<StageStatus>,
    approval_status: Option<ApprovalStatus>,
    /// When the approval was decided.
    decided_at: Option<Time>,
    /// Who decided the approval; null if nobody did.
    decided_by: Option<UserView<'a>>,
    analysis_status: Option<AnalysisStatus>,
    /// Why the environment is disabled, or what a remote answered; null if that is not known.
    #[schema(example = "the deployment of main after a release failed")]
    reason: Option<String>,
    /// The pipelines that use the steps, by id.
    #[schema(example = json!(["shop"]))]
    used_by: Option<Vec<String>>,
    /// How many environments the pipeline has.
    #[schema(example = 3)]
    environment_count: Option<u64>,
    /// The present version of the secret.
    #[schema(example = 2)]
    version: Option<u64>,
    /// The present revision of the environment's configuration.
    #[schema(example = 2)]
    configuration_revision: Option<u64>,
}

impl PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        let names = Code::ALL.iter().map(|code| code.as_str());
        let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names));
        schema.description(Some("The kind of a problem. `/problems/{code}` says what to do.")).into()
    }
}

impl ToSchema for Code {
    fn name() -> Cow<'static, str> {
        "ProblemCode".into()
    }
}

/// One fault of a request.
#[derive(ToSchema)]
#[schema(as = FieldError)]
#[expect(dead_code, reason = "only describes the members")]
pub struct FieldErrorView {
    /// The field, the parameter or the file.
    #[schema(example = "waitSeconds")]
    field: String,
    /// Continues a sentence that begins with the field.
    #[schema(example = "must be an integer from 0 to 300, got a string")]
    message: String,
}

/// Who stands in the way of a request. A refusal that is about a session and not about a lock has `user` only.
#[derive(ToSchema)]
#[schema(as = Holder, rename_all = "camelCase")]
#[expect(dead_code, reason = "only describes the members")]
pub struct ProblemHolderView<'a> {
    user: UserView<'a>,
    session_id: Option<SessionId>,
    /// The commit that was named in the claim, or null.
    #[schema(example = "c0ffee1")]
    commit_id: Option<String>,
    /// What the holder said about the claim, or null.
    #[schema(example = "PR 412")]
    context: Option<String>,
    /// Since when.
    claimed_at: Option<Time>,
    /// When it expires unless its holder is active before; null: it never expires by itself.
    expires_at: Option<Time>,
    /// Rises by one with each grant of the environment and never restarts.
    #[schema(example = 42)]
    fencing_token: Option<u64>,
}
