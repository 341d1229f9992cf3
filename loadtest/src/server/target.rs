//! Decides which server may be put under load: the options, the valid values of `--target`, and an address that
//! answers. Remote machines need explicit permission.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::server::process::Launch;
use crate::server::usage;
use crate::wire::{Token, TokenError};

const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
const DEFAULT_PORT: u16 = 80;
/// The server's limit for identifiers in paths.
pub const MAX_IDENTIFIER: usize = 63;

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
    /// File with the running server's token, instead of LOCKKEEPER_TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Process id of the running server, to report its CPU time and memory
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// Organization to claim environments in
    #[arg(long, value_name = "NAME", default_value = "acme")]
    pub organization: String,
    /// Pipeline to claim environments in
    #[arg(long, value_name = "NAME", default_value = "web")]
    pub pipeline: String,
}

/// The origin of the server under test.
pub enum Source {
    /// A program to start.
    Program(Launch),
    Running {
        address: SocketAddr,
        authority: String,
        token: Token,
        pid: Option<u32>,
    },
}

impl Against {
    pub fn is_ours(&self) -> bool {
        self.server.is_some()
    }

    /// The source, after a check; connects to a server that is already running.
    pub fn source(&self, default_target: Option<&str>) -> Result<Source, TargetError> {
        identifier("organization", &self.organization, MAX_IDENTIFIER)?;
        identifier("pipeline", &self.pipeline, MAX_IDENTIFIER)?;
        if let Some(program) = &self.server {
            return Ok(Source::Program(Launch::new(program.clone(), Vec::new(), Token::random())));
        }
        let target = self.target.as_deref().or(default_target).ok_or(TargetError::Missing)?;
        let target = Target::parse(target)?;
        let token = Token::read(self.token_file.as_deref())?;
        let address = target.reach(self.allow_remote)?;
        if let Some(pid) = self.server_pid {
            usage::cpu_time(pid).map_err(|error| TargetError::ServerPid(pid, error))?;
        }
        Ok(Source::Running { address, authority: target.authority(), token, pid: self.server_pid })
    }
}

/// Checks a name for a path: anything else could end the request line and smuggle in a second request.
pub fn identifier(option: &'static str, text: &str, longest: usize) -> Result<(), TargetError> {
    let fits = text.len() <= longest
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    if fits { Ok(()) } else { Err(TargetError::Identifier(option, text.to_owned(), longest)) }
}

#[derive(Debug)]
pub struct Target {
    host: String,
    port: u16,
}

#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("which server? Give --server PATH, a lockkeeper program to start, or --target URL, a server that runs")]
    Missing,
    #[error("--{0} {1:?} cannot stand in a path: letters, digits, '.', '_', '-', at most {2}, first a letter or digit")]
    Identifier(&'static str, String, usize),
    #[error("cannot read the CPU time of the server's process {0}: {1}")]
    ServerPid(u32, std::io::Error),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("the target must have the form http://HOST[:PORT], without TLS, path and user, got {0:?}")]
    Malformed(String),
    #[error(
        "the target {0} is not a loopback address, and a load test can take a server down: \
         test a server on this machine, or give --allow-remote if you answer for that one"
    )]
    Remote(String),
    #[error("cannot resolve {0}: {1}")]
    Unresolved(String, std::io::Error),
    #[error("nothing answers at {0}: {1}")]
    Unreachable(String, String),
}

impl Target {
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        Self::split(text).ok_or_else(|| TargetError::Malformed(text.to_owned()))
    }

    fn split(text: &str) -> Option<Self> {
        let authority = text.strip_prefix("http://")?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => {
                let (host, rest) = bracketed.split_once(']')?;
                host.parse::<std::net::Ipv6Addr>().ok()?;
                (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
        if host.is_empty() || !host.bytes().all(is_name) {
            return None;
        }
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port != 0)?,
            None => DEFAULT_PORT,
        };
        Some(Self { host: host.to_owned(), port })
    }

    /// The host and port, for the `Host` header and messages.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The first address of the target that accepts a connection; `localhost` often has two addresses, and the server
    /// listens on only one.
    pub fn reach(&self, allow_remote: bool) -> Result<SocketAddr, TargetError> {
        // Checked before the name is resolved, so that a refused name causes no network traffic.
        if !allow_remote && !names_loopback(&self.host) {
            return Err(TargetError::Remote(self.authority()));
        }
        let addresses: Vec<SocketAddr> = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|error| TargetError::Unresolved(self.host.clone(), error))?
            .collect();
        // Checked again after resolving: a hosts file can point `localhost` anywhere.
        if !allow_remote && !addresses.iter().all(|address| address.ip().is_loopback()) {
            return Err(TargetError::Remote(self.authority()));
        }
        let mut last_fault = "it has no address".to_owned();
        for address in addresses {
            match TcpStream::connect_timeout(&address, PROBE_TIMEOUT) {
                Ok(_) => return Ok(address),
                Err(error) => last_fault = error.to_string(),
            }
        }
        Err(TargetError::Unreachable(self.authority(), last_fault))
    }
}

fn names_loopback(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
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

    fn refused_as_remote(target: &str) -> bool {
        matches!(Target::parse(target).expect("well-formed").reach(false), Err(TargetError::Remote(_)))
    }

    #[test]
    fn loopback_is_the_whole_127_block_the_ipv6_one_and_localhost() {
        for host in ["127.0.0.1", "127.255.3.4", "::1", "localhost", "LocalHost"] {
            assert!(names_loopback(host), "{host}");
        }
    }

    #[test]
    fn anything_else_is_refused_without_being_looked_up() {
        for target in [
            "http://10.0.0.1:8080",
            "http://0.0.0.0:8080",
            "http://128.0.0.1",
            "http://[::]:8080",
            "http://[::ffff:10.0.0.1]:8080",
            "http://example.com",
            "http://localhost.example.com",
            "http://127.0.0.1.example.com",
            "http://127.1:8080",
        ] {
            assert!(refused_as_remote(target), "{target}");
        }
    }

    #[test]
    fn the_refusal_says_what_to_do() {
        let error = Target::parse("http://10.0.0.1:8080").expect("well-formed").reach(false).expect_err("remote");
        assert!(error.to_string().contains("--allow-remote"), "{error}");
    }

    #[test]
    fn a_target_is_http_with_a_host_and_perhaps_a_port() {
        for (text, authority) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://localhost/", "localhost:80"),
            ("http://[::1]:9", "[::1]:9"),
            ("http://[::1]", "[::1]:80"),
        ] {
            assert_eq!(Target::parse(text).expect(text).authority(), authority);
        }
    }

    #[test]
    fn a_target_with_anything_more_is_malformed() {
        for text in [
            "127.0.0.1:8080",
            "https://127.0.0.1",
            "http://",
            "http://127.0.0.1:0",
            "http://127.0.0.1:99999",
            "http://127.0.0.1/api",
            "http://user@127.0.0.1",
            "http://127.0.0.1@evil.example",
            "http://::1:80",
            "http://[::1]x",
            "http://a b",
            "http://a\r\nb",
        ] {
            assert!(matches!(Target::parse(text), Err(TargetError::Malformed(_))), "{text}");
        }
    }
}
