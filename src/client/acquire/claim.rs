//! The claim itself: requests the lock, waits in the queue, shows progress on stderr, since stdout is the command's,
//! and confirms that it holds the lock.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::session::{Acquired, Fate, Session, Standing, fate, heartbeat};
use crate::api::{Answer, Api, Call, SINGLE_ANSWER_WITHIN, given, new_key, query};
use crate::arguments::EnvironmentName;
use crate::failure::{CallError, Failure};
use crate::holders;
use crate::output::text::{harmless, shown_of};
use crate::output::{StatusLine, note, text_of, times};
use crate::retry::Attempts;
use crate::signals::Signals;
use crate::steady::Moment;

/// A third of the time within which the server expects a poll.
const POLL_SECONDS: u64 = 20;
/// The limit for a request for the holder's name. Short, since the name is only displayed.
const HOLDER_WITHIN: Duration = Duration::from_secs(5);
/// The limit for giving back a claim: a user who gives up does not want to wait. If it fails, the lease ends the claim.
const GIVE_BACK_WITHIN: Duration = Duration::from_secs(5);

/// The claim of one environment, or of any with certain labels.
#[derive(Debug, Clone)]
pub struct Request {
    pub pipeline: String,
    pub target: Target,
    pub commit: Option<String>,
    pub context: Option<String>,
    /// None uses the environment's own TTL.
    pub ttl_seconds: Option<u64>,
    pub priority: Option<i8>,
    /// How long to wait in the queue. Zero: not at all.
    pub wait: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Environment(String),
    Any(Vec<(String, String)>),
}

impl Target {
    /// The given environment, or any with these labels, and its pipeline.
    pub async fn of(
        api: &Api,
        environment: Option<EnvironmentName>,
        labels: Vec<(String, String)>,
    ) -> Result<(String, Self), Failure> {
        match environment {
            Some(given) => Ok((api.pipeline_of(&given).await?.to_owned(), Self::Environment(given.name))),
            None => Ok((api.pipeline().await?.to_owned(), Self::Any(labels))),
        }
    }

    /// The target in words for people.
    pub fn words(&self) -> String {
        match self {
            Target::Environment(name) => harmless(name),
            Target::Any(labels) if labels.is_empty() => "any environment".to_owned(),
            Target::Any(labels) => {
                let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("any environment with {}", harmless(&labels.join(", ")))
            }
        }
    }
}

impl Request {
    /// The path of the environment, or with `Target::Any` of all environments of the pipeline.
    fn path(&self) -> String {
        let of_pipeline = format!("/pipelines/{}/ephemeral-environments", self.pipeline);
        match &self.target {
            Target::Environment(name) => format!("{of_pipeline}/{name}"),
            Target::Any(_) => of_pipeline,
        }
    }

    fn body(&self) -> Value {
        let labels: Option<BTreeMap<_, _>> = match &self.target {
            Target::Environment(_) => None,
            Target::Any(labels) => Some(labels.iter().cloned().collect()),
        };
        given(json!({
            "commitId": self.commit,
            "context": self.context,
            "ttlSeconds": self.ttl_seconds,
            "priority": self.priority,
            "queue": (!self.wait.is_zero()).then_some(true),
            "labels": labels,
        }))
    }
}

/// Gets the lock, or fails and leaves nothing behind. A signal ends the wait.
pub async fn acquire(api: &Api, request: &Request, signals: &mut Signals) -> Result<Acquired, Failure> {
    let progress = Progress::new(request.target.words());
    let mut claim = Claim { api, request, deadline: Moment::now().plus(request.wait), key: None, session: None };
    let outcome = tokio::select! {
        outcome = claim.pursue(&progress) => outcome,
        signal = signals.next() => Err(Failure::of_signal(signal)),
        never = progress.animate() => match never {},
    };
    progress.line.wipe();
    if outcome.is_err() {
        claim.give_back(&progress).await;
    }
    outcome
}

struct Claim<'a> {
    api: &'a Api,
    request: &'a Request,
    deadline: Moment,
    /// The idempotency key of a claim that may have been executed.
    key: Option<String>,
    session: Option<Session>,
}

/// The outcome of a step of the claim.
enum Turn {
    /// The session holds the lock.
    Mine,
    /// The session ended meanwhile, for this reason in words. A new claim is needed.
    Ended(String),
}

