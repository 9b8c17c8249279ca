//! The ways of observing that are compared: one entry each.

use std::num::NonZeroU32;

use record::{Ratio, Sampling, words};
use serde::{Serialize, Serializer};
use trace::baselines::Baseline;
use trace::histograms::Dimensions;
use trace::{BackendChoice, Config, Histograms, Target};

use super::load::Load;
use super::observer::{Nobody, Observer, Tcpdump, Watching, baseline};
use super::stamps::Stamps;
use crate::Error;

/// A way of observing, by its stable name in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Nothing: what all others are set beside.
    Nothing,
    /// The same again: what noise there is.
    Again,
    /// A tracer that looks at other flows.
    Unmatched,
    /// One thousandth of the time.
    Sampled1000,
    /// One hundredth of the time.
    Sampled100,
    /// An armed socket with a callback that returns at once.
    Floor,
    /// An armed socket; all its sends are tagged, and its callbacks return at once.
    Tagged,
    /// Every send.
    Every,
    /// Histograms of one hundredth of the time.
    Histograms100,
    /// Histograms of every send.
    Histograms,
    /// Histograms while nothing is sampled: what is left of their cost between the stretches of a
    /// sample.
    HistogramsBetween,
    /// Every send, with the call that writes.
    EveryCalls,
    /// Every send, by the other backend.
    EveryTracepoints,
    /// Every send, and what is received.
    Receive,
    /// Every send, and every packet.
    EveryPacket,
    /// Every send, and what requests begin with.
    Http,
    /// A sample while nothing is sampled: what is left of its cost between its stretches.
    SampledBetween,
    /// An empty program at a tracepoint.
    TpEmpty,
    /// One that reads addresses there.
    TpAddresses,
    /// An empty program at a function.
    FentryEmpty,
    /// One that reads addresses there.
    FentryAddresses,
    /// Stamps that the program reads itself.
    SoTimestamping,
    /// The same in batches, by our library.
    SoTimestampingBatched,
    /// The same, taken off without a look.
    SoTimestampingUnseen,
    /// The same, made and never read.
    SoTimestampingUnread,
    /// One stage alone.
    SoTimestampingAck,
    /// One send in a hundred.
    SoTimestamping100,
    /// The headers of every packet, in both directions.
    Packets,
    /// A capture by another program.
    Tcpdump,
}

words! {
    Key: Nothing = "nothing", Again = "again", Unmatched = "unmatched", Sampled1000 = "sampled_1000", Sampled100 = "sampled_100", Floor = "floor", Tagged = "tagged", Every = "every", Histograms100 = "histograms_100", Histograms = "histograms", HistogramsBetween = "histograms_between", EveryCalls = "every_calls", EveryTracepoints = "every_tracepoints", Receive = "receive", EveryPacket = "every_packet", Http = "http", SampledBetween = "sampled_between", TpEmpty = "tp_empty", TpAddresses = "tp_addresses", FentryEmpty = "fentry_empty", FentryAddresses = "fentry_addresses", SoTimestamping = "so_timestamping", SoTimestampingBatched = "so_timestamping_batched", SoTimestampingUnseen = "so_timestamping_unseen", SoTimestampingUnread = "so_timestamping_unread", SoTimestampingAck = "so_timestamping_ack", SoTimestamping100 = "so_timestamping_100", Packets = "packets", Tcpdump = "tcpdump";
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

/// A way of observing a connection.
#[derive(Clone, Copy)]
pub struct Way {
    /// Which it is.
    pub key: Key,
    /// What it is, for people.
    pub name: &'static str,
    /// What the reference reports for it, where it does.
    pub reference: Option<&'static str>,
    /// Whether its cost falls into few slices and much at a time, so that the mean shows it and the
    /// median does not.
    pub(super) in_few_slices: bool,
    /// Whether its cost is so small that it takes many slices.
    small: bool,
    /// What it makes the sender do.
    pub(super) stamps: Stamps,
    /// Loads it. An error says why this machine cannot.
    pub(super) open: fn(Site) -> Result<Box<dyn Observer>, Error>,
}

/// What a way is put on, and by what.
#[derive(Clone, Copy)]
pub(super) struct Site {
    /// The port of the connections.
    pub port: u16,
    /// The CPU of the observer's threads.
    pub cpu: usize,
    /// By which backend a tracer works, unless the way is about one.
    pub backend: BackendChoice,
}

/// Pairs in each block of a way with a cost that falls into few slices, or is small.
const PAIRS_OF_MANY: u32 = 4;

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.key.name())
    }
}

