//! Which stamps are there, and that each is of the packet that bore the send's last byte.
//!
//! Writes of 60,000 bytes end in the middle of packets, TCP moves bytes from one packet to the one
//! before it while they wait for the path (`tcp_grow_skb()`, which leaves the tag behind), and ACKs
//! come for a few segments at a time.

use std::io::Write as _;
use std::time::Duration;

use record::{Lost, Send};
use tier::Need;
use trace::Backend;

use crate::traffic::{self, Trace, on, pair, sends};

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");

/// Sends 300 times 60,000 bytes over a loopback with this `tbf`, under a tracer of each of the
/// backends at once.
fn bulk(tbf: &'static str, backends: &'static [Backend]) -> Vec<(Vec<Send>, Lost)> {
    traffic::in_namespace(Some(tbf), || {
        let (mut client, server) = pair();
        let config = traffic::port(server.local_addr().unwrap().port());
        let mut traces: Vec<Trace> = backends.iter().map(|&b| Trace::start(&on(config.clone(), b))).collect();
        let reader = traffic::drain(server);
        for _ in 0..300 {
            client.write_all(&[0; 60_000]).unwrap();
        }
        drop(client);
        reader.join().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        traces.iter_mut().for_each(Trace::poll);
        traces
            .into_iter()
            .map(|trace| {
                let (events, summary) = trace.finish();
                (sends(&events), summary.lost)
            })
            .collect()
    })
}

#[test]
fn bulk_sends_over_a_path_of_whole_frames_have_all_stamps() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    let (sends, lost) = bulk("rate 200mbit burst 70kb limit 1mb", &[Backend::Timestamping]).remove(0);
    assert_eq!(traffic::accounted(&sends, &lost) + lost.unstamped, 300, "{lost:?}");
    assert!(sends.iter().all(|s| s.stamps.ack.is_some()), "{lost:?}");
    // A packet whose tag was left behind says nothing of the sends that end in it. They are timed
    // between others, or counted where that is too rough.
    let without = |stage| sends.iter().filter(|s| s.stamps.at(stage).is_none()).count() as u64;
    let (sched, driver) = (without(record::Stage::Sched), without(record::Stage::Driver));
    assert_eq!((lost.no_sched, lost.no_driver, lost.disorder), (sched, driver, 0), "{lost:?}");
    assert!(driver <= 15, "{lost:?}");
}

#[test]
fn bulk_sends_have_their_ack_where_the_qdisc_cuts_their_packets_up() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    let (sends, lost) = bulk("rate 200mbit burst 16kb limit 1mb", &[Backend::Timestamping]).remove(0);
    assert_eq!(traffic::accounted(&sends, &lost) + lost.unstamped, 300, "{lost:?}");
    assert!(sends.iter().all(|s| s.stamps.ack.is_some()), "{lost:?}");
    // A segment that was cut off with another's tag gives no stamp rather than a wrong one: it is
    // timed between others, or counted.
    let without = sends.iter().filter(|s| s.stamps.driver.is_none()).count() as u64;
    assert_eq!((lost.no_driver, lost.disorder), (without, 0), "{lost:?}");
}

#[test]
fn the_sched_stamp_is_of_the_packet_with_the_last_byte() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    let mut both =
        bulk("rate 200mbit burst 70kb limit 1mb", &[Backend::Timestamping, Backend::Tracepoints]).into_iter();
    let (stamped, _) = both.next().unwrap();
    let (traced, _) = both.next().unwrap();
    // The tracepoints find a send's packet by its sequence numbers. The next packet comes 2.6 ms
    // later on this path.
    let apart: Vec<i64> = stamped
        .iter()
        .filter_map(|s| {
            let twin = traced.iter().find(|t| t.last_seq() == s.last_seq())?;
            Some(s.stamps.sched?.as_nanos() as i64 - twin.stamps.sched?.as_nanos() as i64)
        })
        .collect();
    let near = apart.iter().filter(|ns| ns.abs() < 500_000).count();
    assert!(apart.len() > 200 && near * 100 >= apart.len() * 97, "{near} of {} are near: {apart:?}", apart.len());
}
