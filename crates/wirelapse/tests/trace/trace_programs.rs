//! Packets of programs that send in every way there is, as `wirelapse trace --packets` copies them,
//! held against tcpdump: the same packets with the same bytes, at the same time.

use std::collections::HashMap;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::scene::command::{is_tracing, tracing};
use crate::scene::path::lab;
use crate::scene::tcpdump::Tcpdump;
use crate::scene::{BTF, TUN, median, turn};
use crate::trace_packets::{Seen, TCPDUMP, TSHARK, copied, read};
use lab::{Host, Side};
use tier::{Need, Process, text};
use wire::capture::flag;

/// The port of the first program; each has the next one.
const PORT: u16 = 7_101;
/// Addresses of the server on the link between the two hosts, on a VLAN of it, and of IPv6.
const SERVER: &str = "198.18.7.2";
const ON_VLAN: &str = "198.18.5.2";
const SERVER_V6: &str = "fdaa::2";
/// The same of IPv4, for a socket of IPv6.
const MAPPED: &str = "::ffff:198.18.7.2";

/// Two programs that talk with each other.
struct Pair {
    name: &'static str,
    /// What has to be installed.
    needs: &'static [&'static str],
    server: String,
    client: String,
}

/// One of `programs.py`.
fn script(name: &'static str, kind: &str, address: &str) -> Pair {
    let listens = if address == MAPPED { SERVER } else { address };
    let of = |role: &str, address: &str| format!("exec python3 $PROGRAMS {kind} {role} {address} $PORT");
    Pair { name, needs: &["python3"], server: of("serve", listens), client: of("ask", address) }
}

