//! A step registry, its steps, and the changes of a sync.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use super::ids::{RegistryId, Written};
use super::pipeline::HttpCallView;
use super::statuses::{InputKind, Named, RegistryStatus};
use super::values::{InputValueView, Time};
use delivery::registries::{GitSource, Registry, Source, Status, StepKey, Synced};
use domain::{Action, Input, RegistryStep};

/// Steps that pipelines use by name and version.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepRegistry)]
pub struct RegistryView<'a> {
    registry_id: RegistryId,
    /// Pipelines refer to it by this name: `uses: "name/step@version"`.
    #[schema(example = "tools")]
    name: &'a str,
    /// Null if the steps came with a request.
    git: Option<GitView<'a>>,
    status: RegistryStatus,
    /// The last successful sync.
    synced_at: Option<Time>,
    /// Why the last sync failed.
    #[schema(example = "the repository does not exist, or the credential does not allow reading it")]
    error: Option<&'a str>,
    /// The faults of files that made the last sync fail.
    errors: Vec<FileFaultView<'a>>,
    /// How many steps it has.
    #[schema(example = 3)]
    step_count: usize,
    /// When it was created.
    created_at: Time,
    /// When it last changed.
    updated_at: Time,
}

/// The repository of a registry.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepRegistryRepository)]
pub struct GitView<'a> {
    /// https, ssh, or `file://` if the operator allows it.
    #[schema(example = "https://git.example/acme/steps.git")]
    url: &'a str,
    /// A branch or a tag.
    #[schema(example = "main")]
    r#ref: &'a str,
    /// The commit its steps are from; null before the first successful sync.
    #[schema(example = "2f1c7a9e4b6d8f0a1c3e5d7b9f1a3c5e7d9b1f3a")]
    commit: Option<&'a str>,
    /// The name of the secret with the access token.
    #[schema(example = "STEPS_TOKEN")]
    credential: Option<&'a str>,
}

/// What is wrong with a file of a registry's repository.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepFileFault)]
pub struct FileFaultView<'a> {
    /// Its path in the repository.
    #[schema(example = "steps/build.toml")]
    file: &'a str,
    /// Where and why.
    #[schema(example = "line 3: `vesion` is not a known field; did you mean `version`?")]
    message: &'a str,
}

impl<'a> RegistryView<'a> {
    pub fn new(registry: &'a Registry, status: Status) -> Self {
        let failure = registry.failure.as_deref();
        let faults = failure.into_iter().flat_map(|failure| &failure.faults);
        Self {
            registry_id: Written(registry.id),
            name: registry.name.as_str(),
            git: match &registry.source {
                Source::Inline => None,
                Source::Git(git) => Some(GitView::from(git)),
            },
            status: Named(status),
            synced_at: registry.synced_at.map(Time),
            error: failure.map(|failure| failure.message.as_str()),
            errors: faults.map(|fault| FileFaultView { file: &fault.file, message: &fault.message }).collect(),
            step_count: registry.steps.len(),
            created_at: Time(registry.created_at),
            updated_at: Time(registry.updated_at),
        }
    }
}

impl<'a> From<&'a GitSource> for GitView<'a> {
    fn from(git: &'a GitSource) -> Self {
        Self {
            url: git.url.as_str(),
            r#ref: git.reference.as_str(),
            commit: git.commit.as_ref().map(|commit| commit.as_str()),
            credential: git.credential.as_ref().map(|name| name.as_str()),
        }
    }
}

/// It has either `run` or `http`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RegistryStep)]
pub struct RegistryStepView<'a> {
    /// With its version unique in the registry.
    #[schema(example = "build")]
    name: &'a str,
    /// Any name that tells it from the others.
    #[schema(example = "1.2.0")]
    version: &'a str,
    /// For people.
    #[schema(example = "Builds the program")]
    description: &'a str,
    /// How pipelines refer to it.
    #[schema(example = "tools/build@1.2.0")]
    uses: String,
    /// By their names, which are those of the variables that the step finds them in.
    #[schema(example = json!({ "TARGET": { "type": "string", "required": false, "default": "all" } }))]
    inputs: BTreeMap<&'a str, InputView<'a>>,
    /// A program and its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<String>, required = false, example = json!(["make", "all"]))]
    run: Option<&'a [Arc<str>]>,
    /// A request to make.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = HttpCallView, required = false)]
    http: Option<HttpCallView<'a>>,
}

/// An input of a step.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepInput)]
pub struct InputView<'a> {
    r#type: InputKind,
    /// Whether a pipeline has to give it.
    #[schema(example = false)]
    required: bool,
    /// Its value if a pipeline gives none, or null.
    #[schema(value_type = Option<InputValueView>)]
    default: Option<InputValueView<'a>>,
}

impl<'a> RegistryStepView<'a> {
    pub fn new(registry: &'a Registry, step: &'a RegistryStep) -> Self {
        let mut view = Self {
            name: step.name.as_str(),
            version: step.version.as_str(),
            description: step.description.as_str(),
            uses: format!("{}/{}@{}", registry.name, step.name, step.version),
            inputs: step.inputs.iter().map(|(name, input)| (name.as_str(), InputView::from(input))).collect(),
            run: None,
            http: None,
        };
        match &step.action {
            Action::Run(arguments) => view.run = Some(arguments.as_slice()),
            Action::Http(call) => view.http = Some(HttpCallView::from(call)),
            // A registry refuses such a step.
            Action::Uses(_) => {}
        }
        view
    }
}

impl<'a> From<&'a Input> for InputView<'a> {
    fn from(input: &'a Input) -> Self {
        Self {
            r#type: Named(input.kind),
            required: input.required,
            default: input.default.as_ref().map(InputValueView::from),
        }
    }
}

/// The changes of a sync, each step as `name@version`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepRegistrySync)]
pub struct SyncView<'a> {
    registry_id: RegistryId,
    /// The commit its steps are from now.
    #[schema(example = "2f1c7a9e4b6d8f0a1c3e5d7b9f1a3c5e7d9b1f3a")]
    commit: Option<&'a str>,
    /// Null for the first successful sync.
    #[schema(example = "9b1f3a2f1c7a9e4b6d8f0a1c3e5d7b9f1a3c5e7d")]
    previous_commit: Option<&'a str>,
    /// Steps that are new.
    #[schema(example = json!(["build@1.2.0"]))]
    added: Vec<String>,
    /// Steps with the same name and version but another content: later deployments run the new one.
    #[schema(example = json!([]))]
    changed: Vec<String>,
    /// Steps that are gone.
    #[schema(example = json!(["build@1.1.0"]))]
    removed: Vec<String>,
    /// How many steps it has now.
    #[schema(example = 3)]
    step_count: usize,
    /// When.
    synced_at: Option<Time>,
}

impl<'a> From<&'a Synced> for SyncView<'a> {
    fn from(synced: &'a Synced) -> Self {
        let names = |steps: &[StepKey]| steps.iter().map(|(name, version)| format!("{name}@{version}")).collect();
        let registry = &synced.registry;
        Self {
            registry_id: Written(registry.id),
            commit: registry.commit().map(|commit| commit.as_str()),
            previous_commit: synced.previous_commit.as_ref().map(|commit| commit.as_str()),
            added: names(&synced.added),
            changed: names(&synced.changed),
            removed: names(&synced.removed),
            step_count: registry.steps.len(),
            synced_at: registry.synced_at.map(Time),
        }
    }
}
