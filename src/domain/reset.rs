//! Reset: what puts an environment back in order after a release or an expiry, before anybody else gets it.

use std::sync::Arc;

use super::{
    Configuration, Deployment, DeploymentId, DeploymentOutcome, DeploymentStatus, Draft, Event, Notice, Plan, deploy,
    release,
};

/// Begins the reset that the environment is configured to have. It starts when nothing else is deployed.
pub(super) fn begin(draft: &mut Draft<'_>, plan: Plan) {
    // An earlier one was told to stop when somebody took the environment by force, and may still run: `finish` begins
    // anew when it has ended.
    if draft.next.reset.is_some() {
        return;
    }
    let commit = draft.next.configuration.as_ref().and_then(|configuration| configuration.on_release.clone());
    let Some(commit) = commit else { return };
    let deployment = Deployment {
        id: DeploymentId(draft.crowd.seed()),
        commit,
        plan,
        status: DeploymentStatus::Queued,
        created_at: draft.now.at,
        started_at: None,
        finished_at: None,
        error: None,
    };
    draft.outcome.events.push(Event::deployment(Notice::DeploymentQueued, None, deployment.id));
    draft.next.reset = Some(deployment);
    deploy::advance(draft);
}

/// Somebody takes the environment by force: it need not be put in order any more, and what runs is told to stop.
pub(super) fn cancel(draft: &mut Draft<'_>) {
    let Some(deployment) = &mut draft.next.reset else { return };
    if let Some(notice) = release::cancel(deployment, draft.now.at) {
        draft.outcome.events.push(Event::deployment(notice, None, deployment.id));
    }
    draft.next.reset.take_if(|deployment| deployment.status.is_finished());
}

/// The reset has really ended. One that failed leaves the environment out of service, since nobody knows its state;
/// unless it had been told to stop, since then nobody relies on it: whoever took the environment by force has it, or has
/// left it to be put in order anew.
pub(super) fn finish(draft: &mut Draft<'_>, outcome: DeploymentOutcome) {
    let Some(mut deployment) = draft.next.reset.take() else { return };
    let stopped = deployment.status == DeploymentStatus::Cancelling;
    let failed = match &outcome {
        DeploymentOutcome::Failed(error) if !stopped => Some(error.clone()),
        DeploymentOutcome::Failed(_) | DeploymentOutcome::Succeeded | DeploymentOutcome::Cancelled => None,
    };
    let notice = deploy::conclude(&mut deployment, outcome, draft.now.at);
    deploy::remember_last(&mut draft.next.last_deployment, &deployment);
    draft.outcome.events.push(Event::deployment(notice, None, deployment.id));
    if let (Some(error), Some(configuration)) = (failed, &draft.next.configuration) {
        let reason = format!("the reset to {} after a release failed: {error}", deployment.commit);
        draft.next.disabled_reason = Some(Arc::from(reason));
        draft.next.configuration = Some(Arc::new(Configuration { disabled: true, ..(**configuration).clone() }));
        draft.next.configuration_revision += 1;
        draft.outcome.events.push(Event::environment(Notice::EnvironmentUpdated));
    }
    if stopped && draft.next.lock.is_none() {
        begin(draft, deployment.plan);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::domain::samples::{Subject, claim, commit, person};
    use crate::domain::*;

    /// Claimed and released, and being put in order since.
    fn resetting() -> Subject {
        let mut subject = Subject::with(Configuration { on_release: Some(commit()), ..Configuration::default() });
        subject.run(0, Claim { plan: Plan::Stages, ..claim(1) }).unwrap();
        release(&mut subject);
        assert_eq!(subject.environment.lock_status(), LockStatus::Resetting);
        subject
    }

    fn release(subject: &mut Subject) {
        let session = subject.environment.lock.as_ref().unwrap().id.into();
        subject.run(1, Release { session, by: person(1), any: true }).unwrap();
    }

    fn force(subject: &mut Subject, number: u64) {
        let claim = Claim { plan: Plan::Stages, ..claim(number) };
        subject.run(2, ForceClaim { claim, role: Role::Developer }).unwrap();
    }

    fn finish(subject: &mut Subject, outcome: DeploymentOutcome) -> DeploymentId {
        let deployment = subject.environment.current_deployment().unwrap().id;
        subject.run(3, FinishDeployment { deployment, outcome }).unwrap();
        deployment
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
        finish(&mut subject, DeploymentOutcome::Cancelled);
        let second = subject.environment.current_deployment().unwrap();
        assert_eq!(second.status, DeploymentStatus::Running, "what was left in disorder is put in order");
        assert_ne!(second.id, first);
        finish(&mut subject, DeploymentOutcome::Succeeded);
        assert!(subject.environment.is_vacant());
    }

    #[test]
    fn a_reset_that_was_told_to_stop_and_fails_takes_nothing_from_whoever_has_the_lock() {
        let mut subject = resetting();
        force(&mut subject, 2);
        finish(&mut subject, DeploymentOutcome::Failed("killed".into()));
        assert!(!subject.environment.configuration.as_ref().unwrap().disabled);
        assert_eq!(subject.holder(), Some(2));
    }

    #[test]
    fn a_reset_that_fails_takes_the_environment_out_of_service() {
        let mut subject = resetting();
        subject.run(2, Claim { waits: Some(Kept::ByConnection), ..claim(2) }).unwrap();
        finish(&mut subject, DeploymentOutcome::Failed("exit code 1".into()));
        assert_eq!(subject.environment.lock_status(), LockStatus::Disabled);
        assert_eq!((subject.holder(), subject.queue()), (None, vec![2]), "nobody gets what nobody knows the state of");
    }
}
