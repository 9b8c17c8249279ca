//! `wirelapse top`: on a pseudo-terminal by its keys, and as text and JSON, against what the test
//! itself sends.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::scene::BTF;
use crate::scene::terminal::Terminal;
use tier::Need;

/// Three peers on loopback that are sent to, the second twice as often as the others.
struct Traffic {
    port: String,
    stop: Arc<AtomicBool>,
    sent: Arc<Mutex<[u64; 3]>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Traffic {
    fn start() -> Self {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new([0; 3])));
        let mut threads = Vec::new();
        for which in 0..3 {
            let mut client = TcpStream::connect((Ipv4Addr::new(127, 7, 7, 1 + which as u8), port)).unwrap();
            client.set_nodelay(true).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            let (stop, sent) = (Arc::clone(&stop), Arc::clone(&sent));
            threads.push(std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    client.write_all(&[0; 100]).unwrap();
                    server.read_exact(&mut [0; 100]).unwrap();
                    sent.lock().unwrap()[which] += 1;
                    std::thread::sleep(Duration::from_millis(if which == 1 { 10 } else { 20 }));
                }
            }));
        }
        Self { port: port.to_string(), stop, sent, threads }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn press(terminal: &mut Terminal, keys: &str) {
    terminal.master.write_all(keys.as_bytes()).unwrap();
}

/// Peers in the order of their rows.
fn peers(terminal: &Terminal) -> Vec<String> {
    let words = |row: String| row.trim_start_matches('>').split_whitespace().next().map(str::to_owned);
    terminal.rows().into_iter().filter_map(words).filter(|word| word.starts_with("127.7.7.")).collect()
}

/// Waits until these are the rows: the screen may be read between two of its writes.
#[track_caller]
fn until_peers(terminal: &mut Terminal, wanted: &[&str]) {
    terminal.until_shown(|terminal| {
        let there = peers(terminal);
        if there == wanted { Ok(()) } else { Err(format!("{wanted:?} in place of {there:?}")) }
    });
}

/// Waits for the end of the program.
fn ended(terminal: &mut Terminal) -> std::process::ExitStatus {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        terminal.turn();
        if let Some(status) = terminal.child.try_wait().unwrap() {
            terminal.turn();
            return status;
        }
        assert!(Instant::now() < end, "it does not end:\n{}", terminal.rows().join("\n"));
    }
}

