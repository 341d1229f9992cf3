//! Those who hold a read open until what they read changes. Only they are woken, however many wait elsewhere.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use tokio::sync::watch;

use super::environments::Environments;
use crate::domain::{DeploymentId, EnvironmentKey, IdSeed, SessionId};

#[derive(Default)]
pub struct Watchers {
    environments: Watched<EnvironmentKey>,
    /// By what makes their ids unique.
    sessions: Watched<IdSeed>,
    deployments: Watched<DeploymentId>,
}

impl Watchers {
    pub fn environment_changed(&self, key: &EnvironmentKey) {
        self.environments.changed(key);
    }

    pub fn session_changed(&self, id: SessionId) {
        self.sessions.changed(&id.seed);
    }

    pub fn deployment_changed(&self, id: DeploymentId) {
        self.deployments.changed(&id);
    }
}

struct Watched<K: Eq + Hash> {
    senders: DashMap<K, watch::Sender<()>>,
    /// So that nothing is looked up where nobody watches, which is nearly always.
    watches: AtomicUsize,
}

impl<K: Eq + Hash> Default for Watched<K> {
    fn default() -> Self {
        Self { senders: DashMap::new(), watches: AtomicUsize::new(0) }
    }
}

impl<K: Eq + Hash + Clone> Watched<K> {
    fn watch(&self, key: &K) -> watch::Receiver<()> {
        self.watches.fetch_add(1, Ordering::SeqCst);
        self.senders.entry(key.clone()).or_insert_with(|| watch::Sender::new(())).subscribe()
    }

    fn unwatch(&self, key: &K) {
        if let Entry::Occupied(entry) = self.senders.entry(key.clone())
            && entry.get().receiver_count() == 0
        {
            entry.remove();
        }
        self.watches.fetch_sub(1, Ordering::SeqCst);
    }

    fn changed(&self, key: &K) {
        if self.watches.load(Ordering::SeqCst) > 0
            && let Some(sender) = self.senders.get(key)
        {
            sender.send_replace(());
        }
    }
}

/// Sees every change from when it was made: make it first, then read, then wait.
pub struct Watch {
    environments: Environments,
    of: Of,
    receiver: Option<watch::Receiver<()>>,
}

enum Of {
    Environment(EnvironmentKey),
    Session(SessionId),
    Deployment(DeploymentId),
}

impl Watch {
    pub async fn changed(&mut self) {
        let Some(receiver) = &mut self.receiver else { return };
        // The sender lives as long as there is a receiver.
        receiver.changed().await.ok();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.receiver = None;
        let watchers: &Arc<Watchers> = &self.environments.parts.watchers;
        match &self.of {
            Of::Environment(key) => watchers.environments.unwatch(key),
            Of::Session(id) => watchers.sessions.unwatch(&id.seed),
            Of::Deployment(id) => watchers.deployments.unwatch(id),
        }
    }
}

impl Environments {
    pub fn watch_environment(&self, key: &EnvironmentKey) -> Watch {
        let receiver = Some(self.parts.watchers.environments.watch(key));
        Watch { environments: self.clone(), of: Of::Environment(key.clone()), receiver }
    }

    pub fn watch_session(&self, id: SessionId) -> Watch {
        let receiver = Some(self.parts.watchers.sessions.watch(&id.seed));
        Watch { environments: self.clone(), of: Of::Session(id), receiver }
    }

    pub fn watch_deployment(&self, id: DeploymentId) -> Watch {
        let receiver = Some(self.parts.watchers.deployments.watch(&id));
        Watch { environments: self.clone(), of: Of::Deployment(id), receiver }
    }
}
