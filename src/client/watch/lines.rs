//! The board without a terminal: a line for every environment, then a line for each change.

use jiff::Timestamp;
use tokio::sync::mpsc;

use super::board::{Board, Change};
use super::source::{self, Update};
use crate::api::Api;
use crate::failure::Failure;
use crate::output::text::harmless;
use crate::output::{Out, reader_gone};

/// Beyond this many pending updates, a slow reader slows down the source.
const UPDATES_MAX: usize = 16;

pub async fn run(api: &Api, out: &Out, pipeline: Option<&str>) -> Result<(), Failure> {
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
                out.note(&harmless(&format!("{why}; trying again")));
            }
            Update::Trouble(_) => {}
            Update::Live => {
                if std::mem::take(&mut is_cut) {
                    out.note("connected again");
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
