//! What a trace knows of a packet beyond its bytes: the option that `wirelapse trace --packets`
//! adds to packets (`docs/packets.md` describes it byte by byte).
//!
//! It is an option for local use. Its value begins with four bytes that nobody else's has, and then
//! holds items in the form of pcapng's own options, in the byte order of the section.

use std::sync::Arc;

use record::{Again, ConnectionId, CopyPlace, DropReason, KnownBy, Nanos, Owner, SeqNumber, WaitReason};

use super::pcapng_option::{next_option, put_option};

/// The code of the option: for local use, so bit 15 is set; below it the letters `WL`.
pub const CODE: u16 = 0xd74c;

/// What the value begins with; the last byte is the version.
const MAGIC: [u8; 4] = *b"WLp\x01";

const SOCKET: u16 = 1;
const NAME: u16 = 2;
const SEND: u16 = 3;
const STAGES: u16 = 4;
const WAIT: u16 = 5;
const AGAIN: u16 = 6;
const SEGMENTS: u16 = 7;
const RECEIVER: u16 = 8;
const UNIT: u16 = 9;
const CONTAINER: u16 = 10;
const DROPPED: u16 = 11;
const ARRIVAL: u16 = 12;

/// What a trace knows of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// Its socket, and how the owner of that is known.
    pub socket: Option<(ConnectionId, KnownBy)>,
    /// The name of that owner; its number is in an option of pcapng.
    pub name: String,
    /// The first send with bytes in it.
    pub send: Option<CarriedSend>,
    /// Why it was sent another time, if it was.
    pub again: Option<Again>,
    /// Segments on the wire, and the payload of each but the last, where it is several.
    pub segments: Option<(u32, u32)>,
    /// Who received it on this host, by the loopback interface.
    pub receiver: Option<Receiver>,
    /// The unit and the container that the cgroup of its socket is of.
    pub place: CopyPlace,
    /// When it was dropped on this host, nanoseconds of Unix time, and why, if it was.
    pub dropped: Option<(u64, DropReason)>,
    /// When it passed each stage on its way in, nanoseconds of Unix time: `nic_rx`, `driver_rx`,
    /// `tcp_rx`, `ready`, `read`; 0 where that is not known.
    pub arrival: [u64; 5],
}

/// A send that a packet carries bytes of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedSend {
    /// Its number among the sends of its connection that the trace has, from 1.
    pub number: u64,
    /// The sequence number of its first byte.
    pub first_seq: SeqNumber,
    /// Its length in bytes.
    pub bytes: u32,
    /// How many sends have bytes in the packet.
    pub sends: u32,
    /// When its last byte passed each stage, nanoseconds of Unix time: `send`, `sched`, `driver`,
    /// `nic`, `ack`; 0 where that is not known.
    pub stages: [u64; 5],
    /// Why it waited in TCP, and how long for that reason.
    pub wait: Option<(WaitReason, Nanos)>,
}

/// The other end of a packet that stays on its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// The socket that got it.
    pub socket: ConnectionId,
    /// When, in nanoseconds of Unix time.
    pub at: u64,
    /// Whose that is.
    pub owner: Owner,
    /// How that is known.
    pub known_by: KnownBy,
}

impl Context {
    /// The value of the option, least significant byte first.
    pub fn value(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        if let Some((socket, known_by)) = self.socket {
            put_option(&mut out, SOCKET, &joined(&[&socket.0.to_le_bytes(), &[known_by as u8]]));
        }
        if !self.name.is_empty() {
            put_option(&mut out, NAME, self.name.as_bytes());
        }
        if let Some(send) = &self.send {
            let [seq, bytes, sends] = [send.first_seq.0, send.bytes, send.sends].map(u32::to_le_bytes);
            put_option(&mut out, SEND, &joined(&[&send.number.to_le_bytes(), &seq, &bytes, &sends]));
            put_option(&mut out, STAGES, &send.stages.map(u64::to_le_bytes).concat());
            if let Some((reason, waited)) = send.wait {
                put_option(&mut out, WAIT, &joined(&[&waited.0.to_le_bytes(), reason.name().as_bytes()]));
            }
        }
        if let Some(again) = self.again {
            put_option(&mut out, AGAIN, &[again as u8]);
        }
        if let Some((segments, each)) = self.segments {
            put_option(&mut out, SEGMENTS, &[segments, each].map(u32::to_le_bytes).concat());
        }
        if let Some(receiver) = &self.receiver {
            let numbers = [receiver.socket.0, receiver.at].map(u64::to_le_bytes).concat();
            let (pid, name) = (receiver.owner.pid.to_le_bytes(), receiver.owner.comm.to_string());
            let value = joined(&[&numbers, &pid, &[receiver.known_by as u8], name.as_bytes()]);
            put_option(&mut out, RECEIVER, &value);
        }
        for (code, name) in [(UNIT, &self.place.unit), (CONTAINER, &self.place.container)] {
            name.iter().for_each(|name| put_option(&mut out, code, name.as_bytes()));
        }
        if let Some((at, reason)) = &self.dropped {
            put_option(&mut out, DROPPED, &joined(&[&at.to_le_bytes(), reason.0.as_bytes()]));
        }
        if self.arrival != [0; 5] {
            put_option(&mut out, ARRIVAL, &self.arrival.map(u64::to_le_bytes).concat());
        }
        out
    }

