//! A session, whole and as the one that was overridden.

use serde::Serialize;
use utoipa::ToSchema;

use super::{DeploymentBrief, LockView, Text, Time, UserView};
use crate::domain::{EndedHow, ForceClaimed, Session, SessionId, SessionStatus};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Session)]
pub struct SessionView<'a> {
    #[schema(value_type = String, example = "ses_0199f3c2a4b07f3e9d2c5a1b2a")]
    session_id: Text<SessionId>,
    env_name: &'a str,
    #[schema(value_type = SessionStatusName)]
    lock_status: &'static str,
    /// Whether somebody took the lock by force; `endedBy` and `endedAt` say who and when.
    overridden: bool,
    user: UserView<'a>,
    #[schema(required)]
    commit_id: Option<&'a str>,
    #[schema(required)]
    context: Option<&'a str>,
    priority: i32,
    #[schema(required)]
    queue_position: Option<u64>,
    /// Rises by one with each grant of the environment, for ever: what you deploy to can refuse an older one.
    fencing_token: u64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    #[schema(value_type = String, format = DateTime)]
    claimed_at: Time,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    expires_at: Option<Time>,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    ended_at: Option<Time>,
    #[schema(required)]
    ended_by: Option<EndedByView<'a>>,
    /// The newest hundred, in order of arrival; `deploymentCount` counts them all.
    deployments: Vec<DeploymentBrief<'a>>,
    deployment_count: u64,
}

/// Who ended a session; for an overridden one, also by which session of theirs.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EndedBy)]
pub struct EndedByView<'a> {
    #[serde(flatten)]
    user: UserView<'a>,
    #[schema(value_type = Option<String>, required)]
    session_id: Option<Text<SessionId>>,
}

impl<'a> SessionView<'a> {
    pub fn new(env_name: &'a str, session: &'a Session) -> Self {
        let status = session.status();
        Self {
            session_id: Text(session.id),
            env_name,
            lock_status: session_status_name(status),
            overridden: status == SessionStatus::Overridden,
            user: UserView::from(&session.user),
            commit_id: session.commit.as_ref().map(|commit| commit.as_str()),
            context: session.context.as_ref().map(|context| context.as_str()),
            priority: 0,
            queue_position: None,
            fencing_token: session.fencing_token,
            created_at: Time(session.created_at),
            claimed_at: Time(session.claimed_at),
            expires_at: None,
            ended_at: session.ended.as_ref().map(|ended| Time(ended.at)),
            ended_by: EndedByView::of(session),
            deployments: session.deployments.iter().map(DeploymentBrief::from).collect(),
            deployment_count: session.deployment_count,
        }
    }
}

impl<'a> EndedByView<'a> {
    pub fn of(session: &'a Session) -> Option<Self> {
        let ended = session.ended.as_ref()?;
        let session_id = match ended.how {
            EndedHow::Released => None,
            EndedHow::Overridden(by) => Some(Text(by)),
        };
        Some(Self { user: UserView::from(&ended.by), session_id })
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ForceClaimedSession)]
pub struct ForceClaimView<'a> {
    #[serde(flatten)]
    session: SessionView<'a>,
    /// Whose session it ended; null if the lock was free.
    #[schema(required)]
    overrode: Option<LockView<'a>>,
}

impl<'a> ForceClaimView<'a> {
    pub fn new(env_name: &'a str, claimed: &'a ForceClaimed) -> Self {
        let overrode = claimed.overrode.as_ref().map(LockView::from);
        Self { session: SessionView::new(env_name, &claimed.session), overrode }
    }
}

/// How a session stands.
#[derive(ToSchema)]
#[schema(as = SessionStatus, rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
pub enum SessionStatusName {
    Active,
    Released,
    Overridden,
}

pub fn session_status_name(status: SessionStatus) -> &'static str {
    match status {
        SessionStatus::Active => "active",
        SessionStatus::Released => "released",
        SessionStatus::Overridden => "overridden",
    }
}
