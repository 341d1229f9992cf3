//! The largest possible batches, which the store must accept: a session that cannot be ended would hold its lock
//! permanently.

use super::*;
use domain::pipeline::{BLUEPRINT_BYTES_MAX, STAGES_MAX, STEPS_MAX};
use domain::{
    Action, Blueprint, CONFIGURATION_BYTES_MAX, Context, Stage, Step, StepReference, StepSource, VariableName,
    VariableValue,
};

/// The maximum number of stages and steps, with the longest texts that their records can contain: each step is a
/// registry step at a commit.
fn largest() -> Blueprint {
    let [stage] = &stages(&["ask"]).stages[..] else { panic!("one stage") };
    let reference = StepReference::parse("rrrr/ssss@vvvv").unwrap();
    let source = Arc::new(StepSource { reference, commit: Some(Arc::from("c".repeat(40))) });
    let step = |stage: usize, step: usize| Step {
        source: Some(source.clone()),
        ..Step::own(Identifier::parse(&format!("{stage:02}-{step:02}")).unwrap(), Action::Run(vec![Arc::from("x")]))
    };
    let stage = |number: usize| Stage {
        name: Identifier::parse(&format!("ask-{number:02}")).unwrap(),
        steps: (0..STEPS_MAX).map(|place| step(number, place)).collect(),
        ..stage.clone()
    };
    let blueprint = Blueprint { stages: (0..STAGES_MAX).map(stage).collect(), ..Blueprint::default() };
    assert!((BLUEPRINT_BYTES_MAX - 3_000..=BLUEPRINT_BYTES_MAX).contains(&blueprint.bytes()), "{}", blueprint.bytes());
    blueprint
}

fn largest_configuration() -> Configuration {
    let variable = |number: usize| {
        let name = VariableName::parse(&format!("NAME_{number:02}")).unwrap();
        (name, VariableValue::parse(&"v".repeat(CONFIGURATION_BYTES_MAX / 64 - 16)).unwrap())
    };
    let on_release = Some(CommitId::parse(&"r".repeat(128)).unwrap());
    Configuration { variables: (0..64).map(variable).collect(), on_release, ..Configuration::default() }
}

async fn claim_largest(bench: &Bench) -> Arc<Session> {
    let context = Some(Context::parse(&"\u{1f512}".repeat(1024)).unwrap());
    claim_at_once(&bench.environments, &key(), ClaimRequest { context, ..claim(1) }).await.unwrap()
}

/// A deployment with the longest commit, which fails with the longest error.
async fn fail_largest(bench: &Bench, session: &Session, stage: &str) -> DeploymentId {
    let commit = CommitId::parse(&"c".repeat(128)).unwrap();
    let deploy = Deploy { commit, ..delivery::deploy(session) };
    let id = bench.environments.ask(&key(), deploy).await.unwrap().deployment.id;
    if stage.starts_with("ask") {
        bench.decide(id, Verdict::Approve).await;
    }
    let steps = bench.deployment(id).unwrap().stages[0].steps.clone();
    let end = EndStage { of: attempt(id), end: StageEnd::Failed(Arc::from("e".repeat(300))), steps };
    bench.environments.ask(&key(), end).await.unwrap();
    id
}

/// The eighth session of its history page, with the maximum data for its end.
async fn holding_all_it_can(bench: &Bench) -> Arc<Session> {
    for _ in 1..15 {
        bench.pipeline.set(stages(&["build"]));
        let session = claim_largest(bench).await;
        for _ in 0..100 {
            fail_largest(bench, &session, "build").await;
        }
        bench.release(&session).await.unwrap();
    }
    let session = claim_largest(bench).await;
    for _ in 0..95 {
        fail_largest(bench, &session, "build").await;
    }
    bench.configure(&key(), largest_configuration()).await;
    bench.pipeline.set(largest());
    let mut failed = Vec::new();
    for _ in 0..4 {
        failed.push(fail_largest(bench, &session, "ask-00").await);
    }
    let running = bench.deploy(&session).await.unwrap().deployment.id;
    bench.decide(running, Verdict::Approve).await;
    for id in &failed {
        bench.retry(&session, *id, "ask-00").await.unwrap();
        assert_eq!(bench.status(*id), DeploymentStatus::Queued);
    }
    session
}

#[actix::test]
async fn the_store_accepts_the_end_of_the_largest_session() {
    let bench = Bench::with_environment().await;
    let session = holding_all_it_can(&bench).await;
    let by_force = bench.killed(1_000);
    bench.release(&session).await.unwrap();
    let page = bench.store.get(&crate::keys::page(&key(), 1)).unwrap().unwrap();
    assert!(page.len() > 320 * 1024, "{} bytes are not the largest", page.len());
    by_force.force_claim(2).await;
    // A shorter retention also has to drop sessions.
    let forgetting = Bench::over(Arc::new(by_force.store.crash()), 7);
    forgetting.force_claim(3).await;
}

#[actix::test]
async fn a_bounded_number_of_retries_may_wait() {
    let bench = Bench::with_environment().await;
    let (session, first) = bench.deployed(&["build"]).await;
    bench.fail(first).await;
    let mut failed = vec![first];
    for _ in 0..4 {
        let id = bench.deploy(&session).await.unwrap().deployment.id;
        bench.fail(id).await;
        failed.push(id);
    }
    bench.deploy(&session).await.unwrap();
    for id in &failed[..4] {
        bench.retry(&session, *id, "build").await.unwrap();
    }
    let refused = bench.retry(&session, failed[4], "build").await;
    assert!(matches!(refused, Err(Failure::Rejected(Rejection::DeploymentQueueFull { limit: 4 }))), "{refused:?}");
    bench.deploy(&session).await.unwrap();
}
