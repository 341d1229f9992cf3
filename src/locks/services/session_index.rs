//! The environments of an organization that have sessions, so that sessions can be listed without examining every
//! environment.
//!
//! An organization's index is inactive, and costs one atomic load per published view, until its sessions are first
//! listed. Then it is activated, and earlier state is read from the store once. The index follows the published views,
//! so it shows nothing that could still be lost, and everything that earlier answers mentioned.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use foldhash::fast::RandomState;
use tokio::sync::OnceCell;

use domain::{Environment, EnvironmentKey, Identifier, Person, Session, SessionId, Timestamp};
use store::Sequence;

/// A reader of the whole index locks one shard after another: with this many, an actor waits at most a millisecond.
const SHARDS: usize = 64;

/// The indexes of all organizations.
#[derive(Default)]
pub struct SessionIndexes {
    of: DashMap<Identifier, Arc<SessionIndex>, RandomState>,
}

impl SessionIndexes {
    pub fn get(&self, organization: &Identifier) -> Arc<SessionIndex> {
        if let Some(index) = self.of.get(organization) {
            return index.clone();
        }
        self.of.entry(organization.clone()).or_default().clone()
    }
}

/// The environments of one organization that have sessions.
#[derive(Default)]
pub struct SessionIndex {
    /// Whether the sessions have ever been listed; before that, nothing is reported here.
    active: AtomicBool,
    /// Set once the earlier state has been read too.
    pub learned: OnceCell<()>,
    environments: std::sync::OnceLock<DashMap<EnvironmentKey, Indexed, RandomState>>,
}

/// The entry of an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indexed {
    pub holder: Option<Holder>,
    /// Whether the environment has waiters by name; its view has the details.
    pub has_queue: bool,
    /// The sequence of the view.
    settled: Sequence,
}

/// The fields of the holder's session that are needed to select and sort sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub session: SessionId,
    pub user: Person,
    pub created_at: Timestamp,
}

impl SessionIndex {
    /// Makes every view published from now on be reported.
    pub fn activate(&self) {
        self.environments.get_or_init(|| DashMap::with_hasher_and_shard_amount(RandomState::default(), SHARDS));
        self.active.store(true, Ordering::SeqCst);
    }

    /// Readers see this state of an environment from now on. It has been durable since `settled`.
    pub fn published(&self, key: &EnvironmentKey, environment: &Environment, settled: Sequence) {
        if self.active.load(Ordering::SeqCst) {
            self.report(key, Indexed::of(environment, settled));
        }
    }

    fn report(&self, key: &EnvironmentKey, indexed: Indexed) {
        let Some(environments) = self.environments.get() else { return };
        // While the store is being read, environments without sessions are recorded too, since the read state may be
        // older.
        let is_worth_noting = !indexed.is_empty() || !self.learned.initialized();
        match environments.entry(key.clone()) {
            // A dead actor's last view may arrive late.
            Entry::Occupied(known) if known.get().settled > indexed.settled => {}
            Entry::Occupied(mut known) if is_worth_noting => _ = known.insert(indexed),
            Entry::Occupied(known) => _ = known.remove(),
            Entry::Vacant(vacant) if is_worth_noting => _ = vacant.insert(indexed),
            Entry::Vacant(_) => {}
        }
    }

    /// Records the state of an environment from before the index was active, unless a newer one has been reported.
    pub fn learn(&self, key: EnvironmentKey, environment: &Environment, has_queue: bool) {
        let Some(environments) = self.environments.get() else { return };
        let indexed = Indexed::of(environment, Sequence::default());
        let indexed = Indexed { has_queue: indexed.has_queue || has_queue, ..indexed };
        if !indexed.is_empty() {
            environments.entry(key).or_insert(indexed);
        }
    }

    /// Removes environments without sessions, which are no longer needed once the store has been read.
    pub fn forget_empty(&self) {
        if let Some(environments) = self.environments.get() {
            environments.retain(|_, indexed| !indexed.is_empty());
        }
    }

