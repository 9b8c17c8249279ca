//! Callbacks of BPF timestamping: those of Linux 6.15, and those that its author has proposed since
//! (Jason Xing, "The Future of `SO_TIMESTAMPING`"), by the names that the running kernel has for
//! them in its type information. How later kernels will call them is not known, so they are
//! recognised by a part of their names, and any other new one is listed too.

use crate::btf::Btf;
use crate::{Capability, Group, State};

/// What the kernel's callbacks begin with,
const CALLBACK: &str = "BPF_SOCK_OPS_TSTAMP_";
/// and the flags by which a socket asks for them.
const FLAG: &str = "SK_BPF_CB_";
/// Those of Linux 6.15.
const KNOWN: [&str; 8] = [
    "BPF_SOCK_OPS_TSTAMP_SCHED_CB",
    "BPF_SOCK_OPS_TSTAMP_SND_SW_CB",
    "BPF_SOCK_OPS_TSTAMP_SND_HW_CB",
    "BPF_SOCK_OPS_TSTAMP_ACK_CB",
    "BPF_SOCK_OPS_TSTAMP_SENDMSG_CB",
    "SK_BPF_CB_FLAGS",
    "SK_BPF_CB_TX_TIMESTAMPING",
    "SK_BPF_CB_MASK",
];

/// A callback that was proposed.
struct Proposed {
    name: &'static str,
    /// One of these is a part of its name.
    parts: &'static [&'static str],
    purpose: &'static str,
    instead: &'static str,
}

const PROPOSED: [Proposed; 6] = [
    Proposed {
        name: "callback when a write begins",
        parts: &["SEND"],
        purpose: "the beginning of tcp_sendmsg(), for armed sockets alone",
        instead: "the tracepoint tcp_sendmsg_locked (Linux 6.16) or fentry, which run for every write on this machine",
    },
    Proposed {
        name: "callbacks of every packet",
        parts: &["SKB", "PACKET"],
        purpose: "stages of each packet of a write, not of its last byte alone",
        instead: "the tracepoints of --every-packet, and the copies of --packets",
    },
    Proposed {
        name: "callbacks of held packets",
        parts: &["XMIT", "WRITE"],
        purpose: "why tcp_write_xmit() does not hand a packet to the packet scheduler",
        instead: "the state of the connection at each callback (docs/waiting.md)",
    },
    Proposed {
        name: "callbacks of UDP",
        parts: &["UDP"],
        purpose: "stages of datagrams that are sent, for armed sockets alone",
        instead: "the tracepoints and programs of the cgroup of --udp",
    },
    Proposed {
        name: "callbacks on receive",
        parts: &["RX", "RCV", "RECV"],
        purpose: "stages of what is received, for armed sockets alone",
        instead: "the tracepoints of --receive",
    },
    Proposed {
        name: "callback on completion",
        parts: &["COMPLETION"],
        purpose: "when the device reports that a packet went out",
        instead: "stage nic, where the NIC stamps what it sends",
    },
];

/// Those of Linux 6.15, each that was proposed since, and whatever else this kernel has.
pub(crate) fn capabilities(btf: Option<&Btf>) -> Vec<Capability> {
    let mut names: Vec<&str> = btf.iter().flat_map(|btf| btf.names(CALLBACK).chain(btf.names(FLAG))).collect();
    names.sort_unstable();
    names.dedup();
    let (known, mut new): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| KNOWN.contains(name));
    let lacking = match (btf, known.is_empty()) {
        (None, _) => "not known without BTF",
        (Some(_), true) => "this kernel has no BPF timestamping (Linux 6.15)",
        (Some(_), false) => "this kernel has none",
    };
    let state = |found: Vec<&str>| match found.is_empty() {
        true => State::Missing(lacking.to_owned()),
        false => State::Available(found.join(", ")),
    };
    let mut all = vec![Capability::new(
        Group::Callbacks,
        "callbacks of a send",
        state(known),
        "stages send, sched, driver, nic and ack, for armed sockets alone (Linux 6.15)",
        "the tracepoints backend",
    )];
    for proposed in &PROPOSED {
        let is_it = |name: &&str| proposed.parts.iter().any(|part| name.contains(part));
        let found = new.extract_if(.., |name| is_it(name)).collect();
        let purpose = format!("{} (proposed; Wirelapse does not use it yet)", proposed.purpose);
        all.push(Capability::new(Group::Callbacks, proposed.name, state(found), &purpose, proposed.instead));
    }
    if !new.is_empty() {
        let what = "callbacks that this version of Wirelapse does not know";
        all.push(Capability::new(Group::Callbacks, "other callbacks", state(new), what, "nothing"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name and what was found, of those that are there.
    fn there(names: Option<&[&str]>) -> Vec<(String, String)> {
        let btf = names.map(Btf::of);
        let found = |capability: Capability| match capability.state {
            State::Available(found) => Some((capability.name, found)),
            _ => None,
        };
        capabilities(btf.as_ref()).into_iter().filter_map(found).collect()
    }

    #[test]
    fn the_callbacks_of_a_kernel_are_those_that_it_names() {
        assert_eq!(there(None), []);
        assert_eq!(there(Some(&["BPF_SOCK_OPS_RTT_CB"])), []);
        let of_6_15 = there(Some(&KNOWN));
        assert_eq!(of_6_15.len(), 1, "{of_6_15:?}");
        assert!(of_6_15[0].0 == "callbacks of a send" && KNOWN.iter().all(|name| of_6_15[0].1.contains(name)));
        let reason = |names: &[&str]| capabilities(Some(&Btf::of(names)))[1].state.clone();
        assert_eq!(reason(&[]), State::Missing("this kernel has no BPF timestamping (Linux 6.15)".into()));
        assert_eq!(reason(&KNOWN), State::Missing("this kernel has none".into()));
    }

    #[test]
    fn a_callback_that_is_new_is_found_under_what_was_proposed_or_as_another() {
        let new = [
            ("callback when a write begins", "BPF_SOCK_OPS_TSTAMP_TCPSENDMSG_CB"),
            ("callbacks on receive", "SK_BPF_CB_RX_TIMESTAMPING"),
            ("callback on completion", "BPF_SOCK_OPS_TSTAMP_COMPLETION_CB"),
            ("other callbacks", "BPF_SOCK_OPS_TSTAMP_LATER_CB"),
        ];
        let names: Vec<&str> = KNOWN.into_iter().chain(new.map(|(_, name)| name)).collect();
        let found = there(Some(&names));
        assert_eq!(found[1..], new.map(|(what, name)| (what.to_owned(), name.to_owned())));
    }
}
