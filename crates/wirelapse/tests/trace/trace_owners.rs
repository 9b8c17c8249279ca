//! Whose packets are, of sockets whose process is hard to know, beside what the processes say
//! themselves.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::process::{Child, ChildStdout, Stdio};

use crate::scene::command::{is_tracing, signal, tracing};
use crate::scene::{BTF, turn};
use record::{Direction, KnownBy, PacketCopy};
use tier::{Need, text};

/// Makes sockets of a kind and uses each, and says who did: `made` or `used`, the inode number of
/// the network namespace, the port, and the process.
const SOCKETS: &str = r#"
import array, os, socket, sys, threading
kind, proto, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
stream = proto == "tcp"
type = socket.SOCK_STREAM if stream else socket.SOCK_DGRAM
network = os.stat("/proc/self/ns/net").st_ino

def say(did, end):
    os.write(1, f"{did} {network} {end.getsockname()[1]} {os.getpid()}\n".encode())

def make():
    end = socket.socket(socket.AF_INET, type)
    end.connect(("127.0.0.1", port))
    say("made", end)
    return end

def use(end):
    say("used", end)
    end.send(b"x")
    end.recv(1)

def apart(work, *of):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    work(*of)
    os._exit(0)

def serve():
    server = socket.socket(socket.AF_INET, type)
    server.bind(("127.0.0.1", port))
    if stream:
        server.listen(200)
    say("server", server)
    def answer(end):
        while end.recv(1):
            end.send(b"y")
    while True:
        if stream:
            threading.Thread(target=answer, args=[server.accept()[0]], daemon=True).start()
        else:
            data, peer = server.recvfrom(1)
            server.sendto(b"y", peer)

def begin():
    os.write(1, b"ready\n")
    sys.stdin.readline()

if kind == "server":
    serve()
if kind == "older":
    ends = [make() for _ in range(100)]
    begin()
    for end in ends:
        use(end)
else:
    begin()
if kind in ("short", "elsewhere"):
    def once():
        end = make()
        use(end)
    for _ in range(100):
        apart(once)
if kind == "inherited":
    for _ in range(100):
        end = make()
        apart(use, end)
if kind == "passed":
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    child = os.fork()
    if not child:
        for _ in range(100):
            end = socket.socket(fileno=socket.recv_fds(theirs, 1, 1)[1][0])
            use(end)
            end.close()
            theirs.send(b".")
        os._exit(0)
    for _ in range(100):
        end = make()
        socket.send_fds(ours, [b"."], [end.fileno()])
        end.close()
        ours.recv(1)
    os.waitpid(child, 0)
os.write(1, b"done\n")
"#;

