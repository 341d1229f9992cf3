//! The server around the domain: the actors take their messages one by one, decide on their latest state, hand in what
//! must be durable, and answer when it is. It adds order and durability, and no rules; the real one does the same.

use std::sync::Arc;

use super::log::{Batch, Grant, Place};
use super::witness::Cause;
use super::world::{Answer, Hall, Message, Reply, Request, What, Wish, World};
use crate::domain::samples::{self, by_key, commit, person, seed};
use crate::domain::*;

impl World {
    /// Takes the next message out of a mailbox, and does what it says.
    pub fn process(&mut self, mailbox: usize) {
        if self.server.unreported.remove(&mailbox) {
            return self.report(mailbox);
        }
        let Some(message) = self.server.mailboxes[mailbox].pop_front() else { return };
        self.line(|_| format!("{mailbox} takes {message:?}"));
        if mailbox == self.pool_mailbox() {
            return self.process_in_pool(message);
        }
        match message {
            Message::Ask(request) => self.answer_request(mailbox, request),
            Message::Attach(request, ticket) => self.attach(mailbox, request, ticket),
            Message::Replay(request, session) => self.look(mailbox, request, session),
            Message::GiveUp(ticket) => self.give_up(mailbox, ticket),
            Message::HungUp(ticket) => {
                let waiter = self.server.environments[mailbox].queue.get(ticket);
                let connection = self.connection(ticket);
                if waiter.is_some_and(|waiter| waiter.after_hang_up(connection) == AfterHangUp::Leaves) {
                    self.run(mailbox, HangUp { tickets: vec![ticket] }, Cause::default()).unwrap();
                    assert_eq!(self.server.environments[mailbox].queue.get(ticket), None, "who hung up still waits");
                }
            }
            Message::Undelivered { session, keyed } => {
                let holder = |world: &Self| world.server.environments[mailbox].lock.clone().filter(|s| s.id == session);
                let keeps = holder(self).is_some_and(|lock| keyed || lock.claimed.is_some_and(|claimed| claimed.seen));
                self.run(mailbox, Undelivered { session, keyed }, Cause::default()).unwrap();
                assert_eq!(holder(self).is_some(), keeps, "who is gone has the lock, or who may come back has not");
            }
            Message::HandOver { offered } => self.hand_over(mailbox, offered),
            Message::Elapse => {
                self.run(mailbox, Elapse, Cause::default()).unwrap();
            }
            Message::Finish(deployment, end) => {
                let end = samples::end_stage(&self.server.environments[mailbox], end);
                assert_eq!(end.of.deployment, deployment, "it is not what the runner runs");
                let finished = self.run(mailbox, end, Cause::default());
                assert_eq!(finished, Ok(()), "a deployment that ran is not known any more");
            }
            Message::Configure(configuration) => {
                let configure = Configure { configuration: *configuration, expected: None };
                self.run(mailbox, configure, Cause::default()).unwrap();
            }
        }
    }

