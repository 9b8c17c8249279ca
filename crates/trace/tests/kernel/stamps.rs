//! Which stamps are there, and that each is of the packet that bore the send's last byte.
//!
//! Writes of 60,000 bytes end in the middle of packets, TCP moves bytes from one packet to the one before it while they wait for
//! the path (`tcp_grow_skb()`, which leaves the tag behind), and ACKs come for a few segments at a time.

use std::io::Write as _;
use std::time::Duration;

use model::{Lost, Send};
use tier::Need;
use trace::Backend;

use crate::traffic::{self, Trace, on, pair, sends};

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");

/// Sends 300 times 60,000 bytes over a loopback with this `tbf`, under a tracer of each of the backends at once.
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
    // A packet whose tag was left behind as a whole says nothing of the sends that end in it. That is rare.
    let without = sends.iter().filter(|s| s.stamps.driver.is_none()).count() as u64;
    assert_eq!((lost.no_sched, lost.no_driver, lost.no_ack, lost.disorder), (without, without, 0, 0), "{lost:?}");
    assert!(without <= 15, "{lost:?}");
}

#[test]
fn bulk_sends_have_their_ack_where_the_qdisc_cuts_their_packets_up() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    let (sends, lost) = bulk("rate 200mbit burst 16kb limit 1mb", &[Backend::Timestamping]).remove(0);
    assert_eq!(traffic::accounted(&sends, &lost) + lost.unstamped, 300, "{lost:?}");
    assert!(sends.iter().all(|s| s.stamps.ack.is_some()), "{lost:?}");
    // A segment that was cut off with another's tag gives no stamp rather than a wrong one, and is counted.
    let without = sends.iter().filter(|s| s.stamps.driver.is_none()).count() as u64;
    assert_eq!((lost.no_driver, lost.no_ack, lost.disorder), (without, 0, 0), "{lost:?}");
}

#[test]
fn the_sched_stamp_is_of_the_packet_with_the_last_byte() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    let mut both =
        bulk("rate 200mbit burst 70kb limit 1mb", &[Backend::Timestamping, Backend::Tracepoints]).into_iter();
    let (stamped, _) = both.next().unwrap();
    let (traced, _) = both.next().unwrap();
    // The tracepoints find a send's packet by its sequence numbers. The next packet comes 2.6 ms later on this path.
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

#[test]
fn probe_nonblocking() {
    for tbf in [None, Some("rate 200mbit burst 70kb limit 1mb"), Some("rate 200mbit burst 16kb limit 1mb")] {
        let work = move || {
            let l = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let mut client = std::net::TcpStream::connect(l.local_addr().unwrap()).unwrap();
            let (server, _) = l.accept().unwrap();
            let config = traffic::port(server.local_addr().unwrap().port());
            let mut stamps = Trace::start(&on(config.clone(), Backend::Timestamping));
            let mut points = Trace::start(&on(config, Backend::Tracepoints));
            let reader = traffic::drain(server);
            client.set_nonblocking(true).unwrap();
            let size = if tbf.is_some() { 60_000 } else { 100_000 };
            let mut n = 0;
            while n < 1000 {
                match client.write(&vec![0; size]) {
                    Ok(_) => n += 1,
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
            drop(client);
            reader.join().unwrap();
            std::thread::sleep(Duration::from_millis(50));
            stamps.poll();
            points.poll();
            let (events, summary) = stamps.finish();
            (sends(&events), summary.lost, sends(&points.finish().0))
        };
        let (sends, lost, points) = match tbf {
            None => std::thread::spawn(work).join().unwrap(),
            Some(_) => traffic::in_namespace(tbf, work),
        };
        println!("{tbf:?} {} {lost:?}", sends.len());
        for driver in [false, true] {
            let mut errors = Vec::new();
            let mut outside = Vec::new();
            let mut exact = Vec::new();
            for s in &sends {
                let Some(t) = points.iter().find(|t| t.last_seq() == s.last_seq()) else { continue };
                let (a, e, b) = if driver {
                    (s.stamps.driver, s.stamps.driver_error, t.stamps.driver)
                } else {
                    (s.stamps.sched, s.stamps.sched_error, t.stamps.sched)
                };
                let (Some(a), Some(b)) = (a, b) else { continue };
                let off = a.as_nanos() as i64 - b.as_nanos() as i64;
                if e.0 > 0 {
                    errors.push(e.0);
                    if off.unsigned_abs() > e.0 {
                        outside.push((off, e.0));
                    }
                } else {
                    exact.push(off.abs());
                }
            }
            errors.sort();
            exact.sort();
            outside.sort();
            println!(
                "driver {driver}: {} inferred, median error {:?} max {:?}, outside {} {:?}; exact {} median off {:?} max {:?}",
                errors.len(),
                errors.get(errors.len() / 2),
                errors.last(),
                outside.len(),
                &outside[..outside.len().min(6)],
                exact.len(),
                exact.get(exact.len() / 2),
                exact.last()
            );
        }
    }
}
