//! Checks after every step of a script.

use std::cmp::Reverse;
use std::sync::Arc;

use super::World;
use crate::samples::number;
use crate::*;

impl World {
    /// The actor relies on the outcome to contain every change of the queue.
    pub fn check_queue(&self, before: &Queue, after: &Queue, outcome: &Outcome) {
        let mut expected = before.clone();
        if let Some(arrived) = &outcome.enqueued {
            expected.insert(arrived.clone());
        }
        for gone in &outcome.dequeued {
            assert!(expected.remove(gone.ticket).is_some(), "somebody left who was not there");
        }
        assert_eq!(expected, *after, "the queue changed in a way that nobody is told of");
        assert_eq!(after.has_durable(), after.iter().any(|waiter| waiter.is_durable()));
        for (nth, waiter) in after.iter().enumerate() {
            assert_eq!(after.position(waiter), nth + 1);
        }
    }

    pub fn write_down(&mut self, outcome: &Outcome) {
        for session in outcome.ended.iter().chain(&outcome.left) {
            assert!(session.ended.is_some(), "a session in the history has not ended");
            match self.sessions.iter_mut().find(|known| known.id == session.id) {
                Some(known) => {
                    assert!(known.revision < session.revision, "the history goes back");
                    *known = session.clone();
                }
                // Only a waiter of the pool has an id that its client knows before the grant.
                None => self.sessions.push(session.clone()),
            }
        }
        self.follow_runner(&outcome.events);
        for gone in outcome.dequeued.iter().chain(outcome.granted.iter().map(|granted| &granted.waiter)) {
            self.clients.presence.remove(&gone.ticket);
        }
    }

    /// At most one deployment runs, regardless of the environment's state.
    fn follow_runner(&mut self, events: &[Event]) {
        for event in events {
            if event.event_type() == EventType::DeploymentStarted {
                assert_eq!(self.running, None, "a deployment was started while another runs");
                self.running = event.deployment;
            }
            const ENDS: [EventType; 3] =
                [EventType::DeploymentSucceeded, EventType::DeploymentFailed, EventType::DeploymentCancelled];
            if ENDS.contains(&event.event_type()) {
                self.running.take_if(|running| Some(*running) == event.deployment);
            }
        }
    }

    pub fn check_grant(&mut self, before: &Environment, first: Option<Turn>, outcome: &Outcome) {
        let holder = self.environment.lock.clone();
        if let Some(granted) = &outcome.granted {
            let got = holder.as_ref().expect("who was granted the lock has it");
            assert_eq!(granted.session, *got);
            assert_eq!(number(got.id.seed), number(granted.waiter.session.id.seed));
            assert_eq!(self.environment.reset, None, "the lock was given before the environment was in order");
            let away = granted.waiter.kept_by == KeptBy::Polling;
            assert_eq!(got.claimed.as_ref().unwrap().unseen_until.is_some(), away, "who is away has to ask in time");
        }
        if let Some(holder) = holder.filter(|holder| before.lock.as_ref().map(|s| s.id) != Some(holder.id)) {
            let disabled = self.environment.configuration.as_ref().is_none_or(|c| c.disabled);
            assert!(!disabled, "an environment that is out of service was handed out");
            let turn = Turn { priority: Reverse(holder.priority), ticket: Ticket(number(holder.id.seed)) };
            assert!(self.forcing || first.is_none_or(|first| turn <= first), "somebody was overtaken");
            self.tokens.push(holder.fencing_token().unwrap());
            self.sessions.retain(|known| known.id != holder.id);
            self.sessions.push(holder);
        }
        let expected: Vec<u64> = (1..=self.tokens.len() as u64).collect();
        assert_eq!(self.tokens, expected, "the fencing token does not rise by one with each grant");
        let kept_back = self.environment.is_vacant() && self.first_in_line().is_some();
        assert!(!kept_back, "a free lock is kept from those who wait for it");
    }

    /// Every session has ended, or the environment has it as in the model or in a later revision.
    pub fn check_sessions(&mut self) {
        for known in &mut self.sessions {
            let Some(present) = self.environment.session(known.id) else {
                assert!(known.ended.is_some(), "{} is in limbo", known.id);
                continue;
            };
            assert!(*present == **known || present.revision > known.revision, "{} changed under its ETag", known.id);
            *known = Arc::new(present.clone());
        }
        assert_eq!(self.running, self.environment.current_deployment().map(|d| d.id), "not what the runner runs");
    }
}
