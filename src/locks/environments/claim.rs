//! Claims from the caller's side: sent, awaited as long as the caller wants, and withdrawn if the caller disconnects.
//! Includes claims of any environment of a pipeline.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Environments;
use super::reads::SessionFound;
use crate::actor::messages::{AskClaim, Attach};
use crate::ports::Failure;
use crate::services::signals::Signal;
use crate::services::waiters::{ClaimOutcome, HeldClient, KeptPlace, Keyed, QueueRef, WaitingPlace};
use crate::time_limit;
use ambient::entropy;
use domain::{
    Claim, ClaimAny, ClaimRequest, EnvironmentKey, Holder, Identifier, KeptBy, Labels, Person, PipelineKey, PlaceKey,
    Seen, Session, SessionId, Ticket,
};
use store::{StoreError, durable_up_to};

/// How long a claim waits if the lock is not free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitPolicy {
    /// How long the caller holds its connection open.
    pub wait: Duration,
    /// Whether the place is kept after that, as a queued session.
    pub queue: bool,
}

impl WaitPolicy {
    const NONE: Self = Self { wait: Duration::ZERO, queue: false };

    fn waits(self) -> bool {
        self != Self::NONE
    }
}

type Answers = oneshot::Receiver<Result<ClaimOutcome, Failure>>;

impl Environments {
    /// Claims the environment. If the future is dropped, the claim is withdrawn and a grant taken back.
    pub async fn claim(
        &self,
        key: &EnvironmentKey,
        request: ClaimRequest,
        policy: WaitPolicy,
        keyed: Option<Keyed<ClaimOutcome>>,
    ) -> Result<ClaimOutcome, Failure> {
        let send = |claim, hold, client| self.directory.send(key, AskClaim { claim, hold, client });
        self.claim_in(QueueRef::Environment(key), request, policy, keyed, send).await
    }

    /// Claims any environment of the pipeline that has these labels, in the same way.
    pub async fn claim_any(
        &self,
        pipeline: &PipelineKey,
        labels: Labels,
        request: ClaimRequest,
        policy: WaitPolicy,
        keyed: Option<Keyed<ClaimOutcome>>,
    ) -> Result<ClaimOutcome, Failure> {
        let (services, pool) = (self.services(), self.directory.pools.get(pipeline));
        pool.learn(services).await?;
        let labels = Arc::new(labels);
        let join = |claim, hold, client| pool.join(services, ClaimAny { claim, labels, hold }, client);
        self.claim_in(QueueRef::Pool(pipeline), request, policy, keyed, join).await
    }

    /// `send` hands the claim to the queue; its second argument says whether the caller waits on its connection.
    async fn claim_in(
        &self,
        queue: QueueRef<'_>,
        request: ClaimRequest,
        policy: WaitPolicy,
        keyed: Option<Keyed<ClaimOutcome>>,
        send: impl FnOnce(Claim, bool, HeldClient) -> Result<(), Failure>,
    ) -> Result<ClaimOutcome, Failure> {
        let keyed = match self.resume(keyed.map(Box::new), policy).await {
            Resumed::Outcome(outcome) => return outcome,
            Resumed::Anew(keyed) => keyed,
        };
        let place = policy.waits().then(|| self.place(queue));
        let (place, refused) = match place.transpose() {
            Ok(place) => (place, None),
            Err(refused) => (None, Some(refused)),
        };
        // A claim without a place does not wait, but still gets a free lock.
        let policy = if refused.is_some() { WaitPolicy::NONE } else { policy };
        let claim = self.new_claim(request, policy, keyed.as_deref());
        let (client, call) = self.call(queue, claim.ticket, keyed, place);
        let outcome = match send(claim, !policy.wait.is_zero(), client) {
            Ok(()) => call.wait(policy).await,
            Err(failure) => Err(call.defused(failure)),
        };
        match (outcome, refused) {
            (Err(Failure::Rejected(rejection)), Some(refused)) if rejection.means_locked() => Err(refused),
            (outcome, _) => outcome,
        }
    }

    /// A grant could not be delivered because the client is gone. With a key the client may return for it, for a while.
    pub fn undelivered(&self, key: &EnvironmentKey, session: SessionId, keyed: bool) {
        self.services().signal(key, Signal::Undelivered { session, keyed });
    }

    /// The client has seen that its session holds the lock, which no longer expires for lack of a poll. While the disk
    /// is full, this is kept in memory and stored later.
    pub async fn seen(&self, key: &EnvironmentKey, session: SessionId) -> Result<(), Failure> {
        match self.ask(key, Seen { session }).await {
            Err(Failure::Store(error)) if error.is_lack_of_room() => {
                self.services().signal(key, Signal::Seen(session));
                Ok(())
            }
            seen => seen,
        }
    }

