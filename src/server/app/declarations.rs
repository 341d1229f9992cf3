//! Applies the declarations of organization files, and describes the changes that a start or reload with a file makes.
//! An organization's other entries (its name, providers and issuers) apply directly from the file; they are recorded
//! only to describe changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures_util::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use super::error::ServeError;
use crate::config::{Member, Organization, Pipeline, Prune};
use accounts::auth::{Grants, NewMember, SourceId, Trust, Trusted, member_differences};
use accounts::identities::TrustedIssuer;
use accounts::sso::Provider;
use delivery::registries::Registries;
use domain::{Configuration, EnvironmentKey, Identifier, PipelineKey, Timestamp};
use locks::pipelines::{Declared, Definition, Pipelines, pipeline_differences};
use locks::{Environments, Failure, environment_differences, is_disabled_because};
use records::stored::{self, Difference};
use store::record::{self, records};
use store::{Batch, Store, StoreError, commit_durably};

/// Declarations applied concurrently at the start: enough to share disk syncs.
const DECLARED_AT_ONCE: usize = 256;
/// Enough to recognise the change; the file has the details.
const NAMED_MAX: usize = 20;
/// Shown to those who want an environment that is being removed.
pub const REASON: &str = "the file of the organization no longer declares it; it is removed when it is released";

pub fn members(declared: &[Organization]) -> Vec<NewMember> {
    let of = |organization: &Organization| {
        let id = organization.id.clone();
        let members = organization.members.clone().into_iter();
        members.map(move |Member { name, role, email }| NewMember { organization: id.clone(), name, role, email })
    };
    declared.iter().flat_map(of).collect()
}

/// The providers of single sign-on, by organization.
pub fn providers(declared: &[Organization]) -> Vec<(Identifier, Vec<Provider>)> {
    declared.iter().map(|organization| (organization.id.clone(), organization.providers.clone())).collect()
}

/// The issuers of identity tokens, by organization.
pub fn identities(declared: &[Organization]) -> Vec<(Identifier, Vec<TrustedIssuer>)> {
    declared.iter().map(|organization| (organization.id.clone(), organization.identities.clone())).collect()
}

/// The entries that identify people and jobs, by organization.
pub fn trusted(declared: &[Organization]) -> Trusted {
    let of = |organization: &Organization| {
        let providers = organization.providers.iter();
        let rules = || organization.identities.iter().flat_map(|it| it.rules.iter().map(move |rule| (it, rule)));
        // Without any role, a provider cannot sign anybody in.
        let sources = providers.clone().filter_map(|it| {
            let grants = Grants { role_max: it.role_max()?, assignment: it.assignment() };
            Some((SourceId::of_provider(&it.id, &it.issuer), grants))
        });
        let rules_of = rules().map(|(it, rule)| {
            let grants = Grants { role_max: rule.role, assignment: Vec::new() };
            (SourceId::of_rule(&it.marks_of(rule)), grants)
        });
        let trust = Trust {
            providers: providers.clone().map(|it| (it.id.clone(), it.issuer.clone())).collect(),
            jobs: rules().map(|(_, rule)| (rule.name.clone(), rule.role)).collect(),
            sources: sources.chain(rules_of).collect(),
        };
        (organization.id.clone(), trust)
    };
    declared.iter().map(of).collect()
}

/// The display names of organizations, by id.
pub fn organization_names(declared: &[Organization]) -> HashMap<Identifier, String> {
    declared.iter().map(|organization| (organization.id.clone(), organization.name.clone())).collect()
}

pub fn pipelines(declared: &[Organization]) -> Vec<Declared> {
    let of = |organization: &Organization, pipeline: &Pipeline| Declared {
        key: PipelineKey { organization: organization.id.clone(), pipeline: pipeline.id.clone() },
        definition: Definition {
            name: pipeline.name.clone(),
            slug: pipeline.slug.clone(),
            blueprint: pipeline.blueprint.clone(),
            repository: pipeline.repository.clone(),
        },
    };
    declared.iter().flat_map(|organization| organization.pipelines.iter().map(move |it| of(organization, it))).collect()
}

/// Warns of steps from registries that do not exist yet. Until they do, the deployments that use them fail and say why.
pub fn warn_of_unresolved(declared: &[Organization], pipelines: &Pipelines, registries: &Registries) {
    for organization in declared {
        for pipeline in pipelines.list(&organization.id) {
            if let Err(why) = registries.resolved(&organization.id, &pipeline.blueprint) {
                let (organization, pipeline) = (&organization.id, &pipeline.key.pipeline);
                tracing::warn!(%organization, %pipeline, %why, "a pipeline uses a step that is not available; its deployments fail");
            }
        }
    }
}

