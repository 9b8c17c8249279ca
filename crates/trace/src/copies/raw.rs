//! Records of copies, decoded.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant as WallInstant};

use machine::who::{self, Hierarchy, Who};
use record::table::Record as _;
use record::{
    Again, Comm, ConnectionId, CopyDropped, CopyFragment, CopyIcmp, CopyInterface, CopyPlace, CopyStages, Direction,
    Dropped, Event, Instant, Monotonic, Nanos, Owner, PacketCopy, Realtime, SeqNumber, SocketState, TcpFlags,
};
use wire::packet::Icmp;
use wire::{Frame, LinkType, Packet, Reassembly, dissect};

use crate::decode::{DecodeError, kind, raw};
use crate::layout::{
    COPY_AGAIN_LOSS, COPY_AGAIN_PROBE, COPY_AGAIN_RECOVERY, COPY_CLOSED, COPY_CUT, COPY_FIRST, COPY_FRAGMENT,
    COPY_HELD, COPY_ICMP, COPY_LISTENER, COPY_OPENING, COPY_PARTIAL, COPY_SENT, COPY_TCP, RECORD_COPY_DROPPED,
    RECORD_INTERFACE, RECORD_PROCESS, RawCopy, RawCopyDropped, RawInterface, RawProcess,
};
use crate::nic::{NicClocks, NicStamp};
use crate::packets::Reasons;
use crate::process;

/// For how long it is believed that a process is the one that had its number before.
const STILL_THE_SAME: Duration = Duration::from_secs(1);
/// How many processes are remembered.
const PROCESSES: usize = 4096;
/// How many cgroups are.
const CGROUPS: usize = 4096;
/// How often the hierarchy is read for a cgroup that is not known.
const HIERARCHY: Duration = Duration::from_secs(1);

/// Copies as they come, with what is known of their interfaces and processes.
#[derive(Default)]
pub(crate) struct Copies {
    /// By network namespace and number.
    interfaces: HashMap<(u32, u32), Arc<CopyInterface>>,
    own_network: u32,
    /// When this machine began, Unix time.
    machine_began: Nanos,
    /// Names of network namespaces by their inode numbers.
    networks: HashMap<u32, String>,
    /// When each process began, and when that was asked.
    processes: HashMap<u32, (WallInstant, Option<Instant<Realtime>>)>,
    places: Places,
    reasons: Reasons,
    pub nics: NicClocks,
    /// Stamps of NICs that could not be read.
    pub nic_unread: u64,
}

/// What cgroups are of, by the kernel's id.
#[derive(Default)]
struct Places {
    hierarchy: Hierarchy,
    /// When that was read last.
    read: Option<WallInstant>,
    known: HashMap<u64, Option<Arc<CopyPlace>>>,
}

impl Places {
    fn of(&mut self, cgroup: u64) -> Option<Arc<CopyPlace>> {
        if let Some(known) = self.known.get(&cgroup) {
            return known.clone();
        }
        if self.hierarchy.path(cgroup).is_none() {
            if self.read.is_some_and(|at| at.elapsed() < HIERARCHY) {
                return None;
            }
            self.read = Some(WallInstant::now());
            self.hierarchy.refresh();
        }
        if self.known.len() >= CGROUPS {
            self.known.clear();
        }
        let Who { unit, container, .. } = Who::of_path(self.hierarchy.path(cgroup)?);
        let place = (unit.is_some() || container.is_some()).then(|| Arc::new(CopyPlace { unit, container }));
        self.known.insert(cgroup, place.clone());
        place
    }
}