impl Claim<'_> {
    async fn pursue(&mut self, progress: &Progress) -> Result<Acquired, Failure> {
        let mut patience = self.api.patience;
        loop {
            let mut session = self.ask(patience).await?;
            let ended = match self.wait(&mut session, progress).await? {
                Turn::Ended(words) => words,
                Turn::Mine => match self.confirm(&mut session).await? {
                    Ok(acquired) => return Ok(acquired),
                    Err(words) => words,
                },
            };
            (self.key, self.session) = (None, None);
            if Moment::now() >= self.deadline {
                return Err(Failure::LockLost(ended));
            }
            progress.say(&format!("{ended}; claiming it again"));
            patience = self.left();
        }
    }

    fn left(&self) -> Duration {
        self.deadline.since(Moment::now())
    }

    /// Sends the claim until there is an answer.
    async fn ask(&mut self, patience: Duration) -> Result<Session, Failure> {
        let key = self.key.insert(new_key()).clone();
        let answer = self.send_claim(key, patience, SINGLE_ANSWER_WITHIN).await;
        if answer.as_ref().is_err_and(is_certainly_refused) {
            self.key = None;
        }
        Ok(self.remember(answer?.data))
    }

    async fn send_claim(&self, key: String, patience: Duration, timeout: Duration) -> Result<Answer, CallError> {
        let call = self.api.call(Method::POST, &format!("{}/sessions", self.request.path()));
        self.api.send(Call { body: Some(self.request.body()), key: Some(key), patience, timeout, ..call }).await
    }

    fn remember(&mut self, data: Value) -> Session {
        let session = Session { pipeline: self.request.pipeline.clone(), data };
        self.session.insert(session).clone()
    }

    /// Holds the place in the queue until the session gets the lock.
    async fn wait(&mut self, session: &mut Session, progress: &Progress) -> Result<Turn, Failure> {
        let target = self.request.target.words();
        let (mut etag, mut trouble) = (None::<String>, None);
        let mut attempts = Attempts::new(self.api.patience);
        loop {
            let place = match session.standing() {
                Standing::Active => return Ok(Turn::Mine),
                Standing::Ended => return Ok(Turn::Ended(holders::end_in_words(&session.data))),
                Standing::Queued { place: Some(place) } => format!("place {place} in the queue"),
                Standing::Queued { place: None } => "in the queue".to_owned(),
            };
            let left = self.left();
            let words = match &trouble {
                None => format!("{place}{}", self.holder().await),
                Some(words) => format!("{place}; {words}"),
            };
            progress.words.replace(words);
            if left.is_zero() {
                let waited = times::span(progress.waited());
                return Err(match trouble {
                    Some(words) => {
                        Failure::Unreachable(format!("waited {waited} for {target}, and in the end {words}"))
                    }
                    None => Failure::NotGrantedInTime(format!("waited {waited} for {target} without success: {place}")),
                });
            }
            // With an ETag the answer waits for a change, and no change between two requests is missed.
            let seconds = POLL_SECONDS.min(left.as_secs().max(1));
            match self.api.poll(&session.path(), etag.take().as_deref(), seconds, Duration::ZERO).await {
                Ok(answer) => {
                    trouble = None;
                    attempts.restart();
                    // A 304 says nothing about the position, so the next request asks without waiting.
                    if answer.status != 304 {
                        etag = answer.etag;
                        *session = self.remember(answer.data);
                    }
                }
                Err(error) => match fate(error) {
                    Fate::Lost(words) => return Ok(Turn::Ended(words)),
                    Fate::Refused(failure) => return Err(failure),
                    Fate::Unclear(words) => {
                        trouble = Some(words);
                        attempts.wait().await;
                    }
                },
            }
        }
    }

    /// The current holder, as the end of a sentence; empty if the holder is unknown.
    async fn holder(&self) -> String {
        let mut path = self.request.path();
        if let Target::Any(labels) = &self.request.target {
            path += &query(labels.iter().map(|(name, value)| ("label", format!("{name}:{value}"))));
        }
        let call = self.api.call(Method::GET, &path);
        let answer = self.api.send(Call { patience: Duration::ZERO, timeout: HOLDER_WITHIN, ..call }).await;
        let holder = answer.ok().and_then(|answer| holder_in(&answer.data, Timestamp::now()));
        holder.map(|words| format!("; {words}")).unwrap_or_default()
    }

    /// The answer to a claim may be a repeated, older one. Only a heartbeat proves that the session holds the lock now,
    /// and how long it lasts.
    async fn confirm(&mut self, session: &mut Session) -> Result<Result<Acquired, String>, Failure> {
        let mut attempts = Attempts::new(self.api.patience);
        loop {
            let error = match heartbeat(self.api, session, SINGLE_ANSWER_WITHIN).await {
                Ok(beat) => return Ok(Ok(Acquired { session: session.clone(), beat })),
                Err(error) => error,
            };
            let words = match fate(error) {
                Fate::Lost(words) => return Ok(Err(words)),
                Fate::Refused(failure) => return Err(failure),
                Fate::Unclear(words) => words,
            };
            let pause = attempts.pause(None).ok_or(Failure::Unreachable(words))?;
            tokio::time::sleep(pause).await;
        }
    }

    /// Leaves the queue, or releases the lock. A request without an answer is sent once more, to learn which session it
    /// created.
    async fn give_back(&mut self, progress: &Progress) {
        if self.session.is_none()
            && let Some(key) = self.key.take()
        {
            match self.send_claim(key, GIVE_BACK_WITHIN, GIVE_BACK_WITHIN).await {
                Ok(answer) => drop(self.remember(answer.data)),
                Err(error) if is_certainly_refused(&error) => {}
                Err(_) => {
                    progress.say("whether the claim reached the server is not known; if it did, it expires on its own")
                }
            }
        }
        let Some(session) = &self.session else { return };
        if session.release(self.api, GIVE_BACK_WITHIN, GIVE_BACK_WITHIN).await.is_err() {
            progress.say("the claim could not be given back; it expires on its own");
        }
    }
}

