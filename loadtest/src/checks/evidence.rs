//! Derives the facts that the rules use from a history: the grants, the earliest moment of each, the time for which
//! each session certainly held its lock, and the unanswered claims.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use crate::history::{Answer, History, Moment, Record, Request, SessionName};

pub struct Evidence<'h> {
    pub history: &'h History,
    /// The grants, one per session, sorted by environment and then by the time of the answer.
    pub grants: Vec<Grant<'h>>,
    pub unanswered: UnansweredClaims<'h>,
    /// Answers that grant one session twice, but not the same lock or token.
    pub contradictions: Vec<(&'h Record, &'h Record)>,
    by_session: HashMap<&'h SessionName, usize>,
}

pub struct Grant<'h> {
    /// The answer that granted it; the first one if it was repeated.
    pub record: &'h Record,
    pub session: &'h SessionName,
    pub environment: u32,
    pub token: u64,
    /// The grant cannot have happened before the claim was sent; if the claim may be a retry, before the first attempt.
    pub earliest: Moment,
    /// The session certainly held the lock from the grant's answer until this moment, if it is later than that answer.
    pub held_until: Moment,
    /// The first release sent, whatever its answer.
    pub release: Option<&'h Record>,
    /// The first release acknowledged.
    pub released: Option<&'h Record>,
}

impl<'h> Evidence<'h> {
    pub fn of(history: &'h History) -> Self {
        let unanswered = UnansweredClaims::of(history);
        let mut evidence =
            Self { history, grants: Vec::new(), unanswered, contradictions: Vec::new(), by_session: HashMap::new() };
        for record in &history.records {
            evidence.learn(record);
        }
        evidence.grants.sort_unstable_by_key(|grant| (grant.environment, grant.told(), grant.token));
        for (place, grant) in evidence.grants.iter().enumerate() {
            evidence.by_session.insert(grant.session, place);
        }
        set_back(&mut evidence.grants, &evidence.unanswered);
        evidence.learn_releases();
        settle(&mut evidence);
        evidence
    }

    pub fn grant_of(&self, session: &SessionName) -> Option<&Grant<'h>> {
        self.place_of(session).map(|place| &self.grants[place])
    }

    pub fn place_of(&self, session: &SessionName) -> Option<usize> {
        self.by_session.get(session).copied()
    }

    /// The grants of each environment that has at least one.
    pub fn by_environment(&self) -> impl Iterator<Item = (u32, &[Grant<'h>])> {
        let same = |one: &Grant, other: &Grant| one.environment == other.environment;
        self.grants.chunk_by(same).filter_map(|grants| Some((grants.first()?.environment, grants)))
    }

    pub fn grants_in(&self, environment: u32) -> &[Grant<'h>] {
        let start = self.grants.partition_point(|grant| grant.environment < environment);
        let end = self.grants.partition_point(|grant| grant.environment <= environment);
        &self.grants[start..end]
    }

    pub fn name(&self, environment: u32) -> String {
        name(self.history, environment)
    }

    fn learn(&mut self, record: &'h Record) {
        let (Answer::Granted { session, fencing }, Some(environment)) = (&record.answer, record.environment) else {
            return;
        };
        match self.by_session.entry(session) {
            Entry::Vacant(vacant) => {
                vacant.insert(self.grants.len());
                self.grants.push(Grant {
                    record,
                    session,
                    environment,
                    token: *fencing,
                    earliest: record.sent,
                    held_until: record.ended,
                    release: None,
                    released: None,
                });
            }
            // An idempotency key returns the same answer again.
            Entry::Occupied(known) => {
                let known = &mut self.grants[*known.get()];
                if (known.environment, known.token) != (environment, *fencing) {
                    self.contradictions.push((known.record, record));
                    return;
                }
                known.earliest = known.earliest.min(record.sent);
                if record.ended < known.record.ended {
                    known.record = record;
                }
            }
        }
    }

    fn learn_releases(&mut self) {
        for record in &self.history.records {
            let Request::Release { session } = &record.request else { continue };
            let Some(&place) = self.by_session.get(session) else { continue };
            let grant = &mut self.grants[place];
            if grant.release.is_none_or(|first| record.sent < first.sent) {
                grant.release = Some(record);
            }
            if record.answer == Answer::Done && grant.released.is_none_or(|first| record.ended < first.ended) {
                grant.released = Some(record);
            }
        }
    }
}

impl Grant<'_> {
    pub fn told(&self) -> Moment {
        self.record.ended
    }

    /// Whether there is a time during which the session certainly held the lock.
    pub fn is_held(&self) -> bool {
        self.held_until > self.told()
    }

    pub fn by_force(&self) -> bool {
        self.record.request == Request::ForceClaim
    }

    pub fn ttl(&self) -> Option<Duration> {
        if let Request::Claim { ttl, .. } = self.record.request { ttl } else { None }
    }
}

