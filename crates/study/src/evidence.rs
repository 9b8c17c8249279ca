//! What the packets of a trial prove: SYN options, header lengths, the receive window over time,
//! and what `diagnose` finds in them.
//!
//! A receiver of `capture` in the sending host reads the first bytes of each frame until so many
//! are seen; then it is closed and costs nothing. Frames are as the host's TCP hands them to its
//! device: segmentation comes later.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use capture::{Receiver, Technique};
use diagnose::{Follower, Options};
use record::{Nanos, SeqNumber};
use serde::{Deserialize, Serialize};
use wire::{Flags, Frame, LinkType, Packet, Reassembly, Segment};

/// Bytes kept of each frame: all headers that the lab's hosts make.
const SNAP: u32 = 160;

/// How long the end of a capture is waited for, where no frame comes.
const SILENCE: Duration = Duration::from_millis(50);

/// Connections that are followed.
const CONNECTIONS: usize = 64;

/// The options of one side's SYNs, and how many had them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SynOptions {
    /// From the server (SYN-ACK).
    pub from_server: bool,
    /// Window scale.
    pub window_scale: Option<u8>,
    /// Timestamps.
    pub timestamps: bool,
    /// SACK permitted.
    pub sack: bool,
    /// Largest segment, bytes.
    pub mss: Option<u16>,
    /// How many SYNs.
    pub count: u64,
}

/// Frames with payload that are in the first histogram of header lengths: as many samples as the
/// reference has.
pub const FIRST: u64 = 256;

/// What was found in the connections of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The finding's kind.
    pub kind: String,
    /// The words of the costliest one.
    pub text: String,
    /// How often, over all connections.
    pub count: u64,
    /// What they cost together.
    pub cost_ns: Nanos,
    /// Packets (by number in the trial's capture) that show the costliest one.
    pub packets: Vec<u64>,
}

/// The packets of one trial, in figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Frames read.
    pub frames: u64,
    /// Frames that the kernel dropped because they were not read in time.
    #[serde(rename = "frames_dropped", alias = "dropped")]
    pub dropped: u64,
    /// Frames that could not be decoded as TCP, UDP or ICMP.
    #[serde(rename = "frames_not_decoded", alias = "unread")]
    pub unread: u64,
    /// Why no packet was analysed, where that was so.
    #[serde(default)]
    pub refused: Option<String>,
    /// TCP header bytes of frames with payload, and how many had so many.
    pub header_bytes: BTreeMap<u8, u64>,
    /// The same of the first `FIRST` such frames.
    #[serde(default)]
    pub first_header_bytes: BTreeMap<u8, u64>,
    /// Frames with payload that have a timestamp.
    #[serde(default)]
    pub stamped_segments: u64,
    /// ACKs from the server that acknowledge data not acknowledged before.
    #[serde(default)]
    pub advancing_acks: u64,
    /// Of these, those that echo a timestamp.
    #[serde(default)]
    pub stamped_acks: u64,
    /// Of the advancing ones, those that cover data sent more than once.
    #[serde(default)]
    pub ambiguous_acks: u64,
    /// Of those, the ones without a timestamp: they give no round trip.
    #[serde(default)]
    pub unsampled_acks: u64,
    /// SYNs.
    pub syns: Vec<SynOptions>,
    /// When the first frame came, `CLOCK_REALTIME`.
    #[serde(default)]
    pub first_frame_ns: Nanos,
    /// The largest window that the receiver of the data offered in each tenth of a second that had
    /// an ACK, bytes: time since the first frame and window. The scale of its SYN is applied where
    /// both ends agreed on scaling.
    pub windows: Vec<(Nanos, u64)>,
    /// What was found, the costliest kind first.
    pub findings: Vec<Found>,
}

/// A capture under way.
pub(crate) struct Capture {
    stop: Arc<AtomicBool>,
    thread: Result<JoinHandle<Evidence>, String>,
}

impl Capture {
    /// Captures on `interface` of the network namespace of the calling thread for at most `frames`
    /// to and from `server`.
    pub(crate) fn start(interface: &std::ffi::CStr, frames: u64, server: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let name = interface.to_string_lossy();
        let options = capture::Options { snap_length: SNAP, ..capture::Options::of(name.clone()) };
        let thread = capture::open(Technique::Recvmmsg, &options).map_err(|e| e.to_string()).and_then(|receiver| {
            let record = move || record(receiver, frames, &seen, server);
            let thread = std::thread::Builder::new().name("study-capture".into()).spawn(record);
            thread.map_err(|e| e.to_string())
        });
        Self { stop, thread: thread.map_err(|e| format!("packets of {name}: {e}")) }
    }

