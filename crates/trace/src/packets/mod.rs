//! Every packet of the followed TCP connections, and every datagram of the target's UDP sockets: through the packet scheduler to
//! the driver, to the ACK or the reader, and to where the kernel drops them, with its own reason.
//!
//! TCP sockets are those that the sending side follows: its storage is shared. UDP has no such side, so sockets are picked up
//! here: when a task of the target makes one, and by an iterator for those that exist; ports and peers are then looked at for
//! each datagram, because an unconnected socket has many.
//!
//! What reaches beyond the target, and costs there: the tracepoints `net_dev_queue`, `net_dev_start_xmit`, `net_dev_xmit` and
//! `kfree_skb` run for all packets of the machine, `sk_data_ready` and `sock_recv_length` for all sockets; each looks first
//! whether the socket bears our storage, and goes. Receive stamps (`driver_rx`) are a reading of the clock for each packet of
//! the machine. The cgroup programs run for the target's cgroup alone, which is the root where none is named.
//!
//! The BPF programs join the stages from the scheduler to the driver; ACKs and readings are joined in [`assembly`].

mod assembly;
mod raw;
mod reasons;

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};

use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle, Object};
use record::{Event, Lost};

pub(crate) use assembly::Assembly;
pub(crate) use raw::is_part;
use reasons::Reasons;

use crate::layout::{Plain as _, RawArriving, RawConfig, RawPacketConfig, RawPacketLost};
use crate::object::{self, Sizes};
use crate::{Error, namespace, receive};

/// Maps that belong to the sending side.
const SHARED: [&str; 7] = ["sockets", "records", "controls", "pids", "inodes", "ports", "peers"];

/// How a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// By what its section names.
    Section,
    /// To the target's cgroup.
    Cgroup,
    /// It is an iterator, opened for each pass.
    Passes,
}

/// What a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    Both,
    Tcp,
    Udp,
}

/// Programs that have to load.
const NEEDED: [(&str, For, At); 15] = [
    ("packet_queued", For::Both, At::Section),
    ("packet_started", For::Both, At::Section),
    ("packet_driven", For::Both, At::Section),
    ("packet_again", For::Tcp, At::Section),
    ("answer_again", For::Tcp, At::Section),
    ("ack_came", For::Tcp, At::Section),
    ("stream_changed", For::Tcp, At::Section),
    ("stream_called", For::Tcp, At::Cgroup),
    ("find_listeners", For::Tcp, At::Passes),
    ("udp_made", For::Udp, At::Cgroup),
    ("udp_gone", For::Udp, At::Cgroup),
    ("sends_v4", For::Udp, At::Cgroup),
    ("sends_v6", For::Udp, At::Cgroup),
    ("udp_taken", For::Udp, At::Cgroup),
    ("find_udp", For::Udp, At::Passes),
];

/// One way to have something.
struct Way {
    /// Its programs; none is to do without.
    programs: &'static [&'static str],
    /// What is not seen this way.
    without: Option<&'static str>,
}

impl Way {
    const fn whole(programs: &'static [&'static str]) -> Self {
        Self { programs, without: None }
    }

    const fn lacking(programs: &'static [&'static str], without: &'static str) -> Self {
        Self { programs, without: Some(without) }
    }
}

/// What can be had in more than one way, the best first.
struct Choice {
    of: For,
    ways: &'static [Way],
}

/// The program that sees system calls begin.
const CALLS: &str = "call_begins";

const CHOICES: [Choice; 3] = [
    Choice {
        of: For::Both,
        ways: &[
            Way::whole(&["packet_dropped"]),
            Way::lacking(
                &["packet_dropped_before_6_11"],
                "received drops: this kernel's kfree_skb does not tell for which socket a packet was (Linux 6.11 brought that). \
                 Seen are datagrams that UDP had taken for their socket, a full one's among them; a received packet of TCP that \
                 is dropped is mostly not seen",
            ),
            Way::lacking(&[], "drops: the tracepoint kfree_skb gives no reason on this kernel (Linux 5.17 brought it)"),
        ],
    },
    Choice {
        of: For::Udp,
        ways: &[
            Way::whole(&["udp_ready", "udp_read"]),
            Way::whole(&["udp_enqueued", "udp_read_v4", "udp_read_v6"]),
            Way::lacking(
                &[],
                "stages ready and read of datagrams: this kernel has no tracepoints sk_data_ready and sock_recv_length \
                 (Linux 6.3 brought them) and lets no fexit program load",
            ),
        ],
    },
    Choice {
        of: For::Udp,
        ways: &[
            Way::whole(&["sends_any_v4", "sends_any_v6"]),
            Way::whole(&[CALLS]),
            Way::lacking(
                &[],
                "stage send of datagrams of connected sockets: this kernel lets no fentry program load and has no tracepoint \
                 sys_enter",
            ),
        ],
    },
];

/// What of the two is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Every packet of TCP.
    pub tcp: bool,
    /// UDP.
    pub udp: bool,
}

