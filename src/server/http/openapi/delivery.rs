//! The operations on pipelines.

use super::operation::Operation;
use crate::forms::PipelineForm;
use crate::http::codes::Code;
use crate::http::resources::pipelines::PipelineView;
use crate::http::resources::pipelines::{ResumeForm, StopForm};

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
