//! Sizes, limits, ids, times and the details of events.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::pipeline::{ARGUMENT, BLUEPRINT_BYTES_MAX, TIMEOUT_SECONDS_DEFAULT, TIMEOUT_SECONDS_MAX, check_url};
use crate::samples::identifier;

#[test]
fn the_bounds_are_those_of_the_contract() {
    assert_eq!((CONFIGURATION_BYTES_MAX, BLUEPRINT_BYTES_MAX), (65_536, 61_440));
    assert_eq!((SECONDS_MAX, Configuration::MAX_TTL_SECONDS), (31_622_400, 86_400));
    assert_eq!((TIMEOUT_SECONDS_MAX, TIMEOUT_SECONDS_DEFAULT), (86_400, 3_600));
    assert_eq!(*ARGUMENT.length.end(), 32_768);
    let url = |length: usize| format!("http://{}", "x".repeat(length - 7));
    assert!(check_url(&url(2048)).is_ok() && check_url(&url(2049)).is_err());
}

fn variable(name: &str, value: &str) -> (VariableName, VariableValue) {
    (VariableName::parse(name).unwrap(), VariableValue::parse(value).unwrap())
}

/// Each part has a different length, so that no two can be confused.
fn used() -> Use {
    let (name, text) = variable("LONGER", "1234567");
    Use { reference: StepReference::parse("tools/build@1").unwrap(), with: [(name, InputValue::string(text))].into() }
}

fn size_of(step: Step) -> usize {
    let stage = Stage {
        name: identifier("st"),
        approval: ApprovalRule::Never,
        timeout_seconds: 1,
        idempotent: false,
        steps: vec![step],
    };
    let empty = Stage { steps: Vec::new(), ..stage.clone() };
    let size = |stage| Blueprint { stages: vec![stage], ..Blueprint::default() }.bytes();
    assert_eq!(size(empty), 2);
    size(stage) - 2
}

#[test]
fn the_size_of_a_blueprint_is_that_of_its_texts() {
    let run = Action::Run(vec!["make".into(), "everything".into()]);
    assert_eq!(size_of(Step::own(identifier("own"), run.clone())), 3 + (4 + 1) + (10 + 1));
    let call = HttpCall {
        method: "POST".into(),
        url: "http://a.b".into(),
        headers: vec![("X-A".into(), "value12".into())],
        body: Some("hello".into()),
        expect_status: vec![200],
    };
    assert_eq!(size_of(Step::own(identifier("own"), Action::Http(call))), 3 + 4 + 10 + (3 + 7) + 5);
    let reference = 5 + 5 + 1;
    assert_eq!(size_of(Step::own(identifier("own"), Action::Uses(Box::new(used())))), 3 + reference + (6 + 7));
    let source = StepSource { reference: used().reference, commit: Some("c0ffee".into()) };
    let filled = Step {
        name: identifier("own"),
        action: run,
        inputs: [variable("AB", "12345")].into(),
        source: Some(Arc::new(source)),
    };
    assert_eq!(size_of(filled), 3 + 16 + (2 + 5) + (reference + 6));
    let blueprint = Blueprint { variables: [variable("REGION", "north")].into(), ..Blueprint::default() };
    assert_eq!(blueprint.bytes(), 6 + 5);
    let both = Blueprint { stages: samples::pipeline(1).blueprint.stages.clone(), ..blueprint };
    assert_eq!(both.bytes(), 11 + samples::pipeline(1).blueprint.bytes());
}

fn registry_step() -> RegistryStep {
    let default = InputValue::string(VariableValue::parse("12345").unwrap());
    let input = Input { kind: InputKind::String, required: false, default: Some(default) };
    RegistryStep {
        name: identifier("build"),
        version: identifier("1.2"),
        description: Description::parse("Builds it all").unwrap(),
        inputs: [(VariableName::parse("LONGER").unwrap(), input)].into(),
        action: Action::Run(vec!["make".into()]),
    }
}

#[test]
fn the_size_of_a_step_of_a_registry_is_that_of_its_texts() {
    assert_eq!(registry_step().bytes(), 5 + 3 + 13 + (6 + 5) + (4 + 1));
}

