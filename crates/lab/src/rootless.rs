//! Labs of users who are not root: the lab's owner first moves into a user namespace, in which it
//! is root.

use std::io;

use rustix::thread::UnshareFlags;

use crate::Error;
use crate::user::is_root;

/// What a lab made without root cannot do, in words.
pub const MISSING: &str = "Made without root: the path's threads keep time as ordinary programs do (its lateness is shown), testbeds and tracers \
                           are not possible in it, and hosts do not have the sysctls of net.core.";

/// Moves this process, which has a single thread, into a user namespace in which it is root and no
/// other user is known. A process that is root already stays where it is.
///
/// # Errors
/// [`Error::NoUserNamespace`] where the machine does not let its users make one.
pub fn enter() -> Result<(), Error> {
    if is_root() {
        return Ok(());
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // The folder depends on who the user is outside.
    crate::registry::directory();
    let entered = || -> io::Result<()> {
        // SAFETY: a user namespace has no part in what descriptors and memory mean.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER) }?;
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
        std::fs::write("/proc/self/gid_map", format!("0 {group} 1"))
    };
    entered().map_err(|source| Error::NoUserNamespace { source })
}
