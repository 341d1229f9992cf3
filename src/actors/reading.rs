//! Reads: from the last durable view where there is an actor, from the store where there is none.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::environments::{Environments, Parts};
use super::keys;
use super::stored::{self, Page, StoredEnvironment, Unreadable};
use crate::domain::{
    ASK_WITHIN_MILLIS, Environment, EnvironmentKey, Identifier, LabelValue, LockStatus, Origin, PipelineKey, Session,
    SessionId, Ticket, Timestamp, UserId, Waiter,
};
use crate::store::{Store, StoreError, end_of_prefix, walk};

/// A session, where it is, and how it waits if it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFound {
    /// None while it waits for any environment, or if it ended so.
    pub environment: Option<EnvironmentKey>,
    pub session: Session,
    pub waiting: Option<Waiting>,
}

/// The place of a queued session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// How many go first, and itself: the next one is at 1.
    pub position: usize,
    /// When it loses its place, if its client does not ask about it until then.
    pub until: Timestamp,
}

/// One who waits for an environment.
pub struct Queued {
    pub waiter: Arc<Waiter>,
    /// Whether it waits for any environment like this one.
    pub any: bool,
}

/// One page of an environment's sessions, newest first.
pub struct History {
    pub sessions: Vec<Session>,
    pub total: u64,
}

#[derive(Debug, Clone, Default)]
pub struct ListFilter {
    pub lock_status: Option<LockStatus>,
    /// All of them must be there.
    pub labels: Vec<(Identifier, LabelValue)>,
}

/// Some environments of a pipeline by name, and how many match in all.
pub struct EnvironmentPage {
    pub environments: Vec<(Identifier, Arc<Environment>)>,
    pub total: u64,
}

impl Environments {
    /// The environment as it durably is, if it exists.
    pub fn environment(&self, key: &EnvironmentKey) -> Result<Option<Arc<Environment>>, StoreError> {
        let known = match self.parts.directory.view(key) {
            Some(view) => Some(view),
            None => {
                let stored = at_rest(&self.parts, key)?.map(Arc::new);
                // An actor may have taken it over meanwhile, and its queue with it.
                self.parts.directory.view(key).or(stored)
            }
        };
        Ok(known.filter(|environment| environment.exists()))
    }

    /// The same for those who look at many: that alone keeps none in memory, and who waits is left out.
    pub(super) fn glance(&self, key: &EnvironmentKey) -> Result<Option<Arc<Environment>>, StoreError> {
        match self.parts.directory.peek(key) {
            Some(view) => Ok(Some(view)),
            None => Ok(stored_environment(&self.parts, key)?.map(|stored| Arc::new(stored.environment))),
        }
    }

    /// A session of the environment, as it durably is. Its client's look at it counts as asking about it.
    pub fn session(
        &self,
        key: &EnvironmentKey,
        environment: &Environment,
        id: SessionId,
        reader: UserId,
    ) -> Result<Option<SessionFound>, StoreError> {
        if let Some(waiter) = environment.queue.session(id) {
            let ahead = match &environment.configuration {
                Some(configuration) => self.pool(&key.pipeline).ahead(configuration, waiter.turn()),
                None => 0,
            };
            let position = environment.queue.position(waiter) + ahead;
            let waiting = Some(self.waiting(waiter, position, reader));
            return Ok(Some(SessionFound { environment: Some(key.clone()), session: waiter.session.clone(), waiting }));
        }
        let session = match environment.session(id) {
            Some(session) => Some(session.clone()),
            None => ended_session(&self.parts, key, environment, id)?,
        };
        Ok(session.map(|session| SessionFound { environment: Some(key.clone()), session, waiting: None }))
    }

    /// A session of the pipeline that began in a queue, wherever it is now. Its client's look at it counts as asking
    /// about it.
    pub fn session_of_any(
        &self,
        pipeline: &PipelineKey,
        id: SessionId,
        reader: UserId,
    ) -> Result<Option<SessionFound>, StoreError> {
        let Origin::Queued(ticket) = id.origin else { return Ok(None) };
        if let Some((waiter, position)) = self.pool(pipeline).session(id) {
            let waiting = Some(self.waiting(&waiter, position, reader));
            return Ok(Some(SessionFound { environment: None, session: waiter.session.clone(), waiting }));
        }
        let store = &*self.parts.store;
        if let Some(key) = pointed(store, ticket)?.map(|(key, _)| key).filter(|key| key.pipeline == *pipeline) {
            return match self.environment(&key)? {
                Some(environment) => self.session(&key, &environment, id, reader),
                None => Ok(None),
            };
        }
        let left = left(store, id)?.filter(|(of, _, _)| of == pipeline);
        Ok(left.map(|(pipeline, name, session)| {
            let environment = name.map(|name| EnvironmentKey { pipeline, name });
            SessionFound { environment, session, waiting: None }
        }))
    }

