//! The runner's interface to the server it runs in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use zeroize::Zeroizing;

use super::control_groups::ControlGroups;
use super::mask::Mask;
use super::protocol::Confinement;
use super::work_dirs;
use super::write_pace::WritePace;
use domain::{DeploymentId, EnvironmentKey, Identifier, StageEnd, StageOrder, StepRun, Timestamp};
use outbound::Policy;
use shares::Disk;

#[derive(Debug, Clone)]
pub struct Options {
    /// The number of concurrent stages; each runs one step at a time. At most [`RUNNING_MAX`].
    pub max_running: usize,
    /// The number of organizations that share these stages.
    pub organizations: usize,
    /// The time between asking a step to end and killing it.
    pub grace: Duration,
    /// `PATH` of the steps, unless a variable sets it.
    pub path: String,
    /// An absolute path. Each deployment has a directory in it, in which its steps start.
    pub work_dir: PathBuf,
    /// The amount of a step's output that is kept.
    pub log_bytes_per_step: u64,
    /// The file mode creation mask of steps. Not the server's, since steps create files for others to read.
    pub umask: u32,
    /// The policy for requests of steps.
    pub policy: Policy,
    /// The program that supervises steps, which is this one: [`OWN_PROGRAM`].
    pub supervisor: PathBuf,
    pub isolation: SharedIsolation,
    /// How long the processes of a step may continue after the last moment at which [`Host::may_act`] held. At least
    /// some seconds. `None`: no other machine can take over, and they may run for as long as the server lives.
    pub step_lease: Option<Duration>,
    /// The disk whose space the working directories use; `None` disables the check.
    pub disk: Option<Disk>,
    /// The limit for a deployment's directories; `None`: no separate limit.
    pub max_disk_bytes: Option<u64>,
    /// `None`: steps write without a limit.
    pub write_pace: Option<WritePace>,
}

/// The confinement of steps, set once it has been probed. Until then no step runs: a layer that fails because of a full
/// disk must not count as missing. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct SharedIsolation(Arc<OnceLock<Option<Isolation>>>);

impl SharedIsolation {
    /// `None`: steps may do whatever the server's user may. Only the first call counts.
    pub fn set(&self, isolation: Option<Isolation>) {
        self.0.set(isolation).ok();
    }

    /// `None` if it is not known yet.
    pub fn get(&self) -> Option<Isolation> {
        self.as_ref().cloned()
    }

    pub(super) fn is_known(&self) -> bool {
        self.0.get().is_some()
    }

    pub(super) fn as_ref(&self) -> Option<&Isolation> {
        self.0.get()?.as_ref()
    }

    pub(super) fn groups(&self) -> Option<&ControlGroups> {
        self.as_ref()?.groups.as_ref()
    }

    /// The directories of a deployment's control groups.
    pub(super) fn groups_of(&self, deployment: DeploymentId) -> Vec<PathBuf> {
        self.groups().map(|groups| groups.of(&deployment.to_string())).unwrap_or_default()
    }
}

impl From<Option<Isolation>> for SharedIsolation {
    fn from(isolation: Option<Isolation>) -> Self {
        Self(Arc::new(OnceLock::from(isolation)))
    }
}

/// The confinement of all organizations' steps.
#[derive(Debug, Clone)]
pub struct Isolation {
    /// The common part of all confinements, without user and directories.
    pub template: Confinement,
    /// The user of each organization; none if steps run as the server's user.
    pub users: BTreeMap<Identifier, u32>,
    /// `None` if this machine has no usable groups; then limits hold per process.
    pub groups: Option<ControlGroups>,
}

impl Isolation {
    /// The confinement of a step in this directory.
    pub(super) fn confinement(&self, organization: &Identifier, work_dir: &Path) -> Confinement {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Confinement {
            user: self.users.get(organization).copied(),
            work_dir: text(work_dir),
            temporary_dir: text(&work_dirs::temporary(work_dir)),
            ..self.template.clone()
        }
    }
}

/// Each running step occupies one of the runtime's 512 threads for blocking work.
pub const RUNNING_MAX: usize = 256;

/// This program, even if its file was replaced or removed since it started.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// One stage of a deployment to this environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageJob {
    pub environment: EnvironmentKey,
    pub order: StageOrder,
}

/// The variables and secrets of a stage's steps.
#[derive(Clone)]
pub struct StepInputs {
    /// Of two variables with the same name, the later one wins.
    pub variables: Vec<Variable>,
    /// Masks the secrets among them wherever they would be shown.
    pub mask: Mask,
}

/// An environment variable of a step.
#[derive(Clone)]
pub struct Variable {
    pub name: String,
    pub value: Zeroizing<String>,
}

/// The server, as the runner sees it.
pub trait Host: Send + Sync + 'static {
    /// All variables of a step except `LOCKKEEPER_…`. Called when the stage begins, so that secrets are current. The
    /// error is one sentence.
    fn inputs<'a>(&'a self, job: &'a StageJob) -> BoxFuture<'a, Result<StepInputs, String>>;

    /// The stage is about to begin. Resolves when that is durable; false if the stage is no longer wanted.
    fn begun<'a>(&'a self, job: &'a StageJob) -> BoxFuture<'a, bool>;

    /// The part of the deployment's log that the stage writes, once it has begun: more than one only in a cluster. Must
    /// not block.
    fn log_part(&self, _job: &StageJob) -> u32 {
        0
    }

    /// The current state of the stage's steps.
    fn progress<'a>(&'a self, job: &'a StageJob, steps: Vec<StepRun>) -> BoxFuture<'a, ()>;

    /// No process of the stage is left. Resolves when that is durable or moot.
    fn ended<'a>(&'a self, job: &'a StageJob, end: StageEnd, steps: Vec<StepRun>) -> BoxFuture<'a, ()>;

    /// No process is left of a deployment that an earlier run of the server had started.
    fn swept<'a>(&'a self, environment: &'a EnvironmentKey, deployment: DeploymentId) -> BoxFuture<'a, ()>;

    fn now(&self) -> Timestamp;

    /// Whether this process certainly still owns the environment's shard. Must not block. While it is false, no step
    /// starts, and the leases of running ones are not renewed.
    fn may_act(&self, _environment: &EnvironmentKey) -> bool {
        true
    }
}
