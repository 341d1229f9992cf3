//! Owns `failover`: a cluster under a steady load of claims and releases with idempotency keys, and a series of faults.
//! Reports for each fault the longest time without a grant and the errors of clients, and checks that no rule was
//! broken.
//!
//! From top to bottom: `mod` (a fault from its beginning to its row in the report), `faults` (the actions on the
//! cluster), `aftermath` (the checks after a fault), `clients` (the load), `fault_run` (the clients' shared state and
//! retries).

use std::sync::Arc;
use std::time::Duration;

use aftermath::{AUDIT, audits, longest_pauses, read_again, sentence};
use clients::{STEPS, Steps, cycle, deploy, organizations};
use fault_run::{FaultRun, ORGANIZATIONS, prepare};
use faults::{ClusterFault, Impact, Lengths, inject};
use serde::Deserialize;
use tokio::task::JoinSet;

use crate::engine::{Fault, LoadTest};
use crate::history::History;
use crate::report::{Check, Goal};
use crate::server::ClusterShape;
use crate::settings::{Common, within};
use crate::workloads::kind::Kind;

mod aftermath;
mod clients;
mod fault_run;
mod faults;

/// Time for clients that are still retrying on other nodes when a fault is over.
const CLIENTS_END_WITHIN: Duration = Duration::from_secs(90);
const NO_GRANT: &str = "no grant for";
const CLIENT_ERRORS: &str = "client errors";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    members: u32,
    nodes: u32,
    /// The number of environments per organization; there is one organization per shard.
    environments: u32,
    /// Duration of the load before each fault, and after the cluster has recovered.
    calm_seconds: u64,
    /// How long a process is paused.
    paused_seconds: u64,
    /// How long a process is down or cut off, or the engine is full.
    away_seconds: u64,
    faults: Vec<ClusterFault>,
}

impl Kind for Settings {
    const NEEDS_OWN_SERVER: bool = true;

    fn check(&self, common: &Common) -> Result<(), String> {
        within("members", self.members.into(), 1, 5)?;
        within("nodes", self.nodes.into(), 2, 9)?;
        within("environments", self.environments.into(), 1, 1_000)?;
        within("calm_seconds", self.calm_seconds, 1, 600)?;
        within("paused_seconds", self.paused_seconds, 1, 600)?;
        within("away_seconds", self.away_seconds, 1, 600)?;
        within("connections", common.connections.into(), ORGANIZATIONS.len() as u64, 1_000)?;
        match self.faults.iter().find(|fault| self.members < fault.members_needed()) {
            Some(fault) => Err(format!("`members` must be at least {} for {}", fault.members_needed(), fault.name())),
            None => Ok(()),
        }
    }

    fn cluster(&self) -> Option<ClusterShape> {
        let variables = [("LOCKKEEPER_CLUSTER_STEP_LEASE_SECONDS", "5"), ("LOCKKEEPER_RUNNER_ISOLATION", "off")];
        Some(ClusterShape {
            organizations: organizations(),
            proxied: true,
            variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            ..ClusterShape::new(self.nodes, self.members)
        })
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        prepare(FaultRun::new(test, self.environments, String::new())?).await?;
        for round in 0..test.common.rounds {
            for fault in &self.faults {
                self.suffer(test, *fault, round).await?;
            }
        }
        Ok(())
    }
}

impl Settings {
    fn lengths(&self, common: &Common) -> Lengths {
        Lengths {
            paused: Duration::from_secs(self.paused_seconds),
            away: Duration::from_secs(self.away_seconds),
            recovered_within: Duration::from_secs(common.seconds),
        }
    }

    async fn suffer(&self, test: &mut LoadTest, fault: ClusterFault, round: u32) -> Result<(), Fault> {
        let name = fault.name();
        if let Some(missing) = fault.missing() {
            test.note(&format!("left out: {name}"), missing.to_owned());
            return Ok(());
        }
        test.interrupted()?;
        test.progress.begin(name.to_owned());
        let field = Arc::new(FaultRun::new(test, self.environments, format!("{name}-{round}"))?);
        let steps = Steps::watch(test.server.cluster()?.home());
        let suffered = self.under_load(test, fault, &field).await?;
        let records = field.take_records();
        let audit = read_again(&field, &records, suffered.began).await;
        let intact = audits(&field).await;
        let (environments, retention) = (field.names(), test.common.retention());
        let history = History { records, audit, environments, alone: true, retention };
        let mut checks = test.check(&history);
        checks.extend([intact, steps.check()].map(|check| test.add_check(check)));
        report(test, fault, &field, &FaultResult { suffered, history, checks })
    }

