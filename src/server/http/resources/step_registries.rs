//! Step registries: list, view, create, change, sync, delete; and their steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::ETAG;
use serde_json::json;

use super::pipelines::HttpCallView;
use crate::forms::{List, RegistryStepForm, form, texts};
use crate::http::access::Access;
use crate::http::answer::{self, Answered};
use crate::http::body::read_form;
use crate::http::call::Call;
use crate::http::dto::{InputValueView, Named, Time, Written, view, written};
use crate::http::idempotent;
use crate::http::outcome::{done_in_task, done_within};
use crate::http::paging::{self, Query, Slice};
use crate::http::problem::{FieldError, Problem};
use crate::http::resources::pipelines::ResumeForm;
use accounts::auth::Permission;
use ambient::entropy;
use delivery::git::{RefName, RemoteUrl};
use delivery::registries::{
    FileError, GitSource, NewRegistry, NewSource, Registry, RegistryError, STEPS_MAX, Source, Status, StepKey, Steps,
    Synced, steps_of,
};
use domain::{Action, Identifier, Input, RegistryId, RegistryStep, VariableName};
use http1::Response;
use locks::idempotency::StoredAnswer;

/// Advice for a change whose outcome is unknown.
const LOOK: &str = "look at the step registry";

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let slice = Slice::of(&call.request)?;
    let registries = access.realm.registries.list(&access.caller.organization);
    Ok(paging::part(&call.request, slice, &registries, |registry| view_of(&access, registry)))
}

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    Query::of(&call.request).finish()?;
    let registry = find(&access, &call)?;
    let render = || Ok(answer::ok(view_of(&access, &registry)));
    // A running sync does not change the `ETag`, so this is never answered with 304.
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
    let (form, pending) = idempotent::begin(&mut call, &mut access).await?;
    let new = read(form, &access)?;
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
        let response = answer::ok(view_of(&access, &registry));
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
    let (ResumeForm {}, pending) = idempotent::begin(&mut call, &mut access).await?;
    let id = find(&access, &call)?.id;
    let limit = time_limit(&access);
    let syncing = async move {
        let (organization, initiator, clock) = (&access.caller.organization, access.initiator(), &*access.realm.clock);
        let render = |synced: &Synced| idempotent::answer(StatusCode::OK, None, SyncView::new(synced));
        let keep = idempotent::keep(pending, clock, render);
        let synced = access.realm.registries.sync(organization, id, &initiator, clock, keep).await?;
        log_change(&access, &synced.registry, "step registry synced");
        Ok::<_, Problem>(render(&synced))
    };
    // Runs in a separate task, so that the fetched steps are applied even if the caller disconnects.
    Ok(idempotent::response(done_in_task(limit, LOOK, syncing).await?))
}

form! {
    /// A registry with its steps, or with the repository that contains them.
    #[schema("examples": [{ "name": "example", "steps": [{ "name": "greet", "version": "1",
                            "inputs": { "WHOM": { "type": "string", "default": "world" } },
                            "run": ["sh", "-c", "echo hello $WHOM"] }] }])]
    pub struct RegistryForm as "StepRegistryRequest" {
        /// The registry's name, unique in the organization; pipelines refer to the registry by it.
        #[schema("examples": ["tools"])]
        required name: Identifier,
        /// The steps. Their texts may have at most 262144 bytes together.
        optional steps: List<RegistryStepForm, 0, STEPS_MAX>,
        /// A repository with one `steps/*.toml` per step.
        optional git: GitForm,
    }
    one_of [steps] [git];
}

form! {
    /// The repository of a registry.
    pub struct GitForm as "StepRegistryRepositoryRequest" {
        /// The URL: https or ssh; `file://` only if the operator allows it (`git.allow_file_urls`). Without user and
        /// password. The host must have a public address, or one that the operator allows (`outbound.allow`).
        #[schema("examples": ["https://git.example/acme/steps.git"])]
        required url: GitUrl,
        /// A branch or a tag, by its short name.
        #[schema("examples": ["main"])]
        required r#ref: RefName,
        /// The name of a secret of the organization with an access token, for https URLs. Read at each sync.
        #[schema("examples": ["STEPS_TOKEN"])]
        nullable credential: VariableName,
    }
}

/// The URL of a repository. The handler checks whether `file://` is allowed.
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
    let url = RemoteUrl::parse(&url.0, allow_file)
        .map_err(|malformed| Problem::invalid_field("git.url", malformed.to_string()))?;
    if credential.is_some() && !url.takes_credential() {
        let message = "is only for https URLs: over ssh the server's own key is used";
        return Err(Problem::invalid_field("git.credential", message));
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

/// The registry in the path. Text that is not an id counts as not found.
fn find(access: &Access, call: &Call) -> Result<Arc<Registry>, Problem> {
    let id = call.segment("registryId").parse().ok();
    let found = id.and_then(|id| access.realm.registries.get(&access.caller.organization, id));
    found.ok_or_else(|| RegistryError::NotFound.into())
}

/// The time limit for fetching a repository and writing the result.
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

view! {
    /// A registry: steps that pipelines use by name and version.
    pub struct RegistryView<'a> as StepRegistry of (registry: &'a Registry, status: Status)
    let failure = registry.failure.as_deref();
    {
        registry_id: written::RegistryId = Written(registry.id),
        /// Pipelines refer to it by this name: `uses: "name/step@version"`.
        #[schema(example = "tools")]
        name: &'a str = registry.name.as_str(),
        /// The repository; null if the steps came with a request.
        git: Option<GitView<'a>> = match &registry.source {
            Source::Inline => None,
            Source::Git(git) => Some(GitView::new(git)),
        },
        status: written::RegistryStatus = Named(status),
        /// When the last successful sync happened.
        synced_at: Option<Time> = registry.synced_at.map(Time),
        /// Why the last sync failed; null if it did not.
        #[schema(example = "the repository does not exist, or the credential does not allow reading it")]
        error: Option<&'a str> = failure.map(|failure| failure.message.as_str()),
        /// The faults in files that made the last sync fail.
        errors: Vec<FileFaultView<'a>> =
            failure.iter().flat_map(|failure| &failure.faults).map(FileFaultView::new).collect(),
        /// How many steps the registry has.
        #[schema(example = 3)]
        step_count: usize = registry.steps.len(),
        /// When the registry was created.
        created_at: Time = Time(registry.created_at),
        /// When the registry last changed.
        updated_at: Time = Time(registry.updated_at),
    }
}

