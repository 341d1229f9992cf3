//! The waiters for any environment with certain labels, the environments that are free for them, and the rules of
//! claim-any: who may wait, the answer to a claim that gets no environment, and how a waiter leaves.
//!
//! A free environment is offered to the waiters; its own decision (`claim::hand_over`) takes the first waiter that it
//! suits. So no two environments can take the same waiter, and an offer is not binding. When a removal must first
//! become durable, this file only decides it ([`Departure`]); the caller removes the waiter with [`Pool::leave`] after
//! handing the removal to the store.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{
    AfterHangUp, Availability, Claim, Configuration, Connection, Departure, Ended, EndedHow, Expiry, Identifier,
    KeptBy, Labels, MemberShare, Now, Origin, Person, Presence, Rejection, SessionId, Ticket, Timestamp, Turn, UserId,
    Waiter, queue,
};

/// The number of waiters per pipeline.
const POOL_LENGTH_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub struct Pool {
    /// By the wanted labels, then in order: an environment examines the first waiter of each label set that it
    /// satisfies.
    waiting: BTreeMap<Arc<Labels>, BTreeMap<Turn, Arc<Waiter>>>,
    turns: HashMap<Ticket, (Turn, Arc<Labels>)>,
    /// The number of waiters per member. Members without waiters are not in the map.
    members: HashMap<UserId, usize>,
    /// Waiters to answer as soon as no environment is on offer for them: see [`Pool::unserved`].
    undecided: BTreeSet<Ticket>,
    environments: HashMap<Identifier, Known>,
    /// Least recently used first.
    free: BTreeSet<Use>,
    /// Environments that are free as far as known, and were asked to take a waiter.
    offered: BTreeSet<Identifier>,
    free_by_label: BTreeMap<(Identifier, super::LabelValue), BTreeSet<Use>>,
}

type Use = (Option<Timestamp>, Identifier);

#[derive(Debug)]
struct Known {
    configuration: Arc<Configuration>,
    /// When the environment was last used, if it is free.
    free: Option<Use>,
}

impl Pool {
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    pub fn get(&self, ticket: Ticket) -> Option<&Arc<Waiter>> {
        let (turn, labels) = self.turns.get(&ticket)?;
        self.waiting.get(labels)?.get(turn)
    }

    /// The waiter with this session id.
    pub fn session(&self, id: SessionId) -> Option<&Arc<Waiter>> {
        let Origin::Queued(ticket) = id.origin else { return None };
        self.get(ticket).filter(|waiter| waiter.session.id == id)
    }

    pub fn labels(&self, ticket: Ticket) -> Option<&Arc<Labels>> {
        self.turns.get(&ticket).map(|(_, labels)| labels)
    }

