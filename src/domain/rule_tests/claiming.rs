//! Claims, forced or not, and the actions that extend a session.

use std::sync::Arc;

use super::*;
use crate::samples::{by_force, by_key, commit, request};

fn waiting(number: u64, kept_by: KeptBy) -> Claim {
    let request = ClaimRequest { commit: Some(commit()), ..request(2) };
    let via = Some(RequestRef { token: TokenId(IdSeed([4; 12])), request: Arc::from("req_7") });
    Claim { request, waits: Some(kept_by), via, ..claim(number) }
}

#[test]
fn a_claim_is_answered_later_or_at_once_with_its_position_by_what_keeps_its_place() {
    let mut subject = locked();
    assert_eq!(subject.run(0, waiting(2, by_key(2))).unwrap().0, ClaimReply::Waiting);
    let (reply, outcome) = subject.run(0, waiting(3, KeptBy::Polling)).unwrap();
    assert!(
        matches!(reply, ClaimReply::Queued { session, position: 2, .. } if session.status() == SessionStatus::Queued)
    );
    assert_eq!(types(&outcome), [EventType::SessionQueued]);
    assert_eq!(outcome.events[0].data, EventData::SessionQueued(SessionQueuedData { position: 2 }));
    assert_eq!(outcome.enqueued.unwrap().ticket, Ticket(3));
}

#[test]
fn a_ttl_may_be_as_long_as_the_environment_allows_and_no_longer() {
    for (ttl, allowed) in [(59, true), (60, true), (61, false)] {
        let mut subject = Subject::with(Configuration { max_ttl_seconds: 60, ..Configuration::default() });
        let request = ClaimRequest { ttl_seconds: Some(ttl), ..request(1) };
        let claimed = subject.run(0, Claim { request, ..claim(1) }).map(|_| ());
        assert_eq!(claimed, if allowed { Ok(()) } else { Err(Rejection::TtlTooLong { max_seconds: 60 }) }, "{ttl}");
    }
}

#[test]
fn a_holder_with_neither_a_ttl_nor_a_longest_hold_never_expires() {
    for (ttl_seconds, max_hold_seconds) in [(None, None), (Some(60), None), (None, Some(60)), (Some(60), Some(60))] {
        let mut subject = Subject::with(Configuration { max_hold_seconds, ..Configuration::default() });
        assert!(!subject.environment.holder_never_expires(), "there is none");
        let request = ClaimRequest { ttl_seconds, ..request(1) };
        subject.run(0, Claim { request, ..claim(1) }).unwrap();
        let endless = (ttl_seconds, max_hold_seconds) == (None, None);
        assert_eq!(subject.environment.holder_never_expires(), endless, "{ttl_seconds:?} {max_hold_seconds:?}");
        subject.run(1, waiting(2, KeptBy::Polling)).unwrap();
        assert!(!subject.environment.queue.get(Ticket(2)).unwrap().session.never_expires(), "it only waits");
        let (released, _) = subject.run(2, ReleaseLock { by: person(1), any: false }).unwrap();
        assert!(!released.never_expires(), "it has ended");
    }
}

#[test]
fn who_polls_keeps_the_id_that_it_knows_and_others_get_one_with_their_fencing_token() {
    for (kept_by, origin) in [(KeptBy::Polling, Origin::Queued(Ticket(2))), (by_key(2), Origin::Granted(2))] {
        let mut subject = locked();
        subject.run(0, waiting(2, kept_by)).unwrap();
        let queued = subject.environment.queue.get(Ticket(2)).unwrap().session.clone();
        let outcome = release(&mut subject);
        let granted = holder(&subject);
        assert_eq!((granted.id.seed, granted.id.origin), (queued.id.seed, origin));
        assert_eq!(granted.fencing_token(), Some(2));
        assert!(granted.revision > queued.revision, "its ETag changes with the lock");
        assert!(!granted.is_unseen(), "its client is there");
        assert_eq!(outcome.granted.map(|granted| granted.session.id), Some(granted.id));
    }
}

#[test]
fn a_grant_is_an_event_of_the_one_who_waited_and_what_follows_is_one_of_nobody() {
    let mut subject = locked();
    let claim = waiting(2, KeptBy::Polling);
    let initiator = Initiator { person: person(2), via: claim.via.clone() };
    subject.run(0, claim).unwrap();
    let outcome = release(&mut subject);
    let by: Vec<_> = outcome.events.iter().map(|event| (event.event_type(), event.by.clone())).collect();
    let expected = [
        (EventType::SessionReleased, None),
        (EventType::SessionClaimed, Some(initiator.clone())),
        (EventType::DeploymentQueued, Some(initiator)),
        (EventType::DeploymentStarted, None),
        (EventType::DeploymentSucceeded, None),
    ];
    assert_eq!(by, expected);
    let claimed = SessionClaimedData { fencing_token: 2, commit_id: Some(commit()) };
    assert_eq!(outcome.events[1].data, EventData::SessionClaimed(claimed));
}

#[test]
fn only_the_required_role_or_a_higher_one_takes_a_lock_by_force() {
    for (role, allowed) in [(Role::Developer, false), (Role::Maintainer, true), (Role::Admin, true)] {
        let required = Role::Maintainer;
        let mut subject = Subject::with(Configuration { force_claim_role: required, ..Configuration::default() });
        subject.run(0, claim(1)).unwrap();
        let forced = subject.run(1, by_force(claim(2), role)).map(|_| ());
        assert_eq!(forced, if allowed { Ok(()) } else { Err(Rejection::RoleTooLow { required }) }, "{role}");
        assert_eq!(subject.holder(), Some(if allowed { 2 } else { 1 }));
    }
}

