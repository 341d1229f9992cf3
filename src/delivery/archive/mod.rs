//! The logs of a cluster beyond this node's disk: the store that all nodes share, if there is one, and the other nodes. A part of
//! a log that is asked for and not here is fetched, and read as a file of this node from then on.
//!
//! Each line may use those above it, and none below:
//!
//! - `object`: where a part lies in the store; what is uploaded of it; why the store could not do it
//! - `s3`: one kind of store; `store`: one of both kinds
//! - `uploads`: uploads what stages have written; `sources`: the store and the other nodes, as readers ask them
//! - `fetch`: [`Archive`], which brings parts here

mod fetch;
mod object;
mod s3;
mod sources;
mod store;
#[cfg(test)]
mod tests;
mod uploads;

pub use fetch::{Archive, ArchiveOptions, Unavailable};
pub use object::StoreFailure;
pub use s3::{Credentials, S3, S3Settings};
pub use sources::PART_BYTES_MAX;
#[cfg(test)]
pub use sources::part_target;
pub use store::LogStore;
pub use uploads::{UPLOADS_WAITING_MAX, Uploads};
#[cfg(test)]
pub use uploads::{UploadControl, UploadProgress};