/// Who did what with which socket.
type Truth = HashMap<(&'static str, u32, u16), HashSet<u32>>;

struct Sockets {
    process: Child,
    said: BufReader<ChildStdout>,
}

impl Sockets {
    /// In a network namespace of its own where that is asked for.
    fn start(kind: &str, protocol: &str, port: u16, apart: bool) -> Self {
        let run = "ip link set lo up && { python3 -c \"$1\" server \"$3\" \"$4\" & }; sleep 0.5; python3 -c \"$1\" \"$2\" \"$3\" \"$4\"; kill $!";
        let mut command = tier::command(if apart { "unshare" } else { "python3" });
        if apart {
            command.args(["-n", "sh", "-c", run, "sh", SOCKETS]);
        } else {
            command.args(["-c", SOCKETS]);
        }
        command.args([kind, protocol, &port.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let said = BufReader::new(process.stdout.take().unwrap());
        Self { process, said }
    }

    /// Reads what is said until this word, into what is known.
    fn until(&mut self, word: &str, truth: &mut Truth) {
        let mut line = String::new();
        while self.said.read_line(&mut line).unwrap() > 0 {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [only] if only == word => return,
                [did, network, port, pid] => {
                    let did = ["made", "used", "server"].into_iter().find(|known| *known == did).unwrap();
                    let key = (did, network.parse().unwrap(), port.parse().unwrap());
                    truth.entry(key).or_default().insert(pid.parse().unwrap());
                }
                _ => panic!("{line}"),
            }
            line.clear();
        }
        panic!("ended before it said {word}");
    }

    fn run(mut self, truth: &mut Truth) {
        self.until("ready", truth);
        self.go(truth);
    }

    fn go(mut self, truth: &mut Truth) {
        self.process.stdin.take().unwrap().write_all(b"\n").unwrap();
        self.until("done", truth);
        self.process.wait().unwrap();
    }
}

/// Answers each byte, in this process.
fn answer(tcp: Option<TcpListener>, udp: Option<UdpSocket>) {
    if let Some(listener) = tcp {
        std::thread::spawn(move || {
            for end in listener.incoming() {
                let mut end = end.unwrap();
                std::thread::spawn(move || {
                    while end.read(&mut [0]).is_ok_and(|n| n > 0) {
                        if end.write_all(b"y").is_err() {
                            return;
                        }
                    }
                });
            }
        });
    }
    if let Some(socket) = udp {
        std::thread::spawn(move || {
            while let Ok((_, peer)) = socket.recv_from(&mut [0]) {
                let _ = socket.send_to(b"y", peer);
            }
        });
    }
}

const KINDS: [&str; 5] = ["older", "short", "passed", "inherited", "elsewhere"];

fn owners(protocol: &str) {
    let stream = protocol == "tcp";
    let tcp = stream.then(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let udp = (!stream).then(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let port = tcp.as_ref().map_or_else(|| udp.as_ref().unwrap().local_addr(), TcpListener::local_addr).unwrap().port();
    answer(tcp, udp);
    let mut truths: BTreeMap<&str, Truth> = BTreeMap::new();
    let mut older = Sockets::start("older", protocol, port, false);
    older.until("ready", truths.entry("older").or_default());

    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut command = tracing(&["--packets", "--port", &port.to_string(), "-o", run.to_str().unwrap()]);
    let trace = command.spawn().unwrap();
    assert!(tier::wait_for(|| is_tracing(trace.id())), "no trace");
    std::thread::sleep(std::time::Duration::from_millis(300));
    older.go(truths.entry("older").or_default());
    for kind in &KINDS[1..] {
        Sockets::start(kind, protocol, port, *kind == "elsewhere").run(truths.entry(kind).or_default());
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    signal(&trace, libc::SIGINT);
    let out = trace.wait_with_output().unwrap();
    let said = text(&out.stdout) + &text(&out.stderr);
    assert!(out.status.success(), "{said}");

    let mut rows = Vec::new();
    store::Run::open(&run).unwrap().copies(|copy| rows.push(copy)).unwrap();
    // A port of UDP is free again at once, and may be of sockets of two kinds.
    let mut all = Truth::new();
    for (key, pids) in truths.values().flatten() {
        all.entry(*key).or_default().extend(pids);
    }
    for kind in KINDS {
        check(kind, &truths[kind], &all, port, &rows, stream);
    }
    // Of the server's sockets, none is of somebody else.
    let own = std::process::id();
    let servers: HashSet<u32> =
        truths.values().flatten().filter(|of| of.0.0 == "server").flat_map(|of| of.1.clone()).collect();
    for row in rows.iter().filter(|row| row.local.port() == port && row.owner.pid != 0) {
        assert!(row.owner.pid == own || servers.contains(&row.owner.pid), "{row:?}");
    }
}

/// The packets of the sockets of a kind, at their own end.
fn check(kind: &str, of_kind: &Truth, all: &Truth, port: u16, rows: &[PacketCopy], stream: bool) {
    let key = |what, row: &PacketCopy| (what, row.interface.network, row.local.port());
    let did = |what, row: &PacketCopy| all.get(&key(what, row)).unwrap();
    let mut sockets: HashMap<(u16, u64), (u32, u32)> = HashMap::new();
    let mut words: BTreeMap<&str, u32> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.local.port() != port && of_kind.contains_key(&key("made", row))) {
        let (made, used) = (did("made", row), did("used", row));
        let pid = &row.owner.pid;
        let right = match row.known_by {
            KnownBy::Unknown => *pid == 0,
            KnownBy::Made | KnownBy::Connected | KnownBy::Held => made.contains(pid),
            KnownBy::Sent => used.contains(pid),
            KnownBy::Listens | KnownBy::Accepted | KnownBy::Used => false,
        };
        assert!(right, "{kind}: made by {made:?}, used by {used:?}: {row:?}");
        // Each has one thread.
        assert!(row.thread.is_none_or(|thread| thread == *pid), "{row:?}");
        *words.entry(row.known_by.name()).or_default() += 1;
        let (known, all) = sockets.entry((row.local.port(), row.socket.0)).or_default();
        *known += u32::from(row.known_by != KnownBy::Unknown);
        *all += 1;
        if stream && row.direction == Direction::Sent && row.payload > 0 && row.known_by == KnownBy::Sent {
            assert!(row.thread.is_some() && row.carried.is_some(), "{row:?}");
        }
    }
    println!("{kind}: {} sockets; packets by how their process is known: {words:?}", sockets.len());
    assert!(sockets.len() >= 100, "{kind}: packets of {} sockets", sockets.len());
    let known = sockets.values().filter(|(known, _)| *known > 0).count();
    assert!(known >= 95, "{kind}: of {known} sockets a process is known");
}

#[test]
fn of_five_hundred_hard_sockets_of_tcp_none_has_a_wrong_process() {
    tier::needs!(Need::Root, BTF, Need::Program("python3"), Need::Program("unshare"));
    let _turn = turn();
    owners("tcp");
}

#[test]
fn of_five_hundred_hard_sockets_of_udp_none_has_a_wrong_process() {
    tier::needs!(Need::Root, BTF, Need::Program("python3"), Need::Program("unshare"));
    let _turn = turn();
    owners("udp");
}
