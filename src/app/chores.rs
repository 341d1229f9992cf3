//! What is done now and then, as long as the server serves.

use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::task::JoinHandle;

use super::delivery;
use crate::config::Settings;
use crate::events::{Retention, Sweeper};
use crate::http::{Node, Realm, Running};
use crate::runner::Runner;

/// How often what is not urgent is done: actors let go, stalled connections shut, tokens' last use written down, metrics
/// tidied.
const CHORES_EVERY: Duration = Duration::from_secs(5);
/// How many of those pass between two times that tokens' last use is written down.
const CHORES_PER_USAGE: u32 = 12;
/// With more actors than this in memory, one that was not used since the last chores goes at once, instead of after its idle
/// time: at 3 kB each, a script that makes a million environments would else fill the memory.
const CROWD_OF_ACTORS: usize = 50_000;
/// How often idempotency keys that have expired, or are too many, are dropped.
const KEYS_SWEPT_EVERY: Duration = Duration::from_secs(60);
/// How often events that are too old, or too many, are dropped.
const EVENTS_SWEPT_EVERY: Duration = Duration::from_secs(60);

/// The chores of the node and of its realm, until they are aborted.
pub fn begin(
    running: &Running,
    runner: &Runner,
    settings: &Settings,
    metrics: PrometheusHandle,
) -> Vec<JoinHandle<()>> {
    let organizations = settings.organizations.iter().map(|organization| organization.id.clone()).collect();
    let (node, realm) = (&running.node, &running.realm);
    vec![
        actix_web::rt::spawn(do_chores_of_node(node.clone(), runner.clone(), metrics)),
        actix_web::rt::spawn(do_chores_of_realm(realm.clone(), settings.environments.idle)),
        actix_web::rt::spawn(sweep_keys(realm.clone())),
        actix_web::rt::spawn(sweep_events(realm.clone(), retention(settings))),
        actix_web::rt::spawn(keep_time(realm.clone())),
        actix_web::rt::spawn(delivery::tidy(node.clone(), realm.clone(), runner.clone(), organizations)),
    ]
}

async fn do_chores_of_node(node: Arc<Node>, runner: Runner, metrics: PrometheusHandle) {
    let stages_running = metrics::gauge!("lockkeeper_stages", "state" => "running");
    let stages_waiting = metrics::gauge!("lockkeeper_stages", "state" => "waiting");
    let mut every = tokio::time::interval(CHORES_EVERY);
    loop {
        every.tick().await;
        metrics.run_upkeep();
        stages_running.set(runner.running() as f64);
        stages_waiting.set(runner.waiting() as f64);
        let stalled = node.connections.shut_stalled();
        if stalled > 0 {
            tracing::info!(stalled, "shut down connections that stalled within the head of a request");
        }
    }
}

async fn do_chores_of_realm(realm: Arc<Realm>, idle: Duration) {
    let undelivered = metrics::gauge!("lockkeeper_webhook_deliveries_pending");
    let actors = metrics::gauge!("lockkeeper_environment_actors");
    let waiting_by_name = metrics::gauge!("lockkeeper_waiting", "for" => "environment");
    let waiting_for_any = metrics::gauge!("lockkeeper_waiting", "for" => "any");
    let mut every = tokio::time::interval(CHORES_EVERY.min(idle));
    let rounds_per_idle = idle.as_secs().div_ceil(every.period().as_secs().max(1)).max(1);
    for round in 1_u64.. {
        every.tick().await;
        actors.set(realm.environments.resident() as f64);
        waiting_by_name.set(realm.environments.waiting_by_name() as f64);
        waiting_for_any.set(realm.environments.waiting_for_any() as f64);
        undelivered.set(realm.webhooks.pending() as f64);
        if round % rounds_per_idle == 0 || realm.environments.resident() > CROWD_OF_ACTORS {
            realm.environments.dismiss_unused();
        }
        realm.environments.expire_pools();
        if let Some(limits) = &realm.rate_limits {
            limits.forget_idle();
        }
        if round % u64::from(CHORES_PER_USAGE) == 0
            && let Err(error) = realm.accounts.write_usage().await
        {
            tracing::warn!(%error, "when tokens were last used could not be written down");
        }
    }
}

/// Ends what runs out by itself, when it does, and serves those who have waited since before the start.
async fn keep_time(realm: Arc<Realm>) {
    if let Err(error) = realm.environments.resume_pools().await {
        tracing::error!(%error, "those who waited for any environment could not be served");
    }
    realm.environments.keep_time().await;
}

/// Apart from the other chores, since a million of them take a while.
async fn sweep_keys(realm: Arc<Realm>) {
    let mut every = tokio::time::interval(KEYS_SWEPT_EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        realm.idempotency.sweep((realm.clock)()).await;
        if let Err(error) = realm.environments.forget_those_who_left().await {
            tracing::warn!(%error, "sessions that ended in a queue could not be forgotten");
        }
    }
}

/// Apart from the other chores, for the same reason.
async fn sweep_events(realm: Arc<Realm>, retention: Retention) {
    let mut sweeper = Sweeper::new(realm.events.clone(), retention);
    let mut every = tokio::time::interval(EVENTS_SWEPT_EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        match sweeper.sweep((realm.clock)(), |organization| realm.webhooks.floor(organization)).await {
            Ok(0) => {}
            Ok(dropped) => tracing::info!(dropped, "dropped events that were too old, or too many"),
            Err(error) => tracing::warn!(%error, "old events could not be dropped; the next sweep tries again"),
        }
    }
}

fn retention(settings: &Settings) -> Retention {
    Retention { max_events: settings.events.max_events, max_age: settings.events.max_age }
}
