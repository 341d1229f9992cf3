//! `lockkeeper backup` and `lockkeeper restore`.

use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;

use super::environment::Variables;
use super::{EXIT_FAILED, Failed, check_exists, load, operator_socket, say, start_logging};
use crate::app;
use crate::backup::{self, Header, Restored, SaveError, Saved, Totals};
use crate::config::{Flags, Settings};
use accounts::secrets::{self, MasterKey};
use client::Failure;
use client::api::{Api, Stream};
use client::connection::options::Options;
use client::retry::Retrying;
use delivery::logs::{self, Logs};
use events::Events;
use store::{NewDataDir, OpenError};

/// The tokens of eleven days at a thousand grants per second in one environment.
pub const FENCING_MARGIN: u64 = 1_000_000_000;
/// Thousands of restores with this margin still keep tokens exact as JSON numbers.
pub const FENCING_MARGIN_MAX: u64 = 1_000_000_000_000;
/// The disk failed: EX_IOERR of `sysexits.h`.
const EXIT_DISK: i32 = 74;
const STANDARD: &str = "-";

#[derive(clap::Args)]
pub struct Backup {
    /// The file to write, which must not exist yet; - for standard output
    file: PathBuf,
    /// Back up this data directory: by the socket of the server that runs there, or by itself if none does. Without it,
    /// the backup is taken over the API
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The settings file of the server, which names the data directory
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

#[derive(clap::Args)]
pub struct Restore {
    /// The backup; - for standard input
    file: PathBuf,
    /// The data directory to make; it must be missing or empty
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// How many fencing tokens every environment skips: more than it can have given since the backup
    #[arg(long, value_name = "NUMBER", default_value_t = FENCING_MARGIN,
          value_parser = clap::value_parser!(u64).range(1..=FENCING_MARGIN_MAX))]
    fencing_margin: u64,
}

const OF_CLUSTER: &str = "the records of a cluster lie in its engine; copy them into a data directory with `lockkeeper cluster \
                          export --to DIR`, and make one file of that with `lockkeeper backup FILE --data-dir DIR` if you want one";

impl Backup {
    /// Whether the backup is taken over the API.
    pub fn is_remote(&self) -> bool {
        self.data_dir.is_none() && self.config.is_none()
    }
}

/// Takes the backup over the API, as a client.
pub fn run_remote(arguments: &Backup) -> ExitCode {
    match take_remote(arguments) {
        Ok(saved) => report(arguments, &saved),
        Err(failure) => client::report(&failure),
    }
}

fn take_remote(arguments: &Backup) -> Result<Saved, Failure> {
    check_new(&arguments.file).map_err(|error| Failure::Failed(error.to_string()))?;
    let failed = |error: io::Error| Failure::Failed(format!("cannot start: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let stream = runtime.block_on(async {
        let api = Api::connect(&arguments.options).await?;
        Ok::<_, Failure>(api.stream("/api/v1/backup", None, &Retrying::silent()).await?)
    })?;
    let mut body = Remote { runtime, stream, piece: Vec::new(), read: 0, failed: None };
    save(&mut body, &arguments.file).map_err(|error| match (body.failed.take(), error) {
        (Some(failure), _) => failure,
        (None, error) => Failure::Failed(error.to_string()),
    })
}

/// Takes the backup of a data directory, as its operator.
pub fn run(arguments: &Backup, variables: Variables) -> Result<ExitCode, Failed> {
    let flags = Flags { config: arguments.config.clone(), data_dir: arguments.data_dir.clone(), listen: None };
    let settings = load(&flags, variables)?;
    start_logging(&settings.log)?;
    if settings.cluster.is_some() && arguments.data_dir.is_none() {
        return Err(Failed::new(EXIT_FAILED, OF_CLUSTER));
    }
    check_exists(&settings.data_dir)?;
    check_new(&arguments.file)?;
    let saved = match operator_socket::get(&settings.data_dir, "/api/v1/backup")? {
        Some(body) => save(body, &arguments.file)?,
        None => take_offline(&settings, &arguments.file)?,
    };
    Ok(report(arguments, &saved))
}

