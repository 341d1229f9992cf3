//! The state of one environment: everything that the rules need and that must survive a restart.
//!
//! [`SkippedTokens`] are fencing tokens that an environment never grants: a server restored from a backup skips those
//! that may have been granted after it. A token is also the number of its session in the history, so counts of sessions
//! must exclude skipped tokens.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::named::named_enum;
use super::{
    CommitId, Configuration, Deployment, DeploymentId, DeploymentStatus, Person, Queue, Rejection, Session, SessionId,
    SessionRef, Timestamp,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// None before the environment is created and after it is deleted. The counters stay, so that no fencing token is
    /// granted twice under one name.
    pub configuration: Option<Arc<Configuration>>,
    pub configuration_revision: u64,
    /// Counts the changes of this environment, for its ETag.
    pub revision: u64,
    /// The token of the last grant. It also numbers the sessions of the history.
    pub fencing_token: u64,
    pub skipped_tokens: SkippedTokens,
    /// The first grant since the environment was created; earlier ones are not part of its history.
    pub first_session: u64,
    /// Shared with earlier states and with answers; changed with [`Arc::make_mut`].
    pub lock: Option<Arc<Session>>,
    /// An ended session whose deployment still runs. No other deployment starts before it has ended.
    pub leaving: Option<Arc<Session>>,
    /// The deployment that resets the environment. Until it has ended, only a force-claim gets the lock.
    pub reset: Option<Deployment>,
    /// The last reset. Earlier ones are not kept, since a reset belongs to no session.
    pub last_reset: Option<LastReset>,
    /// A deployment could start, but its pipeline is stopped.
    pub held_back: bool,
    /// Why the environment was disabled, unless a person disabled it.
    pub disabled_reason: Option<Arc<str>>,
    /// When a session last ended here.
    pub last_used: Option<Timestamp>,
    /// Changes of the queue alone do not count as revisions of the environment.
    pub queue: Queue,
    pub last_deployment: Option<LastDeployment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastReset {
    pub id: DeploymentId,
    /// The token of the preceding session. If a higher one has been granted since, the environment was force-claimed.
    pub fencing_token: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastDeployment {
    pub id: DeploymentId,
    pub commit: CommitId,
    pub status: DeploymentStatus,
    pub finished_at: Timestamp,
}

named_enum! {
    pub enum LockStatus {
        Unlocked = "unlocked",
        Locked = "locked",
        /// Being reset after a release.
        Resetting = "resetting",
        Disabled = "disabled",
    }
}

/// Whether an environment can be granted to a waiter.
#[derive(Debug, Clone)]
pub enum Availability {
    Free { configuration: Arc<Configuration>, last_used: Option<Timestamp> },
    Taken { configuration: Arc<Configuration> },
    Gone,
}

impl Environment {
    /// An environment that does not exist yet.
    pub fn absent() -> Self {
        Self {
            configuration: None,
            configuration_revision: 0,
            revision: 0,
            fencing_token: 0,
            skipped_tokens: SkippedTokens::default(),
            first_session: 1,
            lock: None,
            leaving: None,
            reset: None,
            last_reset: None,
            held_back: false,
            disabled_reason: None,
            last_used: None,
            queue: Queue::new(),
            last_deployment: None,
        }
    }

    pub fn exists(&self) -> bool {
        self.configuration.is_some()
    }

    /// A held environment is locked, even if it is disabled.
    pub fn lock_status(&self) -> LockStatus {
        match (&self.lock, &self.configuration) {
            (Some(_), _) => LockStatus::Locked,
            (None, _) if self.reset.is_some() => LockStatus::Resetting,
            (None, Some(configuration)) if !configuration.disabled => LockStatus::Unlocked,
            (None, _) => LockStatus::Disabled,
        }
    }

    /// Whether the lock can be granted now.
    pub fn is_vacant(&self) -> bool {
        self.lock_status() == LockStatus::Unlocked
    }

    /// Whether the environment is locked, or something runs in it.
    pub fn is_in_use(&self) -> bool {
        self.lock.is_some() || self.reset.is_some() || self.current_deployment().is_some()
    }

    /// Whether the environment is held by a session that only ends when it is released.
    pub fn holder_never_expires(&self) -> bool {
        self.lock.as_deref().is_some_and(Session::never_expires)
    }

    /// The availability for waiters of the pipeline's pool.
    pub fn availability(&self) -> Availability {
        match &self.configuration {
            None => Availability::Gone,
            Some(configuration) if self.is_vacant() => {
                Availability::Free { configuration: configuration.clone(), last_used: self.last_used }
            }
            Some(configuration) => Availability::Taken { configuration: configuration.clone() },
        }
    }

    /// The configuration, if the environment exists and is not disabled.
    pub(super) fn available(&self) -> Result<&Arc<Configuration>, Rejection> {
        let configuration = self.configuration.as_ref().ok_or(Rejection::EnvironmentNotFound)?;
        if configuration.disabled {
            return Err(Rejection::EnvironmentDisabled { reason: self.disabled_reason.clone() });
        }
        Ok(configuration)
    }

    /// Why the environment cannot be claimed now.
    pub(super) fn occupied(&self) -> Rejection {
        let queue_length = self.queue.len();
        match (&self.lock, self.available()) {
            (Some(holder), _) => Rejection::EnvironmentLocked { holder: holder.clone(), queue_length },
            (None, Err(unavailable)) => unavailable,
            (None, Ok(_)) => Rejection::EnvironmentResetting { queue_length },
        }
    }

    /// The session with this id, if it holds the lock, is leaving or waits.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        let present = self.present_session(id).map(|session| &**session);
        present.or_else(|| self.queue.session(id).map(|waiter| &waiter.session))
    }

    /// Like [`Self::session`], without waiting sessions.
    pub fn present_session(&self, id: SessionId) -> Option<&Arc<Session>> {
        [&self.lock, &self.leaving].into_iter().flatten().find(|session| session.id == id)
    }

    /// The session that a command refers to: the holder, a leaving or waiting one, or one from the history.
    pub(super) fn find<'a>(&'a self, session: &'a SessionRef) -> Result<&'a Session, Rejection> {
        if !self.exists() {
            return Err(Rejection::EnvironmentNotFound);
        }
        self.session(session.id).or(session.ended.as_deref()).ok_or(Rejection::SessionNotFound)
    }

    /// Like [`Self::find`], for commands that only the holder may execute.
    pub(super) fn find_holder<'a>(
        &'a self,
        session: &'a SessionRef,
        by: &Person,
        fencing_token: Option<u64>,
    ) -> Result<&'a Session, Rejection> {
        let session = self.find(session)?;
        session.check_user(by, false)?;
        if session.ended.is_some() {
            return Err(Rejection::SessionEnded { session: Arc::new(session.clone()) });
        }
        if let Some(waiter) = self.queue.session(session.id) {
            return Err(Rejection::SessionQueued { position: self.queue.position(waiter) });
        }
        let current = session.fencing_token().unwrap_or_default();
        if fencing_token.is_some_and(|token| token != current) {
            return Err(Rejection::StaleFencingToken { current });
        }
        Ok(session)
    }

    /// The token of the next grant.
    pub fn next_token(&self) -> u64 {
        self.skipped_tokens.next(self.fencing_token)
    }

    /// The number of the last session that no longer holds the lock, or a skipped one after it.
    pub fn newest_ended(&self) -> u64 {
        self.fencing_token - u64::from(self.lock.is_some())
    }

    /// The numbers of the sessions in a history that keeps `retention` ended ones.
    pub fn remembered_sessions(&self, retention: u64) -> RangeInclusive<u64> {
        let ended = self.skipped_tokens.count_up_to(self.newest_ended());
        let oldest = self.skipped_tokens.token_at((ended + 1).saturating_sub(retention));
        oldest.max(self.first_session)..=self.fencing_token
    }

    /// The number of sessions with these numbers.
    pub fn count_sessions(&self, numbers: RangeInclusive<u64>) -> u64 {
        let up_to = self.skipped_tokens.count_up_to(*numbers.end());
        up_to.saturating_sub(self.skipped_tokens.count_up_to(numbers.start().saturating_sub(1)))
    }

    /// The number of the session `count` sessions before this one; 0 if there is none.
    pub fn sessions_before(&self, number: u64, count: u64) -> u64 {
        self.skipped_tokens.token_at(self.skipped_tokens.count_up_to(number).saturating_sub(count))
    }

    /// A waiting or running deployment, and its session.
    pub fn unfinished_deployment(&self, id: DeploymentId) -> Option<(&Deployment, Option<&Session>)> {
        let of_sessions = [&self.leaving, &self.lock].into_iter().flatten();
        let mut all = of_sessions
            .flat_map(|session| session.deployments.iter().map(move |deployment| (deployment, Some(&**session))))
            .chain(self.reset.iter().map(|deployment| (deployment, None)));
        all.find(|(deployment, _)| deployment.id == id && !deployment.status.is_finished())
    }

    /// The next waiting deployment, if any.
    pub fn waiting_deployment(&self) -> Option<DeploymentId> {
        let of_session = self.lock.iter().flat_map(|session| &session.deployments);
        let mut all = self.reset.iter().chain(of_session);
        all.find(|deployment| deployment.status == DeploymentStatus::Queued).map(|deployment| deployment.id)
    }

    /// The only running deployment.
    pub fn current_deployment(&self) -> Option<&Deployment> {
        let mut sessions = [&self.leaving, &self.lock].into_iter().flatten();
        let of_sessions = sessions.find_map(|session| session.unfinished_deployment());
        of_sessions.or_else(|| self.reset.as_ref().filter(|deployment| deployment.status.occupies_environment()))
    }
}

