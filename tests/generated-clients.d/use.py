"""What a CI job and the people around it do, with the client that openapi-python-client makes of the OpenAPI document.

LOCKKEEPER_URL and LOCKKEEPER_TOKEN (of an admin) say where; the sample organization is served there.
"""

import os
import threading

from lockkeeper_client import AuthenticatedClient
from lockkeeper_client.api.approvals import approve_stage, list_approvals
from lockkeeper_client.api.deployments import get_deployment, get_deployment_logs
from lockkeeper_client.api.ephemeral_environments import (
    claim_any_environment,
    claim_session,
    deploy_commit,
    force_claim,
    get_environment,
    get_environment_queue,
    get_session_status,
    list_environments,
    release_session,
    send_heartbeat,
)
from lockkeeper_client.api.events import list_events
from lockkeeper_client.api.pipelines import (
    delete_pipeline,
    get_pipeline,
    list_pipelines,
    put_pipeline,
    resume_pipeline,
    stop_pipeline,
)
from lockkeeper_client.api.step_registries import create_step_registry, delete_step_registry, list_registry_steps
from lockkeeper_client.api.tokens import create_token
from lockkeeper_client.models import (
    ApprovalStatus,
    ClaimAnyRequest,
    ClaimAnyRequestLabels,
    ClaimRequest,
    DeployRequest,
    DeploymentStatus,
    EnvironmentAnswer,
    ForceClaimRequest,
    HeartbeatRequest,
    NewTokenAnswer,
    PipelineRequest,
    PipelineStatus,
    Problem,
    ProblemCode,
    RegistryStepRequestWithRun,
    SessionAnswer,
    SessionOverriddenEvent,
    SessionStatus,
    StageRequest,
    StepRegistryRequestWithSteps,
    StepRequestWithRun,
    StepRequestWithUses,
    StopRequest,
    TokenRequest,
)

URL, ADMIN_TOKEN, ORG = os.environ["LOCKKEEPER_URL"], os.environ["LOCKKEEPER_TOKEN"], "acme"


def client_of(token):
    return AuthenticatedClient(base_url=URL, token=token, timeout=60)


def good(answer, kind=None):
    """The answer, unless it is a problem, whose detail says what to do."""
    if isinstance(answer, Problem):
        raise SystemExit(f"{answer.code}: {answer.detail}")
    assert answer is not None and (kind is None or isinstance(answer, kind)), answer
    return answer.data


def member(admin, name):
    made = good(create_token.sync(ORG, client=admin, body=TokenRequest(name="generated client", user=name)), NewTokenAnswer)
    return client_of(made.token)


def claiming(ana, mia):
    """Claim, be refused, wait, queue, keep alive, take by force."""
    env = (ORG, "web", "review-1")
    first = good(claim_session.sync(*env, client=ana, body=ClaimRequest(commit_id="c0ffee1", ttl_seconds=300)), SessionAnswer)
    assert first.lock_status is SessionStatus.ACTIVE and first.fencing_token >= 1 and first.expires_at.tzinfo

    refused = claim_session.sync(*env, client=mia, body=ClaimRequest())
    assert isinstance(refused, Problem) and refused.code is ProblemCode.ENVIRONMENT_LOCKED
    print(f"python: {refused.detail}")
    assert refused.holder.user.name == "ana" and refused.holder.session_id == first.session_id

    waited = []
    wait = ClaimRequest(ttl_seconds=300, wait_seconds=30, context="python waits")
    waiting = threading.Thread(target=lambda: waited.append(claim_session.sync(*env, client=mia, body=wait)))
    waiting.start()
    while not good(get_environment_queue.sync(*env, client=ana)):
        pass
    ended = good(release_session.sync(*env, first.session_id, client=ana))
    assert ended.lock_status is SessionStatus.RELEASED and ended.ended_by.name == "ana"
    waiting.join()
    second = good(waited[0], SessionAnswer)
    assert second.fencing_token == first.fencing_token + 1

    queued = good(claim_session.sync(*env, client=ana, body=ClaimRequest(queue=True, ttl_seconds=300)))
    assert queued.lock_status is SessionStatus.QUEUED and queued.queue_position == 1 and queued.fencing_token is None
    waiter = good(get_environment_queue.sync(*env, client=mia))[0]
    assert waiter.session_id == queued.session_id and waiter.user.name == "ana"
    seen = get_session_status.sync_detailed(*env, queued.session_id, client=ana)
    good(release_session.sync(*env, second.session_id, client=mia))
    tag = seen.headers["ETag"]
    third = good(get_session_status.sync(*env, queued.session_id, client=ana, if_none_match=tag, wait_seconds=30))
    assert third.lock_status is SessionStatus.ACTIVE

    kept = good(send_heartbeat.sync(*env, third.session_id, client=ana, body=HeartbeatRequest(fencing_token=third.fencing_token)))
    assert kept.expires_at >= third.expires_at

    forced = good(force_claim.sync(*env, client=mia, body=ForceClaimRequest(context="python takes over", ttl_seconds=300)))
    assert forced.overrode.user.name == "ana"
    lost = good(get_session_status.sync(*env, third.session_id, client=ana))
    assert lost.overridden and lost.ended_by.session_id == forced.session_id
    environment = good(get_environment.sync(*env, client=ana), EnvironmentAnswer)
    assert environment.lock.context == "python takes over" and environment.configuration.labels["size"] == "small"
    good(release_session.sync(*env, forced.session_id, client=mia))

    any_of_them = ClaimAnyRequest(labels=ClaimAnyRequestLabels.from_dict({"size": "large"}), ttl_seconds=300)
    large = good(claim_any_environment.sync(ORG, "web", client=ana, body=any_of_them), SessionAnswer)
    assert large.env_name == "review-3"
    good(release_session.sync(ORG, "web", large.env_name, large.session_id, client=ana))
    names = [listed.env_name for listed in good(list_environments.sync(ORG, "web", client=ana))]
    assert names == ["review-1", "review-2", "review-3"]
    return third, forced


