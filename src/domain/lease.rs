//! Expiry, and what prevents it: heartbeats and polling.

use std::sync::Arc;

use super::queue::{ASK_WITHIN_MILLIS, LET_GO_AT_ONCE};
use super::{
    Command, Deadline, Decision, Ended, EndedHow, Environment, Expiry, Lease, Now, Person, Rejection, Session,
    SessionId, SessionRef, Tick, Ticket, claim, queue, release,
};

/// A start leaves every lease at least this long, since its holder could not renew it while the server was down.
pub const LEFT_AFTER_START_MILLIS: i64 = 30_000;

/// A sign of life of the holder.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    pub session: SessionRef,
    pub by: Person,
    pub fencing_token: Option<u64>,
}

impl Command for Heartbeat {
    type Reply = Arc<Session>;

    fn subject(&mut self) -> Option<&mut SessionRef> {
        Some(&mut self.session)
    }

    fn decide(self, decision: &mut Decision<'_>) -> Result<Arc<Session>, Rejection> {
        decision.next.find_holder(&self.session, &self.by, self.fencing_token)?;
        decision.touch();
        let now = decision.now;
        let holder = decision.next.lock.as_mut().ok_or(Rejection::SessionNotFound)?;
        Arc::make_mut(holder).renew(now);
        Ok(holder.clone())
    }
}

/// The client has polled a session and now knows that it holds the lock.
#[derive(Debug, Clone)]
pub struct Seen {
    pub session: SessionId,
}

impl Command for Seen {
    type Reply = ();

    fn decide(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let Some(holder) = decision.next.lock.as_mut().filter(|holder| holder.id == self.session) else {
            return Ok(());
        };
        if holder.claimed.as_ref().is_none_or(|claimed| claimed.seen) {
            return Ok(());
        }
        let holder = Arc::make_mut(holder);
        if let Some(claimed) = &mut holder.claimed {
            claimed.unseen_until = None;
            claimed.seen = true;
            holder.revision += 1;
            decision.touch();
        }
        Ok(())
    }
}

/// A grant did not reach its client.
#[derive(Debug, Clone)]
pub struct Undelivered {
    pub session: SessionId,
    /// Whether the client may return for the grant with its idempotency key, for a while.
    pub keyed: bool,
}

impl Command for Undelivered {
    type Reply = ();
    const ENDS: bool = true;

    fn decide(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let now = decision.now;
        let Some(holder) = decision.next.lock.as_mut().filter(|holder| holder.id == self.session) else {
            return Ok(());
        };
        if holder.claimed.as_ref().is_some_and(|claimed| claimed.seen) {
            // The client has returned on another connection meanwhile.
            return Ok(());
        }
        if !self.keyed {
            let ended = Ended { at: now.at, by: None, how: EndedHow::Expired(Expiry::Vanished) };
            release::vacate(decision, ended);
            return Ok(());
        }
        let holder = Arc::make_mut(holder);
        if let Some(claimed) = &mut holder.claimed {
            claimed.unseen_until = Some(Deadline::after(now, ASK_WITHIN_MILLIS));
            holder.revision += 1;
            decision.touch();
        }
        Ok(())
    }
}

/// Ends everything that has expired.
#[derive(Debug, Clone)]
pub struct Elapse;

impl Command for Elapse {
    /// The earliest time at which a waiter loses its place.
    type Reply = Option<Tick>;
    const ENDS: bool = true;

    fn decide(self, decision: &mut Decision<'_>) -> Result<Option<Tick>, Rejection> {
        let now = decision.now;
        let expiry = decision.next.lock.as_deref().and_then(Session::expiry);
        if let Some((_, why)) = expiry.filter(|(until, _)| until.has_passed(now)) {
            let ended = Ended { at: now.at, by: None, how: EndedHow::Expired(why) };
            release::vacate(decision, ended);
        }
        let overdue = queue::overdue(decision.next.queue.iter(), |waiter| decision.ports.presence(waiter), now);
        let overdue: Vec<_> = overdue.map(|(waiter, why)| (waiter.ticket, why)).take(LET_GO_AT_ONCE).collect();
        for (ticket, why) in overdue {
            decision.expire(ticket, why);
        }
        Ok(queue::next_due(&decision.next.queue, decision.ports))
    }
}

