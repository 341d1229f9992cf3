//! How long claims wait for their locks and how long locks are held: histograms for operators.

use std::time::Duration;

use metrics::Histogram;

use domain::{Now, Session};

pub struct LockTimes {
    waits: Histogram,
    holds: Histogram,
}

impl LockTimes {
    pub fn new() -> Self {
        Self {
            waits: metrics::histogram!("lockkeeper_wait_seconds"),
            holds: metrics::histogram!("lockkeeper_hold_seconds"),
        }
    }

    /// The lock has passed from one session to another, if they are not the same.
    pub fn passed(&self, from: Option<&Session>, to: Option<&Session>, now: Now) {
        let (held, waited) = durations(from, to, now);
        if let Some(held) = held {
            self.holds.record(held.as_secs_f64());
        }
        if let Some(waited) = waited {
            self.waits.record(waited.as_secs_f64());
        }
    }
}

/// How long the one has held the lock that it has no longer, and how long the other has waited for it.
fn durations(from: Option<&Session>, to: Option<&Session>, now: Now) -> (Option<Duration>, Option<Duration>) {
    if from.map(|session| session.id) == to.map(|session| session.id) {
        return (None, None);
    }
    let claimed_at = |session: &Session| session.claimed.as_ref().map(|claimed| claimed.at);
    let held = from.and_then(claimed_at).map(|claimed| now.at.since(claimed));
    let waited = to.and_then(|session| Some(claimed_at(session)?.since(session.created_at)));
    (held, waited)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use domain::samples::{Subject, at, by_force, claim, person};
    use domain::{Claim, Command, Configuration, Heartbeat, KeptBy, Release, Role};

    #[test]
    fn a_hold_counts_to_its_end_and_a_wait_to_its_grant() {
        let mut subject = Subject::with(Configuration::default());
        let mut after = |millis: i64, command: Step| {
            let from = subject.environment.lock.clone();
            let id = from.as_ref().map(|session| session.id);
            let by = person(1);
            match command {
                Step::Claim => run(&mut subject, millis, claim(1)),
                Step::Wait => run(&mut subject, millis, Claim { waits: Some(KeptBy::Polling), ..claim(2) }),
                Step::Heartbeat => {
                    run(&mut subject, millis, Heartbeat { session: id.unwrap().into(), by, fencing_token: None });
                }
                Step::Release => run(&mut subject, millis, Release { session: id.unwrap().into(), by, any: false }),
                Step::Take => run(&mut subject, millis, by_force(claim(3), Role::Admin)),
            }
            let (held, waited) = durations(from.as_deref(), subject.environment.lock.as_deref(), at(millis));
            (held.map(|held| held.as_millis()), waited.map(|waited| waited.as_millis()))
        };
        assert_eq!(after(100, Step::Claim), (None, Some(0)));
        assert_eq!(after(200, Step::Heartbeat), (None, None));
        assert_eq!(after(300, Step::Wait), (None, None));
        assert_eq!(after(1_100, Step::Release), (Some(1_000), Some(800)), "it passes to who waits");
        assert_eq!(after(1_200, Step::Take), (Some(100), Some(0)));
        assert_eq!(after(1_300, Step::Release), (Some(100), None));
    }

    enum Step {
        Claim,
        Wait,
        Heartbeat,
        Release,
        Take,
    }

    fn run<C: Command>(subject: &mut Subject, millis: i64, command: C) {
        assert!(subject.run(millis, command).is_ok());
    }
}
