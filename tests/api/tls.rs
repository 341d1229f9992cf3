//! The server's TLS: supported clients, certificates that change, clients that must present one, and clients that
//! stall. Certificates are issued by an authority of the tests.

mod client_certificates;
mod patience;
mod programs;
mod replacing;
mod signing_in;
mod starting;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::authority::{Authority, Issued};
use crate::support::waiting::until;
use crate::support::wire::Wire;
use crate::support::{Client, Server, Setup, http_builder};

/// The settings of every server here besides TLS.
const SMALL: &str = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n";

/// A folder with a certificate and its key, and the authority that signed it.
struct Site {
    authority: Authority,
    folder: TempDir,
}

impl Site {
    fn new() -> Self {
        let site = Self { authority: Authority::new("tests"), folder: tempfile::tempdir().unwrap() };
        site.install(&site.authority.issue(&["localhost"]));
        site.write("ca.pem", &site.authority.certificate);
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces a file atomically, as careful programs do.
    fn write(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        let new = self.path(&format!("{name}.new"));
        std::fs::write(&new, text).unwrap();
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(new, self.path(name)).unwrap();
    }

    fn install(&self, issued: &Issued) {
        self.write("cert.pem", &issued.certificate);
        self.write("key.pem", &issued.key);
    }

    /// Settings with these further lines of TLS, followed by other sections.
    fn settings(&self, more: &str) -> String {
        let folder = self.folder.path().display();
        format!("{SMALL}[tls]\ncertificate = \"{folder}/cert.pem\"\nkey = \"{folder}/key.pem\"\n{more}")
    }

    fn setup(&self, more: &str) -> Setup {
        Setup::default().settings(&self.settings(more))
    }

    fn start(&self) -> Server {
        self.setup("").start()
    }

    /// A client with separate connections, and optionally with a certificate.
    fn http(&self, identity: Option<&Issued>) -> reqwest::Client {
        let authority = reqwest::Certificate::from_pem(self.authority.certificate.as_bytes()).unwrap();
        let mut builder = http_builder().tls_certs_only([authority]);
        if let Some(Issued { certificate, key }) = identity {
            builder = builder.identity(reqwest::Identity::from_pem(format!("{key}{certificate}").as_bytes()).unwrap());
        }
        builder.build().unwrap()
    }

    fn admin(&self, server: &Server) -> Client {
        server.admin().over(self.http(None))
    }

    fn client_config(&self, identity: Option<&Issued>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.certificate.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(Issued { certificate, key }) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
            }
        };
        Arc::new(config)
    }

    /// A connection after its handshake, as far as the client can tell.
    async fn connect(&self, server: &Server, identity: Option<&Issued>) -> std::io::Result<TlsStream<TcpStream>> {
        let tcp = TcpStream::connect(("127.0.0.1", server.port())).await?;
        tcp.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(self.client_config(identity)).connect(name, tcp).await
    }

    async fn wire(&self, server: &Server) -> Wire<TlsStream<TcpStream>> {
        Wire::over(self.connect(server, None).await.unwrap())
    }

    /// The bytes that a client without an answer sends first.
    fn hello(&self) -> Vec<u8> {
        let name = ServerName::try_from("localhost").unwrap();
        let mut session = rustls::ClientConnection::new(self.client_config(None), name).unwrap();
        let mut hello = Vec::new();
        session.write_tls(&mut hello).unwrap();
        hello
    }

    /// Whether a new connection gets this certificate.
    async fn shows(&self, server: &Server, issued: &Issued) -> bool {
        let stream = self.connect(server, None).await.unwrap();
        let wanted = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0] == wanted
    }
}

/// The value of a series of the metrics; 0 if it is missing.
async fn metric(client: &Client, series: &str) -> u64 {
    let metrics = client.send(client.request(reqwest::Method::GET, "/metrics")).await.ok().text;
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse::<f64>().unwrap() as u64)
}

/// Whether a program is installed; otherwise prints the skipped part.
fn has(program: &str, argument: &str) -> bool {
    let is_there = Command::new(program).arg(argument).output().is_ok_and(|output| output.status.success());
    if !is_there {
        println!("skipped: {program} is not installed");
    }
    is_there
}
