//! Which programs the probe of packets runs on this kernel: some need a kernel newer than the
//! oldest that is supported, and have others in their place, or none.

use crate::Error;
use crate::layout::{Plain as _, RawPacketConfig};
use crate::object::{self, compiled_for_today};
use crate::probe::{Ground, Missing, Unseen};
use crate::programs::{At, LoadError, Planned, Programs};
use crate::stamps;

/// Maps that belong to the sending side.
const SHARED: [&str; 8] = ["sockets", "records", "controls", "pids", "pids_full", "ports", "peers", "cgroups"];

/// What a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    Both,
    Tcp,
    Udp,
}

/// Programs that have to load.
const NEEDED: [(&str, For, At); 14] = [
    ("packet_queued", For::Both, At::Section),
    ("packet_started", For::Both, At::Section),
    ("packet_driven", For::Both, At::Section),
    ("ack_came", For::Tcp, At::Section),
    ("stream_changed", For::Tcp, At::Section),
    ("stream_called", For::Tcp, At::Cgroup),
    ("look_at_streams", For::Tcp, At::Passes),
    ("udp_made", For::Udp, At::Cgroup),
    ("udp_gone", For::Udp, At::Cgroup),
    ("sends_v4", For::Udp, At::Cgroup),
    ("sends_v6", For::Udp, At::Cgroup),
    ("udp_taken", For::Udp, At::Cgroup),
    ("udp_held", For::Udp, At::Files),
    ("find_udp", For::Udp, At::Passes),
];

/// One way to have something.
struct Way {
    /// Its programs; none is to do without.
    programs: &'static [&'static str],
    /// What is not seen this way, and why.
    without: Option<(Unseen, &'static str)>,
}

impl Way {
    const fn whole(programs: &'static [&'static str]) -> Self {
        Self { programs, without: None }
    }

    const fn lacking(programs: &'static [&'static str], what: Unseen, why: &'static str) -> Self {
        Self { programs, without: Some((what, why)) }
    }
}

/// What can be had in more than one way, the best first.
struct Choice {
    of: For,
    ways: &'static [Way],
}

/// The program that sees system calls begin.
pub(super) const CALLS: &str = "call_begins";

const CHOICES: [Choice; 3] = [
    Choice {
        of: For::Both,
        ways: &[
            Way::whole(&["packet_dropped"]),
            Way::lacking(&["packet_dropped_before_6_11"], Unseen::ReceivedDrops, Unseen::RECEIVED_DROPS),
            Way::lacking(
                &[],
                Unseen::Drops,
                "the tracepoint kfree_skb gives no reason on this kernel (Linux 5.17 brought it)",
            ),
        ],
    },
    Choice {
        of: For::Udp,
        ways: &[
            Way::whole(&["udp_ready", "udp_read"]),
            Way::whole(&["udp_enqueued", "udp_read_v4", "udp_read_v6"]),
            Way::lacking(
                &[],
                Unseen::DatagramsRead,
                "this kernel has no tracepoints sk_data_ready and sock_recv_length \
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
                Unseen::DatagramsSent,
                "this kernel lets no fentry program load and has no tracepoint \
                 sys_enter",
            ),
        ],
    },
];

/// What of the two is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
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

/// Loads the probe in the best way that this kernel allows, and says what it does without.
pub(super) fn load(ground: &Ground<'_>, wanted: Wanted) -> Result<(Programs, Vec<Missing>), LoadError> {
    let mut way = [0usize; CHOICES.len()];
    let mut loaded = load_with(ground, wanted, plan(wanted, &way));
    if let Err(LoadError::Refused(_)) = loaded {
        // Each choice by itself shows which of its ways this kernel takes.
        for (choice, way) in CHOICES.iter().zip(&mut way).filter(|(choice, _)| wanted.includes(choice.of)) {
            while !loads(ground, wanted, &choice.ways[*way])? && *way + 1 < choice.ways.len() {
                *way += 1;
            }
        }
        loaded = load_with(ground, wanted, plan(wanted, &way));
    }
    let chosen = CHOICES.iter().zip(way).filter(|(choice, _)| wanted.includes(choice.of));
    let missing = chosen.filter_map(|(choice, way)| choice.ways[way].without);
    let missing = missing.map(|(what, why)| Missing { what, reason: why.into() }).collect();
    Ok((loaded?, missing))
}

/// Whether this kernel takes the programs of a way.
fn loads(ground: &Ground<'_>, wanted: Wanted, way: &Way) -> Result<bool, Error> {
    if way.programs.is_empty() {
        return Ok(true);
    }
    match load_with(ground, wanted, way.programs.iter().map(|&name| (name, At::Section)).collect()) {
        Ok(_) => Ok(true),
        Err(LoadError::Refused(_)) => Ok(false),
        Err(LoadError::Failed(error)) => Err(error),
    }
}

/// The programs of these ways, with those that are always needed.
fn plan(wanted: Wanted, way: &[usize; CHOICES.len()]) -> Vec<Planned> {
    let needed = NEEDED.iter().filter(|(_, of, _)| wanted.includes(*of)).map(|&(name, _, at)| (name, at));
    let chosen = CHOICES.iter().zip(way).filter(|(choice, _)| wanted.includes(choice.of));
    needed
        .chain(chosen.flat_map(|(choice, &way)| choice.ways[way].programs.iter().map(|&name| (name, At::Section))))
        .collect()
}

fn load_with(ground: &Ground<'_>, wanted: Wanted, plan: Vec<Planned>) -> Result<Programs, LoadError> {
    let mut object = object::open_aimed(compiled_for_today!("packets"), "wirelapse_pk", &ground.raw, ground.sizes)?;
    let set =
        RawPacketConfig { tai_offset: stamps::tai_offset(), tcp: u32::from(wanted.tcp), udp: u32::from(wanted.udp) };
    object::set_maps(&mut object, |name, map| match name {
        ".rodata.wanted" => map.set_initial_value(set.as_bytes()),
        _ => Ok(()),
    })?;
    if let Some(sends) = ground.sends {
        object::share(&mut object, sends, &SHARED)?;
    }
    Programs::load(object, plan, ground.cgroups)
}
