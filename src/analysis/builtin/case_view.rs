//! The engine's view of a case: the failed step, its end, the lines to examine, and the enabled parts of the engine.

use crate::{Case, CaseLine, CaseStage, CaseStep};
use domain::{StageStatus, StepStatus};

/// Only this many lines at the end of a log are examined; the reason is near the end.
const LINES_MAX: usize = 100_000;
/// The prefix of the server's own lines in a log.
const REMARK_PREFIX: &str = "lockkeeper: ";

/// The enabled parts of the engine. The server uses all; the scoring program disables them individually to measure the
/// effect of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Lines are split, joined and translated.
    pub segments: bool,
    /// Signatures of a tool apply only to its lines.
    pub scoping: bool,
    /// Lines of successes weigh less; otherwise they are excluded.
    pub weighing: bool,
    /// Failures explain others.
    pub causes: bool,
    /// A failure without a signature is guessed.
    pub classifier: bool,
}

impl Parts {
    pub const ALL: Self = Self { segments: true, scoping: true, weighing: true, causes: true, classifier: true };
}

#[derive(Clone, Copy)]
pub(super) struct CaseView<'a> {
    pub case: &'a Case,
    pub lines: &'a [CaseLine],
    pub stage: Option<&'a CaseStage>,
    pub step: Option<&'a CaseStep>,
}

impl<'a> CaseView<'a> {
    pub fn of(case: &'a Case) -> Self {
        let with = |wanted: StageStatus| case.stages.iter().rev().find(|stage| stage.status == wanted);
        let unfinished = || case.stages.iter().rev().find(|stage| stage.status.is_active());
        let stage = with(StageStatus::Failed).or_else(|| with(StageStatus::Cancelled)).or_else(unfinished);
        let step = stage.and_then(|stage| {
            let with = |wanted: StepStatus| stage.steps.iter().rev().find(|step| step.status == wanted);
            with(StepStatus::Failed).or_else(|| with(StepStatus::Cancelled)).or_else(|| with(StepStatus::Running))
        });
        Self { case, lines: last(&case.lines), stage, step }
    }

    /// The lines of recent successes, newest first.
    pub fn successes(&self, parts: Parts) -> impl Iterator<Item = &'a [CaseLine]> {
        let success = self.case.last_success.as_ref();
        let newest = success.map(|success| last(&success.lines));
        let earlier = success.map_or(&[][..], |success| &success.earlier).iter().filter(move |_| parts.weighing);
        newest.into_iter().chain(earlier.map(|lines| last(lines)))
    }

    /// Whether the failed step wrote the line.
    pub fn is_in_focus(&self, line: &CaseLine) -> bool {
        match (self.stage, self.step) {
            (Some(stage), Some(step)) => line.stage == stage.name && line.step == step.name,
            (Some(stage), None) => line.stage == stage.name,
            (None, _) => true,
        }
    }

    /// `stage/step`, as in [`crate::Success::actions_differ`].
    pub fn step_path(&self) -> Option<String> {
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

    /// Whether the failed step is an HTTP request: its action is a method and a URL.
    pub fn is_request(&self) -> bool {
        let (method, url) = self.action().split_once(' ').unwrap_or_default();
        method.bytes().all(|byte| byte.is_ascii_uppercase())
            && (url.starts_with("http://") || url.starts_with("https://"))
    }

    pub fn action_changed(&self) -> bool {
        let differ = self.case.last_success.as_ref().map_or(&[][..], |success| &success.actions_differ);
        self.step_path().is_some_and(|path| differ.contains(&path))
    }

    /// The indexes of the failed step's lines, in order.
    pub fn focus(&self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.lines.len()).filter(|at| self.is_in_focus(&self.lines[*at]))
    }

    /// The last remark of the server about the step.
    pub fn last_remark(&self) -> Option<usize> {
        self.focus().rev().find(|at| is_remark(&self.lines[*at]))
    }
}

fn last(lines: &[CaseLine]) -> &[CaseLine] {
    &lines[lines.len().saturating_sub(LINES_MAX)..]
}

/// Whether the line only says how the step ended, which is already known.
pub(super) fn is_end_remark(line: &CaseLine) -> bool {
    let said = line.text.strip_prefix(REMARK_PREFIX).and_then(|text| text.strip_prefix("the step "));
    said.is_some_and(|said| said.starts_with("exited with code ") || said.starts_with("was killed by signal "))
}

/// Whether the server itself wrote the line.
pub(super) fn is_remark(line: &CaseLine) -> bool {
    line.text.starts_with(REMARK_PREFIX)
}