impl Wanted {
    fn includes(self, of: For) -> bool {
        match of {
            For::Both => true,
            For::Tcp => self.tcp,
            For::Udp => self.udp,
        }
    }
}

/// The probe while it is at work.
#[derive(Debug)]
pub struct Packets {
    links: Vec<Link>,
    passes: Vec<Link>,
    losses: MapHandle,
    on_way: MapHandle,
    arriving: MapHandle,
    missing: Vec<String>,
    wanted: Wanted,
    /// System calls are seen to begin.
    calls: bool,
    unfinished: u64,
    /// What to attach, and where.
    attached: Vec<(&'static str, At)>,
    cgroup: File,
    stamps: Option<OwnedFd>,
    object: Object,
}

/// A loaded object, the programs in it that are to be attached, and what it does without.
struct Loaded {
    object: Object,
    attach: Vec<(&'static str, At)>,
    missing: Vec<String>,
}

impl Packets {
    /// Attaches the probe beside the sending side's programs; the caller then calls [`Packets::pick_up`].
    pub(crate) fn start(
        sends: &Object,
        raw: &RawConfig,
        sizes: Sizes,
        cgroup: &File,
        wanted: Wanted,
    ) -> Result<(Self, Assembly), Error> {
        let Loaded { object, attach, mut missing } = load(Some(sends), raw, sizes, wanted)?;
        let stamps = wanted.udp.then(receive::receive_stamps).transpose().unwrap_or_else(|error| {
            missing.push(format!("stage driver_rx of datagrams: the kernel takes no receive stamps: {error}"));
            None
        });
        let cgroup = cgroup.try_clone().map_err(Error::system("cannot hold the cgroup"))?;
        let reasons = Reasons::of_this_kernel().unwrap_or_else(|| {
            missing.push("names of drop reasons: the kernel's type information has no enum skb_drop_reason".into());
            Reasons::default()
        });
        let calls = attach.iter().any(|(program, _)| *program == CALLS);
        let mut passes = Vec::new();
        for &(program, _) in attach.iter().filter(|(_, at)| *at == At::Passes) {
            passes.push(object::attach(&object, program)?);
        }
        let mut packets = Self {
            links: Vec::new(),
            passes,
            attached: attach,
            cgroup,
            losses: object::map(&object, "packet_losses")?,
            on_way: object::map(&object, "on_way")?,
            arriving: object::map(&object, "arriving")?,
            missing,
            wanted,
            calls,
            unfinished: 0,
            stamps,
            object,
        };
        packets.attach()?;
        Ok((packets, Assembly::new(reasons)))
    }

    /// Attaches again after [`Packets::stop`] and [`Packets::give_up_rest`].
    pub(crate) fn resume(&mut self) -> Result<(), Error> {
        if self.wanted.udp {
            self.stamps = receive::receive_stamps().ok();
        }
        self.attach()
    }

    fn attach(&mut self) -> Result<(), Error> {
        for &(program, at) in &self.attached {
            match at {
                At::Section => self.links.push(object::attach(&self.object, program)?),
                At::Cgroup => self.links.push(object::attach_cgroup(&self.object, program, &self.cgroup)?),
                At::Passes => {}
            }
        }
        Ok(())
    }

    /// Picks up the sockets that are there: after the sending side has done so, whose listeners are looked for.
    pub(crate) fn pick_up(&self) -> Result<(), Error> {
        for network in namespace::all_networks()? {
            for pass in &self.passes {
                network.within(|| object::iterate(pass))?;
            }
        }
        Ok(())
    }

    /// What cannot be seen here, each with its reason; empty where everything can.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// What reaches beyond the target while the probe is at work, and what it costs there.
    pub fn host_wide(&self) -> Vec<&'static str> {
        let all = "the tracepoints net_dev_queue, net_dev_start_xmit, net_dev_xmit and kfree_skb run for every packet and drop of \
                   this machine, and return at the first look where the packet's socket is not traced";
        let tcp = "tcp_probe and inet_sock_set_state run for all TCP sockets, likewise";
        let udp = "sk_data_ready and sock_recv_length run for all sockets, programs of the target's cgroup (without --cgroup: of \
                   the whole machine) for all packets received and all sockets made, and the kernel stamps every packet \
                   received, a reading of the clock each";
        let calls = "the tracepoint sys_enter, which times the send of connected UDP sockets where fentry is not to be had, runs for \
                     every system call of this machine, and returns at the first look where it does not send or its process is \
                     not traced";
        [(true, all), (self.wanted.tcp, tcp), (self.wanted.udp, udp), (self.calls, calls)]
            .into_iter()
            .filter(|w| w.0)
            .map(|w| w.1)
            .collect()
    }

    /// Detaches everything; what was gathered stays to be read.
    pub(crate) fn stop(&mut self) {
        self.links.clear();
        self.stamps = None;
    }

