//! The sequential specification of one environment: what each request may do in a state, and what may happen without a
//! request. A rule returns no next state if the request's recorded answer is impossible there.

use crate::linearizability::history::{Answer, Claim, History, Lock, Moment, Record, Request, Session, Status};
use crate::linearizability::names::Names;
use crate::linearizability::state::{Ended, Holder, SessionState, State, Waiter};

/// A queued session whose client does not poll for this long loses its place; a session that was granted from the queue
/// and is not polled loses its lock.
const ASK_WITHIN: Moment = 60_000_000_000;
/// The server counts in milliseconds.
const ROUNDING: Moment = 2_000_000;

pub struct Rules<'a> {
    pub history: &'a History,
    pub names: Names,
    /// Possible unknown waiters, for each request.
    ghosts: Vec<Ghosts>,
}

/// A possible next state, and the requests that it answers.
pub struct Next {
    pub state: State,
    pub answered: Vec<usize>,
}

/// The receiver of a grant.
struct Taker {
    /// None for one of the unanswered claims.
    request: Option<usize>,
    session: Option<Session>,
    ttl: Option<Moment>,
    polled: bool,
    revocable: bool,
    /// The earliest moment of the grant.
    since: Moment,
    /// Whether the grant is the request's answer.
    told: bool,
}

impl Taker {
    fn at_once(request: usize, ttl: Option<Moment>, since: Moment) -> Self {
        let request = Some(request);
        Self { request, session: None, ttl, polled: false, revocable: false, since, told: true }
    }

    fn nobody(since: Moment) -> Self {
        Self { request: None, session: None, ttl: None, polled: false, revocable: true, since, told: false }
    }
}

impl<'a> Rules<'a> {
    pub fn new(history: &'a History, names: Names) -> Self {
        let ghosts = history.records.iter().map(|record| Ghosts::beside(history, record)).collect();
        Self { history, names, ghosts }
    }

    /// Whether the recorded answer is correct in this state for a request without effect.
    pub fn is_answered_by(&self, state: &State, request: usize) -> bool {
        let ghosts = &self.ghosts[request];
        let Record { request, answer, .. } = self.record(request);
        match (request, answer) {
            (_, Answer::NothingDone) => true,
            (Request::ReadEnvironment, Answer::Environment { lock, queue_length }) => {
                state.is_held_by(*lock) && ghosts.explain_length(*queue_length, state.queue.len())
            }
            (Request::ReadQueue, Answer::Queue(shown)) => ghosts.explain_queue(self, state, shown),
            (Request::ReadSession(session), Answer::Session { status, fencing, position }) => self.shows(
                state,
                ghosts,
                *session,
                SessionState { status: *status, fencing: *fencing, position: *position },
            ),
            (Request::Release(session), Answer::Session { status, fencing, .. }) => {
                state.session(*session).is_some_and(|seen| {
                    !matches!(seen.status, Status::Active | Status::Queued)
                        && (seen.status, seen.fencing) == (*status, *fencing)
                })
            }
            (Request::Heartbeat(session), Answer::NotHolding(status)) => match state.session(*session) {
                Some(seen) => *status != Status::Active && seen.status == *status,
                None => *status == Status::Queued && self.names.is_nobodys(*session) && ghosts.explain_waiter(1, 0),
            },
            (
                Request::ReadSession(session) | Request::Release(session) | Request::Heartbeat(session),
                Answer::NoSuchSession,
            ) => state.session(*session).is_none(),
            (Request::Claim(claim), Answer::Locked { holder }) if claim.waits() || !claim.queues => {
                state.holder.is_some() && state.is_held_by(*holder)
            }
            (
                Request::Claim(Claim { key: Some(key), .. }) | Request::ForceClaim { key: Some(key), .. },
                Answer::Granted { lock, .. },
            ) => state.keys.contains(&(*key, lock.fencing)),
            _ => false,
        }
    }

    fn shows(&self, state: &State, ghosts: &Ghosts, session: Session, shown: SessionState) -> bool {
        match (state.session(session), state.waits(session)) {
            // There may be unknown waiters before the session.
            (Some(SessionState { status, fencing, .. }), Some(index)) => {
                let position = shown.position.unwrap_or(0).saturating_sub(1);
                (status, fencing) == (shown.status, shown.fencing)
                    && position >= index
                    && ghosts.explain_length(position, index)
            }
            (Some(seen), None) => seen == shown,
            (None, _) => {
                let waits = shown.status == Status::Queued && shown.fencing.is_none();
                let position = shown.position.unwrap_or(0);
                waits && self.names.is_nobodys(session) && ghosts.explain_waiter(position, state.queue.len())
            }
        }
    }

