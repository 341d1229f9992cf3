//! The logs of a cluster beyond this node's disk: in the store that all nodes share, if there is one, and on the other
//! nodes. A missing part is fetched when it is requested, and then read as a file of this node.
//!
//! Each line may use those above it, and none below:
//!
//! - `object`: the uploaded bytes of a part, and the errors of the store
//! - `s3`: one kind of store; `store`: either kind
//! - `uploads`: uploads the output of stages; `sources`: reads from the store and the other nodes
//! - `fetch`: [`Archive`], which fetches parts to this node

mod fetch;
mod object;
mod s3;
mod sources;
mod store;
#[cfg(test)]
mod tests;
mod uploads;

pub use fetch::{Archive, ArchiveOptions, Unavailable};
pub use object::ObjectError;
pub use s3::{Credentials, S3, S3Settings};
pub use sources::PART_BYTES_MAX;
#[cfg(test)]
pub use sources::part_target;
pub use store::LogStore;
pub use uploads::{UPLOADS_WAITING_MAX, Uploads};
#[cfg(test)]
pub use uploads::{UploadControl, UploadProgress};
