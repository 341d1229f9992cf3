//! `lockkeeper release`: ends a session, of the caller or, for maintainers, of anybody.

use serde_json::Value;

use super::session::{self, Target, without_lock};
use crate::api::Api;
use crate::failure::Failure;
use crate::output::{Out, text_of};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// Release whoever has the lock; if it is not you, this needs a maintainer
    #[arg(long, conflicts_with = "session")]
    anyone: bool,
}

pub async fn run(args: Args, api: &Api, out: &Out) -> Result<(), Failure> {
    let path = if args.anyone {
        let environment = session::environment(args.target.environment)?;
        format!("{}/lock", api.environment_path(&environment).await?)
    } else {
        args.target.find(api).await?.path()
    };
    let ended = api.delete(&path).await?.data;
    out.record(&ended, |session| session::lines(session, out))?;
    // Work done after that was done without the lock.
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
