//! Pipelines: list and view.

use actix_web::http::StatusCode;

use super::access::Access;
use super::call::Call;
use super::dto::PipelineView;
use super::paging::{Query, Slice};
use super::problem::Problem;
use super::routes::Answered;
use super::scans::scan;
use super::{answer, paging};
use crate::auth::Permission;
use crate::organizations::Pipeline;

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let mut query = Query::of(&call.request);
    let slice = Slice::take(&mut query);
    query.finish()?;
    let pipelines: Vec<_> = access.app.organizations.pipelines(&access.caller.organization).collect();
    let total = pipelines.len() as u64;
    let offset = usize::try_from(slice.offset).unwrap_or(usize::MAX);
    let shown: Vec<_> = pipelines.into_iter().skip(offset).take(slice.limit as usize).collect();
    let mut views = Vec::with_capacity(shown.len());
    for pipeline in shown {
        views.push(PipelineView::new(pipeline, count_environments(&access, pipeline).await?));
    }
    Ok(paging::slice(&call.request, slice, total, views))
}

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let pipeline = access.pipeline(&call)?;
    Query::of(&call.request).finish()?;
    let environments = count_environments(&access, pipeline).await?;
    Ok(answer::one(StatusCode::OK, PipelineView::new(pipeline, environments)))
}

async fn count_environments(access: &Access, pipeline: &Pipeline) -> Result<u64, Problem> {
    let (environments, key) = (access.app.environments.clone(), pipeline.key.clone());
    scan(&access.app, move || environments.count(&key)).await
}
