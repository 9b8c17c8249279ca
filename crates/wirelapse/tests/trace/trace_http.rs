//! Methods and paths of requests, and what else the beginnings of packets show, of real programs:
//! nginx and curl, and of bytes whose packets are known.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::scene::command::{is_tracing, signal, tracing};
use crate::scene::{BTF, turn};
use serde_json::Value;
use tier::{Need, postgres};

const BACKENDS: [&str; 2] = ["timestamping", "tracepoints"];
const NGINX: Need<'static> = Need::Program("nginx");
const CURL: Need<'static> = Need::Program("curl");
const OPENSSL: Need<'static> = Need::Program("openssl");

/// nginx with one worker: HTTP/1.1 on the first port, HTTP/2 without TLS on the second, and TLS
/// with both on the third, if it has a certificate.
struct Nginx {
    process: Child,
    ports: [u16; 3],
    dir: tempfile::TempDir,
}

impl Nginx {
    fn start(tls: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // All three are held at once, so that they differ.
        let held = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = held.each_ref().map(|held| held.local_addr().unwrap().port());
        drop(held);
        let of = dir.path().display();
        let [plain, h2, secure] = ports;
        let secure = match tls {
            true => {
                certificate(dir.path());
                format!("listen 127.0.0.1:{secure} ssl http2; ssl_certificate {of}/cert; ssl_certificate_key {of}/key;")
            }
            false => String::new(),
        };
        let answers = "location / { return 200 yes; } location /gone/ { return 404; }";
        let settings = format!(
            "daemon off; worker_processes 1; user root; pid {of}/pid; error_log {of}/error;
             events {{ }}
             http {{
                 access_log {of}/access;
                 client_body_temp_path {of}/body; proxy_temp_path {of}/proxy; fastcgi_temp_path {of}/fastcgi;
                 uwsgi_temp_path {of}/uwsgi; scgi_temp_path {of}/scgi;
                 server {{ listen 127.0.0.1:{plain}; {answers} }}
                 server {{ listen 127.0.0.1:{h2} http2; {secure} {answers} }}
             }}"
        );
        fs::write(dir.path().join("settings"), settings).unwrap();
        let mut command = Command::new("nginx");
        command.arg("-p").arg(dir.path()).arg("-c").arg(dir.path().join("settings")).args(["-e", "stderr"]);
        let process = command.stdin(Stdio::null()).spawn().unwrap();
        assert!(tier::wait_for(|| TcpStream::connect(("127.0.0.1", plain)).is_ok()), "nginx does not listen");
        Self { process, ports, dir }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        signal(&self.process, libc::SIGINT);
        let _ = self.process.wait();
    }
}

fn certificate(dir: &Path) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout"])
        .arg(dir.join("key"))
        .arg("-out")
        .arg(dir.join("cert"))
        .stderr(Stdio::null())
        .status();
    assert!(made.unwrap().success());
}

/// What is traced while `act` does what it does: the lines of JSON.
fn traced(args: &[&str], act: impl FnOnce()) -> Vec<Value> {
    lines(&seen(&[args, &["--json"]].concat(), act))
}

/// The same: standard output.
fn seen(args: &[&str], act: impl FnOnce()) -> String {
    let trace = tracing(&[&["--http"], args].concat()).spawn().unwrap();
    let pid = trace.id();
    assert!(tier::wait_for(|| is_tracing(pid)), "it does not trace");
    // The pass over the connections that exist comes after the links.
    std::thread::sleep(Duration::from_millis(300));
    act();
    // What was sent last is acknowledged by then.
    std::thread::sleep(Duration::from_millis(500));
    signal(&trace, libc::SIGINT);
    let out = trace.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", tier::text(&out.stderr));
    tier::text(&out.stdout)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The requests that were seen from one end, in the order of their first bytes.
fn requests<'a>(lines: &'a [Value], role: &str) -> Vec<&'a Value> {
    let mut all: Vec<_> = lines.iter().filter(|l| l["kind"] == "request" && l["role"] == role).collect();
    let began = |r: &Value| ["arrived_at_ns", "sent_at_ns"].iter().filter_map(|key| r[*key].as_u64()).min();
    all.sort_by_key(|r| began(r));
    all
}

