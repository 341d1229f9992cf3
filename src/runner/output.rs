//! The way of a step's output into the log: read as it comes, masked, cut into lines.

use std::io::{PipeReader, Read};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tokio::task::JoinHandle;

use super::Host;
use super::mask::{Masker, Secrets};
use crate::logs::{LogWriter, StepLog};

/// As much as a pipe holds.
const READ_BYTES: usize = 64 * 1024;
/// What there is of a line is shown when no more has come for this long.
const RESTS_AFTER: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// How often somebody who waits for output looks whether it is still wanted.
const LOOKS_UP_AFTER: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// When everything of a step is gone, its output ends at once, unless a stranger was handed the other end.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// Blocking.
pub(super) struct StepOutput {
    log: StepLog,
    masker: Masker,
    secrets: Arc<Secrets>,
    host: Arc<dyn Host>,
    masked: Vec<u8>,
    is_resting: bool,
}

impl StepOutput {
    pub fn new(log: StepLog, secrets: Arc<Secrets>, host: Arc<dyn Host>) -> Self {
        let masker = Masker::new(secrets.clone());
        Self { log, masker, secrets, host, masked: Vec::new(), is_resting: true }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.masker.push(bytes, &mut self.masked);
        self.hand_on();
        self.is_resting = false;
    }

    /// Ends it with the server's own remarks.
    pub fn finish(mut self, remarks: &[String]) -> LogWriter {
        self.masker.finish(&mut self.masked);
        self.hand_on();
        let mut writer = self.log.finish(self.host.now());
        for remark in remarks {
            writer.remark(self.host.now(), &self.secrets.mask(remark));
        }
        writer
    }

    fn rest(&mut self) {
        self.masker.rest(&mut self.masked);
        self.hand_on();
        self.log.rest(self.host.now());
        self.is_resting = true;
    }

    fn hand_on(&mut self) {
        self.log.write(self.host.now(), &self.masked);
        self.masked.clear();
    }
}

/// Reads a step's output on a thread of its own, so that neither a flood of it nor a slow disk keeps others waiting.
pub(super) struct Pump {
    unwanted: Arc<AtomicBool>,
    output: JoinHandle<StepOutput>,
}

impl Pump {
    pub fn start(source: PipeReader, mut output: StepOutput) -> Self {
        let unwanted = Arc::new(AtomicBool::new(false));
        let is_unwanted = unwanted.clone();
        let output = tokio::task::spawn_blocking(move || {
            pump(source, &mut output, &is_unwanted);
            output
        });
        Self { unwanted, output }
    }

    /// Everything that could write is gone.
    pub async fn finish(mut self) -> StepOutput {
        if let Ok(output) = tokio::time::timeout(END_PATIENCE, &mut self.output).await {
            return output.expect("reading output does not panic");
        }
        self.unwanted.store(true, Ordering::Relaxed);
        (&mut self.output).await.expect("reading output does not panic")
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.unwanted.store(true, Ordering::Relaxed);
    }
}

fn pump(mut source: PipeReader, output: &mut StepOutput, unwanted: &AtomicBool) {
    let mut buffer = vec![0; READ_BYTES];
    while !unwanted.load(Ordering::Relaxed) {
        let patience = if output.is_resting { &LOOKS_UP_AFTER } else { &RESTS_AFTER };
        match poll(&mut [PollFd::from_borrowed_fd(source.as_fd(), PollFlags::IN)], Some(patience)) {
            Ok(0) if output.is_resting => continue,
            Ok(0) => {
                output.rest();
                continue;
            }
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return,
        }
        match source.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => output.write(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
