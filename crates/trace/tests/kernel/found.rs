//! Which end of a connection that is older than the trace was accepted: the one with a port that is
//! listened on.

use std::net::{SocketAddr, TcpListener, TcpStream};

use record::{Event, Opening};
use tier::Need;

use crate::traffic::{self, BACKENDS, Trace, accept_one};

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");

/// What is told of the connections with this local end.
fn told(events: &[Event], end: SocketAddr) -> Vec<(Opening, Option<bool>)> {
    let of = |event: &Event| match event {
        Event::Connection(c) if c.local == end => Some((c.opening, c.listens)),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

#[test]
fn a_connection_that_was_there_was_accepted_where_its_port_is_listened_on() {
    tier::needs!(Need::Root, BTF);
    for backend in BACKENDS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (client, server) = accept_one(&listener);
        let port = listener.local_addr().unwrap().port();
        let trace = Trace::start(&traffic::on(traffic::port(port), backend));
        // One that begins now is known by who opened it.
        let later = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (events, _) = trace.finish();
        let found = |listens| vec![(Opening::Found, Some(listens))];
        assert_eq!(told(&events, server.local_addr().unwrap())[..1], found(true), "{backend}");
        assert_eq!(told(&events, client.local_addr().unwrap()), found(false), "{backend}");
        assert_eq!(told(&events, later.local_addr().unwrap()), [(Opening::Connected, None)], "{backend}");
    }
}

/// A server of one connection closes its listener: that it was accepted cannot be seen any more.
#[test]
fn a_port_that_is_listened_on_no_more_tells_nothing() {
    tier::needs!(Need::Root, BTF);
    let (_client, server) = traffic::pair();
    let trace = Trace::start(&traffic::port(server.local_addr().unwrap().port()));
    let (events, _) = trace.finish();
    assert_eq!(told(&events, server.local_addr().unwrap()), [(Opening::Found, Some(false))]);
}
