//! `lockkeeper audit`: verifies the recorded events of a data directory, or asks a server to.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Subcommand;
use serde_json::{Value, json};

use super::complain;
use super::environment::Variables;
use super::operator_socket::{self, SocketError};
use crate::config::{self, Cluster, Flags, Settings};
use crate::http::AuditView;
use crate::{app, telemetry};
use accounts::secrets::{self, FoundAuditKey};
use client::api::Api;
use client::commands::audit::{self as words, EXIT_CANNOT};
use client::connection::options::Options;
use client::failure::Failure;
use domain::Identifier;
use events::{AuditReport, Events, Expectation};

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

/// Why the verification was not possible: one sentence that says what to do.
#[derive(Debug, thiserror::Error)]
enum VerifyError {
    #[error("data directory {0} does not exist; name the server's with --data-dir")]
    NoData(PathBuf),
    #[error(
        "data directory {path} is in use by {holder}, which has no socket; stop it, or copy the directory and verify the copy"
    )]
    InUse { path: PathBuf, holder: store::Holder },
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error("the server of {0} gave no answer that can be read; update it, or stop it")]
    NoAnswer(PathBuf),
    #[error(transparent)]
    Open(store::OpenError),
    #[error("--expect {given:?} {why}")]
    Expectation { given: String, why: domain::Malformed },
    #[error("--expect applies to one organization, and there are {0}; select it with --organization")]
    WhichOrganization(usize),
    #[error("organization {0:?} has no events; without --organization, all organizations are verified")]
    NoSuchOrganization(String),
    #[error("data directory {0} has no events: there is nothing to verify; name the server's with --data-dir")]
    NoEvents(PathBuf),
    #[error(transparent)]
    Secrets(#[from] secrets::OpenError),
    #[error(transparent)]
    Store(#[from] store::StoreError),
    #[error("the cluster has no events: there is nothing to verify")]
    NoEventsInCluster,
    #[error(transparent)]
    Cluster(#[from] app::ClusterError),
}

impl Command {
    /// LOCKKEEPER_URL and the default profile do not count: whoever has set them and names a data directory means the
    /// directory.
    pub fn asks_a_server(&self) -> bool {
        let Command::Verify(Verify { options, .. }) = self;
        options.url.is_some() || options.profile.is_some()
    }
}

pub fn run(command: Command, variables: Variables) -> ExitCode {
    let asks_a_server = command.asks_a_server();
    match command {
        Command::Verify(arguments) if asks_a_server => verify_there(&arguments),
        Command::Verify(arguments) => verify(arguments, variables),
    }
}

fn verify_there(arguments: &Verify) -> ExitCode {
    match ask(arguments) {
        Ok(report) => print(&[report], None, arguments.options.json),
        Err(failure) => complain(EXIT_CANNOT, &failure),
    }
}

fn verify(arguments: Verify, variables: Variables) -> ExitCode {
    let flags = Flags { config: arguments.config.clone(), data_dir: arguments.data_dir.clone(), listen: None };
    let settings = match config::load(&flags, variables) {
        Ok(settings) => settings,
        Err(faults) => return complain(EXIT_CANNOT, &faults),
    };
    if let Err(fault) = telemetry::start_logging(&settings.log) {
        return complain(EXIT_CANNOT, &fault);
    }
    if let Some(cluster) = settings.cluster.as_ref().filter(|_| arguments.data_dir.is_none()) {
        return match verify_cluster(&settings, cluster, &arguments) {
            Ok(reports) => print(&reports, Some(NO_AUDIT_KEY), arguments.options.json),
            Err(error) => complain(EXIT_CANNOT, &error),
        };
    }
    let verified = match verify_events(&settings, &arguments) {
        // A server is using the store, so ask it for the reports.
        Err(in_use @ VerifyError::InUse { .. }) => ask_operator(&settings, &arguments, in_use),
        verified => verified,
    };
    match verified {
        Ok((reports, unchecked)) => print(&reports, unchecked, arguments.options.json),
        Err(error) => complain(EXIT_CANNOT, &error),
    }
}

/// The reports of all shards of a cluster, each read at one moment.
fn verify_cluster(settings: &Settings, cluster: &Cluster, arguments: &Verify) -> Result<Vec<Value>, VerifyError> {
    let expected = expectations(arguments)?;
    let reports = app::audit_cluster(settings, cluster, arguments.organization.as_deref(), &expected)?;
    match (&arguments.organization, reports.len()) {
        (Some(wanted), 0) => Err(VerifyError::NoSuchOrganization(wanted.clone())),
        (None, 0) => Err(VerifyError::NoEventsInCluster),
        (_, count) if count != 1 && !expected.is_empty() => Err(VerifyError::WhichOrganization(count)),
        _ => Ok(reports.iter().map(in_json).collect()),
    }
}

fn expectations(arguments: &Verify) -> Result<Vec<Expectation>, VerifyError> {
    let expected = arguments.expect.iter().map(|given| {
        given.parse::<Expectation>().map_err(|why| VerifyError::Expectation { given: given.clone(), why })
    });
    expected.collect()
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

/// The reports of the server that uses the data directory, over the operator socket; `in_use` if it has no socket.
fn ask_operator(settings: &Settings, arguments: &Verify, in_use: VerifyError) -> Result<Reports, VerifyError> {
    if let Some(wanted) = arguments.organization.as_ref().filter(|name| Identifier::parse(name).is_err()) {
        return Err(VerifyError::NoSuchOrganization(wanted.clone()));
    }
    let Some(all) = from_socket(settings, arguments.organization.as_deref(), &[])? else { return Err(in_use) };
    let first = all.first().map(|report| report["organization"].as_str().unwrap_or_default().to_owned());
    let Some(first) = first else {
        return Err(match &arguments.organization {
            Some(wanted) => VerifyError::NoSuchOrganization(wanted.clone()),
            None => VerifyError::NoEvents(settings.data_dir.clone()),
        });
    };
    if arguments.expect.is_empty() {
        return Ok((all, None));
    }
    if all.len() != 1 {
        return Err(VerifyError::WhichOrganization(all.len()));
    }
    let reports = from_socket(settings, Some(&first), &arguments.expect)?;
    Ok((reports.unwrap_or_default(), None))
}

fn from_socket(
    settings: &Settings,
    organization: Option<&str>,
    expected: &[String],
) -> Result<Option<Vec<Value>>, VerifyError> {
    // Both have been validated; identifiers and digits need no escaping.
    let named = organization.map(|name| format!("organization={name}"));
    let parts: Vec<String> = named.into_iter().chain(expected.iter().map(|head| format!("expect={head}"))).collect();
    let Some(mut body) = operator_socket::get(&settings.data_dir, &format!("/api/v1/audit?{}", parts.join("&")))?
    else {
        return Ok(None);
    };
    let unreadable = || VerifyError::NoAnswer(settings.data_dir.clone());
    let mut text = Vec::new();
    body.by_ref().take(ANSWER_BYTES_MAX).read_to_end(&mut text).map_err(|_| unreadable())?;
    let mut answer: Value = serde_json::from_slice(&text).map_err(|_| unreadable())?;
    match answer["data"].take() {
        Value::Array(reports) => Ok(Some(reports)),
        _ => Err(unreadable()),
    }
}

/// The reports, and why the seals could not be checked.
fn verify_events(settings: &Settings, arguments: &Verify) -> Result<Reports, VerifyError> {
    let expected = expectations(arguments)?;
    // The store would create a missing directory, and a typo would look like an empty journal.
    if !settings.data_dir.exists() {
        return Err(VerifyError::NoData(settings.data_dir.clone()));
    }
    let store = Arc::new(app::open_store(settings, false).map_err(|error| match error {
        store::OpenError::InUse { path, holder } => VerifyError::InUse { path, holder },
        error => VerifyError::Open(error),
    })?);
    let found = secrets::find_audit_key(&*store, &settings.data_dir, settings.master_key.clone())?;
    let unchecked = why_unchecked(&found);
    let events = match found {
        FoundAuditKey::Key(key) => Events::new(store.clone()).with_key(key),
        FoundAuditKey::NotMade | FoundAuditKey::NoMasterKey | FoundAuditKey::DoesNotOpen => Events::new(store.clone()),
    };
    let mut organizations: Vec<Identifier> = events.audited()?.into_iter().collect();
    if let Some(wanted) = &arguments.organization {
        organizations.retain(|organization| organization.as_str() == wanted);
        if organizations.is_empty() {
            return Err(VerifyError::NoSuchOrganization(wanted.clone()));
        }
    }
    if organizations.is_empty() {
        return Err(VerifyError::NoEvents(settings.data_dir.clone()));
    }
    if !expected.is_empty() && organizations.len() != 1 {
        return Err(VerifyError::WhichOrganization(organizations.len()));
    }
    let reports = organizations.iter().map(|organization| Ok(in_json(&events.audit(organization, &expected)?)));
    let reports = reports.collect::<Result<Vec<_>, store::StoreError>>()?;
    store.close();
    Ok((reports, unchecked))
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
