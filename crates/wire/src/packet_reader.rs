//! Packets of whatever it is that is read: a capture in any format, compressed or not, or tcpdump's
//! text.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::capture::{Capture, CaptureError, Compression, Format, Frame, Interface, Problem, Window, is_erf};
use crate::packet::{NotDecoded, Packet, Plain, Reassembly, Unfinished, descend, plain_segment};
use crate::payload::Payload;
use crate::processes::{Process, Processes};
use crate::segment::Segment;
use crate::shard::Shard;
use crate::tally::{Place, Tally};
use crate::text::{TextCounts, TextReader};

enum Source<'a> {
    Capture(Box<Capture<'a>>),
    Text(Box<TextReader<Window<'a>>>),
}

/// A file or stream being read down to TCP, UDP, ICMP and ARP, with a count of everything else in
/// it.
///
/// The format is recognised by its first bytes, of which nothing is lost: it works on a pipe as on
/// a file.
pub struct PacketReader<'a> {
    source: Source<'a>,
    compression: Compression,
    shard: Shard,
    reassembly: Reassembly,
    segment: Segment,
    payload: Payload,
    processes: Processes,
    not_decoded: Tally<NotDecoded>,
    /// What was wrong with the compression of a text; a capture keeps its own.
    problems: Tally<Problem>,
}

