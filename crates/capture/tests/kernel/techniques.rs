//! Every technique on a veth pair in a network namespace of its own: the same frames give the same
//! bytes.

use std::time::{Duration, Instant};

use crate::wire_pair::{WirePair, frame_of};
use capture::{Error, Options, Receiver, Stamps, Technique};
use tier::{Need, needs};

/// Reads until `wanted` frames came or nothing comes any more.
fn read(receiver: &mut dyn Receiver, wanted: usize) -> Vec<(Vec<u8>, u64)> {
    let mut frames = Vec::new();
    let end = Instant::now() + Duration::from_secs(20);
    while frames.len() < wanted && Instant::now() < end {
        let wait = Duration::from_millis(200);
        receiver
            .next_batch(wait, &mut |frame| {
                let at = frame.software.map_or(0, |stamp| stamp.at.as_nanos());
                frames.push((frame.bytes().into_owned(), at));
            })
            .unwrap();
    }
    frames
}

fn now_ns() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
}

#[test]
fn every_technique_gives_the_same_frames_with_a_software_timestamp() {
    needs!(Need::Root, Need::Program("ip"));
    WirePair::run(|pair| {
        for technique in Technique::ALL {
            let options = Options::of(pair.tap());
            let mut receiver = capture::open(technique, &options).unwrap_or_else(|e| panic!("{technique}: {e}"));
            // A busy machine may take a while to switch timestamps on: until then frames are
            // counted as unstamped.
            let mut early = 0;
            loop {
                pair.send(&frame_of(60, u64::from(u32::MAX)));
                early += 1;
                if read(receiver.as_mut(), 1).iter().all(|f| f.1 > 0) {
                    break;
                }
            }
            let first = receiver.counts();
            assert_eq!((first.received, first.unstamped), (early, early - 1), "{technique}");
            let before = now_ns();
            let sent: Vec<Vec<u8>> = (0..200).map(|i| frame_of(60 + i % 1400, i as u64)).collect();
            sent.iter().for_each(|frame| pair.send(frame));
            let received = read(receiver.as_mut(), sent.len());
            let after = now_ns();
            let bytes: Vec<&[u8]> = received.iter().map(|r| r.0.as_slice()).collect();
            assert_eq!(bytes, sent.iter().map(Vec::as_slice).collect::<Vec<_>>(), "{technique}");
            let counts = receiver.counts();
            assert_eq!((counts.received - early, counts.dropped, counts.unstamped), (200, 0, early - 1), "{technique}");
            let error = 1_000_000;
            for (_, at) in &received {
                assert!((before - error..=after + error).contains(at), "{technique}: {at} not in {before}..{after}");
            }
        }
    });
}

#[test]
fn a_filter_and_a_snap_length_work_in_the_kernel_for_every_technique() {
    needs!(Need::Root, Need::Program("ip"));
    WirePair::run(|pair| {
        for technique in Technique::ALL {
            let options = Options {
                filter: Some("ether[14:4] & 1 = 0 and greater 100".into()),
                snap_length: 80,
                ..Options::of(pair.tap())
            };
            let mut receiver = capture::open(technique, &options).unwrap_or_else(|e| panic!("{technique}: {e}"));
            for i in 0..100u64 {
                pair.send(&frame_of(if i % 4 == 0 { 60 } else { 300 }, i));
            }
            let mut lengths = Vec::new();
            let end = Instant::now() + Duration::from_secs(10);
            while lengths.len() < 25 && Instant::now() < end {
                receiver
                    .next_batch(Duration::from_millis(200), &mut |f| lengths.push((f.data.len(), f.original_length)))
                    .unwrap();
            }
            assert_eq!(lengths, vec![(80, 300); 25], "{technique}");
        }
    });
}

