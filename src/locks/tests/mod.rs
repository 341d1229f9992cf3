//! The actors over a store that can be held back and made to fail.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

mod delivery;
mod deployments;
mod history;
mod idempotency;
mod leases;
mod one_moment;
mod per_token;
mod pool;
mod queue;
mod refusing;
mod session_listing;
mod unknown;

use delivery::{Orders, Pipeline};

use super::{
    ClaimOutcome, Clock, Environments, Failure, ListFilter, Options, TicketLane, WaitPolicy, environment_differences,
};
use ambient::entropy;
use domain::{
    Boot, ClaimRequest, Command, CommitId, Configuration, Configure, Decision, Deploy, EnvironmentKey, Identifier, Now,
    Origin, Person, PipelineKey, Priority, Rejection, Release, Retired, Role, Session, SteadyTime, Tick, Timestamp,
    UserId,
};
use events::Events;
use records::stored::Difference;
use shares::{Capacity, ShareError};
use store::{Batch, MemoryStore, Store, StoreError};

/// The environments of one server over a memory store, with a clock that the test moves.
struct Bench {
    environments: Environments,
    store: Arc<MemoryStore>,
    pipeline: Arc<Pipeline>,
    orders: Arc<Orders>,
    /// Milliseconds of the wall clock and of the steady clock.
    wall: Arc<AtomicI64>,
    steady: Arc<AtomicI64>,
    boot: Boot,
}

impl Bench {
    fn new() -> Self {
        Self::over(Arc::new(MemoryStore::new()), 1000)
    }

    fn over(store: Arc<MemoryStore>, history_retention: u64) -> Self {
        Self::starting(store, history_retention, 1_000_000, SteadyTime { boot: Boot(1), tick: Tick(0) })
    }

    /// A run that starts at this time of the wall clock and of the steady clock.
    fn starting(store: Arc<MemoryStore>, history_retention: u64, wall: i64, started: SteadyTime) -> Self {
        Self::of(store, history_retention, wall, started, Capacity::seats(100_000))
    }

    /// A run with room for this many waiting claims.
    fn crowded(store: Arc<MemoryStore>, waiting: Capacity) -> Self {
        Self::of(store, 1000, 1_000_000, SteadyTime { boot: Boot(1), tick: Tick(0) }, waiting)
    }

    fn of(store: Arc<MemoryStore>, history_retention: u64, wall: i64, started: SteadyTime, waiting: Capacity) -> Self {
        let (wall, steady) = (Arc::new(AtomicI64::new(wall)), Arc::new(AtomicI64::new(started.tick.0)));
        let (at, tick) = (wall.clone(), steady.clone());
        let clock: Clock = Arc::new(move || Now {
            at: Timestamp::from_millis(at.load(Ordering::Relaxed)),
            tick: Tick(tick.load(Ordering::Relaxed)),
        });
        let answer_timeout = Duration::from_secs(30);
        let tickets = TicketLane::ONLY;
        let options =
            Options { history_retention, mailbox: 16, waiting, waiting_per_token: 4, answer_timeout, tickets };
        let (pipeline, orders): (Arc<Pipeline>, Arc<Orders>) = Default::default();
        let definitions = Arc::new(pipeline.clone());
        let environments = Environments::open(store.clone(), clock, started.boot, definitions, options).unwrap();
        environments.set_executor(Box::new(orders.clone()));
        Self { environments, store, pipeline, orders, wall, steady, boot: started.boot }
    }

    /// Kills the server and starts it again later.
    fn killed(&self, later_millis: i64) -> Self {
        self.with_wall_set(later_millis, later_millis.max(0))
    }

    /// Like [`Self::killed`], with a wall clock that has been set meanwhile.
    fn with_wall_set(&self, wall_millis: i64, steady_millis: i64) -> Self {
        let tick = Tick(self.steady.load(Ordering::Relaxed) + steady_millis);
        self.started_again(wall_millis, SteadyTime { boot: self.boot, tick })
    }

    /// Like [`Self::killed`], after a reboot of the machine.
    fn rebooted(&self, wall_millis: i64) -> Self {
        self.started_again(wall_millis, SteadyTime { boot: Boot(self.boot.0 + 1), tick: Tick(3) })
    }