/// Warns of environments called `sessions`, which older versions allowed. They work, but cannot be viewed or changed.
pub fn warn_of_reserved_names(
    declared: &[Organization],
    pipelines: &Pipelines,
    environments: &Environments,
) -> Result<(), Failure> {
    let name = Identifier::parse("sessions").expect("a word is an identifier");
    for pipeline in declared.iter().flat_map(|organization| pipelines.list(&organization.id)) {
        let key = EnvironmentKey { pipeline: pipeline.key.clone(), name: name.clone() };
        if environments.environment(&key)?.is_some() {
            tracing::warn!(environment = %key, "an environment has the reserved name `sessions`; delete it");
        }
    }
    Ok(())
}

/// The environments that an organization declares, with their keys.
pub fn environments_of(organization: &Organization) -> impl Iterator<Item = (EnvironmentKey, &Configuration)> {
    organization.pipelines.iter().flat_map(|pipeline| {
        pipeline.environments.iter().map(|environment| {
            let key = PipelineKey { organization: organization.id.clone(), pipeline: pipeline.id.clone() };
            (EnvironmentKey { pipeline: key, name: environment.name.clone() }, &environment.configuration)
        })
    })
}

/// Creates or changes the environments whose declaration is new or has changed.
pub async fn environments(
    environments: &Environments,
    declared: &[Organization],
    pipelines: &Pipelines,
) -> Result<(), Failure> {
    let declare = declared.iter().flat_map(environments_of).map(|(key, configuration)| {
        let (environments, pipelines) = (environments.clone(), pipelines.clone());
        async move {
            // Skips deleted pipelines, whose environments would be unreachable.
            let Some(_entering) = pipelines.entering(&key.pipeline).await else { return Ok(false) };
            environments.declare(&key, configuration.clone()).await
        }
    });
    let applied: Vec<bool> = stream::iter(declare).buffer_unordered(DECLARED_AT_ONCE).try_collect().await?;
    let changed = applied.iter().filter(|applied| **applied).count();
    if changed > 0 {
        tracing::info!(changed, declared = applied.len(), "applied declared environments");
    }
    Ok(())
}

/// Whether removing this environment would leave the file without pipelines, or a declared pipeline without
/// environments. That is more likely a mistake.
pub fn is_last_environment(organization: &Organization, key: &EnvironmentKey) -> bool {
    let pipelines = &organization.pipelines;
    let is_emptied = |pipeline: &Pipeline| pipeline.id == key.pipeline.pipeline && pipeline.environments.is_empty();
    pipelines.is_empty() || pipelines.iter().any(is_emptied)
}

/// Clears the declared marks of entries that are neither in a file nor in the store any more, so that somebody who
/// reuses the name through the API keeps the new entry. Must run before anybody can, which matters after a crash during
/// a removal.
pub async fn forget_gone(
    (environments, pipelines): (&Environments, &Pipelines),
    store: &dyn Store,
    declared: &[Organization],
    now: Timestamp,
) -> Result<(), ServeError> {
    for organization in declared.iter().filter(|organization| organization.prune == Prune::Apply) {
        let closing = pipelines.closing().await;
        let id = &organization.id;
        let of_pipelines = pipeline_differences(store, id, &self::pipelines(std::slice::from_ref(organization)))?;
        let is_last = organization.pipelines.is_empty();
        for (key, _) in of_pipelines.iter().filter(|(_, difference)| **difference == Difference::Gone && !is_last) {
            pipelines.prune(key, &closing, now).await?;
        }
        for (key, difference) in environment_differences(store, id, environments_of(organization))? {
            if difference == Difference::Gone && !is_last_environment(organization, &key) {
                environments.forget_declared(&key).await?;
            }
        }
    }
    Ok(())
}

/// One change that a start or reload with a file makes.
pub struct Change {
    /// For example `create environment web/review-1`.
    pub words: String,
    /// Why the change is not made, if it is not.
    pub stays: Option<&'static str>,
}