impl Session {
    /// Checks that the session belongs to this person; `any` for callers who may act for others.
    pub fn check_user(&self, by: &Person, any: bool) -> Result<(), Rejection> {
        if self.user.id == by.id || any {
            Ok(())
        } else {
            Err(Rejection::NotSessionHolder { holder: self.user.clone() })
        }
    }
}

/// The number of runs of skipped tokens kept: one per restore. More restores than this within one history are not
/// expected.
const RUNS_MAX: usize = 16;

/// Skipped tokens as runs, in ascending order and not adjacent. Nearly always empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SkippedTokens(Vec<SkippedRun>);

/// `count` tokens after the token `after`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkippedRun {
    pub after: u64,
    pub count: u64,
}

impl SkippedTokens {
    /// `None` unless the runs are ascending and not adjacent.
    pub fn new(runs: Vec<SkippedRun>) -> Option<Self> {
        let mut from = 0;
        for SkippedRun { after, count } in &runs {
            if *after < from || *count == 0 {
                return None;
            }
            from = after.checked_add(*count)?.checked_add(1)?;
        }
        Some(Self(runs))
    }

    /// For an environment without any grant.
    pub fn before_the_first(count: u64) -> Self {
        let mut skipped = Self::default();
        skipped.skip(0, count);
        skipped
    }

