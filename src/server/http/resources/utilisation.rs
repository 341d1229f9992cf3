//! How busy the environments of an organization were, how long people waited, and who held longest.

use actix_web::http::StatusCode;

use crate::http::access::Access;
use crate::http::answer::{self, Answered};
use crate::http::call::Call;
use crate::http::dto::UtilisationView;
use crate::http::paging::{Query, moment};
use accounts::auth::Permission;
use domain::{Identifier, Period, PipelineKey, Timestamp};

const DAY_MILLIS: i64 = 24 * 3_600_000;
/// The longest period of a report: a month. Few histories reach further back.
pub const DAYS_MAX: i64 = 31;

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let mut query = Query::of(&call.request);
    let period = take_period(&mut query, (access.realm.clock)());
    let pipeline = query.text("pipelineId", Identifier::parse);
    query.finish()?;
    let pipelines = access.realm.pipelines.list(&access.caller.organization);
    let is_wanted = |key: &PipelineKey| pipeline.as_ref().is_none_or(|wanted| key.pipeline == *wanted);
    let keys: Vec<_> = pipelines.iter().map(|pipeline| pipeline.key.clone()).filter(is_wanted).collect();
    let environments = access.realm.environments.clone();
    let found = access.read_list(move || environments.utilisation(&keys, period)).await?;
    Ok(answer::one(StatusCode::OK, UtilisationView::from(&found)))
}

/// The last day if nothing is given. The future is no part of it: nobody has held anything there yet.
fn take_period(query: &mut Query, now: Timestamp) -> Period {
    let (from, to) = (query.text("from", moment), query.text("to", moment));
    let to = to.unwrap_or(now).min(now);
    let period = Period { from: from.unwrap_or(to.plus(-DAY_MILLIS)), to };
    if period.from >= period.to {
        query.wrong("from", "must be before `to`, and in the past");
    } else if period.millis() > DAYS_MAX * DAY_MILLIS {
        query.wrong("from", format!("must be at most {DAYS_MAX} days before `to`"));
    }
    period
}