impl Copies {
    /// With the network namespaces that have a name now.
    pub fn of_this_machine() -> Self {
        let inode = |path: &str| fs::metadata(path).map_or(0, |m| m.ino() as u32);
        let named = fs::read_dir("/run/netns").into_iter().flatten().flatten();
        let networks = named
            .filter_map(|entry| Some((entry.metadata().ok()?.ino() as u32, entry.file_name().to_str()?.to_owned())));
        Self {
            own_network: inode("/proc/self/ns/net"),
            machine_began: process::machine_began(),
            networks: networks.collect(),
            places: Places {
                hierarchy: who::mount().map_or_else(Hierarchy::default, |at| Hierarchy::new(&at)),
                ..Places::default()
            },
            reasons: Reasons::of_this_kernel().unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Takes a record; gives the copy, or the drop of one, that it is.
    ///
    /// # Errors
    /// [`DecodeError`] where it is none.
    pub fn take(&mut self, record: &[u8]) -> Result<Option<Event>, DecodeError> {
        if kind(record)? == RECORD_COPY_DROPPED {
            let of: RawCopyDropped = raw(record)?;
            let dropped = Dropped { at: Instant::from_nanos(of.at), reason: self.reasons.name(of.reason) };
            let of = CopyDropped { socket: ConnectionId(of.cookie), buffer: of.buffer, dropped };
            return Ok(Some(Event::CopyDropped(Box::new(of))));
        }
        Ok(self.copy(record)?.map(Event::from))
    }

    fn copy(&mut self, record: &[u8]) -> Result<Option<PacketCopy>, DecodeError> {
        if kind(record)? == RECORD_INTERFACE {
            let of: RawInterface = raw(record)?;
            let name = Comm(of.name).to_string();
            let interface = self.interface(of.network, of.interface, name);
            self.interfaces.insert((of.network, of.interface), Arc::new(interface));
            return Ok(None);
        }
        if kind(record)? == RECORD_PROCESS {
            let of: RawProcess = raw(record)?;
            self.remember(of.pid, Some(Nanos(of.began)));
            return Ok(None);
        }
        let of: RawCopy = raw(record)?;
        let (have, need) = (record.len(), size_of::<RawCopy>() + of.captured as usize);
        let bytes = record.get(size_of::<RawCopy>()..need).ok_or(DecodeError::Truncated { have, need })?;
        let again = match of.again.into() {
            COPY_FIRST => None,
            COPY_AGAIN_PROBE => Some(Again::Probe),
            COPY_AGAIN_RECOVERY => Some(Again::Recovery),
            COPY_AGAIN_LOSS => Some(Again::Loss),
            value => return Err(DecodeError::Malformed { field: "again", value }),
        };
        let marked = |mark: u32| u32::from(of.marks) & mark != 0;
        let interface = match self.interfaces.get(&(of.network, of.interface)) {
            Some(interface) => Arc::clone(interface),
            None => {
                let unnamed = Arc::new(self.interface(of.network, of.interface, String::new()));
                self.interfaces.insert((of.network, of.interface), Arc::clone(&unnamed));
                unnamed
            }
        };
        let sent = marked(COPY_SENT);
        let at = Instant::from_nanos(of.at);
        let nic_rx = if of.nic == 0 { None } else { self.nic(&of, at) };
        let error = if marked(COPY_ICMP) { error(bytes, of.length) } else { None };
        let (source, destination) = match error {
            // Of the packet that it quotes, which went the other way.
            Some(Icmp { quoted: Some(quoted), .. }) => (quoted.destination, quoted.source),
            _ => ends(bytes).unwrap_or((NO_END, NO_END)),
        };
        let (local, remote) = if sent { (source, destination) } else { (destination, source) };
        Ok(Some(PacketCopy {
            at,
            socket: ConnectionId(of.cookie),
            owner: Owner { pid: of.pid, comm: Comm(of.comm) },
            owner_since: if of.pid == 0 { None } else { self.began(of.pid) },
            state: match () {
                () if !marked(COPY_TCP) => SocketState::Udp { held: marked(COPY_HELD) },
                () if marked(COPY_CLOSED) => SocketState::Gone,
                () if marked(COPY_LISTENER) => SocketState::Listener,
                () if marked(COPY_OPENING) => SocketState::Opening,
                () => SocketState::Open,
            },
            cgroup: (of.cgroup != 0).then_some(of.cgroup),
            place: if of.cgroup == 0 { None } else { self.places.of(of.cgroup) },
            direction: if sent { Direction::Sent } else { Direction::Received },
            fragment: if marked(COPY_FRAGMENT) { fragment(bytes) } else { None },
            is_cut: marked(COPY_CUT),
            icmp: error.map(|of| CopyIcmp { kind: of.kind.into(), code: of.code.into() }),
            local,
            remote,
            interface,
            length: of.length,
            bytes: bytes.into(),
            first_seq: SeqNumber(of.first_seq),
            payload: if marked(COPY_ICMP) { 0 } else { of.bytes },
            flags: TcpFlags(of.flags),
            segments: of.segments.into(),
            segment_bytes: of.segment_bytes.into(),
            checksum_pending: marked(COPY_PARTIAL),
            again,
            missed: of.missed,
            buffer: of.buffer,
            stages: CopyStages { nic_rx, ..CopyStages::default() },
            ..PacketCopy::blank()
        }))
    }

    /// When the NIC received a packet that was copied at `at`: not later, however far the
    /// conversion's error reaches.
    fn nic(&mut self, of: &RawCopy, at: Instant<Monotonic>) -> Option<Instant<Monotonic>> {
        let stamp = NicStamp { at: Instant::from_nanos(of.nic), interface: of.interface, network: of.network };
        let received = self.nics.convert(&stamp).filter(|received| received.at <= at.after(received.error));
        self.nic_unread += u64::from(received.is_none());
        received.map(|received| received.at.min(at))
    }

    fn interface(&self, network: u32, number: u32, name: String) -> CopyInterface {
        let own = network == self.own_network;
        let network_name = if own { None } else { self.networks.get(&network).cloned() };
        CopyInterface { name, number, network, network_name, own }
    }

    /// When a process began. Numbers of processes come round, so it is asked again now and then.
    fn began(&mut self, pid: u32) -> Option<Instant<Realtime>> {
        let now = WallInstant::now();
        if let Some(&(asked, began)) = self.processes.get(&pid)
            && (now - asked < STILL_THE_SAME || !process::is_there(pid))
        {
            return began;
        }
        self.remember(pid, process::began(pid))
    }

    /// A process began so long after this machine. To the ticks in which `/proc` has it, so that
    /// both say the same.
    fn remember(&mut self, pid: u32, began: Option<Nanos>) -> Option<Instant<Realtime>> {
        if self.processes.len() >= PROCESSES {
            self.processes.clear();
        }
        let tick = process::tick().0;
        let began = began.map(|began| Instant::from_nanos(self.machine_began.0 + began.0 / tick * tick));
        self.processes.insert(pid, (WallInstant::now(), began));
        began
    }
}

const NO_END: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Which piece of a datagram a packet is, by its IP header (RFC 791; RFC 8200, section 4.5).
fn fragment(bytes: &[u8]) -> Option<CopyFragment> {
    let be16 = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    let (offset, payload) = match bytes.first()? >> 4 {
        4 => (u32::from(be16(6)? & 0x1fff) * 8, usize::from(bytes[0] & 15) * 4),
        _ => (u32::from(be16(42)? & 0xfff8), 48),
    };
    // The first one has the header of UDP, which says how long that is.
    let datagram = if offset == 0 { be16(payload + 4)?.saturating_sub(8).into() } else { 0 };
    Some(CopyFragment { offset, datagram })
}

/// The ICMP error that this packet of `length` bytes is.
fn error(bytes: &[u8], length: u32) -> Option<Icmp> {
    let mut frame = Frame::new(1, Instant::from_nanos(0), LinkType::RAW, bytes);
    frame.original_length = length;
    match dissect(&frame, &mut Reassembly::default()) {
        Ok(Packet::Icmp(icmp)) => Some(icmp),
        _ => None,
    }
}

/// Source and destination of a packet that begins with its IP header (RFC 791, RFC 8200); ports are
/// 0 where a fragment has none. `None` where the headers are cut short.
fn ends(bytes: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let v6 = |at| Some(IpAddr::V6(Ipv6Addr::from(*bytes.get(at..)?.first_chunk::<16>()?)));
    let v4 = |at| Some(IpAddr::V4(Ipv4Addr::from(*bytes.get(at..)?.first_chunk::<4>()?)));
    let (source, destination, transport) = match bytes.first()? >> 4 {
        4 => {
            let later = u16::from_be_bytes([*bytes.get(6)?, *bytes.get(7)?]) & 0x1fff != 0;
            (v4(12)?, v4(16)?, (!later).then_some(usize::from(bytes[0] & 15) * 4))
        }
        6 => (v6(8)?, v6(24)?, after_extensions(bytes)),
        _ => return None,
    };
    let port = |at: usize| bytes.get(at..)?.first_chunk().map(|port| u16::from_be_bytes(*port));
    let ports = transport.map_or(Some((0, 0)), |at| Some((port(at)?, port(at + 2)?)))?;
    Some((SocketAddr::new(source, ports.0), SocketAddr::new(destination, ports.1)))
}

/// Where the header of TCP or UDP begins behind those of IPv6; `None` in a later fragment.
fn after_extensions(bytes: &[u8]) -> Option<usize> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    const DESTINATION: u8 = 60;
    let (mut next, mut at) = (*bytes.get(6)?, 40);
    loop {
        let length = || bytes.get(at + 1).map(|length| usize::from(*length));
        let header = match next {
            HOP_BY_HOP | ROUTING | DESTINATION => 8 * (length()? + 1),
            AUTHENTICATION => 4 * (length()? + 2),
            FRAGMENT if u16::from_be_bytes([*bytes.get(at + 2)?, *bytes.get(at + 3)?]) & 0xfff8 != 0 => return None,
            FRAGMENT => 8,
            _ => return Some(at),
        };
        next = *bytes.get(at)?;
        at += header;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Plain as _, RECORD_COPY};

    fn copy(change: impl FnOnce(&mut RawCopy), bytes: &[u8]) -> Vec<u8> {
        let mut raw = RawCopy { kind: RECORD_COPY, captured: bytes.len() as u32, ..RawCopy::zeroed() };
        change(&mut raw);
        [raw.as_bytes(), bytes].concat()
    }

    impl Copies {
        fn copied(&mut self, record: &[u8]) -> PacketCopy {
            match self.take(record) {
                Ok(Some(Event::Copy(copy))) => *copy,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_copy_has_its_bytes_its_interface_and_its_owner() {
        let mut copies = Copies { own_network: 7, networks: HashMap::from([(8, "blue".into())]), ..Copies::default() };
        let mut name = [0; 16];
        name[..4].copy_from_slice(b"eth0");
        let announced = RawInterface { kind: RECORD_INTERFACE, network: 8, interface: 2, pad: 0, name };
        assert_eq!(copies.take(announced.as_bytes()), Ok(None));
        let record = copy(
            |raw| {
                raw.marks = (COPY_SENT | COPY_TCP | COPY_PARTIAL) as u16;
                (raw.network, raw.interface, raw.at, raw.cookie) = (8, 2, 9, 10);
                (raw.length, raw.segments, raw.segment_bytes, raw.missed) = (5_000, 4, 1_448, 3);
                (raw.again, raw.flags, raw.first_seq, raw.bytes) = (COPY_AGAIN_LOSS as u8, 0x11, u32::MAX, 4_948);
                raw.pid = std::process::id();
            },
            &[0x45, 1, 2],
        );
        let copied = copies.copied(&record);
        let interface = &copied.interface;
        assert_eq!((interface.name.as_str(), interface.network_name.as_deref()), ("eth0", Some("blue")));
        assert_eq!((&copied.bytes[..], copied.length, copied.socket.0), (&[0x45u8, 1, 2][..], 5_000, 10));
        assert_eq!((copied.segments, copied.segment_bytes, copied.missed), (4, 1_448, 3));
        assert_eq!((copied.again, copied.end_seq()), (Some(Again::Loss), SeqNumber(4_948)));
        assert!(copied.owner_since.is_some() && copied.checksum_pending && copied.state == SocketState::Open);
        // One of an interface without an announcement.
        let other = copies.copied(&copy(|raw| (raw.network, raw.interface) = (7, 1), &[]));
        assert_eq!((other.interface.name.as_str(), other.interface.own, other.is_tcp()), ("", true, false));
        assert_eq!((other.direction, other.owner_since), (Direction::Received, None));
        assert_eq!((other.cgroup, other.local, other.remote), (None, NO_END, NO_END));
    }

    #[test]
    fn the_ends_are_those_of_the_headers() {
        let mut v4 = vec![0x46, 0, 0, 0, 0, 0, 0x20, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 1, 1, 1, 1];
        v4.extend([0x1f, 0x90, 0, 53]);
        let shown = |ends: (SocketAddr, SocketAddr)| format!("{} {}", ends.0, ends.1);
        assert_eq!(shown(ends(&v4).unwrap()), "192.0.2.1:8080 192.0.2.2:53");
        let received = Copies::default().copied(&copy(|_| {}, &v4));
        assert_eq!((received.local.port(), received.remote.port()), (53, 8080));
        let sent = Copies::default().copied(&copy(|raw| raw.marks = COPY_SENT as u16, &v4));
        assert_eq!((sent.local.port(), sent.remote.port()), (8080, 53));
        // A later fragment has no ports.
        v4[7] = 1;
        assert_eq!(shown(ends(&v4[..24]).unwrap()), "192.0.2.1:0 192.0.2.2:0");

        let mut v6 = vec![0x60, 0, 0, 0, 0, 0, 0, 64];
        v6.extend([1; 32]);
        // Hop by hop of 16 bytes, authentication of 12, a first fragment, and TCP.
        v6.extend([51, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        v6.extend([44, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        v6.extend([6, 0, 0, 1, 0, 0, 0, 9, 0x1f, 0x90, 0, 53]);
        assert!(shown(ends(&v6).unwrap()).ends_with("]:53"));
        assert_eq!(ends(&v6).unwrap().0.port(), 8080);
        for cut in 0..v6.len() {
            assert_eq!(ends(&v6[..cut]).map(|ends| ends.1.port()).filter(|port| *port == 53), None);
        }
        // The offset of a later fragment.
        let at = 40 + 16 + 12 + 2;
        v6[at..at + 2].copy_from_slice(&[0, 0x51]);
        assert_eq!(ends(&v6).unwrap().0.port(), 0);
    }

    #[test]
    fn a_fragment_says_which_piece_it_is() {
        let mut v4 = vec![0x45, 0, 0, 100, 0, 9, 0x20, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
        v4.extend([0x1f, 0x90, 0, 53, 0x10, 0x08, 0, 0]);
        assert_eq!(fragment(&v4), Some(CopyFragment { offset: 0, datagram: 4_096 }));
        (v4[6], v4[7]) = (0, 185);
        assert_eq!(fragment(&v4[..20]), Some(CopyFragment { offset: 1_480, datagram: 0 }));
        let mut v6 = vec![0x60, 0, 0, 0, 0, 100, 44, 64];
        v6.extend([1; 32]);
        v6.extend([17, 0, 0, 1, 0, 0, 0, 9, 0x1f, 0x90, 0, 53, 0x10, 0x08, 0, 0]);
        assert_eq!(fragment(&v6), Some(CopyFragment { offset: 0, datagram: 4_096 }));
        (v6[42], v6[43]) = (5, 0xa8);
        assert_eq!(fragment(&v6[..48]), Some(CopyFragment { offset: 1_448, datagram: 0 }));
        for cut in 0..v6.len() {
            let _ = fragment(&v6[..cut]);
        }
    }

    #[test]
    fn an_icmp_error_has_the_ends_of_the_packet_that_it_quotes() {
        // A router at 192.0.2.9 says to 192.0.2.1 that port 53 of 192.0.2.2 is closed.
        let mut bytes =
            vec![0x45, 0, 0, 128, 0, 0, 0, 0, 64, 1, 0, 0, 192, 0, 2, 9, 192, 0, 2, 1, 3, 3, 0, 0, 0, 0, 0, 0];
        bytes.extend([
            0x45, 0, 0, 100, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 0x1f, 0x90, 0, 53, 0, 80, 0, 0,
        ]);
        let raw = |raw: &mut RawCopy| (raw.marks, raw.length, raw.bytes) = (COPY_ICMP as u16, 128, 72);
        let copied = Copies::default().copied(&copy(raw, &bytes));
        assert_eq!(
            (copied.local.to_string(), copied.remote.to_string()),
            ("192.0.2.1:8080".into(), "192.0.2.2:53".into())
        );
        assert_eq!((copied.icmp, copied.payload), (Some(CopyIcmp { kind: 3, code: 3 }), 0));
        assert!(!copied.is_tcp() && !copied.is_udp());
        for cut in 0..bytes.len() {
            Copies::default().copied(&copy(raw, &bytes[..cut]));
        }
    }

    #[test]
    fn a_drop_names_its_packet_and_its_reason() {
        let raw = RawCopyDropped { kind: RECORD_COPY_DROPPED, reason: 70_000, at: 5, cookie: 6, buffer: 7 };
        let Ok(Some(Event::CopyDropped(of))) = Copies::default().take(raw.as_bytes()) else { panic!("no drop") };
        assert_eq!((of.socket.0, of.buffer, of.dropped.at.as_nanos()), (6, 7, 5));
        assert_eq!(of.dropped.reason.to_string(), "70000");
        assert!(Copies::default().take(&raw.as_bytes()[..20]).is_err());
    }

    #[test]
    fn a_cgroup_is_of_a_unit_or_a_container() {
        let root = tempfile::tempdir().unwrap();
        let service = root.path().join("system.slice/a.service/below");
        fs::create_dir_all(&service).unwrap();
        let cgroup = fs::metadata(&service).unwrap().ino();
        let mut copies = Copies::default();
        copies.places.hierarchy = Hierarchy::new(root.path());
        let copied = copies.copied(&copy(|raw| raw.cgroup = cgroup, &[]));
        assert_eq!((copied.cgroup, copied.place.unwrap().unit.as_deref()), (Some(cgroup), Some("a.service")));
        let root_id = fs::metadata(root.path()).unwrap().ino();
        assert_eq!(copies.copied(&copy(|raw| raw.cgroup = root_id, &[])).place, None);
    }

    #[test]
    fn a_copy_that_is_cut_short_is_an_error() {
        let whole = copy(|_| {}, &[1, 2, 3, 4]);
        for end in 0..whole.len() {
            assert!(matches!(Copies::default().take(&whole[..end]), Err(DecodeError::Truncated { .. })), "{end}");
        }
        let unknown = Copies::default().take(&copy(|raw| raw.again = 9, &[]));
        assert_eq!(unknown, Err(DecodeError::Malformed { field: "again", value: 9 }));
    }
}
