//! `wirelapse trace -r FILE`: the packets of a file, a line each, with what the trace knew of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use capture::PacketFilter;
use record::{ClockReading, SeqNumber};
use wire::capture::flag;
use wire::packet::Icmp;
use wire::{Capture, Flags, Frame, LinkType, NotDecoded, Packet, Reassembly, Segment, dissect};

use super::packets::Options;
use crate::exit::{BadInput, is_closed_pipe};
use crate::output::{self, harmless, note};

/// Prints the packets of a file.
///
/// # Errors
/// Where it cannot be read, or is no capture.
pub fn print(path: &Path, of: &Options) -> anyhow::Result<()> {
    let file = File::open(path).map_err(|error| BadInput(format!("cannot read {}: {error}", path.display())))?;
    let mut filters = Filters { expression: of.filter.as_deref(), of: HashMap::new() };
    // What libpcap has to look up is looked up while that is possible.
    filters.of(LinkType::RAW)?;
    filters.of(LinkType::ETHERNET)?;
    rights::keep_for_decoding([], false)?;
    let begun = Capture::from_reader(file);
    let mut capture = begun.map_err(|error| BadInput(format!("cannot read {}: {error}", path.display())))?;
    let mut out = BufWriter::new(output::stdout().lock());
    let mut lines = Lines::default();
    let mut printed = 0;
    let done = loop {
        if of.count.is_some_and(|most| printed >= most) {
            break Ok(());
        }
        let frame = match capture.next_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) => break Ok(()),
            Err(error) => break Err(anyhow::Error::new(error).context(format!("cannot read {}", path.display()))),
        };
        // Sequence numbers are counted by what is not printed, too.
        let (time, rest) = lines.line(&frame);
        if let Some(filter) = filters.of(frame.link_type)?
            && !filter.passes(frame.data, frame.original_length)
        {
            continue;
        }
        printed += 1;
        let interface = frame.interface as usize;
        let name = capture.interfaces().get(interface).and_then(|of| of.name.as_deref());
        let name = name.map_or_else(String::new, |name| format!("{} ", harmless(name)));
        if let Err(error) = writeln!(out, "{time} {name}{}", harmless(&rest)) {
            break Err(error.into());
        }
    };
    let done = done.and_then(|()| Ok(out.flush()?));
    let problems = capture.problems().total();
    if problems > 0 {
        note(&format!("{} of {} could not be read", quantity::counted(problems, "block"), path.display()));
    }
    // Whoever closes the pipe has seen enough.
    done.or_else(|error| if is_closed_pipe(&error) { Ok(()) } else { Err(error) })
}

/// A filter for each link type of a file.
struct Filters<'a> {
    expression: Option<&'a str>,
    of: HashMap<LinkType, PacketFilter>,
}

impl Filters<'_> {
    fn of(&mut self, link: LinkType) -> anyhow::Result<Option<&PacketFilter>> {
        let Some(expression) = self.expression else { return Ok(None) };
        Ok(Some(match self.of.entry(link) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => {
                let filter = PacketFilter::new(link, expression).map_err(|error| BadInput(error.to_string()))?;
                place.insert(filter)
            }
        }))
    }
}

/// Lines as tcpdump has them: sequence numbers count from the first of their direction.
#[derive(Default)]
struct Lines {
    reassembly: Reassembly,
    first: HashMap<(SocketAddr, SocketAddr), SeqNumber>,
}

impl Lines {
    /// The time of a packet, and what stands behind its interface.
    fn line(&mut self, frame: &Frame<'_>) -> (String, String) {
        let time = frame.at.map_or_else(|| "-".into(), |at| time_of_day(at.as_nanos()));
        let way = match frame.flags() & 3 {
            flag::INBOUND => "In ",
            flag::OUTBOUND => "Out ",
            _ => "",
        };
        let what = match dissect(frame, &mut self.reassembly) {
            Ok(Packet::Tcp(segment)) => self.segment(&segment),
            Ok(Packet::Udp(udp)) => {
                format!("{}: UDP, length {}", ends(udp.source, udp.destination), udp.payload)
            }
            Ok(Packet::Icmp(icmp)) => self::icmp(&icmp, frame.original_length),
            Ok(Packet::Arp(_)) => format!("ARP, length {}", frame.original_length),
            Err(NotDecoded::FragmentHeld | NotDecoded::FragmentLost) => {
                let hosts = hosts(frame.data).filter(|_| frame.link_type == LinkType::RAW);
                let hosts = hosts.map_or_else(String::new, |(from, to)| format!("IP {from} > {to}: "));
                format!("{hosts}fragment, length {}", frame.original_length)
            }
            Err(_) => format!("not decoded, length {}", frame.original_length),
        };
        let comments: String = frame.comments().fold(String::new(), |all, comment| all + "  " + comment);
        (time, format!("{way}{what}{comments}"))
    }

