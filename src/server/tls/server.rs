//! Certificate, key and client authorities that fit together, as the configuration of new connections; replaced when
//! the files change. Existing connections keep their configuration.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{Error, InconsistentKeys, RootCertStore};

use super::files::{Certificate, ClientCertificates, Content, Contents, Files, Fingerprint, Part, TlsError};

/// The supported versions of HTTP. Not HTTP/2: see docs/design/http.md.
const PROTOCOLS: [&[u8]; 2] = [b"http/1.1", b"http/1.0"];

/// A certificate with its key, for connections.
struct Identity {
    config: Arc<ServerConfig>,
    certificate: Certificate,
}

/// Reads and checks the files without using them. Returns warnings for the operator about usable files.
pub fn check(files: &Files) -> Result<Vec<String>, Vec<TlsError>> {
    let identity = Identity::new(files, &files.read())?;
    let concern = identity.certificate.concern(UnixTime::now());
    let concern = concern.map(|concern| format!("tls.certificate: {}", identity.certificate.explain(concern)));
    Ok(concern.into_iter().chain(files.exposure()).collect())
}

impl Identity {
    /// Fails with all faults of the files.
    fn new(files: &Files, contents: &Contents) -> Result<Self, Vec<TlsError>> {
        let provider = Arc::new(ring::default_provider());
        let mut unfit = Vec::new();
        let mut keep = |fault: TlsError| unfit.push(fault);
        let chain = chain(&contents.certificate).map_err(&mut keep).ok();
        let key = signing_key(&contents.key, &provider).map_err(&mut keep).ok();
        let verifier = verifier(&files.clients, contents.client_ca.as_ref(), &provider).map_err(&mut keep).ok();
        let (Some((chain, certificate)), Some(key), Some(verifier)) = (chain, key, verifier) else {
            return Err(unfit);
        };
        let certified = CertifiedKey::new(chain, key);
        certified.keys_match().map_err(|error| vec![mismatch(&error)])?;
        let config = configuration(provider, verifier, certified, &files.clients);
        let config =
            config.map_err(|error| vec![TlsError { part: Part::Key, message: format!("cannot be used: {error}") }])?;
        Ok(Self { config: Arc::new(config), certificate })
    }
}

fn configuration(
    provider: Arc<CryptoProvider>,
    verifier: Arc<dyn ClientCertVerifier>,
    certified: CertifiedKey,
    clients: &ClientCertificates,
) -> Result<ServerConfig, Error> {
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13, &TLS12])?;
    let builder = builder.with_client_cert_verifier(verifier);
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    match clients {
        ClientCertificates::Off => config.ticketer = ring::Ticketer::new()?,
        // Resumed sessions skip the client certificate, which might have expired or whose authority might have been
        // removed.
        ClientCertificates::Optional(_) | ClientCertificates::Required(_) => {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
    }
    Ok(config)
}

fn chain(content: &Content) -> Result<(Vec<CertificateDer<'static>>, Certificate), TlsError> {
    let chain = certificates(Part::Certificate, content)?;
    let certificate = Certificate::of(&chain[0]).map_err(|error| {
        let message = format!("the first certificate in the file cannot be used: {error}; create one of version 3");
        TlsError { part: Part::Certificate, message }
    })?;
    Ok((chain, certificate))
}

fn verifier(
    clients: &ClientCertificates,
    content: Option<&Content>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let Some(content) = content else {
        return Ok(Arc::new(NoClientAuth));
    };
    let unfit = |message| TlsError { part: Part::ClientCa, message };
    let mut roots = RootCertStore::empty();
    for (index, certificate) in certificates(Part::ClientCa, content)?.into_iter().enumerate() {
        let added = roots.add(certificate);
        added.map_err(|error| unfit(format!("certificate {} in the file cannot be used: {error}", index + 1)))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let builder = match clients {
        ClientCertificates::Optional(_) => builder.allow_unauthenticated(),
        ClientCertificates::Off | ClientCertificates::Required(_) => builder,
    };
    builder.build().map_err(|error| unfit(format!("cannot be used: {error}")))
}

/// Parses the certificates, at least one.
fn certificates(part: Part, content: &Content) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = content.as_ref().map_err(Clone::clone)?;
    let unfit = |message: String| TlsError { part, message };
    let found: Result<Vec<_>, PemError> = CertificateDer::pem_slice_iter(bytes).collect();
    let found = found.map_err(|error| unfit(not_pem(&error)))?;
    if found.is_empty() {
        let hint = if contains(bytes, b"PRIVATE KEY-----") {
            "; it has a private key: is it the file for tls.key?"
        } else {
            ""
        };
        return Err(unfit(format!("the file has no certificate in PEM (-----BEGIN CERTIFICATE-----){hint}")));
    }
    Ok(found)
}