view! {
    /// The repository of a registry.
    pub struct GitView<'a> as StepRegistryRepository of (git: &'a GitSource) {
        /// The URL: https, ssh, or `file://` if the operator allows it.
        #[schema(example = "https://git.example/acme/steps.git")]
        url: &'a str = git.url.as_str(),
        /// A branch or a tag.
        #[schema(example = "main")]
        r#ref: &'a str = git.reference.as_str(),
        /// The commit that the steps are from; null before the first successful sync.
        #[schema(example = "2f1c7a9e4b6d8f0a1c3e5d7b9f1a3c5e7d9b1f3a")]
        commit: Option<&'a str> = git.commit.as_ref().map(|commit| commit.as_str()),
        /// The name of the secret with the access token.
        #[schema(example = "STEPS_TOKEN")]
        credential: Option<&'a str> = git.credential.as_ref().map(|name| name.as_str()),
    }
}

view! {
    /// A fault in a file of a registry's repository.
    pub struct FileFaultView<'a> as StepFileFault of (fault: &'a FileError) {
        /// The path of the file in the repository.
        #[schema(example = "steps/build.toml")]
        file: &'a str = &fault.file,
        /// The location and the reason of the fault.
        #[schema(example = "line 3: `vesion` is not a known field; did you mean `version`?")]
        message: &'a str = &fault.message,
    }
}

view! {
    /// A step of a registry, with either `run` or `http`.
    pub struct RegistryStepView<'a> as RegistryStep of (registry: &'a Registry, step: &'a RegistryStep)
    let (run, http) = match &step.action {
        Action::Run(arguments) => (Some(arguments.as_slice()), None),
        Action::Http(call) => (None, Some(HttpCallView::new(call))),
        // Registries refuse steps with `uses`.
        Action::Uses(_) => (None, None),
    };
    {
        /// The step's name, unique in the registry together with its version.
        #[schema(example = "build")]
        name: &'a str = step.name.as_str(),
        /// The step's version: any name that differs from the other versions.
        #[schema(example = "1.2.0")]
        version: &'a str = step.version.as_str(),
        /// A description for people.
        #[schema(example = "Builds the program")]
        description: &'a str = step.description.as_str(),
        /// The reference to the step in pipelines.
        #[schema(example = "tools/build@1.2.0")]
        uses: String = format!("{}/{}@{}", registry.name, step.name, step.version),
        /// The step's inputs. Each is passed in a variable of the same name.
        #[schema(example = json!({ "TARGET": { "type": "string", "required": false, "default": "all" } }))]
        inputs: BTreeMap<&'a str, InputView<'a>> =
            step.inputs.iter().map(|(name, input)| (name.as_str(), InputView::new(input))).collect(),
        /// A program and its arguments.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Vec<String>, required = false, example = json!(["make", "all"]))]
        run: Option<&'a [Arc<str>]>,
        /// An HTTP request to make.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = HttpCallView, required = false)]
        http: Option<HttpCallView<'a>>,
    }
}

view! {
    /// An input of a step.
    pub struct InputView<'a> as StepInput of (input: &'a Input) {
        r#type: written::InputKind = Named(input.kind),
        /// Whether a pipeline has to give a value.
        #[schema(example = false)]
        required: bool = input.required,
        /// The value if a pipeline gives none, or null.
        #[schema(value_type = Option<InputValueView>)]
        default: Option<InputValueView<'a>> = input.default.as_ref().map(InputValueView),
    }
}

view! {
    /// The changes of a sync, each step as `name@version`.
    pub struct SyncView<'a> as StepRegistrySync of (synced: &'a Synced)
    let names = |steps: &[StepKey]| steps.iter().map(|(name, version)| format!("{name}@{version}")).collect();
    let registry = &synced.registry;
    {
        registry_id: written::RegistryId = Written(registry.id),
        /// The commit that the steps are from now.
        #[schema(example = "2f1c7a9e4b6d8f0a1c3e5d7b9f1a3c5e7d9b1f3a")]
        commit: Option<&'a str> = registry.commit().map(|commit| commit.as_str()),
        /// The commit before the sync; null for the first successful sync.
        #[schema(example = "9b1f3a2f1c7a9e4b6d8f0a1c3e5d7b9f1a3c5e7d")]
        previous_commit: Option<&'a str> = synced.previous_commit.as_ref().map(|commit| commit.as_str()),
        /// New steps.
        #[schema(example = json!(["build@1.2.0"]))]
        added: Vec<String> = names(&synced.added),
        /// Steps with the same name and version but different content: later deployments run the new content.
        #[schema(example = json!([]))]
        changed: Vec<String> = names(&synced.changed),
        /// Steps that no longer exist.
        #[schema(example = json!(["build@1.1.0"]))]
        removed: Vec<String> = names(&synced.removed),
        /// How many steps the registry has now.
        #[schema(example = 3)]
        step_count: usize = registry.steps.len(),
        /// When the sync ended.
        synced_at: Option<Time> = registry.synced_at.map(Time),
    }
}