/// Method, path, status and protocol.
fn labels(requests: &[&Value]) -> Vec<[String; 4]> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    requests.iter().map(|r| ["method", "path", "status", "protocol"].map(|key| text(&r[key]))).collect()
}

fn lost(lines: &[Value], key: &str) -> u64 {
    lines.iter().find(|l| l["kind"] == "lost").and_then(|l| l[key].as_u64()).unwrap()
}

/// `curl` for all of these on one connection.
fn curl(args: &[&str], port: u16, scheme: &str, paths: &[&str]) -> Command {
    let mut command = Command::new("curl");
    command.args(["-sk", "-o", "/dev/null", "--noproxy", "*"]).args(args);
    for (i, path) in paths.iter().enumerate() {
        if i > 0 {
            command.args(["-o", "/dev/null"]);
        }
        command.arg(format!("{scheme}://127.0.0.1:{port}{path}"));
    }
    command
}

fn run(mut command: Command) {
    assert!(command.status().unwrap().success());
}

const PATHS: [&str; 5] = ["/", "/a/b?token=secret", "/gone/x", "/%7Ec;v=1", "/a/b?other=secret"];

fn labels_of_paths(method: &str) -> Vec<[String; 4]> {
    let of = |(path, status): (&str, &str)| [method, path, status, "http1"].map(str::to_owned);
    [("/", "200"), ("/a/b", "200"), ("/gone/x", "404"), ("/%7Ec;v=1", "200"), ("/a/b", "200")].map(of).to_vec()
}

#[test]
fn requests_that_follow_one_another_on_a_connection_have_their_labels_at_both_ends() {
    tier::needs!(Need::Root, BTF, NGINX, CURL);
    let _turn = turn();
    let nginx = Nginx::start(false);
    let port = nginx.ports[0];
    for backend in BACKENDS {
        let lines = traced(&["--port", &port.to_string(), "--backend", backend], || {
            run(curl(&[], port, "http", &PATHS));
            run(curl(&["-X", "DELETE"], port, "http", &PATHS));
        });
        for role in ["client", "server"] {
            let expected = [labels_of_paths("GET"), labels_of_paths("DELETE")].concat();
            assert_eq!(labels(&requests(&lines, role)), expected, "{backend}, {role}");
        }
        assert_eq!((lost(&lines, "request_unlabelled"), lost(&lines, "http_ring_buffer")), (0, 0), "{backend}");
        // No part of a query is in any line.
        assert!(!lines.iter().any(|line| line["kind"] != "run" && line.to_string().contains("secret")));
        assert!(lines[0]["http"]["host_wide"].as_array().is_some_and(|all| all.len() == 1), "{}", lines[0]);
    }
}

#[test]
fn each_end_by_itself_has_the_labels() {
    tier::needs!(Need::Root, BTF, NGINX, CURL);
    let _turn = turn();
    let nginx = Nginx::start(false);
    let port = nginx.ports[0];
    for backend in BACKENDS {
        let server = nginx.process.id().to_string();
        let lines = traced(&["-p", &server, "--backend", backend], || run(curl(&[], port, "http", &PATHS)));
        assert_eq!(labels(&requests(&lines, "server")), labels_of_paths("GET"), "{backend}");
        assert!(requests(&lines, "client").is_empty());

        let asking = curl(&[], port, "http", &PATHS);
        let words = asking.get_args().map(|arg| arg.to_str().unwrap());
        let args: Vec<&str> =
            ["--http", "--json", "--backend", backend, "--", "curl"].into_iter().chain(words).collect();
        let out = tracing(&args).output().unwrap();
        assert!(out.status.success(), "{}", tier::text(&out.stderr));
        let lines = self::lines(&tier::text(&out.stdout));
        assert_eq!(labels(&requests(&lines, "client")), labels_of_paths("GET"), "{backend}");
        assert!(requests(&lines, "server").is_empty());
    }
}

/// Writes each piece as a packet of its own, and reads what is answered to the whole.
fn ask(stream: &mut TcpStream, pieces: &[&[u8]]) {
    for (i, piece) in pieces.iter().enumerate() {
        if i > 0 {
            std::thread::sleep(Duration::from_millis(50));
        }
        stream.write_all(piece).unwrap();
    }
    assert!(stream.read(&mut [0; 4_096]).unwrap() > 0);
}

