//! Owns whether a run was clean, and the sentence that says so.

use super::model::{Check, Figure, Goal, Run};
use super::number::{as_shown, count, counted};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No rule was broken, nothing went wrong.
    Clean,
    /// No rule was broken, but requests went wrong.
    Errors,
    /// A rule was broken.
    Violations,
}

/// Why the figures of a run are not held against their goals: those are for a full one.
pub fn why_not_judged(is_full: bool, interrupted: bool) -> Option<&'static str> {
    match (is_full, interrupted) {
        (true, false) => None,
        (true, true) => Some("the run was ended early"),
        (false, _) => Some("the run was shorter or smaller than the full one"),
    }
}

impl Run {
    pub fn verdict(&self) -> Verdict {
        if self.violation_count() > 0 {
            Verdict::Violations
        } else if self.error_count() > 0 {
            Verdict::Errors
        } else {
            Verdict::Clean
        }
    }

    pub fn violation_count(&self) -> u64 {
        self.checks.iter().map(Check::found).fold(0, u64::saturating_add)
    }

    pub fn error_count(&self) -> u64 {
        self.errors.values().copied().fold(0, u64::saturating_add)
    }

    /// One line that stands alone.
    pub fn verdict_sentence(&self) -> String {
        let errors = self.error_count();
        let found = match self.verdict() {
            Verdict::Clean => format!("clean: {}, no errors", self.examined()),
            Verdict::Errors => format!("not clean: {}, but {}", self.examined(), counted(errors, "error")),
            Verdict::Violations => {
                let broken = self.checks.iter().filter(|check| check.found() > 0).count();
                let errors = if errors == 0 { "no errors".to_owned() } else { counted(errors, "error") };
                let violations = counted(self.violation_count(), "violation");
                format!(
                    "NOT CLEAN: {violations} in {broken} of {}, {errors}",
                    counted(self.checks.len() as u64, "check")
                )
            }
        };
        if self.interrupted { format!("{found}; ended early") } else { found }
    }

    fn examined(&self) -> String {
        let held = self.checks.iter().filter(|check| check.examined > 0).count() as u64;
        match (self.checks.len() as u64, held) {
            (0, _) => "nothing was checked".to_owned(),
            (_, 0) => "the checks had nothing to examine".to_owned(),
            (1, 1) => "the check held".to_owned(),
            (all, held) if all == held => format!("all {} held", counted(all, "check")),
            (all, held) => format!("{} held, {} had nothing to examine", counted(held, "check"), count(all - held)),
        }
    }
}

impl Run {
    /// The same with goals only if they are judged, and with a word why if they are not.
    pub fn judged_unless(mut self, why: Option<&str>) -> Self {
        let Some(why) = why else { return self };
        let of_phases = self.phases.iter_mut().flat_map(|phase| &mut phase.figures);
        let mut had_goals = false;
        for figure in of_phases.chain(&mut self.ratios) {
            had_goals |= figure.goal.take().is_some();
        }
        if had_goals {
            self.settings.insert("goals".to_owned(), format!("not judged: {why}"));
        }
        self
    }
}

impl Check {
    /// A violation that is shown counts, whatever the count says.
    pub fn found(&self) -> u64 {
        self.violation_count.max(self.violations.len() as u64)
    }
}

impl Figure {
    /// None without a goal, and for what is not a number. Judged as it is shown: "1.00, at most 1, missed" would only
    /// confuse.
    pub fn meets_goal(&self) -> Option<bool> {
        let shown = as_shown(self.median);
        match self.goal? {
            _ if !shown.is_finite() => None,
            Goal::AtLeast(bound) => Some(shown >= bound),
            Goal::AtMost(bound) => Some(shown <= bound),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn a_run_without_violations_and_errors_is_clean() {
        let run = sample::empty();
        assert_eq!(run.verdict(), Verdict::Clean);
        assert_eq!(run.verdict_sentence(), "clean: nothing was checked, no errors");
    }

    #[test]
    fn an_error_is_not_clean_and_a_violation_is_worse() {
        let mut run = sample::cycle();
        run.errors.insert("connection reset".to_owned(), 2);
        assert_eq!(run.verdict(), Verdict::Errors);
        assert_eq!(run.verdict_sentence(), "not clean: all 3 checks held, but 2 errors");
        let run = sample::killed();
        assert_eq!(run.verdict(), Verdict::Violations);
        assert_eq!(run.verdict_sentence(), "NOT CLEAN: 2 violations in 1 of 4 checks, 131 errors; ended early");
    }

    #[test]
    fn a_check_with_nothing_to_examine_is_not_told_as_held() {
        let mut run = sample::cycle();
        run.checks[0].examined = 0;
        assert_eq!(run.verdict_sentence(), "clean: 2 checks held, 1 had nothing to examine, no errors");
    }

    #[test]
    fn a_shown_violation_counts_even_if_the_count_forgot_it() {
        let mut run = sample::killed();
        run.checks.iter_mut().for_each(|check| check.violation_count = 0);
        assert_eq!(run.verdict(), Verdict::Violations);
    }

    #[test]
    fn a_shortened_run_has_figures_and_no_goals() {
        let run = sample::cycle().judged_unless(why_not_judged(false, false));
        let figures = || run.phases.iter().flat_map(|phase| &phase.figures).chain(&run.ratios);
        assert!(figures().count() > 0 && figures().all(|figure| figure.goal.is_none() && figure.median > 0.0));
        let shown = crate::report::text(&run);
        assert!(shown.contains("goals not judged: the run was shorter"), "{shown}");
        assert!(!shown.contains(", met") && !shown.contains(", missed"), "{shown}");
        let full = crate::report::text(&sample::cycle().judged_unless(why_not_judged(true, false)));
        assert!(full.contains(", met") && !full.contains("not judged"), "{full}");
        assert_eq!(why_not_judged(true, true), Some("the run was ended early"));
        let without = sample::empty().judged_unless(why_not_judged(false, false));
        assert!(!without.settings.contains_key("goals"), "there was nothing to judge");
    }

    #[test]
    fn goals_are_met_at_their_bound_and_undecided_without_a_number() {
        let figure = |median, goal| Figure { median, goal, ..Figure::default() };
        assert_eq!(figure(0.75, Some(Goal::AtLeast(0.75))).meets_goal(), Some(true));
        assert_eq!(figure(35.1, Some(Goal::AtMost(35.0))).meets_goal(), Some(false));
        assert_eq!(figure(f64::NAN, Some(Goal::AtMost(35.0))).meets_goal(), None);
        assert_eq!(figure(1.0, None).meets_goal(), None);
        assert_eq!(figure(1.004, Some(Goal::AtMost(1.0))).meets_goal(), Some(true));
        assert_eq!(figure(1.006, Some(Goal::AtMost(1.0))).meets_goal(), Some(false));
    }
}