#[test]
fn keys_choose_sort_group_filter_open_and_quit() {
    tier::needs!(Need::Root, BTF);
    let traffic = Traffic::start();
    let mut terminal =
        Terminal::start(24, 100, &["top", "--peer", "127.7.7.0/24", "--port", &traffic.port, "-i", "500ms"]);
    terminal.until("the busiest peer first", |row| row.starts_with("> 127.7.7.2 "));
    terminal.until("the keys", |row| row.starts_with("q quit"));
    terminal.until("all three", |row| row.contains("3 rows"));
    // What draws and reads keys has no right; what it asks for recordings is another process.
    let status = std::fs::read_to_string(format!("/proc/{}/status", terminal.child.id())).unwrap();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    assert_eq!([field("CapEff:"), field("NoNewPrivs:"), field("Seccomp:")], ["0000000000000000", "1", "2"]);
    press(&mut terminal, "ssssssss");
    terminal.until("another order", |row| row.contains("sorted by name"));
    until_peers(&mut terminal, &["127.7.7.1", "127.7.7.2", "127.7.7.3"]);
    press(&mut terminal, "/7.3\r");
    terminal.until("the filter", |row| row.contains("1 of 3 rows · filter: 7.3"));
    until_peers(&mut terminal, &["127.7.7.3"]);
    press(&mut terminal, "\r");
    terminal.until("the row, opened, with its percentiles", |row| row.starts_with("sends ") && row.contains("p99"));
    terminal.until("whose it is, and of whom that descends", |row| row.contains("] ← "));
    terminal.until("a leg", |row| row.starts_with("network "));
    press(&mut terminal, "\x1b[6~\x1b[6~");
    terminal.until("what is below", |row| row.starts_with("Slowest sends"));
    terminal.until("a slow send", |row| row.contains("100 B") && row.contains(" ago"));
    press(&mut terminal, "\x1b");
    terminal.until("the table", |row| row.starts_with("> 127.7.7.3 "));
    press(&mut terminal, "\x1b");
    terminal.until("all three", |row| row.contains("3 rows"));
    press(&mut terminal, "gg");
    terminal.until("programs", |row| row.starts_with("by program"));
    terminal.until("the test's own", |row| row.starts_with("> trace-"));
    press(&mut terminal, " ");
    terminal.until("its connections", |row| row.starts_with("    :") && row.contains(" → 127.7.7."));
    press(&mut terminal, " ");
    terminal.until_shown(|terminal| match terminal.rows().iter().any(|row| row.contains(" → 127.7.7.")) {
        false => Ok(()),
        true => Err("connections of a group that was folded".to_owned()),
    });
    // A click on the head of a column sorts by it, and one on the chosen row opens that.
    let line = terminal.rows().iter().position(|row| row.starts_with("  program")).unwrap() + 1;
    let at = terminal.rows()[line - 1].find("p99").unwrap() + 1;
    press(&mut terminal, &format!("\x1b[<0;{at};{line}M\x1b[<0;{at};{line}m"));
    terminal.until("the other order", |row| row.contains("sorted by p99"));
    press(&mut terminal, &format!("\x1b[<0;3;{}M", line + 1));
    terminal.until("the row, opened", |row| row.starts_with("sends ") && row.contains("p99"));
    press(&mut terminal, "\x1b");
    terminal.until("the table", |row| row.starts_with("> trace-"));
    press(&mut terminal, "p");
    terminal.until("the pause", |row| row.starts_with("PAUSED"));
    press(&mut terminal, "q");
    assert!(ended(&mut terminal).success());
    terminal.assert_restored();
    drop(traffic);
}

#[test]
fn every_size_shows_the_same_and_a_signal_leaves_nothing_behind() {
    tier::needs!(Need::Root, BTF);
    let traffic = Traffic::start();
    let mut terminal = Terminal::start(20, 60, &["top", "--port", &traffic.port, "-i", "500ms"]);
    terminal.until("a row", |row| row.starts_with("> 127."));
    for (rows, columns) in [(50, 200), (24, 80), (20, 60)] {
        terminal.resize(rows, columns);
        let title = |row: &str| row.starts_with("wirelapse top") && row.chars().count() == usize::from(columns);
        terminal.until("a title as wide as the screen", title);
        terminal.until("a row", |row| row.starts_with("> 127."));
        // The screen may be read between two of its writes.
        terminal.until_shown(|terminal| match terminal.rows().pop() {
            Some(last) if last.starts_with("q quit") => Ok(()),
            _ => Err("no keys in the last row".to_owned()),
        });
    }
    assert!(terminal.screen.screen().alternate_screen());
    // SAFETY: the child has not been waited for, so the number is its own.
    unsafe { libc::kill(terminal.child.id() as i32, libc::SIGTERM) };
    let status = ended(&mut terminal);
    assert!(status.success() && status.signal().is_none(), "{status}");
    terminal.assert_restored();
    assert!(terminal.rows().iter().all(String::is_empty), "{}", terminal.rows().join("\n"));
    drop(traffic);
}