    pub fn runs(&self) -> &[SkippedRun] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Skips this many more tokens after the last granted one. If that drops the oldest run, returns its last token:
    /// earlier tokens can no longer be counted.
    pub fn skip(&mut self, last_given: u64, count: u64) -> Option<u64> {
        if count == 0 {
            return None;
        }
        match self.0.last_mut() {
            Some(run) if run.after == last_given => run.count = run.count.saturating_add(count),
            Some(_) | None => self.0.push(SkippedRun { after: last_given, count }),
        }
        (self.0.len() > RUNS_MAX).then(|| self.0.remove(0)).map(|run| run.after + run.count)
    }

    /// Keeps only the run that begins after this token, for an environment that is created again.
    pub fn after(&self, last_given: u64) -> Self {
        Self(self.0.iter().filter(|run| run.after == last_given).copied().collect())
    }

    /// The token to grant after this one.
    pub fn next(&self, given: u64) -> u64 {
        let skipped = self.0.last().filter(|run| run.after == given).map_or(0, |run| run.count);
        given.saturating_add(1).saturating_add(skipped)
    }

    /// The number of tokens up to and including this one that are not skipped.
    pub fn count_up_to(&self, token: u64) -> u64 {
        let skipped = self.0.iter().map(|run| run.count.min(token.saturating_sub(run.after)));
        token - skipped.sum::<u64>()
    }

