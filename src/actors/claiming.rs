//! A claim from the caller's side: sent, waited for as long as the caller wants, and taken back if the caller goes.

use std::time::Duration;

use tokio::sync::oneshot;

use super::crowd::{Held, Keyed};
use super::directory::Note;
use super::environment::{AskClaim, Attach};
use super::environments::{Environments, Failure};
use super::restart::{KeptPlace, Place};
use crate::domain::{Claim, EnvironmentKey, Kept, Labels, PipelineKey, PlaceKey, Session, SessionId, Ticket};

/// What a claim does if the lock is not free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// How long its caller waits for its turn.
    pub wait: Duration,
    /// Whether its place is kept beyond that, as a queued session.
    pub queue: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimOutcome {
    Granted {
        environment: EnvironmentKey,
        session: Box<Session>,
    },
    /// A session to ask about, and its position.
    Queued {
        session: Box<Session>,
        position: usize,
    },
}

type Answers = oneshot::Receiver<Result<ClaimOutcome, Failure>>;

impl Environments {
    /// Claims the environment. If the future is dropped, the claim is withdrawn, and what it was granted taken back.
    pub async fn claim(
        &self,
        key: &EnvironmentKey,
        mut claim: Claim,
        patience: Patience,
        keyed: Option<Keyed<ClaimOutcome>>,
    ) -> Result<ClaimOutcome, Failure> {
        let keyed = match self.resume(keyed, patience).await {
            Resumed::Outcome(outcome) => return outcome,
            Resumed::Anew(keyed) => keyed,
        };
        self.take_ticket(&mut claim, patience, keyed.as_ref());
        let (held, call) = self.call(Place::Environment(key.clone()), claim.ticket, keyed);
        let hold = !patience.wait.is_zero();
        match self.send(key, AskClaim { claim, hold, held }) {
            Ok(()) => call.wait(patience).await,
            Err(failure) => Err(call.defused(failure)),
        }
    }

    /// Claims any environment of the pipeline that has these labels, in the same way.
    pub async fn claim_any(
        &self,
        pipeline: &PipelineKey,
        labels: Labels,
        mut claim: Claim,
        patience: Patience,
        keyed: Option<Keyed<ClaimOutcome>>,
    ) -> Result<ClaimOutcome, Failure> {
        let pool = self.pool(pipeline);
        pool.learn(self).await?;
        let keyed = match self.resume(keyed, patience).await {
            Resumed::Outcome(outcome) => return outcome,
            Resumed::Anew(keyed) => keyed,
        };
        self.take_ticket(&mut claim, patience, keyed.as_ref());
        let (held, call) = self.call(Place::Pool(pipeline.clone()), claim.ticket, keyed);
        let hold = !patience.wait.is_zero();
        match pool.arrive(self, labels, claim, hold, held) {
            Ok(()) => call.wait(patience).await,
            Err(failure) => Err(call.defused(failure)),
        }
    }

    /// A grant was not told to its client, who has gone. With a key it may come back for it, for a while.
    pub fn undelivered(&self, key: &EnvironmentKey, session: SessionId, keyed: bool) {
        self.note(key, Note::Undelivered { session, keyed });
    }

    /// For a client that comes again with its key after the server has ended: its place in the queue, if it is still
    /// kept.
    async fn resume(&self, keyed: Option<Keyed<ClaimOutcome>>, patience: Patience) -> Resumed {
        let Some(keyed) = keyed else { return Resumed::Anew(None) };
        let known = self.parts.places.get(keyed.pending.record_key()).map(|known| known.clone());
        let Some(KeptPlace { place, ticket, fingerprint }) = known else { return Resumed::Anew(Some(keyed)) };
        if fingerprint != keyed.pending.fingerprint().0 {
            return Resumed::Outcome(Err(Failure::KeyReused));
        }
        let (held, call) = self.call(place.clone(), ticket, Some(keyed));
        let attached = match &place {
            Place::Environment(key) => {
                let (reply, attached) = oneshot::channel();
                match self.send(key, Attach { ticket, held, reply }) {
                    Ok(()) => attached.await.unwrap_or(Err(None)),
                    Err(failure) => return Resumed::Outcome(Err(call.defused(failure))),
                }
            }
            Place::Pool(pipeline) => self.pool(pipeline).attach(self, ticket, held),
        };
        match attached {
            Ok(()) => Resumed::Outcome(call.wait(patience).await),
            // Its place is gone, but it is not: it waits anew. Without its key, its actor has died with it.
            Err(Some(keyed)) => {
                call.defuse();
                Resumed::Anew(Some(keyed))
            }
            Err(None) => Resumed::Outcome(Err(call.defused(Failure::Unavailable))),
        }
    }

