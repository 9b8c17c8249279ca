//! Servers that people run, whose workers are processes: whose each connection is, and what was
//! written on it, held against the servers' own logs.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use record::Event;
use tier::{Need, postgres};
use trace::{Backend, Config, Summary, Target};

use crate::traffic::{self, BACKENDS, Trace, config, in_namespace, on, sends};

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");

/// A server with its workers, which end with the value.
struct Server(Child);

impl Server {
    fn children(&self) -> Vec<u32> {
        let text = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.0.id())).unwrap_or_default();
        text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }

    /// Ends it in the way that both servers take for an order to close at once and tidily.
    fn end(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            // SAFETY: kill takes two numbers; the process has not been waited for, so its number is
            // its own.
            unsafe { libc::kill(self.0.id() as i32, libc::SIGINT) };
            let _ = self.0.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn following(pid: u32, backend: Backend) -> Config {
    on(Config { receive: true, ..config(Target { pids: vec![pid], ..Target::default() }) }, backend)
}

/// All that was written is in the sends of this process, and it is so much.
fn all_of(pid: u32, bytes: u64, events: &[Event], summary: &Summary) {
    let lost = &summary.lost;
    let sends = sends(events);
    assert!(sends.iter().all(|send| send.owner.pid == pid), "{sends:?}");
    let told: u64 = sends.iter().map(|s| u64::from(s.bytes)).sum();
    assert_eq!((told, summary.coverage.bytes_written), (bytes, bytes), "{lost:?}");
    for event in events {
        match event {
            Event::Connection(connection) => assert_eq!(connection.owner.pid, pid),
            Event::Receive(receive) => assert_eq!(receive.reader.pid, pid),
            _ => {}
        }
    }
}

const NGINX_PORT: u16 = 8_080;

/// One more request on a connection that stays: the answer is read to its end.
fn get(connection: &mut BufReader<TcpStream>, path: &str) {
    write!(connection.get_mut(), "GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let (mut line, mut length) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        assert!(connection.read_line(&mut line).unwrap() > 0, "the answer ends early");
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.trim().parse().unwrap();
        }
    }
    connection.read_exact(&mut vec![0; length]).unwrap();
}

fn nginx(dir: &Path) -> Server {
    fs::create_dir(dir.join("pages")).unwrap();
    fs::write(dir.join("pages/small"), vec![b'x'; 500]).unwrap();
    fs::write(dir.join("pages/large"), vec![b'x'; 100_000]).unwrap();
    let of = dir.display();
    let settings = format!(
        "daemon off; worker_processes 2; user root; pid {of}/pid; error_log {of}/error;
         events {{ worker_connections 256; accept_mutex on; accept_mutex_delay 1ms; }}
         http {{
             log_format bytes '$pid $connection $bytes_sent'; access_log {of}/access bytes;
             client_body_temp_path {of}/body; proxy_temp_path {of}/proxy; fastcgi_temp_path {of}/fastcgi;
             uwsgi_temp_path {of}/uwsgi; scgi_temp_path {of}/scgi;
             sendfile on; server {{ listen 127.0.0.1:{NGINX_PORT}; root {of}/pages; }}
         }}"
    );
    fs::write(dir.join("settings"), settings).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-p").arg(dir).arg("-c").arg(dir.join("settings")).args(["-e", "stderr"]);
    Server(command.stdin(Stdio::null()).spawn().unwrap())
}

