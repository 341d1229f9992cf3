//! The parts that all kinds of steps share: their context, the limits that may end them early, and their outcome.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::disk_use::DiskUse;
use super::mask::Mask;
use super::ownership::Ownership;
use super::protocol::Confinement;
use super::step_lease::Moment;
use super::substitute::Variables;
use domain::{DeploymentId, VariableName, VariableValue};

/// What a running stage is told to do; it only ever moves forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Directive {
    Run,
    /// End the stage and report its end.
    Stop,
    /// The server is stopping: end the stage at once; the next start reports it.
    Abandon,
}

/// Resolves once the directive is `wanted` or beyond.
pub(super) async fn until(mut directive: watch::Receiver<Directive>, wanted: Directive) {
    if directive.wait_for(|directive| *directive >= wanted).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The context of the steps in one run of a stage.
#[derive(Clone)]
pub(super) struct StepContext {
    pub deployment: DeploymentId,
    pub variables: Variables,
    pub mask: Mask,
    pub work_dir: PathBuf,
    pub confinement: Option<Confinement>,
}

impl StepContext {
    /// The same with the inputs of a step, which take precedence.
    pub fn with(&self, inputs: &BTreeMap<VariableName, VariableValue>) -> Cow<'_, Self> {
        if inputs.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut context = self.clone();
        let given =
            |(name, value): (&VariableName, &VariableValue)| (name.to_string(), Zeroizing::new(value.to_string()));
        context.variables.extend(inputs.iter().map(given));
        Cow::Owned(context)
    }
}

/// The conditions that may end a step early.
pub(super) struct Limits {
    pub directive: watch::Receiver<Directive>,
    pub deadline: Instant,
    pub ownership: Ownership,
    pub disk: Option<DiskUse>,
}

impl Limits {
    /// Resolves when a step may start, with the moment at which that was certain, or with the outcome of one that may not.
    pub async fn until_startable(&self) -> Result<Moment, Outcome> {
        tokio::select! {
            biased;
            moment = self.ownership.until_confirmed() => Ok(moment),
            () = until(self.directive.clone(), Directive::Stop) => Err(Outcome::Stopped),
            () = tokio::time::sleep_until(self.deadline) => Err(Outcome::TimedOut),
        }
    }

    /// Resolves when there is room on the disk for another program, or with the outcome of one that may not start.
    pub async fn until_room(&self) -> Result<(), Outcome> {
        let Some(disk) = &self.disk else { return Ok(()) };
        tokio::select! {
            biased;
            found = disk.until_room() => found.map_err(|reason| Outcome::Failed(format!("was not started: {reason}"))),
            () = until(self.directive.clone(), Directive::Stop) => Err(Outcome::Stopped),
            () = tokio::time::sleep_until(self.deadline) => Err(Outcome::TimedOut),
        }
    }

    /// Resolves when the step must end since it fills the disk, with the reason.
    pub async fn out_of_room(&self) -> Arc<str> {
        match &self.disk {
            Some(disk) => disk.writer.over().await,
            None => std::future::pending().await,
        }
    }
}

/// The end of a step. Nothing of it runs any more.
pub(super) struct StepEnd {
    pub outcome: Outcome,
    pub exit_code: Option<i32>,
    /// The server's remarks about it, for the log.
    pub remarks: Vec<String>,
}

pub(super) enum Outcome {
    Succeeded,
    /// The reason, as the end of a sentence that begins with the step's name.
    Failed(String),
    TimedOut,
    Stopped,
}

impl StepEnd {
    pub fn of(outcome: Outcome) -> Self {
        Self { outcome, exit_code: None, remarks: Vec::new() }
    }
}