    fn started_again(&self, wall_millis: i64, started: SteadyTime) -> Self {
        let wall = self.wall.load(Ordering::Relaxed) + wall_millis;
        let after = Self::starting(Arc::new(self.store.crash()), 1000, wall, started);
        after.pipeline.set_as(&self.pipeline);
        after
    }

    /// Moves both clocks and ends everything that has expired.
    async fn pass(&self, millis: i64) {
        self.wall.fetch_add(millis, Ordering::Relaxed);
        self.steady.fetch_add(millis, Ordering::Relaxed);
        self.environments.elapse();
        self.environments.expire_pools();
        self.let_others_run().await;
    }

    async fn with_environment() -> Self {
        let bench = Self::new();
        bench.make().await;
        bench
    }

    async fn make(&self) {
        self.configure(&key(), Configuration::default()).await;
    }

    async fn configure(&self, key: &EnvironmentKey, configuration: Configuration) {
        self.environments.configure(key, Configure { configuration, expected: None }).await.unwrap();
    }

    async fn claim(&self, who: u8) -> Result<Arc<Session>, Failure> {
        claim_at_once(&self.environments, &key(), claim(who)).await
    }

    async fn release(&self, session: &Session) -> Result<Arc<Session>, Failure> {
        self.release_in(&key(), session).await
    }

    async fn release_in(&self, key: &EnvironmentKey, session: &Session) -> Result<Arc<Session>, Failure> {
        let release = Release { session: session.id.into(), by: session.user.clone(), any: false };
        self.environments.ask(key, release).await
    }

    fn holder(&self) -> Option<Arc<Session>> {
        self.holder_of(&key())
    }

    fn holder_of(&self, key: &EnvironmentKey) -> Option<Arc<Session>> {
        self.environments.environment(key).unwrap().and_then(|environment| environment.lock.clone())
    }

    fn event_count(&self) -> u64 {
        Events::new(self.store.clone()).next(&pipeline().organization).unwrap()
    }

    fn queue_length(&self) -> usize {
        self.environments.environment(&key()).unwrap().map_or(0, |environment| environment.queue.len())
    }

    /// Dismisses every actor that may leave.
    async fn let_go_of_all(&self) {
        for _ in 0..2 {
            self.environments.dismiss_unused();
            self.let_others_run().await;
        }
    }

    /// Replaces the record of an environment.
    fn put(&self, key: &EnvironmentKey, record: Vec<u8>) {
        let mut batch = Batch::default();
        batch.put(super::keys::environment(key), record);
        self.store.commit(batch).unwrap();
    }

    /// Lets other tasks run until the condition holds; on a busy machine, the store's threads may take long.
    async fn until(&self, has_happened: impl Fn() -> bool) {
        for _ in 0..1_000 {
            self.let_others_run().await;
            if has_happened() {
                return;
            }
        }
        panic!("it has not happened");
    }

    /// Lets ready tasks and reads of the store run, without moving the clocks.
    async fn let_others_run(&self) {
        for _ in 0..20 {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            actix::spawn(async { tokio::task::spawn_blocking(|| ()).await }).await.unwrap().unwrap();
        }
    }
}

fn key() -> EnvironmentKey {
    named("review-1")
}

fn named(name: &str) -> EnvironmentKey {
    EnvironmentKey { pipeline: pipeline(), name: Identifier::parse(name).unwrap() }
}

fn pipeline() -> PipelineKey {
    let identifier = |text| Identifier::parse(text).unwrap();
    PipelineKey { organization: identifier("acme"), pipeline: identifier("web") }
}

fn person(who: u8) -> Person {
    Person { id: UserId(domain::IdSeed([who; 12])), name: Arc::from(format!("person-{who}")) }
}

fn claim(who: u8) -> ClaimRequest {
    ClaimRequest { user: person(who), commit: None, context: None, ttl_seconds: None, priority: Priority::default() }
}

const AT_ONCE: WaitPolicy = WaitPolicy { wait: Duration::ZERO, queue: false };

async fn claim_at_once(
    environments: &Environments,
    key: &EnvironmentKey,
    request: ClaimRequest,
) -> Result<Arc<Session>, Failure> {
    environments.claim(key, request, AT_ONCE, None).await.map(granted)
}

