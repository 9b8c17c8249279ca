//! How connections end: in peace, or by a RST, and whose.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use diagnose::Way;
use lab::Side;

use crate::bench::{Dump, Seen, answer, ask, at_once, captured, drain, path, pause, send};
use crate::{assert_clean, in_the_lab};

/// Closes with a RST at once.
fn abort(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
}

#[track_caller]
fn told(seen: &Seen, direction: Way, words: &str) {
    let f = seen.must("reset");
    assert_eq!(f.direction, Some(direction), "{f:?}");
    assert!(f.text.contains(words), "{words}: {}", f.text);
}

#[test]
fn resets_and_who_sent_them() {
    in_the_lab!();
    at_once(&[
        &|| {
            let lab = path(2);
            let nobody = lab.host(Side::B).run(|| {
                let listener = TcpListener::bind(SocketAddr::new(Side::B.ipv4().into(), 0)).unwrap();
                listener.local_addr().unwrap()
            });
            let nobody = nobody.unwrap();
            let dump = Dump::start(&lab, Side::A);
            let refused = lab.host(Side::A).run(|| TcpStream::connect(nobody).is_err()).unwrap();
            assert!(refused);
            let seen = Seen::of(dump.finish(), nobody);
            told(&seen, Way::ToClient, "refused the connection");
        },
        &|| {
            let server = |mut stream: TcpStream| {
                stream.read_exact(&mut [0; 100]).unwrap();
                stream.write_all(&[2; 100]).unwrap();
                pause(100);
                abort(stream);
            };
            let seen = captured(&path(2), |s| ask(1, 100, 100)(s.try_clone().unwrap()), server);
            told(&seen, Way::ToClient, "SO_LINGER of 0");
        },
        &|| {
            // Data that no one reads: close() answers it with a RST.
            let unread = |stream: TcpStream| {
                pause(100);
                drop(stream);
            };
            let client = |mut stream: TcpStream| {
                stream.write_all(&[1; 1_000]).unwrap();
                let _ = stream.read(&mut [0; 10]);
            };
            let seen = captured(&path(2), client, unread);
            told(&seen, Way::ToClient, "RST");
        },
        &|| {
            // A RST with another TTL than the server's own, as a box on the way sends it.
            let forged = |mut stream: TcpStream| {
                stream.read_exact(&mut [0; 100]).unwrap();
                stream.write_all(&[2; 100]).unwrap();
                pause(100);
                stream.set_ttl(250).unwrap();
                abort(stream);
            };
            let client = |mut stream: TcpStream| {
                stream.write_all(&[1; 100]).unwrap();
                stream.read_exact(&mut [0; 100]).unwrap();
                let _ = stream.read(&mut [0; 10]);
            };
            let seen = captured(&path(2), client, forged);
            told(&seen, Way::ToClient, "a box on the way");
        },
        &|| {
            let seen = captured(&path(2), ask(3, 100, 100), answer(100, 100));
            assert_clean(&seen);
            assert_eq!(seen.report.ending.name(), "closed");
            let seen = captured(&path(2), send(100_000), drain);
            assert_clean(&seen);
        },
    ]);
}
