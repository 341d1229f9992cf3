//! Step registries: list, view, create, change, sync, delete; and their steps.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::ETAG;
use serde_json::json;

use crate::forms::{List, RegistryStepForm, form, texts};
use crate::http::access::Access;
use crate::http::answer;
use crate::http::answer::Answered;
use crate::http::body::{invalid_field, read_form};
use crate::http::call::Call;
use crate::http::dto::{RegistryStepView, RegistryView, SyncView};
use crate::http::idempotent::{self, Begun};
use crate::http::outcome::{done_in_task, done_within};
use crate::http::paging::{self, Query, Slice};
use crate::http::problem::{FieldError, Problem};
use crate::http::resources::pipelines::ResumeForm;
use crate::http::response::Response;
use accounts::auth::Permission;
use ambient::entropy;
use delivery::git::{RefName, RemoteUrl};
use delivery::registries::{
    GitSource, NewRegistry, NewSource, Refusal, Registry, STEPS_MAX, Status, Steps, Synced, steps_of,
};
use domain::{Identifier, RegistryId, VariableName};
use locks::idempotency::StoredAnswer;

/// Advice for a change whose outcome is unknown.
const LOOK: &str = "look at the step registry";

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let slice = Slice::of(&call.request)?;
    let registries = access.realm.registries.list(&access.caller.organization);
    let views = slice.part(registries.iter()).map(|registry| view_of(&access, registry)).collect();
    Ok(paging::slice(&call.request, slice, registries.len() as u64, views))
}

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    Query::of(&call.request).finish()?;
    let registry = find(&access, &call)?;
    let render = || Ok(answer::one(StatusCode::OK, view_of(&access, &registry)));
    // A running sync does not change the `ETag`.
    if access.realm.registries.status(&registry) == Status::Syncing {
        return Ok(render()?.with(ETAG, etag(&registry)));
    }
    answer::tagged(call.request.headers(), &etag(&registry), render)
}

pub async fn steps(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let slice = Slice::of(&call.request)?;
    let registry = find(&access, &call)?;
    let views = slice.part(registry.steps.values()).map(|step| RegistryStepView::new(&registry, step)).collect();
    Ok(paging::slice(&call.request, slice, registry.steps.len() as u64, views))
}

pub async fn create(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageRegistries)?;
    let Begun { body, pending } = idempotent::begin(&mut call, &mut access).await?;
    let new = read(body.form()?, &access)?;
    let id = RegistryId(entropy::id_seed());
    let limit = time_limit(&access);
    let making = async move {
        let (organization, initiator, clock) = (&access.caller.organization, access.initiator(), &*access.realm.clock);
        let keep = idempotent::keep(pending, clock, |registry| created(&access, registry));
        let registry = access.realm.registries.create(organization, id, new, &initiator, clock, keep).await?;
        log_change(&access, &registry, "step registry created");
        Ok::<_, Problem>((created(&access, &registry), etag(&registry)))
    };
    let (made, etag) = done_in_task(limit, LOOK, making).await?;
    Ok(idempotent::response(made).with(ETAG, etag))
}

pub async fn update(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageRegistries)?;
    Query::of(&call.request).finish()?;
    let form = read_form(&mut call, &mut access).await?;
    let id = find(&access, &call)?.id;
    let new = read(form, &access)?;
    let expected = answer::expected_versions(call.request.headers());
    let limit = time_limit(&access);
    let updating = async move {
        let (organization, initiator, clock) = (&access.caller.organization, access.initiator(), &*access.realm.clock);
        let registries = &access.realm.registries;
        let registry = registries.update(organization, id, new, expected.as_deref(), &initiator, clock).await?;
        log_change(&access, &registry, "step registry changed");
        let response = answer::one(StatusCode::OK, view_of(&access, &registry));
        Ok::<_, Problem>(response.with(ETAG, etag(&registry)))
    };
    Ok(done_in_task(limit, LOOK, updating).await?)
}

pub async fn delete(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageRegistries)?;
    Query::of(&call.request).finish()?;
    let registry = find(&access, &call)?;
    let expected = answer::expected_versions(call.request.headers());
    let (organization, initiator, now) = (&access.caller.organization, access.initiator(), (access.realm.clock)());
    let deleting = access.realm.registries.delete(organization, registry.id, expected.as_deref(), &initiator, now);
    done_within(access.node.answer_timeout, LOOK, deleting).await?;
    log_change(&access, &registry, "step registry deleted");
    Ok(Response::no_content())
}

pub async fn sync(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageRegistries)?;
    let Begun { body, pending } = idempotent::begin(&mut call, &mut access).await?;
    let ResumeForm {} = body.form()?;
    let id = find(&access, &call)?.id;
    let limit = time_limit(&access);
    let syncing = async move {
        let (organization, initiator, clock) = (&access.caller.organization, access.initiator(), &*access.realm.clock);
        let render = |synced: &Synced| idempotent::answer(StatusCode::OK, None, SyncView::from(synced));
        let keep = idempotent::keep(pending, clock, render);
        let synced = access.realm.registries.sync(organization, id, &initiator, clock, keep).await?;
        log_change(&access, &synced.registry, "step registry synced");
        Ok::<_, Problem>(render(&synced))
    };
    // In a separate task: the fetched steps are applied even if the caller disconnects.
    Ok(idempotent::response(done_in_task(limit, LOOK, syncing).await?))
}

