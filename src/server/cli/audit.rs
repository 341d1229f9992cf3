//! `lockkeeper audit`: verifies the recorded events of a data directory, or asks a server to.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Subcommand;
use serde_json::{Value, json};

use super::environment::Variables;
use super::{Failed, check_exists, load, operator_socket, start_logging};
use crate::app;
use crate::config::{Flags, Settings};
use crate::http::AuditView;
use accounts::secrets::FoundAuditKey;
use client::api::Api;
use client::commands::audit::{self as words, EXIT_CANNOT};
use client::connection::options::Options;
use client::failure::Failure;
use domain::Identifier;
use events::{AuditReport, Expectation};
use store::OpenError;

/// A report has some hundred bytes, and a server at most some thousand organizations.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Why seals could not be checked.
const NO_AUDIT_KEY: &str = "the key that made them is missing";

/// The report of each organization, and why the seals could not be checked.
type Reports = (Vec<Value>, Option<&'static str>);

#[derive(Subcommand)]
pub enum Command {
    /// Find events that were changed, removed, inserted or moved
    #[command(
        after_help = "Each event is chained to the one before it by a hash, and the server seals the chain every second with a \
                      key that lies in the data directory only encrypted under the master key. Somebody with write access to the \
                      data directory and without the master key could replace the whole chain, but not the seals. To check them, \
                      this command needs the master key as the server does: from LOCKKEEPER_MASTER_KEY, or from the file \
                      master.key.\n\n\
                      The seals do not show that the data directory as a whole was put back to an earlier state. So store the \
                      printed head in a safe place now and then, and pass it with --expect later. The `eventId` and `hash` of any \
                      event from the API work too, as EVENT_ID:HASH.\n\n\
                      A server that runs on the data directory is asked to verify by itself, through its socket. \
                      With the settings of a node of a cluster and without --data-dir, the events of all shards are verified, \
                      while the nodes serve them. \
                      With --url or --profile, the server there verifies the events of the organization itself, while it \
                      serves; that takes a token of an admin.\n\n\
                      Exit codes: 0 intact, 1 broken, 2 verification not possible, or not in full.\n\n\
                      Examples:\n  lockkeeper audit verify --data-dir /var/lib/lockkeeper\n  \
                      lockkeeper audit verify --organization acme --expect 1233:9f86d081…\n  \
                      lockkeeper audit verify --url https://lockkeeper.example"
    )]
    Verify(Verify),
}

#[derive(clap::Args)]
pub struct Verify {
    /// The settings file of the server; also LOCKKEEPER_CONFIG
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory of the server, or a copy of it; also LOCKKEEPER_DATA_DIR
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Only this organization of the data directory
    #[arg(long, value_name = "ORG", conflicts_with_all = ["url", "profile"])]
    organization: Option<String>,
    /// A head printed by an earlier run, which must still be part of the chain; may be repeated
    #[arg(long, value_name = "NUMBER:HASH")]
    expect: Vec<String>,
    #[command(flatten)]
    options: Options,
}

impl Command {
    /// LOCKKEEPER_URL and the default profile do not count: whoever has set them and names a data directory means the
    /// directory.
    pub fn asks_a_server(&self) -> bool {
        let Command::Verify(Verify { options, .. }) = self;
        options.url.is_some() || options.profile.is_some()
    }
}

pub fn run(command: Command, variables: Variables) -> Result<ExitCode, Failed> {
    let asks_a_server = command.asks_a_server();
    let Command::Verify(arguments) = command;
    let verified = if asks_a_server {
        let report = ask(&arguments).map_err(cannot);
        report.map(|report| (vec![report], None))
    } else {
        verify(&arguments, variables)
    };
    match verified {
        Ok((reports, unchecked)) => Ok(print(&reports, unchecked, arguments.options.json)),
        Err(failed) => Err(cannot(failed.sentence)),
    }
}

fn cannot(sentence: impl std::fmt::Display) -> Failed {
    Failed::new(EXIT_CANNOT, sentence)
}

fn verify(arguments: &Verify, variables: Variables) -> Result<Reports, Failed> {
    let flags = Flags { config: arguments.config.clone(), data_dir: arguments.data_dir.clone(), listen: None };
    let settings = load(&flags, variables)?;
    start_logging(&settings.log)?;
    let (organization, expected) = (arguments.organization.as_deref(), expectations(arguments)?);
    if let Some(cluster) = settings.cluster.as_ref().filter(|_| arguments.data_dir.is_none()) {
        let reports = app::audit_cluster(&settings, cluster, organization, &expected)?;
        let none = "the cluster has no events: there is nothing to verify";
        check_count(arguments, reports.len(), none.to_owned())?;
        return Ok((reports.iter().map(in_json).collect(), Some(NO_AUDIT_KEY)));
    }
    check_exists(&settings.data_dir)?;
    let store = match app::open_store(&settings, false) {
        Ok(store) => Arc::new(store),
        Err(in_use @ OpenError::InUse { .. }) => return ask_operator(&settings, arguments, in_use),
        Err(error) => return Err(error.into()),
    };
    let keys = (&*settings.data_dir, settings.master_key.as_ref());
    let (reports, found) = app::audit_store(store.clone(), keys, organization, &expected)?;
    check_count(arguments, reports.len(), no_events(&settings))?;
    store.close();
    Ok((reports.iter().map(in_json).collect(), why_unchecked(&found)))
}

