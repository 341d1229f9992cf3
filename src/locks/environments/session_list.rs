//! Lists the sessions of a whole organization that hold or wait, newest first.
//!
//! Environments with sessions are found in the organization's index, waiters for any environment in the pools. Details
//! are only read for the requested page; no environment is loaded.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use super::Environments;
use super::reads::{Listed, Waiting};
use crate::keys;
use crate::pool::PipelinePool;
use crate::ports::Failure;
use crate::services::session_index::{Holder, Indexed};
use domain::{
    Environment, EnvironmentKey, Identifier, KeptBy, Person, PipelineKey, Session, SessionId, SessionStatus, Timestamp,
    UserId, Waiter,
};
use store::{Sequence, StoreError, durable_up_to};

/// All given conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Queued or active; no other session is listed.
    pub status: Option<SessionStatus>,
    pub pipeline: Option<Identifier>,
    pub environment: Option<Identifier>,
    pub user: Option<UserId>,
    /// The user's name or id.
    pub user_named: Option<String>,
}

/// A session that holds or waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSession {
    pub pipeline: PipelineKey,
    /// None while it waits for any environment.
    pub environment: Option<Identifier>,
    pub session: Arc<Session>,
    pub waiting: Option<Waiting>,
}

/// A page of the list, to be shown when the store is durable up to `durable_at`.
pub struct SessionList {
    pub page: Listed<ListedSession>,
    pub durable_at: Sequence,
}

/// Reads which environments have sessions; slow if there are many environments.
pub type LearnSessions = Box<dyn FnOnce() -> Result<(), StoreError> + Send>;

impl Environments {
    /// Makes the sessions of an organization known to [`Self::sessions`]. The first call reads the store; `read` runs
    /// that function where it may block.
    pub async fn learn_sessions<E, F>(
        &self,
        organization: &Identifier,
        read: impl FnOnce(LearnSessions) -> F,
    ) -> Result<(), E>
    where
        E: From<Failure>,
        F: Future<Output = Result<(), E>>,
    {
        let index = self.services().session_indexes.get(organization);
        let learn = || async {
            index.activate();
            // Once this sequence is durable, earlier decisions are in the store; later views are reported to the index.
            self.shown_durably(self.services().store().handed_in()).await?;
            let (environments, organization) = (self.clone(), organization.clone());
            read(Box::new(move || environments.read_all_sessions(&organization))).await?;
            index.forget_empty();
            Ok::<(), E>(())
        };
        index.learned.get_or_try_init(learn).await.copied()
    }

    fn read_all_sessions(&self, organization: &Identifier) -> Result<(), StoreError> {
        let (services, prefix) = (self.services(), keys::environments_in(organization));
        let index = services.session_indexes.get(organization);
        services.records.each(&prefix, |key, record| {
            let Some(key) = keys::parse_environment(key, keys::ENVIRONMENTS) else { return Ok(()) };
            // An environment in memory may have a queue that is not in the store, and its view may be behind the store.
            match self.directory.peek(&key) {
                Some(view) => index.learn(key, &view, false),
                None => {
                    let stored = services.records.decode_environment(record)?;
                    let has_queue = services.records.has_unloaded_queue(&key);
                    match self.directory.peek(&key) {
                        Some(view) => index.learn(key, &view, false),
                        None => index.learn(key, &stored.environment, has_queue),
                    }
                }
            }
            Ok(())
        })
    }

    /// `limit` matching sessions after the `offset` newest, newest first. They must have been learned before. A claim
    /// that waits on its connection has no session yet.
    pub fn sessions(
        &self,
        organization: &Identifier,
        filter: &SessionFilter,
        offset: u64,
        limit: u64,
    ) -> Result<SessionList, StoreError> {
        let mut found = self.matching_sessions(organization, filter)?;
        // Views are durable; a place in a pool may not be yet.
        let has_pooled = found.iter().any(|candidate| matches!(candidate.at, At::Pool(..)));
        let durable_at = if has_pooled { self.services().store().handed_in() } else { Sequence::default() };
        let mut page = Listed { items: Vec::new(), total: found.len() as u64 };
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        if offset >= found.len() {
            return Ok(SessionList { page, durable_at });
        }
        let end = offset.saturating_add(limit as usize).min(found.len());
        if end < found.len() {
            found.select_nth_unstable_by_key(end - 1, Candidate::newest_first);
            found.truncate(end);
        }
        found.sort_unstable_by_key(Candidate::newest_first);
        for candidate in found.split_off(offset) {
            match self.details(candidate)? {
                Some(session) => page.items.push(session),
                // The session ended while the list was read.
                None => page.total -= 1,
            }
        }
        Ok(SessionList { page, durable_at })
    }

    /// Resolves when everything up to `sequence` is durable.
    pub async fn shown_durably(&self, sequence: Sequence) -> Result<(), Failure> {
        let services = self.services();
        let durable = durable_up_to(services.store(), sequence);
        tokio::time::timeout(services.options.answer_timeout, durable).await.map_err(|_| Failure::Overloaded)
    }

