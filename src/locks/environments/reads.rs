//! Reads environments, sessions, queues and histories: from the published view if there is an actor, otherwise from the
//! store. Also the utilisation of environments in a period, and a census for operators.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::Environments;
use crate::keys;
use crate::ports::Failure;
use crate::state::records::readable;
use domain::{
    ASK_WITHIN_MILLIS, Environment, EnvironmentKey, Identifier, LabelValue, LockStatus, Origin, Period, PeriodIs,
    PipelineKey, Session, SessionId, Timestamp, UserId, Utilisation, Waiter,
};
use records::{Page, StoredEnvironment};
use store::{StoreError, end_of_prefix, next_piece};

/// Similar names share a prefix that is this many characters shorter than the name.
const STEM_SHORTER: usize = 3;

/// A session, its environment, and its place if it waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFound {
    /// None while the session waits for any environment, or if it ended while waiting.
    pub environment: Option<EnvironmentKey>,
    pub session: Arc<Session>,
    pub waiting: Option<Waiting>,
}

/// The place of a queued session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Position 1 is served next.
    pub position: usize,
    /// When the session loses its place, unless its client polls before.
    pub until: Timestamp,
    /// Whether the session waits for a lock that only ends when it is released.
    pub holder_never_expires: bool,
}

/// A waiter in the queue of an environment.
pub struct Queued {
    pub waiter: Arc<Waiter>,
    /// Whether the waiter would accept any environment with matching labels, not only this one.
    pub any: bool,
}

/// One page of a list, and the total number of matches.
pub struct Listed<T> {
    pub items: Vec<T>,
    pub total: u64,
}

#[derive(Debug, Clone, Default)]
pub struct ListFilter {
    /// Only environments with these names; all if empty.
    pub names: BTreeSet<Identifier>,
    pub lock_status: Option<LockStatus>,
    /// The environment must have all of these labels.
    pub labels: Vec<(Identifier, LabelValue)>,
}

impl Environments {
    /// The environment in its durable state, if it exists.
    pub fn environment(&self, key: &EnvironmentKey) -> Result<Option<Arc<Environment>>, StoreError> {
        self.directory.environment(key)
    }

    /// The environment without its queue, for readers of many: reading does not keep an actor in memory.
    pub(super) fn at_a_glance(&self, key: &EnvironmentKey) -> Result<Option<Arc<Environment>>, StoreError> {
        match self.directory.peek(key) {
            Some(view) => Ok(Some(view)),
            None => Ok(self.services().records.environment(key)?.map(|stored| stored.environment)),
        }
    }

    /// Like [`Self::at_a_glance`], with the queue.
    pub(super) fn at_a_glance_with_queue(&self, key: &EnvironmentKey) -> Result<Option<Arc<Environment>>, StoreError> {
        if let Some(view) = self.directory.peek(key) {
            return Ok(Some(view));
        }
        let stored = self.services().records.environment_with_queue(key)?;
        // An actor may have loaded the environment and its queue meanwhile.
        Ok(self.directory.peek(key).or_else(|| stored.map(|stored| stored.environment)))
    }

    /// A session of the environment, in its durable state. A read by its own client counts as a poll. If no session is
    /// found, the environment may have been deleted since it was read: the session certainly does not exist if the
    /// environment has [caught up](Self::caught_up) and still exists.
    pub fn session(
        &self,
        key: &EnvironmentKey,
        environment: &Environment,
        id: SessionId,
        reader: UserId,
    ) -> Result<Option<SessionFound>, StoreError> {
        if let Some(waiter) = environment.queue.session(id) {
            self.note_poll(waiter, reader);
            let waiting = Some(self.waiting_in(key, environment, waiter));
            let session = Arc::new(waiter.session.clone());
            return Ok(Some(SessionFound { environment: Some(key.clone()), session, waiting }));
        }
        let session = match environment.present_session(id) {
            Some(session) => Some(session.clone()),
            None => self.services().records.ended_session(key, environment, id)?.map(Arc::new),
        };
        Ok(session.map(|session| SessionFound { environment: Some(key.clone()), session, waiting: None }))
    }

