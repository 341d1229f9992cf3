//! Owns what the commands share: the options that say which server is loaded and where a report is written, what must be
//! right before the first request, and the exit codes.

use std::fs::File;
use std::io;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::sync::watch;

use crate::interruption::Interruption;
use crate::report;
use crate::report::{Run, Verdict};
use crate::scenario::ScenarioError;
use crate::server::{ProcessError, Source, Target, TargetError, kill_all, usage};
use crate::wire::{Token, TokenError};

#[derive(Args)]
pub struct Against {
    /// A lockkeeper program to start and load
    #[arg(long, value_name = "PATH", conflicts_with_all = ["target", "allow_remote", "server_pid", "token_file"])]
    server: Option<PathBuf>,
    /// A running server to load, http://HOST[:PORT]; loopback only, unless --allow-remote
    #[arg(long, value_name = "URL")]
    target: Option<String>,
    /// Load a server that is not on this machine
    #[arg(long)]
    allow_remote: bool,
    /// File that holds the running server's token, instead of LOCKKEEPER_TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Process of the running server, to report its CPU time and memory
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// Organization to claim environments in
    #[arg(long, value_name = "NAME", default_value = "acme")]
    pub organization: String,
    /// Pipeline to claim environments in
    #[arg(long, value_name = "NAME", default_value = "web")]
    pub pipeline: String,
}

impl Against {
    pub fn is_ours(&self) -> bool {
        self.server.is_some()
    }

    /// Judged, and reached if it runs already.
    pub fn source(&self, default_target: Option<&str>) -> Result<Source, Refusal> {
        identifier("organization", &self.organization, MAX_IDENTIFIER)?;
        identifier("pipeline", &self.pipeline, MAX_IDENTIFIER)?;
        if let Some(program) = &self.server {
            return Ok(Source::Program(program.clone()));
        }
        let target = self.target.as_deref().or(default_target).ok_or(Refusal::NoServer)?;
        let target = Target::parse(target)?;
        let token = Token::read(self.token_file.as_deref())?;
        let address = target.reach(self.allow_remote)?;
        if let Some(pid) = self.server_pid {
            usage::cpu_time(pid).map_err(|error| Refusal::ServerPid(pid, error))?;
        }
        Ok(Source::Running { address, authority: target.authority(), token, pid: self.server_pid })
    }
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
        let create = |path: &Path| File::create(path).map_err(|error| Refusal::Unwritable(path.to_owned(), error));
        Ok(Files {
            json: self.json.as_deref().map(create).transpose()?,
            html: self.html.as_deref().map(create).transpose()?,
        })
    }
}

impl Files {
    pub fn write(self, run: &Run) -> io::Result<()> {
        if let Some(mut json) = self.json {
            json.write_all(report::json(run).as_bytes())?;
        }
        if let Some(mut html) = self.html {
            html.write_all(report::html(std::slice::from_ref(run)).as_bytes())?;
        }
        Ok(())
    }
}

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
    _ = io::stdout().lock().write_all(text.as_bytes());
    EXIT_CLEAN
}

/// The first interruption stops what runs, the second quits at once.
pub async fn end_early(mut interruption: Interruption, stop: watch::Sender<bool>, told: &str) {
    interruption.comes().await;
    eprintln!("{told}; Ctrl-C again quits at once");
    stop.send_replace(true);
    interruption.comes().await;
    kill_all();
    std::process::exit(EXIT_INTERRUPTED.into());
}

pub fn failed(why: &str, code: u8) -> u8 {
    eprintln!("loadtest: {why}");
    code
}

/// The server's bound on identifiers in paths.
pub const MAX_IDENTIFIER: usize = 63;
/// Open files that are not connections: the standard streams, epoll and waker of every runtime, the report.
const SPARE_FILES: u64 = 300;

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("which server? Give --server PATH, a lockkeeper program to start, or --target URL, a server that runs")]
    NoServer,
    #[error("{0} needs a server of its own: give --server PATH instead of --target")]
    NeedsOwnServer(String),
    #[error("there is no program at {0}: {1}")]
    NoProgram(PathBuf, &'static str),
    #[error("--{0} {1:?} cannot stand in a path: letters, digits, '.', '_', '-', at most {2}, first a letter or digit")]
    Identifier(&'static str, String, usize),
    #[error("{connections} connections need more open files than the limit of {limit}: raise it with `ulimit -n`")]
    TooFewFiles { connections: u32, limit: u64 },
    #[error("cannot read the CPU time of the server's process {0}: {1}")]
    ServerPid(u32, io::Error),
    #[error("--names {0} is fewer than the {1} clients, each of which needs one")]
    FewNames(u32, u32),
    #[error("{0} is in memory, where nothing is durable: give --dir on a disk")]
    InMemory(PathBuf),
    #[error("cannot use the directory {0}: {1}")]
    Directory(PathBuf, io::Error),
    #[error("cannot write {0}: {1}")]
    Unwritable(PathBuf, io::Error),
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

/// What is not an identifier could end the request line and smuggle a second request.
pub fn identifier(option: &'static str, text: &str, longest: usize) -> Result<(), Refusal> {
    let fits = text.len() <= longest
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    if fits { Ok(()) } else { Err(Refusal::Identifier(option, text.to_owned(), longest)) }
}

/// The members of a cluster's etcd are started here.
pub fn has_etcd() -> Result<(), Refusal> {
    match Command::new("etcd").arg("--version").output() {
        Ok(_) => Ok(()),
        Err(_) => Err(Refusal::NoProgram("etcd".into(), "install etcd, which a cluster needs")),
    }
}

/// Takes what the system lets us take; a server that we start has the same limit.
pub fn enough_files(connections: u32) -> Result<(), Refusal> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where that is not allowed, the limit stays as it is, and is judged next.
    _ = setrlimit(Resource::Nofile, limit);
    match getrlimit(Resource::Nofile).current.filter(|limit| *limit < u64::from(connections) + SPARE_FILES) {
        Some(limit) => Err(Refusal::TooFewFiles { connections, limit }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_break_the_request_line_is_refused() {
        for name in ["", "-a", "a b", "a/b", "a\r\n", "ä"] {
            assert!(identifier("pipeline", name, MAX_IDENTIFIER).is_err(), "{name:?}");
        }
        assert!(identifier("pipeline", "web-2.x_y", MAX_IDENTIFIER).is_ok());
    }
}
