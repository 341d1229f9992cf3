//! Random scripts of commands for one environment, checked against the invariants and a simple model. Several
//! environments and the pool are in [`waiting`].

#![allow(clippy::unwrap_used)]

mod checks;
mod deploying;
mod script;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::samples::{cases, commit, number, person, seed};
use super::*;
use script::{Change, Step, Waits};

proptest! {
    // This many scripts take a few seconds in a debug build.
    #![proptest_config(ProptestConfig { cases: cases(4_000), ..ProptestConfig::default() })]

    #[test]
    fn no_script_of_commands_breaks_an_invariant(resets in any::<bool>(), script in script::steps()) {
        let mut world = World::new(Change::OnRelease(resets));
        for step in script {
            world.play(step);
        }
    }
}

/// The environment, its clients, and the model: every session with a known id, and the running deployments.
struct World {
    environment: Environment,
    now: Now,
    clients: Clients,
    sessions: Vec<Arc<Session>>,
    tokens: Vec<u64>,
    running: Option<DeploymentId>,
    /// A force-claim may ignore the order.
    forcing: bool,
}

/// The presence of clients, and the waiters of the pool.
#[derive(Default)]
struct Clients {
    presence: BTreeMap<Ticket, Presence>,
    pooled: Vec<Arc<Waiter>>,
    numbers: u64,
    tick: i64,
    /// Whether the pipeline has stages.
    staged: bool,
}

impl Clients {
    /// Whether the waiter can get the lock: its client is connected, or has polled recently.
    fn is_there(&self, waiter: &Waiter) -> bool {
        match (self.presence[&waiter.ticket], &waiter.kept_by) {
            (Presence::Connected, _) => true,
            (Presence::LastSeen(Tick(seen)), KeptBy::Polling) => self.tick < seen + 60_000,
            (Presence::LastSeen(_), _) | (Presence::Vanished, _) => false,
        }
    }
}

impl DecisionPorts for Clients {
    fn presence(&self, waiter: &Waiter) -> Presence {
        self.presence[&waiter.ticket]
    }

    fn take_from_pool(&mut self, _: &Configuration, before: Option<Turn>) -> Option<Arc<Waiter>> {
        let first = self.pooled.iter().filter(|waiter| self.is_there(waiter));
        let first = first.min_by_key(|waiter| waiter.turn())?.clone();
        if before.is_some_and(|before| before < first.turn()) {
            return None;
        }
        self.pooled.retain(|waiter| waiter.ticket != first.ticket);
        Some(first)
    }

    fn seed(&mut self) -> IdSeed {
        self.numbers += 1;
        seed(self.numbers)
    }

    fn pipeline(&self) -> PipelineNow {
        samples::pipeline(usize::from(self.staged))
    }
}

impl World {
    fn new(setup: Change) -> Self {
        let now = Now { at: Timestamp::from_millis(1_000_000), tick: Tick(0) };
        let (environment, clients) = (Environment::absent(), Clients::default());
        let mut world =
            Self { environment, now, clients, sessions: Vec::new(), tokens: Vec::new(), running: None, forcing: false };
        world.configure(setup);
        world
    }

    fn run<C: Command>(&mut self, mut command: C) -> Result<C::Reply, Rejection> {
        self.pass(1);
        if let Some(subject) = command.subject() {
            let known = self.sessions.iter().find(|s| s.id == subject.id && s.ended.is_some());
            subject.ended = known.cloned();
        }
        let before = Arc::new(self.environment.clone());
        let first = self.first_in_line();
        let mut outcome = Outcome::default();
        let transition = decide(&before, command, self.now, &mut self.clients, &mut outcome)?;
        assert_eq!(invariants::check(&transition.next), Ok(()));
        assert_eq!(invariants::check_step(&before, &transition.next), Ok(()));
        self.check_queue(&before.queue, &transition.next.queue, &outcome);
        let granted = outcome.granted.as_ref();
        assert!(granted.is_none_or(|granted| self.clients.is_there(&granted.waiter)), "it was granted to nobody");
        self.write_down(&outcome);
        self.environment = Arc::unwrap_or_clone(transition.next);
        self.check_grant(&before, first, &outcome);
        self.check_sessions();
        Ok(transition.reply)
    }

