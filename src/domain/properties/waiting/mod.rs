//! Random scripts for several environments and the pool, against a sequential model. After every step both must agree
//! on the holders, the waiters and their order.

mod model;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::script::{self, Change, Waits};
use crate::samples::{self, cases, number, person, seed};
use crate::*;
use model::{ClientState, Model, ModelEnvironment, ModelWaiter, Reset, Verdict, Wants};

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(4_000), ..ProptestConfig::default() })]

    #[test]
    fn the_environments_go_to_whom_the_model_gives_them(
        resets in prop::collection::vec(any::<bool>(), 3),
        script in prop::collection::vec(step(), 1..50),
    ) {
        let mut harness = Harness::new(&resets);
        for step in script {
            harness.play(step);
            harness.compare();
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Claim { wants: Wants, waits: Waits, priority: i64, ttl_seconds: Option<u32> },
    Force { room: usize, ttl_seconds: Option<u32> },
    Release { room: usize },
    Heartbeat { room: usize },
    Look { room: usize },
    Undelivered { room: usize, keyed: bool },
    Ask { nth: usize },
    Leave { nth: usize, in_time: bool },
    ComeBack { nth: usize },
    FinishReset { room: usize, outcome: u8 },
    Configure { room: usize, change: Change },
    Pass { millis: i64 },
    Restart { millis: i64 },
}

const ROOMS: usize = 3;
const LABELS: [&[&str]; ROOMS] = [&["large"], &["large", "linux"], &[]];

fn step() -> impl Strategy<Value = Step> {
    let wants = prop_oneof![
        3 => (0..ROOMS).prop_map(Wants::Room),
        2 => prop::sample::subsequence(vec!["large", "linux"], 0..=2).prop_map(Wants::Any),
    ];
    let room = 0..ROOMS;
    let nth = 0..6usize;
    let change = script::change().prop_filter("the model has no deployments and no roles", |change| {
        !matches!(change, Change::DeployOnClaim(_) | Change::ForceClaimRole(_) | Change::MaxTtl(_))
    });
    let ttl = || prop::option::of(1..90u32);
    prop_oneof![
        14 => (wants, script::waits(), script::priority(), ttl())
            .prop_map(|(wants, waits, priority, ttl_seconds)| Step::Claim { wants, waits, priority, ttl_seconds }),
        1 => (room.clone(), ttl()).prop_map(|(room, ttl_seconds)| Step::Force { room, ttl_seconds }),
        8 => room.clone().prop_map(|room| Step::Release { room }),
        1 => room.clone().prop_map(|room| Step::Heartbeat { room }),
        1 => room.clone().prop_map(|room| Step::Look { room }),
        1 => (room.clone(), any::<bool>()).prop_map(|(room, keyed)| Step::Undelivered { room, keyed }),
        2 => nth.clone().prop_map(|nth| Step::Ask { nth }),
        2 => (nth.clone(), any::<bool>()).prop_map(|(nth, in_time)| Step::Leave { nth, in_time }),
        2 => nth.prop_map(|nth| Step::ComeBack { nth }),
        5 => (room.clone(), 0..6u8).prop_map(|(room, outcome)| Step::FinishReset { room, outcome }),
        2 => (room, change).prop_map(|(room, change)| Step::Configure { room, change }),
        4 => script::millis().prop_map(|millis| Step::Pass { millis }),
        1 => script::millis().prop_map(|millis| Step::Restart { millis }),
    ]
}

/// The environments, the pool and the model. Each step is completed before the next.
struct Harness {
    now: Now,
    environments: Vec<Environment>,
    names: Vec<Identifier>,
    pool: Pool,
    presence: BTreeMap<Ticket, Presence>,
    numbers: u64,
    model: Model,
}

struct TestPorts<'a> {
    pool: &'a mut Pool,
    presence: &'a BTreeMap<Ticket, Presence>,
    numbers: &'a mut u64,
}

impl DecisionPorts for TestPorts<'_> {
    fn presence(&self, waiter: &Waiter) -> Presence {
        self.presence[&waiter.ticket]
    }

    fn take_from_pool(&mut self, configuration: &Configuration, before: Option<Turn>) -> Option<Arc<Waiter>> {
        let presence = self.presence;
        self.pool.take(configuration, before, |waiter| presence[&waiter.ticket])
    }

    fn seed(&mut self) -> IdSeed {
        *self.numbers += 1;
        seed(*self.numbers)
    }

    fn pipeline(&self) -> PipelineNow {
        samples::pipeline(1)
    }
}

