//! Owns one client: a connection with one request at a time, and the record of each request: when it was sent and what
//! came back, or that its outcome is unknown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::engine::schedule::{Arrivals, Share};
use crate::engine::tally::Operation;
use crate::engine::threads::{ClientThread, Work, work};
use crate::history::{Answer, Moment, Record, Request, SessionName};
use crate::wire::{
    ClaimTemplate, Connection, EnvironmentView, Grant, SessionView, Template, made_id, problem_code, total_pages,
};

/// A client gives up after this many failed connections in a row, instead of hammering a dead server.
const MAX_FAILURES_IN_A_ROW: u32 = 20;
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(50);
/// The server's error code when it cannot say whether the request took effect.
const OUTCOME_UNKNOWN: &str = "outcome_unknown";

pub struct Client {
    pub thread: Arc<ClientThread>,
    pub number: u32,
    /// Codes of refusals that belong to the workload, such as `environment_locked` in a stampede.
    pub tolerates: &'static [&'static str],
    /// Whether the server is killed on purpose, so that broken connections are expected.
    pub expects_breaks: bool,
    /// The moment, in nanoseconds, at which another client saw this one in the queue; 0 until then.
    pub seen_in_line: Arc<AtomicU64>,
    request: Vec<u8>,
    arrivals: Option<Arc<Arrivals>>,
    due: Option<Instant>,
    connection: Option<Connection>,
    pending: Option<Pending>,
    failures_in_a_row: u32,
}

struct Pending {
    environment: Option<u32>,
    request: Option<Request>,
    sent: Instant,
    waits: bool,
}

/// A failed request, already counted and recorded; tells the caller what it may do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The request was never sent, so the server's state is known.
    NotSent,
    /// The server answered that nothing was done.
    Refused { status: u16, code: Box<str> },
    /// The request may or may not have taken effect.
    Unknown,
}

struct Asked {
    operation: Operation,
    environment: Option<u32>,
    /// None if the request is not recorded.
    request: Option<Request>,
    waits: bool,
    accepted: &'static [u16],
}

/// The contents of an accepted answer.
struct Reading<T> {
    value: T,
    answer: Answer,
    /// Set if the answer, not the request, names the environment.
    environment: Option<u32>,
}

impl Client {
    pub fn new(thread: Arc<ClientThread>, number: u32) -> Self {
        thread.clients.fetch_add(1, Ordering::Relaxed);
        Self {
            arrivals: thread.arrivals(),
            connection: thread.take_connection(),
            thread,
            number,
            tolerates: &[],
            expects_breaks: false,
            seen_in_line: Arc::default(),
            request: Vec::with_capacity(512),
            due: None,
            pending: None,
            failures_in_a_row: 0,
        }
    }

    /// Waits for the next turn: immediate in a closed loop, when the next request is due in an open one. Returns false
    /// if there is no next turn.
    pub async fn turn(&mut self) -> bool {
        if let Some(arrivals) = &self.arrivals {
            self.due = arrivals.next().await;
            if self.due.is_none() {
                return false;
            }
        }
        self.goes_on()
    }

    /// The next environment of the share, once it is this client's turn. None at the end of the load or if the share is
    /// empty.
    pub async fn next(&mut self, share: &mut Share) -> Option<u32> {
        if !self.turn().await {
            return None;
        }
        let next = share.advance();
        if next.is_none() {
            self.error("a client has no environment left whose state it knows".to_owned());
        }
        next
    }

    /// False once the load is ending or the server cannot be reached.
    pub fn goes_on(&self) -> bool {
        if self.thread.is_closing() {
            return false;
        }
        if self.is_hopeless() {
            self.error(format!("a connection gave up after {MAX_FAILURES_IN_A_ROW} failures in a row"));
            return false;
        }
        true
    }

    /// Whether the server cannot be reached.
    pub fn is_hopeless(&self) -> bool {
        self.failures_in_a_row >= MAX_FAILURES_IN_A_ROW
    }

    /// Disconnects without a release, even with a request in flight.
    pub fn vanish(&mut self) {
        self.connection = None;
        self.settle(Answer::Unknown, None);
    }

    pub fn error(&self, what: String) {
        self.thread.tally().error(what);
    }

    pub fn count(&self, what: &'static str) {
        self.thread.tally().findings.count(what, 1);
    }

