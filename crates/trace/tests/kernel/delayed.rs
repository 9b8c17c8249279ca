//! ACKs that the peer's timer sends: whether anything waited for them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use record::{Leg, Nanos, Send};
use tier::Need;

use crate::traffic::{self, BACKENDS, Trace, pair_at};

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");
const TIMES: usize = 6;
/// The shortest timer of Linux.
const TIMER: Nanos = Nanos::from_millis(38);

/// The peer reads, and delays its ACK as long as it may.
fn read(server: &mut TcpStream, bytes: usize) {
    server.read_exact(&mut vec![0; bytes]).unwrap();
    traffic::set(server, libc::IPPROTO_TCP, libc::TCP_QUICKACK, 0);
}

/// Writes of these sizes at a time to a peer that says nothing, or (`answers`) a byte at once; the
/// sends of each size.
fn written(nodelay: bool, sizes: &[usize], answers: bool, backend: trace::Backend) -> Vec<Vec<Send>> {
    let (mut client, mut server) = pair_at("127.0.0.1:0");
    client.set_nodelay(nodelay).unwrap();
    traffic::set(&server, libc::IPPROTO_TCP, libc::TCP_QUICKACK, 0);
    let mut trace = Trace::start(&traffic::on(traffic::port(client.local_addr().unwrap().port()), backend));
    for i in 1..=TIMES {
        sizes.iter().for_each(|&bytes| client.write_all(&vec![0; bytes]).unwrap());
        sizes.iter().for_each(|&bytes| read(&mut server, bytes));
        if answers {
            server.write_all(&[0]).unwrap();
            client.read_exact(&mut [0]).unwrap();
        }
        trace.until(i * sizes.len());
    }
    let (events, _) = trace.finish();
    let mut sends = traffic::sends(&events);
    sends.retain(|send| sizes.contains(&(send.bytes as usize)));
    sizes.iter().map(|&size| sends.iter().copied().filter(|send| send.bytes as usize == size).collect()).collect()
}

#[test]
fn an_ack_that_comes_alone_and_late_is_told_from_one_that_something_waited_for() {
    tier::needs!(Need::Root, BTF);
    for backend in BACKENDS {
        let alone = written(true, &[100], false, backend).remove(0);
        let late = |send: &&Send| send.leg(Leg::Network).unwrap().unwrap() >= TIMER;
        let timed: Vec<&Send> = alone.iter().filter(late).collect();
        // The first ones of a connection are acknowledged at once, whatever was asked for.
        assert!(timed.len() >= TIMES / 2, "{backend}: {alone:?}");
        assert!(timed.iter().all(|send| send.ack_alone == Some(true)), "{backend}: {timed:?}");
        // A busy machine delays some by more than the timer.
        let nobodys = timed.iter().filter(|send| send.delayed_ack() > Nanos::ZERO).count();
        assert!(nobodys * 2 >= timed.len(), "{backend}: {timed:?}");
        let awaited = |send: &&&Send| send.awaited(Leg::Network).unwrap().unwrap() < TIMER;
        assert_eq!(timed.iter().filter(awaited).count(), nobodys, "{backend}");

        // Near misses: by Nagle's algorithm a second write waits for that ACK; an answer brings it.
        let both = written(false, &[100, 101], false, backend);
        assert!(both[0].iter().all(|send| send.ack_alone == Some(false)), "{backend}: {both:?}");
        let answered = written(true, &[100], true, backend);
        assert!(answered[0].iter().all(|send| send.ack_alone == Some(false)), "{backend}: {answered:?}");
    }
}