/// Takes the backup while no server runs.
fn take_offline(settings: &Settings, file: &Path) -> Result<Saved, Failed> {
    let store = app::open_store(settings, false).map_err(|error| match error {
        OpenError::OfNode { .. } => Failed::new(EXIT_FAILED, OF_CLUSTER),
        OpenError::InUse { path, holder } => {
            let path = path.display();
            let sentence = format!(
                "data directory {path} is in use by {holder}, which has no operator's socket: it is starting or stopping, or of an \
                 earlier version; try again, or stop it"
            );
            Failed::new(EXIT_FAILED, sentence)
        }
        error => error.into(),
    })?;
    let store = std::sync::Arc::new(store);
    let master_key = secrets::fingerprint(&settings.data_dir, settings.master_key.as_ref())?;
    let organizations = Events::new(store.clone()).audited()?;
    let about = backup::About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: now(),
        organizations: organizations.iter().map(|organization| organization.as_str().to_owned()).collect(),
        master_key,
    };
    let unread = |error: io::Error| Failed::new(EXIT_FAILED, format!("cannot read the logs of deployments: {error}"));
    let logs = Logs::open(&settings.data_dir.join(logs::FOLDER), settings.storage.deployment_log_bytes);
    let logs = logs.map_err(unread)?;
    let (reader, writer) = io::pipe().map_err(unread)?;
    let saved = std::thread::scope(|threads| {
        // The reader learns of a failure from the stream.
        threads.spawn(|| backup::make(&store, &logs, about, io::BufWriter::new(writer)));
        save(reader, file)
    })?;
    store.close();
    Ok(saved)
}

fn now() -> String {
    // In milliseconds, like a server.
    let now = jiff::Timestamp::now().as_millisecond();
    jiff::Timestamp::from_millisecond(now).unwrap_or_default().to_string()
}

fn check_new(file: &Path) -> Result<(), SaveError> {
    if file == Path::new(STANDARD) { Ok(()) } else { backup::check_new(file) }
}

fn save(body: impl Read, file: &Path) -> Result<Saved, SaveError> {
    if file != Path::new(STANDARD) {
        return backup::save(body, file);
    }
    let out = io::stdout();
    if out.is_terminal() {
        let source = io::Error::other("it is a terminal; redirect it, or name a file");
        return Err(SaveError::Write { path: "standard output".into(), source });
    }
    backup::save_to(body, out.lock(), Path::new("standard output"))
}

fn report(arguments: &Backup, saved: &Saved) -> ExitCode {
    let Saved { header: Header { about, .. }, totals, bytes } = saved;
    let file = arguments.file.display();
    let text = if arguments.options.json {
        let Totals { sequence, pairs, batches, logs } = totals;
        json!({
            "file": file.to_string(), "bytes": bytes, "createdAt": about.created_at, "version": about.version,
            "organizations": about.organizations, "masterKey": about.master_key, "sequence": sequence, "records": pairs,
            "batches": batches, "logs": logs,
        })
        .to_string()
    } else {
        let key = match &about.master_key {
            Some(key) => format!("It needs the master key with the fingerprint {key}, which is not in it."),
            None => "The master key was not there to be looked at; it is not in the backup.".to_owned(),
        };
        format!(
            "{file}: {bytes} bytes, {} records and {} logs of {}, as of {}. {key}",
            totals.pairs,
            totals.logs,
            about.organizations.join(", "),
            about.created_at
        )
    };
    if arguments.file == Path::new(STANDARD) {
        // The backup went to standard output, so exit with 0 even if stderr is closed.
        writeln!(io::stderr(), "{text}").ok();
        return ExitCode::SUCCESS;
    }
    say(&text)
}

