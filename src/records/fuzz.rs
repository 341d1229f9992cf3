//! Decoding environments, queues and deployments from arbitrary bytes succeeds or returns an error.

use super::*;
use domain::{LogPart, Tick, Timestamp};
use testkit::format_4::format_4;
use testkit::fuzz::{fuzz, fuzz_record};

const RUN: Run =
    Run { id: 78, boot: Boot(5), started: Now { at: Timestamp::from_millis(1 << 40), tick: Tick(1 << 20) } };

#[test]
fn fuzzed_environments_are_read_or_refused() {
    let samples = ["environment", "environment that skips tokens", "environment, deleted"].map(format_4);
    let newest = samples.clone().map(|bytes| rewritten(&bytes));
    fuzz_record(
        samples.into_iter().chain(newest),
        |bytes| {
            let exists = is_of_existing(bytes);
            let read = decode_environment(bytes, RUN);
            if let Ok(stored) = &read {
                assert_eq!(exists, Ok(stored.environment.configuration.is_some()));
            }
            read
        },
        |stored| encode_environment(&stored.environment, stored.keeping, RUN),
    );
}

fn rewritten(bytes: &[u8]) -> Vec<u8> {
    decode_environment(bytes, RUN)
        .map(|stored| encode_environment(&stored.environment, stored.keeping, RUN))
        .unwrap_or_default()
}

#[test]
fn fuzzed_waiters_are_read_or_refused() {
    let samples = ["waiter", "waiter for any environment", "waiter on a connection", "waiter, version 3"].map(format_4);
    fuzz_record(samples, decode_waiter, |(waiter, labels)| encode_waiter(waiter, labels.as_ref()));
}

#[test]
fn fuzzed_sessions_that_left_a_queue_are_read_or_refused() {
    let samples = ["session that left a queue", "session that left a queue, version 2"].map(format_4);
    fuzz_record(samples, decode_left, |(pipeline, name, session)| encode_left(pipeline, name.as_ref(), session));
}

#[test]
fn fuzzed_pointers_are_read_or_refused() {
    fuzz_record([format_4("pointer")], decode_pointer, |(key, token)| encode_pointer(key, *token));
}

#[test]
fn fuzzed_deployments_are_read_or_refused() {
    fuzz_record(
        [format_4("deployment")],
        |bytes| {
            let (head, read) = (decode_deployment_head(bytes), decode_deployment(bytes));
            if let Ok((environment, record)) = &read {
                let head = head.as_ref().map(|head| (&head.environment, head.id, head.status));
                assert_eq!(head, Ok((environment, record.deployment.id, record.deployment.status)));
            }
            read
        },
        |(environment, record)| encode_deployment(environment, record),
    );
}

#[test]
fn fuzzed_approvals_are_read_or_refused() {
    fuzz_record([format_4("approval")], decode_approval, |(environment, record)| encode_approval(environment, record));
    let parts = [LogPart { number: 3, node: "n1".into(), in_store: true }];
    fuzz_record([encode_log_parts(&parts)], decode_log_parts, |parts| encode_log_parts(parts));
    fuzz_record([format_4("approvals of a deployment")], decode_approvals, |approvals| encode_approvals(approvals));
}

#[test]
fn fuzzed_blueprints_are_read_or_refused() {
    fuzz_record([format_4("blueprint")], decode_blueprint, encode_blueprint);
}

#[test]
fn fuzzed_history_pages_are_read_or_refused() {
    fuzz([format_4("history page")], &[], |bytes| {
        let page = match Page::read(bytes.to_vec()) {
            Ok(page) => page,
            Err(error) => return (0, error.to_string()),
        };
        match page.sessions(0..=u64::MAX) {
            Ok(sessions) => (sessions.len(), String::new()),
            Err(error) => (0, error.to_string()),
        }
    });
}

#[test]
fn fuzzed_deadlines_are_never_before_the_start() {
    fuzz([format_4("deadline")], &[], |bytes| match decode_wake(bytes, RUN) {
        Ok(millis) => {
            assert!(millis >= 0);
            (millis.checked_ilog2().unwrap_or(0), String::new())
        }
        Err(error) => (0, error.to_string()),
    });
}
