//! The command `run` itself: claim, deploy, run, release, and its exit code.

use std::ffi::OsString;
use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::guard::{Ending, Guarded, Order, Report, do_not_stop_at_output, sweep};
use super::lease::{Held, MARGIN, TTL_MIN};
use crate::acquire::{Fate, Request, Session, Target, acquire, context, fate};
use crate::api::Api;
use crate::arguments::{EnvironmentName, label, seconds, seconds_from};
use crate::connection::options::variable;
use crate::failure::{Failure, deployment_result};
use crate::output::text::shown_of;
use crate::output::{Out, items_of, note, text_of};
use crate::retry::Attempts;
use crate::signals::Signals;
use crate::steady::{Alarm, Moment};

#[derive(clap::Args)]
pub struct Args {
    /// The environment, like review-1 or web/review-1
    #[arg(value_name = "ENV", required_unless_present = "label", conflicts_with = "label")]
    environment: Option<EnvironmentName>,
    /// Any environment with this label; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// Deploy this commit before the command starts, and wait for the end of the deployment
    #[arg(long, value_name = "COMMIT")]
    deploy: Option<String>,
    /// How long to wait in the queue; 0: not at all
    #[arg(long, value_name = "DURATION", default_value = "3600", value_parser = seconds)]
    wait: u64,
    /// How long the lock outlives this program if it dies
    #[arg(long, value_name = "DURATION", default_value = "60", value_parser = ttl)]
    ttl: u64,
    /// The place in the queue: −100 to 100, above 0 for maintainers
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = clap::value_parser!(i8).range(-100..=100))]
    priority: Option<i8>,
    /// The reason, for others who find the environment taken [default: job, change and author, from the variables of
    /// the CI]
    #[arg(long, value_name = "TEXT")]
    context: Option<String>,
    /// How long the command may take to end on its own if the lock is lost; at most a quarter of --ttl
    #[arg(long, value_name = "DURATION", default_value = "10", value_parser = seconds)]
    grace: u64,
    /// The command, after `--`; it finds LOCKKEEPER_ENVIRONMENT, LOCKKEEPER_SESSION and LOCKKEEPER_FENCING_TOKEN
    #[arg(value_name = "COMMAND", last = true, required = true)]
    command: Vec<OsString>,
}

fn ttl(text: &str) -> Result<u64, String> {
    seconds_from(TTL_MIN.as_secs(), text)
}

impl Args {
    async fn request(&self, api: &Api) -> Result<Request, Failure> {
        let (pipeline, target) = Target::of(api, self.environment.clone(), self.label.clone()).await?;
        Ok(Request {
            pipeline,
            target,
            commit: None,
            context: self.context.clone().or_else(|| context::of_ci(&variable)),
            ttl_seconds: Some(self.ttl),
            priority: self.priority,
            wait: Duration::from_secs(self.wait),
        })
    }
}

pub async fn run(args: Args, api: &Api, _: &Out) -> Result<(), Failure> {
    let request = args.request(api).await?;
    let mut signals = Signals::ending()?;
    let acquired = acquire(api, &request, &mut signals).await?;
    let mut held = Held::new(api, acquired, Duration::from_secs(args.ttl));
    let (environment, token) = (held.session.environment(), held.session.fencing_token().unwrap_or_default());
    note(&format!("lockkeeper: holding {environment}, fencing token {token}"));
    let (told, until) = watch::channel(held.lease.until);
    let keeper = pin!(held.clone().keep(Alarm::new().map_err(cannot)?, told));
    let outcome = work(&args, &held, signals, keeper, until.clone()).await;
    held.lease.until = *until.borrow();
    finish(held, outcome).await
}

/// How the command ended.
enum Outcome {
    Ended(Ending),
    /// The lock was lost, and the command was stopped if it had begun.
    Lost(String),
    /// The command was not started.
    NotStarted(Failure),
}

