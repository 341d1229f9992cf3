//! Owns which server may be put under load: parses `--target`, keeps strangers' machines out, finds an address that
//! answers.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
const DEFAULT_PORT: u16 = 80;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    host: String,
    port: u16,
}

#[derive(Debug, thiserror::Error)]
pub enum TargetError {
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

    /// For the `Host` header and for messages.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The first address of the target that takes a connection; `localhost` often has two and the server only one.
    pub fn reach(&self, allow_remote: bool) -> Result<SocketAddr, TargetError> {
        // Names are judged before they are looked up, so that a refused one causes no traffic at all.
        if !allow_remote && !names_loopback(&self.host) {
            return Err(TargetError::Remote(self.authority()));
        }
        let addresses: Vec<SocketAddr> = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|error| TargetError::Unresolved(self.host.clone(), error))?
            .collect();
        // And again afterwards: a hosts file can point `localhost` anywhere.
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
