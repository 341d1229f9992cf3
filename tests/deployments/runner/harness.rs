//! A runner with a host that records its calls, and jobs for it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delivery::logs::{LogId, Logs};
use delivery::runner::{Host, Mask, Options, Runner, StageJob, StepInputs, Variable};
use domain::{
    Action, ApprovalRule, Blueprint, CommitId, Configuration, DeploymentId, EnvironmentKey, IdSeed, Identifier, Origin,
    PipelineKey, SessionId, Stage, StageEnd, StageOrder, Step, StepRun, Timestamp,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use outbound::{Destination, Policy};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::sync::{mpsc, watch};
use zeroize::Zeroizing;

pub const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Never ends within a test.
pub const FOR_EVER: Duration = Duration::from_secs(3_600);
pub const SHORT: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    Begun(DeploymentId),
    Progress(DeploymentId, Vec<StepRun>),
    Ended(DeploymentId, StageEnd, Vec<StepRun>),
    Swept(DeploymentId),
}

/// The host's answer to a request for variables.
type Given = Box<dyn Fn() -> Result<StepInputs, String> + Send>;

pub struct FakeHost {
    reports: mpsc::UnboundedSender<Report>,
    pub variables: Mutex<Given>,
    /// Whether a stage that is about to begin is still wanted; until this is set, it waits, and so does a sweep.
    pub wanted: watch::Sender<Option<bool>>,
    /// Whether the host answers that it still owns all environments.
    pub owns: AtomicBool,
    /// How often it was asked that.
    asked: watch::Sender<u32>,
}

impl FakeHost {
    fn hear(&self, reports: Report) {
        self.reports.send(reports).ok();
    }

    /// Resolves after this many more questions whether the host still owns an environment.
    pub async fn asked(&self, times: u32) {
        let mut asked = self.asked.subscribe();
        let wanted = *asked.borrow() + times;
        within_reason(asked.wait_for(|asked| *asked >= wanted)).await.unwrap();
    }
}

impl Host for FakeHost {
    fn inputs<'a>(&'a self, _: &'a StageJob) -> BoxFuture<'a, Result<StepInputs, String>> {
        async { self.variables.lock().unwrap()() }.boxed()
    }

    fn begun<'a>(&'a self, job: &'a StageJob) -> BoxFuture<'a, bool> {
        self.hear(Report::Begun(job.order.deployment));
        let mut wanted = self.wanted.subscribe();
        async move { wanted.wait_for(Option::is_some).await.unwrap().unwrap() }.boxed()
    }

    fn progress<'a>(&'a self, job: &'a StageJob, steps: Vec<StepRun>) -> BoxFuture<'a, ()> {
        self.hear(Report::Progress(job.order.deployment, steps));
        async {}.boxed()
    }

    fn ended<'a>(&'a self, job: &'a StageJob, end: StageEnd, steps: Vec<StepRun>) -> BoxFuture<'a, ()> {
        self.hear(Report::Ended(job.order.deployment, end, steps));
        async {}.boxed()
    }

    fn swept<'a>(&'a self, _: &'a EnvironmentKey, deployment: DeploymentId) -> BoxFuture<'a, ()> {
        self.hear(Report::Swept(deployment));
        let mut wanted = self.wanted.subscribe();
        async move { _ = wanted.wait_for(Option::is_some).await.unwrap() }.boxed()
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_000)
    }

    fn may_act(&self, _: &EnvironmentKey) -> bool {
        let owns = self.owns.load(Ordering::SeqCst);
        self.asked.send_modify(|asked| *asked += 1);
        owns
    }
}

pub struct Harness {
    pub runner: Runner,
    pub logs: Logs,
    pub host: Arc<FakeHost>,
    pub reports: mpsc::UnboundedReceiver<Report>,
    pub work_dir: PathBuf,
    _dir: tempfile::TempDir,
}

impl Harness {
    pub fn new(max_running: usize, grace: Duration) -> Self {
        Self::with(max_running, grace, 1 << 20)
    }

    pub fn with(max_running: usize, grace: Duration, log_bytes_per_step: u64) -> Self {
        Self::open(max_running, grace, log_bytes_per_step, None, 1)
    }

    /// As on a node of a cluster: the processes of steps need proof that the host still owns their environment.
    pub fn leased(step_lease: Duration) -> Self {
        Self::open(1, FOR_EVER, 1 << 20, Some(step_lease), 1)
    }

    /// As on a server with a second organization, which keeps this much output of a step.
    pub fn shared(log_bytes_per_step: u64) -> Self {
        Self::open(1, FOR_EVER, log_bytes_per_step, None, 2)
    }

    fn open(
        max_running: usize,
        grace: Duration,
        log_bytes_per_step: u64,
        step_lease: Option<Duration>,
        organizations: usize,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let logs = Logs::open(&dir.path().join("logs"), u64::MAX).unwrap();
        let (sender, reports) = mpsc::unbounded_channel();
        let variables: Given = Box::new(|| Ok(StepInputs { variables: Vec::new(), mask: Mask::new([])? }));
        let host = Arc::new(FakeHost {
            reports: sender,
            variables: Mutex::new(variables),
            wanted: watch::channel(Some(true)).0,
            owns: AtomicBool::new(true),
            asked: watch::channel(0).0,
        });
        let work_dir = dir.path().join("work");
        let options = Options {
            umask: 0o022,
            policy: Policy::new(vec![Destination::parse("127.0.0.0/8").unwrap()]),
            max_running,
            organizations,
            grace,
            path: PATH.to_owned(),
            work_dir: work_dir.clone(),
            log_bytes_per_step,
            supervisor: PathBuf::from(env!("CARGO_BIN_EXE_lockkeeper")),
            isolation: None.into(),
            step_lease,
            disk: None,
            max_disk_bytes: None,
            write_pace: None,
        };
        let runner = Runner::new(options, logs.clone(), host.clone());
        Self { runner, logs, host, reports, work_dir, _dir: dir }
    }

