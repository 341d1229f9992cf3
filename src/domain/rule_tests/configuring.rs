//! Creating, changing and deleting an environment, and its reported state.

use super::*;
use crate::samples::{commit, end_stage, pipeline};

fn configure(subject: &mut Subject, configuration: Configuration) -> (Configured, Outcome) {
    subject.run(1, Configure { configuration, expected: None }).unwrap()
}

fn delete(subject: &mut Subject) -> Result<((), Outcome), Rejection> {
    subject.run(2, Delete { expected: None })
}

#[test]
fn a_condition_holds_for_the_revisions_that_it_names() {
    let conditions = [Expected::Existing, Expected::Absent, Expected::Revisions(vec![3, 5])];
    let holds = |revision| conditions.clone().map(|expected| expected.holds(revision));
    assert_eq!(holds(None), [false, true, false]);
    assert_eq!(holds(Some(3)), [true, false, true]);
    assert_eq!(holds(Some(4)), [true, false, false]);
}

#[test]
fn a_change_under_a_condition_that_does_not_hold_changes_nothing() {
    let mut subject = Subject::with(Configuration::default());
    let before = subject.environment.clone();
    let changed = Err(Rejection::ConfigurationChanged { revision: 1 });
    for expected in [Expected::Absent, Expected::Revisions(vec![0, 2])] {
        let configuration = Configuration { disabled: true, ..Configuration::default() };
        let refused = subject.run(1, Configure { configuration, expected: Some(expected.clone()) }).map(|_| ());
        assert_eq!(refused, changed);
        assert_eq!(subject.run(1, Delete { expected: Some(expected) }).map(|_| ()), changed);
    }
    assert_eq!(subject.environment, before);
}

#[test]
fn each_new_configuration_is_a_revision_and_the_same_one_is_none() {
    let mut subject = Subject::with(Configuration::default());
    assert_eq!(subject.environment.configuration_revision, 1);
    let (reply, outcome) = configure(&mut subject, Configuration::default());
    assert!(!reply.created && outcome.events.is_empty());
    assert_eq!(subject.environment.configuration_revision, 1);
    let changed = Configuration { max_queue_length: 7, ..Configuration::default() };
    let (reply, outcome) = configure(&mut subject, changed);
    assert_eq!((reply.created, types(&outcome)), (false, vec![EventType::EnvironmentUpdated]));
    assert_eq!((reply.environment.configuration_revision, subject.environment.configuration_revision), (2, 2));

    let mut absent = Subject { environment: Environment::absent(), ports: subject.ports };
    let (reply, outcome) = configure(&mut absent, Configuration::default());
    assert_eq!((reply.created, types(&outcome)), (true, vec![EventType::EnvironmentCreated]));
}

#[test]
fn the_answer_to_a_change_shows_who_got_the_lock_by_it() {
    let mut subject = locked();
    subject.run(0, Claim { waits: Some(KeptBy::Polling), ..claim(2) }).unwrap();
    configure(&mut subject, Configuration { disabled: true, ..Configuration::default() });
    release(&mut subject);
    assert_eq!(subject.holder(), None, "it is disabled");
    let (reply, _) = configure(&mut subject, Configuration::default());
    assert_eq!(reply.environment.lock.map(|lock| lock.id), Some(holder(&subject).id));
}