/// The clients of these waiters have disconnected.
#[derive(Debug, Clone)]
pub struct HangUp {
    pub tickets: Vec<Ticket>,
}

impl Command for HangUp {
    type Reply = ();
    const ENDS: bool = true;

    fn decide(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        for ticket in self.tickets {
            decision.expire(ticket, Expiry::Vanished);
        }
        Ok(())
    }
}

/// A client stops waiting on its connection.
#[derive(Debug, Clone)]
pub struct StopWaiting {
    pub ticket: Ticket,
}

impl Command for StopWaiting {
    /// The answer to the client, if it was still waiting.
    type Reply = Option<Rejection>;
    const ENDS: bool = true;

    fn decide(self, decision: &mut Decision<'_>) -> Result<Option<Rejection>, Rejection> {
        // The client may have just returned while the lock is free.
        claim::hand_over(decision, None);
        let ended = Ended { at: decision.now.at, by: None, how: EndedHow::Released };
        let left = decision.leave(self.ticket, ended);
        Ok(left.map(|_| decision.next.occupied()))
    }
}

/// The client of a queued session stops waiting on its connection: it receives the session's id, and polls from now on.
#[derive(Debug, Clone)]
pub struct MakeKnown {
    pub ticket: Ticket,
}

impl Command for MakeKnown {
    type Reply = ();

    fn decide(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        if decision.next.queue.get(self.ticket).is_some_and(|waiter| !waiter.known)
            && let Some(waiter) = decision.next.queue.remove(self.ticket)
        {
            let known = waiter.made_known();
            decision.next.queue.insert(known.clone());
            decision.outcome.made_known = Some(known);
        }
        Ok(())
    }
}

/// A waiter may have become ready for the lock.
#[derive(Debug, Clone)]
pub struct HandOver;

impl Command for HandOver {
    type Reply = ();

    fn decide(self, _: &mut Decision<'_>) -> Result<(), Rejection> {
        Ok(())
    }
}

