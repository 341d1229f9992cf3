//! The clients: what they claim, how long they wait, and how they disconnect and return.

use std::sync::Arc;

use super::log::WaitsFor;
use super::world::{Answer, ClaimPlan, Message, Reply, Request, RequestKind, World};
use crate::samples::{labels, number};
use crate::*;

pub struct Client {
    number: usize,
    pub state: State,
}

/// `Asking` waits on its connection for a claim. `Away` lost the connection and has a key to return with. `Queued` has
/// a session to poll, and may be polling it. `Holding` has the lock, and may be sending a heartbeat; if it is mortal,
/// the lock expires without heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Idle,
    Asking(usize),
    Away(usize),
    Queued { session: SessionId, look: Option<usize> },
    Holding { environment: usize, session: SessionId, busy: Option<usize>, mortal: bool },
    Releasing { mailbox: usize, session: SessionId },
}

impl Client {
    pub fn new(number: usize) -> Self {
        Self { number, state: State::Idle }
    }
}

impl World {
    /// A client does something, or nothing. When `leaving`, clients begin nothing new.
    pub fn act(&mut self, client: usize, leaving: bool) {
        match self.clients[client].state {
            State::Idle if leaving => {}
            State::Idle => self.begin(client),
            State::Asking(request) => {
                if !leaving && self.random.percent(12) {
                    self.hang_up(client, request);
                }
            }
            State::Away(request) => match self.random.below(10) {
                0..6 => self.come_back(client, request),
                6 => self.clients[client].state = State::Idle,
                _ => {}
            },
            State::Queued { session, look } => match self.random.below(20) {
                0..14 => self.ask(client, session, look),
                14..16 => {
                    self.close(look);
                    let queues = |environment: &Environment| environment.queue.session(session).is_some();
                    let queue = self.server.environments.iter().position(queues);
                    self.release(client, queue.unwrap_or_else(|| self.pool_mailbox()), session);
                }
                16 => {
                    self.line(|_| format!("client {client} stops asking about {session}"));
                    self.close(look);
                    self.clients[client].state = State::Idle;
                }
                _ => {}
            },
            State::Holding { environment, session, busy, mortal } => {
                self.hold(client, environment, session, busy, mortal, leaving);
            }
            State::Releasing { .. } => {}
        }
    }

    fn hold(
        &mut self,
        client: usize,
        environment: usize,
        session: SessionId,
        busy: Option<usize>,
        mortal: bool,
        leaving: bool,
    ) {
        let over = self.log.stored.ended.contains_key(&session);
        match self.random.below(20) {
            _ if over && leaving => {
                self.close(busy);
                self.lose(client, session);
            }
            0..6 if busy.is_none() && !leaving => {
                let deploys = self.random.percent(25);
                let what = if deploys { RequestKind::Deploy } else { RequestKind::Heartbeat };
                let request = self.send(client, what(environment, session));
                self.clients[client].state = State::Holding { environment, session, busy: Some(request), mortal };
            }
            6..8 if over => {
                self.close(busy);
                self.lose(client, session);
            }
            8 if mortal => {
                self.line(|_| format!("client {client} dies with {session}"));
                self.close(busy);
                self.lose(client, session);
            }
            9..15 => {
                self.close(busy);
                self.release(client, environment, session);
            }
            _ => {}
        }
    }

    fn lose(&mut self, client: usize, session: SessionId) {
        self.witness.believed_no_more(session);
        self.clients[client].state = State::Idle;
    }

    fn begin(&mut self, client: usize) {
        let count = self.server.environments.len();
        let random = &mut self.random;
        let index = random.below(count);
        let forces = random.percent(10);
        let any: [&[(&str, &str)]; 3] = [&[], &[("size", "large")], &[("os", "linux")]];
        let place = match random.percent(40) {
            true => WaitsFor::Pool(Arc::new(labels(any[random.below(count)]))),
            false => WaitsFor::Environment(index),
        };
        let (waits, queue) = *random.pick(&[(false, false), (true, false), (true, false), (false, true), (true, true)]);
        let plan = ClaimPlan {
            operation: self.requests.len(),
            place,
            priority: Priority::new(*random.pick(&[0, 0, 0, 0, -7, 7])).unwrap(),
            ttl_seconds: random.percent(40).then_some(5 + random.below(60) as u32),
            deploys: random.percent(25),
            wait_millis: if waits { random.between(500, 90_000) } else { 0 },
            queue,
            key: (!queue && !forces && random.percent(45)).then_some(self.requests.len() as u64),
            ticket: Ticket(0),
            until: None,
        };
        let request =
            self.send(client, if forces { RequestKind::Force(index, plan) } else { RequestKind::Claim(plan) });
        self.clients[client].state = State::Asking(request);
    }

