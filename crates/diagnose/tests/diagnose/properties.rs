//! What holds for any sequence of segments whatsoever.

use crate::conversation;
use std::net::SocketAddr;

use crate::conversation::{Bulk, Script, check};
use diagnose::{Follower, Keep, Options};
use proptest::prelude::*;
use record::{Instant, SeqNumber};
use wire::{Flags, Integrity, Network, SackBlocks, Segment, TcpOptions};

fn json(report: &diagnose::Report) -> String {
    let mut out = Vec::new();
    report.write_json(&mut out);
    String::from_utf8(out).unwrap()
}

fn segment() -> impl Strategy<Value = Segment> {
    // Small numbers, so that segments meet; and now and then any number at all.
    let number = || prop_oneof![6 => 0u32..6_000, 1 => any::<u32>(), 1 => u32::MAX - 3_000..=u32::MAX];
    let header = (
        any::<bool>(),
        0u16..3,
        number(),
        number(),
        0u16..0x200,
        any::<u16>(),
        prop_oneof![3 => 0u32..3_000, 1 => any::<u32>()],
    );
    let options = (
        any::<Option<u16>>(),
        any::<Option<u8>>(),
        any::<Option<(Option<u32>, Option<u32>)>>(),
        prop::collection::vec((number(), number()), 0..4),
        any::<bool>(),
    );
    let rest = (any::<u8>(), any::<Option<u16>>(), 20u8..=60, prop_oneof![4 => 0u64..2_000_000, 1 => any::<u64>()]);
    (header, options, rest).prop_map(
        |(
            (back, port, seq, ack, flags, window, payload),
            (mss, scale, stamps, blocks, cut),
            (ttl, id, header_bytes, wait),
        )| {
            let a: SocketAddr = format!("10.0.0.1:{}", 40_000 + port).parse().unwrap();
            let b: SocketAddr = "[2001:db8::1]:80".parse().unwrap();
            let mut sack = SackBlocks::default();
            for (l, r) in blocks {
                sack.push(SeqNumber(l), SeqNumber(r));
            }
            Segment {
                number: 0,
                at: Instant::from_nanos(wait),
                source: if back { b } else { a },
                destination: if back { a } else { b },
                seq: SeqNumber(seq),
                ack: SeqNumber(ack),
                flags: Flags::from_bits_truncate(flags),
                window,
                header_bytes,
                payload,
                options: TcpOptions {
                    mss,
                    window_scale: scale,
                    timestamps: stamps,
                    sack,
                    cut,
                    ..TcpOptions::default()
                },
                network: Network { ttl, id, ..Network::default() },
                integrity: [Integrity::Right, Integrity::NotChecked, Integrity::Offloaded, Integrity::Wrong]
                    [(window & 7).min(3) as usize],
            }
        },
    )
}

proptest! {
    #[test]
    fn shares_add_up_and_payload_is_unique_or_retransmitted(mut segments in prop::collection::vec(segment(), 1..120), ordered: bool) {
        let mut at = 0u64;
        for (i, s) in segments.iter_mut().enumerate() {
            s.number = i as u64 + 1;
            if ordered {
                at = at.saturating_add(s.at.as_nanos());
                s.at = Instant::from_nanos(at);
            }
        }
        let mut follower = Follower::new(Options { keep: Keep::First(3, 50), ..Options::default() });
        segments.iter().for_each(|s| follower.take(s));
        let (mut packets, mut payload, mut copies, mut damaged) = (0, 0, 0, 0);
        for report in follower.reports() {
            check(&report);
            for d in [&report.to_server, &report.to_client] {
                packets += d.packets;
                copies += d.capture_copies;
                damaged += d.damaged_packets;
                payload += d.unique_bytes + d.retransmitted_bytes;
                prop_assert_eq!(d.header_bytes.0.iter().map(|h| u64::from(h.1)).sum::<u64>(), d.packets);
                prop_assert!(u64::from(d.spurious_retransmissions) <= d.retransmitted_packets);
            }
            prop_assert!(serde_json::from_str::<serde_json::Value>(&json(&report)).is_ok());
        }
        prop_assert_eq!(packets + copies, segments.len() as u64);
        // Copies, damaged packets and RSTs count as packets, not as payload.
        let sent: u64 = segments.iter().map(|s| u64::from(s.payload)).sum();
        let not_data: u64 = segments.iter().filter(|s| s.flags.contains(Flags::RST)).map(|s| u64::from(s.payload)).sum();
        prop_assert!(payload <= sent && (copies > 0 || damaged > 0 || payload >= sent - not_data), "{} of {} ({} in resets)", payload, sent, not_data);
    }

    #[test]
    fn losses_are_all_found(lost in prop::collection::btree_set(20u64..380, 0..6), rtt in 5u64..80) {
        let mut script = Script::new();
        let lost: Vec<u64> = lost.into_iter().collect();
        Bulk { lost: lost.clone(), segments: 400, rtt: rtt * conversation::MS, ..Bulk::default() }.run(&mut script);
        let report = script.report();
        let d = &report.to_client;
        prop_assert_eq!(d.unique_bytes, 400 * conversation::SIZE);
        prop_assert!(d.retransmitted_packets >= lost.len() as u64);
        prop_assert_eq!(d.retransmitted_bytes, d.retransmitted_packets * conversation::SIZE);
        prop_assert_eq!(d.retransmissions.unclear, 0);
    }
}

