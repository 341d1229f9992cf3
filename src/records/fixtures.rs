//! Records of environments, queues and deployments as written by the first build of data format 4.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::*;
use domain::{
    Action, Approval, ApprovalId, ApprovalRecord, ApprovalRule, ApprovalStatus, Claimed, CommitId, Context, Deployment,
    DeploymentId, DeploymentRecord, DeploymentStatus, Description, Ended, EndedHow, Expiry, HttpCall, IdSeed,
    InputValue, KeptBy, LabelValue, LastDeployment, LastReset, Lease, Origin, Person, PlaceKey, Priority, Queue,
    RequestRef, Retried, Role, SessionId, Stage, StageRun, StageStatus, Step, StepReference, StepRun, StepSource,
    StepStatus, Tick, Ticket, Timestamp, TokenId, Use, UserId, VariableName, VariableValue,
};
use testkit::format_4::{assert_written_as_format_4, format_4};

const RUN: Run = Run { id: 77, boot: Boot(5), started: Now { at: Timestamp::from_millis(0), tick: Tick(0) } };

fn identifier(text: &str) -> Identifier {
    Identifier::parse(text).unwrap()
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| (identifier(key), LabelValue::parse(value).unwrap())).collect()
}

fn seed(byte: u8) -> IdSeed {
    IdSeed([byte; 12])
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(1_794_735_000_000 + second * 1_000)
}

fn person(name: &str, byte: u8) -> Person {
    Person { id: UserId(seed(byte)), name: name.into() }
}

fn commit(text: &str) -> CommitId {
    CommitId::parse(text).unwrap()
}

fn variables(pairs: &[(&str, &str)]) -> std::collections::BTreeMap<VariableName, VariableValue> {
    let variable =
        |(name, value): &(&str, &str)| (VariableName::parse(name).unwrap(), VariableValue::parse(value).unwrap());
    pairs.iter().map(variable).collect()
}

fn key() -> EnvironmentKey {
    let pipeline = PipelineKey { organization: identifier("acme"), pipeline: identifier("web") };
    EnvironmentKey { pipeline, name: identifier("review-1") }
}

fn deployment(byte: u8, status: DeploymentStatus) -> Deployment {
    Deployment {
        id: DeploymentId(seed(byte)),
        commit: commit("c0ffee1"),
        status,
        created_at: at(1),
        started_at: Some(at(2)),
        finished_at: Some(at(3)),
        error: Some("stage `build` failed".into()),
        revision: 9,
        staged: true,
        run: None,
    }
}

fn holder() -> Session {
    let deadline = |second| Deadline { at: at(second), due: Tick(second * 1_000) };
    Session {
        id: SessionId { seed: seed(1), origin: Origin::Granted(12) },
        user: person("ana", 2),
        commit: Some(commit("c0ffee1")),
        context: Some(Context::parse("PR 412").unwrap()),
        priority: Priority::new(-7).unwrap(),
        ttl_seconds: Some(900),
        created_at: at(0),
        claimed: Some(Claimed {
            fencing_token: 12,
            at: at(1),
            tick: Tick(1_000),
            lease: Some(Lease { ttl_seconds: 900, until: deadline(901) }),
            hold_until: Some(deadline(7_200)),
            unseen_until: Some(deadline(61)),
            seen: true,
        }),
        ended: None,
        deployments: vec![deployment(3, DeploymentStatus::Succeeded), deployment(4, DeploymentStatus::Running)],
        deployment_count: 5,
        revision: 8,
    }
}

fn ended(number: u64, how: EndedHow) -> Session {
    let claimed = Claimed {
        fencing_token: number,
        at: at(1),
        tick: Tick(1_000),
        lease: None,
        hold_until: None,
        unseen_until: None,
        seen: false,
    };
    Session {
        id: SessionId { seed: seed(5), origin: Origin::Queued(Ticket(number)) },
        claimed: Some(claimed),
        ended: Some(Ended { at: at(4), by: Some(person("ben", 6)), how }),
        commit: None,
        context: None,
        ttl_seconds: None,
        ..holder()
    }
}

fn waiting() -> Session {
    Session { id: SessionId { seed: seed(7), origin: Origin::Queued(Ticket(34)) }, claimed: None, ..holder() }
}

fn configuration() -> Configuration {
    Configuration {
        description: Description::parse("For looking at a pull request").unwrap(),
        labels: labels(&[("size", "small"), ("tier", "review")]),
        deploy_on_claim: true,
        default_ttl_seconds: Some(900),
        max_ttl_seconds: 86_400,
        max_hold_seconds: Some(7_200),
        max_queue_length: 50,
        on_release: Some(commit("main")),
        force_claim_role: Role::Maintainer,
        disabled: true,
        variables: variables(&[("TIER", "review")]),
    }
}

