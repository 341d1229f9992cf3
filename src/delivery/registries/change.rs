//! Creating, changing and deleting registries, unless that would break a pipeline that uses one. Every answer, refusals
//! included, waits until its state is durable.

use std::sync::Arc;

use super::registry::{self, GitSource, NewRegistry, NewSource, REGISTRIES_MAX, Registry, Source, Steps, SyncError};
use super::service::{Registries, RegistryChange, RegistryRecords, find, set};
use domain::{Blueprint, EventData, Identifier, Initiator, RegistryData, RegistryId, Timestamp};
use events::{Cause, NewEvent};
use store::{Batch, StoreError};

#[derive(Debug, Clone, thiserror::Error)]
pub enum RegistryError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the registry does not exist")]
    NotFound,
    #[error("a registry of this name already exists")]
    Exists,
    #[error("the organization has the maximum of {REGISTRIES_MAX} registries")]
    TooMany,
    #[error("the registry is not at the expected revision")]
    Changed,
    /// The pipelines that the change would break.
    #[error("pipelines use the registry")]
    InUse { used_by: Vec<Identifier> },
    #[error("the registry is being synced")]
    SyncInProgress,
    #[error("the registry has no repository")]
    NoRepository,
    #[error("the repository cannot be synced: {}", .0.message)]
    SyncFailed(Arc<SyncError>),
}

/// The new content of a registry: the steps of a request, or the outcome of a fetch.
pub(super) struct Content {
    source: Source,
    steps: Arc<Steps>,
    failure: Option<Arc<SyncError>>,
    synced_at: Option<Timestamp>,
}

impl Registries {
    /// Fetches a repository first. If that fails, the registry is created anyway, without steps and with the failure,
    /// and can be synced later. `beside` adds to the same batch; its result is held until the batch is durable or
    /// refused.
    pub async fn create<Held>(
        &self,
        organization: &Identifier,
        id: RegistryId,
        new: NewRegistry,
        by: &Initiator,
        clock: &(dyn Fn() -> Timestamp + Send + Sync),
        beside: impl FnOnce(&Registry, &mut Batch) -> Held,
    ) -> Result<Arc<Registry>, RegistryError> {
        let NewRegistry { name, source } = new;
        let free = self.inner.registries.with_newest(|newest| check_new(newest, organization, &name));
        self.once_durable(free).await?;
        let content = match source {
            NewSource::Inline(steps) => Content::inline(steps),
            NewSource::Git(git) => self.fetched(organization, git, clock).await,
        };
        let now = clock();
        let made = self.inner.registries.decide(|newest, batch| {
            check_new(newest, organization, &name)?;
            let Content { source, steps, failure, synced_at } = content;
            let registry = Arc::new(Registry {
                organization: organization.clone(),
                id,
                name,
                source,
                steps,
                failure,
                created_at: now,
                updated_at: now,
                synced_at,
                revision: newest.next_revision(now.as_millis()),
            });
            record(batch, &EventData::RegistryCreated(described(&registry)), &registry, by, now);
            let held = beside(&registry, batch);
            Ok((Some(put(batch, &registry)), (registry, held)))
        });
        self.once_durable(made).await.map(|(registry, _held)| registry)
    }

    /// Fetches a new repository first; if that fails, nothing changes. `expected`: the registry must have one of these
    /// revisions.
    pub async fn update(
        &self,
        organization: &Identifier,
        id: RegistryId,
        new: NewRegistry,
        expected: Option<&[u64]>,
        by: &Initiator,
        clock: &(dyn Fn() -> Timestamp + Send + Sync),
    ) -> Result<Arc<Registry>, RegistryError> {
        let present = self.inner.registries.with_newest(|newest| check(newest, organization, id, expected));
        let present = self.once_durable(present).await?;
        let NewRegistry { name, source } = new;
        let content = match source {
            NewSource::Inline(steps) => Some(Content::inline(steps)),
            NewSource::Git(git) => match &present.source {
                Source::Git(known) if known.is_same_repository(&git) => None,
                Source::Git(_) | Source::Inline => {
                    let content = self.fetched(organization, git, clock).await;
                    if let Some(failure) = content.failure {
                        return Err(RegistryError::SyncFailed(failure));
                    }
                    Some(content)
                }
            },
        };
        let gate = self.inner.gate.write().await;
        let now = clock();
        let changed = self.inner.registries.decide(|newest, batch| {
            let asked = &present.source;
            let present = check(newest, organization, id, expected)?;
            if newest.of(organization).any(|other| other.id != id && other.name == name) {
                return Err(RegistryError::Exists);
            }
            let Content { source, steps, failure, synced_at } = match content {
                Some(content) => content,
                None => Content::unchanged(&present, asked)?,
            };
            let next = Registry { name, source, steps, failure, synced_at, ..(*present).clone() };
            if next == *present {
                return Ok((None, present));
            }
            let next = Arc::new(Registry { updated_at: now, revision: newest.next_revision(now.as_millis()), ..next });
            self.check_users(newest, &present, &next)?;
            record(batch, &EventData::RegistryUpdated(described(&next)), &next, by, now);
            Ok((Some(put(batch, &next)), next))
        });
        drop(gate);
        self.once_durable(changed).await
    }

