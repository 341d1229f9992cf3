//! Registries of steps: list, view, make, change, sync, delete; and what is in them.

use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;

use crate::auth::Permission;
use crate::domain::{Identifier, RegistryId, VariableName};
use crate::entropy;
use crate::git::{RefName, RemoteUrl};
use crate::http::access::Access;
use crate::http::answer;
use crate::http::answer::Answered;
use crate::http::body::{Fields, read_fields};
use crate::http::call::Call;
use crate::http::dto::{RegistryStepView, RegistryView, SyncView};
use crate::http::idempotent::{self, Begun};
use crate::http::outcome::done_within;
use crate::http::paging::{self, Query, Slice};
use crate::http::problem::Problem;
use crate::http::step_body::read_registry_step;
use crate::idempotency::StoredAnswer;
use crate::registries::{GitSource, NewRegistry, NewSource, Refusal, Registry, STEPS_MAX, Status, Synced, steps_of};
use crate::store::Batch;

/// What to do where the outcome of a change is not known.
const LOOK: &str = "look at the step registry";

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let mut query = Query::of(&call.request);
    let slice = Slice::take(&mut query);
    query.finish()?;
    let registries = access.realm.registries.list(&access.caller.organization);
    let offset = usize::try_from(slice.offset).unwrap_or(usize::MAX);
    let shown = registries.iter().skip(offset).take(slice.limit as usize);
    let views = shown.map(|registry| shown_now(&access, registry)).collect();
    Ok(paging::slice(&call.request, slice, registries.len() as u64, views))
}

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    Query::of(&call.request).finish()?;
    let registry = find(&access, &call)?;
    let render = || Ok(answer::one(StatusCode::OK, shown_now(&access, &registry)));
    // That it is being synced is no change of it.
    if access.realm.registries.status(&registry) == Status::Syncing {
        return Ok(answer::with_etag(render()?, &etag(&registry)));
    }
    answer::tagged(call.request.headers(), &etag(&registry), render)
}

pub async fn steps(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let mut query = Query::of(&call.request);
    let slice = Slice::take(&mut query);
    query.finish()?;
    let registry = find(&access, &call)?;
    let offset = usize::try_from(slice.offset).unwrap_or(usize::MAX);
    let shown = registry.steps.values().skip(offset).take(slice.limit as usize);
    let views = shown.map(|step| RegistryStepView::new(&registry, step)).collect();
    Ok(paging::slice(&call.request, slice, registry.steps.len() as u64, views))
}

pub async fn create(mut call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageRegistries)?;
    let Begun { body, pending } = idempotent::begin(&mut call, &access).await?;
    let new = read(body.fields()?, &access)?;
    let id = RegistryId(entropy::id_seed());
    let limit = patience(&access);
    // In a task of its own: the key must stay in flight until the registry is durable, also where the caller has gone.
    let making = actix_web::rt::spawn(async move {
        let (organization, agent, clock) = (&access.caller.organization, access.agent(), &*access.realm.clock);
        let keep = |registry: &Registry, batch: &mut Batch| {
            pending.map(|pending| pending.keep(batch, &made(&access, registry), clock()))
        };
        let registry = access.realm.registries.create(organization, id, new, &agent, clock, keep).await?;
        told(&access, &registry, "a step registry was made");
        Ok::<_, Problem>((made(&access, &registry), etag(&registry)))
    });
    let (made, etag) = done_within(limit, LOOK, async { making.await.map_err(Problem::internal)? }).await?;
    Ok(answer::with_etag(idempotent::response(made), &etag))
}

pub async fn update(mut call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageRegistries)?;
    Query::of(&call.request).finish()?;
    let fields = read_fields(&mut call).await?;
    let id = find(&access, &call)?.id;
    let new = read(fields, &access)?;
    let expected = answer::expected_versions(call.request.headers());
    let limit = patience(&access);
    let updating = actix_web::rt::spawn(async move {
        let (organization, agent, clock) = (&access.caller.organization, access.agent(), &*access.realm.clock);
        let registries = &access.realm.registries;
        let registry = registries.update(organization, id, new, expected.as_deref(), &agent, clock).await?;
        told(&access, &registry, "a step registry was changed");
        let response = answer::one(StatusCode::OK, shown_now(&access, &registry));
        Ok::<_, Problem>(answer::with_etag(response, &etag(&registry)))
    });
    Ok(done_within(limit, LOOK, async { updating.await.map_err(Problem::internal)? }).await?)
}

