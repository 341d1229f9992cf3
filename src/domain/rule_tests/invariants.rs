//! The invariants detect every state and transition that must never occur.

use std::sync::Arc;

use crate::invariants::{check, check_step};
use crate::samples::{Subject, by_force, claim, commit, end_stage, pipeline, request, seed};
use crate::*;

/// Session 1 holds the lock, and its deployment is at the second of three stages; 2, 3 and 4 wait.
fn subject() -> Subject {
    let mut subject = Subject::with(Configuration::default());
    subject.ports.pipeline = pipeline(3);
    let request = ClaimRequest { commit: Some(commit()), ..request(1) };
    subject.run(0, Claim { request, ..claim(1) }).unwrap();
    for number in 2..=4 {
        subject.run(0, Claim { waits: Some(KeptBy::Polling), ..claim(number) }).unwrap();
    }
    let end = end_stage(&subject.environment, StageEnd::Succeeded);
    subject.run(1, end).unwrap();
    subject
}

/// [`subject`] after a force-claim: 1 is leaving, and its deployment is being cancelled.
fn left() -> Subject {
    let mut subject = subject();
    subject.run(2, by_force(claim(9), Role::Developer)).unwrap();
    subject
}

fn holder(environment: &mut Environment) -> &mut Session {
    Arc::make_mut(environment.lock.as_mut().unwrap())
}

fn leaving(environment: &mut Environment) -> &mut Session {
    Arc::make_mut(environment.leaving.as_mut().unwrap())
}

fn run(session: &mut Session) -> &mut Run {
    Arc::make_mut(session.deployments[0].run.as_mut().unwrap())
}

fn waiting() -> Deployment {
    Deployment::new(DeploymentId(seed(77)), commit(), Timestamp::from_millis(0))
}

#[test]
fn sound_states_have_nothing_to_find() {
    for environment in [Environment::absent(), subject().environment, left().environment] {
        assert_eq!(check(&environment), Ok(()));
        assert_eq!(check_step(&environment, &environment), Ok(()));
    }
    let mut behind = subject().environment;
    holder(&mut behind).deployments.push(waiting());
    holder(&mut behind).deployment_count += 1;
    assert_eq!(check(&behind), Ok(()), "one deployment waits for another");
    let mut stopped = behind.clone();
    holder(&mut stopped).deployments[0].status = DeploymentStatus::Failed;
    holder(&mut stopped).deployments[0].finished_at = Some(Timestamp::from_millis(0));
    stopped.held_back = true;
    assert_eq!(check(&stopped), Ok(()), "the pipeline is stopped");
}

