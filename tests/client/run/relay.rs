//! A relay between client and server that can lose answers, and keeps its address when the server restarts.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

pub struct Relay {
    pub address: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// None: connections are closed immediately.
    target: Mutex<Option<String>>,
    /// The number of answers to lose.
    losing: AtomicUsize,
    open: Mutex<Vec<TcpStream>>,
    /// Answers are forwarded when they are complete.
    buffers: AtomicBool,
    refuses_waits: AtomicBool,
    refused_waits: AtomicUsize,
}

/// The answer to a request that wants to wait.
const NO_PLACE: &str = "{\"status\": 503, \"code\": \"overloaded\", \"detail\": \"too many requests wait\"}";

impl Relay {
    pub fn to(address: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Self {
            address: format!("http://{}", listener.local_addr().unwrap()),
            state: Arc::new(State { target: Mutex::new(Some(host(address))), ..State::default() }),
        };
        let state = relay.state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = state.clone();
                std::thread::spawn(move || pass(client, &state));
            }
        });
        relay
    }

    /// From here on, forwards to another address.
    pub fn lead_to(&self, address: &str) {
        *self.state.target.lock().unwrap() = Some(host(address));
    }

    /// Nothing is forwarded any more, in either direction.
    pub fn cut(&self) {
        *self.state.target.lock().unwrap() = None;
        for connection in self.state.open.lock().unwrap().drain(..) {
            connection.shutdown(Shutdown::Both).ok();
        }
    }

    /// The next answers are lost: the server has executed the requests, but the client does not know.
    pub fn lose_answers(&self, count: usize) {
        self.state.losing.store(count, Ordering::SeqCst);
    }

    /// From here on, answers are forwarded only when complete, as by buffering proxies.
    pub fn buffer(&self) {
        self.state.buffers.store(true, Ordering::SeqCst);
    }

    /// Like a server without room for waiting requests.
    pub fn refuse_waits(&self) {
        self.state.refuses_waits.store(true, Ordering::SeqCst);
    }

    pub fn refused_waits(&self) -> usize {
        self.state.refused_waits.load(Ordering::SeqCst)
    }

    pub fn still_losing(&self) -> usize {
        self.state.losing.load(Ordering::SeqCst)
    }
}

fn host(address: &str) -> String {
    address.trim_start_matches("http://").to_owned()
}

fn pass(client: TcpStream, state: &Arc<State>) {
    let target = state.target.lock().unwrap().clone();
    let Some(server) = target.and_then(|target| TcpStream::connect(target).ok()) else { return };
    state.open.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
    let (from_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let passing = state.clone();
    std::thread::spawn(move || pass_requests(from_client, to_server, &passing));
    let (mut from_server, mut to_client) = (server, client);
    let mut bytes = [0; 16 * 1024];
    let mut buffered = Vec::new();
    while let Ok(count @ 1..) = from_server.read(&mut bytes) {
        let lost = state.losing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        buffered.extend_from_slice(&bytes[..count]);
        if state.buffers.load(Ordering::SeqCst) && !is_complete(&buffered) {
            continue;
        }
        if lost || to_client.write_all(&buffered).is_err() {
            break;
        }
        buffered.clear();
    }
    from_server.shutdown(Shutdown::Both).ok();
    to_client.shutdown(Shutdown::Both).ok();
}

/// A client sends each request in one piece.
fn pass_requests(mut from_client: TcpStream, mut to_server: TcpStream, state: &State) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = from_client.read(&mut bytes) {
        let wants_to_wait = bytes[..count].windows(15).any(|part| part == b"?waitSeconds=25");
        let passed = if wants_to_wait && state.refuses_waits.load(Ordering::SeqCst) {
            state.refused_waits.fetch_add(1, Ordering::SeqCst);
            let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n";
            from_client.write_all(format!("{head}content-length: {}\r\n\r\n{NO_PLACE}", NO_PLACE.len()).as_bytes())
        } else {
            to_server.write_all(&bytes[..count])
        };
        if passed.is_err() {
            break;
        }
    }
    to_server.shutdown(Shutdown::Both).ok();
}

/// An answer of known length, or without a body. A stream is never complete.
fn is_complete(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    match length {
        Some(length) => body.len() >= length.parse().unwrap(),
        None => !head.contains("transfer-encoding"),
    }
}
