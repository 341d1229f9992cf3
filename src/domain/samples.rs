//! Sample values for the tests of the domain.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::{
    Action, ApprovalRule, Blueprint, Claim, ClaimRequest, Command, CommitId, Configuration, Configure, Datum,
    DecisionPorts, Details, EndStage, Environment, EventType, EventValue, ForceClaim, IdSeed, Identifier, KeptBy,
    LabelValue, Labels, Now, Outcome, Person, PipelineNow, PlaceKey, Presence, Priority, Rejection, Role, Stage,
    StageAttempt, StageEnd, Step, Tick, Ticket, Timestamp, Turn, UserId, Waiter, decide,
};

/// An event with any members, or with none.
#[derive(Debug)]
pub struct AnyEvent(pub EventType, pub Vec<(&'static str, EventValue)>);

impl Details for AnyEvent {
    fn event_type(&self) -> EventType {
        self.0
    }

    fn each(&self, receive: &mut dyn FnMut(&'static str, Datum<'_>)) {
        for (name, value) in &self.1 {
            receive(
                name,
                match value {
                    EventValue::Text(text) => Datum::Text(text),
                    EventValue::Number(number) => Datum::Number(*number),
                    EventValue::Flag(flag) => Datum::Flag(*flag),
                },
            );
        }
    }
}

pub fn person(number: u8) -> Person {
    Person { id: UserId(IdSeed([number; 12])), name: Arc::from(format!("person-{number}")) }
}

/// Equal numbers give equal seeds; [`number`] reads the number back.
pub fn seed(number: u64) -> IdSeed {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    IdSeed(bytes)
}

pub fn number(seed: IdSeed) -> u64 {
    u64::from_be_bytes(seed.0[4..].try_into().unwrap())
}

pub fn commit() -> CommitId {
    CommitId::parse("c0ffee1").unwrap()
}

pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| (Identifier::parse(key).unwrap(), LabelValue::parse(value).unwrap())).collect()
}

/// A plain claim that does not wait, with this number as seed and ticket.
pub fn claim(number: u64) -> Claim {
    Claim {
        request: request(1),
        seed: seed(number),
        ticket: Ticket(number),
        waits: None,
        known: true,
        is_admin: false,
        via: None,
    }
}

pub fn request(who: u8) -> ClaimRequest {
    ClaimRequest { user: person(who), commit: None, context: None, ttl_seconds: None, priority: Priority::default() }
}

pub fn by_force(claim: Claim, role: Role) -> ForceClaim {
    ForceClaim { request: claim.request, seed: claim.seed, role }
}

pub fn by_key(number: u64) -> KeptBy {
    KeptBy::Key(PlaceKey { record: Arc::from(number.to_be_bytes()), fingerprint: [0; 16] })
}

/// The number of cases per property: `LOCKKEEPER_TEST_CASES`, or `usual`.
pub fn cases(usual: u32) -> u32 {
    std::env::var("LOCKKEEPER_TEST_CASES").map_or(usual, |text| text.parse().unwrap())
}

/// A pipeline with this many plain stages, each with two steps.
pub fn pipeline(stages: usize) -> PipelineNow {
    let step = |number| Step::own(identifier(&format!("step-{number}")), Action::Run(vec!["true".into()]));
    let stage = |number| Stage {
        name: identifier(&format!("stage-{number}")),
        approval: ApprovalRule::Never,
        timeout_seconds: 60,
        idempotent: false,
        steps: vec![step(1), step(2)],
    };
    let blueprint = Blueprint { stages: (1..=stages).map(stage).collect(), ..Blueprint::default() };
    PipelineNow { stopped: false, blueprint: Arc::new(blueprint), unresolved: None }
}

pub fn identifier(text: &str) -> Identifier {
    Identifier::parse(text).unwrap()
}

/// The current stage of the environment's deployment, and its attempt.
pub fn attempt(environment: &Environment) -> StageAttempt {
    let deployment = environment.current_deployment().unwrap();
    let (stage, run) = deployment.run.as_ref().unwrap().active().unwrap();
    StageAttempt { deployment: deployment.id, stage, attempt: run.attempt }
}

/// The runner's report that the current stage of the environment's deployment has ended.
pub fn end_stage(environment: &Environment, end: StageEnd) -> EndStage {
    let of = attempt(environment);
    let run = environment.current_deployment().unwrap().run.clone().unwrap();
    EndStage { of, end, steps: run.stages[of.stage].steps.clone() }
}

/// This many milliseconds after the start, on both clocks.
pub fn at(millis: i64) -> Now {
    Now { at: Timestamp::from_millis(1_000_000 + millis), tick: Tick(millis) }
}

/// All clients are connected, except the listed ones; the pool is empty.
pub struct Present {
    pub except: Vec<(Ticket, Presence)>,
    pub pipeline: PipelineNow,
    seeds: u64,
}

impl DecisionPorts for Present {
    fn presence(&self, waiter: &Waiter) -> Presence {
        let exception = self.except.iter().find(|(ticket, _)| *ticket == waiter.ticket);
        exception.map_or(Presence::Connected, |(_, presence)| *presence)
    }

    fn take_from_pool(&mut self, _: &Configuration, _: Option<Turn>) -> Option<Arc<Waiter>> {
        None
    }

    fn seed(&mut self) -> IdSeed {
        self.seeds += 1;
        seed(u64::MAX - self.seeds)
    }

    fn pipeline(&self) -> PipelineNow {
        self.pipeline.clone()
    }
}

/// An environment under test.
pub struct Subject {
    pub environment: Environment,
    pub ports: Present,
}

impl Subject {
    /// An environment whose pipeline has no stages.
    pub fn with(configuration: Configuration) -> Self {
        let ports = Present { except: Vec::new(), pipeline: pipeline(0), seeds: 0 };
        let mut subject = Self { environment: Environment::absent(), ports };
        subject.run(0, Configure { configuration, expected: None }).unwrap();
        subject
    }

    /// Runs the command at this time, and keeps the next state.
    pub fn run<C: Command>(&mut self, millis: i64, command: C) -> Result<(C::Reply, Outcome), Rejection> {
        let before = Arc::new(self.environment.clone());
        let mut outcome = Outcome::default();
        let transition = decide(&before, command, at(millis), &mut self.ports, &mut outcome)?;
        self.environment = Arc::unwrap_or_clone(transition.next);
        Ok((transition.reply, outcome))
    }

    /// The claim that holds the lock.
    pub fn holder(&self) -> Option<u64> {
        self.environment.lock.as_ref().map(|session| number(session.id.seed))
    }

    pub fn queue(&self) -> Vec<u64> {
        self.environment.queue.iter().map(|waiter| waiter.ticket.0).collect()
    }
}
