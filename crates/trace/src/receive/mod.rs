//! The receiving side: when bytes came to the stack and to TCP, when their socket became readable, and when the
//! application had copied them.
//!
//! The connections are those that the sending side follows; this probe shares its storage of sockets, so existing, accepted and
//! inherited ones need nothing of their own here. What reaches beyond the target:
//!
//! - Four tracepoints of TCP sockets run for those of the whole machine and return at the first look where the socket is not
//!   followed.
//! - `driver_rx` is the kernel's own receive stamp of the packet. A socket that asks for such stamps switches them on for all
//!   packets of the machine: one reading of the clock for each. The tracepoint `netif_receive_skb` would cost a program run and
//!   a look-up of the socket for each instead.

mod raw;

use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};

use libbpf_rs::{Link, MapCore as _, MapFlags, MapHandle, Object};
use record::{Lost, Receive};

use crate::Error;
use crate::layout::{Plain as _, RawArrival, RawConfig, RawReceiveConfig, RawReceiveLost, RawReceiveRow};
use crate::object::{self, Sizes};
pub(crate) use raw::receive;

/// Programs that have to load.
const NEEDED: [&str; 4] = ["segment_taken", "copied", "destroyed", "pick_up"];
/// The one that gives `ready`.
const READY: &str = "made_ready";
/// Maps that belong to the sending side.
const SHARED: [&str; 4] = ["sockets", "rows", "records", "controls"];
/// Maps that only this probe has.
const OWN: [&str; 5] = ["receive_rows", "free_receive_rows", "arrivals", "receivers", "receive_losses"];

/// The probe while it is at work.
#[derive(Debug)]
pub struct Receiving {
    links: Vec<Link>,
    programs: Vec<u32>,
    rows: MapHandle,
    free: MapHandle,
    arrivals: MapHandle,
    losses: MapHandle,
    sizes: Sizes,
    slots: u32,
    unfinished: u64,
    no_ready: Option<String>,
    no_driver_rx: Option<String>,
    stamps: Option<OwnedFd>,
    object: Object,
}

impl Receiving {
    /// Attaches the probe beside the sending side's programs, and gives the iterator that picks up found connections.
    pub(crate) fn start(sends: &Object, raw: &RawConfig, sizes: Sizes, slots: u32) -> Result<(Self, Link), Error> {
        if !(1..=65_536).contains(&slots) {
            return Err(Error::OutOfRange {
                what: "the number of arrivals of a connection",
                value: slots,
                least: 1,
                most: 65_536,
            });
        }
        let slots = slots.next_power_of_two().max(16);
        let (object, no_ready) = load(Some(sends), raw, sizes, slots)?;
        object::free_list(&object, "free_receive_rows", sizes.rows)?;
        let (stamps, no_driver_rx) = match receive_stamps() {
            Ok(socket) => (Some(socket), None),
            Err(error) => (None, Some(format!("the kernel takes no receive stamps: {error}"))),
        };
        let mut programs = Vec::new();
        for program in on_tracepoints(no_ready.is_none()) {
            programs.push(object::program_id(&object, program)?);
        }
        let pick_up = object::attach(&object, "pick_up")?;
        let mut receiving = Self {
            links: Vec::new(),
            programs,
            rows: object::map(&object, "receive_rows")?,
            free: object::map(&object, "free_receive_rows")?,
            arrivals: object::map(&object, "arrivals")?,
            losses: object::map(&object, "receive_losses")?,
            sizes,
            slots,
            unfinished: 0,
            no_ready,
            no_driver_rx,
            stamps,
            object,
        };
        receiving.attach()?;
        Ok((receiving, pick_up))
    }

    /// Attaches again after [`Receiving::stop`] and [`Receiving::unread`].
    pub(crate) fn resume(&mut self) -> Result<(), Error> {
        if self.no_driver_rx.is_none() {
            self.stamps = Some(receive_stamps().map_err(Error::system("cannot have received packets stamped"))?);
        }
        self.attach()
    }

