//! What is delivered and how: the operations on pipelines.

use super::operation::Operation;
use crate::http::codes::Code;

const PIPELINES: &str = "Pipelines";

pub fn list_pipelines() -> Operation {
    Operation::api(PIPELINES, "listPipelines", "List Pipelines", "The organization's pipelines, by id.")
        .slice()
        .answers_list("The pipelines", "Pipeline", "Pagination")
}

pub fn get_pipeline() -> Operation {
    Operation::api(
        PIPELINES,
        "getPipeline",
        "Get Pipeline",
        "With its stages as they are defined. What is in `stages`, `variables` and `repository` can be sent as it is with a \
         PUT.",
    )
    .header("If-None-Match", "An `ETag` of before: 304 if nothing has changed since")
    .answers(200, "The pipeline", "Pipeline", &["ETag"])
    .answers_nothing(304, "It has not changed", &["ETag"])
    .fails(&[Code::PipelineNotFound])
}

pub fn put_pipeline() -> Operation {
    Operation::api(
        PIPELINES,
        "putPipeline",
        "Put Pipeline",
        "Makes it, or replaces it: what is left out has its default, and without stages a deployment succeeds at once. \
         Deployments that have started go on with the stages they started with. Whether it is stopped stays as it is.",
    )
    .header("If-Match", "The `ETag` it was read with: only if it is still that")
    .header("If-None-Match", "`*`: only if there is no such pipeline yet")
    .body("PipelineRequest", false)
    .writes()
    .answers(200, "Changed", "Pipeline", &["ETag"])
    .answers(201, "Made", "Pipeline", &["ETag", "Location"])
    .fails(&[Code::PipelineLimitReached, Code::PreconditionFailed])
}

pub fn delete_pipeline() -> Operation {
    Operation::api(
        PIPELINES,
        "deletePipeline",
        "Delete Pipeline",
        "One that has environments is not deleted. One that a file declares stays deleted until its declaration changes.",
    )
    .header("If-Match", "The `ETag` it was read with: only if it is still that")
    .writes()
    .answers_nothing(204, "Deleted", &[])
    .fails(&[Code::PipelineNotFound, Code::PipelineInUse, Code::PreconditionFailed])
}

pub fn stop_pipeline() -> Operation {
    Operation::api(
        PIPELINES,
        "stopPipeline",
        "Stop Pipeline",
        "What runs finishes; new deployments wait as `queued` until it is resumed. Claims still work. One that is stopped \
         already stays as it was stopped first.",
    )
    .body("StopRequest", false)
    .writes()
    .answers(200, "The pipeline, stopped", "Pipeline", &[])
    .fails(&[Code::PipelineNotFound])
}

pub fn resume_pipeline() -> Operation {
    Operation::api(
        PIPELINES,
        "resumePipeline",
        "Resume Pipeline",
        "Deployments that waited start. Resuming one that is not stopped changes nothing.",
    )
    .body("ResumeRequest", false)
    .writes()
    .answers(200, "The pipeline, running", "Pipeline", &[])
    .fails(&[Code::PipelineNotFound])
}