/// A stream of the API, for a thread that may block.
struct Remote {
    runtime: tokio::runtime::Runtime,
    stream: Stream,
    piece: Vec<u8>,
    read: usize,
    failed: Option<Failure>,
}

impl Read for Remote {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.read == self.piece.len() {
            match self.runtime.block_on(self.stream.next()) {
                Ok(Some(piece)) => (self.piece, self.read) = (piece, 0),
                Ok(None) => return Ok(0),
                Err(error) => {
                    self.failed = Some(error.into());
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
            }
        }
        let read = bytes.len().min(self.piece.len() - self.read);
        bytes[..read].copy_from_slice(&self.piece[self.read..self.read + read]);
        self.read += read;
        Ok(read)
    }
}

pub fn restore(arguments: &Restore, variables: &Variables) -> Result<ExitCode, Failed> {
    let Restore { file, data_dir, fencing_margin } = arguments;
    let unread = |error| Failed::new(EXIT_FAILED, format!("cannot read {}: {error}", file.display()));
    let input = backup::open(file).map_err(unread)?;
    let restored = backup::restore(input, data_dir, *fencing_margin, options(data_dir))?;
    let wanted = restored.header.about.master_key.as_deref();
    wanted.into_iter().for_each(|fingerprint| secrets::note_fingerprint(data_dir, fingerprint));
    let key = about_key(wanted, given_fingerprint(variables).as_deref(), data_dir);
    Ok(say(&format!("{}\n{key}", in_words(&restored, data_dir, *fencing_margin))))
}

/// A server's default options, except that a failing disk leaves nothing behind.
pub fn options(data_dir: &Path) -> store::Options {
    let data_dir = data_dir.to_owned();
    let fatal: store::Fatal = std::sync::Arc::new(move |sentence| {
        NewDataDir::remove_unfinished(&data_dir);
        writeln!(io::stderr(), "lockkeeper: {sentence}").ok();
        std::process::exit(EXIT_DISK);
    });
    // Small segments: the server creates later ones as its settings say.
    store::Options { segment_bytes: store::MIN_SEGMENT_BYTES, min_free_bytes: 0, fatal, ..store::Options::default() }
}

fn in_words(restored: &Restored, data_dir: &Path, margin: u64) -> String {
    let Restored { header: Header { about, .. }, totals, environments } = restored;
    let dir = data_dir.display();
    format!(
        "Restored {dir}: {} records and {} logs of {}, as of {}.\n\
         The next fencing token of each of the {environments} environments is {margin} higher, and of new ones too.",
        totals.pairs,
        totals.logs,
        about.organizations.join(", "),
        about.created_at
    )
}

/// What to do about the master key, without which no server starts on the restored data.
fn about_key(wanted: Option<&str>, given: Option<&str>, data_dir: &Path) -> String {
    let dir = data_dir.display();
    let fingerprint = wanted.map(|wanted| format!(" (fingerprint {wanted})")).unwrap_or_default();
    match given {
        Some(given) if wanted == Some(given) => {
            format!("LOCKKEEPER_MASTER_KEY has the master key of the backup{fingerprint}; set it for the server too.")
        }
        Some(given) if wanted.is_some() => format!(
            "LOCKKEEPER_MASTER_KEY has another key (fingerprint {given}), with which no server starts on it: bring the master key of \
             the backup{fingerprint}."
        ),
        Some(_) | None => format!(
            "The server does not start without the master key of the backup{fingerprint}: put it into {dir}/master.key with mode \
             600, or set LOCKKEEPER_MASTER_KEY to it."
        ),
    }
}

fn given_fingerprint(variables: &Variables) -> Option<String> {
    let (_, text) = variables.iter().find(|(name, _)| name == "LOCKKEEPER_MASTER_KEY")?;
    MasterKey::parse(text.to_str()?).ok().map(|key| key.fingerprint())
}
