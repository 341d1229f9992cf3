//! What has happened in an organization, for ever in one order: recorded in the batch of the change itself, numbered and
//! chained by the store, read by those who ask.
//!
//! It records what others say has happened; it decides nothing. The form of a record on the disk is here and nowhere else.

mod audit;
mod event;
mod filter;
mod form;
mod listing;
mod mending;
mod reading;
mod record;
mod retention;
#[cfg(test)]
mod tests;

pub use audit::{Expectation, Fault, Found, Report, Wrong};
pub use event::{EventId, Occurred};
pub use filter::{Actor, Filter, Notices};
pub use form::{Glance, notice_of};
pub use listing::{Listed, Place, Stretch};
pub use reading::{Events, Span};
pub use record::{Cause, Happening, record};
pub use retention::{Retention, Sweeper};
