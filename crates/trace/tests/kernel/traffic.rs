//! Sockets whose sends are known, and tracers on them.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use record::{Event, Lost, Send};
use trace::{Backend, BackendChoice, Config, Summary, Target, Tracer};

/// Sets an integer socket option.
pub fn set(socket: &impl AsRawFd, level: i32, option: i32, value: i32) {
    // SAFETY: the option is an int, and its size is given.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), size_of::<i32>() as u32)
    };
    assert_eq!(done, 0, "option {option}: {}", std::io::Error::last_os_error());
}

/// Chooses reno, which does not pace by itself.
pub fn unpaced(socket: &TcpStream) {
    let name = b"reno";
    // SAFETY: the option takes a name of the given length.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_ptr().cast(), 4)
    };
    assert_eq!(done, 0);
}

/// A pair of connected sockets: the client's and the server's.
pub fn pair_at(address: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(address).unwrap();
    accept_one(&listener)
}

/// One more connection to a listener.
pub fn accept_one(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    unpaced(&client);
    unpaced(&server);
    (client, server)
}

/// A pair over IPv4 loopback, without Nagle's rule.
pub fn pair() -> (TcpStream, TcpStream) {
    let (client, server) = pair_at("127.0.0.1:0");
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    (client, server)
}

pub fn config(target: Target) -> Config {
    Config { target, max_connections: 64, ..Config::default() }
}

pub fn port(port: u16) -> Config {
    config(Target { ports: vec![port.into()], ..Target::default() })
}

/// Every backend.
pub const BACKENDS: [Backend; 2] = [Backend::Timestamping, Backend::Tracepoints];

pub fn on(mut config: Config, backend: Backend) -> Config {
    config.backend = match backend {
        Backend::Timestamping => BackendChoice::Timestamping,
        Backend::Tracepoints => BackendChoice::Tracepoints,
    };
    config
}

/// A tracer with everything it told.
pub struct Trace {
    pub tracer: Tracer,
    pub events: Vec<Event>,
}

impl Trace {
    pub fn start(config: &Config) -> Self {
        Self { tracer: Tracer::start(config).unwrap(), events: Vec::new() }
    }

    pub fn poll(&mut self) {
        self.tracer.poll(Duration::ZERO, &mut |event| self.events.push(event)).unwrap();
    }

    /// Polls until so many sends were told of, or for ten seconds.
    pub fn until(&mut self, sends: usize) {
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while self.sends().len() < sends && std::time::Instant::now() < end {
            self.tracer.poll(Duration::from_millis(10), &mut |event| self.events.push(event)).unwrap();
        }
    }

    /// Polls until so many bytes were told of, or for ten seconds.
    pub fn until_bytes(&mut self, bytes: usize) {
        let end = std::time::Instant::now() + Duration::from_secs(10);
        let told = |sends: Vec<Send>| sends.iter().map(|s| s.bytes as usize).sum::<usize>();
        while told(self.sends()) < bytes && std::time::Instant::now() < end {
            self.tracer.poll(Duration::from_millis(10), &mut |event| self.events.push(event)).unwrap();
        }
    }

    pub fn sends(&self) -> Vec<Send> {
        sends(&self.events)
    }

    pub fn finish(mut self) -> (Vec<Event>, Summary) {
        let (summary, asked) = self.tracer.finish(&mut |event| self.events.push(event));
        asked.unwrap();
        (self.events, summary)
    }
}

pub fn sends(events: &[Event]) -> Vec<Send> {
    events.iter().filter_map(|e| if let Event::Send(send) = e { Some(*send) } else { None }).collect()
}

pub fn connections(events: &[Event]) -> Vec<(SocketAddr, SocketAddr)> {
    events.iter().filter_map(|e| if let Event::Connection(c) = e { Some((c.local, c.remote)) } else { None }).collect()
}

/// Every send is delivered or in one counter: how many that makes.
pub fn accounted(sends: &[Send], lost: &Lost) -> u64 {
    sends.len() as u64 + lost.ring_buffer + lost.slots_full + lost.over_rate
}

/// Reads and throws away until the peer closes.
pub fn drain(mut socket: TcpStream) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let (mut buffer, mut total) = (vec![0; 1 << 16], 0);
        while let Ok(n @ 1..) = socket.read(&mut buffer) {
            total += n as u64;
        }
        total
    })
}