    /// The effects that the request may have now.
    pub fn perform(&self, state: &State, takers: Takers, request: usize, now: Moment) -> Vec<Next> {
        let record = self.record(request);
        match &record.request {
            Request::Claim(claim) => self.claim(state, request, claim, now),
            Request::ForceClaim { ttl, key } => self.force_claim(state, request, *ttl, *key).into_iter().collect(),
            Request::Release(session) if state.session(*session).is_some() => {
                self.release(state, takers, request, *session)
            }
            Request::Heartbeat(session) if state.holds(*session) => {
                self.heartbeat(state, request, *session).into_iter().collect()
            }
            Request::Release(session) | Request::Heartbeat(session) | Request::ReadSession(session) => {
                self.learn_end(state, request, *session).into_iter().collect()
            }
            Request::ReadEnvironment | Request::ReadQueue => Vec::new(),
        }
    }

    /// Whether the request can have a relevant effect although its outcome is unknown. A heartbeat only prolongs a
    /// session's life, and no session is required to end in time.
    pub fn may_matter(record: &Record) -> bool {
        match (&record.request, &record.answer) {
            (Request::Heartbeat(_), Answer::Unknown) => false,
            (request, Answer::Unknown) => !request.is_read(),
            (_, _) => true,
        }
    }

    /// Whether the claim certainly waits in the queue if the lock is taken when it arrives. Other possible waiters are
    /// ghosts.
    pub fn may_enter(record: &Record) -> bool {
        match (&record.request, &record.answer) {
            (Request::Claim(claim), Answer::Granted { .. }) => claim.waits(),
            (Request::Claim(claim), Answer::Queued { .. }) => claim.queues,
            (_, _) => false,
        }
    }

    /// The highest fencing token that the environment may have before this request is answered: tokens rise, so no
    /// later answer can show an older token as current.
    pub fn ceiling(record: &Record) -> Option<u64> {
        match (&record.request, &record.answer) {
            (request, Answer::Granted { lock, .. }) if request.key().is_none() => Some(lock.fencing.saturating_sub(1)),
            (_, Answer::Locked { holder }) => holder.map(|holder| holder.fencing),
            (_, Answer::Environment { lock, .. }) => lock.map(|lock| lock.fencing),
            (_, Answer::Session { status: Status::Active, fencing, .. }) => *fencing,
            (_, _) => None,
        }
    }

    /// Changes that may happen without a request.
    pub fn happen(&self, state: &State, takers: Takers, now: Moment) -> Vec<Next> {
        let mut all = Vec::new();
        if state.holder.is_none() && state.unclaimed < takers.free {
            all.extend(self.grant(state.clone(), Taker::nobody(0)));
        }
        if let Some(holder) = &state.holder {
            let by_ttl = holder.ttl.map(|ttl| holder.active + ttl.saturating_sub(ROUNDING));
            let unasked = holder.polled.then_some(holder.active + ASK_WITHIN);
            let expiry = [by_ttl, unasked].into_iter().flatten().min().filter(|expiry| *expiry <= now);
            let taken_back = holder.revocable.then_some(holder.active);
            if let Some(since) = [taken_back, expiry].into_iter().flatten().min() {
                all.extend(self.vacate(state, takers, Status::Expired, since, None));
            }
        }
        for (index, waiter) in state.queue.iter().enumerate() {
            if waiter.polled && !waiter.waits && waiter.sent + ASK_WITHIN <= now {
                let mut state = state.clone();
                state.leave(index, Status::Expired);
                all.push(Next { state, answered: Vec::new() });
            }
            if let Answer::Queued { position, .. } = &self.record(waiter.request).answer
                && waiter.waits
                && (waiter.tires <= now || self.history.is_stopping_within(waiter.sent, now))
                && *position > index
                && self.ghosts[waiter.request].explain_length(*position, index + 1)
            {
                let mut state = state.clone();
                state.queue[index].waits = false;
                all.push(Next { state, answered: vec![waiter.request] });
            }
        }
        all
    }

    /// Handles a kill: the server restarts with its durable state, and waiters on a connection are gone.
    pub fn restart(state: &mut State) {
        state.queue.retain(|waiter| waiter.polled && !waiter.waits);
        state.unclaimed = 0;
        state.passed_on = 0;
    }

    /// Whether another node may take over now. It recovers all durable state, but no waiters on a connection: such a
    /// claim gets no answer, or only the answer that it has lost its place.
    pub fn may_be_taken_over(state: &State) -> bool {
        state.queue.iter().all(|waiter| !waiter.waits)
    }

    /// Handles unanswered claims that are over: they cannot receive any later grant.
    pub fn forget(state: &mut State, gone: Takers) {
        state.unclaimed = state.unclaimed.saturating_sub(gone.free);
        state.passed_on = state.passed_on.saturating_sub(gone.freed);
    }

