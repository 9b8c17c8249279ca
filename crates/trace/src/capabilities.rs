//! What this kernel lets the tracer do, found out by trying: each program type by loading an empty one, and each backend by
//! loading the very programs it uses.

use std::ffi::OsStr;
use std::path::Path;

use libbpf_rs::ObjectBuilder;

use crate::packets::Wanted;
use crate::{Config, object, programs};

/// Whether the machine has something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It works: it was tried.
    Available,
    /// It does not.
    Missing {
        /// What the kernel said.
        reason: String,
    },
    /// Only root can tell.
    NeedsRoot,
}

/// One thing that tracing can make use of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// A stable name: `bpf_timestamping`, `fentry`, ….
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// What is done where it is missing.
    pub instead: &'static str,
    /// Whether it is there.
    pub state: State,
}

/// Name, program of `bpf/capabilities.bpf.c`, purpose, and what is done without.
const PROGRAMS: [(&str, &str, &str, &str); 10] = [
    ("ring_buffer", "try_ring_buffer", "hands finished sends to user space", "nothing: tracing needs it (Linux 5.8)"),
    ("sockops", "try_sockops", "sees connections begin and end, per cgroup", "nothing: tracing needs it"),
    ("iter_tcp", "try_iter_tcp", "picks up connections that exist already", "only new connections are followed"),
    ("tp_btf", "try_tp_btf", "follows child processes; stages of the tracepoints backend", "nothing: tracing needs it"),
    ("raw_tp", "try_raw_tp", "tracepoints without types", "not used where tp_btf works"),
    ("tp_sendmsg_locked", "try_tp_sendmsg", "the send stage of the tracepoints backend (Linux 6.16)", "fentry"),
    (
        "fentry",
        "try_fentry",
        "the send stage of the tracepoints backend before Linux 6.16",
        "the tcp_sendmsg_locked tracepoint",
    ),
    ("cgroup_skb", "try_cgroup_skb", "packets of one cgroup", "tracepoints, filtered by socket"),
    ("xdp", "try_xdp", "reception and generation of packets in the driver", "AF_PACKET"),
    ("tc", "try_tc", "packets at the queueing discipline", "AF_PACKET"),
];

/// Tries everything. Takes some tens of milliseconds, attaches nothing and leaves nothing.
pub fn all() -> Vec<Capability> {
    object::quiet();
    // SAFETY: geteuid takes nothing and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    let tried = |result: Result<(), String>| match result {
        Ok(()) => State::Available,
        Err(_) if !root => State::NeedsRoot,
        Err(reason) => State::Missing { reason },
    };
    let mut list = vec![Capability {
        name: "btf",
        purpose: "tells where the kernel keeps its fields, so that one build runs everywhere",
        instead: "nothing: tracing needs it (CONFIG_DEBUG_INFO_BTF)",
        state: match Path::new("/sys/kernel/btf/vmlinux").exists() {
            true => State::Available,
            false => State::Missing { reason: "there is no /sys/kernel/btf/vmlinux".into() },
        },
    }];
    list.extend(PROGRAMS.map(|(name, program, purpose, instead)| Capability {
        name,
        purpose,
        instead,
        state: tried(load_one(program)),
    }));
    let config = Config { max_connections: 1, slots_per_connection: 16, ring_bytes: 4096, ..Config::default() };
    list.push(Capability {
        name: "bpf_timestamping",
        purpose: "calls back at each stage of a send, for armed sockets alone (Linux 6.15)",
        instead: "the tracepoints backend",
        state: tried(programs::try_timestamping(&config)),
    });
    list.push(Capability {
        name: "tracepoints_backend",
        purpose: "times sends where BPF timestamping is missing",
        instead: "BPF timestamping",
        state: tried(programs::try_tracepoints(&config)),
    });
    let received = programs::try_receive(&config);
    list.push(Capability {
        name: "receive_stages",
        purpose: "driver_rx, tcp_rx and read of received bytes (--receive): tracepoints that run for every TCP socket of the \
                  machine and return at once where it is not traced, and receive stamps for every packet of the machine, \
                  a reading of the clock each",
        instead: "nothing: --receive and --requests need it",
        state: tried(received.clone().map(drop)),
    });
    list.push(Capability {
        name: "receive_ready",
        purpose: "when a socket became readable (Linux 6.3): a tracepoint that runs for every socket of the machine",
        instead: "the legs socket and wakeup are one, from tcp_rx to read",
        state: tried(received.and_then(|no_ready| no_ready.map_or(Ok(()), Err))),
    });
    packets(&config, &tried, &mut list);
    list
}

