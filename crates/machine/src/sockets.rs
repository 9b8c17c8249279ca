//! Socket families and the timestamps that sockets give, each tried on a separate socket.

use std::io;
use std::os::fd::OwnedFd;

use nix::sys::socket::setsockopt;
use nix::{setsockopt_impl, sockopt_impl};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, ipproto, socket_with, sockopt};
use timestamping::Flags;

use crate::{Capability, Group, State, is_root};

/// `TPACKET_V3` of `<linux/if_packet.h>`.
const TPACKET_V3: libc::c_int = 2;

sockopt_impl!(
    /// The layout of a packet socket's rings.
    PacketVersion,
    SetOnly,
    libc::SOL_PACKET,
    libc::PACKET_VERSION,
    libc::c_int
);

/// Flags of `SO_TIMESTAMPING` that not every kernel knows, and that something here would use.
const OPTIONAL_FLAGS: [(Flags, &str); 5] = [
    (Flags::OPT_TSONLY, "OPT_TSONLY"),
    (Flags::OPT_TX_SWHW, "OPT_TX_SWHW"),
    (Flags::OPT_ID_TCP, "OPT_ID_TCP"),
    (Flags::OPT_RX_FILTER, "OPT_RX_FILTER"),
    (Flags::TX_COMPLETION, "TX_COMPLETION"),
];

fn socket(family: AddressFamily, kind: SocketType, protocol: Option<Protocol>) -> io::Result<OwnedFd> {
    Ok(socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?)
}

fn xdp() -> io::Result<String> {
    let socket = socket(AddressFamily::XDP, SocketType::RAW, None)?;
    sockopt::set_xdp_rx_ring_size(&socket, 64)?;
    Ok(String::new())
}

fn packet() -> io::Result<String> {
    // Protocol 0 receives nothing, so the trial costs the machine's traffic nothing.
    let socket = socket(AddressFamily::PACKET, SocketType::RAW, None)?;
    setsockopt(&socket, PacketVersion, &TPACKET_V3)?;
    Ok("with TPACKET_V3 rings".into())
}

fn timestamping() -> io::Result<String> {
    let supported = Flags::supported().map_err(io::Error::other)?;
    let (known, unknown): (Vec<_>, Vec<_>) =
        OPTIONAL_FLAGS.into_iter().partition(|(flag, _)| supported.contains(*flag));
    let known: Vec<_> = known.iter().map(|(_, name)| *name).collect();
    let unknown: Vec<_> = unknown.iter().map(|(flag, name)| format!("{name} (since {})", flag.since())).collect();
    let without = if unknown.is_empty() { String::new() } else { format!("; without {}", unknown.join(", ")) };
    Ok(format!("with {}{without}", known.join(", ")))
}

fn ping() -> io::Result<String> {
    match socket(AddressFamily::INET, SocketType::DGRAM, Some(ipproto::ICMP)) {
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
        let outcome = socket(AddressFamily::from_raw(250), SocketType::RAW, None).map(|_| String::new());
        assert!(matches!(State::tried(outcome, false), State::Missing(_)));
    }

    #[test]
    fn timestamping_names_what_this_kernel_has() {
        assert!(timestamping().unwrap().contains("OPT_TSONLY"));
    }
}
