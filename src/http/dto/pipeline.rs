//! A pipeline.

use serde::Serialize;
use utoipa::ToSchema;

use crate::organizations::Pipeline;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Pipeline)]
pub struct PipelineView<'a> {
    #[schema(example = "web")]
    id: &'a str,
    name: &'a str,
    slug: &'a str,
    #[schema(example = "running")]
    status: &'static str,
    #[schema(value_type = Option<String>, required)]
    stopped_by: Option<&'a str>,
    #[schema(value_type = Option<String>, required)]
    stopped_at: Option<&'a str>,
    #[schema(value_type = Option<String>, required)]
    stop_reason: Option<&'a str>,
    stages: [&'a str; 0],
    environment_count: u64,
    #[schema(value_type = Option<String>, required)]
    repository: Option<&'a str>,
}

impl<'a> PipelineView<'a> {
    pub fn new(pipeline: &'a Pipeline, environment_count: u64) -> Self {
        Self {
            id: pipeline.key.pipeline.as_str(),
            name: &pipeline.name,
            slug: pipeline.slug.as_str(),
            status: "running",
            stopped_by: None,
            stopped_at: None,
            stop_reason: None,
            stages: [],
            environment_count,
            repository: None,
        }
    }
}
