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
    /// The number of stages that run at a time; each runs one step at a time. At most [`RUNNING_MAX`].
    pub max_running: usize,
    /// The number of organizations that share them.
    pub organizations: usize,
    /// The time between asking a step to end and killing it.
    pub grace: Duration,
    /// `PATH` of the steps, unless a variable sets it.
    pub path: String,
    /// An absolute path. Each deployment has a directory in it, in which its steps start.
    pub work_dir: PathBuf,
    /// The amount of a step's output that is kept.
    pub log_bytes_per_step: u64,
    /// The file mode creation mask of steps: not the server's, since steps make files for others to read.
    pub umask: u32,
    /// Where requests of steps may go.
    pub policy: Policy,
    /// The program that supervises steps, which is this one: [`OWN_PROGRAM`].
    pub supervisor: PathBuf,
    pub isolation: SharedIsolation,
    /// How long the processes of a step may run on after the last moment at which [`Host::may_act`] held. At least some
    /// seconds. `None`: no other machine can take over, and they run for as long as the server lives.
    pub step_lease: Option<Duration>,
    /// Whose space the working directories take; `None`: it is not looked after.
    pub disk: Option<Disk>,
    /// For the directories of a deployment; `None`: no limit of its own.
    pub max_disk_bytes: Option<u64>,
    /// `None`: each writes as fast as it can.
    pub write_pace: Option<WritePace>,
}

/// How steps are confined, as soon as that was tried. Until then none runs: what a full disk hinders must not count as missing.
/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct SharedIsolation(Arc<OnceLock<Option<Isolation>>>);

impl SharedIsolation {
    /// `None`: steps may do whatever the server's user may. Only the first call counts.
    pub fn set(&self, isolation: Option<Isolation>) {
        self.0.set(isolation).ok();
    }

    /// `None` if it is not known.
    pub fn get(&self) -> Option<Isolation> {
        self.as_ref().cloned()
    }

    pub(super) fn is_known(&self) -> bool {
        self.0.get().is_some()
    }

    pub(super) fn as_ref(&self) -> Option<&Isolation> {
        self.0.get()?.as_ref()
    }
}

impl From<Option<Isolation>> for SharedIsolation {
    fn from(isolation: Option<Isolation>) -> Self {
        Self(Arc::new(OnceLock::from(isolation)))
    }
}

/// How the steps of all organizations are confined.
#[derive(Debug, Clone)]
pub struct Isolation {
    /// The confinement that all have in common, without user and directories.
    pub template: Confinement,
    /// The user of each organization; none if steps run as the server's user.
    pub users: BTreeMap<Identifier, u32>,
    /// `None`: there are none here, and limits hold for single processes.
    pub groups: Option<ControlGroups>,
}

impl Isolation {
    pub(super) fn user(&self, organization: &Identifier) -> Option<u32> {
        self.users.get(organization).copied()
    }

    /// The directories of a deployment's control groups.
    pub(super) fn groups_of(&self, deployment: DeploymentId) -> Vec<PathBuf> {
        self.groups.as_ref().map(|groups| groups.of(&deployment.to_string())).unwrap_or_default()
    }

    /// For a step in this directory.
    pub(super) fn confinement(&self, organization: &Identifier, work_dir: &Path) -> Confinement {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        Confinement {
            user: self.user(organization),
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
    /// Of two with the same name the later one wins.
    pub variables: Vec<Variable>,
    /// Of the secrets among them, wherever they would be shown.
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
    /// All variables of a step except `LOCKKEEPER_…`. Called when the stage begins, so that secrets are current. The error
    /// is one sentence.
    fn inputs<'a>(&'a self, job: &'a StageJob) -> BoxFuture<'a, Result<StepInputs, String>>;

    /// The stage is about to begin. Resolves when that is durable; false if the stage is no longer wanted.
    fn begun<'a>(&'a self, job: &'a StageJob) -> BoxFuture<'a, bool>;

    /// Which part of the deployment's log the stage writes, once it has begun: more than one only in a cluster. Must not block.
    fn log_part(&self, _job: &StageJob) -> u32 {
        0
    }

    /// The current state of the stage's steps.
    fn progress<'a>(&'a self, job: &'a StageJob, steps: Vec<StepRun>) -> BoxFuture<'a, ()>;

    /// Nothing of the stage runs any more. Resolves when that is durable or moot.
    fn ended<'a>(&'a self, job: &'a StageJob, end: StageEnd, steps: Vec<StepRun>) -> BoxFuture<'a, ()>;

    /// No process is left of a deployment that an earlier run of the server had started.
    fn swept<'a>(&'a self, environment: &'a EnvironmentKey, deployment: DeploymentId) -> BoxFuture<'a, ()>;

    fn now(&self) -> Timestamp;

    /// Whether this process certainly still owns the environment's shard. Must not block. While it does not hold, no step
    /// starts, and the leases of running ones are not renewed.
    fn may_act(&self, _environment: &EnvironmentKey) -> bool {
        true
    }
}
