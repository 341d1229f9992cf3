//! The live board on a terminal; otherwise its changes as lines.
//!
//! Order: `board` (the state and its changes) and `picture` (the state as text) know no terminal and no server;
//! `source` asks the server; `screen` is the terminal; `live` connects them.

mod board;
mod live;
mod picture;
mod screen;
mod source;

use jiff::Timestamp;
use tokio::sync::mpsc;

use self::board::{Board, Change};
use self::source::Update;
use super::api::Api;
use super::failure::Failure;
use super::output::text::harmless;
use super::output::{Out, note, reader_gone};

/// Runs until a key, a signal or an error ends it.
pub async fn watch(api: &Api, out: &Out) -> Result<(), Failure> {
    let pipeline = api.given_pipeline();
    if out.terminal && !out.json { live::run(api, out, pipeline).await } else { print_lines(api, out, pipeline).await }
}

/// Beyond this many pending updates, a slow reader slows down the source.
const UPDATES_MAX: usize = 16;

/// Prints a line for every environment, then a line for each change.
async fn print_lines(api: &Api, out: &Out, pipeline: Option<&str>) -> Result<(), Failure> {
    let (tell, updates) = mpsc::channel(UPDATES_MAX);
    tokio::select! {
        ended = source::follow(api, pipeline, tell) => ended,
        printed = print(out, updates) => printed,
        () = reader_gone() => Err(Failure::OutputClosed),
    }
}

async fn print(out: &Out, mut updates: mpsc::Receiver<Update>) -> Result<(), Failure> {
    let mut board = Board::default();
    let mut is_cut = false;
    while let Some(update) = updates.recv().await {
        match update {
            Update::Board { pipelines, ahead } => {
                let now = Timestamp::now() + ahead;
                for change in board.take(pipelines) {
                    print_change(out, &change, now)?;
                }
            }
            Update::Event(_) => {}
            Update::Trouble(why) if !is_cut => {
                is_cut = true;
                note(&harmless(&format!("{why}; trying again")));
            }
            Update::Trouble(_) => {}
            Update::Live => {
                if std::mem::take(&mut is_cut) {
                    note("connected again");
                }
            }
        }
    }
    // The source reports why it ended.
    std::future::pending().await
}

fn print_change(out: &Out, change: &Change, now: Timestamp) -> Result<(), Failure> {
    if out.json {
        return out.json_line(&change.record);
    }
    let time = now.strftime("%Y-%m-%d %H:%M:%S");
    out.line(&harmless(&format!("{time}  {}  {}", change.place, change.words)))
}
