//! Owns a Lockkeeper that the load test runs itself: on a free port of this machine, with a data directory and a token of
//! its own, killed and started again as a scenario wants it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::server::running::{POLL, ProcessError, Running, START_TIMEOUT};
use crate::server::token::Token;
use crate::wire::connection::Connection;

/// How it is started.
#[derive(Clone, Debug)]
pub struct Launch {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// Its settings as environment variables.
    pub variables: Vec<(String, String)>,
    /// Kept afterwards; without it a temporary one.
    pub data_dir: Option<PathBuf>,
    pub token: Token,
}

pub struct Process {
    /// Before its directory: fields are dropped in this order.
    running: Option<Running>,
    launch: Launch,
    home: TempDir,
    data_dir: PathBuf,
    address: SocketAddr,
}

impl Process {
    /// On any free port.
    pub async fn start(launch: Launch) -> Result<Self, ProcessError> {
        Self::start_on(SocketAddr::from(([127, 0, 0, 1], 0)), launch).await
    }

    pub async fn start_on(address: SocketAddr, launch: Launch) -> Result<Self, ProcessError> {
        let home = tempfile::Builder::new().prefix("lockkeeper-load-").tempdir().map_err(ProcessError::Home)?;
        let data_dir = launch.data_dir.clone().unwrap_or_else(|| home.path().join("data"));
        let mut process = Self { launch, home, data_dir, address, running: None };
        process.start_again().await?;
        Ok(process)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// For the next start.
    pub fn change(&mut self, variables: Vec<(String, String)>, token: Token) {
        self.launch.variables.extend(variables);
        self.launch.token = token;
    }

    /// All of them, for the next start.
    pub fn set_variables(&mut self, variables: Vec<(String, String)>) {
        self.launch.variables = variables;
    }

    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().and_then(Running::pid)
    }

    pub fn kill(&mut self) -> Result<(), ProcessError> {
        self.running.take().map_or(Ok(()), |mut running| running.kill())
    }

    /// `SIGSTOP`.
    pub fn pause(&self) -> Result<(), ProcessError> {
        self.running.as_ref().map_or(Ok(()), Running::pause)
    }

    /// `SIGCONT`.
    pub fn resume(&self) -> Result<(), ProcessError> {
        self.running.as_ref().map_or(Ok(()), Running::resume)
    }

    /// On the same port each time, so that clients find it again.
    pub async fn start_again(&mut self) -> Result<Duration, ProcessError> {
        let began = Instant::now();
        self.serve_again().await?;
        self.until_ready(began).await?;
        Ok(began.elapsed())
    }

    /// The same without waiting until it is ready, which a node of a cluster is only when all shards have owners.
    pub async fn serve_again(&mut self) -> Result<(), ProcessError> {
        let running = Running::start(self.command(), &self.log()).await?;
        self.address = running.address();
        self.running = Some(running);
        Ok(())
    }

    /// Its stderr of all its lives.
    pub fn log(&self) -> PathBuf {
        self.home.path().join("server.log")
    }

    /// Whether it has ended by itself since it was last asked, and how.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, ProcessError> {
        self.running.as_mut().map_or(Ok(None), Running::ended)
    }

    pub async fn stop(&mut self) -> Result<(), ProcessError> {
        match &mut self.running {
            Some(running) => running.stop().await,
            None => Ok(()),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.launch.program);
        command.arg("serve").arg("--listen").arg(self.address.to_string());
        command.arg("--data-dir").arg(&self.data_dir).args(&self.launch.arguments);
        // Ours, such as LOCKKEEPER_TOKEN, are none of its settings.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LOCKKEEPER_")) {
            command.env_remove(name);
        }
        command.env("LOCKKEEPER_BOOTSTRAP_TOKEN", self.launch.token.reveal());
        command.env("LOCKKEEPER_RATE_LIMIT", "off");
        command.envs(self.launch.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub async fn is_ready(&self) -> bool {
        let request = format!("GET /readyz HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        let Ok(mut connection) = Connection::open(self.address).await else { return false };
        matches!(connection.exchange(request.as_bytes()).await, Ok(200))
    }

    async fn until_ready(&mut self, began: Instant) -> Result<(), ProcessError> {
        while began.elapsed() < START_TIMEOUT {
            if self.is_ready().await {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        self.kill()?;
        Err(ProcessError::NotReady)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_that_does_not_serve_is_told_with_its_own_words() {
        let launch = Launch {
            program: "/bin/sh".into(),
            arguments: Vec::new(),
            variables: Vec::new(),
            data_dir: None,
            token: Token::random(),
        };
        let error = Process::start(launch).await.err().expect("sh knows no `serve`");
        assert!(matches!(&error, ProcessError::NotStarted(why) if why.contains("serve")), "{error}");
    }
}
