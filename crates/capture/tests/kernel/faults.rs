//! What can happen to an interface or a receiver meanwhile, for every technique.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::wire_pair::{SENDER, WirePair, frame_of, ip};
use capture::{Direction, Error, Options, Receiver, Technique};
use tier::{Need, needs};

/// Lengths of the frames of an Ethernet type that no protocol has, in their order; ends when
/// `wanted` came, or none for 20 s.
fn lengths(receiver: &mut dyn Receiver, wanted: usize) -> Vec<u32> {
    let mut lengths = Vec::new();
    let end = Instant::now() + Duration::from_secs(20);
    while lengths.len() < wanted && Instant::now() < end {
        let wait = Duration::from_millis(200);
        receiver
            .next_batch(wait, &mut |frame| {
                if frame.data[12..14] == [0x88, 0xb5] {
                    lengths.push(frame.original_length);
                }
            })
            .unwrap();
    }
    lengths
}

#[test]
fn an_interface_that_goes_down_ends_receiving_with_its_name_after_the_frames_before() {
    needs!(Need::Root, Need::Program("ip"));
    for technique in Technique::ALL {
        WirePair::run(|pair| {
            let mut receiver = capture::open(technique, &Options::of(pair.tap())).unwrap();
            (0..20).for_each(|i| pair.send(&frame_of(100, i)));
            assert_eq!(lengths(receiver.as_mut(), 20), [100; 20], "{technique}");
            ip(&format!("link set {} down", pair.tap()));
            let end = Instant::now() + Duration::from_secs(20);
            let error = loop {
                match receiver.next_batch(Duration::from_millis(100), &mut |_| {}) {
                    Ok(_) => assert!(Instant::now() < end, "{technique}: goes on"),
                    Err(error) => break error,
                }
            };
            assert!(matches!(&error, Error::InterfaceGone(name) if name == pair.tap()), "{technique}: {error}");
            let counts = receiver.counts();
            assert_eq!((counts.received, counts.dropped), (20, 0), "{technique}");
        });
    }
}

#[test]
fn an_mtu_that_changes_ends_no_technique() {
    needs!(Need::Root, Need::Program("ip"));
    for technique in Technique::ALL {
        WirePair::run(|pair| {
            let mtu = |bytes: u32| {
                ip(&format!("link set {SENDER} mtu {bytes}"));
                ip(&format!("link set {} mtu {bytes}", pair.tap()));
            };
            let mut receiver = capture::open(technique, &Options::of(pair.tap())).unwrap();
            pair.send(&frame_of(1500, 0));
            assert_eq!(lengths(receiver.as_mut(), 1), [1500], "{technique}");
            // As large as a veth pair lets it be while it has an XDP program.
            for (bytes, frame) in [(700, 714), (3000, 3014), (1500, 1514)] {
                mtu(bytes);
                (0..10).for_each(|i| pair.send(&frame_of(frame, i)));
                assert_eq!(lengths(receiver.as_mut(), 10), [frame as u32; 10], "{technique} at {bytes}");
            }
            assert_eq!(receiver.counts().dropped, 0, "{technique}");
        });
    }
}

const PAYLOAD: usize = 60_000;
/// With the headers of UDP, IPv4 and Ethernet.
const FRAME: u32 = PAYLOAD as u32 + 8 + 20 + 14;

/// Frames of 60,042 bytes, as UDP sends them over loopback and as segmentation by the NIC gives
/// them: no slot of 2 KiB, page of 4 KiB or buffer of one MTU holds one.
#[test]
fn frames_larger_than_a_slot_are_received_whole_or_cut_or_counted() {
    needs!(Need::Root, Need::Program("ip"));
    for technique in Technique::ALL {
        for snap_length in [128, Options::LONGEST_SNAP] {
            WirePair::run(|_| {
                ip("link set lo up");
                let from = UdpSocket::bind("127.0.0.1:0").unwrap();
                let to = UdpSocket::bind("127.0.0.1:0").unwrap();
                let options = Options {
                    snap_length,
                    direction: Direction::In,
                    filter: Some(format!("udp dst port {}", to.local_addr().unwrap().port())),
                    buffer_bytes: 4 << 20,
                    ..Options::of("lo")
                };
                let mut receiver = capture::open(technique, &options).unwrap_or_else(|e| panic!("{technique}: {e}"));
                let payload: Vec<u8> = (0..PAYLOAD).map(|i| (i % 251) as u8).collect();
                let mut got = 0;
                for _ in 0..10 {
                    from.send_to(&payload, to.local_addr().unwrap()).unwrap();
                    let end = Instant::now() + Duration::from_secs(20);
                    loop {
                        receiver
                            .next_batch(Duration::from_millis(50), &mut |frame| {
                                got += 1;
                                let kept = &frame.data[42..];
                                assert_eq!(kept, &payload[..kept.len()], "{technique}");
                                assert!(frame.data.len() as u32 <= snap_length, "{technique}");
                                // What is kept of a frame by `xdp` is 2,048 bytes at most.
                                let whole = snap_length > FRAME && technique != Technique::Xdp;
                                assert!(!whole || kept.len() == PAYLOAD, "{technique}: {} bytes", kept.len());
                                assert_eq!(frame.original_length, FRAME, "{technique}");
                            })
                            .unwrap();
                        let counts = receiver.counts();
                        if counts.received + counts.dropped > 0 && counts.received == got && Instant::now() < end {
                            break;
                        }
                        assert!(Instant::now() < end, "{technique}: neither received nor counted");
                    }
                }
            });
        }
    }
}

