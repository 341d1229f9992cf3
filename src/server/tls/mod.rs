//! The server's side of TLS: certificate, key and client authorities, read from files, checked, and reloaded when they
//! change. Independent of connections, HTTP and settings.
//!
//! Each file may use those above it in this list:
//!
//! - `files`: the contents of the files at one moment, and their faults; names and validity of a certificate
//! - `server`: files that fit together, as the configuration of new connections

mod files;
mod server;
#[cfg(test)]
mod tests;

pub use files::{Certificate, ClientCertificates, Concern, Files, TlsError};
pub use server::{Refreshed, ServerTls, check};
