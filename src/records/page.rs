//! A stored page of an environment's history: the ended sessions of a few consecutive numbers, each after its number
//! and its length, in the order in which they were written.
//!
//! A page in memory has the same bytes, so adding a session is one copy, and the other sessions are not re-encoded.

use std::ops::{Range, RangeInclusive};

use super::{decode_session, write_session};
use domain::Session;
use store::record::{self, Record, RecordError, records};

/// Number of sessions per page. The store writes a frequently changed record to its database only occasionally, so
/// larger pages need fewer writes. But each ended session writes the earlier ones of its page to the log again, and
/// eight of the largest sessions must fit into one batch.
pub const PAGE_SESSIONS: u64 = 8;

/// Maximum size of a number and a length.
const HEAD_BYTES: usize = 20;
/// The size of a typical session, so that writing it needs no reallocation.
const USUAL_SESSION_BYTES: usize = 384;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    record: Vec<u8>,
}

/// A page without sessions: the store has no record of it.
impl Default for Page {
    fn default() -> Self {
        Self { record: vec![Self::VERSION] }
    }
}

records!(Page = "history page" version 2);

struct Entry<'a> {
    number: u64,
    session: &'a [u8],
    place: Range<usize>,
}

impl Page {
    /// The page of a session.
    pub fn of(session: u64) -> u64 {
        session / PAGE_SESSIONS
    }

    /// The first number in a page.
    pub fn first_of(page: u64) -> u64 {
        page * PAGE_SESSIONS
    }

    /// Whether the session is the first in its page. Numbers begin with 1.
    pub fn begins_with(session: u64) -> bool {
        session.is_multiple_of(PAGE_SESSIONS) || session == 1
    }

    pub fn read(record: Vec<u8>) -> Result<Self, RecordError> {
        record::split::<Self>(&record)?;
        Ok(Self { record })
    }

    /// The record to store; `None` for a page without sessions.
    pub fn record(&self) -> Option<&[u8]> {
        (self.record.len() > 1).then_some(&self.record)
    }

    /// The page with this session added, or replaced if the page has its number.
    pub fn with(&self, number: u64, session: &Session) -> Result<Self, RecordError> {
        let mut replaced = 0..0;
        for entry in self.entries() {
            let entry = entry?;
            if entry.number == number {
                replaced = entry.place;
            }
        }
        let kept = self.record.len() - replaced.len();
        let mut record = Vec::with_capacity(kept + HEAD_BYTES + USUAL_SESSION_BYTES);
        record.extend_from_slice(&self.record[..replaced.start]);
        record.extend_from_slice(&self.record[replaced.end..]);
        write_session(session, &mut record);
        // The length is known only after the session is written, so number and length are written last and then moved
        // to the front.
        let end = record.len();
        record::append(&(number, end - kept), &mut record);
        let head = record.len() - end;
        record[kept..].rotate_right(head);
        Ok(Self { record })
    }

    /// The page's sessions with these numbers.
    pub fn sessions(&self, numbers: RangeInclusive<u64>) -> Result<Vec<Session>, RecordError> {
        let mut sessions = Vec::new();
        for entry in self.entries() {
            let entry = entry?;
            if numbers.contains(&entry.number) {
                sessions.push(decode_session(entry.session)?);
            }
        }
        Ok(sessions)
    }

    fn entries(&self) -> impl Iterator<Item = Result<Entry<'_>, RecordError>> {
        let mut at = 1;
        std::iter::from_fn(move || {
            let start = at;
            let rest = self.record.get(start..).filter(|rest| !rest.is_empty())?;
            let entry = record::take_numbered::<Self>(rest).map(|((number, session), after)| {
                at = self.record.len() - after.len();
                Entry { number, session, place: start..at }
            });
            if entry.is_err() {
                at = self.record.len();
            }
            Some(entry)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use domain::{IdSeed, Origin, Person, Priority, SessionId, Timestamp, UserId};
    use store::record::Fault;

    fn session(created_at: i64) -> Session {
        Session {
            id: SessionId { seed: IdSeed([7; 12]), origin: Origin::Granted(1) },
            user: Person { id: UserId(IdSeed([1; 12])), name: "ana".into() },
            commit: None,
            context: None,
            priority: Priority::default(),
            ttl_seconds: None,
            created_at: Timestamp::from_millis(created_at),
            claimed: None,
            ended: None,
            deployments: Vec::new(),
            deployment_count: 0,
            revision: 1,
        }
    }

    fn created(page: &Page, numbers: RangeInclusive<u64>) -> Vec<i64> {
        page.sessions(numbers).unwrap().iter().map(|session| session.created_at.as_millis()).collect()
    }

    #[test]
    fn a_session_that_is_put_again_takes_the_place_of_what_it_was() {
        let mut page = Page::default();
        assert_eq!((page.record(), created(&page, 0..=u64::MAX)), (None, vec![]));
        for number in 8..16 {
            page = page.with(number, &session(number as i64)).unwrap();
        }
        for number in [8, 12, 15] {
            page = page.with(number, &session(100 + number as i64)).unwrap();
        }
        let read = Page::read(page.record().unwrap().to_vec()).unwrap();
        assert_eq!(read, page);
        let mut all = created(&read, 0..=u64::MAX);
        all.sort_unstable();
        assert_eq!(all, [9, 10, 11, 13, 14, 108, 112, 115]);
        assert_eq!(
            (created(&read, 12..=12), created(&read, 13..=13), created(&read, 16..=20)),
            (vec![112], vec![13], vec![])
        );
    }

    #[test]
    fn a_damaged_record_is_an_error_and_never_a_shorter_history() {
        let page = Page::default().with(1, &session(1)).unwrap().with(2, &session(2)).unwrap();
        let record = page.record().unwrap();
        let one = Page::default().with(1, &session(1)).unwrap().record().unwrap().len();
        for length in (2..record.len()).filter(|length| *length != one) {
            let cut = Page::read(record[..length].to_vec()).unwrap();
            assert!(cut.sessions(0..=9).is_err(), "cut after {length} bytes");
            assert!(cut.with(3, &session(3)).is_err(), "cut after {length} bytes");
        }
        let fault = |record| Page::read(record).unwrap_err().fault;
        assert_eq!(fault(vec![255, 1]), Fault::Newer { found: 255, newest: 2 });
        let mut one_session = Vec::new();
        write_session(&session(1), &mut one_session);
        assert_eq!(fault(one_session), Fault::Older { found: 1, oldest: 2 });
        assert_eq!(fault(Vec::new()), Fault::Empty);
    }
}
