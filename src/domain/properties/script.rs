//! The steps of random scripts.

use std::sync::Arc;

use proptest::prelude::*;

use crate::samples::{by_key, commit};
use crate::*;

const PEOPLE: u8 = 3;

/// Some steps are not noticed immediately: a waiter of the pool arrives, the timer is late (`Pass`), a connection is
/// closed (`Vanish`), a client returns with its key.
#[derive(Debug, Clone)]
pub enum Step {
    Claim { person: u8, deploys: bool, staged: bool, ttl_seconds: Option<u32>, waits: Waits, priority: i64 },
    Outsider { person: u8, waits: Waits, priority: i64 },
    ForceClaim { person: u8, role: Role, deploys: bool, staged: bool },
    Release { person: u8, nth: usize, any: bool },
    ReleaseLock { person: u8, any: bool },
    Deploy { person: u8, nth: usize, staged: bool },
    Heartbeat { person: u8, nth: usize, stale: bool },
    Finish { outcome: u8 },
    FinishUnknown,
    Configure(Change),
    Delete,
    Pass { millis: i64 },
    Elapse { millis: i64 },
    Vanish { nth: usize },
    HangUp { nth: usize },
    StopWaiting { nth: usize },
    Ask { nth: usize },
    ComeBack { nth: usize },
    HandOver,
    Seen,
    Undelivered { keyed: bool },
    Restart { millis: i64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    No,
    Connected,
    Keyed,
    Asking,
}

impl Waits {
    pub fn kept_by(self, ticket: Ticket) -> Option<KeptBy> {
        match self {
            Waits::No => None,
            Waits::Connected => Some(KeptBy::Connection),
            Waits::Keyed => Some(by_key(ticket.0)),
            Waits::Asking => Some(KeptBy::Polling),
        }
    }
}

#[derive(Debug, Clone)]
pub enum Change {
    Disabled(bool),
    DeployOnClaim(bool),
    ForceClaimRole(Role),
    OnRelease(bool),
    QueueLength(u32),
    DefaultTtl(Option<u32>),
    MaxTtl(u32),
    MaxHold(Option<u32>),
}

impl Change {
    pub fn applied_to(self, mut configuration: Configuration) -> Configuration {
        match self {
            Change::Disabled(disabled) => configuration.disabled = disabled,
            Change::DeployOnClaim(deploys) => configuration.deploy_on_claim = deploys,
            Change::ForceClaimRole(role) => configuration.force_claim_role = role,
            Change::OnRelease(resets) => configuration.on_release = resets.then(commit),
            Change::QueueLength(length) => configuration.max_queue_length = length,
            Change::DefaultTtl(seconds) => configuration.default_ttl_seconds = seconds,
            Change::MaxTtl(seconds) => configuration.max_ttl_seconds = seconds,
            Change::MaxHold(seconds) => configuration.max_hold_seconds = seconds,
        }
        configuration
    }
}

pub fn end(number: u8) -> StageEnd {
    match number {
        0 => StageEnd::Failed(Arc::from("exit code 1")),
        1 => StageEnd::Cancelled,
        _ => StageEnd::Succeeded,
    }
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..50)
}

fn step() -> impl Strategy<Value = Step> {
    let claims = prop_oneof![
        8 => (0..PEOPLE, any::<bool>(), any::<bool>(), prop::option::of(1..40u32), waits(), priority()).prop_map(
            |(person, deploys, staged, ttl_seconds, waits, priority)| Step::Claim {
                person, deploys, staged, ttl_seconds, waits, priority
            }
        ),
        2 => (0..PEOPLE, waits(), priority()).prop_map(|(person, waits, priority)| Step::Outsider { person, waits, priority }),
        2 => (0..PEOPLE, role(), any::<bool>(), any::<bool>())
            .prop_map(|(person, role, deploys, staged)| Step::ForceClaim { person, role, deploys, staged }),
    ];
    let holding = prop_oneof![
        6 => (0..PEOPLE, 0..4usize, prop::bool::weighted(0.4)).prop_map(|(person, nth, any)| Step::Release { person, nth, any }),
        2 => (0..PEOPLE, prop::bool::weighted(0.4)).prop_map(|(person, any)| Step::ReleaseLock { person, any }),
        3 => (0..PEOPLE, 0..3usize, any::<bool>()).prop_map(|(person, nth, staged)| Step::Deploy { person, nth, staged }),
        2 => (0..PEOPLE, 0..3usize, prop::bool::weighted(0.2))
            .prop_map(|(person, nth, stale)| Step::Heartbeat { person, nth, stale }),
        5 => (0..6u8).prop_map(|outcome| Step::Finish { outcome }),
        1 => Just(Step::Seen),
        1 => any::<bool>().prop_map(|keyed| Step::Undelivered { keyed }),
    ];
    let waiting = prop_oneof![
        (0..3usize).prop_map(|nth| Step::Vanish { nth }),
        (0..3usize).prop_map(|nth| Step::HangUp { nth }),
        (0..3usize).prop_map(|nth| Step::StopWaiting { nth }),
        (0..3usize).prop_map(|nth| Step::Ask { nth }),
        (0..3usize).prop_map(|nth| Step::ComeBack { nth }),
        Just(Step::HandOver),
    ];
    let around = prop_oneof![
        4 => change().prop_map(Step::Configure),
        1 => Just(Step::Delete),
        1 => Just(Step::FinishUnknown),
        1 => millis().prop_map(|millis| Step::Pass { millis }),
        5 => millis().prop_map(|millis| Step::Elapse { millis }),
        2 => millis().prop_map(|millis| Step::Restart { millis }),
    ];
    prop_oneof![4 => claims, 4 => holding, 2 => waiting, 2 => around]
}

pub fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        prop::bool::weighted(0.3).prop_map(Change::Disabled),
        any::<bool>().prop_map(Change::DeployOnClaim),
        role().prop_map(Change::ForceClaimRole),
        any::<bool>().prop_map(Change::OnRelease),
        (0..4u32).prop_map(Change::QueueLength),
        prop::option::of(1..40u32).prop_map(Change::DefaultTtl),
        (10..60u32).prop_map(Change::MaxTtl),
        prop::option::of(1..90u32).prop_map(Change::MaxHold),
    ]
}

pub fn waits() -> impl Strategy<Value = Waits> {
    prop_oneof![1 => Just(Waits::No), 3 => Just(Waits::Connected), 2 => Just(Waits::Keyed), 2 => Just(Waits::Asking)]
}

pub fn priority() -> impl Strategy<Value = i64> {
    prop_oneof![4 => Just(0i64), 1 => Just(-5i64), 1 => Just(5i64)]
}

/// Shorter or longer than the various deadlines.
pub fn millis() -> impl Strategy<Value = i64> {
    prop_oneof![0..1_000i64, 1_000..30_000i64, 30_000..120_000i64]
}

fn role() -> impl Strategy<Value = Role> + Clone {
    prop_oneof![Just(Role::Developer), Just(Role::Maintainer), Just(Role::Admin)]
}