    fn attach(&mut self) -> Result<(), Error> {
        for program in on_tracepoints(self.no_ready.is_none()) {
            self.links.push(object::attach(&self.object, program)?);
        }
        Ok(())
    }

    /// Why there is no `ready` stage; `None` where there is.
    pub fn no_ready(&self) -> Option<&str> {
        self.no_ready.as_deref()
    }

    /// Why there is no `driver_rx` stage; `None` where there is.
    pub fn no_driver_rx(&self) -> Option<&str> {
        self.no_driver_rx.as_deref()
    }

    /// Detaches everything; what was gathered stays to be read.
    pub(crate) fn stop(&mut self) {
        self.links.clear();
        self.stamps = None;
    }

    /// Kernel memory of its maps, bytes.
    pub(crate) fn memory(&self) -> u64 {
        let rows = u64::from(self.sizes.rows);
        rows * (size_of::<RawReceiveRow>() as u64 + 4) + rows * u64::from(self.slots) * size_of::<RawArrival>() as u64
    }

    /// The counters of this probe; all others are zero.
    pub(crate) fn lost(&self) -> Lost {
        let Some(raw) = object::sum_per_cpu::<RawReceiveLost>(&self.losses) else { return Lost::default() };
        Lost {
            receive_ring_buffer: raw.ring_buffer,
            receive_slots_full: raw.slots_full,
            receive_connections_full: raw.connections_full,
            receive_left_out: self.left_out(),
            receive_unsampled_bytes: raw.unsampled_bytes,
            receive_unseen_bytes: raw.unseen_bytes,
            receive_untold_bytes: raw.untold_bytes,
            receive_never_read: raw.never_read,
            receive_unfinished: self.unfinished,
            receive_out_of_order: raw.out_of_order,
            receive_duplicate: raw.duplicate,
            receive_no_driver_rx: raw.no_driver_rx,
            receive_no_tcp_rx: raw.no_tcp_rx,
            receive_no_ready: raw.no_ready,
            ..Lost::default()
        }
    }

    /// Runs that the kernel left out: it lets a program not begin on a processor where it has begun already, be it interrupted or
    /// preempted. What came then shows as untold when it is read.
    fn left_out(&self) -> u64 {
        let all = libbpf_rs::query::ProgInfoIter::default();
        all.filter(|program| self.programs.contains(&program.id)).map(|program| program.recursion_misses).sum()
    }

    /// What lies in the sockets unread; to be asked after [`Receiving::stop`]. Takes all rows back.
    pub(crate) fn unread(&mut self) -> Result<Vec<Receive>, Error> {
        let mut list = Vec::new();
        let nothing = [0; size_of::<RawReceiveRow>()];
        for number in 0..self.sizes.rows {
            let row = self.rows.lookup(&number.to_ne_bytes(), MapFlags::ANY).ok().flatten();
            let Some(row) = row.as_deref().and_then(RawReceiveRow::from_bytes).filter(|row| row.cookie != 0) else {
                continue;
            };
            self.rows
                .update(&number.to_ne_bytes(), &nothing, MapFlags::ANY)
                .and_then(|()| self.free.update(&[], &number.to_ne_bytes(), MapFlags::ANY))
                .map_err(Error::bpf("cannot take a row of received bytes back"))?;
            let mut at = row.head;
            while at != row.tail {
                let index = number * self.slots + (at & (self.slots - 1));
                at = at.wrapping_add(1);
                let arrival = self.arrivals.lookup(&index.to_ne_bytes(), MapFlags::ANY).ok().flatten();
                if let Some(arrival) = arrival.as_deref().and_then(RawArrival::from_bytes) {
                    list.push(raw::unread(row.cookie, arrival));
                }
            }
        }
        self.unfinished += list.len() as u64;
        Ok(list)
    }
}

/// The programs to be attached to tracepoints.
fn on_tracepoints(with_ready: bool) -> impl Iterator<Item = &'static str> {
    NEEDED.into_iter().filter(|&program| program != "pick_up").chain(with_ready.then_some(READY))
}