    /// Ends it and gives what it saw.
    pub(crate) fn end(self) -> Evidence {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread {
            Ok(thread) => thread.join().unwrap_or_default(),
            Err(why) => Evidence { refused: Some(why), ..Evidence::default() },
        }
    }
}

fn record(mut receiver: Box<dyn Receiver>, most: u64, stop: &AtomicBool, server: SocketAddr) -> Evidence {
    let mut evidence = Evidence::default();
    let mut follower = Follower::new(Options { connections: CONNECTIONS, ..Options::default() });
    let mut reassembly = Reassembly::new();
    let mut gathering = Gathering::default();
    let link = receiver.about().link_type;
    while evidence.frames < most {
        let batch = receiver.next_batch(SILENCE, &mut |frame| {
            // On loopback every frame is seen twice, going out and coming in.
            let loopback = link == LinkType::ETHERNET && frame.data.get(..12) == Some(&[0; 12]);
            if evidence.frames >= most || (loopback && frame.outgoing) {
                return;
            }
            // The kernel begins to stamp a moment after it is asked: the first frames can be
            // without, and have the time at which they are read.
            let at = frame.software.map_or_else(timestamping::now, |stamp| stamp.at);
            let mut seen = Frame::new(evidence.frames + 1, at, link, frame.data);
            seen.original_length = frame.original_length;
            match wire::dissect(&seen, &mut reassembly) {
                Ok(Packet::Tcp(s)) => {
                    // A real host has other traffic than the trial's.
                    if ![s.source.ip(), s.destination.ip()].contains(&server.ip()) {
                        return;
                    }
                    gathering.take(&s, server.port(), &mut evidence);
                    follower.take(&s);
                }
                Ok(_) => {}
                Err(_) => evidence.unread += 1,
            }
            evidence.frames += 1;
        });
        match batch {
            Ok(0) if stop.load(Ordering::Relaxed) => break,
            Ok(_) => {}
            Err(_) => break,
        }
    }
    evidence.dropped = receiver.counts().dropped;
    gathering.finish(&mut evidence);
    evidence.findings = findings(&follower);
    evidence
}

#[derive(Default)]
struct Gathering {
    first: Option<u64>,
    /// Of client and server: payload bytes that it sent, and by tenth of a second since the first
    /// frame the largest window field of its ACKs without payload.
    ends: [End; 2],
    /// By the client's address: what it sent.
    sent: BTreeMap<SocketAddr, Sent>,
}

/// One end of the connections.
#[derive(Default)]
struct End {
    payload: u64,
    windows: BTreeMap<u64, u16>,
}

/// What a client sent on one connection.
#[derive(Default)]
struct Sent {
    next: Option<SeqNumber>,
    acknowledged: Option<SeqNumber>,
    /// Where the retransmitted and not yet acknowledged bytes begin.
    again: Vec<SeqNumber>,
}

/// Retransmissions that are kept of one connection.
const RANGES: usize = 10_000;

const TENTH: Nanos = Nanos::from_millis(100);

impl Gathering {
    fn take(&mut self, s: &Segment, server_port: u16, evidence: &mut Evidence) {
        let at = s.at.as_nanos();
        let first = *self.first.get_or_insert(at);
        if s.flags.contains(Flags::SYN) {
            let syn = SynOptions {
                from_server: s.flags.contains(Flags::ACK),
                window_scale: s.options.window_scale,
                timestamps: s.options.timestamps.is_some(),
                sack: s.options.sack_permitted,
                mss: s.options.mss,
                count: 1,
            };
            match evidence.syns.iter_mut().find(|known| SynOptions { count: 1, ..**known } == syn) {
                Some(known) => known.count += 1,
                None => evidence.syns.push(syn),
            }
            return;
        }
        if s.payload > 0 {
            let seen: u64 = evidence.first_header_bytes.values().sum();
            if seen < FIRST {
                *evidence.first_header_bytes.entry(s.header_bytes).or_default() += 1;
            }
            *evidence.header_bytes.entry(s.header_bytes).or_default() += 1;
            evidence.stamped_segments += u64::from(s.options.timestamps.is_some());
        }
        self.acknowledge(s, server_port, evidence);
        let end = &mut self.ends[usize::from(s.source.port() == server_port)];
        end.payload += u64::from(s.payload);
        if s.payload == 0 && !s.flags.contains(Flags::RST) {
            let window = end.windows.entry(at.saturating_sub(first) / TENTH.0).or_default();
            *window = (*window).max(s.window);
        }
    }