    /// A session of the pipeline that began in a queue, wherever it is now. A read by its own client counts as a poll.
    pub fn session_of_any(
        &self,
        pipeline: &PipelineKey,
        id: SessionId,
        reader: UserId,
    ) -> Result<Option<SessionFound>, StoreError> {
        let Origin::Queued(ticket) = id.origin else { return Ok(None) };
        if let Some((waiter, position)) = self.directory.pools.get(pipeline).session(id) {
            self.note_poll(&waiter, reader);
            let waiting = Some(self.waiting_in_pool(&waiter, position));
            let session = Arc::new(waiter.session.clone());
            return Ok(Some(SessionFound { environment: None, session, waiting }));
        }
        let records = &self.services().records;
        if let Some(key) = records.pointer(ticket)?.map(|(key, _)| key).filter(|key| key.pipeline == *pipeline) {
            return match self.environment(&key)? {
                Some(environment) => self.session(&key, &environment, id, reader),
                None => Ok(None),
            };
        }
        let ended = records.ended_in_queue(id)?.filter(|(of, _, _)| of == pipeline);
        Ok(ended.map(|(pipeline, name, session)| {
            let environment = name.map(|name| EnvironmentKey { pipeline, name });
            SessionFound { environment, session: Arc::new(session), waiting: None }
        }))
    }

    /// A read of the session by its own client holds its place.
    fn note_poll(&self, waiter: &Waiter, reader: UserId) {
        if waiter.session.user.id == reader {
            self.services().waiters.polled(waiter.ticket, self.services().tick());
        }
    }

    /// The position of a waiter in the queue of an environment, including waiters in the pool.
    pub(super) fn waiting_in(&self, key: &EnvironmentKey, environment: &Environment, waiter: &Waiter) -> Waiting {
        let pool = || self.directory.pools.get(&key.pipeline);
        let ahead = environment.configuration.as_ref().map_or(0, |c| pool().ahead(c, waiter.turn()));
        let position = environment.queue.position(waiter) + ahead;
        let holder_never_expires = environment.holder_never_expires();
        Waiting { holder_never_expires, ..self.waiting_in_pool(waiter, position) }
    }

    pub(super) fn waiting_in_pool(&self, waiter: &Waiter, position: usize) -> Waiting {
        let (waiters, now) = (&self.services().waiters, self.services().now());
        let left = waiters.last_poll(waiter.ticket).plus(ASK_WITHIN_MILLIS).0.saturating_sub(now.tick.0);
        Waiting { position, until: now.at.plus(left.max(0)), holder_never_expires: false }
    }

    /// All waiters for the environment in order, both by name and for any.
    pub fn queue(&self, key: &EnvironmentKey, environment: &Environment) -> Vec<Queued> {
        let by_name = environment.queue.iter().map(|waiter| Queued { waiter: waiter.clone(), any: false });
        let mut all: Vec<_> = by_name.collect();
        if let Some(configuration) = &environment.configuration {
            let pooled = self.directory.pools.get(&key.pipeline).waiting_for(configuration);
            all.extend(pooled.into_iter().map(|waiter| Queued { waiter, any: true }));
            all.sort_unstable_by_key(|queued| queued.waiter.turn());
        }
        all
    }

    /// `limit` sessions after the `offset` newest, newest first, all from the same state as `environment`. None if some
    /// of them have been dropped since: then read the environment again once it has [caught up](Self::caught_up).
    /// Sessions are numbered without gaps except for skipped tokens, so the last page costs as much as the first.
    pub fn history(
        &self,
        key: &EnvironmentKey,
        environment: &Environment,
        offset: u64,
        limit: u64,
    ) -> Result<Option<Listed<Session>>, StoreError> {
        let records = &self.services().records;
        let is_behind = |stored: &StoredEnvironment| stored.environment.revision != environment.revision;
        let remembered = environment.remembered_sessions(records.history_retention);
        let (mut oldest, newest) = (*remembered.start(), *remembered.end());
        // Raising the retention does not bring back sessions dropped before.
        let kept_from = |stored: &StoredEnvironment| Page::first_of(Page::of(stored.keeping.from));
        if let Some(stored) = records.environment(key)?.filter(|stored| kept_from(stored) > oldest) {
            if is_behind(&stored) {
                return Ok(None);
            }
            oldest = kept_from(&stored);
        }
        let total = environment.count_sessions(oldest..=newest);
        if offset >= total {
            return Ok(Some(Listed { items: Vec::new(), total }));
        }
        let last = environment.sessions_before(newest, offset);
        let first = environment.sessions_before(last, limit - 1).max(oldest);
        let (from, to) = (Page::of(first), Page::of(last) + 1);
        let pages = self.services().store().scan(&keys::page(key, from), &keys::page(key, to), (to - from) as usize)?;
        let mut sessions = Vec::new();
        for (_, record) in pages {
            sessions.extend(readable(Page::read(record).and_then(|page| page.sessions(first..=last)))?);
        }
        sessions.retain(|session| environment.session(session.id).is_none());
        let present = [&environment.leaving, &environment.lock].into_iter().flatten();
        let number = |session: &Session| session.fencing_token().unwrap_or_default();
        let present = present.filter(|session| (first..=last).contains(&number(session)));
        sessions.extend(present.map(|session| Session::clone(session)));
        let complete = sessions.len() as u64 >= environment.count_sessions(first..=last);
        if !complete && records.environment(key)?.is_some_and(|now| is_behind(&now)) {
            return Ok(None);
        }
        sessions.sort_unstable_by_key(|session| std::cmp::Reverse(number(session)));
        Ok(Some(Listed { items: sessions, total }))
    }

