//! The commands around deployments: logs, approvals, pipelines, secrets, events, analyses and the board.

mod analyzing;
mod approving;
mod board;
mod events;
mod logs;
mod organization;

use std::io::{BufRead, BufReader};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, ChildStdout};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde_json::{Value, json};

use crate::program::User;
use crate::support::waiting::exit_of;
use crate::support::{Client, Server};

/// Only makes a test fail instead of hang if a line never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command that does not end on its own, and the lines that it prints.
struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Running {
    fn start(user: &User, arguments: &[&str]) -> Self {
        let mut child = user.command(arguments).spawn().unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The next line that contains this.
    fn until(&self, text: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => seen.push(line),
                Err(error) => panic!("{error}: no {text:?} in {seen:#?}"),
            }
        }
    }

    fn end(mut self) -> i32 {
        exit_of(&mut self.child).code().unwrap_or(-1)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn lines_of(stdout: ChildStdout) -> mpsc::Receiver<String> {
    let (tell, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// An address that stays the same when a restart changes the server's port.
struct Detour {
    address: String,
    server: Arc<Mutex<String>>,
}

impl Detour {
    fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let target = Arc::new(Mutex::new(host(server)));
        let leads_to = target.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let target = leads_to.lock().unwrap().clone();
                // Without a server, the client's connection is closed.
                if let Ok(server) = TcpStream::connect(target) {
                    pass_on(client.try_clone().unwrap(), server.try_clone().unwrap());
                    pass_on(server, client);
                }
            }
        });
        Self { address, server: target }
    }

    fn lead_to(&self, server: &Server) {
        *self.server.lock().unwrap() = host(server);
    }
}

fn host(server: &Server) -> String {
    server.address.trim_start_matches("http://").to_owned()
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        std::io::copy(&mut from, &mut to).ok();
        to.shutdown(Shutdown::Both).ok();
        from.shutdown(Shutdown::Both).ok();
    });
}

/// Sets the stages of the pipeline `web`.
async fn put_stages(server: &Server, stages: Value) {
    server.admin().put("/pipelines/web", json!({ "stages": stages })).await.ok();
}

/// A deployment in review-1 that has begun, by its id.
async fn deploy(admin: &Client, commit: &str) -> String {
    let session = admin.claim("review-1", json!({})).await.created().session();
    let made = admin.deploy("review-1", &session, json!({ "commitId": commit })).await.has_status(202);
    made.data()["deploymentId"].as_str().unwrap().to_owned()
}

async fn finished(admin: &Client, deployment: &str) -> Value {
    let ended = |found: &Value| ["succeeded", "failed", "cancelled"].contains(&found["status"].as_str().unwrap());
    admin.until(&format!("/deployments/{deployment}"), ended).await
}
