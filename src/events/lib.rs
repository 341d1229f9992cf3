//! The events of each organization, in one order: recorded in the batch of the change itself, numbered and chained by the
//! store. Here they are recorded, read, filtered, audited and dropped when they are old.
//!
//! From the bottom up: `event`, `record` and `form` (the stored form), `filter`, `security` (which events outlive the
//! others), `seal` (what only the audit key can make), `reading`, `archive` (security events of dropped pages), `sealing`,
//! `resealing` (under another key), then `listing`, `retention`, `head_repair` and `audit` with its parts. Nothing here decides what happens.

mod archive;
mod audit;
mod audit_archive;
mod audit_seals;
mod audit_words;
mod event;
mod filter;
mod form;
mod head_repair;
mod listing;
mod reading;
mod record;
mod resealing;
mod retention;
mod seal;
mod sealing;
mod security;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub use audit::FaultKind;
pub use audit::{AuditReport, Expectation, ExpectationStatus, SealStatus};
pub use event::{EventId, RecordedEvent};
pub use filter::{Actor, Filter, Notices};
pub use form::{EventIdV1, notice_of};
pub use listing::Resumption;
pub use reading::{Events, Span};
pub use record::{Cause, NewEvent, record};
pub use retention::{Retention, Sweeper};
pub use seal::AuditKey;
pub use sealing::Sealer;
#[cfg(test)]
pub use security::SecurityClass;
