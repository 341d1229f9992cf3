//! A forward proxy for one program that the server runs for a tenant: `CONNECT` (RFC 9110, section 9.3.6) to
//! destinations that the policy permits, and nothing else. The program cannot resolve a name once for the check and
//! again for the connection: it only names its destination, and the proxy resolves, checks and connects, also after
//! each redirect.
//!
//! The proxy listens on loopback, where other programs could find it, so it requires a password that only its program
//! gets. It runs while it is polled, inside the task that waits for the program.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use subtle::ConstantTimeEq;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use zeroize::Zeroizing;

use super::policy::{Policy, PolicyError};
use ambient::backoff::{Backoff, Retries};

const USER: &str = "lockkeeper";
/// Programs like git use one or two connections concurrently.
const CONNECTIONS_MAX: usize = 16;
/// Room for a destination and a few headers.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Short, since the client is on this machine.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// The time limit for each address of a host.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How many of a host's addresses are tried.
const ADDRESSES_TRIED: usize = 4;
/// The pauses after a connection could not be accepted, such as when file descriptors run out.
const ACCEPT_BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

pub struct Proxy {
    listener: TcpListener,
    address: SocketAddr,
    password: Zeroizing<String>,
    policy: Policy,
    /// Why the last connection failed.
    reason: Mutex<Option<String>>,
}

impl Proxy {
    pub async fn bind(policy: Policy) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let password = Zeroizing::new(format!("{:032x}", rand::random::<u128>()));
        Ok(Self { listener, address, password, policy, reason: Mutex::new(None) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The proxy's URL with user and password, as clients accept it in a setting.
    pub fn url(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("http://{USER}:{}@{}", *self.password, self.address))
    }

    /// The expected value of the authorization header.
    pub fn authorization(&self) -> Zeroizing<String> {
        let pair = Zeroizing::new(format!("{USER}:{}", *self.password));
        Zeroizing::new(format!("Basic {}", BASE64_STANDARD.encode(pair.as_bytes())))
    }

    /// Why the last connection failed, for the operator's log only.
    pub fn reason(&self) -> Option<String> {
        self.reason.lock().clone()
    }

    /// Serves until dropped; that closes all connections.
    pub async fn serve(&self) -> Infallible {
        let (mut connections, mut retries) = (FuturesUnordered::new(), Retries::new(ACCEPT_BACKOFF));
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                    Ok((client, _)) => {
                        retries.worked();
                        connections.push(self.serve_one(client));
                    }
                    Err(_) => tokio::time::sleep(retries.failed()).await,
                },
                Some(()) = connections.next() => {}
            }
        }
    }

    /// Serves one connection. Errors are reported to the client, unless it is gone.
    async fn serve_one(&self, mut client: TcpStream) {
        let Ok(Ok((head, rest))) = tokio::time::timeout(HEAD_WITHIN, read_head(&mut client)).await else { return };
        let authorization = self.authorization();
        let connected = match destination(&head, &authorization) {
            Ok((host, port)) => self.connect(host, port).await,
            Err(status) => Err(status),
        };
        let mut server = match connected {
            Ok(server) => server,
            Err(status) => return refuse(&mut client, status).await,
        };
        let forward = async {
            client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await?;
            server.write_all(&rest).await?;
            copy_bidirectional(&mut client, &mut server).await
        };
        forward.await.ok();
    }

    async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, Status> {
        let found = self.policy.resolve(host, port).await;
        let mut reason = match found {
            Err(PolicyError { reason, .. }) => reason,
            Ok(found) => match first_of(&found).await {
                Ok(server) => return Ok(server),
                Err(reason) => reason,
            },
        };
        reason.insert_str(0, &format!("{host}:{port}: "));
        *self.reason.lock() = Some(reason);
        Err(Status::BadGateway)
    }
}

/// Connects to the first address that answers.
async fn first_of(addresses: &[SocketAddr]) -> Result<TcpStream, String> {
    let mut reason = String::new();
    for address in addresses.iter().take(ADDRESSES_TRIED) {
        match tokio::time::timeout(CONNECT_WITHIN, TcpStream::connect(address)).await {
            Ok(Ok(server)) => {
                // Pieces are forwarded as they arrive; Nagle's algorithm would only delay them.
                server.set_nodelay(true).ok();
                return Ok(server);
            }
            Ok(Err(error)) => reason = format!("cannot connect to {address}: {error}"),
            Err(_) => reason = format!("cannot connect to {address} within {} s", CONNECT_WITHIN.as_secs()),
        }
    }
    Err(reason)
}

