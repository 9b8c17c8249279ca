//! What the packets of a trial prove: SYN options, header lengths, the receive window over time, and what `diagnose`
//! finds in them.
//!
//! A packet socket in the sending host reads the first bytes of each frame until so many are seen; then it is closed and
//! costs nothing. Frames are as the host's TCP hands them to its device: segmentation comes later.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use diagnose::{Follower, Options};
use record::{Instant, SeqNumber};
use serde::{Deserialize, Serialize};
use wire::{Flags, Frame, LinkType, Packet, Reassembly, Segment};

/// Bytes kept of each frame: all headers that the lab's hosts make.
const SNAP: usize = 160;

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

/// Frames with payload that are in the first histogram of header lengths: as many samples as the reference has.
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
    pub cost_ns: u64,
    /// Packets (by number in the trial's capture) that show the costliest one.
    pub packets: Vec<u64>,
}

/// The packets of one trial, in figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Frames read.
    pub frames: u64,
    /// Frames that the kernel dropped because they were not read in time.
    pub dropped: u64,
    /// Frames that could not be read as TCP, UDP or ICMP.
    pub unread: u64,
    /// Why no packet was looked at, where that was so.
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
    /// The largest window that the server offered in each tenth of a second that had an ACK, bytes: time since the first
    /// frame and window. The scale of its SYN is applied where both ends agreed on scaling.
    pub windows: Vec<(u64, u64)>,
    /// What was found, the costliest kind first.
    pub findings: Vec<Found>,
}

/// A capture under way.
pub(crate) struct Capture {
    stop: Arc<AtomicBool>,
    thread: Result<JoinHandle<Evidence>, String>,
}

impl Capture {
    /// Captures on `interface` of the network namespace of the calling thread for at most `frames` to and from `server`.
    pub(crate) fn start(interface: &std::ffi::CStr, frames: u64, server: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = open(interface).and_then(|socket| {
            let record = move || record(&socket, frames, &seen, server);
            std::thread::Builder::new().name("study-capture".into()).spawn(record)
        });
        Self { stop, thread: thread.map_err(|e| format!("packets of {}: {e}", interface.to_string_lossy())) }
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

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn open(interface: &std::ffi::CStr) -> io::Result<OwnedFd> {
    // SAFETY: plain system calls; structures are plain data that live over their calls, with their true sizes.
    unsafe {
        let index = libc::if_nametoindex(interface.as_ptr());
        let fd = check(libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0))?;
        let socket = OwnedFd::from_raw_fd(fd);
        let set = |level, name, value: *const libc::c_void, size: usize| {
            check(libc::setsockopt(fd, level, name, value, size as libc::socklen_t)).map(|_| ())
        };
        // A filter that keeps SNAP bytes of every frame (BPF_RET | BPF_K), so that large frames fill no buffer.
        let mut keep = libc::sock_filter { code: 6, jt: 0, jf: 0, k: SNAP as u32 };
        let filter = libc::sock_fprog { len: 1, filter: &raw mut keep };
        set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, (&raw const filter).cast(), size_of_val(&filter))?;
        let bytes: libc::c_int = 32 << 20;
        set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, (&raw const bytes).cast(), size_of_val(&bytes))?;
        let on: libc::c_int = 1;
        set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, (&raw const on).cast(), size_of_val(&on))?;
        let wait = libc::timeval { tv_sec: 0, tv_usec: 50_000 };
        set(libc::SOL_SOCKET, libc::SO_RCVTIMEO, (&raw const wait).cast(), size_of_val(&wait))?;
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as i32;
        check(libc::bind(fd, (&raw const address).cast(), size_of_val(&address) as libc::socklen_t))?;
        Ok(socket)
    }
}

/// One frame: its kept bytes in `data`, its whole length and time; `None` after a silence.
struct Received {
    kept: usize,
    length: u32,
    at: u64,
    outgoing: bool,
    link: LinkType,
}