    /// The inverse of [`Self::count_up_to`]: the non-skipped token with this count; 0 for count 0.
    pub fn token_at(&self, count: u64) -> u64 {
        let beyond =
            |token: u64, run: &SkippedRun| if token > run.after { token.saturating_add(run.count) } else { token };
        self.0.iter().fold(count, beyond)
    }

    /// The parts of `from..until` that are not skipped, ascending.
    pub fn given_between(&self, from: u64, until: u64) -> Vec<std::ops::Range<u64>> {
        let (mut parts, mut from) = (Vec::new(), from);
        for run in &self.0 {
            parts.push(from..until.min(run.after + 1));
            from = from.max(run.after + run.count + 1);
        }
        parts.push(from..until);
        parts.retain(|part| !part.is_empty());
        parts
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn skipped(runs: &[(u64, u64)]) -> SkippedTokens {
        SkippedTokens::new(runs.iter().map(|(after, count)| SkippedRun { after: *after, count: *count }).collect())
            .unwrap()
    }

    #[test]
    fn the_token_after_a_restore_is_beyond_all_that_are_skipped() {
        let mut tokens = SkippedTokens::before_the_first(100);
        assert_eq!(tokens.next(0), 101);
        assert_eq!((tokens.skip(0, 50), tokens.next(0)), (None, 151), "restored twice, and nothing given between");
        assert_eq!((tokens.next(151), tokens.next(152)), (152, 153));
        tokens.skip(153, 1_000);
        assert_eq!((tokens.next(153), tokens.next(152)), (1_154, 153));
        assert_eq!(tokens.after(153).next(153), 1_154);
        assert!(tokens.after(152).is_empty());
    }

    #[test]
    fn runs_that_are_out_of_order_empty_or_too_large_are_refused() {
        let run = |after, count| SkippedRun { after, count };
        for runs in [vec![run(5, 0)], vec![run(5, 3), run(8, 1)], vec![run(5, 3), run(2, 1)], vec![run(5, u64::MAX)]] {
            assert_eq!(SkippedTokens::new(runs.clone()), None, "{runs:?}");
        }
        assert!(SkippedTokens::new(vec![run(5, 3), run(9, 1)]).is_some());
    }

    #[test]
    fn only_so_many_runs_are_kept() {
        let mut tokens = SkippedTokens::default();
        let mut last = 0;
        for _ in 0..RUNS_MAX {
            assert_eq!(tokens.skip(last, 10), None);
            last = tokens.next(last);
        }
        assert_eq!((tokens.skip(last, 10), tokens.runs().len()), (Some(10), RUNS_MAX));
    }

    proptest! {
        /// Compared with a plain list of the tokens.
        #[test]
        fn counting_goes_around_what_is_skipped(runs in prop::collection::vec((1u64..9, 1u64..9), 0..5), given in 1u64..40) {
            let (mut tokens, mut list, mut last) = (SkippedTokens::default(), Vec::new(), 0);
            for (between, count) in runs.iter().copied().chain([(given, 0)]) {
                for _ in 0..between {
                    last = tokens.next(last);
                    list.push(last);
                }
                tokens.skip(last, count);
            }
            prop_assert_eq!(SkippedTokens::new(tokens.runs().to_vec()), Some(tokens.clone()));
            for token in 0..=last {
                let up_to = list.iter().filter(|given| **given <= token).count() as u64;
                prop_assert_eq!(tokens.count_up_to(token), up_to);
            }
            for (place, token) in list.iter().enumerate() {
                prop_assert_eq!(tokens.token_at(place as u64 + 1), *token);
            }
            let between: Vec<u64> = tokens.given_between(3, last).into_iter().flatten().collect();
            let expected: Vec<u64> = list.iter().copied().filter(|token| (3..last).contains(token)).collect();
            prop_assert_eq!(between, expected);
        }
    }

    #[test]
    fn a_token_within_a_run_counts_like_the_one_before_it() {
        let tokens = skipped(&[(4, 10), (20, 5)]);
        assert_eq!([4, 5, 14, 15, 20, 23, 26].map(|token| tokens.count_up_to(token)), [4, 4, 4, 5, 10, 10, 11]);
        assert_eq!([0, 4, 5, 10, 11].map(|count| tokens.token_at(count)), [0, 4, 15, 20, 26]);
    }
}
