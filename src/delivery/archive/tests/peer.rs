//! Small servers on loopback: a node that serves parts of its logs, and a store that can be down. Both count their
//! requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::acme;
use crate::archive::{PART_BYTES_MAX, part_target};
use crate::logs::{LogFile, Logs};

const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const FAILED: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[derive(Clone)]
pub struct SmallServer {
    pub url: String,
    is_down: Arc<AtomicBool>,
    gets: Arc<AtomicUsize>,
}

impl SmallServer {
    /// An S3 store without objects.
    pub async fn empty_store() -> Self {
        Self::start(|_| NOT_FOUND.as_bytes().to_vec()).await
    }

    /// A node with these logs.
    pub async fn node(logs: Logs, file: LogFile) -> Self {
        let prefix = part_target(&acme(), file.deployment, file.number, 0);
        Self::start(move |target| {
            let from = target.strip_prefix(prefix.trim_end_matches('0')).unwrap().parse().unwrap();
            match logs.bytes(&file, from, PART_BYTES_MAX).unwrap() {
                None => b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".to_vec(),
                Some(bytes) => {
                    let head =
                        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", bytes.len());
                    [head.into_bytes(), bytes].concat()
                }
            }
        })
        .await
    }

    async fn start(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Self { url, is_down: Arc::default(), gets: Arc::default() };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                serving.serve(connection, &answer).await;
            }
        });
        server
    }

    async fn serve(&self, mut connection: TcpStream, answer: &impl Fn(&str) -> Vec<u8>) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = connection.read_u8().await else { return };
            head.push(byte);
        }
        let head = String::from_utf8(head).unwrap();
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        self.gets.fetch_add(usize::from(method == "GET"), Ordering::SeqCst);
        let is_down = self.is_down.load(Ordering::SeqCst);
        let answer = if is_down { FAILED.as_bytes().to_vec() } else { answer(target) };
        connection.write_all(&answer).await.ok();
    }

    pub fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }

    /// The number of GET requests since the last call.
    pub fn new_gets(&self) -> usize {
        self.gets.swap(0, Ordering::SeqCst)
    }
}
