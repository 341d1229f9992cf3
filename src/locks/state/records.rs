//! Reads the durable records of environments, sessions and deployments from the store.

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use dashmap::DashMap;
use foldhash::fast::RandomState;

use crate::keys;
use crate::ports::LogKeeper;
use domain::{
    self, ApprovalId, Blueprint, Deployment, DeploymentId, DeploymentRecord, Environment, EnvironmentKey, Identifier,
    LogPart, Origin, PipelineKey, Session, SessionId, SkippedTokens, Ticket,
};
use records::{Page, StoredEnvironment};
use store::record::RecordError;
use store::{Store, StoreError, end_of_prefix, key_of, walk};

pub struct Records {
    store: Arc<dyn Store>,
    pub run: records::Run,
    pub history_retention: u64,
    /// Environments whose queue is in the store but in no actor's memory.
    unloaded_queues: DashMap<EnvironmentKey, (), RandomState>,
    /// Set only in a cluster.
    log_keeper: OnceLock<Box<dyn LogKeeper>>,
}

impl Records {
    pub fn new(store: Arc<dyn Store>, run: records::Run, history_retention: u64) -> Self {
        Self { store, run, history_retention, unloaded_queues: DashMap::default(), log_keeper: OnceLock::new() }
    }

    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub fn set_log_keeper(&self, keeper: Box<dyn LogKeeper>) {
        self.log_keeper.set(keeper).ok();
    }

    /// The keeper of the output of this node's stages; `None` outside a cluster.
    pub fn log_keeper(&self) -> Option<&dyn LogKeeper> {
        self.log_keeper.get().map(|keeper| &**keeper)
    }

    /// The parts of a deployment's log. Outside a cluster, only parts that were written in one.
    pub fn log_parts(&self, organization: &Identifier, id: DeploymentId) -> Result<Vec<LogPart>, StoreError> {
        let record = self.store.get(&keys::log_parts(organization, id))?;
        record.map_or_else(|| Ok(Vec::new()), |record| readable(records::decode_log_parts(&record)))
    }

    pub fn has_environment(&self, key: &EnvironmentKey) -> Result<bool, StoreError> {
        Ok(self.store.get(&keys::environment(key))?.is_some())
    }

    /// The environment without its queue.
    pub fn environment(&self, key: &EnvironmentKey) -> Result<Option<StoredEnvironment>, StoreError> {
        let record = self.store.get(&keys::environment(key))?;
        record.map(|record| self.decode_environment(&record)).transpose()
    }

    /// The stored state of an environment that does not exist yet.
    pub fn new_environment(&self) -> Result<StoredEnvironment, StoreError> {
        let record = self.store.get(keys::NEW_ENVIRONMENTS)?;
        let skipped = record.map_or(Ok(0), |record| readable(records::decode_new_environments(&record)))?;
        let skipped_tokens = SkippedTokens::before_the_first(skipped);
        let environment = Arc::new(Environment { skipped_tokens, ..Environment::absent() });
        Ok(StoredEnvironment { environment, keeping: Default::default() })
    }

    /// The environment with its queue and the stages of its deployments, for readers.
    pub fn environment_with_queue(&self, key: &EnvironmentKey) -> Result<Option<StoredEnvironment>, StoreError> {
        let mut stored = self.environment(key)?;
        if let Some(stored) = &mut stored {
            self.fill_queue(key, stored)?;
            self.fill_runs(key, stored)?;
        }
        Ok(stored)
    }

    /// The environment with its queue and the runs of unfinished deployments, for the actor that loads it.
    pub fn complete_environment(&self, key: &EnvironmentKey) -> Result<Option<StoredEnvironment>, StoreError> {
        let Some(mut stored) = self.environment_with_queue(key)? else { return Ok(None) };
        let mut without_run =
            staged_deployments(Arc::make_mut(&mut stored.environment)).filter(|deployment| deployment.run.is_none());
        let incomplete = without_run.next().map(|deployment| deployment.id);
        drop(without_run);
        match incomplete {
            None => Ok(Some(stored)),
            Some(id) => Err(StoreError::Read(format!("the records of the unfinished deployment {id} are missing"))),
        }
    }

    /// Adds the runs of unfinished deployments. For a reader, a deployment may have ended since the environment was
    /// read; it then gets no run.
    pub fn fill_runs(&self, key: &EnvironmentKey, stored: &mut StoredEnvironment) -> Result<(), StoreError> {
        for deployment in staged_deployments(Arc::make_mut(&mut stored.environment)) {
            deployment.run = self.deployment_run(&key.pipeline.organization, deployment.id)?.map(Arc::new);
        }
        Ok(())
    }

    /// Visits every environment of the pipeline, deleted ones too, without their queues.
    pub fn each_environment(
        &self,
        pipeline: &PipelineKey,
        mut visit: impl FnMut(Identifier, &Environment),
    ) -> Result<(), StoreError> {
        self.each_environment_record(pipeline, None, |name, record| {
            visit(name, &self.decode_environment(record)?.environment);
            Ok(ControlFlow::Continue(()))
        })
    }

    pub fn each_environment_record(
        &self,
        pipeline: &PipelineKey,
        after: Option<&Identifier>,
        mut visit: impl FnMut(Identifier, &[u8]) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let prefix = keys::environments_of(pipeline);
        let from = match after {
            Some(name) => key_of(&[&prefix, name.as_str().as_bytes(), &[0]]),
            None => prefix.clone(),
        };
        walk(self.store(), &from, &end_of_prefix(&prefix), |key, record| {
            let name = std::str::from_utf8(&key[prefix.len()..]).ok().and_then(|name| Identifier::parse(name).ok());
            name.map_or(Ok(ControlFlow::Continue(())), |name| visit(name, record))
        })
    }

