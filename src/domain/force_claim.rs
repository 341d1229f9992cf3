//! Force-claim: ends the holder's session and takes the lock in one step. The queue keeps waiting.

use std::sync::Arc;

use super::{
    ClaimRequest, Command, Decision, Ended, EndedHow, IdSeed, Origin, Rejection, Role, Session, SessionId, claim,
    release, reset,
};

#[derive(Debug, Clone)]
pub struct ForceClaim {
    pub request: ClaimRequest,
    pub seed: IdSeed,
    pub role: Role,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForceClaimed {
    pub session: Arc<Session>,
    /// The session that had the lock, as it ended.
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
        let session = claim::grant(decision, session);
        Ok(ForceClaimed { session, overrode })
    }

    fn grants(reply: &ForceClaimed) -> Option<SessionId> {
        Some(reply.session.id)
    }
}
