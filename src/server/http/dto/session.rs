//! A session, alone and as the overridden one of a force-claim.

use serde::Serialize;
use utoipa::ToSchema;

use super::deployment::DeploymentBrief;
use super::environment::LockView;
use super::values::{Time, UserView};
use super::written::{Expiry, Named, SessionId, SessionStatus, UserId, Written};
use domain::{EndedHow, ForceClaimed, Identifier, KeptBy, Session};
use locks::{ListedSession, Queued, Waiting};

view! {
    /// One claim of a lock, from the request to its end.
    pub struct SessionView<'a> as Session
    of (env_name: Option<&'a str>, session: &'a Session, waiting: Option<Waiting>)
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
    {
        session_id: SessionId = Written(*id),
        /// The environment's name; null while the session waits for any environment.
        #[schema(example = "review-1")]
        env_name: Option<&'a str>,
        lock_status: SessionStatus = Named(status),
        /// Whether the lock was taken by force; `endedBy` and `endedAt` say by whom and when.
        #[schema(example = false)]
        overridden: bool = status == domain::SessionStatus::Overridden,
        /// The member who claimed.
        user: UserView<'a> = UserView::new(user),
        /// The commit that was named in the claim, or null.
        #[schema(example = "c0ffee1")]
        commit_id: Option<&'a str> = commit.as_ref().map(|commit| commit.as_str()),
        /// The reason given in the claim, or null.
        #[schema(example = "PR 412")]
        context: Option<&'a str> = context.as_ref().map(|context| context.as_str()),
        /// The priority in the queue.
        #[schema(example = 0)]
        priority: i8 = priority.get(),
        /// The position in the queue, from 1; null if the session is not queued.
        #[schema(example = 1)]
        queue_position: Option<usize> = waiting.map(|waiting| waiting.position),
        /// Rises by one with each grant of the environment's lock, and never restarts, so that the target of a
        /// deployment can refuse an older token. Null until the session gets the lock.
        #[schema(example = 42)]
        fencing_token: Option<u64> = session.fencing_token(),
        /// When the session was requested.
        created_at: Time = Time(*created_at),
        /// When the session got the lock; null before.
        claimed_at: Option<Time> = claimed.as_ref().map(|claimed| Time(claimed.at)),
        /// When the session expires unless its holder is active before, or, in the queue, polls before. Null if the
        /// session never expires on its own, or has ended.
        expires_at: Option<Time> = match waiting {
            Some(waiting) => Some(Time(waiting.until)),
            None => session.expiry().filter(|_| ended.is_none()).map(|(until, _)| Time(until.at)),
        },
        /// When the session ended; null before.
        ended_at: Option<Time> = ended.as_ref().map(|ended| Time(ended.at)),
        /// Who ended the session; null if nobody did.
        ended_by: Option<EndedByView<'a>> = EndedByView::of(session),
        /// Why the session expired; null if it did not.
        end_reason: Option<Expiry> = ended.as_ref().and_then(|ended| end_reason(ended.how)),
        /// Information for the session's user: that the lock never expires on its own, or about the lock that the
        /// session waits for. Null if there is none.
        #[schema(example = "this lock has no TTL and never expires on its own: release it when you are done")]
        warning: Option<&'static str> = match waiting {
            Some(waiting) => waiting.holder_never_expires.then_some(ENDLESS_WAIT),
            None => session.never_expires().then_some(ENDLESS_LOCK),
        },
        /// The newest hundred deployments, oldest first; `deploymentCount` counts all of them.
        deployments: Vec<DeploymentBrief<'a>> = deployments.iter().map(DeploymentBrief::new).collect(),
        /// How many deployments the session has had.
        #[schema(example = 1)]
        deployment_count: u64 = *deployment_count,
    }
}

const ENDLESS_LOCK: &str =
    "this lock has no TTL and never expires on its own: release it when you are done, or claim with `ttlSeconds`";
const ENDLESS_WAIT: &str = "the lock that this session waits for has no TTL and never expires on its own: ask its holder to \
                            release it, or force-claim it";

/// The member who ended a session; for an overridden one, also the session that took over.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EndedBy)]
pub struct EndedByView<'a> {
    // Not a flattened `UserView`: serializing one would search its field names for characters to escape.
    user_id: UserId,
    /// The member's name, unique in the organization.
    #[schema(example = "ana")]
    name: &'a str,
    /// The session that took over, or null.
    session_id: Option<SessionId>,
}

view! {
    /// A session in the list of an organization, with its pipeline.
    pub struct SessionListItem<'a> of (listed: &'a ListedSession)
    let name = listed.environment.as_ref().map(Identifier::as_str);
    {
        #[serde(flatten)]
        session: SessionView<'a> = SessionView::new(name, &listed.session, listed.waiting),
        /// The pipeline of the session's environment, or of the environments that it waits for.
        #[schema(example = "web")]
        pipeline_id: &'a str = listed.pipeline.pipeline.as_str(),
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

view! {
    /// A session whose forced claim succeeded, whether the lock was taken or free.
    pub struct ForceClaimView<'a> as ForceClaimedSession of (env_name: &'a str, claimed: &'a ForceClaimed) {
        #[serde(flatten)]
        session: SessionView<'a> = SessionView::new(Some(env_name), &claimed.session, None),
        /// The session that was overridden; null if the lock was free.
        overrode: Option<LockView<'a>> = claimed.overrode.as_deref().map(LockView::new),
    }
}

pub fn end_reason(how: EndedHow) -> Option<Expiry> {
    match how {
        EndedHow::Released | EndedHow::Overridden(_) => None,
        EndedHow::Expired(why) => Some(Named(why)),
    }
}

view! {
    /// A session or claim that waits for an environment.
    pub struct WaiterView<'a> as Waiter of (position: usize, queued: &'a Queued)
    let Queued { waiter, any } = queued;
    let session = &waiter.session;
    {
        /// The position in the queue, from 1.
        #[schema(example = 1)]
        position: usize,
        /// The session; null for a claim that waits on its connection, whose session begins with the lock.
        session_id: Option<SessionId> = (waiter.kept_by == KeptBy::Polling).then_some(Written(session.id)),
        /// Who waits.
        user: UserView<'a> = UserView::new(&session.user),
        /// The commit that was named in the claim, or null.
        #[schema(example = "c0ffee1")]
        commit_id: Option<&'a str> = session.commit.as_ref().map(|commit| commit.as_str()),
        /// The reason given in the claim, or null.
        #[schema(example = "PR 412")]
        context: Option<&'a str> = session.context.as_ref().map(|context| context.as_str()),
        /// The priority: higher ones go first.
        #[schema(example = 0)]
        priority: i8 = session.priority.get(),
        /// Whether the claim is for any environment with matching labels.
        #[schema(example = false)]
        any: bool = *any,
        /// When the wait began.
        created_at: Time = Time(session.created_at),
    }
}
