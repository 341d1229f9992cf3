//! The rules of claim-any: who may wait, how a claim is answered that gets no environment, and how a waiter leaves.
//!
//! What must be durable before it happens is only decided here ([`Departure`]); the caller removes the waiter with
//! [`Pool::leave`] once it is handed to the store.

use std::sync::Arc;

use super::{POOL_LENGTH_MAX, Pool};
use crate::{
    AfterHangUp, Claim, Connection, Departure, Ended, EndedHow, Expiry, KeptBy, Labels, MemberShare, Now, Person,
    Presence, Rejection, SessionId, Ticket, Waiter, queue,
};

/// A claim of any environment with these labels.
#[derive(Debug, Clone)]
pub struct ClaimAny {
    pub claim: Claim,
    pub labels: Arc<Labels>,
    /// Whether the client waits for its turn on its connection.
    pub hold: bool,
}

/// The answer to a claim that got no environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unserved {
    /// It stays, as a queued session to poll.
    Queued { waiter: Arc<Waiter>, position: usize },
    /// It has left the pool.
    Refused { waiter: Arc<Waiter>, rejection: Rejection },
}

/// What follows when the client of a waiter hangs up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HungUp {
    Stays,
    /// Its place is kept by polling from now on.
    Polls,
    Leaves(Box<Departure>),
}

impl Pool {
    /// Lets a claim wait, even if only until an environment has answered an offer. See [`Pool::unserved`].
    pub fn join(&mut self, claim: ClaimAny, now: Now) -> Result<Arc<Waiter>, Rejection> {
        let ClaimAny { claim, labels, hold } = claim;
        if !self.has_match(&labels) {
            return Err(Rejection::NoneMatches);
        }
        if self.all_disabled(&labels) {
            return Err(Rejection::EnvironmentDisabled { reason: None });
        }
        let share = MemberShare { total: POOL_LENGTH_MAX, used: self.len(), is_admin: claim.is_admin };
        share.check(|| self.of_member(claim.request.user.id))?;
        let waits = claim.waits.is_some();
        let waiter = Arc::new(claim.into_waiter(now));
        self.put_back(waiter.clone(), labels);
        if !waits || (waiter.kept_by == KeptBy::Polling && !hold) {
            self.undecided.insert(waiter.ticket);
        }
        Ok(waiter)
    }

    /// Answers the claims that do not wait on their connection, as far as no environment on offer is left for them.
    pub fn unserved(&mut self) -> Vec<Unserved> {
        let is_hopeless = |ticket: &Ticket| self.labels(*ticket).is_none_or(|labels| !self.is_offered(labels));
        let hopeless: Vec<_> = self.undecided.iter().copied().filter(is_hopeless).collect();
        hopeless.into_iter().filter_map(|ticket| self.stop_waiting(ticket)).collect()
    }

    /// A client stops waiting on its connection. None if an environment has taken it meanwhile: its grant is on the way.
    pub fn stop_waiting(&mut self, ticket: Ticket) -> Option<Unserved> {
        self.undecided.remove(&ticket);
        let waiter = self.get(ticket)?.clone();
        if waiter.kept_by == KeptBy::Polling {
            let position = self.position(&waiter);
            return Some(Unserved::Queued { waiter, position });
        }
        self.leave(ticket);
        let rejection = Rejection::AllLocked { queue_length: self.len() };
        Some(Unserved::Refused { waiter, rejection })
    }

    /// None if nobody waits under this session id.
    pub fn release(&self, id: SessionId, by: &Person, any: bool, now: Now) -> Result<Option<Departure>, Rejection> {
        let Some(waiter) = self.session(id) else { return Ok(None) };
        waiter.session.check_user(by, any)?;
        Ok(Some(waiter.departure(Ended { at: now.at, by: Some(by.clone()), how: EndedHow::Released })))
    }

    pub fn hang_up(&self, ticket: Ticket, connection: Connection, now: Now) -> HungUp {
        let Some(waiter) = self.get(ticket) else { return HungUp::Stays };
        match waiter.after_hang_up(connection) {
            AfterHangUp::Stays => HungUp::Stays,
            AfterHangUp::Polls => HungUp::Polls,
            AfterHangUp::Leaves => HungUp::Leaves(Box::new(waiter.expired(Expiry::Vanished, now))),
        }
    }