#[test]
fn a_request_line_that_is_not_whole_in_its_packet_gives_no_label_and_is_counted() {
    tier::needs!(Need::Root, BTF, NGINX);
    let _turn = turn();
    let nginx = Nginx::start(false);
    let port = nginx.ports[0];
    for backend in BACKENDS {
        let args = ["--port", &port.to_string(), "--backend", backend];
        let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(300));
        let lines = traced(&args, || {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.set_nodelay(true).unwrap();
            ask(&mut stream, &[b"GET /split/a", b"nd/more HTTP/1.1\r\nHost: x\r\n\r\n"]);
            ask(&mut stream, &[b"GET /whole HTTP/1.1\r\nHo", b"st: x\r\n\r\n"]);
            ask(&mut stream, &[long.as_bytes()]);
        });
        let row = |of: [&str; 4]| of.map(str::to_owned);
        let cut = row(["null", "null", "200", "http1_cut"]);
        for role in ["client", "server"] {
            let found = labels(&requests(&lines, role));
            assert_eq!(found, [cut.clone(), row(["GET", "/whole", "200", "http1"]), cut.clone()], "{backend}, {role}");
        }
        assert_eq!(lost(&lines, "request_unlabelled"), 4);
    }
}

#[test]
fn http_2_is_known_by_its_preface_and_its_exchanges_are_called_so() {
    tier::needs!(Need::Root, BTF, NGINX, CURL);
    let _turn = turn();
    let nginx = Nginx::start(false);
    let port = nginx.ports[1];
    // On a connection each: curl 7.88 makes a mistake in the frames of a second request with prior
    // knowledge.
    let ask = || PATHS.iter().for_each(|path| run(curl(&["--http2-prior-knowledge"], port, "http", &[path])));
    for backend in BACKENDS {
        let args = ["--port", &port.to_string(), "--backend", backend];
        let lines = traced(&args, ask);
        for role in ["client", "server"] {
            let found = requests(&lines, role);
            assert!(found.len() >= PATHS.len(), "{backend}, {role}: {found:?}");
            let none = ["null", "null", "null", "http2"].map(str::to_owned);
            assert!(labels(&found).iter().all(|label| *label == none), "{backend}, {role}: {found:?}");
        }
        let text = seen(&args, ask);
        let in_one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(in_one_line.contains("are exchanges, each of which may hold several requests: "), "{text}");
        assert!(in_one_line.contains("on connections of HTTP/2, by its preface"), "{text}");
    }
}

#[test]
fn tls_gives_no_label_and_says_what_it_offered() {
    tier::needs!(Need::Root, BTF, NGINX, CURL, OPENSSL);
    let _turn = turn();
    let nginx = Nginx::start(true);
    let port = nginx.ports[2];
    assert!(nginx.dir.path().join("cert").is_file());
    for (with, protocol) in [("--http1.1", "tls"), ("--http2", "tls_h2_offered")] {
        let lines = traced(&["--port", &port.to_string()], || run(curl(&[with], port, "https", &PATHS)));
        for role in ["client", "server"] {
            let found = requests(&lines, role);
            let none = ["null", "null", "null", protocol].map(str::to_owned);
            assert!(!found.is_empty() && labels(&found).iter().all(|label| *label == none), "{role}: {found:?}");
        }
    }
}

/// The trace and the span that the nth request names.
fn ids(n: usize) -> [String; 2] {
    [format!("{:032x}", 0xa000 + n), format!("{:016x}", 0xb000 + n)]
}

