//! Owns those of whom nobody knows: claims that were never answered may have got the lock, and those that may wait, or
//! waited in vain, may have been in the queue, anywhere in it and at any time since they were sent. To follow every one of
//! them would make the search endless, and no answer depends on more than their number.

use crate::linearizability::history::{Answer, History, Record, Request, Session};
use crate::linearizability::rules::Rules;
use crate::linearizability::state::State;

/// How many may get the lock now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Takers {
    pub free: u32,
    /// If it becomes free while they wait.
    pub freed: u32,
}

impl Takers {
    /// `survived`: it is over, but its place in the queue may still be there.
    pub fn add(&mut self, record: &Record, survived: bool) {
        if let (Request::Claim(claim), Answer::Unknown) = (&record.request, &record.answer)
            // Those with a key are followed one by one: a retry may tell their outcome.
            && claim.key.is_none()
        {
            self.free += u32::from(!survived);
            self.freed += u32::from(claim.waits() || claim.queues);
        }
    }

    /// Counts a claim that is over, and may have been counted by `add`. `survives`: its place may still be there.
    pub fn add_over(&mut self, record: &Record, survives: bool) {
        let freed = self.freed;
        self.add(record, false);
        if survives {
            self.freed = freed;
        }
    }
}

/// How many may have been in the queue when a request was answered: on a connection, or under a session that nobody was
/// told of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ghosts {
    connected: usize,
    polled: usize,
}

impl Ghosts {
    pub fn beside(history: &History, request: &Record) -> Self {
        let mut ghosts = Self::default();
        for record in &history.records {
            let Request::Claim(claim) = &record.request else { continue };
            let is_beside = record.sent <= request.ended
                && match record.answer {
                    Answer::Unknown => {
                        let over = history.over(record);
                        over.is_none_or(|over| over >= request.sent || Rules::may_survive(history, record, over))
                    }
                    Answer::Locked { .. } | Answer::NothingDone => claim.waits() && record.ended >= request.sent,
                    Answer::Granted { .. }
                    | Answer::Queued { .. }
                    | Answer::Session { .. }
                    | Answer::NotHolding(_)
                    | Answer::NoSuchSession
                    | Answer::Environment { .. }
                    | Answer::Queue(_) => false,
                };
            ghosts.polled += usize::from(is_beside && claim.queues);
            ghosts.connected += usize::from(is_beside && claim.waits() && !claim.queues);
        }
        ghosts
    }

    /// Whether a queue of this length may have so many who certainly wait.
    pub fn explain_length(&self, shown: usize, certain: usize) -> bool {
        (certain..=certain + self.connected + self.polled).contains(&shown)
    }

    /// Whether a session that nobody was told of may be waiting, at this position.
    pub fn explain_waiter(&self, position: usize, certain: usize) -> bool {
        self.polled > 0 && (1..=certain + self.connected + self.polled).contains(&position)
    }

    /// Whether the queue may have been shown like this: those who certainly wait in their order, ghosts between them.
    pub fn explain_queue(&self, rules: &Rules<'_>, state: &State, shown: &[Option<Session>]) -> bool {
        let mut certain = state.queue.iter().peekable();
        let (mut connected, mut polled) = (0, 0);
        for shown in shown {
            let fits = certain.peek().is_some_and(|waiter| {
                if waiter.polled { waiter.session.is_some() && waiter.session == *shown } else { shown.is_none() }
            });
            match shown {
                _ if fits => _ = certain.next(),
                None => connected += 1,
                Some(session) if rules.names.is_nobodys(*session) && state.session(*session).is_none() => polled += 1,
                Some(_) => return false,
            }
        }
        certain.peek().is_none() && connected <= self.connected && polled <= self.polled
    }
}
