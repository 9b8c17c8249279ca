//! Copies of the packets of the target's sockets, in both directions: their headers and as much
//! payload as is asked for, each with its socket and the owner of that.
//!
//! TCP sockets are those that the sending side follows, listeners among them: its storage is
//! shared. UDP sockets are picked up when a task of the target makes one, and by an iterator.
//!
//! What reaches beyond the target: a program runs for each packet that a socket of the machine
//! sends or receives, and returns at the first look where the socket is not of the target. What
//! TCP answers for connections that have no socket any more (`TIME_WAIT`), and what the kernel
//! drops, is seen by the tracepoints `kfree_skb` and `net_dev_queue`, for every drop and every
//! packet sent; they look at the state of the socket, and at its storage for drops. ICMP errors and
//! fragments are seen by `netif_receive_skb`, for every packet received, which looks at its
//! protocol, and by `net_dev_queue`. A trace can do without the tracepoints
//! ([`Config::copies_tracepoints`]).

pub(crate) mod raw;

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use libbpf_rs::MapHandle;
use record::{Event, Lost};

use crate::decode::DecodeError;
use crate::keeper::Keeper;
use crate::layout::{Plain as _, RECORD_COPY, RECORD_COPY_DROPPED, RawCopyConfig, RawCopyInterface, RawCopyLost};
use crate::layout::{RawCopyEnds, RawCopyPlace, RawCopySender, RawUdpInfo};
use crate::memory::{Memory, storage_of};
use crate::object::{self, compiled_for_today};
use crate::probe::{Ground, Loaded, Missing, Observation, Observed, Probe, Tried, Unseen};
use crate::programs::{At, LoadError, Planned, Programs};
use crate::sizes::Sizes;
use crate::{Config, Error};
use raw::Copies;

/// Programs that have to load.
const NEEDED: [Planned; 6] = [
    ("copy_sent", At::Cgroup),
    ("copy_received", At::Cgroup),
    ("udp_made", At::Cgroup),
    ("maker_seen", At::Cgroup),
    ("udp_held", At::Files),
    ("find_udp", At::Passes),
];
/// Those of connections that have no socket any more, and of drops.
const LATE: [Planned; 2] = [("copy_late_received", At::Section), ("copy_late_sent", At::Section)];
/// That of drops, where the kernel does not say for whom a packet was.
const DROPPED: [Planned; 1] = [("copy_dropped_before_6_11", At::Section)];
/// Those of what programs of a cgroup do not see: ICMP errors, and fragments.
const BESIDE: [Planned; 2] = [("beside_received", At::Section), ("fragment_sent", At::Section)];
/// Why it does not.
const FOR_WHOM: &str = "this kernel's kfree_skb does not say for which socket a packet was (Linux 6.11 brought that)";
/// Which drops of received packets are seen all the same.
const BY_SOCKET: &str = "seen are those by the socket itself, as of a full receive buffer";
/// Maps that belong to the sending side.
const SHARED: [&str; 8] = ["sockets", "records", "controls", "pids", "pids_full", "ports", "peers", "cgroups"];
/// The most interfaces that are distinguished.
const INTERFACES: u64 = 4096;

/// The probe of copies.
pub(crate) struct Copying;

