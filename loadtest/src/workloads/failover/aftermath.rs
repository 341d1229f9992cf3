//! Checks the state after a fault: every environment, the sessions granted around it, the audit logs, and the longest
//! time without a grant.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Operation;
use crate::history::{Answer, Moment, Record, Request, SessionName};
use crate::report::{Check, Violation};
use crate::wire::SessionView;
use crate::workloads::failover::clients::{refused, shown};
use crate::workloads::failover::fault_run::{Asker, FaultRun, ORGANIZATIONS};

pub const AUDIT: &str = "the audit logs are intact";
/// The sessions nearest to the fault: changes acknowledged just before it are most at risk.
const MAX_SESSIONS: usize = 2_000;

/// Reads for the checks, once all clients have stopped.
pub async fn read_again(field: &Arc<FaultRun>, records: &[Record], began: Moment) -> Vec<Record> {
    let mut asker = Asker::new(field.clone(), 0, 0);
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

/// Granted sessions, nearest to the fault first.
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

/// False if no node answers any more, which is reported as a separate error.
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
        // The check reports the fault.
        None => refused(status, body, &["session_not_found"]),
    }
}

pub async fn audits(field: &Arc<FaultRun>) -> Check {
    let mut check = Check::new(AUDIT.to_owned());
    let mut asker = Asker::new(field.clone(), 0, 0);
    for organization in ORGANIZATIONS {
        let request = field.request("GET", &format!("/organizations/{organization}/audit"), "", "");
        let Some((status, body)) = asker.until_answered(Operation::Read, &request).await else { break };
        check.examined += 1;
        let intact =
            serde_json::from_slice::<serde_json::Value>(&body).is_ok_and(|body| body["data"]["intact"] == true);
        if status != 200 || !intact {
            check.broken(ORGANIZATIONS.len(), || {
                let body = String::from_utf8_lossy(&body);
                Violation::of(format!("the audit log of {organization} is not intact: {body}"))
            });
        }
    }
    check
}

/// For each shard, the longest time between two grants of which the second was answered after the fault began. The time
/// after the last grant does not count: a client that never gets a grant is a separate error.
pub fn longest_pauses(
    records: &[Record],
    began: Moment,
    shard_of: impl Fn(u32) -> Option<u16>,
) -> Vec<(u16, Duration)> {
    let mut told: BTreeMap<u16, Vec<Moment>> = BTreeMap::new();
    for record in records.iter().filter(|record| matches!(record.answer, Answer::Granted { .. })) {
        if let Some(shard) = record.environment.and_then(&shard_of) {
            told.entry(shard).or_default().push(record.ended);
        }
    }
    let longest = |mut grants: Vec<Moment>| {
        grants.sort_unstable();
        let pairs = grants.windows(2).filter(|pair| pair[1] >= began);
        pairs.map(|pair| Duration::from_nanos(pair[1].0 - pair[0].0)).max()
    };
    told.into_iter().filter_map(|(shard, grants)| Some((shard, longest(grants)?))).collect()
}

pub fn sentence(pauses: &[(u16, Duration)]) -> String {
    let one = |(shard, pause): &(u16, Duration)| format!("shard {shard} none for {:.2} s", pause.as_secs_f64());
    pauses.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Request, SessionName};

    fn granted(environment: u32, second: u64) -> Record {
        Record {
            client: 0,
            environment: Some(environment),
            request: Request::Claim { any: false, in_line_at: None, ttl: None },
            sent: Moment(0),
            ended: Moment(second * 1_000_000_000),
            answer: Answer::Granted { session: SessionName("a".into()), fencing: 1 },
        }
    }

    #[test]
    fn the_pause_of_each_shard_is_from_its_last_grant_before_to_the_next_after() {
        let refused = Record { answer: Answer::Unknown, ..granted(1, 14) };
        let records =
            [granted(1, 0), granted(1, 9), refused, granted(2, 18), granted(1, 10), granted(20, 12), granted(20, 13)];
        let pauses = longest_pauses(&records, Moment(11_000_000_000), |environment| Some((environment / 10) as u16));
        let seconds: Vec<_> = pauses.iter().map(|(shard, pause)| (*shard, pause.as_secs())).collect();
        assert_eq!(seconds, [(0, 8), (2, 1)], "the nine seconds at the beginning were before the fault");
        assert_eq!(sentence(&pauses), "shard 0 none for 8.00 s, shard 2 none for 1.00 s");
    }
}
