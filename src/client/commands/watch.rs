//! `lockkeeper watch`: the live board.

use crate::api::Api;
use crate::failure::Failure;
use crate::output::Out;
use crate::watch::watch;

#[derive(clap::Args)]
pub struct Args {}

pub async fn run(_: Args, api: &Api, out: &Out) -> Result<(), Failure> {
    watch(api, out).await
}
