//! Low-priority threads and programs for long work, which yield to the threads that answer requests; and the limit on
//! the processor time of each organization's work.

use std::any::Any;
use std::collections::HashMap;
use std::num::NonZero;
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, nice, setpriority_process};
use rustix::time::{ClockId, clock_gettime};
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use domain::Identifier;

/// The lowest priority, for the output of steps: whoever waits for that also waits for the step.
pub const LAST: i32 = 19;
/// A tenth of the normal share, for lists: clients wait for those too, but less urgently than for other answers.
const LATER: i32 = 10;

/// Threads for the output of steps.
static OUTPUT: LazyLock<Runtime> = LazyLock::new(|| threads(only_when_idle));
/// Threads for long reads of the store.
static LONG_READS: LazyLock<Runtime> = LazyLock::new(|| threads(|| _ = nice(LATER)));
/// Threads for file operations that low-priority threads hand over and wait for.
static FILES: LazyLock<Runtime> = LazyLock::new(|| threads(|| ()));
/// Threads for work that requests wait for.
static USUAL: LazyLock<Runtime> = LazyLock::new(|| threads(|| ()));

/// A read with its result type erased. Otherwise all code of the threads would be compiled again for each kind of list.
type Read = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

/// Runs a read for a request.
pub async fn read<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    USUAL.spawn_blocking(without_type(work)).await.map(with_type)
}

/// Runs a read for a request at low priority. A thread of normal priority hands the work over: a low-priority thread
/// that waits for a processor may hold the queue's lock, and the caller's thread must keep answering requests.
pub async fn read_later<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    let work = without_type(work);
    USUAL.spawn_blocking(|| LONG_READS.spawn_blocking(work)).await?.await.map(with_type)
}

fn without_type<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Read {
    Box::new(|| Box::new(work()))
}

fn with_type<T: 'static>(result: Box<dyn Any + Send>) -> T {
    *result.downcast().expect("a read returns the result of its own work")
}

/// Runs a read of the output of a step.
pub fn read_output<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    OUTPUT.spawn_blocking(work)
}

/// Lowers the priority of a program that was just started, and of all processes it starts.
pub fn stand_back(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        setpriority_process(Some(pid), LATER).ok();
    }
}

/// Runs the work on a thread of normal priority and waits for it. For writing files: the lower the priority of threads
/// writing to a file system, the longer commits of the store on it took. These threads are separate: callers have low
/// priority, and one that waits for a processor may hold the lock of their queue.
pub fn at_usual_priority<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::sync_channel(1);
    FILES.spawn_blocking(move || tell.send(work()));
    told.recv().expect("writing a file does not panic")
}

/// Runs this thread only when a processor has nothing else to do. The kernel treats such a processor as idle, and moves
/// waking threads to it. With the lowest niceness instead, waking threads would wait behind the thread that woke them.
fn only_when_idle() {
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    if set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle).is_err() {
        nice(LAST).ok();
    }
}

/// A runtime that is only used for its threads. If the system refuses the lower priority, they keep the normal one.
fn threads(begin: fn()) -> Runtime {
    let threads = Builder::new_current_thread().on_thread_start(begin).build();
    threads.expect("a runtime that drives nothing opens nothing that could be missing")
}

/// One organization may use one part in this many of all processor time in the long run.
const PART: u32 = 16;
/// The processor time that an organization may use in a burst, beyond its part.
const AT_ONCE: Duration = Duration::from_millis(100);
const REST_MAX: Duration = Duration::from_secs(1);

/// The pace of each organization's work. All work counts, however small its pieces.
pub struct Paces {
    /// `None` if there is only one organization.
    pace: Option<Pace>,
    /// When each organization will have earned the time that it has used.
    earned: Mutex<HashMap<Identifier, Instant>>,
}

impl Paces {
    /// Paces for one kind of work, on a server with this many organizations.
    pub fn among(organizations: usize) -> Self {
        let pace = (organizations > 1).then(|| Pace::of(thread::available_parallelism().map_or(1, NonZero::get)));
        Self { pace, earned: Mutex::default() }
    }

    /// Records work that used this much processor time. Returns how long the organization has to pause, if it has to.
    pub fn note(&self, organization: &Identifier, used: Duration) -> Option<Duration> {
        let pace = self.pace?;
        let (now, mut earned) = (Instant::now(), self.earned.lock());
        // Organizations without a debt are removed.
        earned.retain(|_, earned| *earned > now);
        let owed = pace.owed_after(owed(earned.get(organization), now), used);
        earned.insert(organization.clone(), now + owed);
        pace.rest(owed)
    }

