//! `lockkeeper logs`: the output of a deployment's steps.

use super::deployment::DeploymentName;
use crate::api::Api;
use crate::arguments::identifier;
use crate::failure::Failure;
use crate::logs::{LogQuery, Printer, print};
use crate::output::text::harmless;
use crate::output::{Out, text_of};

#[derive(clap::Args)]
pub struct Args {
    /// The deployment (dep_…), or an environment: its current deployment, or else its last one [default:
    /// LOCKKEEPER_ENVIRONMENT]
    #[arg(value_name = "DEPLOYMENT|ENV")]
    deployment: Option<DeploymentName>,
    /// Go on until the deployment ends; exit code 1 if it fails or is cancelled
    #[arg(short, long)]
    follow: bool,
    /// Only the output of this stage
    #[arg(long, value_name = "STAGE", value_parser = identifier)]
    stage: Option<String>,
    /// Only the output of steps with this name
    #[arg(long, value_name = "STEP", value_parser = identifier)]
    step: Option<String>,
    /// Begin each line with its time in UTC, its stage and its step
    #[arg(short, long)]
    times: bool,
}

pub async fn run(args: Args, api: &Api, out: &Out) -> Result<(), Failure> {
    let deployment = DeploymentName::given(args.deployment)?.id(api).await?;
    let query = LogQuery { deployment, stage: args.stage, step: args.step, follow: args.follow };
    let mut printer = Printer::new(*out, args.times);
    let Some(ended) = print(api, &query, &mut printer).await? else { return Ok(()) };
    let status = text_of(&ended, "status");
    let error = ended["error"].as_str().map(|error| format!(": {}", harmless(error))).unwrap_or_default();
    let words = format!("deployment {} {status}{error}", query.deployment);
    if status == "succeeded" {
        out.note(&words);
        return Ok(());
    }
    Err(Failure::Failed(words))
}