pub async fn delete(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageRegistries)?;
    Query::of(&call.request).finish()?;
    let registry = find(&access, &call)?;
    let expected = answer::expected_versions(call.request.headers());
    let (organization, agent, now) = (&access.caller.organization, access.agent(), (access.realm.clock)());
    let deleting = access.realm.registries.delete(organization, registry.id, expected.as_deref(), &agent, now);
    done_within(access.node.answer_timeout, LOOK, deleting).await?;
    told(&access, &registry, "a step registry was deleted");
    Ok(HttpResponse::NoContent().finish())
}

pub async fn sync(mut call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageRegistries)?;
    let Begun { body, pending } = idempotent::begin(&mut call, &access).await?;
    body.fields()?.finish()?;
    let id = find(&access, &call)?.id;
    let limit = patience(&access);
    // In a task of its own, as above; and what was fetched is taken over also where the caller has gone.
    let syncing = actix_web::rt::spawn(async move {
        let (organization, agent, clock) = (&access.caller.organization, access.agent(), &*access.realm.clock);
        let render = |synced: &Synced| idempotent::answer(StatusCode::OK, None, SyncView::from(synced));
        let keep =
            |synced: &Synced, batch: &mut Batch| pending.map(|pending| pending.keep(batch, &render(synced), clock()));
        let synced = access.realm.registries.sync(organization, id, &agent, clock, keep).await?;
        told(&access, &synced.registry, "a step registry was synced");
        Ok::<_, Problem>(render(&synced))
    });
    let synced = done_within(limit, LOOK, async { syncing.await.map_err(Problem::internal)? }).await?;
    Ok(idempotent::response(synced))
}

/// What a body says of a registry: either where its repository is, or its steps.
fn read(mut fields: Fields, access: &Access) -> Result<NewRegistry, Problem> {
    let name = fields.required_text("name", Identifier::parse);
    let allow_file = access.realm.registries.allows_file_urls();
    let given = (fields.has("git"), fields.has("steps"));
    let git = fields.nullable_object("git", |git| read_git(git, allow_file)).flatten();
    let mut places = Vec::new();
    let steps = fields.objects("steps", 0..=STEPS_MAX, |step, place| {
        let step = read_registry_step(step);
        places.extend(step.is_some().then_some(place));
        step
    });
    match given {
        (true, true) => fields.wrong("steps", "and `git` are not given together: a registry has one source"),
        (false, false) => fields.wrong("git", "is required, or `steps` in its place"),
        (true, false) | (false, true) => {}
    }
    let steps = steps.map(|steps| {
        let steps = steps.into_iter().flatten();
        steps_of(steps, |place, message| fields.wrong(&format!("steps[{}]", places[place]), message))
    });
    if given == (true, false) && git.is_none() && !fields.has_faults() {
        fields.wrong("git", "is an object, not null");
    }
    fields.finish()?;
    let source = git.map(NewSource::Git).or_else(|| steps.map(NewSource::Inline));
    let (Some(name), Some(source)) = (name, source) else { return Err(Problem::invalid_request(Vec::new())) };
    Ok(NewRegistry { name, source })
}

fn read_git(git: &mut Fields, allow_file: bool) -> Option<GitSource> {
    let url = git.required_text("url", |text| RemoteUrl::parse(text, allow_file));
    let reference = git.required_text("ref", RefName::parse);
    let credential = git.nullable_text("credential", VariableName::parse);
    if credential.is_some() && url.as_ref().is_some_and(|url| !url.takes_credential()) {
        git.wrong("credential", "is for https URLs: over ssh the server's own key is used");
    }
    Some(GitSource { url: url?, reference: reference?, credential, commit: None })
}

/// The registry of the path. One that cannot be read as an id never was.
fn find(access: &Access, call: &Call) -> Result<Arc<Registry>, Problem> {
    let id = call.segment("registryId").parse().ok();
    let found = id.and_then(|id| access.realm.registries.get(&access.caller.organization, id));
    found.ok_or_else(|| Refusal::NotFound.into())
}

/// As long as a repository may take, and the disk.
fn patience(access: &Access) -> Duration {
    access.node.answer_timeout + access.realm.registries.sync_timeout()
}

fn shown_now<'a>(access: &Access, registry: &'a Registry) -> RegistryView<'a> {
    RegistryView::new(registry, access.realm.registries.status(registry))
}

fn made(access: &Access, registry: &Registry) -> StoredAnswer {
    let url = format!("/api/v1/organizations/{}/step-registries/{}", access.caller.organization, registry.id);
    idempotent::answer(StatusCode::CREATED, Some(url), shown_now(access, registry))
}

fn etag(registry: &Registry) -> String {
    format!("\"{}\"", registry.revision)
}

fn told(access: &Access, registry: &Registry, what: &str) {
    let by = &access.caller.person.name;
    let commit = registry.commit().map(|commit| commit.as_str());
    tracing::info!(organization = %registry.organization, registry = %registry.id, name = %registry.name, commit, %by, "{what}");
}