    fn segment(&mut self, of: &Segment) -> String {
        let syn = of.flags.contains(Flags::SYN);
        let way = (of.source, of.destination);
        if syn {
            self.first.insert(way, of.seq);
        }
        let first = *self.first.entry(way).or_insert(of.seq);
        let relative = |seq: SeqNumber| seq.0.wrapping_sub(first.0);
        let mut line = format!("{}: Flags [{}]", ends(of.source, of.destination), letters(of.flags));
        let _ = match (of.payload, syn) {
            (_, true) => write!(line, ", seq {}", of.seq.0),
            (0, _) => write!(line, ", seq {}", relative(of.seq)),
            (bytes, _) => write!(line, ", seq {}:{}", relative(of.seq), relative(of.seq.add(bytes))),
        };
        if of.flags.contains(Flags::ACK) {
            let first = self.first.get(&(way.1, way.0));
            let ack = first.filter(|_| !syn).map_or(of.ack.0, |first| of.ack.0.wrapping_sub(first.0));
            let _ = write!(line, ", ack {ack}");
        }
        let _ = write!(line, ", win {}, length {}", of.window, of.payload);
        line
    }
}

/// `IP 10.0.0.9 > 10.0.0.1: ICMP port unreachable, about 10.0.0.1.40000 > 10.0.0.2.53, length 56`.
fn icmp(of: &Icmp, length: u32) -> String {
    let version = if of.v6 { "6" } else { "" };
    let mut line = format!("IP{version} {} > {}: ICMP{version}", of.source, of.destination);
    if of.is_error() {
        line += &format!(" {}", Icmp::meaning(of.v6, of.kind, of.code));
    }
    if let Some(mtu) = of.next_hop_mtu {
        line += &format!(" (mtu {mtu})");
    }
    if let Some(quoted) = of.quoted {
        let both = ends(quoted.source, quoted.destination);
        line += &format!(", about {}", both.split_once(' ').map_or(&*both, |(_, ends)| ends));
    }
    line + &format!(", length {length}")
}

/// Sender and receiver of a packet that begins with its IP header (RFC 791, RFC 8200).
fn hosts(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let v4 = |at: usize| Some(IpAddr::from(*packet.get(at..)?.first_chunk::<4>()?));
    let v6 = |at: usize| Some(IpAddr::from(*packet.get(at..)?.first_chunk::<16>()?));
    match packet.first()? >> 4 {
        4 => v4(12).zip(v4(16)),
        _ => v6(8).zip(v6(24)),
    }
}

/// `S.` for SYN and ACK.
fn letters(flags: Flags) -> String {
    const LETTERS: [(Flags, char); 8] = [
        (Flags::FIN, 'F'),
        (Flags::SYN, 'S'),
        (Flags::RST, 'R'),
        (Flags::PSH, 'P'),
        (Flags::ACK, '.'),
        (Flags::URG, 'U'),
        (Flags::ECE, 'E'),
        (Flags::CWR, 'W'),
    ];
    let set: String = LETTERS.into_iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, letter)| letter).collect();
    if set.is_empty() { "none".into() } else { set }
}

/// `IP 10.0.0.1.80 > 10.0.0.2.4000`.
fn ends(source: SocketAddr, destination: SocketAddr) -> String {
    let protocol = if source.is_ipv6() { "IP6" } else { "IP" };
    let end = |of: SocketAddr| format!("{}.{}", of.ip(), of.port());
    format!("{protocol} {} > {}", end(source), end(destination))
}

/// `16:23:47.394484594`, in UTC.
fn time_of_day(ns: u64) -> String {
    let clock = ClockReading { realtime_offset_ns: 0, realtime_offset_error_ns: 0 };
    let millis = clock.time_of_day(ns);
    let seconds = millis.split('.').next().unwrap_or_default();
    format!("{seconds}.{:09}", ns % 1_000_000_000)
}
