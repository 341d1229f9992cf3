//! Keeps the organizations of a realm in line with their files: applies reloads, and reports or removes entries that
//! are no longer declared. It only removes entries that came from a file.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::sync::watch;

use super::declarations::{self, REASON, some};
use super::error::ServeError;
use crate::config::{Organization, Prune};
use crate::http::Realm;
use accounts::identities::Identities;
use accounts::sso::SingleSignOn;
use ambient::backoff::{Backoff, Retries};
use domain::{EnvironmentKey, PipelineKey, Retired};
use events::Cause;
use locks::pipelines::pipeline_differences;
use locks::{Failure, environment_differences};
use records::stored::Difference;

/// The current declarations of all organization files.
pub type Declarations = watch::Receiver<Arc<Vec<Organization>>>;

/// How often to check environments that are still held.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(5);
/// The pauses after failures, such as those of a full disk.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(300));
/// Environments retired concurrently, to share disk syncs.
const RETIRED_AT_ONCE: usize = 64;

/// Pipelines and environments that files declared earlier but no longer declare.
#[derive(Debug, Default)]
struct Undeclared {
    pipelines: Vec<PipelineKey>,
    environments: Vec<EnvironmentKey>,
}

impl Undeclared {
    fn is_empty(&self) -> bool {
        self.pipelines.is_empty() && self.environments.is_empty()
    }
}

/// Runs until it is aborted. `applied` are the declarations that the realm was opened with.
pub async fn run(realm: Arc<Realm>, mut applied: Vec<Organization>, mut declarations: Declarations) {
    let mut leaving: Option<Undeclared> = None;
    let mut retries = Retries::new(BACKOFF);
    loop {
        let newest = own(&applied, &declarations.borrow_and_update());
        let pause = match step(&realm, &mut applied, newest, &mut leaving).await {
            Ok(()) => {
                retries.worked();
                LOOKED_AT_EVERY
            }
            Err(error) => {
                let pause = retries.failed();
                let retried_in_seconds = pause.as_secs();
                tracing::warn!(%error, retried_in_seconds, "cannot apply what organization files declare");
                leaving = None;
                pause
            }
        };
        let is_done = leaving.as_ref().is_some_and(Undeclared::is_empty);
        let changed = declarations.changed();
        let waited = if is_done { Ok(changed.await) } else { tokio::time::timeout(pause, changed).await };
        match waited {
            Ok(Ok(())) => leaving = None,
            Ok(Err(_)) => return,
            Err(_) => {}
        }
    }
}

/// The organizations of the realm as currently declared.
fn own(applied: &[Organization], declared: &[Organization]) -> Vec<Organization> {
    let newest = |organization: &Organization| declared.iter().find(|new| new.id == organization.id).cloned();
    applied.iter().map(|organization| newest(organization).unwrap_or_else(|| organization.clone())).collect()
}

async fn step(
    realm: &Realm,
    applied: &mut Vec<Organization>,
    newest: Vec<Organization>,
    leaving: &mut Option<Undeclared>,
) -> Result<(), ServeError> {
    if *applied != newest {
        apply(realm, applied, &newest).await?;
        *applied = newest;
        *leaving = None;
    }
    let left = match leaving {
        Some(left) => left,
        None => leaving.insert(undeclared(realm, applied).await?),
    };
    retire_environments(realm, &mut left.environments).await?;
    delete_pipelines(realm, left).await
}

/// Applies declarations in the same order as a start.
async fn apply(realm: &Realm, before: &[Organization], new: &[Organization]) -> Result<(), ServeError> {
    declarations::log_changes(&*realm.store, new)?;
    let now = (realm.clock)();
    realm.accounts.declare(declarations::members(new), now).await?;
    realm.accounts.apply_trust(declarations::trusted(new), now).await?;
    realm.organization_names.replace(declarations::organization_names(new));
    // Replacing loses the sign-ins in progress and the cached keys of issuers, so it is done only for changes.
    if declarations::providers(before) != declarations::providers(new) {
        realm.sso.replace(SingleSignOn::new(declarations::providers(new)));
    }
    if declarations::identities(before) != declarations::identities(new) {
        realm.identities.replace(Identities::new(declarations::identities(new)));
    }
    realm.pipelines.declare(declarations::pipelines(new), now).await?;
    declarations::warn_of_unresolved(new, &realm.pipelines, &realm.registries);
    declarations::environments(&realm.environments, new, &realm.pipelines).await?;
    declarations::forget_gone((&realm.environments, &realm.pipelines), &*realm.store, new, now).await?;
    Ok(declarations::note_entries(&*realm.store, new).await?)
}

/// Finds entries to remove. Logs which are removed and which stay and why; puts staying environments back into service.
async fn undeclared(realm: &Realm, organizations: &[Organization]) -> Result<Undeclared, ServeError> {
    let mut all = Undeclared::default();
    for organization in organizations {
        let mut found = undeclared_of(realm, organization)?;
        let guarded = take_guarded(organization, &mut found);
        let id = &organization.id;
        if !guarded.is_empty() {
            let (pipelines, environments) = named(&guarded);
            tracing::warn!(
                organization = %id, pipelines, environments,
                "the file declares none of these any more, which is more likely a mistake: they stay; delete the last ones \
                 through the API"
            );
            reinstate(realm, &guarded.environments).await?;
        }
        if found.is_empty() {
            continue;
        }
        let (pipelines, environments) = named(&found);
        match organization.prune {
            Prune::Report => {
                tracing::warn!(
                    organization = %id, pipelines, environments,
                    "the file no longer declares these; they stay (prune = \"report\")"
                );
                reinstate(realm, &found.environments).await?;
            }
            Prune::Apply => {
                tracing::info!(organization = %id, pipelines, environments, "removing what the file no longer declares");
                all.pipelines.append(&mut found.pipelines);
                all.environments.append(&mut found.environments);
            }
        }
    }
    Ok(all)
}