    fn come_back(&mut self, client: usize, request: usize) {
        let what = self.requests[request].what.clone();
        let request = self.send(client, what);
        self.clients[client].state = State::Asking(request);
    }

    fn send(&mut self, client: usize, what: RequestKind) -> usize {
        let request = self.requests.len();
        self.line(|_| format!("client {client} sends {request}: {what:?}"));
        self.requests.push(Request { client, what, open: true });
        let key = self.plan(request).and_then(|plan| plan.key);
        if key.is_some_and(|key| !self.server.in_flight.insert(key)) {
            self.server.replies.push(Reply { position: 0, request, answer: Answer::InFlight });
        } else {
            self.route(request);
        }
        request
    }

    /// A claim with a known key is answered with its earlier grant, or gets its old place back.
    pub fn route(&mut self, request: usize) {
        let fresh = Ticket(self.server.last_ticket + 1);
        self.server.last_ticket += 1;
        let kept = self.plan(request).and_then(|plan| plan.key).and_then(|key| self.place_kept(key));
        let granted = self.plan(request).and_then(|plan| self.server.answers.get(&plan.key?)).copied();
        let (tick, pool) = (self.now.tick, self.pool_mailbox());
        let (mailbox, message) = match &mut self.requests[request].what {
            RequestKind::Claim(_) if granted.is_some() => {
                let grant = granted.unwrap();
                (grant.environment, Message::Replay(request, grant.session))
            }
            RequestKind::Claim(plan) => {
                plan.ticket = kept.unwrap_or(fresh);
                plan.until = (plan.wait_millis > 0).then(|| tick.plus(plan.wait_millis));
                let message = kept.map_or(Message::Ask(request), |ticket| Message::Attach(request, ticket));
                (if let WaitsFor::Environment(index) = plan.place { index } else { pool }, message)
            }
            RequestKind::Force(index, plan) => {
                plan.ticket = fresh;
                (*index, Message::Ask(request))
            }
            RequestKind::Release(index, _)
            | RequestKind::Heartbeat(index, _)
            | RequestKind::Deploy(index, _)
            | RequestKind::Look(index, _) => (*index, Message::Ask(request)),
        };
        self.server.mailboxes[mailbox].push_back(message);
    }

    /// The place kept for the client with this key.
    fn place_kept(&self, key: u64) -> Option<Ticket> {
        let queues = self.server.environments.iter().flat_map(|environment| environment.queue.iter());
        let kept = samples::by_key(key);
        let mut waiting = queues.chain(self.server.pool.iter()).filter(|waiter| waiter.kept_by == kept);
        waiting.next().map(|waiter| waiter.ticket)
    }

    fn hang_up(&mut self, client: usize, request: usize) {
        self.line(|_| format!("client {client} hangs up on {request}"));
        self.close(Some(request));
        if let Some((ticket, _)) = self.server.held.iter().find(|(_, held)| **held == request) {
            let place = self.plan(request).unwrap().place.clone();
            let (ticket, mailbox) = (*ticket, self.mailbox_of(&place));
            self.server.signals.push((mailbox, Message::HungUp(ticket)));
        }
        let keyed = self.plan(request).is_some_and(|plan| plan.key.is_some());
        self.clients[client].state = if keyed { State::Away(request) } else { State::Idle };
    }

    fn close(&mut self, request: Option<usize>) {
        if let Some(request) = request {
            self.requests[request].open = false;
        }
    }

    /// Polls a queued session, as Get Session Status does: reads the durable state.
    fn ask(&mut self, client: usize, session: SessionId, look: Option<usize>) {
        let Origin::Queued(ticket) = session.origin else { return };
        let stored = &self.log.stored;
        let holds = |environment: &Environment| environment.lock.as_ref().is_some_and(|lock| lock.id == session);
        if let Some(asked) = self.server.asked.get_mut(&ticket) {
            *asked = self.now.tick;
        } else if stored.ended.contains_key(&session) {
            self.close(look);
            self.clients[client].state = State::Idle;
        } else if let (Some(index), None) = (stored.environments.iter().position(holds), look) {
            let look = Some(self.send(client, RequestKind::Look(index, session)));
            self.clients[client].state = State::Queued { session, look };
        }
    }

    fn release(&mut self, client: usize, mailbox: usize, session: SessionId) {
        self.witness.believed_no_more(session);
        self.send(client, RequestKind::Release(mailbox, session));
        self.clients[client].state = State::Releasing { mailbox, session };
    }

