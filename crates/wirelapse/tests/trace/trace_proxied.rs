//! What a proxy asks for the requests that it answers, held against what the proxy knows: whom it
//! asked, and how long it waited for each.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::scene::command::{signal, tracing};
use crate::scene::{BTF, turn};
use serde_json::Value;
use tier::Need;

const PYTHON: Need<'static> = Need::Program("python3");

/// Answers each request after as many milliseconds as it asks for, in 4 digits.
const UPSTREAM: &str = "import socketserver,time\n\
    class Answer(socketserver.BaseRequestHandler):\n \
     def handle(self):\n  \
      while asked := self.request.recv(4):\n   \
       time.sleep(int(asked)/1000)\n   \
       self.request.sendall(b'y'*2000)\n\
    class Server(socketserver.ThreadingTCPServer): daemon_threads=True\n\
    server=Server(('127.0.0.1',0),Answer)\n\
    print(server.server_address[1],flush=True)\n\
    server.serve_forever()\n";

/// Asks the same of the upstream on a connection of its own for each client, works for 3 ms, and
/// tells the port of the client, how long it waited, in nanoseconds, and for how many milliseconds
/// it asked.
const PROXIES: &str = "import socket,socketserver,sys,time\n\
    class Pass(socketserver.BaseRequestHandler):\n \
     def handle(self):\n  \
      upstream=socket.create_connection(('127.0.0.1',int(sys.argv[1])))\n  \
      while asked := self.request.recv(4):\n   \
       time.sleep(.003)\n   \
       began=time.monotonic_ns()\n   \
       upstream.sendall(asked)\n   \
       answer=upstream.recv(2000,socket.MSG_WAITALL)\n   \
       waited=time.monotonic_ns()-began\n   \
       self.request.sendall(answer)\n   \
       sys.stdout.write(f'{self.client_address[1]} {waited} {int(asked)}\\n')\n   \
       sys.stdout.flush()\n\
    class Server(socketserver.ThreadingTCPServer): daemon_threads=True\n\
    server=Server(('127.0.0.1',0),Pass)\n\
    print(server.server_address[1],flush=True)\n\
    server.serve_forever()\n";

/// The same in an event loop.
const LOOPS: &str = "import asyncio,sys,time\n\
    async def serve(client,to):\n \
     upstream,ask=await asyncio.open_connection('127.0.0.1',int(sys.argv[1]))\n \
     while asked := await client.read(4):\n  \
      await asyncio.sleep(.003)\n  \
      began=time.monotonic_ns()\n  \
      ask.write(asked)\n  \
      answer=await upstream.readexactly(2000)\n  \
      waited=time.monotonic_ns()-began\n  \
      to.write(answer)\n  \
      sys.stdout.write(f'{to.get_extra_info(\"peername\")[1]} {waited} {int(asked)}\\n')\n  \
      sys.stdout.flush()\n \
     to.close()\n\
    async def main():\n \
     server=await asyncio.start_server(serve,'127.0.0.1',0)\n \
     print(server.sockets[0].getsockname()[1],flush=True)\n \
     await server.serve_forever()\n\
    asyncio.run(main())\n";

/// What a proxy waits for at least, of which a sleep is a part.
const MILLI: u64 = 1_000_000;
/// What the first client asks for, ms; each of the others asks for more.
const SLEEPS: u64 = 40;
const MORE: u64 = 5;

struct Program {
    process: Child,
    port: u16,
    said: BufReader<std::process::ChildStdout>,
}

impl Program {
    fn start(script: &str, args: &[String]) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", script]).args(args).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        Self { process, port: line.trim().parse().unwrap(), said }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        signal(&self.process, libc::SIGKILL);
        let _ = self.process.wait();
    }
}

/// What a proxy says of a request: how long it waited, and at least had to, nanoseconds.
type Told = (u64, u64);

/// What was seen of a proxy with so many clients at once.
struct Seen {
    lines: Vec<Value>,
    /// What `report` says of the run.
    report: String,
    /// How long the proxy itself says that it waited, and what for, by the port of the client.
    told: HashMap<u16, Vec<Told>>,
    proxy: u32,
    upstream: u16,
}

