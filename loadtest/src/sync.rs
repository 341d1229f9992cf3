//! Locks a mutex even if poisoned: our data stays usable after a thread has panicked while holding it.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
