//! The body of a request on its way from the connection to the handler. Both are one task, so no lock or wake-up is
//! needed: the connection polls the handler whenever more bytes have arrived.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;

/// The maximum number of bytes buffered for a handler that has not read them.
const UNREAD_MAX: usize = 32 * 1024;

/// The handler's side of a body.
pub enum Incoming {
    /// Received together with the head, as most bodies are. Empty if there is no body, or after it was read.
    Whole(Bytes),
    /// Not complete yet.
    Arriving(Rc<RefCell<Arrived>>),
}

/// The connection's side of a body.
pub struct Feed(Rc<RefCell<Arrived>>);

#[derive(Default)]
pub struct Arrived {
    pieces: VecDeque<Bytes>,
    bytes: usize,
    end: Option<End>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Complete,
    CutShort,
}

/// The client stopped sending, or the body is malformed.
#[derive(Debug, PartialEq, Eq)]
pub struct CutShort;

impl Incoming {
    pub fn none() -> Self {
        Self::Whole(Bytes::new())
    }

    /// A body that the connection fills.
    pub fn arriving() -> (Self, Feed) {
        let arrived = Rc::new(RefCell::new(Arrived::default()));
        (Self::Arriving(arrived.clone()), Feed(arrived))
    }

    /// Takes the whole body; `None` if it is not complete yet.
    pub fn whole(&mut self) -> Option<Bytes> {
        match self {
            Self::Whole(bytes) => Some(std::mem::take(bytes)),
            Self::Arriving(_) => None,
        }
    }

    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, CutShort>> {
        match self {
            Self::Whole(bytes) if bytes.is_empty() => None,
            Self::Whole(bytes) => Some(Ok(std::mem::take(bytes))),
            Self::Arriving(arrived) => {
                poll_fn(|_| {
                    let arrived = &mut *arrived.borrow_mut();
                    if let Some(piece) = arrived.pieces.pop_front() {
                        arrived.bytes -= piece.len();
                        return Poll::Ready(Some(Ok(piece)));
                    }
                    match arrived.end {
                        Some(End::Complete) => Poll::Ready(None),
                        Some(End::CutShort) => Poll::Ready(Some(Err(CutShort))),
                        None => Poll::Pending,
                    }
                })
                .await
            }
        }
    }
}

impl Feed {
    pub fn push(&self, piece: Bytes) {
        let mut arrived = self.0.borrow_mut();
        arrived.bytes += piece.len();
        arrived.pieces.push_back(piece);
    }

    pub fn complete(&self) {
        self.end(End::Complete);
    }

    pub fn cut_short(&self) {
        self.end(End::CutShort);
    }

    /// Whether the whole body has been read from the connection.
    pub fn is_complete(&self) -> bool {
        self.0.borrow().end == Some(End::Complete)
    }

    /// Whether more may arrive and the handler still reads.
    pub fn is_open(&self) -> bool {
        Rc::strong_count(&self.0) > 1 && self.0.borrow().end.is_none()
    }

    /// Whether the handler has read almost everything.
    pub fn wants_more(&self) -> bool {
        self.is_open() && self.0.borrow().bytes < UNREAD_MAX
    }

    fn end(&self, end: End) {
        let mut arrived = self.0.borrow_mut();
        arrived.end = arrived.end.or(Some(end));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_body_comes_in_its_pieces_and_ends_once() {
        let (mut incoming, feed) = Incoming::arriving();
        assert_eq!(incoming.next().now_or_never(), None, "nothing yet");
        feed.push(Bytes::from_static(b"ab"));
        feed.push(Bytes::from_static(b"c"));
        feed.complete();
        feed.cut_short();
        assert!(feed.is_complete(), "what comes after the end does not count");
        for piece in [&b"ab"[..], b"c"] {
            assert_eq!(incoming.next().now_or_never().unwrap().unwrap().unwrap(), piece);
        }
        assert_eq!(incoming.next().now_or_never(), Some(None));
    }

    #[test]
    fn one_that_is_cut_short_says_so_after_what_has_come() {
        let (mut incoming, feed) = Incoming::arriving();
        feed.push(Bytes::from_static(b"ab"));
        feed.cut_short();
        assert!(incoming.next().now_or_never().unwrap().unwrap().is_ok());
        assert_eq!(incoming.next().now_or_never(), Some(Some(Err(CutShort))));
        assert!(!feed.is_complete());
    }

    #[test]
    fn no_more_is_wanted_than_somebody_reads() {
        let (mut incoming, feed) = Incoming::arriving();
        assert!(feed.wants_more());
        feed.push(Bytes::from(vec![0; UNREAD_MAX]));
        assert!(!feed.wants_more());
        incoming.next().now_or_never().unwrap();
        assert!(feed.wants_more());
        drop(incoming);
        assert!(!feed.wants_more(), "the handler has ended");
    }
}
