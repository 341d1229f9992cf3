//! Proves that the rules have no false alarms and miss nothing: they accept every history of a correct service, however
//! its answers were delayed or lost, and find every fault planted into such a history.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::planted::{self, Plant};
use crate::checks::{all, fencing, leaks, one_holder, queue_order, visibility};
use crate::history::{Answer, History, Request, SessionStatus};
use crate::simulation::observed_history;

const CASES: u32 = 400;

fn seeds() -> impl Strategy<Value = u64> {
    any::<u64>()
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: CASES,
        failure_persistence: None,
        max_global_rejects: 20 * CASES,
        ..ProptestConfig::default()
    }
}

fn is_clean(history: &History) -> Result<(), TestCaseError> {
    for check in all(history) {
        prop_assert_eq!(check.violation_count, 0, "{:#?}", check);
    }
    Ok(())
}

/// Asserts that the named rule finds the fault wherever it can be planted.
fn is_found(plant: Plant, rule: &str) {
    let found = TestRunner::new(config()).run(&(seeds(), any::<usize>()), |(seed, choice)| {
        let mut history = observed_history(seed);
        prop_assume!(plant(&mut history, choice));
        let check = all(&history).into_iter().find(|check| check.name == rule).unwrap();
        prop_assert!(check.violation_count > 0 && check.examined > 0, "{} found nothing", rule);
        prop_assert!(check.violations.iter().all(|violation| !violation.requests.is_empty()));
        Ok(())
    });
    found.unwrap();
}

#[test]
fn no_rule_finds_anything_in_what_a_correct_service_did() {
    let config = ProptestConfig { cases: 10 * CASES, ..config() };
    TestRunner::new(config).run(&seeds(), |seed| is_clean(&observed_history(seed))).unwrap();
}

/// Records may be in any order.
#[test]
fn no_rule_depends_on_the_order_of_the_records() {
    let found = TestRunner::new(config()).run(&(seeds(), any::<usize>()), |(seed, turn)| {
        let mut history = observed_history(seed);
        history.records.reverse();
        let middle = turn.checked_rem(history.records.len()).unwrap_or_default();
        history.records.rotate_left(middle);
        is_clean(&history)
    });
    found.unwrap();
}

#[test]
fn what_the_service_did_has_something_to_show_to_every_rule() {
    let mut runner = TestRunner::deterministic();
    let mut examined = [0; 5];
    let (mut unknown, mut overridden, mut forgotten, mut in_line) = (0, 0, 0, 0);
    for _ in 0..CASES {
        let history = observed_history(seeds().new_tree(&mut runner).unwrap().current());
        for (sum, check) in examined.iter_mut().zip(all(&history)) {
            *sum += check.examined;
        }
        for record in history.everything() {
            unknown += u32::from(record.answer == Answer::Unknown);
            overridden += u32::from(matches!(record.answer, Answer::Session { status: SessionStatus::Overridden, .. }));
            forgotten += u32::from(matches!(record.answer, Answer::Refused { status: 404, .. }));
            in_line += u32::from(matches!(record.request, Request::Claim { in_line_at: Some(_), .. }));
        }
    }
    assert!(examined.iter().all(|examined| *examined > u64::from(CASES)), "{examined:?}");
    assert!(
        [unknown, overridden, forgotten, in_line].iter().all(|seen| *seen > CASES / 10),
        "{unknown} {overridden} {forgotten} {in_line}"
    );
}

#[test]
fn a_second_holder_is_found() {
    is_found(planted::a_second_holder, one_holder::NAME);
}

#[test]
fn tokens_that_fall_are_found() {
    is_found(planted::tokens_that_fall, fencing::NAME);
}

#[test]
fn a_token_of_two_sessions_is_found() {
    is_found(planted::a_token_of_two_sessions, fencing::NAME);
}

#[test]
fn a_token_that_nobody_got_is_found() {
    is_found(planted::a_token_that_nobody_got, fencing::NAME);
}

#[test]
fn one_that_is_passed_is_found() {
    is_found(planted::one_that_is_passed, queue_order::NAME);
}

#[test]
fn an_old_token_that_is_shown_is_found() {
    is_found(planted::an_old_token_that_is_shown, visibility::NAME);
}

#[test]
fn a_holder_that_gave_its_lock_back_is_found() {
    is_found(planted::a_holder_that_gave_its_lock_back, visibility::NAME);
    is_found(planted::a_holder_that_gave_its_lock_back, leaks::NAME);
}

#[test]
fn a_session_that_comes_back_is_found() {
    is_found(planted::a_session_that_comes_back, visibility::NAME);
}

#[test]
fn a_deployment_that_is_missing_is_found() {
    is_found(planted::a_deployment_that_is_missing, visibility::NAME);
}

#[test]
fn a_session_that_is_forgotten_is_found() {
    is_found(planted::a_session_that_is_forgotten, visibility::NAME);
}

#[test]
fn a_lock_that_nobody_has_is_found() {
    is_found(planted::a_lock_that_nobody_has, leaks::NAME);
}

#[test]
fn one_that_still_waits_is_found() {
    is_found(planted::one_that_still_waits, leaks::NAME);
}