    /// Follows what the client sent, once or again, until it is acknowledged.
    fn acknowledge(&mut self, s: &Segment, server_port: u16, evidence: &mut Evidence) {
        let to_server = s.destination.port() == server_port;
        let client = if to_server { s.source } else { s.destination };
        if self.sent.len() >= CONNECTIONS && !self.sent.contains_key(&client) {
            return;
        }
        let state = self.sent.entry(client).or_default();
        if to_server {
            let end = s.seq.add(s.payload);
            if s.payload == 0 {
                return;
            }
            match state.next {
                // What goes below the highest byte sent so far goes out again.
                Some(next) if end.distance_from(next) <= 0 => {
                    if state.again.len() < RANGES {
                        state.again.push(s.seq);
                    }
                }
                _ => state.next = Some(end),
            }
            return;
        }
        if state.next.is_none() || !s.flags.contains(Flags::ACK) {
            return;
        }
        let ack = s.ack;
        if state.acknowledged.is_some_and(|before| ack.distance_from(before) <= 0) {
            return;
        }
        if state.acknowledged.replace(ack).is_none() {
            // The first one seen says where counting begins.
            return;
        }
        evidence.advancing_acks += 1;
        evidence.stamped_acks += u64::from(s.options.timestamps.is_some());
        let before = state.again.len();
        state.again.retain(|from| !from.is_before(ack));
        if state.again.len() < before {
            evidence.ambiguous_acks += 1;
            evidence.unsampled_acks += u64::from(s.options.timestamps.is_none());
        }
    }

    fn finish(self, evidence: &mut Evidence) {
        // Scaling holds where both SYNs carried it (RFC 7323, section 2.2), and 14 is the most.
        let scale = |from_server| {
            evidence.syns.iter().filter(|s| s.from_server == from_server).map(|s| s.window_scale).next_back().flatten()
        };
        let [client, server] = self.ends;
        // The receiver of the data is the end that sent less of them.
        let (receiver, own, other) = if client.payload >= server.payload {
            (server, scale(true), scale(false))
        } else {
            (client, scale(false), scale(true))
        };
        let shift = other.and(own).map_or(0, |s| s.min(14));
        evidence.first_frame_ns = Nanos(self.first.unwrap_or(0));
        evidence.windows = receiver
            .windows
            .into_iter()
            .map(|(tenth, window)| (Nanos(tenth * TENTH.0), u64::from(window) << shift))
            .collect();
    }
}

impl Evidence {
    /// The largest window that the receiver offered in any tenth of a second that `from..=until` of
    /// `CLOCK_REALTIME` touches; `None` where no ACK of those was analysed.
    pub fn window_between(&self, from: Nanos, until: Nanos) -> Option<u64> {
        let since_first = |moment: Nanos| moment.0.checked_sub(self.first_frame_ns.0).map(Nanos);
        let (from, until) = (since_first(from)?, since_first(until)?);
        let touched = |at: Nanos| at <= until && at + TENTH > from;
        self.windows.iter().filter(|(at, _)| touched(*at)).map(|(_, window)| *window).max()
    }
}

/// What `diagnose` found, kind by kind. Connections that never carried a byte have nothing to say.
fn findings(follower: &Follower) -> Vec<Found> {
    let mut kinds: BTreeMap<&'static str, (Found, Nanos)> = BTreeMap::new();
    for finding in follower.reports().flat_map(|r| r.findings) {
        let cost = finding.cost_ns;
        let (found, costliest) = kinds.entry(finding.kind.name()).or_insert_with(|| {
            let empty = Found {
                kind: finding.kind.name().into(),
                text: String::new(),
                count: 0,
                cost_ns: Nanos::ZERO,
                packets: Vec::new(),
            };
            (empty, Nanos::ZERO)
        });
        found.count += finding.count;
        found.cost_ns += cost;
        if cost >= *costliest {
            *costliest = cost;
            (found.text, found.packets) = (finding.text, finding.packets.into_iter().take(6).collect());
        }
    }
    let mut all: Vec<Found> = kinds.into_values().map(|(found, _)| found).collect();
    all.sort_by_key(|f| std::cmp::Reverse(f.cost_ns));
    all.truncate(5);
    all
}