/// Whether the server has certainly refused the claim, so that nothing needs to be given back: had an earlier attempt
/// been executed, the server would have repeated its answer.
fn is_certainly_refused(error: &CallError) -> bool {
    match error {
        CallError::Problem(problem) => {
            let decided = matches!(problem.status, 400 | 401 | 403 | 404 | 409 | 422)
                && problem.code != "idempotency_key_in_flight";
            problem.is_ours() && decided
        }
        CallError::NoConnection(_) | CallError::NoAnswer(_) => false,
        // No request was sent: see `Api::send`.
        CallError::Failure(_) => true,
    }
}

/// The holder of one environment, or of the one among several that was locked first.
fn holder_in(data: &Value, now: Timestamp) -> Option<String> {
    let Some(listed) = data.as_array() else {
        return holders::holder_in_words(data.get("lock")?, now);
    };
    let locked = listed.iter().filter(|environment| environment["lock"].is_object());
    let first = locked.min_by_key(|environment| text_of(&environment["lock"], "claimedAt").to_owned())?;
    let words = holders::holder_in_words(&first["lock"], now)?;
    Some(format!("{} environments, all taken; {}: {words}", listed.len(), shown_of(first, "envName")))
}

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// The pause between two frames of the animation: smooth, at almost no cost.
const FRAME_TIME: Duration = Duration::from_millis(120);
/// The pause between two lines elsewhere: often enough to show that a CI job is alive, without filling its log.
const LINE_TIME: Duration = Duration::from_secs(30);

/// The display while waiting for a lock: an animated line on a terminal, elsewhere a line every half minute.
#[derive(Debug)]
struct Progress {
    since: Moment,
    line: StatusLine,
    /// The environment; and the rest of the sentence, which is empty before the wait begins.
    target: String,
    words: RefCell<String>,
}

impl Progress {
    fn new(target: String) -> Self {
        Self { since: Moment::now(), line: StatusLine::on_stderr(), target, words: RefCell::default() }
    }

    /// The duration comes first, since a narrow terminal cuts off the end.
    fn words(&self) -> String {
        format!("waiting for {} for {}: {}", self.target, times::span(self.waited()), self.words.borrow())
    }

    fn waited(&self) -> Duration {
        Moment::now().since(self.since)
    }

    /// Prints a permanent line.
    fn say(&self, words: &str) {
        self.line.wipe();
        note(&format!("lockkeeper: {words}"));
    }

    /// Shows the progress until it is dropped.
    async fn animate(&self) -> Infallible {
        let mut frames = FRAMES.iter().cycle();
        loop {
            let shown = !self.words.borrow().is_empty();
            match (shown, self.line.terminal) {
                (true, true) => self.line.draw(&format!("{} {}", frames.next().unwrap_or(&' '), self.words())),
                (true, false) => note(&format!("lockkeeper: {}", self.words())),
                (false, _) => {}
            }
            tokio::time::sleep(if shown && !self.line.terminal { LINE_TIME } else { FRAME_TIME }).await;
        }
    }
}
