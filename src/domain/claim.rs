//! Claims. A claim takes a free lock, or queues for a taken one if the caller asked to wait. A force-claim ends the
//! holder's session and takes the lock in one step; the queue keeps waiting.

use std::sync::Arc;

use super::decision::GrantedWaiter;
use super::queue::{ASK_WITHIN_MILLIS, LET_GO_AT_ONCE};
use super::{
    Claimed, Command, CommitId, Configuration, Context, Deadline, Decision, Deployment, DeploymentId, Ended, EndedHow,
    Event, EventData, Expiry, IdSeed, Initiator, KeptBy, Lease, MemberShare, Now, Origin, Person, Presence, Priority,
    Rejection, RequestRef, Role, Session, SessionClaimedData, SessionId, Ticket, Turn, Waiter, deploy, release, reset,
};

/// The request of a claim, forced or not. It becomes part of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    pub user: Person,
    pub commit: Option<CommitId>,
    pub context: Option<Context>,
    pub ttl_seconds: Option<u32>,
    pub priority: Priority,
}

#[derive(Debug, Clone)]
pub struct Claim {
    pub request: ClaimRequest,
    pub seed: IdSeed,
    pub ticket: Ticket,
    /// How the client keeps its place in the queue. None: the claim does not wait.
    pub waits: Option<KeptBy>,
    /// Whether the client is certain to learn the id of its queued session: see [`Waiter::known`].
    pub known: bool,
    /// Whether the claim may also use the places of the queue that are reserved for admins.
    pub is_admin: bool,
    pub via: Option<RequestRef>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimReply {
    Granted(Arc<Session>),
    /// The client keeps the place by polling this session.
    Queued {
        session: Arc<Session>,
        /// The position in the queue, from 1.
        position: usize,
        /// Whether the holder's lock only ends when it is released.
        holder_never_expires: bool,
    },
    /// The claim waits on its connection and is answered later.
    Waiting,
    Refused(Rejection),
}

impl Command for Claim {
    type Reply = ClaimReply;

    fn decide(self, decision: &mut Decision<'_>) -> Result<ClaimReply, Rejection> {
        let configuration = decision.next.available()?.clone();
        self.request.check(&configuration)?;
        // Earlier arrivals go first, including waiters of the pool and clients that have just returned.
        hand_over(decision, Some(Turn::new(self.request.priority, self.ticket)));
        if decision.next.is_vacant() {
            let id = self.session_id();
            let session = self.request.into_session(id, decision.now);
            return Ok(ClaimReply::Granted(grant(decision, session)));
        }
        let limit = configuration.max_queue_length as usize;
        if self.waits.is_none() {
            return Ok(ClaimReply::Refused(decision.next.occupied()));
        }
        let queue = &decision.next.queue;
        let share = MemberShare { total: limit, used: queue.len(), is_admin: self.is_admin };
        if let Err(refused) = share.check(|| queue.of_member(self.request.user.id)) {
            return Ok(ClaimReply::Refused(refused.into()));
        }
        let waiter = decision.enqueue(self.into_waiter(decision.now));
        if waiter.kept_by != KeptBy::Polling {
            return Ok(ClaimReply::Waiting);
        }
        let position = decision.next.queue.position(&waiter);
        decision.outcome.events.push(waiter.queued(position));
        let holder_never_expires = decision.next.holder_never_expires();
        let session = Arc::new(waiter.session.clone());
        Ok(ClaimReply::Queued { session, position, holder_never_expires })
    }
}

impl Claim {
    pub fn into_waiter(self, now: Now) -> Waiter {
        let id = self.session_id();
        let Claim { request, ticket, waits, known, via, .. } = self;
        let session = request.into_session(id, now);
        Waiter { ticket, kept_by: waits.unwrap_or(KeptBy::Connection), known, session, via }
    }

    /// The session's id, unless the claim gets the lock immediately.
    fn session_id(&self) -> SessionId {
        SessionId { seed: self.seed, origin: Origin::Queued(self.ticket) }
    }
}

impl ClaimRequest {
    pub(super) fn check(&self, configuration: &Configuration) -> Result<(), Rejection> {
        let max_seconds = configuration.max_ttl_seconds;
        match self.ttl_seconds {
            Some(ttl) if ttl > max_seconds => Err(Rejection::TtlTooLong { max_seconds }),
            Some(_) | None => Ok(()),
        }
    }