pub fn name(history: &History, environment: u32) -> String {
    let known = usize::try_from(environment).ok().and_then(|number| history.environments.get(number));
    known.cloned().unwrap_or_else(|| format!("environment {environment}"))
}

pub struct UnansweredClaims<'h> {
    by_environment: HashMap<u32, Vec<&'h Record>>,
    /// Claims for any environment: each may have been granted any one of them.
    anywhere: Vec<&'h Record>,
}

impl<'h> UnansweredClaims<'h> {
    pub fn of(history: &'h History) -> Self {
        let mut unanswered = Self { by_environment: HashMap::new(), anywhere: Vec::new() };
        for record in &history.records {
            let any = matches!(record.request, Request::Claim { any: true, .. });
            if !matches!(record.request, Request::Claim { .. } | Request::ForceClaim) {
                continue;
            }
            if matches!(record.answer, Answer::Granted { .. } | Answer::Refused { .. }) {
                continue;
            }
            match record.environment {
                Some(environment) if !any => unanswered.by_environment.entry(environment).or_default().push(record),
                Some(_) | None => unanswered.anywhere.push(record),
            }
        }
        unanswered
    }

    pub fn all(&self) -> impl Iterator<Item = &'h Record> {
        self.by_environment.values().flatten().chain(&self.anywhere).copied()
    }

    /// The maximum number of grants of this environment whose answers no client received.
    pub fn count(&self, environment: u32) -> usize {
        self.named(environment).len() + self.anywhere.len()
    }

    pub fn about(&self, environment: u32) -> impl Iterator<Item = &'h Record> {
        self.named(environment).iter().chain(&self.anywhere).copied()
    }

    /// The earliest moment at which an unanswered force-claim may have displaced a holder.
    pub fn first_force_claim(&self, environment: u32) -> Option<Moment> {
        let forced = self.named(environment).iter().filter(|record| record.request == Request::ForceClaim);
        forced.map(|record| record.sent).min()
    }

    fn named(&self, environment: u32) -> &[&'h Record] {
        self.by_environment.get(&environment).map_or(&[], Vec::as_slice)
    }
}

/// The target of a claim. A client's retry has the same target.
#[derive(PartialEq, Eq, Hash)]
enum Target {
    Any,
    Named(Option<u32>),
    Force(Option<u32>),
}

/// The time of sending, and the index of the grant if the claim was granted.
type Try = (Moment, Option<usize>);