    fn first_in_line(&self) -> Option<Turn> {
        let waiting = self.environment.queue.iter().chain(&self.clients.pooled);
        waiting.filter(|waiter| self.clients.is_there(waiter)).map(|waiter| waiter.turn()).min()
    }

    fn pass(&mut self, millis: i64) {
        self.now = Now { at: self.now.at.plus(millis), tick: self.now.tick.plus(millis) };
        self.clients.tick = self.now.tick.0;
    }

    fn claim(&mut self, who: u8, deploys: bool, staged: bool) -> Claim {
        self.clients.staged = staged;
        let seed = self.clients.seed();
        let request = ClaimRequest { commit: deploys.then(commit), ..samples::request(who) };
        Claim { request, ..samples::claim(number(seed)) }
    }

    fn queue_up(&mut self, claim: &mut Claim, waits: Waits, priority: i64) {
        claim.request.priority = Priority::new(priority).unwrap();
        claim.waits = waits.kept_by(claim.ticket);
        let presence = match waits {
            Waits::No | Waits::Connected | Waits::Keyed => Presence::Connected,
            Waits::Asking => Presence::LastSeen(self.now.tick),
        };
        self.clients.presence.insert(claim.ticket, presence);
    }

    /// The nth newest session, or a nonexistent one.
    fn session(&self, nth: usize) -> SessionRef {
        let never = SessionId { seed: IdSeed([9; 12]), origin: Origin::Granted(1) };
        self.sessions.iter().rev().nth(nth).map_or(never, |session| session.id).into()
    }

    fn nth_waiter(&self, nth: usize) -> Option<Arc<Waiter>> {
        self.environment.queue.iter().nth(nth).cloned()
    }