fn receive(socket: &OwnedFd, data: &mut [u8; SNAP]) -> io::Result<Option<Received>> {
    #[repr(C, align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    // SAFETY: every pointer in the message is to a live buffer of the length given; the control messages are walked with
    // the kernel's own macros, within the length it returned.
    unsafe {
        let mut from: libc::sockaddr_ll = std::mem::zeroed();
        let mut iov = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: SNAP };
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_name = (&raw mut from).cast();
        message.msg_namelen = size_of_val(&from) as libc::socklen_t;
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = size_of_val(&control) as _;
        let length = libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_TRUNC);
        if length < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            };
        }
        let mut at = 0;
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_TIMESTAMPNS {
                let time = libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned();
                at = time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs();
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
        let outgoing = from.sll_pkttype == libc::PACKET_OUTGOING;
        let length = length as usize;
        // What has a link-layer header is Ethernet or loopback; tunnels hand IP packets over bare.
        let ethernet = matches!(from.sll_hatype, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK);
        let link = if ethernet { LinkType::ETHERNET } else { LinkType::RAW };
        Ok(Some(Received { kept: length.min(SNAP), length: length as u32, at, outgoing, link }))
    }
}

fn record(socket: &OwnedFd, most: u64, stop: &AtomicBool, server: SocketAddr) -> Evidence {
    let mut evidence = Evidence::default();
    let mut follower = Follower::new(Options { connections: CONNECTIONS, ..Options::default() });
    let mut reassembly = Reassembly::new();
    let mut gathering = Gathering::default();
    let mut data = [0u8; SNAP];
    while evidence.frames < most {
        let frame = match receive(socket, &mut data) {
            Ok(Some(frame)) => frame,
            Ok(None) if stop.load(Ordering::Relaxed) => break,
            Ok(None) => continue,
            Err(_) => break,
        };
        // On loopback every frame is seen twice, going out and coming in.
        let loopback = frame.link == LinkType::ETHERNET && data[..12] == [0; 12];
        if loopback && frame.outgoing {
            continue;
        }
        let kept = &data[..frame.kept];
        let mut seen = Frame::new(evidence.frames + 1, Instant::from_nanos(frame.at), frame.link, kept);
        // The length that the filter left is not the one on the wire, which the IP header has.
        seen.original_length = frame.length.max(u32::from(u16::MAX));
        match wire::dissect(&seen, &mut reassembly) {
            Ok(Packet::Tcp(s)) => {
                // A real host has other traffic than the trial's.
                if ![s.source.ip(), s.destination.ip()].contains(&server.ip()) {
                    continue;
                }
                gathering.take(&s, server.port(), &mut evidence);
                follower.take(&s);
            }
            Ok(_) => {}
            Err(_) => evidence.unread += 1,
        }
        evidence.frames += 1;
    }
    evidence.dropped = dropped(socket);
    gathering.finish(&mut evidence);
    evidence.findings = findings(&follower);
    evidence
}

/// Frames that found the socket's buffer full. Reading the counter sets it back.
fn dropped(socket: &OwnedFd) -> u64 {
    let mut counts = [0u32; 2];
    let mut size = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: the buffer holds a tpacket_stats (two counters), and its true size is given.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            counts.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    if result == 0 { counts[1].into() } else { 0 }
}

#[derive(Default)]
struct Gathering {
    first: Option<u64>,
    /// Tenth of a second since the first frame, and the largest window field in it.
    windows: BTreeMap<u64, u16>,
    /// By the client's address: what it sent.
    sent: BTreeMap<SocketAddr, Sent>,
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

const TENTH_NS: u64 = 100_000_000;

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
        if s.source.port() == server_port && s.payload == 0 && !s.flags.contains(Flags::RST) {
            let window = self.windows.entry(at.saturating_sub(first) / TENTH_NS).or_default();
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
        let shift = scale(false).and(scale(true)).map_or(0, |s| s.min(14));
        evidence.windows =
            self.windows.into_iter().map(|(tenth, window)| (tenth * TENTH_NS, u64::from(window) << shift)).collect();
    }
}

/// What `diagnose` found, kind by kind. Connections that never carried a byte have nothing to say.
fn findings(follower: &Follower) -> Vec<Found> {
    let mut kinds: BTreeMap<&'static str, (Found, u64)> = BTreeMap::new();
    for finding in follower.reports().flat_map(|r| r.findings) {
        let cost = finding.cost_ns.0;
        let (found, costliest) = kinds.entry(finding.kind).or_insert_with(|| {
            let empty =
                Found { kind: finding.kind.into(), text: String::new(), count: 0, cost_ns: 0, packets: Vec::new() };
            (empty, 0)
        });
        found.count += finding.count;
        found.cost_ns = found.cost_ns.saturating_add(cost);
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
