//! The receiving side: when bytes reached the stack and TCP, when their socket became readable, and
//! when the application had copied them.
//!
//! The connections are those that the sending side follows; this probe shares its storage of
//! sockets, so existing, accepted and inherited ones need nothing more here. What reaches beyond
//! the target:
//!
//! - Four tracepoints of TCP sockets run for those of the whole machine and return at the first
//!   look where the socket is not followed.
//! - `driver_rx` is the kernel's own receive stamp of the packet. A socket that asks for such
//!   stamps switches them on for all packets of the machine: one reading of the clock for each. The
//!   tracepoint `netif_receive_skb` would cost a program run and a look-up of the socket for each
//!   instead.

pub(crate) mod raw;

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;

use libbpf_rs::MapHandle;
use record::{Event, Lost, Receive, ReceiveLeg, ReceiveStage};

use crate::decode::DecodeError;
use crate::layout::{Plain as _, RECORD_RECEIVE, RawArrival, RawReceiveConfig, RawReceiveLost, RawReceiveRow};
use crate::memory::Memory;
use crate::object::{self, compiled};
use crate::probe::{Ground, Loaded, Missing, Observation, Observed, Probe, Tried, Unseen};
use crate::programs::{At, LoadError, Planned, Programs};
use crate::refusal::Refusal;
use crate::sizes::Sizes;
use crate::{Config, Error, stamps};

/// Programs that have to load.
const NEEDED: [Planned; 4] =
    [("segment_taken", At::Section), ("copied", At::Section), ("destroyed", At::Section), ("pick_up", At::Passes)];
/// The one that gives `ready`.
const READY: Planned = ("made_ready", At::Section);
/// Maps that belong to the sending side.
const SHARED: [&str; 6] = ["sockets", "rows", "records", "controls", "pids", "pids_full"];
/// Maps that only this probe has.
const PRIVATE: [&str; 5] = ["receive_rows", "free_receive_rows", "arrivals", "receivers", "receive_losses"];
/// Tracepoints of the needed programs, and the versions of Linux that brought them.
const TRACEPOINTS: [(&str, &str); 3] =
    [("tcp_rcv_space_adjust", "4.18"), ("tcp_probe", "4.16"), ("tcp_destroy_sock", "4.16")];

/// The probe of received bytes.
pub(crate) struct Receives;

impl Probe for Receives {
    fn what(&self) -> &'static str {
        "received bytes"
    }

    fn wanted(&self, config: &Config) -> bool {
        config.receive
    }

    fn memory(&self, config: &Config, sizes: Sizes) -> Memory {
        config.memory_of_receivers(sizes)
    }

    fn capabilities(&self, ground: Result<&Ground<'_>, &Error>) -> Vec<Tried> {
        let loaded = ground.map_err(ToString::to_string).and_then(|ground| {
            load(ground, 16).map(|(_, no_ready)| no_ready).map_err(|error| error.of(self.what()).reason())
        });
        vec![
            Tried {
                name: "receive_stages",
                purpose: "driver_rx, tcp_rx and read of received bytes (--receive): tracepoints that run for every TCP socket of the \
                          machine and return at once where it is not traced, and receive stamps for every packet of the machine, \
                          a reading of the clock each",
                instead: "nothing: --receive and --requests need it",
                state: loaded.clone().map(drop),
            },
            Tried {
                name: "receive_ready",
                purpose: "when a socket became readable (Linux 6.3): a tracepoint that runs for every socket of the machine",
                instead: "the legs socket and wakeup are one, from tcp_rx to read",
                state: loaded.and_then(|no_ready| no_ready.map_or(Ok(()), |refusal| Err(refusal.to_string()))),
            },
        ]
    }

    fn load(&self, ground: &Ground<'_>) -> Result<Box<dyn Loaded>, LoadError> {
        let slots = ground.config.arrivals_per_connection;
        let slots = crate::error::within("the number of arrivals of a connection", slots, 1, 65_536)?;
        let slots = slots.next_power_of_two().max(16);
        let (programs, no_ready) = load(ground, slots)?;
        let object = programs.object();
        let missing =
            no_ready.map(|why| Missing { what: Unseen::Received(ReceiveStage::Ready), reason: why.to_string() });
        Ok(Box::new(Receiving {
            rows: object::map(object, "receive_rows")?,
            free: object::free_list(object, "free_receive_rows", ground.sizes.rows)?,
            arrivals: object::map(object, "arrivals")?,
            losses: object::map(object, "receive_losses")?,
            connections: ground.sizes.rows,
            slots,
            lost: Lost::default(),
            missing: missing.into_iter().collect(),
            stamps: None,
            programs,
        }))
    }
}

/// The probe while it is at work.
struct Receiving {
    programs: Programs,
    rows: MapHandle,
    free: MapHandle,
    arrivals: MapHandle,
    losses: MapHandle,
    connections: u32,
    slots: u32,
    /// What is counted where receives are decoded.
    lost: Lost,
    missing: Vec<Missing>,
    stamps: Option<OwnedFd>,
}

