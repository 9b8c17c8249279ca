//! Packets of a capture, as transforms change them and `diagnose` takes them.

use std::io::Write as _;

use record::{Instant, Realtime};
use wire::{Capture, Flags, Frame, LinkType, Reassembly, Segment, dissect};

use crate::plan::End;

/// One captured packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// When the capture says that it came by, ns.
    pub at: u64,
    /// When it came by, ns.
    pub truly_at: u64,
    /// Its bytes on the wire.
    pub original: u32,
    /// The bytes kept.
    pub data: Vec<u8>,
}

impl Packet {
    fn frame(&self, number: u64) -> Frame<'_> {
        let at: Instant<Realtime> = Instant::from_nanos(self.at);
        let mut frame = Frame::new(number, at, LinkType::ETHERNET, &self.data);
        frame.original_length = self.original;
        frame
    }

    /// What it holds, where that is TCP.
    pub(crate) fn segment(&self, number: u64) -> Option<Segment> {
        match dissect(&self.frame(number), &mut Reassembly::new()) {
            Ok(wire::Packet::Tcp(segment)) => Some(segment),
            _ => None,
        }
    }
}

/// The true times of the first and the last packet of the connection with this port of the client;
/// `None` where there is none.
pub(crate) fn span(packets: &[Packet], port: u16) -> Option<(u64, u64)> {
    let times = || packets.iter().filter(|p| p.client_port() == Some(port)).map(|p| p.truly_at);
    Some((times().min()?, times().max()?))
}

/// The packets of a capture file.
///
/// # Panics
/// Where it is none.
pub(crate) fn read(file: &[u8]) -> Vec<Packet> {
    let mut capture = Capture::from_bytes(file).expect("a capture");
    let mut all = Vec::new();
    while let Some(frame) = capture.next_frame().expect("a whole record") {
        let at = frame.at.map_or(0, Instant::as_nanos);
        all.push(Packet { at, truly_at: at, original: frame.original_length, data: frame.data.to_vec() });
    }
    all
}

/// A compressed capture file of the packets' headers.
pub(crate) fn write(packets: &[Packet]) -> Vec<u8> {
    let mut file = zstd::Encoder::new(Vec::new(), 12).expect("zstd has this level");
    wire::capture::write_pcap_header(&mut file, LinkType::ETHERNET).expect("memory takes all");
    for p in packets {
        let headers = &p.data[..p.payload_at().map_or(p.data.len(), |at| at.min(p.data.len()))];
        wire::capture::write_pcap_record(&mut file, Instant::from_nanos(p.at), p.original, headers)
            .expect("memory takes all");
    }
    file.flush().expect("memory takes all");
    file.finish().expect("memory takes all")
}

/// Where Ethernet's header ends.
const ETHERNET: usize = 14;

impl Packet {
    /// Who sent it, by the addresses of a lab.
    pub(crate) fn sender(&self) -> Option<End> {
        let source: [u8; 4] = self.data.get(ETHERNET + 12..ETHERNET + 16)?.try_into().ok()?;
        End::ALL.into_iter().find(|end| end.address() == source)
    }

    /// The port of the client, which names the connection.
    pub(crate) fn client_port(&self) -> Option<u16> {
        let tcp = self.tcp()?;
        let at = tcp + if self.sender()? == End::Client { 0 } else { 2 };
        Some(u16::from_be_bytes(self.data.get(at..at + 2)?.try_into().ok()?))
    }

    /// Where TCP's header begins.
    pub(crate) fn tcp(&self) -> Option<usize> {
        let first = *self.data.get(ETHERNET)?;
        (first >> 4 == 4).then_some(ETHERNET + usize::from(first & 15) * 4)
    }

    /// Where its payload begins.
    pub(crate) fn payload_at(&self) -> Option<usize> {
        let tcp = self.tcp()?;
        Some(tcp + usize::from(self.data.get(tcp + 12)? >> 4) * 4)
    }

    /// TCP's flags.
    pub(crate) fn flags(&self) -> Flags {
        let byte = self.tcp().and_then(|tcp| self.data.get(tcp + 13)).copied();
        Flags::from_bits_retain(byte.unwrap_or(0).into())
    }

    /// The length in IP's header.
    pub(crate) fn ip_length(&self) -> u16 {
        let field = self.data.get(ETHERNET + 2..ETHERNET + 4).and_then(|f| f.try_into().ok());
        u16::from_be_bytes(field.unwrap_or_default())
    }

    /// Gives IP's header another length, and the frame as well.
    pub(crate) fn set_ip_length(&mut self, length: u16) {
        self.data[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&length.to_be_bytes());
        self.original = u32::from(length) + ETHERNET as u32;
    }

    /// Bytes of payload on the wire.
    pub(crate) fn payload(&self) -> u32 {
        let headers = self.payload_at().map_or(0, |at| at - ETHERNET);
        u32::from(self.ip_length()).saturating_sub(headers as u32)
    }

    /// A number of TCP's header: 4 the sequence number, 8 the acknowledgment.
    pub(crate) fn number(&self, at: usize) -> u32 {
        let field = self.tcp().and_then(|tcp| self.data.get(tcp + at..tcp + at + 4)?.try_into().ok());
        u32::from_be_bytes(field.unwrap_or_default())
    }

    /// Moves the sequence number by so much.
    pub(crate) fn add_to_sequence(&mut self, bytes: u32) {
        let moved = self.number(4).wrapping_add(bytes);
        if let Some(tcp) = self.tcp() {
            self.data[tcp + 4..tcp + 8].copy_from_slice(&moved.to_be_bytes());
        }
    }

    /// Takes flags off.
    pub(crate) fn clear(&mut self, flags: Flags) {
        if let Some(tcp) = self.tcp() {
            self.data[tcp + 13] &= !(flags.bits() as u8);
        }
    }

    /// Whether it is only an ACK.
    pub(crate) fn is_pure_ack(&self) -> bool {
        self.payload() == 0 && !self.flags().intersects(Flags::SYN | Flags::FIN | Flags::RST)
    }
}
