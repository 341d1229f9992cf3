//! Something between client and server that can lose what it should pass on, and whose address stays the same when the
//! server starts again.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

pub struct Relay {
    pub address: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// None: connections are closed at once.
    target: Mutex<Option<String>>,
    /// How many answers are still to be lost.
    losing: AtomicUsize,
    open: Mutex<Vec<TcpStream>>,
}

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

    /// From here on to another address.
    pub fn lead_to(&self, address: &str) {
        *self.state.target.lock().unwrap() = Some(host(address));
    }

    /// Nothing gets through any more, neither way.
    pub fn cut(&self) {
        *self.state.target.lock().unwrap() = None;
        for connection in self.state.open.lock().unwrap().drain(..) {
            connection.shutdown(Shutdown::Both).ok();
        }
    }

    /// The next answers are lost: the server has executed what was asked, and nobody hears of it.
    pub fn lose_answers(&self, count: usize) {
        self.state.losing.store(count, Ordering::SeqCst);
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
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || {
        std::io::copy(&mut from_client, &mut to_server).ok();
        to_server.shutdown(Shutdown::Both).ok();
    });
    let (mut from_server, mut to_client) = (server, client);
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = from_server.read(&mut bytes) {
        let lost = state.losing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if lost || to_client.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    from_server.shutdown(Shutdown::Both).ok();
    to_client.shutdown(Shutdown::Both).ok();
}
