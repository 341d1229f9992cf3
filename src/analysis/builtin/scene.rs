//! The case as the engine sees it: which step failed and how, and which lines are looked at.

use crate::analysis::{Case, CaseStage, CaseStep, Line};
use crate::domain::{StageStatus, StepStatus};

/// The last lines of a log that are looked at; what was wrong stands near its end.
const LINES_MAX: usize = 100_000;
/// What the server's own lines in a log begin with.
const OURS: &str = "lockkeeper: ";

#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub case: &'a Case,
    pub lines: &'a [Line],
    /// Of the last success.
    pub lines_then: &'a [Line],
    pub stage: Option<&'a CaseStage>,
    pub step: Option<&'a CaseStep>,
}

impl<'a> Scene<'a> {
    pub fn of(case: &'a Case) -> Self {
        let last = |lines: &'a [Line]| &lines[lines.len().saturating_sub(LINES_MAX)..];
        let lines_then = case.last_success.as_ref().map_or(&[][..], |success| last(&success.lines));
        let with = |wanted: StageStatus| case.stages.iter().rev().find(|stage| stage.status == wanted);
        let unfinished = || case.stages.iter().rev().find(|stage| stage.status.is_active());
        let stage = with(StageStatus::Failed).or_else(|| with(StageStatus::Cancelled)).or_else(unfinished);
        let step = stage.and_then(|stage| {
            let with = |wanted: StepStatus| stage.steps.iter().rev().find(|step| step.status == wanted);
            with(StepStatus::Failed).or_else(|| with(StepStatus::Cancelled)).or_else(|| with(StepStatus::Running))
        });
        Self { case, lines: last(&case.lines), lines_then, stage, step }
    }

    /// Whether the step that failed has written it.
    pub fn is_in_focus(&self, line: &Line) -> bool {
        match (self.stage, self.step) {
            (Some(stage), Some(step)) => line.stage == stage.name && line.step == step.name,
            (Some(stage), None) => line.stage == stage.name,
            (None, _) => true,
        }
    }

    /// `stage/step`, as in [`crate::analysis::Success::actions_differ`].
    pub fn place(&self) -> Option<String> {
        Some(format!("{}/{}", self.stage?.name, self.step?.name))
    }

    pub fn action(&self) -> &'a str {
        self.step.map_or("", |step| &step.action)
    }

    pub fn exit_code(&self) -> Option<i32> {
        self.step.and_then(|step| step.exit_code)
    }

    pub fn error(&self) -> &'a str {
        self.case.error.as_deref().unwrap_or_default()
    }

    /// Whether the step that failed is a request: its action is a method and a URL.
    pub fn is_request(&self) -> bool {
        let (method, url) = self.action().split_once(' ').unwrap_or_default();
        method.bytes().all(|byte| byte.is_ascii_uppercase())
            && (url.starts_with("http://") || url.starts_with("https://"))
    }

    pub fn action_changed(&self) -> bool {
        let differ = self.case.last_success.as_ref().map_or(&[][..], |success| &success.actions_differ);
        self.place().is_some_and(|place| differ.contains(&place))
    }

    /// Where the lines of the step that failed are, in order.
    pub fn focus(&self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.lines.len()).filter(|at| self.is_in_focus(&self.lines[*at]))
    }

    /// The last word of the server on the step.
    pub fn last_remark(&self) -> Option<usize> {
        self.focus().rev().find(|at| is_remark(&self.lines[*at]))
    }
}

/// Whether it says no more than how the step ended, which is known anyway.
pub(super) fn is_last_word(line: &Line) -> bool {
    let said = line.text.strip_prefix(OURS).and_then(|text| text.strip_prefix("the step "));
    said.is_some_and(|said| said.starts_with("exited with code ") || said.starts_with("was killed by signal "))
}

/// Whether the server itself has written it.
pub(super) fn is_remark(line: &Line) -> bool {
    line.text.starts_with(OURS)
}
