//! Limits how fast steps may fill the disk, on a server with several organizations. Written data waits in memory and
//! then occupies the disk for a while, in which no claim becomes durable: next to sixteen steps writing at full speed,
//! claims took hundreds of times as long. The kernel could slow the steps down only with rights that few servers have.
//! So a thread adds up the bytes that the processes of steps have written, and stops those of an organization that has
//! written too much (SIGSTOP) until it is within its rate again.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, Signal};

use domain::Identifier;
use processes::{Process, read_proc, tree};

/// The pause between two checks: short while steps write, since a step may write gigabytes in a second.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// Without steps, the interval of the check whether the pace still exists.
const WITHOUT_STEPS: Duration = Duration::from_secs(1);
/// Checks take at most this part of a processor.
const LOOKING_PART: u32 = 20;
/// The burst of an organization, in seconds of its rate, and the maximum debt.
const AT_ONCE: f64 = 0.25;
const OWED_MAX: f64 = 1.0;

/// Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct WritePace {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    steps: Vec<Arc<Mutex<Step>>>,
    budget: Budget,
}

struct Step {
    organization: Identifier,
    supervisor: Pid,
    /// How many of the first processes are the server's own.
    own: usize,
    written: u64,
    /// In the order of stopping: parents first.
    stopped: Vec<Process>,
    stopped_at: Option<Instant>,
    /// Whether all processes of the step are stopped, including those started meanwhile.
    is_still: bool,
    held: Duration,
    has_ended: bool,
}

/// A step being watched; when dropped, its processes continue.
pub(super) struct Paced {
    inner: Arc<Inner>,
    step: Arc<Mutex<Step>>,
}

impl std::fmt::Debug for WritePace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WritePace").finish_non_exhaustive()
    }
}

impl WritePace {
    pub fn new(bytes_per_second: u64) -> Self {
        let budget = Budget { bytes_per_second: bytes_per_second as f64, owed: HashMap::new() };
        let state = Mutex::new(State { steps: Vec::new(), budget });
        let inner = Arc::new(Inner { state, changed: Condvar::new() });
        let looked_after = Arc::downgrade(&inner);
        let started = std::thread::Builder::new().name("write-pace".to_owned()).spawn(move || run(&looked_after));
        if let Err(error) = started {
            tracing::error!(%error, "cannot look after what steps write: runner.max_write_mb_per_second is not enforced");
        }
        Self { inner }
    }

    /// Watches a step from now on. Its first `own` processes are not stopped: the supervisor, and the init below it.
    pub(super) fn look_at(&self, organization: &Identifier, supervisor: Pid, own: usize) -> Paced {
        let step = Arc::new(Mutex::new(Step {
            organization: organization.clone(),
            supervisor,
            own,
            written: 0,
            stopped: Vec::new(),
            stopped_at: None,
            is_still: false,
            held: Duration::ZERO,
            has_ended: false,
        }));
        self.inner.state.lock().steps.push(step.clone());
        self.inner.changed.notify_all();
        Paced { inner: self.inner.clone(), step }
    }
}

impl Paced {
    /// The total time for which it was stopped.
    pub fn held(&self) -> Duration {
        self.step.lock().held
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        self.inner.state.lock().steps.retain(|step| !Arc::ptr_eq(step, &self.step));
        let mut step = self.step.lock();
        step.has_ended = true;
        step.go_on(Instant::now());
    }
}

/// Runs until the pace is dropped.
fn run(looked_after: &Weak<Inner>) {
    let mut looked = Instant::now();
    let mut pause = SHORTEST_PAUSE;
    while let Some(inner) = looked_after.upgrade() {
        let began = Instant::now();
        let is_writing = inner.look(began.duration_since(looked));
        looked = began;
        pause = if is_writing { SHORTEST_PAUSE } else { LONGEST_PAUSE.min(pause * 2) };
        pause = pause.max(began.elapsed() * LOOKING_PART);
        let mut state = inner.state.lock();
        let has_steps = !state.steps.is_empty() || !state.budget.owed.is_empty();
        inner.changed.wait_for(&mut state, if has_steps { pause } else { WITHOUT_STEPS });
    }
}