/// Requests in the packets that they are sent in, and whether their trace is read. `T` stands for
/// the trace, `S` for the span.
fn traced_heads() -> Vec<(Vec<String>, bool)> {
    const COMMON: &str = "Host: a.example\r\nUser-Agent: curl/7.88\r\nAuthorization: secret\r\nAccept: */*\r\n";
    const GIVEN: &str = "traceparent: 00-T-S-01\r\n";
    let get = |headers: &str| format!("GET /a HTTP/1.1\r\n{headers}\r\n");
    let after = |bytes: usize| get(&format!("Cookie: {}\r\n{GIVEN}", "traceparent=".repeat(bytes).split_at(bytes).0));
    let whole = |text: String, is_read| (vec![text], is_read);
    let mut all = vec![
        whole(get(GIVEN), true),
        whole(get(&[COMMON, GIVEN].concat()), true),
        whole(get(&[GIVEN, COMMON].concat()), true),
        whole(get("TraceParent:00-T-S-01\r\n"), true),
        whole(get("TRACEPARENT:\t00-T-S-01 \r\n"), true),
        whole(get("traceparent: cc-T-S-01-what-is-new\r\n"), true),
        whole(get(GIVEN).replace('\r', ""), true),
        whole(format!("POST /a HTTP/1.1\r\n{COMMON}{GIVEN}Content-Length: 3\r\n\r\nabc"), true),
        // Behind a line that is too long for a label.
        whole(format!("GET /{} HTTP/1.1\r\n{GIVEN}\r\n", "x".repeat(300)), true),
        // Near to the last byte that is read, and behind it.
        whole(after(3_900), true),
        whole(after(4_200), false),
        // What is not valid counts as not given.
        whole(get("traceparent: 00-T-0000000000000000-01\r\n"), false),
        whole(get("traceparent: ff-T-S-01\r\n"), false),
        whole(get("traceparent: 00-T-S-01-more\r\n"), false),
        whole(get("traceparent: 00-T\r\nAuthorization: secret\r\n"), false),
        // Another header, within a value, in a body.
        whole(get("x-traceparent: 00-T-S-01\r\n"), false),
        // It begins 64 bytes behind the line that it is in.
        whole(get(&format!("X: x{}{GIVEN}", "traceparent:".repeat(5))), false),
        whole(format!("POST /a HTTP/1.1\r\nContent-Length: 72\r\n\r\n\r\n{GIVEN}"), false),
        // In another packet than the request line, whole or in part.
        (vec!["GET /a HTTP/1.1\r\nHost: a\r\n".into(), format!("{GIVEN}\r\n")], false),
        (vec!["GET /a HTTP/1.1\r\ntraceparent: 00-T-".into(), "S-01\r\n\r\n".into()], false),
    ];
    // At every place that a step of the walk can begin with, and behind lines of every length.
    all.extend((0..70).map(|n| whole(get(&format!("X: {}\r\n{GIVEN}", "x".repeat(n))), true)));
    all
}

#[test]
fn a_request_has_the_trace_that_its_header_names_wherever_it_stands() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let filled = |(n, (pieces, is_read)): (usize, (Vec<String>, bool))| {
        let [trace, span] = ids(n);
        let fill = |piece: String| piece.replace("T-", &format!("{trace}-")).replace("-S-", &format!("-{span}-"));
        (pieces.into_iter().map(fill).collect::<Vec<_>>(), is_read)
    };
    let all: Vec<_> = traced_heads().into_iter().enumerate().map(filled).collect();
    let exchange = || {
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        client.set_nodelay(true).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        for (pieces, _) in &all {
            for piece in pieces {
                client.write_all(piece.as_bytes()).unwrap();
                server.read_exact(&mut vec![0; piece.len()]).unwrap();
            }
            server.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
            client.read_exact(&mut [0; 27]).unwrap();
        }
    };
    for backend in BACKENDS {
        let args = ["--port", &port.to_string(), "--backend", backend];
        let lines = traced(&args, exchange);
        for role in ["client", "server"] {
            let found = requests(&lines, role);
            assert_eq!(found.len(), all.len(), "{backend}, {role}");
            for (n, (request, (pieces, is_read))) in found.into_iter().zip(&all).enumerate() {
                let [trace, span] = ids(n).map(Value::from);
                let expected =
                    if *is_read { [trace, span, true.into()] } else { [Value::Null, Value::Null, Value::Null] };
                let keys = ["trace_id", "span_id", "trace_sampled"];
                assert_eq!(keys.map(|key| request[key].clone()), expected, "{backend}, {role}: {pieces:?}");
            }
        }
        assert!(!lines.iter().any(|line| line["kind"] != "run" && line.to_string().contains("secret")));
    }
    // The slowest requests are shown with their traces.
    let text = seen(&["--port", &port.to_string()], exchange);
    let shown = text.split("trace ").skip(1).filter(|rest| rest.starts_with("0000000000000000000000000000a0"));
    assert!(shown.count() > 0, "{text}");
}

