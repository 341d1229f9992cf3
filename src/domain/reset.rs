//! Reset: a deployment after a release or an expiry, before the next session gets the lock.

use std::sync::Arc;

use super::decision::Owner;
use super::{
    Configuration, Decision, Deployment, DeploymentId, DeploymentOutcome, Event, EventData, LastReset, stages,
};

/// Queues the configured reset. It starts when no other deployment is running.
pub(super) fn begin(decision: &mut Decision<'_>) {
    // An earlier reset may still be running, although a force-claim told it to stop. `finish` begins the new one
    // afterwards.
    if decision.next.reset.is_some() {
        return;
    }
    let commit = decision.next.configuration.as_ref().and_then(|configuration| configuration.on_release.clone());
    let Some(commit) = commit else { return };
    let mut deployment = Deployment::new(DeploymentId(decision.ports.seed()), commit, decision.now.at);
    decision.outcome.events.push(deployment.event(EventData::DeploymentQueued, None));
    let last = LastReset { id: deployment.id, fencing_token: decision.next.fencing_token };
    decision.outcome.forgotten.extend(decision.next.last_reset.replace(last).map(|previous| previous.id));
    stages::record(&mut deployment, &Owner::system(Some(last)), decision.outcome);
    decision.next.reset = Some(deployment);
}

/// A force-claim makes the reset unnecessary, so a running one is told to stop.
pub(super) fn cancel(decision: &mut Decision<'_>) {
    let Some(id) = decision.next.reset.as_ref().map(|deployment| deployment.id) else { return };
    if let Ok((deployment, owner, mut context)) = decision.deployment(id) {
        stages::cancel(deployment, &owner, &mut context);
    }
    decision.next.reset.take_if(|deployment| deployment.status.is_finished());
}