    pub async fn delete(
        &self,
        organization: &Identifier,
        id: RegistryId,
        expected: Option<&[u64]>,
        by: &Initiator,
        now: Timestamp,
    ) -> Result<(), RegistryError> {
        let gate = self.inner.gate.write().await;
        let deleted = self.inner.registries.decide(|newest, batch| {
            let present = check(newest, organization, id, expected)?;
            self.refuse_users(&present, |_| true)?;
            record(batch, &EventData::RegistryDeleted(described(&present)), &present, by, now);
            batch.delete(registry::key(organization, id));
            Ok((Some(RegistryChange { group: organization.clone(), key: id, value: None }), ()))
        });
        drop(gate);
        self.once_durable(deleted).await
    }

    /// Refuses a change that would break a pipeline: one that resolves now, and would not with `next` in place of
    /// `present`. A pipeline that already fails to resolve because of another registry does not count.
    pub(super) fn check_users(
        &self,
        newest: &RegistryRecords,
        present: &Registry,
        next: &Arc<Registry>,
    ) -> Result<(), RegistryError> {
        let before: Vec<_> = newest.of(&present.organization).collect();
        let after: Vec<_> = before.iter().map(|known| if known.id == next.id { next } else { *known }).collect();
        let resolves = |blueprint: &Blueprint, with: &[&Arc<Registry>]| {
            blueprint.resolved(&|reference| find(with.iter().copied(), reference)).is_ok()
        };
        self.refuse_users(present, |blueprint| resolves(blueprint, &before) && !resolves(blueprint, &after))
    }

    /// Refuses if any pipeline, durable or not, uses the registry and meets the condition.
    fn refuse_users(&self, registry: &Registry, condition: impl Fn(&Blueprint) -> bool) -> Result<(), RegistryError> {
        let uses = |blueprint: &Blueprint| blueprint.uses().any(|used| used.reference.registry == registry.name);
        let all = self.inner.pipelines.newest(&registry.organization);
        let users = all.iter().filter(|pipeline| uses(&pipeline.blueprint) && condition(&pipeline.blueprint));
        let used_by: Vec<_> = users.map(|pipeline| pipeline.key.pipeline.clone()).collect();
        if used_by.is_empty() { Ok(()) } else { Err(RegistryError::InUse { used_by }) }
    }

    async fn fetched(
        &self,
        organization: &Identifier,
        git: GitSource,
        clock: &(dyn Fn() -> Timestamp + Send + Sync),
    ) -> Content {
        match self.fetch(organization, &git).await {
            Ok(fetched) => Content {
                source: Source::Git(GitSource { commit: Some(fetched.commit), ..git }),
                steps: Arc::new(fetched.steps),
                failure: None,
                synced_at: Some(clock()),
            },
            Err(failure) => Content {
                source: Source::Git(GitSource { commit: None, ..git }),
                steps: Arc::default(),
                failure: Some(Arc::new(failure)),
                synced_at: None,
            },
        }
    }

    /// Waits for everything handed in so far, since a refusal may depend on a pipeline that is not durable yet. Only an
    /// error of the store is returned immediately.
    pub(super) async fn once_durable<T>(&self, outcome: Result<T, RegistryError>) -> Result<T, RegistryError> {
        if !matches!(outcome, Err(RegistryError::Store(_))) {
            self.settled().await;
        }
        outcome
    }
}

impl Content {
    fn inline(steps: Steps) -> Self {
        Self { source: Source::Inline, steps: Arc::new(steps), failure: None, synced_at: None }
    }

    /// The current content, if the repository has not changed since the request was decided.
    fn unchanged(present: &Registry, asked: &Source) -> Result<Self, RegistryError> {
        match (&present.source, asked) {
            (Source::Git(git), Source::Git(asked)) if git.is_same_repository(asked) => {
                let Registry { source, steps, failure, synced_at, .. } = present.clone();
                Ok(Self { source, steps, failure, synced_at })
            }
            (Source::Git(_) | Source::Inline, _) => Err(RegistryError::Changed),
        }
    }
}

fn check_new(newest: &RegistryRecords, organization: &Identifier, name: &Identifier) -> Result<(), RegistryError> {
    if newest.of(organization).any(|registry| registry.name == *name) {
        return Err(RegistryError::Exists);
    }
    if newest.of(organization).count() >= REGISTRIES_MAX { Err(RegistryError::TooMany) } else { Ok(()) }
}

pub(super) fn check(
    newest: &RegistryRecords,
    organization: &Identifier,
    id: RegistryId,
    expected: Option<&[u64]>,
) -> Result<Arc<Registry>, RegistryError> {
    let present = newest.get(organization, &id).ok_or(RegistryError::NotFound)?;
    let holds = expected.is_none_or(|revisions| revisions.contains(&present.revision));
    if holds { Ok(present.clone()) } else { Err(RegistryError::Changed) }
}

pub(super) fn put(batch: &mut Batch, registry: &Arc<Registry>) -> RegistryChange {
    batch.put(registry::key(&registry.organization, registry.id), registry::encode(registry));
    set(registry)
}

pub(super) fn record(batch: &mut Batch, data: &EventData, registry: &Registry, by: &Initiator, now: Timestamp) {
    events::record(batch, &registry.organization, &NewEvent::new(data, Cause::by(by, now)));
}

pub(super) fn described(registry: &Registry) -> RegistryData {
    RegistryData {
        registry_id: registry.id,
        name: registry.name.clone(),
        status: registry.last_status().as_str(),
        step_count: registry.steps.len() as u64,
        commit: registry.commit().map(|commit| Arc::from(commit.as_str())),
    }
}
