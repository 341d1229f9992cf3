//! Admits requests that another node has forwarded: each signed request once, while it is new.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::via::{Freshness, HeadersHash, NotFresh, Signed, Unsigned, Via, ViaKey};

/// The response header that tells the forwarding node why its request was refused.
pub const REFUSED: &str = "lockkeeper-via-refused";

/// The minimum time between two log entries about bad requests, which anybody can send.
const LOGGED_EVERY: Duration = Duration::from_secs(10);

/// Cheap to clone.
#[derive(Clone)]
pub struct Gate(Arc<Inner>);

struct Inner {
    /// The name of this node.
    node: String,
    key: ViaKey,
    clock: Clock,
    freshness: Mutex<Freshness>,
    logged: Mutex<Logged>,
}

#[derive(Default)]
struct Logged {
    last: Option<Instant>,
    left_out: u64,
}

/// Why a request of another node is refused. The request was not executed, unless it was seen before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViaError {
    Signature,
    Form,
    Seen,
    /// The time to sign with, as written by [`ViaKey::vouch`].
    Time(String),
}

/// The time of day at the start of this process, plus the time since. It cannot be set.
#[derive(Clone, Copy)]
pub struct Clock {
    began: Instant,
    began_millis: u64,
}

impl Clock {
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { began: Instant::now(), began_millis: millis(since_epoch) }
    }

    pub fn now(&self) -> u64 {
        self.began_millis + millis(self.began.elapsed())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 2)
}

impl Gate {
    pub fn new(node: &str, key: ViaKey, clock: Clock) -> Self {
        let (freshness, logged) = (Mutex::new(Freshness::new(clock.now())), Mutex::default());
        Self(Arc::new(Inner { node: node.to_owned(), key, clock, freshness, logged }))
    }

    /// Verifies this header of an incoming request, and returns the request's origin.
    pub fn admit(
        &self,
        header: &str,
        (method, target): (&str, &str),
        headers: &HeadersHash,
        from: Option<IpAddr>,
    ) -> Result<Via, ViaError> {
        let Inner { node, key, clock, freshness, .. } = &*self.0;
        let request = Signed { to: node, method, target, headers };
        let admitted = match key.check(header, request) {
            Err(Unsigned::BadSignature) => Err(ViaError::Signature),
            Err(Unsigned::OtherForm) => Err(ViaError::Form),
            Ok((via, stamp)) => match freshness.lock().admit(stamp, clock.now()) {
                Ok(()) => Ok(via),
                Err(NotFresh::Seen) => Err(ViaError::Seen),
                // The node will sign again, and logs it if the clocks are far apart.
                Err(NotFresh::Time { acceptable }) => return Err(ViaError::Time(key.vouch(acceptable, stamp.nonce))),
            },
        };
        admitted.inspect_err(|refusal| self.log(refusal, from))
    }

    fn log(&self, refusal: &ViaError, from: Option<IpAddr>) {
        let mut logged = self.0.logged.lock();
        if logged.last.is_some_and(|last| last.elapsed() < LOGGED_EVERY) {
            logged.left_out += 1;
            return;
        }
        let left_out = std::mem::take(&mut logged.left_out);
        logged.last = Some(Instant::now());
        drop(logged);
        let from = from.map(tracing::field::display);
        tracing::warn!(from, left_out, "refused a request as of another node: {}", refusal.why());
    }
}

impl ViaError {
    pub fn header(&self) -> String {
        match self {
            ViaError::Signature => "signature".to_owned(),
            ViaError::Form => "form".to_owned(),
            ViaError::Seen => "seen".to_owned(),
            ViaError::Time(vouched) => format!("time {vouched}"),
        }
    }

    /// An unknown refusal, perhaps from a later version, counts as a bad signature.
    pub fn read(header: &str) -> ViaError {
        match header.split_once(' ') {
            Some(("time", vouched)) => ViaError::Time(vouched.to_owned()),
            _ if header == "signature" => ViaError::Signature,
            _ if header == "seen" => ViaError::Seen,
            _ => ViaError::Form,
        }
    }

    /// The reason with advice, for the logs of both nodes.
    pub fn why(&self) -> &'static str {
        match self {
            ViaError::Signature => {
                "it is not signed for the node that received it, with its key; LOCKKEEPER_MASTER_KEY must be the same on all nodes, and \
                 cluster.advertise of each must lead to it alone"
            }
            ViaError::Form => {
                "it is not signed as the version of the node that received it does; stop all nodes, and start them with the \
                 same version"
            }
            ViaError::Seen => "it has come before",
            ViaError::Time(_) => "it is signed by another time than that of the node that received it",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_read_as_it_was_written() {
        for refusal in [ViaError::Signature, ViaError::Form, ViaError::Seen, ViaError::Time("42 00".to_owned())] {
            assert_eq!(ViaError::read(&refusal.header()), refusal);
        }
        assert_eq!(ViaError::read("of a later version"), ViaError::Form);
    }
}