    /// Sends `self.request`, and reads the answer with `read` if its status is an accepted one.
    async fn ask<T>(&mut self, mut asked: Asked, read: impl FnOnce(&[u8]) -> Option<Reading<T>>) -> Result<T, Failure> {
        let operation = asked.operation.name();
        let mut connection = self.connection(operation).await?;
        let from = self.begin(&mut asked);
        let exchanged = connection.exchange(&self.request).await;
        let ended = Instant::now();
        let status = match exchanged {
            Ok(status) => status,
            Err(error) => {
                self.settle(Answer::Unknown, None);
                self.broken(format!("{operation}: {error}")).await;
                return Err(Failure::Unknown);
            }
        };
        self.failures_in_a_row = 0;
        let accepted = asked.accepted.contains(&status);
        self.thread.tally().answered(asked.operation, status, accepted, ended, ended - from);
        let outcome = match accepted {
            true => self.read_accepted(operation, read(connection.body())),
            false => Err(self.read_refusal(operation, status, connection.body())),
        };
        self.connection = Some(connection);
        outcome
    }

    fn begin(&mut self, asked: &mut Asked) -> Instant {
        let sent = Instant::now();
        self.thread.in_flight.fetch_add(1, Ordering::Relaxed);
        if asked.waits {
            self.thread.waiting.fetch_add(1, Ordering::Relaxed);
        }
        let (environment, request) = (asked.environment, asked.request.take());
        self.pending = Some(Pending { environment, request, sent, waits: asked.waits });
        let Some(due) = self.due.take() else { return sent };
        self.thread.tally().sent_late(sent.saturating_duration_since(due));
        due
    }

    fn read_accepted<T>(&mut self, operation: &str, reading: Option<Reading<T>>) -> Result<T, Failure> {
        let Some(reading) = reading else {
            self.settle(Answer::Unknown, None);
            self.error(format!("{operation}: the answer lacks what the API promises"));
            return Err(Failure::Unknown);
        };
        self.settle(reading.answer, reading.environment);
        Ok(reading.value)
    }

    fn read_refusal(&mut self, operation: &str, status: u16, body: &[u8]) -> Failure {
        let code = problem_code(body).unwrap_or("without a problem code");
        if !self.tolerates.contains(&code) {
            self.error(format!("{operation}: answered {status} {code}"));
        }
        if status < 400 || status == 500 || code == OUTCOME_UNKNOWN {
            self.settle(Answer::Unknown, None);
            return Failure::Unknown;
        }
        let code: Box<str> = code.into();
        self.settle(Answer::Refused { status, code: code.clone() }, None);
        Failure::Refused { status, code }
    }

