//! Taking a lock.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The holder of a lock that panics leaves nothing half-done in the server.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
