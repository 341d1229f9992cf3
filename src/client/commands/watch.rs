//! `lockkeeper watch`: the live board.

use crate::client::api::Api;
use crate::client::failure::Failure;
use crate::client::output::Out;
use crate::client::watch::watch;

#[derive(clap::Args)]
pub struct Args {}

pub async fn run(_: Args, api: &Api, out: &Out) -> Result<(), Failure> {
    watch(api, out).await
}
