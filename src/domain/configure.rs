//! Making, changing and deleting an environment.

use std::sync::Arc;

use super::{Command, Configuration, Environment, Event, Notice, Rejection, Timestamp, Transition};

/// What a caller insists on before anything is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// That there is such an environment.
    Existing,
    /// That there is none.
    Absent,
    /// That its configuration is still at one of these revisions.
    Revisions(Vec<u64>),
}

/// Makes the environment, or replaces its configuration.
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

    fn decide(self, environment: &Environment, _now: Timestamp) -> Result<Transition<Configured>, Rejection> {
        check(environment, self.expected.as_ref())?;
        let created = !environment.exists();
        let mut next = environment.clone();
        let mut events = Vec::new();
        if environment.configuration.as_deref() != Some(&self.configuration) {
            next.revision += 1;
            next.configuration_revision += 1;
            next.configuration = Some(Arc::new(self.configuration));
            let notice = if created { Notice::EnvironmentCreated } else { Notice::EnvironmentUpdated };
            events.push(Event::environment(notice));
        }
        let reply = Configured { environment: next.clone(), created };
        Ok(Transition { next, ended: Vec::new(), events, reply })
    }
}

/// Deletes the environment if nobody holds it. Its counters stay behind.
#[derive(Debug, Clone)]
pub struct Delete {
    pub expected: Option<Expected>,
}

impl Command for Delete {
    type Reply = ();

    fn decide(self, environment: &Environment, _now: Timestamp) -> Result<Transition<()>, Rejection> {
        if !environment.exists() {
            return Err(Rejection::EnvironmentNotFound);
        }
        check(environment, self.expected.as_ref())?;
        if let Some(holder) = &environment.lock {
            return Err(Rejection::EnvironmentLocked { holder: Box::new(holder.clone()) });
        }
        if let Some(deployment) = environment.current_deployment() {
            return Err(Rejection::DeploymentRunning { deployment: deployment.id });
        }
        let next = Environment {
            configuration: None,
            configuration_revision: environment.configuration_revision + 1,
            revision: environment.revision + 1,
            fencing_token: environment.fencing_token,
            sessions: environment.sessions,
            first_session: environment.sessions + 1,
            ..Environment::absent()
        };
        let events = vec![Event::environment(Notice::EnvironmentDeleted)];
        Ok(Transition { next, ended: Vec::new(), events, reply: () })
    }
}

fn check(environment: &Environment, expected: Option<&Expected>) -> Result<(), Rejection> {
    let revision = environment.configuration_revision;
    let holds = match expected {
        None => true,
        Some(Expected::Existing) => environment.exists(),
        Some(Expected::Absent) => !environment.exists(),
        Some(Expected::Revisions(expected)) => environment.exists() && expected.contains(&revision),
    };
    if holds { Ok(()) } else { Err(Rejection::ConfigurationChanged { revision }) }
}
