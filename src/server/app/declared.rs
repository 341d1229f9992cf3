//! Applies what organization files declare.

use std::collections::HashMap;

use futures_util::{StreamExt, TryStreamExt, stream};

use crate::actors::{Environments, Failure};
use crate::auth::{JobRoles, NewMember};
use crate::config::{Member, Organization, Settings};
use crate::domain::{EnvironmentKey, Identifier, PipelineKey};
use crate::identities::TrustedIssuer;
use crate::pipelines::{Declared, Definition, Pipelines};
use crate::registries::Registries;
use crate::sso::Provider;

/// Declarations applied concurrently at the start: enough to share disk syncs.
const DECLARED_AT_ONCE: usize = 256;

pub fn members(declared: &[Organization]) -> Vec<NewMember> {
    let of = |organization: &Organization| {
        let id = organization.id.clone();
        let members = organization.members.iter().cloned();
        let member = move |Member { name, role, email }| NewMember { organization: id.clone(), name, role, email };
        members.map(member).collect::<Vec<_>>()
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

/// The members that jobs act as, with their roles.
pub fn job_roles(declared: &[Organization]) -> JobRoles {
    let of = |organization: &Organization| {
        let id = organization.id.clone();
        let rules = organization.identities.iter().flat_map(|issuer| &issuer.rules);
        rules.map(move |rule| ((id.clone(), rule.name.clone()), rule.role)).collect::<Vec<_>>()
    };
    declared.iter().flat_map(of).collect()
}

/// The names for people, by id.
pub fn organization_names(declared: &[Organization]) -> HashMap<Identifier, String> {
    declared.iter().map(|organization| (organization.id.clone(), organization.name.clone())).collect()
}

pub fn pipelines(declared: &[Organization]) -> Vec<Declared> {
    let of = |organization: &Organization| {
        let id = organization.id.clone();
        let pipelines = organization.pipelines.iter().map(move |pipeline| Declared {
            key: PipelineKey { organization: id.clone(), pipeline: pipeline.id.clone() },
            definition: Definition {
                name: pipeline.name.clone(),
                slug: pipeline.slug.clone(),
                blueprint: pipeline.blueprint.clone(),
                repository: pipeline.repository.clone(),
            },
        });
        pipelines.collect::<Vec<_>>()
    };
    declared.iter().flat_map(of).collect()
}

/// A file may name steps of registries that do not exist yet: until they do, its deployments fail and say why.
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

/// Older versions allowed environments called `sessions`. They work, but cannot be viewed or changed.
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

/// Creates or changes the environments whose declaration is new or has changed.
pub async fn environments(
    environments: &Environments,
    settings: &Settings,
    pipelines: &Pipelines,
) -> Result<(), Failure> {
    let declared = settings.organizations.iter().flat_map(|organization| {
        organization.pipelines.iter().flat_map(move |pipeline| {
            pipeline.environments.iter().map(move |environment| {
                let pipeline = PipelineKey { organization: organization.id.clone(), pipeline: pipeline.id.clone() };
                (EnvironmentKey { pipeline, name: environment.name.clone() }, environment.configuration.clone())
            })
        })
    });
    // The environments of a deleted pipeline would be unreachable.
    let declared =
        declared.filter(|(key, _)| pipelines.get(&key.pipeline.organization, key.pipeline.pipeline.as_str()).is_some());
    let declare = declared.map(|(key, configuration)| {
        let environments = environments.clone();
        async move { environments.declare(&key, configuration).await }
    });
    let applied: Vec<bool> = stream::iter(declare).buffer_unordered(DECLARED_AT_ONCE).try_collect().await?;
    let changed = applied.iter().filter(|applied| **applied).count();
    if changed > 0 {
        tracing::info!(changed, declared = applied.len(), "applied declared environments");
    }
    // Their actors run on this thread; the next request starts one on a thread that serves requests.
    environments.dismiss_unused();
    environments.dismiss_unused();
    Ok(())
}