    /// In no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Waiter>> {
        self.waiting.values().flat_map(BTreeMap::values)
    }

    /// The waiters that would accept this environment, in no particular order.
    pub fn waiting_for(&self, configuration: &Configuration) -> impl Iterator<Item = &Arc<Waiter>> {
        self.waiting.iter().filter(|(labels, _)| configuration.has_labels(labels)).flat_map(|(_, line)| line.values())
    }

    /// The position among the waiters that want the same labels or fewer, from 1.
    pub fn position(&self, waiter: &Waiter) -> usize {
        let turn = waiter.turn();
        let Some(wanted) = self.labels(waiter.ticket) else { return 0 };
        let rivals = self.waiting.iter().filter(|(labels, _)| labels.iter().all(|(k, v)| wanted.get(k) == Some(v)));
        rivals.map(|(_, line)| line.range(..=turn).count()).sum()
    }

    /// Adds a waiter, or puts one back at its old place that could not be granted the lock.
    pub fn put_back(&mut self, waiter: Arc<Waiter>, labels: Arc<Labels>) {
        let turn = waiter.turn();
        if self.turns.insert(waiter.ticket, (turn, labels.clone())).is_none() {
            *self.members.entry(waiter.session.user.id).or_default() += 1;
        }
        self.waiting.entry(labels).or_default().insert(turn, waiter);
    }

    pub fn leave(&mut self, ticket: Ticket) -> Option<Arc<Waiter>> {
        self.undecided.remove(&ticket);
        let (turn, labels) = self.turns.remove(&ticket)?;
        let line = self.waiting.get_mut(&labels)?;
        let waiter = line.remove(&turn);
        if line.is_empty() {
            self.waiting.remove(&labels);
        }
        if let Some(waiter) = &waiter {
            let member = waiter.session.user.id;
            match self.of_member(member) {
                0 | 1 => _ = self.members.remove(&member),
                more => _ = self.members.insert(member, more - 1),
            }
        }
        waiter
    }

    /// The number of places of the member.
    pub fn of_member(&self, member: UserId) -> usize {
        self.members.get(&member).copied().unwrap_or(0)
    }

    /// Records that the client receives the id of its session. Returns the waiter, unless the client already knew the
    /// id.
    pub fn make_known(&mut self, ticket: Ticket) -> Option<Arc<Waiter>> {
        let (turn, labels) = self.turns.get(&ticket)?;
        let waiter = self.waiting.get_mut(labels)?.get_mut(turn).filter(|waiter| !waiter.known)?;
        *waiter = waiter.made_known();
        Some(waiter.clone())
    }

    /// Removes the first ready waiter that accepts this environment and comes before `before`.
    #[cfg(test)]
    pub fn take(
        &mut self,
        configuration: &Configuration,
        before: Option<Turn>,
        presence: impl Fn(&Waiter) -> Presence,
    ) -> Option<Arc<Waiter>> {
        let first = self.first(configuration, before, presence)?;
        self.leave(first.ticket)
    }

    pub fn first(
        &self,
        configuration: &Configuration,
        before: Option<Turn>,
        presence: impl Fn(&Waiter) -> Presence,
    ) -> Option<Arc<Waiter>> {
        let first = self.first_for(configuration, presence)?;
        before.is_none_or(|before| first.turn() <= before).then_some(first)
    }

    /// Whether a ready waiter would accept this environment.
    pub fn wants(&self, configuration: &Configuration, presence: impl Fn(&Waiter) -> Presence) -> bool {
        self.first_for(configuration, presence).is_some()
    }

    fn first_for(&self, configuration: &Configuration, presence: impl Fn(&Waiter) -> Presence) -> Option<Arc<Waiter>> {
        let lines = self.waiting.iter().filter(|(labels, _)| configuration.has_labels(labels));
        let ready = |line: &BTreeMap<Turn, Arc<Waiter>>| {
            line.values().find(|waiter| waiter.is_ready(presence(waiter))).cloned()
        };
        lines.filter_map(|(_, line)| ready(line)).min_by_key(|waiter| waiter.turn())
    }

    /// Records whether an environment is free.
    pub fn report(&mut self, name: &Identifier, standing: Availability) {
        self.forget_free(name);
        self.offered.remove(name);
        let (configuration, free) = match standing {
            Availability::Gone => {
                self.environments.remove(name);
                return;
            }
            Availability::Taken { configuration } => (configuration, None),
            Availability::Free { configuration, last_used } => (configuration, Some((last_used, name.clone()))),
        };
        if let Some(since) = &free {
            self.free.insert(since.clone());
            for (key, value) in &configuration.labels {
                self.free_by_label.entry((key.clone(), value.clone())).or_default().insert(since.clone());
            }
        }
        self.environments.insert(name.clone(), Known { configuration, free });
    }

    /// Whether this environment has been reported.
    pub fn knows(&self, name: &Identifier) -> bool {
        self.environments.contains_key(name)
    }

    /// Whether any environment has these labels, free or not.
    pub fn has_match(&self, labels: &Labels) -> bool {
        self.waiting.contains_key(labels) || self.matching(labels).next().is_some()
    }

    /// Whether all environments with these labels are disabled.
    pub fn all_disabled(&self, labels: &Labels) -> bool {
        self.matching(labels).all(|configuration| configuration.disabled)
    }

    /// Environments with these labels that are neither free nor disabled, in no particular order.
    pub fn taken(&self, labels: &Labels) -> impl Iterator<Item = &Identifier> {
        let is_taken = |known: &Known| known.free.is_none() && !known.configuration.disabled;
        let fits = move |known: &Known| is_taken(known) && known.configuration.has_labels(labels);
        self.environments.iter().filter(move |(_, known)| fits(known)).map(|(name, _)| name)
    }

    fn matching(&self, labels: &Labels) -> impl Iterator<Item = &Configuration> {
        self.environments.values().map(|known| &*known.configuration).filter(|known| known.has_labels(labels))
    }

    /// The least recently used free environment with these labels. Until the next report it counts as offered, not as
    /// free.
    pub fn offer(&mut self, labels: &Labels) -> Option<Identifier> {
        // The rarest label leaves the fewest candidates.
        let narrowest = labels.iter().map(|(key, value)| self.free_by_label.get(&(key.clone(), value.clone())));
        let candidates = match narrowest.min_by_key(|set| set.map_or(0, BTreeSet::len)) {
            None => &self.free,
            Some(set) => set?,
        };
        let fits = |name: &Identifier| self.environments.get(name).is_some_and(|k| k.configuration.has_labels(labels));
        let name = candidates.iter().map(|(_, name)| name).find(|name| fits(name)).cloned()?;
        self.forget_free(&name);
        self.offered.insert(name.clone());
        Some(name)
    }

    /// Whether an environment with these labels has been offered and not reported since.
    pub fn is_offered(&self, labels: &Labels) -> bool {
        let fits = |name: &Identifier| self.environments.get(name).is_some_and(|k| k.configuration.has_labels(labels));
        self.offered.iter().any(fits)
    }

    /// Offers free environments to all waiters that want one.
    pub fn offers(&mut self, presence: impl Fn(&Waiter) -> Presence) -> Vec<Identifier> {
        if self.free.is_empty() {
            return Vec::new();
        }
        let wanted: Vec<_> = self
            .waiting
            .iter()
            .map(|(labels, line)| {
                let ready = line.values().filter(|waiter| waiter.is_ready(presence(waiter))).count();
                (labels.clone(), ready.min(self.free.len()))
            })
            .collect();
        let mut offers = Vec::new();
        for (labels, ready) in wanted {
            offers.extend(std::iter::from_fn(|| self.offer(&labels)).take(ready));
        }
        offers
    }

    fn forget_free(&mut self, name: &Identifier) {
        let Some(known) = self.environments.get_mut(name) else { return };
        let Some(since) = known.free.take() else { return };
        self.free.remove(&since);
        for (key, value) in &known.configuration.labels {
            let label = (key.clone(), value.clone());
            if let Some(set) = self.free_by_label.get_mut(&label) {
                set.remove(&since);
                if set.is_empty() {
                    self.free_by_label.remove(&label);
                }
            }
        }
    }
}

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
    /// The claim stays, as a queued session to poll.
    Queued { waiter: Arc<Waiter>, position: usize },
    /// The claim has left the pool.
    Refused { waiter: Arc<Waiter>, rejection: Rejection },
}

