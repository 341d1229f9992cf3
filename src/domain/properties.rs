//! Random scripts of commands against the invariants and against a small independent model of the lock.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

const PEOPLE: u8 = 3;

#[derive(Debug, Clone)]
enum Step {
    Claim { person: u8, deploys: bool, plan: Plan },
    ForceClaim { person: u8, role: Role, deploys: bool, plan: Plan },
    Release { person: u8, nth: usize, any: bool },
    Deploy { person: u8, nth: usize, plan: Plan },
    FinishRunning { outcome: u8 },
    FinishUnknown,
    Configure { disabled: bool, deploy_on_claim: bool, force_claim_role: Role },
    Delete,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..40)
}

fn step() -> impl Strategy<Value = Step> {
    let person = 0..PEOPLE;
    let plan = prop_oneof![Just(Plan::Nothing), Just(Plan::Stages)];
    let role = prop_oneof![Just(Role::Developer), Just(Role::Maintainer), Just(Role::Admin)];
    prop_oneof![
        6 => (person.clone(), any::<bool>(), plan.clone()).prop_map(|(person, deploys, plan)| Step::Claim { person, deploys, plan }),
        3 => (person.clone(), role.clone(), any::<bool>(), plan.clone())
            .prop_map(|(person, role, deploys, plan)| Step::ForceClaim { person, role, deploys, plan }),
        6 => (person.clone(), 0..3usize, prop::bool::weighted(0.2)).prop_map(|(person, nth, any)| Step::Release { person, nth, any }),
        6 => (person, 0..3usize, plan).prop_map(|(person, nth, plan)| Step::Deploy { person, nth, plan }),
        6 => (0..3u8).prop_map(|outcome| Step::FinishRunning { outcome }),
        1 => Just(Step::FinishUnknown),
        1 => (prop::bool::weighted(0.2), any::<bool>(), role)
            .prop_map(|(disabled, deploy_on_claim, force_claim_role)| Step::Configure { disabled, deploy_on_claim, force_claim_role }),
        1 => Just(Step::Delete),
    ]
}

/// What a person would keep on paper: who holds the lock, and every session there was, newest first.
struct World {
    environment: Environment,
    clock: i64,
    seed: u64,
    sessions: Vec<Session>,
    tokens: Vec<u64>,
}

impl World {
    fn new() -> Self {
        let mut world =
            Self { environment: Environment::absent(), clock: 0, seed: 0, sessions: Vec::new(), tokens: Vec::new() };
        world.run(Configure { configuration: Configuration::default(), expected: None }).unwrap();
        world
    }

    fn run<C: Command>(&mut self, mut command: C) -> Result<C::Reply, Rejection> {
        self.clock += 1;
        if let Some(subject) = command.subject() {
            let known = self.sessions.iter().find(|s| s.id == subject.id && s.ended.is_some());
            subject.ended = known.cloned().map(Box::new);
        }
        let before = self.environment.clone();
        let transition = decide(&before, command, Timestamp::from_millis(self.clock))?;
        assert_eq!(invariants::check(&transition.next), Ok(()));
        assert_eq!(invariants::check_step(&before, &transition.next), Ok(()));
        for session in transition.ended {
            assert!(session.ended.is_some(), "a session in the history has not ended");
            let known = self.sessions.iter_mut().find(|known| known.id == session.id).unwrap();
            assert!(known.revision < session.revision, "the history goes back");
            *known = session;
        }
        self.environment = transition.next;
        Ok(transition.reply)
    }

    fn seed(&mut self) -> IdSeed {
        self.seed += 1;
        let mut bytes = [0; 12];
        bytes[4..].copy_from_slice(&self.seed.to_be_bytes());
        IdSeed(bytes)
    }

    fn claim(&mut self, who: u8, deploys: bool, plan: Plan) -> Claim {
        let commit = deploys.then(|| CommitId::parse("c0ffee1").unwrap());
        Claim { seed: self.seed(), user: person(who), commit, context: None, plan }
    }

    /// The nth newest session, or one that never was.
    fn session(&self, nth: usize) -> SessionRef {
        let never = SessionId { seed: IdSeed([9; 12]), number: 1 };
        self.sessions.iter().rev().nth(nth).map_or(never, |session| session.id).into()
    }

    fn holder(&self) -> Option<&Session> {
        self.environment.lock.as_ref()
    }

    fn granted(&mut self, session: Session) {
        self.tokens.push(session.fencing_token);
        self.sessions.push(session);
    }

