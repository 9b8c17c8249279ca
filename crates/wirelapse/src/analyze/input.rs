//! Where packets come from: a file or standard input, read to segments, with everything that was not understood.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use diagnose::Follower;
use wire::capture::Interface;
use wire::{Capture, CaptureError, Packet, Place, Reassembly, Segment, Tally, TextReader, Unread};

use crate::exit::BadInput;

/// What to read.
#[derive(Clone, Debug)]
pub enum Source {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

impl Source {
    /// `-` is standard input.
    pub fn from_argument(path: &Path) -> Self {
        if path.as_os_str() == "-" { Self::Stdin } else { Self::File(path.to_owned()) }
    }

    fn name(&self) -> String {
        match self {
            Self::Stdin => "standard input".into(),
            Self::File(path) => path.display().to_string(),
        }
    }

    fn open(&self) -> anyhow::Result<BufReader<Box<dyn Read + Send>>> {
        let bytes: Box<dyn Read + Send> = match self {
            Self::Stdin => Box::new(io::stdin()),
            Self::File(path) => Box::new(File::open(path).map_err(|e| BadInput(format!("{}: {e}", self.name())))?),
        };
        Ok(BufReader::with_capacity(1 << 16, bytes))
    }

    /// Opens it as a capture.
    pub fn capture(&self) -> anyhow::Result<Capture<'static>> {
        Capture::from_reader(self.open()?).map_err(|e| self.bad(&e))
    }

    fn bad(&self, error: &CaptureError) -> anyhow::Error {
        BadInput(format!("{}: {error}", self.name())).into()
    }
}

/// The bytes of a capture that can be read in place: a regular file, not packed, not text.
///
/// A file that another program cuts short meanwhile ends the process with SIGBUS; one that grows is read to the size that
/// it had at the start.
fn mapped(source: &Source) -> Option<memmap2::Mmap> {
    let Source::File(path) = source else { return None };
    let file = File::open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    // SAFETY: the map is only read, and as bytes, of which every value is valid; other programs that write to the file
    // change what is read, as they would with `read`.
    let map = unsafe { memmap2::Mmap::map(&file) }.ok()?;
    // Told in advance, the kernel maps what lies ahead in large steps.
    let _ = map.advise(memmap2::Advice::Sequential);
    let packed = wire::capture::Packing::detect(&map) != wire::capture::Packing::None;
    (!packed && !is_text(&map[..map.len().min(1 << 16)])).then_some(map)
}

/// What was read beside the segments.
#[derive(Debug, Default)]
pub struct Reading {
    name: String,
    format: String,
    /// Packets of the capture.
    pub packets: u64,
    /// UDP and ICMP.
    other: u64,
    /// Damage, in words, with its first place and how often.
    problems: Vec<(String, Place, u64)>,
    unread: Tally<Unread>,
    /// The interfaces that the capture describes.
    pub interfaces: Vec<Interface>,
    /// Names of the hosts in a text dump, by the addresses that stand for them.
    names: BTreeMap<IpAddr, String>,
}

/// Reads every segment of `source`.
///
/// # Errors
/// Where nothing can be read; damage further on is counted in the [`Reading`].
pub fn read(source: &Source, take: impl FnMut(&Segment)) -> anyhow::Result<Reading> {
    if let Some(map) = mapped(source) {
        let capture = Capture::from_bytes(&map).map_err(|e| source.bad(&e))?;
        return read_capture(source, capture, take);
    }
    let mut bytes = source.open()?;
    if is_text(bytes.fill_buf().map_err(|e| BadInput(format!("{}: {e}", source.name())))?) {
        return read_text(source, bytes, take);
    }
    let capture = Capture::from_reader(bytes).map_err(|e| source.bad(&e))?;
    read_capture(source, capture, take)
}

fn read_capture(source: &Source, mut capture: Capture<'_>, mut take: impl FnMut(&Segment)) -> anyhow::Result<Reading> {
    let mut reading = Reading { name: source.name(), format: capture.format().to_string(), ..Reading::default() };
    let mut reassembly = Reassembly::new();
    loop {
        let frame = match capture.next_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            Err(error) if reading.packets == 0 => return Err(source.bad(&error)),
            Err(error) => {
                let place = Place { packet: reading.packets, offset: capture.offset() };
                reading.problems.push((error.to_string(), place, 1));
                break;
            }
        };
        reading.packets += 1;
        match wire::dissect(&frame, &mut reassembly) {
            Ok(Packet::Tcp(segment)) => take(&segment),
            Ok(_) => reading.other += 1,
            Err(Unread::FragmentHeld) => {}
            Err(why) => reading.unread.add(why, Place { packet: frame.number, offset: frame.offset }),
        }
    }
    for (problem, count) in capture.problems().iter() {
        reading.problems.push((problem.to_string(), count.first.first().copied().unwrap_or_default(), count.count));
    }
    reading.interfaces = capture.interfaces().to_vec();
    Ok(reading)
}

