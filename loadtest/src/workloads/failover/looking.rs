//! Owns the look at what is left after a fault: every environment, the sessions that were granted around it, and the audit logs.

use std::sync::Arc;

use super::asking::Asker;
use super::clients::{refused, shown};
use super::field::{Field, ORGANIZATIONS};
use crate::engine::tally::Operation;
use crate::history::{Answer, Moment, Record, Request, SessionName};
use crate::report::model::{Check, Violation};
use crate::wire::answer::SessionView;

pub const AUDIT: &str = "the audit logs are intact";
/// Those that are nearest to the fault: what was acknowledged just before it is most in danger.
const MAX_SESSIONS: usize = 2_000;

/// Reads for the checks, when all clients have stopped.
pub async fn read_again(field: &Arc<Field>, records: &[Record], began: Moment) -> Vec<Record> {
    let mut asker = Asker::new(field.clone(), 0);
    let mut seen = Vec::new();
    for environment in 0..field.count() {
        let request = field.request("GET", &field.path(environment), "", "");
        if !read(&mut asker, (environment, Request::ReadEnvironment), &request, shown, &mut seen).await {
            return seen;
        }
    }
    for (environment, session) in nearest(records, began) {
        let request = field.request("GET", &format!("{}/sessions/{session}", field.path(environment)), "", "");
        let session = Request::ReadSession { session };
        if !read(&mut asker, (environment, session), &request, session_shown, &mut seen).await {
            break;
        }
    }
    seen
}

/// Sessions that were granted, nearest to the fault first.
fn nearest(records: &[Record], began: Moment) -> Vec<(u32, SessionName)> {
    let mut granted: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.answer {
            Answer::Granted { session, .. } => Some((record.ended.0.abs_diff(began.0), record.environment?, session)),
            _ => None,
        })
        .collect();
    granted.sort_unstable();
    granted.truncate(MAX_SESSIONS);
    granted.into_iter().map(|(_, environment, session)| (environment, session.clone())).collect()
}

/// False if nobody answers any more, which is an error of its own.
async fn read(
    asker: &mut Asker,
    (environment, request): (u32, Request),
    bytes: &[u8],
    read: fn(u16, &[u8]) -> Result<Answer, String>,
    seen: &mut Vec<Record>,
) -> bool {
    let sent = asker.field.now();
    let Some((status, body)) = asker.until_answered(Operation::Read, bytes).await else { return false };
    let answer = read(status, &body).unwrap_or_else(|unexpected| {
        asker.field.error(format!("read afterwards: {unexpected}"));
        Answer::Unknown
    });
    let (client, ended) = (u32::MAX, asker.field.now());
    seen.push(Record { client, environment: Some(environment), request, sent, ended, answer });
    true
}

fn session_shown(status: u16, body: &[u8]) -> Result<Answer, String> {
    match SessionView::parse(body).filter(|_| status == 200) {
        Some(SessionView { status, fencing_token, deployments }) => {
            Ok(Answer::Session { status, fencing: fencing_token, deployments })
        }
        // The check says what is wrong with that.
        None => refused(status, body, &["session_not_found"]),
    }
}

/// Each organization verifies its own.
pub async fn audits(field: &Arc<Field>) -> Check {
    let mut check = Check { name: AUDIT.to_owned(), examined: 0, violation_count: 0, violations: Vec::new() };
    let mut asker = Asker::new(field.clone(), 0);
    for organization in ORGANIZATIONS {
        let request = field.request("GET", &format!("/organizations/{organization}/audit"), "", "");
        let Some((status, body)) = asker.until_answered(Operation::Read, &request).await else { break };
        check.examined += 1;
        let intact =
            serde_json::from_slice::<serde_json::Value>(&body).is_ok_and(|body| body["data"]["intact"] == true);
        if status != 200 || !intact {
            check.violation_count += 1;
            let what = format!("the audit log of {organization} is not intact: {}", String::from_utf8_lossy(&body));
            check.violations.push(Violation { what, requests: Vec::new() });
        }
    }
    check
}