/// The consequence when the client of a waiter disconnects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HungUp {
    Stays,
    /// The client keeps its place by polling from now on.
    Polls,
    Leaves(Box<Departure>),
}

impl Pool {
    /// Adds a claim to the pool, even if only until an environment has answered an offer. See [`Pool::unserved`].
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

    /// Answers the claims that do not wait on their connection and have no environment on offer any more.
    pub fn unserved(&mut self) -> Vec<Unserved> {
        let is_hopeless = |ticket: &Ticket| self.labels(*ticket).is_none_or(|labels| !self.is_offered(labels));
        let hopeless: Vec<_> = self.undecided.iter().copied().filter(is_hopeless).collect();
        hopeless.into_iter().filter_map(|ticket| self.stop_waiting(ticket)).collect()
    }

    /// A client stops waiting on its connection. None if an environment has already taken the waiter: then its grant is
    /// coming.
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

    /// None if there is no waiter with this session id.
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

    /// The waiters whose last poll is too long ago, at most `at_most`.
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

    #[test]
    fn a_place_counts_those_before_it_who_want_the_same_or_less() {
        let mut pool = Pool::default();
        let wants: [&[(&str, &str)]; 5] =
            [&[("os", "mac")], &[], &[("os", "linux"), ("size", "large")], &[("os", "linux")], &[("os", "linux")]];
        for (number, wants) in (1..).zip(wants) {
            pool.put_back(Arc::new(claim(number).into_waiter(at(0))), Arc::new(labels(wants)));
        }
        let position = |number| pool.position(pool.get(Ticket(number)).unwrap());
        assert_eq!([1, 2, 3, 4, 5].map(position), [1, 1, 2, 2, 3]);
    }

    #[test]
    fn who_is_put_back_has_its_old_place() {
        let mut pool = Pool::default();
        let everybody_is_there = |_: &Waiter| Presence::Connected;
        let any = Arc::new(Labels::new());
        for number in 1..=2 {
            pool.put_back(Arc::new(claim(number).into_waiter(at(0))), any.clone());
        }
        let taken = pool.take(&Configuration::default(), None, everybody_is_there).unwrap();
        assert_eq!(taken.ticket, Ticket(1));
        pool.put_back(taken, any);
        assert_eq!(pool.take(&Configuration::default(), None, everybody_is_there).unwrap().ticket, Ticket(1));
    }

    /// A pool with one environment, which is locked.
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
            assert_eq!(departure.event().unwrap().event_type(), EventType::SessionReleased);
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
        assert_eq!(known.event().unwrap().event_type(), EventType::SessionExpired);
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
