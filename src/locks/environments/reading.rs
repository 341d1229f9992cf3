//! Reads of environments, sessions, queues and histories: from the published view if there is an actor, else from the
//! store.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::Environments;
use crate::failure::Failure;
use crate::keys;
use crate::state::records::readable;
use domain::{
    ASK_WITHIN_MILLIS, Environment, EnvironmentKey, Identifier, LabelValue, LockStatus, Origin, PipelineKey, Session,
    SessionId, Timestamp, UserId, Waiter,
};
use records::{Page, StoredEnvironment};
use store::{StoreError, end_of_prefix};

/// Names that begin like another one share all of it but so many characters.
const STEM_SHORTER: usize = 3;

/// A session, its environment, and its place if it waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFound {
    /// None while it waits for any environment, or if it ended waiting.
    pub environment: Option<EnvironmentKey>,
    pub session: Arc<Session>,
    pub waiting: Option<Waiting>,
}

/// The place of a queued session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// The next to be served is at 1.
    pub position: usize,
    /// When it loses its place, unless its client polls before.
    pub until: Timestamp,
    /// Whether it waits for a lock that ends only if somebody ends it.
    pub holder_never_expires: bool,
}

/// A waiter in the queue of an environment.
pub struct Queued {
    pub waiter: Arc<Waiter>,
    /// Whether it waits for any environment like this one.
    pub any: bool,
}

/// One page of a list, and the number of all that match.
pub struct Listed<T> {
    pub items: Vec<T>,
    pub total: u64,
}

#[derive(Debug, Clone, Default)]
pub struct ListFilter {
    /// Only these; all if there are none.
    pub names: BTreeSet<Identifier>,
    pub lock_status: Option<LockStatus>,
    /// The environment must have all of them.
    pub labels: Vec<(Identifier, LabelValue)>,
}

impl Environments {
    /// The environment as it durably is, if it exists.
    pub fn environment(&self, key: &EnvironmentKey) -> Result<Option<Arc<Environment>>, StoreError> {
        self.directory.environment(key)
    }

    /// The same without the queue, for readers of many environments: reading alone keeps no actor in memory.
    pub(super) fn at_a_glance(&self, key: &EnvironmentKey) -> Result<Option<Arc<Environment>>, StoreError> {
        match self.directory.peek(key) {
            Some(view) => Ok(Some(view)),
            None => Ok(self.services().records.environment(key)?.map(|stored| stored.environment)),
        }
    }

    /// The same with the queue.
    pub(super) fn at_a_glance_with_queue(&self, key: &EnvironmentKey) -> Result<Option<Arc<Environment>>, StoreError> {
        if let Some(view) = self.directory.peek(key) {
            return Ok(Some(view));
        }
        let stored = self.services().records.environment_with_queue(key)?;
        // An actor may have loaded it meanwhile, and its queue with it.
        Ok(self.directory.peek(key).or_else(|| stored.map(|stored| stored.environment)))
    }

    /// A session of the environment, as it durably is. A read by its own client counts as a poll. If there is none, the
    /// environment may have been deleted since it was read: it is not there for certain when the environment has [caught
    /// up](Self::caught_up) and still exists.
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

    /// The place of a waiter in the queue of an environment. Those in the pool count too.
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

    /// All waiters for the environment in order, by name or for any like it.
    pub fn queue(&self, key: &EnvironmentKey, environment: &Environment) -> Vec<Queued> {
        let by_name = environment.queue.iter().map(|waiter| Queued { waiter: waiter.clone(), any: false });
        let mut all: Vec<_> = by_name.collect();
        if let Some(configuration) = &environment.configuration {
            let outsiders = self.directory.pools.get(&key.pipeline).waiting_for(configuration);
            all.extend(outsiders.into_iter().map(|waiter| Queued { waiter, any: true }));
            all.sort_unstable_by_key(|queued| queued.waiter.turn());
        }
        all
    }

    /// `limit` sessions after the `offset` newest, newest first, all of the one moment of `environment`. None if some of
    /// them have been dropped since: read the environment again when it has [caught up](Self::caught_up). Sessions are
    /// numbered without gaps but those of skipped tokens, so the last page costs as much as the first.
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
        // A retention that was raised does not bring back what was dropped before.
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

    /// Resolves when readers see everything that the store has of the environment at the time of the call. The store has
    /// a change a moment before its view is published; whoever misses something in the store that the view speaks of
    /// waits for that moment to pass and reads again.
    pub async fn caught_up(&self, key: &EnvironmentKey) -> Result<(), Failure> {
        let services = self.services();
        // Before the view is read, so that no publication is missed.
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

    /// The environments of a pipeline that match, by name: `limit` of them after the first `offset`.
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

    /// The next `limit` that match after the name `after`, for reading a long list piece by piece.
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

    /// Some names of a pipeline's environments, for a name that none has: the first ones and those that begin like it, `most`
    /// of each; and whether those are all. Reads no more records than that.
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

    /// How many environments a pipeline has.
    pub fn count(&self, pipeline: &PipelineKey) -> Result<u64, StoreError> {
        let mut count = 0;
        self.services().records.each_environment_record(pipeline, None, |_, record| {
            count += u64::from(readable(records::is_of_existing(record))?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(count)
    }

    /// The environments with the names of the filter, by name. Reads only their records, not those of the whole pipeline.
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

    pub(super) fn each_environment(
        &self,
        pipeline: &PipelineKey,
        after: Option<&Identifier>,
        mut visit: impl FnMut(Identifier, Arc<Environment>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let records = &self.services().records;
        records.each_environment_record(pipeline, after, |name, record| {
            let key = EnvironmentKey { pipeline: pipeline.clone(), name };
            // The store may be a moment ahead of the published view; a list must not show more than a read of the
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
