//! Idempotency keys: what a request was answered, kept for 24 hours in the same commit as its effect, so that a retry gets
//! the first answer again instead of a second effect. Knows nothing of HTTP.
//!
//! A key is taken before the store is read and free again only once its answer is durable. So whoever has the key and
//! finds no answer is the only one who executes the request, however often it is sent and wherever the server dies.

mod key;
mod keys;
mod stored;
mod sweep;

#[cfg(test)]
mod tests;

pub use key::{Fingerprint, IdempotencyKey};
pub use keys::{KeyState, Keys, Pending, StoredAnswer, Subject};
