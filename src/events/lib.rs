//! The events of each organization in a total order: recorded in the batch of the change itself, numbered and chained
//! by the store. This crate records, reads, filters and audits events, and drops old ones.
//!
//! From the bottom up: `event` (with its stored form), `filter`, `seal` (marks that require the audit key), `archive`
//! (events kept longer than others), `journal` (reading and listing), `sealer` (also resealing with another key), then
//! `retention` and `audit` with its parts. Nothing here decides which events happen.

mod archive;
mod audit;
mod audit_archive;
mod audit_seals;
mod event;
mod filter;
mod journal;
mod retention;
mod seal;
mod sealer;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub use audit::FaultKind;
pub use audit::{AuditReport, Expectation, ExpectationStatus, SealStatus};
pub use event::{Cause, EventId, EventIdV1, NewEvent, RecordedEvent, notice_of, record};
pub use filter::{Actor, Filter, Notices};
pub use journal::{Events, Resumption, Span};
pub use retention::{Retention, Sweeper};
pub use seal::AuditKey;
pub use sealer::Sealer;
