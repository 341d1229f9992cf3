//! Owns a request that is sent again, to one node after the other, until one of them says what came of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::field::Field;
use crate::engine::tally::Operation;
use crate::history::Moment;
use crate::wire::answer::problem_code;
use crate::wire::connection::Connection;

/// A node that says nothing for so long may stand still; the next one is asked.
const ATTEMPT: Duration = Duration::from_secs(5);
/// A client that was told nothing for so long gives up. No fault here lasts as long.
const GIVES_UP_AFTER: Duration = Duration::from_secs(60);
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);
/// After this time, a client that switched to another node returns to its own.
const COMES_BACK_AFTER: Duration = Duration::from_secs(5);
/// Refusals that say that the same request may be sent again.
const AGAIN: [&str; 6] = [
    "engine_unavailable",
    "outcome_unknown",
    "shutting_down",
    "storage_full",
    "idempotency_key_in_flight",
    "overloaded",
];

/// One client with one connection.
pub struct Asker {
    pub field: Arc<Field>,
    /// Its own node.
    home: usize,
    node: usize,
    left_home: Instant,
    connection: Option<Connection>,
}

/// The answer to one attempt.
pub enum Attempt<'a> {
    /// Nothing, or that it may be sent again.
    Again,
    Answered(u16, &'a [u8]),
}

impl Asker {
    pub fn new(field: Arc<Field>, home: usize) -> Self {
        Self { field, home, node: home, left_home: Instant::now(), connection: None }
    }

    /// Status and body; none, and an error, if it gave up.
    pub async fn until_answered(&mut self, operation: Operation, request: &[u8]) -> Option<(u16, Vec<u8>)> {
        self.ask(operation, request, |_, _| {}).await
    }

    /// The same; each attempt is told with the moment at which it was sent.
    pub async fn ask(
        &mut self,
        operation: Operation,
        request: &[u8],
        mut attempted: impl FnMut(Moment, &Attempt<'_>),
    ) -> Option<(u16, Vec<u8>)> {
        let field = self.field.clone();
        let began = Instant::now();
        let mut last = String::new();
        while began.elapsed() < GIVES_UP_AFTER {
            let sent = field.now();
            let answered = tokio::time::timeout(ATTEMPT, self.exchange(request)).await;
            match answered {
                Ok(Ok((status, connection))) => {
                    field.count_status(operation, status);
                    match why_again(status, connection.body()) {
                        Some(why) => last = why,
                        None => {
                            attempted(sent, &Attempt::Answered(status, connection.body()));
                            let body = connection.body().to_vec();
                            self.connection = Some(connection).filter(|connection| !connection.closes());
                            return Some((status, body));
                        }
                    }
                }
                Ok(Err(error)) => last = error,
                Err(_) => "no answer".clone_into(&mut last),
            }
            attempted(sent, &Attempt::Again);
            field.count_again();
            self.go_on();
            tokio::time::sleep(BETWEEN_ATTEMPTS).await;
        }
        field.error(format!("{}: gave up after {} s: {last}", operation.name(), GIVES_UP_AFTER.as_secs()));
        None
    }

    async fn exchange(&mut self, request: &[u8]) -> Result<(u16, Connection), String> {
        if self.node != self.home && self.left_home.elapsed() >= COMES_BACK_AFTER {
            self.node = self.home;
            self.connection = None;
        }
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(self.field.nodes[self.node]).await.map_err(|error| error.to_string())?,
        };
        let status = connection.exchange(request).await.map_err(|error| error.to_string())?;
        Ok((status, connection))
    }

    fn go_on(&mut self) {
        if self.node == self.home {
            self.left_home = Instant::now();
        }
        self.node = (self.node + 1) % self.field.nodes.len();
        self.connection = None;
    }
}

/// Whether an answer says that the same request may be sent again, and which one.
fn why_again(status: u16, body: &[u8]) -> Option<String> {
    // A node that stood still may take a request for too slow.
    if status == 408 {
        return Some("too slow".to_owned());
    }
    problem_code(body).filter(|code| status >= 400 && AGAIN.contains(code)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_sent_again_is() {
        let body = |code: &str| format!(r#"{{"code": "{code}"}}"#).into_bytes();
        assert_eq!(why_again(503, &body("engine_unavailable")), Some("engine_unavailable".to_owned()));
        assert_eq!(why_again(409, &body("idempotency_key_in_flight")), Some("idempotency_key_in_flight".to_owned()));
        assert_eq!(why_again(408, b""), Some("too slow".to_owned()));
        assert_eq!(why_again(409, &body("environment_locked")), None);
        assert_eq!(why_again(503, &body("rate_limited")), None);
        assert_eq!(why_again(201, b"{}"), None);
    }
}
