//! The server's side of TLS: certificate, key and client authorities, read from files, checked, and read again when they
//! change. Knows nothing of connections, HTTP or settings.
//!
//! Each line may use those above it, and none below:
//!
//! - `files`: what the files contain at one moment, and what is wrong with one
//! - `certificate`: names and validity of a certificate
//! - `identity`: files that fit together, as a configuration for connections
//! - `live`: the configuration that new connections use

mod certificate;
mod files;
mod identity;
mod live;
#[cfg(test)]
mod tests;

pub use certificate::{Certificate, Concern};
pub use files::{ClientCertificates, Files, Part, Unfit};
pub use identity::check;
pub use live::{Refreshed, ServerTls};