impl Way {
    const fn new(key: Key, name: &'static str, open: fn(Site) -> Result<Box<dyn Observer>, Error>) -> Self {
        Self { key, name, reference: None, in_few_slices: false, small: false, stamps: Stamps::None, open }
    }

    const fn in_few_slices(self) -> Self {
        Self { in_few_slices: true, ..self }
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
        if self.in_few_slices || self.small { PAIRS_OF_MANY } else { u32::from(self.key != Key::Nothing) }
    }

    /// Why it cannot be measured with this load, if it cannot.
    pub(super) fn unfit(&self, load: Load) -> Option<&'static str> {
        (self.stamps == Stamps::Unread && load == Load::Exchange)
            .then_some("stamps that are never read fill the socket's memory, which leaves no room for an answer")
    }
}

impl Site {
    fn tracer(self, sampling: Sampling) -> Config {
        let target = Target { ports: vec![self.port.into()], ..Target::default() };
        Config { target, sampling, backend: self.backend, max_connections: 64, ..Config::default() }
    }

    /// Histograms by peer and program, without records.
    fn histograms(self, sampling: Sampling) -> Config {
        let dimensions = Dimensions { program: true, ..Dimensions::default() };
        let histograms = Some(Histograms { dimensions, ..Histograms::default() });
        Config { histograms, ..self.tracer(sampling) }
    }

    fn watching(self, config: Config) -> Result<Box<dyn Observer>, Error> {
        Watching::start(config, self.cpu)
    }
}

fn windows(every: u32) -> Sampling {
    Sampling::Windows(NonZeroU32::new(every).map_or(Ratio::ALL, Ratio))
}

