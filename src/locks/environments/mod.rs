//! [`Environments`]: the interface of the actors for all other code. Commands go to an environment's actor; reads use
//! the last durable state. A declaration in a file is applied when it is new or has changed; an environment that is no
//! longer declared is retired.

pub mod claim;
pub mod deployments;
pub mod reads;
pub mod session_list;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::directory::Directory;
use super::ports::{Clock, Definitions, Executor, Failure, LogKeeper, Options};
use super::services::Services;
use super::services::signals::Signal;
use super::services::waiters::Keyed;
use super::services::watchers::{Subject, Watch};
use super::{keys, restart, timer};

use ambient::entropy;
use domain::{
    Boot, ClaimRequest, Command, Configuration, Configure, Configured, DeploymentId, EnvironmentKey, Expected,
    ForceClaim, ForceClaimed, Identifier, Initiator, PipelineKey, Rejection, Retire, Retired, Role, SessionId,
};
use records::stored::{Difference, differences};
use store::{Batch, Store, StoreError, commit_durably, for_each};

/// Environments signalled about a resumed pipeline before the task yields.
const SIGNALLED_AT_ONCE: usize = 64;

/// All environments. Cheap to clone.
#[derive(Clone)]
pub struct Environments {
    directory: Arc<Directory>,
    /// The caller that commands are attributed to.
    by: Option<Initiator>,
    /// Whether the caller is an admin; the last places of queues are reserved for admins.
    is_admin: bool,
}

impl Environments {
    /// Takes over the waiters and deadlines of the last run. `clock` returns ticks of `boot`.
    pub fn open(
        store: Arc<dyn Store>,
        clock: Clock,
        boot: Boot,
        definitions: Arc<dyn Definitions>,
        options: Options,
    ) -> Result<Self, StoreError> {
        let directory = Directory::new(|directory| Services::new(store, clock, boot, definitions, options, directory));
        restart::find_waiters(&directory.services, &directory.pools)?;
        restart::find_deadlines(&directory.services)?;
        Ok(Self { directory, by: None, is_admin: false })
    }

    /// Sets the executor of stages. Nothing runs before; [`Self::recover`] finds earlier decisions.
    pub fn set_executor(&self, executor: Box<dyn Executor>) {
        self.services().set_executor(executor);
    }

    /// In a cluster: sets the keeper of stages' output on this node. Must be called before the executor is set.
    pub fn set_log_keeper(&self, keeper: Box<dyn LogKeeper>) {
        self.services().records.set_log_keeper(keeper);
    }

    /// Continues the deployments of the last run; returns the number of environments. Call it after setting the
    /// executor and before any other request.
    pub async fn recover(&self) -> Result<usize, Failure> {
        restart::recover_deployments(&self.directory).await
    }

    /// These environments on behalf of a caller. The audit attributes outcomes to the caller.
    pub fn by(&self, initiator: Initiator) -> Self {
        Self { directory: self.directory.clone(), by: Some(initiator), is_admin: false }
    }

    /// These environments for a caller with this role.
    pub fn as_role(self, role: Role) -> Self {
        Self { is_admin: role == Role::Admin, ..self }
    }

    /// Executes a command on an environment that must exist. Claims go through [`Self::claim`] and
    /// [`Self::force_claim`].
    pub async fn ask<C: Command>(&self, key: &EnvironmentKey, command: C) -> Result<C::Reply, Failure> {
        self.ask_keyed(key, command, None).await
    }

    /// Like [`Self::ask`], with an idempotency key.
    pub async fn ask_keyed<C: Command>(
        &self,
        key: &EnvironmentKey,
        command: C,
        keyed: Option<Keyed<C::Reply>>,
    ) -> Result<C::Reply, Failure> {
        self.directory.ask(key, command, keyed, self.by.clone()).await
    }

    pub async fn force_claim(
        &self,
        key: &EnvironmentKey,
        request: ClaimRequest,
        role: Role,
        keyed: Option<Keyed<ForceClaimed>>,
    ) -> Result<ForceClaimed, Failure> {
        self.ask_keyed(key, ForceClaim { request, seed: entropy::id_seed(), role }, keyed).await
    }