impl Probe for Copying {
    fn what(&self) -> &'static str {
        "copies of packets"
    }

    fn wanted(&self, config: &Config) -> bool {
        config.copies.is_some()
    }

    /// Each UDP socket of the target takes a block more, however many there are.
    fn memory(&self, _: &Config, _: Sizes) -> Memory {
        let interfaces = Memory::of_table::<RawCopyPlace, RawCopyInterface>(INTERFACES, INTERFACES);
        let (ended, makers) = (Memory::of_whole_table(16_384, 8, 32), Memory::of_whole_table(4_096, 8, 8));
        let (ends, sender) = (size_of::<RawCopyEnds>() as u64, size_of::<RawCopySender>() as u64);
        let senders = Memory::of_whole_table(16_384, ends, sender) + Memory::of_whole_table(4_096, 40, 8);
        interfaces + ended + makers + senders + Memory { connections: storage_of::<RawUdpInfo>(), ..Memory::default() }
    }

    fn capabilities(&self, ground: Result<&Ground<'_>, &Error>) -> Vec<Tried> {
        let loaded = ground.map_err(ToString::to_string).and_then(|ground| {
            load(ground, 0).map(|(_, unshown)| unshown).map_err(|error| error.of(self.what()).reason())
        });
        let (state, unshown) = match loaded {
            Ok(unshown) => (Ok(()), unshown),
            Err(why) => (Err(why.clone()), Unshown::all(&why)),
        };
        let [late, drops, beside] = [unshown.late, unshown.drops, unshown.beside].map(|why| why.map_or(Ok(()), Err));
        vec![
            Tried {
                name: "packet_copies",
                purpose: "headers of packets with their process (--packets): two programs that run for every packet of the \
                          sockets of this machine and return at once where the socket is not traced",
                instead: "nothing: --packets needs it",
                state,
            },
            Tried {
                name: "packet_copies_after_close",
                purpose: "packets of connections that have no socket any more (Linux 6.11; those sent, 6.13): the tracepoints \
                          kfree_skb and net_dev_queue run for every drop and every packet sent on this machine",
                instead: "the peer's last FIN and the ACK for it are mostly not in the file",
                state: late,
            },
            Tried {
                name: "packet_copies_drops",
                purpose: "why the kernel dropped a copied packet (Linux 5.17; of received ones, 6.11): the tracepoint kfree_skb runs \
                          for every drop on this machine",
                instead: "packets are in the file without it",
                state: drops,
            },
            Tried {
                name: "packet_copies_icmp_fragments",
                purpose: "ICMP errors about packets of traced sockets, and fragments: the tracepoints netif_receive_skb and net_dev_queue \
                          run for every packet that this machine receives and sends, and look at its protocol",
                instead: "ICMP errors are not in the file, and datagrams are whole there",
                state: beside,
            },
        ]
    }

    fn load(&self, ground: &Ground<'_>) -> Result<Box<dyn Loaded>, LoadError> {
        let payload = ground.config.copies.unwrap_or_default();
        let (programs, unshown) = load(ground, payload.into())?;
        let Unshown { late, drops, received_drops, beside } = unshown;
        let missing = [
            (Unseen::AfterClose, late),
            (Unseen::Drops, drops),
            (Unseen::ReceivedDrops, received_drops),
            (Unseen::IcmpErrors, beside.clone()),
            (Unseen::Fragments, beside),
        ];
        let missing = missing.into_iter().chain([(Unseen::NicReceived, no_receive_stamps())]);
        let missing = missing.filter_map(|(what, why)| Some(Missing { what, reason: why? }));
        Ok(Box::new(AtWork {
            losses: object::map(programs.object(), "copy_losses")?,
            copies: Copies::of_this_machine(),
            missing: missing.collect(),
            programs,
        }))
    }
}

/// The probe while it is at work.
struct AtWork {
    programs: Programs,
    losses: MapHandle,
    copies: Copies,
    missing: Vec<Missing>,
}

impl Loaded for AtWork {
    fn programs(&mut self) -> &mut Programs {
        &mut self.programs
    }

    fn kinds(&self) -> RangeInclusive<u32> {
        RECORD_COPY..=RECORD_COPY_DROPPED
    }

    fn take(&mut self, record: &[u8], out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        out.extend(self.copies.take(record)?);
        Ok(())
    }

    fn give_up(&mut self, _out: &mut VecDeque<Event>) -> Result<(), Error> {
        Ok(())
    }

    fn open_clocks(&mut self) {
        self.copies.nics.open_all();
    }

    fn ask_for_clocks(&mut self, keeper: &Keeper) {
        self.copies.nics.ask(keeper.clone());
    }

    fn lost(&self) -> Lost {
        let lost = object::sum_per_cpu::<RawCopyLost>(&self.losses);
        let copy_ring_buffer = lost.map_or(0, |lost| lost.ring_buffer);
        Lost { copy_ring_buffer, nic_unread: self.copies.nic_unread, ..Lost::default() }
    }

