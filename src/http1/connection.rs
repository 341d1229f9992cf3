//! One open connection: its activity, how long it has stalled, and when it may be closed because of that.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;

use super::socket::Socket;

/// A client that has not read its answer for this long may be dropped in favour of another.
const UNREAD_MILLIS_MIN: u64 = 1_000;
/// A client that has sent no request for this long may be dropped too; before that, the first request is probably on
/// its way.
pub const UNASKED_MILLIS_MIN: u64 = 1_000;

pub struct Tally {
    began: Instant,
    /// The number of connections that are open and have not been told to close.
    staying: AtomicIsize,
}

pub struct Connection {
    pub socket: Socket,
    extension: OnceLock<Box<dyn Any + Send + Sync>>,
    tally: Arc<Tally>,
    stage: AtomicU8,
    in_flight: AtomicU32,
    has_asked: AtomicBool,
    /// Whether a part of the next request has arrived.
    head_begun: AtomicBool,
    active_at_millis: AtomicU64,
    /// Since when the client has not read from its answer; 0 while it reads, or has read everything.
    unread_since_millis: AtomicU64,
    /// How long the client may go without reading; 0 for the usual time.
    patience_millis: AtomicU64,
    /// Whether the connection was opened beyond the limit, so that only probes are answered.
    surplus: AtomicBool,
    /// Whether the loop waits for permission to read.
    held: AtomicBool,
    reader: AtomicWaker,
}

/// The stages of a connection. `OPEN`: it waits for a request.
const OPEN: u8 = 0;
/// Cut off, but not yet dropped by the loop.
const LEAVING: u8 = 1;
const CLOSED: u8 = 2;
/// The head of a request has been read, and the response is not yet complete.
const ANSWERING: u8 = 3;

/// A request in progress, until its answer has been handed over for writing.
pub struct ActiveRequest(Arc<Connection>);

/// A snapshot of a connection, for the rules below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    pub in_flight: bool,
    /// Whether a request on this connection has been answered.
    pub has_asked: bool,
    /// Whether a part of the next request has arrived.
    pub head_begun: bool,
    pub active_at_millis: u64,
    pub unread_since_millis: Option<u64>,
}

/// How long a connection may stall.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionTimeouts {
    /// The time between two requests, if nothing of the second has arrived.
    pub idle: Duration,
    /// The time between two requests, including the head of the second.
    pub silence: Duration,
    /// The time without reading from an answer.
    pub unread: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stall {
    /// Idle for the keep-alive time, which is not the client's fault.
    Idle,
    Silent,
    Unread,
}

/// The order in which connections are closed in favour of others, the most expendable first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expendable {
    /// The client does not read.
    Unread,
    /// The client has not sent a complete request yet.
    NeverAsked,
    /// Kept alive between two requests; the client can open a new connection.
    Idle,
}

impl Activity {
    pub fn stalled(&self, now_millis: u64, timeouts: ConnectionTimeouts) -> Option<Stall> {
        let past = |since: u64, limit: Duration| u128::from(now_millis.saturating_sub(since)) >= limit.as_millis();
        if self.unread_since_millis.is_some_and(|since| past(since, timeouts.unread)) {
            return Some(Stall::Unread);
        }
        let is_idle = self.has_asked && !self.head_begun;
        let (limit, stall) = if is_idle { (timeouts.idle, Stall::Idle) } else { (timeouts.silence, Stall::Silent) };
        (!self.in_flight && past(self.active_at_millis, limit)).then_some(stall)
    }

    /// Whether the connection may be closed in favour of another, and since when. Never while a request is being
    /// executed.
    pub fn expendable(&self, now_millis: u64, unasked_millis_min: u64) -> Option<(Expendable, u64)> {
        match self.unread_since_millis {
            Some(since) if now_millis.saturating_sub(since) >= UNREAD_MILLIS_MIN => Some((Expendable::Unread, since)),
            Some(_) => None,
            None if self.in_flight => None,
            None if self.has_asked => Some((Expendable::Idle, self.active_at_millis)),
            None if now_millis.saturating_sub(self.active_at_millis) < unasked_millis_min => None,
            None => Some((Expendable::NeverAsked, self.active_at_millis)),
        }
    }
}

impl Tally {
    pub fn new() -> Arc<Self> {
        Self::since(Instant::now())
    }

    pub fn since(began: Instant) -> Arc<Self> {
        Arc::new(Self { began, staying: AtomicIsize::new(0) })
    }

    pub fn now_millis(&self) -> u64 {
        self.began.elapsed().as_millis() as u64 + 1
    }

    pub fn staying(&self) -> usize {
        self.staying.load(Ordering::Relaxed).max(0).unsigned_abs()
    }
}

