//! The engine that needs only the case: a catalogue of failure signatures, and rules that choose the cause among the
//! matches. Pure, offline, deterministic, in time linear in the size of the log.
//!
//! From top to bottom: `report` → `causes` → `meaning`, `baseline`, `scan` → `case_view`, `noise`, `translation`,
//! `signatures` → `text`, `tools`; and separately `learnt`, a guess where no signature matches. The knowledge of
//! failures is in the files of `catalogue`.

mod baseline;
mod case_view;
mod causes;
mod learnt;
mod meaning;
mod noise;
mod report;
mod scan;
mod signatures;
#[cfg(test)]
mod tests;
mod text;
mod tools;
mod translation;

use super::engine::{Case, Finding};
use baseline::Baseline;
use case_view::CaseView;
pub use case_view::Parts;
use report::Classifier;
use scan::Scan;

/// Lines examined before other tasks run: milliseconds, even for lines crafted to be slow.
const LINES_PER_TURN: usize = 32;

const CLASSIFIER: Classifier = learnt::guess;

/// Cheap to create; the catalogue is compiled once, on first use.
#[derive(Debug, Clone, Copy, Default)]
pub struct Builtin;

impl Builtin {
    /// Analyses the case without yielding, for a thread that may block; [`Builtin::analyse`] yields to other tasks.
    pub fn find(&self, case: &Case) -> Finding {
        self.find_with(case, Parts::ALL)
    }

    /// Like [`Builtin::find`], with only some parts of the engine.
    pub fn find_with(&self, case: &Case, parts: Parts) -> Finding {
        let view = CaseView::of(case);
        let (mut scan, mut baseline) = (Scan::new(parts, view.action()), Baseline::default());
        scan.add(view.lines);
        for success in view.successes(parts) {
            baseline.begin();
            baseline.add(success);
        }
        report::finding(&view, &scan, &baseline, parts, CLASSIFIER)
    }

    pub async fn analyse(&self, case: &Case) -> Finding {
        let view = CaseView::of(case);
        let (mut scan, mut baseline) = (Scan::new(Parts::ALL, view.action()), Baseline::default());
        for lines in view.lines.chunks(LINES_PER_TURN) {
            scan.add(lines);
            tokio::task::yield_now().await;
        }
        for success in view.successes(Parts::ALL) {
            baseline.begin();
            for lines in success.chunks(LINES_PER_TURN) {
                baseline.add(lines);
                tokio::task::yield_now().await;
            }
        }
        report::finding(&view, &scan, &baseline, Parts::ALL, CLASSIFIER)
    }
}