impl<'a> PacketReader<'a> {
    /// Over bytes that are all there, such as a mapped file.
    ///
    /// # Errors
    /// [`CaptureError`] where this is neither a capture that can be read nor text.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, CaptureError> {
        Self::open(Window::over_bytes(bytes)?)
    }

    /// Over a file or a pipe. A packet is given as soon as its last byte, or its line, is there.
    ///
    /// # Errors
    /// [`CaptureError`] where this is neither a capture that can be read nor text, or where reading
    /// fails.
    pub fn from_reader(reader: impl Read + Send + 'a) -> Result<Self, CaptureError> {
        Self::open(Window::over_stream(reader)?)
    }

    /// Over a file that is not compressed, in pieces that other readers may have too; an empty one
    /// is its end.
    ///
    /// # Errors
    /// Those of [`PacketReader::from_reader`].
    pub fn from_pieces(next: impl FnMut() -> io::Result<Arc<Vec<u8>>> + Send + 'a) -> Result<Self, CaptureError> {
        Self::open((Window::over_pieces(next), Compression::None))
    }

    fn open((mut window, compression): (Window<'a>, Compression)) -> Result<Self, CaptureError> {
        // No capture format begins with 4 bytes of text but snoop, which has zeros after its name.
        let held = if window.has(8)? { 8 } else { window.held().len() };
        let start = &window.held()[..held];
        let is_text = held >= 4 && Format::of(start).is_none() && !start.iter().any(|b| matches!(b, 0..=8 | 14..=26));
        // A record of ERF begins with a time, of which every byte may be a letter.
        let is_text = is_text && !is_erf(&mut window)?;
        let source = if is_text {
            Source::Text(Box::new(TextReader::new(window)))
        } else {
            Source::Capture(Box::new(Capture::open((window, compression))?))
        };
        let (not_decoded, problems) = (Tally::default(), Tally::default());
        let (shard, segment, payload) = (Shard::WHOLE, Segment::blank(), Payload::default());
        let (reassembly, processes) = (Reassembly::new(), Processes::default());
        Ok(Self { source, compression, shard, reassembly, segment, payload, processes, not_decoded, problems })
    }

    /// Gives only the segments of one shard from here on. Packets of every other kind are still
    /// given, and counts and problems are those of the whole: each of several readers finds the
    /// same.
    #[must_use]
    pub fn only(mut self, shard: Shard) -> Self {
        self.shard = shard;
        self
    }

    /// The next packet, or `None` at the end. What is no TCP, UDP, ICMP or ARP is counted in
    /// [`PacketReader::not_decoded`] and skipped; what a text has of UDP and ICMP is counted in its
    /// [`TextCounts`].
    ///
    /// # Errors
    /// Where the reader itself fails, and at the end of a text that had no packet in it.
    pub fn next_packet(&mut self) -> Result<Option<Packet<&Segment>>, CaptureError> {
        while let Source::Capture(capture) = &mut self.source {
            let Some(frame) = capture.next_frame()? else { return Ok(None) };
            let at = frame.at;
            let (found, said) = match plain_segment(&frame, &mut self.segment, &self.shard, &self.payload) {
                Some(Plain::Written) => (Some(Packet::Tcp(())), frame.said()),
                Some(Plain::OfOtherShard) => continue,
                None => {
                    let Self { reassembly, segment, payload, not_decoded, shard, .. } = self;
                    let said = frame.said();
                    (open(frame, reassembly, (segment, payload), not_decoded, shard), said)
                }
            };
            if let Some(found) = found {
                if let Packet::Tcp(()) = found {
                    self.processes.take(&self.segment, at, said, capture.process_blocks());
                }
                return Ok(Some(found.with_segment(&self.segment)));
            }
        }
        self.next_of_text()
    }

    /// The processes that the capture names, by their ends of TCP connections.
    pub fn processes(&self) -> BTreeMap<SocketAddr, Process> {
        match &self.source {
            Source::Capture(capture) => self.processes.all(capture.process_blocks()),
            Source::Text(_) => BTreeMap::new(),
        }
    }

    /// The processes that blocks of Wireshark's have described so far, each as number, name, and
    /// start in nanoseconds of Unix time; none where the capture has several sections.
    pub fn described(&self) -> Vec<(u32, String, Option<u64>)> {
        match &self.source {
            Source::Capture(capture) => capture.process_blocks().all(),
            Source::Text(_) => Vec::new(),
        }
    }

    /// Writes the next segments into `room`, as long as they are held and of the commonest form,
    /// and gives how many: quicker than asking for them one by one, and mostly nearly all there
    /// are. What comes then is to be asked for with [`PacketReader::next_packet`].
    pub fn fill(&mut self, room: &mut [Segment]) -> usize {
        let Source::Capture(capture) = &mut self.source else { return 0 };
        let mut filled = 0;
        capture.held_frames(|frame| {
            let Some(segment) = room.get_mut(filled) else { return false };
            let plain = plain_segment(frame, segment, &self.shard, &self.payload);
            filled += usize::from(matches!(plain, Some(Plain::Written)));
            plain.is_some()
        });
        filled
    }

    #[cold]
    fn next_of_text(&mut self) -> Result<Option<Packet<&Segment>>, CaptureError> {
        let Source::Text(text) = &mut self.source else { return Ok(None) };
        while let Some(segment) = text.next_segment()? {
            if !self.shard.has(segment.source, segment.destination) {
                continue;
            }
            self.segment = segment;
            return Ok(Some(Packet::Tcp(&self.segment)));
        }
        if let Some(problem) = text.lines().compression_problem()
            && self.problems.is_empty()
        {
            self.problems.add(problem, Place { packet: text.packets(), offset: text.lines().offset() });
        }
        let counts = text.counts();
        if text.packets() == 0 {
            return Err(CaptureError::NoPacketInText { lines: counts.lines });
        }
        Ok(None)
    }

    /// Whether the conversation between two endpoints is of this shard.
    pub fn has(&self, source: SocketAddr, destination: SocketAddr) -> bool {
        self.shard.has(source, destination)
    }

    /// What DNS, TLS or QUIC have to do with the last packet, where it is one of this shard.
    #[inline]
    pub fn payload(&mut self) -> Option<&mut Payload> {
        self.payload.is_of(self.packets()).then_some(&mut self.payload)
    }

    /// The format found.
    pub fn format(&self) -> Format {
        match &self.source {
            Source::Capture(capture) => capture.format(),
            Source::Text(_) => Format::Text,
        }
    }

    /// The compression found.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Packets met so far, of every kind.
    pub fn packets(&self) -> u64 {
        match &self.source {
            Source::Capture(capture) => capture.packets(),
            Source::Text(text) => text.packets(),
        }
    }

    /// Bytes of the decompressed stream read so far.
    pub fn offset(&self) -> u64 {
        match &self.source {
            Source::Capture(capture) => capture.offset(),
            Source::Text(text) => text.lines().offset(),
        }
    }

    /// The interfaces met so far; a text has none.
    pub fn interfaces(&self) -> &[Interface] {
        match &self.source {
            Source::Capture(capture) => capture.interfaces(),
            Source::Text(_) => &[],
        }
    }

    /// What was wrong with the file so far, by kind, with packet numbers and byte offsets.
    pub fn problems(&self) -> &Tally<Problem> {
        match &self.source {
            Source::Capture(capture) => capture.problems(),
            Source::Text(_) => &self.problems,
        }
    }

    /// The packets that were not read down to TCP, UDP, ICMP or ARP so far, by what they are
    /// instead or why. Fragments that were held are among them, since the packet they make is given
    /// once.
    pub fn not_decoded(&self) -> &Tally<NotDecoded> {
        &self.not_decoded
    }

    /// The fragments under way and what was lost of them.
    pub fn reassembly(&self) -> &Reassembly {
        &self.reassembly
    }

    /// The packets of which fragments are missing: those that were given up since this was asked
    /// last.
    pub fn take_unfinished(&mut self) -> Vec<Unfinished> {
        self.reassembly.take_unfinished()
    }

    /// Whether this reader has what cannot be divided among several.
    pub fn has_the_rest(&self) -> bool {
        self.shard.is_first()
    }

    /// How many lines of a text were of what kind; `None` for a capture.
    pub fn text_counts(&self) -> Option<TextCounts> {
        match &self.source {
            Source::Capture(_) => None,
            Source::Text(text) => Some(text.counts()),
        }
    }

    /// The host's name that a made-up address of a text stands for.
    pub fn name(&self, address: IpAddr) -> Option<&str> {
        match &self.source {
            Source::Capture(_) => None,
            Source::Text(text) => text.name(address),
        }
    }
}

/// What is in a frame of another form than [`plain_segment`] reads; a segment is in `segment` then.
/// `None` where it was counted in `not_decoded` or is of another shard. It takes the frame by
/// value: a reference to it would force every frame into memory for the sake of the few that come
/// here.
#[inline(never)]
fn open(
    frame: Frame<'_>,
    reassembly: &mut Reassembly,
    (segment, payload): (&mut Segment, &mut Payload),
    not_decoded: &mut Tally<NotDecoded>,
    shard: &Shard,
) -> Option<Packet<()>> {
    let number = frame.number;
    match descend(&frame, reassembly, segment, payload) {
        Ok(Packet::Tcp(())) if !shard.has(segment.source, segment.destination) => None,
        Ok(packet) => {
            if payload.is_of(number) {
                payload.leave_to_others(shard);
            }
            Some(packet)
        }
        Err(why) => {
            not_decoded.add(why, Place { packet: frame.number, offset: frame.offset });
            None
        }
    }
}