fn expectations(arguments: &Verify) -> Result<Vec<Expectation>, Failed> {
    let read = |given: &String| given.parse().map_err(|why| cannot(format!("--expect {given:?} {why}")));
    arguments.expect.iter().map(read).collect()
}

/// Refuses a wrong number of organizations. `none`: the sentence if there is none at all.
fn check_count(arguments: &Verify, count: usize, none: String) -> Result<(), Failed> {
    let sentence = match (&arguments.organization, count) {
        (Some(wanted), 0) => {
            format!("organization {wanted:?} has no events; without --organization, all organizations are verified")
        }
        (None, 0) => none,
        (_, count) if count != 1 && !arguments.expect.is_empty() => {
            format!("--expect applies to one organization, and there are {count}; select it with --organization")
        }
        _ => return Ok(()),
    };
    Err(cannot(sentence))
}

fn no_events(settings: &Settings) -> String {
    let dir = settings.data_dir.display();
    format!("data directory {dir} has no events: there is nothing to verify; name the server's with --data-dir")
}

/// The report that a server makes.
fn ask(arguments: &Verify) -> Result<Value, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Failed(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let api = Api::connect(&arguments.options).await?;
        words::verify(&api, &arguments.expect).await
    })
}

/// The reports of the server that uses the data directory, over the operator socket.
fn ask_operator(settings: &Settings, arguments: &Verify, in_use: OpenError) -> Result<Reports, Failed> {
    // An invalid name cannot be sent, and no organization has it.
    if arguments.organization.as_ref().is_some_and(|name| Identifier::parse(name).is_err()) {
        check_count(arguments, 0, String::new())?;
    }
    let Some(all) = from_socket(settings, arguments.organization.as_deref(), &[])? else {
        let OpenError::InUse { path, holder } = in_use else { return Err(in_use.into()) };
        let path = path.display();
        return Err(cannot(format!(
            "data directory {path} is in use by {holder}, which has no socket; stop it, or copy the directory and verify the copy"
        )));
    };
    check_count(arguments, all.len(), no_events(settings))?;
    if arguments.expect.is_empty() {
        return Ok((all, None));
    }
    let reports = from_socket(settings, all[0]["organization"].as_str(), &arguments.expect)?;
    Ok((reports.unwrap_or_default(), None))
}

fn from_socket(
    settings: &Settings,
    organization: Option<&str>,
    expected: &[String],
) -> Result<Option<Vec<Value>>, Failed> {
    // Both have been validated; identifiers and digits need no escaping.
    let named = organization.map(|name| format!("organization={name}"));
    let parts: Vec<String> = named.into_iter().chain(expected.iter().map(|head| format!("expect={head}"))).collect();
    let Some(mut body) = operator_socket::get(&settings.data_dir, &format!("/api/v1/audit?{}", parts.join("&")))?
    else {
        return Ok(None);
    };
    let dir = settings.data_dir.display();
    let unreadable = || cannot(format!("the server of {dir} gave no answer that can be read; update it, or stop it"));
    let mut text = Vec::new();
    body.by_ref().take(ANSWER_BYTES_MAX).read_to_end(&mut text).map_err(|_| unreadable())?;
    let mut answer: Value = serde_json::from_slice(&text).map_err(|_| unreadable())?;
    match answer["data"].take() {
        Value::Array(reports) => Ok(Some(reports)),
        _ => Err(unreadable()),
    }
}

const fn why_unchecked(found: &FoundAuditKey) -> Option<&'static str> {
    match found {
        FoundAuditKey::Key(_) => None,
        FoundAuditKey::NotMade => Some(NO_AUDIT_KEY),
        FoundAuditKey::NoMasterKey => Some("there is no master key: set LOCKKEEPER_MASTER_KEY as for the server"),
        FoundAuditKey::DoesNotOpen => {
            Some("the master key is another one than the server's: set LOCKKEEPER_MASTER_KEY to that")
        }
    }
}

fn print(reports: &[Value], unchecked: Option<&str>, as_json: bool) -> ExitCode {
    let text = if as_json {
        words::in_json(reports).to_string()
    } else {
        let lines: Vec<String> = reports.iter().flat_map(|report| words::lines(report, unchecked)).collect();
        lines.join("\n")
    };
    if writeln!(std::io::stdout(), "{text}").is_err() {
        return ExitCode::from(EXIT_CANNOT);
    }
    ExitCode::from(words::code(reports))
}

/// In the same form as the API.
fn in_json(report: &AuditReport) -> Value {
    json!(AuditView::new(report))
}