/// The head of the request, and the bytes that the client sent after it.
async fn read_head(client: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    const END: &[u8] = b"\r\n\r\n";
    let mut got = Vec::with_capacity(1024);
    loop {
        if let Some(end) = got.windows(END.len()).position(|window| window == END) {
            let rest = got.split_off(end + END.len());
            return String::from_utf8(got).map(|head| (head, rest)).map_err(io::Error::other);
        }
        if got.len() > HEAD_BYTES_MAX || client.read_buf(&mut got).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

async fn refuse(client: &mut TcpStream, status: Status) {
    let (line, body) = (status.line(), format!("the destination {}\n", PolicyError::ADVICE));
    let answer = format!("HTTP/1.1 {line}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    client.write_all(answer.as_bytes()).await.ok();
    client.shutdown().await.ok();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Malformed,
    /// Not `CONNECT`: other requests would leave unencrypted.
    NotATunnel,
    NoPassword,
    /// One status for every cause.
    BadGateway,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Status::Malformed => "400 Bad Request",
            Status::NotATunnel => "405 Method Not Allowed\r\nAllow: CONNECT",
            Status::NoPassword => "407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"lockkeeper\"",
            Status::BadGateway => "502 Bad Gateway",
        }
    }
}

/// The host and port of a request that has this authorization.
fn destination<'a>(head: &'a str, authorization: &str) -> Result<(&'a str, u16), Status> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Status::Malformed);
    };
    let given = lines.filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
        name.eq_ignore_ascii_case("proxy-authorization").then(|| value.trim_matches([' ', '\t']))
    });
    // Compared in constant time, to avoid revealing how much of the password is right.
    if !given.is_some_and(|given| given.as_bytes().ct_eq(authorization.as_bytes()).into()) {
        return Err(Status::NoPassword);
    }
    if method != "CONNECT" {
        return Err(Status::NotATunnel);
    }
    let (host, port) = target.rsplit_once(':').ok_or(Status::Malformed)?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_plain = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(port @ 1..) if is_plain && !host.is_empty() => Ok((host, port)),
        Ok(_) | Err(_) => Err(Status::Malformed),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::policy::Destination;

    #[test]
    fn a_destination_is_a_host_and_a_port_with_the_right_password() {
        let with = |line: &str| {
            destination(&format!("{line}\r\nHost: x\r\nproxy-Authorization:  Basic abc\r\n\r\n"), "Basic abc")
                .map(|(host, port)| (host.to_owned(), port))
        };
        for (line, host, port) in [
            ("CONNECT git.example:443 HTTP/1.1", "git.example", 443),
            ("CONNECT git.example:22 HTTP/1.0", "git.example", 22),
            ("CONNECT [fd00::1]:443 HTTP/1.1", "fd00::1", 443),
        ] {
            assert_eq!(with(line), Ok((host.to_owned(), port)), "{line}");
        }
        for line in [
            "",
            "CONNECT",
            "CONNECT git.example HTTP/1.1",
            "CONNECT git.example: HTTP/1.1",
            "CONNECT git.example:0 HTTP/1.1",
            "CONNECT git.example:+1 HTTP/1.1",
            "CONNECT git.example:65536 HTTP/1.1",
            "CONNECT :443 HTTP/1.1",
            "CONNECT git.example:443 HTTP/2",
            "CONNECT git.example:443 HTTP/1.1 x",
        ] {
            assert_eq!(with(line), Err(Status::Malformed), "{line}");
        }
        assert_eq!(with("GET http://git.example/ HTTP/1.1"), Err(Status::NotATunnel));
        for authorization in ["Basic ab", "Basic abcd", "Basic abd", ""] {
            let head = format!("CONNECT git.example:443 HTTP/1.1\r\nProxy-Authorization: {authorization}\r\n\r\n");
            assert_eq!(destination(&head, "Basic abc"), Err(Status::NoPassword), "{authorization}");
        }
        assert_eq!(destination("CONNECT git.example:443 HTTP/1.1\r\n\r\n", "Basic abc"), Err(Status::NoPassword));
    }

    /// Everything that a client receives through a proxy with this policy, and the reason for a failure.
    async fn through(policy: Policy, request: impl FnOnce(&Proxy) -> String) -> (String, Option<String>) {
        let proxy = Proxy::bind(policy).await.unwrap();
        let asking = async {
            let mut client = TcpStream::connect(proxy.address()).await.unwrap();
            client.write_all(request(&proxy).as_bytes()).await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let answer = tokio::select! {
            answer = asking => answer,
            never = proxy.serve() => match never {},
        };
        (answer, proxy.reason())
    }

    fn connect(proxy: &Proxy, to: &str) -> String {
        format!("CONNECT {to} HTTP/1.1\r\nProxy-Authorization: {}\r\n\r\n", *proxy.authorization())
    }

    #[tokio::test]
    async fn bytes_go_both_ways_where_the_policy_permits() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = listener.local_addr().unwrap();
        let echo = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut got = [0; 5];
            stream.read_exact(&mut got).await.unwrap();
            stream.write_all(&got).await.unwrap();
        });
        let policy = Policy::new(vec![Destination::parse("127.0.0.0/8").unwrap()]);
        // Data that the client sends before the answer is not lost.
        let (answer, reason) = through(policy, |proxy| connect(proxy, &there.to_string()) + "hello").await;
        assert_eq!((answer.as_str(), reason), ("HTTP/1.1 200 Connected\r\n\r\nhello", None));
        echo.await.unwrap();
    }

    #[tokio::test]
    async fn refused_and_closed_look_the_same_to_the_program_and_differ_for_the_operator() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = listener.local_addr().unwrap();
        let (refused, why_refused) = through(Policy::default(), |proxy| connect(proxy, &there.to_string())).await;
        drop(listener);
        let (closed, why_closed) = through(Policy::anywhere(), |proxy| connect(proxy, &there.to_string())).await;
        let (unknown, _) = through(Policy::anywhere(), |proxy| connect(proxy, "nobody.invalid:1")).await;
        assert!(refused.starts_with("HTTP/1.1 502 ") && refused.contains("outbound.allow"), "{refused}");
        assert_eq!((&closed, &unknown), (&refused, &refused));
        assert!(why_refused.unwrap().contains("127.0.0.1, which is not public"));
        assert!(why_closed.unwrap().contains("refused"));
    }

    #[tokio::test]
    async fn nobody_else_can_use_it() {
        let (answer, _) = through(Policy::anywhere(), |_| "CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n".to_owned()).await;
        assert!(answer.starts_with("HTTP/1.1 407 "), "{answer}");
    }
}
