//! A session in words, and the session that a command refers to: the given one, that of `lockkeeper run`, or the
//! caller's own in an environment.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::api::Api;
use crate::arguments::{EnvironmentName, identifier};
use crate::connection::options::variable;
use crate::failure::Failure;
use crate::holders::{holder_in_words, lost_in_words};
use crate::output::text::harmless;
use crate::output::{Out, fields, text_of, times};

/// How many deployments of a session are shown, the newest last.
const DEPLOYMENTS_SHOWN: usize = 5;

/// Which session, of the commands that act in one.
#[derive(clap::Args)]
pub struct Target {
    /// The environment, as ENV or PIPELINE/ENV; also LOCKKEEPER_ENVIRONMENT
    #[arg(value_name = "ENV")]
    pub environment: Option<EnvironmentName>,
    /// The session; also LOCKKEEPER_SESSION [default: your own in the environment]
    #[arg(long, value_name = "SESSION", value_parser = identifier)]
    pub session: Option<String>,
}

/// A session with its path below the organization.
pub struct FoundSession {
    pub session: String,
    /// `/pipelines/web/ephemeral-environments/review-1`.
    pub environment_path: String,
}

impl FoundSession {
    pub fn path(&self) -> String {
        format!("{}/sessions/{}", self.environment_path, self.session)
    }
}

/// The given environment, or that of `lockkeeper run`.
pub fn environment(given: Option<EnvironmentName>) -> Result<EnvironmentName, Failure> {
    if let Some(given) = given {
        return Ok(given);
    }
    let Some(name) = variable("LOCKKEEPER_ENVIRONMENT") else {
        return Err(Failure::Usage("name the environment, or set LOCKKEEPER_ENVIRONMENT".to_owned()));
    };
    name.parse().map_err(|rule| Failure::Usage(format!("LOCKKEEPER_ENVIRONMENT {rule}")))
}

impl Target {
    pub async fn find(self, api: &Api) -> Result<FoundSession, Failure> {
        // The variable refers only to the environment that was claimed with it.
        let of_run = variable("LOCKKEEPER_ENVIRONMENT");
        let is_of_run = match &self.environment {
            None => true,
            Some(given) => of_run.as_ref().is_some_and(|name| *name == given.name) && given.pipeline.is_none(),
        };
        let environment = environment(self.environment)?;
        let environment_path = api.environment_path(&environment).await?;
        let known = self.session.or_else(|| variable("LOCKKEEPER_SESSION").filter(|_| is_of_run));
        let session = match known {
            Some(session) => identifier(&session).map_err(|rule| Failure::Usage(format!("the session {rule}")))?,
            None => own_session(api, &environment, &environment_path).await?,
        };
        Ok(FoundSession { session, environment_path })
    }
}

/// The caller's session that holds the environment, or else waits for it.
async fn own_session(api: &Api, environment: &EnvironmentName, path: &str) -> Result<String, Failure> {
    let pipeline = api.pipeline_of(environment).await?;
    let query = format!("/sessions?mine=true&pipelineId={pipeline}&envName={}&limit=100", environment.name);
    let sessions = api.get(&query).await?.data;
    let sessions = sessions.as_array().map(Vec::as_slice).unwrap_or_default();
    let active = sessions.iter().find(|session| session["lockStatus"] == "active");
    if let Some(session) = active.or(sessions.first()) {
        return Ok(text_of(session, "sessionId").to_owned());
    }
    // The request also distinguishes an environment that does not exist from one held by somebody else.
    let environment_now = api.get(path).await?.data;
    let holder = holder_in_words(&environment_now["lock"], Timestamp::now());
    let holder = holder.unwrap_or_else(|| "nobody has it".to_owned());
    Err(Failure::NotFound(format!("you have no session in {}: {holder}", environment.name)))
}

/// A session for people.
pub fn lines(session: &Value, out: &Out) -> Vec<String> {
    let now = Timestamp::now();
    let since = |field: &str| session[field].as_str().and_then(|at| times::since(at, now)).unwrap_or_default();
    let status = text_of(session, "lockStatus");
    let state = match status {
        "queued" => match session["queuePosition"].as_u64() {
            Some(position) => format!("queued, place {position}, for {}", since("createdAt")),
            None => "queued".to_owned(),
        },
        "active" => format!("active for {}", since("claimedAt")),
        ended => harmless(ended),
    };
    let expires = match (status, session["expiresAt"].as_str()) {
        ("active", None) => "never by itself".to_owned(),
        (_, Some(at)) => format!("in {}, at {} UTC", times::until(at, now).unwrap_or_default(), times::clock(at)),
        (_, None) => String::new(),
    };
    let ended = match session["endedAt"].as_str() {
        Some(at) => format!("{} UTC{}", times::clock(at), by(&session["endedBy"])),
        None => String::new(),
    };
    let number = |field: &str| session[field].as_u64().map(|number| number.to_string()).unwrap_or_default();
    let mut lines = fields(&[
        ("environment", harmless(text_of(session, "envName"))),
        ("session", harmless(text_of(session, "sessionId"))),
        ("state", out.paint(&state, crate::output::text::Style::of_status(status))),
        ("user", harmless(text_of(&session["user"], "name"))),
        ("context", harmless(text_of(session, "context"))),
        ("commit", harmless(text_of(session, "commitId"))),
        ("fencing token", number("fencingToken")),
        ("expires", expires),
        ("ended", ended),
    ]);
    lines.extend(deployment_lines(session, now));
    lines
}

fn by(user: &Value) -> String {
    match user["name"].as_str() {
        Some(name) => format!(" by {}", harmless(name)),
        None => String::new(),
    }
}

fn deployment_lines(session: &Value, now: Timestamp) -> Vec<String> {
    let deployments = session["deployments"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shown = &deployments[deployments.len().saturating_sub(DEPLOYMENTS_SHOWN)..];
    shown.iter().map(|deployment| format!("deployment:    {}", deployment_line(deployment, now))).collect()
}

/// `c0ffee1 failed 3 min ago: step compile exited with 1 (dep_…)`.
pub fn deployment_line(deployment: &Value, now: Timestamp) -> String {
    let at = deployment["finishedAt"].as_str().or(deployment["createdAt"].as_str());
    let ago = at.and_then(|at| times::since(at, now)).map(|ago| format!(" {ago} ago")).unwrap_or_default();
    let error = deployment["error"].as_str().map(|error| format!(": {}", harmless(error))).unwrap_or_default();
    let (commit, status, id) =
        (text_of(deployment, "commitId"), text_of(deployment, "status"), text_of(deployment, "deploymentId"));
    format!("{} {}{ago}{error} ({})", harmless(commit), harmless(status), harmless(id))
}

/// The failure for a session without the lock: it was taken away, or has not been granted yet.
pub fn without_lock(session: &Value) -> Option<Failure> {
    let lost = || {
        let words = session.as_object().and_then(|session: &Map<String, Value>| lost_in_words(session));
        Failure::LockLost(words.unwrap_or_else(|| "the session has ended".to_owned()))
    };
    match text_of(session, "lockStatus") {
        "active" => None,
        "queued" => Some(Failure::Locked("the session waits in the queue and does not have the lock yet".to_owned())),
        _ => Some(lost()),
    }
}
