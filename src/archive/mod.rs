//! The logs of a cluster beyond this node's disk: the store that all nodes share, if there is one, and the other nodes. A part of
//! a log that is asked for and not here is fetched, and read as a file of this node from then on.
//!
//! Each line may use those above it, and none below:
//!
//! - `signature`: AWS Signature Version 4, pure
//! - `error`: why the store could not do it
//! - `object`: where a part lies in the store; what is uploaded of it
//! - `s3`, `directory`: the two kinds of stores; `store`: one of them
//! - `uploads`: uploads what stages have written
//! - `fetching`: [`Archive`], which brings parts here

mod directory;
mod error;
mod fetching;
mod object;
mod s3;
mod signature;
mod store;
#[cfg(test)]
mod tests;
mod uploads;

pub use error::StoreFailure;
pub use fetching::{Archive, ArchiveOptions, PART_BYTES_MAX, Unavailable, part_target};
pub use s3::{S3, S3Settings};
pub use signature::Credentials;
pub use store::LogStore;
pub use uploads::{UPLOADS_WAITING_MAX, UploadProgress, Uploads};
