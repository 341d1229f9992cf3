//! Utilisation of environments during a period, waiting times, and holders: sums over sessions.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::{EnvironmentKey, Person, Session, Timestamp, UserId};

const HOUR_MILLIS: i64 = 3_600_000;
const DAY_MILLIS: i64 = 24 * HOUR_MILLIS;
/// Maximum period and its bucket: a chart has between 20 and 50 bars. Longer periods have a bucket per day.
const BUCKETS: [(i64, i64); 2] = [(2 * DAY_MILLIS, HOUR_MILLIS), (8 * DAY_MILLIS, 6 * HOUR_MILLIS)];
/// Faster grants count as immediate: nobody notices the wait, and commits take some milliseconds.
const WAITED_MILLIS: i64 = 1_000;

/// A half-open interval: `from` is included, `to` is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    pub from: Timestamp,
    pub to: Timestamp,
}

/// The position of a period relative to a session that has held the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeriodIs {
    Before,
    During,
    After,
}

impl Period {
    pub fn millis(self) -> i64 {
        self.millis_of(self.from, self.to)
    }

    pub fn has(self, moment: Timestamp) -> bool {
        self.from <= moment && moment < self.to
    }

    /// A session that was only queued is in no period.
    pub fn is(self, session: &Session) -> PeriodIs {
        let Some(claimed) = &session.claimed else { return PeriodIs::After };
        match &session.ended {
            _ if claimed.at >= self.to => PeriodIs::Before,
            // A session that began and ended in the same millisecond counts.
            Some(ended) if ended.at < self.from => PeriodIs::After,
            Some(_) | None => PeriodIs::During,
        }
    }

    /// How much of an interval lies in the period. Zero if the interval ends before it begins, which happens when the
    /// wall clock is set.
    fn millis_of(self, from: Timestamp, to: Timestamp) -> i64 {
        let (from, to) = (from.max(self.from).as_millis(), to.min(self.to).as_millis());
        to.saturating_sub(from).max(0)
    }

    fn bucket_millis(self) -> i64 {
        let fitting = BUCKETS.iter().find(|(longest, _)| self.millis() <= *longest);
        fitting.map_or(DAY_MILLIS, |(_, bucket)| *bucket)
    }

    /// The buckets from the beginning of the period; the last one may be shorter.
    fn buckets(self) -> impl Iterator<Item = Period> {
        let (bucket, end) = (self.bucket_millis(), self.to);
        let begins = std::iter::successors(Some(self.from), move |from| Some(from.plus(bucket)));
        let begins = begins.take_while(move |from| *from < end);
        begins.map(move |from| Period { from, to: from.plus(bucket).min(end) })
    }
}

#[derive(Debug)]
pub struct Utilisation {
    pub period: Period,
    pub bucket_millis: i64,
    /// In the order in which they were begun.
    pub environments: Vec<EnvironmentUse>,
    buckets: Vec<Period>,
    /// One list per bucket of the grant.
    waits: Vec<Vec<i64>>,
    holders: HashMap<UserId, HolderUse>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct EnvironmentUse {
    pub key: EnvironmentKey,
    /// Sessions that held the lock during the period.
    pub sessions: u64,
    pub locked_millis: i64,
    pub locked_millis_per_bucket: Vec<i64>,
    waits: Vec<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HolderUse {
    pub user: Person,
    pub sessions: u64,
    pub locked_millis: i64,
    pub longest_millis: i64,
}

/// The waits of sessions that had to wait and got the lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    pub count: usize,
    pub median_millis: Option<i64>,
    pub p90_millis: Option<i64>,
    pub max_millis: Option<i64>,
}

impl Utilisation {
    pub fn new(period: Period) -> Self {
        let buckets: Vec<_> = period.buckets().collect();
        Self {
            period,
            bucket_millis: period.bucket_millis(),
            environments: Vec::new(),
            waits: vec![Vec::new(); buckets.len()],
            buckets,
            holders: HashMap::new(),
        }
    }

    /// The sessions added next belong to this environment.
    pub fn begin(&mut self, key: EnvironmentKey) {
        self.environments.push(EnvironmentUse {
            key,
            sessions: 0,
            locked_millis: 0,
            locked_millis_per_bucket: vec![0; self.buckets.len()],
            waits: Vec::new(),
        });
    }

