//! The engine that needs nothing but the case: a catalogue of failure signatures, and rules that choose the cause among
//! the ones found. Pure, offline, deterministic, in time linear in the size of the log.
//!
//! From top to bottom: `report` → `rank` → `ends`, `baseline`, `scan` → `case_view`, `noise`, `text`, `catalogue`; and by
//! themselves `learnt` (a guess where no signature matches) and `localized` (messages of other languages).

mod baseline;
mod case_view;
mod catalogue;
mod ends;
#[allow(dead_code, reason = "the choice among causes takes them up")]
mod learnt;
#[allow(dead_code, reason = "the choice among causes takes them up")]
mod localized;
mod noise;
mod rank;
mod report;
mod scan;
#[cfg(test)]
mod tests;
mod text;

use futures_util::future::BoxFuture;

use super::engine::{Case, Engine, EngineError, EngineName, Finding};
use baseline::Baseline;
use case_view::CaseView;
use scan::Scan;

/// Lines examined before other tasks get a turn: milliseconds, even for lines made to be slow.
const LINES_PER_TURN: usize = 32;

/// Cheap to create; the catalogue is compiled once, on first use.
#[derive(Debug, Clone, Copy, Default)]
pub struct Builtin;

impl Builtin {
    /// Analyses the case without a pause, for a thread that may be busy; [`Engine::analyse`] yields to other tasks.
    pub fn find(&self, case: &Case) -> Finding {
        let view = CaseView::of(case);
        let (mut scan, mut baseline) = (Scan::default(), Baseline::default());
        scan.add(view.lines);
        baseline.add(view.success_lines);
        report::finding(&view, &scan, &baseline)
    }
}

impl Engine for Builtin {
    fn name(&self) -> EngineName {
        EngineName::Builtin
    }

    fn analyse<'a>(&'a self, case: &'a Case) -> BoxFuture<'a, Result<Finding, EngineError>> {
        Box::pin(async move {
            let view = CaseView::of(case);
            let (mut scan, mut baseline) = (Scan::default(), Baseline::default());
            for lines in view.lines.chunks(LINES_PER_TURN) {
                scan.add(lines);
                tokio::task::yield_now().await;
            }
            for lines in view.success_lines.chunks(LINES_PER_TURN) {
                baseline.add(lines);
                tokio::task::yield_now().await;
            }
            Ok(report::finding(&view, &scan, &baseline))
        })
    }
}
