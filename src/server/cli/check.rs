//! The commands that check before a server starts. `lockkeeper check`: the files it would use, and what they would
//! change in its data. `lockkeeper doctor`: everything it needs, and what to do.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;

use super::environment::Variables;
use super::{EXIT_CONFIG, EXIT_FAILED, complain, say};
use crate::app;
use crate::config::{self, Flags, Summary};
use crate::doctor::{self, Finding, Level};
use client::connection::options::Options;
use store::{LoggedStore, OpenError};

#[derive(clap::Args)]
pub struct Check {
    /// The file; files that it names are checked too
    file: PathBuf,
    /// Also show what the files would create, change and remove in a data directory, which no server uses; as the
    /// server's user
    #[arg(long, requires = "data_dir")]
    diff: bool,
    /// The data directory to compare with
    #[arg(long, value_name = "DIR", requires = "diff")]
    data_dir: Option<PathBuf>,
}

/// Why the files could not be compared with the data.
#[derive(Debug, thiserror::Error)]
enum DiffError {
    #[error("data directory {0} does not exist; name the server's with --data-dir")]
    NoData(PathBuf),
    #[error("data directory {0} belongs to another user; run this as the server's user, or on a copy of your own")]
    NotOurs(PathBuf),
    #[error(
        "data directory {path} is in use by {holder}; stop it, or compare with a copy: `lockkeeper backup - --data-dir {path} | \
         lockkeeper restore - --data-dir COPY`"
    )]
    InUse { path: PathBuf, holder: store::Holder },
    #[error(transparent)]
    Open(OpenError),
    #[error(transparent)]
    Store(#[from] store::StoreError),
}

pub fn check(arguments: &Check) -> ExitCode {
    let summary = match config::check_file(&arguments.file) {
        Ok(summary) => summary,
        Err(faults) => return complain(EXIT_CONFIG, &faults),
    };
    let Some(data_dir) = &arguments.data_dir else { return say(&summary.to_string()) };
    match differences(&summary, data_dir) {
        Ok(lines) if lines.is_empty() => say(&format!("{summary}\nnothing would change")),
        Ok(lines) => say(&format!("{summary}\n{}", lines.join("\n"))),
        Err(error) => complain(EXIT_FAILED, &error),
    }
}

fn differences(summary: &Summary, data_dir: &Path) -> Result<Vec<String>, DiffError> {
    // The store would create a missing directory.
    let Ok(found) = data_dir.metadata() else { return Err(DiffError::NoData(data_dir.to_owned())) };
    // Opening the store creates files that would belong to us, and the server could not start.
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(DiffError::NotOurs(data_dir.to_owned()));
    }
    let segment_bytes = store::MIN_SEGMENT_BYTES;
    let options = store::Options { segment_bytes, min_free_bytes: 0, ..store::Options::default() };
    let store = LoggedStore::open(data_dir, options);
    let store = store.map_err(|error| match error {
        OpenError::InUse { path, holder } => DiffError::InUse { path, holder },
        error => DiffError::Open(error),
    })?;
    let mut lines = Vec::new();
    for (_, organization) in &summary.organizations {
        lines.append(&mut app::differences(&store, organization)?);
    }
    store.close();
    Ok(lines)
}

#[derive(clap::Args)]
pub struct Doctor {
    /// The settings file of the server; also LOCKKEEPER_CONFIG
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory of the server; also LOCKKEEPER_DATA_DIR
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The address that the server listens on; also LOCKKEEPER_LISTEN
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    #[command(flatten)]
    options: Options,
}

pub fn run_doctor(arguments: Doctor, variables: Variables) -> ExitCode {
    let Doctor { config, data_dir, listen, options } = arguments;
    let mut findings = doctor::examine(&config::load_to_serve(&Flags { config, data_dir, listen }, variables));
    findings.extend(doctor::examine_connection(&options));
    let printed = say(&if options.json { in_json(&findings) } else { in_words(&findings) });
    if worst(&findings) == Level::Fault { ExitCode::from(EXIT_FAILED) } else { printed }
}

fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
}

fn in_words(findings: &[Finding]) -> String {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let mut lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    lines.push(match (count(Level::Fault), count(Level::Warning)) {
        (0, 0) => "All is well.".to_owned(),
        (faults, warnings) => format!("Faults: {faults}, warnings: {warnings}."),
    });
    lines.join("\n")
}

fn in_json(findings: &[Finding]) -> String {
    let each = |finding: &Finding| {
        let Finding { level, subject, words, advice } = finding;
        json!({ "level": level.as_str(), "subject": subject, "words": words, "advice": advice })
    };
    let level = worst(findings).as_str();
    format!("{:#}", json!({ "level": level, "findings": findings.iter().map(each).collect::<Vec<_>>() }))
}