async fn work(
    args: &Args,
    held: &Held<'_>,
    mut signals: Signals,
    mut keeper: Pin<&mut impl Future<Output = String>>,
    until: watch::Receiver<Moment>,
) -> Outcome {
    if let Some(commit) = &args.deploy {
        let deployed = tokio::select! {
            deployed = deploy(held.api, &held.session, commit) => deployed,
            lost = &mut keeper => return Outcome::Lost(lost),
            signal = signals.next() => Err(Failure::of_signal(signal)),
        };
        match deployed {
            Ok(()) => {}
            Err(Failure::LockLost(words)) => return Outcome::Lost(words),
            Err(failure) => return Outcome::NotStarted(failure),
        }
    }
    // Not earlier: until now the terminal may suspend this process. Not later: the command gets the terminal next.
    do_not_stop_at_output();
    let started = signals.all().and_then(|()| Guarded::start(&args.command, &variables(held)));
    let (guarded, alarm) = match started.and_then(|guarded| Ok((guarded, Alarm::new()?))) {
        Ok(started) => started,
        Err(error) => return Outcome::NotStarted(cannot(error)),
    };
    let grace = held.lease.grace(Duration::from_secs(args.grace));
    watch_over(guarded, alarm, signals, until, grace, keeper).await
}

/// Coordinates the keeper of the lease, which ends at `until`, the guard of the command, and received signals.
async fn watch_over(
    mut guarded: Guarded,
    alarm: Alarm,
    mut signals: Signals,
    mut until: watch::Receiver<Moment>,
    grace: Duration,
    mut keeper: Pin<&mut impl Future<Output = String>>,
) -> Outcome {
    guarded.order(Order::Start { grace, until: *until.borrow_and_update() });
    let (mut ending, mut lost, mut swept) = (None, None, false);
    loop {
        // The guard has ended the command by then, unless it is unable to.
        let too_late = until.borrow().minus(MARGIN / 2);
        tokio::select! {
            report = guarded.reports.next() => match report {
                Some(Report::Gone) => break,
                Some(Report::Ended(how)) => ending = Some(how),
                Some(Report::Left(count)) => note(&left_behind(count)),
                Some(Report::Lapsed) => {
                    note("lockkeeper: the lock could not be renewed in time; stopping the command");
                    lost = lost.or(Some("the lock is lost: it could not be renewed in time".to_owned()));
                }
                None => {
                    sweep().await;
                    break;
                }
            },
            words = &mut keeper, if lost.is_none() => {
                note(&format!("lockkeeper: {words}; stopping the command"));
                guarded.order(Order::Lost);
                lost = Some(words);
            }
            Ok(()) = until.changed() => guarded.order(Order::Renewed(*until.borrow_and_update())),
            signal = signals.next() => guarded.order(Order::Pass(signal)),
            () = alarm.reached(too_late), if !swept => {
                swept = true;
                sweep().await;
            }
        }
    }
    guarded.finish();
    match (lost, ending) {
        (Some(words), _) => Outcome::Lost(words),
        (None, Some(ending)) => Outcome::Ended(ending),
        // Killed by the client itself, since the guard did not stop it in time.
        (None, None) if swept => Outcome::Lost("the lock is lost: it could not be renewed in time".to_owned()),
        (None, None) => Outcome::NotStarted(Failure::Failed(
            "the guard of the command was killed, and the command with it".to_owned(),
        )),
    }
}

fn left_behind(count: u32) -> String {
    match count {
        1 => "lockkeeper: the command has left a process behind; ending it".to_owned(),
        _ => format!("lockkeeper: the command has left {count} processes behind; ending them"),
    }
}

/// Variables of the command, so that it and client commands in it need no arguments.
fn variables(held: &Held<'_>) -> Vec<(&'static str, String)> {
    vec![
        ("LOCKKEEPER_SESSION", held.session.id().to_owned()),
        ("LOCKKEEPER_ENVIRONMENT", held.session.environment().to_owned()),
        ("LOCKKEEPER_FENCING_TOKEN", held.session.fencing_token().unwrap_or_default().to_string()),
        ("LOCKKEEPER_URL", held.api.url().to_owned()),
        ("LOCKKEEPER_ORGANIZATION", held.api.organization.clone()),
        ("LOCKKEEPER_PIPELINE", held.session.pipeline.clone()),
    ]
}

