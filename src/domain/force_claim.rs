//! Force-claim: ends the holder's session and takes the lock, in one step without a gap. The queue keeps waiting.

use super::{
    ClaimRequest, Command, Draft, Ended, EndedHow, IdSeed, Origin, Rejection, Role, Session, SessionId, claim, release, reset,
};

#[derive(Debug, Clone)]
pub struct ForceClaim {
    pub request: ClaimRequest,
    pub seed: IdSeed,
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

    fn decide(self, draft: &mut Draft<'_>) -> Result<ForceClaimed, Rejection> {
        let configuration = draft.next.configuration.clone().ok_or(Rejection::EnvironmentNotFound)?;
        if self.role < configuration.force_claim_role {
            return Err(Rejection::RoleTooLow { required: configuration.force_claim_role });
        }
        draft.next.available()?;
        self.request.check(&configuration)?;

        let origin = Origin::Granted(draft.next.fencing_token + 1);
        let successor = SessionId { seed: self.seed, origin };
        let by = Some(self.request.user.clone());
        let ended = Ended { at: draft.now.at, by, how: EndedHow::Overridden(successor) };
        let overrode = release::end_session(draft, ended);
        draft.outcome.events.extend(overrode.as_ref().and_then(Session::end_event));
        reset::cancel(draft);
        let session = self.request.into_session(successor, draft.now);
        let session = claim::grant(draft, session);
        Ok(ForceClaimed { session, overrode })
    }

    fn grants(reply: &ForceClaimed) -> Option<SessionId> {
        Some(reply.session.id)
    }
}