    /// The only command for which an environment need not exist.
    pub async fn configure(&self, key: &EnvironmentKey, configure: Configure) -> Result<Configured, Failure> {
        self.directory.ask_or_create(key, configure, self.by.clone()).await
    }

    /// Signals every held-back environment that the pipeline starts deployments again, oldest deployment first. Call it
    /// once the pipeline is known to be running.
    pub async fn resume_pipeline(&self, pipeline: &PipelineKey) {
        for some in self.services().pipelines.held_back(pipeline).chunks(SIGNALLED_AT_ONCE) {
            for key in some {
                self.services().signal(key, Signal::Resume);
            }
            tokio::task::yield_now().await;
        }
    }

    pub fn watch_environment(&self, key: &EnvironmentKey) -> Watch {
        self.services().watchers.watch(Subject::Environment(key.clone()))
    }

    pub fn watch_session(&self, id: SessionId) -> Watch {
        self.services().watchers.watch(Subject::Session(id))
    }

    pub fn watch_deployment(&self, id: DeploymentId) -> Watch {
        self.services().watchers.watch(Subject::Deployment(id))
    }

    /// Dismisses the actors that have not been used since the last call.
    pub fn dismiss_unused(&self) {
        self.directory.dismiss_unused();
    }

    /// The current number of environments with an actor.
    pub fn resident(&self) -> usize {
        self.directory.len()
    }

    /// The number of waiters for an environment by name.
    pub fn waiting_by_name(&self) -> usize {
        self.services().waiters.by_name()
    }

    /// Ends the wait of all clients that hold a connection open, since the server shuts down.
    pub fn send_waiters_away(&self) {
        self.services().waiters.close();
    }

    /// Resolves when clients can no longer wait because the server shuts down.
    pub async fn closed(&self) {
        self.services().waiters.closed().await;
    }

    /// Ends everything that expires, at its deadline; never returns.
    pub async fn keep_time(&self) {
        timer::run(&self.directory).await;
    }

    /// Ends everything that has expired.
    #[cfg(test)]
    pub fn elapse(&self) {
        timer::signal_due(&self.directory);
    }

    /// Drops the oldest sessions that ended in a queue, beyond the limit.
    pub async fn drop_old_ended_sessions(&self) -> Result<(), StoreError> {
        timer::drop_old_ended_sessions(self.services()).await
    }

    pub(super) fn services(&self) -> &Arc<Services> {
        &self.directory.services
    }
}

/// The last declaration of each environment in an organization's file, in stored form.
fn last_declared(
    store: &dyn Store,
    organization: &Identifier,
) -> Result<BTreeMap<EnvironmentKey, Vec<u8>>, StoreError> {
    let mut declared = BTreeMap::new();
    for_each(store, &keys::declarations_in(organization), |key, declaration| {
        let environment = keys::parse_environment(key, store::keys::DECLARED_ENVIRONMENTS);
        declared.extend(environment.map(|environment| (environment, declaration.to_vec())));
        Ok(())
    })?;
    Ok(declared)
}

/// How the environments that a file declares differ from its last declarations.
pub fn environment_differences<'a>(
    store: &dyn Store,
    organization: &Identifier,
    declared: impl Iterator<Item = (EnvironmentKey, &'a Configuration)>,
) -> Result<BTreeMap<EnvironmentKey, Difference>, StoreError> {
    let form = |(key, configuration)| (key, records::encode_configuration(configuration));
    let exists = |key: &EnvironmentKey| match store.get(&keys::environment(key))? {
        Some(record) => Ok(records::is_of_existing(&record)?),
        None => Ok(false),
    };
    differences(last_declared(store, organization)?, declared.map(form), exists)
}

/// Whether an environment is disabled for this reason.
pub fn is_disabled_because(store: &dyn Store, key: &EnvironmentKey, reason: &str) -> Result<bool, StoreError> {
    match store.get(&keys::environment(key))? {
        Some(record) => Ok(records::is_disabled_because(&record, reason)?),
        None => Ok(false),
    }
}