    /// Whether an unanswered claim may have left a place in the queue that remains when the claim is over: its client
    /// could learn of that place only after the wait had ended.
    pub fn may_survive(history: &History, record: &Record, over: Moment) -> bool {
        match &record.request {
            Request::Claim(claim) if claim.queues && record.answer == Answer::Unknown => {
                record.sent + claim.wait.saturating_sub(ROUNDING) <= over
                    || history.is_stopping_within(record.sent, over)
            }
            _ => false,
        }
    }

    fn claim(&self, state: &State, request: usize, claim: &Claim, now: Moment) -> Vec<Next> {
        let Record { sent, answer, .. } = self.record(request);
        if claim.key.is_some_and(|key| state.keys.iter().any(|(used, _)| *used == key)) {
            return Vec::new();
        }
        if *answer == Answer::Unknown && claim.key.is_none() {
            return Vec::new();
        }
        if state.holder.is_none() {
            let taker = Taker::at_once(request, claim.ttl, *sent);
            return self.grant(state.clone(), taker).into_iter().collect();
        }
        if !Self::may_enter(self.record(request)) {
            return Vec::new();
        }
        let waiter = Waiter {
            request,
            sent: *sent,
            entered: now,
            session: answer.made().filter(|_| claim.queues),
            priority: claim.priority,
            ttl: claim.ttl,
            polled: claim.queues,
            waits: claim.waits(),
            tires: sent + claim.wait.saturating_sub(ROUNDING),
        };
        let places = state.places(claim.priority, *sent).filter(|place| self.is_in_order(state, *place, &waiter));
        places.filter_map(|place| self.enter(state, place, &waiter)).collect()
    }

    /// Whether no later answer contradicts this order among waiters of the same priority.
    fn is_in_order(&self, state: &State, place: usize, newcomer: &Waiter) -> bool {
        let Some(new) = self.record(newcomer.request).answer.made() else { return true };
        state.queue.iter().enumerate().filter(|(_, waiter)| waiter.priority == newcomer.priority).all(
            |(index, waiter)| {
                let Some(other) = self.record(waiter.request).answer.made() else { return true };
                if index < place { !self.names.precedes(new, other) } else { !self.names.precedes(other, new) }
            },
        )
    }

    fn enter(&self, state: &State, place: usize, waiter: &Waiter) -> Option<Next> {
        let ghosts = &self.ghosts[waiter.request];
        let mut state = state.clone();
        state.queue.insert(place, waiter.clone());
        if waiter.waits {
            return Some(Next { state, answered: Vec::new() });
        }
        match self.record(waiter.request).answer {
            Answer::Queued { position, .. } if position <= place || !ghosts.explain_length(position, place + 1) => None,
            _ => Some(Next { state, answered: vec![waiter.request] }),
        }
    }

    fn force_claim(&self, state: &State, request: usize, ttl: Option<Moment>, key: Option<u32>) -> Option<Next> {
        let Record { sent, answer, .. } = self.record(request);
        if key.is_some_and(|key| state.keys.iter().any(|(used, _)| *used == key)) {
            return None;
        }
        if let Answer::Granted { overrode, .. } = answer
            && !state.is_held_by(*overrode)
        {
            return None;
        }
        let mut state = state.clone();
        state.vacate(Status::Overridden);
        self.grant(state, Taker::at_once(request, ttl, *sent))
    }

    fn release(&self, state: &State, takers: Takers, request: usize, session: Session) -> Vec<Next> {
        let Record { sent, answer, .. } = self.record(request);
        let fits = |fencing: Option<u64>| match answer {
            Answer::Session { status, fencing: told, .. } => (*status, *told) == (Status::Released, fencing),
            other => *other == Answer::Unknown,
        };
        if let Some(holder) = state.holder.as_ref().filter(|holder| holder.session == Some(session)) {
            let released = fits(Some(holder.fencing));
            return if released {
                self.vacate(state, takers, Status::Released, *sent, Some(request))
            } else {
                Vec::new()
            };
        }
        // A claim that still waits on its connection would not get the answer that it got.
        let leaves = state.waits(session).filter(|index| fits(None) && !state.queue[*index].waits);
        let left = leaves.map(|index| {
            let mut state = state.clone();
            state.leave(index, Status::Released);
            Next { state, answered: vec![request] }
        });
        left.into_iter().collect()
    }

    /// Derives from the answer how a queued session ended, since no earlier answer showed that.
    fn learn_end(&self, state: &State, request: usize, session: Session) -> Option<Next> {
        let status = match &self.record(request).answer {
            Answer::Session { status, fencing: None, .. } => *status,
            Answer::NotHolding(status) => *status,
            _ => return None,
        };
        let ended = matches!(status, Status::Released | Status::Expired);
        if !ended || state.session(session).is_some() || !self.names.is_nobodys(session) {
            return None;
        }
        let mut state = state.clone();
        state.end(Ended { session, status, fencing: None });
        Some(Next { state, answered: vec![request] })
    }