/// A message of PostgreSQL: its letter, and a length that includes itself.
fn message(letter: u8, body: &[u8]) -> Vec<u8> {
    [&[letter][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

#[test]
fn statements_of_postgresql_that_are_sent_together_are_a_pipeline() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let one = [
        message(b'P', b"\0select $1\0\0\0"),
        message(b'B', &[0; 12]),
        message(b'D', b"P\0"),
        message(b'E', &[0; 5]),
        message(b'S', b""),
    ]
    .concat();
    let asked = [
        (message(b'Q', b"select 1\0"), "postgresql"),
        (one.clone(), "postgresql"),
        ([one.clone(), one.clone(), one.clone()].concat(), "postgresql_pipeline"),
        // The last message is not whole: two are before it.
        ([&one[..], &one, &message(b'Q', &[b' '; 90])[..20]].concat(), "postgresql_pipeline"),
        // Letters and lengths that do not go on to the end.
        ([&message(b'Q', b"select 1\0")[..], b"and more"].concat(), "null"),
        (b"P\0\0\0\x04xxxxxxx".to_vec(), "null"),
    ];
    let lines = traced(&["--port", &port.to_string()], || {
        let mut client = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        for (bytes, _) in &asked {
            client.write_all(bytes).unwrap();
            server.read_exact(&mut vec![0; bytes.len()]).unwrap();
            server.write_all(b"answer").unwrap();
            client.read_exact(&mut [0; 6]).unwrap();
        }
    });
    for role in ["client", "server"] {
        let found: Vec<String> = labels(&requests(&lines, role)).into_iter().map(|[.., protocol]| protocol).collect();
        assert_eq!(found, asked.each_ref().map(|(_, protocol)| *protocol), "{role}");
    }
}

/// A server that ends with the value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        signal(&self.0, libc::SIGINT);
        let _ = self.0.wait();
    }
}

/// pgbench's ways to send statements, against what its own words say it does.
#[test]
fn statements_of_a_real_postgresql_are_counted_and_none_is_taken_for_http() {
    const TIMES: usize = 20;
    let pgbench = postgres::program("pgbench").unwrap_or("/usr/lib/postgresql/15/bin/pgbench".into());
    tier::needs!(Need::Root, BTF, Need::Path(pgbench.to_str().unwrap()));
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let _server = Server(postgres::start(dir.path(), port, &[]));
    // What looks like a request of HTTP is in a statement and in its rows.
    let one = "SELECT 'GET /in/a/statement HTTP/1.1';\n";
    let scripts = [("one", one.to_owned()), ("three", format!("\\startpipeline\n{one}{one}{one}\\endpipeline\n"))];
    for (name, script) in &scripts {
        fs::write(dir.path().join(name), script).unwrap();
    }
    let bench = |mode: &str, script: &str| {
        let mut command = Command::new(&pgbench);
        let times = TIMES.to_string();
        command.args([
            "-n",
            "-h",
            "127.0.0.1",
            "-p",
            &port.to_string(),
            "-U",
            "postgres",
            "-t",
            &times,
            "-M",
            mode,
            "-f",
        ]);
        command.arg(dir.path().join(script)).arg("postgres").env("PGSSLMODE", "disable").stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().unwrap().success()
    };
    assert!(tier::wait_for(|| bench("simple", "one")), "{}", fs::read_to_string(dir.path().join("log")).unwrap());
    let port = port.to_string();
    for backend in BACKENDS {
        let args = ["--port", &port, "--backend", backend];
        for (mode, script, protocol) in [
            ("simple", "one", "postgresql"),
            ("extended", "one", "postgresql"),
            ("prepared", "one", "postgresql"),
            ("extended", "three", "postgresql_pipeline"),
        ] {
            let lines = traced(&args, || assert!(bench(mode, script)));
            for role in ["client", "server"] {
                let found = labels(&requests(&lines, role));
                let of = |what: &str| found.iter().filter(|label| label[3] == what).count();
                assert_eq!(of(protocol), TIMES, "{backend}, {mode}, {script}, {role}: {found:?}");
                // The others begin and end the two connections of pgbench, and prepare the
                // statement.
                assert_eq!(of("null"), found.len() - TIMES, "{backend}, {mode}, {role}: {found:?}");
                assert!(found.len() <= TIMES + 5, "{backend}, {mode}, {role}: {found:?}");
                assert!(found.iter().all(|label| label[..3] == ["null"; 3]), "{backend}, {mode}: {found:?}");
            }
        }
    }
    let text = seen(&["--port", &port], || assert!(bench("extended", "three")));
    let in_one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        in_one_line.contains("each of which may hold several requests: 20 with several statements of PostgreSQL"),
        "{text}"
    );
}