/// The changes that a start or reload with this file would make. Changes nothing itself.
pub fn changes(store: &dyn Store, organization: &Organization) -> Result<Vec<Change>, StoreError> {
    let id = &organization.id;
    let change = |difference: Difference, what: &str, name: String, stays: Option<&'static str>| {
        let verb = match difference {
            Difference::Created => "create",
            Difference::Changed => "change",
            Difference::Removed => "remove",
            Difference::Gone => return None,
        };
        let stays = stays.filter(|_| difference == Difference::Removed);
        Some(Change { words: format!("{verb} {what} {name}"), stays })
    };
    let stays = |is_last: bool| match organization.prune {
        _ if is_last => Some("the file declares no other"),
        Prune::Report => Some("prune = \"report\""),
        Prune::Apply => None,
    };
    let of_one = std::slice::from_ref(organization);
    let mut changes = Vec::new();
    let before = last_entries(store, id)?;
    if before.as_ref().is_some_and(|before| before.name != organization.name) {
        changes.push(Change { words: format!("change name to {}", organization.name), stays: None });
    }
    let (before, now) = (before.unwrap_or_default(), entries_of(organization));
    for (kind, before, now) in [("provider", before.providers, now.providers), ("issuer", before.issuers, now.issuers)]
    {
        let known: BTreeSet<_> = before.keys().cloned().collect();
        for (name, difference) in stored::differences(before, now, |name| Ok(known.contains(name)))? {
            changes.extend(change(difference, kind, name, None));
        }
    }
    for ((_, name), difference) in member_differences(store, &members(of_one))? {
        changes.extend(change(difference, "member", name.to_string(), None));
    }
    for (key, difference) in pipeline_differences(store, id, &pipelines(of_one))? {
        let stays = stays(organization.pipelines.is_empty());
        changes.extend(change(difference, "pipeline", key.pipeline.to_string(), stays));
    }
    for (key, difference) in environment_differences(store, id, environments_of(organization))? {
        let stays = stays(is_last_environment(organization, &key));
        let name = format!("{}/{}", key.pipeline.pipeline, key.name);
        let is_kept = difference == Difference::Removed && stays.is_some();
        if is_kept && is_disabled_because(store, &key, REASON)? {
            let words = format!("enable environment {name} (it was to be removed when it is released)");
            changes.push(Change { words, stays: None });
        }
        changes.extend(change(difference, "environment", name, stays));
    }
    Ok(changes)
}

/// The same as text, one line per change.
pub fn differences(store: &dyn Store, organization: &Organization) -> Result<Vec<String>, StoreError> {
    let line = |Change { words, stays }: Change| {
        let stays = stays.map(|why| format!(" (stays: {why})")).unwrap_or_default();
        format!("{}: {words}{stays}", organization.id)
    };
    Ok(changes(store, organization)?.into_iter().map(line).collect())
}

/// Logs the changes about to be applied, by name. `reconcile` logs undeclared entries that stay.
pub fn log_changes(store: &dyn Store, declared: &[Organization]) -> Result<(), StoreError> {
    for organization in declared {
        let all = changes(store, organization)?;
        let done = all.into_iter().filter(|change| change.stays.is_none()).map(|change| change.words);
        let words: Vec<_> = done.collect();
        if !words.is_empty() {
            let changes = some(words.into_iter());
            tracing::info!(organization = %organization.id, changes, "applying what the file has changed");
        }
    }
    Ok(())
}

/// The first names, and the number of the others.
pub fn some(names: impl ExactSizeIterator<Item = String>) -> String {
    let count = names.len();
    let mut named = names.take(NAMED_MAX).collect::<Vec<_>>().join(", ");
    if count > NAMED_MAX {
        named += &format!(" and {} more", count - NAMED_MAX);
    }
    named
}

records! { EntriesV1 = "declared entries of an organization" }

/// Each entry as text, only for comparison: if a newer program formats an entry differently, it reports one change that
/// is none.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntriesV1 {
    name: String,
    providers: BTreeMap<String, String>,
    issuers: BTreeMap<String, String>,
}

/// `OD/{organization}`
fn entries_key(organization: &Identifier) -> Vec<u8> {
    [store::keys::DECLARED_ORGANIZATIONS, organization.as_str().as_bytes()].concat()
}

fn entries_of(organization: &Organization) -> EntriesV1 {
    let mut entries = EntriesV1 { name: organization.name.clone(), ..EntriesV1::default() };
    for provider in &organization.providers {
        // `Debug` does not show the client secret.
        entries.providers.insert(provider.id.to_string(), format!("{provider:?}"));
    }
    for issuer in &organization.identities {
        *entries.issuers.entry(issuer.issuer.clone()).or_default() += &format!("{issuer:?}");
    }
    entries
}

fn last_entries(store: &dyn Store, organization: &Identifier) -> Result<Option<EntriesV1>, StoreError> {
    let key = entries_key(organization);
    let record = store.get(&key)?;
    record.map(|record| record::decode(&record).map_err(|error| error.under(&key))).transpose()
}

/// Records the applied entries.
pub async fn note_entries(store: &dyn Store, organizations: &[Organization]) -> Result<(), StoreError> {
    let mut batch = Batch::default();
    for organization in organizations {
        let entries = entries_of(organization);
        if last_entries(store, &organization.id)?.as_ref() != Some(&entries) {
            batch.put(entries_key(&organization.id), record::encode(&entries));
        }
    }
    if batch.is_empty() { Ok(()) } else { commit_durably(store, batch).await }
}
