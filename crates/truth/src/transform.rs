//! What captures do to the truth: the same packets as they come out of the tools, filters and taps
//! that people capture with.

use serde::{Deserialize, Serialize};
use wire::Flags;

use crate::draw::Draw;
use crate::packet::Packet;
use crate::plan::End;

/// One change of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transform {
    /// The first packets are not there.
    BegunLate {
        /// So many of them, 0 to 1.
        share: f64,
    },
    /// The last packets are not there.
    EndedEarly {
        /// So many of them, 0 to 1.
        share: f64,
    },
    /// What one end sent, and nothing else.
    OneDirection {
        /// Which end.
        of: End,
    },
    /// A filter left out pure ACKs.
    NoPureAcks,
    /// A filter left packets with payload alone.
    OnlyData,
    /// One packet in so many.
    OneIn {
        /// How many.
        n: u32,
    },
    /// The end of each packet was cut off.
    Snapped {
        /// Bytes kept.
        bytes: u32,
    },
    /// Some packets are there twice.
    Copies {
        /// So many, 0 to 1.
        share: f64,
        /// How much later the second is.
        after_us: u64,
    },
    /// One direction came by another interface or machine, of which the clock is late.
    OneDirectionLate {
        /// Whose packets.
        of: End,
        /// By how much.
        us: u64,
    },
    /// The clock was set in the middle.
    ClockStep {
        /// After so many of the packets, 0 to 1.
        share: f64,
        /// By how much.
        us: i64,
    },
    /// IP's length counts the padding that short frames have on Ethernet.
    PaddedAcks,
    /// The capture dropped packets, some in a row.
    Drops {
        /// So many in all, 0 to 1.
        share: f64,
        /// So many in a row.
        run: u32,
    },
    /// Segments that follow each other were joined before they were captured (GRO, LRO).
    Joined,
    /// Segments of more than the MTU were split before they were captured.
    Split,
}

/// The shortest IP packet that Ethernet carries without padding.
const UNPADDED: u16 = 46;
/// GRO joins what comes within so much, ns, up to as much as an IP packet holds.
const JOINED_WITHIN: u64 = 100_000;
const JOINED_MOST: u32 = 65_000;

impl Transform {
    /// The name of its kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BegunLate { .. } => "begun late",
            Self::EndedEarly { .. } => "ended early",
            Self::OneDirection { .. } => "one direction",
            Self::NoPureAcks => "no pure ACKs",
            Self::OnlyData => "only data",
            Self::OneIn { .. } => "one packet in several",
            Self::Snapped { .. } => "snapped",
            Self::Copies { .. } => "copies",
            Self::OneDirectionLate { .. } => "one direction late",
            Self::ClockStep { .. } => "clock set",
            Self::PaddedAcks => "padding counted",
            Self::Drops { .. } => "drops of the capture",
            Self::Joined => "segments joined",
            Self::Split => "segments split",
        }
    }

    /// One of them.
    pub(crate) fn draw(draw: &mut Draw) -> Self {
        let of = if draw.chance(0.5) { End::Client } else { End::Server };
        match draw.whole(0, 13) {
            0 => Self::BegunLate { share: draw.even(0.02, 0.7) },
            1 => Self::EndedEarly { share: draw.even(0.02, 0.7) },
            2 => Self::OneDirection { of },
            3 => Self::NoPureAcks,
            4 => Self::OnlyData,
            5 => Self::OneIn { n: draw.whole(2, 20) as u32 },
            6 => Self::Snapped { bytes: draw.whole(54, 100) as u32 },
            7 => {
                let share = if draw.chance(0.7) { 1.0 } else { draw.log(1e-3, 0.5) };
                Self::Copies { share, after_us: draw.log(1.0, 2e3) as u64 }
            }
            8 => Self::OneDirectionLate { of, us: draw.log(50.0, 2e4) as u64 },
            9 => {
                let us = draw.log(200.0, 3e6) as i64;
                Self::ClockStep { share: draw.even(0.1, 0.9), us: if draw.chance(0.5) { us } else { -us } }
            }
            10 => Self::PaddedAcks,
            11 => Self::Drops { share: draw.log(1e-3, 0.3), run: draw.log(1.0, 50.0) as u32 },
            12 => Self::Joined,
            _ => Self::Split,
        }
    }

    /// The capture with it.
    pub(crate) fn apply(self, mut packets: Vec<Packet>, mtu: u32, draw: &mut Draw) -> Vec<Packet> {
        let part = |share: f64| (packets.len() as f64 * share) as usize;
        match self {
            Self::BegunLate { share } => {
                packets.drain(..part(share));
            }
            Self::EndedEarly { share } => packets.truncate(part(1.0 - share)),
            Self::OneDirection { of } => packets.retain(|p| p.sender() == Some(of)),
            Self::NoPureAcks => packets.retain(|p| !p.is_pure_ack()),
            Self::OnlyData => packets.retain(|p| p.payload() > 0),
            Self::OneIn { n } => {
                let mut number = 0;
                packets.retain(|_| {
                    number += 1;
                    number % n == 1
                });
            }
            Self::Snapped { bytes } => packets.iter_mut().for_each(|p| p.data.truncate(bytes as usize)),
            Self::Copies { share, after_us } => {
                let mut copies: Vec<Packet> = packets.iter().filter(|_| draw.chance(share)).cloned().collect();
                copies.iter_mut().for_each(|p| p.at += after_us * 1_000);
                packets.extend(copies);
                packets.sort_by_key(|p| p.at);
            }
            Self::OneDirectionLate { of, us } => {
                packets.iter_mut().filter(|p| p.sender() == Some(of)).for_each(|p| p.at += us * 1_000);
                packets.sort_by_key(|p| p.at);
            }
            Self::ClockStep { share, us } => {
                let from = part(share);
                packets[from..].iter_mut().for_each(|p| p.at = p.at.saturating_add_signed(us * 1_000));
            }
            Self::PaddedAcks => {
                for p in packets.iter_mut().filter(|p| p.ip_length() < UNPADDED) {
                    p.set_ip_length(UNPADDED);
                }
            }
            Self::Drops { share, run } => {
                let begins = share / f64::from(run.max(1));
                let mut left = 0;
                packets.retain(|_| {
                    if left == 0 && draw.chance(begins) {
                        left = run.max(1);
                    }
                    let kept = left == 0;
                    left = left.saturating_sub(1);
                    kept
                });
            }
            Self::Joined => packets = joined(packets),
            Self::Split => packets = packets.into_iter().flat_map(|p| split(p, mtu)).collect(),
        }
        packets
    }
}

