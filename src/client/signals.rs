//! Signals: those that the client passes on to the command, and those that must not end the client or the guard.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal as Named;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failure::Failure;

/// Signals that end the wait for a lock, and are passed on to a running command.
const ENDING: [Named; 4] = [Named::TERM, Named::INT, Named::HUP, Named::QUIT];
/// Other signals that are passed on.
const OTHERS: [Named; 4] = [Named::USR1, Named::USR2, Named::WINCH, Named::CONT];

/// Signals that were sent to this process.
pub struct Signals {
    listened: Vec<(i32, Signal)>,
}

impl Signals {
    /// The signals that end the wait for a lock. Call it inside a runtime.
    pub fn ending() -> Result<Self, Failure> {
        let mut signals = Self { listened: Vec::new() };
        let listening = signals.listen(not_ignored(&ENDING));
        listening.map_err(|error| Failure::Failed(format!("cannot listen to signals: {error}")))?;
        Ok(signals)
    }

    /// Receives these signals, even if the process was started with some of them ignored.
    pub fn of(wanted: &[Named]) -> io::Result<Self> {
        let mut signals = Self { listened: Vec::new() };
        signals.listen(wanted.iter().copied())?;
        Ok(signals)
    }

    /// From here on also receives the other signals for the command. A client that holds a lock is not suspended, since
    /// the lease would not be renewed.
    pub fn all(&mut self) -> io::Result<()> {
        self.listen(not_ignored(&OTHERS))?;
        drop(signal(kind(Named::TSTP))?);
        Ok(())
    }

    fn listen(&mut self, wanted: impl Iterator<Item = Named>) -> io::Result<()> {
        for named in wanted {
            self.listened.push((named.as_raw(), signal(kind(named))?));
        }
        Ok(())
    }

    pub async fn next(&mut self) -> i32 {
        poll_fn(|context| {
            for (number, signal) in &mut self.listened {
                if signal.poll_recv(context).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// From here on, no signal but SIGKILL and SIGSTOP ends or stops this process. Call it inside a runtime, which is only
/// needed to register: once a signal has a listener, it never ends the process again.
pub fn survive() -> io::Result<()> {
    for named in not_ignored(&[ENDING.as_slice(), &OTHERS, &[Named::TSTP, Named::TTIN, Named::TTOU]].concat()) {
        drop(signal(kind(named))?);
    }
    Ok(())
}

fn kind(named: Named) -> SignalKind {
    SignalKind::from_raw(named.as_raw())
}

/// The wanted signals, without those that were ignored when this process was started, as by `nohup` and by `&` in
/// scripts: the command should ignore them too. Listening would undo that.
fn not_ignored(wanted: &[Named]) -> impl Iterator<Item = Named> {
    let status = std::fs::read_to_string("/proc/self/status");
    let ignored = status.map(|status| ignored_in(&status)).unwrap_or_default();
    wanted.iter().copied().filter(move |named| !is_in(ignored, *named))
}

fn ignored_in(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

fn is_in(mask: u64, named: Named) -> bool {
    u32::try_from(named.as_raw() - 1).ok().and_then(|bit| mask.checked_shr(bit)).is_some_and(|rest| rest & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_is_ignored_stays_so() {
        // As left by `nohup` in the background of a script: HUP, INT, QUIT, and PIPE by the language.
        let mask = ignored_in("Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001007\nSigCgt:\t0\n");
        assert_eq!(
            [Named::HUP, Named::INT, Named::QUIT, Named::TERM].map(|named| is_in(mask, named)),
            [true, true, true, false]
        );
        assert_eq!(ignored_in(""), 0);
    }
}
