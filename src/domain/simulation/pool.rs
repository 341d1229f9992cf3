//! The pool's side of the server: those who wait for any environment, and the offers that are made to them.

use std::sync::Arc;

use super::log::{Batch, Place};
use super::world::{Answer, Message, What, World};
use crate::domain::*;

impl World {
    pub fn process_in_pool(&mut self, message: Message) {
        match message {
            Message::Ask(request) => match self.requests[request].what {
                What::Release(_, session) => self.release_in_pool(request, session),
                What::Claim(_) | What::Force(..) | What::Heartbeat(..) | What::Deploy(..) | What::Look(..) => {
                    self.arrive(request)
                }
            },
            Message::Attach(request, ticket) => self.attach_in_pool(request, ticket),
            Message::HungUp(ticket) => {
                // It may have asked anew in the meantime; and who is sent away to ask did not hang up.
                let gone = self.server.held.get(&ticket).is_some_and(|request| !self.requests[*request].open);
                if gone {
                    self.leave_pool(ticket, EndedHow::Expired(Expiry::Vanished));
                }
            }
            Message::GiveUp(ticket) => self.give_up_in_pool(ticket),
            Message::Replay(..)
            | Message::Undelivered { .. }
            | Message::HandOver { .. }
            | Message::Elapse
            | Message::Finish(..)
            | Message::Configure(_) => unreachable!("only environments are sent these"),
        }
    }

    fn arrive(&mut self, request: usize) {
        let Some(wish) = self.wish(request).cloned() else { return };
        if !self.requests[request].open {
            if let Some(key) = wish.key {
                self.server.in_flight.remove(&key);
            }
            return;
        }
        let Place::Pool(labels) = &wish.place else { return };
        let waiter = Arc::new(self.claim_of(request, &wish).into_waiter(self.now));
        self.server.pool.arrive(waiter.clone(), labels.clone()).unwrap();
        self.witness_arrival(&waiter, &wish.place);
        if waiter.is_durable() {
            self.log.hand_in(Batch { arrived: Some((wish.place.clone(), waiter.clone())), ..Batch::default() });
        }
        if wish.queue && wish.wait_millis == 0 {
            self.send_away(self.pool_mailbox(), request, &waiter);
        } else {
            self.server.held.insert(waiter.ticket, request);
        }
        if !self.offer(labels, waiter.ticket) {
            self.refuse_if_impatient(waiter.ticket);
        }
    }

    /// Who leaves may have been granted an environment in the meantime; then it is that one's to answer.
    fn release_in_pool(&mut self, request: usize, session: SessionId) {
        let Origin::Queued(ticket) = session.origin else { return };
        self.leave_pool(ticket, EndedHow::Released);
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
            return self.arrive(request);
        }
        let Some(labels) = self.server.pool.labels(ticket).cloned() else {
            return self.route(request);
        };
        self.server.held.insert(ticket, request);
        self.server.asked.remove(&ticket);
        self.offer(&labels, ticket);
    }

    fn offer(&mut self, labels: &Labels, ticket: Ticket) -> bool {
        let Some(name) = self.server.pool.offer(labels) else { return false };
        self.send_offer(&name, Some(ticket));
        true
    }

    /// Whatever is still free is offered to those who still wait.
    pub fn offer_again(&mut self) {
        let (held, asked, requests) = (&self.server.held, &self.server.asked, &self.requests);
        let names = self.server.pool.offers(|waiter| super::world::presence(waiter, held, asked, requests));
        for name in names {
            self.send_offer(&name, None);
        }
    }

    fn send_offer(&mut self, name: &Identifier, ticket: Option<Ticket>) {
        let index = self.server.names.iter().position(|known| known == name).unwrap();
        self.server.mailboxes[index].push_back(Message::HandOver { offered: true, to: ticket });
    }

    /// Who does not want to wait is refused as soon as there is nothing to be had.
    pub fn refuse_if_impatient(&mut self, ticket: Ticket) {
        let Some(request) = self.server.held.get(&ticket).copied() else { return };
        let impatient = self.wish(request).is_some_and(|wish| wish.wait_millis == 0 && !wish.queue);
        if impatient && self.server.pool.get(ticket).is_some() {
            self.leave_pool(ticket, EndedHow::Released);
            self.reply(self.pool_mailbox(), request, Answer::Refused);
        }
    }

    fn give_up_in_pool(&mut self, ticket: Ticket) {
        let Some(waiter) = self.server.pool.get(ticket).cloned() else { return };
        let Some(request) = self.server.held.get(&ticket).copied() else { return };
        if waiter.kept != Kept::ByAsking {
            self.leave_pool(ticket, EndedHow::Released);
            self.reply(self.pool_mailbox(), request, Answer::Refused);
        } else if self.requests[request].open {
            self.send_away(self.pool_mailbox(), request, &waiter);
        }
    }

    /// Those in the pool who have not been heard of in time.
    pub fn expire_in_pool(&mut self) {
        let due = |waiter: &Waiter| waiter.due(self.presence(waiter)).filter(|due| due.0 > i64::MIN);
        let overdue = self.server.pool.iter().filter(|waiter| due(waiter).is_some_and(|due| due <= self.now.tick));
        let mut overdue: Vec<_> = overdue.map(|waiter| waiter.ticket).collect();
        overdue.sort_unstable();
        for ticket in overdue {
            self.leave_pool(ticket, EndedHow::Expired(Expiry::Unasked));
        }
    }

    pub fn leave_pool(&mut self, ticket: Ticket, how: EndedHow) {
        let Some(waiter) = self.server.pool.leave(ticket) else { return };
        let ended = Ended { at: self.now.at, by: None, how };
        let session = (waiter.kept == Kept::ByAsking).then(|| waiter.ended(ended));
        self.server.ended.extend(session.iter().map(|session| (session.id, session.clone())));
        if waiter.is_durable() {
            self.log.hand_in(Batch { gone: vec![ticket], ended: session.into_iter().collect(), ..Batch::default() });
        }
        self.witness_departure(ticket);
        self.forget_place(ticket, true);
    }
}
