//! What the durability tests need besides a server: a ledger of what was acknowledged, a disk that fills, syscalls
//! under observation, and the log's files; and the tests of full disks and damaged files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on stops, and says why it was skipped"
)]

mod damage;
mod full_disk;
pub mod held;
pub mod ledger;
pub mod log_file;
mod small_disk;
pub mod strace;
pub mod workers;

use std::io::Write;
use std::time::Duration;

/// The server could not start.
pub const EXIT_FAILED: i32 = 1;
pub const EXIT_DISK_FAILED: i32 = 74;

/// Says that a test did not run and why, past the capture of its output, which nobody sees when it passes.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    writeln!(std::io::stderr(), "skipped {test}: {why}").ok();
}

/// Asks again and again until `found` likes the answer. Bounded, since what never comes is a failure.
pub async fn until<T, F: Future<Output = T>>(what: &str, mut ask: impl FnMut() -> F, found: impl Fn(&T) -> bool) -> T {
    const ATTEMPTS: usize = 3000;
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 0..ATTEMPTS {
        let answer = ask().await;
        if found(&answer) {
            return answer;
        }
        tokio::time::sleep(PAUSE).await;
    }
    panic!("{what} did not come");
}

/// The value of a metric without labels, or 0 if it is not there yet.
pub fn metric(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.trim().parse::<f64>().unwrap() as u64)
}