/// Traces the proxy, and the upstream where `both`, while each client makes so many requests.
fn traced(script: &str, both: bool, clients: u64, times: usize) -> Seen {
    let upstream = Program::start(UPSTREAM, &[]);
    let mut proxy = Program::start(script, &[upstream.port.to_string()]);
    let run = tempfile::tempdir().unwrap();
    let run = run.path().join("run");
    let pids = [&proxy, &upstream].map(|program| program.process.id().to_string());
    let mut args = vec!["--requests", "--json", "-o", run.to_str().unwrap(), "-p", &pids[0]];
    if both {
        args.extend(["-p", &pids[1]]);
    }
    let mut trace = tracing(&args).spawn().unwrap();
    // The sockets of programs that run already are followed by then.
    let mut notes = BufReader::new(trace.stderr.take().unwrap());
    let mut note = String::new();
    notes.read_line(&mut note).unwrap();
    assert!(note.starts_with("Tracing started"), "{note}");
    let port = proxy.port;
    let threads: Vec<_> = (0..clients)
        .map(|i| {
            std::thread::spawn(move || {
                let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
                let asks = format!("{:04}", SLEEPS + i * MORE);
                for _ in 0..times {
                    client.write_all(asks.as_bytes()).unwrap();
                    client.read_exact(&mut [0; 2_000]).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut told = HashMap::<u16, Vec<Told>>::new();
    for _ in 0..clients as usize * times {
        let mut line = String::new();
        proxy.said.read_line(&mut line).unwrap();
        let words: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        told.entry(words[0] as u16).or_default().push((words[1], words[2] * MILLI));
    }
    signal(&trace, libc::SIGINT);
    let out = trace.wait_with_output().unwrap();
    assert!(out.status.success());
    let lines = tier::text(&out.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let report = tier::wirelapse!(["report"]).arg(&run).output().unwrap();
    assert!(report.status.success(), "{}", tier::text(&report.stderr));
    let report = tier::text(&report.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    Seen { lines, report, told, proxy: proxy.process.id(), upstream: upstream.port }
}

impl Seen {
    /// The requests that the proxy answered, with what it told of each, in their order.
    fn proxied(&self) -> Vec<(&Value, Told)> {
        let of = |kind: &'static str| self.lines.iter().filter(move |line| line["kind"] == kind);
        let clients: HashMap<&Value, u16> = of("connection")
            .map(|line| (&line["connection_id"], line["remote_port"].as_u64().unwrap() as u16))
            .collect();
        let mut requests: Vec<_> =
            of("request").filter(|line| line["role"] == "server" && line["pid"] == self.proxy).collect();
        requests.sort_by_key(|line| line["arrived_at_ns"].as_u64());
        // The first of a connection may have come before it was followed, so they are counted from
        // the last.
        let mut left = self.told.clone();
        let of = |line: &Value| clients[&line["connection_id"]];
        let told: Vec<Told> =
            requests.iter().rev().map(|line| left.get_mut(&of(line)).unwrap().pop().unwrap()).collect();
        requests.into_iter().zip(told.into_iter().rev()).collect()
    }

    /// How many requests were not seen: at most the first of each connection.
    #[track_caller]
    fn unseen(&self, clients: u64, times: usize) -> u64 {
        let (all, seen) = (clients * times as u64, self.proxied().len() as u64);
        assert!(seen + clients >= all && seen <= all, "{seen} of {all}: {:?}", self.lines.last());
        all - seen
    }

    /// Those that are joined: each with the upstream, and waits that the proxy knows of.
    #[track_caller]
    fn joined(&self, both: bool) -> Vec<(&Value, Told)> {
        let mut requests = self.proxied();
        requests.retain(|(line, _)| line["upstream_join"] == "joined");
        for (line, (waited, least)) in &requests {
            let ns = |key: &str| line[key].as_u64().unwrap_or_else(|| panic!("no {key}: {line}"));
            assert_eq!((ns("upstream_requests"), &line["upstream_both_ends"]), (1, &both.into()), "{line}");
            assert_eq!(line["upstream_remote"], format!("127.0.0.1:{}", self.upstream), "{line}");
            // A sleep is never shorter than it is to be.
            assert!((*least..=*waited).contains(&ns("upstream_ns")), "{least} to {waited}: {line}");
            assert!(ns("application_ns") >= 3 * MILLI, "what the proxy does itself: {line}");
            assert!(ns("upstream_program_ns") + ns("upstream_network_ns") <= ns("upstream_ns"), "{line}");
            // But for what the program that was asked takes to acknowledge.
            assert!(ns("upstream_program_ns") >= (SLEEPS - MORE) * MILLI, "{line}");
            let sum: u64 = record::Component::ALL.iter().filter_map(|part| line[format!("{part}_ns")].as_u64()).sum();
            assert_eq!(Some(sum), line["whole_ns"].as_u64(), "{line}");
        }
        requests
    }

    fn figures(&self) -> &Value {
        let summary = self.lines.iter().find(|line| line["kind"] == "summary").unwrap();
        &summary["requests"]["proxied"]
    }
}

#[test]
fn a_proxy_with_one_client_waited_as_long_as_it_says_itself() {
    tier::needs!(Need::Root, BTF, PYTHON);
    let _turn = turn();
    let times = 25;
    let seen = traced(PROXIES, false, 1, times);
    let n = times as u64 - seen.unseen(1, times);
    assert_eq!(seen.joined(false).len() as u64, n, "{:#?}", seen.proxied());
    let figures = seen.figures();
    assert_eq!((figures["joined"].as_u64(), figures["withheld"].as_u64()), (Some(n), Some(0)), "{figures}");
    assert!(figures["parts"]["upstream"]["p50_ns"].as_u64() >= Some(SLEEPS * MILLI), "{figures}");
    let first = seen.report.split(". ").find(|sentence| sentence.contains("to this program")).unwrap_or_default();
    assert!(
        first.contains(&format!("{n} requests to this program, joined with what it asked others for them: median")),
        "{}",
        seen.report
    );
    let waited = format!("waiting for 127.0.0.1:{}", seen.upstream);
    assert!(seen.report.contains(&waited), "{}", seen.report);
    // Its upstream is the next to be looked at, and it is on this host.
    let next = format!("wirelapse trace --requests --port {}", seen.upstream);
    assert!(seen.report.contains(&next), "{}", seen.report);
}

#[test]
fn an_upstream_that_is_traced_too_is_named_with_its_own_time() {
    tier::needs!(Need::Root, BTF, PYTHON);
    let _turn = turn();
    let times = 25;
    let seen = traced(PROXIES, true, 1, times);
    let n = times as u64 - seen.unseen(1, times);
    assert_eq!(seen.joined(true).len() as u64, n, "{:#?}", seen.proxied());
    assert_eq!(seen.figures()["both_ends"].as_u64(), Some(n));
    assert_eq!(seen.figures()["requests"].as_u64(), Some(n), "the upstream asks nobody");
    let program = format!("the program at 127.0.0.1:{}, which is traced as well, takes that time", seen.upstream);
    assert!(seen.report.contains(&program), "{}", seen.report);
    assert!(!seen.report.contains("trace --requests --port"), "nothing sends elsewhere: {}", seen.report);
}

#[test]
fn of_clients_at_once_only_what_is_certain_is_joined() {
    tier::needs!(Need::Root, BTF, PYTHON);
    let _turn = turn();
    for both in [false, true] {
        let (clients, times) = (8, 20);
        let seen = traced(LOOPS, both, clients, times);
        let all = clients * times as u64 - seen.unseen(clients, times);
        let joined = seen.joined(both).len() as u64;
        let figures = seen.figures();
        let n = |key: &str| figures[key].as_u64().unwrap();
        assert_eq!((n("joined"), n("joined") + n("withheld") + n("nothing")), (joined, n("requests")), "{figures}");
        // With so many at once it is rarely certain, and then the share is what is said.
        assert!(n("withheld") > all / 2, "{figures}");
        let said = format!(
            "{} of {} requests to a program that asks others itself cannot be joined",
            n("withheld"),
            n("requests")
        );
        assert!(seen.report.contains(&said), "{said}: {}", seen.report);
    }
}

/// As many as that show first how the proxy works are not joined.
#[test]
fn of_clients_at_once_each_thread_of_a_proxy_is_joined_with_what_it_asked() {
    tier::needs!(Need::Root, BTF, PYTHON);
    let _turn = turn();
    for both in [false, true] {
        let (clients, times) = (8, 20);
        let seen = traced(PROXIES, both, clients, times);
        let all = clients * times as u64 - seen.unseen(clients, times);
        let joined = seen.joined(both).len() as u64;
        let figures = seen.figures();
        let n = |key: &str| figures[key].as_u64().unwrap();
        assert_eq!((n("joined"), n("joined") + n("withheld") + n("nothing")), (joined, n("requests")), "{figures}");
        assert!(joined > all / 2 && n("nothing") == 0, "{figures}");
        let said = format!("{joined} of {} requests to this program, joined with what it asked others", n("requests"));
        assert!(seen.report.contains(&said), "{said}: {}", seen.report);
    }
}
