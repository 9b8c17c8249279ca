//! Socket families and the timestamps that sockets give, each tried on a separate socket.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use crate::{Capability, Group, State, is_root};

/// `TPACKET_V3` of `<linux/if_packet.h>`.
const TPACKET_V3: libc::c_int = 2;

/// Flags of `SO_TIMESTAMPING` that not every kernel knows: bit, name, and the kernel that brought it.
const TIMESTAMPING_FLAGS: [(u32, &str, &str); 4] = [
    (1 << 11, "OPT_TSONLY", "4.0"),
    (1 << 14, "OPT_TX_SWHW", "4.13"),
    (1 << 16, "OPT_ID_TCP", "6.2"),
    (1 << 17, "OPT_RX_FILTER", "6.12"),
];
/// `SOF_TIMESTAMPING_OPT_ID`, which `OPT_ID_TCP` requires.
const OPT_ID: u32 = 1 << 7;

pub(crate) fn socket(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: socket takes three numbers; a failure is a negative number, checked below.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: u32) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which outlives the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn xdp() -> io::Result<String> {
    let socket = socket(libc::AF_XDP, libc::SOCK_RAW, 0)?;
    set(&socket, libc::SOL_XDP, libc::XDP_RX_RING, 64)?;
    Ok(String::new())
}

fn packet() -> io::Result<String> {
    // Protocol 0 receives nothing, so the trial costs the machine's traffic nothing.
    let socket = socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, TPACKET_V3 as u32)?;
    Ok("with TPACKET_V3 rings".into())
}

fn timestamping() -> io::Result<String> {
    let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, OPT_ID)?;
    let mut known = Vec::new();
    let mut unknown = Vec::new();
    for (flag, name, since) in TIMESTAMPING_FLAGS {
        match set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flag | OPT_ID) {
            Ok(()) => known.push(name.to_owned()),
            Err(_) => unknown.push(format!("{name} (since {since})")),
        }
    }
    let without = if unknown.is_empty() { String::new() } else { format!("; without {}", unknown.join(", ")) };
    Ok(format!("with {}{without}", known.join(", ")))
}

fn ping() -> io::Result<String> {
    match socket(libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP) {
        Ok(_) => Ok(String::new()),
        // Root has no privilege here: the sysctl names groups, and often none.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(io::Error::other("net.ipv4.ping_group_range excludes the group of this process"))
        }
        Err(error) => Err(error),
    }
}

pub fn capabilities() -> Vec<Capability> {
    let root = is_root();
    let row = |name, outcome, purpose, instead| {
        Capability::new(Group::Sockets, name, State::tried(outcome, root), purpose, instead)
    };
    vec![
        row(
            "SO_TIMESTAMPING",
            timestamping(),
            "probe, and the timestamping crate",
            "probe takes the program's own clock",
        ),
        row(
            "AF_PACKET",
            packet(),
            "capture with recvmsg, recvmmsg, rx-ring; generate",
            "capture files are read, none taken",
        ),
        row(
            "AF_XDP",
            xdp(),
            "capture and generate past the stack",
            "capture --method rx-ring; generate through AF_PACKET",
        ),
        row("ping socket", ping(), "probe icmp without root", "probe icmp through a raw socket, as root"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_that_does_not_exist_is_missing() {
        let outcome = socket(250, libc::SOCK_RAW, 0).map(|_| String::new());
        assert!(matches!(State::tried(outcome, false), State::Missing(_)));
    }

    #[test]
    fn unknown_timestamping_flags_are_refused_by_the_kernel() {
        // What `timestamping` concludes rests on this.
        let socket = socket(libc::AF_INET, libc::SOCK_DGRAM, 0).unwrap();
        assert!(set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, 1 << 30).is_err());
        assert!(timestamping().unwrap().contains("OPT_TSONLY"));
    }
}
