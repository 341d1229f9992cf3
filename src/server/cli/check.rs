//! The commands that check before a server starts. `lockkeeper check`: the files it would use, and what they would
//! change in its data. `lockkeeper doctor`: everything it needs, and what to do.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;

use super::environment::Variables;
use super::{EXIT_CONFIG, EXIT_FAILED, Failed, check_exists, say};
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

pub fn check(arguments: &Check) -> Result<ExitCode, Failed> {
    let summary = config::check_file(&arguments.file).map_err(|faults| Failed::new(EXIT_CONFIG, faults))?;
    let Some(data_dir) = &arguments.data_dir else { return Ok(say(&summary.to_string())) };
    let lines = differences(&summary, data_dir)?;
    let differences = if lines.is_empty() { "nothing would change".to_owned() } else { lines.join("\n") };
    Ok(say(&format!("{summary}\n{differences}")))
}

fn differences(summary: &Summary, data_dir: &Path) -> Result<Vec<String>, Failed> {
    check_exists(data_dir)?;
    // Opening the store creates files that would belong to us, and the server could not start.
    if data_dir.metadata()?.uid() != rustix::process::geteuid().as_raw() {
        let advice = "run this as the server's user, or on a copy of your own";
        let sentence = format!("data directory {} belongs to another user; {advice}", data_dir.display());
        return Err(Failed::new(EXIT_FAILED, sentence));
    }
    let segment_bytes = store::MIN_SEGMENT_BYTES;
    let options = store::Options { segment_bytes, min_free_bytes: 0, ..store::Options::default() };
    let store = LoggedStore::open(data_dir, options).map_err(|error| match error {
        OpenError::InUse { path, holder } => {
            let path = path.display();
            let sentence = format!(
                "data directory {path} is in use by {holder}; stop it, or compare with a copy: `lockkeeper backup - --data-dir \
                 {path} | lockkeeper restore - --data-dir COPY`"
            );
            Failed::new(EXIT_FAILED, sentence)
        }
        error => error.into(),
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
    format!("{:#}", json!({ "level": worst(findings), "findings": findings }))
}
