//! The state in an actor's memory: the environment after its last decision, durable or not; and recent pages,
//! deployments and departures that were handed to the store but may not be visible in it yet. An actor consults these
//! first and the store second.

use std::collections::BTreeMap;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::records::{Records, readable};
use ambient::backoff::{Backoff, Retries};
use domain::{
    ASK_WITHIN_MILLIS, ApprovalId, Blueprint, DeploymentId, DeploymentRecord, EndedDeployment, Environment,
    EnvironmentKey, IdSeed, Now, Origin, Outcome, Session, SessionId, Tick,
};
use records::{Keeping, Page, StoredEnvironment};
use store::{Sequence, StoreError};

pub struct Loaded {
    pub environment: Arc<Environment>,
    /// This state is durable when the store is durable up to here.
    pub handed_in: Sequence,
    /// When the next waiter may lose its place for lack of a poll.
    pub queue_due: Option<Tick>,
    /// Changes that the store refused, and when to try them again.
    pub retry: Retry,
    pub(super) keeping: Keeping,
    pub(super) pages: RecentPages,
    departures: RecentDepartures,
    pub(super) deployments: RecentDeployments,
    /// Whether the store has a wake record, because the lock expires automatically.
    pub(super) has_wake_record: bool,
    /// Whether the store has the mark that a deployment of this environment is unfinished.
    pub(super) has_unfinished_record: bool,
}

/// Disks stay full for long. The longest pause goes unnoticed afterwards, and causes little load even with a thousand
/// environments.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(20));

/// When the actor repeats refused changes that no caller waits for. A full disk accepts ends for longer than other
/// changes, so ends have a separate pause: refusals of other changes must not keep a lease from ending.
#[derive(Default)]
pub struct Retry {
    pub ends: Pause,
    pub others: Pause,
}

impl Retry {
    /// The pause of commands that end something ([`domain::Command::ENDS`]), or of all others.
    pub fn of(&mut self, ends: bool) -> &mut Pause {
        if ends { &mut self.ends } else { &mut self.others }
    }

    /// The store has accepted a change, so earlier refused ones are due. If the store accepts other changes, it accepts
    /// ends too.
    pub fn accepted(&mut self, ends: bool, now: Tick) {
        self.ends.accepted(now);
        if !ends {
            self.others.accepted(now);
        }
    }

    /// Whether a refused change has not been retried yet.
    pub fn is_due(&self) -> bool {
        self.ends.at.is_some() || self.others.at.is_some()
    }
}

/// The pause after refusals.
pub struct Pause {
    at: Option<Tick>,
    retries: Retries,
}

impl Default for Pause {
    fn default() -> Self {
        Self { at: None, retries: Retries::new(BACKOFF) }
    }
}

impl Pause {
    /// The store has refused. The first of several refusals sets the time.
    pub fn refused(&mut self, now: Tick) {
        if self.at.is_none() {
            self.at = Some(now.after(self.retries.failed()));
        }
    }

    /// The store has accepted a change, so the refused ones are due.
    pub fn accepted(&mut self, now: Tick) {
        self.retries.worked();
        if let Some(at) = &mut self.at {
            *at = now.min(*at);
        }
    }

    /// Whether it is too early to try again.
    pub fn is_pausing(&self, now: Tick) -> bool {
        self.at.is_some_and(|at| now < at)
    }

    /// The refused changes are being retried now.
    pub fn begin(&mut self) {
        self.at = None;
    }
}

/// A handed-in change, and the resulting history in the store.
pub struct Committed {
    /// The change is durable when the store is durable up to here.
    pub sequence: Sequence,
    pub pages: PageList<Page>,
    pub keeping: Keeping,
    pub deployments: BTreeMap<DeploymentId, DeploymentUpdate>,
    /// Whether more of the history must be dropped.
    pub trim_on: bool,
}

/// The seeds of the changed sessions' ids: a command changes one session, a force-claim two.
pub type ChangedSessions = SmallVec<[IdSeed; 2]>;