    /// Decides, hands in what came of it, and arranges for everybody to be told once it is durable.
    pub fn run<C: Command>(&mut self, index: usize, mut command: C, cause: Cause) -> Result<C::Reply, Rejection> {
        let before = self.server.environments[index].clone();
        if let Some(subject) = command.subject()
            && before.session(subject.id).is_none()
        {
            subject.ended = self.server.ended.get(&subject.id).cloned().map(Box::new);
        }
        let server = &mut self.server;
        let mut hall = Hall {
            pool: &mut server.pool,
            held: &server.held,
            asked: &server.asked,
            requests: &self.requests,
            last_number: &mut server.last_number,
        };
        let Transition { next, outcome, reply } = decide(&before, command, self.now, &mut hall)?;
        self.check_decision(index, &before, &next, &outcome, cause);

        let holder = next.lock.as_ref().filter(|holder| before.lock.as_ref().map(|lock| lock.id) != Some(holder.id));
        let told = match &outcome.granted {
            Some(granted) => self.server.held.get(&granted.waiter.ticket).copied(),
            None => cause.asker,
        };
        let durable = |waiter: &&Arc<Waiter>| waiter.is_durable();
        let outsider = outcome.granted.iter().filter(|granted| granted.outsider).map(|granted| &granted.waiter);
        let key = told.and_then(|request| self.wish(request)?.key);
        let batch = Batch {
            environment: (next.revision != before.revision).then(|| (index, next.clone())),
            arrived: outcome.enqueued.iter().find(durable).map(|waiter| (Place::Environment(index), waiter.clone())),
            gone: outcome.dequeued.iter().chain(outsider).filter(durable).map(|waiter| waiter.ticket).collect(),
            ended: outcome.ended.iter().chain(&outcome.left).cloned().collect(),
            answer: key.zip(holder).map(|(key, holder)| (key, Grant { environment: index, session: holder.id })),
        };
        self.server.ended.extend(batch.ended.iter().map(|session| (session.id, session.clone())));
        self.server.answers.extend(batch.answer);
        if !batch.is_empty() {
            self.server.written[index] = self.log.hand_in(batch);
        }
        self.record_decision(index, holder, &outcome);
        for waiter in &outcome.dequeued {
            let granted = outcome.granted.as_ref().is_some_and(|granted| granted.waiter.ticket == waiter.ticket);
            self.forget_place(waiter.ticket, !granted);
        }
        if let Some(granted) = outcome.granted {
            self.forget_place(granted.waiter.ticket, false);
            if let Some(request) = told {
                self.reply(index, request, Answer::Granted(index, granted.session));
            }
        }
        self.server.environments[index] = next;
        self.server.unreported.insert(index);
        Ok(reply)
    }

    /// Nobody waits under this ticket any more. Whoever hung up will not be answered, so its key is free again.
    pub fn forget_place(&mut self, ticket: Ticket, unanswered: bool) {
        self.server.asked.remove(&ticket);
        let Some(request) = self.server.held.remove(&ticket).filter(|request| !self.requests[*request].open) else {
            return;
        };
        if let Some(key) = self.wish(request).and_then(|wish| wish.key).filter(|_| unanswered) {
            self.server.in_flight.remove(&key);
        }
    }

    pub fn reply(&mut self, mailbox: usize, request: usize, answer: Answer) {
        // The pool speaks of all environments, so its answers wait for everything.
        let position = self.server.written.get(mailbox).copied().unwrap_or_else(|| self.log.handed_in());
        self.server.replies.push(Reply { position, request, answer });
    }

    /// Tells the pool how the environment stands, and looks again if somebody there would take it. Others may come between
    /// a decision and this.
    fn report(&mut self, index: usize) {
        let environment = &self.server.environments[index];
        let configuration = environment.configuration.clone().unwrap();
        let free = environment.is_vacant();
        self.server.pool.report(&self.server.names[index], environment.standing());
        if free && self.server.pool.wants(&configuration, |waiter| self.presence(waiter)) {
            self.server.mailboxes[index].push_back(Message::HandOver { offered: false });
        }
    }

    fn answer_request(&mut self, index: usize, request: usize) {
        // Who has given up must not be granted anything afterwards.
        if !self.requests[request].open {
            if let Some(key) = self.wish(request).and_then(|wish| wish.key) {
                self.server.in_flight.remove(&key);
            }
            return;
        }
        let Request { client, what, .. } = self.requests[request].clone();
        let by = person(client as u8);
        let asked = Cause { asker: Some(request), ..Cause::default() };
        let stands = match what {
            What::Claim(wish) => return self.claim(index, request, &wish),
            What::Force(_, wish) => {
                let force = samples::by_force(self.claim_of(request, &wish), Role::Admin);
                let answer = match self.run(index, force, Cause { forced: true, ..asked }) {
                    Ok(claimed) => Answer::Granted(index, claimed.session),
                    Err(_) => Answer::Refused,
                };
                return self.reply(index, request, answer);
            }
            What::Look(_, session) => return self.look(index, request, session),
            What::Release(_, session) => {
                let ticket = self.server.environments[index].queue.session(session).map(|waiter| waiter.ticket);
                let cause = Cause { lets_go: ticket, ..asked };
                self.run(index, Release { session: session.into(), by, any: false }, cause).ok()
            }
            What::Heartbeat(_, session) => {
                self.run(index, Heartbeat { session: session.into(), by, fencing_token: None }, asked).ok()
            }
            What::Deploy(_, session) => {
                let seed = seed(request as u64);
                let deploy = Deploy { session: session.into(), by, seed, commit: commit(), fencing_token: None };
                let deployed = self.run(index, deploy, asked);
                deployed.ok().and_then(|_| self.server.environments[index].session(session).cloned())
            }
        };
        self.reply(index, request, Answer::Stands(index, stands));
    }

