//! Owns the command line: every command with its options and help, and the exit codes.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::cli::options::{EXIT_CLEAN, EXIT_REFUSED, EXIT_WRONG, Refusal, failed, refused, said};
use crate::{report, scenario};

mod compare;
mod linearizability;
mod options;
mod run;

#[derive(Parser)]
#[command(
    name = "loadtest",
    version,
    about = "Drives a Lockkeeper over HTTP as a black box, checks what it saw, and reports",
    after_help = "Exit codes: 0 clean, 1 a rule was broken or something went wrong, 2 refused before the first request, \
    130 interrupted but clean.\n\n\
    Examples:\n  \
    loadtest scenarios\n  \
    loadtest run cycle --server target/dist/lockkeeper --html cycle.html\n  \
    LOCKKEEPER_TOKEN=lk_… loadtest run hot --target http://127.0.0.1:8080 --seconds 5\n  \
    loadtest report before.json after.json --html both.html\n  \
    loadtest compare --server target/dist/lockkeeper --html compare.html\n  \
    loadtest linearizability --server target/dist/lockkeeper"
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a scenario and report the results
    Run(Box<run::Options>),
    /// List the built-in scenarios
    Scenarios,
    /// Print a scenario's file, to read it or to start your own from it
    Show {
        /// One of `loadtest scenarios`
        scenario: String,
    },
    /// Show one or more runs that were written with --json, side by side
    Report {
        /// Files written with --json
        #[arg(required = true, value_name = "RUN.json")]
        runs: Vec<PathBuf>,
        /// Write one page with all of them
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Run the same work against the peers and against bare actix-web, in turns: goals with ratios and spread
    Compare(Box<compare::Options>),
    /// Check that histories of real servers, killed and paused meanwhile, are linearizable
    Linearizability(Box<linearizability::Options>),
}

/// Runs the command given by the arguments (the first is the program's name) and returns the exit code.
pub fn run_with<I, T>(arguments: I) -> u8
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let line = match CommandLine::try_parse_from(arguments) {
        Ok(line) => line,
        Err(error) => {
            // clap reports help and version as errors; for the user they are not.
            _ = error.print();
            return if error.use_stderr() { EXIT_REFUSED } else { EXIT_CLEAN };
        }
    };
    let ended = match line.command {
        Command::Run(options) => run::run(&options),
        Command::Scenarios => Ok(list()),
        Command::Show { scenario } => scenario::find(&scenario).map(|(.., text)| said(&text)).map_err(Refusal::from),
        Command::Report { runs, html } => show_runs(&runs, html),
        Command::Compare(options) => compare::run(*options),
        Command::Linearizability(options) => linearizability::run(*options),
    };
    ended.unwrap_or_else(|Refusal(why)| failed(&why, EXIT_REFUSED))
}

fn list() -> u8 {
    let mut text = String::new();
    for name in scenario::names() {
        let description = scenario::load(name, false, &[]).map(|scenario| scenario.common.description);
        text += &format!("{name:<20}{}\n", description.unwrap_or_else(|error| error.to_string()));
    }
    said(&text)
}

fn show_runs(paths: &[PathBuf], html: Option<PathBuf>) -> Result<u8, Refusal> {
    let mut runs = Vec::with_capacity(paths.len());
    for path in paths {
        let read = std::fs::read_to_string(path).map_err(Refusal::from);
        match read.and_then(|text| Ok(report::read(&text)?)) {
            Ok(run) => runs.push(run),
            Err(Refusal(why)) => return refused(format!("cannot read {}: {why}", path.display())),
        }
    }
    let Some(html) = html else {
        return Ok(said(&runs.iter().map(report::text).collect::<Vec<_>>().join("\n")));
    };
    Ok(match std::fs::write(&html, report::html(&runs)) {
        Ok(()) => EXIT_CLEAN,
        Err(error) => failed(&format!("cannot write {}: {error}", html.display()), EXIT_WRONG),
    })
}