/// The changes of a decision that readers see.
pub struct Advance {
    /// The new state, if readers see a difference.
    pub view: Option<Arc<Environment>>,
    pub sessions: ChangedSessions,
    pub deployments: Vec<DeploymentId>,
    pub was_held_back: bool,
}

impl Loaded {
    pub fn new(stored: StoredEnvironment, settled: Sequence, now: Tick) -> Self {
        let StoredEnvironment { environment, keeping } = stored;
        Self {
            handed_in: settled,
            queue_due: environment.queue.has_durable().then_some(now),
            retry: Retry::default(),
            keeping,
            pages: RecentPages::default(),
            departures: RecentDepartures::default(),
            deployments: RecentDeployments::default(),
            has_wake_record: expires(&environment),
            has_unfinished_record: is_unfinished(&environment),
            environment,
        }
    }

    /// When something here may expire, or must be retried. While the store refuses ends, nothing is retried before that
    /// time, since ends that became due meanwhile would be refused as well.
    pub fn wake(&self) -> Option<Tick> {
        let ends = self.retry.ends.at.or_else(|| {
            let lock = self.environment.lock.as_deref().and_then(Session::expiry).map(|(until, _)| until.due);
            let queue = self.queue_due.filter(|_| self.environment.queue.has_durable());
            [lock, queue].into_iter().flatten().min()
        });
        [ends, self.retry.others.at].into_iter().flatten().min()
    }

    /// Replaces the state by the decided one that was handed in; `settled` says whether a sequence is durable.
    pub fn advance(
        &mut self,
        next: Arc<Environment>,
        outcome: &mut Outcome,
        committed: Committed,
        now: Now,
        settled: impl Fn(Sequence) -> bool,
    ) -> Advance {
        let Outcome { ended, left, enqueued, dequeued, deployments: records, blueprints, .. } = outcome;
        let Committed { sequence, pages, keeping, deployments: updates, trim_on: _ } = committed;
        let before = std::mem::replace(&mut self.environment, next);
        let next = &self.environment;
        let mut sessions: ChangedSessions = ended.iter().chain(&*left).map(|session| session.id.seed).collect();
        if let Some(lock) = &next.lock
            && before.lock.as_ref().is_none_or(|old| (old.id, old.revision) != (lock.id, lock.revision))
        {
            sessions.push(lock.id.seed);
        }
        let moved = before.revision != next.revision || enqueued.is_some() || !dequeued.is_empty();
        self.has_wake_record = expires(next);
        self.has_unfinished_record = is_unfinished(next);
        self.keeping = keeping;
        self.handed_in = sequence;
        if enqueued.as_ref().is_some_and(|waiter| waiter.is_durable()) && self.queue_due.is_none() {
            self.queue_due = Some(now.tick.plus(ASK_WITHIN_MILLIS));
        }
        self.pages.advance(pages, sequence, &settled);
        self.departures.advance(take(left), sequence, &settled);
        let deployments = records.iter().map(|record| record.deployment.id).collect();
        self.deployments.advance(take(records), take(blueprints), updates, sequence, settled);
        let view = moved.then(|| self.environment.clone());
        Advance { view, sessions, deployments, was_held_back: before.held_back }
    }

    /// A session that is no longer part of the environment: one that left the queue, or one from the history.
    pub fn ended_session(
        &self,
        records: &Records,
        key: &EnvironmentKey,
        id: SessionId,
    ) -> Result<Option<Arc<Session>>, StoreError> {
        if let Some(session) = self.departures.session(id) {
            return Ok(Some(session.clone()));
        }
        let session = match self.pages.session(id)? {
            Some(session) => {
                let remembered = self.environment.remembered_sessions(records.history_retention);
                Some(session).filter(|session| session.fencing_token().is_some_and(|n| remembered.contains(&n)))
            }
            None => records.ended_session(key, &self.environment, id)?,
        };
        Ok(session.map(Arc::new))
    }