/// The expected finding, the correct state, and the change that violates it.
type Case = (&'static str, fn() -> Subject, fn(&mut Environment));

#[test]
fn no_state_that_must_never_be_passes() {
    let cases: [Case; 24] = [
        ("a deleted environment is locked", subject, |e| e.configuration = None),
        ("a session that has ended holds the lock", subject, |e| {
            let at = Timestamp::from_millis(0);
            holder(e).ended = Some(Ended { at, by: None, how: EndedHow::Released });
        }),
        ("the holder's fencing token is not the one given last", subject, |e| e.fencing_token += 1),
        ("the holder's fencing token is not the one given last", subject, |e| holder(e).claimed = None),
        ("the holder still waits for what it has", subject, |e| {
            let waiter = e.queue.iter().next().unwrap().clone();
            holder(e).id = waiter.session.id;
        }),
        ("a session lists more deployments than it had", subject, |e| holder(e).deployment_count = 0),
        ("a deployment overtakes one that waits", subject, |e| {
            holder(e).deployments.insert(0, waiting());
            holder(e).deployment_count += 1;
        }),
        ("a finished deployment has no end", subject, |e| holder(e).deployments[0].status = DeploymentStatus::Failed),
        ("a session is leaving and has not ended", left, |e| leaving(e).ended = None),
        ("a session is leaving whose deployment is not being cancelled", left, |e| {
            leaving(e).deployments[0].status = DeploymentStatus::Running;
        }),
        ("a session is leaving whose deployment is not being cancelled", left, |e| leaving(e).deployments.clear()),
        ("a session is leaving with a token of the future", left, |e| {
            leaving(e).claimed.as_mut().unwrap().fencing_token = e.fencing_token + 1;
        }),
        ("a session lists more deployments than it had", left, |e| leaving(e).deployment_count = 0),
        ("two deployments run in one environment", left, |e| {
            let running = leaving(e).deployments.clone();
            holder(e).deployments = running;
            holder(e).deployment_count = 1;
        }),
        ("two deployments run in one environment", left, |e| e.reset = Some(leaving(e).deployments[0].clone())),
        ("a deployment waits although none runs and its pipeline does", subject, |e| {
            holder(e).deployments = vec![waiting()];
        }),
        ("a deployment waits although none runs and its pipeline does", subject, |e| e.held_back = true),
        ("a locked environment is being reset", subject, |e| {
            e.reset = Some(holder(e).deployments.pop().unwrap());
        }),
        ("a deployment has begun and has no stages", subject, |e| holder(e).deployments[0].run = None),
        ("a deployment has begun and is at no stage", subject, |e| {
            run(holder(e)).stages[1].status = StageStatus::Succeeded;
        }),
        ("a stage was left out", subject, |e| run(holder(e)).stages[0].status = StageStatus::Skipped),
        ("a stage came before its turn", subject, |e| run(holder(e)).stages[2].status = StageStatus::Succeeded),
        ("a run has other stages than its blueprint", subject, |e| drop(run(holder(e)).stages.pop())),
        ("a deployment stands otherwise than the stage it is at", subject, |e| {
            run(holder(e)).stages[1].status = StageStatus::AwaitingApproval;
        }),
    ];
    for (why, sound, breaks) in cases {
        let mut environment = sound().environment;
        breaks(&mut environment);
        assert_eq!(check(&environment), Err(why.to_owned()));
    }
}

#[test]
fn no_queue_that_must_never_be_passes() {
    let mut deleted = Environment { configuration: None, lock: None, ..subject().environment };
    assert_eq!(check(&deleted), Err("somebody waits for a deleted environment".to_owned()));
    deleted.queue = Queue::new();
    assert_eq!(check(&deleted), Ok(()));

    let mut served = subject().environment;
    let mut waiter = Waiter::clone(served.queue.iter().next().unwrap());
    served.queue.remove(waiter.ticket);
    waiter.session.claimed = holder(&mut served).claimed.clone();
    served.queue.insert(Arc::new(waiter));
    assert_eq!(check(&served), Err("somebody waits who has had the lock".to_owned()));
}

#[test]
fn every_grant_takes_the_next_fencing_token_and_nothing_else_does() {
    let otherwise = Err("the fencing token does not rise to the next one with each grant".to_owned());
    let before = Subject::with(Configuration::default()).environment;
    let granted = |token| {
        let mut subject = Subject::with(Configuration::default());
        subject.run(0, claim(1)).unwrap();
        Environment { fencing_token: token, ..subject.environment }
    };
    assert_eq!(check_step(&before, &granted(1)), Ok(()));
    for token in [0, 2] {
        assert_eq!(check_step(&before, &granted(token)), otherwise, "{token}");
    }
    let raised = Environment { fencing_token: 1, revision: before.revision + 1, ..before.clone() };
    assert_eq!(check_step(&before, &raised), otherwise, "nobody got the lock");
    let released = Environment { lock: None, revision: 9, ..granted(1) };
    assert_eq!(check_step(&granted(1), &released), Ok(()));
    assert_eq!(check_step(&granted(1), &Environment { fencing_token: 2, ..released }), otherwise);
}

#[test]
fn no_deployment_that_runs_is_forgotten() {
    let before = subject().environment;
    let mut after = Environment { revision: before.revision + 1, ..before.clone() };
    let deployment = holder(&mut after).deployments.remove(0);
    assert_eq!(check_step(&before, &after), Err("a deployment that runs is forgotten".to_owned()));
    after.last_deployment = Some(LastDeployment {
        id: deployment.id,
        commit: deployment.commit,
        status: DeploymentStatus::Succeeded,
        finished_at: Timestamp::from_millis(0),
    });
    assert_eq!(check_step(&before, &after), Ok(()));
    let known = Environment { last_deployment: after.last_deployment.clone(), ..before };
    assert_eq!(check_step(&known, &after), Ok(()), "it has ended before, and was retried");
}

#[test]
fn every_change_but_one_of_the_queue_raises_the_revision() {
    let before = subject().environment;
    let mut served = before.clone();
    served.queue.remove(Ticket(2));
    assert_eq!(check_step(&before, &served), Ok(()));
    let changed = Environment { last_used: Some(Timestamp::from_millis(1)), ..before.clone() };
    assert_eq!(check_step(&before, &changed), Err("a change does not raise the revision".to_owned()));
    let raised = Environment { revision: before.revision + 1, ..changed.clone() };
    assert_eq!(check_step(&before, &raised), Ok(()));
    let fallen = Environment { revision: before.revision - 1, ..changed };
    assert!(check_step(&before, &fallen).is_err());
}