    /// Visits every environment with sessions, in no particular order.
    pub fn each(&self, mut visit: impl FnMut(&EnvironmentKey, &Indexed)) {
        for entry in self.environments.get().into_iter().flatten() {
            visit(entry.key(), entry.value());
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.environments.get().map_or(0, DashMap::len)
    }
}

impl Indexed {
    fn of(environment: &Environment, settled: Sequence) -> Self {
        let holder = environment.lock.as_deref().map(Holder::from);
        Self { holder, has_queue: !environment.queue.is_empty(), settled }
    }

    fn is_empty(&self) -> bool {
        self.holder.is_none() && !self.has_queue
    }
}

impl From<&Session> for Holder {
    fn from(session: &Session) -> Self {
        Self { session: session.id, user: session.user.clone(), created_at: session.created_at }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use domain::samples::{Subject, claim, identifier, person};
    use domain::{Configuration, PipelineKey, ReleaseLock};

    fn key() -> EnvironmentKey {
        let pipeline = PipelineKey { organization: identifier("acme"), pipeline: identifier("web") };
        EnvironmentKey { pipeline, name: identifier("review-1") }
    }

    fn holders(index: &SessionIndex) -> Vec<Option<SessionId>> {
        let mut found = Vec::new();
        index.each(|_, indexed| found.push(indexed.holder.as_ref().map(|holder| holder.session)));
        found
    }

    /// A free environment, and the same environment with a holder.
    fn states() -> (Environment, Environment) {
        let mut subject = Subject::with(Configuration::default());
        let free = subject.environment.clone();
        subject.run(0, claim(1)).unwrap();
        (free, subject.environment)
    }

    #[test]
    fn nothing_is_kept_before_anybody_asks() {
        let index = SessionIndex::default();
        index.published(&key(), &states().1, Sequence(1));
        assert_eq!(index.len(), 0);
        assert!(index.environments.get().is_none());
    }

    #[tokio::test]
    async fn an_environment_is_in_it_while_it_has_a_session() {
        let index = SessionIndex::default();
        let (free, held) = states();
        index.activate();
        index.learned.get_or_init(|| async {}).await;
        index.published(&key(), &held, Sequence(1));
        assert_eq!(holders(&index), [Some(held.lock.as_ref().unwrap().id)]);
        index.published(&key(), &free, Sequence(2));
        assert_eq!(index.len(), 0);
    }

    #[test]
    fn what_is_read_from_the_store_does_not_replace_what_was_reported_since() {
        let index = SessionIndex::default();
        let (free, held) = states();
        index.activate();
        index.published(&key(), &free, Sequence(2));
        index.learn(key(), &held, false);
        assert_eq!(holders(&index), [None], "it was released while the store was read");
        index.forget_empty();
        assert_eq!(index.len(), 0);
    }

    #[test]
    fn what_is_reported_replaces_what_was_read_even_if_it_was_handed_in_before() {
        let index = SessionIndex::default();
        let (free, held) = states();
        index.activate();
        index.learn(key(), &held, true);
        assert_eq!(index.len(), 1);
        index.published(&key(), &free, Sequence(1));
        assert_eq!(holders(&index), [None]);
    }

    #[tokio::test]
    async fn a_late_view_of_an_actor_that_died_changes_nothing() {
        let index = SessionIndex::default();
        let (free, held) = states();
        index.activate();
        index.learned.get_or_init(|| async {}).await;
        index.published(&key(), &held, Sequence(5));
        index.published(&key(), &free, Sequence(4));
        assert_eq!(index.len(), 1);
    }

    #[test]
    fn the_holder_in_it_is_the_one_with_the_lock() {
        let mut subject = Subject::with(Configuration::default());
        subject.run(0, claim(1)).unwrap();
        let index = SessionIndex::default();
        index.activate();
        index.published(&key(), &subject.environment, Sequence(1));
        subject.run(1, ReleaseLock { by: person(1), any: false }).unwrap();
        subject.run(2, claim(2)).unwrap();
        index.published(&key(), &subject.environment, Sequence(2));
        let lock = subject.environment.lock.as_ref().unwrap();
        assert_eq!(holders(&index), [Some(lock.id)]);
    }
}