    fn take_ticket(&self, claim: &mut Claim, patience: Patience, keyed: Option<&Keyed<ClaimOutcome>>) {
        claim.ticket = self.parts.next_ticket();
        claim.via = self.agent().and_then(|agent| agent.via.clone());
        claim.waits = match keyed {
            _ if patience.queue => Some(Kept::ByAsking),
            _ if patience.wait.is_zero() => None,
            Some(keyed) => Some(Kept::ByKey(PlaceKey {
                record: keyed.pending.record_key().into(),
                fingerprint: keyed.pending.fingerprint().0,
            })),
            None => Some(Kept::ByConnection),
        };
    }

    fn call(&self, place: Place, ticket: Ticket, keyed: Option<Keyed<ClaimOutcome>>) -> (Held, Call) {
        let (reply, answers) = oneshot::channel();
        let has_key = keyed.is_some();
        let call = Call { environments: self.clone(), place, ticket, has_key, answers: Some(answers) };
        (Held { reply, keyed }, call)
    }
}

enum Resumed {
    Outcome(Result<ClaimOutcome, Failure>),
    /// There is no place to come back to.
    Anew(Option<Keyed<ClaimOutcome>>),
}

/// A claim under way. Dropped before its answer has come, it withdraws.
struct Call {
    environments: Environments,
    place: Place,
    ticket: Ticket,
    has_key: bool,
    answers: Option<Answers>,
}

/// What ends a wait.
enum Event {
    Answered(Result<Result<ClaimOutcome, Failure>, oneshot::error::RecvError>),
    Closing,
    LongEnough,
}

impl Call {
    async fn wait(mut self, patience: Patience) -> Result<ClaimOutcome, Failure> {
        if !patience.wait.is_zero() {
            let mut closing = self.environments.parts.closing.subscribe();
            let event = tokio::select! {
                biased;
                outcome = answer(&mut self.answers) => Event::Answered(outcome),
                _ = closing.wait_for(|closing| *closing) => Event::Closing,
                () = tokio::time::sleep(patience.wait) => Event::LongEnough,
            };
            match event {
                Event::Answered(outcome) => return self.answered(outcome),
                // A queued session stays; the others are to come again, those with a key to their place.
                Event::Closing if !patience.queue => return Err(self.defused(Failure::ComeAgain)),
                Event::Closing | Event::LongEnough => {}
            }
            self.give_up();
        }
        match tokio::time::timeout(self.environments.parts.options.answer_timeout, answer(&mut self.answers)).await {
            Ok(outcome) => self.answered(outcome),
            Err(_) => Err(Failure::TimedOut),
        }
    }

    fn answered(
        mut self,
        outcome: Result<Result<ClaimOutcome, Failure>, oneshot::error::RecvError>,
    ) -> Result<ClaimOutcome, Failure> {
        self.answers = None;
        outcome.unwrap_or(Err(Failure::Unavailable))
    }

    /// It has waited long enough: whoever has its place answers it now, one way or the other.
    fn give_up(&self) {
        match &self.place {
            Place::Environment(key) => _ = self.environments.note(key, Note::LongEnough(self.ticket)),
            Place::Pool(pipeline) => self.environments.pool(pipeline).give_up(&self.environments, self.ticket),
        }
    }

    /// Somebody else has what it was about.
    fn defuse(mut self) {
        self.answers = None;
    }

    fn defused(self, failure: Failure) -> Failure {
        self.defuse();
        failure
    }
}

async fn answer(answers: &mut Option<Answers>) -> Result<Result<ClaimOutcome, Failure>, oneshot::error::RecvError> {
    match answers {
        Some(answers) => answers.await,
        None => std::future::pending().await,
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let Some(mut answers) = self.answers.take() else { return };
        answers.close();
        match answers.try_recv() {
            Ok(Ok(ClaimOutcome::Granted { environment, session })) => {
                let note = Note::Undelivered { session: session.id, keyed: self.has_key };
                self.environments.note(&environment, note);
            }
            Ok(_) => {}
            Err(_) => match &self.place {
                Place::Environment(key) => _ = self.environments.note(key, Note::HungUp(self.ticket)),
                Place::Pool(pipeline) => self.environments.pool(pipeline).hang_up(&self.environments, self.ticket),
            },
        }
    }
}
