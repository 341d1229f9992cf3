//! Readers that wait for a change of a resource. A change wakes only its own watchers.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use tokio::sync::watch;

use domain::{DeploymentId, EnvironmentKey, IdSeed, SessionId};

#[derive(Default)]
pub struct Watchers {
    pub environments: Watched<EnvironmentKey>,
    /// By the seed of their ids.
    pub sessions: Watched<IdSeed>,
    pub deployments: Watched<DeploymentId>,
}

impl Watchers {
    pub fn watch(self: &Arc<Self>, subject: Subject) -> Watch {
        let receiver = match &subject {
            Subject::Environment(key) => self.environments.watch(key),
            Subject::Session(id) => self.sessions.watch(&id.seed),
            Subject::Deployment(id) => self.deployments.watch(id),
        };
        Watch { watchers: self.clone(), subject, receiver: Some(receiver) }
    }
}

pub struct Watched<K: Eq + Hash> {
    senders: DashMap<K, watch::Sender<()>>,
    /// The number of watches. While it is zero, as nearly always, a change costs no lookup.
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

    pub fn changed(&self, key: &K) {
        if self.watches.load(Ordering::SeqCst) > 0
            && let Some(sender) = self.senders.get(key)
        {
            sender.send_replace(());
        }
    }
}

/// Sees every change after its creation: create the watch first, then read, then wait.
pub struct Watch {
    watchers: Arc<Watchers>,
    subject: Subject,
    receiver: Option<watch::Receiver<()>>,
}

pub enum Subject {
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
        match &self.subject {
            Subject::Environment(key) => self.watchers.environments.unwatch(key),
            Subject::Session(id) => self.watchers.sessions.unwatch(&id.seed),
            Subject::Deployment(id) => self.watchers.deployments.unwatch(id),
        }
    }
}
