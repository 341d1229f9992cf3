//! The operations on pipelines and step registries.

use super::operation::Operation;
use crate::forms::PipelineForm;
use crate::http::codes::Code;
use crate::http::resources::pipelines::{PipelineView, ResumeForm, StopForm};
use crate::http::resources::step_registries::{RegistryForm, RegistryStepView, RegistryView, SyncView};

const PIPELINES: &str = "Pipelines";

pub fn list_pipelines() -> Operation {
    Operation::api(PIPELINES, "listPipelines")
        .about("The organization's pipelines, by id.")
        .lists::<PipelineView<'_>>("The pipelines")
}

pub fn get_pipeline() -> Operation {
    Operation::api(PIPELINES, "getPipeline")
        .about(
            "With the definitions of its stages. `stages`, `variables` and `repository` can be sent back unchanged \
             with a PUT.",
        )
        .answers_unless_known::<PipelineView<'_>>("The pipeline")
        .fails(&[Code::PipelineNotFound])
}

pub fn put_pipeline() -> Operation {
    Operation::api(PIPELINES, "putPipeline")
        .about(
            "Creates or replaces it: what is left out has its default, and without stages a deployment succeeds at \
             once. Deployments that have started keep their stages. A stopped pipeline stays stopped.",
        )
        .header("If-Match", "The `ETag` it was read with: 412 if it has changed since")
        .header("If-None-Match", "`*`: only if the pipeline does not exist yet")
        .on_example("pipelineId")
        .body::<PipelineForm>()
        .answers::<PipelineView<'_>>(200, "Changed", &["ETag"])
        .answers::<PipelineView<'_>>(201, "Created", &["ETag", "Location"])
        .fails(&[Code::PipelineLimitReached, Code::PreconditionFailed])
}

pub fn delete_pipeline() -> Operation {
    Operation::api(PIPELINES, "deletePipeline")
        .about(
            "A pipeline with environments is not deleted. A pipeline declared in a file stays deleted until its \
             declaration changes.",
        )
        .header("If-Match", "The `ETag` it was read with: 412 if it has changed since")
        .on_example("pipelineId")
        .deletes("Deleted")
        .fails(&[Code::PipelineNotFound, Code::PipelineInUse, Code::PreconditionFailed])
}

pub fn stop_pipeline() -> Operation {
    Operation::api(PIPELINES, "stopPipeline")
        .about(
            "Running deployments finish; new ones wait as `queued` until it is resumed. Claims still work. Stopping a \
             stopped pipeline changes nothing.",
        )
        .on_example("pipelineId")
        .body::<StopForm>()
        .answers::<PipelineView<'_>>(200, "The pipeline, stopped", &[])
        .fails(&[Code::PipelineNotFound])
}

pub fn resume_pipeline() -> Operation {
    Operation::api(PIPELINES, "resumePipeline")
        .about("Waiting deployments start. Resuming a running pipeline changes nothing.")
        .on_example("pipelineId")
        .body::<ResumeForm>()
        .answers::<PipelineView<'_>>(200, "The pipeline, running", &[])
        .fails(&[Code::PipelineNotFound])
}

const REGISTRIES: &str = "Step registries";

pub fn list_registries() -> Operation {
    Operation::api(REGISTRIES, "listStepRegistries")
        .about("Oldest first.")
        .lists::<RegistryView<'_>>("The step registries")
}

pub fn create_registry() -> Operation {
    Operation::api(REGISTRIES, "createStepRegistry")
        .about(
            "With its steps, or with their repository, which is fetched before the answer. If that fails the registry \
             is created all the same, with the status `failed` and the reason in `error`.",
        )
        .body::<RegistryForm>()
        .answers::<RegistryView<'_>>(201, "The step registry", &["Location", "ETag"])
        .fails(&[Code::RegistryExists, Code::RegistryLimitReached])
}

pub fn get_registry() -> Operation {
    Operation::api(REGISTRIES, "getStepRegistry")
        .about("With its status, without its steps.")
        .answers_unless_known::<RegistryView<'_>>("The step registry")
        .fails(&[Code::RegistryNotFound])
}

pub fn update_registry() -> Operation {
    Operation::api(REGISTRIES, "updateStepRegistry")
        .about(
            "Replaces all of it. Another repository is fetched before the answer. Nothing changes if that fails, or if \
             pipelines would lose a step they use.",
        )
        .header("If-Match", "The `ETag` it was read with: 412 if it has changed since")
        .body::<RegistryForm>()
        .answers::<RegistryView<'_>>(200, "The step registry", &["ETag"])
        .fails(&[
            Code::RegistryNotFound,
            Code::RegistryExists,
            Code::RegistryInUse,
            Code::SyncFailed,
            Code::PreconditionFailed,
        ])
}

pub fn delete_registry() -> Operation {
    Operation::api(REGISTRIES, "deleteStepRegistry")
        .about("Refused while pipelines use it: `usedBy` names them. Deployments keep their steps.")
        .header("If-Match", "The `ETag` it was read with: 412 if it has changed since")
        .deletes("Deleted")
        .fails(&[Code::RegistryNotFound, Code::RegistryInUse, Code::PreconditionFailed])
}

pub fn sync_registry() -> Operation {
    Operation::api(REGISTRIES, "syncStepRegistry")
        .about(
            "Fetches the repository and applies all its steps or none. A step whose content has changed under the same \
             version is listed as `changed`. If a file has faults, or pipelines would lose a step they use, the steps \
             stay as they were.",
        )
        .body::<ResumeForm>()
        .answers::<SyncView<'_>>(200, "The changes", &[])
        .fails(&[
            Code::RegistryNotFound,
            Code::RegistryHasNoRepository,
            Code::SyncInProgress,
            Code::SyncFailed,
            Code::RegistryInUse,
            Code::PreconditionFailed,
        ])
}

pub fn list_registry_steps() -> Operation {
    Operation::api(REGISTRIES, "listRegistrySteps")
        .titled("List Steps of a Registry")
        .about("By name and version.")
        .lists::<RegistryStepView<'_>>("The steps")
        .fails(&[Code::RegistryNotFound])
}
