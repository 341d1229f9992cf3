//! The supervisor of one step: a small process between the server and the step. It adopts everything the step starts,
//! however that detaches itself, and ends only when all of it has ended. It is this program, started with
//! [`SUPERVISE_COMMAND`](super::SUPERVISE_COMMAND); one thread, no settings.

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

use rustix::process::{getpid, set_child_subreaper};
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::chain::{self, report};
use super::confine::{self, Init};
use super::message_reader::MessageReader;
use super::protocol::{Confinement, SUPERVISOR_NAME, Status, StepOrder};
use super::step_lease::Moment;
use super::supervision::{Event, InitReports, Root, Supervision};

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
    // Before the first child: no end of one is missed.
    let mut child_ended = signal(SignalKind::child())?;
    // Orphans among the step's processes become children of this one, so `wait` knows when the last has ended.
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
        report(&Status::LeaseOver(lease.lasts()));
        report(&Status::Gone { left_behind: 0 });
        return Ok(());
    }
    let started = started.and_then(|init| start(&order, init));
    let mut supervision = match started {
        Ok((root, reports)) => Supervision::new(root, reports, order.grace, order.lease),
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
            status = supervision.reports.next() => Event::Reported(status),
            () = sleep_until(timer.unwrap_or_else(Instant::now)), if timer.is_some() => Event::Timer,
            () = sleep_until(lease_timer.unwrap_or_else(Instant::now)), if lease_timer.is_some() => Event::LeaseTimer,
        };
        // Before the event: after this process was stopped for longer than the lease, a beat comes too late.
        supervision.check_lease(Moment::now());
        supervision.handle(event);
    }
    supervision.last_statuses().await;
    report(&Status::Gone { left_behind: supervision.left_behind });
    Ok(())
}

/// Starts the step itself, or lets its init do so.
fn start(order: &StepOrder, init: Option<Init>) -> Result<(Root, InitReports), String> {
    match init {
        None => Ok((Root::Step(chain::start_program(order)?), InitReports(None))),
        Some(init) => {
            let running = init.begin(order)?;
            Ok((Root::Init(running.pid), InitReports(Some(running))))
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
