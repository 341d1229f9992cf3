//! Owns how a mutex is locked: what is in ours stays usable when a thread that had it has panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
