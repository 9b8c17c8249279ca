//! Records of copies, decoded.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant as WallInstant};

use record::{
    Again, Comm, ConnectionId, CopyInterface, Direction, Instant, Nanos, Owner, PacketCopy, Realtime, SeqNumber,
    SocketState, TcpFlags,
};

use rustix::time::{ClockId, clock_gettime};

use crate::decode::{DecodeError, kind, raw};
use crate::layout::{
    COPY_AGAIN_LOSS, COPY_AGAIN_PROBE, COPY_AGAIN_RECOVERY, COPY_CLOSED, COPY_FIRST, COPY_HELD, COPY_LISTENER,
    COPY_OPENING, COPY_PARTIAL, COPY_SENT, COPY_TCP, RECORD_INTERFACE, RECORD_PROCESS, RawCopy, RawInterface,
    RawProcess,
};
use crate::process;

/// For how long it is believed that a process is the one that had its number before.
const STILL_THE_SAME: Duration = Duration::from_secs(1);
/// How many processes are remembered.
const PROCESSES: usize = 4096;

/// Copies as they come, with what is known of their interfaces and processes.
#[derive(Default)]
pub(crate) struct Copies {
    /// By network namespace and number.
    interfaces: HashMap<(u32, u32), Arc<CopyInterface>>,
    own_network: u32,
    /// When this machine began, Unix time in nanoseconds.
    machine_began: u64,
    /// Names of network namespaces by their inode numbers.
    networks: HashMap<u32, String>,
    /// When each process began, and when that was asked.
    processes: HashMap<u32, (WallInstant, Option<Instant<Realtime>>)>,
}

impl Copies {
    /// With the network namespaces that have a name now.
    pub fn of_this_machine() -> Self {
        let inode = |path: &str| fs::metadata(path).map_or(0, |m| m.ino() as u32);
        let named = fs::read_dir("/run/netns").into_iter().flatten().flatten();
        let networks = named
            .filter_map(|entry| Some((entry.metadata().ok()?.ino() as u32, entry.file_name().to_str()?.to_owned())));
        let since = |clock| {
            let now = clock_gettime(clock);
            now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
        };
        Self {
            own_network: inode("/proc/self/ns/net"),
            machine_began: since(ClockId::Realtime).saturating_sub(since(ClockId::Boottime)),
            networks: networks.collect(),
            ..Self::default()
        }
    }

    /// Takes a record; gives the copy that it is.
    ///
    /// # Errors
    /// [`DecodeError`] where it is none.
    pub fn take(&mut self, record: &[u8]) -> Result<Option<PacketCopy>, DecodeError> {
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
        Ok(Some(PacketCopy {
            at: Instant::from_nanos(of.at),
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
            direction: if marked(COPY_SENT) { Direction::Sent } else { Direction::Received },
            interface,
            length: of.length,
            bytes: bytes.into(),
            first_seq: SeqNumber(of.first_seq),
            payload: of.bytes,
            flags: TcpFlags(of.flags),
            segments: of.segments.into(),
            segment_bytes: of.segment_bytes.into(),
            checksum_pending: marked(COPY_PARTIAL),
            again,
            missed: of.missed,
        }))
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
        let began = began.map(|began| Instant::from_nanos(self.machine_began + began.0 / tick * tick));
        self.processes.insert(pid, (WallInstant::now(), began));
        began
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

    #[test]
    fn a_copy_has_its_bytes_its_interface_and_its_owner() {
        let mut copies = Copies { own_network: 7, networks: HashMap::from([(8, "blue".into())]), ..Copies::default() };
        let mut name = [0; 16];
        name[..4].copy_from_slice(b"eth0");
        let announced = RawInterface { kind: RECORD_INTERFACE, network: 8, interface: 2, pad: 0, name };
        assert_eq!(copies.take(announced.as_bytes()), Ok(None));
        let record = copy(
            |raw| {
                raw.marks = (COPY_SENT | COPY_TCP | COPY_PARTIAL) as u8;
                (raw.network, raw.interface, raw.at, raw.cookie) = (8, 2, 9, 10);
                (raw.length, raw.segments, raw.segment_bytes, raw.missed) = (5_000, 4, 1_448, 3);
                (raw.again, raw.flags, raw.first_seq, raw.bytes) = (COPY_AGAIN_LOSS as u8, 0x11, u32::MAX, 4_948);
                raw.pid = std::process::id();
            },
            &[0x45, 1, 2],
        );
        let copied = copies.take(&record).unwrap().unwrap();
        let interface = &copied.interface;
        assert_eq!((interface.name.as_str(), interface.network_name.as_deref()), ("eth0", Some("blue")));
        assert_eq!((&copied.bytes[..], copied.length, copied.socket.0), (&[0x45u8, 1, 2][..], 5_000, 10));
        assert_eq!((copied.segments, copied.segment_bytes, copied.missed), (4, 1_448, 3));
        assert_eq!((copied.again, copied.end_seq()), (Some(Again::Loss), SeqNumber(4_948)));
        assert!(copied.owner_since.is_some() && copied.checksum_pending && copied.state == SocketState::Open);
        // One of an interface without an announcement.
        let other = copies.take(&copy(|raw| (raw.network, raw.interface) = (7, 1), &[])).unwrap().unwrap();
        assert_eq!((other.interface.name.as_str(), other.interface.own, other.is_tcp()), ("", true, false));
        assert_eq!((other.direction, other.owner_since), (Direction::Received, None));
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