/// Packets and datagrams, and what each kernel lacks of them.
fn packets(config: &Config, tried: &dyn Fn(Result<(), String>) -> State, list: &mut Vec<Capability>) {
    let segments = programs::try_packets(config, Wanted { tcp: true, udp: false });
    let datagrams = programs::try_packets(config, Wanted { tcp: false, udp: true });
    let without = |of: &Result<Vec<String>, String>, what: &str| {
        of.clone().and_then(|missing| missing.into_iter().find(|reason| reason.starts_with(what)).map_or(Ok(()), Err))
    };
    let entries = [
        (
            "every_packet",
            "each packet of a TCP connection (--every-packet): the tracepoints net_dev_queue, net_dev_start_xmit and \
             net_dev_xmit run for all packets of the machine, tcp_probe for all its TCP segments received, and return at the \
             first look where the socket is not traced",
            "nothing: --every-packet needs it",
            segments.clone().map(drop),
        ),
        (
            "drop_reasons",
            "where and why packets are dropped (Linux 5.17): the tracepoint kfree_skb runs for every drop of the machine",
            "drops are not seen",
            without(&segments, "drops"),
        ),
        (
            "received_drops",
            "for which socket a dropped packet was (Linux 6.11): received packets of TCP and UDP that the kernel throws away",
            "drops of received datagrams that UDP had taken for their socket, a full one's among them",
            without(&segments, "drops").and_then(|()| without(&segments, "received drops")),
        ),
        (
            "udp",
            "each datagram of UDP sockets (--udp): the tracepoints of every_packet, programs of the target's cgroup (without \
             --cgroup, of the whole machine) for every packet received and every UDP socket made, and receive stamps for all \
             packets of the machine, a reading of the clock each",
            "nothing: --udp needs it",
            datagrams.clone().map(drop),
        ),
        (
            "udp_read",
            "when a datagram was ready and read (Linux 6.3): the tracepoints sk_data_ready and sock_recv_length run for all \
             sockets of the machine",
            "fexit programs on UDP alone, where the kernel lets them load",
            without(&datagrams, "stages ready"),
        ),
        (
            "udp_send_connected",
            "when a connected UDP socket was written to: fentry programs on all UDP sends of the machine, or, where those do not \
             load, the tracepoint sys_enter, which runs for every system call of the machine",
            "stage send for unconnected sockets alone, by programs of the cgroup",
            without(&datagrams, "stage send"),
        ),
    ];
    list.extend(entries.map(|(name, purpose, instead, outcome)| Capability {
        name,
        purpose,
        instead,
        state: tried(outcome),
    }));
}

/// Loads one program of the object, and lets it go again.
fn load_one(name: &str) -> Result<(), String> {
    let explain = |error: libbpf_rs::Error| format!("{error:#}");
    let mut object = ObjectBuilder::default().open_memory(object::CAPABILITIES).map_err(explain)?;
    for mut program in object.progs_mut() {
        let wanted = program.name() == OsStr::new(name);
        program.set_autoload(wanted);
    }
    for mut map in object.maps_mut() {
        map.set_autocreate(name == "try_ring_buffer").map_err(explain)?;
    }
    object::load(object).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_root_is_told_agrees_with_the_kernel() {
        tier::needs!(tier::Need::Root, tier::Need::Path("/sys/kernel/btf/vmlinux"));
        let list = all();
        let state = |name| &list.iter().find(|c| c.name == name).unwrap().state;
        for needed in ["btf", "ring_buffer", "sockops", "tp_btf"] {
            assert_eq!(state(needed), &State::Available, "{needed}");
        }
        assert!(list.iter().all(|c| c.state != State::NeedsRoot));
        for capability in &list {
            if let State::Missing { reason } = &capability.state {
                assert!(!reason.is_empty(), "{}", capability.name);
            }
        }
    }
}
