//! The ways of observing that are compared: one entry each.

use std::num::NonZeroU32;

use record::{Ratio, Sampling};
use trace::baselines::Baseline;
use trace::histograms::Dimensions;
use trace::{BackendChoice, Config, Histograms, Target};

use super::load::{Cpus, Load};
use super::observer::{Nobody, Observer, Tcpdump, Watching, baseline};
use super::stamps::Stamps;
use crate::Error;

/// A way of observing a connection.
#[derive(Clone, Copy)]
pub struct Way {
    /// A stable name for files.
    pub key: &'static str,
    /// What it is, for people.
    pub name: &'static str,
    /// What the reference reports for it, where it does.
    pub reference: Option<&'static str>,
    /// Whether its cost falls into few slices and much at a time, so that the mean shows it and the
    /// median does not.
    pub(super) rare: bool,
    /// Whether its cost is so small that it takes many slices.
    small: bool,
    /// What it makes the sender do.
    pub(super) stamps: Stamps,
    /// Loads it for the connection with this port. An error says why this machine cannot.
    pub(super) open: fn(port: u16, cpus: Cpus) -> Result<Box<dyn Observer>, Error>,
}

/// Pairs in each block of a way with a cost that falls into few slices, or is small.
const PAIRS_OF_MANY: u32 = 4;

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.key)
    }
}

impl Way {
    const fn new(
        key: &'static str,
        name: &'static str,
        open: fn(u16, Cpus) -> Result<Box<dyn Observer>, Error>,
    ) -> Self {
        Self { key, name, reference: None, rare: false, small: false, stamps: Stamps::None, open }
    }

    const fn rare(self) -> Self {
        Self { rare: true, ..self }
    }

    const fn small(self) -> Self {
        Self { small: true, ..self }
    }

    const fn stamps(self, stamps: Stamps) -> Self {
        Self { stamps, ..self }
    }

    const fn reference(self, reference: &'static str) -> Self {
        Self { reference: Some(reference), ..self }
    }

    /// Pairs of slices that it has in each block.
    pub(super) fn pairs(&self) -> u32 {
        if self.rare || self.small { PAIRS_OF_MANY } else { u32::from(self.key != NOTHING) }
    }

    /// Why it cannot be measured with this load, if it cannot.
    pub(super) fn unfit(&self, load: Load) -> Option<&'static str> {
        (self.stamps == Stamps::Unread && load == Load::Exchange)
            .then_some("stamps that are never read fill the socket's memory, which leaves no room for an answer")
    }
}

fn tracer(port: u16, sampling: Sampling, backend: BackendChoice) -> Config {
    let target = Target { ports: vec![port.into()], ..Target::default() };
    Config { target, sampling, backend, max_connections: 64, ..Config::default() }
}

/// Histograms by peer and program, without records.
fn histograms(port: u16, sampling: Sampling) -> Config {
    let dimensions = Dimensions { program: true, ..Dimensions::default() };
    let histograms = Some(Histograms { dimensions, ..Histograms::default() });
    Config { histograms, ..tracer(port, sampling, STAMPS) }
}

fn windows(every: u32) -> Sampling {
    Sampling::Windows(NonZeroU32::new(every).map_or(Ratio::ALL, Ratio))
}

const STAMPS: BackendChoice = BackendChoice::Timestamping;

/// The keys of the ways that the verdicts are about.
pub const NOTHING: &str = "nothing";
/// The same again: what noise there is.
pub const AGAIN: &str = "again";
/// A tracer that looks at other flows.
pub const UNMATCHED: &str = "unmatched";
/// One hundredth of the time.
pub const SAMPLED: &str = "sampled_100";
/// An armed socket with a callback that returns at once.
pub const FLOOR: &str = "floor";
/// An armed socket; all its sends are tagged, and its callbacks return at once.
pub const TAGGED: &str = "tagged";
/// Every send.
pub const EVERY: &str = "every";
/// Histograms of every send.
pub const HISTOGRAMS: &str = "histograms";

/// Histograms with no stretch that is looked at: what is left of them between the stretches of a
/// sample.
pub const HISTOGRAMS_BETWEEN: &str = "histograms_between";