#[test]
fn once_and_json_say_what_was_sent() {
    tier::needs!(Need::Root, BTF);
    let traffic = Traffic::start();
    let run = |options: &[&str]| {
        // Other tests send to the same peers at the same time.
        let target = ["top", "--once", "--peer", "127.7.7.0/24", "--port", &traffic.port];
        let output = tier::wirelapse!(target).args(options).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", tier::text(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run(&["--sort", "name"]);
    let rows: Vec<&str> = text.lines().skip(2).map(|row| row.split_whitespace().next().unwrap()).collect();
    assert_eq!(rows, ["127.7.7.1", "127.7.7.2", "127.7.7.3"], "{text}");
    // The same as values: every column, and a row for each peer.
    let values = run(&["--sort", "name", "--csv"]);
    let mut lines = values.lines();
    assert!(lines.next().unwrap().starts_with("# by peer · sorted by name"), "{values}");
    let head = "peer,sends/s,sent/s,recv/s,p50,p99,req p50,req p99,last minute,why slow,state,owner,name,rtt,retr.";
    assert_eq!(lines.next().unwrap(), format!("{head},zero win.,drops,idle,queue,waits for,tcp,qdisc,network"));
    let rows: Vec<Vec<&str>> = lines.map(|row| row.split(',').collect()).collect();
    assert!(rows.iter().all(|row| row.len() == 23 && row[1].parse::<f64>().unwrap() > 0.0), "{values}");
    assert!(
        rows.iter().all(|row| row[10] == "established" && row[11].ends_with(&format!("[{}]", std::process::id()))),
        "{values}"
    );
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), ["127.7.7.1", "127.7.7.2", "127.7.7.3"]);
    let before = *traffic.sent.lock().unwrap();
    let lines = run(&["--json", "--sort", "name", "-i", "2s"]);
    let after = *traffic.sent.lock().unwrap();
    let rows: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 3, "{lines}");
    for (row, (before, after)) in rows.iter().zip(before.into_iter().zip(after)) {
        let sends = row["sends"].as_u64().unwrap();
        assert!(sends > 0 && sends <= after - before, "{row}: {before} to {after}");
        assert_eq!(row["bytes"].as_u64().unwrap(), 100 * sends, "{row}");
        assert!(row["p50_ns"].as_u64() > Some(0) && row["p50_ns"].as_u64() <= row["p99_ns"].as_u64(), "{row}");
        assert_eq!(row["total_n"], row["sends"], "{row}");
    }
    drop(traffic);
}

#[test]
fn hosts_have_their_names_where_they_are_asked_for() {
    tier::needs!(Need::Root, BTF);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let end = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&end);
    let sends = std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            client.write_all(b"x").unwrap();
            server.read_exact(&mut [0]).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let output = tier::wirelapse!(["top", "--once", "--resolve", "--port", &port, "--csv"]).output().unwrap();
    let (text, errors) = (tier::text(&output.stdout), tier::text(&output.stderr));
    assert!(text.lines().nth(2).is_some_and(|row| row.starts_with("localhost,")), "{text}{errors}");
    let mut terminal = Terminal::start(24, 80, &["top", "--port", &port, "--resolve", "-i", "300ms"]);
    terminal.until("the name", |row| row.starts_with("> localhost "));
    press(&mut terminal, "/localh\r");
    terminal.until("the filter by a name", |row| row.contains("1 of 2 rows · filter: localh"));
    press(&mut terminal, "q");
    assert!(ended(&mut terminal).success());
    end.store(true, Ordering::Relaxed);
    sends.join().unwrap();
}

/// The process below this one that walks the sockets and records, and what it has: effective
/// capabilities, `no_new_privs` and seccomp.
fn second_process(of: u32) -> (u32, u64, [String; 2]) {
    let below = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap();
    let [pid] = below.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{below:?} below {of}") };
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    let capabilities = u64::from_str_radix(&field("CapPrm:"), 16).unwrap();
    (pid.parse().unwrap(), capabilities, [field("NoNewPrivs:"), field("Seccomp:")])
}

/// Bits of capabilities.
const WALKS: u64 = 1 << 2 | 1 << 19 | 1 << 21; // DAC_READ_SEARCH, SYS_PTRACE, SYS_ADMIN
const ATTACHING: u64 = 1 << 12 | 1 << 38 | 1 << 39; // NET_ADMIN, PERFMON, BPF
const FOR_OTHERS: u64 = 1 | 1 << 1; // CHOWN, DAC_OVERRIDE