#[test]
fn why_an_environment_is_disabled_is_forgotten_when_it_is_enabled() {
    let mut subject = Subject::with(Configuration { on_release: Some(commit()), ..Configuration::default() });
    subject.ports.pipeline = pipeline(1);
    subject.run(0, claim(1)).unwrap();
    release(&mut subject);
    let end = end_stage(&subject.environment, StageEnd::Failed("no".into()));
    subject.run(11, end).unwrap();
    assert_eq!(subject.environment.lock_status(), LockStatus::Disabled);
    assert_eq!(subject.environment.configuration_revision, 2, "the reset has changed the configuration");
    let reason = subject.environment.disabled_reason.clone();
    assert!(reason.is_some());
    let refused = subject.run(12, claim(2)).map(|_| ());
    assert_eq!(refused, Err(Rejection::EnvironmentDisabled { reason: reason.clone() }));
    let present = (**subject.environment.configuration.as_ref().unwrap()).clone();
    configure(&mut subject, Configuration { max_queue_length: 3, ..present.clone() });
    assert_eq!(subject.environment.disabled_reason, reason, "it is still disabled");
    configure(&mut subject, Configuration { disabled: false, ..present });
    assert_eq!(subject.environment.disabled_reason, None);
}

#[test]
fn an_environment_is_deleted_only_if_nobody_needs_it_and_keeps_its_counters() {
    let mut subject = locked();
    assert!(matches!(delete(&mut subject), Err(Rejection::EnvironmentLocked { .. })));
    subject.run(0, Claim { waits: Some(KeptBy::Polling), ..claim(2) }).unwrap();
    configure(&mut subject, Configuration { disabled: true, ..Configuration::default() });
    release(&mut subject);
    assert_eq!(delete(&mut subject).map(|_| ()), Err(Rejection::QueueNotEmpty { length: 1 }));
    subject.run(3, HangUp { tickets: vec![Ticket(2)] }).unwrap();
    let before = subject.environment.clone();
    let ((), outcome) = delete(&mut subject).unwrap();
    assert_eq!(types(&outcome), [EventType::EnvironmentDeleted]);
    let after = &subject.environment;
    assert!(!after.exists() && after.revision > before.revision);
    assert_eq!((after.configuration_revision, after.fencing_token), (3, 1));
    assert_eq!(after.first_session, 2, "a new one of this name has no session of this one in its history");
    assert_eq!(delete(&mut subject).map(|_| ()), Err(Rejection::EnvironmentNotFound));
    assert_eq!(subject.run(4, claim(3)).map(|_| ()), Err(Rejection::EnvironmentNotFound));
}

#[test]
fn an_environment_that_is_being_reset_is_not_deleted() {
    let mut subject = Subject::with(Configuration { on_release: Some(commit()), ..Configuration::default() });
    subject.ports.pipeline = pipeline(1);
    subject.run(0, claim(1)).unwrap();
    release(&mut subject);
    assert_eq!(delete(&mut subject).map(|_| ()), Err(Rejection::EnvironmentResetting { queue_length: 0 }));
}

#[test]
fn the_pool_is_told_whether_an_environment_is_free() {
    assert!(matches!(Environment::absent().availability(), Availability::Gone));
    let mut subject = locked();
    assert!(matches!(subject.environment.availability(), Availability::Taken { .. }));
    release(&mut subject);
    let last_used = subject.environment.last_used;
    assert!(last_used.is_some());
    assert!(
        matches!(subject.environment.availability(), Availability::Free { last_used: when, .. } if when == last_used)
    );
    configure(&mut subject, Configuration { disabled: true, ..Configuration::default() });
    assert!(matches!(subject.environment.availability(), Availability::Taken { .. }));
}

#[test]
fn a_history_has_the_last_sessions_that_ended_and_the_holder() {
    let environment = |fencing_token, held: bool| {
        let lock = held.then(|| holder(&locked()).clone());
        Environment { fencing_token, lock, first_session: 3, ..Environment::absent() }
    };
    assert_eq!((environment(9, false).newest_ended(), environment(9, true).newest_ended()), (9, 8));
    assert_eq!(environment(9, false).remembered_sessions(4), 6..=9);
    assert_eq!(environment(9, true).remembered_sessions(4), 5..=9, "four that ended, and the holder");
    assert_eq!(environment(9, false).remembered_sessions(100), 3..=9, "none of before it was created");
}

