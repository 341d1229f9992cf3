//! The files of TLS: their names, what they contain at one moment, and what is wrong with one.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// Hundreds of authorities. A wrong path (a device, an image) is refused soon.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// Where certificate and key are, and who must show a certificate.
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
    /// They are not asked for one.
    Off,
    /// A client without one is served too; one that is shown must be good.
    Optional(PathBuf),
    /// Without one there is no connection.
    Required(PathBuf),
}

/// One of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Certificate,
    Key,
    ClientCa,
}

/// What is wrong with a file, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Unfit {
    pub part: Part,
    pub message: String,
}

/// The files as they were at one moment, or why they could not be read.
pub struct Contents {
    pub certificate: Content,
    pub key: Content,
    pub client_ca: Option<Content>,
}

pub type Content = Result<Zeroizing<Vec<u8>>, Unfit>;

/// Differs whenever the contents do.
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

impl fmt::Display for Unfit {
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
    let unfit = |reason: &str| Unfit { part, message: format!("cannot read `{}`: {reason}", path.display()) };
    // Of its final size from the start: a buffer that grows leaves copies of a key behind.
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
    // One more, so that the end is found without growing.
    usize::try_from(length.min(FILE_MAX_BYTES) + 1).unwrap_or_default()
}
