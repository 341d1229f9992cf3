//! Random scripts of deployments with stages, approvals, retries and crashes, against a model of the runner: its
//! orders, and the processes that are alive, even while the server is down.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use crate::samples::{self, Subject, by_force, cases, claim, commit, person, request, seed};
use crate::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(4_000), ..ProptestConfig::default() })]

    #[test]
    fn never_do_two_deployments_run_and_every_one_comes_to_an_end(
        shape in shape(),
        resets in any::<bool>(),
        script in prop::collection::vec(action(), 1..60),
    ) {
        let mut site = Site::new(shape, resets);
        for action in script {
            site.play(action);
        }
        site.finish_everything();
    }
}

/// Per stage: whether it needs an approval, and whether it is idempotent.
fn shape() -> impl Strategy<Value = Vec<(bool, bool)>> {
    prop::collection::vec((any::<bool>(), any::<bool>()), 0..4)
}

#[derive(Debug, Clone)]
enum Deed {
    Claim {
        deploys: bool,
    },
    Force {
        deploys: bool,
    },
    Release,
    Deploy,
    /// The runner's next report.
    Begin,
    Report,
    End(u8),
    Swept,
    Cancel {
        nth: usize,
        stage: usize,
        any: bool,
    },
    Retry {
        nth: usize,
        stage: usize,
    },
    Decide {
        approve: bool,
    },
    StopPipeline,
    ResumePipeline,
    Crash,
}

fn action() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => any::<bool>().prop_map(|deploys| Deed::Claim { deploys }),
        1 => any::<bool>().prop_map(|deploys| Deed::Force { deploys }),
        1 => Just(Deed::Release),
        4 => Just(Deed::Deploy),
        6 => Just(Deed::Begin),
        2 => Just(Deed::Report),
        6 => (0..8u8).prop_map(Deed::End),
        3 => Just(Deed::Swept),
        3 => (0..3usize, 0..4usize, any::<bool>()).prop_map(|(nth, stage, any)| Deed::Cancel { nth, stage, any }),
        4 => (0..3usize, 0..4usize).prop_map(|(nth, stage)| Deed::Retry { nth, stage }),
        4 => any::<bool>().prop_map(|approve| Deed::Decide { approve }),
        1 => Just(Deed::StopPipeline),
        1 => Just(Deed::ResumePipeline),
        1 => Just(Deed::Crash),
    ]
}

/// An environment, and the model of its runner.
struct Site {
    subject: Subject,
    millis: i64,
    numbers: u64,
    /// The stage that was ordered but has not begun.
    ordered: Option<StageAttempt>,
    /// The stage whose processes are alive, even if the server that started them is not.
    alive: Option<StageAttempt>,
    stopping: bool,
    sweeping: Option<DeploymentId>,
    /// The newest is last.
    records: BTreeMap<DeploymentId, DeploymentRecord>,
    blueprints: BTreeMap<DeploymentId, Arc<Blueprint>>,
    ended_sessions: Vec<Arc<Session>>,
}

impl Site {
    fn new(shape: Vec<(bool, bool)>, resets: bool) -> Self {
        let on_release = resets.then(commit);
        let mut subject = Subject::with(Configuration { on_release, ..Configuration::default() });
        let mut blueprint = (*samples::pipeline(shape.len()).blueprint).clone();
        for (stage, (approval, idempotent)) in blueprint.stages.iter_mut().zip(shape) {
            stage.approval = if approval { ApprovalRule::Always } else { ApprovalRule::Never };
            stage.idempotent = idempotent;
        }
        subject.ports.pipeline = PipelineNow { stopped: false, blueprint: Arc::new(blueprint), unresolved: None };
        Self {
            subject,
            millis: 0,
            numbers: 0,
            ordered: None,
            alive: None,
            stopping: false,
            sweeping: None,
            records: BTreeMap::new(),
            blueprints: BTreeMap::new(),
            ended_sessions: Vec::new(),
        }
    }

    fn run<C: Command>(&mut self, mut command: C) -> Result<C::Reply, Rejection> {
        self.millis += 1;
        let environment = &self.subject.environment;
        if let Some(target) = command.deployment()
            && environment.unfinished_deployment(target.id).is_none()
        {
            target.ended = self.records.get(&target.id).map(|record| {
                let blueprint = self.blueprints.get(&target.id).cloned();
                Box::new(EndedDeployment { record: record.clone(), blueprint })
            });
        }
        if let Some(subject) = command.subject() {
            subject.ended = self.ended_sessions.iter().rev().find(|s| s.id == subject.id).cloned();
        }
        let before = environment.clone();
        let (reply, outcome) = self.subject.run(self.millis, command)?;
        assert_eq!(invariants::check(&self.subject.environment), Ok(()));
        assert_eq!(invariants::check_step(&before, &self.subject.environment), Ok(()));
        self.write_down(outcome);
        Ok(reply)
    }

