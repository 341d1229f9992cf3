//! Runs real servers on loopback with several environments at a time, disturbs them, and checks every history. Bounded
//! by the number of histories and by time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::linearizability::checker::{Verdict, check};
use crate::linearizability::clients::{Environment, Losses, Shared};
use crate::linearizability::history::{Answer, History};
use crate::linearizability::report;
use crate::linearizability::report::minimised;
use crate::linearizability::requests::put_environment;
use crate::linearizability::subject::{Disturbance, Disturbances, Plan, RunError, Subject};
use crate::random::Random;
use crate::server::POLL;
use crate::sync::locked;
use crate::wire::Connection;

const LONGEST_PREPARATION: Duration = Duration::from_secs(60);
/// The maximum number of violations to write; a broken server violates the rules all the time.
const MAX_SHOWN: usize = 20;

#[derive(Debug, Default)]
pub struct Summary {
    pub histories: u32,
    pub operations: u64,
    pub unknown: u64,
    pub grants: u64,
    pub disturbances: Disturbances,
    pub violations: u64,
    pub undecided: u64,
    /// Each violation with its file.
    pub shown: Vec<String>,
    /// Unexpected answers, with their counts.
    pub errors: BTreeMap<String, u64>,
}

impl Summary {
    pub fn is_clean(&self) -> bool {
        self.violations + self.undecided == 0 && self.errors.is_empty()
    }

    pub fn text(&self, seed: u64, of_clusters: bool) -> String {
        let Summary { histories, operations, unknown, grants, violations, undecided, .. } = self;
        let errors = self.errors.iter().map(|(what, times)| format!("unexpected answer, {times} times: {what}\n"));
        let times = |what| self.disturbances.get(&what).copied().unwrap_or(0);
        let (kills, pauses) = (times(Disturbance::Kill), times(Disturbance::Pause));
        let disturbances = if of_clusters {
            format!(
                "{kills} kills, {pauses} pauses and {} stops of nodes ({} deposed), {} kills and {} pauses of members, {} \
                 take-overs",
                times(Disturbance::Stop),
                times(Disturbance::Deposed),
                times(Disturbance::MemberKill),
                times(Disturbance::MemberPause),
                times(Disturbance::Takeover)
            )
        } else {
            format!("{kills} kills, {pauses} pauses")
        };
        let shown: String = self.shown.iter().cloned().chain(errors).collect();
        format!(
            "{shown}{histories} histories, {operations} operations ({unknown} without an answer, {grants} grants), \
             {disturbances}: {violations} violations, {undecided} undecided (seed {seed})\n"
        )
    }
}

/// State shared by the servers of a run.
struct Run {
    plan: Plan,
    began: Instant,
    /// Number of the next history.
    next: Cell<u32>,
    summary: RefCell<Summary>,
    stop: watch::Receiver<bool>,
}

/// Runs until all histories are complete, the time is up, or the run is interrupted.
pub async fn run(plan: Plan, stop: watch::Receiver<bool>) -> Result<Summary, RunError> {
    let count = plan.servers;
    let run = Rc::new(Run { plan, began: Instant::now(), next: Cell::new(0), summary: RefCell::default(), stop });
    let mut servers = JoinSet::new();
    let local = tokio::task::LocalSet::new();
    for number in 0..count {
        servers.spawn_local_on(one_server(run.clone(), number), &local);
    }
    let ended: Result<(), RunError> = local
        .run_until(async {
            while let Some(ended) = servers.join_next().await {
                ended.expect("a task neither panics nor is aborted")?;
            }
            Ok(())
        })
        .await;
    ended.map(|()| std::mem::take(&mut *run.summary.borrow_mut()))
}

/// Creates histories on one server or cluster, which runs through all of them with the same data.
async fn one_server(run: Rc<Run>, number: u32) -> Result<(), RunError> {
    let (mut subject, shared) = Subject::start(&run.plan, run.began).await?;
    let shared = Arc::new(shared);
    let mut random = Random::branch(run.plan.seed, u64::from(number) << 32);
    while let Some(numbers) = run.take() {
        let environments = prepare(&run.plan, &shared, numbers).await?;
        let losses = match drive(&run, &environments, &mut subject, &mut random).await {
            Ok(losses) => losses,
            Err(error) => {
                subject.keep_logs(&run.plan.directory, &format!("{}-failure", run.plan.seed))?;
                return Err(error);
            }
        };
        let histories: Vec<History> = environments.iter().map(|environment| environment.history(&losses)).collect();
        let refused = run.judge(histories).await?;
        if let Some(first) = refused.first() {
            subject.keep_logs(&run.plan.directory, &format!("{}-violation-{first}", run.plan.seed))?;
        }
    }
    let errors = std::mem::take(&mut *locked(&shared.errors));
    if !errors.is_empty() {
        subject.keep_logs(&run.plan.directory, &format!("{}-unexpected", run.plan.seed))?;
    }
    for (what, times) in errors {
        *run.summary.borrow_mut().errors.entry(what).or_default() += times;
    }
    subject.stop().await
}

async fn prepare(plan: &Plan, shared: &Arc<Shared>, numbers: Range<u32>) -> Result<Vec<Arc<Environment>>, RunError> {
    let mut environments = Vec::new();
    for number in numbers {
        let name = format!("history-{number:06}");
        make(shared, &name).await?;
        let seed = Random::branch(plan.seed, number.into()).next();
        environments.push(Arc::new(Environment::new(shared.clone(), name, seed, plan.operations)));
    }
    Ok(environments)
}

