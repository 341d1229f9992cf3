//! Owns a run: real servers on loopback, several environments at a time, kills and pauses meanwhile, and the check of every
//! history. Bounded by the number of histories and by time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::linearizability::checker::{Verdict, check};
use crate::linearizability::clients::{Environment, Shared};
use crate::linearizability::history::{Answer, History, Moment};
use crate::linearizability::minimise::minimised;
use crate::linearizability::random::Random;
use crate::linearizability::{requests, shown};
use crate::server::process::{Launch, Process};
use crate::server::running::ProcessError;
use crate::server::token::Token;
use crate::wire::connection::Connection;

/// Between two disturbances of a server, in milliseconds.
const QUIET: Range<u64> = 150..1_200;
/// Of a pause, in milliseconds.
const PAUSE: Range<u64> = 20..400;
/// How often a disturbance is a kill and not a pause, in percent.
const KILLS: u64 = 45;
/// Where the environments of the sample organization are.
const BASE: &str = "/api/v1/organizations/acme/pipelines/web/ephemeral-environments/";
/// Violations that are written down; a server that breaks its promises breaks them all the time.
const MAX_SHOWN: usize = 20;

pub struct Plan {
    pub program: PathBuf,
    pub histories: u32,
    pub operations: u32,
    pub clients: u32,
    /// Histories at a time on each server.
    pub together: u32,
    pub servers: u32,
    pub seed: u64,
    pub limit: Duration,
    /// Where histories that are refused are written to.
    pub directory: PathBuf,
}

#[derive(Debug, Default)]
pub struct Summary {
    pub histories: u32,
    pub operations: u64,
    pub unknown: u64,
    pub grants: u64,
    pub kills: u64,
    pub pauses: u64,
    pub violations: u64,
    pub undecided: u64,
    /// Each violation with its file.
    pub shown: Vec<String>,
    /// Answers that no request should get.
    pub errors: BTreeMap<String, u64>,
    /// Not all histories were made: time was up, or somebody asked for the end.
    pub ended_early: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("cannot make an environment for a history")]
    NotPrepared,
    #[error("cannot write {0}: {1}")]
    Unwritable(PathBuf, std::io::Error),
}

/// What the servers of a run share.
struct Run {
    plan: Plan,
    began: Instant,
    /// Number of the next history.
    next: Cell<u32>,
    summary: RefCell<Summary>,
    stop: watch::Receiver<bool>,
}

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
    ended?;
    let mut summary = std::mem::take(&mut *run.summary.borrow_mut());
    summary.ended_early = summary.histories < run.plan.histories;
    Ok(summary)
}

/// Histories on one server, which lives through all of them on the same data.
async fn one_server(run: Rc<Run>, number: u32) -> Result<(), RunError> {
    let token = Token::random();
    let launch = Launch {
        program: run.plan.program.clone(),
        arguments: Vec::new(),
        variables: Vec::new(),
        data_dir: None,
        token: token.clone(),
    };
    let mut process = Process::start(launch).await?;
    let address = process.address();
    let shared = Arc::new(Shared {
        address,
        headers: format!("Host: {address}\r\nAuthorization: Bearer {}\r\n", token.reveal()),
        base: BASE.to_owned(),
        origin: run.began,
        life: AtomicU32::new(0),
        errors: Mutex::default(),
    });
    let mut random = Random::branch(run.plan.seed, u64::from(number) << 32);
    while let Some(numbers) = run.take() {
        let environments = prepare(&run.plan, &shared, numbers).await?;
        let kills = drive(&run, &environments, &mut process, &mut random).await?;
        let histories: Vec<History> = environments.iter().map(|environment| environment.history(&kills)).collect();
        run.judge(histories).await?;
    }
    for (what, times) in shared.errors.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        *run.summary.borrow_mut().errors.entry(what.clone()).or_default() += times;
    }
    Ok(process.stop().await?)
}

