//! What all kinds of steps have in common: what they see, what may end them early, and how they end.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::mask::Secrets;
use super::substitute::Variables;
use crate::domain::{DeploymentId, VariableName, VariableValue};

/// What is wanted of a stage that runs; it only ever goes forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Will {
    Run,
    /// End it, and say so.
    Stop,
    /// The server ends: end it at once, and leave it to the next start to say so.
    Abandon,
}

/// Resolves when this, or more, is wanted.
pub(super) async fn until(mut will: watch::Receiver<Will>, wanted: Will) {
    if will.wait_for(|will| *will >= wanted).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// What the steps of one run of a stage see.
#[derive(Clone)]
pub(super) struct Scene {
    pub deployment: DeploymentId,
    pub variables: Variables,
    pub secrets: Arc<Secrets>,
    pub work_dir: PathBuf,
}

impl Scene {
    /// The same for a step that is given more, which wins.
    pub fn with(&self, inputs: &BTreeMap<VariableName, VariableValue>) -> Cow<'_, Self> {
        if inputs.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut scene = self.clone();
        let given =
            |(name, value): (&VariableName, &VariableValue)| (name.to_string(), Zeroizing::new(value.to_string()));
        scene.variables.extend(inputs.iter().map(given));
        Cow::Owned(scene)
    }
}

/// What may end a step early.
pub(super) struct Limits {
    pub will: watch::Receiver<Will>,
    pub deadline: Instant,
}

/// How a step ended. Nothing of it runs any more.
pub(super) struct StepEnd {
    pub outcome: Outcome,
    pub exit_code: Option<i32>,
    /// What is to be said about it in the log.
    pub remarks: Vec<String>,
}

pub(super) enum Outcome {
    Succeeded,
    /// As the end of a sentence that begins with the step's name.
    Failed(String),
    TimedOut,
    Stopped,
}

impl StepEnd {
    pub fn of(outcome: Outcome) -> Self {
        Self { outcome, exit_code: None, remarks: Vec::new() }
    }
}
