//! Gathers the input of an engine: the records of a failed deployment, its log, and the last successful deployments of
//! the same environment.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use super::super::{Case, CaseLine, CaseStage, CaseStep, Success};
use delivery::logs::{LogId, Logs, Section};
use domain::{Action, Blueprint, DeploymentId, DeploymentStatus, EnvironmentKey, Identifier, StageRun, StageStatus};
use locks::{DeploymentFound, Environments};
use store::StoreError;

/// Bytes read from the end of a log, where failures are.
const LOG_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes read from the end of the log of the last success, which is only used for comparison.
const SUCCESS_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The maximum lines of a log: a log of empty lines has as many lines as bytes.
const LINES_MAX: usize = 100_000;
/// The number of successful deployments for comparison, and the bytes read of the older ones.
const SUCCESSES_MAX: usize = 3;
const EARLIER_BYTES_MAX: usize = 1024 * 1024;
/// A longer line is cut in the middle: the last output of a program is often at the end of an unfinished line.
const LINE_BYTES_MAX: usize = 3 * 1024 * 1024;
/// The length of a step's action, as text.
const ACTION_CHARACTERS_MAX: usize = 4_096;
/// How many earlier deployments of the organization are searched for a success of the same environment.
const SUCCESS_SOUGHT_AMONG: usize = 10_000;