    /// A deployment of this environment that has ended.
    pub fn ended_deployment(
        &self,
        records: &Records,
        key: &EnvironmentKey,
        id: DeploymentId,
    ) -> Result<Option<EndedDeployment>, StoreError> {
        let organization = &key.pipeline.organization;
        let recent = self.deployments.get(id);
        if recent.is_some_and(|update| update.forgotten) {
            return Ok(None);
        }
        let record = match recent.and_then(|update| update.record.clone()) {
            Some(record) => Some(record),
            None => records.deployment(organization, id)?.filter(|(of, _)| of == key).map(|(_, record)| record),
        };
        let Some(record) = record else { return Ok(None) };
        let blueprint = match recent.and_then(|update| update.blueprint.clone()) {
            Some(blueprint) => Some(blueprint),
            None if record.deployment.staged => records.blueprint(organization, id)?,
            None => None,
        };
        Ok(Some(EndedDeployment { record, blueprint }))
    }
}

fn expires(environment: &Environment) -> bool {
    environment.lock.as_ref().is_some_and(|lock| lock.expiry().is_some())
}

/// Whether a deployment of this environment is running or waiting.
pub fn is_unfinished(environment: &Environment) -> bool {
    environment.current_deployment().is_some() || environment.waiting_deployment().is_some()
}

/// The history pages in an actor's memory: those whose last change may not be durable, and the newest, into which the
/// next ended session goes. All other pages are unchanged in the store.
#[derive(Default)]
pub struct RecentPages {
    pages: PageList<RecentPage>,
}

struct RecentPage {
    page: Page,
    written: Sequence,
}

impl RecentPages {
    /// Adds the pages handed in, and drops those that are durable.
    pub fn advance(&mut self, written: PageList<Page>, sequence: Sequence, settled: impl Fn(Sequence) -> bool) {
        for (number, page) in written {
            self.pages.insert(number, RecentPage { page, written: sequence });
        }
        let newest = self.pages.last_number();
        self.pages.retain(|number, recent| Some(number) == newest || !settled(recent.written));
    }

    pub fn get(&self, number: u64) -> Option<&Page> {
        self.pages.get(number).map(|recent| &recent.page)
    }

    pub fn session(&self, id: SessionId) -> Result<Option<Session>, StoreError> {
        let numbers = match id.origin {
            Origin::Granted(number) => number..=number,
            Origin::Queued(_) => 0..=u64::MAX,
        };
        let pages = Page::of(*numbers.start())..=Page::of(*numbers.end());
        for (_, recent) in self.pages.iter().filter(|(number, _)| pages.contains(number)) {
            let sessions = readable(recent.page.sessions(numbers.clone()))?;
            if let Some(session) = sessions.into_iter().find(|session| session.id == id) {
                return Ok(Some(session));
            }
        }
        Ok(None)
    }
}

/// Sessions that have left the queue, until the store shows how they ended.
#[derive(Default)]
pub struct RecentDepartures {
    of: Vec<(Sequence, Arc<Session>)>,
}

impl RecentDepartures {
    /// Adds the sessions handed in, and drops those that are durable.
    pub fn advance(&mut self, left: Vec<Arc<Session>>, sequence: Sequence, settled: impl Fn(Sequence) -> bool) {
        self.of.retain(|(written, _)| !settled(*written));
        self.of.extend(left.into_iter().map(|session| (sequence, session)));
    }

    pub fn session(&self, id: SessionId) -> Option<&Arc<Session>> {
        self.of.iter().map(|(_, session)| session).find(|session| session.id == id)
    }
}

/// The recent changes to deployments with stages. A command on an ended deployment needs to know how it ended.
#[derive(Default)]
pub struct RecentDeployments {
    of: BTreeMap<DeploymentId, RecentDeployment>,
}

#[derive(Default)]
struct RecentDeployment {
    update: DeploymentUpdate,
    written: Sequence,
}