#[test]
fn a_pipeline_may_be_as_large_as_its_bound_with_its_steps_filled_in_and_no_larger() {
    for (over, allowed) in [(0, true), (1, false)] {
        let step = Step::own(identifier("used"), Action::Uses(Box::new(used())));
        let blueprint = |filler: usize| {
            let mut blueprint = (*samples::pipeline(1).blueprint).clone();
            blueprint.stages[0].steps = vec![step.clone()];
            let texts = filler / 4_096;
            let text = |number, length| variable(&format!("V{number:03}"), &"x".repeat(length));
            blueprint.variables = (0..texts).map(|number| text(number, 4_092)).collect();
            blueprint.variables.extend([text(999, filler % 4_096)]);
            blueprint
        };
        let lookup = |_: &StepReference| Ok(ResolvedStep { step: Arc::new(registry_step()), commit: None });
        let size = |filler| blueprint(filler).resolved(&lookup).map(|resolved| resolved.bytes());
        let rest = size(0).unwrap();
        let filled = size(BLUEPRINT_BYTES_MAX - rest + over);
        assert_eq!(filled.as_ref().ok(), allowed.then_some(&BLUEPRINT_BYTES_MAX), "{filled:?}");
    }
}

#[test]
fn hexadecimal_digits_are_read_in_pairs() {
    let mut bytes = [0; 3];
    assert!(read_hex("a1F00b", &mut bytes));
    assert_eq!(bytes, [0xa1, 0xf0, 0x0b]);
    assert!(!read_hex("a1f0", &mut bytes) && !read_hex("a1f00g", &mut bytes));
    let pipeline = PipelineKey { organization: identifier("acme"), pipeline: identifier("web") };
    let key = EnvironmentKey { pipeline, name: identifier("review-1") };
    assert_eq!(key.to_string(), "acme/web/review-1");
}

#[test]
fn times_are_added_and_subtracted_in_milliseconds_and_never_overflow() {
    let time = Timestamp::from_millis(7_000);
    assert_eq!((time.as_millis(), time.plus(-500).as_millis()), (7_000, 6_500));
    assert_eq!(time.after(Duration::from_secs(2)), Timestamp::from_millis(9_000));
    assert_eq!(time.after(Duration::MAX), Timestamp::from_millis(i64::MAX));
    assert_eq!(time.since(Timestamp::from_millis(6_000)), Duration::from_secs(1));
    assert_eq!(time.since(Timestamp::from_millis(8_000)), Duration::ZERO);
    assert_eq!(Tick(5).plus(6), Tick(11));
    assert_eq!(Tick(i64::MAX).plus(1), Tick(i64::MAX));
    let now = Now { at: time, tick: Tick(40) };
    assert_eq!(Deadline::after(now, 3), Deadline { at: Timestamp::from_millis(7_003), due: Tick(43) });
}

#[test]
fn a_deadline_that_people_have_seen_moves_only_with_a_clock_that_was_set() {
    let started = Now { at: Timestamp::from_millis(1_000_000), tick: Tick(0) };
    for (off, same) in [(999, true), (1_000, false)] {
        let seen = Deadline { at: started.at.plus(30_000 + off), due: Tick(30_000) };
        let rearmed = seen.rearmed(started, true, 0, 60_000);
        assert_eq!(rearmed.at, if same { seen.at } else { started.at.plus(30_000) }, "{off}");
        assert_eq!(rearmed.due, seen.due);
    }
}

#[test]
fn what_the_system_does_is_told_from_what_people_do() {
    for event_type in [EventType::SessionExpired, EventType::StageFailed, EventType::WebhookDisabled] {
        assert!(event_type.is_automatic(), "{event_type}");
    }
    for event_type in [EventType::SessionClaimed, EventType::StageRetried, EventType::TokenRevoked] {
        assert!(!event_type.is_automatic(), "{event_type}");
    }
}

#[test]
fn the_details_of_an_event_are_kept_in_their_order() {
    let data = MemberUpdatedData {
        user_id: UserId(IdSeed([1; 12])),
        name: identifier("ana"),
        role: Role::Admin,
        previous_role: None,
        email_changed: Some(true),
        disabled: None,
    };
    let mut values = Vec::new();
    EventData::MemberUpdated(data).each(&mut |name, datum| match datum {
        Datum::Text(text) => values.push(format!("{name}={text}")),
        Datum::Number(number) => values.push(format!("{name}={number}")),
        Datum::Flag(flag) => values.push(format!("{name}={flag}")),
    });
    assert_eq!(values, ["userId=usr_010101010101010101010101", "name=ana", "role=admin", "emailChanged=true"]);
}
