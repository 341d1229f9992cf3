//! The pool's part of the server: the waiters for any environment, and the offers to environments.

use std::sync::Arc;

use super::log::{Batch, WaitsFor};
use super::world::{Answer, Message, RequestKind, World};
use crate::samples::person;
use crate::*;

impl World {
    pub fn process_in_pool(&mut self, message: Message) {
        match message {
            Message::Ask(request) => match self.requests[request].what {
                RequestKind::Release(_, session) => self.release_in_pool(request, session),
                RequestKind::Claim(_)
                | RequestKind::Force(..)
                | RequestKind::Heartbeat(..)
                | RequestKind::Deploy(..)
                | RequestKind::Look(..) => self.join_pool(request),
            },
            Message::Attach(request, ticket) => self.attach_in_pool(request, ticket),
            Message::HungUp(ticket) => match self.server.pool.hang_up(ticket, self.connection(ticket), self.now) {
                HungUp::Stays => {}
                HungUp::Polls => unreachable!("no client has both a key and a queued session"),
                HungUp::Leaves(departure) => self.leave_pool(*departure),
            },
            Message::GiveUp(ticket) => {
                if let Some(unserved) = self.server.pool.stop_waiting(ticket) {
                    self.answer_unserved(unserved);
                }
            }
            Message::Replay(..)
            | Message::Undelivered { .. }
            | Message::HandOver { .. }
            | Message::Elapse
            | Message::Finish(..)
            | Message::Configure(_) => unreachable!("only environments are sent these"),
        }
    }

    fn join_pool(&mut self, request: usize) {
        let Some(plan) = self.plan(request).cloned() else { return };
        if !self.requests[request].open {
            if let Some(key) = plan.key {
                self.server.in_flight.remove(&key);
            }
            return;
        }
        let WaitsFor::Pool(labels) = &plan.place else { return };
        let claim = self.claim_of(request, &plan);
        let claim = ClaimAny { claim, labels: labels.clone(), hold: plan.wait_millis > 0 };
        let Ok(waiter) = self.server.pool.join(claim, self.now) else {
            return self.reply(self.pool_mailbox(), request, Answer::Refused);
        };
        self.witness_arrival(&waiter, &plan.place);
        if waiter.is_durable() {
            self.log.hand_in(Batch { arrived: Some((plan.place.clone(), waiter.clone())), ..Batch::default() });
        }
        if waiter.kept_by == KeptBy::Polling {
            self.server.asked.insert(waiter.ticket, self.now.tick);
        }
        self.server.held.insert(waiter.ticket, request);
        let offer = self.server.pool.offer(labels);
        self.answer_all_unserved();
        self.send_offers(offer);
    }

    /// If an environment has taken the waiter meanwhile, that environment answers.
    fn release_in_pool(&mut self, request: usize, session: SessionId) {
        let by = person(self.requests[request].client as u8);
        if let Some(departure) = self.server.pool.release(session, &by, false, self.now).unwrap() {
            self.leave_pool(departure);
        }
        let granted = self.server.environments.iter().position(|environment| environment.session(session).is_some());
        if let Some(index) = granted {
            self.server.mailboxes[index].push_back(Message::Ask(request));
            return;
        }
        let stands = self.server.ended.get(&session).cloned();
        self.reply(self.pool_mailbox(), request, Answer::Stands(self.pool_mailbox(), stands));
    }

    fn attach_in_pool(&mut self, request: usize, ticket: Ticket) {
        if !self.requests[request].open {
            return self.join_pool(request);
        }
        if self.server.pool.get(ticket).is_none() {
            return self.route(request);
        }
        self.server.held.insert(ticket, request);
        self.server.asked.remove(&ticket);
        self.offer_around();
    }

    /// Offers the free environments to the waiters, and answers the claims that no longer wait.
    pub fn offer_around(&mut self) {
        let (held, asked, requests) = (&self.server.held, &self.server.asked, &self.requests);
        let offers = self.server.pool.offers(|waiter| super::world::presence(waiter, held, asked, requests));
        self.answer_all_unserved();
        self.send_offers(offers);
    }

    fn send_offers(&mut self, offers: impl IntoIterator<Item = Identifier>) {
        for name in offers {
            let index = self.server.names.iter().position(|known| *known == name).unwrap();
            self.server.mailboxes[index].push_back(Message::HandOver { offered: true });
        }
    }

    fn answer_all_unserved(&mut self) {
        for unserved in self.server.pool.unserved() {
            self.answer_unserved(unserved);
        }
    }

    fn answer_unserved(&mut self, unserved: Unserved) {
        match unserved {
            Unserved::Queued { waiter, .. } => {
                if let Some(request) = self.server.held.get(&waiter.ticket).copied() {
                    self.send_away(self.pool_mailbox(), request, &waiter);
                }
            }
            Unserved::Refused { waiter, .. } => {
                let request = self.server.held.get(&waiter.ticket).copied();
                self.record_departure(&waiter, None);
                if let Some(request) = request {
                    self.reply(self.pool_mailbox(), request, Answer::Refused);
                }
            }
        }
    }

    pub fn expire_in_pool(&mut self) {
        for departure in self.server.pool.overdue(|waiter| self.presence(waiter), self.now, usize::MAX) {
            self.leave_pool(departure);
        }
    }

    fn leave_pool(&mut self, departure: Departure) {
        let known = departure.event().is_some();
        let Departure { waiter, session } = departure;
        self.server.pool.leave(waiter.ticket);
        self.record_departure(&waiter, known.then_some(session));
    }

    fn record_departure(&mut self, waiter: &Waiter, session: Option<Arc<Session>>) {
        let ticket = waiter.ticket;
        self.server.ended.extend(session.iter().map(|session| (session.id, session.clone())));
        if waiter.is_durable() {
            self.log.hand_in(Batch { gone: vec![ticket], ended: session.into_iter().collect(), ..Batch::default() });
        }
        self.witness_departure(ticket);
        self.forget_place(ticket, true);
    }
}