fn environment() -> Environment {
    let overridden = EndedHow::Overridden(SessionId { seed: seed(1), origin: Origin::Granted(12) });
    Environment {
        configuration: Some(Arc::new(configuration())),
        configuration_revision: 3,
        revision: 41,
        fencing_token: 12,
        skipped_tokens: SkippedTokens::default(),
        first_session: 2,
        lock: Some(Arc::new(holder())),
        leaving: Some(Arc::new(ended(11, overridden))),
        reset: Some(deployment(8, DeploymentStatus::Cancelling)),
        last_reset: Some(LastReset { id: DeploymentId(seed(8)), fencing_token: 11 }),
        held_back: false,
        disabled_reason: Some("its reset failed".into()),
        last_used: Some(at(4)),
        queue: Queue::new(),
        last_deployment: Some(LastDeployment {
            id: DeploymentId(seed(3)),
            commit: commit("c0ffee1"),
            status: DeploymentStatus::Failed,
            finished_at: at(3),
        }),
    }
}

fn source() -> Arc<StepSource> {
    let [registry, step, version] = ["tools", "scan", "1.2.0"].map(identifier);
    Arc::new(StepSource { reference: StepReference { registry, step, version }, commit: Some("decade2".into()) })
}

fn approval() -> Approval {
    Approval {
        id: ApprovalId(seed(20)),
        status: ApprovalStatus::Rejected,
        requested_at: at(5),
        decided_at: Some(at(6)),
        decided_by: Some(person("mia", 21)),
        comment: Some("not on a Friday".into()),
    }
}

fn deployment_record() -> DeploymentRecord {
    let step = |name, status| StepRun {
        name: identifier(name),
        source: Some(source()),
        status,
        exit_code: Some(127),
        started_at: Some(at(2)),
        finished_at: Some(at(3)),
    };
    DeploymentRecord {
        deployment: deployment(3, DeploymentStatus::AwaitingApproval),
        session: Some(holder().id),
        fencing_token: 12,
        user: Some(person("ana", 2)),
        stages: vec![StageRun {
            name: identifier("build"),
            status: StageStatus::Skipped,
            attempt: 2,
            approval: Some(Approval { comment: None, ..approval() }),
            steps: vec![step("compile", StepStatus::Failed), step("test", StepStatus::Skipped)],
        }],
        retried: Some(Retried { by: person("mia", 21), stage: 1 }),
    }
}

fn approval_record() -> ApprovalRecord {
    ApprovalRecord {
        approval: approval(),
        deployment: DeploymentId(seed(3)),
        session: Some(holder().id),
        commit: commit("c0ffee1"),
        stage: identifier("deploy"),
        attempt: 2,
        requested_by: Some(person("ana", 2)),
    }
}

fn blueprint() -> Blueprint {
    let call = HttpCall {
        method: "POST".into(),
        url: "https://chat.example/".into(),
        headers: vec![("X-Tier".into(), "review".into())],
        body: Some("tested".into()),
        expect_status: vec![200, 204],
    };
    let value = |name: &str, value| (VariableName::parse(name).unwrap(), value);
    let with = [
        value("TARGET", InputValue::string(VariableValue::parse("shop").unwrap())),
        value("LEVEL", InputValue::number("7").unwrap()),
        value("STRICT", InputValue::boolean(true)),
    ];
    let used = Use { reference: source().reference.clone(), with: with.into_iter().collect() };
    let actions = [Action::Run(vec!["make".into(), "all".into()]), Action::Http(call), Action::Uses(Box::new(used))];
    let step = |(name, action): (&str, Action)| Step {
        name: identifier(name),
        action,
        inputs: variables(&[("TARGET", "shop")]),
        source: Some(source()),
    };
    let stage = Stage {
        name: identifier("build"),
        approval: ApprovalRule::Always,
        timeout_seconds: 60,
        idempotent: true,
        steps: ["make", "tell", "scan"].into_iter().zip(actions).map(step).collect(),
    };
    Blueprint { stages: vec![stage], variables: variables(&[("REGION", "north")]), self_approval: true }
}

#[test]
fn an_environment_that_skips_tokens_is_read_as_it_was_written_and_nothing_else_of_it_changes() {
    let keeping = Keeping { from: 2, pointers: 1, deployed: true };
    let mut sample = environment();
    for bytes in [format_4("environment"), encode_environment(&sample, keeping, RUN)] {
        let raised = skip_tokens(&skip_tokens(&bytes, 5).unwrap(), 7).unwrap();
        sample.skipped_tokens = SkippedTokens::default();
        sample.skipped_tokens.skip(12, 12);
        let read = decode_environment(&raised, RUN).unwrap();
        assert_eq!((read.environment.next_token(), &*read.environment, read.keeping), (25, &sample, keeping));
        assert!(is_of_existing(&raised).unwrap());
    }
}