#[test]
fn an_overridden_session_names_the_one_that_took_its_lock() {
    let mut subject = locked();
    let (reply, outcome) = subject.run(1, by_force(claim(2), Role::Developer)).unwrap();
    assert_eq!(reply.session.id.origin, Origin::Granted(2));
    assert_eq!(ForceClaim::grants(&reply), Some(reply.session.id));
    let overrode = reply.overrode.unwrap();
    assert_eq!(overrode.ended.as_ref().unwrap().how, EndedHow::Overridden(reply.session.id));
    assert!(overrode.revision > 1, "its ETag changes with its end");
    assert_eq!(types(&outcome), [EventType::SessionOverridden, EventType::SessionClaimed]);
    let named = SessionOverriddenData { fencing_token: Some(1), overridden_by: reply.session.id };
    assert_eq!(outcome.events[0].data, EventData::SessionOverridden(named));
}

#[test]
fn a_sign_of_life_changes_a_session() {
    let mut subject = locked();
    for by_deploying in [false, true] {
        let before = holder(&subject).revision;
        let session = holder(&subject).id.into();
        if by_deploying {
            let (seed, commit) = (samples::seed(50), commit());
            subject.run(1, Deploy { session, by: person(1), seed, commit, fencing_token: Some(1) }).unwrap();
        } else {
            subject.run(1, Heartbeat { session, by: person(1), fencing_token: Some(1) }).unwrap();
        }
        assert!(holder(&subject).revision > before, "{by_deploying}");
    }
}

#[test]
fn a_command_names_the_session_and_the_deployment_that_the_actor_looks_up() {
    let id = SessionId { seed: samples::seed(1), origin: Origin::Granted(1) };
    let mut session = SessionRef::from(id);
    let (by, seed, stage) = (person(1), samples::seed(1), samples::identifier("stage-1"));
    let mut heartbeat = Heartbeat { session: session.clone(), by: by.clone(), fencing_token: None };
    let mut release = Release { session: session.clone(), by: by.clone(), any: false };
    let mut deploy = Deploy { session: session.clone(), by: by.clone(), seed, commit: commit(), fencing_token: None };
    let mut target = DeploymentRef::from(DeploymentId(seed));
    let mut cancel = CancelStage { target: target.clone(), stage: stage.clone(), by: by.clone(), any: false };
    let mut retry = RetryStage { target: target.clone(), session: session.clone(), stage, by, any: false };
    for named in [heartbeat.subject(), release.subject(), deploy.subject(), retry.subject()] {
        assert_eq!(named, Some(&mut session));
    }
    assert_eq!(cancel.deployment(), Some(&mut target));
    assert_eq!(retry.deployment(), Some(&mut target));
}

#[test]
fn only_what_a_lock_can_end_means_locked() {
    let (holder, queue_length) = (holder(&locked()).clone(), 0);
    for locked in [
        Rejection::EnvironmentLocked { holder, queue_length },
        Rejection::EnvironmentResetting { queue_length },
        Rejection::AllLocked { queue_length },
    ] {
        assert!(locked.means_locked(), "{locked}");
    }
    for other in [Rejection::EnvironmentNotFound, Rejection::NoneMatches, Rejection::QueueFull { limit: 1 }] {
        assert!(!other.means_locked(), "{other}");
    }
}

#[test]
fn the_lock_is_given_back_by_its_holder_or_one_who_may_release_any_without_naming_the_session() {
    let mut subject = locked();
    subject.run(1, waiting(2, KeptBy::Polling)).unwrap();
    let first = holder(&subject).id;
    let not_holder = Rejection::NotSessionHolder { holder: person(1) };
    assert_eq!(subject.run(2, ReleaseLock { by: person(2), any: false }).map(|_| ()), Err(not_holder), "it only waits");
    let (released, outcome) = subject.run(3, ReleaseLock { by: person(1), any: false }).unwrap();
    assert_eq!((released.id, released.status()), (first, SessionStatus::Released));
    assert_eq!(types(&outcome)[..2], [EventType::SessionReleased, EventType::SessionClaimed], "one transition");
    assert_eq!(holder(&subject).user, person(2), "the next in the queue has it");
    subject.run(4, ReleaseLock { by: person(3), any: true }).unwrap();
    for by in [2, 3] {
        let again = subject.run(5, ReleaseLock { by: person(by), any: true }).map(|_| ());
        assert_eq!(again, Err(Rejection::LockNotFound), "a repeated release finds no lock");
    }
}

#[test]
fn a_release_of_the_lock_ends_what_its_session_runs_and_begins_the_reset() {
    let mut subject = Subject::with(Configuration { on_release: Some(commit()), ..Configuration::default() });
    subject.ports.pipeline = samples::pipeline(1);
    subject.run(0, Claim { request: ClaimRequest { commit: Some(commit()), ..request(1) }, ..claim(1) }).unwrap();
    let (released, _) = subject.run(1, ReleaseLock { by: person(1), any: false }).unwrap();
    assert_eq!(released.deployments[0].status, DeploymentStatus::Cancelling);
    assert_eq!(subject.environment.lock_status(), LockStatus::Resetting);
    let refused = subject.run(2, ReleaseLock { by: person(1), any: true }).map(|_| ());
    assert_eq!(refused, Err(Rejection::LockNotFound), "a reset is nobody's lock");
}
