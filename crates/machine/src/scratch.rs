//! What labs are made of, tried in a network namespace that belongs to one thread: when the thread
//! ends, so do the namespace and every device and queue in it, however the process ends.

use std::io;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::link::LinkAttribute;
use netlink_packet_route::tc::TcHandle;

use crate::device::{self, Tunnel};
use crate::netlink::{self, Netlink};
use crate::{Capability, Group, State, enter_new_network, is_root};

/// What is asked for takes the place of what is there.
const CREATE: u16 = NLM_F_CREATE | NLM_F_REPLACE;
/// `TC_H_ROOT` and `TC_H_CLSACT` of `<linux/pkt_sched.h>`.
const ROOT: u32 = 0xFFFF_FFFF;
const CLSACT: u32 = 0xFFFF_FFF1;

/// The names of what a lab cannot do without, and of the two that can carry its path.
pub const NAMESPACES: &str = "network namespaces";
/// The built-in path.
pub const TUN: &str = "TUN";
/// The kernel's path.
pub const NETEM: &str = "netem";

/// Name, queue kind, parent, size of the options it insists on, purpose, and what is used instead.
const QDISCS: [(&str, &str, u32, usize, &str, &str); 4] = [
    // netem refuses to start without its struct tc_netem_qopt: 24 bytes, where zeros mean no delay
    // and no loss.
    (
        NETEM,
        "netem",
        ROOT,
        24,
        "the kernel's own path for labs: lab up --backend netem",
        "the built-in path, in user space",
    ),
    ("fq", "fq", ROOT, 0, "pacing in the qdisc, per connection", "TCP paces by its own timer"),
    ("fq_codel", "fq_codel", ROOT, 0, "studies of queues that keep delay low", "studies compare pfifo_fast alone"),
    ("tc clsact", "clsact", CLSACT, 0, "BPF programs at a device's two edges", "XDP and AF_PACKET taps"),
];

struct Trials {
    namespace: io::Result<()>,
    veth: io::Result<String>,
    tun: io::Result<String>,
    qdiscs: Vec<io::Result<String>>,
}

/// The offloads of `<linux/if_tun.h>` with `IFF_VNET_HDR`: checksum, TSO for IPv4 and IPv6; and
/// USO, since 6.2.
const TSO: u32 = 0x01 | 0x02 | 0x04;
const USO: u32 = 0x20 | 0x40;

fn tun() -> io::Result<String> {
    let file = device::open_tun()?;
    device::make_tun(&file, c"", Tunnel::Tun)?;
    let whole = |offloads| device::take_whole(&file, offloads).is_ok();
    Ok(match (whole(TSO), whole(TSO | USO)) {
        (_, true) => "TCP and UDP frames pass whole".into(),
        (true, false) => "TCP frames pass whole; UDP ones since 6.2".into(),
        (false, false) => "frames are cut to size by the kernel".into(),
    })
}

fn absent(error: io::Error, what: &str) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => io::Error::other(format!("this kernel has no {what}")),
        _ => error,
    }
}

fn try_all() -> Trials {
    let refused = || io::Error::from_raw_os_error(libc::EPERM);
    if let Err(error) = enter_new_network() {
        let kind = error.raw_os_error().unwrap_or(libc::EPERM);
        let again = || io::Error::from_raw_os_error(kind);
        return Trials {
            namespace: Err(error),
            veth: Err(again()),
            tun: Err(again()),
            qdiscs: QDISCS.iter().map(|_| Err(again())).collect(),
        };
    }
    match Netlink::open() {
        Ok(mut kernel) => Trials {
            namespace: Ok(()),
            veth: kernel
                .request(netlink::veth("left", vec![LinkAttribute::IfName("right".into())]), CREATE)
                .map(|()| String::new())
                .map_err(|e| absent(e, "veth device")),
            tun: tun().map_err(|e| absent(e, "/dev/net/tun")),
            qdiscs: QDISCS
                .iter()
                .map(|&(_, kind, parent, size, ..)| {
                    let asked = netlink::qdisc(netlink::LOOPBACK, kind, TcHandle::UNSPEC, parent.into(), vec![0; size]);
                    let done = kernel.request(asked, CREATE);
                    done.map(|()| String::new()).map_err(|e| absent(e, &format!("qdisc {kind} (sch_{kind})")))
                })
                .collect(),
        },
        Err(_) => Trials {
            namespace: Ok(()),
            veth: Err(refused()),
            tun: tun().map_err(|e| absent(e, "/dev/net/tun")),
            qdiscs: QDISCS.iter().map(|_| Err(refused())).collect(),
        },
    }
}

/// Tries what labs are made of. A user who is not root can have a lab in a user namespace: a
/// process that has entered one tries the same there.
pub fn capabilities() -> Vec<Capability> {
    let root = is_root();
    // Without a thread nothing can be tried: this one would stay in the namespaces that are made.
    let Ok(thread) = std::thread::Builder::new().spawn(try_all) else { return Vec::new() };
    let Ok(trials) = thread.join() else { return Vec::new() };
    let row = |name, outcome, purpose, instead| {
        Capability::new(Group::Lab, name, State::tried(outcome, root), purpose, instead)
    };
    let mut all = vec![
        row(NAMESPACES, trials.namespace.map(|()| String::new()), "the hosts of a lab", "no lab on this machine"),
        row("veth", trials.veth, "joins the hosts of a lab over netem", "the built-in path, over TAP devices"),
        row(TUN, trials.tun, "the built-in path of a lab", "lab up --backend netem"),
    ];
    all.extend(
        QDISCS
            .iter()
            .zip(trials.qdiscs)
            .map(|(&(name, _, _, _, purpose, instead), outcome)| row(name, outcome, purpose, instead)),
    );
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tried_is_right_and_leaves_nothing() {
        tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
        let devices = || {
            let mut all: Vec<_> =
                std::fs::read_dir("/sys/class/net").unwrap().map(|e| e.unwrap().file_name()).collect();
            all.sort();
            all
        };
        let before = devices();
        let all = capabilities();
        assert_eq!(devices(), before);
        let state = |name| &all.iter().find(|c| c.name == name).unwrap().state;
        assert!(matches!(state("network namespaces"), State::Available(_)));
        assert!(matches!(state("TUN"), State::Available(_)));
    }

    #[test]
    fn a_kind_of_queue_that_does_not_exist_is_missing() {
        tier::needs!(tier::Need::Root);
        let outcome = std::thread::spawn(|| {
            enter_new_network()?;
            let asked = netlink::qdisc(netlink::LOOPBACK, "nosuchqdisc", TcHandle::UNSPEC, ROOT.into(), Vec::new());
            Netlink::open()?.request(asked, CREATE)
        });
        let error = outcome.join().unwrap().unwrap_err();
        assert_eq!(absent(error, "such").to_string(), "this kernel has no such");
    }
}