/// Loads the object; where the kernel has no tracepoint for `ready`, without that and with the reason.
fn load(sends: Option<&Object>, raw: &RawConfig, sizes: Sizes, slots: u32) -> Result<(Object, Option<String>), Error> {
    let mut no_ready = None;
    loop {
        let with_ready = no_ready.is_none();
        let mut object = object::open(object::RECEIVE, "wirelapse_rx", raw, sizes)?;
        let set = RawReceiveConfig { tai_offset: tai_offset(), slots, pad: 0 };
        for mut map in object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let done = match name.as_str() {
                ".rodata.receive" => map.set_initial_value(set.as_bytes()),
                "receive_rows" | "free_receive_rows" => map.set_max_entries(sizes.rows),
                "arrivals" => map.set_max_entries(sizes.rows * slots),
                name if SHARED.contains(&name) => match sends {
                    Some(sends) => {
                        let shared = SHARED.into_iter().find(|&s| s == name).unwrap_or("sockets");
                        let handle = object::map(sends, shared)?;
                        map.reuse_fd(handle.as_fd())
                    }
                    None => Ok(()),
                },
                name if name.starts_with(".rodata") || OWN.contains(&name) => Ok(()),
                _ => map.set_autocreate(false),
            };
            done.map_err(Error::bpf("cannot set up a map of the receiving side"))?;
        }
        for mut program in object.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let wanted = NEEDED.contains(&name.as_str()) || with_ready && name == READY;
            program.set_autoload(wanted);
        }
        match object::load(object) {
            Ok(object) => return Ok((object, no_ready)),
            // Once without it; whatever else is missing shows then.
            Err(reason) if with_ready => no_ready = Some(missing(&reason)),
            Err(reason) => return Err(Error::Receive { reason: missing(&reason) }),
        }
    }
}

/// The kernel's words, with what they mean where a tracepoint is not there.
fn missing(reason: &str) -> String {
    const SINCE: [(&str, &str); 4] = [
        ("sk_data_ready", "the kernel has no tracepoint sk_data_ready (Linux 6.3 brought it)"),
        ("tcp_rcv_space_adjust", "the kernel has no tracepoint tcp_rcv_space_adjust (Linux 4.18 brought it)"),
        ("tcp_probe", "the kernel has no tracepoint tcp_probe (Linux 4.16 brought it)"),
        ("tcp_destroy_sock", "the kernel has no tracepoint tcp_destroy_sock (Linux 4.16 brought it)"),
    ];
    let lacks = SINCE.iter().find(|(name, _)| reason.contains("failed to find kernel BTF") && reason.contains(name));
    lacks.map_or_else(|| reason.to_owned(), |(_, words)| (*words).to_owned())
}

/// Whether the probe loads here, and why there is no `ready` stage where that is so.
pub(crate) fn try_load(raw: &RawConfig, sizes: Sizes) -> Result<Option<String>, String> {
    load(None, raw, sizes, 16).map(|(_, no_ready)| no_ready).map_err(|error| error.to_string())
}

fn clock(clock: libc::clockid_t) -> i128 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes one timespec; every kernel has the clocks that are asked for here.
    unsafe { libc::clock_gettime(clock, &raw mut at) };
    i128::from(at.tv_sec) * 1_000_000_000 + i128::from(at.tv_nsec)
}

/// TAI − REALTIME: whole seconds, so the time between the two readings rounds away.
pub(crate) fn tai_offset() -> i64 {
    let apart = clock(libc::CLOCK_TAI) - clock(libc::CLOCK_REALTIME);
    let seconds = (apart + 500_000_000).div_euclid(1_000_000_000);
    i64::try_from(seconds * 1_000_000_000).unwrap_or(0)
}

/// A socket that has the kernel stamp the packets it receives, for as long as it is open.
pub(crate) fn receive_stamps() -> Result<OwnedFd, std::io::Error> {
    // SAFETY: socket() takes three numbers and gives a new descriptor or -1.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE;
    // SAFETY: the option is an int, and its size is given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            size_of_val(&flags) as libc::socklen_t,
        )
    };
    if done == 0 { Ok(socket) } else { Err(std::io::Error::last_os_error()) }
}
