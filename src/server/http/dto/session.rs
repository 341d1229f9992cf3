//! A session, alone and as the overridden one of a force-claim.

use serde::Serialize;
use utoipa::ToSchema;

use super::deployment::DeploymentBrief;
use super::environment::LockView;
use super::values::{Time, UserView};
use super::written::{Expiry, Named, SessionStatus};
use super::written::{SessionId, UserId, Written};
use domain::{EndedHow, ForceClaimed, Identifier, KeptBy, Session};
use locks::{ListedSession, Queued, Waiting};

/// One claim from beginning to end.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Session)]
pub struct SessionView<'a> {
    session_id: SessionId,
    /// Null while it waits for any environment.
    #[schema(example = "review-1")]
    env_name: Option<&'a str>,
    lock_status: SessionStatus,
    /// Whether somebody took the lock by force; `endedBy` and `endedAt` say who and when.
    #[schema(example = false)]
    overridden: bool,
    /// Whose it is.
    user: UserView<'a>,
    /// The commit that was named in the claim, or null.
    #[schema(example = "c0ffee1")]
    commit_id: Option<&'a str>,
    /// What was said about the claim, or null.
    #[schema(example = "PR 412")]
    context: Option<&'a str>,
    /// Its priority in the queue.
    #[schema(example = 0)]
    priority: i8,
    /// Its position in the queue, from 1; null if it is not queued.
    #[schema(example = 1)]
    queue_position: Option<usize>,
    /// Rises by one with each grant of the environment and never restarts, so that the target of a deployment can
    /// refuse an older one. Null until it has the lock.
    #[schema(example = 42)]
    fencing_token: Option<u64>,
    /// When it was asked for.
    created_at: Time,
    /// When it got the lock; null before.
    claimed_at: Option<Time>,
    /// When it expires unless its holder is active before; in the queue, unless somebody polls it before. Null: it
    /// never expires by itself, or has ended.
    expires_at: Option<Time>,
    /// When it ended; null before.
    ended_at: Option<Time>,
    /// Who ended it; null if nobody did.
    ended_by: Option<EndedByView<'a>>,
    /// Why it expired; null if it did not.
    end_reason: Option<Expiry>,
    /// What its user should know: that its lock never expires by itself, or the lock that it waits for. Null if there
    /// is nothing to say.
    #[schema(example = "this lock has no TTL and never expires by itself: release it when you are done")]
    warning: Option<&'static str>,
    /// The newest hundred, in order of arrival; `deploymentCount` counts them all.
    deployments: Vec<DeploymentBrief<'a>>,
    /// How many deployments it has had.
    #[schema(example = 1)]
    deployment_count: u64,
}

const ENDLESS_LOCK: &str =
    "this lock has no TTL and never expires by itself: release it when you are done, or claim with `ttlSeconds`";
const ENDLESS_WAIT: &str = "the lock that this session waits for has no TTL and never expires by itself: ask its holder to \
                            release it, or force-claim it";

/// The member who ended a session; for an overridden one, also the session that took over.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EndedBy)]
pub struct EndedByView<'a> {
    // Not a flattened `UserView`, whose names would be looked at for something to escape.
    user_id: UserId,
    /// Unique in the organization.
    #[schema(example = "ana")]
    name: &'a str,
    /// The session that took over, or null.
    session_id: Option<SessionId>,
}

