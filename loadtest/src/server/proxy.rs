//! Simulates the network between the processes of a cluster: a proxy in front of each, which can block one or both
//! directions. Bytes are delayed, not lost, as in a network that retransmits: once the link is open again, requests
//! arrive even if their senders gave up long ago.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::sync::locked;

const BUFFER_BYTES: usize = 16 * 1024;
/// A forwarded request names the sending node in this header.
const VIA: &[u8] = b"lockkeeper-via: ";
/// Longer than the head of any request here.
const HEAD_MAX: usize = 64 * 1024;

/// One process of the cluster.
pub type Host = String;

/// Pairs of hosts of which the first cannot send to the second. Cheap to clone.
#[derive(Clone)]
pub struct Network {
    cut: Arc<watch::Sender<BTreeSet<(Host, Host)>>>,
}

/// The host that connects through a proxy.
#[derive(Clone)]
pub enum From {
    Host(Host),
    /// The node named in the connection's first request.
    Named,
}

impl Default for Network {
    fn default() -> Self {
        Self { cut: Arc::new(watch::Sender::new(BTreeSet::new())) }
    }
}

impl Network {
    /// Blocks everything sent by `from` to `to` from now on.
    pub fn cut(&self, from: &str, to: &str) {
        self.cut.send_modify(|cut| _ = cut.insert((from.to_owned(), to.to_owned())));
    }

    pub fn heal(&self) {
        self.cut.send_modify(BTreeSet::clear);
    }

    async fn open(&self, way: &(Host, Host)) {
        // Cannot fail: `self` owns the sender.
        _ = self.cut.subscribe().wait_for(|cut| !cut.contains(way)).await;
    }
}

/// A proxy. Dropping it closes all its connections.
pub struct Proxy {
    pub address: SocketAddr,
    target: Arc<Mutex<SocketAddr>>,
    accepting: JoinHandle<()>,
    connections: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Proxy {
    /// Serves in front of the host `to` at `target`.
    pub async fn start(network: Network, from: From, to: (Host, SocketAddr)) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (to, target) = (to.0, Arc::new(Mutex::new(to.1)));
        let connections = Arc::<Mutex<Vec<JoinHandle<()>>>>::default();
        let (kept, served_at) = (connections.clone(), target.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let target = *locked(&served_at);
                let passing = tokio::spawn(pass(network.clone(), from.clone(), (to.clone(), target), stream));
                let mut kept = locked(&kept);
                kept.retain(|connection| !connection.is_finished());
                kept.push(passing);
            }
        });
        Ok(Self { address, target, accepting, connections })
    }

    /// Sets the new address of the proxied host.
    pub fn set_target(&self, target: SocketAddr) {
        *locked(&self.target) = target;
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        locked(&self.connections).iter().for_each(JoinHandle::abort);
    }
}

/// Forwards until either side closes the connection.
async fn pass(network: Network, from: From, (to, target): (Host, SocketAddr), mut stream: TcpStream) {
    let (from, first) = match from {
        From::Host(host) => (host, Vec::new()),
        From::Named => match named(&mut stream).await {
            Some(named) => named,
            None => return,
        },
    };
    let Ok(server) = TcpStream::connect(target).await else { return };
    _ = (stream.set_nodelay(true), server.set_nodelay(true));
    let ((client_in, client_out), (server_in, server_out)) = (stream.into_split(), server.into_split());
    let there = copy(network.clone(), (from.clone(), to.clone()), (client_in, server_out), first);
    let back = copy(network, (to, from), (server_in, client_out), Vec::new());
    tokio::select! {
        () = there => {}
        () = back => {}
    }
}

/// The name of the sending node, and the bytes read so far.
async fn named(stream: &mut TcpStream) -> Option<(Host, Vec<u8>)> {
    let mut head = Vec::new();
    loop {
        if stream.read_buf(&mut head).await.ok()? == 0 || head.len() > HEAD_MAX {
            return None;
        }
        if let Some(name) = name_in(&head) {
            return Some((name, head));
        }
    }
}

/// The first word of the header, once it is complete.
fn name_in(head: &[u8]) -> Option<Host> {
    let lower = head.to_ascii_lowercase();
    let start = memmem::find(&lower, VIA)? + VIA.len();
    let length = head[start..].iter().position(|byte| *byte == b' ')?;
    String::from_utf8(head[start..start + length].to_vec()).ok()
}

/// Forwards bytes only while the link is open.
async fn copy(
    network: Network,
    way: (Host, Host),
    (mut input, mut output): (OwnedReadHalf, OwnedWriteHalf),
    mut buffer: Vec<u8>,
) {
    loop {
        network.open(&way).await;
        if output.write_all(&buffer).await.is_err() {
            return;
        }
        buffer.clear();
        buffer.reserve(BUFFER_BYTES);
        if !matches!(input.read_buf(&mut buffer).await, Ok(1..)) {
            // The end of a connection is also held back while the link is cut.
            return network.open(&way).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_node_is_known_by_its_first_request() {
        let head = b"GET / HTTP/1.1\r\nHost: a\r\nLockkeeper-Via: n2 - http 00\r\n\r\n";
        assert_eq!(name_in(head), Some("n2".to_owned()));
        assert_eq!(name_in(&head[..head.len() - 20]), None);
        assert_eq!(name_in(b"GET / HTTP/1.1\r\n\r\n"), None);
    }

    #[tokio::test]
    async fn a_way_that_is_cut_holds_back_what_is_sent_until_it_is_open() {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let target = server.local_addr().expect("its address");
        let network = Network::default();
        let from = From::Host("a".to_owned());
        let proxy = Proxy::start(network.clone(), from, ("b".to_owned(), target)).await.expect("a proxy");
        let mut client = TcpStream::connect(proxy.address).await.expect("connected");
        let (mut accepted, _) = server.accept().await.expect("accepted");
        let mut byte = [0];
        client.write_all(b"1").await.expect("sent");
        accepted.read_exact(&mut byte).await.expect("arrived");
        network.cut("a", "b");
        client.write_all(b"2").await.expect("sent");
        accepted.write_all(b"3").await.expect("sent");
        client.read_exact(&mut byte).await.expect("the way back is open");
        assert_eq!(&byte, b"3");
        let held = tokio::time::timeout(Duration::from_millis(50), accepted.read_exact(&mut byte)).await;
        assert!(held.is_err(), "nothing arrives");
        network.heal();
        accepted.read_exact(&mut byte).await.expect("it arrives late");
        assert_eq!(&byte, b"2");
    }
}
