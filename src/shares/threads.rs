//! Threads and programs for long work, which stand back behind the threads that answer requests.

use std::any::Any;
use std::sync::{LazyLock, mpsc};

use rustix::process::{Pid, nice, setpriority_process};
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinError, JoinHandle};

/// The lowest priority. Nobody waits for the output of a step who is not waiting for the step.
pub const LAST: i32 = 19;
/// A tenth of the usual share: somebody waits for a list too, but fewer than for everything else.
const LATER: i32 = 10;

/// For the output of steps.
static OUTPUT: LazyLock<Runtime> = LazyLock::new(|| threads(only_when_idle));
/// For long reads of the store.
static LONG_READS: LazyLock<Runtime> = LazyLock::new(|| threads(|| _ = nice(LATER)));
/// For files of threads that stand back, which those hand in and wait for.
static FILES: LazyLock<Runtime> = LazyLock::new(|| threads(|| ()));
/// For work that requests wait for.
static USUAL: LazyLock<Runtime> = LazyLock::new(|| threads(|| ()));

/// A read with the type of its result left out: otherwise everything that the threads do would be built for each kind of list.
type Read = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

/// Reads for a request.
pub async fn read<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    USUAL.spawn_blocking(without_type(work)).await.map(with_type)
}

/// Reads for a request that stands back behind the others. A thread of the usual priority hands it over: the lock of the
/// queue may be held by a thread that stands back and waits for a processor, and the caller's thread answers requests.
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

/// Reads the output of a step.
pub fn read_output<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    OUTPUT.spawn_blocking(work)
}

/// Puts a program that was just started behind the threads that answer requests, and with it all that it starts.
pub fn stand_back(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        setpriority_process(Some(pid), LATER).ok();
    }
}

/// Runs the work on a thread of the usual priority and waits for it. For writing files: commits of the store took longer the
/// lower the priority of threads that wrote to the same file system was. It has threads of its own: callers stand back, and
/// one that waits for a processor may hold the lock of their queue.
pub fn at_usual_priority<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::sync_channel(1);
    FILES.spawn_blocking(move || tell.send(work()));
    told.recv().expect("writing a file does not panic")
}

/// Runs this thread where no other wants to. The kernel takes a processor with nothing else to do for an idle one, and moves
/// threads there that wake up; with the lowest niceness instead, they would wait behind the thread that woke them.
fn only_when_idle() {
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    if set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle).is_err() {
        nice(LAST).ok();
    }
}

/// A runtime that is used for its threads alone. If the system refuses them another priority, they have the usual one.
fn threads(begin: fn()) -> Runtime {
    let threads = Builder::new_current_thread().on_thread_start(begin).build();
    threads.expect("a runtime that drives nothing opens nothing that could be missing")
}
