//! `lockkeeper status`, `extend` and `release`; a session in words; and the session that a command refers to: the given
//! one, that of `lockkeeper run`, or the caller's own in an environment.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::{Answer, Api};
use crate::arguments::{EnvironmentName, identifier};
use crate::connection::options::variable;
use crate::failure::Failure;
use crate::holders::{end_in_words, holder_in_words};
use crate::output::table::Cell;
use crate::output::text::{Style, after_colon, harmless, shown_of};
use crate::output::{Out, fields, items_of, note, text_of, times};

/// How many deployments of a session are shown, the newest last.
const DEPLOYMENTS_SHOWN: usize = 5;

/// The environment of commands that show one.
#[derive(clap::Args)]
pub struct EnvironmentArgs {
    /// The environment, as ENV or PIPELINE/ENV; also LOCKKEEPER_ENVIRONMENT
    #[arg(value_name = "ENV")]
    pub environment: Option<EnvironmentName>,
}

impl EnvironmentArgs {
    /// The given environment, or that of `lockkeeper run`.
    pub fn given(self) -> Result<EnvironmentName, Failure> {
        if let Some(given) = self.environment {
            return Ok(given);
        }
        let Some(name) = variable("LOCKKEEPER_ENVIRONMENT") else {
            return Err(Failure::Usage("name the environment, or set LOCKKEEPER_ENVIRONMENT".to_owned()));
        };
        name.parse().map_err(|rule| Failure::Usage(format!("LOCKKEEPER_ENVIRONMENT {rule}")))
    }
}

/// The session of commands that act in one.
#[derive(clap::Args)]
pub struct Target {
    #[command(flatten)]
    pub environment: EnvironmentArgs,
    /// The session; also LOCKKEEPER_SESSION [default: your own in the environment]
    #[arg(long, value_name = "SESSION", value_parser = identifier)]
    pub session: Option<String>,
}

impl Target {
    /// The path of the session below the organization.
    pub async fn path(self, api: &Api) -> Result<String, Failure> {
        // The variable refers only to the environment that was claimed with it.
        let of_run = variable("LOCKKEEPER_ENVIRONMENT");
        let is_of_run = match &self.environment.environment {
            None => true,
            Some(given) => of_run.as_ref().is_some_and(|name| *name == given.name) && given.pipeline.is_none(),
        };
        let environment = self.environment.given()?;
        let path = api.environment_path(&environment).await?;
        let known = self.session.or_else(|| variable("LOCKKEEPER_SESSION").filter(|_| is_of_run));
        let session = match known {
            Some(session) => identifier(&session).map_err(|rule| Failure::Usage(format!("the session {rule}")))?,
            None => own_session(api, &environment, &path).await?,
        };
        Ok(format!("{path}/sessions/{session}"))
    }
}