#[test]
fn all_that_can_receive_beside_each_other_see_every_frame_each() {
    needs!(Need::Root, Need::Program("ip"));
    WirePair::run(|pair| {
        // Two of each on packet sockets, and XDP, of which an interface has one.
        let beside = Technique::ALL.into_iter().filter(|t| *t != Technique::AfXdp);
        let twice = beside.flat_map(|t| std::iter::repeat_n(t, if t == Technique::Xdp { 1 } else { 2 }));
        let mut receivers: Vec<_> = twice
            .map(|t| (t, capture::open(t, &Options::of(pair.tap())).unwrap_or_else(|e| panic!("{t}: {e}"))))
            .collect();
        (0..200).for_each(|i| pair.send(&frame_of(60 + i as usize, i)));
        let sent: Vec<u32> = (60..260).collect();
        for (technique, receiver) in &mut receivers {
            assert_eq!(lengths(receiver.as_mut(), sent.len()), sent, "{technique}");
            assert_eq!(receiver.counts().dropped, 0, "{technique}");
        }
        // A second one that needs an XDP program is refused with the reason, and the first goes on.
        for technique in [Technique::Xdp, Technique::AfXdp] {
            let refused = capture::open(technique, &Options::of(pair.tap())).map(drop).unwrap_err();
            assert!(matches!(&refused, Error::Technique { reason, .. } if reason.contains("XDP program")), "{refused}");
        }
        pair.send(&frame_of(60, 1));
        for (technique, receiver) in &mut receivers {
            assert_eq!(lengths(receiver.as_mut(), 1), [60], "{technique}");
        }
    });
}

/// A packet socket on loopback is handed each frame as sent and as received: one of the two is a
/// frame too many.
#[test]
fn a_frame_of_loopback_comes_once() {
    needs!(Need::Root, Need::Program("ip"));
    for technique in Technique::ALL {
        WirePair::run(|_| {
            ip("link set lo up");
            let mut receiver =
                capture::open(technique, &Options { filter: Some("udp".into()), ..Options::of("lo") }).unwrap();
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            for payload in 1..=20u8 {
                socket.send_to(&vec![payload; payload.into()], socket.local_addr().unwrap()).unwrap();
            }
            let mut payloads = Vec::new();
            let end = Instant::now() + Duration::from_secs(20);
            while payloads.last() != Some(&20) && Instant::now() < end {
                receiver.next_batch(Duration::from_millis(100), &mut |frame| payloads.push(frame.data[42])).unwrap();
            }
            while receiver.next_batch(Duration::from_millis(100), &mut |frame| payloads.push(frame.data[42])).unwrap()
                > 0
            {}
            assert_eq!(payloads, (1..=20).collect::<Vec<u8>>(), "{technique}");
        });
    }
}

#[test]
fn all_interfaces_together_are_received_with_those_that_come_later() {
    needs!(Need::Root, Need::Program("ip"));
    WirePair::run(|pair| {
        assert!(matches!(capture::best("any"), Ok(Technique::Libpcap)));
        assert!(matches!(capture::best(pair.tap()), Ok(Technique::RxRing)));
        assert!(matches!(capture::best("nosuch0"), Err(Error::NoInterface(_))));
        let refused = capture::open(Technique::RxRing, &Options::of("any")).map(drop).unwrap_err();
        assert!(matches!(&refused, Error::Technique { reason, .. } if reason.contains("libpcap")), "{refused}");
        let options = Options { filter: Some("udp".into()), promiscuous: true, ..Options::of("any") };
        let mut receiver = capture::open(Technique::Libpcap, &options).unwrap();
        ip("link set lo up");
        ip("link add later type veth peer name last");
        ip("link set later addrgenmode none");
        ip("link set last addrgenmode none");
        ip("link set last up");
        ip("link set later up");
        ip("addr add 192.0.2.1/24 dev later");
        ip("neigh add 192.0.2.2 lladdr 02:00:00:00:00:02 dev later");
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        socket.send_to(b"over loopback", ("127.0.0.1", port)).unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        let mut frames = Vec::new();
        while frames.len() < 3 && Instant::now() < end {
            // A link that has just come up may drop what is sent into it.
            socket.send_to(b"over a later one", ("192.0.2.2", port)).unwrap();
            receiver.next_batch(Duration::from_millis(100), &mut |frame| frames.push(frame.data.to_vec())).unwrap();
        }
        let with = |payload: &[u8]| frames.iter().any(|frame| frame.ends_with(payload));
        assert!(with(b"over loopback") && with(b"over a later one"), "{frames:?}");
        // The other end goes: all interfaces together stay.
        ip("link del later");
        assert!(receiver.next_batch(Duration::from_millis(100), &mut |_| {}).is_ok());
    });
}