    /// Records the outcome of the request in flight, if there is one.
    fn settle(&mut self, answer: Answer, named: Option<u32>) {
        let Some(pending) = self.pending.take() else { return };
        self.thread.in_flight.fetch_sub(1, Ordering::Relaxed);
        if pending.waits {
            self.thread.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        let Some(mut request) = pending.request else { return };
        if let Request::Claim { in_line_at, .. } = &mut request {
            let seen = self.seen_in_line.swap(0, Ordering::Relaxed);
            *in_line_at = (seen > 0).then_some(Moment(seen));
        }
        self.thread.record(Record {
            client: self.number,
            environment: pending.environment.or(named),
            request,
            sent: self.thread.moment(pending.sent),
            ended: self.thread.moment(Instant::now()),
            answer,
        });
    }

    /// A connection that the server announced to close is kept until here, because its last body is still being read.
    async fn connection(&mut self, operation: &str) -> Result<Connection, Failure> {
        if let Some(connection) = self.connection.take().filter(|connection| !connection.closes()) {
            return Ok(connection);
        }
        match Connection::open(self.thread.address).await {
            Ok(connection) => Ok(connection),
            Err(error) => {
                self.broken(format!("{operation}: {error}")).await;
                Err(Failure::NotSent)
            }
        }
    }

    async fn broken(&mut self, what: String) {
        if self.expects_breaks {
            self.count("connections broken");
        } else {
            self.error(what);
            self.failures_in_a_row += 1;
        }
        tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
    }
}

impl Share {
    /// Leaves the environment out if it may be held now: the server would correctly refuse the next claim.
    pub fn settle(&mut self, environment: u32, outcome: Result<(), Failure>) {
        match outcome {
            Ok(()) | Err(Failure::NotSent) => {}
            Err(Failure::Refused { .. } | Failure::Unknown) => self.leave_out(environment),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.pending.is_some() {
            self.error("no answer long after the load's end".to_owned());
            self.vanish();
        }
        if let Some(connection) = self.connection.take().filter(|connection| !connection.closes()) {
            self.thread.keep_connection(connection);
        }
        self.thread.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Work for `count` clients, of which each thread runs its share.
pub fn clients<F>(count: u32, each: impl Fn(Client) -> F + Send + Sync + 'static) -> Work
where
    F: Future<Output = ()> + Send + 'static,
{
    let each = Arc::new(each);
    work(move |thread| {
        let each = each.clone();
        async move { run_share(&thread, count, &*each).await }
    })
}

/// Runs one thread's share of `count` clients until all are done.
pub async fn run_share<F>(thread: &Arc<ClientThread>, count: u32, each: impl Fn(Client) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let numbers = (thread.thread..count).step_by(thread.threads as usize);
    let mut running: JoinSet<()> = numbers.map(|number| each(Client::new(thread.clone(), number))).collect();
    while let Some(ended) = running.join_next().await {
        ended.expect("a client neither panics nor is aborted");
    }
}

#[cfg(test)]
mod tests;

#[derive(Debug)]
pub struct Granted {
    pub environment: u32,
    pub session: SessionName,
}

#[derive(Debug)]
pub struct EnvironmentSeen {
    pub holder: Option<SessionName>,
    pub queue_length: u64,
}

impl Client {
    pub async fn healthz(&mut self) -> Result<(), Failure> {
        self.thread.requests.health.write(0, "", &mut self.request);
        self.ask(unrecorded(Operation::Health, &[200]), done).await
    }

    pub async fn put(&mut self, environment: u32, template: &Template) -> Result<(), Failure> {
        template.write(environment, "", &mut self.request);
        self.ask(unrecorded(Operation::Put, &[200, 201]), done).await
    }

    pub async fn claim(&mut self, environment: u32, claim: &ClaimTemplate) -> Result<Granted, Failure> {
        let asked = self.write_claim(environment, claim);
        let any = claim.terms.pool.is_some().then(|| self.thread.scope.clone());
        self.ask(asked, |body| {
            let grant = Grant::parse(body)?;
            let environment = match any {
                Some(scope) => scope.environment_number(grant.env_name?)?,
                None => environment,
            };
            Some(granted(&grant, environment))
        })
        .await
    }

    fn write_claim(&mut self, environment: u32, claim: &ClaimTemplate) -> Asked {
        claim.template.write(environment, "", &mut self.request);
        let any = claim.terms.pool.is_some();
        let ttl = claim.terms.ttl_seconds.map(|seconds| Duration::from_secs(seconds.into()));
        Asked {
            environment: (!any).then_some(environment),
            request: Some(Request::Claim { any, in_line_at: None, ttl }),
            waits: claim.terms.wait_seconds > 0,
            ..unrecorded(Operation::Claim, &[201])
        }
    }

    /// Disconnects after sending the given number of bytes of the request. If these were all, the request may still
    /// take effect.
    pub async fn claim_cut_short(&mut self, environment: u32, claim: &ClaimTemplate, bytes: usize) {
        let mut asked = self.write_claim(environment, claim);
        let Ok(mut connection) = self.connection("connect").await else { return };
        self.begin(&mut asked);
        // It is unknown whether the bytes arrive, as is the outcome.
        _ = connection.send(&self.request[..bytes.min(self.request.len())]).await;
        drop(connection);
        self.settle(Answer::Unknown, None);
    }

    pub async fn force_claim(&mut self, environment: u32) -> Result<Granted, Failure> {
        self.thread.requests.force_claim.write(environment, "", &mut self.request);
        let asked = recorded(Operation::ForceClaim, environment, Request::ForceClaim, &[201]);
        self.ask(asked, |body| Some(granted(&Grant::parse(body)?, environment))).await
    }

    pub async fn release(&mut self, environment: u32, session: SessionName) -> Result<(), Failure> {
        self.thread.requests.release.write(environment, &session.0, &mut self.request);
        self.ask(recorded(Operation::Release, environment, Request::Release { session }, &[200]), done).await
    }

    /// If only the release fails, the lock may still be held.
    pub async fn cycle(&mut self, environment: u32, claim: &ClaimTemplate) -> Result<(), Failure> {
        let Granted { environment, session } = self.claim(environment, claim).await?;
        self.release(environment, session).await.map_err(|_| Failure::Unknown)
    }

    pub async fn heartbeat(&mut self, environment: u32, session: SessionName) -> Result<(), Failure> {
        self.thread.requests.heartbeat.write(environment, &session.0, &mut self.request);
        self.ask(recorded(Operation::Heartbeat, environment, Request::Heartbeat { session }, &[200]), done).await
    }

    pub async fn deploy(&mut self, environment: u32, session: SessionName) -> Result<(), Failure> {
        self.thread.requests.deploy.write(environment, &session.0, &mut self.request);
        self.ask(recorded(Operation::Deploy, environment, Request::Deploy { session }, &[200, 202]), done).await
    }

    pub async fn read(&mut self, environment: u32) -> Result<EnvironmentSeen, Failure> {
        self.thread.requests.read.write(environment, "", &mut self.request);
        self.ask(recorded(Operation::Read, environment, Request::ReadEnvironment, &[200]), |body| {
            let EnvironmentView { lock, queue_length } = EnvironmentView::parse(body)?;
            let holder = lock.as_ref().map(|lock| SessionName(lock.session_id.into()));
            // The API shows the token only of a held environment.
            let fencing = lock.map_or(0, |lock| lock.fencing_token);
            let answer = Answer::Environment { holder: holder.clone(), fencing, queue_length };
            Some(Reading { value: EnvironmentSeen { holder, queue_length }, answer, environment: None })
        })
        .await
    }

    pub async fn read_session(&mut self, environment: u32, session: SessionName) -> Result<SessionView, Failure> {
        self.thread.requests.read_session.write(environment, &session.0, &mut self.request);
        self.ask(recorded(Operation::Read, environment, Request::ReadSession { session }, &[200]), |body| {
            let value = SessionView::parse(body)?;
            let SessionView { status, fencing_token: fencing, deployments } = value;
            Some(Reading { value, answer: Answer::Session { status, fencing, deployments }, environment: None })
        })
        .await
    }

    /// Joins the end of the queue. The grant is not awaited, so this is recorded as a claim with unknown outcome.
    pub async fn queue_last(&mut self, environment: u32, template: &Template) -> Result<SessionName, Failure> {
        template.write(environment, "", &mut self.request);
        let request = Request::Claim { any: false, in_line_at: None, ttl: None };
        self.ask(recorded(Operation::Claim, environment, request, &[202]), |body| {
            let value = SessionName(made_id(body, "sessionId")?.into());
            Some(Reading { value, answer: Answer::Unknown, environment: None })
        })
        .await
    }

    /// Reads a page of the pipeline's environments.
    pub async fn list(&mut self) -> Result<(), Failure> {
        self.thread.requests.list.write(0, "", &mut self.request);
        self.ask(unrecorded(Operation::List, &[200]), done).await
    }

    /// Reads a page of the history; returns the number of pages.
    pub async fn page(&mut self, operation: Operation, environment: u32, page: &Template) -> Result<u64, Failure> {
        page.write(environment, "", &mut self.request);
        self.ask(unrecorded(operation, &[200]), |body| Some(acknowledged(total_pages(body)?))).await
    }

    /// Adds a session to the history without waiting for it or recording it.
    pub async fn add_session(&mut self, environment: u32) -> Result<(), Failure> {
        self.thread.requests.force_claim.write(environment, "", &mut self.request);
        let read = |body: &[u8]| Grant::parse(body).map(|_| acknowledged(()));
        self.ask(unrecorded(Operation::ForceClaim, &[201]), read).await
    }
}

fn recorded(operation: Operation, environment: u32, request: Request, accepted: &'static [u16]) -> Asked {
    Asked { environment: Some(environment), request: Some(request), ..unrecorded(operation, accepted) }
}

fn unrecorded(operation: Operation, accepted: &'static [u16]) -> Asked {
    Asked { operation, environment: None, request: None, waits: false, accepted }
}

fn granted(grant: &Grant<'_>, environment: u32) -> Reading<Granted> {
    let (session, fencing) = (SessionName(grant.session_id.into()), grant.fencing_token);
    let answer = Answer::Granted { session: session.clone(), fencing };
    Reading { value: Granted { environment, session }, answer, environment: Some(environment) }
}

fn acknowledged<T>(value: T) -> Reading<T> {
    Reading { value, answer: Answer::Done, environment: None }
}

fn done(_body: &[u8]) -> Option<Reading<()>> {
    Some(acknowledged(()))
}
