//! Which end of a connection that is older than the trace connected, and which was accepted.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use record::{Event, Opening};
use tier::Need;

use crate::traffic::{self, BACKENDS, Trace, accept_one};

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");

/// What is told of the connections with this local end.
fn told(events: &[Event], end: SocketAddr) -> Vec<(Opening, Option<bool>)> {
    let of = |event: &Event| match event {
        Event::Connection(c) if c.local == end => Some((c.opening, c.accepted)),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

#[test]
fn each_end_of_a_connection_that_was_there_is_known_also_where_nobody_listens_any_more() {
    tier::needs!(Need::Root, BTF);
    for backend in BACKENDS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut client, mut server) = accept_one(&listener);
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        for asks in [true, false] {
            let (from, to) = if asks { (&mut client, &mut server) } else { (&mut server, &mut client) };
            from.write_all(&[7; 5_000]).unwrap();
            to.read_exact(&mut [0; 5_000]).unwrap();
        }
        let trace = Trace::start(&traffic::on(traffic::port(port), backend));
        let (events, _) = trace.finish();
        let found = |accepted| vec![(Opening::Found, Some(accepted))];
        assert_eq!(told(&events, server.local_addr().unwrap()), found(true), "{backend}");
        assert_eq!(told(&events, client.local_addr().unwrap()), found(false), "{backend}");
    }
}