impl<'a> SessionView<'a> {
    pub fn new(env_name: Option<&'a str>, session: &'a Session, waiting: Option<Waiting>) -> Self {
        // Destructured, so that a new field cannot be forgotten here.
        let Session {
            id,
            user,
            commit,
            context,
            priority,
            ttl_seconds: _,
            created_at,
            claimed,
            ended,
            deployments,
            deployment_count,
            revision: _,
        } = session;
        let status = session.status();
        Self {
            session_id: Written(*id),
            env_name,
            lock_status: Named(status),
            overridden: status == domain::SessionStatus::Overridden,
            user: UserView::from(user),
            commit_id: commit.as_ref().map(|commit| commit.as_str()),
            context: context.as_ref().map(|context| context.as_str()),
            priority: priority.get(),
            queue_position: waiting.map(|waiting| waiting.position),
            fencing_token: session.fencing_token(),
            created_at: Time(*created_at),
            claimed_at: claimed.as_ref().map(|claimed| Time(claimed.at)),
            expires_at: match waiting {
                Some(waiting) => Some(Time(waiting.until)),
                None => session.expiry().filter(|_| ended.is_none()).map(|(until, _)| Time(until.at)),
            },
            ended_at: ended.as_ref().map(|ended| Time(ended.at)),
            ended_by: EndedByView::of(session),
            end_reason: ended.as_ref().and_then(|ended| end_reason(ended.how)),
            warning: match waiting {
                Some(waiting) => waiting.holder_never_expires.then_some(ENDLESS_WAIT),
                None => session.never_expires().then_some(ENDLESS_LOCK),
            },
            deployments: deployments.iter().map(DeploymentBrief::from).collect(),
            deployment_count: *deployment_count,
        }
    }
}

/// A session in the list of an organization, with its pipeline.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionListItem<'a> {
    #[serde(flatten)]
    session: SessionView<'a>,
    /// The pipeline of its environment, or of the environments that it waits for.
    #[schema(example = "web")]
    pipeline_id: &'a str,
}

impl<'a> From<&'a ListedSession> for SessionListItem<'a> {
    fn from(listed: &'a ListedSession) -> Self {
        let name = listed.environment.as_ref().map(Identifier::as_str);
        Self {
            session: SessionView::new(name, &listed.session, listed.waiting),
            pipeline_id: listed.pipeline.pipeline.as_str(),
        }
    }
}

impl<'a> EndedByView<'a> {
    pub fn of(session: &'a Session) -> Option<Self> {
        let ended = session.ended.as_ref()?;
        let session_id = match ended.how {
            EndedHow::Released | EndedHow::Expired(_) => None,
            EndedHow::Overridden(by) => Some(Written(by)),
        };
        let by = ended.by.as_ref()?;
        Some(Self { user_id: Written(by.id), name: &by.name, session_id })
    }
}

/// A session that took the lock by force, or found it free.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ForceClaimedSession)]
pub struct ForceClaimView<'a> {
    #[serde(flatten)]
    session: SessionView<'a>,
    /// The session that was overridden; null if the lock was free.
    overrode: Option<LockView<'a>>,
}

impl<'a> ForceClaimView<'a> {
    pub fn new(env_name: &'a str, claimed: &'a ForceClaimed) -> Self {
        let overrode = claimed.overrode.as_deref().map(LockView::from);
        Self { session: SessionView::new(Some(env_name), &claimed.session, None), overrode }
    }
}

pub fn end_reason(how: EndedHow) -> Option<Expiry> {
    match how {
        EndedHow::Released | EndedHow::Overridden(_) => None,
        EndedHow::Expired(why) => Some(Named(why)),
    }
}

/// A session or claim that waits for an environment.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Waiter)]
pub struct WaiterView<'a> {
    /// From 1.
    #[schema(example = 1)]
    position: usize,
    /// Null for a claim that waits on its connection: its session begins with the lock.
    session_id: Option<SessionId>,
    /// Who waits.
    user: UserView<'a>,
    /// The commit that was named in the claim, or null.
    #[schema(example = "c0ffee1")]
    commit_id: Option<&'a str>,
    /// What was said about the claim, or null.
    #[schema(example = "PR 412")]
    context: Option<&'a str>,
    /// Higher priorities go first.
    #[schema(example = 0)]
    priority: i8,
    /// Whether it waits for any environment whose labels match.
    #[schema(example = false)]
    any: bool,
    /// When it began to wait.
    created_at: Time,
}

impl<'a> WaiterView<'a> {
    pub fn new(position: usize, queued: &'a Queued) -> Self {
        let Queued { waiter, any } = queued;
        let session = &waiter.session;
        Self {
            position,
            session_id: (waiter.kept_by == KeptBy::Polling).then_some(Written(session.id)),
            user: UserView::from(&session.user),
            commit_id: session.commit.as_ref().map(|commit| commit.as_str()),
            context: session.context.as_ref().map(|context| context.as_str()),
            priority: session.priority.get(),
            any: *any,
            created_at: Time(session.created_at),
        }
    }
}