    fn play(&mut self, step: Step) {
        match step {
            Step::Claim { person: who, deploys, staged, ttl_seconds, waits, priority } => {
                let mut claim = self.claim(who, deploys, staged);
                claim.request.ttl_seconds = ttl_seconds;
                self.queue_up(&mut claim, waits, priority);
                self.check_claim(claim);
            }
            Step::Outsider { person: who, waits, priority } => {
                let mut claim = self.claim(who, false, false);
                self.queue_up(&mut claim, waits, priority);
                self.clients.pooled.push(Arc::new(claim.into_waiter(self.now)));
            }
            Step::ForceClaim { person: who, role, deploys, staged } => {
                let claim = self.claim(who, deploys, staged);
                let configuration = self.environment.configuration.clone();
                let allowed = configuration.is_some_and(|c| !c.disabled && role >= c.force_claim_role);
                let holder = self.environment.lock.as_ref().map(|s| s.id);
                let queue = self.environment.queue.clone();
                self.forcing = true;
                let reply = self.run(samples::by_force(claim, role));
                self.forcing = false;
                assert_eq!(reply.is_ok(), allowed, "{reply:?}");
                if let Ok(claimed) = reply {
                    assert_eq!(claimed.overrode.map(|s| s.id), holder);
                    assert_eq!(self.environment.queue, queue, "the queue keeps waiting");
                }
            }
            Step::Release { person: who, nth, any } => {
                let session = self.session(nth);
                if let Ok(released) = self.run(Release { session: session.clone(), by: person(who), any }) {
                    assert!(released.ended.is_some() && (any || released.user.id == person(who).id));
                    let active = self.environment.session(session.id).filter(|session| session.ended.is_none());
                    assert_eq!(active, None, "it was released and is still there");
                }
            }
            Step::ReleaseLock { person: who, any } => {
                let holder = self.environment.lock.clone();
                let exists = self.environment.exists();
                match (self.run(ReleaseLock { by: person(who), any }), holder) {
                    (Ok(released), Some(holder)) => {
                        assert_eq!((released.id, released.status()), (holder.id, SessionStatus::Released));
                        assert!(any || holder.user.id == person(who).id);
                        assert!(self.environment.lock.as_ref().is_none_or(|lock| lock.id != holder.id));
                    }
                    (Err(Rejection::NotSessionHolder { .. }), Some(holder)) => {
                        assert!(!any && holder.user.id != person(who).id);
                    }
                    (Err(Rejection::LockNotFound), None) => assert!(exists),
                    (Err(Rejection::EnvironmentNotFound), None) => assert!(!exists),
                    (reply, holder) => panic!("{reply:?} with the holder {holder:?}"),
                }
            }
            Step::Deploy { person: who, nth, staged } => {
                self.clients.staged = staged;
                let (session, may) = self.held_by(nth, who);
                let seed = self.clients.seed();
                let deploy = Deploy { session, by: person(who), seed, commit: commit(), fencing_token: None };
                let reply = self.run(deploy);
                assert!(reply.is_err() || may, "somebody deployed without holding the lock");
                assert!(reply.is_ok() || !may || matches!(reply, Err(Rejection::DeploymentQueueFull { .. })));
            }
            Step::Heartbeat { person: who, nth, stale } => {
                let (session, may) = self.held_by(nth, who);
                let token = self.environment.fencing_token - u64::from(stale && self.environment.fencing_token > 0);
                let reply = self.run(Heartbeat { session, by: person(who), fencing_token: Some(token) });
                assert_eq!(reply.is_ok(), may && !stale, "{reply:?}");
            }
            Step::Finish { outcome } => {
                let Some(deployment) = self.running else { return };
                let end = samples::end_stage(&self.environment, script::end(outcome));
                self.run(end).unwrap();
                assert_ne!(self.running, Some(deployment));
            }
            Step::FinishUnknown => {
                let of = StageAttempt { deployment: DeploymentId(IdSeed([7; 12])), stage: 0, attempt: 1 };
                let reply = self.run(EndStage { of, end: StageEnd::Succeeded, steps: Vec::new() });
                assert_eq!(reply, Err(Rejection::DeploymentNotRunning));
            }
            Step::Configure(change) => self.configure(change),
            Step::Delete => {
                let environment = &self.environment;
                let idle = environment.lock.is_none() && environment.queue.is_empty() && self.running.is_none();
                let exists = environment.exists();
                let reply = self.run(Delete { expected: None });
                assert_eq!(reply.is_ok(), idle && exists, "{reply:?}");
            }
            Step::Pass { millis } => self.pass(millis),
            Step::Elapse { millis } => {
                self.pass(millis);
                let next = self.run(Elapse).unwrap();
                let expiry = self.environment.lock.as_deref().and_then(Session::expiry);
                assert!(!expiry.is_some_and(|(until, _)| until.has_passed(self.now)), "what ran out has not ended");
                assert!(next.is_none_or(|due| due > self.now.tick), "somebody lost their place and is still there");
            }
            Step::Vanish { nth } => {
                let Some(waiter) = self.nth_waiter(nth) else { return };
                if self.clients.presence[&waiter.ticket] == Presence::Connected {
                    self.clients.presence.insert(waiter.ticket, Presence::Vanished);
                }
            }
            Step::HangUp { nth } => {
                let Some(ticket) = self.nth_waiter(nth).map(|waiter| waiter.ticket) else { return };
                self.clients.presence.insert(ticket, Presence::Vanished);
                self.run(HangUp { tickets: vec![ticket] }).unwrap();
                assert_eq!(self.environment.queue.get(ticket), None);
            }
            Step::StopWaiting { nth } => {
                let Some(ticket) = self.nth_waiter(nth).map(|waiter| waiter.ticket) else { return };
                let gone = self.clients.presence[&ticket] == Presence::Vanished;
                let refused = self.run(StopWaiting { ticket }).unwrap().is_some();
                let granted = self.environment.lock.as_ref().is_some_and(|lock| number(lock.id.seed) == ticket.0);
                assert!(gone || refused != granted, "it is told one or the other");
                assert_eq!(self.run(StopWaiting { ticket }), Ok(None));
            }
            Step::Ask { nth } => {
                let asking = |waiter: &Arc<Waiter>| waiter.kept_by == KeptBy::Polling;
                if let Some(waiter) = self.nth_waiter(nth).filter(asking) {
                    self.clients.presence.insert(waiter.ticket, Presence::LastSeen(self.now.tick));
                }
            }
            Step::ComeBack { nth } => {
                let Some(waiter) = self.nth_waiter(nth) else { return };
                if matches!(self.clients.presence[&waiter.ticket], Presence::LastSeen(_))
                    && waiter.kept_by != KeptBy::Polling
                {
                    self.clients.presence.insert(waiter.ticket, Presence::Connected);
                    self.run(HandOver).unwrap();
                }
            }
            Step::HandOver => self.run(HandOver).unwrap(),
            Step::Seen => {
                let Some(session) = self.environment.lock.as_ref().map(|session| session.id) else { return };
                self.run(Seen { session }).unwrap();
                let claimed = self.environment.lock.as_ref().and_then(|session| session.claimed.as_ref()).unwrap();
                assert_eq!(claimed.unseen_until, None);
            }
            Step::Undelivered { keyed } => {
                let Some(holder) = self.environment.lock.as_ref() else { return };
                let (session, seen) = (holder.id, holder.claimed.as_ref().unwrap().seen);
                self.run(Undelivered { session, keyed }).unwrap();
                let holder = self.environment.lock.as_ref().filter(|holder| holder.id == session);
                assert_eq!(holder.is_some(), keyed || seen, "only who can come back keeps what it was not told of");
            }
            Step::Restart { millis } => self.restart(millis),
        }
    }