    /// Visits every record whose key begins with the prefix.
    pub fn each(
        &self,
        prefix: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        walk(self.store(), prefix, &end_of_prefix(prefix), |key, record| {
            visit(key, record).map(|()| ControlFlow::Continue(()))
        })
    }

    pub fn decode_environment(&self, record: &[u8]) -> Result<StoredEnvironment, StoreError> {
        readable(records::decode_environment(record, self.run))
    }

    /// Adds the queue if the store may have one: an actor leaves only with an empty queue, unless it died.
    pub fn fill_queue(&self, key: &EnvironmentKey, stored: &mut StoredEnvironment) -> Result<(), StoreError> {
        if !self.has_unloaded_queue(key) {
            return Ok(());
        }
        let queue = &mut Arc::make_mut(&mut stored.environment).queue;
        self.each(&keys::waiters_of(key), |_, record| {
            let (waiter, _) = readable(records::decode_waiter(record))?;
            queue.insert(Arc::new(waiter));
            Ok(())
        })
    }

    pub fn has_unloaded_queue(&self, key: &EnvironmentKey) -> bool {
        self.unloaded_queues.contains_key(key)
    }

    /// Records that the store has a queue that is in no actor's memory.
    pub fn queue_unloaded(&self, key: &EnvironmentKey) {
        self.unloaded_queues.insert(key.clone(), ());
    }

    pub fn queue_loaded(&self, key: &EnvironmentKey) {
        self.unloaded_queues.remove(key);
    }

    /// A session that is no longer part of the environment, if the history still keeps it.
    pub fn ended_session(
        &self,
        key: &EnvironmentKey,
        environment: &Environment,
        id: SessionId,
    ) -> Result<Option<Session>, StoreError> {
        let number = match id.origin {
            Origin::Granted(number) => number,
            Origin::Queued(ticket) => match self.pointer(ticket)? {
                Some((of, number)) if of == *key => number,
                Some(_) => return Ok(None),
                None => {
                    let ended = self.ended_in_queue(id)?;
                    let of_this = ended.filter(|(of, name, _)| *of == key.pipeline && name.as_ref() == Some(&key.name));
                    return Ok(of_this.map(|(_, _, session)| session));
                }
            },
        };
        if !environment.remembered_sessions(self.history_retention).contains(&number) {
            return Ok(None);
        }
        let sessions = readable(self.page(key, Page::of(number))?.sessions(number..=number))?;
        Ok(sessions.into_iter().find(|session| session.id == id))
    }

    /// A page of the history.
    pub fn page(&self, key: &EnvironmentKey, number: u64) -> Result<Page, StoreError> {
        let record = self.store.get(&keys::page(key, number))?;
        readable(record.map_or_else(|| Ok(Page::default()), Page::read))
    }

    /// The environment of a queued session, and the fencing token it got.
    pub fn pointer(&self, ticket: Ticket) -> Result<Option<(EnvironmentKey, u64)>, StoreError> {
        let record = self.store.get(&keys::pointer(ticket))?;
        record.map(|record| readable(records::decode_pointer(&record))).transpose()
    }

    /// A session that ended in a queue.
    pub fn ended_in_queue(
        &self,
        id: SessionId,
    ) -> Result<Option<(PipelineKey, Option<Identifier>, Session)>, StoreError> {
        let Origin::Queued(ticket) = id.origin else { return Ok(None) };
        let record = self.store.get(&keys::left(ticket))?;
        let ended = record.map(|record| readable(records::decode_left(&record))).transpose()?;
        Ok(ended.filter(|(_, _, session)| session.id == id))
    }

    pub fn deployment(
        &self,
        organization: &Identifier,
        id: DeploymentId,
    ) -> Result<Option<(EnvironmentKey, DeploymentRecord)>, StoreError> {
        let record = self.store.get(&keys::deployment(organization, id))?;
        record.map(|record| readable(records::decode_deployment(&record))).transpose()
    }

    pub fn blueprint(&self, organization: &Identifier, id: DeploymentId) -> Result<Option<Arc<Blueprint>>, StoreError> {
        let record = self.store.get(&keys::blueprint(organization, id))?;
        Ok(record.map(|record| readable(records::decode_blueprint(&record))).transpose()?.map(Arc::new))
    }

    pub fn approvals_of(&self, organization: &Identifier, id: DeploymentId) -> Result<Vec<ApprovalId>, StoreError> {
        let record = self.store.get(&keys::approvals_of_deployment(organization, id))?;
        record.map_or_else(|| Ok(Vec::new()), |record| readable(records::decode_approvals(&record)))
    }

    fn deployment_run(&self, organization: &Identifier, id: DeploymentId) -> Result<Option<domain::Run>, StoreError> {
        let record = self.deployment(organization, id)?;
        let run = record.zip(self.blueprint(organization, id)?);
        Ok(run.map(|((_, record), blueprint)| domain::Run {
            blueprint,
            stages: record.stages,
            retried: record.retried,
        }))
    }
}

/// The unfinished deployments with stages.
fn staged_deployments(environment: &mut Environment) -> impl Iterator<Item = &mut Deployment> {
    let Environment { lock, leaving, reset, .. } = environment;
    let of_sessions =
        [lock, leaving].into_iter().flatten().flat_map(|session| Arc::make_mut(session).deployments.iter_mut());
    of_sessions.chain(reset).filter(|deployment| deployment.staged && !deployment.status.is_finished())
}

pub fn readable<T>(record: Result<T, RecordError>) -> Result<T, StoreError> {
    record.map_err(StoreError::from)
}
