//! A real S3 server: moto, from PyPI, which `tests/run` installs.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;

use super::{s3, settings};
use crate::archive::LogStore;
use outbound::LazyClient;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/test-tools/moto/bin/moto_server");
const BUCKETS: [&str; 2] = ["logs", "other"];
/// Python starts slowly on a busy machine.
const UP_WITHIN: Duration = Duration::from_secs(120);
const SLOW_DOWN: &str = "HTTP/1.1 503 Slow Down\r\nContent-Length: 51\r\nConnection: close\r\n\r\n\
                         <Error><Code>SlowDown</Code><Message/></Error>     ";

/// Killed when dropped. Its data is only in its memory.
pub struct Moto {
    port: u16,
    process: Option<Child>,
}

/// Another address of the same server.
pub struct Proxy(u16);

impl Proxy {
    pub fn store(&self, bucket: &str, prefix: &str, key: &str) -> LogStore {
        s3(settings(&format!("http://127.0.0.1:{}", self.0), (bucket, prefix), (key, "secret")))
    }
}

impl Moto {
    /// `None`, with a message, if it is not installed.
    pub fn start() -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            eprintln!("skipped: moto is not installed (tests/run does)");
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut moto = Self { port, process: None };
        moto.start_again();
        Some(moto)
    }

    pub fn start_again(&mut self) {
        let port = self.port.to_string();
        let mut command = Command::new(PROGRAM);
        command.args(["-H", "127.0.0.1", "-p", &port]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(command.spawn().unwrap());
        let deadline = Instant::now() + UP_WITHIN;
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < deadline, "moto did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        for bucket in BUCKETS {
            assert_eq!(self.call("PUT", &format!("/{bucket}"), "s3", "").0, 200);
        }
    }

    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    pub fn store(&self, bucket: &str, prefix: &str, key: &str) -> LogStore {
        self.with_secret(bucket, prefix, (key, "secret"))
    }

    pub fn with_secret(&self, bucket: &str, prefix: &str, key: (&str, &str)) -> LogStore {
        s3(settings(&format!("http://127.0.0.1:{}", self.port), (bucket, prefix), key))
    }

    /// From now on the server checks every signature. Returns a key with all permissions, and its secret.
    pub fn demand_credentials(&self) -> (String, String) {
        self.act("Action=CreateUser&UserName=lock");
        let policy = "%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%7B%22Effect%22%3A%22Allow%22%2C%22Action%22\
                      %3A%22%2A%22%2C%22Resource%22%3A%22%2A%22%7D%5D%7D";
        self.act(&format!("Action=PutUserPolicy&UserName=lock&PolicyName=all&PolicyDocument={policy}"));
        let made = self.act("Action=CreateAccessKey&UserName=lock");
        assert_eq!(self.call("POST", "/moto-api/reset-auth", "s3", "0").0, 200);
        (between(&made, "<AccessKeyId>"), between(&made, "<SecretAccessKey>"))
    }

    fn act(&self, form: &str) -> String {
        let (status, body) = self.call("POST", "/", "iam", &format!("{form}&Version=2010-05-08"));
        assert_eq!(status, 200, "{body}");
        body
    }

    /// The service is named in the header of the signature, which is not checked yet.
    fn call(&self, method: &str, path: &str, service: &str, body: &str) -> (u16, String) {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let header = format!(
            "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/{service}/aws4_request, SignedHeaders=host, Signature=0"
        );
        let (method, service, body) = (method.parse().unwrap(), service.to_owned(), body.to_owned());
        let send = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let client = LazyClient::new();
                let request = client.get().unwrap().request(method, url).header("authorization", header);
                // Moto does not pass the body of a form to its own API.
                let kind = if service == "iam" { "application/x-www-form-urlencoded" } else { "text/plain" };
                let request = request.header("content-type", kind).body(body);
                let answer = request.send().await.unwrap();
                (answer.status().as_u16(), answer.text().await.unwrap())
            })
        };
        // The tests run in an async runtime, which must not be blocked.
        std::thread::spawn(send).join().unwrap()
    }

    /// A proxy that answers 503 to the first `first` requests.
    pub async fn behind_503(&self, first: usize) -> Proxy {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, behind) = (listener.local_addr().unwrap().port(), self.port);
        tokio::spawn(async move {
            for number in 0.. {
                let (mut client, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    if number < first {
                        // A part of the request is enough.
                        assert!(client.read(&mut [0; 16 * 1024]).await.is_ok_and(|bytes| bytes > 0));
                        client.write_all(SLOW_DOWN.as_bytes()).await.ok();
                    } else if let Ok(mut server) = TcpStream::connect(("127.0.0.1", behind)).await {
                        copy_bidirectional(&mut client, &mut server).await.ok();
                    }
                });
            }
        });
        Proxy(port)
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        self.stop();
    }
}

fn between(body: &str, tag: &str) -> String {
    body.split_once(tag).unwrap().1.split_once('<').unwrap().0.to_owned()
}