#[test]
fn a_recording_is_made_by_a_process_that_has_what_a_trace_takes_and_no_more() {
    tier::needs!(Need::Root, BTF);
    let traffic = Traffic::start();
    let home = tempfile::tempdir().unwrap();
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    chown(home.path(), Some(12_345), Some(12_345)).unwrap();
    // In a folder of root's own; then in one of the user who called sudo, where the run is to be
    // that user's.
    let own = tempfile::tempdir().unwrap();
    for (folder, sudo, more) in [(own.path(), false, 0), (home.path(), true, FOR_OTHERS)] {
        let mut command = tier::wirelapse!(["top", "--port", &traffic.port, "-i", "500ms"]);
        command.current_dir(folder).env_remove("SUDO_UID").env_remove("SUDO_GID");
        if sudo {
            command.env("SUDO_UID", "12345").env("SUDO_GID", "12345");
        }
        let mut terminal = Terminal::run(24, 100, command);
        terminal.until("a row", |row| row.starts_with("> 127."));
        let (second, capabilities, limits) = second_process(terminal.child.id());
        assert_eq!((capabilities, limits), (WALKS | ATTACHING | more, ["1".into(), "2".into()]), "sudo: {sudo}");
        press(&mut terminal, "r");
        terminal.until("that it records", |row| row.contains("recording 10s to wirelapse-top-"));
        let run = folder.join(format!("wirelapse-top-{second}-1"));
        terminal.until_shown(|_| if run.join("sends.parquet").exists() { Ok(()) } else { Err("no run".to_owned()) });
        std::thread::sleep(Duration::from_secs(1));
        // The end of top ends the recording; its run is whole.
        press(&mut terminal, "q");
        assert!(ended(&mut terminal).success());
        let recorded = store::Run::open(&run).unwrap();
        let mut sends = 0;
        recorded.sends(|_| sends += 1).unwrap();
        assert!(sends > 0, "no sends in {}", run.display());
        let owner = if sudo { 12_345 } else { 0 };
        for file in std::fs::read_dir(&run).unwrap().map(|entry| entry.unwrap()) {
            assert_eq!(file.metadata().unwrap().uid(), owner, "{}", file.path().display());
        }
    }
    // Without a screen there is no key, so that the process only walks.
    let lines =
        tier::wirelapse!(["top", "--json", "--port", &traffic.port, "-i", "200ms"]).stdout(Stdio::piped()).spawn();
    let mut lines = tier::Process::from(lines.unwrap());
    lines.first_line();
    let (_, capabilities, limits) = second_process(lines.id());
    assert_eq!((capabilities, limits), (WALKS, ["1".into(), "2".into()]));
    drop(traffic);
}

/// Lines of `top --json` until `enough` of them are there, as values.
pub(super) fn lines_until(options: &[&str], mut enough: impl FnMut(&serde_json::Value) -> bool) -> serde_json::Value {
    let interval = if options.contains(&"-i") { &[][..] } else { &["-i", "300ms"] };
    let command = [&["top", "--json"], interval, options].concat();
    let mut top = tier::Process::from(tier::wirelapse!(command).stdout(Stdio::piped()).spawn().unwrap());
    let end = Instant::now() + Duration::from_secs(30);
    let mut out = BufReader::new(top.stdout.take().unwrap());
    loop {
        assert!(Instant::now() < end, "no such line");
        let mut line = String::new();
        assert!(out.read_line(&mut line).unwrap() > 0, "top has ended");
        let row: serde_json::Value = serde_json::from_str(&line).unwrap();
        if enough(&row) {
            return row;
        }
    }
}