#[test]
fn environments_of_format_4_are_read() {
    let keeping = Keeping { from: 2, pointers: 1, deployed: true };
    let deleted = Environment { fencing_token: 12, ..Environment::absent() };
    let mut skipping = environment();
    skipping.skipped_tokens.skip(12, 12);
    assert_written_as_format_4("environment, version 4", &encode_environment(&skipping, keeping, RUN));
    let skips = ("environment that skips tokens", skipping);
    for (name, sample) in [("environment", environment()), skips, ("environment, deleted", deleted)] {
        for bytes in [format_4(name), encode_environment(&sample, keeping, RUN)] {
            let read = decode_environment(&bytes, RUN).unwrap();
            assert_eq!((&*read.environment, read.keeping), (&sample, keeping), "{name}");
        }
    }
    assert!(is_of_existing(&format_4("environment")).unwrap());
    assert!(!is_of_existing(&format_4("environment, deleted")).unwrap());
}

#[test]
fn what_a_file_declared_of_an_environment_in_format_4_is_what_it_would_declare_now() {
    assert_written_as_format_4("environment declaration", &encode_configuration(&configuration()));
}

#[test]
fn a_page_of_the_history_of_format_4_is_read() {
    let sessions =
        [ended(8, EndedHow::Released), ended(9, EndedHow::Expired(Expiry::MaxHold)), ended(10, EndedHow::Released)];
    let mut page = Page::default();
    for (session, number) in sessions.iter().zip(8..) {
        page = page.with(number, session).unwrap();
    }
    assert_written_as_format_4("history page", page.record().unwrap());
    assert_eq!(Page::read(format_4("history page")).unwrap().sessions(0..=u64::MAX).unwrap(), sessions);
}

#[test]
fn waiters_of_format_4_are_read() {
    let by_key = KeptBy::Key(PlaceKey { record: Arc::from(*b"k/token/key"), fingerprint: [9; 16] });
    let via = Some(RequestRef { token: TokenId(seed(30)), request: "req_7".into() });
    let any = labels(&[("size", "large")]);
    let polled =
        Waiter { ticket: Ticket(34), kept_by: KeptBy::Polling, known: true, session: waiting(), via: via.clone() };
    assert_written_as_format_4("waiter, version 3", &encode_waiter(&polled, Some(&any)));
    for (name, kept_by, labels) in [
        ("waiter", by_key, None),
        ("waiter for any environment", KeptBy::Polling, Some(any)),
        ("waiter on a connection", KeptBy::Connection, None),
    ] {
        let waiter = Waiter { ticket: Ticket(34), kept_by, known: true, session: waiting(), via: via.clone() };
        assert_eq!(decode_waiter(&format_4(name)).unwrap(), (waiter.clone(), labels.clone()), "{name}");
        for known in [true, false] {
            let waiter = Waiter { known, ..waiter.clone() };
            let written = encode_waiter(&waiter, labels.as_ref());
            assert_eq!(decode_waiter(&written).unwrap(), (waiter, labels.clone()), "{name}");
        }
    }
}

#[test]
fn records_that_lead_to_sessions_of_format_4_are_read() {
    assert_written_as_format_4("pointer", &encode_pointer(&key(), 12));
    assert_eq!(decode_pointer(&format_4("pointer")).unwrap(), (key(), 12));
    let (pipeline, name) = (key().pipeline, key().name);
    let session = ended(34, EndedHow::Expired(Expiry::Vanished));
    assert_written_as_format_4("session that left a queue, version 2", &encode_left(&pipeline, Some(&name), &session));
    let left = decode_left(&format_4("session that left a queue")).unwrap();
    assert_eq!(left, (pipeline, Some(name), session));
}

#[test]
fn deadlines_of_format_4_are_read() {
    let started_at =
        |wall: Timestamp, tick, boot| Run { boot: Boot(boot), started: Now { at: wall, tick: Tick(tick) }, ..RUN };
    let until = Deadline { at: at(901), due: Tick(900_000) };
    let written = encode_wake(until, Now { at: at(1), tick: Tick(0) }, RUN);
    assert_written_as_format_4("deadline", &written);
    let left = |tick, boot| decode_wake(&written, started_at(at(5), tick, boot)).unwrap();
    assert_eq!((left(1_000, 5), left(999_000, 5), left(1_000, 6)), (899_000, 0, 900_000), "by the steady clock");
}

#[test]
fn deployments_and_approvals_of_format_4_are_read() {
    assert_written_as_format_4("deployment", &encode_deployment(&key(), &deployment_record()));
    assert_eq!(decode_deployment(&format_4("deployment")).unwrap(), (key(), deployment_record()));
    assert_eq!(decode_deployment_head(&format_4("deployment")).unwrap().id, DeploymentId(seed(3)));
    assert_written_as_format_4("blueprint", &encode_blueprint(&blueprint()));
    assert_eq!(decode_blueprint(&format_4("blueprint")).unwrap(), blueprint());
    assert_written_as_format_4("approval", &encode_approval(&key(), &approval_record()));
    assert_eq!(decode_approval(&format_4("approval")).unwrap(), (key(), approval_record()));
    let approvals = [20, 21].map(|byte| ApprovalId(seed(byte)));
    assert_written_as_format_4("approvals of a deployment", &encode_approvals(&approvals));
    assert_eq!(decode_approvals(&format_4("approvals of a deployment")).unwrap(), approvals);
}