    fn write_down(&mut self, outcome: Outcome) {
        self.ended_sessions.extend(outcome.ended);
        self.blueprints.extend(outcome.blueprints);
        for record in outcome.deployments {
            let id = record.deployment.id;
            let before = self.records.get(&id).map_or(0, |known| known.deployment.revision);
            assert!(record.deployment.revision > before, "a record changed under its ETag");
            assert_eq!(record.deployment.staged, !record.stages.is_empty());
            self.records.insert(id, record);
        }
        for effect in outcome.effects {
            match effect {
                Effect::RunStage(order) => {
                    let of = StageAttempt { deployment: order.deployment, stage: order.stage, attempt: order.attempt };
                    assert_eq!((self.alive, self.ordered, self.sweeping), (None, None, None), "something runs still");
                    self.ordered = Some(of);
                }
                Effect::Stop(id) if self.ordered.or(self.alive.filter(|_| self.sweeping.is_none())).is_some() => {
                    assert_eq!(self.ordered.or(self.alive).unwrap().deployment, id, "another one is to be stopped");
                    self.stopping = true;
                }
                // Processes of an earlier runner may be left.
                Effect::Stop(id) | Effect::Sweep(id) => self.sweeping = Some(id),
            }
        }
        let current = self.subject.environment.current_deployment().map(|deployment| deployment.id);
        for busy in [self.alive, self.ordered].into_iter().flatten() {
            assert_eq!(current, Some(busy.deployment), "the environment has forgotten what runs in it");
        }
    }

    fn play(&mut self, deed: Deed) {
        match deed {
            Deed::Claim { deploys } => {
                let claim = self.next_claim(deploys);
                self.run(claim).ok();
            }
            Deed::Force { deploys } => {
                let claim = self.next_claim(deploys);
                self.run(by_force(claim, Role::Admin)).ok();
            }
            Deed::Release => {
                let Some(session) = self.holder() else { return };
                self.run(Release { session: session.into(), by: person(1), any: false }).unwrap();
            }
            Deed::Deploy => {
                let Some(session) = self.holder() else { return };
                self.numbers += 1;
                let seed = seed(self.numbers);
                let deploy =
                    Deploy { session: session.into(), by: person(1), seed, commit: commit(), fencing_token: None };
                self.run(deploy).unwrap();
            }
            Deed::Begin => self.begin(),
            Deed::Report => {
                let Some(of) = self.alive.filter(|_| self.sweeping.is_none()) else { return };
                let steps = samples::end_stage(&self.subject.environment, StageEnd::Succeeded).steps;
                self.run(ReportSteps { of, steps }).unwrap();
            }
            Deed::End(outcome) => self.end(super::script::end(outcome)),
            Deed::Swept => {
                let Some(deployment) = self.sweeping.take() else { return };
                let of = samples::attempt(&self.subject.environment);
                assert_eq!(of.deployment, deployment);
                self.alive = None;
                self.run(Swept(of)).unwrap();
                assert!(self.run(Swept(of)).is_err(), "what was run again is not swept away");
            }
            Deed::Cancel { nth, stage, any } => self.cancel(nth, stage, any),
            Deed::Retry { nth, stage } => self.retry(nth, stage),
            Deed::Decide { approve } => self.decide(approve),
            Deed::StopPipeline => self.subject.ports.pipeline.stopped = true,
            Deed::ResumePipeline => {
                self.subject.ports.pipeline.stopped = false;
                self.run(Resume).unwrap();
            }
            Deed::Crash => {
                if self.sweeping.is_none() {
                    self.ordered = None;
                    self.stopping = false;
                    self.run(Recover).unwrap();
                }
            }
        }
    }

    /// The runner begins the ordered stage; if that is refused, it reports that nothing of the stage runs.
    fn begin(&mut self) {
        let Some(of) = self.ordered.take() else { return };
        match self.run(BeginStage(of)) {
            Ok(()) => {
                self.alive = Some(of);
                assert_eq!(self.run(BeginStage(of)), Ok(()), "whoever was not answered says it again");
            }
            Err(_) => {
                assert!(self.stopping, "what was ordered is refused");
                self.stopping = false;
                let end = samples::end_stage(&self.subject.environment, StageEnd::Cancelled);
                self.run(end).unwrap();
            }
        }
    }