    /// Resolves when readers see everything that the store had of the environment at the time of the call. The store
    /// has a change shortly before its view is published. A reader that does not find in the store what the view
    /// mentions waits for this and reads again.
    pub async fn caught_up(&self, key: &EnvironmentKey) -> Result<(), Failure> {
        let services = self.services();
        // Created before the view is read, so that no publication is missed.
        let mut watch = self.watch_environment(key);
        let Some(stored) = services.records.environment(key)? else { return Ok(()) };
        let is_behind = |view: Arc<Environment>| view.revision < stored.environment.revision;
        let published = async {
            while self.directory.peek(key).is_some_and(is_behind) {
                watch.changed().await;
            }
        };
        tokio::time::timeout(services.options.answer_timeout, published).await.map_err(|_| Failure::Overloaded)
    }

    /// The matching environments of a pipeline, by name: `limit` environments after the first `offset`.
    pub fn list(
        &self,
        pipeline: &PipelineKey,
        filter: &ListFilter,
        offset: u64,
        limit: u64,
    ) -> Result<Listed<(Identifier, Arc<Environment>)>, StoreError> {
        let mut page = Listed::default();
        self.each_named(pipeline, filter, None, |name, environment| {
            if filter.matches(&environment) && page.counts(offset, limit) {
                page.items.push((name, environment));
            }
            ControlFlow::Continue(())
        })?;
        Ok(page)
    }

