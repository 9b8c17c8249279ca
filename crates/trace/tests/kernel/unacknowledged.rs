//! Sends that no ACK comes for: they are told with the time that they have taken so far.

use std::io::Write as _;
use std::time::Duration;

use record::{Leg, Nanos, WaitReason};
use tier::Need;

use crate::traffic::{self, BACKENDS, Trace, pair_at, sends};

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");

/// A peer that does not read: its window closes, and what is written beyond it hangs.
#[test]
fn a_send_that_hangs_is_seen_while_it_does_and_at_the_end() {
    tier::needs!(Need::Root, BTF);
    for backend in BACKENDS {
        let (mut client, server) = pair_at("127.0.0.1:0");
        traffic::set(&server, libc::SOL_SOCKET, libc::SO_RCVBUF, 4_096);
        let port = server.local_addr().unwrap().port();
        let mut trace = Trace::start(&traffic::on(traffic::port(port), backend));
        client.set_nonblocking(true).unwrap();
        while client.write(&[0; 20_000]).is_ok() {}
        let least = Nanos::from_millis(300);
        assert_eq!(trace.tracer.waiting(timestamping::now(), least), []);
        std::thread::sleep(Duration::from_millis(600));
        trace.poll();
        let now = timestamping::now();
        let hanging = trace.tracer.waiting(now, least);
        let [oldest] = hanging.as_slice() else { panic!("{backend}: one connection has one: {hanging:?}") };
        assert_eq!((oldest.stamps.ack, oldest.unacknowledged.unwrap().at), (None, now), "{backend}");
        assert!(oldest.unacknowledged_for().unwrap() >= least, "{backend}: {oldest:?}");

        let (events, summary) = trace.finish();
        let open: Vec<_> = sends(&events).into_iter().filter(|send| send.stamps.ack.is_none()).collect();
        assert_eq!((open.len() as u64, open[0].first_seq), (summary.lost.unfinished, oldest.first_seq), "{backend}");
        for send in &open {
            let age = send.unacknowledged_for().unwrap();
            assert!(age > Nanos::from_millis(500) && send.so_far(Leg::Total) == Some(age), "{backend}: {send:?}");
            assert!(send.unacknowledged.unwrap().idle > Nanos::from_millis(500), "{backend}: {send:?}");
        }
        // The last bytes are still here, and it is known why.
        let last = open.last().unwrap();
        let wait = last.wait.unwrap();
        assert_eq!((last.stamps.sched, wait.reason()), (None, WaitReason::ReceiveWindow), "{backend}: {last:?}");
        let in_tcp = last.so_far(Leg::Tcp).unwrap();
        assert!(wait.sum() == in_tcp && wait.by_reason().0 * 2 > in_tcp.0, "{backend}: {last:?}");
    }
}
