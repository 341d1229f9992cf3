//! What starts deployments again: a pipeline that is resumed, and a server that has ended under them.

use std::sync::atomic::Ordering;

use futures_util::{StreamExt, TryStreamExt, stream};

use crate::actors::directory::Note;
use crate::actors::environment::EnvironmentActor;
use crate::actors::environments::{Environments, Failure};
use crate::actors::{Executor, keys, restart};
use crate::domain::{Deployment, DeploymentId, DeploymentStatus, Environment, EnvironmentKey, PipelineKey, Recover};
use crate::store::{StoreError, durable_up_to};

/// How many environments are looked at together at the start: enough that they share the disk's work.
const RECOVERED_AT_ONCE: usize = 64;
/// How many environments are told of a resumed pipeline before others get their turn on the thread.
const TOLD_AT_ONCE: usize = 64;

impl Environments {
    /// Who runs stages, from now on. Nobody does before: what is decided until then is found by [`Self::recover`].
    pub fn set_executor(&self, executor: Box<dyn Executor>) {
        if self.parts.executor.set(executor).is_err() {
            tracing::warn!("deployments have somebody who runs them already");
        }
    }

    /// Takes up what the last run of the server had begun or left waiting; says in how many environments. To be called
    /// when there is an executor, before anybody else can ask for anything.
    pub async fn recover(&self) -> Result<usize, Failure> {
        let parts = &self.parts;
        durable_up_to(&*parts.store, parts.store.handed_in()).await;
        let mut unfinished = Vec::new();
        restart::each(parts, keys::UNFINISHED, |key, _| {
            unfinished.extend(keys::parse_environment(key, keys::UNFINISHED));
            Ok(())
        })?;
        let found = unfinished.len();
        let recover = unfinished.into_iter().map(|key| {
            let environments = self.clone();
            async move { environments.take_up(&key).await }
        });
        stream::iter(recover).buffer_unordered(RECOVERED_AT_ONCE).try_collect::<()>().await?;
        parts.recovered.store(true, Ordering::Relaxed);
        Ok(found)
    }

    async fn take_up(&self, key: &EnvironmentKey) -> Result<(), Failure> {
        match self.ask(key, Recover).await {
            // A server that starts on a full disk serves reads all the same, and starts what waits when it can.
            Err(Failure::Store(error @ (StoreError::Full { .. } | StoreError::Overloaded))) => {
                tracing::warn!(environment = %key, %error, "what waits to be deployed cannot be started yet");
                self.note(key, Note::Resume);
                Ok(())
            }
            taken_up => taken_up,
        }
    }

    /// A pipeline starts deployments again: every environment where one waits for that is told, in the order in which
    /// those were made. To be called when it is known to be running.
    pub async fn resume_pipeline(&self, pipeline: &PipelineKey) {
        let held_back = self.parts.held_back.iter().filter(|entry| entry.key().pipeline == *pipeline);
        let mut waiting: Vec<(DeploymentId, EnvironmentKey)> =
            held_back.map(|entry| (*entry.value(), entry.key().clone())).collect();
        waiting.sort_unstable();
        for some in waiting.chunks(TOLD_AT_ONCE) {
            for (_, key) in some {
                self.note(key, Note::Resume);
            }
            tokio::task::yield_now().await;
        }
    }
}

impl EnvironmentActor {
    /// Notes what waits in an environment that has just been loaded. An earlier actor may have been told that the
    /// pipeline is resumed, and died of it.
    pub(in crate::actors) fn note_held_back(&self) {
        // At the start, what waits is looked at anyway.
        if self.await_resumption(false) && self.parts().recovered.load(Ordering::Relaxed) {
            self.resume_if_running();
        }
    }

    /// The same after a decision: the pipeline may have been resumed since it was asked about, by somebody who did not
    /// find this environment among those that wait.
    pub(in crate::actors) fn note_decided(&self, was_held_back: bool) {
        if self.await_resumption(was_held_back) {
            self.resume_if_running();
        }
    }

    /// Sees to it that the environment is told when its pipeline is resumed, if it waits for that.
    fn await_resumption(&self, was_held_back: bool) -> bool {
        let Ok(loaded) = &self.loaded else { return false };
        let (key, held_back) = (&self.home.key, &self.parts().held_back);
        match loaded.environment.held_back.then(|| next_in_line(&loaded.environment)).flatten() {
            Some(waiting) => _ = held_back.insert(key.clone(), waiting),
            None if was_held_back => _ = held_back.remove(key),
            None => {}
        }
        loaded.environment.held_back
    }

    fn resume_if_running(&self) {
        if !self.parts().definitions.now(&self.home.key.pipeline).stopped {
            self.home.environments.note(&self.home.key, Note::Resume);
        }
    }
}

fn next_in_line(environment: &Environment) -> Option<DeploymentId> {
    let waits = |deployment: &&Deployment| deployment.status == DeploymentStatus::Queued;
    let of_session = environment.lock.iter().flat_map(|session| &session.deployments);
    environment.reset.iter().chain(of_session).find(waits).map(|deployment| deployment.id)
}