    /// Hands on what had not come to the driver, or to its socket's queue, when everything was detached.
    pub(crate) fn give_up_rest(&mut self, assembly: &mut Assembly, out: &mut VecDeque<Event>) -> Result<(), Error> {
        for key in self.on_way.keys().collect::<Vec<_>>() {
            let Ok(Some(bytes)) = self.on_way.lookup(&key, MapFlags::ANY) else { continue };
            assembly.take(&bytes, out)?;
            self.unfinished += 1;
            let _ = self.on_way.delete(&key);
        }
        for cpu in self.arriving.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default() {
            if let Some(arriving) = RawArriving::from_bytes(&cpu).filter(|arriving| arriving.skb != 0) {
                assembly.take(arriving.record.as_bytes(), out)?;
                self.unfinished += 1;
            }
        }
        let nothing = vec![vec![0; self.arriving.value_size() as usize]; libbpf_rs::num_possible_cpus().unwrap_or(0)];
        let _ = self.arriving.update_percpu(&0u32.to_ne_bytes(), &nothing, MapFlags::ANY);
        assembly.finish(out);
        Ok(())
    }

    /// What the kernel part lost.
    pub(crate) fn lost(&self) -> Lost {
        let Some(raw) = object::sum_per_cpu::<RawPacketLost>(&self.losses) else { return Lost::default() };
        Lost {
            packet_ring_buffer: raw.packet_ring_buffer,
            packet_no_room: raw.no_room,
            packet_acks: raw.acks,
            packet_unfinished: self.unfinished,
            datagram_ring_buffer: raw.datagram_ring_buffer,
            datagram_reads: raw.reads,
            ..Lost::default()
        }
    }

    /// Segments that TCP sent again on the followed connections, by its own tracepoint: what the marks of the packets can be
    /// held against.
    pub fn retransmitted_segments(&self) -> u64 {
        object::sum_per_cpu(&self.losses).map_or(0, |raw: RawPacketLost| raw.retransmitted_segments)
    }

    /// The bytes of kernel memory that its maps can take.
    pub(crate) const fn memory() -> u64 {
        // Entries with their keys and the table's own 64 bytes.
        16_384 * (128 + 16 + 64) + 16_384 * (32 + 8 + 64) + 4096 * (64 + 64)
    }
}

/// Loads the object in the best way that this kernel allows.
fn load(sends: Option<&Object>, raw: &RawConfig, sizes: Sizes, wanted: Wanted) -> Result<Loaded, Error> {
    let mut way = [0usize; CHOICES.len()];
    loop {
        let mut attach: Vec<(&'static str, At)> =
            NEEDED.iter().filter(|(_, of, _)| wanted.includes(*of)).map(|&(name, _, at)| (name, at)).collect();
        for (choice, &way) in CHOICES.iter().zip(&way) {
            if wanted.includes(choice.of) {
                attach.extend(choice.ways[way].programs.iter().map(|&name| (name, At::Section)));
            }
        }
        let mut object = object::open(object::PACKETS, "wirelapse_pk", raw, sizes)?;
        let set = RawPacketConfig {
            tai_offset: receive::tai_offset(),
            tcp: u32::from(wanted.tcp),
            udp: u32::from(wanted.udp),
        };
        for mut map in object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let shared = SHARED.into_iter().find(|&shared| shared == name);
            let done = match (shared, sends) {
                (Some(shared), Some(sends)) => map.reuse_fd(object::map(sends, shared)?.as_fd()),
                _ if name == ".rodata.wanted" => map.set_initial_value(set.as_bytes()),
                _ => Ok(()),
            };
            done.map_err(Error::bpf("cannot set up a map of the probe of packets"))?;
        }
        for mut program in object.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            program.set_autoload(attach.iter().any(|&(wanted, _)| wanted == name));
        }
        let reason = match object::load(object) {
            Ok(object) => {
                let missing = CHOICES
                    .iter()
                    .zip(&way)
                    .filter(|(choice, _)| wanted.includes(choice.of))
                    .filter_map(|(choice, way)| choice.ways[*way].without.map(str::to_owned))
                    .collect();
                return Ok(Loaded { object, attach, missing });
            }
            Err(reason) => reason,
        };
        // The reason names the program that does not load: where there is another way to what it gives, that is next.
        let next = CHOICES.iter().zip(&mut way).find(|(choice, way)| {
            choice.ways[**way].programs.iter().any(|&name| names(&reason, name)) && **way + 1 < choice.ways.len()
        });
        match next {
            Some((_, way)) => *way += 1,
            None => return Err(Error::Packets { reason }),
        }
    }
}

/// Whether a reason is about the program of this name, and not of one whose name begins so.
fn names(reason: &str, program: &str) -> bool {
    reason.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == program)
}

/// Whether the probe loads here, and what it does without.
pub(crate) fn try_load(raw: &RawConfig, sizes: Sizes, wanted: Wanted) -> Result<Vec<String>, String> {
    load(None, raw, sizes, wanted).map(|loaded| loaded.missing).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_reason_is_about_the_program_it_names() {
        let reason = "program packet_dropped_before_6_11: func 'kfree_skb' doesn't have 3-th argument";
        assert!(names(reason, "packet_dropped_before_6_11") && !names(reason, "packet_dropped"));
        assert!(names("prog 'sends_any_v4': failed to find", "sends_any_v4"));
    }
}