impl Connection {
    pub fn new(socket: Socket, tally: Arc<Tally>) -> Self {
        tally.staying.fetch_add(1, Ordering::Relaxed);
        Self {
            socket,
            extension: OnceLock::new(),
            stage: AtomicU8::new(OPEN),
            in_flight: AtomicU32::new(0),
            has_asked: AtomicBool::new(false),
            head_begun: AtomicBool::new(false),
            active_at_millis: AtomicU64::new(tally.now_millis()),
            unread_since_millis: AtomicU64::new(0),
            patience_millis: AtomicU64::new(0),
            surplus: AtomicBool::new(false),
            held: AtomicBool::new(false),
            reader: AtomicWaker::new(),
            tally,
        }
    }

    /// The server's own value for this connection, created on first use. `None` if the existing value has another type.
    pub fn extension<T: Default + Send + Sync + 'static>(&self) -> Option<&T> {
        self.extension.get_or_init(|| Box::<T>::default()).downcast_ref()
    }

    pub fn request_began(self: &Arc<Self>) -> ActiveRequest {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(self.clone())
    }

    pub fn activity(&self) -> Activity {
        let unread = self.unread_since_millis.load(Ordering::Relaxed);
        Activity {
            in_flight: self.is_busy(),
            has_asked: self.has_asked.load(Ordering::Relaxed),
            head_begun: self.head_begun.load(Ordering::Relaxed),
            active_at_millis: self.active_at_millis.load(Ordering::Relaxed),
            unread_since_millis: (unread > 0).then_some(unread),
        }
    }

    pub fn is_busy(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0
    }

    /// Records that something was read while no request is in progress.
    pub fn note_head(&self) {
        self.head_begun.store(true, Ordering::Relaxed);
    }

    pub fn is_unread(&self) -> bool {
        self.unread_since_millis.load(Ordering::Relaxed) > 0
    }

    pub fn is_surplus(&self) -> bool {
        self.surplus.load(Ordering::Relaxed)
    }

    pub fn set_surplus(&self, surplus: bool) {
        self.surplus.store(surplus, Ordering::Relaxed);
    }

    /// Sets how long responses of this connection may stay unread; `None` for the usual time.
    pub fn set_patience(&self, timeouts: Option<Duration>) {
        self.patience_millis.store(timeouts.map_or(0, |timeouts| timeouts.as_millis() as u64), Ordering::Relaxed);
    }

    /// This connection's timeouts, otherwise the usual ones.
    pub fn timeouts(&self, usual: ConnectionTimeouts) -> ConnectionTimeouts {
        match self.patience_millis.load(Ordering::Relaxed) {
            0 => usual,
            millis => ConnectionTimeouts { unread: Duration::from_millis(millis), ..usual },
        }
    }

    /// Records whether the kernel accepted a write.
    pub fn note_write<T>(&self, written: Poll<T>) -> Poll<T> {
        if written.is_pending() {
            if !self.is_unread() {
                self.unread_since_millis.store(self.tally.now_millis(), Ordering::Relaxed);
            }
        } else if self.is_unread() {
            self.unread_since_millis.store(0, Ordering::Relaxed);
            self.read_on();
        }
        written
    }

    /// Registers the loop to be woken when it may read again.
    pub fn hold(&self, context: &Context<'_>) {
        self.reader.register(context.waker());
        self.held.store(true, Ordering::Relaxed);
    }

    /// Wakes the loop to check again whether it may read.
    pub fn read_on(&self) {
        if self.held.load(Ordering::Relaxed) {
            self.held.store(false, Ordering::Relaxed);
            self.reader.wake();
        }
    }

    /// Cuts the connection off. A client that does not read is reset, and loses its unread answers. For any other
    /// client the server stops reading, and the loop answers the bytes already received: a request that arrives at this
    /// moment is refused, not dropped. False if the connection has already ended, or a request began after the
    /// connection was chosen.
    pub fn cut_off(&self) -> bool {
        let is_unread = self.is_unread();
        let leaves = |from| self.stage.compare_exchange(from, LEAVING, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        let left = leaves(OPEN) || (is_unread && leaves(ANSWERING));
        if left {
            self.tally.staying.fetch_sub(1, Ordering::Relaxed);
            if is_unread {
                self.socket.reset();
            } else {
                self.socket.shut_reading();
            }
            self.read_on();
        }
        left
    }

    /// Called when the loop has read the head of a request. False if the connection was cut off before; the request is
    /// then refused.
    pub fn begin_answer(&self) -> bool {
        self.stage.compare_exchange(OPEN, ANSWERING, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Allows cutting off the connection again.
    pub fn end_answer(&self) {
        self.stage.compare_exchange(ANSWERING, OPEN, Ordering::Relaxed, Ordering::Relaxed).ok();
    }

    /// Whether the loop must refuse further requests.
    pub fn is_turned_away(&self) -> bool {
        self.stage.load(Ordering::Relaxed) == LEAVING
    }

    /// Whether no request has been answered yet, so that the first one is probably on its way.
    pub fn has_never_asked(&self) -> bool {
        !self.has_asked.load(Ordering::Relaxed)
    }

    /// Called when the loop has dropped the connection.
    pub fn closed(&self) {
        if matches!(self.stage.swap(CLOSED, Ordering::Relaxed), OPEN | ANSWERING) {
            self.tally.staying.fetch_sub(1, Ordering::Relaxed);
        }
        self.socket.close();
    }

    pub fn is_open(&self) -> bool {
        matches!(self.stage.load(Ordering::Relaxed), OPEN | ANSWERING)
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let connection = &self.0;
        connection.active_at_millis.store(connection.tally.now_millis(), Ordering::Relaxed);
        connection.has_asked.store(true, Ordering::Relaxed);
        connection.head_begun.store(false, Ordering::Relaxed);
        connection.in_flight.fetch_sub(1, Ordering::Relaxed);
        connection.read_on();
    }
}

#[cfg(test)]
impl Connection {
    pub fn now(&self) -> u64 {
        self.tally.now_millis()
    }

    pub fn quiet_since(&self, millis: u64) {
        self.active_at_millis.store(millis, Ordering::Relaxed);
    }

    pub fn unread_since(&self, millis: u64) {
        self.unread_since_millis.store(millis, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUTS: ConnectionTimeouts = ConnectionTimeouts {
        idle: Duration::from_secs(50),
        silence: Duration::from_secs(60),
        unread: Duration::from_secs(10),
    };
    const NOW: u64 = 100_000;

    fn activity(in_flight: bool, active_at_millis: u64, unread_since_millis: Option<u64>) -> Activity {
        Activity { in_flight, has_asked: true, head_begun: true, active_at_millis, unread_since_millis }
    }

    #[test]
    fn a_connection_stalls_when_it_is_silent_or_takes_nothing_but_not_while_its_request_waits() {
        for (in_flight, active_at, unread_since, stall) in [
            (false, NOW, None, None),
            (false, NOW - 60_000, None, Some(Stall::Silent)),
            (true, NOW - 60_000, None, None),
            (true, NOW - 60_000, Some(NOW - 9_999), None),
            (true, NOW, Some(NOW - 10_000), Some(Stall::Unread)),
            (false, NOW, Some(NOW - 10_000), Some(Stall::Unread)),
        ] {
            let activity = activity(in_flight, active_at, unread_since);
            assert_eq!(activity.stalled(NOW, TIMEOUTS), stall, "{activity:?}");
        }
    }

    #[test]
    fn an_idle_connection_stalls_sooner_than_one_whose_next_request_has_begun() {
        let idle = Activity { head_begun: false, ..activity(false, NOW - 55_000, None) };
        assert_eq!(idle.stalled(NOW, TIMEOUTS), Some(Stall::Idle));
        assert_eq!(Activity { head_begun: true, ..idle }.stalled(NOW, TIMEOUTS), None);
        assert_eq!(Activity { has_asked: false, ..idle }.stalled(NOW, TIMEOUTS), None, "its first request has a limit");
    }

    #[test]
    fn a_connection_with_a_request_is_never_closed_for_another_one_unless_its_answer_is_not_read() {
        assert_eq!(activity(true, 0, None).expendable(NOW, UNASKED_MILLIS_MIN), None);
        assert_eq!(activity(true, 0, Some(NOW - 999)).expendable(NOW, UNASKED_MILLIS_MIN), None, "it may just be slow");
        assert_eq!(
            activity(true, 0, Some(NOW - 1_000)).expendable(NOW, UNASKED_MILLIS_MIN),
            Some((Expendable::Unread, NOW - 1_000))
        );
        assert_eq!(activity(false, 7, None).expendable(NOW, UNASKED_MILLIS_MIN), Some((Expendable::Idle, 7)));
        let never = |since| Activity { has_asked: false, ..activity(false, since, None) };
        assert_eq!(never(7).expendable(NOW, UNASKED_MILLIS_MIN), Some((Expendable::NeverAsked, 7)));
        assert_eq!(never(NOW - 999).expendable(NOW, UNASKED_MILLIS_MIN), None, "its request may be on its way");
        assert_eq!(never(NOW - 999).expendable(NOW, 0), Some((Expendable::NeverAsked, NOW - 999)), "one of a crowd");
    }

    #[test]
    fn who_does_not_read_goes_first_then_who_never_asked_then_who_is_idle_longest() {
        use Expendable::{Idle, NeverAsked, Unread};
        let mut candidates = [(Idle, 1), (NeverAsked, 3), (Unread, 9), (Idle, 0), (NeverAsked, 2)];
        candidates.sort_unstable();
        assert_eq!(candidates, [(Unread, 9), (NeverAsked, 2), (NeverAsked, 3), (Idle, 0), (Idle, 1)]);
    }
}
