//! The events of each organization, in one order: recorded in the batch of the change itself, numbered and chained by the
//! store. Here they are recorded, read, filtered, audited and dropped when they are old.
//!
//! From the bottom up: `event`, `record` and `form` (the stored form), `filter`, `reading`, then `listing`, `audit`,
//! `retention` and `head_repair`. Nothing here decides what happens.

mod audit;
mod event;
mod filter;
mod form;
mod head_repair;
mod listing;
mod reading;
mod record;
mod retention;
#[cfg(test)]
mod tests;

pub use audit::{AuditReport, Expectation, ExpectationStatus, Fault, FaultKind};
pub use event::{EventId, RecordedEvent};
pub use filter::{Actor, Filter, Notices};
pub use form::{EventHead, notice_of};
pub use listing::{EventList, EventRange, Resumption};
pub use reading::{Events, Span};
pub use record::{Cause, NewEvent, record};
pub use retention::{Retention, Sweeper};