    /// Reads the value of the option; `None` where it is not ours or of a version that is not
    /// known. Items that are not known, or too short, are skipped.
    pub fn parse(value: &[u8], big_endian: bool) -> Option<Self> {
        let mut rest = value.strip_prefix(&MAGIC)?;
        let mut this = Self::default();
        let mut stages = None;
        let mut wait = None;
        while let Ok(Some((code, item))) = next_option(&mut rest, big_endian) {
            let numbers = Numbers { item, big_endian };
            match code {
                SOCKET => {
                    this.socket = numbers.u64(0).map(ConnectionId).zip(item.get(8).and_then(|&by| known_by(by)));
                }
                NAME => this.name = String::from_utf8_lossy(item).into_owned(),
                SEND => this.send = numbers.send(),
                STAGES => stages = numbers.stages(),
                WAIT => {
                    let named = |word| WaitReason::ALL.into_iter().find(|reason| reason.name().as_bytes() == word);
                    wait = item.get(8..).and_then(named).zip(numbers.u64(0).map(Nanos));
                }
                AGAIN => {
                    let numbered = |&number: &u8| Again::ALL.into_iter().find(|again| *again as u8 == number);
                    this.again = item.first().and_then(numbered);
                }
                SEGMENTS => this.segments = numbers.u32(0).zip(numbers.u32(4)),
                RECEIVER => this.receiver = numbers.receiver(),
                UNIT => this.place.unit = Some(String::from_utf8_lossy(item).into_owned()),
                CONTAINER => this.place.container = Some(String::from_utf8_lossy(item).into_owned()),
                DROPPED => {
                    let reason = |text| DropReason(Arc::from(String::from_utf8_lossy(text)));
                    this.dropped = numbers.u64(0).zip(item.get(8..).map(reason));
                }
                ARRIVAL => this.arrival = numbers.stages().unwrap_or_default(),
                _ => {}
            }
        }
        if let Some(send) = &mut this.send {
            send.stages = stages.unwrap_or_default();
            send.wait = wait;
        }
        Some(this)
    }
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn known_by(number: u8) -> Option<KnownBy> {
    KnownBy::ALL.into_iter().find(|by| *by as u8 == number)
}

/// The numbers in an item.
#[derive(Clone, Copy)]
struct Numbers<'a> {
    item: &'a [u8],
    big_endian: bool,
}

impl Numbers<'_> {
    fn u32(self, at: usize) -> Option<u32> {
        let four = *self.item.get(at..)?.first_chunk()?;
        Some(if self.big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) })
    }

    fn u64(self, at: usize) -> Option<u64> {
        let eight = *self.item.get(at..)?.first_chunk()?;
        Some(if self.big_endian { u64::from_be_bytes(eight) } else { u64::from_le_bytes(eight) })
    }

    fn send(self) -> Option<CarriedSend> {
        Some(CarriedSend {
            number: self.u64(0)?,
            first_seq: SeqNumber(self.u32(8)?),
            bytes: self.u32(12)?,
            sends: self.u32(16)?,
            stages: [0; 5],
            wait: None,
        })
    }

    fn stages(self) -> Option<[u64; 5]> {
        Some([self.u64(0)?, self.u64(8)?, self.u64(16)?, self.u64(24)?, self.u64(32)?])
    }

    fn receiver(self) -> Option<Receiver> {
        let name = String::from_utf8_lossy(self.item.get(21..)?);
        Some(Receiver {
            socket: ConnectionId(self.u64(0)?),
            at: self.u64(8)?,
            owner: Owner { pid: self.u32(16)?, comm: name.as_ref().into() },
            known_by: known_by(*self.item.get(20)?)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Context {
        Context {
            socket: Some((ConnectionId(7), KnownBy::Accepted)),
            name: "nginx".into(),
            send: Some(CarriedSend {
                number: 3,
                first_seq: SeqNumber(u32::MAX),
                bytes: 512,
                sends: 2,
                stages: [1, 2, 3, 0, u64::MAX],
                wait: Some((WaitReason::Nagle, Nanos(40_000_000))),
            }),
            again: Some(Again::Recovery),
            segments: Some((12, 1_448)),
            receiver: Some(Receiver {
                socket: ConnectionId(8),
                at: 9,
                owner: Owner { pid: 10, comm: "curl".into() },
                known_by: KnownBy::Connected,
            }),
            place: CopyPlace { unit: Some("nginx.service".into()), container: Some("0123abcd".into()) },
            dropped: Some((11, DropReason("QDISC_DROP".into()))),
            arrival: [0, 1, 2, 3, u64::MAX],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for context in [whole(), Context::default(), Context { send: None, ..whole() }] {
            assert_eq!(Context::parse(&context.value(), false), Some(context));
        }
    }

    /// The bytes that `docs/packets.md` shows.
    #[test]
    fn the_bytes_are_those_of_the_documentation() {
        let context = Context {
            socket: Some((ConnectionId(0x1234), KnownBy::Connected)),
            name: "curl".into(),
            again: Some(Again::Loss),
            ..Context::default()
        };
        let hex: String = context.value().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "574c70010100090034120000000000000200000002000400637572 6c0600010003000000".replace(' ', ""));
    }

    #[test]
    fn what_is_not_ours_is_nothing_and_what_is_cut_is_skipped() {
        assert_eq!(Context::parse(b"WLp\x02", false), None);
        assert_eq!(Context::parse(b"", false), None);
        let value = whole().value();
        for end in MAGIC.len()..value.len() {
            let _ = Context::parse(&value[..end], false).unwrap();
        }
        // Of a later version: an item more.
        let mut more = whole().value();
        put_option(&mut more, 99, b"new");
        assert_eq!(Context::parse(&more, false), Some(whole()));
    }
}
