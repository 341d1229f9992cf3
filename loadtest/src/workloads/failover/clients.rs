//! Owns the load: each client claims an environment of its organization under a key, releases it, and reads it.

use std::sync::Arc;
use std::time::Duration;

use super::asking::{Asker, Attempt};
use super::field::{Field, ORGANIZATIONS};
use crate::engine::tally::Operation;
use crate::history::{Answer, Record, Request, SessionName};
use crate::wire::answer::{EnvironmentView, Grant, problem_code};

/// Longer than any fault, so that no lock ends by itself.
const TTL_SECONDS: u32 = 300;
const WAIT_SECONDS: u32 = 1;
/// Steady, and not all that the machine can do: what a fault costs is measured, not the machine.
const PAUSE: Duration = Duration::from_millis(40);

/// Until the field is closed; then what was begun is finished.
pub async fn cycle(field: Arc<Field>, number: u32) {
    let (organizations, nodes) = (ORGANIZATIONS.len() as u32, field.nodes.len());
    let organization = number % organizations;
    let mut client = Client { number, asker: Asker::new(field.clone(), (number / organizations) as usize % nodes) };
    for turn in 0_u32.. {
        if field.is_closing() {
            return;
        }
        // Several clients want the same one, and all get round to all.
        let place = (number / organizations + turn) % field.environments;
        let environment = organization * field.environments + place;
        if let Some(session) = client.claim(environment, turn).await {
            client.release(environment, session).await;
            client.read(environment).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

struct Client {
    number: u32,
    asker: Asker,
}

impl Client {
    async fn claim(&mut self, environment: u32, turn: u32) -> Option<SessionName> {
        let field = self.asker.field.clone();
        let key = format!("{}-{turn}", self.number);
        let body = format!(r#"{{"ttlSeconds":{TTL_SECONDS},"waitSeconds":{WAIT_SECONDS}}}"#);
        let request = field.request("POST", &format!("{}/sessions", field.path(environment)), &key, &body);
        let ttl = Some(Duration::from_secs(TTL_SECONDS.into()));
        let claim = Request::Claim { any: false, in_line_at: None, ttl };
        let mut granted = None;
        self.ask((Operation::Claim, environment, claim), &request, |status, body| {
            let grant = Grant::parse(body).filter(|_| status == 201);
            let Some(grant) = grant else { return refused(status, body, &["environment_locked"]) };
            let session = SessionName(grant.session_id.into());
            granted = Some(session.clone());
            Ok(Answer::Granted { session, fencing: grant.fencing_token })
        })
        .await;
        granted
    }

    async fn release(&mut self, environment: u32, session: SessionName) {
        let field = self.asker.field.clone();
        let path = format!("{}/sessions/{session}", field.path(environment));
        let request = field.request("DELETE", &path, "", "");
        let mut attempts = 0;
        let release = Request::Release { session };
        self.ask((Operation::Release, environment, release), &request, |status, body| {
            attempts += 1;
            match status {
                200 => Ok(Answer::Done),
                // An attempt before may have released it; otherwise the lock was lost.
                status => refused(status, body, if attempts > 1 { &["session_released"] } else { &[] }),
            }
        })
        .await;
    }

    async fn read(&mut self, environment: u32) {
        let field = self.asker.field.clone();
        let request = field.request("GET", &field.path(environment), "", "");
        self.ask((Operation::Read, environment, Request::ReadEnvironment), &request, shown).await;
    }

    /// Records every attempt. `read` is asked once for each of them, with status 0 for those without an answer.
    async fn ask(
        &mut self,
        (operation, environment, request): (Operation, u32, Request),
        bytes: &[u8],
        mut read: impl FnMut(u16, &[u8]) -> Result<Answer, String>,
    ) {
        let (field, client) = (self.asker.field.clone(), self.number);
        let record = |sent, answer| {
            let (environment, request) = (Some(environment), request.clone());
            field.record(Record { client, environment, request, sent, ended: field.now(), answer });
        };
        self.asker
            .ask(operation, bytes, |sent, attempt| {
                let answer = match attempt {
                    Attempt::Again => {
                        // Only counts the attempt.
                        _ = read(0, b"");
                        Answer::Unknown
                    }
                    Attempt::Answered(status, body) => read(*status, body).unwrap_or_else(|unexpected| {
                        field.error(format!("{}: {unexpected}", operation.name()));
                        Answer::Unknown
                    }),
                };
                record(sent, answer);
            })
            .await;
    }
}

/// An environment as it was read.
pub fn shown(status: u16, body: &[u8]) -> Result<Answer, String> {
    let view = EnvironmentView::parse(body).filter(|_| status == 200);
    let Some(view) = view else { return refused(status, body, &[]) };
    let fencing = view.lock.as_ref().map_or(0, |lock| lock.fencing_token);
    let holder = view.lock.map(|lock| SessionName(lock.session_id.into()));
    Ok(Answer::Environment { holder, fencing, queue_length: view.queue_length })
}

/// An error unless its code is one of those that are expected.
pub fn refused(status: u16, body: &[u8], expected: &[&str]) -> Result<Answer, String> {
    let code = problem_code(body).unwrap_or("without a problem code");
    if expected.contains(&code) {
        Ok(Answer::Refused { status, code: code.into() })
    } else {
        Err(format!("answered {status} {code}"))
    }
}
