//! Owns the parts shared by the commands: where a report is written, the checks before the first request, the exit
//! codes.

use std::fs::File;
use std::io;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::interruption::Interruption;
use crate::report;
use crate::report::{Run, Verdict};
use crate::server::kill_all;

/// No violations and no errors.
pub const EXIT_CLEAN: u8 = 0;
/// A rule was broken, or an error occurred that the scenario does not expect.
pub const EXIT_WRONG: u8 = 1;
/// Refused before the first request.
pub const EXIT_REFUSED: u8 = 2;
/// Ended by Ctrl-C, and clean until then.
pub const EXIT_INTERRUPTED: u8 = 130;
/// Open files that are not connections: the standard streams, epoll and waker of every runtime, the report.
const SPARE_FILES: u64 = 300;

/// Why a command ends before its first request. Only printed, so any error can be converted into a refusal.
#[derive(Debug)]
pub struct Refusal(pub String);

impl<E: std::error::Error> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

pub fn refused<T>(why: String) -> Result<T, Refusal> {
    Err(Refusal(why))
}

#[derive(Args)]
pub struct FileOptions {
    /// Write the report as JSON, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as a page, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub struct Files {
    json: Option<File>,
    html: Option<File>,
}

impl FileOptions {
    /// Opens the files before the run, so that a bad path is reported before it.
    pub fn open(&self) -> Result<Files, Refusal> {
        let create = |path: &Option<PathBuf>| match path {
            Some(path) => match File::create(path) {
                Ok(file) => Ok(Some(file)),
                Err(error) => refused(format!("cannot write {}: {error}", path.display())),
            },
            None => Ok(None),
        };
        Ok(Files { json: create(&self.json)?, html: create(&self.html)? })
    }
}

impl Files {
    fn write(self, run: &Run) -> io::Result<()> {
        if let Some(mut json) = self.json {
            json.write_all(report::json(run).as_bytes())?;
        }
        if let Some(mut html) = self.html {
            html.write_all(report::html(std::slice::from_ref(run)).as_bytes())?;
        }
        Ok(())
    }
}

/// Writes the files of a run, and returns its exit code. A missed goal is not a failure.
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

/// Prints to stdout, and returns the exit code.
pub fn said(text: &str) -> u8 {
    // A closed pipe, as in `loadtest scenarios | head -1`, is not a failure.
    _ = io::stdout().lock().write_all(text.as_bytes());
    EXIT_CLEAN
}

pub fn failed(why: &str, code: u8) -> u8 {
    eprintln!("loadtest: {why}");
    code
}

/// The first interruption stops the run, the second quits immediately.
pub fn end_early(mut interruption: Interruption, told: &'static str) -> watch::Receiver<bool> {
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        interruption.comes().await;
        eprintln!("{told}; Ctrl-C again quits at once");
        stop.send_replace(true);
        interruption.comes().await;
        kill_all();
        std::process::exit(EXIT_INTERRUPTED.into());
    });
    stopped
}

/// A single-threaded runtime: the other processors of the machine are for the servers.
pub fn runtime() -> Result<Runtime, Refusal> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot_start)
}

pub fn cannot_start(error: io::Error) -> Refusal {
    Refusal(format!("cannot start: {error}"))
}

/// A cluster needs etcd to be installed, because its members are started on this machine.
pub fn has_etcd() -> Result<(), Refusal> {
    match Command::new("etcd").arg("--version").output() {
        Ok(_) => Ok(()),
        Err(_) => refused("there is no program at etcd: install etcd, which a cluster needs".to_owned()),
    }
}

/// Raises the limit of open files as far as the system allows; servers started from here inherit it.
pub fn enough_files(connections: u32) -> Result<(), Refusal> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, the limit stays unchanged and is checked next.
    _ = setrlimit(Resource::Nofile, limit);
    match getrlimit(Resource::Nofile).current.filter(|limit| *limit < u64::from(connections) + SPARE_FILES) {
        Some(limit) => refused(format!(
            "{connections} connections need more open files than the limit of {limit}: raise it with `ulimit -n`"
        )),
        None => Ok(()),
    }
}