#[test]
fn frames_that_find_no_room_are_counted() {
    needs!(Need::Root, Need::Program("ip"));
    WirePair::run(|pair| {
        for technique in Technique::ALL {
            let options = Options { buffer_bytes: 64 << 10, snap_length: 256, ..Options::of(pair.tap()) };
            let mut receiver = capture::open(technique, &options).unwrap_or_else(|e| panic!("{technique}: {e}"));
            let before = pair.arrived();
            for i in 0..20_000 {
                pair.send(&frame_of(1000, i));
            }
            let mut received = 0;
            while receiver.next_batch(Duration::from_millis(500), &mut |_| received += 1).unwrap() > 0 {}
            let arrived = pair.arrived() - before;
            let counts = receiver.counts();
            assert_eq!(counts.received, received, "{technique}");
            assert!(counts.dropped > 0, "{technique}: {counts:?}");
            assert_eq!(counts.received + counts.dropped, arrived, "{technique}: {counts:?}");
        }
    });
}

#[test]
fn hardware_stamps_are_refused_where_the_nic_has_none() {
    needs!(Need::Root, Need::Program("ip"));
    WirePair::run(|pair| {
        for technique in Technique::ALL {
            let options = Options { stamps: Stamps::Hardware, ..Options::of(pair.tap()) };
            match capture::open(technique, &options) {
                Err(Error::Stamps { reason, .. }) => assert!(!reason.is_empty()),
                Err(other) => panic!("{technique}: {other}"),
                Ok(_) => panic!("{technique}: opened"),
            }
        }
    });
}

#[test]
fn an_interface_that_goes_ends_receiving_with_its_name() {
    needs!(Need::Root, Need::Program("ip"));
    for technique in Technique::ALL {
        WirePair::run(|pair| {
            let mut receiver = capture::open(technique, &Options::of(pair.tap())).unwrap();
            pair.send(&frame_of(60, 1));
            assert_eq!(read(receiver.as_mut(), 1).len(), 1, "{technique}");
            pair.remove();
            let end = Instant::now() + Duration::from_secs(10);
            let error = loop {
                match receiver.next_batch(Duration::from_millis(100), &mut |_| {}) {
                    Ok(_) => assert!(Instant::now() < end, "{technique}: goes on"),
                    Err(error) => break error,
                }
            };
            assert!(matches!(&error, Error::InterfaceGone(name) if name == pair.tap()), "{technique}: {error}");
        });
    }
}

#[test]
fn two_receivers_of_an_interface_get_every_frame_each() {
    needs!(Need::Root, Need::Program("ip"));
    WirePair::run(|pair| {
        let mut one = capture::open(Technique::RxRing, &Options::of(pair.tap())).unwrap();
        let mut other = capture::open(Technique::Recvmmsg, &Options::of(pair.tap())).unwrap();
        (0..50).for_each(|i| pair.send(&frame_of(100, i)));
        assert_eq!(read(one.as_mut(), 50), read(other.as_mut(), 50));
        // XDP takes one program an interface, and says so.
        let first = capture::open(Technique::Xdp, &Options::of(pair.tap())).unwrap();
        let Err(second) = capture::open(Technique::AfXdp, &Options::of(pair.tap())) else { panic!("opened twice") };
        assert!(matches!(second, Error::Technique { .. }), "{second}");
        drop(first);
        assert!(capture::open(Technique::AfXdp, &Options::of(pair.tap())).is_ok());
    });
}

#[test]
fn without_an_interface_or_with_impossible_options_nothing_is_opened() {
    assert!(matches!(
        capture::open(Technique::Recvmsg, &Options::of("nosuch0")).map(drop),
        Err(Error::NoInterface(name)) if name == "nosuch0"
    ));
    let none = Options { snap_length: 0, ..Options::of("lo") };
    assert!(matches!(capture::open(Technique::Recvmsg, &none).map(drop), Err(Error::Option { .. })));
    let both = Options { stamps: Stamps::Both, ..Options::of("lo") };
    assert!(matches!(capture::open(Technique::RxRing, &both).map(drop), Err(Error::Stamps { .. })));
}
