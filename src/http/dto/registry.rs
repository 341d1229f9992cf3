//! A step registry, its steps, and the changes of a sync.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use super::pipeline::HttpCallView;
use super::values::{InputValueView, Text, Time};
use crate::domain::{Action, Input, RegistryId, RegistryStep};
use crate::registries::{GitSource, Registry, Source, Status, StepKey, Synced};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepRegistry)]
pub struct RegistryView<'a> {
    #[schema(value_type = String, example = "reg_0199f3c2a4b07f3e9d2c5a1b")]
    registry_id: Text<RegistryId>,
    /// Pipelines refer to it by this name: `uses: "name/step@version"`.
    #[schema(example = "tools")]
    name: &'a str,
    /// Null if the steps came with a request.
    git: Option<GitView<'a>>,
    status: Status,
    /// The last successful sync.
    synced_at: Option<Time>,
    /// Why the last sync failed.
    error: Option<&'a str>,
    /// The faults of files that made the last sync fail.
    errors: Vec<FileFaultView<'a>>,
    step_count: usize,
    created_at: Time,
    updated_at: Time,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepRegistryRepository)]
pub struct GitView<'a> {
    url: &'a str,
    /// A branch or a tag.
    #[schema(example = "main")]
    r#ref: &'a str,
    /// The commit its steps are from; null before the first successful sync.
    commit: Option<&'a str>,
    /// The name of the secret with the access token.
    credential: Option<&'a str>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepFileFault)]
pub struct FileFaultView<'a> {
    #[schema(example = "steps/build.toml")]
    file: &'a str,
    message: &'a str,
}

impl<'a> RegistryView<'a> {
    pub fn new(registry: &'a Registry, status: Status) -> Self {
        let failure = registry.failure.as_deref();
        let faults = failure.into_iter().flat_map(|failure| &failure.faults);
        Self {
            registry_id: Text(registry.id),
            name: registry.name.as_str(),
            git: match &registry.source {
                Source::Inline => None,
                Source::Git(git) => Some(GitView::from(git)),
            },
            status,
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
    #[schema(example = "build")]
    name: &'a str,
    #[schema(example = "1.2.0")]
    version: &'a str,
    description: &'a str,
    /// How pipelines refer to it.
    #[schema(example = "tools/build@1.2.0")]
    uses: String,
    inputs: BTreeMap<&'a str, InputView<'a>>,
    /// A program and its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<String>, required = false, example = json!(["make", "all"]))]
    run: Option<&'a [Arc<str>]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = HttpCallView, required = false)]
    http: Option<HttpCallView<'a>>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepInput)]
pub struct InputView<'a> {
    /// One of `string`, `number`, `boolean`.
    #[schema(example = "string")]
    r#type: &'static str,
    required: bool,
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
            r#type: input.kind.as_str(),
            required: input.required,
            default: input.default.as_ref().map(InputValueView::from),
        }
    }
}

/// Steps as `name@version`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepRegistrySync)]
pub struct SyncView<'a> {
    #[schema(value_type = String, example = "reg_0199f3c2a4b07f3e9d2c5a1b")]
    registry_id: Text<RegistryId>,
    commit: Option<&'a str>,
    /// Null for the first successful sync.
    previous_commit: Option<&'a str>,
    #[schema(example = json!(["build@1.2.0"]))]
    added: Vec<String>,
    /// Steps with the same name and version but another content: later deployments run the new one.
    changed: Vec<String>,
    removed: Vec<String>,
    step_count: usize,
    synced_at: Option<Time>,
}

impl<'a> From<&'a Synced> for SyncView<'a> {
    fn from(synced: &'a Synced) -> Self {
        let names = |steps: &[StepKey]| steps.iter().map(|(name, version)| format!("{name}@{version}")).collect();
        let registry = &synced.registry;
        Self {
            registry_id: Text(registry.id),
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
