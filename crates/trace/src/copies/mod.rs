//! Copies of the packets of the target's sockets, in both directions: their headers and as much
//! payload as is asked for, each with its socket and the owner of that.
//!
//! TCP sockets are those that the sending side follows, listeners among them: its storage is
//! shared. UDP sockets are picked up when a task of the target makes one, and by an iterator.
//!
//! What reaches beyond the target: a program runs for each packet that a socket of the machine
//! sends or receives, and returns at the first look where the socket is not of the target. What
//! TCP answers for connections that have no socket any more (`TIME_WAIT`) is seen by the
//! tracepoints `kfree_skb` and `net_dev_queue`, for every drop and every packet sent; they look at
//! one field of the socket.

pub(crate) mod raw;

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use libbpf_rs::MapHandle;
use record::{Event, Lost};

use crate::decode::DecodeError;
use crate::layout::{Plain as _, RECORD_COPY, RECORD_PROCESS, RawCopyConfig, RawCopyInterface, RawCopyLost};
use crate::layout::{RawCopyPlace, RawUdpInfo};
use crate::memory::{Memory, storage_of};
use crate::object::{self, compiled_for_today};
use crate::probe::{Ground, Loaded, Missing, Observation, Observed, Probe, Tried, Unseen};
use crate::programs::{At, LoadError, Planned, Programs};
use crate::refusal::Refusal;
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
/// Those of connections that have no socket any more.
const LATE: [Planned; 2] = [("copy_late_received", At::Section), ("copy_late_sent", At::Section)];
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
        let (ended, makers) = (Memory::of_whole_table(16_384, 8, 24), Memory::of_whole_table(4_096, 8, 8));
        interfaces + ended + makers + Memory { connections: storage_of::<RawUdpInfo>(), ..Memory::default() }
    }

    fn capabilities(&self, ground: Result<&Ground<'_>, &Error>) -> Vec<Tried> {
        let loaded = ground.map_err(ToString::to_string).and_then(|ground| {
            load(ground, 0).map(|(_, no_late)| no_late).map_err(|error| error.of(self.what()).reason())
        });
        vec![
            Tried {
                name: "packet_copies",
                purpose: "headers of packets with their process (--packets): two programs that run for every packet of the \
                          sockets of this machine and return at once where the socket is not traced",
                instead: "nothing: --packets needs it",
                state: loaded.clone().map(drop),
            },
            Tried {
                name: "packet_copies_after_close",
                purpose: "packets of connections that have no socket any more (Linux 6.11; those sent, 6.13): the tracepoints \
                          kfree_skb and net_dev_queue run for every drop and every packet sent on this machine",
                instead: "the peer's last FIN and the ACK for it are mostly not in the file",
                state: loaded.and_then(|no_late| no_late.map_or(Ok(()), |refusal| Err(refusal.to_string()))),
            },
        ]
    }

    fn load(&self, ground: &Ground<'_>) -> Result<Box<dyn Loaded>, LoadError> {
        let payload = ground.config.copies.unwrap_or_default();
        let (programs, no_late) = load(ground, payload.into())?;
        let missing = no_late.map(|why| Missing { what: Unseen::AfterClose, reason: why.to_string() });
        Ok(Box::new(AtWork {
            losses: object::map(programs.object(), "copy_losses")?,
            copies: Copies::of_this_machine(),
            missing: missing.into_iter().collect(),
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
        RECORD_COPY..=RECORD_PROCESS
    }

    fn take(&mut self, record: &[u8], out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        out.extend(self.copies.take(record)?.map(|copy| Event::Copy(Box::new(copy))));
        Ok(())
    }

    fn give_up(&mut self, _out: &mut VecDeque<Event>) -> Result<(), Error> {
        Ok(())
    }

    fn lost(&self) -> Lost {
        let lost = object::sum_per_cpu::<RawCopyLost>(&self.losses);
        Lost { copy_ring_buffer: lost.map_or(0, |lost| lost.ring_buffer), ..Lost::default() }
    }

    fn observation(&self) -> Observation {
        let all = "to copy packets, a program runs for each packet that a socket of this machine sends or receives, and for each socket \
                   made; it returns at the first look where the socket is not traced";
        let late = "the tracepoints kfree_skb and net_dev_queue run for every drop and every packet sent on this machine, and return \
                    where the connection is not in TIME_WAIT";
        let late = self.missing.is_empty().then_some(late);
        Observation {
            observed: Observed::Copies,
            missing: self.missing.clone(),
            host_wide: [all].into_iter().chain(late).collect(),
        }
    }
}

/// Loads the object; where the kernel does not take the programs for connections without a socket,
/// without them and with the reason.
fn load(ground: &Ground<'_>, payload: u32) -> Result<(Programs, Option<Refusal>), LoadError> {
    match load_with(ground, payload, &LATE) {
        Err(LoadError::Refused(why)) => {
            load_with(ground, payload, &[]).map(|programs| (programs, Some(why.or_missing(&[("kfree_skb", "6.11")]))))
        }
        done => done.map(|programs| (programs, None)),
    }
}

fn load_with(ground: &Ground<'_>, payload: u32, late: &[Planned]) -> Result<Programs, LoadError> {
    let mut object = object::open_aimed(compiled_for_today!("copies"), "wirelapse_cp", &ground.raw, ground.sizes)?;
    object::set_maps(&mut object, |name, map| match name {
        ".rodata.copying" => map.set_initial_value(RawCopyConfig { payload }.as_bytes()),
        _ => Ok(()),
    })?;
    if let Some(sends) = ground.sends {
        object::share(&mut object, sends, &SHARED)?;
    }
    Programs::load(object, NEEDED.iter().chain(late).copied().collect(), ground.cgroups)
}
