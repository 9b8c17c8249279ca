//! Records of TLS, and the messages of the handshake in them, out of segments.

use record::SeqNumber;
use wire::packet::Span;
use wire::packet::tls::{Header, content, message};

/// Bytes kept of a hello.
const KEPT: usize = 8_192;
/// Segments of a direction that wait at most for one that is missing.
const HELD: usize = 64;

/// What a direction brought.
#[derive(Debug)]
pub(super) enum Event<'a> {
    /// A record began: its header is there.
    Begins(Header),
    /// A record is there whole.
    Ends(Header),
    /// A message of the handshake in clear view is there whole: its kind, and of a hello its bytes.
    Message(u8, Span<'a>),
    /// An alert in clear view that ends the connection.
    Alert(u8),
}

/// Why it is not known what a direction brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The capture kept too little of a packet.
    Cut,
    /// Packets are not in the capture.
    Packets,
    /// What came is no TLS.
    NotTls,
}

impl Missing {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Cut => "the capture kept too little of its packets",
            Self::Packets => "packets of it are missing from the capture",
            Self::NotTls => "it goes on with something other than TLS",
        }
    }
}

/// A segment that came before one that is missing.
#[derive(Debug)]
struct Held {
    seq: SeqNumber,
    data: Vec<u8>,
    wire: u32,
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Stream {
    next: Option<SeqNumber>,
    header: [u8; 5],
    have: usize,
    /// Bytes of the record that are to come.
    left: u32,
    alert: Vec<u8>,
    message: Message,
    held: Vec<Held>,
    /// What comes in records of the handshake is encrypted.
    is_encrypted: bool,
    /// The place of the next record is not known.
    is_lost: bool,
    pub(super) missing: Option<Missing>,
    /// Bytes came again, or late: something was lost on the way.
    pub(super) is_repaired: bool,
}

/// A message of the handshake on its way.
#[derive(Debug, Default)]
struct Message {
    header: [u8; 4],
    have: usize,
    left: u32,
    kept: Vec<u8>,
    /// Its place is not known, and that of all that come after it.
    is_lost: bool,
}

/// How many bytes may be held in all streams together.
#[derive(Debug)]
pub(super) struct Room(pub(super) usize);

impl Stream {
    /// Takes a segment with data. `each` is given what it brought, and says whether what the
    /// direction sends in records of the handshake is encrypted from there on.
    pub(super) fn take(
        &mut self,
        seq: SeqNumber,
        payload: Span<'_>,
        room: &mut Room,
        mut each: impl FnMut(Event<'_>) -> bool,
    ) {
        // The first segment of a direction begins with a record.
        let begins = || payload.data.first_chunk::<5>().is_none_or(|bytes| Header::parse(bytes).is_some());
        if self.next.is_none() && begins() {
            self.next = Some(seq);
        }
        if self.next.is_none_or(|next| seq.distance_from(next) > 0) {
            self.is_repaired = true;
            if self.held.len() < HELD && payload.data.len() <= room.0 {
                room.0 -= payload.data.len();
                self.held.push(Held { seq, data: payload.data.to_vec(), wire: payload.wire });
                return;
            }
            self.lose(Missing::Packets);
            self.next = Some(seq);
        }
        self.pass(seq, payload, &mut each);
        while let Some(i) = self.held.iter().position(|h| self.next.is_some_and(|n| h.seq.distance_from(n) <= 0)) {
            let Held { seq, data, wire } = self.held.swap_remove(i);
            room.0 += data.len();
            self.pass(seq, Span { data: &data, wire }, &mut each);
        }
    }

    /// What came before a packet that is not in the capture waits no longer.
    pub(super) fn close(&mut self, room: &mut Room) {
        if !self.held.is_empty() {
            // Where no segment began with a record, there are none.
            self.missing.get_or_insert(if self.next.is_some() { Missing::Packets } else { Missing::NotTls });
        }
        room.0 += self.held.drain(..).map(|h| h.data.len()).sum::<usize>();
    }

    fn pass(&mut self, seq: SeqNumber, payload: Span<'_>, each: &mut impl FnMut(Event<'_>) -> bool) {
        let next = self.next.unwrap_or(seq);
        let known = seq.distance_from(next).min(0).unsigned_abs();
        self.is_repaired |= known > 0;
        if known >= payload.wire {
            return;
        }
        self.next = Some(seq.add(payload.wire));
        self.read(payload.skip(known as usize), each);
    }

    fn lose(&mut self, why: Missing) {
        self.missing.get_or_insert(why);
        (self.is_lost, self.have, self.left) = (true, 0, 0);
        self.message.is_lost = true;
    }

    fn read(&mut self, mut payload: Span<'_>, each: &mut impl FnMut(Event<'_>) -> bool) {
        if self.is_lost {
            // Most records begin with a segment.
            let Some(_) = payload.data.first_chunk::<5>().and_then(Header::parse) else { return };
            self.is_lost = false;
        }
        while payload.wire > 0 {
            if self.have < self.header.len() {
                let Some(&byte) = payload.data.first() else { return self.lose(Missing::Cut) };
                self.header[self.have] = byte;
                (self.have, payload) = (self.have + 1, payload.skip(1));
                if self.have < self.header.len() {
                    continue;
                }
                let Some(header) = Header::parse(&self.header) else { return self.lose(Missing::NotTls) };
                self.left = header.length.into();
                self.alert.clear();
                each(Event::Begins(header));
            }
            let Some(header) = Header::parse(&self.header) else { return self.lose(Missing::NotTls) };
            let piece = payload.limit(self.left);
            match header.content {
                content::HANDSHAKE if !self.is_encrypted => self.message.read(piece, each),
                // Two bytes; an encrypted one is longer.
                content::ALERT if header.length == 2 => self.alert.extend_from_slice(piece.data),
                _ => {}
            }
            self.left -= piece.wire;
            payload = payload.skip(piece.wire as usize);
            if self.left == 0 {
                // A warning is of level 1.
                if let [2, what] = self.alert[..] {
                    each(Event::Alert(what));
                }
                self.is_encrypted |= each(Event::Ends(header));
                self.have = 0;
            }
        }
    }
}

