//! What has happened in an organization, for ever in one order: recorded in the batch of the change itself, numbered and
//! chained by the store, read by those who ask.
//!
//! It records what others say has happened; it decides nothing. The form of a record on the disk is here and nowhere else.

mod event;
mod form;
mod reading;
mod record;
#[cfg(test)]
mod tests;

pub use event::{EventId, Occurred};
pub use form::notice_of;
pub use reading::{Events, Span};
pub use record::{Cause, Happening, record};
