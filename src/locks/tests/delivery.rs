//! Deployments in these tests: a pipeline with a settable definition, and an executor that only records its orders.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;

use super::*;
use crate::{Definitions, Executor};
use domain::{
    Action, ApprovalRule, BeginStage, Blueprint, DeploymentId, DeploymentRecord, EndStage, PipelineNow, Stage,
    StageAttempt, StageEnd, StageOrder, Step, pipeline,
};

/// The only pipeline.
pub struct Pipeline {
    now: Mutex<PipelineNow>,
    stopped_once: AtomicBool,
}

impl Default for Pipeline {
    fn default() -> Self {
        let now = PipelineNow { stopped: false, blueprint: Arc::default(), unresolved: None };
        Self { now: Mutex::new(now), stopped_once: AtomicBool::new(false) }
    }
}

impl Pipeline {
    pub fn stop(&self, stopped: bool) {
        self.now.lock().stopped = stopped;
    }

    /// Simulates a pipeline that is resumed right after a decision has found it stopped.
    pub fn stop_when_next_asked(&self) {
        self.stopped_once.store(true, Ordering::Relaxed);
    }

    pub fn set(&self, blueprint: Blueprint) {
        self.now.lock().blueprint = Arc::new(blueprint);
    }

    pub fn set_as(&self, other: &Pipeline) {
        *self.now.lock() = other.now.lock().clone();
    }
}

impl Definitions for Arc<Pipeline> {
    fn now(&self, _: &PipelineKey) -> PipelineNow {
        let now = self.now.lock().clone();
        let stopped = now.stopped || self.stopped_once.swap(false, Ordering::Relaxed);
        PipelineNow { stopped, ..now }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    Run(EnvironmentKey, DeploymentId, usize, u32),
    Stop(EnvironmentKey, DeploymentId),
    Sweep(EnvironmentKey, DeploymentId),
}

/// The orders since the last read.
#[derive(Default)]
pub struct Orders(Mutex<Vec<Order>>);

impl Orders {
    pub fn take(&self) -> Vec<Order> {
        std::mem::take(&mut *self.0.lock())
    }

    /// The deployment of the only order, which must be the first run of its first stage.
    pub fn only_run(&self) -> DeploymentId {
        match &self.take()[..] {
            [Order::Run(of, id, 0, 1)] if *of == key() => *id,
            others => panic!("there is something else to do: {others:?}"),
        }
    }
}

impl Executor for Arc<Orders> {
    fn run_stage(&self, environment: &EnvironmentKey, order: StageOrder) {
        let StageOrder { deployment, stage, attempt, .. } = order;
        self.0.lock().push(Order::Run(environment.clone(), deployment, stage, attempt));
    }

    fn stop(&self, environment: &EnvironmentKey, deployment: DeploymentId) {
        self.0.lock().push(Order::Stop(environment.clone(), deployment));
    }

    fn sweep(&self, environment: &EnvironmentKey, deployment: DeploymentId) {
        self.0.lock().push(Order::Sweep(environment.clone(), deployment));
    }
}

/// Stages with one step each, by name. Stages whose name begins with `ask` need an approval.
pub fn stages(names: &[&str]) -> Blueprint {
    let stage = |name: &&str| Stage {
        name: Identifier::parse(name).unwrap(),
        approval: if name.starts_with("ask") { ApprovalRule::Always } else { ApprovalRule::Never },
        timeout_seconds: pipeline::TIMEOUT_SECONDS_DEFAULT,
        idempotent: false,
        steps: vec![Step::own(Identifier::parse("step").unwrap(), Action::Run(vec![Arc::from("true")]))],
    };
    Blueprint { stages: names.iter().map(stage).collect(), ..Blueprint::default() }
}

pub fn commit() -> CommitId {
    CommitId::parse("c0ffee1").unwrap()
}

impl Bench {
    /// Makes a holder with a running deployment.
    pub async fn deploying(&self) -> DeploymentId {
        self.pipeline.set(stages(&["build"]));
        let claim = ClaimRequest { commit: Some(commit()), ..claim(1) };
        let session = claim_at_once(&self.environments, &key(), claim).await.unwrap();
        session.deployments[0].id
    }

    pub async fn deploy(&self, session: &Session) -> Result<DeploymentRecord, Failure> {
        self.deploy_in(&key(), session).await
    }

    pub async fn deploy_in(&self, key: &EnvironmentKey, session: &Session) -> Result<DeploymentRecord, Failure> {
        self.environments.ask(key, deploy(session)).await
    }

    pub async fn begin(&self, deployment: DeploymentId) {
        self.environments.ask(&key(), BeginStage(attempt(deployment))).await.unwrap();
    }

    pub async fn end(&self, deployment: DeploymentId, end: StageEnd) {
        self.environments.ask(&key(), end_of(deployment, end)).await.unwrap();
    }

    pub fn deployment(&self, id: DeploymentId) -> Option<DeploymentRecord> {
        let organization = &key().pipeline.organization;
        self.environments.deployment(organization, id).unwrap().map(|found| found.record)
    }

    /// The keys of deployments, approvals and marks of unfinished deployments.
    pub fn traces(&self) -> Vec<Vec<u8>> {
        let kinds = [b"D/", b"b/", b"A/", b"a/", b"r/"];
        let of = |kind: &[u8; 2]| self.store.scan(kind, &store::end_of_prefix(kind), usize::MAX).unwrap();
        kinds.into_iter().flat_map(of).map(|(key, _)| key).collect()
    }
}

pub fn deploy(session: &Session) -> Deploy {
    let (by, seed) = (session.user.clone(), entropy::id_seed());
    Deploy { session: session.id.into(), by, seed, commit: commit(), fencing_token: None }
}

/// The first attempt of the deployment's first stage.
pub fn attempt(deployment: DeploymentId) -> StageAttempt {
    StageAttempt { deployment, stage: 0, attempt: 1 }
}

pub fn end_of(deployment: DeploymentId, end: StageEnd) -> EndStage {
    EndStage { of: attempt(deployment), end, steps: Vec::new() }
}