#[test]
fn sockets_that_send_nothing_have_rows_and_say_what_is_wrong() {
    tier::needs!(Need::Root, BTF);
    let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    listener.bind(&"127.8.8.8:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    listener.listen(0).unwrap();
    let at = listener.local_addr().unwrap().as_socket().unwrap();
    let port = at.port().to_string();
    // One connection finds room; a further SYN is not answered.
    let idle = TcpStream::connect(at).unwrap();
    let attempt = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    attempt.set_nonblocking(true).unwrap();
    assert!(attempt.connect(&at.into()).is_err());
    let options = ["--port", &port, "--by", "connection"];
    let row = lines_until(&options, |row| row["trouble"] == "attempt_unanswered");
    assert_eq!((&row["sockets"]["connecting"], &row["sends"]), (&1.into(), &0.into()), "{row}");
    let local = attempt.local_addr().unwrap().as_socket().unwrap().port();
    assert_eq!(row["label"], format!(":{local} → 127.8.8.8:{port}"));
    assert_eq!(
        (&row["sockets"]["pid"], row["sockets"]["program"].is_string()),
        (&std::process::id().into(), true),
        "{row}"
    );
    let row = lines_until(&options, |row| row["label"] == format!(":{port} listening"));
    assert_eq!(
        (&row["sockets"]["accept_queue"], &row["sockets"]["accept_queue_limit"]),
        (&1.into(), &0.into()),
        "{row}"
    );
    assert_eq!((&row["trouble"], &row["trouble_text"]), (&"accept_queue_full".into(), &"accept queue full".into()));
    // The same filter leaves this row alone.
    let filter = ["--port", &port, "--by", "connection", "--filter", "state:established pid:1-"];
    let output = tier::wirelapse!([&["top", "--once"], &filter[..]].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", tier::text(&output.stderr));
    assert!(tier::text(&output.stderr).contains("--filter: pid:1- is not the number of a process"));
    let own = idle.local_addr().unwrap().port();
    let output = tier::wirelapse!([
        "top",
        "--once",
        "--by",
        "connection",
        "--csv",
        "--filter",
        &format!("port:{own} -proc:^other$")
    ]);
    let output = { output }.output().unwrap();
    let text = tier::text(&output.stdout);
    assert!(text.lines().any(|row| row.starts_with(&format!(":{own} → 127.8.8.8:{port},—,0"))), "{text}");
}

#[test]
fn bytes_of_short_connections_are_exact() {
    tier::needs!(Need::Root, BTF);
    let listener = TcpListener::bind("127.8.8.9:0").unwrap();
    let at = listener.local_addr().unwrap();
    let port = at.port().to_string();
    let mut connections = 0_u64;
    // Without any socket there is no row.
    let idle = (TcpStream::connect(at).unwrap(), listener.accept().unwrap());
    let server = std::thread::spawn(move || {
        for connection in listener.incoming().take(200) {
            let mut connection = connection.unwrap();
            connection.read_exact(&mut [0; 100]).unwrap();
            connection.write_all(&[0; 300]).unwrap();
            let _ = connection.read(&mut [0]);
        }
    });
    let row = lines_until(&["--peer", "127.8.8.9", "--port", &port], |row| {
        // Only once top has begun, and all within the ten intervals that a row shows.
        while connections < 200 {
            let mut client = TcpStream::connect(at).unwrap();
            client.write_all(&[0; 100]).unwrap();
            client.read_exact(&mut [0; 300]).unwrap();
            connections += 1;
        }
        row["sockets"]["bytes_received"].as_u64() == Some(60_000)
    });
    assert_eq!((&row["sockets"]["bytes_sent"], &row["sockets"]["closed"]), (&20_000.into(), &200.into()), "{row}");
    server.join().unwrap();
    drop(idle);
}

#[test]
fn a_slow_program_of_the_peer_is_named_and_its_time_is_shown() {
    tier::needs!(Need::Root, BTF);
    // A port below those of clients says which end is the server, whichever is heard first.
    let ports = (0..).map(|n| 9_000 + (std::process::id() as u16 % 10_000) + n);
    let listener = ports.into_iter().find_map(|port| TcpListener::bind(("127.8.8.10", port)).ok()).unwrap();
    let at = listener.local_addr().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let mut client = TcpStream::connect(at).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let answers = std::thread::spawn(move || {
        while server.read(&mut [0; 100]).is_ok_and(|read| read > 0) {
            std::thread::sleep(Duration::from_millis(60));
            let _ = server.write_all(b"answer");
        }
    });
    let over = Arc::clone(&stop);
    let asks = std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            client.write_all(b"question").unwrap();
            client.read_exact(&mut [0; 6]).unwrap();
        }
    });
    let target = ["--peer", "127.8.8.10", "--port", &at.port().to_string()];
    let row = lines_until(&target, |row| row["trouble"] == "peer_application");
    stop.store(true, Ordering::Relaxed);
    assert!(row["request_p50_ns"].as_u64() > Some(55_000_000), "{row}");
    asks.join().unwrap();
    answers.join().unwrap();
}