/// The caller's session that holds the environment, or else waits for it.
async fn own_session(api: &Api, environment: &EnvironmentName, path: &str) -> Result<String, Failure> {
    let pipeline = api.pipeline_of(environment).await?;
    let query = format!("/sessions?mine=true&pipelineId={pipeline}&envName={}&limit=100", environment.name);
    let sessions = api.get(&query).await?.data;
    let sessions = items_of(&sessions);
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

#[derive(clap::Args)]
pub struct StatusArgs {
    #[command(flatten)]
    target: Target,
    /// List the sessions of everybody that hold or wait
    #[arg(long, conflicts_with_all = ["environment", "session"])]
    all: bool,
}

/// Shows one session, or lists all of the caller's.
pub async fn status(args: StatusArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    let named = args.target.environment.environment.is_some() || args.target.session.is_some();
    let under_run = variable("LOCKKEEPER_SESSION").is_some() && variable("LOCKKEEPER_ENVIRONMENT").is_some();
    if args.all || !(named || under_run) {
        let (path, none) = match args.all {
            true => ("/sessions?limit=100", "no sessions"),
            false => ("/sessions?mine=true&limit=100", "you hold nothing and wait for nothing"),
        };
        let now = Timestamp::now();
        return list_page(&api.get(path).await?, "newest", out, |session| row(session, now), none);
    }
    let session = api.get(&args.target.path(api).await?).await?.data;
    out.record(&session, |session| lines(session, out))?;
    without_lock(&session).map_or(Ok(()), Err)
}

/// A list that may go on; `which` says which part of it this page is.
pub fn list_page(
    page: &Answer,
    which: &str,
    out: &Out,
    row: impl Fn(&Value) -> Vec<Cell>,
    if_empty: &str,
) -> Result<(), Failure> {
    out.list(&page.data, row, if_empty)?;
    let shown = items_of(&page.data).len() as u64;
    let total = page.pagination["total"].as_u64().unwrap_or_default();
    if total > shown {
        note(&format!("the {which} {shown} of {total}"));
    }
    Ok(())
}

fn row(session: &Value, now: Timestamp) -> Vec<Cell> {
    let environment = session["envName"].as_str().unwrap_or("*");
    let since = session["claimedAt"].as_str().unwrap_or(text_of(session, "createdAt"));
    let expires = match (text_of(session, "lockStatus"), session["expiresAt"].as_str()) {
        ("active", None) => "never".to_owned(),
        ("active", Some(at)) => times::until(at, now).unwrap_or_default(),
        _ => String::new(),
    };
    vec![
        Cell::whole("ENVIRONMENT", format!("{}/{environment}", text_of(session, "pipelineId"))).styled(Style::Strong),
        Cell::status("STATUS", text_of(session, "lockStatus")),
        Cell::cuttable("USER", text_of(&session["user"], "name")),
        Cell::whole("SINCE", times::since(since, now).unwrap_or_default()),
        Cell::whole("EXPIRES", expires),
        Cell::optional("SESSION", text_of(session, "sessionId")),
        Cell::cuttable("CONTEXT", text_of(session, "context")),
    ]
}

#[derive(clap::Args)]
pub struct ExtendArgs {
    #[command(flatten)]
    target: Target,
}

/// Restarts the TTL of a session, by a heartbeat.
pub async fn extend(args: ExtendArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    let path = format!("{}/heartbeat", args.target.path(api).await?);
    let session = api.post(&path, &json!({})).await?.data;
    out.record(&session, |session| lines(session, out))
}

#[derive(clap::Args)]
pub struct ReleaseArgs {
    #[command(flatten)]
    target: Target,
    /// Release whoever has the lock; if it is not you, this needs a maintainer
    #[arg(long, conflicts_with = "session")]
    anyone: bool,
}

/// Ends a session: the caller's, or, for maintainers, any member's.
pub async fn release(args: ReleaseArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    let path = if args.anyone {
        format!("{}/lock", api.environment_path(&args.target.environment.given()?).await?)
    } else {
        args.target.path(api).await?
    };
    let ended = api.delete(&path).await?.data;
    out.record(&ended, |session| lines(session, out))?;
    // Work done after the session ended was done without the lock.
    let taken_away = matches!(text_of(&ended, "lockStatus"), "overridden" | "expired");
    without_lock(&ended).filter(|_| taken_away).map_or(Ok(()), Err)
}

/// A session for people.
pub fn lines(session: &Value, out: &Out) -> Vec<String> {
    let now = Timestamp::now();
    let since = |field: &str| times::since(text_of(session, field), now).unwrap_or_default();
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
        ("active", None) => "never on its own".to_owned(),
        (_, Some(at)) => format!("in {}, at {} UTC", times::until(at, now).unwrap_or_default(), times::clock(at)),
        (_, None) => String::new(),
    };
    let by = session["endedBy"]["name"].as_str().map(|name| format!(" by {}", harmless(name))).unwrap_or_default();
    let ended = session["endedAt"].as_str().map(|at| format!("{} UTC{by}", times::clock(at)));
    let token = session["fencingToken"].as_u64().map(|token| token.to_string());
    let mut lines = fields(&[
        ("environment", shown_of(session, "envName")),
        ("session", shown_of(session, "sessionId")),
        ("state", out.paint(&state, Style::of_status(status))),
        ("user", shown_of(&session["user"], "name")),
        ("context", shown_of(session, "context")),
        ("commit", shown_of(session, "commitId")),
        ("fencing token", token.unwrap_or_default()),
        ("expires", expires),
        ("ended", ended.unwrap_or_default()),
    ]);
    let deployments = items_of(&session["deployments"]);
    let newest = &deployments[deployments.len().saturating_sub(DEPLOYMENTS_SHOWN)..];
    lines.extend(newest.iter().map(|deployment| format!("deployment:    {}", deployment_line(deployment, now))));
    lines
}

/// `c0ffee1 failed 3 min ago: step compile exited with 1 (dep_…)`.
pub fn deployment_line(deployment: &Value, now: Timestamp) -> String {
    let at = deployment["finishedAt"].as_str().unwrap_or(text_of(deployment, "createdAt"));
    let ago = times::since(at, now).map(|ago| format!(" {ago} ago")).unwrap_or_default();
    let [commit, status, id] = ["commitId", "status", "deploymentId"].map(|field| shown_of(deployment, field));
    format!("{commit} {status}{ago}{} ({id})", after_colon(deployment, "error"))
}

/// The failure for a session without the lock: it was taken away, or has not been granted yet.
fn without_lock(session: &Value) -> Option<Failure> {
    match text_of(session, "lockStatus") {
        "active" => None,
        "queued" => Some(Failure::Locked("the session waits in the queue and does not have the lock yet".to_owned())),
        _ => Some(Failure::LockLost(end_in_words(session))),
    }
}
