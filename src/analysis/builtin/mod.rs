//! The engine that needs nothing but the case: a catalogue of failure signatures, and rules for which of those that are
//! found is the cause. Pure, offline, the same answer each time, in time linear in the log.

mod catalogue;
mod ends;
mod known;
mod noise;
mod rank;
mod report;
mod scan;
mod scene;
#[cfg(test)]
mod tests;
mod text;

use futures_util::future::BoxFuture;

use super::{Case, Engine, EngineError, Finding};
use known::Known;
use scan::Scan;
use scene::Scene;

pub const NAME: &str = "builtin";
/// Lines that are looked at before others get their turn: milliseconds, even if they were made to be slow to look at.
const LINES_A_TURN: usize = 32;

/// Cheap to make; the catalogue is compiled once, when it is first needed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Builtin;

impl Builtin {
    /// All at once, for a thread that may be busy; [`Engine::analyse`] lets others have their turn.
    pub fn find(&self, case: &Case) -> Finding {
        let scene = Scene::of(case);
        let (mut scan, mut known) = (Scan::default(), Known::default());
        scan.pass(scene.lines);
        known.pass(scene.lines_then);
        report::finding(&scene, &scan, &known)
    }
}

impl Engine for Builtin {
    fn name(&self) -> &'static str {
        NAME
    }

    fn analyse<'a>(&'a self, case: &'a Case) -> BoxFuture<'a, Result<Finding, EngineError>> {
        Box::pin(async move {
            let scene = Scene::of(case);
            let (mut scan, mut known) = (Scan::default(), Known::default());
            for lines in scene.lines.chunks(LINES_A_TURN) {
                scan.pass(lines);
                tokio::task::yield_now().await;
            }
            for lines in scene.lines_then.chunks(LINES_A_TURN) {
                known.pass(lines);
                tokio::task::yield_now().await;
            }
            Ok(report::finding(&scene, &scan, &known))
        })
    }
}
