//! Owns the facts about sessions that the whole history shows: the fencing token of each, and the request that created
//! it. A history with two sessions for one token, or two tokens for one session, is refused without a search.

use std::collections::{HashMap, HashSet};

use crate::linearizability::history::{Answer, History, Request, Session};

#[derive(Debug, Default)]
pub struct Names {
    sessions: HashMap<u64, Session>,
    tokens: HashMap<Session, u64>,
    makers: HashMap<Session, Vec<usize>>,
    /// The idempotency key of every request.
    keys: Vec<Option<u32>>,
    /// Pairs of sessions: some answer showed the first before the second in the queue.
    seen_before: HashSet<(Session, Session)>,
}

/// The record that contradicts an earlier one, and how.
#[derive(Debug, PartialEq)]
pub struct Contradiction {
    pub record: usize,
    pub what: &'static str,
}

/// The grant contradicts some answer.
#[derive(Debug)]
pub struct Impossible;

impl Names {
    pub fn of(history: &History) -> Result<Self, Contradiction> {
        let keys = history.records.iter().map(|record| record.request.key()).collect();
        let mut names = Self { keys, ..Self::default() };
        let mut in_order: Vec<usize> = (0..history.records.len()).collect();
        in_order.sort_by_key(|index| history.records[*index].ended);
        for index in in_order {
            let (request, answer) = (&history.records[index].request, &history.records[index].answer);
            for lock in answer.locks() {
                names.learn(lock.session, lock.fencing, index)?;
            }
            if let (
                Request::ReadSession(session) | Request::Release(session) | Request::Heartbeat(session),
                Answer::Session { fencing: Some(fencing), .. },
            ) = (request, answer)
            {
                names.learn(*session, *fencing, index)?;
            }
            if let Answer::Queue(shown) = answer {
                names.learn_order(shown);
            }
            if let Some(session) = answer.made() {
                names.makers.entry(session).or_default().push(index);
            }
        }
        names.check_makers()?;
        Ok(names)
    }

    fn learn(&mut self, session: Session, fencing: u64, record: usize) -> Result<(), Contradiction> {
        if *self.sessions.entry(fencing).or_insert(session) != session {
            return Err(Contradiction { record, what: "its fencing token is that of another session" });
        }
        if *self.tokens.entry(session).or_insert(fencing) != fencing {
            return Err(Contradiction { record, what: "its session has another fencing token elsewhere" });
        }
        Ok(())
    }

    fn learn_order(&mut self, shown: &[Option<Session>]) {
        let shown: Vec<Session> = shown.iter().flatten().copied().collect();
        for (index, first) in shown.iter().enumerate() {
            self.seen_before.extend(shown[index + 1..].iter().map(|second| (*first, *second)));
        }
    }

    /// Whether the second session cannot be before the first in the queue, if both have the same priority: it got the
    /// lock later, or was seen behind the first.
    pub fn precedes(&self, first: Session, second: Session) -> bool {
        match (self.tokens.get(&first), self.tokens.get(&second)) {
            (Some(first), Some(second)) => first < second,
            (_, _) => self.seen_before.contains(&(first, second)),
        }
    }

    /// Only retries with the same key may have created the same session.
    fn check_makers(&self) -> Result<(), Contradiction> {
        for makers in self.makers.values() {
            if let Some(record) = makers.iter().skip(1).find(|maker| !self.are_retries(**maker, makers[0])) {
                return Err(Contradiction { record: *record, what: "another request was given the same session" });
            }
        }
        Ok(())
    }

    /// The session that this grant creates or activates, if any answer names it; `Err` if the history rules it out.
    /// `request` is the granted request (none: one of the unanswered claims), `session` the session that waited.
    pub fn granted(
        &self,
        request: Option<usize>,
        session: Option<Session>,
        fencing: u64,
    ) -> Result<Option<Session>, Impossible> {
        let named = self.sessions.get(&fencing).copied();
        let may_be =
            |session| request.map_or(self.is_nobodys(session), |request| self.may_be_made_by(session, request));
        match (session, named) {
            (Some(session), None) if self.tokens.contains_key(&session) => Err(Impossible),
            (Some(session), Some(named)) if session != named => Err(Impossible),
            (Some(session), _) => Ok(Some(session)),
            (None, Some(named)) if !may_be(named) => Err(Impossible),
            (None, named) => Ok(named),
        }
    }

    /// Whether no answer says which request created this session.
    pub fn is_nobodys(&self, session: Session) -> bool {
        !self.makers.contains_key(&session)
    }

    fn may_be_made_by(&self, session: Session, request: usize) -> bool {
        let is_maker = |maker: &usize| *maker == request || self.are_retries(*maker, request);
        self.makers.get(&session).is_none_or(|makers| makers.iter().any(is_maker))
    }

    fn are_retries(&self, one: usize, other: usize) -> bool {
        self.keys[one].is_some() && self.keys[one] == self.keys[other]
    }
}