/// Puts environments back into service that were to be removed after their release.
async fn reinstate(realm: &Realm, environments: &[EnvironmentKey]) -> Result<(), ServeError> {
    for key in environments {
        if realm.environments.reinstate(key, REASON).await? {
            tracing::info!(environment = %key, "put an environment back into service that was to be removed");
        }
    }
    Ok(())
}

fn undeclared_of(realm: &Realm, organization: &Organization) -> Result<Undeclared, ServeError> {
    let (store, id) = (&*realm.store, &organization.id);
    let declared = declarations::pipelines(std::slice::from_ref(organization));
    let mut found = Undeclared::default();
    for (key, difference) in pipeline_differences(store, id, &declared)? {
        if difference == Difference::Removed {
            found.pipelines.push(key);
        }
    }
    for (key, difference) in environment_differences(store, id, declarations::environments_of(organization))? {
        if difference == Difference::Removed {
            found.environments.push(key);
        }
    }
    Ok(found)
}

/// Moves out of `found` what a file emptied by accident would remove.
fn take_guarded(organization: &Organization, found: &mut Undeclared) -> Undeclared {
    let is_last = |key: &mut EnvironmentKey| declarations::is_last_environment(organization, key);
    let environments = found.environments.extract_if(.., is_last).collect();
    let pipelines = if organization.pipelines.is_empty() { std::mem::take(&mut found.pipelines) } else { Vec::new() };
    Undeclared { pipelines, environments }
}

fn named(found: &Undeclared) -> (String, String) {
    let pipelines = found.pipelines.iter().map(|key| key.pipeline.to_string());
    let environments = found.environments.iter().map(|key| format!("{}/{}", key.pipeline.pipeline, key.name));
    (some(pipelines), some(environments))
}

/// Takes the environments a step further out of service, and drops removed ones from the list.
async fn retire_environments(realm: &Realm, environments: &mut Vec<EnvironmentKey>) -> Result<(), ServeError> {
    let reason: Arc<str> = REASON.into();
    let mut held = Vec::new();
    for some in environments.chunks(RETIRED_AT_ONCE) {
        let (waiting, due): (Vec<_>, Vec<_>) = some.iter().partition(|key| is_only_held(realm, key));
        held.extend(waiting.into_iter().cloned());
        if due.is_empty() {
            continue;
        }
        // Keeps others from creating an environment with the same name before the declared mark is removed, too.
        let _closing = realm.pipelines.closing().await;
        let retired = try_join_all(due.iter().map(|key| retire(realm, key, &reason))).await?;
        held.extend(due.into_iter().zip(retired).filter(|(_, is_held)| *is_held).map(|(key, _)| key.clone()));
    }
    *environments = held;
    Ok(())
}

/// Whether only its release is missing.
fn is_only_held(realm: &Realm, key: &EnvironmentKey) -> bool {
    let Ok(Some(environment)) = realm.environments.environment(key) else { return false };
    let is_disabled = environment.configuration.as_ref().is_some_and(|configuration| configuration.disabled);
    is_disabled && environment.is_in_use() && environment.queue.is_empty()
}

/// Returns whether the environment is still held.
async fn retire(realm: &Realm, key: &EnvironmentKey, reason: &Arc<str>) -> Result<bool, Failure> {
    loop {
        match realm.environments.retire(key, reason).await? {
            Retired::Refusing => {}
            Retired::Held => return Ok(true),
            Retired::Gone => {
                tracing::info!(environment = %key, "removed an environment that the file no longer declares");
                return Ok(false);
            }
        }
    }
}

/// Deletes the pipelines without environments. A pipeline with environments created through the API stays.
async fn delete_pipelines(realm: &Realm, left: &mut Undeclared) -> Result<(), ServeError> {
    let has_leaving = |key: &PipelineKey| left.environments.iter().any(|environment| environment.pipeline == *key);
    let (waiting, due): (Vec<_>, Vec<_>) = std::mem::take(&mut left.pipelines).into_iter().partition(has_leaving);
    left.pipelines = waiting;
    for key in due {
        let closing = realm.pipelines.closing().await;
        let (organization, pipeline) = (&key.organization, &key.pipeline);
        let environments = realm.environments.count(&key)?;
        if environments > 0 {
            tracing::warn!(
                %organization, %pipeline, environments,
                "the file no longer declares this pipeline, and it stays: it has environments that the API made; delete them first"
            );
            continue;
        }
        let now = (realm.clock)();
        realm.pipelines.prune(&key, &closing, now).await?;
        tracing::info!(%organization, %pipeline, "removed a pipeline that the file no longer declares");
        if let Err(error) = realm.vault.delete_pipeline(&key, Cause::system(now)).await {
            tracing::warn!(%error, %pipeline, "cannot delete the secrets of a deleted pipeline; the next start tries again");
        }
    }
    Ok(())
}
