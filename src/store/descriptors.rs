//! Running out of file descriptors is not a disk failure: some are freed sooner or later.

use std::io;
use std::time::Duration;

use rustix::io::Errno;

use ambient::backoff::{Backoff, Retries};

/// The pauses start short, as most shortages are, and grow to one that costs little during a long one.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));
/// Advice for the operator.
pub const SHORTAGE: &str = "no file descriptors left: raise the limit (ulimit -n) or lower http.max_connections";

/// Whether the process or the system has no descriptor left.
pub fn is_shortage(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Retries as long as it fails for lack of descriptors.
pub fn retrying<T>(attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    pausing(attempt, std::thread::sleep)
}

fn pausing<T>(mut attempt: impl FnMut() -> io::Result<T>, mut pause: impl FnMut(Duration)) -> io::Result<T> {
    let mut retries = Retries::new(BACKOFF);
    loop {
        match attempt() {
            Err(error) if is_shortage(&error) => {
                let next = retries.failed();
                if retries.is_first() {
                    tracing::warn!(%error, "{SHORTAGE}; the database retries");
                }
                pause(next);
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_shortage_is_waited_out_in_pauses_that_stay_short() {
        let mut left = 20;
        let mut pauses = Vec::new();
        let attempt = || {
            left -= 1;
            if left == 0 { Ok("done") } else { Err([Errno::MFILE, Errno::NFILE][left % 2].into()) }
        };
        assert_eq!(pausing(attempt, |pause| pauses.push(pause)).unwrap(), "done");
        assert_eq!(pauses.len(), 19);
        assert!(
            pauses[0] <= Duration::from_millis(10) && *pauses.last().unwrap() <= Duration::from_secs(1),
            "{pauses:?}"
        );
    }

    #[test]
    fn another_failure_is_told_at_once() {
        let failed = pausing(|| Err::<(), _>(Errno::IO.into()), |_| panic!("it waits"));
        assert_eq!(Errno::from_io_error(&failed.unwrap_err()), Some(Errno::IO));
    }
}
