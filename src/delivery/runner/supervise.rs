//! The supervisor of one step: a small process between the server and the step. It adopts everything the step starts,
//! however it detaches itself, asks it to end or kills it, and ends only when all of it has ended. It is this program,
//! started with [`SUPERVISE_COMMAND`](super::SUPERVISE_COMMAND); single-threaded, without settings.

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process_group, set_child_subreaper, wait};
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::chain::{self, report};
use super::confine::{self, Init, RunningInit};
use super::protocol::{Confinement, MessageReader, Request, SUPERVISOR_NAME, Status, StepOrder};
use super::step_lease::{Moment, StepLease};
use processes::Process;

/// Reads an order from standard input and runs the step until none of its processes is left.
pub fn supervise() -> ExitCode {
    chain::close_inherited();
    let supervised = chain::single_threaded().and_then(|runtime| runtime.block_on(run()));
    match supervised {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&Status::NotStarted(format!("its supervisor failed: {error}")));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> io::Result<()> {
    // If that is not allowed, the process keeps its name.
    std::fs::write("/proc/self/comm", SUPERVISOR_NAME).ok();
    chain::ignore_signals()?;
    // Before the first child, so that no end of a child is missed.
    let mut child_ended = signal(SignalKind::child())?;
    // Orphans among the step's processes become children of this one, so `wait` reports the end of the last.
    set_child_subreaper(Some(getpid()))?;
    let mut input = chain::input()?;
    let confinement: Option<Confinement> = chain::read_message(&mut input)?;
    let started = match &confinement {
        Some(confinement) => confine::start(confinement).map(Some),
        None => Ok(None),
    };
    chain::shut_off()?;
    let order: StepOrder = chain::read_message(&mut input)?;
    if let Some(lease) = order.lease.filter(|lease| lease.is_over(Moment::now())) {
        report(&Status::LeaseOver(lease.lasts));
        report(&Status::Gone { left_behind: 0 });
        return Ok(());
    }
    let started = started.and_then(|init| start(&order, init));
    let mut supervision = match started {
        Ok((root, init)) => Supervision {
            root,
            init,
            grace: order.grace,
            lease: order.lease,
            server_is_gone: false,
            step_has_ended: false,
            look_at: None,
            next_kill: None,
            pause: KILL_AGAIN,
            left_behind: 0,
        },
        Err(reason) => {
            report(&Status::NotStarted(reason));
            report(&Status::Gone { left_behind: 0 });
            return Ok(());
        }
    };
    drop(order);
    report(&Status::Started);
    let requests = Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    let mut requests = MessageReader::new(requests);
    while supervision.reap() {
        let (timer, lease_timer) = (supervision.timer(), supervision.lease_timer());
        let event = tokio::select! {
            _ = child_ended.recv() => Event::ChildEnded,
            event = next_request(&mut requests), if !supervision.server_is_gone => event,
            status = supervision.next_report() => Event::Reported(status),
            () = sleep_until(timer.unwrap_or_else(Instant::now)), if timer.is_some() => Event::Timer,
            () = sleep_until(lease_timer.unwrap_or_else(Instant::now)), if lease_timer.is_some() => Event::LeaseTimer,
        };
        // Before the event: if this process was stopped for longer than the lease, a beat comes too late.
        supervision.check_lease(Moment::now());
        supervision.handle(event);
    }
    supervision.last_statuses().await;
    report(&Status::Gone { left_behind: supervision.left_behind });
    Ok(())
}

/// Starts the step itself, or lets its init do so.
fn start(order: &StepOrder, init: Option<Init>) -> Result<(Root, Option<RunningInit>), String> {
    match init {
        None => Ok((Root::Step(chain::start_program(order)?), None)),
        Some(init) => {
            let running = init.begin(order)?;
            Ok((Root::Init(running.pid), Some(running)))
        }
    }
}

/// Cancel safe.
async fn next_request(requests: &mut MessageReader<Receiver>) -> Event {
    match requests.next().await {
        Ok(Some(request)) => Event::Requested(request),
        Ok(None) | Err(_) => Event::ServerGone,
    }
}

/// Processes started during one scan are found by the next.
const KILL_AGAIN: Duration = Duration::from_millis(5);
/// A process stuck in the kernel cannot be killed immediately; continuous scanning would not help.
const KILL_AGAIN_MAX: Duration = Duration::from_millis(200);

/// Timers stop while the machine is suspended; the clock of the lease does not.
const CHECK_LEASE_AFTER: Duration = Duration::from_secs(1);

/// How long an init may take to end after its step, if the step has left no processes.
const INIT_ENDS_WITHIN: Duration = Duration::from_millis(5);

/// The direct child of the supervisor.
#[derive(Clone, Copy)]
enum Root {
    Step(Pid),
    /// The init of a confined step, and parent of its process.
    Init(Pid),
}

/// An event that wakes a supervisor.
enum Event {
    ChildEnded,
    Requested(Request),
    ServerGone,
    /// A report by the init of a confined step.
    Reported(Status),
    Timer,
    LeaseTimer,
}

/// The state of a supervisor, and its actions on the step's processes: wait for them, ask them to end, kill them.
struct Supervision {
    root: Root,
    /// The init of a confined step until its last report.
    init: Option<RunningInit>,
    grace: Duration,
    /// `None` if the step has no lease, or once it is over.
    lease: Option<StepLease>,
    server_is_gone: bool,
    step_has_ended: bool,
    /// When to look for processes that an init's step has left behind.
    look_at: Option<Instant>,
    /// When the remaining processes are killed, again if necessary.
    next_kill: Option<Instant>,
    pause: Duration,
    left_behind: u32,
}

impl Supervision {
    /// The next report of an init; never resolves after the last one. Cancel safe.
    async fn next_report(&mut self) -> Status {
        if let Some(init) = &mut self.init {
            if let Ok(Some(status)) = init.statuses.next().await {
                return status;
            }
            self.init = None;
        }
        std::future::pending().await
    }

    /// Reaps the children that have ended. Returns whether any child, and so any descendant, is left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => match self.root {
                    Root::Step(step) if step == pid => {
                        report(&Status::Exited(chain::exit(status)));
                        self.step_has_ended = true;
                    }
                    // If the init ended before its step, the processes that the step has started must be ended here.
                    Root::Init(init) if init == pid => self.step_has_ended = true,
                    Root::Step(_) | Root::Init(_) => {}
                },
                Ok(None) => {
                    if self.step_has_ended {
                        self.clean_up();
                    }
                    return true;
                }
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    fn timer(&self) -> Option<Instant> {
        self.look_at.or(self.next_kill)
    }

    /// When to check the lease again.
    fn lease_timer(&self) -> Option<Instant> {
        self.lease.map(|lease| Instant::now() + lease.left(Moment::now()).min(CHECK_LEASE_AFTER))
    }

    /// If the lease is over, kills everything, as when the server is gone.
    fn check_lease(&mut self, now: Moment) {
        if let Some(lease) = self.lease.take_if(|lease| lease.is_over(now)) {
            report(&Status::LeaseOver(lease.lasts));
            self.kill();
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Requested(Request::Terminate) => self.on_terminate(),
            Event::Requested(Request::Beat(owned_at)) => {
                if let Some(lease) = &mut self.lease {
                    lease.renew(owned_at, Moment::now());
                }
            }
            Event::ServerGone => {
                self.server_is_gone = true;
                self.kill();
            }
            Event::Reported(status @ Status::Exited(_)) => {
                report(&status);
                // An init whose step has left no processes ends immediately; then there is nothing to look for.
                self.look_at = Some(Instant::now() + INIT_ENDS_WITHIN);
            }
            Event::Timer => match self.look_at.take() {
                Some(_) => self.clean_up(),
                None => self.kill(),
            },
            Event::Reported(Status::Started | Status::NotStarted(_) | Status::Gone { .. } | Status::LeaseOver(_))
            | Event::ChildEnded
            | Event::LeaseTimer => {}
        }
    }

    /// The reports of an init before it ended.
    async fn last_statuses(&mut self) {
        while let Some(init) = &mut self.init {
            match init.statuses.next().await {
                Ok(Some(Status::Exited(exit))) => report(&Status::Exited(exit)),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn on_terminate(&mut self) {
        if self.next_kill.is_none() {
            self.next_kill = Some(Instant::now() + self.grace);
            self.terminate(true);
        }
    }

    /// The step has ended on its own; the processes it left behind must end too.
    fn clean_up(&mut self) {
        if self.next_kill.is_some() {
            return;
        }
        self.next_kill = Some(Instant::now() + self.grace);
        self.left_behind = u32::try_from(self.processes().len()).unwrap_or(u32::MAX);
        self.terminate(false);
    }

    /// The step's processes, as far as one scan can tell.
    fn processes(&self) -> Vec<Process> {
        let mut all = processes::own_descendants();
        if let Root::Init(init) = self.root {
            all.retain(|process| process.pid != init);
        }
        all
    }

    /// Asks each process once: many programs take a second signal as "now", and it would hit processes started to clean
    /// up. First the step's own group, which the kernel signals atomically.
    fn terminate(&self, step_runs: bool) {
        let processes = self.processes();
        let groups: Vec<Pid> = match self.root {
            Root::Step(step) if step_runs => vec![step],
            Root::Step(_) => Vec::new(),
            Root::Init(init) => {
                let is_first = |process: &&Process| process.parent == init.as_raw_pid() && process.leads_its_group();
                processes.iter().filter(is_first).map(|process| process.pid).collect()
            }
        };
        let groups = groups.into_iter().filter(|group| kill_process_group(*group, Signal::TERM).is_ok());
        let asked: Vec<i32> = groups.map(Pid::as_raw_pid).collect();
        for process in processes {
            if !asked.contains(&process.group) {
                process.signal(Signal::TERM);
            }
            if process.is_stopped() {
                process.signal(Signal::CONT);
            }
        }
    }

    /// Whole groups first: otherwise a process could escape by starting another and ending before the scan sees it. The
    /// end of an init ends its whole namespace.
    fn kill(&mut self) {
        let left = processes::own_descendants();
        for leader in left.iter().filter(|process| process.leads_its_group()) {
            kill_process_group(leader.pid, Signal::KILL).ok();
        }
        left.iter().for_each(|process| process.signal(Signal::KILL));
        self.next_kill = Some(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(KILL_AGAIN_MAX);
    }
}