/// The history does not say which requests had an idempotency key. A grant may therefore answer any of the same
/// client's unanswered claims for the same target since that client's previous grant: a client sends one request at a
/// time.
pub fn set_back(grants: &mut [Grant<'_>], unanswered: &UnansweredClaims<'_>) {
    let mut tries: HashMap<(u32, Target), Vec<Try>> = HashMap::new();
    for record in unanswered.all() {
        tries.entry((record.client, target(record))).or_default().push((record.sent, None));
    }
    for (place, grant) in grants.iter().enumerate() {
        if let Some(tries) = tries.get_mut(&(grant.record.client, target(grant.record))) {
            tries.push((grant.record.sent, Some(place)));
        }
    }
    for mut tries in tries.into_values() {
        tries.sort_unstable();
        let mut first_unanswered = None;
        for (sent, granted) in tries {
            match granted {
                None => _ = first_unanswered.get_or_insert(sent),
                Some(place) => {
                    let grant = &mut grants[place];
                    grant.earliest = first_unanswered.take().map_or(grant.earliest, |first| grant.earliest.min(first));
                }
            }
        }
    }
}

fn target(record: &Record) -> Target {
    if matches!(record.request, Request::Claim { any: true, .. }) {
        Target::Any
    } else if record.request == Request::ForceClaim {
        Target::Force(record.environment)
    } else {
        Target::Named(record.environment)
    }
}

/// For a lock that nothing ends.
pub const NEVER: Moment = Moment(u64::MAX);

/// The server counts a lease in whole milliseconds.
const LEASE_ROUNDING: Duration = Duration::from_millis(10);
/// The server's clock may drift from ours by one part in this many: twice the drift of synchronised clocks.
const CLOCK_DRIFT: u32 = 1_000;
/// How long the server certainly reserves a lock for a client that disconnected before the answer and may retry with
/// its idempotency key: half of the documented time. A later retry gets the same answer, but by then another session
/// may hold the lock.
const KEPT_UNTOLD: Duration = Duration::from_secs(30);

pub fn settle(evidence: &mut Evidence<'_>) {
    let active = last_active(evidence);
    let displaced = displaced(evidence);
    for ((grant, active), displaced) in evidence.grants.iter_mut().zip(active).zip(displaced) {
        let released = grant.release.map_or(NEVER, |release| release.sent);
        let expired = grant.ttl().map_or(NEVER, |ttl| lease_end(active, ttl));
        let lost = if came_back_late(grant) { grant.told() } else { NEVER };
        grant.held_until = released.min(expired).min(displaced).min(lost).max(active);
    }
}

fn came_back_late(grant: &Grant<'_>) -> bool {
    grant.earliest < grant.record.sent && grant.told() > after(grant.earliest, KEPT_UNTOLD)
}

/// Saturates instead of overflowing.
pub fn after(moment: Moment, time: Duration) -> Moment {
    Moment(moment.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
}

/// The earliest end of a lease that began at this moment or later.
fn lease_end(begun: Moment, ttl: Duration) -> Moment {
    after(begun, ttl.saturating_sub(LEASE_ROUNDING + ttl / CLOCK_DRIFT))
}

/// When each session was last known to be alive: its claim, or an acknowledged heartbeat or deployment, which only the
/// holder gets. If an earlier request had no answer, the acknowledgement may be the repeated answer to that request.
fn last_active(evidence: &Evidence<'_>) -> Vec<Moment> {
    let mut unanswered: HashMap<usize, Moment> = HashMap::new();
    let activities = || {
        let records = evidence.history.records.iter().filter(|record| is_activity(record));
        records.filter_map(|record| Some((evidence.place_of(session(record)?)?, record)))
    };
    for (place, record) in activities().filter(|(_, record)| record.answer == Answer::Unknown) {
        let first = unanswered.entry(place).or_insert(record.sent);
        *first = record.sent.min(*first);
    }
    let mut last: Vec<Moment> = evidence.grants.iter().map(|grant| grant.earliest).collect();
    for (place, record) in activities().filter(|(_, record)| record.answer == Answer::Done) {
        let first = unanswered.get(&place).map_or(record.sent, |first| record.sent.min(*first));
        last[place] = last[place].max(first);
    }
    last
}

/// The earliest moment at which each session may have been displaced. Each grant takes the next token, so only the
/// session with the next token can have displaced it.
fn displaced(evidence: &Evidence<'_>) -> Vec<Moment> {
    let mut moments = Vec::with_capacity(evidence.grants.len());
    for (environment, grants) in evidence.by_environment() {
        let mut by_token: Vec<&Grant> = grants.iter().collect();
        by_token.sort_unstable_by_key(|grant| grant.token);
        let unseen = if evidence.history.alone {
            evidence.unanswered.first_force_claim(environment).unwrap_or(NEVER)
        } else {
            // Others may force-claim here, and the history does not contain their requests.
            Moment(0)
        };
        moments.extend(grants.iter().map(|grant| {
            let next = grant.token.saturating_add(1);
            let start = by_token.partition_point(|other| other.token < next);
            let successors: Vec<_> = by_token[start..].iter().take_while(|other| other.token == next).collect();
            if successors.is_empty() {
                return unseen;
            }
            let forced = successors.into_iter().filter(|successor| successor.by_force());
            forced.map(|successor| successor.earliest).min().unwrap_or(NEVER)
        }));
    }
    moments
}

pub fn session(record: &Record) -> Option<&SessionName> {
    if let Request::Release { session }
    | Request::Heartbeat { session }
    | Request::Deploy { session }
    | Request::ReadSession { session } = &record.request
    {
        Some(session)
    } else {
        None
    }
}

/// Whether only the holder may make this request. These requests also renew the lease.
pub fn is_activity(record: &Record) -> bool {
    matches!(record.request, Request::Heartbeat { .. } | Request::Deploy { .. })
}

pub struct Rising<'h> {
    /// Contains only the moments at which the value rises.
    steps: Vec<(Moment, u64, &'h Record)>,
}

impl<'h> Rising<'h> {
    pub fn of(told: impl Iterator<Item = (Moment, u64, &'h Record)>) -> Self {
        let mut steps: Vec<_> = told.collect();
        steps.sort_unstable_by_key(|(at, token, _)| (*at, *token));
        let mut highest = None;
        steps.retain(|(_, token, _)| {
            let rises = highest.is_none_or(|highest| *token > highest);
            highest = if rises { Some(*token) } else { highest };
            rises
        });
        Self { steps }
    }

    /// The highest value known at that moment, and the record that showed it.
    pub fn by(&self, moment: Moment) -> Option<(u64, &'h Record)> {
        let told = self.steps.partition_point(|(at, _, _)| *at <= moment);
        self.steps[..told].last().map(|(_, token, record)| (*token, *record))
    }
}