/// All of them. A further way of tracing is one more entry.
pub static ALL: [Way; 28] = [
    Way::new(Key::Nothing, "nothing", |_| Ok(Box::new(Nobody))),
    Way::new(Key::Again, "nothing, again (A/A)", |_| Ok(Box::new(Nobody))),
    // No connection can have port 0.
    Way::new(Key::Unmatched, "tracer on, other flows", |s| s.watching(Site { port: 0, ..s }.tracer(Sampling::Every))),
    Way::new(Key::Sampled1000, "sampled 1/1000", |s| s.watching(s.tracer(windows(1000)))).in_few_slices(),
    Way::new(Key::Sampled100, "sampled 1/100", |s| s.watching(s.tracer(windows(100)))).in_few_slices(),
    Way::new(Key::Floor, "floor: armed, callback returns at once", |s| baseline(Baseline::Floor, s.port)),
    Way::new(Key::Tagged, "floor of stamps: tagged, callbacks return", |s| baseline(Baseline::Tagged, s.port)),
    Way::new(Key::Every, "every send", |s| s.watching(s.tracer(Sampling::Every))),
    Way::new(Key::Histograms100, "histograms of 1/100", |s| s.watching(s.histograms(windows(100)))).in_few_slices(),
    Way::new(Key::Histograms, "histograms of every send", |s| s.watching(s.histograms(Sampling::Every))),
    Way::new(Key::HistogramsBetween, "histograms, between stretches", |s| s.watching(s.histograms(windows(u32::MAX))))
        .small(),
    Way::new(Key::EveryCalls, "every send, with its call", |s| {
        s.watching(Config { calls: true, ..s.tracer(Sampling::Every) })
    }),
    Way::new(Key::EveryTracepoints, "every send, by tracepoints", |s| {
        s.watching(Site { backend: BackendChoice::Tracepoints, ..s }.tracer(Sampling::Every))
    }),
    Way::new(Key::Receive, "every send, --receive", |s| {
        s.watching(Config { receive: true, ..s.tracer(Sampling::Every) })
    }),
    Way::new(Key::EveryPacket, "every send, --every-packet", |s| {
        s.watching(Config { packets: true, ..s.tracer(Sampling::Every) })
    }),
    Way::new(Key::Http, "every send, --http", |s| s.watching(Config { http: true, ..s.tracer(Sampling::Every) })),
    Way::new(Key::TpEmpty, "empty program, tp_btf/tcp_sendmsg_locked", |s| baseline(Baseline::Tracepoint, s.port)),
    Way::new(Key::TpAddresses, "reads addresses, tp_btf/tcp_sendmsg_locked", |s| {
        baseline(Baseline::TracepointAddresses, s.port)
    }),
    Way::new(Key::FentryEmpty, "empty program, fentry/tcp_sendmsg", |s| baseline(Baseline::Fentry, s.port))
        .reference("-4.6 %"),
    Way::new(Key::FentryAddresses, "reads addresses, fentry/tcp_sendmsg", |s| {
        baseline(Baseline::FentryAddresses, s.port)
    })
    .reference("-7.1 %"),
    Way::new(Key::SoTimestamping, "SO_TIMESTAMPING, recvmsg after each send", |_| Ok(Box::new(Nobody)))
        .stamps(Stamps::Plain)
        .reference("-20 %"),
    Way::new(Key::SoTimestampingBatched, "SO_TIMESTAMPING, our library, batches of 32", |_| Ok(Box::new(Nobody)))
        .stamps(Stamps::Batched(32)),
    Way::new(Key::SoTimestampingUnseen, "its floor: batches of 32 taken off unseen", |_| Ok(Box::new(Nobody)))
        .stamps(Stamps::Unseen(32)),
    Way::new(Key::SoTimestampingUnread, "its floor without reading: made, never read", |_| Ok(Box::new(Nobody)))
        .stamps(Stamps::Unread),
    Way::new(Key::SoTimestampingAck, "our library, stage ack alone", |_| Ok(Box::new(Nobody))).stamps(Stamps::Ack(32)),
    Way::new(Key::SoTimestamping100, "our library, 1 send in 100", |_| Ok(Box::new(Nobody)))
        .stamps(Stamps::Sampled(100)),
    Way::new(Key::Packets, "every send, --packets", |s| {
        s.watching(Config { copies: Some(0), ..s.tracer(Sampling::Every) })
    }),
    Way::new(Key::Tcpdump, "tcpdump -i lo -w /dev/null", |s| Tcpdump::find(s.cpu)),
];

/// The way of that key.
pub fn find(key: Key) -> Option<&'static Way> {
    ALL.iter().find(|way| way.key == key)
}

/// What is left of a sample between its stretches: of a count of instructions, in which a stretch
/// would show in few slices.
pub(super) static SAMPLED_BETWEEN: Way =
    Way::new(Key::SampledBetween, "sampled, between stretches", |s| s.watching(s.tracer(windows(u32::MAX))));

/// The ways of the quick form: those of the bars and an application's own stamps.
pub fn quick() -> Vec<&'static Way> {
    [Key::Nothing, Key::Again, Key::Unmatched, Key::Sampled100, Key::Floor, Key::Every, Key::SoTimestamping]
        .into_iter()
        .filter_map(find)
        .collect()
}

/// The ways that the bars are about: nothing, other flows, sampled, the floor and every send.
pub fn with_bars() -> Vec<&'static Way> {
    [Key::Nothing, Key::Again, Key::Unmatched, Key::Sampled100, Key::Floor, Key::Tagged, Key::Every]
        .into_iter()
        .filter_map(find)
        .collect()
}