/// Two connections, one after the other and interleaved, give the same counts.
#[test]
fn connections_do_not_disturb_each_other() {
    let mut one = Script::new();
    Bulk { segments: 200, lost: vec![50], ..Bulk::default() }.run(&mut one);
    let mut two = one.clone();
    for s in &mut two.segments {
        for end in [&mut s.source, &mut s.destination] {
            if end.port() == 40_000 {
                end.set_port(40_001);
            }
        }
    }
    let apart = one.report();
    let mut follower = Follower::new(Options::default());
    for (a, b) in one.segments.iter().zip(&two.segments) {
        follower.take(a);
        follower.take(b);
    }
    for report in follower.reports() {
        assert_eq!(report.to_client, apart.to_client);
        assert_eq!(report.limits, apart.limits);
    }
    assert_eq!(follower.len(), 2);
}

/// The limit on connections is kept, and what is beyond it is counted.
#[test]
fn beyond_the_limit_is_counted() {
    let mut follower = Follower::new(Options { connections: 10, ..Options::default() });
    let script = {
        let mut s = Script::new();
        s.open(0, 1);
        s
    };
    for port in 0..30u16 {
        for s in &script.segments {
            let mut s = *s;
            for end in [&mut s.source, &mut s.destination] {
                if end.port() == 40_000 {
                    end.set_port(40_000 + port);
                }
            }
            follower.take(&s);
        }
    }
    assert_eq!((follower.len(), follower.totals().beyond_limit, follower.totals().segments), (10, 60, 90));
}

/// A port pair that is used again is another connection.
#[test]
fn a_reused_port_pair_is_another_connection() {
    let mut s = Script::new();
    let t = s.open(0, 1_000);
    s.send(t, conversation::By::Client, Flags::FIN | Flags::ACK, 0);
    let mut again = Script::new();
    again.client.isn = 99;
    again.open(t + conversation::MS, 1_000);
    s.segments.extend(again.segments);
    let follower = s.follow();
    assert_eq!(follower.len(), 2);
    assert_eq!(follower.report(2).unwrap().to_server.packets, 2);
    // A SYN retransmitted is the same connection, and so is a simultaneous open.
    let mut both = Script::new();
    both.raw(0, conversation::By::Client, Flags::SYN, 0, 0);
    both.raw(10, conversation::By::Client, Flags::SYN, 0, 0);
    both.raw(20, conversation::By::Server, Flags::SYN, 0, 0);
    let follower = both.follow();
    assert_eq!(follower.len(), 1);
    assert!(follower.report(1).unwrap().simultaneous_open);
}

/// Reports as they would be printed, with the totals.
fn told(follower: &Follower) -> (Vec<String>, diagnose::Totals) {
    (follower.reports().map(|r| json(&r)).collect(), follower.totals())
}

#[test]
fn followers_of_parts_joined_say_what_one_says() {
    use wire::generate::{Pattern, Traffic, write_traffic};
    use wire::{Packet, PacketReader, Shard};
    for (name, pattern) in Pattern::ALL {
        let mut file = Vec::new();
        let traffic = Traffic { pattern, packets: 12_000, connections: 60, seed: 9, loss_one_in: 30 };
        write_traffic(&mut file, &traffic).unwrap();
        let follow = |part| {
            let (mut packets, mut follower) =
                (PacketReader::from_bytes(&file).unwrap().only(part), Follower::new(Options::default()));
            while let Some(packet) = packets.next_packet().unwrap() {
                let Packet::Tcp(segment) = packet else { panic!("only TCP") };
                follower.take(segment);
            }
            follower
        };
        let whole = follow(Shard::WHOLE);
        for of in [2, 5] {
            let joined = Shard::all(of, 77).map(follow).reduce(Follower::join).unwrap();
            assert!(joined.len() >= 60 && told(&joined) == told(&whole), "{name} in {of} parts");
        }
    }
}

proptest! {
    /// The same of segments of any kind, with the joined follower going on afterwards as the whole
    /// one does.
    #[test]
    fn joining_is_the_same_as_having_seen_all(mut segments in prop::collection::vec(segment(), 1..120), cut in 0usize..120) {
        let mut at = 0u64;
        for (n, s) in (1..).zip(&mut segments) {
            at = at.saturating_add(s.at.as_nanos());
            (s.number, s.at) = (n, Instant::from_nanos(at));
        }
        let (before, after) = segments.split_at(cut.min(segments.len()));
        let mut whole = Follower::new(Options::default());
        segments.iter().for_each(|s| whole.take(s));
        let mut joined = wire::Shard::all(3, 5)
            .map(|part| {
                let mut follower = Follower::new(Options::default());
                before.iter().filter(|s| part.has(s.source, s.destination)).for_each(|s| follower.take(s));
                follower
            })
            .reduce(Follower::join)
            .unwrap();
        after.iter().for_each(|s| joined.take(s));
        prop_assert_eq!(told(&joined), told(&whole));
    }
}
