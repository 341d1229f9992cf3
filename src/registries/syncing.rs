//! Taking over what a repository has now. One at a time for each registry; what is fetched is nobody's until it is taken
//! over as a whole.

use std::sync::Arc;

use super::changing::{Refusal, check, described, put};
use super::fetch::Fetched;
use super::registry::{GitSource, Registry, Source, StepKey, Steps, SyncFailure};
use super::service::{Inner, Registries};
use crate::domain::{Agent, Identifier, Notice, RegistryId, Timestamp};
use crate::events::{self, Happening};
use crate::git::Commit;
use crate::store::Batch;

/// What a sync changed.
#[derive(Debug, Clone)]
pub struct Synced {
    pub registry: Arc<Registry>,
    pub previous_commit: Option<Commit>,
    pub added: Vec<StepKey>,
    /// The same name and version with another content.
    pub changed: Vec<StepKey>,
    pub removed: Vec<StepKey>,
}

impl Registries {
    /// One that fails leaves the steps as they are, and the registry says why. `keep` as in [`Registries::create`].
    pub async fn sync<Held>(
        &self,
        organization: &Identifier,
        id: RegistryId,
        by: &Agent,
        clock: &(dyn Fn() -> Timestamp + Send + Sync),
        keep: impl FnOnce(&Synced, &mut Batch) -> Held,
    ) -> Result<Synced, Refusal> {
        let present = self.inner.registries.with_newest(|newest| check(newest, organization, id, None));
        let present = self.once_durable(present).await?;
        let Source::Git(git) = &present.source else { return Err(Refusal::NoRepository) };
        let slot = Slot::take(&self.inner, id)?;
        let taken = match self.fetch(organization, git).await {
            Ok(fetched) => self.take_over(&present, git, fetched, by, clock(), keep).await,
            Err(failure) => Err(Refusal::SyncFailed(Arc::new(failure))),
        };
        let taken = match taken {
            Err(refusal @ (Refusal::SyncFailed(_) | Refusal::InUse { .. })) => {
                self.note_failure(&present, git, &refusal, by, clock())?;
                Err(refusal)
            }
            taken => taken,
        };
        let outcome = self.once_durable(taken).await;
        drop(slot);
        outcome.map(|(synced, _held)| synced)
    }

    async fn take_over<Held>(
        &self,
        asked: &Registry,
        from: &GitSource,
        fetched: Fetched,
        by: &Agent,
        now: Timestamp,
        keep: impl FnOnce(&Synced, &mut Batch) -> Held,
    ) -> Result<(Synced, Held), Refusal> {
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
                added: beyond(&steps, &present.steps),
                changed: steps
                    .iter()
                    .filter(|(key, step)| present.steps.get(*key).is_some_and(|old| old != *step))
                    .map(key)
                    .collect(),
                removed: beyond(&present.steps, &steps),
                registry: registry.clone(),
            };
            let count = |steps: &[StepKey]| steps.len() as u64;
            let data = described(&registry)
                .with("added", count(&synced.added))
                .with("changed", count(&synced.changed))
                .with("removed", count(&synced.removed));
            let happening = Happening::new(Notice::RegistrySynced, now, Some(by), &data);
            events::record(batch, &registry.organization, &happening);
            let held = keep(&synced, batch);
            Ok((Some(put(batch, &registry)), (synced, held)))
        })
    }

    /// Unless it has another repository by now, of which nothing is known.
    fn note_failure(
        &self,
        asked: &Registry,
        from: &GitSource,
        refusal: &Refusal,
        by: &Agent,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let failure = match refusal {
            Refusal::SyncFailed(failure) => failure.clone(),
            refusal => Arc::new(SyncFailure::new(match refusal {
                Refusal::InUse { used_by } => {
                    let names: Vec<_> = used_by.iter().map(Identifier::as_str).collect();
                    format!("pipelines use what would no longer be there, or not as they use it: {}", names.join(", "))
                }
                other => other.to_string(),
            })),
        };
        tracing::info!(organization = %asked.organization, registry = %asked.id, error = failure.message, "a sync failed");
        let noted = self.inner.registries.decide(|newest, batch| {
            let present = still_from(check(newest, &asked.organization, asked.id, None)?, from)?;
            let revision = newest.next_revision(now.as_millis());
            let failure = Some(failure.clone());
            let registry = Arc::new(Registry { failure, updated_at: now, revision, ..(*present).clone() });
            let data = described(&registry);
            events::record(
                batch,
                &registry.organization,
                &Happening::new(Notice::RegistrySynced, now, Some(by), &data),
            );
            Ok((Some(put(batch, &registry)), ()))
        });
        match noted {
            Err(error @ Refusal::Store(_)) => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Somebody may have given it another repository since this one was asked.
fn still_from(present: Arc<Registry>, from: &GitSource) -> Result<Arc<Registry>, Refusal> {
    match &present.source {
        Source::Git(git) if git.is_same_place(from) => Ok(present),
        Source::Git(_) | Source::Inline => Err(Refusal::Changed),
    }
}

fn beyond(steps: &Steps, others: &Steps) -> Vec<StepKey> {
    steps.iter().filter(|(name, _)| !others.contains_key(*name)).map(key).collect()
}

fn key<T>((key, _): (&StepKey, T)) -> StepKey {
    key.clone()
}

/// Given back when dropped, also by a sync that was given up.
struct Slot<'a> {
    inner: &'a Inner,
    id: RegistryId,
}

impl<'a> Slot<'a> {
    fn take(inner: &'a Inner, id: RegistryId) -> Result<Self, Refusal> {
        let free = inner.syncing.lock().insert(id);
        free.then_some(Self { inner, id }).ok_or(Refusal::SyncInProgress)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.inner.syncing.lock().remove(&self.id);
    }
}
