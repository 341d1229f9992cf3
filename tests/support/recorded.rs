//! A real HTTP server that answers as the test wants and records its requests.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A received request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    /// Including the query.
    pub path: String,
    /// Names in lower case, in the order of arrival.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Request {
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

/// An answer: status, additional headers, body.
#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// Announced bytes at the end of the body that are never sent: the connection is closed instead.
    pub missing_bytes: usize,
}

impl Response {
    pub fn json(status: u16, body: &Value) -> Self {
        let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
        Self { status, headers, body: body.to_string(), missing_bytes: 0 }
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Serves until it is dropped.
pub struct Recorded {
    /// `http://127.0.0.1:port`
    pub address: String,
    asked: Arc<Mutex<Vec<Request>>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Recorded {
    pub async fn start<F: Future<Output = Response> + Send + 'static>(
        answer: impl Fn(Request) -> F + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let recorded = asked.clone();
        let answer: Arc<dyn Fn(Request) -> Answering + Send + Sync> =
            Arc::new(move |request| Box::pin(answer(request)));
        let serving = tokio::spawn(async move {
            loop {
                let Ok((socket, _)) = listener.accept().await else { return };
                let (answer, recorded) = (answer.clone(), recorded.clone());
                tokio::spawn(async move {
                    // A client may disconnect before its answer.
                    serve(socket, &recorded, |request| answer(request)).await.ok();
                });
            }
        });
        Self { address, asked, serving }
    }

    /// All requests so far, in order.
    pub fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(
    mut socket: TcpStream,
    recorded: &Mutex<Vec<Request>>,
    answer: impl Fn(Request) -> Answering,
) -> std::io::Result<()> {
    let request = read(&mut socket).await?;
    recorded.lock().unwrap().push(request.clone());
    let Response { status, headers, body, missing_bytes } = answer(request).await;
    let mut text = format!("HTTP/1.1 {status} Recorded\r\nContent-Length: {}\r\nConnection: close\r\n", body.len());
    headers.iter().for_each(|(name, value)| text += &format!("{name}: {value}\r\n"));
    let sent = &body.as_bytes()[..body.len() - missing_bytes];
    socket.write_all(format!("{text}\r\n").as_bytes()).await?;
    socket.write_all(sent).await?;
    socket.shutdown().await
}

async fn read(socket: &mut TcpStream) -> std::io::Result<Request> {
    let mut got = Vec::new();
    let head_end = loop {
        if let Some(end) = got.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        more(socket, &mut got).await?;
    };
    let head = String::from_utf8(got[..head_end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers: Vec<_> = lines.filter_map(header).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, n)| n.parse().unwrap());
    while got.len() < head_end + 4 + length {
        more(socket, &mut got).await?;
    }
    let body = String::from_utf8(got[head_end + 4..].to_vec()).unwrap();
    Ok(Request { method, path, headers, body })
}

async fn more(socket: &mut TcpStream, got: &mut Vec<u8>) -> std::io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    match socket.read(&mut buffer).await? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        read => {
            got.extend_from_slice(&buffer[..read]);
            Ok(())
        }
    }
}
