//! Owns a run as JSON: written for scripts and for later, read to be shown again.

use serde_json::Value;
use serde_json::error::Category;

use super::model::{FORMAT, Run};

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("not JSON: {0}")]
    NotJson(serde_json::Error),
    #[error("the JSON ends too early: {0}")]
    CutOff(serde_json::Error),
    #[error("a run in format {found}, but this loadtest reads format {FORMAT}")]
    OtherFormat { found: Value },
    #[error("JSON, but not a run of a load test: {0}")]
    NotARun(String),
}

pub fn json(run: &Run) -> String {
    let mut text = serde_json::to_string_pretty(run).expect("a run has only strings as keys, so it is always JSON");
    text.push('\n');
    text
}

pub fn read(text: &str) -> Result<Run, ReadError> {
    // A mark that some editors leave; it is no part of the JSON.
    let text = text.trim_start_matches('\u{feff}');
    let value: Value = serde_json::from_str(text).map_err(|error| match error.classify() {
        Category::Eof => ReadError::CutOff(error),
        Category::Io | Category::Syntax | Category::Data => ReadError::NotJson(error),
    })?;
    // Before the rest: another format may have other fields, and its number says more than the first that is missing.
    match value.get("format") {
        Some(format) if format.as_u64() == Some(FORMAT.into()) => {}
        Some(format) if format.is_number() => return Err(ReadError::OtherFormat { found: format.clone() }),
        Some(_) | None => return Err(ReadError::NotARun("it has no format number".to_owned())),
    }
    // From the text once more, since only then an error names its line.
    serde_json::from_str(text).map_err(|error| ReadError::NotARun(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn a_run_that_is_written_is_read_back_as_it_was() {
        for run in [sample::empty(), sample::cycle(), sample::long_queue(), sample::killed(), sample::hostile()] {
            let back = read(&json(&run)).expect("what was written");
            assert!(format!("{back:?}") == format!("{run:?}"), "{} changed", run.description);
        }
    }

    #[test]
    fn what_is_not_a_number_is_read_back_as_not_a_number() {
        let back = read(&json(&sample::without_numbers())).expect("what was written");
        assert!(back.seconds.is_nan() && back.ratios[0].max.is_nan());
        assert!(back.phases[0].timeline[0].at.is_nan() && back.phases[0].operations[0].distribution[0].0.is_nan());
    }

    #[test]
    fn a_figure_without_a_goal_has_no_such_field() {
        let mut run = sample::cycle();
        assert!(json(&run).contains("\"goal\": {\n        \"atLeast\": 0.75\n      }"));
        run.ratios
            .iter_mut()
            .chain(run.phases.iter_mut().flat_map(|phase| &mut phase.figures))
            .for_each(|it| it.goal = None);
        assert!(!json(&run).contains("\"goal\""));
    }

    #[test]
    fn an_error_says_whether_it_is_no_json_another_format_or_no_run() {
        let whole = json(&sample::cycle());
        for (text, told) in [
            ("loadtest: done", "not JSON: expected value at line 1 column 1"),
            (&whole[..whole.len() / 2], "the JSON ends too early: EOF while parsing"),
            ("", "the JSON ends too early: EOF while parsing a value at line 1 column 0"),
            ("[1, 2]", "JSON, but not a run of a load test: it has no format number"),
            ("{\"scenario\": \"cycle\"}", "JSON, but not a run of a load test: it has no format number"),
            ("{\"format\": 2, \"other\": []}", "a run in format 2, but this loadtest reads format 1"),
            ("{\"format\": 1}", "JSON, but not a run of a load test: missing field `scenario` at line 1 column 13"),
        ] {
            let error = read(text).expect_err(told).to_string();
            assert!(error.starts_with(told), "{error}");
        }
    }
}