/// A ClientHello that asks for this server.
fn hello(server: &str) -> Vec<u8> {
    let long = |body: &[u8]| [&(body.len() as u16).to_be_bytes()[..], body].concat();
    let name = [&[0][..], &long(server.as_bytes())].concat();
    let extension = [&[0, 0][..], &long(&long(&name))].concat();
    let body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0], &long(&extension)].concat();
    let message = [&[1, 0][..], &long(&body)].concat();
    [&[0x16, 3, 1][..], &long(&message)].concat()
}

/// Answers one question of DNS with this address.
pub(super) fn answer_once(server: &std::net::UdpSocket, address: Ipv4Addr) {
    let mut question = [0; 512];
    let (length, from) = server.recv_from(&mut question).unwrap();
    let mut answer = question[..length].to_vec();
    (answer[2], answer[3], answer[7]) = (0x81, 0x80, 1);
    answer.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
    answer.extend(address.octets());
    server.send_to(&answer, from).unwrap();
}

#[test]
fn peers_have_the_names_that_tls_and_dns_give_them() {
    tier::needs!(Need::Root, BTF);
    let dns = std::net::UdpSocket::bind("127.8.8.53:53").unwrap();
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = |last: u8| {
        let client = TcpStream::connect((Ipv4Addr::new(127, 8, 8, last), port)).unwrap();
        (client, listener.accept().unwrap())
    };
    let idle = connect(60);
    let mut clients = Vec::new();
    let mut asked = false;
    let pid = std::process::id().to_string();
    let mut found = std::collections::BTreeMap::new();
    lines_until(&["--pid", &pid, "--by", "connection", "--filter", &format!("port:{port}")], |row| {
        if !asked {
            asked = true;
            let resolver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03web\x07example\0\0\x01\0\x01";
            resolver.send_to(question, "127.8.8.53:53").unwrap();
            answer_once(&dns, Ipv4Addr::new(127, 8, 8, 61));
            resolver.recv(&mut [0; 512]).unwrap();
            clients.extend([connect(61), connect(62)]);
            clients[1].0.write_all(&hello("Shop.example")).unwrap();
        }
        if let (Some(name), Some(source)) = (row["name"].as_str(), row["name_source"].as_str()) {
            found.insert(name.to_owned(), (source.to_owned(), row["label"].as_str().unwrap().to_owned()));
        }
        found.len() == 2
    });
    let expected = |name: &str| (found[name].0.as_str(), found[name].1.split(" → ").nth(1).unwrap().to_owned());
    assert_eq!(expected("web.example"), ("dns", format!("127.8.8.61:{port}")));
    assert_eq!(expected("shop.example"), ("sni", format!("127.8.8.62:{port}")));
    drop((idle, clients));
}

#[test]
fn a_row_is_traced_on_the_screen_and_its_packets_are_written() {
    tier::needs!(Need::Root, BTF);
    let traffic = Traffic::start();
    let folder = tempfile::tempdir().unwrap();
    let mut command = tier::wirelapse!(["top", "--port", &traffic.port, "--peer", "127.7.7.0/24", "-i", "500ms"]);
    command.current_dir(folder.path()).env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    let mut terminal = Terminal::run(40, 100, command);
    terminal.until("the busiest peer first", |row| row.starts_with("> 127.7.7.2 "));
    press(&mut terminal, "t");
    terminal.until("that it traces", |row| row.starts_with("tracing the row for 5s"));
    terminal.until("the report", |row| row.contains("traced: the report is above"));
    terminal.until("of this row", |row| row.starts_with("A trace of port ") && row.contains("peer 127.7.7.2"));
    press(&mut terminal, "w");
    terminal.until("that it writes", |row| row.starts_with("writing the packets of 10s"));
    let said = terminal.until("the file", |row| row.starts_with("wrote wirelapse-top-"));
    let file = folder.path().join(said.split([' ', ':']).nth(1).unwrap());
    let mut packets = 0;
    let bytes = std::fs::read(&file).unwrap();
    let mut reader = wire::PacketReader::from_bytes(&bytes).unwrap();
    while reader.next_packet().unwrap().is_some() {
        packets += 1;
    }
    assert!(packets > 100, "{packets} packets in {}", file.display());
    press(&mut terminal, "q");
    assert!(ended(&mut terminal).success());
    drop(traffic);
}