impl Harness {
    fn new(resets: &[bool]) -> Self {
        let rooms =
            LABELS.iter().zip(resets).map(|(labels, resets)| ModelEnvironment::new(labels.to_vec(), *resets)).collect();
        let now = samples::at(0);
        let mut harness = Self {
            now,
            environments: vec![Environment::absent(); ROOMS],
            names: (0..ROOMS).map(|room| Identifier::parse(&format!("room-{room}")).unwrap()).collect(),
            pool: Pool::default(),
            presence: BTreeMap::new(),
            numbers: 0,
            model: Model::new(rooms, now.at.as_millis()),
        };
        for (room, resets) in resets.iter().enumerate() {
            let configuration = Configuration { labels: labels(LABELS[room]), ..Configuration::default() };
            let configuration = Change::OnRelease(*resets).applied_to(configuration);
            harness.run(room, Configure { configuration, expected: None }).unwrap();
        }
        harness
    }

    fn run<C: Command>(&mut self, room: usize, command: C) -> Result<(C::Reply, Outcome), Rejection> {
        let mut ports = TestPorts { pool: &mut self.pool, presence: &self.presence, numbers: &mut self.numbers };
        let before = Arc::new(self.environments[room].clone());
        let mut outcome = Outcome::default();
        let transition = decide(&before, command, self.now, &mut ports, &mut outcome)?;
        let next = Arc::unwrap_or_clone(transition.next);
        self.pool.report(&self.names[room], next.availability());
        self.environments[room] = next;
        Ok((transition.reply, outcome))
    }

    fn play(&mut self, step: Step) {
        match step {
            Step::Claim { wants, waits, priority, ttl_seconds } => self.claim(wants, waits, priority, ttl_seconds),
            Step::Force { room, ttl_seconds } => {
                let mut claim = self.next_claim();
                claim.request.ttl_seconds = ttl_seconds;
                let verdict = self.model.force(room, claim.ticket.0, millis(ttl_seconds));
                let forced = self.run(room, samples::by_force(claim, Role::Admin));
                assert_eq!(forced.is_ok(), verdict == Verdict::Granted);
            }
            Step::Release { room } => {
                let Some(session) = self.holder(room) else { return };
                self.run(room, Release { session: session.into(), by: person(1), any: true }).unwrap();
                self.model.release(room);
            }
            Step::Heartbeat { room } => {
                let Some(session) = self.holder(room) else { return };
                self.run(room, Heartbeat { session: session.into(), by: person(1), fencing_token: None }).unwrap();
                self.model.ask(number(session.seed), true);
            }
            Step::Look { room } => {
                let Some(session) = self.holder(room) else { return };
                self.run(room, Seen { session }).unwrap();
                self.model.ask(number(session.seed), false);
            }
            Step::Undelivered { room, keyed } => {
                let Some(session) = self.holder(room) else { return };
                self.run(room, Undelivered { session, keyed }).unwrap();
                self.model.undelivered(room, keyed);
            }
            Step::Ask { nth } => {
                let asks = |wait: &&ModelWaiter| matches!(wait.there, ClientState::Asks { .. });
                let Some(who) = self.model.line.get(nth).filter(asks).map(|wait| wait.who) else { return };
                self.presence.insert(Ticket(who), Presence::LastSeen(self.now.tick));
                self.model.ask(who, false);
            }
            Step::Leave { nth, in_time } => self.leave(nth, in_time),
            Step::ComeBack { nth } => self.come_back(nth),
            Step::FinishReset { room, outcome } => {
                if self.environments[room].reset.is_none() {
                    return;
                }
                let end = script::end(outcome);
                self.model.finish_reset(room, end != StageEnd::Succeeded);
                let end = samples::end_stage(&self.environments[room], end);
                self.run(room, end).unwrap();
            }
            Step::Configure { room, change } => self.configure(room, change),
            Step::Pass { millis } => {
                self.now = Now { at: self.now.at.plus(millis), tick: self.now.tick.plus(millis) };
                let presence = |waiter: &Waiter| self.presence[&waiter.ticket];
                for departure in self.pool.overdue(presence, self.now, usize::MAX) {
                    self.pool.leave(departure.waiter.ticket);
                }
                for room in 0..ROOMS {
                    self.run(room, Elapse).unwrap();
                }
                self.model.pass(millis);
            }
            Step::Restart { millis } => self.restart(millis),
        }
    }