impl Environment {
    /// Converts the deadlines to a process that started at `started`, keeping the remaining time of each. After a
    /// reboot of the machine the elapsed time is unknown, so each deadline starts again.
    pub fn rearm(&mut self, started: Now, same_boot: bool) {
        let max_hold = self.configuration.as_ref().and_then(|configuration| configuration.max_hold_seconds);
        let Some(claimed) = self.lock.as_mut().and_then(|lock| Arc::make_mut(lock).claimed.as_mut()) else { return };
        // A tick later than the start comes from another clock, such as that of another container.
        let same_boot = same_boot && claimed.tick <= started.tick;
        if !same_boot {
            claimed.tick = started.tick;
        }
        let rearmed = |until: Deadline, whole: i64| until.rearmed(started, same_boot, LEFT_AFTER_START_MILLIS, whole);
        claimed.lease = claimed.lease.map(|lease| {
            let until = rearmed(lease.until, i64::from(lease.ttl_seconds) * 1000);
            Lease { until, ..lease }
        });
        claimed.hold_until =
            claimed.hold_until.map(|until| rearmed(until, i64::from(max_hold.unwrap_or(u32::MAX)) * 1000));
        claimed.unseen_until = claimed.unseen_until.map(|until| rearmed(until, ASK_WITHIN_MILLIS));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::samples::{Subject, at, by_key, claim, person, request};
    use crate::{Claim, ClaimRequest, Configuration, KeptBy, Presence, Timestamp};

    fn holder(subject: &Subject) -> Arc<Session> {
        subject.environment.lock.clone().unwrap()
    }

    #[test]
    fn whether_its_client_knows_changes_a_session() {
        let mut subject = Subject::with(Configuration::default());
        subject.run(0, claim(1)).unwrap();
        let session = holder(&subject).id;
        let mut revision = holder(&subject).revision;
        let mut rises = |subject: &Subject| std::mem::replace(&mut revision, holder(subject).revision) < revision;
        subject.run(1, Undelivered { session, keyed: true }).unwrap();
        assert!(rises(&subject) && holder(&subject).is_unseen());
        subject.run(2, Seen { session }).unwrap();
        assert!(rises(&subject) && !holder(&subject).is_unseen());
        subject.run(3, Undelivered { session, keyed: true }).unwrap();
        assert!(!rises(&subject), "it has come back meanwhile, so there is nothing to take from it");
    }

    #[test]
    fn a_session_granted_while_its_client_was_away_ends_unless_somebody_asks() {
        for (asks, holder) in [(false, None), (true, Some(2))] {
            let mut subject = Subject::with(Configuration::default());
            subject.run(0, claim(1)).unwrap();
            subject.run(0, Claim { waits: Some(KeptBy::Polling), ..claim(2) }).unwrap();
            subject.ports.except = vec![(Ticket(2), Presence::LastSeen(Tick(0)))];
            let first = subject.environment.lock.as_ref().unwrap().id.into();
            subject.run(1, release::Release { session: first, by: person(1), any: false }).unwrap();
            let session = subject.environment.lock.as_ref().unwrap().id;
            if asks {
                subject.run(2, Seen { session }).unwrap();
            }
            subject.run(1 + ASK_WITHIN_MILLIS, Elapse).unwrap();
            assert_eq!(subject.holder(), holder);
        }
    }

    #[test]
    fn who_has_waited_long_enough_is_not_refused_a_lock_that_is_free() {
        let mut subject = Subject::with(Configuration::default());
        subject.run(0, claim(1)).unwrap();
        subject.run(0, Claim { waits: Some(by_key(2)), ..claim(2) }).unwrap();
        // The server has restarted, and the client only returns for its place after the lock has become free.
        subject.ports.except = vec![(Ticket(2), Presence::LastSeen(Tick(0)))];
        let session = holder(&subject).id.into();
        subject.run(1, release::Release { session, by: person(1), any: false }).unwrap();
        subject.ports.except.clear();
        let (refused, outcome) = subject.run(2, StopWaiting { ticket: Ticket(2) }).unwrap();
        assert_eq!((refused, outcome.granted.map(|granted| granted.waiter.ticket)), (None, Some(Ticket(2))));
    }

    #[test]
    fn a_lease_that_ran_out_while_the_server_was_down_leaves_time_for_a_heartbeat() {
        let mut subject = Subject::with(Configuration::default());
        subject.run(0, Claim { request: ClaimRequest { ttl_seconds: Some(45), ..request(1) }, ..claim(1) }).unwrap();
        let started = at(100_000);
        subject.environment.rearm(started, true);
        assert_eq!(holder(&subject).expiry().unwrap().0.due, started.tick.plus(LEFT_AFTER_START_MILLIS));
        subject.run(100_000 + LEFT_AFTER_START_MILLIS - 1, Elapse).unwrap();
        assert_eq!(subject.holder(), Some(1));
        let session = holder(&subject).id.into();
        subject.run(120_000, Heartbeat { session, by: person(1), fencing_token: Some(1) }).unwrap();
        assert_eq!(holder(&subject).expiry().unwrap().0.due, Tick(165_000));
    }

    #[test]
    fn whatever_the_wall_clock_says_a_start_takes_nothing_of_a_lease_or_a_hold() {
        let hold = Configuration { max_hold_seconds: Some(3_600), ..Configuration::default() };
        for hours in [-48, -2, 2, 48] {
            let wall = Timestamp::from_millis(at(60_000).at.as_millis() + hours * 3_600_000);
            let started = Now { at: wall, ..at(60_000) };
            let mut subject = Subject::with(hold.clone());
            let request = ClaimRequest { ttl_seconds: Some(120), ..request(1) };
            subject.run(0, Claim { request, ..claim(1) }).unwrap();
            subject.environment.rearm(started, true);
            let claimed = holder(&subject).claimed.clone().unwrap();
            assert_eq!(
                (claimed.lease.unwrap().until.due, claimed.hold_until.unwrap().due),
                (Tick(120_000), Tick(3_600_000))
            );
            assert_eq!(claimed.tick, Tick(0), "a limit that is set later counts from when the lock was given");
            let another = Now { tick: Tick(7), ..started };
            subject.environment.rearm(another, false);
            let claimed = holder(&subject).claimed.clone().unwrap();
            assert_eq!(
                (claimed.lease.unwrap().until.due, claimed.hold_until.unwrap().due),
                (Tick(120_007), Tick(3_600_007))
            );
            assert_eq!(claimed.tick, Tick(7));
        }
    }
}
