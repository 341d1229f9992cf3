//! Runs one segment of load: the threads work, the timeline is recorded, and when all clients have stopped, the records
//! are checked and dropped. So a long run needs only the memory of one segment.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::engine::client::{Client, clients};
use crate::engine::load_test::{Fault, LoadTest};
use crate::engine::phase::Sampler;
use crate::engine::recorder::handoffs;
use crate::engine::schedule::Arrivals;
use crate::engine::tally::{Operation, Tally};
use crate::engine::threads::{ClientThread, Work};
use crate::history::{Answer, History, Record, SessionName};
use crate::report::{Check, quotient};
use crate::server::Server;

/// The limit for requests in flight when a segment ends: the remaining waiters are then served one by one.
const GRACE: Duration = Duration::from_secs(30);
const AUDIT_LIMIT: Duration = Duration::from_secs(60);
/// The maximum number of listed violations; more would not be read.
const MAX_VIOLATIONS: usize = 20;

pub struct Segment {
    pub phase: String,
    pub limit: Duration,
    /// Requests per second, whether or not the server keeps up; without a rate, a client sends its next request after
    /// the last answer.
    pub rate: Option<f64>,
    /// Time for leases and waits to end before the final reads.
    pub settle: Duration,
}

pub struct Observation {
    /// Seconds until the last accepted answer.
    pub seconds: f64,
    pub handoffs: u64,
    pub cpu_microseconds: Option<u64>,
    pub tally: Tally,
}

/// The actions on the server while load runs.
pub struct Interference<'a> {
    server: &'a mut Server,
    marks: mpsc::Sender<String>,
    clients: Vec<Arc<ClientThread>>,
}

impl Interference<'_> {
    /// Kills the server with `kill -9` and restarts it; returns the time until it was ready.
    pub async fn restart(&mut self) -> Result<Duration, Fault> {
        self.server.kill()?;
        self.mark("server killed");
        self.clients.iter().for_each(|thread| thread.drop_connections());
        let took = self.server.start_again().await?;
        self.mark("server ready");
        Ok(took)
    }

    /// Adds a mark to the timeline.
    fn mark(&self, text: &str) {
        self.marks.send(text.to_owned()).expect("the timeline outlives what is done to the server");
    }
}

impl Observation {
    pub fn count(&self, operation: Operation) -> u64 {
        self.tally.count(operation)
    }

    pub fn rate(&self, operation: Operation) -> Option<f64> {
        quotient(self.count(operation) as f64, self.seconds)
    }

    /// Server CPU in microseconds per request or cycle; `count` is their number.
    pub fn cpu_per(&self, count: u64) -> Option<f64> {
        quotient(self.cpu_microseconds? as f64, count as f64)
    }

    pub fn quantile(&self, operation: Operation, quantile: f64) -> Option<f64> {
        Some(self.tally.latencies.of(operation)?.value_at_quantile(quantile) as f64)
    }

    pub fn counted(&self, what: &str) -> u64 {
        self.tally.findings.counts.get(what).copied().unwrap_or(0)
    }
}

impl LoadTest {
    /// A segment of the length set by the scenario.
    pub fn segment(&self, phase: &str) -> Segment {
        let limit = Duration::from_secs(self.common.seconds);
        Segment { phase: phase.to_owned(), limit, rate: self.common.open_rate(), settle: Duration::ZERO }
    }

    pub async fn measure(&mut self, segment: Segment, work: Work) -> Result<Observation, Fault> {
        self.measure_beside(segment, work, async |_| Ok(())).await
    }