/// Runs a command in this thread's namespaces; its words have a blank between them.
pub fn run(words: &str) {
    let (program, args) = words.split_once(' ').unwrap();
    let status = std::process::Command::new(program).args(args.split(' ')).status().unwrap();
    assert!(status.success(), "{words}");
}

/// A counter of this thread's network namespace: of a group in `/proc/net/snmp` or
/// `/proc/net/netstat`, such as `Tcp` and `ActiveOpens`.
pub fn counter(file: &str, group: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group)?.strip_prefix(": "));
    let at = lines.next().unwrap().split(' ').position(|each| each == name).unwrap();
    lines.next().unwrap().split(' ').nth(at).unwrap().parse().unwrap()
}

/// Packets that the queueing discipline of this thread's loopback dropped, by its own count.
pub fn dropped_on_loopback() -> u64 {
    let shown = std::process::Command::new("tc").args(["-s", "qdisc", "show", "dev", "lo"]).output().unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    let (_, after) = text.split_once("dropped ").unwrap();
    after.split([',', ' ']).next().unwrap().parse().unwrap()
}

/// Runs `work` in a network namespace of its own whose loopback is up and has the queueing
/// discipline `tbf` with these arguments, if any. The namespace goes with the thread.
pub fn in_namespace<T: std::marker::Send + 'static>(
    tbf: Option<&str>,
    work: impl FnOnce() -> T + std::marker::Send + 'static,
) -> T {
    let tbf = tbf.map(str::to_owned);
    std::thread::spawn(move || {
        // SAFETY: unshare changes this thread alone.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
        run("ip link set lo up mtu 1500");
        // Congestion controls that pace by themselves would hide the other reasons to wait.
        std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno").unwrap();
        if let Some(tbf) = tbf {
            run(&format!("tc qdisc add dev lo root tbf {tbf}"));
        }
        work()
    })
    .join()
    .unwrap()
}

/// Runs `work` in a thread with a network namespace of its own, joined to the caller's by a wire:
/// `near`, 192.0.2.1, here and `far`, 192.0.2.2, there. The namespace goes with the thread.
pub fn far_host<T: std::marker::Send + 'static>(
    work: impl FnOnce() -> T + std::marker::Send + 'static,
) -> std::thread::JoinHandle<T> {
    let (told, thread) = std::sync::mpsc::channel();
    let (wired, go) = std::sync::mpsc::channel::<()>();
    let host = std::thread::spawn(move || {
        // SAFETY: unshare changes this thread alone, and gettid takes nothing.
        told.send(unsafe { (libc::unshare(libc::CLONE_NEWNET), libc::gettid()) }).unwrap();
        go.recv().unwrap();
        run("ip addr add 192.0.2.2/24 dev far");
        run("ip link set far up");
        work()
    });
    let (unshared, thread) = thread.recv().unwrap();
    assert_eq!(unshared, 0);
    run(&format!("ip link add near type veth peer name far netns {thread}"));
    run("ip addr add 192.0.2.1/24 dev near");
    run("ip link set near up");
    wired.send(()).unwrap();
    host
}

/// Runs `work` with a connection between two network namespaces: the client is in the caller's
/// thread's own, and what the server sends passes a `tbf` with these arguments. Both namespaces go
/// with their threads.
pub fn with_slow_acks<T: std::marker::Send + 'static>(
    tbf: &str,
    work: impl FnOnce(TcpStream, TcpStream) -> T + std::marker::Send + 'static,
) -> T {
    let tbf = tbf.to_owned();
    in_namespace(None, move || {
        let (listening, ready) = std::sync::mpsc::channel::<()>();
        let server = far_host(move || {
            run(&format!("tc qdisc add dev far root tbf {tbf}"));
            let listener = TcpListener::bind("192.0.2.2:4444").unwrap();
            listening.send(()).unwrap();
            let (server, _) = listener.accept().unwrap();
            unpaced(&server);
            server
        });
        ready.recv().unwrap();
        let client = TcpStream::connect("192.0.2.2:4444").unwrap();
        unpaced(&client);
        client.set_nodelay(true).unwrap();
        let server = server.join().unwrap();
        work(client, server)
    })
}
