//! `lockkeeper extend` and `release`: restart the TTL of a session, or end a session: the caller's, or, for
//! maintainers, any member's.

use serde_json::{Value, json};

use super::session::{self, Target, without_lock};
use crate::api::Api;
use crate::failure::Failure;
use crate::output::{Out, text_of};

#[derive(clap::Args)]
pub struct ExtendArgs {
    #[command(flatten)]
    target: Target,
}

/// Sends a heartbeat.
pub async fn extend(args: ExtendArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    let found = args.target.find(api).await?;
    let session = api.post(&format!("{}/heartbeat", found.path()), &json!({})).await?.data;
    out.record(&session, |session| session::lines(session, out))
}

#[derive(clap::Args)]
pub struct ReleaseArgs {
    #[command(flatten)]
    target: Target,
    /// Release whoever has the lock; if it is not you, this needs a maintainer
    #[arg(long, conflicts_with = "session")]
    anyone: bool,
}

pub async fn release(args: ReleaseArgs, api: &Api, out: &Out) -> Result<(), Failure> {
    let path = if args.anyone {
        let environment = session::environment(args.target.environment)?;
        format!("{}/lock", api.environment_path(&environment).await?)
    } else {
        args.target.find(api).await?.path()
    };
    let ended = api.delete(&path).await?.data;
    out.record(&ended, |session| session::lines(session, out))?;
    // Work done after the session ended was done without the lock.
    if taken_away(&ended)
        && let Some(lost) = without_lock(&ended)
    {
        return Err(lost);
    }
    Ok(())
}

fn taken_away(session: &Value) -> bool {
    matches!(text_of(session, "lockStatus"), "overridden" | "expired")
}