    /// The waiters without a sign of life for too long, as many as are let go at once.
    pub fn overdue(&self, presence: impl Fn(&Waiter) -> Presence, now: Now, at_most: usize) -> Vec<Departure> {
        let overdue = queue::overdue(self.iter(), presence, now).take(at_most);
        overdue.map(|(waiter, why)| waiter.expired(why, now)).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::samples::{at, by_key, claim, identifier, labels, person};
    use crate::*;

    /// With one environment, which is taken.
    fn pool() -> Pool {
        let mut pool = Pool::default();
        let configuration = Arc::new(Configuration { labels: labels(&[("os", "linux")]), ..Configuration::default() });
        pool.report(&identifier("review-1"), Availability::Taken { configuration });
        pool
    }

    fn any(claim: Claim) -> ClaimAny {
        ClaimAny { claim, labels: Arc::default(), hold: true }
    }

    fn queued(number: u64) -> ClaimAny {
        any(Claim { waits: Some(KeptBy::Polling), ..claim(number) })
    }

    #[test]
    fn a_claim_that_nothing_can_serve_does_not_wait() {
        let mut pool = pool();
        let mac = ClaimAny { labels: Arc::new(labels(&[("os", "mac")])), ..queued(1) };
        assert_eq!(pool.join(mac, at(0)), Err(Rejection::NoneMatches));
        let configuration = Arc::new(Configuration { disabled: true, ..Configuration::default() });
        pool.report(&identifier("review-1"), Availability::Taken { configuration });
        assert_eq!(pool.join(queued(1), at(0)), Err(Rejection::EnvironmentDisabled { reason: None }));
        assert!(pool.is_empty());
    }

    #[test]
    fn one_member_fills_half_of_a_pool_and_admins_find_a_place_to_the_last() {
        let mut pool = pool();
        let by = |who: u8, number: u64, is_admin: bool| {
            let claim = queued(number).claim;
            any(Claim { request: ClaimRequest { user: person(who), ..claim.request }, is_admin, ..claim })
        };
        let mut fill = |who: u8, is_admin: bool| {
            let mut number = u64::from(who) << 32;
            loop {
                number += 1;
                if let Err(refused) = pool.join(by(who, number, is_admin), at(0)) {
                    return (number - (u64::from(who) << 32) - 1, refused);
                }
            }
        };
        let (total, half) = (POOL_LENGTH_MAX, POOL_LENGTH_MAX / 2);
        assert_eq!(fill(1, false), (half as u64, Rejection::QueueShare(NoShare::Own { own: half, total })));
        assert_eq!(fill(2, false).0, half as u64 / 2);
        let mut who = 3;
        let kept = loop {
            match fill(who, false) {
                (0, refused) => break refused,
                (1.., _) => who += 1,
            }
        };
        assert_eq!(kept, Rejection::QueueShare(NoShare::Kept { kept: 625, total }));
        assert_eq!(fill(who, true).0, 625, "to the last place");
        assert_eq!(pool.len(), total);
        let all: Vec<_> = pool.iter().map(|waiter| waiter.ticket).collect();
        all.into_iter().for_each(|ticket| _ = pool.leave(ticket));
        assert!(pool.members.is_empty(), "whoever has none leaves no trace");
    }

    #[test]
    fn who_does_not_wait_is_refused_once_nothing_is_on_offer() {
        let mut pool = pool();
        let configuration: Arc<Configuration> = Arc::default();
        let free = Availability::Free { configuration: configuration.clone(), last_used: None };
        pool.report(&identifier("review-1"), free);
        let waiter = pool.join(any(claim(1)), at(0)).unwrap();
        pool.offer(&Labels::new()).unwrap();
        assert_eq!(pool.unserved(), [], "it may yet be had");
        pool.report(&identifier("review-1"), Availability::Taken { configuration });
        let rejection = Rejection::AllLocked { queue_length: 0 };
        assert_eq!(pool.unserved(), [Unserved::Refused { waiter, rejection }]);
        assert!(pool.is_empty());
    }

    #[test]
    fn a_queued_session_is_answered_at_once_unless_its_client_holds_on() {
        let mut pool = pool();
        let holding = pool.join(queued(1), at(0)).unwrap();
        let polling = pool.join(ClaimAny { hold: false, ..queued(2) }, at(0)).unwrap();
        assert_eq!(pool.unserved(), [Unserved::Queued { waiter: polling, position: 2 }]);
        assert_eq!(pool.unserved(), []);
        let later = pool.stop_waiting(Ticket(1));
        assert_eq!(later, Some(Unserved::Queued { waiter: holding, position: 1 }));
        assert_eq!(pool.len(), 2);
    }

    #[test]
    fn who_has_waited_long_enough_leaves() {
        let mut pool = pool();
        let waiter = pool.join(any(Claim { waits: Some(by_key(1)), ..claim(1) }), at(0)).unwrap();
        pool.join(queued(2), at(0)).unwrap();
        let rejection = Rejection::AllLocked { queue_length: 1 };
        assert_eq!(pool.stop_waiting(Ticket(1)), Some(Unserved::Refused { waiter, rejection }));
        assert_eq!(pool.stop_waiting(Ticket(1)), None);
    }

    #[test]
    fn only_its_own_user_or_one_who_may_release_any_ends_a_queued_session() {
        let mut pool = pool();
        let waiter = pool.join(queued(1), at(0)).unwrap();
        let id = waiter.session.id;
        let not_holder = Rejection::NotSessionHolder { holder: person(1) };
        assert_eq!(pool.release(id, &person(2), false, at(1)), Err(not_holder));
        for (by, any) in [(1, false), (2, true)] {
            let departure = pool.release(id, &person(by), any, at(1)).unwrap().unwrap();
            assert_eq!(departure.session.status(), SessionStatus::Released);
            assert_eq!(departure.event().unwrap().event_type, EventType::SessionReleased);
        }
        let forged = SessionId { seed: IdSeed([9; 12]), ..id };
        assert_eq!(pool.release(forged, &person(2), false, at(1)), Ok(None), "the ticket alone is not enough");
        pool.leave(Ticket(1));
        assert_eq!(pool.release(id, &person(1), false, at(1)), Ok(None));
    }

    #[test]
    fn who_hangs_up_leaves_unless_it_is_back_or_can_poll() {
        let mut pool = pool();
        pool.join(queued(1), at(0)).unwrap();
        pool.join(any(Claim { waits: Some(by_key(2)), ..claim(2) }), at(0)).unwrap();
        let hung_up = |ticket, connection| pool.hang_up(Ticket(ticket), connection, at(1));
        for ticket in [1, 2] {
            assert_eq!(hung_up(ticket, Connection::Open), HungUp::Stays);
        }
        assert_eq!(hung_up(1, Connection::Closed { keyed: true }), HungUp::Polls);
        let HungUp::Leaves(known) = hung_up(1, Connection::Closed { keyed: false }) else { panic!("it has left") };
        assert_eq!(known.event().unwrap().event_type, EventType::SessionExpired);
        let HungUp::Leaves(unknown) = hung_up(2, Connection::Closed { keyed: true }) else { panic!("it has left") };
        assert_eq!(unknown.event(), None, "no client ever knew it as a session");
        assert_eq!(hung_up(3, Connection::Absent), HungUp::Stays);
    }

    #[test]
    fn who_gives_no_sign_of_life_is_let_go() {
        let mut pool = pool();
        for number in 1..=3 {
            pool.join(queued(number), at(0)).unwrap();
        }
        let presence = |waiter: &Waiter| match waiter.ticket.0 {
            1 => Presence::LastSeen(Tick(0)),
            2 => Presence::Vanished,
            _ => Presence::Connected,
        };
        let how = |departures: Vec<Departure>| {
            let mut how: Vec<_> =
                departures.iter().map(|d| (d.waiter.ticket.0, d.session.ended.clone().unwrap().how)).collect();
            how.sort_by_key(|(ticket, _)| *ticket);
            how
        };
        let vanished = (2, EndedHow::Expired(Expiry::Vanished));
        assert_eq!(how(pool.overdue(presence, at(ASK_WITHIN_MILLIS - 1), 9)), [vanished]);
        let overdue = how(pool.overdue(presence, at(ASK_WITHIN_MILLIS), 9));
        assert_eq!(overdue, [(1, EndedHow::Expired(Expiry::Unasked)), vanished]);
        assert_eq!(pool.overdue(presence, at(ASK_WITHIN_MILLIS), 1).len(), 1);
    }
}
