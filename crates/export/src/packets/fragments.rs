//! Fragments, and the datagrams that they are pieces of.
//!
//! A datagram is copied before IP cuts it up, and after IP has put it together; its fragments are
//! copied each at its time. In the file they stand for it, as on the wire. Those that arrive come
//! before it, when nobody knows yet whose they are.

use std::collections::VecDeque;
use std::net::IpAddr;

use record::{CopyFragment, Direction, Instant, Monotonic, Nanos, PacketCopy};

use super::held::Carried;

/// For how long the kernel waits for the rest of a datagram (`net.ipv4.ipfrag_time`).
const PATIENCE: Nanos = Nanos::from_secs(30);
/// How many datagrams are waited for, in each direction.
const MOST: usize = 1_024;

/// What the fragments of a datagram have in common: network namespace, sender, receiver and
/// identification (RFC 791; RFC 8200, section 4.5).
type Key = (u32, IpAddr, IpAddr, u32);

/// Datagrams of which fragments have come.
#[derive(Default)]
pub(super) struct Pieces {
    /// Those that arrive, the oldest first.
    arriving: VecDeque<Arriving>,
    /// Those that leave, with what was copied before they were cut up.
    leaving: VecDeque<(Key, Box<PacketCopy>)>,
}

struct Arriving {
    key: Key,
    since: Instant<Monotonic>,
    pieces: Vec<PacketCopy>,
}

impl Pieces {
    /// A fragment has arrived.
    pub fn arrives(&mut self, piece: &PacketCopy) {
        let Some(key) = key_of(piece) else { return };
        if let Some(known) = self.arriving.iter_mut().rev().find(|known| known.key == key) {
            // No more of them than a datagram of IP can have.
            if known.pieces.len() < 8_192 {
                known.pieces.push(piece.clone());
            }
            return;
        }
        while let Some(oldest) = self.arriving.front()
            && (self.arriving.len() >= MOST || piece.at.since(oldest.since).is_ok_and(|age| age > PATIENCE))
        {
            self.arriving.pop_front();
        }
        self.arriving.push_back(Arriving { key, since: piece.at, pieces: vec![piece.clone()] });
    }

    /// A datagram has arrived: its fragments, if it came in some and each of them was copied.
    pub fn whole(&mut self, whole: &PacketCopy) -> Option<Vec<PacketCopy>> {
        if self.arriving.is_empty() || !whole.is_udp() {
            return None;
        }
        let header = udp_header(whole)?;
        let is_it = |of: &Arriving| {
            (of.key.0, of.key.1, of.key.2) == (whole.interface.network, whole.remote.ip(), whole.local.ip())
                && of.pieces.iter().any(|piece| udp_header(piece) == Some(header))
        };
        let at = self.arriving.iter().position(is_it)?;
        let pieces = self.arriving.remove(at)?.pieces;
        let bytes: u64 = pieces.iter().map(|piece| u64::from(piece.payload)).sum();
        if bytes != u64::from(whole.payload) {
            return None;
        }
        let mut missed = whole.missed;
        Some(pieces.into_iter().map(|piece| of_whole(&piece, whole, std::mem::take(&mut missed))).collect())
    }

    /// A fragment leaves: with what is known of its datagram, which it stands for from now on.
    /// `held` are the packets of its socket that are to be cut up, the latest first.
    pub fn leaves<'a>(
        &mut self,
        piece: &PacketCopy,
        held: impl Iterator<Item = &'a mut Carried>,
    ) -> Option<PacketCopy> {
        let key = key_of(piece)?;
        if let Some((_, whole)) = self.leaving.iter().rev().find(|(of, _)| *of == key) {
            return Some(of_whole(piece, whole, 0));
        }
        let header = udp_header(piece)?;
        // Sockets send the same again, so the earliest of those that were not cut up yet.
        let whole = held.filter(|of| !of.is_replaced && udp_header(&of.copy) == Some(header)).last()?;
        whole.is_replaced = true;
        let missed = std::mem::take(&mut whole.copy.missed);
        if self.leaving.len() >= MOST {
            self.leaving.pop_front();
        }
        self.leaving.push_back((key, whole.copy.clone()));
        Some(of_whole(piece, &whole.copy, missed))
    }
}

/// A fragment with what is known of its datagram, and so many packets more that were missed before
/// it.
fn of_whole(piece: &PacketCopy, whole: &PacketCopy, missed: u32) -> PacketCopy {
    let offset = piece.fragment.map_or(0, |of| of.offset);
    // What arrives is dropped as a whole.
    let buffer = if piece.direction == Direction::Received { whole.buffer } else { piece.buffer };
    PacketCopy {
        socket: whole.socket,
        owner: whole.owner,
        owner_since: whole.owner_since,
        cgroup: whole.cgroup,
        place: whole.place.clone(),
        state: whole.state,
        local: whole.local,
        remote: whole.remote,
        fragment: Some(CopyFragment { offset, datagram: whole.payload }),
        missed: piece.missed + missed,
        buffer,
        ..piece.clone()
    }
}

fn key_of(piece: &PacketCopy) -> Option<Key> {
    let id = if is_v6(piece) {
        u32::from_be_bytes(*piece.bytes.get(44..)?.first_chunk()?)
    } else {
        u16::from_be_bytes(*piece.bytes.get(4..)?.first_chunk()?).into()
    };
    let (local, remote) = (piece.local.ip(), piece.remote.ip());
    let (from, to) = if piece.direction == Direction::Sent { (local, remote) } else { (remote, local) };
    Some((piece.interface.network, from, to, id))
}

/// The header of UDP in a datagram, or in the first fragment of one.
fn udp_header(copy: &PacketCopy) -> Option<[u8; 8]> {
    let at = match copy.fragment {
        Some(CopyFragment { offset: 1.., .. }) => return None,
        Some(_) if is_v6(copy) => 48,
        _ if is_v6(copy) => 40,
        _ => usize::from(copy.bytes.first()? & 15) * 4,
    };
    copy.bytes.get(at..)?.first_chunk().copied()
}

fn is_v6(copy: &PacketCopy) -> bool {
    copy.bytes.first().is_some_and(|first| first >> 4 == 6)
}