    /// Runs the load, with the fault in its middle.
    async fn under_load(
        &self,
        test: &mut LoadTest,
        fault: ClusterFault,
        field: &Arc<FaultRun>,
    ) -> Result<Impact, Fault> {
        let mut running = JoinSet::new();
        for number in 0..test.common.connections {
            running.spawn(cycle(field.clone(), number));
        }
        if fault.has_steps() {
            (0..ORGANIZATIONS.len()).for_each(|number| _ = running.spawn(deploy(field.clone(), number)));
        }
        let calm = Duration::from_secs(self.calm_seconds);
        tokio::time::sleep(calm).await;
        let lengths = self.lengths(&test.common);
        let suffered = inject(fault, test.server.cluster()?, field, &lengths).await;
        tokio::time::sleep(calm).await;
        field.close();
        let ending = async { while running.join_next().await.is_some() {} };
        if tokio::time::timeout(CLIENTS_END_WITHIN, ending).await.is_err() {
            test.error(format!("{}: clients did not come to an end", fault.name()));
        }
        suffered
    }
}

struct FaultResult {
    suffered: Impact,
    history: History,
    checks: Vec<Check>,
}

fn report(test: &mut LoadTest, fault: ClusterFault, field: &FaultRun, seen: &FaultResult) -> Result<(), Fault> {
    let (name, told) = (fault.name(), field.told());
    let pauses = longest_pauses(&seen.history.records, seen.suffered.began, |number| field.shard_of(number));
    let is_hit = |(shard, _): &(u16, Duration)| seen.suffered.shards.contains(shard);
    let (hit, others): (Vec<_>, Vec<_>) = pauses.into_iter().partition(is_hit);
    let worst = |pauses: &[(u16, Duration)]| pauses.iter().map(|(_, pause)| pause.as_secs_f64()).reduce(f64::max);
    let count = |number: u64| Some(number as f64);
    let grants = seen.history.grants();
    test.figure(name, NO_GRANT, "s", worst(&hit));
    test.figure(name, "others for", "s", worst(&others));
    test.figure(name, CLIENT_ERRORS, "count", count(told.errors.values().sum()));
    test.figure(name, "sent again", "count", count(told.sent_again));
    test.figure(name, "grants", "count", count(grants as u64));
    test.figure(name, "take-overs", "count", count(seen.suffered.takeovers));
    for check in &seen.checks {
        test.figure(name, short_name(check), "count", count(check.found()));
    }
    for (answer, times) in told.statuses {
        *test.phase(name).statuses.entry(answer).or_default() += times;
    }
    if let Some(bound) = fault.granted_within_seconds() {
        test.aim(name, NO_GRANT, Goal::AtMost(bound));
    }
    test.aim(name, CLIENT_ERRORS, Goal::AtMost(0.0));
    test.progress.line(&format!("{name}: {grants} grants, {}", sentence(&hit)));
    if !told.errors.is_empty() || seen.checks.iter().any(|check| check.found() > 0) {
        keep_logs(test, &field.name)?;
    }
    told.errors.into_iter().for_each(|(what, times)| test.errors(format!("{name}: {what}"), times));
    Ok(())
}

fn keep_logs(test: &mut LoadTest, name: &str) -> Result<(), Fault> {
    let directory = std::env::temp_dir().join(format!("lockkeeper-failover-{}", std::process::id())).join(name);
    let kept = test.server.cluster()?.keep_logs(&directory, "");
    let told = kept.map_or_else(|error| format!("could not be kept: {error}"), |()| directory.display().to_string());
    test.note(&format!("logs of {name}"), told);
    Ok(())
}

/// A check's name as a column header.
fn short_name(check: &Check) -> &'static str {
    match check.name.as_str() {
        "one holder at a time" => "two holders",
        "fencing tokens rise" => "tokens wrong",
        "the queue keeps its order" => "overtaken",
        "what was acknowledged is seen later" => "lost",
        "no lock is left behind" => "left locked",
        AUDIT => "audits broken",
        STEPS => "steps at once",
        _ => "other",
    }
}