    fn observation(&self) -> Observation {
        let all = "to copy packets, a program runs for each packet that a socket of this machine sends or receives, and for each socket \
                   made; it returns at the first look where the socket is not traced";
        let is_missing = |what| self.missing.iter().any(|missing| missing.what == what);
        let late = "the tracepoints kfree_skb and net_dev_queue run for every drop and every packet sent on this machine, and return \
                    where the connection is neither in TIME_WAIT nor traced";
        let drops =
            "the tracepoint kfree_skb runs for every drop on this machine, and returns where the socket is not traced";
        let late = match (is_missing(Unseen::AfterClose), is_missing(Unseen::Drops)) {
            (false, _) => Some(late),
            (true, false) => Some(drops),
            (true, true) => None,
        };
        let beside = "the tracepoints netif_receive_skb and net_dev_queue run for every packet that this machine receives and \
                      sends, and return where that is neither an ICMP error nor a fragment of a datagram";
        let beside = (!is_missing(Unseen::IcmpErrors)).then_some(beside);
        Observation {
            observed: Observed::Copies,
            missing: self.missing.clone(),
            host_wide: [all].into_iter().chain(late).chain(beside).collect(),
        }
    }
}

/// Why no packet has a stamp of the NIC that received it, where none can.
fn no_receive_stamps() -> Option<String> {
    let interfaces = machine::interfaces().ok()?;
    let none = interfaces.iter().all(|interface| interface.receive_on != Some(true));
    none.then(|| {
        "no network interface here is set to stamp what it receives (`hwstamp_ctl -i NAME -r 1` does so)".into()
    })
}

/// What a trace does not show of packets, each with its reason.
#[derive(Default)]
struct Unshown {
    late: Option<String>,
    drops: Option<String>,
    received_drops: Option<String>,
    beside: Option<String>,
}

impl Unshown {
    fn all(why: &str) -> Self {
        let why = || Some(why.to_owned());
        Self { late: why(), drops: why(), received_drops: None, beside: why() }
    }
}

/// Loads the object; without the programs at tracepoints that the kernel does not take, or that are
/// not wanted.
fn load(ground: &Ground<'_>, payload: u32) -> Result<(Programs, Unshown), LoadError> {
    if !ground.config.copies_tracepoints {
        let unshown = Unshown::all("its tracepoint is left out (--no-tracepoints)");
        return load_with(ground, payload, &[]).map(|programs| (programs, unshown));
    }
    let mut unshown = Unshown::default();
    match load_with(ground, payload, &[&LATE[..], &BESIDE].concat()) {
        Err(LoadError::Refused(why)) => unshown.late = Some(why.or_missing(&[("kfree_skb", "6.11")]).to_string()),
        done => return done.map(|programs| (programs, unshown)),
    }
    match load_with(ground, payload, &[&DROPPED[..], &BESIDE].concat()) {
        Err(LoadError::Refused(why)) => unshown.drops = Some(why.or_missing(&[("kfree_skb", "5.17")]).to_string()),
        done => {
            // What differs is the argument that says for whom a packet was.
            unshown.late = Some(FOR_WHOM.into());
            unshown.received_drops = Some(format!("{FOR_WHOM}; {BY_SOCKET}"));
            return done.map(|programs| (programs, unshown));
        }
    }
    match load_with(ground, payload, &BESIDE) {
        Err(LoadError::Refused(why)) => unshown.beside = Some(why.to_string()),
        done => return done.map(|programs| (programs, unshown)),
    }
    load_with(ground, payload, &[]).map(|programs| (programs, unshown))
}

fn load_with(ground: &Ground<'_>, payload: u32, late: &[Planned]) -> Result<Programs, LoadError> {
    let remembers = late.contains(&DROPPED[0]).into();
    let mut object = object::open_aimed(compiled_for_today!("copies"), "wirelapse_cp", &ground.raw, ground.sizes)?;
    object::set_maps(&mut object, |name, map| match name {
        ".rodata.copying" => map.set_initial_value(RawCopyConfig { payload, remembers }.as_bytes()),
        _ => Ok(()),
    })?;
    if let Some(sends) = ground.sends {
        object::share(&mut object, sends, &SHARED)?;
    }
    Programs::load(object, NEEDED.iter().chain(late).copied().collect(), ground.cgroups)
}