/// The changes of one deployment. Parts that are `None` are unchanged in the store.
#[derive(Default)]
pub struct DeploymentUpdate {
    pub record: Option<DeploymentRecord>,
    pub blueprint: Option<Arc<Blueprint>>,
    pub approvals: Option<Vec<ApprovalId>>,
    /// Whether all records are deleted, even if still visible in the store.
    pub forgotten: bool,
}

impl RecentDeployments {
    /// Adds the changes handed in, and drops those that are durable.
    pub fn advance(
        &mut self,
        records: Vec<DeploymentRecord>,
        blueprints: Vec<(DeploymentId, Arc<Blueprint>)>,
        written: BTreeMap<DeploymentId, DeploymentUpdate>,
        sequence: Sequence,
        settled: impl Fn(Sequence) -> bool,
    ) {
        for record in records.into_iter().filter(|record| record.deployment.staged) {
            let id = record.deployment.id;
            self.update(id, sequence).record = Some(record);
        }
        for (id, blueprint) in blueprints {
            self.update(id, sequence).blueprint = Some(blueprint);
        }
        for (id, update) in written {
            let kept = self.update(id, sequence);
            kept.forgotten |= update.forgotten;
            kept.approvals = update.approvals.or(kept.approvals.take());
        }
        self.of.retain(|_, recent| !settled(recent.written));
    }

    fn update(&mut self, id: DeploymentId, sequence: Sequence) -> &mut DeploymentUpdate {
        let recent = self.of.entry(id).or_default();
        recent.written = sequence;
        &mut recent.update
    }

    pub fn get(&self, id: DeploymentId) -> Option<&DeploymentUpdate> {
        self.of.get(&id).map(|recent| &recent.update)
    }
}

/// A sorted list of pages. There is nearly always one page, which needs no allocation.
pub struct PageList<T> {
    pages: SmallVec<[(u64, T); 1]>,
}

impl<T> Default for PageList<T> {
    fn default() -> Self {
        Self { pages: SmallVec::new() }
    }
}

impl<T> PageList<T> {
    pub fn get(&self, number: u64) -> Option<&T> {
        self.place(number).ok().map(|place| &self.pages[place].1)
    }

    /// Inserts a page, or replaces the one with this number.
    pub fn insert(&mut self, number: u64, page: T) {
        match self.place(number) {
            Ok(place) => self.pages[place].1 = page,
            Err(place) => self.pages.insert(place, (number, page)),
        }
    }

    pub fn last_number(&self) -> Option<u64> {
        self.pages.last().map(|(number, _)| *number)
    }

    pub fn retain(&mut self, mut keeps: impl FnMut(u64, &T) -> bool) {
        self.pages.retain(|(number, page)| keeps(*number, page));
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.pages.iter().map(|(number, page)| (*number, page))
    }

    /// The index of the page, or where to insert it.
    fn place(&self, number: u64) -> Result<usize, usize> {
        self.pages.binary_search_by_key(&number, |(number, _)| *number)
    }
}

impl<T> IntoIterator for PageList<T> {
    type Item = (u64, T);
    type IntoIter = smallvec::IntoIter<[(u64, T); 1]>;

    fn into_iter(self) -> Self::IntoIter {
        self.pages.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_in_order_and_each_is_there_once() {
        let mut list = PageList::default();
        assert_eq!((list.get(3), list.last_number()), (None, None));
        for (number, page) in [(3, 'a'), (7, 'b'), (1, 'c'), (3, 'd')] {
            list.insert(number, page);
        }
        assert_eq!((list.get(3), list.get(4), list.last_number()), (Some(&'d'), None, Some(7)));
        list.retain(|number, page| number == 7 || *page == 'd');
        assert_eq!(list.iter().collect::<Vec<_>>(), [(3, &'d'), (7, &'b')]);
        assert_eq!(list.into_iter().collect::<Vec<_>>(), [(3, 'd'), (7, 'b')]);
    }
}
