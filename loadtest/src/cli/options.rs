//! Owns what the commands share: where a report is written, what must be right before the first request, the exit codes.

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

/// No violation and no error.
pub const EXIT_CLEAN: u8 = 0;
/// A rule was broken, or something went wrong that the scenario does not provide for.
pub const EXIT_WRONG: u8 = 1;
/// Refused before the first request.
pub const EXIT_REFUSED: u8 = 2;
/// Ended by Ctrl-C, and clean until then.
pub const EXIT_INTERRUPTED: u8 = 130;
/// Open files that are not connections: the standard streams, epoll and waker of every runtime, the report.
const SPARE_FILES: u64 = 300;

/// Why a command ends before its first request. Only shown, so any error becomes one.
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
    /// Before the run, so that a bad path does not come to light after it.
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
    _ = io::stdout().lock().write_all(text.as_bytes());
    EXIT_CLEAN
}

pub fn failed(why: &str, code: u8) -> u8 {
    eprintln!("loadtest: {why}");
    code
}

/// The first interruption stops what runs, the second quits immediately.
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

/// One thread; the machine's other processors are the servers'.
pub fn runtime() -> Result<Runtime, Refusal> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot_start)
}

pub fn cannot_start(error: io::Error) -> Refusal {
    Refusal(format!("cannot start: {error}"))
}

/// The members of a cluster's etcd are started here.
pub fn has_etcd() -> Result<(), Refusal> {
    match Command::new("etcd").arg("--version").output() {
        Ok(_) => Ok(()),
        Err(_) => refused("there is no program at etcd: install etcd, which a cluster needs".to_owned()),
    }
}

/// Takes what the system lets us take; a server that we start has the same limit.
pub fn enough_files(connections: u32) -> Result<(), Refusal> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where that is not allowed, the limit stays as it is, and is judged next.
    _ = setrlimit(Resource::Nofile, limit);
    match getrlimit(Resource::Nofile).current.filter(|limit| *limit < u64::from(connections) + SPARE_FILES) {
        Some(limit) => refused(format!(
            "{connections} connections need more open files than the limit of {limit}: raise it with `ulimit -n`"
        )),
        None => Ok(()),
    }
}
