//! `lockkeeper extend`: a heartbeat, which begins the TTL of a session from now.

use serde_json::json;

use super::session::{self, Target};
use crate::api::Api;
use crate::failure::Failure;
use crate::output::Out;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    target: Target,
}

pub async fn run(args: Args, api: &Api, out: &Out) -> Result<(), Failure> {
    let found = args.target.find(api).await?;
    let session = api.post(&format!("{}/heartbeat", found.path()), &json!({})).await?.data;
    out.record(&session, |session| session::lines(session, out))
}