    /// Attaches a client that returns with its key after a restart to its place in the queue.
    async fn resume(&self, keyed: Option<Box<Keyed<ClaimOutcome>>>, policy: WaitPolicy) -> Resumed {
        let Some(keyed) = keyed else { return Resumed::Anew(None) };
        let kept = self.services().waiters.kept_place(keyed.pending.record_key());
        let Some(KeptPlace { queue, ticket, fingerprint }) = kept else { return Resumed::Anew(Some(keyed)) };
        if fingerprint != keyed.pending.fingerprint().0 {
            return Resumed::Outcome(Err(Failure::KeyReused));
        }
        let queue = queue.borrowed();
        let place = self.place(queue).ok();
        let (client, call) = self.call(queue, ticket, Some(keyed), place);
        let attached = match queue {
            QueueRef::Environment(key) => {
                let (reply, attached) = oneshot::channel();
                match self.directory.send(key, Attach { ticket, client, reply }) {
                    Ok(()) => attached.await.unwrap_or(Err(None)),
                    Err(failure) => return Resumed::Outcome(Err(call.defused(failure))),
                }
            }
            QueueRef::Pool(pipeline) => self.directory.pools.get(pipeline).attach(self.services(), ticket, client),
        };
        match attached {
            Ok(()) => Resumed::Outcome(call.wait(policy).await),
            // The place is gone, so the client starts waiting again. If the key is gone too, the actor has died with
            // it.
            Err(Some(keyed)) => {
                call.defuse();
                Resumed::Anew(Some(keyed))
            }
            Err(None) => Resumed::Outcome(Err(call.defused(Failure::Unavailable))),
        }
    }

    /// Takes a place for the caller.
    fn place(&self, queue: QueueRef<'_>) -> Result<WaitingPlace, Failure> {
        let by = self.by.as_ref();
        let holder = by.map(|initiator| Holder { member: initiator.person.id, is_admin: self.is_admin });
        self.services().waiters.place(queue, holder, by.and_then(|initiator| initiator.via.as_ref()))
    }

    fn new_claim(&self, request: ClaimRequest, policy: WaitPolicy, keyed: Option<&Keyed<ClaimOutcome>>) -> Claim {
        let waits = match keyed {
            _ if policy.queue => Some(KeptBy::Polling),
            _ if policy.wait.is_zero() => None,
            Some(keyed) => Some(KeptBy::Key(PlaceKey {
                record: keyed.pending.record_key().into(),
                fingerprint: keyed.pending.fingerprint().0,
            })),
            None => Some(KeptBy::Connection),
        };
        // A client that waits on its connection learns its session's id later, and without a key has no other way to
        // find the session.
        let known = policy.wait.is_zero() || keyed.is_some();
        let ticket = self.services().waiters.next_ticket();
        let via = self.by.as_ref().and_then(|initiator| initiator.via.clone());
        Claim { request, seed: entropy::id_seed(), ticket, waits, known, is_admin: self.is_admin, via }
    }

    fn call<'a>(
        &'a self,
        queue: QueueRef<'a>,
        ticket: Ticket,
        keyed: Option<Box<Keyed<ClaimOutcome>>>,
        place: Option<WaitingPlace>,
    ) -> (HeldClient, Call<'a>) {
        let (reply, answers) = oneshot::channel();
        let has_key = keyed.is_some();
        let call = Call { environments: self, queue, ticket, has_key, answers: Some(answers) };
        (HeldClient { reply, keyed, place }, call)
    }
}

enum Resumed {
    Outcome(Result<ClaimOutcome, Failure>),
    /// The claim has no kept place.
    Anew(Option<Box<Keyed<ClaimOutcome>>>),
}

/// A running claim. Dropping it before the answer has come withdraws the claim.
struct Call<'a> {
    environments: &'a Environments,
    queue: QueueRef<'a>,
    ticket: Ticket,
    has_key: bool,
    answers: Option<Answers>,
}

impl Call<'_> {
    async fn wait(mut self, policy: WaitPolicy) -> Result<ClaimOutcome, Failure> {
        if !policy.wait.is_zero() {
            let closing = tokio::select! {
                biased;
                outcome = answer(&mut self.answers) => {
                    self.defuse();
                    return outcome;
                }
                () = self.environments.closed() => true,
                () = tokio::time::sleep(policy.wait) => false,
            };
            // Queued sessions stay. Other clients must come back; those with a key return to their place.
            if closing && !policy.queue {
                return Err(self.defused(Failure::ShuttingDown));
            }
            self.give_up();
        }
        let limit = self.environments.services().options.answer_timeout;
        match time_limit::within(limit, answer(&mut self.answers)).await {
            Ok(outcome) => {
                self.defuse();
                outcome
            }
            Err(_) => Err(Failure::TimedOut),
        }
    }

    /// The caller has waited long enough: the actor or pool that has the place answers it now.
    fn give_up(&self) {
        let (services, pools) = (self.environments.services(), &self.environments.directory.pools);
        match self.queue {
            QueueRef::Environment(key) => _ = services.signal(key, Signal::WaitedEnough(self.ticket)),
            QueueRef::Pool(pipeline) => pools.get(pipeline).give_up(services, self.ticket),
        }
    }

    /// The outcome is handled elsewhere, so the claim is not withdrawn on drop.
    fn defuse(mut self) {
        self.answers = None;
    }

    fn defused(self, failure: Failure) -> Failure {
        self.defuse();
        failure
    }
}