#[test]
fn of_nginx_one_worker_is_followed_with_the_bytes_of_its_access_log() {
    tier::needs!(Need::Root, BTF, Need::Program("nginx"));
    for backend in BACKENDS {
        in_namespace(None, move || {
            let dir = tempfile::tempdir().unwrap();
            let mut server = nginx(dir.path());
            // The listener is there before them.
            let workers =
                tier::until_some("two workers", || Some(server.children()).filter(|workers| workers.len() == 2));
            let worker = workers[0];
            let address = ("127.0.0.1", NGINX_PORT);
            let mut trace = Trace::start(&following(worker, backend));
            // Which worker takes a connection is chance: until both have answered.
            let (mut connections, log) = (0, dir.path().join("access"));
            tier::until_some("answers of both workers", || {
                for _ in 0..10 {
                    let mut client = BufReader::new(TcpStream::connect(address).unwrap());
                    for path in ["small", "large", "small"] {
                        get(&mut client, path);
                    }
                    connections += 1;
                }
                trace.poll();
                let log = fs::read_to_string(&log).unwrap();
                workers.iter().all(|pid| log.lines().any(|line| line.starts_with(&format!("{pid} ")))).then_some(())
            });
            let (events, summary) = trace.finish();
            server.end();
            let log = fs::read_to_string(log).unwrap();
            let line =
                |line: &str| <[u64; 3]>::try_from(line.split(' ').map(|w| w.parse().unwrap()).collect::<Vec<_>>());
            let lines: Vec<_> = log.lines().map(|each| line(each).unwrap()).collect();
            assert_eq!(lines.len(), 3 * connections, "{log}");
            let own: Vec<_> = lines.iter().filter(|[pid, ..]| *pid == u64::from(worker)).collect();
            all_of(worker, own.iter().map(|[.., bytes]| bytes).sum(), &events, &summary);
            assert_eq!(traffic::connections(&events).len(), own.len() / 3, "{backend}");
        });
    }
}

const POSTGRES_PORT: u16 = 5_432;

/// A client's connection, with the process that serves it.
struct Session {
    stream: TcpStream,
    pid: u32,
    received: u64,
}

impl Session {
    /// `None` where the server does not take connections yet.
    fn open() -> Option<Self> {
        let stream = TcpStream::connect(("127.0.0.1", POSTGRES_PORT)).ok()?;
        let mut session = Self { stream, pid: 0, received: 0 };
        let words = b"user\0postgres\0database\0postgres\0\0";
        let start = [&(8 + words.len() as u32).to_be_bytes()[..], &196_608_u32.to_be_bytes(), words].concat();
        session.stream.write_all(&start).ok()?;
        session.until_ready()?;
        session.received = 0;
        Some(session)
    }

    /// Reads messages until the server waits for a query; `None` where it refuses or goes instead.
    fn until_ready(&mut self) -> Option<()> {
        loop {
            let mut head = [0; 5];
            self.stream.read_exact(&mut head).ok()?;
            let mut body = vec![0; u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4];
            self.stream.read_exact(&mut body).ok()?;
            self.received += (head.len() + body.len()) as u64;
            match head[0] {
                b'K' => self.pid = u32::from_be_bytes(body[..4].try_into().unwrap()),
                b'E' => return None,
                b'Z' => return Some(()),
                _ => {}
            }
        }
    }

    fn query(&mut self, text: &str) {
        let length = (4 + text.len() as u32 + 1).to_be_bytes();
        self.stream.write_all(&[b"Q", &length[..], text.as_bytes(), b"\0"].concat()).unwrap();
        self.until_ready().unwrap();
    }
}

#[test]
fn of_postgresql_one_worker_is_followed_with_the_bytes_that_its_client_got() {
    const QUERIES: usize = 30;
    let program = postgres::program("postgres").unwrap_or("/usr/lib/postgresql/15/bin/postgres".into());
    tier::needs!(Need::Root, BTF, Need::Path(program.to_str().unwrap()));
    in_namespace(None, move || {
        let dir = tempfile::tempdir().unwrap();
        let settings = ["log_statement=all", "log_line_prefix=%p "];
        let mut server = Server(postgres::start(dir.path(), POSTGRES_PORT, &settings));
        let mut followed = Vec::new();
        for backend in BACKENDS {
            let [mut ours, mut other] = [(); 2].map(|()| tier::until_some("a server", Session::open));
            let trace = Trace::start(&following(ours.pid, backend));
            for n in 0..QUERIES {
                // Answers of up to five of the server's buffers.
                ours.query(&format!("SELECT repeat('x', {})", n * 1_400));
                other.query("SELECT 1");
            }
            let (events, summary) = trace.finish();
            all_of(ours.pid, ours.received, &events, &summary);
            assert_eq!(traffic::connections(&events).len(), 1, "{backend}");
            followed.push((ours.pid, events.iter().filter(|event| matches!(event, Event::Receive(_))).count()));
        }
        server.end();
        let log = fs::read_to_string(dir.path().join("log")).unwrap();
        for (pid, reads) in followed {
            let own = log.lines().filter(|line| line.starts_with(&format!("{pid} LOG:  statement: "))).count();
            assert_eq!((own, reads), (QUERIES, QUERIES), "{log}");
        }
    });
}