    /// Adds a session that held the lock during the period.
    pub fn add(&mut self, session: &Session) {
        let (Some(claimed), Some(environment)) = (&session.claimed, self.environments.last_mut()) else { return };
        let until = session.ended.as_ref().map_or(self.period.to, |ended| ended.at);
        let locked = self.period.millis_of(claimed.at, until);
        environment.sessions += 1;
        environment.locked_millis += locked;
        for (bucket, sum) in self.buckets.iter().zip(&mut environment.locked_millis_per_bucket) {
            *sum += bucket.millis_of(claimed.at, until);
        }
        let waited = claimed.at.as_millis().saturating_sub(session.created_at.as_millis());
        if waited >= WAITED_MILLIS && self.period.has(claimed.at) {
            environment.waits.push(waited);
            let bucket = self.buckets.iter().position(|bucket| bucket.has(claimed.at));
            if let Some(waits) = bucket.and_then(|bucket| self.waits.get_mut(bucket)) {
                waits.push(waited);
            }
        }
        let holder = self.holders.entry(session.user.id).or_insert_with(|| HolderUse {
            user: session.user.clone(),
            sessions: 0,
            locked_millis: 0,
            longest_millis: 0,
        });
        holder.sessions += 1;
        holder.locked_millis += locked;
        holder.longest_millis = holder.longest_millis.max(locked);
    }

    pub fn waits_per_bucket(&self) -> impl Iterator<Item = Waits> {
        self.waits.iter().map(|waits| Waits::of(waits))
    }

