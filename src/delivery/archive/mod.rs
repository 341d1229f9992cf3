//! The logs of a cluster beyond this node's disk: the store that all nodes share, if there is one, and the other nodes. A part of
//! a log that is asked for and not here is fetched, and read as a file of this node from then on.
//!
//! Each line may use those above it, and none below:
//!
//! - `signature`: AWS Signature Version 4, pure
//! - `error`: why the store could not do it
//! - `object`: where a part lies in the store; what is uploaded of it
//! - `s3`, `directory`: the two kinds of stores; `store`: one of them
//! - `line`: which log is uploaded next, pure; `uploads`: uploads what stages have written
//! - `outage`: how long a source that failed is not asked again, pure; `sources`: the store and the other nodes, as readers ask them
//! - `fetching`: [`Archive`], which brings parts here

mod directory;
mod error;
mod fetching;
mod line;
mod object;
mod outage;
mod s3;
mod signature;
mod sources;
mod store;
#[cfg(test)]
mod tests;
mod uploads;

pub use error::StoreFailure;
pub use fetching::{Archive, ArchiveOptions, Unavailable};
pub use line::UPLOADS_WAITING_MAX;
pub use s3::{S3, S3Settings};
pub use signature::Credentials;
pub use sources::PART_BYTES_MAX;
#[cfg(test)]
pub use sources::part_target;
pub use store::LogStore;
pub use uploads::Uploads;
#[cfg(test)]
pub use uploads::{UploadControl, UploadProgress};
