//! Asks the server of a data directory through its socket, over HTTP/1.0, where the end of the connection ends the
//! response.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::{EXIT_FAILED, Failed};
use crate::http::{OPERATOR_KEY, OPERATOR_SOCKET};

/// The server's response heads have some hundred bytes.
const HEAD_BYTES_MAX: u64 = 16 * 1024;
/// Problems are smaller.
const PROBLEM_BYTES_MAX: u64 = 64 * 1024;
/// A server that sends nothing for this long hangs.
const SILENCE_MAX: Duration = Duration::from_secs(60);

pub type Body = BufReader<UnixStream>;

/// `None` if no server runs on the data directory.
pub fn get(data_dir: &Path, path: &str) -> Result<Option<Body>, Failed> {
    let socket = data_dir.join(OPERATOR_SOCKET);
    let failed = |error| cannot_ask(&socket, &error);
    let no_answer = || {
        let sentence = format!("{} does not answer as a server of lockkeeper", socket.display());
        Failed::new(EXIT_FAILED, sentence)
    };
    let key = key(data_dir)?;
    let mut stream = match connect(data_dir) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    stream.set_read_timeout(Some(SILENCE_MAX)).map_err(failed)?;
    let head = format!("GET {path} HTTP/1.0\r\nHost: operator\r\n{key}\r\n");
    stream.write_all(head.as_bytes()).map_err(failed)?;
    let mut body = BufReader::new(stream);
    let status = read_head(&mut body).map_err(failed)?.ok_or_else(no_answer)?;
    if status == 200 {
        return Ok(Some(body));
    }
    let mut problem = Vec::new();
    body.take(PROBLEM_BYTES_MAX).read_to_end(&mut problem).map_err(failed)?;
    let detail = serde_json::from_slice::<serde_json::Value>(&problem).ok();
    let detail = detail.as_ref().and_then(|problem| problem["detail"].as_str());
    let refused = |detail| Failed::new(EXIT_FAILED, format!("the server refused: {detail}"));
    Err(detail.map_or_else(no_answer, refused))
}

fn cannot_ask(path: &Path, error: &io::Error) -> Failed {
    Failed::new(EXIT_FAILED, format!("cannot ask the server by {}: {error}", path.display()))
}

/// The header with the key that the server generated at its start. Servers of earlier versions have no key and require
/// none.
fn key(data_dir: &Path) -> Result<String, Failed> {
    let path = data_dir.join(OPERATOR_KEY);
    match std::fs::read_to_string(&path) {
        Ok(key) => Ok(format!("Authorization: Bearer {}\r\n", key.trim())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(cannot_ask(&path, &error)),
    }
}

/// Connects through the descriptor of the directory, since the path of a socket has at most 107 bytes.
fn connect(data_dir: &Path) -> io::Result<UnixStream> {
    let dir = File::open(data_dir)?;
    UnixStream::connect(format!("/proc/self/fd/{}/{OPERATOR_SOCKET}", dir.as_raw_fd()))
}

/// Reads the head and returns the status.
fn read_head(body: &mut Body) -> io::Result<Option<u16>> {
    let mut head = body.take(HEAD_BYTES_MAX);
    let mut line = String::new();
    head.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    while !matches!(&*line, "\r\n" | "\n") {
        line.clear();
        if head.read_line(&mut line)? == 0 {
            return Ok(None);
        }
    }
    Ok(status)
}