impl Receiving {
    fn give(&mut self, receive: Receive, out: &mut VecDeque<Event>) {
        self.lost.receive_disorder +=
            ReceiveLeg::ADDITIVE.into_iter().filter(|&leg| receive.leg(leg).is_err()).count() as u64;
        receive.count_unstamped(&mut self.lost);
        out.push_back(Event::Receive(receive));
    }
}

impl Loaded for Receiving {
    fn programs(&mut self) -> &mut Programs {
        &mut self.programs
    }

    fn attach(&mut self) -> Result<(), Error> {
        self.missing.retain(|missing| missing.what != Unseen::Received(ReceiveStage::DriverRx));
        match stamps::receive_stamps() {
            Ok(socket) => self.stamps = Some(socket),
            Err(error) => self.missing.push(Missing {
                what: Unseen::Received(ReceiveStage::DriverRx),
                reason: format!("the kernel takes no receive stamps: {error}"),
            }),
        }
        self.programs.attach()
    }

    fn detach(&mut self) {
        self.programs.detach();
        self.stamps = None;
    }

    fn kinds(&self) -> RangeInclusive<u32> {
        RECORD_RECEIVE..=RECORD_RECEIVE
    }

    fn take(&mut self, record: &[u8], out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        let receive = raw::receive(&crate::decode::raw(record)?);
        self.give(receive, out);
        Ok(())
    }

    /// What lies in the sockets and was not read.
    fn give_up(&mut self, out: &mut VecDeque<Event>) -> Result<(), Error> {
        let rows = object::rows_in_use(&self.rows, self.connections, |row: &RawReceiveRow| row.cookie != 0);
        for (number, row) in rows {
            object::free_row::<RawReceiveRow>(&self.rows, &self.free, number)?;
            for arrival in object::ring_entries::<RawArrival>(&self.arrivals, number, self.slots, row.head, row.tail) {
                self.lost.receive_unfinished += 1;
                self.give(raw::unread(row.cookie, arrival), out);
            }
        }
        Ok(())
    }

    fn lost(&self) -> Lost {
        let raw = object::sum_per_cpu::<RawReceiveLost>(&self.losses).unwrap_or_else(RawReceiveLost::zeroed);
        Lost {
            // What came then is counted when it is read (`receive_untold_bytes`).
            receive_left_out: self.programs.recursion_misses(),
            ..raw::lost(&raw) + self.lost
        }
    }

    fn observation(&self) -> Observation {
        let tracepoints = "the tracepoints of the TCP receive path run for every TCP socket of this machine, and sk_data_ready for every \
                           socket; they return at the first look where the socket is not traced";
        let stamps =
            "the kernel stamps every packet that this machine receives, a reading of the clock each (driver_rx)";
        let host_wide = [Some(tracepoints), self.stamps.is_some().then_some(stamps)];
        Observation {
            observed: Observed::Receives,
            missing: self.missing.clone(),
            host_wide: host_wide.into_iter().flatten().collect(),
        }
    }
}

/// Loads the object; where the kernel has no tracepoint for `ready`, without that and with the
/// reason.
fn load(ground: &Ground<'_>, slots: u32) -> Result<(Programs, Option<Refusal>), LoadError> {
    match load_with(ground, slots, Some(READY)) {
        Err(LoadError::Refused(why)) => match load_with(ground, slots, None) {
            Ok(programs) => Ok((programs, Some(why.or_missing(&[("sk_data_ready", "6.3")])))),
            // It was not that one alone.
            Err(LoadError::Refused(why)) => Err(LoadError::Refused(why.or_missing(&TRACEPOINTS))),
            Err(failed) => Err(failed),
        },
        done => done.map(|programs| (programs, None)),
    }
}

fn load_with(ground: &Ground<'_>, slots: u32, ready: Option<Planned>) -> Result<Programs, LoadError> {
    let mut object = object::open_aimed(compiled!("receive"), "wirelapse_rx", &ground.raw, ground.sizes)?;
    let set = RawReceiveConfig { tai_offset: stamps::tai_offset(), slots, pad: 0 };
    object::set_maps(&mut object, |name, map| match name {
        ".rodata.receive" => map.set_initial_value(set.as_bytes()),
        "receive_rows" | "free_receive_rows" | "walks" => map.set_max_entries(ground.sizes.rows),
        "arrivals" => map.set_max_entries(ground.sizes.rows * slots),
        name if name.starts_with(".rodata") || PRIVATE.contains(&name) || SHARED.contains(&name) => Ok(()),
        _ => map.set_autocreate(false),
    })?;
    if let Some(sends) = ground.sends {
        object::share(&mut object, sends, &SHARED)?;
    }
    Programs::load(object, NEEDED.into_iter().chain(ready).collect(), &[])
}
