//! Exit codes, and what is printed on the way out.

use std::io::Write;

use crate::cli::files::Files;
use crate::report::Verdict;
use crate::report::model::Run;

/// No violation and no error.
pub const EXIT_CLEAN: u8 = 0;
/// A rule was broken, or something went wrong that the scenario does not provide for.
pub const EXIT_WRONG: u8 = 1;
/// Refused before the first request.
pub const EXIT_REFUSED: u8 = 2;
/// Ended by Ctrl-C, and clean until then.
pub const EXIT_INTERRUPTED: u8 = 130;

/// Writes the files of a run, and gives its exit code. A missed goal is not a failure.
pub fn reported(run: &Run, files: Files) -> u8 {
    if let Err(error) = files.write(run) {
        return failed(&format!("cannot write the report: {error}"), EXIT_WRONG);
    }
    match run.verdict() {
        Verdict::Errors | Verdict::Violations => EXIT_WRONG,
        Verdict::Clean if run.interrupted => EXIT_INTERRUPTED,
        Verdict::Clean => EXIT_CLEAN,
    }
}

/// Prints on stdout.
pub fn said(text: &str) -> u8 {
    // A closed pipe, as in `loadtest scenarios | head -1`, is not a failure.
    _ = std::io::stdout().lock().write_all(text.as_bytes());
    EXIT_CLEAN
}

pub fn failed(why: &str, code: u8) -> u8 {
    eprintln!("loadtest: {why}");
    code
}