    /// A session without the lock.
    pub(super) fn into_session(self, id: SessionId, now: Now) -> Session {
        let ClaimRequest { user, commit, context, ttl_seconds, priority } = self;
        Session {
            id,
            user,
            commit,
            context,
            priority,
            ttl_seconds,
            created_at: now.at,
            claimed: None,
            ended: None,
            deployments: Vec::new(),
            deployment_count: 0,
            revision: 0,
        }
    }
}

/// Gives a free lock to the first ready waiter of this environment's queue and of the pool; with a newcomer, only to a
/// waiter that precedes it. Part of every transition, so that no newcomer can overtake a waiter.
pub(super) fn hand_over(decision: &mut Decision<'_>, newcomer: Option<Turn>) {
    if !decision.next.is_vacant() {
        return;
    }
    let Some(configuration) = decision.next.configuration.clone() else { return };
    let own = first_ready(decision).filter(|waiter| newcomer.is_none_or(|newcomer| waiter.turn() < newcomer));
    let before = own.as_ref().map(|waiter| waiter.turn()).or(newcomer);
    if let Some(waiter) = decision.ports.take_from_pool(&configuration, before) {
        grant_waiter(decision, waiter, true);
    } else if let Some(waiter) = own {
        decision.dequeue(waiter.ticket);
        grant_waiter(decision, waiter, false);
    }
}

/// The first waiter whose client is present. Waiters before it whose clients disconnected leave the queue; overdue ones
/// are skipped until the timer removes them.
fn first_ready(decision: &mut Decision<'_>) -> Option<Arc<Waiter>> {
    let queue = decision.next.queue.clone();
    for waiter in queue.iter() {
        let presence = decision.ports.presence(waiter);
        let overdue = waiter.due(presence).is_some_and(|due| due <= decision.now.tick);
        if waiter.is_ready(presence) && !overdue {
            return Some(waiter.clone());
        }
        if presence == Presence::Vanished && decision.outcome.dequeued.len() < LET_GO_AT_ONCE {
            decision.expire(waiter.ticket, Expiry::Vanished);
        }
    }
    None
}

/// Gives the lock to a waiter. A client that is not connected has to poll in time.
fn grant_waiter(decision: &mut Decision<'_>, waiter: Arc<Waiter>, from_pool: bool) {
    let away = waiter.kept_by == KeptBy::Polling && decision.ports.presence(&waiter) != Presence::Connected;
    let session = waiter.session.clone();
    let before = decision.outcome.events.len();
    let mut session = match waiter.kept_by {
        KeptBy::Polling => grant_named(decision, session),
        KeptBy::Connection | KeptBy::Key(_) => grant(decision, session),
    };
    if away && let Some(claimed) = &mut Arc::make_mut(&mut session).claimed {
        claimed.unseen_until = Some(Deadline::after(decision.now, ASK_WITHIN_MILLIS));
        decision.next.lock = Some(session.clone());
    }
    // The caller of this decision is not the claimant.
    for event in decision.outcome.events.iter_mut().skip(before).filter(|event| !event.automatic) {
        event.by = Some(Initiator { person: waiter.session.user.clone(), via: waiter.via.clone() });
    }
    decision.outcome.granted = Some(GrantedWaiter { waiter, session, from_pool });
}

/// Gives the lock to a session that has no id yet. The new id leads to the session's record without an index.
fn grant(decision: &mut Decision<'_>, mut session: Session) -> Arc<Session> {
    session.id.origin = Origin::Granted(decision.next.next_token());
    grant_named(decision, session)
}

/// The only place where a lock is granted: the next fencing token, the lease, and the first deployment if there is one.
/// The previous holder has already left.
fn grant_named(decision: &mut Decision<'_>, mut session: Session) -> Arc<Session> {
    decision.touch();
    let (now, next) = (decision.now, &mut decision.next);
    let configuration = next.configuration.clone().unwrap_or_default();
    next.fencing_token = next.next_token();
    let ttl =
        session.ttl_seconds.or(configuration.default_ttl_seconds).map(|ttl| ttl.min(configuration.max_ttl_seconds));
    session.claimed = Some(Claimed {
        fencing_token: next.fencing_token,
        at: now.at,
        tick: now.tick,
        lease: ttl.map(|ttl| Lease::new(ttl, now)),
        hold_until: configuration.max_hold_seconds.map(|hold| Deadline::after(now, i64::from(hold) * 1000)),
        unseen_until: None,
        seen: false,
    });
    session.revision += 1;
    let (seed, commit) = (session.id.seed, session.commit.clone());
    let claimed = SessionClaimedData { fencing_token: next.fencing_token, commit_id: commit.clone() };
    decision.outcome.events.push(Event::session(session.id, EventData::SessionClaimed(claimed)));
    let session = next.lock.insert(Arc::new(session));
    if let (true, Some(commit)) = (configuration.deploy_on_claim, commit) {
        let session = Arc::make_mut(session);
        deploy::enqueue(session, Deployment::new(DeploymentId(seed), commit, now.at), decision.outcome);
        deploy::advance(decision);
    }
    decision.next.lock.clone().expect("the lock was given a few lines above")
}

#[derive(Debug, Clone)]
pub struct ForceClaim {
    pub request: ClaimRequest,
    pub seed: IdSeed,
    pub role: Role,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForceClaimed {
    pub session: Arc<Session>,
    /// The ended session of the previous holder.
    pub overrode: Option<Arc<Session>>,
}

impl Command for ForceClaim {
    type Reply = ForceClaimed;