#[derive(Debug, thiserror::Error)]
pub(super) enum CaseError {
    #[error("the deployment was dropped before the analysis ran")]
    Forgotten,
    #[error("the deployment was retried before the analysis ran; request another analysis once it has failed")]
    RunAgain,
    #[error("cannot read the records of the deployment: {0}")]
    Store(#[from] StoreError),
    #[error("cannot read the log of the deployment: {0}")]
    Log(#[from] io::Error),
}

/// Reads from the disk: call it on a blocking thread.
pub(super) fn gather(
    environments: &Environments,
    logs: &Logs,
    environment: &EnvironmentKey,
    id: DeploymentId,
) -> Result<Case, CaseError> {
    let organization = &environment.pipeline.organization;
    let DeploymentFound { record, .. } = environments.deployment(organization, id)?.ok_or(CaseError::Forgotten)?;
    if record.deployment.status != DeploymentStatus::Failed {
        return Err(CaseError::RunAgain);
    }
    let blueprint = environments.blueprint(organization, id)?;
    let attempts = record.stages.iter().map(|stage| (stage.name.clone(), stage.attempt)).collect();
    Ok(Case {
        deployment: id,
        organization: organization.clone(),
        pipeline: environment.pipeline.pipeline.clone(),
        environment: environment.name.clone(),
        commit: record.deployment.commit.clone(),
        error: record.deployment.error.clone(),
        stages: record.stages.iter().map(|stage| stage_of(stage, blueprint.as_deref())).collect(),
        lines: lines(logs, &log_of(environments, organization, id)?, &attempts, LOG_BYTES_MAX)?,
        last_success: last_success(environments, logs, environment, id, blueprint.as_deref(), &record.stages)?,
    })
}

fn stage_of(run: &StageRun, blueprint: Option<&Blueprint>) -> CaseStage {
    let stage = blueprint.and_then(|blueprint| blueprint.stages.iter().find(|stage| stage.name == run.name));
    let action = |step: &Identifier| {
        let known = stage.and_then(|stage| stage.steps.iter().find(|known| known.name == *step));
        known.map_or_else(String::new, |known| text_of(&known.action))
    };
    CaseStage {
        name: run.name.clone(),
        status: run.status,
        attempt: run.attempt,
        timeout_seconds: stage.map(|stage| stage.timeout_seconds),
        steps: run
            .steps
            .iter()
            .map(|step| CaseStep {
                name: step.name.clone(),
                status: step.status,
                exit_code: step.exit_code,
                action: action(&step.name),
            })
            .collect(),
    }
}

fn text_of(action: &Action) -> String {
    let text = match action {
        Action::Run(arguments) => arguments.iter().map(|argument| &**argument).collect::<Vec<_>>().join(" "),
        Action::Http(call) => format!("{} {}", call.method, call.url),
        Action::Uses(used) => format!("uses {}", used.reference),
    };
    text.chars().take(ACTION_CHARACTERS_MAX).collect()
}

fn last_success(
    environments: &Environments,
    logs: &Logs,
    environment: &EnvironmentKey,
    failed: DeploymentId,
    blueprint: Option<&Blueprint>,
    stages: &[StageRun],
) -> Result<Option<Success>, CaseError> {
    let organization = &environment.pipeline.organization;
    // Stages that the failed deployment did not reach are useless.
    let reached =
        |name: &Identifier| stages.iter().any(|stage| stage.name == *name && stage.status != StageStatus::Skipped);
    let lines_of = |found: &DeploymentFound, bytes_max: usize| -> Result<_, CaseError> {
        let stages = found.record.stages.iter().filter(|stage| reached(&stage.name));
        let attempts = stages.map(|stage| (stage.name.clone(), stage.attempt)).collect();
        Ok(lines(logs, &log_of(environments, organization, found.record.deployment.id)?, &attempts, bytes_max)?)
    };
    let found = environments.last_successes_before(environment, failed, SUCCESSES_MAX, SUCCESS_SOUGHT_AMONG)?;
    let Some((last, earlier)) = found.split_first() else { return Ok(None) };
    let deployment = &last.record.deployment;
    let before = environments.blueprint(organization, deployment.id)?;
    Ok(Some(Success {
        deployment: deployment.id,
        commit: deployment.commit.clone(),
        lines: lines_of(last, SUCCESS_BYTES_MAX)?,
        earlier: earlier.iter().map(|found| lines_of(found, EARLIER_BYTES_MAX)).collect::<Result<_, _>>()?,
        actions_differ: differing(blueprint, before.as_deref()),
    }))
}

/// `stage/step` of each new step, or step with a different action.
fn differing(now: Option<&Blueprint>, before: Option<&Blueprint>) -> Vec<String> {
    let (Some(now), Some(before)) = (now, before) else { return Vec::new() };
    let mut differing = Vec::new();
    for stage in &now.stages {
        let known = before.stages.iter().find(|known| known.name == stage.name);
        for step in &stage.steps {
            let was = known.and_then(|known| known.steps.iter().find(|known| known.name == step.name));
            if was.is_none_or(|was| (&was.action, &was.inputs) != (&step.action, &step.inputs)) {
                differing.push(format!("{}/{}", stage.name, step.name));
            }
        }
    }
    differing
}

/// The log, with the parts that are on this node.
fn log_of(environments: &Environments, organization: &Identifier, id: DeploymentId) -> Result<LogId, StoreError> {
    let parts = environments.log_parts(organization, id)?;
    Ok(LogId::of(organization, id, parts.iter().map(|part| part.number)))
}

/// The last lines of these attempts of stages. A line's number counts from the beginning of its step's log, including
/// earlier attempts.
fn lines(
    logs: &Logs,
    log: &LogId,
    attempts: &HashMap<Identifier, u32>,
    bytes_max: usize,
) -> Result<Vec<CaseLine>, io::Error> {
    let mut reader = logs.read(log, 0);
    let mut kept = Tail::new(bytes_max);
    let mut steps: HashMap<(Arc<str>, Arc<str>), Step> = HashMap::new();
    while let Some(frame) = reader.next_line()? {
        let Some(section) = frame.section else { continue };
        let step = steps.entry((section.stage.clone(), section.step.clone())).or_default();
        step.take(&frame.bytes);
        step.section = Some(section);
        if frame.ends_line {
            step.end(attempts, &mut kept);
        }
    }
    // Ends unfinished last lines; only that of the last step matters.
    for step in steps.values_mut().filter(|step| !step.partial.is_empty()) {
        step.end(attempts, &mut kept);
    }
    Ok(kept.lines.into())
}

/// The output of one step read so far.
#[derive(Default)]
struct Step {
    ended: u32,
    partial: Vec<u8>,
    section: Option<Arc<Section>>,
}

impl Step {
    fn take(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        // Cut only when the line is far too long, so that each byte is moved only a few times.
        if self.partial.len() > 2 * LINE_BYTES_MAX {
            self.cut();
        }
    }

    /// Removes the middle of a line that is too long.
    fn cut(&mut self) {
        if let Some(surplus) = self.partial.len().checked_sub(LINE_BYTES_MAX) {
            self.partial.drain(LINE_BYTES_MAX / 2..LINE_BYTES_MAX / 2 + surplus);
        }
    }

    fn end(&mut self, attempts: &HashMap<Identifier, u32>, kept: &mut Tail) {
        self.ended = self.ended.saturating_add(1);
        self.cut();
        let bytes = std::mem::take(&mut self.partial);
        let Some(section) = &self.section else { return };
        let (Ok(stage), Ok(step)) = (Identifier::parse(&section.stage), Identifier::parse(&section.step)) else {
            return;
        };
        if attempts.get(&stage) == Some(&section.attempt) {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            kept.push(CaseLine { stage, step, number: self.ended, text });
        }
    }
}

/// The last lines of a log, within the limits.
struct Tail {
    lines: VecDeque<CaseLine>,
    bytes: usize,
    bytes_max: usize,
}

impl Tail {
    fn new(bytes_max: usize) -> Self {
        Self { lines: VecDeque::new(), bytes: 0, bytes_max }
    }

    fn push(&mut self, line: CaseLine) {
        self.bytes += line.text.len();
        self.lines.push_back(line);
        while self.bytes > self.bytes_max || self.lines.len() > LINES_MAX {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.text.len();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tempfile::TempDir;

    use super::*;
    use domain::{ApprovalRule, IdSeed, Stage, Step as StepDefinition, Timestamp};

    const ID: DeploymentId = DeploymentId(IdSeed([7; 12]));
    const AT: Timestamp = Timestamp::from_millis(0);

    fn id(text: &str) -> Identifier {
        Identifier::parse(text).unwrap()
    }

    fn logs(written: &[(&str, &str, u32, &[u8])]) -> (TempDir, Logs) {
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs::open(folder.path(), u64::MAX).unwrap();
        for (stage, step, attempt, text) in written {
            let section = Section { stage: (*stage).into(), step: (*step).into(), attempt: *attempt };
            let mut log = logs.append(&id("acme"), ID).unwrap().step(section, u64::MAX);
            log.write(AT, text);
            log.finish(AT);
        }
        (folder, logs)
    }

    fn read(logs: &Logs, attempt: u32, bytes_max: usize) -> Vec<(String, u32, String)> {
        let attempts = HashMap::from([(id("build"), attempt)]);
        let lines = lines(logs, &LogId::whole(&id("acme"), ID), &attempts, bytes_max).unwrap();
        lines.into_iter().map(|line| (line.step.to_string(), line.number, line.text)).collect()
    }

    fn line(step: &str, number: u32, text: &str) -> (String, u32, String) {
        (step.to_owned(), number, text.to_owned())
    }

    #[test]
    fn lines_are_counted_in_their_step_and_through_all_attempts() {
        let (_folder, logs) = logs(&[
            ("build", "one", 1, b"a\nb\n"),
            ("build", "two", 1, b"broken\n"),
            ("build", "one", 2, b"c\n"),
            ("build", "two", 2, b"d\nlast, without an end"),
            ("other", "one", 1, b"of another stage\n"),
        ]);
        assert_eq!(
            read(&logs, 2, 1_000),
            [line("one", 3, "c"), line("two", 2, "d"), line("two", 3, "last, without an end")]
        );
        assert_eq!(read(&logs, 3, 1_000), []);
    }

    #[test]
    fn the_last_lines_of_a_long_log_are_kept_with_their_numbers() {
        let text: String = (1..=100).map(|number| format!("line {number}\n")).collect();
        let (_folder, logs) = logs(&[("build", "one", 1, text.as_bytes())]);
        let kept = read(&logs, 1, 20);
        assert_eq!(kept, [line("one", 99, "line 99"), line("one", 100, "line 100")]);
    }

    #[test]
    fn a_line_that_is_very_long_or_no_text_is_one_line() {
        let mut text = vec![b'x'; 10_000_000];
        text.extend_from_slice(b"the end\n\xff\xfe\n");
        let (_folder, logs) = logs(&[("build", "one", 1, &text)]);
        let kept = read(&logs, 1, LOG_BYTES_MAX);
        assert_eq!(kept.iter().map(|line| line.1).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(kept[0].2.len(), LINE_BYTES_MAX);
        assert!(kept[0].2.ends_with("the end"));
        assert_eq!(kept[1].2, "\u{fffd}\u{fffd}");
    }

    #[test]
    fn steps_with_another_action_are_named() {
        let blueprint = |script: &str, more: &[&str]| {
            let step = |name: &str, script: &str| {
                StepDefinition::own(id(name), Action::Run(vec!["sh".into(), "-c".into(), script.into()]))
            };
            let mut steps = vec![step("one", "same"), step("two", script)];
            steps.extend(more.iter().map(|name| step(name, "new")));
            let stage = Stage {
                name: id("build"),
                approval: ApprovalRule::Never,
                timeout_seconds: 60,
                idempotent: false,
                steps,
            };
            Blueprint { stages: vec![stage], ..Blueprint::default() }
        };
        let (now, before) = (blueprint("b", &["three"]), blueprint("a", &[]));
        assert_eq!(differing(Some(&now), Some(&before)), ["build/two", "build/three"]);
        assert_eq!(differing(Some(&now), Some(&now)), [""; 0]);
        assert_eq!(differing(Some(&now), None), [""; 0]);
    }
}