fn granted(outcome: ClaimOutcome) -> Arc<Session> {
    match outcome {
        ClaimOutcome::Granted { session, .. } => session,
        ClaimOutcome::Queued { .. } => panic!("queued, not granted: {outcome:?}"),
    }
}

fn token(session: &Session) -> u64 {
    session.fencing_token().unwrap()
}

#[actix::test]
async fn nobody_is_shown_or_told_what_is_not_yet_durable() {
    let bench = Bench::with_environment().await;
    bench.store.hold();
    let environments = bench.environments.clone();
    let first = actix::spawn(async move { claim_at_once(&environments, &key(), claim(1)).await });
    bench.let_others_run().await;
    let environments = bench.environments.clone();
    let second = actix::spawn(async move { claim_at_once(&environments, &key(), claim(2)).await });
    bench.let_others_run().await;

    assert!(!first.is_finished(), "a claim was answered before it was durable");
    assert!(!second.is_finished(), "a refusal spoke of a lock that was not durable");
    assert_eq!(bench.holder(), None, "a reader was shown a lock that was not durable");
    let events_before = bench.event_count();

    bench.store.release();
    let session = first.await.unwrap().unwrap();
    let refused = second.await.unwrap();
    assert!(
        matches!(refused, Err(Failure::Rejected(Rejection::EnvironmentLocked { holder, .. })) if holder.id == session.id)
    );
    assert_eq!(bench.holder().map(|holder| holder.id), Some(session.id));
    assert_eq!(bench.event_count(), events_before + 1, "the claim was announced once, when it was durable");
}

#[actix::test]
async fn whoever_has_an_answer_finds_it_when_reading() {
    let bench = Bench::with_environment().await;
    for _ in 0..50 {
        let session = bench.claim(1).await.unwrap();
        assert_eq!(bench.holder().map(|holder| holder.id), Some(session.id));
        bench.release(&session).await.unwrap();
        assert_eq!(bench.holder(), None);
    }
}

#[actix::test]
async fn a_refusing_store_leaves_everything_as_it_was() {
    let bench = Bench::with_environment().await;
    bench.store.refuse_with(Some(StoreError::Overloaded));
    assert!(matches!(bench.claim(1).await, Err(Failure::Store(StoreError::Overloaded))));
    assert_eq!(bench.holder(), None);
    bench.store.refuse_with(None);
    let session = bench.claim(2).await.unwrap();
    assert_eq!((token(&session), session.id.origin), (1, Origin::Granted(1)), "the refused claim left no trace");
}

#[actix::test]
async fn a_crash_loses_only_what_nobody_was_told() {
    let bench = Bench::with_environment().await;
    let first = bench.claim(1).await.unwrap();
    bench.store.hold();
    let (environments, session) = (bench.environments.clone(), first.clone());
    let unanswered = actix::spawn(async move {
        let release = Release { session: session.id.into(), by: session.user.clone(), any: false };
        environments.ask(&key(), release).await
    });
    bench.let_others_run().await;
    assert!(!unanswered.is_finished());

    let after = Bench::over(Arc::new(bench.store.crash()), 1000);
    assert_eq!(after.holder().map(|holder| holder.id), Some(first.id));
    after.release(&first).await.unwrap();
    assert_eq!(token(&after.claim(2).await.unwrap()), 2);
}

#[actix::test]
async fn a_session_that_has_just_ended_is_remembered_before_the_disk_knows() {
    let bench = Bench::with_environment().await;
    let old = bench.claim(1).await.unwrap();
    bench.store.hold();
    let environments = bench.environments.clone();
    let taking = actix::spawn(async move { environments.force_claim(&key(), claim(2), Role::Admin, None).await });
    bench.let_others_run().await;
    let (environments, session) = (bench.environments.clone(), old.clone());
    let deploying = actix::spawn(async move { environments.ask(&key(), delivery::deploy(&session)).await });
    bench.let_others_run().await;
    bench.store.release();
    assert_eq!(taking.await.unwrap().unwrap().overrode.map(|session| session.id), Some(old.id));
    let refused = deploying.await.unwrap();
    assert!(matches!(refused, Err(Failure::Rejected(Rejection::SessionEnded { .. }))), "{refused:?}");
}

