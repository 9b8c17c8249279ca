//! Every packet of the followed TCP connections, and every datagram of the target's UDP sockets:
//! through the packet scheduler to the driver, to the ACK or the reader, and to where the kernel
//! drops them, with its own reason.
//!
//! TCP sockets are those that the sending side follows: its storage is shared. UDP has no such
//! side, so sockets are picked up here: when a task of the target makes one, and by an iterator for
//! those that exist; ports and peers are then looked at for each datagram, because an unconnected
//! socket has many.
//!
//! What reaches beyond the target, and costs there: the tracepoints `net_dev_queue`,
//! `net_dev_start_xmit`, `net_dev_xmit` and `kfree_skb` run for all packets of the machine,
//! `sk_data_ready` and `sock_recv_length` for all sockets; each looks first whether the socket has
//! our storage, and returns. Receive stamps (`driver_rx`) are a reading of the clock for each
//! packet of the machine. The cgroup programs run for the target's cgroup alone, which is the root
//! where none is named.
//!
//! The BPF programs join the stages from the scheduler to the driver; ACKs and readings are joined
//! in `assembly`.

pub(crate) mod assembly;
mod raw;
mod reasons;
mod ways;

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use record::{Event, Lost};

use crate::decode::DecodeError;
use crate::layout::{Plain as _, RECORD_GONE, RECORD_PACKET, RawArriving, RawPacket, RawPacketLost};
use crate::memory::{Memory, storage_of};
use crate::object;
use crate::probe::{Ground, Loaded, Missing, Observation, Observed, Probe, Tried, Unseen};
use crate::programs::{LoadError, Programs};
use crate::sizes::Sizes;
use crate::{Config, Error, stamps};
use assembly::Assembly;
pub(crate) use reasons::Reasons;
use ways::Wanted;

/// What the probe is called in reasons why it does not load.
const WHAT: &str = "packets";

/// The probe of packets and datagrams.
pub(crate) struct Packets;

impl Probe for Packets {
    fn what(&self) -> &'static str {
        "packets"
    }

    fn wanted(&self, config: &Config) -> bool {
        config.packets || config.udp
    }

    /// Each UDP socket of the target takes 128 bytes more, however many there are.
    fn memory(&self, _: &Config, sizes: Sizes) -> Memory {
        let on_way = Memory::of_whole_table(16_384, 16, size_of::<RawPacket>() as u64);
        let (sendings, answered) = (Memory::of_whole_table(16_384, 8, 32), Memory::of_whole_table(4096, 8, 8));
        let listeners = Memory::of_table::<u64, u8>(4096, 4096);
        let streams = u64::from(sizes.rows) * storage_of::<[u8; 32]>();
        on_way + sendings + answered + listeners + Memory { connections: streams, ..Memory::default() }
    }

    fn capabilities(&self, ground: Result<&Ground<'_>, &Error>) -> Vec<Tried> {
        capabilities(ground)
    }

    fn load(&self, ground: &Ground<'_>) -> Result<Box<dyn Loaded>, LoadError> {
        let wanted = Wanted { tcp: ground.config.packets, udp: ground.config.udp };
        let (programs, mut missing) = ways::load(ground, wanted)?;
        let object = programs.object();
        let reasons = Reasons::of_this_kernel().unwrap_or_else(|| {
            missing.push(Missing {
                what: Unseen::NamesOfDropReasons,
                reason: "the kernel's type information has no enum skb_drop_reason".into(),
            });
            Reasons::default()
        });
        Ok(Box::new(Following {
            assembly: Assembly::new(reasons),
            losses: object::map(object, "packet_losses")?,
            on_way: object::map(object, "on_way")?,
            arriving: object::map(object, "arriving")?,
            missing,
            wanted,
            unfinished: 0,
            stamps: None,
            programs,
        }))
    }
}

/// The probe while it is at work.
struct Following {
    programs: Programs,
    assembly: Assembly,
    losses: MapHandle,
    on_way: MapHandle,
    arriving: MapHandle,
    missing: Vec<Missing>,
    wanted: Wanted,
    unfinished: u64,
    stamps: Option<OwnedFd>,
}

impl Loaded for Following {
    fn programs(&mut self) -> &mut Programs {
        &mut self.programs
    }

    fn attach(&mut self) -> Result<(), Error> {
        self.missing.retain(|missing| missing.what != Unseen::DatagramsReceived);
        if self.wanted.udp {
            match stamps::receive_stamps() {
                Ok(socket) => self.stamps = Some(socket),
                Err(error) => self.missing.push(Missing {
                    what: Unseen::DatagramsReceived,
                    reason: format!("the kernel takes no receive stamps: {error}"),
                }),
            }
        }
        self.programs.attach()
    }