impl Message {
    fn read(&mut self, mut piece: Span<'_>, each: &mut impl FnMut(Event<'_>) -> bool) {
        while piece.wire > 0 && !self.is_lost {
            if self.have < self.header.len() {
                let Some(&byte) = piece.data.first() else { return self.is_lost = true };
                self.header[self.have] = byte;
                (self.have, piece) = (self.have + 1, piece.skip(1));
                if self.have < self.header.len() {
                    continue;
                }
                self.left = u32::from_be_bytes([0, self.header[1], self.header[2], self.header[3]]);
                self.kept.clear();
            }
            let [kind, length @ ..] = self.header;
            let length = u32::from_be_bytes([0, length[0], length[1], length[2]]);
            let part = piece.limit(self.left);
            let is_hello = matches!(kind, message::CLIENT_HELLO | message::SERVER_HELLO);
            // After bytes that were cut off, the next ones would stand in their place.
            if is_hello && self.kept.len() == (length - self.left) as usize {
                let room = KEPT.saturating_sub(self.kept.len()).min(part.data.len());
                self.kept.extend_from_slice(&part.data[..room]);
            }
            self.left -= part.wire;
            piece = piece.skip(part.wire as usize);
            if self.left == 0 {
                each(Event::Message(kind, Span { data: &self.kept, wire: length }));
                self.have = 0;
                self.kept = Vec::new();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(content: u8, data: &[u8]) -> Vec<u8> {
        [&[content, 3, 3][..], &(data.len() as u16).to_be_bytes(), data].concat()
    }

    /// What these segments brought, and what is missing.
    fn events(segments: &[(u32, &[u8], u32)]) -> (Vec<String>, Option<Missing>) {
        let (mut stream, mut room, mut found) = (Stream::default(), Room(1_000), Vec::new());
        for &(seq, data, wire) in segments {
            stream.take(SeqNumber(seq), Span { data, wire }, &mut room, |event| {
                found.push(match event {
                    Event::Begins(header) => format!("begins {}", header.content),
                    Event::Ends(header) => format!("ends {}", header.content),
                    Event::Message(kind, span) => format!("message {kind}: {} of {}", span.data.len(), span.wire),
                    Event::Alert(what) => format!("alert {what}"),
                });
                found.last().is_some_and(|event| event == "ends 20")
            });
        }
        stream.close(&mut room);
        assert_eq!(room.0, 1_000);
        (found, stream.missing)
    }

    fn bytes() -> Vec<u8> {
        let hello = [&[1, 0, 0, 40][..], &[5; 40]].concat();
        let (a, b) = hello.split_at(20);
        // A message over two records, one record with two messages, and what is encrypted.
        [
            record(22, a),
            record(22, b),
            record(22, &[11, 0, 0, 1, 9, 14, 0, 0, 0]),
            record(20, &[1]),
            record(22, &[1; 40]),
        ]
        .concat()
    }

    const WHOLE: [&str; 13] = [
        "begins 22",
        "ends 22",
        "begins 22",
        "message 1: 40 of 40",
        "ends 22",
        "begins 22",
        "message 11: 0 of 1",
        "message 14: 0 of 0",
        "ends 22",
        "begins 20",
        "ends 20",
        "begins 22",
        "ends 22",
    ];

    #[test]
    fn messages_and_records_are_found_wherever_segments_begin() {
        let bytes = bytes();
        for cut in 1..bytes.len() {
            let (a, b) = bytes.split_at(cut);
            let (a, b) = ((7, a, a.len() as u32), (7 + cut as u32, b, b.len() as u32));
            for order in [&[a, b][..], &[a, a, b, a], &[(7, &a.1[..1], 1), b, a]] {
                let (found, missing) = events(order);
                assert_eq!((found, missing), (WHOLE.map(String::from).to_vec(), None), "cut at {cut}");
            }
        }
    }

    #[test]
    fn what_is_not_there_is_said_to_be_missing() {
        let bytes = bytes();
        let wire = bytes.len() as u32;
        let (found, missing) = events(&[(0, &bytes[..60], wire), (wire, &record(21, &[2, 40]), 7)]);
        assert_eq!(missing, Some(Missing::Cut));
        assert!(found.ends_with(&["begins 21".into(), "alert 40".into(), "ends 21".into()]), "{found:?}");
        let (found, missing) = events(&[(0, &bytes[..30], 30), (50, &bytes[50..], wire - 50)]);
        assert_eq!((found.len(), missing), (3, Some(Missing::Packets)));
        assert_eq!(events(&[(0, b"GET / HTTP/1.1\r\n", 16)]), (Vec::new(), Some(Missing::NotTls)));
        let other = [&bytes[..], b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(events(&[(0, &other, wire + 16)]), (WHOLE.map(String::from).to_vec(), Some(Missing::NotTls)));
    }
}
