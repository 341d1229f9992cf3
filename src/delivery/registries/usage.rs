//! Which pipelines use a registry, and which of them a change of it would break.

use super::registry::Registry;
use super::service::find;
use domain::{Blueprint, Identifier};
use locks::pipelines::Pipelines;
use std::sync::Arc;

/// The pipelines that use the registry, by id, durable or not.
pub(super) fn users(pipelines: &Pipelines, registry: &Registry) -> Vec<Identifier> {
    let names = |blueprint: &Blueprint| blueprint.uses().any(|used| used.reference.registry == registry.name);
    let all = pipelines.newest(&registry.organization);
    all.iter().filter(|pipeline| names(&pipeline.blueprint)).map(|pipeline| pipeline.key.pipeline.clone()).collect()
}

/// The pipelines that resolve now, and would not with `next` in place of `present`. A pipeline that does not resolve now,
/// because of another registry, does not count.
pub(super) fn broken(
    pipelines: &Pipelines,
    all: &[Arc<Registry>],
    present: &Registry,
    next: &Arc<Registry>,
) -> Vec<Identifier> {
    let after: Vec<_> = all.iter().map(|known| if known.id == next.id { next } else { known }).collect();
    let resolves = |blueprint: &Blueprint, with: &[&Arc<Registry>]| {
        blueprint.resolved(&|reference| find(with.iter().copied(), reference)).is_ok()
    };
    let before: Vec<_> = all.iter().collect();
    let is_broken = |blueprint: &Blueprint| {
        let concerned = blueprint.uses().any(|used| used.reference.registry == present.name);
        concerned && resolves(blueprint, &before) && !resolves(blueprint, &after)
    };
    let all = pipelines.newest(&present.organization);
    all.iter().filter(|pipeline| is_broken(&pipeline.blueprint)).map(|pipeline| pipeline.key.pipeline.clone()).collect()
}
