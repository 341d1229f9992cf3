//! Syncing a registry with its repository: one sync at a time per registry, and all of the new steps or none.

use std::sync::Arc;

use super::change::{RegistryError, check, described, put, record};
use super::fetch::Fetched;
use super::registry::{GitSource, Registry, Source, StepKey, Steps, SyncError};
use super::service::{Inner, Registries};
use crate::git::Commit;
use domain::{EventData, Identifier, Initiator, RegistryData, RegistryId, RegistrySyncedData, Timestamp};
use store::Batch;

/// The outcome of a sync.
#[derive(Debug, Clone)]
pub struct Synced {
    pub registry: Arc<Registry>,
    pub previous_commit: Option<Commit>,
    pub added: Vec<StepKey>,
    /// Steps with the same name and version, but new content.
    pub changed: Vec<StepKey>,
    pub removed: Vec<StepKey>,
}

impl Registries {
    /// A failed sync changes no steps and is recorded in the registry. `beside` as in [`Registries::create`].
    pub async fn sync<Held>(
        &self,
        organization: &Identifier,
        id: RegistryId,
        by: &Initiator,
        clock: &(dyn Fn() -> Timestamp + Send + Sync),
        beside: impl FnOnce(&Synced, &mut Batch) -> Held,
    ) -> Result<Synced, RegistryError> {
        let present = self.inner.registries.with_newest(|newest| check(newest, organization, id, None));
        let present = self.once_durable(present).await?;
        let Source::Git(git) = &present.source else { return Err(RegistryError::NoRepository) };
        let syncing = SyncGuard::take(&self.inner, id)?;
        let taken = match self.fetch(organization, git).await {
            Ok(fetched) => self.take_over(&present, git, fetched, by, clock(), beside).await,
            Err(failure) => Err(RegistryError::SyncFailed(Arc::new(failure))),
        };
        let taken = match taken {
            Err(refusal @ (RegistryError::SyncFailed(_) | RegistryError::InUse { .. })) => {
                self.note_failure(&present, git, &refusal, by, clock())?;
                Err(refusal)
            }
            taken => taken,
        };
        let outcome = self.once_durable(taken).await;
        drop(syncing);
        outcome.map(|(synced, _held)| synced)
    }

    async fn take_over<Held>(
        &self,
        asked: &Registry,
        from: &GitSource,
        fetched: Fetched,
        by: &Initiator,
        now: Timestamp,
        beside: impl FnOnce(&Synced, &mut Batch) -> Held,
    ) -> Result<(Synced, Held), RegistryError> {
        let _gate = self.inner.gate.write().await;
        self.inner.registries.decide(|newest, batch| {
            let present = still_from(check(newest, &asked.organization, asked.id, None)?, from)?;
            let steps = Arc::new(fetched.steps);
            let registry = Arc::new(Registry {
                source: Source::Git(GitSource { commit: Some(fetched.commit), ..from.clone() }),
                steps: steps.clone(),
                failure: None,
                synced_at: Some(now),
                updated_at: now,
                revision: newest.next_revision(now.as_millis()),
                ..(*present).clone()
            });
            self.check_users(newest, &present, &registry)?;
            let synced = Synced {
                previous_commit: present.commit().cloned(),
                added: missing_in(&steps, &present.steps),
                changed: steps
                    .iter()
                    .filter(|(key, step)| present.steps.get(*key).is_some_and(|old| old != *step))
                    .map(key)
                    .collect(),
                removed: missing_in(&present.steps, &steps),
                registry: registry.clone(),
            };
            let count = |steps: &[StepKey]| steps.len() as u64;
            let data = RegistrySyncedData {
                added: Some(count(&synced.added)),
                changed: Some(count(&synced.changed)),
                removed: Some(count(&synced.removed)),
                ..unsynced(&registry)
            };
            record(batch, &EventData::RegistrySynced(data), &registry, by, now);
            let held = beside(&synced, batch);
            Ok((Some(put(batch, &registry)), (synced, held)))
        })
    }

    /// Does nothing if the registry has another repository by now.
    fn note_failure(
        &self,
        asked: &Registry,
        from: &GitSource,
        refusal: &RegistryError,
        by: &Initiator,
        now: Timestamp,
    ) -> Result<(), RegistryError> {
        let failure = match refusal {
            RegistryError::SyncFailed(failure) => failure.clone(),
            RegistryError::InUse { used_by } => {
                let names: Vec<_> = used_by.iter().map(Identifier::as_str).collect();
                let names = names.join(", ");
                Arc::new(SyncError::new(format!("pipelines use steps that would be missing or incompatible: {names}")))
            }
            other => Arc::new(SyncError::new(other.to_string())),
        };
        tracing::info!(organization = %asked.organization, registry = %asked.id, error = failure.message, "registry sync failed");
        let noted = self.inner.registries.decide(|newest, batch| {
            let present = still_from(check(newest, &asked.organization, asked.id, None)?, from)?;
            let revision = newest.next_revision(now.as_millis());
            let failure = Some(failure.clone());
            let registry = Arc::new(Registry { failure, updated_at: now, revision, ..(*present).clone() });
            record(batch, &EventData::RegistrySynced(unsynced(&registry)), &registry, by, now);
            Ok((Some(put(batch, &registry)), ()))
        });
        match noted {
            Err(error @ RegistryError::Store(_)) => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Refuses if the registry's repository was changed after the fetch began.
fn still_from(present: Arc<Registry>, from: &GitSource) -> Result<Arc<Registry>, RegistryError> {
    match &present.source {
        Source::Git(git) if git.is_same_repository(from) => Ok(present),
        Source::Git(_) | Source::Inline => Err(RegistryError::Changed),
    }
}

fn missing_in(steps: &Steps, others: &Steps) -> Vec<StepKey> {
    steps.iter().filter(|(name, _)| !others.contains_key(*name)).map(key).collect()
}

fn key<T>((key, _): (&StepKey, T)) -> StepKey {
    key.clone()
}

/// Marks a registry as being synced until it is dropped.
struct SyncGuard<'a> {
    inner: &'a Inner,
    id: RegistryId,
}

impl<'a> SyncGuard<'a> {
    fn take(inner: &'a Inner, id: RegistryId) -> Result<Self, RegistryError> {
        let free = inner.syncing.lock().insert(id);
        free.then_some(Self { inner, id }).ok_or(RegistryError::SyncInProgress)
    }
}

impl Drop for SyncGuard<'_> {
    fn drop(&mut self) {
        self.inner.syncing.lock().remove(&self.id);
    }
}

/// The event of a sync, without the changes to the steps.
fn unsynced(registry: &Registry) -> RegistrySyncedData {
    let RegistryData { registry_id, name, status, step_count, commit } = described(registry);
    RegistrySyncedData { registry_id, name, status, step_count, commit, added: None, changed: None, removed: None }
}
