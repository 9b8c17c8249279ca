//! The recorded capture with something missing: what it no longer shows is not said.

use diagnose::{Follower, Options};
use record::quic::{Outcome, QuicFindingKind as Kind, Spin};
use wire::capture::{write_pcap_header, write_pcap_record};
use wire::packet::dissect;
use wire::{Capture, Frame, LinkType, Packet, PacketReader, Reassembly, Shard};

use super::{Read, file, of, read};
use crate::dns::made::follow;

/// The packets from one number to another, as a file of its own, with what `change` leaves of each;
/// `None` for one that is left out. It is told whether it comes from a server.
fn some(from: u64, to: u64, change: impl Fn(&Frame<'_>, bool) -> Option<Vec<u8>>) -> Vec<u8> {
    let bytes = file();
    let (mut capture, mut out) = (Capture::from_bytes(&bytes).unwrap(), Vec::new());
    write_pcap_header(&mut out, LinkType::ETHERNET).unwrap();
    while let Some(frame) = capture.next_frame().unwrap() {
        if !(from..=to).contains(&frame.number) {
            continue;
        }
        let is_server =
            matches!(dissect(&frame, &mut Reassembly::new()), Ok(Packet::Udp(udp)) if udp.source.port() == 443);
        if let Some(data) = change(&frame, is_server) {
            write_pcap_record(&mut out, frame.at.unwrap(), frame.original_length, &data).unwrap();
        }
    }
    out
}

fn whole(frame: &Frame<'_>, _: bool) -> Option<Vec<u8>> {
    Some(frame.data.to_vec())
}

/// The first connection.
const PLAIN: (u64, u64) = (3, 57);

#[test]
fn packets_that_were_cut_short_have_times_and_no_names() {
    let read = read(&some(PLAIN.0, PLAIN.1, |frame, _| Some(frame.data[..frame.data.len().min(256)].to_vec())));
    let c = read.only();
    assert_eq!((c.outcome, c.name.as_deref(), c.version.as_str()), (Outcome::Done, None, "QUIC v1"));
    assert!(c.withheld.as_ref().is_some_and(|why| why.contains("cannot be decrypted")), "{c:#?}");
    assert_eq!((c.hello_ns.map(|took| took.0 / 1_000), c.client_bytes), (Some(60_419), 3_393), "{c:#?}");
    assert_eq!((c.spin, read.kinds()), (Spin::Spins, vec![]), "{c:#?}");
}

#[test]
fn a_connection_whose_beginning_is_missing_says_so() {
    let read = read(&some(PLAIN.0 + 1, PLAIN.1, whole));
    let c = read.only();
    assert_eq!((c.name.as_deref(), c.server.port(), c.hello_ns), (None, 443, None));
    assert!(c.withheld.as_ref().is_some_and(|why| why.contains("first packet")), "{c:#?}");
    assert_eq!(read.findings, []);
    // What its server may send depends on what is missing.
    let large = self::read(&some(369, 432, whole));
    assert_eq!((large.only().limited_ns.0, large.kinds()), (0, vec![]), "{large:#?}");
    // Behind its long headers, nothing says what it is.
    let late = self::read(&some(12, PLAIN.1, whole));
    assert_eq!((late.connections.len(), late.findings.len()), (0, 0));
}

#[test]
fn one_direction_is_no_silent_server() {
    // The client has its answer, and goes on.
    let alone = read(&some(PLAIN.0, PLAIN.1, |frame, is_server| if is_server { None } else { whole(frame, false) }));
    let c = alone.only();
    assert_eq!((c.outcome, c.server_datagrams, alone.kinds()), (Outcome::NotKnown, 0, vec![]), "{c:#?}");
    assert!(c.withheld.as_ref().is_some_and(|why| why.contains("one direction only")), "{c:#?}");
    // Of one whose first datagram was lost: the client asked again, and then had its answer.
    let again = read(&some(231, 286, |frame, is_server| if is_server { None } else { whole(frame, false) }));
    assert_eq!(
        (again.only().outcome, again.only().probes, again.kinds()),
        (Outcome::NotKnown, 1, vec![]),
        "{again:#?}"
    );
    // The server's alone: who the client is, its port says.
    let back = read(&some(PLAIN.0, PLAIN.1, |frame, is_server| if is_server { whole(frame, true) } else { None }));
    let c = back.only();
    assert_eq!((c.outcome, c.name.as_deref(), c.server.port()), (Outcome::NotKnown, None, 443), "{c:#?}");
    assert_eq!((c.server_datagrams, back.kinds()), (32, vec![]), "{c:#?}");
}

#[test]
fn a_capture_that_ends_with_a_hello_names_nobody_silent_within_a_second() {
    // Of the one whose packets are blocked, up to a hello within the first second.
    let read = read(&some(287, 289, whole));
    let c = read.only();
    assert_eq!((c.outcome, read.kinds()), (Outcome::NotKnown, vec![]), "{c:#?}");
    assert!(c.withheld.as_ref().is_some_and(|why| why.contains("no packet to this client")), "{c:#?}");
    // With the answer of DNS before, and with TCP after it.
    let ends = self::read(&some(285, 289, whole));
    assert_eq!((ends.only().outcome, ends.kinds()), (Outcome::NotKnown, vec![]), "{ends:#?}");
    assert!(ends.only().withheld.as_ref().is_some_and(|why| why.contains("the capture ends")), "{ends:#?}");
    // One that has asked again for more than a second had no answer, wherever the capture ends.
    let asked = self::read(&some(287, 290, whole));
    let c = asked.only();
    assert_eq!((c.outcome, c.probes, asked.kinds()), (Outcome::Unanswered, 3, vec![Kind::Unanswered]), "{c:#?}");
    // It went on with TCP 650 ms after its last hello.
    let fell_back = self::read(&some(287, 310, whole));
    assert_eq!((fell_back.only().outcome, fell_back.kinds()), (Outcome::Unanswered, vec![Kind::Unanswered]));
}

#[test]
fn copies_that_the_capture_made_are_no_probes() {
    let doubled = |frame: &Frame<'_>, _| Some(frame.data.to_vec());
    let (file, mut twice) = (some(PLAIN.0, PLAIN.1, doubled), Vec::new());
    let mut capture = Capture::from_bytes(&file).unwrap();
    write_pcap_header(&mut twice, LinkType::ETHERNET).unwrap();
    while let Some(frame) = capture.next_frame().unwrap() {
        for _ in 0..2 {
            write_pcap_record(&mut twice, frame.at.unwrap(), frame.original_length, frame.data).unwrap();
        }
    }
    let read = read(&twice);
    assert_eq!((read.only().probes, read.only().hello_datagrams, read.kinds()), (0, 1, vec![]), "{read:#?}");
}

#[test]
fn a_server_that_was_not_seen_to_be_let_go_is_not_held() {
    // Of the large certificate, without the client's ACKs: the server goes on by itself.
    let read = read(&some(368, 432, |frame, is_server| {
        (is_server || !(372..=374).contains(&frame.number)).then(|| frame.data.to_vec())
    }));
    assert!(!read.kinds().contains(&Kind::Limit), "{read:#?}");
}

#[test]
fn the_outcome_does_not_depend_on_how_many_readers_there_are() {
    let bytes = file();
    let options = Options { shards: 3, ..Options::default() };
    let parts = Shard::all(3, 7).map(|part| follow(PacketReader::from_bytes(&bytes).unwrap().only(part), options));
    let joined = parts.reduce(Follower::join).unwrap();
    let alone: Read = read(&bytes);
    assert_eq!(of(&joined), alone);
}

#[test]
fn packets_that_are_damaged_give_no_name_and_what_headers_say() {
    // One byte of each first packet is another: its protection no longer fits.
    let read = read(&some(1, u64::MAX, |frame, _| {
        let mut data = frame.data.to_vec();
        if data.len() > 1_200 {
            data[300] ^= 1;
        }
        Some(data)
    }));
    assert!(read.connections.iter().all(|c| c.name.is_none()), "{read:#?}");
    let by_header = [Kind::Retry, Kind::Version, Kind::Moved, Kind::Pause];
    assert!(read.kinds().iter().all(|kind| by_header.contains(kind)), "{:#?}", read.findings);
}

/// The connection whose client moves, with another connection ID in what it sends after that.
fn moves_with_another_id() -> Read {
    let (bytes, moves) = (file(), 433..=493);
    let (mut capture, mut out) = (Capture::from_bytes(&bytes).unwrap(), Vec::new());
    write_pcap_header(&mut out, LinkType::ETHERNET).unwrap();
    let mut old = None;
    while let Some(frame) = capture.next_frame().unwrap() {
        if !moves.contains(&frame.number) {
            continue;
        }
        let mut data = frame.data.to_vec();
        let Ok(Packet::Udp(udp)) = dissect(&frame, &mut Reassembly::new()) else { continue };
        let client = if udp.source.port() == 443 { udp.destination } else { udp.source };
        if *old.get_or_insert(client) != client {
            // Behind the first byte.
            data[DATAGRAM + 1] ^= 0xff;
        }
        write_pcap_record(&mut out, frame.at.unwrap(), frame.original_length, &data).unwrap();
    }
    read(&out)
}

#[test]
fn a_client_that_moves_with_another_connection_id_may_have_moved() {
    let read = moves_with_another_id();
    let c = read.only();
    assert_eq!((c.moves, read.kinds()), (0, vec![]), "{c:#?}");
    let why = c.withheld.as_deref().unwrap_or_default();
    assert!(why.starts_with("datagrams from 203.0.113.5:36979 to this server begin"), "{c:#?}");
    assert!(read.totals.without_beginning > 0);
}

/// Where a datagram begins behind Ethernet, IPv4 and UDP.
const DATAGRAM: usize = 14 + 20 + 8;

#[test]
fn packets_without_the_fixed_bit_are_of_their_connection() {
    // Of all that is protected (RFC 9287).
    let greased = read(&some(PLAIN.0, PLAIN.1, |frame, _| {
        let mut data = frame.data.to_vec();
        if data[DATAGRAM] & 0x80 == 0 {
            data[DATAGRAM] &= !0x40;
        }
        Some(data)
    }));
    assert_eq!(greased, read(&some(PLAIN.0, PLAIN.1, whole)));
}

#[test]
fn a_client_goes_by_the_first_version_negotiation() {
    let (bytes, mut out, mut changed) = (file(), Vec::new(), false);
    let mut capture = Capture::from_bytes(&bytes).unwrap();
    write_pcap_header(&mut out, LinkType::ETHERNET).unwrap();
    while let Some(frame) = capture.next_frame().unwrap() {
        if !(311..=367).contains(&frame.number) {
            continue;
        }
        write_pcap_record(&mut out, frame.at.unwrap(), frame.original_length, frame.data).unwrap();
        if frame.data.get(DATAGRAM + 1..DATAGRAM + 5) == Some(&[0; 4]) && !changed {
            // Another one that names other versions.
            let mut other = frame.data.to_vec();
            *other.last_mut().unwrap() ^= 0x0a;
            write_pcap_record(&mut out, frame.at.unwrap(), frame.original_length, &other).unwrap();
            changed = true;
        }
    }
    let (twice, once) = (read(&out), read(&some(311, 367, whole)));
    assert!(changed);
    assert_eq!(twice.only().server_versions, once.only().server_versions);
    assert_eq!((twice.only().negotiation_ns, twice.kinds()), (once.only().negotiation_ns, once.kinds()));
}