    /// Whether the organization has used so much that its work should get low priority.
    pub fn is_busy(&self, organization: &Identifier) -> bool {
        self.pace.is_some_and(|pace| pace.is_busy(owed(self.earned.lock().get(organization), Instant::now())))
    }
}

/// The processor time that this thread has used. Measured by the clock, all work on a busy machine would seem long, and
/// would yield to the work that keeps the machine busy.
pub fn time_of_this_thread() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

fn owed(earned: Option<&Instant>, now: Instant) -> Duration {
    earned.map_or(Duration::ZERO, |earned| earned.saturating_duration_since(now))
}

/// Used time is a debt that is earned back over time. A small debt causes no pause.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// The time it takes to earn a second of one processor, in seconds.
    price: f64,
    free: Duration,
}

impl Pace {
    fn of(processors: usize) -> Self {
        let price = f64::from(PART) / processors.max(1) as f64;
        Self { price, free: AT_ONCE.mul_f64(price) }
    }

    /// The debt after this much work. Limited to what one pause earns, so that even a very long read does not delay the
    /// next ones for longer.
    fn owed_after(self, owed: Duration, used: Duration) -> Duration {
        (owed + used.mul_f64(self.price)).min(self.free + REST_MAX)
    }

    fn rest(self, owed: Duration) -> Option<Duration> {
        owed.checked_sub(self.free).filter(|rest| !rest.is_zero())
    }

    fn is_busy(self, owed: Duration) -> bool {
        owed > self.free / 2
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    /// The paces on a server with two processors.
    fn paces() -> Paces {
        Paces { pace: Some(Pace::of(2)), earned: Mutex::default() }
    }

    #[test]
    fn an_organization_may_take_a_sixteenth_of_all_processors() {
        for (processors, price) in [(1, 16.0), (2, 8.0), (16, 1.0), (64, 0.25), (0, 16.0)] {
            assert_eq!(Pace::of(processors).price, price, "{processors} processors");
        }
    }

    #[test]
    fn it_rests_once_it_has_used_more_than_it_may_at_once() {
        let pace = Pace::of(2);
        let allowed = pace.owed_after(Duration::ZERO, AT_ONCE);
        assert_eq!(pace.rest(allowed), None);
        assert_eq!(pace.rest(pace.owed_after(allowed, MILLI)), Some(8 * MILLI));
        assert_eq!(pace.rest(pace.owed_after(allowed, Duration::from_secs(60))), Some(REST_MAX));
        assert!(!pace.is_busy(allowed / 2) && pace.is_busy(allowed));
    }

    #[tokio::test(start_paused = true)]
    async fn many_short_ones_count_as_much_as_a_long_one() {
        let (paces, acme) = (paces(), Identifier::parse("acme").unwrap());
        for _ in 0..1_000 {
            assert_eq!(paces.note(&acme, AT_ONCE / 1_000), None);
        }
        assert!(paces.is_busy(&acme));
        assert!(!paces.is_busy(&Identifier::parse("other").unwrap()));
        assert_eq!(paces.note(&acme, AT_ONCE / 1_000), Some(AT_ONCE / 125));
    }

    #[tokio::test(start_paused = true)]
    async fn with_rests_it_takes_its_part_for_long_and_no_more() {
        let (paces, acme) = (paces(), Identifier::parse("acme").unwrap());
        let (began, mut used) = (Instant::now(), Duration::ZERO);
        while began.elapsed() < Duration::from_secs(60) {
            used += MILLI;
            tokio::time::sleep(paces.note(&acme, MILLI).unwrap_or(MILLI)).await;
        }
        let part = began.elapsed() / 8;
        assert!((part..part + AT_ONCE + 10 * MILLI).contains(&used), "{used:?} of {part:?}");
    }

    #[test]
    fn the_only_organization_of_a_server_never_rests() {
        let (paces, acme) = (Paces::among(1), Identifier::parse("acme").unwrap());
        assert_eq!(paces.note(&acme, 100 * AT_ONCE), None);
        assert!(!paces.is_busy(&acme));
        assert!(Paces::among(2).note(&acme, 100 * AT_ONCE).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_earned_again_is_forgotten() {
        let (paces, acme) = (paces(), Identifier::parse("acme").unwrap());
        paces.note(&acme, AT_ONCE);
        tokio::time::sleep(AT_ONCE * 8).await;
        assert!(!paces.is_busy(&acme));
        assert_eq!(paces.note(&Identifier::parse("other").unwrap(), MILLI), None);
        assert_eq!(paces.earned.lock().len(), 1);
    }
}