async fn prepare(plan: &Plan, shared: &Arc<Shared>, numbers: Range<u32>) -> Result<Vec<Arc<Environment>>, RunError> {
    let mut connection = Connection::open(shared.address).await.map_err(|_| RunError::NotPrepared)?;
    let mut environments = Vec::new();
    for number in numbers {
        let name = format!("history-{number:06}");
        let made = connection.exchange(&requests::put(shared, &name)).await;
        if !matches!(made, Ok(201)) {
            return Err(RunError::NotPrepared);
        }
        let seed = Random::branch(plan.seed, number.into()).next();
        environments.push(Arc::new(Environment::new(shared.clone(), name, seed, plan.operations)));
    }
    Ok(environments)
}

/// Until all clients are done; says when the server was killed.
async fn drive(
    run: &Run,
    environments: &[Arc<Environment>],
    process: &mut Process,
    random: &mut Random,
) -> Result<Vec<Moment>, RunError> {
    let mut clients = JoinSet::new();
    for environment in environments {
        for number in 0..run.plan.clients {
            clients.spawn(environment.clone().drive(number));
        }
    }
    let mut kills = Vec::new();
    while !clients.is_empty() {
        let quiet = tokio::time::sleep(Duration::from_millis(random.within(QUIET)));
        tokio::select! {
            () = until_done(&mut clients) => break,
            () = quiet => {}
        }
        kills.extend(disturb(run, &environments[0].shared, process, random).await?);
    }
    // Read while nothing else is asked.
    for environment in environments {
        clients.spawn(environment.clone().look_at_the_end());
    }
    until_done(&mut clients).await;
    Ok(kills)
}

async fn until_done(clients: &mut JoinSet<()>) {
    while let Some(ended) = clients.join_next().await {
        ended.expect("a client neither panics nor is aborted");
    }
}

/// Kills and starts it again, or lets it stand still for a while.
async fn disturb(
    run: &Run,
    shared: &Shared,
    process: &mut Process,
    random: &mut Random,
) -> Result<Option<Moment>, RunError> {
    if random.percent(KILLS) {
        process.kill()?;
        let killed = shared.now();
        shared.life.fetch_add(1, Ordering::Relaxed);
        process.start_again().await?;
        run.summary.borrow_mut().kills += 1;
        return Ok(Some(killed));
    }
    process.pause()?;
    tokio::time::sleep(Duration::from_millis(random.within(PAUSE))).await;
    process.resume()?;
    run.summary.borrow_mut().pauses += 1;
    Ok(None)
}

impl Run {
    /// Numbers of the next histories; none when all are made or time is up.
    fn take(&self) -> Option<Range<u32>> {
        if *self.stop.borrow() || self.began.elapsed() >= self.plan.limit {
            return None;
        }
        let first = self.next.get();
        let after = (first + self.plan.together).min(self.plan.histories);
        self.next.set(after);
        (first < after).then_some(first..after)
    }

    async fn judge(&self, histories: Vec<History>) -> Result<(), RunError> {
        let judging = tokio::task::spawn_blocking(move || {
            histories.into_iter().map(|history| (check(&history), history)).collect::<Vec<_>>()
        });
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
                    if summary.shown.len() < MAX_SHOWN {
                        summary.shown.push(self.plan.write_violation(&history)?);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Plan {
    /// The whole history, and what is left of it when all that the contradiction does not need is gone.
    fn write_violation(&self, history: &History) -> Result<String, RunError> {
        let whole = self.write(history, "violation")?;
        let short = minimised(history);
        let path = self.write(&short, "violation-short")?;
        let text = shown::verdict(&short, &check(&short));
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

/// Checks a history that was written before; says what is wrong with it, if anything.
pub fn check_file(path: &Path) -> Result<Option<String>, std::io::Error> {
    let history: History = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    Ok(match check(&history) {
        Verdict::Linearizable => None,
        verdict => Some(shown::verdict(&history, &verdict)),
    })
}

fn count(history: &History, what: impl Fn(&Answer) -> bool) -> u64 {
    history.records.iter().filter(|record| what(&record.answer)).count() as u64
}
