//! Moves a step's output into the log: read as it arrives, masked, split into lines.

use std::io::{PipeReader, Read};
use std::num::NonZero;
use std::os::fd::AsFd;
use std::sync::mpsc::{self, TryRecvError};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use memchr::memmem;
use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tokio::task::JoinHandle;

use super::host::Host;
use super::mask::{Mask, Masker};
use crate::logs::{LogWriter, StepLog};
use domain::{Identifier, Timestamp};
use shares::{Paces, at_usual_priority, read_output, time_of_this_thread};

/// The capacity of a pipe.
const READ_BYTES: usize = 64 * 1024;
/// An unfinished line is shown after this long without new output.
const IDLE_AFTER: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// How often a reader without output checks whether the step has ended. Usually the pipe's end of file reports it.
const CHECK_ENDED_AFTER: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// The maximum that is read once all processes of the step are gone: more than its pipe can hold, which the step may
/// have enlarged. Any further output is from an unrelated process that has the other end of the pipe.
const LEFT_MAX: usize = 1 << 20;

/// Part of the usual message when the system refuses access to a file.
const DENIED: &[u8] = b"ermission denied";

/// The masked output of one step. Blocking.
pub(super) struct StepOutput {
    /// `None` while another thread writes.
    log: Option<StepLog>,
    masker: Masker,
    mask: Mask,
    host: Arc<dyn Host>,
    /// Limit the processor time that masking takes for the organization.
    paces: Arc<Paces>,
    organization: Identifier,
    masked: Vec<u8>,
    is_idle: bool,
    /// Whether a program has reported that access was denied.
    was_denied: bool,
}

impl StepOutput {
    pub fn new(log: StepLog, mask: Mask, host: Arc<dyn Host>, paces: Arc<Paces>, organization: Identifier) -> Self {
        let (log, masker, masked) = (Some(log), mask.stream(), Vec::new());
        Self { log, masker, mask, host, paces, organization, masked, is_idle: true, was_denied: false }
    }

    pub fn was_denied(&self) -> bool {
        self.was_denied
    }

    /// Returns how long to pause reading, if the organization writes too much.
    pub fn write(&mut self, bytes: &[u8]) -> Option<Duration> {
        let turn = MASKING.turn();
        let began = time_of_this_thread();
        self.was_denied = self.was_denied || memmem::find(bytes, DENIED).is_some();
        self.masker.push(bytes, &mut self.masked);
        let used = time_of_this_thread().saturating_sub(began);
        drop(turn);
        self.forward();
        self.is_idle = false;
        self.paces.note(&self.organization, used)
    }

    /// Ends the output with remarks of the server.
    pub fn finish(mut self, remarks: &[String]) -> LogWriter {
        self.masker.finish(&mut self.masked);
        self.forward();
        let log = self.log.take().expect("nobody writes now");
        let mut writer = log.finish(self.host.now());
        for remark in remarks {
            writer.remark(self.host.now(), &self.mask.apply(remark));
        }
        writer
    }

    fn idle(&mut self) {
        self.masker.idle(&mut self.masked);
        self.forward_and(StepLog::idle);
        self.is_idle = true;
    }

    fn forward(&mut self) {
        self.forward_and(|_, _| ());
    }

    fn forward_and(&mut self, then: fn(&mut StepLog, Timestamp)) {
        let (mut log, mut masked) = (self.log.take().expect("nobody writes now"), std::mem::take(&mut self.masked));
        let at = self.host.now();
        let (log, masked) = at_usual_priority(move || {
            log.write(at, &masked);
            then(&mut log, at);
            masked.clear();
            (log, masked)
        });
        (self.log, self.masked) = (Some(log), masked);
    }
}

/// Lets half of the processors mask output at a time, so that a flood of it leaves the others for requests.
struct Masking {
    free: Mutex<usize>,
    freed: Condvar,
}

static MASKING: LazyLock<Masking> = LazyLock::new(|| {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    Masking { free: Mutex::new((processors / 2).max(1)), freed: Condvar::new() }
});

impl Masking {
    fn turn(&self) -> Turn<'_> {
        let mut free = self.free.lock();
        self.freed.wait_while(&mut free, |free| *free == 0);
        *free -= 1;
        Turn(self)
    }
}

struct Turn<'a>(&'a Masking);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
    }
}

/// Reads a step's output on its own thread, so that neither a flood of output nor a slow disk delays others.
pub(super) struct OutputReader {
    /// While it exists, the reader waits for more, and pauses if its organization writes too much.
    running: mpsc::Sender<()>,
    output: JoinHandle<StepOutput>,
}

impl OutputReader {
    pub fn start(source: PipeReader, mut output: StepOutput) -> Self {
        let (running, is_running) = mpsc::channel();
        let output = read_output(move || {
            read(source, &mut output, &is_running);
            output
        });
        Self { running, output }
    }

    /// Call it when every process that could write is gone. However busy the machine is, what they wrote is read.
    pub async fn finish(self) -> StepOutput {
        drop(self.running);
        self.output.await.expect("reading output does not panic")
    }
}

fn read(mut source: PipeReader, output: &mut StepOutput, is_running: &mpsc::Receiver<()>) {
    let (mut buffer, mut left) = (vec![0; READ_BYTES], LEFT_MAX);
    while left > 0 {
        let has_ended = is_running.try_recv() == Err(TryRecvError::Disconnected);
        let timeout = match (has_ended, output.is_idle) {
            (true, _) => &NOW,
            (false, true) => &CHECK_ENDED_AFTER,
            (false, false) => &IDLE_AFTER,
        };
        match poll(&mut [PollFd::from_borrowed_fd(source.as_fd(), PollFlags::IN)], Some(timeout)) {
            Ok(0) if has_ended => return,
            Ok(0) if output.is_idle => continue,
            Ok(0) => {
                output.idle();
                continue;
            }
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return,
        }
        match source.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => match output.write(&buffer[..count]) {
                _ if has_ended => left = left.saturating_sub(count),
                // Ends early when the step ends.
                Some(rest) => _ = is_running.recv_timeout(rest),
                None => {}
            },
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
