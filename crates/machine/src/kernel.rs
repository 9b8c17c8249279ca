//! What the kernel reports: release, types, tracepoints, cgroups.

use std::fs;
use std::io;

use crate::btf::{self, Btf};
use crate::who::mount;
use crate::{Capability, Group, State, is_root};

/// The name of the capability that this kernel gives its types.
pub const BTF: &str = "BTF";

/// Tracepoints that the tracepoint backend and the receive stages attach to, and what each gives.
const TRACEPOINTS: [(&str, &str, &str); 11] = [
    (
        "tcp_sendmsg_locked",
        "start of a send, before its bytes are copied (Linux 6.16)",
        "`send` is taken after the copy",
    ),
    ("net_dev_queue", "stage sched", "BPF timestamping gives it where it is available"),
    ("net_dev_start_xmit", "stage driver", "BPF timestamping gives it where it is available"),
    ("net_dev_xmit", "whether the driver took the packet", "a packet that the driver refused counts as sent"),
    ("tcp_probe", "ACKs and stage tcp_rx", "BPF timestamping gives ACKs; no tcp_rx"),
    (
        "tcp_retransmit_skb",
        "retransmissions distinguished from first sends",
        "retransmitted stages are recognised by sequence number alone",
    ),
    ("netif_receive_skb", "stage driver_rx", "no driver_rx"),
    ("sk_data_ready", "stage ready", "no ready"),
    ("tcp_rcv_space_adjust", "stage read", "no read"),
    ("skb_copy_datagram_iovec", "stage read of datagrams", "no read for UDP"),
    ("sched_switch", "how long the reader waited for a CPU", "the wakeup leg is not split"),
];

pub fn capabilities(btf: &io::Result<Btf>) -> Vec<Capability> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease");
    let absent = |error: &io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            format!("{} is not there: the kernel is built without CONFIG_DEBUG_INFO_BTF", btf::PATH)
        }
        _ => format!("{}: {error}", btf::PATH),
    };
    let mut all = vec![
        Capability::new(
            Group::Kernel,
            "release",
            State::tried(release.map(|text| text.trim().to_owned()), is_root()),
            "kept with every run",
            "runs do not say on which kernel they were made",
        ),
        Capability::new(
            Group::Kernel,
            BTF,
            match btf {
                Ok(btf) => State::Available(format!("{:.1} MB", btf.bytes() as f64 / 1e6)),
                Err(error) => State::Missing(absent(error)),
            },
            "one program that fits every kernel's structures",
            "traces are not possible; analyze and compare work",
        ),
        Capability::new(
            Group::Kernel,
            "cgroup v2",
            match mount() {
                Some(at) => State::Available(format!("at {}", at.display())),
                None => State::Missing("no cgroup2 in /proc/mounts".into()),
            },
            "attach to the sockets of some programs, or all",
            "mount one: mount -t cgroup2 none /sys/fs/cgroup/unified",
        ),
    ];
    all.extend(TRACEPOINTS.map(|(name, purpose, instead)| {
        let state = match btf {
            Ok(btf) if btf.has_tracepoint(name) => State::Available(String::new()),
            Ok(_) => State::Missing("this kernel has no such tracepoint".into()),
            Err(_) => State::Missing("not known without BTF".into()),
        };
        Capability::new(Group::Tracepoints, name, state, purpose, instead)
    }));
    all
}
