//! What a trace of real sends over loopback tells.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use model::{Event, Leg, Send, Stage};
use tier::Need;
use trace::{Config, Target, Tracer};

/// A pair of connected sockets over loopback.
fn pair(address: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(address).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    (client, server)
}

fn on_port(port: u16) -> Config {
    Config { target: Target { ports: vec![port], ..Target::default() }, ..Config::default() }
}

fn finish(tracer: Tracer) -> (Vec<Event>, model::Lost) {
    let mut events = Vec::new();
    let summary = tracer.finish(&mut |event| events.push(event)).unwrap();
    (events, summary.lost)
}

fn sends(events: &[Event]) -> Vec<Send> {
    events.iter().filter_map(|e| if let Event::Send(send) = e { Some(*send) } else { None }).collect()
}

#[test]
fn every_send_of_an_exchange_has_all_stages_in_order() {
    tier::needs!(Need::Root, Need::Path("/sys/kernel/btf/vmlinux"));
    let (mut client, mut server) = pair("127.0.0.1:0");
    let port = server.local_addr().unwrap().port();
    let mut tracer = Tracer::start(&on_port(port)).unwrap();
    let mut events = Vec::new();
    for round in 0..100u32 {
        client.write_all(&round.to_ne_bytes()).unwrap();
        let mut got = [0; 4];
        server.read_exact(&mut got).unwrap();
        server.write_all(&[0; 100]).unwrap();
        client.read_exact(&mut [0; 100]).unwrap();
        tracer.poll(Duration::ZERO, &mut |event| events.push(event)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(100));
    let (rest, lost) = finish(tracer);
    events.extend(rest);
    let sends = sends(&events);
    eprintln!("{lost:?}");
    assert_eq!(sends.len(), 200);
    for send in &sends[..5] {
        eprintln!("{send:?}");
    }
    for send in &sends {
        for stage in [Stage::Sched, Stage::Driver, Stage::Ack] {
            assert!(send.stamps.at(stage).is_some(), "no {stage} in {send:?}");
        }
        for leg in Leg::ALL {
            assert!(send.leg(leg).is_ok(), "{leg} of {send:?}");
        }
        assert_eq!(send.owner.pid, std::process::id());
    }
    assert_eq!(sends.iter().filter(|s| s.bytes == 4).count(), 100);
    assert_eq!(sends.iter().filter(|s| s.bytes == 100).count(), 100);
}