async fn answer(answers: &mut Option<Answers>) -> Result<ClaimOutcome, Failure> {
    match answers {
        Some(answers) => answers.await.unwrap_or(Err(Failure::Unavailable)),
        None => std::future::pending().await,
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let Some(mut answers) = self.answers.take() else { return };
        let (services, pools) = (self.environments.services(), &self.environments.directory.pools);
        answers.close();
        match answers.try_recv() {
            Ok(Ok(ClaimOutcome::Granted { environment, session })) => {
                services.signal(&environment, Signal::Undelivered { session: session.id, keyed: self.has_key });
            }
            Ok(_) => {}
            Err(_) => match self.queue {
                QueueRef::Environment(key) => _ = services.signal(key, Signal::HungUp(self.ticket)),
                QueueRef::Pool(pipeline) => pools.get(pipeline).hang_up(services, self.ticket),
            },
        }
    }
}

/// How many holders a refusal names: enough to know whom to ask.
pub const HOLDERS_MAX: usize = 10;
/// The number of locked environments examined: some may have become free, or may be resetting.
const TAKEN_LOOKED_AT: usize = 32;

impl Environments {
    /// Removes waiters for any environment whose last poll is too long ago.
    pub fn expire_pools(&self) {
        for pool in self.directory.pools.active() {
            pool.expire(self.services());
        }
    }

    /// The number of waiters for any environment, in all pipelines.
    pub fn waiting_for_any(&self) -> usize {
        self.directory.pools.active().iter().map(|pool| pool.len()).sum()
    }

    /// Resumes serving the last run's waiters for any environment.
    pub async fn resume_pools(&self) -> Result<(), StoreError> {
        for pool in self.directory.pools.active() {
            pool.learn(self.services()).await?;
        }
        Ok(())
    }

    /// Up to [`HOLDERS_MAX`] holders of environments with these labels, longest hold first.
    pub fn holders(
        &self,
        pipeline: &PipelineKey,
        labels: &Labels,
    ) -> Result<Vec<(Identifier, Arc<Session>)>, StoreError> {
        let mut holders = Vec::new();
        for name in self.directory.pools.get(pipeline).taken(labels, TAKEN_LOOKED_AT) {
            let key = EnvironmentKey { pipeline: pipeline.clone(), name };
            let lock = self.at_a_glance(&key)?.and_then(|environment| environment.lock.clone());
            holders.extend(lock.map(|lock| (key.name, lock)));
            if holders.len() == HOLDERS_MAX {
                break;
            }
        }
        holders.sort_by_key(|(_, holder)| holder.claimed.as_ref().map(|claimed| claimed.at));
        Ok(holders)
    }

    /// Ends the session of a waiter for any environment. Returns the session unchanged if it has already ended, or has
    /// been granted an environment.
    pub async fn leave_pool(
        &self,
        pipeline: &PipelineKey,
        id: SessionId,
        by: &Person,
        any: bool,
    ) -> Result<Option<SessionFound>, Failure> {
        let (services, pool) = (self.services(), self.directory.pools.get(pipeline));
        let mut watch = self.watch_session(id);
        loop {
            let released = pool.release(services, id, by, any, self.by.as_ref())?;
            if let Some((session, sequence)) = released {
                durable_up_to(services.store(), sequence).await;
                // Ensures that a read after this answer shows the session as ended.
                while pool.session(id).is_some() {
                    watch.changed().await;
                }
                return Ok(Some(SessionFound { environment: None, session, waiting: None }));
            }
            let Some(found) = self.session_of_any(pipeline, id, by.id)? else { return Ok(None) };
            // A session that has an environment is released there, under the same permission check.
            if found.environment.is_none() {
                found.session.check_user(by, any)?;
            }
            if found.waiting.is_none() || found.environment.is_some() {
                return Ok(Some(found));
            }
            // An environment has taken the waiter, or the waiter is leaving, but not durably yet.
            match tokio::time::timeout(services.options.answer_timeout, watch.changed()).await {
                Ok(()) => {}
                Err(_) => return Err(Failure::TimedOut),
            }
        }
    }
}
