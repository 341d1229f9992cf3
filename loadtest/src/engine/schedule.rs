//! Schedules the requests of an open loop, and divides the environments among the clients.
//!
//! In an open loop requests are due at a fixed rate, whether or not the server keeps up. A client measures latency from
//! the time its request was due, so that a stalled server cannot hide the wait of requests that could not be sent
//! (coordinated omission).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

/// The minimum sleep, so that the schedule itself uses little CPU; requests are late by at most this.
const SHORTEST_NAP: Duration = Duration::from_micros(100);

pub struct Arrivals {
    start: Instant,
    rate: f64,
    /// One permit per request that is due and not yet taken, so the backlog takes no memory.
    due: Semaphore,
    taken: AtomicU64,
    closed: AtomicBool,
}

impl Arrivals {
    /// Starts the schedule in a separate thread: a runtime's timer has millisecond resolution, and tens of requests may
    /// be due per millisecond.
    pub fn begin(rate: f64) -> std::io::Result<Arc<Self>> {
        let arrivals = Arc::new(Self::new(Instant::now(), rate));
        let paced = arrivals.clone();
        std::thread::Builder::new().name("arrivals".to_owned()).spawn(move || paced.pace())?;
        Ok(arrivals)
    }

    fn new(start: Instant, rate: f64) -> Self {
        let (due, taken, closed) = (Semaphore::new(0), AtomicU64::new(0), AtomicBool::new(false));
        Self { start, rate, due, taken, closed }
    }

    /// Waits until the next request is due and returns its due time; `None` once the schedule has ended.
    pub async fn next(&self) -> Option<Instant> {
        self.due.acquire().await.ok()?.forget();
        Some(self.due_at(self.taken.fetch_add(1, Ordering::Relaxed)))
    }

    /// Ends the schedule. Requests that were due and not taken, because every client was busy, stay counted.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.due.close();
    }

    pub fn never_taken(&self) -> u64 {
        self.due.available_permits() as u64
    }

    fn due_at(&self, number: u64) -> Instant {
        self.start + Duration::from_secs_f64(number as f64 / self.rate)
    }

    /// The number of requests due at this time; the first is due at the start.
    fn due_by(&self, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.start).as_secs_f64();
        (elapsed * self.rate) as u64 + 1
    }

    fn pace(&self) {
        let mut announced = 0;
        while !self.closed.load(Ordering::Relaxed) {
            let due = self.due_by(Instant::now());
            // The semaphore has a maximum; the rest is added in the next iteration.
            let fresh = (due - announced).min(Semaphore::MAX_PERMITS as u64 / 2);
            if self.due.available_permits() as u64 + fresh < Semaphore::MAX_PERMITS as u64 {
                self.due.add_permits(fresh as usize);
                announced += fresh;
            }
            let pause = self.due_at(announced).saturating_duration_since(Instant::now());
            // Short enough to notice soon that the schedule has been closed.
            std::thread::sleep(pause.clamp(SHORTEST_NAP, Duration::from_millis(100)));
        }
    }
}

/// Environments used by one client only, so that none of the client's claims can be refused.
pub struct Share {
    first: u32,
    left_out: Vec<bool>,
    next: usize,
    left: usize,
}

/// The numbers (from 1) of the environments of one connection out of many; shares differ in size by at most one.
pub fn share_of(connection: u32, connections: u32, environments: u32) -> Range<u32> {
    let start = |connection: u32| {
        let before = u64::from(connection) * u64::from(environments) / u64::from(connections);
        u32::try_from(before).expect("at most the number of environments, which is a u32") + 1
    };
    start(connection)..start(connection + 1)
}

impl Share {
    pub fn new(numbers: Range<u32>) -> Self {
        let left_out = vec![false; numbers.len()];
        Self { first: numbers.start, left: left_out.len(), left_out, next: 0 }
    }

    /// Cycles through the environments that are not left out; `None` if all of them are.
    pub fn advance(&mut self) -> Option<u32> {
        if self.left == 0 {
            return None;
        }
        loop {
            let index = self.next;
            self.next = (index + 1) % self.left_out.len();
            if !self.left_out[index] {
                return Some(self.first + u32::try_from(index).expect("the shares are counted in u32"));
            }
        }
    }

    /// One client's share.
    pub fn of(client: u32, clients: u32, environments: u32) -> Self {
        Self::new(share_of(client, clients, environments))
    }

    /// Leaves out an environment in an unknown state: the server would correctly refuse the next claim.
    pub fn leave_out(&mut self, number: u32) {
        let index = (number - self.first) as usize;
        if !self.left_out[index] {
            self.left_out[index] = true;
            self.left -= 1;
        }
    }
}

#[cfg(test)]
mod arrivals_tests {
    use super::*;

    #[test]
    fn requests_are_due_evenly_from_the_start() {
        let start = Instant::now();
        let arrivals = Arrivals::new(start, 4.0);
        for (number, millis) in [(0, 0), (1, 250), (4, 1_000), (400, 100_000)] {
            assert_eq!(arrivals.due_at(number), start + Duration::from_millis(millis));
        }
        for (millis, count) in [(0, 1), (249, 1), (250, 2), (1_000, 5)] {
            assert_eq!(arrivals.due_by(start + Duration::from_millis(millis)), count);
        }
    }

    #[tokio::test]
    async fn a_client_that_was_held_up_is_told_when_its_request_was_due() {
        let start = Instant::now() - Duration::from_secs(10);
        let arrivals = Arrivals::new(start, 2.0);
        // Nobody took a request for ten seconds; each is still due, at its original time.
        arrivals.due.add_permits(arrivals.due_by(start + Duration::from_secs(10)) as usize);
        assert_eq!(arrivals.next().await, Some(start));
        assert_eq!(arrivals.next().await, Some(start + Duration::from_millis(500)));
        assert_eq!(arrivals.never_taken(), 19);
    }

    #[tokio::test]
    async fn a_closed_schedule_lets_everybody_go() {
        let arrivals = Arc::new(Arrivals::new(Instant::now(), 1.0));
        let waiting = tokio::spawn({
            let arrivals = arrivals.clone();
            async move { arrivals.next().await }
        });
        tokio::task::yield_now().await;
        arrivals.close();
        assert_eq!(waiting.await.expect("it does not panic"), None);
    }

    #[tokio::test]
    async fn the_schedule_announces_what_is_due_by_itself() {
        let arrivals = Arrivals::begin(1_000.0).expect("a thread");
        let mut last = None;
        for _ in 0..20 {
            let due = arrivals.next().await;
            assert!(due > last && due <= Some(Instant::now()), "in order and never early");
            last = due;
        }
        arrivals.close();
    }
}

#[cfg(test)]
mod share_tests {
    use super::*;

    #[test]
    fn the_shares_cover_every_environment_once() {
        for (connections, environments) in [(1, 1), (3, 10), (64, 1_000), (20_000, 1_000_000), (7, 7)] {
            let mut expected = 1;
            for connection in 0..connections {
                let share = share_of(connection, connections, environments);
                assert_eq!(share.start, expected);
                assert!(!share.is_empty());
                expected = share.end;
            }
            assert_eq!(expected, environments + 1);
        }
    }

    #[test]
    fn a_walk_goes_round_and_passes_over_what_is_left_out() {
        let mut share = Share::new(5..8);
        share.leave_out(6);
        share.leave_out(6);
        let walk: Vec<_> = (0..4).map(|_| share.advance()).collect();
        assert_eq!(walk, [Some(5), Some(7), Some(5), Some(7)]);
        share.leave_out(5);
        share.leave_out(7);
        assert_eq!(share.advance(), None);
    }
}