impl Inner {
    /// Returns whether steps are writing or stopped.
    fn look(&self, elapsed: Duration) -> bool {
        let steps = self.state.lock().steps.clone();
        let mut writing = Vec::new();
        for step in &steps {
            let mut step = step.lock();
            writing.push((step.organization.clone(), step.has_written()));
        }
        // Beginning or ending a step must not wait until others are stopped.
        let over: Vec<_> = {
            let budget = &mut self.state.lock().budget;
            budget.note(elapsed, &writing);
            writing.iter().map(|(of, _)| [false, true].map(|is_stopped| budget.is_over(of, is_stopped))).collect()
        };
        let mut is_busy = writing.iter().any(|(_, bytes)| *bytes > 0);
        // Of an organization's stopped steps, one continues per check, the longest stopped first: otherwise all would
        // write at the same time.
        let mut going_on: HashMap<&Identifier, (Instant, usize)> = HashMap::new();
        for (index, (organization, bytes)) in writing.iter().enumerate() {
            let mut step = steps[index].lock();
            let [is_over, is_still_over] = over[index];
            match step.stopped_at {
                None if *bytes > 0 && is_over => step.stop(Instant::now()),
                None => {}
                Some(_) if is_still_over => step.stop(Instant::now()),
                Some(since) => {
                    let first = going_on.entry(organization).or_insert((since, index));
                    *first = (*first).min((since, index));
                }
            }
            is_busy |= step.stopped_at.is_some();
        }
        going_on.values().for_each(|(_, index)| steps[*index].lock().go_on(Instant::now()));
        is_busy
    }
}

impl Step {
    /// The bytes written since the last check.
    fn has_written(&mut self) -> u64 {
        if self.is_still {
            return 0;
        }
        let sum = tree(self.supervisor).into_iter().map(written).sum::<u64>();
        let before = std::mem::replace(&mut self.written, sum);
        sum.saturating_sub(before)
    }

    /// Parents first: a shell with job control does not notice that a child is stopped while it is stopped itself.
    /// Processes started meanwhile are stopped by the next call.
    fn stop(&mut self, now: Instant) {
        if self.has_ended || self.is_still {
            return;
        }
        self.stopped_at.get_or_insert(now);
        self.is_still = true;
        for pid in tree(self.supervisor).into_iter().skip(self.own) {
            let Ok(Some(process)) = Process::read(pid) else { continue };
            let is_known = |known: &Process| known.pid == process.pid && known.started == process.started;
            if !process.is_stopped() && !self.stopped.iter().any(is_known) {
                self.is_still = false;
                process.signal(Signal::STOP);
                self.stopped.push(process);
            }
        }
    }

    fn go_on(&mut self, now: Instant) {
        let Some(stopped_at) = self.stopped_at.take() else { return };
        self.is_still = false;
        self.held += now.duration_since(stopped_at);
        self.stopped.drain(..).rev().for_each(|process| process.signal(Signal::CONT));
    }
}

/// The bytes that a process and its ended children have written to disks, without those dropped before they got there.
pub(super) fn written(process: Pid) -> u64 {
    let Ok(Some(text)) = read_proc(process, "io") else { return 0 };
    let text = String::from_utf8_lossy(&text);
    let number = |name: &str| {
        let mut values =
            text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.trim().parse().ok());
        values.next().unwrap_or(0_u64)
    };
    number("write_bytes").saturating_sub(number("cancelled_write_bytes"))
}

/// The debt of each organization: bytes written above its rate.
struct Budget {
    /// The rate of all organizations together.
    bytes_per_second: f64,
    owed: HashMap<Identifier, f64>,
}

impl Budget {
    /// Divides the rate equally among the organizations with a debt.
    fn note(&mut self, elapsed: Duration, writing: &[(Identifier, u64)]) {
        let earned = self.bytes_per_second * elapsed.as_secs_f64() / self.owed.len().max(1) as f64;
        self.owed.values_mut().for_each(|owed| *owed -= earned);
        for (organization, bytes) in writing.iter().filter(|(_, bytes)| *bytes > 0) {
            *self.owed.entry(organization.clone()).or_default() += *bytes as f64;
        }
        let most = self.bytes_per_second * (AT_ONCE + OWED_MAX);
        self.owed.retain(|_, owed| *owed > 0.0);
        self.owed.values_mut().for_each(|owed| *owed = owed.min(most));
    }