    fn play(&mut self, step: Step) {
        let held_by = self.holder().map(|s| (s.id, s.user.id));
        let configuration = self.environment.configuration.clone();
        match step {
            Step::Claim { person: who, deploys, plan } => {
                let claim = self.claim(who, deploys, plan);
                let free = held_by.is_none() && configuration.as_ref().is_some_and(|c| !c.disabled);
                let reply = self.run(claim);
                assert_eq!(reply.is_ok(), free, "{reply:?}");
                if let Ok(session) = reply {
                    assert_eq!(session.user.id, person(who).id);
                    self.granted(session);
                }
            }
            Step::ForceClaim { person: who, role, deploys, plan } => {
                let claim = self.claim(who, deploys, plan);
                let allowed = configuration.as_ref().is_some_and(|c| !c.disabled && role >= c.force_claim_role);
                let reply = self.run(ForceClaim { claim, role });
                assert_eq!(reply.is_ok(), allowed, "{reply:?}");
                if let Ok(claimed) = reply {
                    assert_eq!(claimed.overrode.map(|s| s.id), held_by.map(|(id, _)| id));
                    self.granted(claimed.session);
                }
            }
            Step::Release { person: who, nth, any } => {
                let session = self.session(nth);
                let reply = self.run(Release { session: session.clone(), by: person(who), any });
                if let Ok(released) = &reply {
                    assert!(released.ended.is_some() && (any || released.user.id == person(who).id));
                    assert_ne!(self.holder().map(|s| s.id), Some(session.id));
                } else {
                    assert_eq!(self.holder().map(|s| s.id), held_by.map(|(id, _)| id), "a refusal changed the lock");
                }
            }
            Step::Deploy { person: who, nth, plan } => {
                let session = self.session(nth);
                let may = held_by == Some((session.id, person(who).id));
                let commit = CommitId::parse("decade2").unwrap();
                let seed = self.seed();
                let reply = self.run(Deploy { session, by: person(who), seed, commit, plan });
                assert!(reply.is_err() || may, "somebody deployed without holding the lock");
                assert!(reply.is_ok() || !may || matches!(reply, Err(Rejection::DeploymentQueueFull { .. })));
            }
            Step::FinishRunning { outcome } => {
                let Some(deployment) = self.environment.current_deployment().map(|d| d.id) else {
                    return;
                };
                let outcome = match outcome {
                    0 => DeploymentOutcome::Succeeded,
                    1 => DeploymentOutcome::Failed(Arc::from("exit code 1")),
                    _ => DeploymentOutcome::Cancelled,
                };
                self.run(FinishDeployment { deployment, outcome }).unwrap();
                assert_ne!(self.environment.current_deployment().map(|d| d.id), Some(deployment));
            }
            Step::FinishUnknown => {
                let deployment = DeploymentId(IdSeed([7; 12]));
                let reply = self.run(FinishDeployment { deployment, outcome: DeploymentOutcome::Succeeded });
                assert_eq!(reply, Err(Rejection::DeploymentNotRunning));
            }
            Step::Configure { disabled, deploy_on_claim, force_claim_role } => {
                let configuration =
                    Configuration { disabled, deploy_on_claim, force_claim_role, ..Configuration::default() };
                self.run(Configure { configuration, expected: None }).unwrap();
            }
            Step::Delete => {
                let idle = held_by.is_none() && self.environment.current_deployment().is_none();
                let reply = self.run(Delete { expected: None });
                assert_eq!(reply.is_ok(), idle && configuration.is_some(), "{reply:?}");
            }
        }
        self.check_against_paper();
    }

    /// The environment's holder is the newest session on paper, or nobody; every other session has ended for good.
    fn check_against_paper(&mut self) {
        let holder = self.holder().cloned();
        for session in &mut self.sessions {
            match &holder {
                Some(holder) if holder.id == session.id => *session = holder.clone(),
                Some(_) | None => assert!(session.ended.is_some(), "{} is in limbo", session.id),
            }
        }
        let expected: Vec<u64> = (1..=self.tokens.len() as u64).collect();
        assert_eq!(self.tokens, expected, "the fencing token does not rise by one with each grant");
    }
}

fn person(who: u8) -> Person {
    Person { id: UserId(IdSeed([who; 12])), name: Arc::from(format!("person-{who}")) }
}

proptest! {
    // The issue of a lock is small enough that this many scripts take a few seconds, also in a debug build.
    #![proptest_config(ProptestConfig { cases: 12_000, ..ProptestConfig::default() })]

    #[test]
    fn no_script_of_commands_breaks_an_invariant(script in steps()) {
        let mut world = World::new();
        for step in script {
            world.play(step);
        }
    }
}
