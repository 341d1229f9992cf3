//! Backups of a working server, and servers created from them.

pub mod equal;
mod fencing;
mod interrupted;
mod refused;
mod remote;
mod under_load;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use futures_util::StreamExt;
use reqwest::Method;

use crate::support::waiting::wait_until;
use crate::support::{Server, Setup, lockkeeper};

const SETTINGS: &str = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[git]\nallow_file_urls = true\n";

fn setup() -> Setup {
    Setup::default().settings(SETTINGS)
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// `lockkeeper backup`, of a data directory.
fn backup(data_dir: &Path, file: &Path) -> Output {
    let mut command = lockkeeper(&["backup", text(file), "--data-dir", text(data_dir)]);
    command.env("LOCKKEEPER_STORAGE_LOG_SEGMENT_MB", "4").env("LOCKKEEPER_STORAGE_MIN_FREE_MB", "0");
    command.output().unwrap()
}

fn restore(file: &Path, data_dir: &Path) -> Output {
    lockkeeper(&["restore", text(file), "--data-dir", text(data_dir)]).output().unwrap()
}

/// Restores into a new home, with the master key of the original server.
pub fn restore_home(file: &Path, home: &Path, of: &Path) -> PathBuf {
    let data_dir = home.join("data");
    said(&restore(file, &data_dir));
    std::fs::copy(of.join("master.key"), data_dir.join("master.key")).unwrap();
    data_dir
}

/// Its output, if it succeeded.
pub fn said(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    said
}

/// Why it failed, and its exit code.
pub fn why(output: &Output) -> (i32, String) {
    assert!(!output.status.success());
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Downloaded by the admin over the API.
async fn download(server: &Server) -> Vec<u8> {
    let admin = server.admin();
    let answer = admin.request(Method::GET, "/api/v1/backup").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.bytes().await.unwrap().to_vec()
}

/// The name of a log without a deployment, which a sweep removes.
const LARGE_LOG: &str = "dep_0199f3c2a4b07f3e9d2c5a1b.log";

/// A server with more data than fits into the buffers between it and a client that does not read.
fn with_large_log() -> Server {
    let mut server = setup().start();
    assert!(server.terminate().success());
    let log = server.data_dir().join("logs").join(LARGE_LOG);
    std::fs::write(&log, "swept").unwrap();
    server.start_again();
    // The next sweep is minutes away.
    wait_until("the log is swept", || !log.exists());
    std::fs::write(&log, vec![b'x'; 64 << 20]).unwrap();
    server
}

/// Begins a backup, and takes only its first piece.
async fn half_way(server: &Server) -> (Vec<u8>, reqwest::Response) {
    let mut answer = server.admin().request(Method::GET, "/api/v1/backup").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    (answer.chunk().await.unwrap().unwrap().to_vec(), answer)
}

/// All remaining pieces, and whether the stream ends properly.
async fn rest(answer: reqwest::Response) -> (Vec<u8>, bool) {
    let mut pieces = answer.bytes_stream();
    let mut bytes = Vec::new();
    while let Some(piece) = pieces.next().await {
        match piece {
            Ok(piece) => bytes.extend_from_slice(&piece),
            Err(_) => return (bytes, false),
        }
    }
    (bytes, true)
}

/// `lockkeeper restore -`, still waiting for its input.
fn restoring(data_dir: &Path) -> std::process::Child {
    let mut command: Command = lockkeeper(&["restore", "-", "--data-dir", text(data_dir)]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}
