//! Taking a lock.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock whose holder panicked holds nothing half-done in the server.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