#[actix::test]
async fn an_actor_leaves_when_unused_and_its_successor_knows_everything() {
    let bench = Bench::with_environment().await;
    let session = bench.claim(1).await.unwrap();
    assert_eq!(bench.environments.resident(), 1);
    bench.environments.dismiss_unused();
    bench.let_others_run().await;
    assert_eq!(bench.environments.resident(), 1, "it was used since the last time");
    bench.environments.dismiss_unused();
    bench.let_others_run().await;
    assert_eq!(bench.environments.resident(), 0);

    assert_eq!(bench.holder().map(|holder| holder.id), Some(session.id), "readers ask the store now");
    assert!(matches!(bench.claim(2).await, Err(Failure::Rejected(Rejection::EnvironmentLocked { .. }))));
    bench.release(&session).await.unwrap();
}

#[actix::test]
async fn an_actor_with_commits_under_way_does_not_leave() {
    let bench = Bench::with_environment().await;
    bench.store.hold();
    let environments = bench.environments.clone();
    let claiming = actix::spawn(async move { claim_at_once(&environments, &key(), claim(1)).await });
    bench.let_others_run().await;
    for _ in 0..3 {
        bench.environments.dismiss_unused();
        bench.let_others_run().await;
    }
    assert_eq!(bench.environments.resident(), 1);
    bench.store.release();
    claiming.await.unwrap().unwrap();
}

#[actix::test]
async fn an_unknown_name_gets_no_actor() {
    let bench = Bench::new();
    let refused = bench.claim(1).await;
    assert!(matches!(refused, Err(Failure::Rejected(Rejection::EnvironmentNotFound))));
    assert_eq!(bench.environments.resident(), 0);
}

#[actix::test]
async fn a_declaration_is_applied_when_it_changes_and_only_then() {
    let bench = Bench::new();
    let declared = Configuration::default();
    let changed = Configuration { disabled: true, ..Configuration::default() };
    assert!(bench.environments.declare(&key(), declared.clone()).await.unwrap());
    let by_api = Configure { configuration: changed.clone(), expected: None };
    bench.environments.configure(&key(), by_api).await.unwrap();
    assert!(!bench.environments.declare(&key(), declared.clone()).await.unwrap(), "what the API said holds");
    let now = bench.environments.environment(&key()).unwrap().unwrap();
    assert_eq!(now.configuration.as_deref(), Some(&changed));

    let renewed = Configuration { deploy_on_claim: false, ..declared };
    assert!(bench.environments.declare(&key(), renewed.clone()).await.unwrap());
    let now = bench.environments.environment(&key()).unwrap().unwrap();
    assert_eq!(now.configuration.as_deref(), Some(&renewed));
}

#[actix::test]
async fn a_retired_environment_goes_before_its_mark_wherever_that_is_cut_off() {
    let found = |store: &MemoryStore| {
        let organization = key().pipeline.organization;
        let found = environment_differences(store, &organization, std::iter::empty()).unwrap();
        found.into_values().collect::<Vec<_>>()
    };
    let mut seen = Vec::new();
    for released in 0..4 {
        let bench = Bench::new();
        bench.environments.declare(&key(), Configuration::default()).await.unwrap();
        bench.store.hold();
        let environments = bench.environments.clone();
        let retiring = actix::spawn(async move { environments.retire(&key(), &"why".into()).await });
        bench.let_others_run().await;
        for _ in 0..released {
            assert!(bench.store.release_one());
            bench.let_others_run().await;
        }
        seen.push(found(&bench.store.crash()));
        bench.store.release();
        assert_eq!(retiring.await.unwrap().unwrap(), Retired::Gone);
        assert_eq!(found(&bench.store), []);
    }
    // The mark is emptied before the environment is deleted: see `retire`.
    assert_eq!(seen, [vec![Difference::Removed], vec![Difference::Removed], vec![Difference::Gone], vec![]]);
}

