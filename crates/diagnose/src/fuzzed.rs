//! Targets of fuzzing: any bytes, through each entry that takes foreign ones.

use wire::{Packet, PacketReader};

use crate::{Follower, Keep, Options, compare};

/// A capture in any format: every connection and all of DNS followed, and each reported.
pub fn connections(bytes: &[u8]) {
    let options = Options { connections: 1000, keep: Keep::First(4, 1000), ..Options::default() };
    let mut follower = Follower::new(options);
    let Ok(mut packets) = PacketReader::from_bytes(bytes) else { return };
    while let Ok(Some(packet)) = packets.next_packet() {
        if let Packet::Tcp(segment) = packet {
            follower.take(segment);
            follower.dns.reaches(segment.at.as_nanos());
        }
        if let Some(payload) = packets.payload() {
            follower.dns.take(payload);
        }
    }
    let dns = follower.dns.analysis();
    for lookup in dns.lookups() {
        assert!(lookup.tries > 0 && lookup.answered_try.is_none_or(|n| n <= lookup.tries), "{lookup:?}");
        assert_eq!(lookup.took_ns.is_some(), lookup.answered_try.is_some(), "{lookup:?}");
    }
    assert!(dns.findings().iter().all(|f| f.count > 0 && !f.text.is_empty()));
    let reports: Vec<_> = follower.reports().collect();
    for report in &reports {
        let _ = format!("{report:?}");
    }
    if let [a, b, ..] = &reports[..] {
        let _ = compare(a, b);
    }
}

#[cfg(test)]
mod tests {
    use tier::corpus::replay;

    #[test]
    fn corpora() {
        replay("connections", super::connections);
        replay("capture", super::connections);
    }
}