/// The reset has ended. If it failed or was cancelled midway, the state of the environment is unknown, so it is
/// disabled; but not after a force-claim: then nobody relies on this reset, and another one follows the new session.
pub(super) fn finish(decision: &mut Decision<'_>, outcome: DeploymentOutcome) {
    let Some(mut deployment) = decision.next.reset.take() else { return };
    let last = decision.next.last_reset;
    let overridden = last.is_none_or(|reset| reset.fencing_token < decision.next.fencing_token);
    let failed = match &outcome {
        DeploymentOutcome::Failed(error) => Some(format!("failed: {error}")),
        DeploymentOutcome::Cancelled => Some("was cancelled".to_owned()),
        DeploymentOutcome::Succeeded => None,
    };
    stages::conclude(&mut deployment, &Owner::system(last), &mut decision.context(), outcome);
    if overridden {
        if decision.next.lock.is_none() {
            begin(decision);
        }
        return;
    }
    if let (Some(failed), Some(configuration)) = (failed, &decision.next.configuration) {
        let reason = format!("the reset to {} after a release {failed}", deployment.commit);
        decision.next.disabled_reason = Some(Arc::from(reason));
        decision.next.configuration = Some(Arc::new(Configuration { disabled: true, ..(**configuration).clone() }));
        decision.next.configuration_revision += 1;
        decision.outcome.events.push(Event::environment(EventData::EnvironmentUpdated).by_itself());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::samples::{Subject, by_force, claim, commit, end_stage, identifier, person, pipeline};
    use crate::*;

    /// An environment that was claimed and released, and is being reset.
    fn resetting() -> Subject {
        let mut subject = Subject::with(Configuration { on_release: Some(commit()), ..Configuration::default() });
        subject.ports.pipeline = pipeline(1);
        subject.run(0, claim(1)).unwrap();
        release(&mut subject);
        assert_eq!(subject.environment.lock_status(), LockStatus::Resetting);
        subject
    }

    fn release(subject: &mut Subject) {
        let session = subject.environment.lock.as_ref().unwrap().id.into();
        subject.run(1, Release { session, by: person(1), any: true }).unwrap();
    }

    fn force(subject: &mut Subject, number: u64) {
        subject.run(2, by_force(claim(number), Role::Developer)).unwrap();
    }

    fn finish(subject: &mut Subject, end: StageEnd) {
        let end = end_stage(&subject.environment, end);
        subject.run(3, end).unwrap();
    }

    #[test]
    fn a_reset_that_was_told_to_stop_has_ended_before_the_next_begins() {
        let mut subject = resetting();
        let first = subject.environment.reset.as_ref().unwrap().id;
        force(&mut subject, 2);
        release(&mut subject);
        let present = subject.environment.current_deployment().unwrap();
        assert_eq!((present.id, present.status), (first, DeploymentStatus::Cancelling), "it may still run");
        assert_eq!(subject.environment.lock_status(), LockStatus::Resetting);
        finish(&mut subject, StageEnd::Cancelled);
        let second = subject.environment.current_deployment().unwrap();
        assert_eq!(second.status, DeploymentStatus::Running, "what was left in disorder is put in order");
        assert_ne!(second.id, first);
        finish(&mut subject, StageEnd::Succeeded);
        assert!(subject.environment.is_vacant());
    }

    #[test]
    fn a_reset_that_was_told_to_stop_and_fails_takes_nothing_from_whoever_has_the_lock() {
        let mut subject = resetting();
        force(&mut subject, 2);
        finish(&mut subject, StageEnd::Failed("killed".into()));
        assert!(!subject.environment.configuration.as_ref().unwrap().disabled);
        assert_eq!(subject.holder(), Some(2));
    }

    #[test]
    fn a_reset_that_fails_takes_the_environment_out_of_service() {
        let mut subject = resetting();
        subject.run(2, Claim { waits: Some(KeptBy::Connection), ..claim(2) }).unwrap();
        finish(&mut subject, StageEnd::Failed("exit code 1".into()));
        assert_eq!(subject.environment.lock_status(), LockStatus::Disabled);
        assert_eq!((subject.holder(), subject.queue()), (None, vec![2]), "nobody gets what nobody knows the state of");
    }

    #[test]
    fn that_an_environment_is_out_of_service_is_nobodys_doing_also_where_a_release_comes_to_that_at_once() {
        let mut subject = Subject::with(Configuration { on_release: Some(commit()), ..Configuration::default() });
        subject.ports.pipeline = PipelineNow { unresolved: Some("a step is missing".into()), ..pipeline(1) };
        subject.run(0, claim(1)).unwrap();
        let session = subject.environment.lock.as_ref().unwrap().id.into();
        let (_, outcome) = subject.run(1, Release { session, by: person(1), any: false }).unwrap();
        let told: Vec<_> = outcome.events.iter().map(|event| (event.event_type(), event.automatic)).collect();
        assert_eq!(
            told,
            [
                (EventType::SessionReleased, false),
                (EventType::DeploymentQueued, false),
                (EventType::DeploymentStarted, true),
                (EventType::DeploymentFailed, true),
                (EventType::EnvironmentUpdated, true),
            ]
        );
    }

    #[test]
    fn a_reset_that_was_cancelled_takes_the_environment_out_of_service() {
        let mut subject = resetting();
        let target = subject.environment.current_deployment().unwrap().id.into();
        let stage = identifier("stage-1");
        subject.run(2, CancelStage { target, stage, by: person(1), any: true }).unwrap();
        finish(&mut subject, StageEnd::Cancelled);
        assert_eq!(subject.environment.lock_status(), LockStatus::Disabled);
    }

    #[test]
    fn only_the_last_reset_is_kept() {
        let mut subject = resetting();
        let first = subject.environment.current_deployment().unwrap().id;
        finish(&mut subject, StageEnd::Succeeded);
        subject.run(4, claim(2)).unwrap();
        let session = subject.environment.lock.as_ref().unwrap().id.into();
        let (_, outcome) = subject.run(5, Release { session, by: person(1), any: true }).unwrap();
        assert_eq!(outcome.forgotten, [first]);
    }
}
