//! What `wirelapse trace --until` waits for, each made to happen on the running kernel: what is
//! below the bound, or something else, does not end the wait.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use store::Run;
use tempfile::TempDir;

use super::trace_recorder::{exchange, first_sentence, is_empty, recording, said};
use crate::scene::path::{change, delay, join, lab, listen};
use crate::scene::{BTF, TUN, turn};

/// A trace that waits for something on the port of `at`.
struct Waiting {
    trace: Child,
    folder: TempDir,
}

impl Waiting {
    fn begin(at: SocketAddr, trigger: &str, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = [&["--until", trigger, "--keep", "1s"], more].concat();
        Self { trace: recording(at.port(), folder.path(), &options), folder }
    }

    /// What there is so far is not what is waited for.
    fn still_waits(&mut self) {
        // Records come with a turn of the trace.
        std::thread::sleep(Duration::from_millis(500));
        assert!(self.trace.try_wait().unwrap().is_none() && is_empty(self.folder.path()));
    }

    /// It has happened: what the run and the report begin with, in one line.
    fn happened(self, trigger: &str) -> String {
        let said = said(&self.trace.wait_with_output().unwrap());
        let run = Run::open(&self.folder.path().join("run")).unwrap();
        let fired = run.provenance().fired.clone().unwrap();
        assert_eq!(fired.trigger, trigger);
        let first = first_sentence(&said).replace('\n', " ");
        assert!(first.starts_with(&fired.finding), "{first}: {}", fired.finding);
        assert!(Path::new(&self.folder.path().join("run/packets.pcapng")).exists());
        first
    }
}

fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

#[test]
fn a_reset_and_not_an_ordinary_end() {
    tier::needs!(tier::Need::Root, BTF);
    let _turn = turn();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let mut waiting = Waiting::begin(at, "reset", &[]);
    let (mut client, mut server) = pair(&listener);
    exchange(&mut client, &mut server, 3);
    drop(client);
    assert_eq!(server.read(&mut [0]).unwrap(), 0);
    drop(server);
    waiting.still_waits();
    let (mut client, mut server) = pair(&listener);
    exchange(&mut client, &mut server, 1);
    socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    let first = waiting.happened("reset");
    assert!(first.contains("a connection by ") && first.contains("was reset by the p"), "{first}");
    assert!(first.contains("It happened 2 times"), "at both ends: {first}");
}

#[test]
fn a_datagram_that_the_host_drops() {
    tier::needs!(tier::Need::Root, BTF);
    let _turn = turn();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = server.local_addr().unwrap();
    let mut waiting = Waiting::begin(at, "drop", &["--udp"]);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..20 {
        client.send_to(&[1; 100], at).unwrap();
        server.recv(&mut [0; 100]).unwrap();
    }
    waiting.still_waits();
    // Far more than a receive buffer holds, and nobody reads.
    for _ in 0..5_000 {
        client.send_to(&[2; 1_000], at).unwrap();
    }
    let first = waiting.happened("drop");
    assert!(first.contains("a datagram of 1000 B by ") && first.contains("was dropped on this host: "), "{first}");
}

#[test]
fn a_request_that_takes_longer_than_its_bound() {
    tier::needs!(tier::Need::Root, BTF);
    let _turn = turn();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let mut waiting = Waiting::begin(at, "request > 200ms", &["--requests"]);
    let (mut client, mut server) = pair(&listener);
    exchange(&mut client, &mut server, 5);
    waiting.still_waits();
    client.write_all(&[7; 50]).unwrap();
    server.read_exact(&mut [0; 50]).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    server.write_all(&[8; 20]).unwrap();
    client.read_exact(&mut [0; 20]).unwrap();
    // The next request says that the answer is whole.
    exchange(&mut client, &mut server, 1);
    let first = waiting.happened("request > 200ms");
    assert!(first.contains("a request of ") && first.contains("application 3"), "{first}");
}

#[test]
fn a_connection_that_takes_longer_to_set_up_than_its_bound() {
    tier::needs!(tier::Need::Root, BTF, TUN);
    let _turn = turn();
    let lab = lab(1);
    let listener = listen(&lab, false);
    let mut waiting = Waiting::begin(listener.local_addr().unwrap(), "connect > 60ms", &[]);
    let one = join(&lab, &listener);
    waiting.still_waits();
    change(&lab, &delay(40));
    let other = join(&lab, &listener);
    let first = waiting.happened("connect > 60ms");
    assert!(first.contains("setting up a connection by ") && first.contains("took 8"), "{first}");
    drop((one, other));
}

#[test]
fn received_bytes_that_wait_for_their_reader() {
    tier::needs!(tier::Need::Root, BTF);
    let _turn = turn();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut waiting = Waiting::begin(listener.local_addr().unwrap(), "receive > 100ms", &["--receive"]);
    let (mut client, mut server) = pair(&listener);
    exchange(&mut client, &mut server, 5);
    waiting.still_waits();
    client.write_all(&[7; 50]).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    server.read_exact(&mut [0; 50]).unwrap();
    let first = waiting.happened("receive > 100ms");
    assert!(first.contains("a receive of 50 B") && first.contains("took 2"), "{first}");
}

#[test]
fn a_retransmission_timer_that_runs_out() {
    tier::needs!(tier::Need::Root, BTF, TUN);
    let _turn = turn();
    let lab = lab(1);
    let listener = listen(&lab, false);
    let mut waiting = Waiting::begin(listener.local_addr().unwrap(), "retransmission timeout", &[]);
    let (mut client, mut server) = join(&lab, &listener);
    exchange(&mut client, &mut server, 5);
    waiting.still_waits();
    change(&lab, &lab::Direction { loss: lab::Loss::Independent(1.0), ..delay(1) });
    client.write_all(&[7; 50]).unwrap();
    std::thread::sleep(Duration::from_millis(900));
    change(&lab, &delay(1));
    server.read_exact(&mut [0; 50]).unwrap();
    let first = waiting.happened("retransmission timeout");
    assert!(first.contains("the retransmission timer ran out, and TCP sent 50 B another time"), "{first}");
}