    pub fn set_variables(&self, variables: &[(&str, &str, bool)]) {
        let secrets = variables.iter().filter(|(_, _, secret)| *secret).map(|(_, value, _)| *value);
        let mask = Mask::new(secrets).unwrap();
        let variables = variables
            .iter()
            .map(|(name, value, _)| Variable { name: (*name).to_owned(), value: Zeroizing::new((*value).to_owned()) });
        let inputs = StepInputs { variables: variables.collect(), mask };
        *self.host.variables.lock().unwrap() = Box::new(move || Ok(inputs.clone()));
    }

    pub async fn hear(&mut self) -> Report {
        within_reason(self.reports.recv()).await.unwrap()
    }

    /// The next end of a stage.
    pub async fn end(&mut self) -> (DeploymentId, StageEnd, Vec<StepRun>) {
        loop {
            if let Report::Ended(deployment, end, steps) = self.hear().await {
                return (deployment, end, steps);
            }
        }
    }

    /// Runs one stage to its end.
    pub async fn run(&mut self, job: StageJob) -> (StageEnd, Vec<StepRun>) {
        self.runner.start(job);
        let (_, end, steps) = self.end().await;
        (end, steps)
    }

    pub fn text(&self, number: u8) -> String {
        let mut text = Vec::new();
        let mut reader = self.logs.read(&log(number), 0);
        while let Some(line) = reader.next_line().unwrap() {
            text.extend(line.bytes);
            text.extend(line.ends_line.then_some(b'\n'));
        }
        String::from_utf8(text).unwrap()
    }

    /// The number that a step prints after this word.
    pub async fn number_after(&self, job: u8, word: &str) -> i32 {
        let line = self.line(job, word).await;
        line[word.len()..].trim().parse().unwrap()
    }

    /// The whole line that begins with this text, once it is written.
    pub async fn line(&self, job: u8, beginning: &str) -> String {
        let mut watch = self.logs.watch(deployment(job));
        loop {
            watch.mark_unchanged();
            let text = self.text(job);
            let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
            if let Some(line) = lines.into_iter().find(|line| line.starts_with(beginning)) {
                return line.to_owned();
            }
            within_reason(watch.changed()).await.unwrap();
        }
    }
}

/// Makes a hanging test fail.
pub async fn within_reason<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), future).await.expect("it takes far too long")
}

thread_local! {
    /// Each test has its own thread. A sweep in one test must not hit processes of another.
    static TEST: u64 = rand::random();
}

pub fn deployment(number: u8) -> DeploymentId {
    let mut seed = [number; 12];
    seed[4..].copy_from_slice(&TEST.with(|test| test.to_be_bytes()));
    DeploymentId(IdSeed(seed))
}

pub fn log(number: u8) -> LogId {
    LogId::whole(&environment("web").pipeline.organization, deployment(number))
}

pub fn environment(pipeline: &str) -> EnvironmentKey {
    let id = |text| Identifier::parse(text).unwrap();
    EnvironmentKey { pipeline: PipelineKey { organization: id("acme"), pipeline: id(pipeline) }, name: id("review-1") }
}

/// A stage of these steps, named `step-1` and so on.
pub fn job(number: u8, actions: Vec<Action>) -> StageJob {
    let step = |(index, action)| Step::own(Identifier::parse(&format!("step-{}", index + 1)).unwrap(), action);
    let stage = Stage {
        name: Identifier::parse("build").unwrap(),
        approval: ApprovalRule::Never,
        timeout_seconds: 3_600,
        idempotent: false,
        steps: actions.into_iter().enumerate().map(step).collect(),
    };
    let blueprint = Blueprint { stages: vec![stage], variables: BTreeMap::new(), self_approval: true };
    let order = StageOrder {
        deployment: deployment(number),
        session: Some(SessionId { seed: IdSeed([number; 12]), origin: Origin::Granted(7) }),
        fencing_token: 7,
        commit: CommitId::parse("c0ffee1").unwrap(),
        stage: 0,
        attempt: 1,
        blueprint: Arc::new(blueprint),
        configuration: Arc::new(Configuration::default()),
    };
    StageJob { environment: environment("web"), order }
}

pub fn run(arguments: &[&str]) -> Action {
    Action::Run(arguments.iter().map(|argument| Arc::from(*argument)).collect())
}

pub fn sh(script: &str) -> Action {
    run(&["sh", "-c", script])
}

pub fn failed(reason: &str) -> StageEnd {
    StageEnd::Failed(Arc::from(reason))
}

/// Whether it is no longer running; its adoptive parent may not have noticed yet.
pub fn is_gone(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
}

pub async fn until_gone(pid: i32) {
    let Ok(handle) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) else { return };
    let gone = tokio::task::spawn_blocking(move || {
        poll(&mut [PollFd::new(&handle, PollFlags::IN)], None).unwrap();
    });
    within_reason(gone).await.unwrap();
}