    fn detach(&mut self) {
        self.programs.detach();
        self.stamps = None;
    }

    fn kinds(&self) -> RangeInclusive<u32> {
        RECORD_PACKET..=RECORD_GONE
    }

    fn take(&mut self, record: &[u8], out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        self.assembly.take(record, out)
    }

    /// What had not reached the driver, or its socket's queue, when everything was detached.
    fn give_up(&mut self, out: &mut VecDeque<Event>) -> Result<(), Error> {
        for key in self.on_way.keys().collect::<Vec<_>>() {
            let Ok(Some(bytes)) = self.on_way.lookup(&key, MapFlags::ANY) else { continue };
            self.assembly.take(&bytes, out)?;
            self.unfinished += 1;
            let _ = self.on_way.delete(&key);
        }
        for cpu in self.arriving.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default() {
            if let Some(arriving) = RawArriving::from_bytes(&cpu).filter(|arriving| arriving.skb != 0) {
                self.assembly.take(arriving.record.as_bytes(), out)?;
                self.unfinished += 1;
            }
        }
        let nothing = vec![vec![0; self.arriving.value_size() as usize]; libbpf_rs::num_possible_cpus().unwrap_or(0)];
        let _ = self.arriving.update_percpu(&0u32.to_ne_bytes(), &nothing, MapFlags::ANY);
        self.assembly.finish(out);
        Ok(())
    }

    fn lost(&self) -> Lost {
        let raw = object::sum_per_cpu::<RawPacketLost>(&self.losses).unwrap_or_else(RawPacketLost::zeroed);
        let kernel = raw::lost(&raw);
        let here = Lost {
            packet_left_out: self.programs.recursion_misses(),
            packet_unfinished: self.unfinished,
            ..self.assembly.lost()
        };
        kernel + here
    }

    fn observation(&self) -> Observation {
        let all = "the tracepoints net_dev_queue, net_dev_start_xmit, net_dev_xmit and kfree_skb run for every packet and drop of \
                   this machine, and return at the first look where the packet's socket is not traced";
        let tcp = "tcp_probe and inet_sock_set_state run for all TCP sockets, likewise";
        let udp = "sk_data_ready and sock_recv_length run for all sockets, programs of the target's cgroup (without --cgroup: of \
                   the whole machine) for all packets received and all sockets made, and the kernel stamps every packet \
                   received, a reading of the clock each";
        let calls = "the tracepoint sys_enter, which times the send of connected UDP sockets where fentry is not to be had, runs for \
                     every system call of this machine, and returns at the first look where it does not send or its process is \
                     not traced";
        let calls_seen = self.programs.has(ways::CALLS);
        let host_wide = [(true, all), (self.wanted.tcp, tcp), (self.wanted.udp, udp), (calls_seen, calls)];
        Observation {
            observed: Observed::Packets,
            missing: self.missing.clone(),
            host_wide: host_wide.into_iter().filter(|w| w.0).map(|w| w.1).collect(),
        }
    }
}

/// Packets and datagrams, and what each kernel lacks of them.
fn capabilities(ground: Result<&Ground<'_>, &Error>) -> Vec<Tried> {
    let load = |tcp, udp| {
        let ground = ground.map_err(ToString::to_string)?;
        let loaded = ways::load(ground, Wanted { tcp, udp });
        loaded.map(|(_, missing)| missing).map_err(|error| error.of(WHAT).reason())
    };
    let (segments, datagrams) = (load(true, false), load(false, true));
    let without = |of: &Result<Vec<Missing>, String>, what: Unseen| {
        let missing = of.clone()?.into_iter().find(|missing| missing.what == what);
        missing.map_or(Ok(()), |missing| Err(missing.to_string()))
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
            without(&segments, Unseen::Drops),
        ),
        (
            "received_drops",
            "for which socket a dropped packet was (Linux 6.11): received packets of TCP and UDP that the kernel drops",
            "drops of received datagrams that UDP had taken for their socket, a full one's among them",
            without(&segments, Unseen::Drops).and_then(|()| without(&segments, Unseen::ReceivedDrops)),
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
            without(&datagrams, Unseen::DatagramsRead),
        ),
        (
            "udp_send_connected",
            "when a connected UDP socket was written to: fentry programs on all UDP sends of the machine, or, where those do not \
             load, the tracepoint sys_enter, which runs for every system call of the machine",
            "stage send for unconnected sockets alone, by programs of the cgroup",
            without(&datagrams, Unseen::DatagramsSent),
        ),
    ];
    let entries = entries.into_iter();
    entries.map(|(name, purpose, instead, state)| Tried { name, purpose, instead, state }).collect()
}
