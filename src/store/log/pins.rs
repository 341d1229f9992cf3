//! Keeps segments that the database no longer needs, for who reads them as part of a copy. Bounded: a reader that is too
//! slow loses its pin, and the log is not kept for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;

/// Why segments that were pinned are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpinned {
    TooMuch,
    DiskFull,
}

pub struct Pins {
    bytes_max: u64,
    pins: Mutex<Vec<Arc<Held>>>,
}

struct Held {
    /// The last sequence that is not needed.
    after: u64,
    state: AtomicU8,
}

const HELD: u8 = 0;
const TOO_MUCH: u8 = 1;
const DISK_FULL: u8 = 2;

/// Batches after a sequence stay in the log until this is dropped, or the log would grow too long.
pub struct Pin {
    held: Arc<Held>,
    pins: Arc<Pins>,
}

impl Pins {
    /// Keeps at most so much of the log.
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes_max, pins: Mutex::default() })
    }

    pub fn add(self: &Arc<Self>, after: u64) -> Pin {
        let held = Arc::new(Held { after, state: AtomicU8::new(HELD) });
        self.pins.lock().push(held.clone());
        Pin { held, pins: self.clone() }
    }

    /// Up to which sequence segments may be deleted, of those up to `applied`. Breaks the pins if the log that they keep is
    /// too long: `bytes_after` says how long it is from a sequence on.
    pub fn bound(&self, applied: u64, disk_is_low: bool, bytes_after: impl Fn(u64) -> u64) -> u64 {
        let mut pins = self.pins.lock();
        pins.retain(|pin| {
            let broken = match () {
                () if disk_is_low && pin.after < applied => DISK_FULL,
                () if bytes_after(pin.after) > self.bytes_max => TOO_MUCH,
                () => return true,
            };
            pin.state.store(broken, Ordering::Release);
            false
        });
        pins.iter().map(|pin| pin.after).fold(applied, u64::min)
    }
}

impl Pin {
    pub fn bytes_max(&self) -> u64 {
        self.pins.bytes_max
    }

    /// Whether, and why, the log is no longer kept. What was read before that is complete.
    pub fn broken(&self) -> Option<Unpinned> {
        match self.held.state.load(Ordering::Acquire) {
            TOO_MUCH => Some(Unpinned::TooMuch),
            DISK_FULL => Some(Unpinned::DiskFull),
            _ => None,
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.pins.pins.lock().retain(|held| !Arc::ptr_eq(held, &self.held));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_bounds_what_is_deleted_until_it_is_dropped() {
        let pins = Pins::new(100);
        let (first, second) = (pins.add(7), pins.add(5));
        let bound = || pins.bound(9, false, |_| 0);
        assert_eq!(bound(), 5);
        drop(second);
        assert_eq!(bound(), 7);
        assert_eq!(first.broken(), None);
        drop(first);
        assert_eq!(bound(), 9);
    }

    #[test]
    fn a_log_that_grows_too_long_or_a_full_disk_breaks_the_pin() {
        let pins = Pins::new(100);
        let (old, new) = (pins.add(5), pins.add(7));
        assert_eq!(pins.bound(9, false, |after| if after == 5 { 101 } else { 100 }), 7);
        assert_eq!((old.broken(), new.broken()), (Some(Unpinned::TooMuch), None));
        assert_eq!(pins.bound(9, true, |_| 0), 9);
        assert_eq!(new.broken(), Some(Unpinned::DiskFull));
    }
}
