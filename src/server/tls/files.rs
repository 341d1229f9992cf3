//! The TLS files: their paths, their contents at one moment, their faults, and the names and validity of a certificate.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// Enough for hundreds of authorities. A wrong path (a device, an image) is refused early.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// The paths of certificate and key, and whether clients must show a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The server's certificate, followed by those of its intermediate authorities, in PEM.
    pub certificate: PathBuf,
    /// The private key of the certificate, in PEM.
    pub key: PathBuf,
    pub clients: ClientCertificates,
}

/// Whether clients show a certificate, and the authorities that must have signed it, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Clients are not asked for a certificate.
    Off,
    /// Clients without a certificate are served, too; a certificate that is shown must be valid.
    Optional(PathBuf),
    /// Connections without a certificate are refused.
    Required(PathBuf),
}

/// One of the TLS files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Certificate,
    Key,
    ClientCa,
}

/// A fault of a file, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct TlsError {
    pub part: Part,
    pub message: String,
}

/// The files at one moment, or why they could not be read.
pub struct Contents {
    pub certificate: Content,
    pub key: Content,
    pub client_ca: Option<Content>,
}

pub type Content = Result<Zeroizing<Vec<u8>>, TlsError>;

/// A hash of the contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl ClientCertificates {
    pub fn authorities(&self) -> Option<&Path> {
        match self {
            ClientCertificates::Off => None,
            ClientCertificates::Optional(path) | ClientCertificates::Required(path) => Some(path),
        }
    }
}

impl Part {
    /// The setting that names the file.
    pub const fn setting(self) -> &'static str {
        match self {
            Part::Certificate => "tls.certificate",
            Part::Key => "tls.key",
            Part::ClientCa => "tls.client_ca",
        }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part.setting(), self.message)
    }
}

impl Files {
    pub fn read(&self) -> Contents {
        Contents {
            certificate: read(Part::Certificate, &self.certificate),
            key: read(Part::Key, &self.key),
            client_ca: self.clients.authorities().map(|path| read(Part::ClientCa, path)),
        }
    }

    /// A warning if every user of this machine may read the key.
    pub fn exposure(&self) -> Option<String> {
        let mode = std::fs::metadata(&self.key).ok()?.permissions().mode();
        let key = self.key.display();
        (mode & 0o004 != 0)
            .then(|| format!("tls.key: every user of this machine can read `{key}`; run chmod o-r {key}"))
    }
}

impl Contents {
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hash = Sha256::new();
        for content in [Some(&self.certificate), Some(&self.key), self.client_ca.as_ref()].into_iter().flatten() {
            let (kind, bytes) = match content {
                Ok(bytes) => (0, bytes.as_slice()),
                Err(unfit) => (1, unfit.message.as_bytes()),
            };
            hash.update([kind]);
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        }
        Fingerprint(hash.finalize().into())
    }
}

fn read(part: Part, path: &Path) -> Content {
    let unfit = |reason: &str| TlsError { part, message: format!("cannot read `{}`: {reason}", path.display()) };
    // A buffer of the final size: one that grows leaves copies of a key in memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(length_of(path)));
    let read = File::open(path).and_then(|file| file.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => unfit("the file does not exist"),
        io::ErrorKind::PermissionDenied => unfit("permission denied; let the server's user read it"),
        io::ErrorKind::IsADirectory => unfit("it is a directory"),
        _ => unfit(&error.to_string()),
    })?;
    if bytes.len() as u64 > FILE_MAX_BYTES {
        return Err(unfit(&format!("it is larger than {} MiB", FILE_MAX_BYTES >> 20)));
    }
    Ok(bytes)
}

fn length_of(path: &Path) -> usize {
    let length = std::fs::metadata(path).map_or(0, |found| found.len());
    // One byte more, so that the end is found without growing the buffer.
    usize::try_from(length.min(FILE_MAX_BYTES) + 1).unwrap_or_default()
}

/// Warn this long before a certificate expires: renewals are usually automatic and happen earlier.
const EXPIRES_SOON: Duration = Duration::from_hours(14 * 24);

/// The names and the validity of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Its DNS names, possibly with wildcards.
    pub names: Vec<String>,
    der: CertificateDer<'static>,
    not_before: UnixTime,
    not_after: UnixTime,
}

/// Why clients refuse a certificate at some moment, or will soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concern {
    NotYetValid,
    ExpiresSoon,
    Expired,
}

impl Certificate {
    pub fn of(der: &CertificateDer<'_>) -> Result<Self, Error> {
        let parsed = ParsedCertificate::try_from(der)?;
        let names =
            webpki::EndEntityCert::try_from(der).map(|found| found.valid_dns_names().map(str::to_owned).collect());
        Ok(Self {
            names: names.unwrap_or_default(),
            der: der.clone().into_owned(),
            not_before: missed_bound(&parsed, FIRST).unwrap_or(FIRST),
            not_after: missed_bound(&parsed, LAST).unwrap_or(LAST),
        })
    }

    /// Whether clients accept the certificate for this name or address.
    pub fn is_for(&self, host: &str) -> bool {
        let parsed = ParsedCertificate::try_from(&self.der);
        let name = ServerName::try_from(host);
        parsed.ok().zip(name.ok()).is_some_and(|(parsed, name)| verify_server_name(&parsed, &name).is_ok())
    }

    pub fn concern(&self, now: UnixTime) -> Option<Concern> {
        let left_seconds = self.not_after.as_secs().saturating_sub(now.as_secs());
        if now < self.not_before {
            Some(Concern::NotYetValid)
        } else if now > self.not_after {
            Some(Concern::Expired)
        } else {
            (left_seconds < EXPIRES_SOON.as_secs()).then_some(Concern::ExpiresSoon)
        }
    }

    /// When it expires, in seconds since 1970.
    pub fn expires_at(&self) -> u64 {
        self.not_after.as_secs()
    }

    /// One sentence about a concern, with what to do.
    pub fn explain(&self, concern: Concern) -> String {
        let (begin, end) = (shown(self.not_before), shown(self.not_after));
        match concern {
            Concern::NotYetValid => {
                format!(
                    "the certificate is valid only from {begin} on; until then clients refuse it: check this machine's clock"
                )
            }
            Concern::ExpiresSoon => {
                format!("the certificate expires on {end}; put a new one in its place, no restart is needed")
            }
            Concern::Expired => {
                format!(
                    "the certificate expired on {end} and clients refuse it; put a new one in its place, no restart is needed"
                )
            }
        }
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = if self.names.is_empty() { "no DNS name".to_owned() } else { self.names.join(", ") };
        write!(f, "for {names}, until {}", shown(self.not_after))
    }
}

/// Times before and after the validity of any certificate.
const FIRST: UnixTime = UnixTime::since_unix_epoch(Duration::ZERO);
const LAST: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX));

/// The bound of its validity that a certificate misses at `time`. Verification checks the validity first and returns
/// the bound in its error, so no certificate parser is needed besides that of rustls.
fn missed_bound(parsed: &ParsedCertificate<'_>, time: UnixTime) -> Option<UnixTime> {
    let algorithms = ring::default_provider().signature_verification_algorithms.all;
    match verify_server_cert_signed_by_trust_anchor(parsed, &RootCertStore::empty(), &[], time, algorithms) {
        Err(Error::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. })) => Some(not_before),
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => Some(not_after),
        Ok(()) | Err(_) => None,
    }
}

fn shown(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map_or_else(|_| "an unknown time".to_owned(), |time| time.to_string())
}