/// Releases the lock, and reports the outcome. A command that lost its lock never counts as successful.
async fn finish(mut held: Held<'_>, outcome: Outcome) -> Result<(), Failure> {
    match outcome {
        Outcome::Lost(words) => {
            // If the server was only unreachable, it still has the session.
            held.release_briefly().await;
            Err(Failure::LockLost(words))
        }
        Outcome::NotStarted(failure) => {
            held.release().await;
            Err(failure)
        }
        Outcome::Ended(ending) => {
            let code = ending.code();
            if let Err(failure) = held.confirm().await {
                let said = |words: String| format!("{words}; the command itself had ended with {code}");
                return Err(match failure {
                    Failure::LockLost(words) => Failure::LockLost(said(words)),
                    Failure::Unreachable(words) => Failure::Unreachable(said(format!(
                        "whether the lock was held until the end is not known: {words}"
                    ))),
                    other => {
                        note(&format!("lockkeeper: the command itself had ended with {code}"));
                        other
                    }
                });
            }
            held.release().await;
            if code == 0 { Ok(()) } else { Err(Failure::Exit(code)) }
        }
    }
}

fn cannot(error: io::Error) -> Failure {
    Failure::Failed(format!("cannot start the command: {error}"))
}

/// Proxies may cut off longer waits.
const POLL_SECONDS: u64 = 20;

/// Deploys a commit in a session, waits for the end, and reports the stages on stderr. Fails unless the deployment
/// succeeds.
async fn deploy(api: &Api, session: &Session, commit: &str) -> Result<(), Failure> {
    let body = json!({ "commitId": commit, "fencingToken": session.fencing_token() });
    let mut deployment = api.post(&format!("{}/deploy", session.path()), &body).await?.data;
    let path = format!("/deployments/{}", text_of(&deployment, "deploymentId"));
    let (mut etag, mut told) = (None::<String>, Vec::new());
    let mut attempts = Attempts::new(api.patience);
    loop {
        for line in stages(&deployment) {
            if !told.contains(&line) {
                note(&format!("lockkeeper: {line}"));
                told.push(line);
            }
        }
        if let Some(result) = deployment_result(&deployment) {
            return result;
        }
        match api.poll(&path, etag.as_deref(), POLL_SECONDS, Duration::ZERO).await {
            Ok(answer) => {
                attempts.restart();
                if answer.status != 304 {
                    etag = answer.etag;
                    deployment = answer.data;
                }
            }
            Err(error) => match fate(error) {
                Fate::Lost(words) => return Err(Failure::NotFound(words)),
                Fate::Refused(failure) => return Err(failure),
                Fate::Unclear(words) => {
                    let pause = attempts.pause(None).ok_or(Failure::Unreachable(words))?;
                    tokio::time::sleep(pause).await;
                }
            },
        }
    }
}

/// One line for each stage that has begun.
fn stages(deployment: &Value) -> Vec<String> {
    let commit = shown_of(deployment, "commitId");
    let begun = items_of(&deployment["stages"])
        .iter()
        .filter(|stage| !matches!(text_of(stage, "status"), "" | "pending" | "skipped"));
    let line = |stage: &Value| {
        let attempt = match stage["attempt"].as_u64() {
            Some(attempt) if attempt > 1 => format!(", attempt {attempt}"),
            _ => String::new(),
        };
        let status = shown_of(stage, "status").replace('_', " ");
        format!("deploying {commit}: {} {status}{attempt}", shown_of(stage, "name"))
    };
    begun.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_told_once_they_have_begun() {
        let stage =
            |name: &str, status: &str, attempt: u64| json!({ "name": name, "status": status, "attempt": attempt });
        let stages_of = [stage("build", "succeeded", 1), stage("go", "awaiting_approval", 2), stage("x", "pending", 0)];
        let deployment = json!({ "commitId": "c0ffee1", "stages": stages_of });
        assert_eq!(
            stages(&deployment),
            ["deploying c0ffee1: build succeeded", "deploying c0ffee1: go awaiting approval, attempt 2"]
        );
    }
}