impl Environments {
    /// Applies the configuration that a file declares if it is new or has changed; otherwise settings from the API
    /// stay, also across restarts. Returns whether it was applied. Safe to repeat after a crash midway.
    pub async fn declare(&self, key: &EnvironmentKey, configuration: Configuration) -> Result<bool, Failure> {
        let store = self.services().store();
        let declaration = records::encode_configuration(&configuration);
        let declared = keys::declaration(key);
        if store.get(&declared)?.as_ref() == Some(&declaration) {
            return Ok(false);
        }
        self.configure(key, Configure { configuration, expected: None }).await?;
        let mut batch = Batch::default();
        batch.put(declared, declaration);
        commit_durably(store, batch).await?;
        Ok(true)
    }

    /// Performs the next step of retiring an environment that its file no longer declares; see [`Retire`]. The mark of
    /// the declaration is deleted with the environment: the caller prevents its creation in between. Until then the
    /// mark is empty, so that a file that declares the environment again is applied and puts it back into service.
    pub async fn retire(&self, key: &EnvironmentKey, reason: &Arc<str>) -> Result<Retired, Failure> {
        self.clear_mark(key).await?;
        let retired = match self.ask(key, Retire { reason: reason.clone() }).await {
            Err(Failure::Rejected(Rejection::EnvironmentNotFound)) => Retired::Gone,
            other => other?,
        };
        if retired == Retired::Gone {
            self.forget_declared(key).await?;
        }
        Ok(retired)
    }

    /// Puts an environment back into service if it is still being retired for this reason.
    pub async fn reinstate(&self, key: &EnvironmentKey, reason: &str) -> Result<bool, Failure> {
        let Some(environment) = self.environment(key)? else { return Ok(false) };
        let retiring = environment.configuration.as_deref().filter(|configuration| configuration.disabled);
        let Some(retiring) = retiring.filter(|_| environment.disabled_reason.as_deref() == Some(reason)) else {
            return Ok(false);
        };
        let configuration = Configuration { disabled: false, ..retiring.clone() };
        let expected = Some(Expected::Revisions(vec![environment.configuration_revision]));
        match self.configure(key, Configure { configuration, expected }).await {
            // A member has just changed or deleted the environment, which takes precedence.
            Err(Failure::Rejected(Rejection::ConfigurationChanged { .. })) => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// Makes the mark of an environment different from every declaration.
    async fn clear_mark(&self, key: &EnvironmentKey) -> Result<(), StoreError> {
        let (store, mark) = (self.services().store(), keys::declaration(key));
        if store.get(&mark)?.is_none_or(|declaration| declaration.is_empty()) {
            return Ok(());
        }
        let mut batch = Batch::default();
        batch.put(mark, Vec::new());
        commit_durably(store, batch).await
    }

    /// Removes the declaration of an environment that no longer exists.
    pub async fn forget_declared(&self, key: &EnvironmentKey) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        batch.delete(keys::declaration(key));
        commit_durably(self.services().store(), batch).await
    }
}

#[cfg(test)]
use domain::{TokenId, Waiter};

#[cfg(test)]
impl Environments {
    pub(super) fn armed_deadlines(&self) -> usize {
        self.services().deadlines.len()
    }

    /// The number of environments in the index of an organization.
    pub(super) fn indexed(&self, organization: &Identifier) -> usize {
        self.services().session_indexes.get(organization).len()
    }

    /// The number of waiting claims of the token.
    pub(super) fn waiting_of(&self, token: TokenId) -> usize {
        self.services().waiters.of_token(token)
    }

    /// All waiters for any environment.
    pub(super) fn waiters_for_any(&self) -> Vec<Arc<Waiter>> {
        self.directory.pools.active().iter().flat_map(|pool| pool.waiters()).collect()
    }

    pub(super) fn keeps_places(&self) -> bool {
        self.services().waiters.keeps_places()
    }
}
