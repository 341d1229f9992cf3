//! The server around the domain: actors take one message after another, decide on their latest state, hand batches to
//! the log, and answer when those are durable. Like the real server it adds order and durability, but no rules.

use std::sync::Arc;

use super::log::{Batch, Grant, WaitsFor};
use super::witness::Cause;
use super::world::{Answer, ClaimPlan, Message, Reply, Request, RequestKind, SimulatedPorts, World};
use crate::samples::{self, by_key, commit, person, seed};
use crate::*;

impl World {
    /// Handles the next message of a mailbox.
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
                let keeps =
                    holder(self).is_some_and(|lock| keyed || lock.claimed.as_ref().is_some_and(|claimed| claimed.seen));
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

    /// Decides, hands the batch to the log, and prepares the answers for when it is durable.
    pub fn run<C: Command>(&mut self, index: usize, mut command: C, cause: Cause) -> Result<C::Reply, Rejection> {
        let before = Arc::new(self.server.environments[index].clone());
        if let Some(subject) = command.subject()
            && before.session(subject.id).is_none()
        {
            subject.ended = self.server.ended.get(&subject.id).cloned();
        }
        let server = &mut self.server;
        let mut ports = SimulatedPorts {
            pool: &mut server.pool,
            held: &server.held,
            asked: &server.asked,
            requests: &self.requests,
            last_number: &mut server.last_number,
        };
        let mut outcome = Outcome::default();
        let Transition { next, reply } = decide(&before, command, self.now, &mut ports, &mut outcome)?;
        self.check_decision(index, &before, &next, &outcome, cause);

        let holder = next.lock.as_deref().filter(|holder| before.lock.as_ref().map(|lock| lock.id) != Some(holder.id));
        let told = match &outcome.granted {
            Some(granted) => self.server.held.get(&granted.waiter.ticket).copied(),
            None => cause.asker,
        };
        let durable = |waiter: &&Arc<Waiter>| waiter.is_durable();
        let from_pool = outcome.granted.iter().filter(|granted| granted.from_pool).map(|granted| &granted.waiter);
        let key = told.and_then(|request| self.plan(request)?.key);
        let batch = Batch {
            environment: (next.revision != before.revision).then(|| (index, Environment::clone(&next))),
            arrived: outcome
                .enqueued
                .iter()
                .chain(&outcome.made_known)
                .find(durable)
                .map(|waiter| (WaitsFor::Environment(index), waiter.clone())),
            gone: outcome.dequeued.iter().chain(from_pool).filter(durable).map(|waiter| waiter.ticket).collect(),
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
        self.server.environments[index] = Arc::unwrap_or_clone(next);
        self.server.unreported.insert(index);
        Ok(reply)
    }

    /// Removes a waiter. A client that disconnected is not answered, so its key is free again.
    pub fn forget_place(&mut self, ticket: Ticket, unanswered: bool) {
        self.server.asked.remove(&ticket);
        let Some(request) = self.server.held.remove(&ticket).filter(|request| !self.requests[*request].open) else {
            return;
        };
        if let Some(key) = self.plan(request).and_then(|plan| plan.key).filter(|_| unanswered) {
            self.server.in_flight.remove(&key);
        }
    }

    pub fn reply(&mut self, mailbox: usize, request: usize, answer: Answer) {
        // The pool's answers depend on all environments, so they wait for everything.
        let position = self.server.written.get(mailbox).copied().unwrap_or_else(|| self.log.handed_in());
        self.server.replies.push(Reply { position, request, answer });
    }

    /// Reports the environment to the pool, and hands over if a waiter there wants it. Other messages may come between
    /// a decision and this report.
    fn report(&mut self, index: usize) {
        let environment = &self.server.environments[index];
        let configuration = environment.configuration.clone().unwrap();
        let free = environment.is_vacant();
        self.server.pool.report(&self.server.names[index], environment.availability());
        if free && self.server.pool.wants(&configuration, |waiter| self.presence(waiter)) {
            self.server.mailboxes[index].push_back(Message::HandOver { offered: false });
        }
    }

    fn answer_request(&mut self, index: usize, request: usize) {
        // A client that has given up must not be granted anything afterwards.
        if !self.requests[request].open {
            if let Some(key) = self.plan(request).and_then(|plan| plan.key) {
                self.server.in_flight.remove(&key);
            }
            return;
        }
        let Request { client, what, .. } = self.requests[request].clone();
        let by = person(client as u8);
        let asked = Cause { asker: Some(request), ..Cause::default() };
        let stands = match what {
            RequestKind::Claim(plan) => return self.claim(index, request, &plan),
            RequestKind::Force(_, plan) => {
                let force = samples::by_force(self.claim_of(request, &plan), Role::Admin);
                let answer = match self.run(index, force, Cause { forced: true, ..asked }) {
                    Ok(claimed) => Answer::Granted(index, claimed.session),
                    Err(_) => Answer::Refused,
                };
                return self.reply(index, request, answer);
            }
            RequestKind::Look(_, session) => return self.look(index, request, session),
            RequestKind::Release(_, session) => {
                let ticket = self.server.environments[index].queue.session(session).map(|waiter| waiter.ticket);
                let cause = Cause { lets_go: ticket, ..asked };
                self.run(index, Release { session: session.into(), by, any: false }, cause).ok()
            }
            RequestKind::Heartbeat(_, session) => {
                self.run(index, Heartbeat { session: session.into(), by, fencing_token: None }, asked).ok()
            }
            RequestKind::Deploy(_, session) => {
                let seed = seed(request as u64);
                let deploy = Deploy { session: session.into(), by, seed, commit: commit(), fencing_token: None };
                let deployed = self.run(index, deploy, asked);
                deployed.ok().and_then(|_| self.server.environments[index].present_session(session).cloned())
            }
        };
        self.reply(index, request, Answer::Stands(index, stands));
    }

    pub fn claim_of(&self, request: usize, plan: &ClaimPlan) -> Claim {
        let waits = match plan.key {
            _ if plan.queue => Some(KeptBy::Polling),
            _ if plan.wait_millis == 0 => None,
            Some(key) => Some(by_key(key)),
            None => Some(KeptBy::Connection),
        };
        let claimed = ClaimRequest {
            user: person(self.requests[request].client as u8),
            commit: plan.deploys.then(commit),
            context: None,
            ttl_seconds: plan.ttl_seconds,
            priority: plan.priority,
        };
        Claim {
            request: claimed,
            seed: seed(request as u64),
            ticket: plan.ticket,
            waits,
            known: plan.wait_millis == 0,
            is_admin: false,
            via: None,
        }
    }

    fn claim(&mut self, index: usize, request: usize, plan: &ClaimPlan) {
        let claim = self.claim_of(request, plan);
        let asker = Cause { asker: Some(request), ..Cause::default() };
        self.server.held.insert(plan.ticket, request);
        let reply = self.run(index, claim, asker);
        let answer = match reply {
            Ok(ClaimReply::Waiting) => return,
            Ok(ClaimReply::Queued { .. }) if plan.wait_millis > 0 => return,
            Ok(ClaimReply::Queued { session, .. }) => {
                self.server.asked.insert(plan.ticket, self.now.tick);
                Answer::Queued(session)
            }
            Ok(ClaimReply::Granted(session)) => Answer::Granted(index, session),
            Ok(ClaimReply::Refused(_)) | Err(_) => Answer::Refused,
        };
        self.server.held.remove(&plan.ticket);
        self.reply(index, request, answer);
    }

    /// A client polls a session that may hold the lock. The answer waits until the poll is durable.
    fn look(&mut self, index: usize, request: usize, session: SessionId) {
        self.run(index, Seen { session }, Cause::default()).unwrap();
        let present = self.server.environments[index].session(session).cloned().map(Arc::new);
        let stands = present.or_else(|| self.server.ended.get(&session).cloned());
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
        if waiter.kept_by == KeptBy::Polling {
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

    /// The client stops waiting on its connection and keeps its place by polling.
    pub fn send_away(&mut self, mailbox: usize, request: usize, waiter: &Waiter) {
        self.server.held.remove(&waiter.ticket);
        self.server.asked.insert(waiter.ticket, self.now.tick);
        if mailbox != self.pool_mailbox() {
            self.run(mailbox, MakeKnown { ticket: waiter.ticket }, Cause::default()).unwrap();
        } else if let Some(known) = self.server.pool.make_known(waiter.ticket)
            && let Some(plan) = self.plan(request)
        {
            let place = plan.place.clone();
            self.log.hand_in(Batch { arrived: Some((place, known)), ..Batch::default() });
        }
        self.reply(mailbox, request, Answer::Queued(Arc::new(waiter.session.clone())));
    }

    fn hand_over(&mut self, index: usize, offered: bool) {
        self.run(index, HandOver, Cause::default()).unwrap();
        // The waiter of the offer may be gone, and another environment may suit it.
        if offered {
            self.server.unreported.remove(&index);
            self.report(index);
            self.offer_around();
        }
    }
}
