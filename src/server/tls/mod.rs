//! The server's side of TLS: certificate, key and client authorities, read from files, checked, and read again when they
//! change. Knows nothing of connections, HTTP or settings.
//!
//! Each line may use those above it, and none below:
//!
//! - `files`: what the files contain at one moment, and what is wrong with one; names and validity of a certificate
//! - `server`: files that fit together, as the configuration that new connections use

mod files;
mod server;
#[cfg(test)]
mod tests;

pub use files::{Certificate, ClientCertificates, Concern, Files, Part, Unfit};
pub use server::{Refreshed, ServerTls, check};
