//! A report on the environments of an organization: how busy they were, how long claims waited, and who held them
//! longest.

use crate::http::access::Access;
use crate::http::answer::{self, Answered};
use crate::http::call::Call;
use crate::http::dto::{Time, UserView, view};
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
    Ok(answer::ok(UtilisationView::new(&found)))
}

/// Defaults to the last day. The period never ends after the present.
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
/// Rounds to hundredths of a percent.
const BUSY_STEPS: f64 = 10_000.0;

view! {
    /// How environments were used during a period.
    pub struct UtilisationView<'a> as Utilisation of (found: &'a UtilisationFound)
    let UtilisationFound { utilisation, truncated } = found;
    let millis = utilisation.period.millis();
    {
        /// The beginning of the period.
        from: Time = Time(utilisation.period.from),
        /// The end of the period.
        to: Time = Time(utilisation.period.to),
        /// The length of a bucket; the first begins with the period, the last may be shorter.
        #[schema(example = 3600)]
        bucket_seconds: i64 = utilisation.bucket_millis / 1_000,
        /// All environments, including unused ones, by pipeline and name.
        environments: Vec<EnvironmentUseView<'a>> =
            utilisation.environments.iter().map(|used| EnvironmentUseView::new(used, millis)).collect(),
        /// The waits of all environments together, by the bucket in which they ended.
        waits_per_bucket: Vec<WaitsView> = utilisation.waits_per_bucket().map(WaitsView::new).collect(),
        /// The members with the longest total holding times, at most 20, longest first.
        holders: Vec<HolderUseView<'a>> =
            utilisation.holders(HOLDERS_MAX).into_iter().map(HolderUseView::new).collect(),
        /// Whether there were more environments or sessions than one report reads, so that its figures are too low:
        /// request one pipeline, or a shorter period.
        #[schema(example = false)]
        truncated: bool = *truncated,
    }
}

view! {
    /// How one environment was used.
    pub struct EnvironmentUseView<'a> as EnvironmentUse of (used: &'a EnvironmentUse, period_millis: i64)
    let busy = used.locked_millis as f64 / period_millis.max(1) as f64;
    {
        /// The environment's pipeline.
        #[schema(example = "web")]
        pipeline_id: &'a str = used.key.pipeline.pipeline.as_str(),
        /// The environment's name, unique in its pipeline.
        #[schema(example = "review-1")]
        env_name: &'a str = used.key.name.as_str(),
        /// How many sessions held the lock during the period.
        #[schema(example = 12)]
        sessions: u64 = used.sessions,
        /// How long the environment was locked in total.
        #[schema(example = 17280)]
        locked_seconds: i64 = seconds(used.locked_millis),
        /// The share of the period during which the environment was locked, from 0 to 1.
        #[schema(example = 0.2)]
        busy: f64 = (busy.min(1.0) * BUSY_STEPS).round() / BUSY_STEPS,
        /// How long sessions waited.
        waits: WaitsView = WaitsView::new(used.waits()),
        /// How long the environment was locked in each bucket.
        #[schema(example = json!([3600, 0, 1800]))]
        busy_seconds_per_bucket: Vec<i64> = used.locked_millis_per_bucket.iter().copied().map(seconds).collect(),
    }
}

view! {
    /// How long sessions waited for locks that they got during the period. A wait of less than a second does not count;
    /// nor does one that ended without the lock.
    pub struct WaitsView as Waits of (waits: Waits) {
        /// How many sessions had to wait.
        #[schema(example = 4)]
        count: usize = waits.count,
        /// The median wait; null if nobody waited.
        #[schema(example = 95)]
        median_seconds: Option<i64> = waits.median_millis.map(seconds),
        /// The 90th percentile of the waits; null if nobody waited.
        #[schema(example = 310)]
        p90_seconds: Option<i64> = waits.p90_millis.map(seconds),
        /// The longest wait; null if nobody waited.
        #[schema(example = 420)]
        max_seconds: Option<i64> = waits.max_millis.map(seconds),
    }
}

view! {
    /// How long a member held environments.
    pub struct HolderUseView<'a> as HolderUse of (holder: &'a HolderUse) {
        user: UserView<'a> = UserView::new(&holder.user),
        /// How many of the member's sessions held the lock during the period.
        #[schema(example = 7)]
        sessions: u64 = holder.sessions,
        /// How long the member held environments in total; two at the same time count twice.
        #[schema(example = 9300)]
        locked_seconds: i64 = seconds(holder.locked_millis),
        /// The longest time with one lock, within the period.
        #[schema(example = 3600)]
        longest_seconds: i64 = seconds(holder.longest_millis),
    }
}

/// Rounds to the nearest second.
fn seconds(millis: i64) -> i64 {
    (millis + 500).div_euclid(1_000)
}
