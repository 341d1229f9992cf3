//! The server's side of a step that is a process: starts the supervisor, holds its lifeline, and waits until every
//! process is certainly gone.

use std::io::{self, PipeReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::host::Options;
use super::output::{OutputReader, StepOutput};
use super::process_tree;
use super::protocol::{
    self, Confinement, Exit, MessageReader, Request, SUPERVISE_COMMAND, SUPERVISOR_NAME, Status, StepOrder,
};
use super::step::{Directive, Limits, Outcome, StepContext, StepEnd, until};
use super::step_lease::{Moment, StepLease};
use crate::or_never;
use shares::stand_back;

/// A hint for users whose step fails here but works elsewhere.
const CONFINED: &str = "the step was confined: it may use its working directory, temporary files and the programs of the \
                        system; for anything else, an operator can set runner.read_only_paths or runner.writable_paths";
/// Shorter pauses are not mentioned.
const HELD_NOTICEABLY: Duration = Duration::from_secs(1);
/// Exit codes of shells if a program cannot be executed or is not found.
const NO_PROGRAM: [i32; 2] = [126, 127];

pub(super) async fn run(
    arguments: &[Arc<str>],
    context: &StepContext,
    options: &Options,
    lease: Option<StepLease>,
    limits: &Limits,
    output: StepOutput,
) -> (StepEnd, StepOutput) {
    let order = StepOrder {
        arguments: arguments.iter().map(|argument| argument.to_string()).collect(),
        variables: context.variables.iter().map(|(name, value)| (name.clone(), value.to_string())).collect(),
        work_dir: context.work_dir.to_string_lossy().into_owned(),
        grace: options.grace,
        umask: options.umask,
        lease,
    };
    let (supervisor, source) = match SupervisorProcess::start(&options.supervisor, context) {
        Ok(started) => started,
        Err(error) => {
            let reason = format!("could not be started: cannot start a process: {error}");
            return (StepEnd::of(Outcome::Failed(reason)), output);
        }
    };
    let mut paced = None;
    if let Some(disk) = &limits.disk {
        disk.look_at(supervisor.pid());
        // The init of a confined step is not paused either.
        let own = 1 + usize::from(context.confinement.is_some());
        paced = supervisor.pid().and_then(|pid| disk.pace(pid, own));
    }
    let reader = OutputReader::start(source, output);
    let mut report = supervisor.watch(&context.confinement, order, limits).await;
    if let Some(disk) = &limits.disk {
        disk.look_at(None);
    }
    let held = paced.map(|paced| paced.held()).unwrap_or_default();
    if held >= HELD_NOTICEABLY {
        let seconds = held.as_secs_f64();
        report.remarks.push(format!("was held for {seconds:.1} s, since steps of its organization wrote much to the disk (runner.max_write_mb_per_second)"));
    }
    if !report.gone {
        // The supervisor was killed, so its processes may still run: find and kill them.
        let (deployment, work_dir) = (context.deployment, context.work_dir.clone());
        let groups = options.isolation.groups_of(deployment);
        let killed = tokio::task::spawn_blocking(move || process_tree::sweep(deployment, &work_dir, &groups)).await;
        let killed = killed.expect("scanning processes does not panic");
        report.remarks.push(format!("the supervisor of the step ended too early; killed {killed} processes it left"));
    }
    let output = reader.finish().await;
    if context.confinement.is_some() && (report.lacks_a_program() || (report.failed() && output.was_denied())) {
        report.remarks.push(CONFINED.to_owned());
    }
    (report.end(), output)
}

struct SupervisorProcess {
    child: Child,
    lifeline: Lifeline,
    statuses: MessageReader<ChildStderr>,
}

/// Everything the supervisor reported until it ended.
#[derive(Default)]
struct SupervisorReport {
    not_started: Option<String>,
    exit: Option<Exit>,
    gone: bool,
    cut_short: Option<Outcome>,
    remarks: Vec<String>,
}

impl SupervisorProcess {
    /// Also returns the reading end of the step's output.
    fn start(program: &Path, context: &StepContext) -> io::Result<(Self, PipeReader)> {
        let (source, sink) = io::pipe()?;
        let mut command = Command::new(program);
        // The deployment is an argument, which every process may read: a supervisor's environment is not readable.
        command.arg0(SUPERVISOR_NAME).arg(SUPERVISE_COMMAND).arg(context.deployment.to_string()).env_clear();
        // Huge pages would double its start time and its memory. Not passed on to the step.
        command.env("MIMALLOC_ALLOW_THP", "0");
        // A separate process group, so that Ctrl-C at the server's terminal does not reach it.
        command.process_group(0).stdin(Stdio::piped()).stdout(sink).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        child.id().into_iter().for_each(stand_back);
        let lifeline = Lifeline(child.stdin.take());
        let answers = child.stderr.take().expect("it was asked to be a pipe");
        let statuses = MessageReader::new(answers);
        // Dropping `command` closes its copy of the writing end; otherwise the output would never end.
        Ok((Self { child, lifeline, statuses }, source))
    }

    async fn watch(mut self, confinement: &Option<Confinement>, order: StepOrder, limits: &Limits) -> SupervisorReport {
        let mut report = SupervisorReport::default();
        self.lifeline.send(confinement).await;
        self.lifeline.send(&order).await;
        let mut beats = order.lease.map(|lease| {
            let mut beats = interval(lease.beat_interval());
            // A server that was frozen does not send the missed beats.
            beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
            beats
        });
        drop(order);
        let mut abandoned = std::pin::pin!(until(limits.directive.clone(), Directive::Abandon));
        let mut stopped = std::pin::pin!(until(limits.directive.clone(), Directive::Stop));
        let mut expired = std::pin::pin!(tokio::time::sleep_until(limits.deadline));
        let mut out_of_room = std::pin::pin!(or_never(limits.disk.as_ref().map(|disk| disk.writer.over())));
        while !report.gone {
            tokio::select! {
                biased;
                status = self.statuses.next() => match status {
                    Ok(Some(status)) => report.record(status),
                    Ok(None) | Err(_) => break,
                },
                () = &mut abandoned, if self.lifeline.is_open() => {
                    self.lifeline.close();
                    self.wake();
                }
                () = &mut stopped, if report.cut_short.is_none() => {
                    report.cut_short = Some(Outcome::Stopped);
                    self.terminate().await;
                }
                () = &mut expired, if report.cut_short.is_none() => {
                    report.cut_short = Some(Outcome::TimedOut);
                    self.terminate().await;
                }
                // Without a grace period, in which the step would continue to write; also while a step is being
                // stopped.
                reason = &mut out_of_room, if self.lifeline.is_open() => {
                    if report.cut_short.is_some() {
                        report.remarks.push(format!("killed while it was being stopped: it {reason}"));
                    }
                    report.cut_short.get_or_insert(Outcome::Failed(reason.to_string()));
                    self.lifeline.close();
                    self.wake();
                }
                _ = or_never(beats.as_mut().map(Interval::tick)), if self.lifeline.is_open() => {
                    if let Some(moment) = limits.confirmed() {
                        self.lifeline.beat(moment);
                    }
                }
            }
        }
        self.lifeline.close();
        // After `Gone` it ends immediately; otherwise it has ended, or its pipe is broken and it is about to end.
        let status = self.child.wait().await;
        if let (false, Ok(status)) = (report.gone, status)
            && let Some(signal) = status.signal()
        {
            tracing::warn!(signal, "the supervisor of a step was killed");
        }
        report
    }

    fn pid(&self) -> Option<Pid> {
        self.child.id().and_then(crate::pid)
    }

    async fn terminate(&mut self) {
        // Wake it first, since its lifeline may be full of beats.
        self.wake();
        self.lifeline.send(&Request::Terminate).await;
        self.wake();
    }

    /// A supervisor that was stopped with a signal, perhaps by its own step, would not react.
    fn wake(&self) {
        if let Some(id) = self.pid() {
            kill_process(id, Signal::CONT).ok();
        }
    }
}

impl SupervisorReport {
    fn record(&mut self, status: Status) {
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
            Status::LeaseOver(lasts) => {
                let seconds = lasts.as_secs_f64();
                let reason =
                    format!("was ended: the server could not show for {seconds} s that it still owns this environment");
                self.cut_short.get_or_insert(Outcome::Failed(reason));
            }
        }
    }

    fn failed(&self) -> bool {
        self.cut_short.is_none() && self.exit != Some(Exit::Code(0))
    }

    fn lacks_a_program(&self) -> bool {
        let not_started = self.not_started.as_ref().is_some_and(|reason| reason.starts_with("the program"));
        not_started || NO_PROGRAM.iter().any(|code| self.exit == Some(Exit::Code(*code)))
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

/// The server's end of a supervisor's standard input. When it is closed, the supervisor kills the step.
struct Lifeline(Option<ChildStdin>);

impl Lifeline {
    pub fn is_open(&self) -> bool {
        self.0.is_some()
    }

    pub fn close(&mut self) {
        self.0 = None;
    }

    /// Waits while the pipe is full.
    pub async fn send(&mut self, message: &impl Serialize) {
        if let (Some(pipe), Ok(message)) = (&mut self.0, protocol::encode(message)) {
            // Fails only if the supervisor is dead, which its reader notices.
            pipe.write_all(&message).await.ok();
        }
    }

    /// Sends the moment at which the server owned the environment, or nothing if the pipe is full: a stopped supervisor
    /// does not read, and the server must not wait for it.
    pub fn beat(&mut self, owned_at: Moment) {
        if let (Some(pipe), Ok(message)) = (&mut self.0, protocol::encode(&Request::Beat(owned_at))) {
            // A message this short is written whole or not at all.
            _ = pipe.write(&message).now_or_never();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::process::Stdio;

    use rustix::io::ioctl_fionread;
    use rustix::pipe::fcntl_getpipe_size;
    use tokio::process::Command;
    use tokio::task::unconstrained;

    use super::*;

    /// More than a pipe holds.
    const MANY: usize = 20_000;

    #[tokio::test]
    async fn beats_that_nobody_reads_neither_block_nor_fail() {
        // It never reads its standard input.
        let mut reader = Command::new("sleep").arg("1000").stdin(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lifeline = Lifeline(reader.stdin.take());
        lifeline.send(&"an order").await;
        let mut fill = async || {
            for _ in 0..MANY {
                lifeline.beat(Moment::now());
            }
            let pipe = lifeline.0.as_ref().unwrap();
            (ioctl_fionread(pipe).unwrap(), fcntl_getpipe_size(pipe).unwrap() as u64)
        };
        // Otherwise the runtime would pause a task that writes this much.
        let (unread, capacity) = unconstrained(fill()).await;
        assert!(unread > capacity / 2, "{unread} bytes of {capacity} are used");
        assert_eq!(unconstrained(fill()).await, (unread, capacity));
        reader.kill().await.unwrap();
        // The other end is closed.
        lifeline.beat(Moment::now());
        lifeline.send(&Request::Terminate).await;
        assert!(lifeline.is_open());
    }
}