/// All of them. A further way of tracing is one more entry.
pub static ALL: [Way; 26] = [
    Way::new(NOTHING, "nothing", |_, _| Ok(Box::new(Nobody))),
    Way::new(AGAIN, "nothing, again (A/A)", |_, _| Ok(Box::new(Nobody))),
    // No connection can have port 0.
    Way::new(UNMATCHED, "tracer on, other flows", |_, c| Watching::start(tracer(0, Sampling::Every, STAMPS), c.others)),
    Way::new("sampled_1000", "sampled 1/1000", |p, c| Watching::start(tracer(p, windows(1000), STAMPS), c.others))
        .rare(),
    Way::new(SAMPLED, "sampled 1/100", |p, c| Watching::start(tracer(p, windows(100), STAMPS), c.others)).rare(),
    Way::new(FLOOR, "floor: armed, callback returns at once", |p, _| baseline(Baseline::Floor, p)),
    Way::new(TAGGED, "floor of stamps: tagged, callbacks return", |p, _| baseline(Baseline::Tagged, p)),
    Way::new(EVERY, "every send", |p, c| Watching::start(tracer(p, Sampling::Every, STAMPS), c.others)),
    Way::new("histograms_100", "histograms of 1/100", |p, c| Watching::start(histograms(p, windows(100)), c.others))
        .rare(),
    Way::new(HISTOGRAMS, "histograms of every send", |p, c| Watching::start(histograms(p, Sampling::Every), c.others)),
    Way::new(HISTOGRAMS_BETWEEN, "histograms, between stretches", |p, c| {
        Watching::start(histograms(p, windows(u32::MAX)), c.others)
    })
    .small(),
    Way::new("every_calls", "every send, with its call", |p, c| {
        Watching::start(Config { calls: true, ..tracer(p, Sampling::Every, STAMPS) }, c.others)
    }),
    Way::new("every_tracepoints", "every send, by tracepoints", |p, c| {
        Watching::start(tracer(p, Sampling::Every, BackendChoice::Tracepoints), c.others)
    }),
    Way::new("receive", "every send, --receive", |p, c| {
        Watching::start(Config { receive: true, ..tracer(p, Sampling::Every, STAMPS) }, c.others)
    }),
    Way::new("every_packet", "every send, --every-packet", |p, c| {
        Watching::start(Config { packets: true, ..tracer(p, Sampling::Every, STAMPS) }, c.others)
    }),
    Way::new("tp_empty", "empty program, tp_btf/tcp_sendmsg_locked", |p, _| baseline(Baseline::Tracepoint, p)),
    Way::new("tp_addresses", "reads addresses, tp_btf/tcp_sendmsg_locked", |p, _| {
        baseline(Baseline::TracepointAddresses, p)
    }),
    Way::new("fentry_empty", "empty program, fentry/tcp_sendmsg", |p, _| baseline(Baseline::Fentry, p))
        .reference("-4.6 %"),
    Way::new("fentry_addresses", "reads addresses, fentry/tcp_sendmsg", |p, _| baseline(Baseline::FentryAddresses, p))
        .reference("-7.1 %"),
    Way::new("so_timestamping", "SO_TIMESTAMPING, recvmsg after each send", |_, _| Ok(Box::new(Nobody)))
        .stamps(Stamps::Plain)
        .reference("-20 %"),
    Way::new("so_timestamping_batched", "SO_TIMESTAMPING, our library, batches of 32", |_, _| Ok(Box::new(Nobody)))
        .stamps(Stamps::Batched(32)),
    Way::new("so_timestamping_unseen", "its floor: batches of 32 taken off unseen", |_, _| Ok(Box::new(Nobody)))
        .stamps(Stamps::Unseen(32)),
    Way::new("so_timestamping_unread", "its floor without reading: made, never read", |_, _| Ok(Box::new(Nobody)))
        .stamps(Stamps::Unread),
    Way::new("so_timestamping_ack", "our library, stage ack alone", |_, _| Ok(Box::new(Nobody)))
        .stamps(Stamps::Ack(32)),
    Way::new("so_timestamping_100", "our library, 1 send in 100", |_, _| Ok(Box::new(Nobody)))
        .stamps(Stamps::Sampled(100)),
    Way::new("tcpdump", "tcpdump -i lo -w /dev/null", |_, c| Tcpdump::find(c.others)),
];

/// The way of that key.
pub fn find(key: &str) -> Option<&'static Way> {
    ALL.iter().find(|way| way.key == key)
}

/// The ways of the quick form: those of the bars and an application's own stamps.
pub fn quick() -> Vec<&'static Way> {
    [NOTHING, AGAIN, UNMATCHED, SAMPLED, FLOOR, EVERY, "so_timestamping"].iter().filter_map(|key| find(key)).collect()
}

/// The ways that the bars are about: nothing, other flows, sampled, the floor and every send.
pub fn with_bars() -> Vec<&'static Way> {
    [NOTHING, AGAIN, UNMATCHED, SAMPLED, FLOOR, TAGGED, EVERY].iter().filter_map(|key| find(key)).collect()
}
