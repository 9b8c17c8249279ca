//! How many threads those take who connect and do not say what they want. Alone in its process: it
//! counts threads.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::ops::ControlFlow;

use clock::Nanos;
use traffic::{Limits, Server, ServerConfig, rr};

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn many_that_say_nothing_take_no_thread_and_keep_no_one_out() {
    let limits = Limits { connections: 400, waiting_per_address: 350, handshake_ms: 4_000, ..Limits::default() };
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::start(ServerConfig { limits, ..ServerConfig::new(listen) }).unwrap();
    let before = threads();
    let mut slow: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(server.local_addr()).unwrap()).collect();
    // Half of them drip: the beginning of an opening, never its end.
    for stream in slow.iter_mut().step_by(2) {
        stream.write_all(b"WIRELAPSE").unwrap();
    }
    let config = rr::Config { duration: Nanos::from_millis(100), ..rr::Config::new(server.local_addr()) };
    let outcome = rr::run(&config, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(outcome.transactions > 0);
    assert!(threads() <= before + 2, "{} threads, {before} before", threads());
    assert!(tier::wait_for(|| server.counts().silent >= 300), "{:?}", server.counts());
    server.stop();
}