def deploying(ana, mia):
    """Deploy through the stages of the pipeline `shop`, one of which somebody has to approve."""
    env = (ORG, "shop", "staging-1")
    session = good(claim_session.sync(*env, client=ana, body=ClaimRequest(ttl_seconds=600)), SessionAnswer)
    deployment = good(deploy_commit.sync(*env, session.session_id, client=ana, body=DeployRequest(commit_id="c0ffee1")))

    deployment = until(ana, deployment, DeploymentStatus.AWAITING_APPROVAL)
    pending = good(list_approvals.sync(ORG, client=mia, status=ApprovalStatus.PENDING, deployment_id=deployment.deployment_id))
    assert [approval.stage for approval in pending] == ["deploy"]
    approved = good(approve_stage.sync(ORG, pending[0].approval_id, client=mia))
    assert approved.decided_by.name == "mia"

    deployment = until(ana, deployment, DeploymentStatus.SUCCEEDED)
    assert [stage.name for stage in deployment.stages] == ["build", "test", "deploy", "smoke"]
    assert all(step.exit_code == 0 for stage in deployment.stages for step in stage.steps)
    log = get_deployment_logs.sync(ORG, deployment.deployment_id, client=ana)
    assert "deploying c0ffee1 to staging-1" in log
    good(release_session.sync(*env, session.session_id, client=ana))


def until(client, deployment, status):
    """Asks again whenever it has changed."""
    tag = None
    for _ in range(100):
        headers = {"if_none_match": tag, "wait_seconds": 30} if tag else {}
        answer = get_deployment.sync_detailed(ORG, deployment.deployment_id, client=client, **headers)
        if answer.status_code == 304:
            continue
        deployment, tag = good(answer.parsed), answer.headers["ETag"]
        if deployment.status is status:
            return deployment
    raise SystemExit(f"{deployment.status}: {deployment.error}")


def watching(mia, overridden, by):
    """Events are typed by what happened."""
    events = good(list_events.sync(ORG, client=mia, type_="session.overridden", session_id=overridden.session_id))
    event = events[0]
    assert isinstance(event, SessionOverriddenEvent) and event.data.overridden_by == by.session_id
    assert event.actor.name == "mia" and event.env_name == "review-1"
    every = good(list_events.sync(ORG, client=mia, limit=100))
    assert len({type(event) for event in every}) > 5


def configuring(mia):
    """A registry with a step, a pipeline that uses it, stop and resume."""
    greet = RegistryStepRequestWithRun(name="greet", version="1", run=["echo", "hello"])
    registry = StepRegistryRequestWithSteps(name="from-python", steps=[greet])
    registry = good(create_step_registry.sync(ORG, client=mia, body=registry))
    assert registry.step_count == 1
    assert good(list_registry_steps.sync(ORG, registry.registry_id, client=mia))[0].uses == "from-python/greet@1"

    steps = [StepRequestWithRun(run=["true"]), StepRequestWithUses(uses="from-python/greet@1")]
    pipeline = PipelineRequest(name="From Python", stages=[StageRequest(name="build", steps=steps)])
    made = good(put_pipeline.sync(ORG, "from-python", client=mia, body=pipeline))
    assert made.stages[0].steps[1].uses == "from-python/greet@1" and made.self_approval
    stopped = good(stop_pipeline.sync(ORG, "from-python", client=mia, body=StopRequest(reason="a try")))
    assert stopped.status is PipelineStatus.STOPPED and stopped.stop_reason == "a try"
    assert good(resume_pipeline.sync(ORG, "from-python", client=mia)).status is PipelineStatus.RUNNING
    assert "from-python" in [listed.id for listed in good(list_pipelines.sync(ORG, client=mia))]

    in_use = delete_step_registry.sync(ORG, registry.registry_id, client=mia)
    assert in_use.code is ProblemCode.REGISTRY_IN_USE and in_use.used_by == ["from-python"]
    assert delete_pipeline.sync_detailed(ORG, "from-python", client=mia).status_code == 204
    assert delete_step_registry.sync_detailed(ORG, registry.registry_id, client=mia).status_code == 204
    assert get_pipeline.sync(ORG, "from-python", client=mia).code is ProblemCode.PIPELINE_NOT_FOUND


admin = client_of(ADMIN_TOKEN)
ana, mia = member(admin, "ana"), member(admin, "mia")
overridden, by = claiming(ana, mia)
deploying(ana, mia)
watching(mia, overridden, by)
configuring(mia)
print("python: claimed, waited, queued, took over, deployed, approved, configured")
