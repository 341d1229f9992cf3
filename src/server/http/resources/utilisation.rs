//! How busy the environments of an organization were, how long people waited, and who held environments longest.

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
/// Rounds to hundredths of a percent.
const BUSY_STEPS: f64 = 10_000.0;

view! {
    /// How environments were used during a period.
    pub struct UtilisationView<'a> as Utilisation of (found: &'a UtilisationFound)
    let UtilisationFound { utilisation, truncated } = found;
    let millis = utilisation.period.millis();
    {
        /// When the period begins.
        from: Time = Time(utilisation.period.from),
        /// When it ends.
        to: Time = Time(utilisation.period.to),
        /// How long each bucket is; the first begins with the period, the last may be shorter.
        #[schema(example = 3600)]
        bucket_seconds: i64 = utilisation.bucket_millis / 1_000,
        /// All environments, those that nobody used too, by pipeline and name.
        environments: Vec<EnvironmentUseView<'a>> =
            utilisation.environments.iter().map(|used| EnvironmentUseView::new(used, millis)).collect(),
        /// The waits of all environments together, by the bucket in which they ended.
        waits_per_bucket: Vec<WaitsView> = utilisation.waits_per_bucket().map(WaitsView::new).collect(),
        /// The members who held longest in all, at most 20, longest first.
        holders: Vec<HolderUseView<'a>> =
            utilisation.holders(HOLDERS_MAX).into_iter().map(HolderUseView::new).collect(),
        /// Whether there is more than one report reads, so that its figures are too low: ask for one pipeline, or a
        /// shorter period.
        #[schema(example = false)]
        truncated: bool = *truncated,
    }
}

view! {
    /// How one environment was used.
    pub struct EnvironmentUseView<'a> as EnvironmentUse of (used: &'a EnvironmentUse, period_millis: i64)
    let busy = used.locked_millis as f64 / period_millis.max(1) as f64;
    {
        /// Its pipeline.
        #[schema(example = "web")]
        pipeline_id: &'a str = used.key.pipeline.pipeline.as_str(),
        /// Unique in its pipeline.
        #[schema(example = "review-1")]
        env_name: &'a str = used.key.name.as_str(),
        /// How many sessions had the lock during the period.
        #[schema(example = 12)]
        sessions: u64 = used.sessions,
        /// How long it was locked in all.
        #[schema(example = 17280)]
        locked_seconds: i64 = seconds(used.locked_millis),
        /// The part of the period that it was locked, from 0 to 1.
        #[schema(example = 0.2)]
        busy: f64 = (busy.min(1.0) * BUSY_STEPS).round() / BUSY_STEPS,
        /// How long those waited who had to.
        waits: WaitsView = WaitsView::new(used.waits()),
        /// How long it was locked in each bucket.
        #[schema(example = json!([3600, 0, 1800]))]
        busy_seconds_per_bucket: Vec<i64> = used.locked_millis_per_bucket.iter().copied().map(seconds).collect(),
    }
}

view! {
    /// How long sessions waited for the lock that they got during the period. A wait of less than a second is none; who
    /// left without the lock does not count.
    pub struct WaitsView as Waits of (waits: Waits) {
        /// How many had to wait.
        #[schema(example = 4)]
        count: usize = waits.count,
        /// Half of them waited no longer; null if nobody did.
        #[schema(example = 95)]
        median_seconds: Option<i64> = waits.median_millis.map(seconds),
        /// Nine of ten waited no longer; null if nobody did.
        #[schema(example = 310)]
        p90_seconds: Option<i64> = waits.p90_millis.map(seconds),
        /// The longest wait; null if nobody did.
        #[schema(example = 420)]
        max_seconds: Option<i64> = waits.max_millis.map(seconds),
    }
}

view! {
    /// How long a member held environments.
    pub struct HolderUseView<'a> as HolderUse of (holder: &'a HolderUse) {
        user: UserView<'a> = UserView::new(&holder.user),
        /// How many sessions of theirs had the lock during the period.
        #[schema(example = 7)]
        sessions: u64 = holder.sessions,
        /// How long they held environments in all; of two at once, both count.
        #[schema(example = 9300)]
        locked_seconds: i64 = seconds(holder.locked_millis),
        /// Their longest time with one lock, within the period.
        #[schema(example = 3600)]
        longest_seconds: i64 = seconds(holder.longest_millis),
    }
}

/// Rounds to the nearest second.
fn seconds(millis: i64) -> i64 {
    (millis + 500).div_euclid(1_000)
}
