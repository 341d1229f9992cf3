//! `lockkeeper doctor`: looks at everything that a server needs, and says what to do.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use super::environment::Variables;
use super::output::{EXIT_FAILED, say};
use crate::config::{self, Flags};
use crate::doctor::{self, Finding, Level};
use client::connection::options::Options;

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

pub fn run(arguments: Doctor, variables: Variables) -> ExitCode {
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