    fn claim(&mut self, wants: Wants, waits: Waits, priority: i64, ttl_seconds: Option<u32>) {
        let mut claim = self.next_claim();
        claim.request = ClaimRequest { ttl_seconds, priority: Priority::new(priority).unwrap(), ..claim.request };
        claim.waits = waits.kept_by(claim.ticket);
        let (presence, there) = match waits {
            Waits::No | Waits::Connected => (Presence::Connected, ClientState::Connected { keyed: false }),
            Waits::Keyed => (Presence::Connected, ClientState::Connected { keyed: true }),
            Waits::Asking => (Presence::LastSeen(self.now.tick), ClientState::Asks { last: self.now.at.as_millis() }),
        };
        let who = claim.ticket.0;
        self.presence.insert(claim.ticket, presence);
        let wait = ModelWaiter { who, priority, ttl: millis(ttl_seconds), wants: wants.clone(), there };
        let expected = self.model.claim(wait, waits != Waits::No);
        let verdict = match wants {
            Wants::Room(room) => self.claim_room(room, claim),
            Wants::Any(wanted) => self.claim_any(&wanted, claim),
        };
        assert_eq!(verdict, expected, "of {who}");
    }

    fn claim_room(&mut self, room: usize, claim: Claim) -> Verdict {
        match self.run(room, claim) {
            Ok((ClaimReply::Granted(_), _)) => Verdict::Granted,
            Ok((ClaimReply::Queued { .. } | ClaimReply::Waiting, _)) => Verdict::Waits,
            Ok((ClaimReply::Refused(_), _)) | Err(_) => Verdict::Refused,
        }
    }

    fn claim_any(&mut self, wanted: &[&str], claim: Claim) -> Verdict {
        let (ticket, labels, hold) = (claim.ticket, Arc::new(labels(wanted)), claim.waits != Some(KeptBy::Polling));
        if self.pool.join(ClaimAny { claim, labels: labels.clone(), hold }, self.now).is_err() {
            return Verdict::Refused;
        }
        self.offer(&labels);
        if self.pool.get(ticket).is_none() {
            return Verdict::Granted;
        }
        match &self.pool.unserved()[..] {
            [Unserved::Refused { .. }] => Verdict::Refused,
            [] | [Unserved::Queued { .. }] => Verdict::Waits,
            more => panic!("only the newcomer is answered, not {more:?}"),
        }
    }

    fn offer(&mut self, labels: &Labels) {
        if let Some(name) = self.pool.offer(labels) {
            let room = self.names.iter().position(|known| *known == name).unwrap();
            let (_, outcome) = self.run(room, HandOver).unwrap();
            assert!(outcome.granted.is_some_and(|granted| granted.from_pool), "what was free was taken");
        }
    }

    fn leave(&mut self, nth: usize, in_time: bool) {
        let Some(ModelWaiter { who, wants, there, .. }) = self.model.line.get(nth).cloned() else { return };
        let ticket = Ticket(who);
        let session = SessionId { seed: seed(who), origin: Origin::Queued(ticket) };
        match (wants, there) {
            (Wants::Any(_), ClientState::Asks { .. }) => {
                let departure = self.pool.release(session, &person(1), false, self.now).unwrap().unwrap();
                assert_eq!(departure.session.status(), SessionStatus::Released);
                self.pool.leave(ticket);
            }
            (Wants::Any(_), ClientState::Connected { .. }) if in_time => {
                assert!(matches!(self.pool.stop_waiting(ticket), Some(Unserved::Refused { .. })));
            }
            (Wants::Any(_), ClientState::Connected { keyed }) => {
                let hung_up = self.pool.hang_up(ticket, Connection::Closed { keyed }, self.now);
                assert!(matches!(hung_up, HungUp::Leaves(_)));
                self.pool.leave(ticket);
            }
            (Wants::Room(room), ClientState::Asks { .. }) => {
                let release = Release { session: session.into(), by: person(1), any: false };
                assert_eq!(self.run(room, release).unwrap().0.status(), SessionStatus::Released);
            }
            (Wants::Room(room), ClientState::Connected { .. }) if in_time => {
                assert!(self.run(room, StopWaiting { ticket }).unwrap().0.is_some());
            }
            (Wants::Room(room), ClientState::Connected { .. }) => {
                self.presence.insert(ticket, Presence::Vanished);
                self.run(room, HangUp { tickets: vec![ticket] }).unwrap();
            }
            (Wants::Any(_) | Wants::Room(_), ClientState::Away { .. }) => return,
        }
        self.model.leave(who);
    }