/// Apache's httpd, which takes HTTP/2 by an upgrade of HTTP/1.1, without TLS.
fn apache(dir: &Path, port: u16) -> Server {
    let of = dir.display();
    let modules = ["mpm_event", "authz_core", "http2"]
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
        .concat();
    fs::create_dir(dir.join("www")).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(dir.join("www").join(name), name.repeat(4_000)).unwrap();
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    let settings = format!(
        "ServerRoot {of}\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile {of}/pid\nErrorLog {of}/error\nDocumentRoot {of}/www\n
         {modules}User nobody\nGroup nogroup\nProtocols h2c http/1.1\nAcceptFilter http none\n
         ServerLimit 1\nStartServers 1\nThreadsPerChild 32\nMaxRequestWorkers 32\nMinSpareThreads 1\nMaxSpareThreads 32\n"
    );
    fs::write(dir.join("settings"), settings).unwrap();
    let mut command = Command::new("apache2");
    command.arg("-f").arg(dir.join("settings")).arg("-DFOREGROUND").stdin(Stdio::null());
    let server = Server(command.spawn().unwrap());
    assert!(tier::wait_for(|| TcpStream::connect(("127.0.0.1", port)).is_ok()), "apache2 does not listen");
    server
}

#[test]
fn after_an_upgrade_to_http_2_the_connection_has_exchanges_and_the_request_that_asked_for_it_its_label() {
    tier::needs!(Need::Root, BTF, CURL, Need::Program("apache2"));
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let _server = apache(dir.path(), port);
    let paths = ["/a?token=secret", "/b", "/c"];
    // On a connection each, as above.
    let ask = || paths.iter().for_each(|path| run(curl(&["--http2"], port, "http", &[path])));
    let port = port.to_string();
    for backend in BACKENDS {
        let args = ["--port", &port, "--backend", backend];
        let lines = traced(&args, ask);
        for role in ["client", "server"] {
            let found = requests(&lines, role);
            let connections: std::collections::BTreeMap<_, Vec<_>> =
                found.iter().fold(Default::default(), |mut all, request| {
                    all.entry(request["connection_id"].as_u64().unwrap()).or_insert_with(Vec::new).push(*request);
                    all
                });
            for of_one in connections.values() {
                let labels = labels(of_one);
                // The first request is answered by 101; its own answer is the first of HTTP/2.
                assert_eq!(
                    (labels[0][0].as_str(), labels[0][2..].join(" ")),
                    ("GET", "101 http1".into()),
                    "{backend}, {role}: {labels:?}"
                );
                assert!(paths.iter().any(|path| path.split('?').next() == Some(&labels[0][1])), "{labels:?}");
                assert!(labels.len() > 1, "{backend}, {role}: {labels:?}");
                let none = ["null", "null", "null", "http2"].map(str::to_owned);
                assert!(labels[1..].iter().all(|label| *label == none), "{backend}, {role}: {labels:?}");
            }
            assert!(!connections.is_empty(), "{backend}, {role}");
        }
        // What each end wrote is in its exchanges, each byte once.
        for (role, wrote) in [("client", "request_bytes"), ("server", "answer_bytes")] {
            for closed in lines.iter().filter(|line| line["kind"] == "closed") {
                let requests = requests(&lines, role);
                let own = requests.iter().filter(|r| r["connection_id"] == closed["connection_id"]);
                let bytes: Vec<_> = own.map(|r| r[wrote].as_u64().unwrap()).collect();
                if !bytes.is_empty() {
                    assert_eq!(
                        Some(bytes.iter().sum()),
                        closed["bytes_written"].as_u64(),
                        "{backend}, {role}: {bytes:?}"
                    );
                }
            }
        }
        assert!(!lines.iter().any(|line| line["kind"] != "run" && line.to_string().contains("secret")));
        let text = seen(&args, ask);
        let in_one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(in_one_line.contains("are exchanges, each of which may hold several requests: "), "{text}");
        assert!(in_one_line.contains("on connections of HTTP/2, by its preface"), "{text}");
    }
}

