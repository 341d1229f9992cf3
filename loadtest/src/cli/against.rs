//! Owns the options that say which server is put under load, and where in it.

use std::path::PathBuf;

use clap::Args;

use crate::cli::refusal::{MAX_IDENTIFIER, Refusal, identifier};
use crate::server::target::Target;
use crate::server::token::Token;
use crate::server::{Source, cpu};

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
            cpu::read(pid).map_err(|error| Refusal::ServerPid(pid, error))?;
        }
        Ok(Source::Running { address, authority: target.authority(), token, pid: self.server_pid })
    }
}
