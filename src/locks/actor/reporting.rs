//! An actor's reports after each message: to the pool whether the environment is free, and to the timer when to look
//! at it again.

use super::EnvironmentActor;
use domain::Availability;

impl EnvironmentActor {
    /// Reports to the pool, if it is in use and something has changed. Returns whether a waiter there wants the
    /// environment.
    pub(super) fn report(&mut self) -> bool {
        let Ok(loaded) = &self.loaded else { return false };
        if !self.links.pool.is_active() {
            self.reported = None;
            return false;
        }
        let environment = &loaded.environment;
        // While the store refuses, nobody can have it: an offer would be refused, and made again at once.
        let can_be_had = !loaded.retry.is_due();
        let status = (can_be_had && environment.is_vacant(), environment.configuration_revision, environment.last_used);
        if self.reported == Some(status) {
            return false;
        }
        self.reported = Some(status);
        let availability = match &environment.configuration {
            Some(configuration) if !can_be_had => Availability::Taken { configuration: configuration.clone() },
            Some(_) | None => environment.availability(),
        };
        self.links.pool.report(&self.links.services, &self.links.key.name, availability)
    }

    /// Reports even if nothing has changed: an offer has been answered.
    pub(super) fn report_anew(&mut self) {
        self.reported = None;
        self.report();
    }

    /// Sets the deadline at which the timer signals that something may have expired.
    pub(super) fn arm(&mut self) {
        let Ok(loaded) = &self.loaded else { return };
        let wake = loaded.wake();
        let sooner = match (wake, self.armed) {
            (Some(wake), Some(armed)) => wake < armed,
            (Some(_), None) => true,
            (None, armed) => armed.is_some(),
        };
        // A deadline that is too early does no harm: the actor finds nothing due and arms it again.
        if sooner {
            self.armed = wake;
            self.services().deadlines.arm(&self.links.key, wake);
        }
    }
}