/// Creates an environment. Retries, since a cluster may still be recovering from its last disturbance.
async fn make(shared: &Shared, environment: &str) -> Result<(), RunError> {
    let deadline = Instant::now() + LONGEST_PREPARATION;
    for node in shared.nodes.iter().cycle() {
        if let Ok(mut connection) = Connection::open(node.address).await
            && matches!(connection.exchange(&put_environment(&shared.api, environment)).await, Ok(200 | 201))
        {
            return Ok(());
        }
        if Instant::now() >= deadline {
            break;
        }
        tokio::time::sleep(POLL).await;
    }
    Err(RunError::NotPrepared)
}

/// Runs until all clients are done; returns the moments at which non-durable state was lost.
async fn drive(
    run: &Run,
    environments: &[Arc<Environment>],
    subject: &mut Subject,
    random: &mut Random,
) -> Result<Losses, RunError> {
    let shared = &environments[0].shared;
    let mut clients = JoinSet::new();
    for environment in environments {
        for number in 0..run.plan.clients {
            clients.spawn(environment.clone().drive(number));
        }
    }
    let (mut losses, mut done, began) = (Losses::default(), Disturbances::new(), shared.now());
    while !clients.is_empty() {
        let quiet = tokio::time::sleep(Duration::from_millis(random.within(subject.quiet())));
        tokio::select! {
            () = until_done(&mut clients) => break,
            () = quiet => {}
        }
        subject.disturb(shared, random, &mut losses, &mut done).await?;
    }
    subject.settle(shared, &mut done).await?;
    // These reads run without any other requests.
    for environment in environments {
        clients.spawn(environment.clone().look_at_the_end());
    }
    until_done(&mut clients).await;
    subject.complete(&mut losses).await?;
    done.insert(Disturbance::Takeover, losses.takeovers.iter().filter(|takeover| takeover.by > began).count() as u64);
    for (what, times) in done {
        *run.summary.borrow_mut().disturbances.entry(what).or_default() += times;
    }
    Ok(losses)
}

async fn until_done(clients: &mut JoinSet<()>) {
    while let Some(ended) = clients.join_next().await {
        ended.expect("a client neither panics nor is aborted");
    }
}

impl Run {
    /// Numbers of the next histories; `None` when all are complete or the time is up.
    fn take(&self) -> Option<Range<u32>> {
        if *self.stop.borrow() || self.began.elapsed() >= Duration::from_secs(self.plan.seconds) {
            return None;
        }
        let first = self.next.get();
        let after = (first + self.plan.together).min(self.plan.histories);
        self.next.set(after);
        (first < after).then_some(first..after)
    }

    /// Checks the histories, and returns the environments of the refused ones.
    async fn judge(&self, histories: Vec<History>) -> Result<Vec<String>, RunError> {
        let judging = tokio::task::spawn_blocking(move || {
            histories.into_iter().map(|history| (check(&history), history)).collect::<Vec<_>>()
        });
        let mut refused = Vec::new();
        for (verdict, history) in judging.await.expect("the check neither panics nor is aborted") {
            let mut summary = self.summary.borrow_mut();
            summary.histories += 1;
            summary.operations += history.records.len() as u64;
            summary.unknown += count(&history, |answer| *answer == Answer::Unknown);
            summary.grants += count(&history, |answer| matches!(answer, Answer::Granted { .. }));
            match verdict {
                Verdict::Linearizable => {}
                Verdict::Undecided { .. } => {
                    summary.undecided += 1;
                    let path = self.plan.write(&history, "undecided")?;
                    summary.shown.push(format!("too many orders are possible to decide: {}", path.display()));
                }
                Verdict::Violation(_) => {
                    summary.violations += 1;
                    refused.push(history.environment.clone());
                    if summary.shown.len() < MAX_SHOWN {
                        summary.shown.push(self.plan.write_violation(&history)?);
                    }
                }
            }
        }
        Ok(refused)
    }
}

impl Plan {
    /// Writes the whole history, and a minimized one that still shows the contradiction.
    fn write_violation(&self, history: &History) -> Result<String, RunError> {
        let whole = self.write(history, "violation")?;
        let short = minimised(history);
        let path = self.write(&short, "violation-short")?;
        let text = report::verdict(&short, &check(&short));
        let (path, whole, seed) = (path.display(), whole.display(), self.seed);
        Ok(format!("{text}    seed {seed}; the whole history: {whole}; in short: {path}\n"))
    }

    fn write(&self, history: &History, kind: &str) -> Result<PathBuf, RunError> {
        let path = self.directory.join(format!("{}-{kind}-{}.json", self.seed, history.environment));
        let text = serde_json::to_string(history).map_err(std::io::Error::other);
        let written = text.and_then(|text| std::fs::write(&path, text));
        written.map_err(|error| RunError::Unwritable(path.clone(), error)).map(|()| path)
    }
}

/// Checks a history from a file; returns a description of the fault, if there is one.
pub fn check_file(path: &Path) -> Result<Option<String>, std::io::Error> {
    let history: History = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    Ok(match check(&history) {
        Verdict::Linearizable => None,
        verdict => Some(report::verdict(&history, &verdict)),
    })
}

fn count(history: &History, what: impl Fn(&Answer) -> bool) -> u64 {
    history.records.iter().filter(|record| what(&record.answer)).count() as u64
}
