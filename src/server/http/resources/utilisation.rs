//! How busy the environments of an organization were, how long people waited, and who held environments longest.

use actix_web::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::access::Access;
use crate::http::answer::{self, Answered};
use crate::http::call::Call;
use crate::http::dto::{Time, UserView};
use crate::http::paging::{Query, moment};
use accounts::auth::Permission;
use domain::{EnvironmentUse, HolderUse, Identifier, Period, PipelineKey, Timestamp, Waits};
use locks::UtilisationFound;

const DAY_MILLIS: i64 = 24 * 3_600_000;
/// The longest period of a report: a month. Few histories go back further.
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

/// Defaults to the last day. The period ends at the present at the latest.
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

/// How many holders a report names.
const HOLDERS_MAX: usize = 20;

/// How environments were used during a period.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Utilisation)]
pub struct UtilisationView<'a> {
    /// When the period begins.
    from: Time,
    /// When it ends.
    to: Time,
    /// How long each bucket is; the first begins with the period, the last may be shorter.
    #[schema(example = 3600)]
    bucket_seconds: i64,
    /// All environments, those that nobody used too, by pipeline and name.
    environments: Vec<EnvironmentUseView<'a>>,
    /// The waits of all environments together, by the bucket in which they ended.
    waits_per_bucket: Vec<WaitsView>,
    /// The members who held longest in all, at most 20, longest first.
    holders: Vec<HolderUseView<'a>>,
    /// Whether there is more than one report reads, so that its figures are too low: ask for one pipeline, or a shorter
    /// period.
    #[schema(example = false)]
    truncated: bool,
}

/// How one environment was used.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EnvironmentUse)]
pub struct EnvironmentUseView<'a> {
    /// Its pipeline.
    #[schema(example = "web")]
    pipeline_id: &'a str,
    /// Unique in its pipeline.
    #[schema(example = "review-1")]
    env_name: &'a str,
    /// How many sessions had the lock during the period.
    #[schema(example = 12)]
    sessions: u64,
    /// How long it was locked in all.
    #[schema(example = 17280)]
    locked_seconds: i64,
    /// The part of the period that it was locked, from 0 to 1.
    #[schema(example = 0.2)]
    busy: f64,
    /// How long those waited who had to.
    waits: WaitsView,
    /// How long it was locked in each bucket.
    #[schema(example = json!([3600, 0, 1800]))]
    busy_seconds_per_bucket: Vec<i64>,
}

/// How long sessions waited for the lock that they got during the period. A wait of less than a second is none; who
/// left without the lock does not count.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Waits)]
pub struct WaitsView {
    /// How many had to wait.
    #[schema(example = 4)]
    count: usize,
    /// Half of them waited no longer; null if nobody did.
    #[schema(example = 95)]
    median_seconds: Option<i64>,
    /// Nine of ten waited no longer; null if nobody did.
    #[schema(example = 310)]
    p90_seconds: Option<i64>,
    /// The longest wait; null if nobody did.
    #[schema(example = 420)]
    max_seconds: Option<i64>,
}

/// How long a member held environments.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = HolderUse)]
pub struct HolderUseView<'a> {
    user: UserView<'a>,
    /// How many sessions of theirs had the lock during the period.
    #[schema(example = 7)]
    sessions: u64,
    /// How long they held environments in all; of two at once, both count.
    #[schema(example = 9300)]
    locked_seconds: i64,
    /// Their longest time with one lock, within the period.
    #[schema(example = 3600)]
    longest_seconds: i64,
}

impl<'a> From<&'a UtilisationFound> for UtilisationView<'a> {
    fn from(found: &'a UtilisationFound) -> Self {
        let UtilisationFound { utilisation, truncated } = found;
        let millis = utilisation.period.millis();
        Self {
            from: Time(utilisation.period.from),
            to: Time(utilisation.period.to),
            bucket_seconds: utilisation.bucket_millis / 1_000,
            environments: utilisation.environments.iter().map(|used| EnvironmentUseView::new(used, millis)).collect(),
            waits_per_bucket: utilisation.waits_per_bucket().map(WaitsView::from).collect(),
            holders: utilisation.holders(HOLDERS_MAX).into_iter().map(HolderUseView::from).collect(),
            truncated: *truncated,
        }
    }
}

impl<'a> EnvironmentUseView<'a> {
    fn new(used: &'a EnvironmentUse, period_millis: i64) -> Self {
        /// Rounds to hundredths of a percent.
        const STEPS: f64 = 10_000.0;
        let busy = used.locked_millis as f64 / period_millis.max(1) as f64;
        Self {
            pipeline_id: used.key.pipeline.pipeline.as_str(),
            env_name: used.key.name.as_str(),
            sessions: used.sessions,
            locked_seconds: seconds(used.locked_millis),
            busy: (busy.min(1.0) * STEPS).round() / STEPS,
            waits: WaitsView::from(used.waits()),
            busy_seconds_per_bucket: used.locked_millis_per_bucket.iter().copied().map(seconds).collect(),
        }
    }
}

impl From<Waits> for WaitsView {
    fn from(waits: Waits) -> Self {
        Self {
            count: waits.count,
            median_seconds: waits.median_millis.map(seconds),
            p90_seconds: waits.p90_millis.map(seconds),
            max_seconds: waits.max_millis.map(seconds),
        }
    }
}

impl<'a> From<&'a HolderUse> for HolderUseView<'a> {
    fn from(holder: &'a HolderUse) -> Self {
        Self {
            user: UserView::from(&holder.user),
            sessions: holder.sessions,
            locked_seconds: seconds(holder.locked_millis),
            longest_seconds: seconds(holder.longest_millis),
        }
    }
}

/// Rounds to the nearest second.
fn seconds(millis: i64) -> i64 {
    (millis + 500).div_euclid(1_000)
}
