//! Threads and programs for long work, which stand back behind the threads that answer requests.

use std::sync::{LazyLock, mpsc};

use rustix::process::{Pid, nice, setpriority_process};
use tokio::runtime::{Builder, Runtime};

/// The lowest priority. Nobody waits for the output of a step who is not waiting for the step.
pub const LAST: i32 = 19;
/// A tenth of the usual share: somebody waits for a list too, but fewer than for everything else.
const LATER: i32 = 10;

/// For the output of steps.
pub static OUTPUT: LazyLock<Runtime> = LazyLock::new(|| threads(LAST));
/// For long reads of the store.
pub static LONG_READS: LazyLock<Runtime> = LazyLock::new(|| threads(LATER));
/// For work that others wait for.
pub static USUAL: LazyLock<Runtime> = LazyLock::new(|| threads(0));

/// Puts a program that was just started behind the threads that answer requests, and with it all that it starts.
pub fn stand_back(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        setpriority_process(Some(pid), LATER).ok();
    }
}

/// Runs the work on a thread of the usual priority and waits for it. For writing files: commits of the store took longer the
/// lower the priority of threads that wrote to the same file system was.
pub fn at_usual_priority<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::sync_channel(1);
    USUAL.spawn_blocking(move || tell.send(work()));
    told.recv().expect("writing a file does not panic")
}

/// A runtime that is used for its threads alone. If the system refuses them another priority, they have the usual one.
fn threads(niceness: i32) -> Runtime {
    let threads = Builder::new_current_thread().on_thread_start(move || _ = nice(niceness)).build();
    threads.expect("a runtime that drives nothing opens nothing that could be missing")
}