    /// The next `limit` matching environments after the name `after`, for reading a long list in pieces.
    pub fn list_after(
        &self,
        pipeline: &PipelineKey,
        filter: &ListFilter,
        after: Option<&Identifier>,
        limit: usize,
    ) -> Result<Vec<(Identifier, Arc<Environment>)>, StoreError> {
        let mut found = Vec::new();
        self.each_named(pipeline, filter, after, |name, environment| {
            if filter.matches(&environment) {
                found.push((name, environment));
            }
            if found.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(found)
    }

    /// Suggestions for an unknown name: the first names of the pipeline's environments and those with a similar
    /// beginning, at most `most` of each; and whether those are all names. Reads no more records than that.
    pub fn names_near(
        &self,
        pipeline: &PipelineKey,
        name: &str,
        most: usize,
    ) -> Result<(Vec<Identifier>, bool), StoreError> {
        let prefix = keys::environments_of(pipeline);
        let read = |from: &[u8]| -> Result<(Vec<Identifier>, bool), StoreError> {
            let pairs = self.services().store().scan(from, &end_of_prefix(from), most)?;
            let are_all = pairs.len() < most;
            let mut names = Vec::new();
            for (key, record) in &pairs {
                let name = std::str::from_utf8(&key[prefix.len()..]).ok().and_then(|name| Identifier::parse(name).ok());
                if let Some(name) = name.filter(|_| records::is_of_existing(record).unwrap_or(false)) {
                    names.push(name);
                }
            }
            Ok((names, are_all))
        };
        let (mut names, are_all) = read(&prefix)?;
        if !are_all {
            let stem: String = name.chars().take(name.chars().count().saturating_sub(STEM_SHORTER)).collect();
            names.extend(read(&[prefix.as_slice(), stem.as_bytes()].concat())?.0);
        }
        Ok((names, are_all))
    }

    /// The number of environments of a pipeline.
    pub fn count(&self, pipeline: &PipelineKey) -> Result<u64, StoreError> {
        let mut count = 0;
        self.services().records.each_environment_record(pipeline, None, |_, record| {
            count += u64::from(readable(records::is_of_existing(record))?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(count)
    }

    /// The environments with the names of the filter, by name. Reads only their records, not those of the whole
    /// pipeline.
    fn each_named(
        &self,
        pipeline: &PipelineKey,
        filter: &ListFilter,
        after: Option<&Identifier>,
        mut visit: impl FnMut(Identifier, Arc<Environment>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        if filter.names.is_empty() {
            return self.each_environment(pipeline, after, visit);
        }
        for name in filter.names.iter().filter(|name| after.is_none_or(|after| *name > after)) {
            let key = EnvironmentKey { pipeline: pipeline.clone(), name: name.clone() };
            let found = self.at_a_glance_with_queue(&key)?.filter(|environment| environment.exists());
            if found.is_some_and(|environment| visit(key.name, environment).is_break()) {
                break;
            }
        }
        Ok(())
    }

    fn each_environment(
        &self,
        pipeline: &PipelineKey,
        after: Option<&Identifier>,
        mut visit: impl FnMut(Identifier, Arc<Environment>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let records = &self.services().records;
        records.each_environment_record(pipeline, after, |name, record| {
            let key = EnvironmentKey { pipeline: pipeline.clone(), name };
            // The store may briefly be ahead of the published view; a list must not show more than a read of the
            // environment itself.
            let environment = match self.directory.peek(&key) {
                Some(view) => view,
                None => {
                    let mut stored = records.decode_environment(record)?;
                    records.fill_queue(&key, &mut stored)?;
                    records.fill_runs(&key, &mut stored)?;
                    self.directory.peek(&key).unwrap_or(stored.environment)
                }
            };
            Ok(if environment.exists() { visit(key.name, environment) } else { ControlFlow::Continue(()) })
        })
    }
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { items: Vec::new(), total: 0 }
    }
}

impl<T> Listed<T> {
    /// Counts an item that matches. Returns whether it is on the page: one of `limit` items after the first `offset`.
    pub(super) fn counts(&mut self, offset: u64, limit: u64) -> bool {
        self.total += 1;
        self.total > offset && (self.items.len() as u64) < limit
    }
}

impl ListFilter {
    fn matches(&self, environment: &Environment) -> bool {
        let labels = environment.configuration.as_ref().map(|configuration| &configuration.labels);
        self.lock_status.is_none_or(|wanted| environment.lock_status() == wanted)
            && self.labels.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
    }
}

/// Sessions read per step; they are stored in pages of eight.
const PIECE: u64 = 128;
/// The limit of sessions per report: about half a second of one processor. Each environment gets an equal part of the
/// limit, for its newest sessions.
const SESSIONS_MAX: u64 = 100_000;
/// The minimum per environment, regardless of their number: more than a busy one has in a day.
const SESSIONS_EACH: u64 = 256;
/// The limit of environments per report: its figures then take a megabyte or two.
const ENVIRONMENTS_MAX: usize = 2_500;

/// How busy environments were.
pub struct UtilisationFound {
    pub utilisation: Utilisation,
    /// Whether a limit was reached, so that the sums are too low.
    pub truncated: bool,
}

/// How much of a history was read.
#[derive(Debug, PartialEq, Eq)]
enum Extent {
    /// Everything of the period that is kept.
    Whole,
    /// As much as the limit permits.
    Bounded,
    /// Some of it was dropped meanwhile.
    Trimmed,
}

impl Environments {
    /// Like [`history`](Self::history), for the sessions that held the lock during the period.
    pub fn history_within(
        &self,
        key: &EnvironmentKey,
        environment: &Environment,
        period: Period,
        offset: u64,
        limit: u64,
    ) -> Result<Option<Listed<Session>>, StoreError> {
        let mut page = Listed::default();
        let extent = self.each_session_within(key, environment, period, u64::MAX, |session| {
            if page.counts(offset, limit) {
                page.items.push(session);
            }
        })?;
        Ok((extent != Extent::Trimmed).then_some(page))
    }

    /// The utilisation of the environments of these pipelines.
    pub fn utilisation(&self, pipelines: &[PipelineKey], period: Period) -> Result<UtilisationFound, StoreError> {
        let (found, mut truncated) = self.environments_of(pipelines)?;
        let mut utilisation = Utilisation::new(period);
        let each = (SESSIONS_MAX / (found.len() as u64).max(1)).max(SESSIONS_EACH);
        for (key, environment) in found {
            utilisation.begin(key.clone());
            let is_held = environment.lock.is_some() || environment.leaving.is_some();
            if is_held || environment.last_used.is_some_and(|last| last >= period.from) {
                let add = |session: Session| utilisation.add(&session);
                truncated |= self.each_session_within(&key, &environment, period, each, add)? != Extent::Whole;
            }
        }
        Ok(UtilisationFound { utilisation, truncated })
    }

    /// At most as many environments as a report may have, and whether there are more.
    #[expect(clippy::type_complexity, reason = "pairs of a key and a view, as lists have them")]
    fn environments_of(
        &self,
        pipelines: &[PipelineKey],
    ) -> Result<(Vec<(EnvironmentKey, Arc<Environment>)>, bool), StoreError> {
        let (mut found, mut more) = (Vec::new(), false);
        for pipeline in pipelines {
            self.each_environment(pipeline, None, |name, environment| {
                more = found.len() == ENVIRONMENTS_MAX;
                if more {
                    return ControlFlow::Break(());
                }
                found.push((EnvironmentKey { pipeline: pipeline.clone(), name }, environment));
                ControlFlow::Continue(())
            })?;
            if more {
                break;
            }
        }
        Ok((found, more))
    }

    /// Visits the sessions of a period, newest first, and reads at most this many from the history. An environment has
    /// one holder at a time, so if a session ended before the period, all older ones did too.
    fn each_session_within(
        &self,
        key: &EnvironmentKey,
        environment: &Environment,
        period: Period,
        most: u64,
        mut visit: impl FnMut(Session),
    ) -> Result<Extent, StoreError> {
        let mut read = 0;
        while read < most {
            let piece = PIECE.min(most - read);
            let Some(history) = self.history(key, environment, read, piece)? else { return Ok(Extent::Trimmed) };
            for session in history.items {
                match period.is(&session) {
                    PeriodIs::Before => {}
                    PeriodIs::During => visit(session),
                    PeriodIs::After => return Ok(Extent::Whole),
                }
            }
            read += piece;
            if read >= history.total {
                return Ok(Extent::Whole);
            }
            next_piece()?;
        }
        Ok(Extent::Bounded)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// In the order of `LockStatus::ALL`.
    by_status: [u64; LockStatus::ALL.len()],
    /// The start of the oldest lock.
    pub oldest_lock: Option<Timestamp>,
    /// The start of the oldest waiting claim, for an environment by name or for any.
    pub oldest_waiter: Option<Timestamp>,
}

impl Census {
    pub fn by_status(&self) -> impl Iterator<Item = (LockStatus, u64)> {
        LockStatus::ALL.into_iter().zip(self.by_status)
    }

    fn add(&mut self, environment: &Environment) {
        self.by_status[environment.lock_status() as usize] += 1;
        let held = environment.lock.as_ref().and_then(|session| session.claimed.as_ref()).map(|claimed| claimed.at);
        let waiting = environment.queue.iter().map(|waiter| waiter.session.created_at).min();
        self.oldest_lock = earlier(self.oldest_lock, held);
        self.oldest_waiter = earlier(self.oldest_waiter, waiting);
    }
}

impl Environments {
    /// Adds all environments of these pipelines. Reads all of them.
    pub fn add_to_census(
        &self,
        pipelines: impl IntoIterator<Item = PipelineKey>,
        census: &mut Census,
    ) -> Result<(), StoreError> {
        for pipeline in pipelines {
            self.each_environment(&pipeline, None, |_, environment| {
                census.add(&environment);
                ControlFlow::Continue(())
            })?;
        }
        for pool in self.directory.pools.active() {
            census.oldest_waiter = earlier(census.oldest_waiter, pool.oldest());
        }
        Ok(())
    }
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}