    fn check_claim(&mut self, claim: Claim) {
        let (before, ticket, waits) = (self.environment.clone(), claim.ticket, claim.waits.is_some());
        let (limit, max_ttl) =
            before.configuration.as_ref().map_or((0, 0), |c| (c.max_queue_length as usize, c.max_ttl_seconds));
        let too_long = claim.request.ttl_seconds.is_some_and(|ttl| ttl > max_ttl);
        let claimable = before.configuration.as_ref().is_some_and(|c| !c.disabled) && !too_long;
        let reply = self.run(claim);
        assert_eq!(reply.is_ok(), claimable, "{reply:?}");
        let waiting = self.environment.queue.get(ticket).is_some();
        match reply {
            Ok(ClaimReply::Granted(session)) => {
                assert!(before.is_vacant(), "a lock was given that was not free");
                assert_eq!(self.environment.lock, Some(session));
            }
            Ok(ClaimReply::Queued { session, position, .. }) => {
                let waiter = self.environment.queue.session(session.id).expect("who is queued is in the queue");
                assert_eq!(self.environment.queue.position(waiter), position);
                self.sessions.push(session);
            }
            Ok(ClaimReply::Waiting) => assert!(waiting),
            Ok(ClaimReply::Refused(Rejection::QueueFull { .. })) => assert!(waits && before.queue.len() >= limit),
            Ok(ClaimReply::Refused(Rejection::QueueShare(_))) => assert!(waits && before.queue.len() >= limit / 2),
            Ok(ClaimReply::Refused(_)) => assert!(!waits && !self.environment.is_vacant()),
            Err(_) => assert!(!waiting),
        }
    }

    /// The nth newest session, and whether it belongs to this person and holds the lock.
    fn held_by(&self, nth: usize, who: u8) -> (SessionRef, bool) {
        let session = self.session(nth);
        let may = self.environment.lock.as_ref().map(|s| (s.id, s.user.id)) == Some((session.id, person(who).id));
        (session, may)
    }

    fn configure(&mut self, change: Change) {
        let present = self.environment.configuration.as_deref().cloned().unwrap_or_default();
        let configuration = change.applied_to(present);
        self.run(Configure { configuration, expected: None }).unwrap();
    }

    /// A restart loses everything that is not durable, and all connections.
    fn restart(&mut self, millis: i64) {
        let same_boot = millis % 2 == 0;
        let tick = if same_boot { self.now.tick.plus(millis) } else { Tick(self.now.tick.0 % 1_000) };
        self.now = Now { at: self.now.at.plus(millis), tick };
        self.clients.pooled.retain(|waiter| waiter.is_durable());
        let mut queue = Queue::new();
        for waiter in self.environment.queue.iter().filter(|waiter| waiter.is_durable()) {
            queue.insert(waiter.clone());
        }
        self.environment.queue = queue;
        for waiter in self.environment.queue.iter().chain(&self.clients.pooled) {
            self.clients.presence.insert(waiter.ticket, Presence::LastSeen(self.now.tick));
        }
        self.environment.rearm(self.now, same_boot);
        let expiry = self.environment.lock.as_deref().and_then(Session::expiry);
        assert!(!expiry.is_some_and(|(until, _)| until.has_passed(self.now)), "nobody could have kept it up");
        // The environment and the model both convert the deadlines to the new process, without a new revision.
        let lock = self.environment.lock.clone();
        for holder in lock.into_iter() {
            self.sessions.iter_mut().filter(|known| known.id == holder.id).for_each(|known| *known = holder.clone());
        }
        self.run(HandOver).unwrap();
    }
}