#[actix::test]
async fn a_full_mailbox_says_so_and_loses_nothing() {
    let bench = Bench::with_environment().await;
    // All claims are sent in one turn of the executor, so that the actor does not run in between.
    let (environments, key) = (&bench.environments, key());
    let many = (0..200).map(|_| claim_at_once(environments, &key, claim(1)));
    let outcomes = futures_util::future::join_all(many).await;
    let refused = outcomes.iter().filter(|outcome| matches!(outcome, Err(Failure::Overloaded))).count();
    let granted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert!(refused > 0, "the mailbox has no bound");
    assert_eq!(granted, 1);
    assert_eq!(bench.holder().map(|holder| token(&holder)), Some(1));
}

/// A command that panics.
struct Blunder;

impl Command for Blunder {
    type Reply = ();

    fn decide(self, _: &mut Decision<'_>) -> Result<(), Rejection> {
        panic!("a blunder, made on purpose by a test")
    }
}

#[actix::test]
async fn an_actor_that_dies_is_replaced_by_one_that_knows_everything_handed_in() {
    let bench = Bench::with_environment().await;
    bench.store.hold();
    let environments = bench.environments.clone();
    let claiming = actix::spawn(async move { claim_at_once(&environments, &key(), claim(1)).await });
    bench.let_others_run().await;
    assert!(matches!(bench.environments.ask(&key(), Blunder).await, Err(Failure::Unavailable)));

    let environments = bench.environments.clone();
    let rival = actix::spawn(async move { claim_at_once(&environments, &key(), claim(2)).await });
    bench.let_others_run().await;
    assert!(!rival.is_finished(), "the successor decided before it knew what was under way");
    bench.store.release();
    let session = claiming.await.unwrap().unwrap();
    let refused = rival.await.unwrap();
    assert!(
        matches!(refused, Err(Failure::Rejected(Rejection::EnvironmentLocked { holder, .. })) if holder.id == session.id)
    );
}

#[actix::test]
async fn a_long_list_read_piece_by_piece_is_the_whole_list() {
    let bench = Bench::new();
    for number in 0..25 {
        let name = Identifier::parse(&format!("env-{number:02}")).unwrap();
        let configure = Configure { configuration: Configuration::default(), expected: None };
        bench.environments.configure(&EnvironmentKey { name, ..key() }, configure).await.unwrap();
    }
    let mut names = Vec::new();
    loop {
        let after = names.last();
        let piece = bench.environments.list_after(&key().pipeline, &ListFilter::default(), after, 10).unwrap();
        if piece.is_empty() {
            break;
        }
        names.extend(piece.into_iter().map(|(name, _)| name));
    }
    let expected: Vec<_> = (0..25).map(|number| format!("env-{number:02}")).collect();
    assert_eq!(names.iter().map(Identifier::as_str).collect::<Vec<_>>(), expected);
}

#[actix::test]
async fn who_has_given_up_is_granted_nothing() {
    let bench = Bench::with_environment().await;
    bench.environments.dismiss_unused();
    bench.environments.dismiss_unused();
    bench.let_others_run().await;
    assert_eq!(bench.environments.resident(), 0);
    // The store has a pending commit, so that new messages wait in the mailbox for the actor to load.
    bench.store.hold();
    bench.store.commit(Batch::default()).unwrap();
    let environments = bench.environments.clone();
    let claiming = actix::spawn(async move { claim_at_once(&environments, &key(), claim(1)).await });
    bench.let_others_run().await;
    claiming.abort();
    bench.let_others_run().await;
    bench.store.release();

    let session = bench.claim(2).await.unwrap();
    assert_eq!(token(&session), 1, "the one who had gone was granted the lock");
}

#[actix::test]
async fn an_environment_that_cannot_be_read_says_so_and_is_tried_again() {
    let bench = Bench::with_environment().await;
    bench.environments.dismiss_unused();
    bench.environments.dismiss_unused();
    bench.let_others_run().await;
    let good = bench.store.get(&super::keys::environment(&key())).unwrap().unwrap();
    bench.put(&key(), vec![255, 1, 2]);
    assert!(matches!(bench.claim(1).await, Err(Failure::Store(StoreError::Read(_)))));
    bench.put(&key(), good);
    bench.let_others_run().await;
    assert_eq!(token(&bench.claim(1).await.unwrap()), 1);
}
