//! The kernel's own receive stamps, which more than one probe asks for.

use std::os::fd::OwnedFd;

use record::{Realtime, Tai};

/// A socket that has the kernel stamp the packets it receives, all of the machine's, for as long as
/// it is open.
///
/// # Errors
/// Where the kernel takes no such stamps.
pub(crate) fn receive_stamps() -> Result<OwnedFd, String> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    let socket = socket.map_err(|error| format!("no socket can be made: {error}"))?;
    timestamping::Request::new().receive_software().enable(&socket).map_err(|error| error.to_string())?;
    Ok(socket)
}

/// TAI − REALTIME, ns: whole seconds, so the time between the two readings rounds away.
pub(crate) fn tai_offset() -> i64 {
    const SECOND: i64 = 1_000_000_000;
    (timestamping::conversion::<Realtime, Tai>().offset + SECOND / 2).div_euclid(SECOND) * SECOND
}

#[cfg(test)]
mod tests {
    #[test]
    fn tai_is_ahead_by_whole_seconds() {
        let offset = super::tai_offset();
        assert!(offset % 1_000_000_000 == 0 && (0..100_000_000_000).contains(&offset), "{offset}");
    }
}
