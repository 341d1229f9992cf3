//! Reads: from the last durable view where there is an actor, from the store where there is none.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::environments::Environments;
use super::keys;
use super::stored::{self, StoredEnvironment, Unreadable};
use crate::domain::{Environment, EnvironmentKey, Identifier, LabelValue, LockStatus, PipelineKey, Session, SessionId};
use crate::store::{Store, StoreError, end_of_prefix};

/// How many environments a scan takes from the store at once.
const SCAN_AT_ONCE: usize = 512;

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
            None => stored_environment(&*self.parts.store, key)?.map(|stored| Arc::new(stored.environment)),
        };
        Ok(known.filter(|environment| environment.exists()))
    }

    pub fn session(
        &self,
        key: &EnvironmentKey,
        environment: &Environment,
        id: SessionId,
    ) -> Result<Option<Session>, StoreError> {
        if let Some(session) = environment.session(id) {
            return Ok(Some(session.clone()));
        }
        if !environment.remembered_sessions(self.parts.retention()).contains(&id.number) {
            return Ok(None);
        }
        stored_session(&*self.parts.store, key, id)
    }

    /// `limit` sessions after the `offset` newest. Numbers are contiguous, so every page costs the same.
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
        let pairs = self.parts.store.scan(&keys::session(key, first), &keys::session(key, last + 1), limit as usize)?;
        let mut sessions = pairs
            .iter()
            .map(|(_, record)| readable(stored::decode_session(record)))
            .filter(|session| session.as_ref().map_or(true, |s| environment.session(s.id).is_none()))
            .collect::<Result<Vec<_>, _>>()?;
        let present = [&environment.leaving, &environment.lock].into_iter().flatten();
        sessions.extend(present.filter(|session| (first..=last).contains(&session.id.number)).cloned());
        sessions.sort_unstable_by_key(|session| std::cmp::Reverse(session.id.number));
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
                None => Arc::new(readable(stored::decode_environment(record))?.environment),
            };
            Ok(if environment.exists() { visit(key.name, environment) } else { ControlFlow::Continue(()) })
        })
    }

    fn each_record(
        &self,
        pipeline: &PipelineKey,
        after: Option<&Identifier>,
        mut visit: impl FnMut(Identifier, &[u8]) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let prefix = keys::environments_of(pipeline);
        let end = end_of_prefix(&prefix);
        let behind = |key: &[u8]| [key, &[0]].concat();
        let mut from = match after {
            Some(name) => behind(&[&prefix, name.as_str().as_bytes()].concat()),
            None => prefix.clone(),
        };
        loop {
            let pairs = self.parts.store.scan(&from, &end, SCAN_AT_ONCE)?;
            for (key, record) in &pairs {
                let name = std::str::from_utf8(&key[prefix.len()..]).ok().and_then(|name| Identifier::parse(name).ok());
                if let Some(name) = name
                    && visit(name, record)?.is_break()
                {
                    return Ok(());
                }
            }
            match pairs.last() {
                Some((last, _)) => from = behind(last),
                None => return Ok(()),
            }
        }
    }
}

impl ListFilter {
    fn matches(&self, environment: &Environment) -> bool {
        let labels = environment.configuration.as_ref().map(|configuration| &configuration.labels);
        self.lock_status.is_none_or(|wanted| environment.lock_status() == wanted)
            && self.labels.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
    }
}

pub(super) fn stored_environment(
    store: &dyn Store,
    key: &EnvironmentKey,
) -> Result<Option<StoredEnvironment>, StoreError> {
    let record = store.get(&keys::environment(key))?;
    record.map(|record| readable(stored::decode_environment(&record))).transpose()
}

/// The record under the session's number, if it is that session's.
pub(super) fn stored_session(
    store: &dyn Store,
    key: &EnvironmentKey,
    id: SessionId,
) -> Result<Option<Session>, StoreError> {
    let record = store.get(&keys::session(key, id.number))?;
    let session = record.map(|record| readable(stored::decode_session(&record))).transpose()?;
    Ok(session.filter(|session| session.id == id))
}

fn readable<T>(record: Result<T, Unreadable>) -> Result<T, StoreError> {
    record.map_err(|unreadable| StoreError::Read(unreadable.to_string()))
}
