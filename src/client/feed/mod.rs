//! The events of an organization: their stream, followed for as long as somebody looks, and their words.
//!
//! Order: `sse` (the format of the stream) and `words` (an event for people), then `follow` (connections).

mod follow;
mod sse;
mod words;

pub use follow::{Feed, News};
pub use words::EventWords;
