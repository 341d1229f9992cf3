//! The address that the server listens on: whether it is free, or which server answers there.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use super::finding::Finding;
use crate::app;

const ADDRESS: &str = "listen address";
/// A server on this machine answers within milliseconds.
const PATIENCE: Duration = Duration::from_secs(3);
/// The head of a response and the short body of `/readyz`.
const ANSWER_MAX: u64 = 8 * 1024;

/// The process that has the address.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Taken {
    /// A Lockkeeper server: ready, or reporting why it is not.
    Ready,
    NotReady,
    /// Unknown, because the server there expects TLS.
    Encrypted,
    Other,
}

/// `encrypted`: the server uses TLS. `in_use`: a server runs on the data directory.
pub fn examine(listen: SocketAddr, encrypted: bool, in_use: bool) -> Finding {
    judge(
        listen,
        TcpListener::bind(listen).map(drop),
        in_use,
        || if encrypted { Taken::Encrypted } else { ask(listen) },
    )
}

fn judge(listen: SocketAddr, bound: io::Result<()>, in_use: bool, ask: impl FnOnce() -> Taken) -> Finding {
    let Err(error) = bound else { return Finding::ok(ADDRESS, format!("{listen} is free")) };
    match error.kind() {
        io::ErrorKind::AddrInUse => {}
        io::ErrorKind::PermissionDenied => {
            let advice = "choose a port from 1024 on, or give the program CAP_NET_BIND_SERVICE";
            return Finding::fault(ADDRESS, format!("this user may not listen on {listen}"), advice);
        }
        _ => {
            let advice = "choose another with --listen";
            return Finding::fault(ADDRESS, format!("cannot listen on {listen}: {error}"), advice);
        }
    }
    match (ask(), in_use) {
        (Taken::Ready, _) => Finding::ok(ADDRESS, format!("a server answers on {listen}, and is ready")),
        (Taken::NotReady, _) => Finding::fault(
            ADDRESS,
            format!("a server answers on {listen}, and is not ready"),
            "read its log, and what GET /readyz says",
        ),
        (Taken::Encrypted, true) => Finding::ok(ADDRESS, format!("{listen} is in use, and so is the data directory")),
        (Taken::Encrypted, false) | (Taken::Other, _) => {
            let advice = "stop that program, or choose another with --listen";
            Finding::fault(ADDRESS, format!("another program listens on {listen}"), advice)
        }
    }
}

fn ask(listen: SocketAddr) -> Taken {
    match get_readyz(app::reachable(listen)) {
        Ok(answer) if !is_ours(&answer) => Taken::Other,
        Ok(answer) if answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.0 200") => Taken::Ready,
        Ok(_) => Taken::NotReady,
        Err(_) => Taken::Other,
    }
}

/// Lockkeeper puts a request id into every response.
fn is_ours(answer: &str) -> bool {
    let head = answer.split("\r\n\r\n").next().unwrap_or_default().to_ascii_lowercase();
    head.contains("\r\nx-request-id: ")
}

fn get_readyz(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(stream, "GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_taken_address_is_well_if_it_is_taken_by_the_server() {
        let listen: SocketAddr = "127.0.0.1:8080".parse().unwrap();
        let taken = |by, in_use| judge(listen, Err(io::ErrorKind::AddrInUse.into()), in_use, || by).level;
        assert_eq!(judge(listen, Ok(()), false, || panic!("nobody to ask")).level, Level::Ok);
        assert_eq!([taken(Taken::Ready, true), taken(Taken::Encrypted, true)], [Level::Ok, Level::Ok]);
        let faults = [taken(Taken::NotReady, true), taken(Taken::Other, true), taken(Taken::Encrypted, false)];
        assert_eq!(faults, [Level::Fault; 3]);
        let denied = judge(listen, Err(io::ErrorKind::PermissionDenied.into()), false, || Taken::Other);
        assert!(denied.words.contains("may not listen"), "{denied}");
    }

    #[test]
    fn another_program_is_not_taken_for_the_server() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let other = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 512]).unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\nServer: other\r\n\r\nhello").unwrap();
        });
        assert_eq!(ask(address), Taken::Other);
        other.join().unwrap();
        assert!(is_ours("HTTP/1.1 200 OK\r\nX-Request-Id: req_1\r\n\r\n{}"));
    }
}