    /// A stopped organization continues only below half of its burst.
    fn is_over(&self, organization: &Identifier, is_stopped: bool) -> bool {
        let at_once = self.bytes_per_second * if is_stopped { AT_ONCE / 2.0 } else { AT_ONCE };
        self.owed.get(organization).is_some_and(|owed| *owed > at_once)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::process::{Command, Stdio};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn budget() -> Budget {
        Budget { bytes_per_second: 100.0, owed: HashMap::new() }
    }

    fn named(name: &str) -> Identifier {
        Identifier::parse(name).unwrap()
    }

    #[test]
    fn who_writes_no_faster_than_the_rate_is_never_stopped() {
        let (mut budget, acme) = (budget(), named("acme"));
        for _ in 0..1_000 {
            budget.note(SECOND / 10, &[(acme.clone(), 10)]);
            assert!(!budget.is_over(&acme, false));
        }
        budget.note(SECOND, &[]);
        assert!(budget.owed.is_empty(), "who owes nothing is forgotten");
    }

    #[test]
    fn who_writes_faster_gets_the_rate_in_the_long_run_and_nobody_else_is_stopped() {
        let (mut budget, acme, zeta) = (budget(), named("acme"), named("zeta"));
        let (mut sum, mut is_stopped) = (0, false);
        for _ in 0..10_000 {
            let bytes = if is_stopped { 0 } else { 7 };
            sum += bytes;
            budget.note(SECOND / 100, &[(acme.clone(), bytes)]);
            is_stopped = budget.is_over(&acme, is_stopped);
            assert!(!budget.is_over(&zeta, false));
        }
        assert!((9_900..=10_100).contains(&sum), "{sum} in 100 seconds");
    }

    #[test]
    fn organizations_that_write_at_the_same_time_get_equal_parts() {
        let (mut budget, both) = (budget(), [named("acme"), named("zeta")]);
        let (mut sums, mut stopped) = ([0, 0], [false, false]);
        for _ in 0..10_000 {
            let bytes = [0, 1].map(|index| if stopped[index] { 0 } else { [7, 3][index] });
            sums = [0, 1].map(|index| sums[index] + bytes[index]);
            budget.note(SECOND / 100, &[(both[0].clone(), bytes[0]), (both[1].clone(), bytes[1])]);
            stopped = [0, 1].map(|index| budget.is_over(&both[index], stopped[index]));
        }
        assert!(sums.iter().all(|sum| (4_800..=5_200).contains(sum)), "{sums:?}");
    }

    #[test]
    fn a_step_that_was_stopped_for_long_owes_little_more_than_a_second() {
        let (mut budget, acme) = (budget(), named("acme"));
        budget.note(SECOND, &[(acme.clone(), 1_000_000)]);
        budget.note(SECOND, &[]);
        assert!(budget.is_over(&acme, true));
        budget.note(SECOND / 5, &[]);
        assert!(!budget.is_over(&acme, true));
    }

    /// A shell acts as the supervisor; its child writes.
    #[test]
    fn a_program_that_writes_too_fast_is_stopped_and_goes_on_when_it_is_not_looked_at_any_more() {
        const DEADLINE: Duration = Duration::from_secs(60);
        let dir = tempfile::tempdir().unwrap();
        let probe = "head -c 1048576 /dev/zero > probe; grep -q '^write_bytes: [1-9]' /proc/$$/io";
        if !Command::new("sh").args(["-c", probe]).current_dir(dir.path()).status().unwrap().success() {
            eprintln!("skipped: what is written to {} is not counted", dir.path().display());
            return;
        }
        let script = "(exec dd if=/dev/zero of=big bs=64k count=16k 2>/dev/null); :";
        let mut shell = Command::new("sh").args(["-c", script]).current_dir(dir.path()).stdin(Stdio::null()).spawn();
        let shell = shell.as_mut().unwrap();
        let supervisor = Pid::from_raw(i32::try_from(shell.id()).unwrap()).unwrap();
        let pace = WritePace::new(1 << 20);
        let paced = pace.look_at(&named("acme"), supervisor, 1);
        let is_stopped = || {
            let child = tree(supervisor).get(1).and_then(|pid| Process::read(*pid).unwrap());
            child.is_some_and(|child| child.is_stopped())
        };
        let until = |wanted: bool| {
            let began = Instant::now();
            while is_stopped() != wanted {
                assert!(began.elapsed() < DEADLINE, "stopped: {}", !wanted);
                std::thread::yield_now();
            }
        };
        until(true);
        drop(paced);
        until(false);
        assert!(pace.inner.state.lock().steps.is_empty());
        let all = tree(supervisor);
        all.iter().rev().for_each(|pid| _ = rustix::process::kill_process(*pid, Signal::KILL));
        shell.wait().unwrap();
    }
}
