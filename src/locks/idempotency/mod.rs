//! Idempotency keys: the answer to a request is stored for 24 hours, in the same commit as its effect, so that a retry
//! gets the first answer instead of a second effect. Independent of HTTP.
//!
//! A key is taken before the store is read, and freed only when its answer is durable. So a request that holds the key
//! and finds no answer is executed exactly once, however often it is sent and whenever the server crashes.
//!
//! Each organization has a share of `idempotency.max_keys` (`ledger`): no organization loses answers because another
//! one stores many.

mod answer;
mod keys;
mod ledger;

#[cfg(test)]
mod tests;

pub use answer::{Fingerprint, IdempotencyKey, StoredAnswer, Subject, scope_of};
pub use keys::{KeyState, Keys, Pending};
pub use ledger::indexed_scopes;