    fn matching_sessions(
        &self,
        organization: &Identifier,
        filter: &SessionFilter,
    ) -> Result<Vec<Candidate>, StoreError> {
        // Pools are read first, so that a waiter that gets an environment meanwhile is found twice rather than missed.
        let mut pooled = HashMap::new();
        for pool in self.directory.pools.active_in(organization) {
            for waiter in
                pool.waiters().into_iter().filter(|waiter| filter.matches_waiter(&pool.pipeline, None, waiter))
            {
                pooled.insert(waiter.session.id, Candidate::in_pool(pool.clone(), waiter));
            }
        }
        let (mut found, mut queues) = (Vec::new(), Vec::new());
        self.services().session_indexes.get(organization).each(|key, Indexed { holder, has_queue, .. }| {
            if !filter.matches_place(&key.pipeline, Some(&key.name)) {
                return;
            }
            if *has_queue {
                queues.push(key.clone());
            } else if let Some(holder) = holder {
                pooled.remove(&holder.session);
                if filter.matches(SessionStatus::Active, &holder.user) {
                    found.push(Candidate::holder(key.clone(), holder));
                }
            }
        });
        // Holder and queue come from one view, so that a waiter that gets the lock is in exactly one of them.
        for key in queues {
            let Some(environment) = self.at_a_glance_with_queue(&key)? else { continue };
            if let Some(lock) = environment.lock.as_deref() {
                pooled.remove(&lock.id);
                if filter.matches(SessionStatus::Active, &lock.user) {
                    found.push(Candidate::holder(key.clone(), &Holder::from(lock)));
                }
            }
            let queued = environment.queue.iter();
            let queued = queued.filter(|waiter| filter.matches_waiter(&key.pipeline, Some(&key.name), waiter));
            found.extend(queued.map(|waiter| Candidate::queued(&key, &environment, waiter)));
        }
        found.extend(pooled.into_values());
        Ok(found)
    }

    fn details(&self, candidate: Candidate) -> Result<Option<ListedSession>, StoreError> {
        Ok(match candidate.at {
            At::Lock(key) => {
                let environment = self.at_a_glance(&key)?;
                let lock = environment.as_ref().and_then(|environment| environment.lock.as_ref());
                lock.filter(|lock| lock.id == candidate.id).map(|lock| {
                    let EnvironmentKey { pipeline, name } = key;
                    ListedSession { pipeline, environment: Some(name), session: lock.clone(), waiting: None }
                })
            }
            At::Queue(key, environment, waiter) => {
                let waiting = Some(self.waiting_in(&key, &environment, &waiter));
                let EnvironmentKey { pipeline, name } = key;
                let session = Arc::new(waiter.session.clone());
                Some(ListedSession { pipeline, environment: Some(name), session, waiting })
            }
            At::Pool(pool, waiter) => {
                let position = pool.session(candidate.id).map_or(1, |(_, position)| position);
                let waiting = Some(self.waiting_in_pool(&waiter, position));
                let (pipeline, session) = (pool.pipeline.clone(), Arc::new(waiter.session.clone()));
                Some(ListedSession { pipeline, environment: None, session, waiting })
            }
        })
    }
}

impl SessionFilter {
    fn matches_place(&self, pipeline: &PipelineKey, environment: Option<&Identifier>) -> bool {
        self.pipeline.as_ref().is_none_or(|wanted| pipeline.pipeline == *wanted)
            && self.environment.as_ref().is_none_or(|wanted| environment == Some(wanted))
    }

    fn matches(&self, status: SessionStatus, user: &Person) -> bool {
        self.status.is_none_or(|wanted| wanted == status)
            && self.user.is_none_or(|wanted| wanted == user.id)
            && self.user_named.as_ref().is_none_or(|wanted| **wanted == *user.name || wanted.parse() == Ok(user.id))
    }

    /// Whether the waiter is a session that matches the filter.
    fn matches_waiter(&self, pipeline: &PipelineKey, environment: Option<&Identifier>, waiter: &Waiter) -> bool {
        waiter.kept_by == KeptBy::Polling
            && self.matches_place(pipeline, environment)
            && self.matches(SessionStatus::Queued, &waiter.session.user)
    }
}

/// A matching session, and the location of its details.
struct Candidate {
    created_at: Timestamp,
    id: SessionId,
    at: At,
}

enum At {
    Lock(EnvironmentKey),
    Queue(EnvironmentKey, Arc<Environment>, Arc<Waiter>),
    Pool(Arc<PipelinePool>, Arc<Waiter>),
}

impl Candidate {
    fn holder(key: EnvironmentKey, holder: &Holder) -> Self {
        Self { created_at: holder.created_at, id: holder.session, at: At::Lock(key) }
    }

    fn queued(key: &EnvironmentKey, environment: &Arc<Environment>, waiter: &Arc<Waiter>) -> Self {
        let at = At::Queue(key.clone(), environment.clone(), waiter.clone());
        Self { created_at: waiter.session.created_at, id: waiter.session.id, at }
    }

    fn in_pool(pool: Arc<PipelinePool>, waiter: Arc<Waiter>) -> Self {
        Self { created_at: waiter.session.created_at, id: waiter.session.id, at: At::Pool(pool, waiter) }
    }

    /// Sessions of the same millisecond are ordered by their ids, so that pages do not overlap.
    fn newest_first(&self) -> Reverse<(Timestamp, SessionId)> {
        Reverse((self.created_at, self.id))
    }
}