#[test]
fn a_run_is_shown_again_with_what_was_sent() {
    tier::needs!(Need::Root, BTF);
    let traffic = Traffic::start();
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let target = ["trace", "--port", &traffic.port, "--peer", "127.7.7.0/24", "--for", "4s", "--requests", "-o"];
    let output = tier::wirelapse!(target).arg(&run).output().unwrap();
    assert!(output.status.success(), "{}", tier::text(&output.stderr));
    drop(traffic);
    let mut expected = std::collections::BTreeMap::<String, (u64, u64)>::new();
    let recorded = store::Run::open(&run).unwrap();
    let mut peers = std::collections::HashMap::new();
    recorded.connections(|of| drop(peers.insert(of.id, of.remote.ip().to_string()))).unwrap();
    recorded
        .sends(|send| {
            let of = expected.entry(peers[&send.connection].clone()).or_default();
            (of.0, of.1) = (of.0 + 1, of.1 + u64::from(send.bytes));
        })
        .unwrap();
    let output = tier::wirelapse!(["top", "--once", "--json"]).arg(&run).output().unwrap();
    assert!(output.status.success(), "{}", tier::text(&output.stderr));
    let rows = tier::text(&output.stdout);
    let shown: std::collections::BTreeMap<String, (u64, u64)> = rows
        .lines()
        .map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let label = row["label"].as_str().unwrap().to_owned();
            (label, (row["sends"].as_u64().unwrap(), row["sockets"]["bytes_sent"].as_u64().unwrap()))
        })
        .collect();
    assert!(!expected.is_empty());
    assert_eq!(shown, expected);
    // On a terminal it ends with the same rows, and its time is gone through.
    let mut terminal = Terminal::start(24, 100, &["top", run.to_str().unwrap(), "--sort", "name"]);
    press(&mut terminal, ">>>");
    terminal.until("its end", |row| row.starts_with("wirelapse top") && row.contains(" · end"));
    let first = expected.keys().next().unwrap().clone();
    terminal.until("a row", |row| row.starts_with(&format!("> {first} ")));
    press(&mut terminal, "\x1b[D");
    terminal.until("its beginning", |row| row.contains("8× as fast"));
    press(&mut terminal, "tq");
    assert!(ended(&mut terminal).success());
    terminal.assert_restored();
    // What is no run of a trace is refused.
    let output = tier::wirelapse!(["top", "--once"]).arg(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", tier::text(&output.stderr));
}

#[test]
fn another_host_is_shown_by_its_own_command() {
    tier::needs!(Need::Root, BTF);
    let traffic = Traffic::start();
    let folder = tempfile::tempdir().unwrap();
    let program = tier::wirelapse!(["--version"]).get_program().to_owned();
    let there = std::path::Path::new(&program).parent().unwrap();
    let ssh = folder.path().join("ssh");
    let script =
        format!("#!/bin/sh\n[ \"$1 $2\" = '-p far' ] || exit 9\nPATH={}:$PATH exec sh -c \"$3\"\n", there.display());
    std::fs::write(&ssh, script).unwrap();
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    let command = format!("{} -p", ssh.display());
    let options =
        ["top", "far", "--ssh", &command, "--once", "--port", &traffic.port, "--filter", "peer:127.7.7.0/24", "--json"];
    let output = tier::wirelapse!(options).output().unwrap();
    assert!(output.status.success(), "{}", tier::text(&output.stderr));
    let labels: std::collections::BTreeSet<String> = tier::text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["label"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(labels.into_iter().collect::<Vec<_>>(), ["127.7.7.1", "127.7.7.2", "127.7.7.3"]);
    drop(traffic);
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    let output = tier::wirelapse!(["top"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(tier::text(&output.stderr).contains("--once"), "{}", tier::text(&output.stderr));
}
