//! Force-claim: ends the holder's session and takes the lock, in one step without a gap.

use super::{
    Claim, Command, Ended, EndedHow, Environment, Event, Notice, Rejection, Role, Session, SessionId, Timestamp,
    Transition, claim, release,
};

#[derive(Debug, Clone)]
pub struct ForceClaim {
    pub claim: Claim,
    pub role: Role,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForceClaimed {
    pub session: Session,
    /// The session that had the lock, as it ended.
    pub overrode: Option<Session>,
}

impl Command for ForceClaim {
    type Reply = ForceClaimed;

    fn decide(self, environment: &Environment, now: Timestamp) -> Result<Transition<ForceClaimed>, Rejection> {
        let configuration = environment.configuration.as_ref().ok_or(Rejection::EnvironmentNotFound)?;
        if self.role < configuration.force_claim_role {
            return Err(Rejection::RoleTooLow { required: configuration.force_claim_role });
        }
        if configuration.disabled {
            return Err(Rejection::EnvironmentDisabled);
        }

        let mut next = environment.clone();
        next.revision += 1;
        let mut events = Vec::with_capacity(2);
        let successor = SessionId { seed: self.claim.seed, number: next.sessions + 1 };
        let ended = Ended { at: now, by: self.claim.user.clone(), how: EndedHow::Overridden(successor) };
        let overrode = release::end_session(&mut next, ended, now, &mut events);
        if let Some(session) = &overrode {
            events.push(Event::session(Notice::SessionOverridden, session.id));
        }
        let session = claim::grant(&mut next, self.claim, now, &mut events);
        let ended = overrode.iter().cloned().collect();
        Ok(Transition { next, ended, events, reply: ForceClaimed { session, overrode } })
    }
}