    fn end(&mut self, end: StageEnd) {
        if self.sweeping.is_some() || self.alive.is_none() {
            return;
        }
        let stopped = std::mem::take(&mut self.stopping);
        let of = self.alive.take().unwrap();
        let command = samples::end_stage(&self.subject.environment, end.clone());
        assert_eq!(command.of, of);
        let last = of.stage + 1 == self.blueprints[&of.deployment].stages.len();
        self.run(command.clone()).unwrap();
        assert!(self.run(command).is_err(), "it ends once");
        let status = self.records[&of.deployment].deployment.status;
        let expected = match end {
            StageEnd::Succeeded if last => DeploymentStatus::Succeeded,
            StageEnd::Failed(_) if !stopped => DeploymentStatus::Failed,
            StageEnd::Succeeded if !stopped => return,
            StageEnd::Succeeded | StageEnd::Failed(_) | StageEnd::Cancelled | StageEnd::Interrupted => {
                DeploymentStatus::Cancelled
            }
        };
        assert_eq!(status, expected);
    }

    fn cancel(&mut self, nth: usize, stage: usize, any: bool) {
        let Some((id, stage)) = self.target(nth, stage) else { return };
        let cancel = CancelStage { target: id.into(), stage, by: person(1), any };
        let Ok(record) = self.run(cancel.clone()) else { return };
        let stands = record.deployment.status;
        assert!(matches!(stands, DeploymentStatus::Cancelling | DeploymentStatus::Cancelled), "{stands:?}");
        assert_eq!(self.run(cancel).map(|again| again.deployment), Ok(record.deployment), "twice is once");
    }

    fn retry(&mut self, nth: usize, stage: usize) {
        let Some((id, stage)) = self.target(nth, stage) else { return };
        let record = self.records[&id].clone();
        let Some(session) = record.session else { return };
        let of_holder = self.holder() == Some(session);
        let before = record.stages.iter().find(|known| known.name == stage).map(|known| known.status);
        let retry =
            RetryStage { target: id.into(), session: session.into(), stage: stage.clone(), by: person(1), any: true };
        let reply = self.run(retry.clone());
        let over = matches!(before, Some(StageStatus::Failed | StageStatus::Cancelled));
        if record.deployment.status.is_finished() {
            assert_eq!(reply.is_ok(), of_holder && over, "{reply:?}");
        }
        if let Ok(record) = reply {
            assert!(!record.deployment.status.is_finished());
            assert_eq!(self.run(retry).map(|again| again.deployment), Ok(record.deployment), "twice is once");
        }
    }

    fn decide(&mut self, approve: bool) {
        let current = self.subject.environment.current_deployment().cloned();
        let Some(deployment) = current.filter(|d| d.status == DeploymentStatus::AwaitingApproval) else { return };
        let (_, stage) = deployment.run.as_ref().unwrap().active().unwrap();
        let verdict = if approve { Verdict::Approve } else { Verdict::Reject };
        let approval = stage.approval.as_ref().unwrap().id;
        let decide = DecideApproval {
            approval,
            deployment: deployment.id,
            verdict,
            by: person(2),
            comment: Some("so be it".into()),
        };
        let decided = self.run(decide.clone()).unwrap();
        assert_eq!(decided.approval.decided_by, Some(person(2)));
        assert!(self.run(decide).is_err(), "it is decided once");
    }

    /// Without disturbance, every running or waiting deployment ends.
    fn finish_everything(&mut self) {
        self.play(Deed::ResumePipeline);
        for _ in 0..1_000 {
            let environment = &self.subject.environment;
            if environment.current_deployment().is_none() && environment.waiting_deployment().is_none() {
                let unfinished = self.records.values().filter(|record| !record.deployment.status.is_finished()).count();
                assert_eq!((unfinished, self.ordered, self.alive), (0, None, None));
                return;
            }
            self.play(Deed::Swept);
            self.play(Deed::Decide { approve: true });
            self.play(Deed::Begin);
            self.end(StageEnd::Succeeded);
        }
        panic!("something never ends: {:?}", self.subject.environment.current_deployment());
    }

    /// The nth newest deployment, and one of the stages it has or could have.
    fn target(&self, nth: usize, stage: usize) -> Option<(DeploymentId, Identifier)> {
        let id = *self.records.keys().nth_back(nth)?;
        Some((id, samples::identifier(&format!("stage-{}", stage + 1))))
    }

    fn holder(&self) -> Option<SessionId> {
        self.subject.environment.lock.as_ref().map(|session| session.id)
    }

    fn next_claim(&mut self, deploys: bool) -> Claim {
        self.numbers += 1;
        Claim { request: ClaimRequest { commit: deploys.then(commit), ..request(1) }, ..claim(self.numbers) }
    }
}