/// All capture formats and packings have bytes in their first few that no text has.
fn is_text(start: &[u8]) -> bool {
    let whole = match std::str::from_utf8(start) {
        Ok(_) => true,
        // Cut in mid-character by the buffer's end.
        Err(e) => e.error_len().is_none() && e.valid_up_to() > 0,
    };
    whole && !start.is_empty() && !start.contains(&0)
}

fn read_text(source: &Source, bytes: impl BufRead, mut take: impl FnMut(&Segment)) -> anyhow::Result<Reading> {
    let mut reading = Reading { name: source.name(), format: "tcpdump text".into(), ..Reading::default() };
    let mut text = TextReader::new(bytes);
    while let Some(segment) = text.next_segment().map_err(|e| BadInput(format!("{}: {e}", source.name())))? {
        take(&segment);
        for address in [segment.source.ip(), segment.destination.ip()] {
            if !reading.names.contains_key(&address)
                && let Some(name) = text.name(address)
            {
                reading.names.insert(address, name.to_owned());
            }
        }
    }
    let counts = text.counts();
    if counts.segments == 0 {
        let what = "neither a capture nor text with a TCP packet of tcpdump's in it";
        return Err(BadInput(format!("{}: {what} ({} lines read)", source.name(), counts.lines)).into());
    }
    (reading.packets, reading.other) = (counts.segments + counts.other_packets, counts.other_packets);
    if counts.beyond_limits > 0 {
        reading.problems.push((
            "segments of too many hosts or connections".into(),
            Place::default(),
            counts.beyond_limits,
        ));
    }
    Ok(reading)
}

impl Reading {
    /// An endpoint by the name that a text dump has for it, or by its address.
    pub fn endpoint(&self, at: SocketAddr) -> String {
        self.names.get(&at.ip()).map_or_else(|| at.to_string(), |name| format!("{name}.{}", at.port()))
    }

    /// For a live capture that has not begun.
    pub fn live(name: &str) -> Self {
        Self { name: name.into(), format: "live".into(), ..Self::default() }
    }

    /// Takes a packet of a live capture that is no TCP segment.
    pub fn not_tcp(&mut self, why: Option<Unread>) {
        match why {
            Some(Unread::FragmentHeld) => {}
            Some(why) => self.unread.add(why, Place { packet: self.packets, offset: 0 }),
            None => self.other += 1,
        }
    }

    /// Packets that a live capture dropped before they could be read.
    pub fn dropped(&mut self, count: u64) {
        if count > 0 {
            let place = Place { packet: self.packets, offset: 0 };
            self.problems.push(("packets dropped before they could be read".into(), place, count));
        }
    }

    /// Warns of what was not read on standard error.
    pub fn warn(&self) {
        for (problem, place, count) in &self.problems {
            eprintln!("wirelapse: warning: {}: {place}: {problem} ({count} in all)", self.name);
        }
        // What is well-formed and merely not TCP (ARP, say) is counted in the output and needs no warning.
        for (why, count) in self.unread.iter().filter(|(why, _)| why.class() != Some(wire::Class::Unsupported)) {
            let place = count.first.first().copied().unwrap_or_default();
            eprintln!("wirelapse: warning: {}: {place}: {why} ({} in all)", self.name, count.count);
        }
    }

    /// What was lost or could not be read, in words, with how often.
    pub fn unread(&self) -> Vec<String> {
        let problems = self.problems.iter().map(|(what, place, n)| format!("{place}: {what} (n = {n})"));
        let unread = self.unread.iter().map(|(why, c)| {
            let place = c.first.first().copied().unwrap_or_default();
            format!("{place}: {why} (n = {})", c.count)
        });
        problems.chain(unread).collect()
    }

    /// The line on the capture.
    pub fn json(&self, file: &str, follower: &Follower) -> serde_json::Value {
        let entry = |what: String, place: Place, count: u64| serde_json::json!({"what": what, "count": count, "first_packet": place.packet, "first_byte": place.offset});
        let unread: Vec<_> = self
            .unread
            .iter()
            .map(|(why, c)| entry(why.to_string(), c.first.first().copied().unwrap_or_default(), c.count))
            .collect();
        let problems: Vec<_> =
            self.problems.iter().map(|(what, place, count)| entry(what.clone(), *place, *count)).collect();
        serde_json::json!({
            "kind": "capture",
            "file": file,
            "format": self.format,
            "packets": self.packets,
            "connections": follower.len(),
            "totals": follower.totals(),
            "not_tcp": self.other,
            "not_read": unread,
            "problems": problems,
            "names": self.names,
        })
    }
}
