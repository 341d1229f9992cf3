//! Invariants of every environment after every command. Checked by debug builds, property tests and the simulation.

use super::{Deployment, DeploymentStatus, Environment, Session, SessionStatus, StageStatus};

/// Invariants of a single state.
pub fn check(environment: &Environment) -> Result<(), String> {
    if let Some(holder) = &environment.lock {
        require(environment.exists(), "a deleted environment is locked")?;
        require(holder.ended.is_none(), "a session that has ended holds the lock")?;
        require(
            holder.fencing_token() == Some(environment.fencing_token),
            "the holder's fencing token is not the one given last",
        )?;
        require(
            environment.queue.iter().all(|waiter| waiter.session.id != holder.id),
            "the holder still waits for what it has",
        )?;
        check_session(holder)?;
    }
    if let Some(leaving) = &environment.leaving {
        require(leaving.ended.is_some(), "a session is leaving and has not ended")?;
        require(
            leaving.unfinished_deployment().is_some_and(|d| d.status == DeploymentStatus::Cancelling),
            "a session is leaving whose deployment is not being cancelled",
        )?;
        require(
            leaving.fencing_token().is_some_and(|token| token <= environment.fencing_token),
            "a session is leaving with a token of the future",
        )?;
        check_session(leaving)?;
    }
    let sessions = [&environment.lock, &environment.leaving].into_iter().flatten();
    let of_sessions = sessions.map(|session| running_deployments(session));
    let resetting = environment.reset.as_ref().is_some_and(|reset| reset.status.occupies_environment());
    let running = of_sessions.sum::<usize>() + usize::from(resetting);
    require(running <= 1, "two deployments run in one environment")?;
    let idle_with_work = running == 0 && environment.waiting_deployment().is_some();
    require(idle_with_work == environment.held_back, "a deployment waits although none runs and its pipeline does")?;
    if let Some(deployment) = environment.current_deployment() {
        check_run(deployment)?;
    }
    if let (Some(reset), Some(_)) = (&environment.reset, &environment.lock) {
        require(reset.status == DeploymentStatus::Cancelling, "a locked environment is being reset")?;
    }
    check_queue(environment)
}

/// Invariants of a transition.
pub fn check_step(before: &Environment, after: &Environment) -> Result<(), String> {
    let granted = after.lock.as_ref().map(|s| s.id) != before.lock.as_ref().map(|s| s.id) && after.lock.is_some();
    require(
        after.fencing_token == if granted { before.next_token() } else { before.fencing_token },
        "the fencing token does not rise to the next one with each grant",
    )?;
    let running = |environment: &Environment| environment.current_deployment().map(|deployment| deployment.id);
    let ended = |id| after.last_deployment.as_ref().is_some_and(|last| last.id == id);
    require(
        running(before).is_none_or(|id| running(after) == Some(id) || ended(id))
            || before.last_deployment != after.last_deployment,
        "a deployment that runs is forgotten",
    )?;
    let before_but_queue = Environment { queue: after.queue.clone(), ..before.clone() };
    require(after.revision > before.revision || *after == before_but_queue, "a change does not raise the revision")
}

/// The stage of a running deployment has only finished stages before it and none after it.
fn check_run(deployment: &Deployment) -> Result<(), String> {
    let run = deployment.run.as_ref().ok_or("a deployment has begun and has no stages")?;
    let (index, stage) = run.active().ok_or("a deployment has begun and is at no stage")?;
    let before = run.stages[..index].iter().all(|stage| stage.status == StageStatus::Succeeded);
    require(before, "a stage was left out")?;
    let after = run.stages[index + 1..].iter().all(|stage| stage.status == StageStatus::Pending);
    require(after, "a stage came before its turn")?;
    require(run.stages.len() == run.blueprint.stages.len(), "a run has other stages than its blueprint")?;
    let expected = match stage.status {
        StageStatus::AwaitingApproval => DeploymentStatus::AwaitingApproval,
        StageStatus::Cancelling => DeploymentStatus::Cancelling,
        StageStatus::Queued | StageStatus::Running => DeploymentStatus::Running,
        StageStatus::Pending
        | StageStatus::Succeeded
        | StageStatus::Failed
        | StageStatus::Cancelled
        | StageStatus::Skipped => return Err("a stage is active that is not".to_owned()),
    };
    require(deployment.status == expected, "a deployment stands otherwise than the stage it is at")
}

fn check_queue(environment: &Environment) -> Result<(), String> {
    let queue = &environment.queue;
    require(environment.exists() || queue.is_empty(), "somebody waits for a deleted environment")?;
    let turns: Vec<_> = queue.iter().map(|waiter| waiter.turn()).collect();
    require(turns.len() == queue.len(), "the queue's length is not that of the queue")?;
    require(turns.is_sorted_by(|first, second| first < second), "the queue is out of order")?;
    require(
        queue.iter().all(|waiter| waiter.session.status() == SessionStatus::Queued),
        "somebody waits who has had the lock",
    )
}

fn check_session(session: &Session) -> Result<(), String> {
    require(
        session.deployment_count >= session.deployments.len() as u64,
        "a session lists more deployments than it had",
    )?;
    let mut seen_waiting = false;
    for deployment in &session.deployments {
        match deployment.status {
            DeploymentStatus::Queued => seen_waiting = true,
            DeploymentStatus::Running | DeploymentStatus::AwaitingApproval | DeploymentStatus::Cancelling => {
                require(!seen_waiting, "a deployment overtakes one that waits")?;
            }
            DeploymentStatus::Succeeded | DeploymentStatus::Failed | DeploymentStatus::Cancelled => {
                require(deployment.finished_at.is_some(), "a finished deployment has no end")?;
            }
        }
    }
    Ok(())
}

fn running_deployments(session: &Session) -> usize {
    session.deployments.iter().filter(|d| d.status.occupies_environment()).count()
}

fn require(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}