#[test]
fn a_report_and_a_run_have_the_labels() {
    tier::needs!(Need::Root, BTF, NGINX, CURL);
    let _turn = turn();
    let nginx = Nginx::start(false);
    let port = nginx.ports[0];
    let dir = tempfile::tempdir().unwrap();
    let run_of = dir.path().join("run").display().to_string();
    let text = seen(&["--port", &port.to_string(), "--full", "-o", &run_of], || run(curl(&[], port, "http", &PATHS)));
    let report = tier::wirelapse!(["report", "--full"]).arg(&run_of).output().unwrap();
    assert!(report.status.success(), "{}", tier::text(&report.stderr));
    for text in [text, tier::text(&report.stdout)] {
        let row = |line: &&str| line.contains("GET /a/b ") && line.contains("2xx 2");
        assert_eq!(text.lines().filter(row).count(), 2, "at each end:\n{text}");
        assert!(text.contains("GET /gone/x → 404"), "{text}");
        assert!(text.contains("Each has its method and path."), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

/// Answers requests of HTTP/1.1 on one connection after another; those of /slow after so long.
fn serve(listener: TcpListener, slow: Duration) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = [0; 4_096];
            while let Ok(n @ 1..) = stream.read(&mut asked) {
                if asked[..n].starts_with(b"GET /slow ") {
                    std::thread::sleep(slow);
                }
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes").unwrap();
            }
        }
    });
}

/// The run of a trace of a server with a path that takes so long, asked for 60 times as often as
/// two others; once for each of many paths.
fn run_with(slow: Duration, run: &Path) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    serve(listener, slow);
    seen(&["--port", &port.to_string(), "-o", run.to_str().unwrap()], || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        for n in 0..60 {
            for path in ["/slow", "/fast", "/other", &format!("/once/page{n}")] {
                ask(&mut stream, &[format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()]);
            }
        }
    });
}

#[test]
fn a_path_that_takes_longer_in_the_second_run_is_named_by_compare() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let runs = ["before", "after"].map(|name| dir.path().join(name));
    for (run, millis) in runs.iter().zip([5, 25]) {
        run_with(Duration::from_millis(millis), run);
    }
    let compare = |args: &[&str]| {
        let out = tier::wirelapse!(["compare"]).args(args).args(&runs).output().unwrap();
        assert!(out.status.success(), "{}", tier::text(&out.stderr));
        tier::text(&out.stdout)
    };
    let said: Value = serde_json::from_str(&compare(&["--json"])).unwrap();
    for role in ["requests-client", "requests-server"] {
        let kind = said["kinds"].as_array().unwrap().iter().find(|kind| kind["kind"] == role).unwrap();
        let labels = &kind["labels"];
        let first = &labels["each"][0];
        assert_eq!(
            (&first["method"], &first["path"], &first["n"]),
            (&"GET".into(), &"/slow".into(), &serde_json::json!([60, 60]))
        );
        let median = &first["moved"][0];
        let shift = median["shift"]["value"].as_f64().unwrap();
        assert!(median["quantile"] == "p50" && median["seen"] == true && (18e6..26e6).contains(&shift), "{median}");
        assert!(first["moved"][1]["shift"].is_null(), "60 requests carry no p99: {first}");
        // Every request is in one label, among the others, or without one.
        let each = labels["each"].as_array().unwrap();
        for run in 0..2 {
            let of = |value: &Value| value[run].as_u64().unwrap();
            let all: u64 = each.iter().map(|label| of(&label["n"])).sum();
            assert_eq!(all + of(&labels["others"]) + of(&labels["unlabelled"]), of(&kind["n"]), "{labels}");
        }
        assert!(each.len() <= 20 && labels["others"][0].as_u64().unwrap() >= 40, "{labels}");
    }
    let text = compare(&["--full", "--names", "old,new"]);
    let in_one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(in_one_line.contains("is that of GET /slow: median "), "{text}");
    assert!(text.starts_with("new against old") && in_one_line.contains(" in old → "), "{text}");
    assert!(text.contains("By method and path") && text.contains("GET /fast") && text.contains("all others"), "{text}");
    assert!(in_one_line.contains("There is one run of each"), "{text}");
}
