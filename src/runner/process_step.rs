//! The server's side of a step that is a process: starts its supervisor, keeps the lifeline, and waits until everything
//! is certainly gone.

use std::io::{self, PipeReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};

use super::output::{Pump, StepOutput};
use super::protocol::{self, Exit, LENGTH_BYTES, Order, Status, TERMINATE};
use super::step::{Limits, Outcome, Scene, StepEnd, Will, until};
use super::supervise::SUPERVISE_COMMAND;
use super::tree::{self, DEPLOYMENT_VARIABLE};

/// What it is called in the list of processes, where the server's own name would get it killed by mistake.
const SUPERVISOR_NAME: &str = "lk-step";

pub(super) async fn run(
    arguments: &[Arc<str>],
    scene: &Scene,
    supervisor: &Path,
    grace: Duration,
    limits: &Limits,
    output: StepOutput,
) -> (StepEnd, StepOutput) {
    let order = Order {
        arguments: arguments.iter().map(|argument| argument.to_string()).collect(),
        variables: scene.variables.iter().map(|(name, value)| (name.clone(), value.to_string())).collect(),
        work_dir: scene.work_dir.to_string_lossy().into_owned(),
        grace,
    };
    let (supervised, source) = match Supervised::start(supervisor, scene) {
        Ok(started) => started,
        Err(error) => {
            let reason = format!("could not be started: no process for it: {error}");
            return (StepEnd::of(Outcome::Failed(reason)), output);
        }
    };
    let pump = Pump::start(source, output);
    let mut seen = supervised.watch(order, limits).await;
    if !seen.gone {
        // Somebody killed the supervisor, and with it the certainty: what it left is looked for.
        let (deployment, work_dir) = (scene.deployment, scene.work_dir.clone());
        let killed = tokio::task::spawn_blocking(move || tree::sweep(deployment, &work_dir)).await;
        let killed = killed.expect("looking for processes does not panic");
        seen.remarks.push(format!("the supervisor of the step ended too early; killed {killed} processes it had left"));
    }
    (seen.end(), pump.finish().await)
}

struct Supervised {
    child: Child,
    /// While it is open, the step runs.
    lifeline: Option<ChildStdin>,
    statuses: Statuses,
}

/// What was heard of a step until its supervisor ended.
#[derive(Default)]
struct Seen {
    not_started: Option<String>,
    exit: Option<Exit>,
    gone: bool,
    cut_short: Option<Outcome>,
    remarks: Vec<String>,
}

impl Supervised {
    /// With the end that its output comes out of.
    fn start(program: &Path, scene: &Scene) -> io::Result<(Self, PipeReader)> {
        let (source, sink) = io::pipe()?;
        let mut command = Command::new(program);
        command.arg0(SUPERVISOR_NAME).arg(SUPERVISE_COMMAND);
        command.env_clear().env(DEPLOYMENT_VARIABLE, scene.deployment.to_string());
        // A group of its own: Ctrl-C at the server's terminal is not meant for it.
        command.process_group(0).stdin(Stdio::piped()).stdout(sink).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let lifeline = child.stdin.take();
        let answers = child.stderr.take().expect("it was asked to be a pipe");
        let statuses = Statuses { source: answers, buffer: Vec::new() };
        // With `command` its copy of the other end goes, without which the output would never end.
        Ok((Self { child, lifeline, statuses }, source))
    }

    async fn watch(mut self, order: Order, limits: &Limits) -> Seen {
        let mut seen = Seen::default();
        if let (Some(lifeline), Ok(order)) = (&mut self.lifeline, protocol::encode(&order)) {
            // If it is not read, the supervisor is dead, and that is seen below.
            lifeline.write_all(&order).await.ok();
        }
        drop(order);
        let mut abandoned = std::pin::pin!(until(limits.will.clone(), Will::Abandon));
        let mut stopped = std::pin::pin!(until(limits.will.clone(), Will::Stop));
        let mut expired = std::pin::pin!(tokio::time::sleep_until(limits.deadline));
        while !seen.gone {
            tokio::select! {
                biased;
                status = self.statuses.next() => match status {
                    Ok(Some(status)) => seen.hear(status),
                    Ok(None) | Err(_) => break,
                },
                () = &mut abandoned, if self.lifeline.is_some() => {
                    self.lifeline = None;
                    self.rouse();
                }
                () = &mut stopped, if seen.cut_short.is_none() => {
                    seen.cut_short = Some(Outcome::Stopped);
                    self.terminate().await;
                }
                () = &mut expired, if seen.cut_short.is_none() => {
                    seen.cut_short = Some(Outcome::TimedOut);
                    self.terminate().await;
                }
            }
        }
        self.lifeline = None;
        // With `Gone` it ends at once; without, it has ended, or its pipe is broken and it is about to.
        let status = self.child.wait().await;
        if let (false, Ok(status)) = (seen.gone, status)
            && let Some(signal) = status.signal()
        {
            tracing::warn!(signal, "the supervisor of a step was killed");
        }
        seen
    }

    async fn terminate(&mut self) {
        if let Some(lifeline) = &mut self.lifeline {
            lifeline.write_all(&[TERMINATE]).await.ok();
        }
        self.rouse();
    }

    /// A supervisor that was stopped, by its own step perhaps, would not hear what it is told.
    fn rouse(&self) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(id) = id {
            kill_process(id, Signal::CONT).ok();
        }
    }
}

impl Seen {
    fn hear(&mut self, status: Status) {
        match status {
            Status::Started => {}
            Status::NotStarted(reason) => self.not_started = Some(reason),
            Status::Exited(exit) => self.exit = Some(exit),
            Status::Gone { left_behind } => {
                self.gone = true;
                if left_behind > 0 && self.cut_short.is_none() {
                    self.remarks.push(format!("ended {left_behind} processes that the step left behind"));
                }
            }
        }
    }

    fn end(self) -> StepEnd {
        let exit_code = match self.exit {
            Some(Exit::Code(code)) => Some(code),
            Some(Exit::Signal(_)) | None => None,
        };
        let outcome = self.cut_short.unwrap_or_else(|| match (self.not_started, self.exit) {
            (Some(reason), _) => Outcome::Failed(format!("could not be started: {reason}")),
            (None, Some(Exit::Code(0))) => Outcome::Succeeded,
            (None, Some(Exit::Code(code))) => Outcome::Failed(format!("exited with code {code}")),
            (None, Some(Exit::Signal(signal))) => Outcome::Failed(format!("was killed by signal {signal}")),
            (None, None) => Outcome::Failed("was ended, since its supervisor was killed".to_owned()),
        });
        StepEnd { outcome, exit_code, remarks: self.remarks }
    }
}

struct Statuses {
    source: ChildStderr,
    buffer: Vec<u8>,
}

impl Statuses {
    /// The next, or none if there will be none. Nothing is lost if it is dropped while it waits.
    async fn next(&mut self) -> io::Result<Option<Status>> {
        loop {
            if let Some(length) = self.buffer.first_chunk::<LENGTH_BYTES>() {
                let end = LENGTH_BYTES + protocol::length(*length)?;
                if self.buffer.len() >= end {
                    let status = protocol::decode(&self.buffer[LENGTH_BYTES..end])?;
                    self.buffer.drain(..end);
                    return Ok(Some(status));
                }
            }
            if self.source.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }
}