    fn come_back(&mut self, nth: usize) {
        let Some(ModelWaiter { who, wants, there, .. }) = self.model.line.get(nth).cloned() else { return };
        if !matches!(there, ClientState::Away { .. }) {
            return;
        }
        self.presence.insert(Ticket(who), Presence::Connected);
        self.model.come_back(who);
        match wants {
            Wants::Room(room) => {
                self.run(room, HandOver).unwrap();
            }
            Wants::Any(wanted) => self.offer(&labels(&wanted)),
        }
    }

    fn configure(&mut self, room: usize, change: Change) {
        let modelled = &mut self.model.rooms[room];
        match &change {
            Change::Disabled(disabled) => modelled.disabled = *disabled,
            Change::OnRelease(resets) => modelled.resets = *resets,
            Change::QueueLength(length) => modelled.limit = *length as usize,
            Change::DefaultTtl(seconds) => modelled.default_ttl = millis(*seconds),
            Change::MaxHold(seconds) => self.model.set_max_hold(room, millis(*seconds)),
            Change::DeployOnClaim(_) | Change::ForceClaimRole(_) | Change::MaxTtl(_) => {}
        }
        self.model.serve(room);
        let present = self.environments[room].configuration.as_deref().cloned().unwrap();
        let configuration = change.applied_to(present);
        self.run(room, Configure { configuration, expected: None }).unwrap();
    }

    fn restart(&mut self, millis: i64) {
        let same_boot = millis % 2 == 0;
        let tick = if same_boot { self.now.tick.plus(millis) } else { Tick(self.numbers as i64 * 10) };
        self.now = Now { at: self.now.at.plus(millis), tick };
        let kept: Vec<_> = self.pool.iter().filter(|waiter| waiter.is_durable()).cloned().collect();
        let kept: Vec<_> = kept.into_iter().map(|w| (w.clone(), self.pool.labels(w.ticket).unwrap().clone())).collect();
        self.pool = Pool::default();
        for (waiter, labels) in kept {
            self.pool.put_back(waiter, labels);
        }
        self.presence.values_mut().for_each(|presence| *presence = Presence::LastSeen(self.now.tick));
        for room in 0..ROOMS {
            let mut queue = Queue::new();
            for waiter in self.environments[room].queue.iter().filter(|waiter| waiter.is_durable()) {
                queue.insert(waiter.clone());
            }
            self.environments[room].queue = queue;
            self.environments[room].rearm(self.now, same_boot);
            self.run(room, HandOver).unwrap();
        }
        self.model.restart(millis, same_boot);
    }

    fn compare(&self) {
        for (room, (environment, modelled)) in self.environments.iter().zip(&self.model.rooms).enumerate() {
            let holder = environment.lock.as_deref();
            let who = holder.map(|session| number(session.id.seed));
            assert_eq!(who, modelled.holder.as_ref().map(|holder| holder.who), "who has room-{room}");
            let queue: Vec<_> = environment.queue.iter().map(|waiter| waiter.ticket.0).collect();
            assert_eq!(queue, self.model.queue(room), "who waits for room-{room}");
            let until = holder.and_then(Session::expiry).map(|(until, _)| until.at.as_millis());
            assert_eq!(until, modelled.holder.as_ref().and_then(|holder| holder.until()), "until when room-{room}");
            assert_eq!(environment.reset.is_some(), modelled.reset != Reset::None, "whether room-{room} is reset");
            assert_eq!(environment.configuration.as_ref().unwrap().disabled, modelled.disabled);
        }
        let mut pool: Vec<_> = self.pool.iter().map(|waiter| waiter.ticket.0).collect();
        pool.sort_unstable();
        assert_eq!(pool, self.model.pool(), "who waits for any");
    }

    fn next_claim(&mut self) -> Claim {
        self.numbers += 1;
        samples::claim(self.numbers)
    }

    fn holder(&self, room: usize) -> Option<SessionId> {
        self.environments[room].lock.as_ref().map(|session| session.id)
    }
}

fn labels(names: &[&str]) -> Labels {
    samples::labels(&names.iter().map(|name| (*name, "yes")).collect::<Vec<_>>())
}

fn millis(seconds: Option<u32>) -> Option<i64> {
    seconds.map(|seconds| i64::from(seconds) * 1000)
}