fn signing_key(content: &Content, provider: &CryptoProvider) -> Result<Arc<dyn SigningKey>, TlsError> {
    let bytes = content.as_ref().map_err(Clone::clone)?;
    let unfit = |message: String| {
        let advice =
            "store it without a passphrase, readable only by the server's user: openssl pkey -in FILE -out NEW";
        let encrypted =
            contains(bytes, b"ENCRYPTED").then(|| format!("the private key in the file is encrypted; {advice}"));
        TlsError { part: Part::Key, message: encrypted.unwrap_or(message) }
    };
    let key = PrivateKeyDer::from_pem_slice(bytes).map_err(|error| match error {
        PemError::NoItemsFound => unfit("the file has no private key in PEM (-----BEGIN PRIVATE KEY-----)".to_owned()),
        error => unfit(not_pem(&error)),
    })?;
    provider.key_provider.load_private_key(key).map_err(|_| {
        let kinds = "RSA of 2048 to 8192 bits, ECDSA on P-256 or P-384, or Ed25519";
        unfit(format!("the private key in the file cannot be used; it must be {kinds}"))
    })
}

/// Does not quote the file, which may contain a key.
fn not_pem(error: &PemError) -> String {
    let reason = match error {
        PemError::MissingSectionEnd { .. } => "it ends within a section; is it still being written?",
        PemError::IllegalSectionStart { .. } => "a line that begins a section is malformed",
        PemError::Base64Decode(_) => "a section is not base64",
        _ => "it is malformed",
    };
    format!("the file is not PEM: {reason}")
}

fn mismatch(error: &Error) -> TlsError {
    let message = match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            "does not belong to tls.certificate: the first certificate in that file is for another key".to_owned()
        }
        error => format!("cannot be compared with tls.certificate: {error}"),
    };
    TlsError { part: Part::Key, message }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    memchr::memmem::find(bytes, text).is_some()
}

pub struct ServerTls {
    files: Files,
    identity: RwLock<Identity>,
    /// The fingerprint of the files when last read, usable or not, so that each change is reported once.
    seen: Mutex<Fingerprint>,
}

/// The result of checking the files for changes.
#[derive(Debug, PartialEq, Eq)]
pub enum Refreshed {
    Unchanged,
    /// New connections use the new files.
    Replaced(Certificate),
    /// The new files are not used; new connections keep using the old ones.
    Refused(Vec<TlsError>),
}

impl ServerTls {
    pub fn open(files: Files) -> Result<Self, Vec<TlsError>> {
        let contents = files.read();
        let identity = Identity::new(&files, &contents)?;
        Ok(Self { files, identity: RwLock::new(identity), seen: Mutex::new(contents.fingerprint()) })
    }

    /// The configuration for a new connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.identity.read().config.clone()
    }

    pub fn certificate(&self) -> Certificate {
        self.identity.read().certificate.clone()
    }

    /// Whether clients that ask for this name or address accept the certificate.
    pub fn is_for(&self, host: &str) -> bool {
        self.identity.read().certificate.is_for(host)
    }

    /// A warning if every user of this machine may read the key.
    pub fn exposure(&self) -> Option<String> {
        self.files.exposure()
    }

    /// Reads the files, and uses them from now on if they have changed and are usable.
    pub fn refresh(&self) -> Refreshed {
        let mut seen = self.seen.lock();
        let contents = self.files.read();
        let fingerprint = contents.fingerprint();
        if *seen == fingerprint {
            return Refreshed::Unchanged;
        }
        *seen = fingerprint;
        match Identity::new(&self.files, &contents) {
            Ok(identity) => {
                let certificate = identity.certificate.clone();
                *self.identity.write() = identity;
                Refreshed::Replaced(certificate)
            }
            Err(unfit) => Refreshed::Refused(unfit),
        }
    }
}
