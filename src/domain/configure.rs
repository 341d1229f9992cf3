//! The commands that create, change and delete an environment.

use std::sync::Arc;

use super::queue::LET_GO_AT_ONCE;
use super::{
    Command, Configuration, Deadline, Decision, Ended, EndedHow, Environment, Event, EventData, Expected, Now,
    Rejection,
};

/// Creates the environment, or replaces its configuration.
#[derive(Debug, Clone)]
pub struct Configure {
    pub configuration: Configuration,
    pub expected: Option<Expected>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configured {
    pub environment: Environment,
    pub created: bool,
}

impl Command for Configure {
    type Reply = Configured;

    fn decide(self, decision: &mut Decision<'_>) -> Result<Configured, Rejection> {
        check(decision.next, self.expected.as_ref())?;
        let created = !decision.next.exists();
        if decision.next.configuration.as_deref() != Some(&self.configuration) {
            decision.touch();
            let next = &mut decision.next;
            next.configuration_revision += 1;
            if !self.configuration.disabled {
                next.disabled_reason = None;
            }
            limit_hold(next, self.configuration.max_hold_seconds, decision.now);
            next.configuration = Some(Arc::new(self.configuration));
            let event = if created { EventData::EnvironmentCreated } else { EventData::EnvironmentUpdated };
            decision.outcome.events.push(Event::environment(event));
        }
        Ok(Configured { environment: decision.next.clone(), created })
    }

    /// The reply shows the environment after the whole decision, which may also give the lock to a waiter.
    fn complete(reply: &mut Configured, next: &Environment) {
        reply.environment = next.clone();
    }
}

/// Applies a new limit to the current holder too, counted from the grant of the lock.
fn limit_hold(next: &mut Environment, max_hold_seconds: Option<u32>, now: Now) {
    let changed = next.configuration.as_ref().is_some_and(|present| present.max_hold_seconds != max_hold_seconds);
    let Some(lock) = next.lock.as_mut().filter(|_| changed).map(Arc::make_mut) else { return };
    let Some(claimed) = &mut lock.claimed else { return };
    // By the steady clock only: the wall clock may have been set since the grant.
    let held_millis = now.tick.0.saturating_sub(claimed.tick.0);
    claimed.hold_until =
        max_hold_seconds.map(|seconds| Deadline::after(now, (i64::from(seconds) * 1000).saturating_sub(held_millis)));
    lock.revision += 1;
}

/// Deletes the environment if it is not locked. The counters stay.
#[derive(Debug, Clone)]
pub struct Delete {
    pub expected: Option<Expected>,
}

impl Command for Delete {
    type Reply = ();
    const ENDS: bool = true;

    fn decide(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let environment = &decision.next;
        if !environment.exists() {
            return Err(Rejection::EnvironmentNotFound);
        }
        check(environment, self.expected.as_ref())?;
        if environment.lock.is_some() || environment.reset.is_some() {
            return Err(environment.occupied());
        }
        if let Some(deployment) = environment.current_deployment() {
            return Err(Rejection::DeploymentRunning { deployment: deployment.id });
        }
        if !environment.queue.is_empty() {
            return Err(Rejection::QueueNotEmpty { length: environment.queue.len() });
        }
        decision.touch();
        decision.outcome.forgotten.extend(decision.next.last_reset.map(|reset| reset.id));
        *decision.next = Environment {
            configuration_revision: decision.next.configuration_revision + 1,
            revision: decision.next.revision,
            fencing_token: decision.next.fencing_token,
            skipped_tokens: decision.next.skipped_tokens.after(decision.next.fencing_token),
            first_session: decision.next.fencing_token + 1,
            ..Environment::absent()
        };
        decision.outcome.events.push(Event::environment(EventData::EnvironmentDeleted));
        Ok(())
    }
}

/// Takes the environment out of service permanently: its waiters are refused, no new session gets it, and it is deleted
/// once it is unlocked and nothing runs in it. The caller repeats the command until the environment is gone.
#[derive(Debug, Clone)]
pub struct Retire {
    /// Shown to refused clients.
    pub reason: Arc<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retired {
    Gone,
    /// Some waiters were refused. Repeat immediately, to refuse the rest and delete the environment.
    Refusing,
    /// Repeat after the environment has been released.
    Held,
}

impl Command for Retire {
    type Reply = Retired;

    fn decide(self, decision: &mut Decision<'_>) -> Result<Retired, Rejection> {
        let environment = &*decision.next;
        let Some(configuration) = environment.configuration.clone() else {
            return Err(Rejection::EnvironmentNotFound);
        };
        if !environment.is_in_use() && environment.queue.is_empty() {
            Delete { expected: None }.decide(decision)?;
            return Ok(Retired::Gone);
        }
        // An environment that is already disabled keeps its own reason.
        if !configuration.disabled {
            decision.touch();
            decision.next.configuration_revision += 1;
            decision.next.configuration = Some(Arc::new(Configuration { disabled: true, ..(*configuration).clone() }));
            decision.next.disabled_reason = Some(self.reason);
            decision.outcome.events.push(Event::environment(EventData::EnvironmentUpdated).by_itself());
        }
        let waiting: Vec<_> = decision.next.queue.iter().take(LET_GO_AT_ONCE).map(|waiter| waiter.ticket).collect();
        let ended = Ended { at: decision.now.at, by: None, how: EndedHow::Released };
        for ticket in &waiting {
            decision.leave(*ticket, ended.clone());
        }
        decision.outcome.retired = !waiting.is_empty();
        Ok(if waiting.is_empty() { Retired::Held } else { Retired::Refusing })
    }
}

fn check(environment: &Environment, expected: Option<&Expected>) -> Result<(), Rejection> {
    let revision = environment.configuration_revision;
    let holds = expected.is_none_or(|expected| expected.holds(environment.exists().then_some(revision)));
    if holds { Ok(()) } else { Err(Rejection::ConfigurationChanged { revision }) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Configuration, Configure};
    use crate::Elapse;
    use crate::samples::{Subject, at, claim};

    #[test]
    fn a_new_limit_holds_for_the_present_holder_and_changes_its_session() {
        let mut subject = Subject::with(Configuration::default());
        subject.run(0, claim(1)).unwrap();
        let before = subject.environment.lock.clone().unwrap();
        let configuration = Configuration { max_hold_seconds: Some(10), ..Configuration::default() };
        subject.run(4_000, Configure { configuration, expected: None }).unwrap();
        let after = subject.environment.lock.clone().unwrap();
        assert_eq!(after.expiry().unwrap().0.due, at(10_000).tick, "it counts from when the lock was given");
        assert!(after.revision > before.revision, "the session's ETag changes");
        subject.run(9_999, Elapse).unwrap();
        assert_eq!(subject.holder(), Some(1));
        subject.run(10_000, Elapse).unwrap();
        assert_eq!(subject.holder(), None);
    }
}
