//! Targets of fuzzing: any bytes, through each entry that takes foreign ones.

use record::Instant;

use crate::packet::dns::Message;
use crate::packet::quic::{self, Frame as QuicFrame, InitialKeys};
use crate::packet::tls::{ClientHello, ServerHello};
use crate::packet::{Head, Numbered, Span, named};
use crate::{Capture, Frame, LinkType, PacketReader, Reassembly, TextReader, dissect};

/// A file: a capture in any format, compressed or not, or text.
pub fn capture(bytes: &[u8]) {
    if let Ok(mut packets) = PacketReader::from_bytes(bytes) {
        while let Ok(Some(_)) = packets.next_packet() {}
        assert!(packets.processes().values().all(|process| process.pid != 0 && process.name.len() <= 65_535));
    }
    if let Ok(mut capture) = Capture::from_bytes(bytes) {
        while let Ok(Some(frame)) = capture.next_frame() {
            assert!(frame.data.len() <= frame.original_length as usize);
            frame.comments().for_each(drop);
        }
    }
}

/// Frames of one link type, cut into several so that fragments can meet.
pub fn frame(bytes: &[u8]) {
    let [a, b, size, rest @ ..] = bytes else { return };
    let link_type = LinkType(u16::from_be_bytes([*a, *b]));
    let mut reassembly = Reassembly::new();
    for data in rest.chunks(usize::from(*size) + 1) {
        let _ = dissect(&Frame::new(1, Instant::from_nanos(1), link_type, data), &mut reassembly);
    }
}

/// A DNS message, whole and cut short.
pub fn dns(bytes: &[u8]) {
    let [cut, rest @ ..] = bytes else { return };
    let wire = rest.len() as u32;
    if let Ok(message) = Message::parse(Span::whole(rest)) {
        assert!(message.questions.iter().chain(&message.owners).all(|q| q.name.len() <= 4 * 255));
    }
    let data = &rest[..rest.len().min(usize::from(*cut))];
    // What was cut off is no fault of the message: what is left of it reads the same.
    if let (Ok(part), Ok(whole)) = (Message::parse(Span { data, wire }), Message::parse(Span::whole(rest))) {
        assert_eq!((part.id, part.questions), (whole.id, whole.questions));
    }
}

/// How a payload of UDP begins: its protocol and its number, whole and cut short.
pub fn datagram(bytes: &[u8]) {
    let [cut, a, b, c, d, rest @ ..] = bytes else { return };
    let (ports, wire) = ([[*a, *b], [*c, *d]].map(u16::from_be_bytes), rest.len() as u32);
    let whole = Head::of(rest);
    let part = &whole.as_slice()[..whole.as_slice().len().min(usize::from(*cut))];
    let numbered = |head: &[u8]| Numbered::parse(head, wire).map(|n| (n.by, n.stream, n.number, n.bits));
    // What was cut off is no fault of the datagram: what is left of it reads the same.
    assert!(numbered(part).is_none_or(|part| numbered(whole.as_slice()) == Some(part)));
    let _ = (named(ports, part, wire), named(ports, whole.as_slice(), wire));
}

/// A hello of TLS, of a client and of a server, whole and cut short.
pub fn tls(bytes: &[u8]) {
    let [cut, rest @ ..] = bytes else { return };
    let part = Span { data: &rest[..rest.len().min(usize::from(*cut))], wire: rest.len() as u32 };
    if let (Ok(part), Ok(whole)) = (ClientHello::parse(part), ClientHello::parse(Span::whole(rest))) {
        // What was cut off is no fault of the message: what is left of it reads the same.
        assert!(part.server_name.is_none() || part.server_name == whole.server_name);
        assert!(whole.protocols.starts_with(&part.protocols), "{part:?} {whole:?}");
    }
    if let (Ok(part), Ok(whole)) = (ServerHello::parse(part), ServerHello::parse(Span::whole(rest))) {
        assert_eq!((part.cipher, part.session), (whole.cipher, whole.session));
    }
}

/// A datagram of QUIC, whole and cut short, and the frames of an Initial packet.
pub fn quic(bytes: &[u8]) {
    let [cut, rest @ ..] = bytes else { return };
    let (whole, mut room) = (Span::whole(rest), Vec::new());
    let part = Span { data: &rest[..rest.len().min(usize::from(*cut))], ..whole };
    let kinds = |span| quic::packets(span).map(|p| p.map(|p| (p.kind, p.version, p.destination))).collect::<Vec<_>>();
    let (kept, all) = (kinds(part), kinds(whole));
    // What was cut off is no fault of the datagram: what is left of it reads the same.
    let same =
        kept.iter().zip(&all).all(|(kept, all)| kept == all || matches!(kept, Err(crate::packet::Fault::Truncated)));
    assert!(same && kept.len() <= all.len(), "{kept:?} {all:?}");
    let mut wire = 0;
    for packet in quic::packets(whole).flatten() {
        wire += packet.wire();
        assert!(packet.is_whole() && packet.versions().count() <= 64);
        if let Some(keys) = InitialKeys::new(packet.version, &packet.destination) {
            for side in [record::conversation::Side::Client, record::conversation::Side::Server] {
                let _ = keys.open(side, &packet, None, &mut room);
            }
        }
    }
    assert!(wire <= whole.wire);
    let padding = quic::frames(rest).flatten().map(|f| if let QuicFrame::Padding(n) = f { n } else { 1 });
    assert!(padding.sum::<usize>() <= rest.len());
}

/// tcpdump's text.
pub fn text(bytes: &[u8]) {
    let mut reader = TextReader::new(bytes);
    let mut segments = 0;
    while let Ok(Some(_)) = reader.next_segment() {
        segments += 1;
    }
    assert_eq!(reader.counts().segments, segments);
    assert!(reader.counts().lines >= segments);
}

#[cfg(test)]
mod tests {
    use tier::corpus::replay;

    #[test]
    fn corpora() {
        replay("capture", super::capture);
        replay("datagram", super::datagram);
        replay("dns", super::dns);
        replay("frame", super::frame);
        replay("quic", super::quic);
        replay("text", super::text);
        replay("tls", super::tls);
    }
}