    pub fn claim_of(&self, request: usize, wish: &Wish) -> Claim {
        let waits = match wish.key {
            _ if wish.queue => Some(Kept::ByAsking),
            _ if wish.wait_millis == 0 => None,
            Some(key) => Some(by_key(key)),
            None => Some(Kept::ByConnection),
        };
        let claimed = ClaimRequest {
            user: person(self.requests[request].client as u8),
            commit: wish.deploys.then(commit),
            context: None,
            ttl_seconds: wish.ttl_seconds,
            priority: wish.priority,
        };
        Claim { request: claimed, seed: seed(request as u64), ticket: wish.ticket, waits, via: None }
    }

    fn claim(&mut self, index: usize, request: usize, wish: &Wish) {
        let claim = self.claim_of(request, wish);
        let asker = Cause { asker: Some(request), ..Cause::default() };
        self.server.held.insert(wish.ticket, request);
        let reply = self.run(index, claim, asker);
        let answer = match reply {
            Ok(ClaimReply::Waiting) => return,
            Ok(ClaimReply::Queued(..)) if wish.wait_millis > 0 => return,
            Ok(ClaimReply::Queued(session, _)) => {
                self.server.asked.insert(wish.ticket, self.now.tick);
                Answer::Queued(session)
            }
            Ok(ClaimReply::Granted(session)) => Answer::Granted(index, session),
            Ok(ClaimReply::Refused(_)) | Err(_) => Answer::Refused,
        };
        self.server.held.remove(&wish.ticket);
        self.reply(index, request, answer);
    }

    /// Somebody asks about a session that may have the lock. It is told once that is known to have been noticed.
    fn look(&mut self, index: usize, request: usize, session: SessionId) {
        self.run(index, Seen { session }, Cause::default()).unwrap();
        let present = self.server.environments[index].session(session);
        let stands = present.or_else(|| self.server.ended.get(&session)).cloned();
        self.reply(index, request, Answer::Stands(index, stands));
    }

    fn attach(&mut self, index: usize, request: usize, ticket: Ticket) {
        if !self.requests[request].open {
            self.answer_request(index, request);
        } else if self.server.environments[index].queue.get(ticket).is_some() {
            self.server.held.insert(ticket, request);
            self.server.asked.remove(&ticket);
            self.server.mailboxes[index].push_back(Message::HandOver { offered: false });
        } else {
            self.route(request);
        }
    }

    fn give_up(&mut self, index: usize, ticket: Ticket) {
        let Some(waiter) = self.server.environments[index].queue.get(ticket).cloned() else { return };
        let Some(request) = self.server.held.get(&ticket).copied() else { return };
        if waiter.kept == Kept::ByAsking {
            if self.requests[request].open {
                self.send_away(index, request, &waiter);
            }
            return;
        }
        let cause = Cause { lets_go: Some(ticket), ..Cause::default() };
        if self.run(index, StopWaiting { ticket }, cause).unwrap().is_some() {
            self.reply(index, request, Answer::Refused);
        }
    }

    /// It has waited long enough, but keeps its place by asking.
    pub fn send_away(&mut self, mailbox: usize, request: usize, waiter: &Waiter) {
        self.server.held.remove(&waiter.ticket);
        self.server.asked.insert(waiter.ticket, self.now.tick);
        self.reply(mailbox, request, Answer::Queued(waiter.session.clone()));
    }

    fn hand_over(&mut self, index: usize, offered: bool) {
        self.run(index, HandOver, Cause::default()).unwrap();
        // Somebody else may have got what was offered, by name or because they came first: another environment may do.
        if offered {
            self.server.unreported.remove(&index);
            self.report(index);
            self.offer_around();
        }
    }
}
