//! Claim: takes the lock if it is free.

use super::deploy::{self, NewDeployment};
use super::{
    Command, CommitId, Context, Environment, Event, IdSeed, Notice, Person, Plan, Rejection, Session, SessionId,
    Timestamp, Transition,
};

#[derive(Debug, Clone)]
pub struct Claim {
    pub seed: IdSeed,
    pub user: Person,
    pub commit: Option<CommitId>,
    pub context: Option<Context>,
    pub plan: Plan,
}

impl Command for Claim {
    type Reply = Session;

    fn decide(self, environment: &Environment, now: Timestamp) -> Result<Transition<Session>, Rejection> {
        let configuration = environment.configuration.as_ref().ok_or(Rejection::EnvironmentNotFound)?;
        if configuration.disabled {
            return Err(Rejection::EnvironmentDisabled);
        }
        if let Some(holder) = &environment.lock {
            return Err(Rejection::EnvironmentLocked { holder: Box::new(holder.clone()) });
        }
        let mut next = environment.clone();
        next.revision += 1;
        let mut events = Vec::with_capacity(1);
        let reply = grant(&mut next, self, now, &mut events);
        Ok(Transition { next, ended: Vec::new(), events, reply })
    }
}

/// The one place where a lock is given: a new session, the next fencing token, and the first deployment if there is one
/// to make. Whoever held it before is gone from `next` already.
pub(super) fn grant(next: &mut Environment, claim: Claim, now: Timestamp, events: &mut Vec<Event>) -> Session {
    next.sessions += 1;
    next.fencing_token += 1;
    let session = Session {
        id: SessionId { seed: claim.seed, number: next.sessions },
        user: claim.user,
        commit: claim.commit.clone(),
        context: claim.context,
        fencing_token: next.fencing_token,
        created_at: now,
        claimed_at: now,
        ended: None,
        deployments: Vec::new(),
        deployment_count: 0,
        revision: 1,
    };
    events.push(Event::session(Notice::SessionClaimed, session.id));
    let session = next.lock.insert(session);

    let deploys = next.configuration.as_ref().is_some_and(|configuration| configuration.deploy_on_claim);
    if let (true, Some(commit)) = (deploys, claim.commit) {
        deploy::enqueue(session, NewDeployment { seed: claim.seed, commit, plan: claim.plan }, now, events);
        deploy::advance(next, now, events);
    }
    next.lock.clone().expect("the lock was given a few lines above")
}