form! {
    /// A registry with its steps, or with the repository that has them.
    #[schema("examples": [{ "name": "example", "steps": [{ "name": "greet", "version": "1",
                            "inputs": { "WHOM": { "type": "string", "default": "world" } },
                            "run": ["sh", "-c", "echo hello $WHOM"] }] }])]
    pub struct RegistryForm as "StepRegistryRequest" {
        /// Unique in the organization; pipelines refer to the registry by it.
        #[schema("examples": ["tools"])]
        required name: Identifier,
        /// Their texts may have at most 262144 bytes together.
        optional steps: List<RegistryStepForm, 0, STEPS_MAX>,
        /// A repository that has one `steps/*.toml` for each step.
        optional git: GitForm,
    }
    one_of [steps] [git];
}

form! {
    /// The repository of a registry.
    pub struct GitForm as "StepRegistryRepositoryRequest" {
        /// https or ssh; `file://` only if the operator allows it (`git.allow_file_urls`). Without a user or password. Its
        /// host must have a public address, or one that the operator allows (`outbound.allow`).
        #[schema("examples": ["https://git.example/acme/steps.git"])]
        required url: GitUrl,
        /// A branch or a tag, by its short name.
        #[schema("examples": ["main"])]
        required r#ref: RefName,
        /// The name of a secret of the organization: an access token, for https URLs. Read at each sync.
        #[schema("examples": ["STEPS_TOKEN"])]
        nullable credential: VariableName,
    }
}

/// A URL of a repository. Whether it may be a `file://` is the operator's decision, which only the handler knows.
pub struct GitUrl(String);

texts! {
    GitUrl: |text: &str| RemoteUrl::parse(text, true).map(|_| Self(text.to_owned())),
        json!({ "type": "string", "maxLength": RemoteUrl::BYTES_MAX, "pattern": RemoteUrl::PATTERN });
    RefName: Self::parse, json!({ "type": "string", "minLength": 1, "maxLength": Self::BYTES_MAX });
}

fn read(form: RegistryForm, access: &Access) -> Result<NewRegistry, Problem> {
    let RegistryForm { name, steps, git } = form;
    let source = match git {
        Some(git) => NewSource::Git(read_git(git, access.realm.registries.allows_file_urls())?),
        None => NewSource::Inline(read_steps(&steps.unwrap_or_default().0)?),
    };
    Ok(NewRegistry { name, source })
}

fn read_git(form: GitForm, allow_file: bool) -> Result<GitSource, Problem> {
    let GitForm { url, r#ref: reference, credential } = form;
    let url =
        RemoteUrl::parse(&url.0, allow_file).map_err(|malformed| invalid_field("git.url", malformed.to_string()))?;
    if credential.is_some() && !url.takes_credential() {
        let message = "is only for https URLs: over ssh the server's own key is used";
        return Err(invalid_field("git.credential", message));
    }
    Ok(GitSource { url, reference, credential, commit: None })
}

fn read_steps(forms: &[RegistryStepForm]) -> Result<Steps, Problem> {
    let mut errors = Vec::new();
    let steps = steps_of(forms.iter().filter_map(RegistryStepForm::step), |index, message| {
        errors.push(FieldError { field: format!("steps[{index}]"), message });
    });
    if errors.is_empty() { Ok(steps) } else { Err(Problem::invalid_request(errors)) }
}

/// The registry in the path. A text that is not an id is not found.
fn find(access: &Access, call: &Call) -> Result<Arc<Registry>, Problem> {
    let id = call.segment("registryId").parse().ok();
    let found = id.and_then(|id| access.realm.registries.get(&access.caller.organization, id));
    found.ok_or_else(|| Refusal::NotFound.into())
}

/// The time limit for fetching a repository, and for the disk.
fn time_limit(access: &Access) -> Duration {
    access.node.answer_timeout + access.realm.registries.sync_timeout()
}

fn view_of<'a>(access: &Access, registry: &'a Registry) -> RegistryView<'a> {
    RegistryView::new(registry, access.realm.registries.status(registry))
}

fn created(access: &Access, registry: &Registry) -> StoredAnswer {
    let url = format!("/api/v1/organizations/{}/step-registries/{}", access.caller.organization, registry.id);
    idempotent::answer(StatusCode::CREATED, Some(url), view_of(access, registry))
}

fn etag(registry: &Registry) -> String {
    format!("\"{}\"", registry.revision)
}

fn log_change(access: &Access, registry: &Registry, what: &str) {
    let by = &access.caller.person.name;
    let commit = registry.commit().map(|commit| commit.as_str());
    tracing::info!(organization = %registry.organization, registry = %registry.id, name = %registry.name, commit, %by, "{what}");
}
