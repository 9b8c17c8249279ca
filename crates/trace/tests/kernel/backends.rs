//! The two backends on the same traffic.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};

use record::{Leg, Send};
use tier::Need;
use trace::Backend;

use crate::traffic::{self, Trace, on, pair};

/// Half of the sends' stages agree within this, ns: the tracepoints stand a little apart from the
/// timestamp callbacks (the send stage before the copy and not after it, the qdisc a few calls
/// away), and both programs run in between.
const MEDIAN_BOUND: i64 = 20_000;

#[test]
fn both_backends_report_the_same_of_the_same_sends() {
    tier::needs!(Need::Root, Need::Path("/sys/kernel/btf/vmlinux"));
    let (mut client, mut server) = pair();
    let config = trace::Config { calls: true, ..traffic::port(server.local_addr().unwrap().port()) };
    let mut stamps = Trace::start(&on(config.clone(), Backend::Timestamping));
    let mut points = Trace::start(&on(config, Backend::Tracepoints));
    assert_eq!((stamps.tracer.backend(), points.tracer.backend()), (Backend::Timestamping, Backend::Tracepoints));
    for round in 0..300usize {
        client.write_all(&vec![0; 1 + round * 10]).unwrap();
        server.read_exact(&mut vec![0; 1 + round * 10]).unwrap();
        server.write_all(b"k").unwrap();
        client.read_exact(&mut [0]).unwrap();
    }
    stamps.until(600);
    points.until(600);
    let (a, b) = (traffic::sends(&stamps.finish().0), traffic::sends(&points.finish().0));
    assert_eq!((a.len(), b.len()), (600, 600));
    let key = |s: &Send| (s.connection, s.last_seq().0);
    let by_key: HashMap<_, _> = b.iter().map(|s| (key(s), *s)).collect();
    let pairs: Vec<(Send, Send)> = a.iter().map(|s| (*s, by_key[&key(s)])).collect();
    for (x, y) in &pairs {
        assert_eq!((x.first_seq, x.bytes, x.owner.pid, x.retransmissions), (y.first_seq, y.bytes, y.owner.pid, 0));
        assert!(y.leg(Leg::Total).is_ok_and(|l| l.is_some()), "{y:?}");
    }
    for stage in record::Stage::ALL {
        let mut apart: Vec<i64> = pairs
            .iter()
            .filter_map(|(x, y)| Some(x.stamps.at(stage)?.as_nanos() as i64 - y.stamps.at(stage)?.as_nanos() as i64))
            .map(i64::abs)
            .collect();
        if stage == record::Stage::Nic {
            continue;
        }
        assert_eq!(apart.len(), 600, "{stage}");
        apart.sort_unstable();
        assert!(apart[300] < MEDIAN_BOUND, "{stage}: half of the stamps lie over {} ns apart", apart[300]);
    }
    let same = pairs.iter().filter(|(x, y)| x.wait.map(|w| w.reason()) == y.wait.map(|w| w.reason())).count();
    assert!(same >= 570, "{same} of 600 have the same reason");
}