#[test]
fn a_restored_environment_gives_no_token_that_it_skips_and_counts_its_sessions_around_them() {
    let mut subject = locked();
    subject.environment.skipped_tokens.skip(1, 100);
    release(&mut subject);
    for (number, token) in [(2, 102), (3, 103)] {
        subject.run(0, claim(number)).unwrap();
        let environment = &subject.environment;
        assert_eq!(
            (environment.fencing_token, environment.lock.as_ref().unwrap().fencing_token()),
            (token, Some(token))
        );
        release(&mut subject);
    }
    let environment = &subject.environment;
    assert_eq!(environment.remembered_sessions(100), 1..=103);
    assert_eq!(environment.remembered_sessions(2), 102..=103);
    assert_eq!(environment.count_sessions(1..=103), 3);
    assert_eq!([0, 1, 2, 3].map(|count| environment.sessions_before(103, count)), [103, 102, 1, 0]);
    let next = environment.next_token();
    delete(&mut subject).unwrap();
    assert!(subject.environment.skipped_tokens.is_empty() && subject.environment.next_token() == next);
    subject.environment.skipped_tokens.skip(103, 5);
    assert_eq!(subject.environment.next_token(), 109);
}

#[test]
fn a_deletion_keeps_the_tokens_that_are_to_be_skipped_next() {
    let mut subject = locked();
    release(&mut subject);
    subject.environment.skipped_tokens.skip(1, 100);
    delete(&mut subject).unwrap();
    assert!(!subject.environment.skipped_tokens.is_empty());
    assert_eq!(subject.environment.next_token(), 102);
}

#[test]
fn the_size_of_a_configuration_is_that_of_its_texts() {
    let configuration = Configuration {
        description: Description::parse("abc").unwrap(),
        labels: samples::labels(&[("k1", "val")]),
        variables: [(VariableName::parse("NAME").unwrap(), VariableValue::parse("value12").unwrap())].into(),
        ..Configuration::default()
    };
    assert_eq!(configuration.bytes(), 3 + (2 + 3) + (4 + 7));
}

#[test]
fn a_retired_environment_refuses_its_waiters_and_is_gone_when_its_holder_is_done() {
    let mut subject = locked();
    for ticket in 2..4 {
        subject.run(0, Claim { waits: Some(KeptBy::Polling), ..claim(ticket) }).unwrap();
    }
    let reason: Arc<str> = "no longer declared".into();
    let retire = || Retire { reason: reason.clone() };
    let (retired, outcome) = subject.run(1, retire()).unwrap();
    assert_eq!((retired, outcome.left.len(), outcome.retired), (Retired::Refusing, 2, true));
    assert_eq!(types(&outcome)[0], EventType::EnvironmentUpdated);
    assert_eq!(subject.holder(), Some(1), "the holder may finish");
    let refused = subject.run(2, Claim { waits: Some(KeptBy::Polling), ..claim(4) }).map(|_| ());
    assert!(
        matches!(refused, Err(Rejection::EnvironmentLocked { .. } | Rejection::EnvironmentDisabled { .. })),
        "{refused:?}"
    );
    let (retired, outcome) = subject.run(3, retire()).unwrap();
    assert_eq!((retired, outcome.events.len(), outcome.retired), (Retired::Held, 0, false), "again changes nothing");
    // The environment is put back into service through the API.
    configure(&mut subject, Configuration::default());
    assert_eq!(subject.run(4, retire()).unwrap().0, Retired::Held);
    release(&mut subject);
    assert_eq!(
        subject.run(12, claim(5)).map(|_| ()),
        Err(Rejection::EnvironmentDisabled { reason: Some(reason.clone()) })
    );
    let (retired, outcome) = subject.run(13, retire()).unwrap();
    assert_eq!((retired, types(&outcome)), (Retired::Gone, vec![EventType::EnvironmentDeleted]));
    assert_eq!(subject.run(14, retire()).map(|_| ()), Err(Rejection::EnvironmentNotFound));
}
