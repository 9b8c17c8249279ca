//! What is generated arrives as it was planned.

use std::time::Duration;

use crate::wire_pair::{SENDER, WirePair};
use capture::generate::{Plan, Sending, Shape, Spread, mark_of, run};
use capture::{Options, Technique};
use tier::{Need, needs};

fn plan(sending: Sending) -> Plan {
    Plan {
        interface: SENDER.into(),
        lengths: Vec::new(),
        shape: Shape {
            bytes: 60,
            hardware: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
            vlan: None,
            source: "10.77.0.1:9000".parse().unwrap(),
            destination: "10.77.0.2:9".parse().unwrap(),
            flows: 3,
        },
        per_second: Some(20_000.0),
        spread: Spread::Constant,
        count: Some(5_000),
        duration: None,
        sending: Some(sending),
    }
}

#[test]
fn every_way_sends_each_id_once_and_counts_what_it_sent() {
    needs!(Need::Root, Need::Program("ip"));
    WirePair::run(|pair| {
        pair.take_xdp_frames();
        for sending in Sending::ALL {
            let options = Options { filter: Some("udp".into()), ..Options::of(pair.tap()) };
            let mut receiver = capture::open(Technique::RxRing, &options).unwrap();
            let sent = run(&plan(sending), |_| true).unwrap_or_else(|e| panic!("{sending}: {e}"));
            let mut ids = Vec::new();
            while receiver
                .next_batch(Duration::from_millis(500), &mut |frame| {
                    let mark = mark_of(frame.data).unwrap();
                    let port = u16::from_be_bytes([frame.data[34], frame.data[35]]);
                    assert_eq!((frame.data.len(), u64::from(port)), (60, 9000 + mark.id % 3));
                    ids.push(mark.id);
                })
                .unwrap()
                > 0
            {}
            assert_eq!(sent.frames, 5_000, "{sending}");
            // On a busy machine a frame may find no room on its way, which is counted.
            let counts = receiver.counts();
            let lost = sent.dropped + counts.dropped + counts.dropped_by_interface;
            assert_eq!(ids.len() as u64 + lost, 5_000, "{sending}: {sent:?} {counts:?}");
            assert!(ids.is_sorted_by(|a, b| a < b), "{sending}");
            let gaps = sent.gaps.unwrap();
            assert_eq!(gaps.n, 4_999, "{sending}");
        }
    });
}

#[test]
fn a_frame_that_cannot_be_and_an_interface_that_is_not_are_refused() {
    let mut short = plan(Sending::Sendmmsg);
    short.shape.bytes = 40;
    assert!(run(&short, |_| true).unwrap_err().to_string().contains("60 to 9000 bytes"));
    let nowhere = Plan { interface: "nosuch0".into(), ..plan(Sending::Sendmmsg) };
    assert!(run(&nowhere, |_| true).unwrap_err().to_string().contains("nosuch0"));
}