fn other(name: &'static str, needs: &'static [&'static str], server: &str, client: &str) -> Pair {
    let with = |text: &str| text.replace("SERVER", SERVER);
    Pair { name, needs, server: with(server), client: with(client) }
}

/// nginx with one file, as HTTP/1.1 or as HTTP/2 over TLS.
fn nginx(listen: &str) -> String {
    format!(
        "cat >$WORK/nginx.conf <<EOF
daemon off; master_process off; pid $WORK/nginx.pid; error_log stderr;
events {{}}
http {{ access_log off; sendfile on; client_body_temp_path $WORK; proxy_temp_path $WORK; fastcgi_temp_path $WORK;
uwsgi_temp_path $WORK; scgi_temp_path $WORK;
server {{ listen SERVER:$PORT {listen}; ssl_certificate $WORK/cert; ssl_certificate_key $WORK/key; root $WORK; }} }}
EOF
exec nginx -c $WORK/nginx.conf"
    )
}

fn pairs() -> Vec<Pair> {
    let ip = SERVER;
    vec![
        script("TCP, long writes", "plain", ip),
        script("TCP over IPv6", "plain", SERVER_V6),
        script("TCP to a mapped address", "plain", MAPPED),
        script("TCP in a VLAN", "plain", ON_VLAN),
        script("TCP in small segments", "segment", ip),
        script("sendfile", "sendfile", ip),
        script("splice", "splice", ip),
        script("MSG_ZEROCOPY", "zerocopy", ip),
        script("io_uring", "io_uring", ip),
        script("sendmsg of many parts", "many", ip),
        script("TCP_NODELAY", "small", ip),
        script("TCP_CORK", "cork", ip),
        script("MSG_MORE", "more", ip),
        script("urgent data", "urgent", ip),
        script("a child's socket", "child", ip),
        script("reset", "reset", ip),
        script("UDP", "udp", ip),
        script("UDP over IPv6", "udp", SERVER_V6),
        script("UDP with GSO", "udp-gso", ip),
        script("UDP with GSO and GRO", "udp-gro", ip),
        script("fragments", "fragments", ip),
        script("fragments over IPv6", "fragments", SERVER_V6),
        other("HTTP/1.1", &["nginx", "curl"], &nginx(""), "exec curl -sf -o /dev/null http://SERVER:$PORT/file"),
        other(
            "HTTP/2 over TLS",
            &["nginx", "curl", "openssl"],
            &nginx("ssl http2"),
            "exec curl -skf --http2 -o /dev/null https://SERVER:$PORT/file",
        ),
        other(
            "TLS 1.3",
            &["openssl"],
            "exec openssl s_server -quiet -naccept 1 -accept SERVER:$PORT -cert $WORK/cert -key $WORK/key -WWW",
            "printf 'GET /cert HTTP/1.0\\r\\n\\r\\n' | openssl s_client -quiet -connect SERVER:$PORT 2>/dev/null || true",
        ),
        other("iperf3", &["iperf3"], "exec iperf3 -s -1 -B SERVER -p $PORT", "exec iperf3 -c SERVER -p $PORT -n 300K"),
        other(
            "iperf3 by UDP",
            &["iperf3"],
            "exec iperf3 -s -1 -B SERVER -p $PORT",
            "exec iperf3 -c SERVER -p $PORT -u -b 20M -n 100K",
        ),
    ]
}

/// What a shell runs in a host, with what the programs ask for.
fn shell(host: &Host<'_>, text: &str, port: u16, work: &Path) -> Command {
    let mut command = tier::limit(host.command("sh").unwrap());
    command.args(["-euc", text]).current_dir(work).env("PORT", port.to_string()).env("WORK", work);
    command.env("PROGRAMS", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/trace/programs.py"));
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// The port of the server, the lower of the two; `None` in a fragment that does not begin its
/// datagram.
fn of_port(seen: &Seen) -> Option<u16> {
    let (at, later) = match seen.bytes[0] >> 4 {
        4 => (usize::from(seen.bytes[0] & 15) * 4, seen.bytes[6] & 0x1f != 0 || seen.bytes[7] != 0),
        _ if seen.bytes[6] == 44 => (48, seen.bytes[42] != 0 || seen.bytes[43] & 0xf8 != 0),
        _ => (40, false),
    };
    let port = |at: usize| u16::from_be_bytes([seen.bytes[at], seen.bytes[at + 1]]);
    (!later).then(|| port(at).min(port(at + 2)))
}

#[test]
fn packets_of_programs_of_all_kinds_are_those_of_tcpdump() {
    tier::needs!(Need::Root, BTF, TUN, TCPDUMP, TSHARK, Need::Program("ip"), Need::Program("ss"));
    let _turn = turn();
    let lab = lab(1);
    let (client, server) = (lab.host(Side::A), lab.host(Side::B));
    let work = tempfile::tempdir().unwrap();
    std::fs::write(work.path().join("file"), vec![7; 200_000]).unwrap();
    let certificate = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=x -keyout $WORK/key -out $WORK/cert";
    let _ = shell(&client, certificate, 0, work.path()).status();
    // An Ethernet beside the lab's path, which has offloads and, where the kernel has them, VLANs.
    let peer = format!("/proc/{}/fd/{}", std::process::id(), server.network_namespace().as_raw_fd());
    let link = format!("ip link add wa type veth peer name wb netns {peer}");
    let addresses = |end: &str, n: u8| {
        format!("ip addr add 198.18.7.{n}/24 dev {end}; ip addr add fdaa::{n}/64 dev {end} nodad; ip link set {end} up")
    };
    let vlan = |end: &str, n: u8| {
        format!(
            "ip link add link {end} name {end}.5 type vlan id 5; ip addr add 198.18.5.{n}/24 dev {end}.5; ip link set {end}.5 up"
        )
    };
    let set = |host: &Host<'_>, words: &str| {
        let done = host.run(|| tier::command("sh").args(["-euc", words]).output().unwrap()).unwrap();
        if done.status.success() { Ok(()) } else { Err(text(&done.stderr)) }
    };
    set(&client, &(link + "\n" + &addresses("wa", 1))).unwrap();
    set(&server, &addresses("wb", 2)).unwrap();
    let vlans = set(&client, &vlan("wa", 1)).and_then(|()| set(&server, &vlan("wb", 2)));

    let [ours, theirs, on_vlan] = ["ours", "theirs", "vlan"].map(|name| work.path().join(name));
    let ports = format!("{PORT}-{}", PORT + pairs().len() as u16 - 1);
    let args = ["--packets", "--snap", "300", "-w", ours.to_str().unwrap(), "--port", &ports];
    let trace = tracing(&args).spawn().unwrap();
    assert!(tier::wait_for(|| is_tracing(trace.id())), "no trace");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let dump = |interface: &str, file: &Path| {
        let mut command = tier::limit(client.command("tcpdump").unwrap());
        let filter = format!("portrange {ports} or (ip[6:2] & 0x3fff != 0) or ip6[6] = 44");
        command.args(["-i", interface, "-n", "-U", "-s", "512", "-B", "8192", "--immediate-mode", "-Z", "root"]);
        command.args(["--time-stamp-precision=nano", "-w"]).arg(file).arg(filter);
        Tcpdump::start(command)
    };
    let mut dumps = vec![dump("wa", &theirs)];
    dumps.extend(vlans.is_ok().then(|| dump("wa.5", &on_vlan)));
    let mut ran = HashMap::new();
    for (port, pair) in (PORT..).zip(pairs()) {
        let lacks = pair.needs.iter().find_map(|program| Need::Program(program).unmet());
        let lacks = lacks.or_else(|| vlans.clone().err().filter(|_| pair.client.contains(ON_VLAN)));
        if let Some(lacks) = lacks {
            tier::skip(&format!("packets of programs: {}", pair.name), lacks.trim());
            continue;
        }
        let serving = Process::from(shell(&server, &pair.server, port, work.path()).spawn().unwrap());
        let listens = format!("ss -Hltun sport = :{port} | grep -q .");
        let is_there = || shell(&server, &listens, port, work.path()).status().unwrap().success();
        assert!(tier::wait_for(is_there), "{}: nobody listens", pair.name);
        let asked = shell(&client, &pair.client, port, work.path()).output().unwrap();
        assert!(asked.status.success(), "{}: {}", pair.name, text(&asked.stderr));
        drop(serving);
        ran.insert(port, pair.name);
    }
    tier::skip("packets of programs: QUIC", "no program of this machine's speaks it");
    assert!(ran.len() >= 20, "{ran:?}");
    dumps.into_iter().for_each(Tcpdump::finish);
    let (all, _) = copied(trace, &ours);

    // The packets of the client's interfaces, by what they begin with.
    let mut left: HashMap<(&[u8], u32), Vec<&Seen>> = HashMap::new();
    let copies: Vec<&Seen> = all.iter().filter(|seen| seen.interface.starts_with("wa")).collect();
    for seen in copies.iter().rev() {
        left.entry((&seen.bytes[..28], seen.length)).or_default().push(seen);
    }
    let (mut apart, mut found) = ([Vec::new(), Vec::new()], HashMap::<Option<u16>, u32>::new());
    let dumped: Vec<Seen> =
        [&theirs, &on_vlan].into_iter().filter(|file| file.exists()).flat_map(|file| read(file)).collect();
    for packet in &dumped {
        // On the VLAN's own device they are without its tag.
        if packet.bytes[0] >> 4 != 4 && packet.bytes[0] >> 4 != 6 {
            continue;
        }
        let name = of_port(packet).and_then(|port| ran.get(&port)).unwrap_or(&"fragments");
        let like = left.get_mut(&(&packet.bytes[..28], packet.length));
        let is_it = |seen: &&Seen| {
            let common = seen.bytes.len().min(packet.bytes.len());
            seen.bytes[..common] == packet.bytes[..common]
        };
        let seen = like.and_then(|like| like.iter().rposition(is_it).map(|at| like.remove(at)));
        let seen = seen.unwrap_or_else(|| panic!("{name}: not copied: {:02x?}", &packet.bytes[..28]));
        assert!(seen.process.is_some(), "{name}: no process");
        *found.entry(of_port(packet)).or_default() += 1;
        apart[usize::from(seen.flags & 3 == flag::INBOUND)].push(seen.at.abs_diff(packet.at));
    }
    let more: Vec<_> = left.values().flatten().map(|seen| of_port(seen).and_then(|port| ran.get(&port))).collect();
    assert!(more.is_empty(), "tcpdump has not seen {more:?}");
    for (port, name) in &ran {
        assert!(found.get(&Some(*port)).is_some_and(|packets| *packets >= 2), "{name}: {found:?}");
    }
    let apart = apart.map(median);
    eprintln!(
        "{} packets of {} programs, {apart:?} ns apart at the median, sent and received",
        dumped.len(),
        ran.len()
    );
    assert!(apart.iter().all(|apart| *apart < 20_000), "{apart:?} ns from tcpdump at the median");
}