    fn waiting(&self, waiter: &Waiter, position: usize, reader: UserId) -> Waiting {
        if waiter.session.user.id == reader {
            self.parts.ask_about(waiter.ticket);
        }
        let now = (self.parts.clock)();
        let left = self.parts.last_asked(waiter.ticket).plus(ASK_WITHIN_MILLIS).0.saturating_sub(now.tick.0);
        Waiting { position, until: now.at.plus(left.max(0)) }
    }

    /// All who wait for the environment, in order: by name, or for any like it.
    pub fn queue(&self, key: &EnvironmentKey, environment: &Environment) -> Vec<Queued> {
        let by_name = environment.queue.iter().map(|waiter| Queued { waiter: waiter.clone(), any: false });
        let mut all: Vec<_> = by_name.collect();
        if let Some(configuration) = &environment.configuration {
            let outsiders = self.pool(&key.pipeline).waiting_for(configuration);
            all.extend(outsiders.into_iter().map(|waiter| Queued { waiter, any: true }));
            all.sort_unstable_by_key(|queued| queued.waiter.turn());
        }
        all
    }

    /// `limit` sessions after the `offset` newest. Numbers are contiguous, so those at the end cost what the first do.
    pub fn history(
        &self,
        key: &EnvironmentKey,
        environment: &Environment,
        offset: u64,
        limit: u64,
    ) -> Result<History, StoreError> {
        let remembered = environment.remembered_sessions(self.parts.retention());
        let (oldest, newest) = (*remembered.start(), *remembered.end());
        let total = (newest + 1).saturating_sub(oldest);
        if offset >= total {
            return Ok(History { sessions: Vec::new(), total });
        }
        let last = newest - offset;
        let first = last.saturating_sub(limit - 1).max(oldest);
        let (from, to) = (Page::of(first), Page::of(last) + 1);
        let pages = self.parts.store.scan(&keys::page(key, from), &keys::page(key, to), (to - from) as usize)?;
        let mut sessions = Vec::new();
        for (_, record) in pages {
            sessions.extend(readable(Page::read(record).and_then(|page| page.sessions(first..=last)))?);
        }
        sessions.retain(|session| environment.session(session.id).is_none());
        let present = [&environment.leaving, &environment.lock].into_iter().flatten();
        let number = |session: &Session| session.fencing_token().unwrap_or_default();
        sessions.extend(present.filter(|session| (first..=last).contains(&number(session))).cloned());
        sessions.sort_unstable_by_key(|session| std::cmp::Reverse(number(session)));
        Ok(History { sessions, total })
    }

    /// The environments of a pipeline that match, by name: `limit` of them after the first `offset`.
    pub fn list(
        &self,
        pipeline: &PipelineKey,
        filter: &ListFilter,
        offset: u64,
        limit: u64,
    ) -> Result<EnvironmentPage, StoreError> {
        let mut page = EnvironmentPage { environments: Vec::new(), total: 0 };
        self.each_environment(pipeline, None, |name, environment| {
            if filter.matches(&environment) {
                if page.total >= offset && (page.environments.len() as u64) < limit {
                    page.environments.push((name, environment));
                }
                page.total += 1;
            }
            ControlFlow::Continue(())
        })?;
        Ok(page)
    }