    fn heartbeat(&self, state: &State, request: usize, session: Session) -> Option<Next> {
        let Record { sent, answer, .. } = self.record(request);
        let Answer::Session { status: Status::Active, fencing, .. } = answer else { return None };
        let mut state = state.clone();
        let holder = state.holder.as_mut().filter(|holder| holder.session == Some(session))?;
        if Some(holder.fencing) != *fencing {
            return None;
        }
        holder.active = holder.active.max(*sent);
        holder.polled = false;
        Some(Next { state, answered: vec![request] })
    }

    /// The holder's session ends, and the lock goes to the first in the queue or to an unknown waiter.
    fn vacate(&self, state: &State, takers: Takers, status: Status, since: Moment, by: Option<usize>) -> Vec<Next> {
        let mut vacant = state.clone();
        vacant.vacate(status);
        let mut all = Vec::new();
        if state.passed_on < takers.freed {
            let mut passed_on = vacant.clone();
            passed_on.passed_on += 1;
            all.extend(self.grant(passed_on, Taker::nobody(since)));
        }
        if vacant.queue.is_empty() {
            all.push(Next { state: vacant.clone(), answered: Vec::new() });
        } else {
            let Waiter { request, sent, session, ttl, polled, waits, .. } = vacant.queue.remove(0);
            let since = since.max(sent);
            let request = Some(request);
            let taker = Taker { request, session, ttl, polled, revocable: false, since, told: waits };
            all.extend(self.grant(vacant, taker));
        }
        all.iter_mut().for_each(|next| next.answered.extend(by));
        all
    }

    /// Grants the lock, which must be free.
    fn grant(&self, mut state: State, taker: Taker) -> Option<Next> {
        let Taker { request, session, ttl, polled, revocable, since, told } = taker;
        state.fencing += 1;
        let fencing = state.fencing;
        if let Some(request) = request.filter(|_| told) {
            match &self.record(request).answer {
                Answer::Granted { lock: Lock { fencing: given, .. }, .. } if *given == fencing => {}
                Answer::Unknown => {}
                _ => return None,
            }
        }
        state.unclaimed += u32::from(request.is_none());
        let session = self.names.granted(request, session, fencing).ok()?;
        if session.is_some_and(|session| state.session(session).is_some()) {
            return None;
        }
        if let Some(key) = request.and_then(|request| self.record(request).request.key()) {
            state.keys.push((key, fencing));
        }
        state.holder = Some(Holder { session, fencing, ttl, active: since, polled, revocable });
        Some(Next { state, answered: request.filter(|_| told).into_iter().collect() })
    }

    fn record(&self, request: usize) -> &Record {
        &self.history.records[request]
    }
}

/// The number of unanswered claims that may get the lock now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Takers {
    pub free: u32,
    /// Claims that may get the lock if it becomes free while they wait.
    pub freed: u32,
}

impl Takers {
    /// `survived`: the claim is over, but may still have a place in the queue.
    pub fn add(&mut self, record: &Record, survived: bool) {
        if let (Request::Claim(claim), Answer::Unknown) = (&record.request, &record.answer)
            // Claims with a key are tracked individually: a retry may show their outcome.
            && claim.key.is_none()
        {
            self.free += u32::from(!survived);
            self.freed += u32::from(claim.waits() || claim.queues);
        }
    }

    /// Counts a claim that is over, and may have been counted by `add`. `survives`: it may still have a place in the
    /// queue.
    pub fn add_over(&mut self, record: &Record, survives: bool) {
        let freed = self.freed;
        self.add(record, false);
        if survives {
            self.freed = freed;
        }
    }
}

/// The maximum number of unknown waiters when a request was answered: on a connection, or under a session that no
/// answer named.
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
                    _ => false,
                };
            ghosts.polled += usize::from(is_beside && claim.queues);
            ghosts.connected += usize::from(is_beside && claim.waits() && !claim.queues);
        }
        ghosts
    }

    /// Whether a queue of this length is possible with this number of certain waiters.
    pub fn explain_length(&self, shown: usize, certain: usize) -> bool {
        (certain..=certain + self.connected + self.polled).contains(&shown)
    }

    /// Whether a session that no answer named may be waiting at this position.
    pub fn explain_waiter(&self, position: usize, certain: usize) -> bool {
        self.polled > 0 && (1..=certain + self.connected + self.polled).contains(&position)
    }

    /// Whether the queue may look like this: the certain waiters in their order, with ghosts in between.
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