fn joined(packets: Vec<Packet>) -> Vec<Packet> {
    let mut all: Vec<Packet> = Vec::with_capacity(packets.len());
    let ends = Flags::FIN | Flags::SYN | Flags::RST | Flags::PSH;
    for p in packets {
        // What other connections send meanwhile is joined by itself.
        let late = |last: &&mut Packet| p.at.saturating_sub(last.at) < JOINED_WITHIN;
        let mut latest = all.iter_mut().rev().take_while(late);
        if let Some(last) = latest.find(|last| last.client_port() == p.client_port()) {
            let follows = p.payload() > 0
                && last.payload() > 0
                && p.sender() == last.sender()
                && p.number(4) == last.number(4).wrapping_add(last.payload())
                && p.number(8) == last.number(8)
                && !last.flags().intersects(ends)
                && !p.flags().intersects(Flags::FIN | Flags::SYN | Flags::RST)
                && last.payload() + p.payload() < JOINED_MOST;
            if follows {
                last.set_ip_length(last.ip_length() + p.payload() as u16);
                continue;
            }
        }
        all.push(p);
    }
    all
}

fn split(p: Packet, mtu: u32) -> Vec<Packet> {
    let Some(at) = p.payload_at().filter(|_| u32::from(p.ip_length()) > mtu) else { return vec![p] };
    let headers = u32::from(p.ip_length()) - p.payload();
    let (whole, most) = (p.payload(), mtu - headers);
    let mut pieces = Vec::new();
    for begins in (0..whole).step_by(most as usize) {
        let mut piece = p.clone();
        piece.data.truncate(at);
        piece.add_to_sequence(begins);
        piece.set_ip_length((headers + most.min(whole - begins)) as u16);
        if begins + most < whole {
            piece.clear(Flags::FIN | Flags::PSH);
        }
        pieces.push(piece);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment of the client with so much payload.
    fn packet(at: u64, sequence: u32, payload: u16) -> Packet {
        let mut data = vec![0; 54];
        data[14] = 0x45;
        data[23] = 6;
        data[26..30].copy_from_slice(&End::Client.address());
        data[30..34].copy_from_slice(&End::Server.address());
        data[34..36].copy_from_slice(&40_000u16.to_be_bytes());
        data[38..42].copy_from_slice(&sequence.to_be_bytes());
        data[46] = 0x50;
        data[47] = 0x10;
        data[12] = 8;
        let mut p = Packet { at, truly_at: at, original: 0, data };
        p.set_ip_length(40 + payload);
        p
    }

    #[test]
    fn what_is_split_can_be_joined_again() {
        let whole = packet(5, 1_000, 4_000);
        let parts = split(whole.clone(), 1_500);
        assert_eq!(parts.iter().map(Packet::payload).collect::<Vec<_>>(), [1_460, 1_460, 1_080]);
        assert_eq!(parts.iter().map(|p| p.number(4)).collect::<Vec<_>>(), [1_000, 2_460, 3_920]);
        assert_eq!(joined(parts), [whole]);
    }

    #[test]
    fn each_leaves_what_it_says() {
        let packets: Vec<Packet> =
            (0..100u16).map(|n| packet(n.into(), n.into(), if n % 2 == 0 { 0 } else { 10 })).collect();
        let apply = |t: Transform| t.apply(packets.clone(), 1_500, &mut Draw::new(1, 1));
        assert_eq!(apply(Transform::BegunLate { share: 0.3 })[0], packets[30]);
        assert_eq!(apply(Transform::EndedEarly { share: 0.3 }).len(), 70);
        assert_eq!(apply(Transform::NoPureAcks).len(), 50);
        assert_eq!(apply(Transform::OnlyData).len(), 50);
        assert_eq!(apply(Transform::OneIn { n: 10 }).len(), 10);
        assert_eq!(apply(Transform::OneDirection { of: End::Server }).len(), 0);
        assert_eq!(apply(Transform::Copies { share: 1.0, after_us: 1 }).len(), 200);
        assert_eq!(apply(Transform::PaddedAcks)[0].payload(), 6);
        assert_eq!(apply(Transform::PaddedAcks)[1].payload(), 10);
        let stepped = apply(Transform::ClockStep { share: 0.5, us: 7 });
        assert_eq!([stepped[49].at, stepped[50].at], [49, 7_050]);
        let dropped = apply(Transform::Drops { share: 0.3, run: 3 }).len();
        assert!((40..95).contains(&dropped), "{dropped}");
    }
}