    /// Like `measure`, while `beside` acts on the server.
    pub async fn measure_beside(
        &mut self,
        segment: Segment,
        work: Work,
        beside: impl AsyncFnOnce(Interference<'_>) -> Result<(), Fault>,
    ) -> Result<Observation, Fault> {
        self.segments += 1;
        self.recorder.reset();
        self.progress.begin(segment.phase.clone());
        let arrivals = segment.rate.map(Arrivals::begin).transpose().map_err(Fault::NoThreads)?;
        let cpu_before = self.server.meter().cpu();
        let began = Instant::now();
        self.perform(&segment, &work, arrivals.clone(), beside).await?;
        let cpu = cpu_before.zip(self.server.meter().cpu()).and_then(|(before, after)| after.since(before));
        let tally = self.threads.take_tally();
        let seconds = tally.elapsed_since(began).as_secs_f64();
        let mut seen = Observation { seconds, handoffs: 0, cpu_microseconds: cpu, tally };
        seen.handoffs = self.judge(&segment, &mut seen.tally).await?;
        self.gather(&segment, &seen, arrivals.as_deref());
        // A handoff consists of two requests that are already counted.
        let asked = Operation::all().filter(|operation| *operation != Operation::Handoff);
        let requests: u64 = asked.map(|operation| seen.count(operation)).sum();
        let rate = requests as f64 / seconds.max(1e-3);
        self.progress.line(&format!("{}: {requests} requests, {rate:.0}/s", segment.phase));
        self.interrupted()?;
        Ok(seen)
    }

    /// Checks a history recorded outside a segment, and returns the result of each rule.
    pub fn check(&mut self, history: &History) -> Vec<Check> {
        let checks = crate::checks::all(history);
        merge_checks(&mut self.checks, checks.clone());
        checks
    }

    /// Adds the result of a rule that is not checked against a history.
    pub fn add_check(&mut self, check: Check) -> Check {
        merge_checks(&mut self.checks, vec![check.clone()]);
        check
    }

    async fn perform(
        &mut self,
        segment: &Segment,
        work: &Work,
        arrivals: Option<Arc<Arrivals>>,
        beside: impl AsyncFnOnce(Interference<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let (marks, marked) = mpsc::channel();
        let mut sampler = Sampler::new(self.segments, self.origin, self.server.meter().clone());
        self.phase(&segment.phase);
        let index = self.phases.iter().position(|phase| phase.name == segment.phase).unwrap_or(0);
        let timeline = &mut self.phases[index].timeline;
        let until = tokio::time::Instant::now() + segment.limit;
        let mut performing = pin!(self.threads.perform(work, arrivals, until, GRACE));
        let clients = self.threads.clients.clone();
        let interference = Interference { server: &mut self.server, marks, clients };
        let mut beside = pin!(beside(interference));
        let mut beside_done = false;
        loop {
            tokio::select! {
                done = &mut performing => {
                    done?;
                    break;
                }
                outcome = &mut beside, if !beside_done => {
                    outcome?;
                    beside_done = true;
                }
                () = tokio::time::sleep(timeline.width()) => {
                    let slice = sampler.slice(&self.threads.clients, marked.try_iter().collect());
                    self.progress.update(&sampler.describe(&slice));
                    timeline.push(slice);
                }
            }
        }
        if !beside_done {
            beside.await?;
        }
        timeline.push(sampler.slice(&self.threads.clients, marked.try_iter().collect()));
        Ok(())
    }

    /// Reads the state left behind, and checks the whole segment.
    async fn judge(&mut self, segment: &Segment, tally: &mut Tally) -> Result<u64, Fault> {
        let records = self.threads.take_records();
        let handed = handoffs(&records);
        let phase = self.phase(&segment.phase);
        for (at, took) in &handed {
            tally.latencies.record(Operation::Handoff, *took);
            phase.timeline.record(Operation::Handoff, at.0 as f64 / 1e9, *took);
        }
        let cut = self.recorder.was_cut();
        if cut {
            let text = format!("the first {} requests of a segment of load, without the final audit", records.len());
            self.note("recorded for the checks", text);
        }
        let plan = if cut { Vec::new() } else { audit_plan(&records) };
        let scope = self.scope.clone();
        let (mut history, numbers) =
            self.recorder.history(records, |number| scope.environment_name(number), self.retention);
        if !plan.is_empty() {
            tokio::time::sleep(segment.settle).await;
            self.progress.begin(format!("{}: looking at what was left behind", segment.phase));
            self.recorder.reset();
            let until = tokio::time::Instant::now() + AUDIT_LIMIT;
            self.threads.perform(&audit_reads(plan), None, until, AUDIT_LIMIT).await?;
            history.audit = self.threads.take_records();
            for record in &mut history.audit {
                record.environment = record.environment.and_then(|number| numbers.get(&number).copied());
            }
            let audited = self.threads.take_tally();
            self.findings.merge(audited.findings);
        }
        self.progress.begin(format!("{}: checking", segment.phase));
        merge_checks(&mut self.checks, crate::checks::all(&history));
        Ok(handed.len() as u64)
    }

    fn gather(&mut self, segment: &Segment, seen: &Observation, arrivals: Option<&Arrivals>) {
        let lateness = seen.tally.lateness.as_ref().map(|lateness| lateness.value_at_quantile(0.99) as f64);
        let phase = self.phase(&segment.phase);
        phase.latencies.merge(&seen.tally.latencies);
        for (status, count) in &seen.tally.findings.statuses {
            *phase.statuses.entry(*status).or_default() += count;
        }
        phase.figures.add("sent after due, p99", "µs", lateness);
        phase.figures.add("due and never sent", "", arrivals.map(|arrivals| arrivals.never_taken() as f64));
        for (what, times) in &seen.tally.findings.errors {
            self.findings.add_errors(what.clone(), *times);
        }
    }
}

fn merge_checks(all: &mut Vec<Check>, fresh: Vec<Check>) {
    for check in fresh {
        match all.iter_mut().find(|known| known.name == check.name) {
            Some(known) => {
                known.examined += check.examined;
                known.violation_count += check.violation_count;
                known.violations.extend(check.violations);
                known.violations.truncate(MAX_VIOLATIONS);
            }
            None => all.push(check),
        }
    }
}

/// The maximum number of environments to read: reading more would take longer than the load itself.
const MAX_ENVIRONMENTS: usize = 10_000;
/// Enough connections to keep the server busy.
const CONNECTIONS: u32 = 16;

/// The reads to do: environments, each with its newest acknowledged session.
fn audit_plan(records: &[Record]) -> Vec<(u32, Option<SessionName>)> {
    let mut newest: HashMap<u32, (u64, Option<&SessionName>)> = HashMap::new();
    for record in records {
        let Some(environment) = record.environment else { continue };
        if newest.len() >= MAX_ENVIRONMENTS && !newest.contains_key(&environment) {
            continue;
        }
        let seen = newest.entry(environment).or_insert((0, None));
        if let Answer::Granted { session, fencing } = &record.answer
            && (seen.1.is_none() || *fencing > seen.0)
        {
            *seen = (*fencing, Some(session));
        }
    }
    let mut plan: Vec<_> = newest.into_iter().map(|(number, (_, session))| (number, session.cloned())).collect();
    plan.sort_unstable_by_key(|(number, _)| *number);
    plan
}

fn audit_reads(plan: Vec<(u32, Option<SessionName>)>) -> Work {
    let plan = Arc::new(plan);
    clients(CONNECTIONS, move |client| read_share(client, plan.clone()))
}

async fn read_share(mut client: Client, plan: Arc<Vec<(u32, Option<SessionName>)>>) {
    for (environment, session) in plan.iter().skip(client.number as usize).step_by(CONNECTIONS as usize) {
        // A failed read is counted as an error, and the checks get no answer.
        _ = client.read(*environment).await;
        if let Some(session) = session {
            _ = client.read_session(*environment, session.clone()).await;
        }
        // Continues even if the run was stopped: the report of a stopped run relies on these reads.
        if client.is_hopeless() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Moment, Request};

    fn granted(environment: u32, session: &str, fencing: u64) -> Record {
        Record {
            client: 0,
            environment: Some(environment),
            request: Request::ForceClaim,
            sent: Moment(0),
            ended: Moment(1),
            answer: Answer::Granted { session: SessionName(session.into()), fencing },
        }
    }

    #[test]
    fn the_newest_session_of_each_environment_is_read() {
        let read = Record { answer: Answer::Unknown, ..granted(3, "", 0) };
        let plan = audit_plan(&[granted(2, "b", 8), granted(1, "a", 1), granted(2, "c", 7), read]);
        let name = |text: &str| Some(SessionName(text.into()));
        assert_eq!(plan, [(1, name("a")), (2, name("b")), (3, None)]);
    }

    #[test]
    fn the_number_of_environments_is_bounded() {
        let records: Vec<_> = (0..20_000).map(|number| granted(number, "a", 1)).collect();
        assert_eq!(audit_plan(&records).len(), MAX_ENVIRONMENTS);
    }
}