    /// The next `limit` that match after the name `after`, for those who read a long list piece by piece.
    pub fn list_after(
        &self,
        pipeline: &PipelineKey,
        filter: &ListFilter,
        after: Option<&Identifier>,
        limit: usize,
    ) -> Result<Vec<(Identifier, Arc<Environment>)>, StoreError> {
        let mut found = Vec::new();
        self.each_environment(pipeline, after, |name, environment| {
            if filter.matches(&environment) {
                found.push((name, environment));
            }
            if found.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(found)
    }

    /// How many environments a pipeline has.
    pub fn count(&self, pipeline: &PipelineKey) -> Result<u64, StoreError> {
        let mut count = 0;
        self.each_record(pipeline, None, |_, record| {
            count += u64::from(readable(stored::is_of_existing(record))?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(count)
    }

    fn each_environment(
        &self,
        pipeline: &PipelineKey,
        after: Option<&Identifier>,
        mut visit: impl FnMut(Identifier, Arc<Environment>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.each_record(pipeline, after, |name, record| {
            let key = EnvironmentKey { pipeline: pipeline.clone(), name };
            // The store may be a moment ahead of an actor's view, and who was shown that here would find an older
            // state in the environment itself.
            let environment = match self.parts.directory.peek(&key) {
                Some(view) => view,
                None => {
                    let mut stored = readable(stored::decode_environment(record, self.parts.run))?;
                    fill_queue(&self.parts, &key, &mut stored)?;
                    self.parts.directory.peek(&key).unwrap_or_else(|| Arc::new(stored.environment))
                }
            };
            Ok(if environment.exists() { visit(key.name, environment) } else { ControlFlow::Continue(()) })
        })
    }

    /// Every environment of a pipeline that the store has, deleted ones too.
    pub(super) fn each_stored_environment(
        &self,
        pipeline: &PipelineKey,
        mut visit: impl FnMut(Identifier, Arc<Environment>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.each_record(pipeline, None, |name, record| {
            let stored = readable(stored::decode_environment(record, self.parts.run))?;
            Ok(visit(name, Arc::new(stored.environment)))
        })
    }

    fn each_record(
        &self,
        pipeline: &PipelineKey,
        after: Option<&Identifier>,
        mut visit: impl FnMut(Identifier, &[u8]) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let prefix = keys::environments_of(pipeline);
        let from = match after {
            Some(name) => [prefix.as_slice(), name.as_str().as_bytes(), &[0]].concat(),
            None => prefix.clone(),
        };
        walk(&*self.parts.store, &from, &end_of_prefix(&prefix), |key, record| {
            let name = std::str::from_utf8(&key[prefix.len()..]).ok().and_then(|name| Identifier::parse(name).ok());
            name.map_or(Ok(ControlFlow::Continue(())), |name| visit(name, record))
        })
    }
}

impl ListFilter {
    fn matches(&self, environment: &Environment) -> bool {
        let labels = environment.configuration.as_ref().map(|configuration| &configuration.labels);
        self.lock_status.is_none_or(|wanted| environment.lock_status() == wanted)
            && self.labels.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
    }
}

/// An environment that has no actor.
fn at_rest(parts: &Parts, key: &EnvironmentKey) -> Result<Option<Environment>, StoreError> {
    Ok(stored_with_queue(parts, key)?.map(|stored| stored.environment))
}

/// An environment and those who wait for it, for the actor that takes it over.
pub(super) fn stored_with_queue(parts: &Parts, key: &EnvironmentKey) -> Result<Option<StoredEnvironment>, StoreError> {
    let mut stored = stored_environment(parts, key)?;
    if let Some(stored) = &mut stored {
        fill_queue(parts, key, stored)?;
    }
    Ok(stored)
}

fn stored_environment(parts: &Parts, key: &EnvironmentKey) -> Result<Option<StoredEnvironment>, StoreError> {
    let record = parts.store.get(&keys::environment(key))?;
    record.map(|record| readable(stored::decode_environment(&record, parts.run))).transpose()
}

/// Those who wait for it, if there are any: an environment whose actor has left has none, unless it died.
fn fill_queue(parts: &Parts, key: &EnvironmentKey, stored: &mut StoredEnvironment) -> Result<(), StoreError> {
    if parts.queues_at_rest.contains_key(key) { read_queue(parts, key, stored) } else { Ok(()) }
}

fn read_queue(parts: &Parts, key: &EnvironmentKey, stored: &mut StoredEnvironment) -> Result<(), StoreError> {
    let prefix = keys::waiters_of(key);
    walk(&*parts.store, &prefix, &end_of_prefix(&prefix), |_, record| {
        let (waiter, _) = readable(stored::decode_waiter(record))?;
        stored.environment.queue.insert(Arc::new(waiter));
        Ok(ControlFlow::Continue(()))
    })
}

/// A session that the environment no longer has, if it is remembered.
pub(super) fn ended_session(
    parts: &Parts,
    key: &EnvironmentKey,
    environment: &Environment,
    id: SessionId,
) -> Result<Option<Session>, StoreError> {
    let store = &*parts.store;
    let number = match id.origin {
        Origin::Granted(number) => number,
        Origin::Queued(ticket) => match pointed(store, ticket)? {
            Some((of, number)) if of == *key => number,
            Some(_) => return Ok(None),
            None => {
                let left = left(store, id)?;
                let of_this = left.filter(|(of, name, _)| *of == key.pipeline && name.as_ref() == Some(&key.name));
                return Ok(of_this.map(|(_, _, session)| session));
            }
        },
    };
    if !environment.remembered_sessions(parts.retention()).contains(&number) {
        return Ok(None);
    }
    let sessions = readable(page(store, key, Page::of(number))?.sessions(number..=number))?;
    Ok(sessions.into_iter().find(|session| session.id == id))
}

/// A page of the history, as it durably is.
pub(super) fn page(store: &dyn Store, key: &EnvironmentKey, number: u64) -> Result<Page, StoreError> {
    let record = store.get(&keys::page(key, number))?;
    readable(record.map_or_else(|| Ok(Page::default()), Page::read))
}

fn pointed(store: &dyn Store, ticket: Ticket) -> Result<Option<(EnvironmentKey, u64)>, StoreError> {
    let record = store.get(&keys::pointer(ticket))?;
    record.map(|record| readable(stored::decode_pointer(&record))).transpose()
}

/// A session that ended in a queue.
fn left(store: &dyn Store, id: SessionId) -> Result<Option<(PipelineKey, Option<Identifier>, Session)>, StoreError> {
    let Origin::Queued(ticket) = id.origin else { return Ok(None) };
    let record = store.get(&keys::left(ticket))?;
    let left = record.map(|record| readable(stored::decode_left(&record))).transpose()?;
    Ok(left.filter(|(_, _, session)| session.id == id))
}

pub(super) fn readable<T>(record: Result<T, Unreadable>) -> Result<T, StoreError> {
    record.map_err(|unreadable| StoreError::Read(unreadable.to_string()))
}
