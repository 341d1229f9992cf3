//! An actor's reports after each message: to the pool whether the environment is free, and to the timer when to look
//! at it again.

use super::EnvironmentActor;
use crate::domain::Availability;

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
        let status = (environment.is_vacant(), environment.configuration_revision, environment.last_used);
        if self.reported == Some(status) {
            return false;
        }
        self.reported = Some(status);
        self.links.pool.report(&self.links.services, &self.links.key.name, environment.availability())
    }

    /// Reports even if nothing has changed: an offer has been answered.
    pub(super) fn report_anew(&mut self) {
        self.reported = None;
        self.report();
    }

    /// Reports that the environment cannot be had for now, until the next report.
    pub(super) fn report_unavailable(&mut self) {
        let Ok(loaded) = &self.loaded else { return };
        self.reported = None;
        let configuration = loaded.environment.configuration.clone();
        let availability =
            configuration.map_or(Availability::Gone, |configuration| Availability::Taken { configuration });
        self.links.pool.report(&self.links.services, &self.links.key.name, availability);
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

    /// The deadline has come.
    pub(super) fn disarmed(&mut self) {
        let Ok(loaded) = &mut self.loaded else { return };
        self.armed = None;
        if loaded.retry_at.take().is_some() {
            // The store may have refused an offer, and the pool does not know how the environment stands since.
            self.reported = None;
        }
    }
}