    /// Sends an answer, which may not reach its client.
    pub fn deliver(&mut self, nth: usize) {
        let reply = self.server.replies.remove(nth);
        let key = self.plan(reply.request).and_then(|plan| plan.key);
        let Request { client, what, open } = self.requests[reply.request].clone();
        self.line(|_| format!("{} is answered {:?}", reply.request, reply.answer));
        if let (Some(key), false) = (key, matches!(reply.answer, Answer::InFlight)) {
            self.server.in_flight.remove(&key);
        }
        self.close(Some(reply.request));
        if !open {
            return self.miss(&what, reply.answer, key.is_some());
        }
        match reply.answer {
            Answer::Granted(index, session) => self.told(client, index, &session),
            Answer::Queued(session) => {
                self.clients[client].state = State::Queued { session: session.id, look: None };
            }
            Answer::Refused => self.clients[client].state = State::Idle,
            Answer::InFlight => self.clients[client].state = State::Away(reply.request),
            Answer::Stands(index, session) => self.stands(client, &what, index, session),
        }
    }

    /// The answer did not reach the client. A grant is then taken back, unless the client has polled its session since.
    fn miss(&mut self, what: &RequestKind, answer: Answer, keyed: bool) {
        match answer {
            Answer::Granted(index, session) => {
                self.server.signals.push((index, Message::Undelivered { session: session.id, keyed }));
            }
            Answer::Stands(index, Some(session)) if matches!(what, RequestKind::Claim(_) | RequestKind::Look(..)) => {
                self.witness.strand(index, &session);
            }
            Answer::Stands(..) | Answer::Queued(_) | Answer::Refused | Answer::InFlight => {}
        }
    }

    fn told(&mut self, client: usize, environment: usize, session: &Session) {
        assert_eq!(session.user.id, samples::person(self.clients[client].number as u8).id);
        self.check_told(environment, session);
        let mortal = session.claimed.as_ref().is_some_and(|claimed| claimed.lease.is_some());
        self.clients[client].state = State::Holding { environment, session: session.id, busy: None, mortal };
    }

    fn stands(&mut self, client: usize, what: &RequestKind, index: usize, stands: Option<Arc<Session>>) {
        match (what, stands) {
            (RequestKind::Release(..), Some(session)) => {
                assert!(session.ended.is_some(), "{} was released and has not ended", session.id);
                self.witness.ended(session.id);
                self.clients[client].state = State::Idle;
            }
            (RequestKind::Heartbeat(_, session) | RequestKind::Deploy(_, session), None) => {
                // The session has ended, or too many deployments are waiting.
                match self.log.stored.ended.contains_key(session) {
                    true => self.lose(client, *session),
                    false => assert!(matches!(what, RequestKind::Deploy(..)), "a heartbeat of a holder was refused"),
                }
            }
            (_, Some(session)) if session.status() == SessionStatus::Active => self.told(client, index, &session),
            (_, Some(_)) => self.clients[client].state = State::Idle,
            (_, None) => panic!("what was answered is not known any more: {what:?}"),
        }
    }

    /// The server has crashed, so every connection is lost.
    pub fn disconnect(&mut self) {
        self.requests.iter_mut().for_each(|request| request.open = false);
        for client in 0..self.clients.len() {
            let state = match self.clients[client].state {
                State::Asking(request) if self.plan(request).is_some_and(|plan| plan.key.is_some()) => {
                    State::Away(request)
                }
                State::Asking(_) => State::Idle,
                State::Queued { session, .. } => State::Queued { session, look: None },
                State::Holding { environment, session, mortal, .. } => {
                    State::Holding { environment, session, busy: None, mortal }
                }
                state @ (State::Idle | State::Away(_) | State::Releasing { .. }) => state,
            };
            self.clients[client].state = state;
        }
    }

    /// After a restart, pending releases are sent again, and queued clients must find their session.
    pub fn reconnect(&mut self) {
        for client in 0..self.clients.len() {
            match self.clients[client].state {
                State::Releasing { mailbox, session } => self.release(client, mailbox, session),
                State::Queued { session, .. } => {
                    let waits = self.server.asked.keys().any(|ticket| Origin::Queued(*ticket) == session.origin);
                    let stored = &self.log.stored;
                    let known = stored.environments.iter().any(|environment| environment.session(session).is_some());
                    let found = waits || known || stored.ended.contains_key(&session);
                    assert!(found, "{session} of {} was queued and is lost", number(session.seed));
                }
                State::Idle | State::Asking(_) | State::Away(_) | State::Holding { .. } => {}
            }
        }
    }
}