    /// The `most` users with the longest total hold, longest first.
    pub fn holders(&self, most: usize) -> Vec<&HolderUse> {
        let mut holders: Vec<_> = self.holders.values().collect();
        // Ties are sorted by name, so that the result is deterministic.
        holders.sort_unstable_by_key(|holder| (Reverse(holder.locked_millis), holder.user.name.clone()));
        holders.truncate(most);
        holders
    }
}

impl EnvironmentUse {
    pub fn waits(&self) -> Waits {
        Waits::of(&self.waits)
    }
}

impl Waits {
    fn of(waits: &[i64]) -> Self {
        let mut sorted = waits.to_vec();
        sorted.sort_unstable();
        // The nearest rank: an actual wait.
        let at = |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Self { count: sorted.len(), median_millis: at(50), p90_millis: at(90), max_millis: sorted.last().copied() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use super::*;
    use crate::samples::{person, request, seed};
    use crate::{Claimed, Ended, EndedHow, Identifier, Now, Origin, PipelineKey, SessionId, Tick};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn hours(from: i64, to: i64) -> Period {
        Period { from: at(from * HOUR_MILLIS), to: at(to * HOUR_MILLIS) }
    }

    fn key() -> EnvironmentKey {
        let name = |text| Identifier::parse(text).unwrap();
        EnvironmentKey {
            pipeline: PipelineKey { organization: name("acme"), pipeline: name("web") },
            name: name("review-1"),
        }
    }

    /// Requested, claimed and ended at these times.
    fn session(who: u8, asked: i64, claimed: i64, ended: Option<i64>) -> Session {
        let now = Now { at: at(asked), tick: Tick(0) };
        let mut session = request(who).into_session(SessionId { seed: seed(1), origin: Origin::Granted(1) }, now);
        session.claimed = Some(Claimed {
            fencing_token: 1,
            at: at(claimed),
            tick: Tick(0),
            lease: None,
            hold_until: None,
            unseen_until: None,
            seen: true,
        });
        session.ended = ended.map(|ended| Ended { at: at(ended), by: None, how: EndedHow::Released });
        session
    }

    fn of(period: Period, sessions: &[Session]) -> Utilisation {
        let mut utilisation = Utilisation::new(period);
        utilisation.begin(key());
        sessions.iter().for_each(|session| utilisation.add(session));
        utilisation
    }

    #[test]
    fn a_period_has_a_bucket_per_hour_six_hours_or_day_and_ends_with_its_last() {
        for (length, bucket, count) in [(1, 1, 1), (24, 1, 24), (48, 1, 48), (49, 6, 9), (192, 6, 32), (193, 24, 9)] {
            let utilisation = Utilisation::new(hours(0, length));
            assert_eq!(utilisation.bucket_millis, bucket * HOUR_MILLIS, "{length} hours");
            assert_eq!(utilisation.buckets.len(), count, "{length} hours");
            assert_eq!(utilisation.buckets.last().unwrap().to, at(length * HOUR_MILLIS));
        }
        assert_eq!(Utilisation::new(hours(2, 2)).buckets, []);
    }

    #[test]
    fn a_session_counts_only_with_what_it_held_within_the_period() {
        let (hour, half) = (HOUR_MILLIS, HOUR_MILLIS / 2);
        let sessions = [
            session(1, 0, 0, Some(hour + half)),
            session(1, 2 * hour, 2 * hour, Some(2 * hour + half)),
            session(2, 3 * hour + half, 3 * hour + half, None),
        ];
        let utilisation = of(hours(1, 4), &sessions);
        let found = &utilisation.environments[0];
        assert_eq!((found.sessions, found.locked_millis), (3, 3 * half));
        assert_eq!(found.locked_millis_per_bucket, [half, half, half]);
        let holders: Vec<_> = utilisation.holders(20).into_iter().cloned().collect();
        let holder = |who, sessions, locked_millis, longest_millis| HolderUse {
            user: person(who),
            sessions,
            locked_millis,
            longest_millis,
        };
        assert_eq!(holders, [holder(1, 2, 2 * half, half), holder(2, 1, half, half)]);
        assert_eq!(utilisation.holders(1).len(), 1);
    }

    #[test]
    fn a_session_over_many_buckets_fills_each_of_them() {
        let utilisation = of(hours(0, 48), &[session(1, 0, HOUR_MILLIS / 4, Some(100 * HOUR_MILLIS))]);
        let found = &utilisation.environments[0];
        assert_eq!(found.locked_millis, 48 * HOUR_MILLIS - HOUR_MILLIS / 4);
        assert_eq!(found.locked_millis_per_bucket[0], HOUR_MILLIS * 3 / 4);
        assert!(found.locked_millis_per_bucket[1..].iter().all(|millis| *millis == HOUR_MILLIS));
        assert_eq!(found.locked_millis_per_bucket.iter().sum::<i64>(), found.locked_millis);
    }

    #[test]
    fn waits_are_those_of_grants_within_the_period_that_took_a_second_or_more() {
        let waited = |claimed: i64, seconds: i64| session(1, claimed - seconds * 1_000, claimed, Some(claimed + 1));
        let mut sessions: Vec<_> = (1..=10).map(|seconds| waited(HOUR_MILLIS, seconds)).collect();
        sessions.push(waited(2 * HOUR_MILLIS, 60));
        sessions.push(session(1, HOUR_MILLIS - 999, HOUR_MILLIS, None));
        sessions.push(session(1, 0, HOUR_MILLIS - 1, None));
        let utilisation = of(hours(1, 4), &sessions);
        let waits = |count, median: i64, p90: i64, max: i64| Waits {
            count,
            median_millis: Some(median * 1_000),
            p90_millis: Some(p90 * 1_000),
            max_millis: Some(max * 1_000),
        };
        assert_eq!(utilisation.environments[0].waits(), waits(11, 6, 10, 60));
        let per_bucket: Vec<_> = utilisation.waits_per_bucket().collect();
        assert_eq!(per_bucket, [waits(10, 5, 9, 10), waits(1, 60, 60, 60), Waits::default()]);
    }

    #[test]
    fn a_clock_that_was_set_back_takes_nothing_away() {
        let utilisation = of(hours(0, 4), &[session(1, 9_000, 5_000, Some(3_000))]);
        let found = &utilisation.environments[0];
        assert_eq!((found.sessions, found.locked_millis, found.waits()), (1, 0, Waits::default()));
    }

    #[test]
    fn a_period_lies_before_during_or_after_a_session() {
        let period = Period { from: at(1_000), to: at(2_000) };
        for (claimed, ended, expected) in [
            (2_000, None, PeriodIs::Before),
            (1_999, None, PeriodIs::During),
            (0, Some(1_000), PeriodIs::During),
            (0, Some(999), PeriodIs::After),
            (0, None, PeriodIs::During),
            (0, Some(9_000), PeriodIs::During),
        ] {
            assert_eq!(period.is(&session(1, 0, claimed, ended)), expected, "{claimed} {ended:?}");
        }
        let queued = Session { claimed: None, ..session(1, 1_500, 1_500, None) };
        assert_eq!(period.is(&queued), PeriodIs::After);
    }

    #[test]
    fn holders_of_equal_times_are_in_the_order_of_their_names() {
        let named = |who: u8, name: &str| {
            let mut session = session(who, 0, 0, Some(1_000));
            session.user.name = Arc::from(name);
            session
        };
        let utilisation = of(hours(0, 1), &[named(1, "zoe"), named(2, "ana"), named(3, "mia")]);
        let names: Vec<_> = utilisation.holders(9).iter().map(|holder| holder.user.name.to_string()).collect();
        assert_eq!(names, ["ana", "mia", "zoe"]);
    }
}
