//! The live board on a terminal, and the same as lines without one.
//!
//! Order: `board` (the state and its changes) and `picture` (the state as text) know no terminal and no server;
//! `source` asks the server; `screen` is the terminal; `live` and `lines` connect them.

mod board;
mod lines;
mod live;
mod picture;
mod screen;
mod source;

use super::api::Api;
use super::failure::Failure;
use super::output::Out;

/// Runs until it is ended from outside.
pub async fn watch(api: &Api, out: &Out) -> Result<(), Failure> {
    let pipeline = api.given_pipeline().map(str::to_owned);
    if out.terminal && !out.json {
        return live::run(api, out, pipeline.as_deref()).await;
    }
    lines::run(api, out, pipeline.as_deref()).await
}