    fn decide(self, decision: &mut Decision<'_>) -> Result<ForceClaimed, Rejection> {
        let configuration = decision.next.configuration.clone().ok_or(Rejection::EnvironmentNotFound)?;
        if self.role < configuration.force_claim_role {
            return Err(Rejection::RoleTooLow { required: configuration.force_claim_role });
        }
        decision.next.available()?;
        self.request.check(&configuration)?;

        let origin = Origin::Granted(decision.next.next_token());
        let successor = SessionId { seed: self.seed, origin };
        let by = Some(self.request.user.clone());
        let ended = Ended { at: decision.now.at, by, how: EndedHow::Overridden(successor) };
        let overrode = release::end_session(decision, ended);
        decision.outcome.events.extend(overrode.as_deref().and_then(Session::end_event));
        reset::cancel(decision);
        let session = self.request.into_session(successor, decision.now);
        let session = grant(decision, session);
        Ok(ForceClaimed { session, overrode })
    }

    fn grants(reply: &ForceClaimed) -> Option<SessionId> {
        Some(reply.session.id)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::samples::{Subject, by_key, claim, person, request};
    use crate::*;

    #[test]
    fn a_newcomer_does_not_pass_one_who_has_just_come_back() {
        let mut subject = Subject::with(Configuration::default());
        subject.run(0, claim(1)).unwrap();
        subject.run(1, Claim { waits: Some(by_key(2)), ..claim(2) }).unwrap();
        // The server has restarted, and the client has not returned for its place when the lock becomes free.
        subject.ports.except = vec![(Ticket(2), Presence::LastSeen(Tick(1)))];
        let session = subject.environment.lock.as_ref().unwrap().id.into();
        subject.run(2, Release { session, by: person(1), any: false }).unwrap();
        assert_eq!(
            (subject.holder(), subject.queue()),
            (None, vec![2]),
            "the lock is not given to a client that is away"
        );
        // The client has returned, but nothing has been handed over to it yet.
        subject.ports.except.clear();
        let (reply, _) = subject.run(3, claim(3)).unwrap();
        assert!(matches!(reply, ClaimReply::Refused(Rejection::EnvironmentLocked { .. })), "{reply:?}");
        assert_eq!((subject.holder(), subject.queue()), (Some(2), vec![]));
    }

    #[test]
    fn a_newcomer_of_higher_priority_goes_before_one_who_has_just_come_back() {
        let mut subject = Subject::with(Configuration::default());
        subject.run(0, claim(1)).unwrap();
        subject.run(1, Claim { waits: Some(by_key(2)), ..claim(2) }).unwrap();
        subject.ports.except = vec![(Ticket(2), Presence::LastSeen(Tick(1)))];
        let session = subject.environment.lock.as_ref().unwrap().id.into();
        subject.run(2, Release { session, by: person(1), any: false }).unwrap();
        subject.ports.except.clear();
        subject
            .run(3, Claim { request: ClaimRequest { priority: Priority::new(1).unwrap(), ..request(1) }, ..claim(3) })
            .unwrap();
        assert_eq!((subject.holder(), subject.queue()), (Some(3), vec![2]));
    }
}
