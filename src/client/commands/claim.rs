//! `lockkeeper claim` and `force-claim`: take the lock of an environment.

use std::pin::pin;
use std::time::Duration;

use serde_json::{Value, json};

use super::sessions;
use crate::acquire;
use crate::api::{Api, given};
use crate::arguments::{EnvironmentName, identifier, label, seconds, seconds_from};
use crate::failure::Failure;
use crate::holders::holder_in_words;
use crate::output::text::harmless;
use crate::output::{Out, note, text_of};
use crate::signals::Signals;

/// The limit for the answer to an interrupted force-claim, and again for the release of its lock.
const GIVE_BACK_WITHIN: Duration = Duration::from_secs(5);

/// The options of every claim, forced or not.
#[derive(clap::Args)]
pub struct Wishes {
    /// Deploy this commit immediately, if the environment deploys on claim
    #[arg(long, value_name = "COMMIT")]
    commit: Option<String>,
    /// The reason, for others who find the environment taken
    #[arg(long, value_name = "TEXT")]
    context: Option<String>,
    /// The session expires this long after its last activity [default: the environment's]
    #[arg(long, value_name = "DURATION", value_parser = ttl)]
    ttl: Option<u64>,
    /// Print lines for `eval` in a shell, which set LOCKKEEPER_SESSION, LOCKKEEPER_ENVIRONMENT and the rest; `false` if
    /// the claim fails
    #[arg(long, conflicts_with = "json")]
    shell: bool,
}

#[derive(clap::Args)]
pub struct ClaimArgs {
    /// The environment, as ENV or PIPELINE/ENV
    #[arg(value_name = "ENV", required_unless_present = "label", conflicts_with = "label")]
    environment: Option<EnvironmentName>,
    /// Any environment with this label instead; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    #[command(flatten)]
    wishes: Wishes,
    /// Higher priorities go first, from -100 to 100; above 0 needs a maintainer
    #[arg(long, value_name = "NUMBER", default_value_t = 0, allow_negative_numbers = true)]
    priority: i8,
    /// How long to wait in the queue if the environment is taken
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = seconds)]
    wait: u64,
}

#[derive(clap::Args)]
pub struct ForceClaimArgs {
    /// The environment, as ENV or PIPELINE/ENV
    #[arg(value_name = "ENV")]
    environment: EnvironmentName,
    #[command(flatten)]
    wishes: Wishes,
}

pub async fn claim(args: ClaimArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    let ClaimArgs { environment, label, wishes, priority, wait } = args;
    let (pipeline, target) = acquire::Target::of(api, environment, label).await?;
    let request = acquire::Request {
        pipeline,
        target,
        commit: wishes.commit.clone(),
        context: wishes.context.clone(),
        ttl_seconds: wishes.ttl,
        priority: Some(priority).filter(|priority| *priority != 0),
        wait: Duration::from_secs(wait),
    };
    let acquired = acquire::acquire(api, &request, &mut Signals::ending()?).await?;
    print(&acquired.session.data, &request.pipeline, &wishes, api, out)
}

pub async fn force_claim(args: ForceClaimArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    let ForceClaimArgs { environment, wishes } = args;
    let path = format!("{}/force-claim", api.environment_path(&environment).await?);
    let body = given(json!({ "commitId": wishes.commit, "context": wishes.context, "ttlSeconds": wishes.ttl }));
    let session = take_over(api, &path, &body).await?;
    if !out.json
        && let Some(overrode) = holder_in_words(&session["overrode"], jiff::Timestamp::now())
    {
        note(&format!("taken over: {overrode}"));
    }
    print(&session, api.pipeline_of(&environment).await?, &wishes, api, out)
}

/// A signal during the request gives back the claimed lock, since its session would remain unknown.
async fn take_over(api: &Api, path: &str, body: &Value) -> Result<Value, Failure> {
    let mut signals = Signals::ending()?;
    let mut answer = pin!(api.post(path, body));
    let signal = tokio::select! {
        biased;
        signal = signals.next() => signal,
        answer = &mut answer => return Ok(answer?.data),
    };
    let given_back = match tokio::time::timeout(GIVE_BACK_WITHIN, &mut answer).await {
        Ok(Ok(answer)) => {
            let environment = path.strip_suffix("/force-claim").unwrap_or(path);
            let session = format!("{environment}/sessions/{}", text_of(&answer.data, "sessionId"));
            tokio::time::timeout(GIVE_BACK_WITHIN, api.delete(&session)).await.is_ok_and(|deleted| deleted.is_ok())
        }
        Ok(Err(Failure::Unreachable(_))) | Err(_) => false,
        Ok(Err(_)) => true,
    };
    if !given_back {
        note("whether the environment was taken over is not known; if it was, the session expires on its own");
    }
    Err(Failure::of_signal(signal))
}

fn ttl(text: &str) -> Result<u64, String> {
    seconds_from(1, text)
}

fn print(session: &Value, pipeline: &str, wishes: &Wishes, api: &Api, out: &Out) -> Result<(), Failure> {
    if wishes.shell {
        out.lines(&shell_lines(session, pipeline, api)?)?;
    } else {
        out.record(session, |session| sessions::lines(session, out))?;
    }
    if let Some(warning) = session["warning"].as_str().filter(|_| !out.json) {
        note(&format!("note: {}", harmless(warning)));
    }
    Ok(())
}

/// Names and numbers only, so that nothing needs quotes or could be a command.
fn shell_lines(session: &Value, pipeline: &str, api: &Api) -> Result<Vec<String>, Failure> {
    let checked = |name: &str, text: &str| {
        let text = identifier(text).map_err(|rule| Failure::Failed(format!("{name} of the answer {rule}")))?;
        Ok::<_, Failure>(format!("export {name}={text}"))
    };
    let token = session["fencingToken"].as_u64().unwrap_or_default();
    Ok(vec![
        checked("LOCKKEEPER_SESSION", text_of(session, "sessionId"))?,
        checked("LOCKKEEPER_ENVIRONMENT", text_of(session, "envName"))?,
        format!("export LOCKKEEPER_FENCING_TOKEN={token}"),
        checked("LOCKKEEPER_ORGANIZATION", &api.organization)?,
        checked("LOCKKEEPER_PIPELINE", pipeline)?,
    ])
}
