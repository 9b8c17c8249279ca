//! `analyze` and `compare` on the reference texts and on real captures, against tcptrace where it
//! is installed.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use record::Instant;
use serde_json::Value;
use wire::capture::context::{CODE, Context};
use wire::capture::{Particulars, PcapngWriter, Process, Verdict, flag};

/// Beside the checkout, or one level up for a work tree itself.
fn find(folder: &str, file: &str) -> Option<PathBuf> {
    ["../../../shared", "../../../../shared"]
        .into_iter()
        .map(|up| Path::new(env!("CARGO_MANIFEST_DIR")).join(up).join(folder).join(file))
        .find(|f| f.exists())
}

macro_rules! shared_file {
    ($folder:literal, $file:expr) => {
        match find($folder, $file) {
            Some(path) => path,
            None => {
                tier::needs!(tier::Need::Path(concat!("../shared/", $folder)));
                return;
            }
        }
    };
}

/// A capture of our own, with what it shows in the folder's README.
fn recorded(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/recorded").join(file)
}

/// Our own captures, and the foreign ones where they are.
fn captures() -> Vec<(&'static str, PathBuf)> {
    let own = RECORDED.into_iter().map(|file| (file, recorded(file)));
    own.chain(CAPTURES.into_iter().filter_map(|file| Some((file, find("captures", file)?)))).collect()
}

fn run(args: &[&str]) -> Output {
    tier::wirelapse!(args).output().expect("the binary runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn json(args: &[&str]) -> Vec<Value> {
    text(&run(args)).lines().map(|l| serde_json::from_str(l).expect("JSON")).collect()
}

#[test]
fn a_page_ends_with_the_command_that_tries_remedies_where_there_are_some() {
    let end = |args: &[&str]| text(&run(args)).split_whitespace().collect::<Vec<_>>().join(" ");
    let file = recorded("small-messages.pcap");
    let file = file.to_str().unwrap();
    for args in [&["analyze", file, "--full"][..], &["analyze", file, "--connection", "1"]] {
        let shown = end(args);
        assert!(shown.contains(&format!("Try `wirelapse advise {file}#1`: ")) && shown.ends_with("ms."), "{shown}");
    }
    // The second dump of the text waits for nothing but its round trips.
    let both = std::fs::read_to_string(recorded("small-messages.txt")).unwrap();
    let quick = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(quick.path(), both.split("\n\n").nth(1).unwrap()).unwrap();
    assert!(!end(&["analyze", quick.path().to_str().unwrap(), "--full"]).contains("wirelapse advise"));
    // What standard input held is gone.
    let piped = tier::wirelapse!(&["analyze", "-", "--full"]).stdin(std::fs::File::open(file).unwrap()).output();
    assert!(!text(&piped.unwrap()).contains("wirelapse advise"));
}

#[test]
fn two_recorded_dumps() {
    let file = recorded("small-messages.txt");
    let file = file.to_str().unwrap();
    let sentences = |output: &Output| text(output).split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = sentences(&run(&["compare", file]));
    assert!(
        shown.contains(
            "They diverge at packet 5: the first has the server's ACK (number 5), the second the client's 200 bytes"
        ),
        "{shown}"
    );
    let value = &json(&["compare", "--json", file])[0];
    assert_eq!(
        (&value["parting"]["first_wait_ns"], &value["parting"]["difference"]),
        (&20_859_000.into(), &"kind".into())
    );
    let lines = json(&["analyze", "--json", file]);
    // 20 ms away from the receiver, two late ACKs may be the path's; that data waited for them is
    // known.
    let withheld = lines[0]["withheld"].as_array().unwrap();
    assert!(lines.len() == 3 && withheld.iter().any(|w| w["kind"] == "nagle_delayed_ack"), "{withheld:?}");
    assert!(lines[0]["verdict"].as_str().unwrap().contains("set TCP_NODELAY"));
    assert_eq!(lines[0]["limits"]["ack_waiting_ns"], 146_033_000);
    assert_eq!(lines[1]["limits"]["ack_waiting_ns"], 0);
    // The text is that of the capture, to the letter.
    let original = std::fs::read_to_string(file).unwrap();
    let packets =
        |text: &str| text.lines().filter(|line| line.contains(" win ")).map(str::to_owned).collect::<Vec<_>>();
    for from in [file, recorded("small-messages.pcap").to_str().unwrap()] {
        assert_eq!(packets(&text(&run(&["analyze", "--dump", from]))), packets(&original), "{from}");
    }
}

#[test]
fn the_dumps_of_1999() {
    let file = shared_file!("references", "small-messages-and-delayed-acks.txt");
    let file = file.to_str().unwrap();
    // Lines are broken to fit a terminal.
    let sentences = |output: &Output| text(output).split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = sentences(&run(&["compare", file]));
    for words in [
        "They diverge at packet 6: in the first, the client's ACK (number 6) came 19.551 ms after",
        "in the second (number 16), where it came at once",
        "724 bytes were acknowledged at once",
        "724 is half the 1448-byte segment",
        "Nagle's algorithm against a delayed ACK",
        "packet 6 is a delayed ACK",
        "Nagle's algorithm let the FIN (packet 7) go only then",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    // The same by naming both connections, the other way round.
    let shown = sentences(&run(&["compare", &format!("{file}#2"), &format!("{file}#1")]));
    assert!(shown.contains("in the second, the client's ACK (number 6) came 19.551 ms"), "{shown}");
    // The page has the same sentences.
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("compared.html");
    text(&run(&["compare", file, "--html", page.to_str().unwrap()]));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("They diverge at packet 6: in the first,") && page.contains("here they diverge"));
    let value = &json(&["compare", "--json", file])[0];
    assert_eq!(value["parting"]["first_wait_ns"], 19_551_000);
    assert_eq!(value["parting"]["difference"], "time");

    let lines = json(&["analyze", "--json", file]);
    let first = &lines[0];
    assert_eq!((first["kind"].as_str(), lines.len()), (Some("connection"), 3));
    assert_eq!(first["findings"][0]["kind"], "nagle_delayed_ack");
    assert_eq!(first["findings"][0]["packets"], serde_json::json!([5, 6, 7]));
    assert_eq!(first["limits"]["ack_waiting_ns"], 19_551_000);
    // The dump cut the options short: whether window scaling is on is not known from it.
    assert_eq!(first["window_scaling"]["in_use"], Value::Null);
    // What the text prints is what is printed: every line of both dumps, to the letter.
    let dump = text(&run(&["analyze", "--dump", file]));
    let original = std::fs::read_to_string(file).unwrap();
    let packets = |t: &str| t.lines().filter(|l| l.contains(" win ")).map(str::to_owned).collect::<Vec<_>>();
    let (ours, theirs) = (packets(&dump), packets(&original));
    assert_eq!((ours.len(), &ours), (20, &theirs));
}

const TOP: [&str; 10] =
    ["kind", "client", "server", "start_ns", "duration_ns", "verdict", "limits", "to_server", "to_client", "findings"];

const PER_DIRECTION: [&str; 18] = [
    "packets",
    "payload_packets",
    "unique_bytes",
    "retransmitted_bytes",
    "retransmitted_packets",
    "spurious_retransmissions",
    "out_of_order_packets",
    "duplicate_acks",
    "zero_window_packets",
    "mss",
    "window_scale",
    "sack_permitted",
    "timestamps",
    "header_bytes",
    "max_window",
    "max_in_flight",
    "rtt",
    "handshake_rtt_ns",
];

#[test]
fn every_connection_has_the_documented_keys() {
    let file = recorded("loss.pcap");
    let lines = json(&["analyze", "--json", file.to_str().unwrap()]);
    let (capture, connections) = lines.split_last().unwrap();
    assert_eq!(capture["kind"], "capture");
    assert_eq!(connections.len(), 2);
    for c in connections {
        for key in TOP {
            assert!(!c[key].is_null(), "{key}");
        }
        let shares: u64 = c["limits"].as_object().unwrap().values().map(|v| v.as_u64().unwrap()).sum();
        assert_eq!(shares, c["duration_ns"].as_u64().unwrap());
        for side in ["to_server", "to_client"] {
            let d = c[side].as_object().unwrap();
            for key in PER_DIRECTION {
                assert!(d.contains_key(key), "{side}.{key}");
            }
            for key in ["samples", "min_ns", "median_ns", "p99_ns", "max_ns"] {
                assert!(d["rtt"].as_object().unwrap().contains_key(key), "rtt.{key}");
            }
        }
    }
}

const RECORDED: [&str; 7] = [
    "closed-window.pcap",
    "ipv6.pcapng",
    "loss.pcap",
    "lost-one.pcap",
    "refused.pcap",
    "small-messages.pcap",
    "timeouts.pcap",
];

const CAPTURES: [&str; 9] = [
    "R_rto_rto001.trace",
    "S_mime_mime-stream-depth_input.pcap",
    "S_tcp-fastopen-07_tcp_fastopen_segmentation.pcap",
    "T_dsack.dmp",
    "T_zwnd.dmp",
    "Z_ftp_cwd-navigation.pcap",
    "Z_http_206_example_a.pcap",
    "Z_http_get-to-ssh-server.pcap",
    "Z_ssh_ssh.pcap",
];

/// What tcptrace prints of each connection: key, value there, value back.
fn tcptrace(file: &Path) -> Vec<Vec<(String, String, String)>> {
    let out = Command::new("tcptrace").args(["-l", "-n"]).arg(file).output().expect("tcptrace runs");
    let mut connections = Vec::new();
    for line in tier::text(&out.stdout).lines() {
        if line.starts_with("TCP connection ") && line != "TCP connection info:" {
            connections.push(Vec::new());
        }
        // `   total packets:          1249           total packets:          1245      `
        let mut parts = line.split(':');
        let (Some(key), Some(middle), Some(last)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let values = (middle.split_whitespace().next(), last.split_whitespace().next());
        if let ((Some(a), Some(b)), Some(rows)) = (values, connections.last_mut()) {
            rows.push((key.trim().to_owned(), a.to_owned(), b.to_owned()));
        }
    }
    connections
}

/// Our key, and tcptrace's words for it.
const COMPARED: [(&str, &str); 8] = [
    ("packets", "total packets"),
    ("payload_packets", "actual data pkts"),
    ("payload_bytes", "actual data bytes"),
    ("unique_bytes", "unique bytes sent"),
    ("retransmitted_bytes", "rexmt data bytes"),
    ("retransmitted_packets", "rexmt data pkts"),
    ("zero_window_packets", "zero win adv"),
    ("out_of_order_packets", "outoforder pkts"),
];

#[test]
fn counts_agree_with_tcptrace() {
    tier::needs!(tier::Need::Program("tcptrace"));
    let mut compared = 0;
    let mut wrong = Vec::new();
    for (file, path) in captures() {
        let ours = json(&["analyze", "--json", path.to_str().unwrap()]);
        let ours: Vec<&Value> = ours.iter().filter(|l| l["kind"] == "connection").collect();
        let theirs = tcptrace(&path);
        if ours.len() != theirs.len() {
            wrong.push(format!("{file}: {} connections against {}", ours.len(), theirs.len()));
            continue;
        }
        for (i, (c, rows)) in ours.iter().zip(&theirs).enumerate() {
            for (key, name) in COMPARED {
                let Some((_, a, b)) = rows.iter().find(|r| r.0 == name) else { continue };
                for (side, value) in [("to_server", a), ("to_client", b)] {
                    let number = |key: &str| c[side][key].as_u64().unwrap_or(0);
                    let our = match key {
                        "payload_bytes" => number("unique_bytes") + number("retransmitted_bytes"),
                        _ => number(key),
                    };
                    compared += 1;
                    let off = value.parse::<i64>().unwrap_or(i64::MAX) - our as i64;
                    if off != 0 && explained(file, &c[side], key, off).is_none() {
                        wrong.push(format!("{file} #{} {side} {key}: {our} against tcptrace's {value}", i + 1));
                    }
                }
            }
        }
    }
    assert!(compared > if find("captures", CAPTURES[0]).is_some() { 200 } else { 90 }, "{compared}");
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// One direction as tshark's fields give it: packets, payload bytes, and what its SYN offers.
#[derive(Debug, Default, PartialEq)]
struct Side {
    packets: u64,
    payload: u64,
    retransmitted: u64,
    scale: Option<u64>,
    sack: bool,
    stamps: bool,
}

/// By stream and sender's `address port`, in the order of streams.
fn tshark(file: &Path) -> BTreeMap<u64, BTreeMap<String, Side>> {
    const FIELDS: [&str; 13] = [
        "tcp.stream",
        "ip.src",
        "ipv6.src",
        "tcp.srcport",
        "tcp.len",
        "tcp.flags.syn",
        "tcp.options.wscale.shift",
        "tcp.options.sack_perm",
        "tcp.options.timestamp.tsval",
        "tcp.seq_raw",
        "tcp.analysis.retransmission",
        "tcp.analysis.out_of_order",
        "tcp.analysis.zero_window_probe",
    ];
    let mut command = Command::new("tshark");
    command.args(["-n", "-Y", "tcp and not icmp and not icmpv6", "-T", "fields", "-r"]).arg(file);
    FIELDS.iter().for_each(|f| {
        command.args(["-e", f]);
    });
    let out = command.output().expect("tshark runs");
    let mut streams: BTreeMap<u64, BTreeMap<String, Side>> = BTreeMap::new();
    // By stream, sender's port and sequence number: where what was sent with payload before ends.
    let mut before: BTreeMap<(u64, u16, u64), u64> = BTreeMap::new();
    for line in tier::text(&out.stdout).lines() {
        let f: Vec<&str> = line.split('\t').collect();
        let Ok(stream) = f[0].parse() else { continue };
        let address: IpAddr = (if f[1].is_empty() { f[2] } else { f[1] }).parse().expect("an address");
        let port: u16 = f[3].parse().expect("a port");
        let side = streams.entry(stream).or_default().entry(SocketAddr::new(address, port).to_string()).or_default();
        side.packets += 1;
        let payload = f[4].parse::<u64>().unwrap_or(0);
        side.payload += payload;
        // tshark calls what comes soon after the segment above it out of order, even where the
        // capture holds the same bytes already: those are retransmitted, as are the second and
        // later probes of a closed window, which tshark has a word itself for. What it calls
        // retransmitted because a gap was there is new to the capture: the first copy was lost on
        // the way to it.
        let seq: u64 = f[9].parse().expect("a sequence number");
        let within = before.range_mut(..=(stream, port, seq)).next_back();
        let within = within.filter(|(of, end)| (of.0, of.1) == (stream, port) && **end > seq);
        let seen = payload > 0 && within.is_some();
        match within {
            Some((_, end)) => *end = (*end).max(seq + payload),
            None if payload > 0 => drop(before.insert((stream, port, seq), seq + payload)),
            None => {}
        }
        if seen && (!f[10].is_empty() || !f[11].is_empty() || !f[12].is_empty()) {
            side.retransmitted += payload;
        }
        if matches!(f[5], "1" | "True") {
            side.scale = f[6].parse().ok();
            (side.sack, side.stamps) = (!f[7].is_empty(), !f[8].is_empty());
        }
    }
    streams
}

#[test]
fn counts_and_options_agree_with_tshark() {
    tier::needs!(tier::Need::Program("tshark"));
    let (mut compared, mut wrong) = (0, Vec::new());
    for (file, path) in captures() {
        let ours = json(&["analyze", "--json", path.to_str().unwrap()]);
        let ours: Vec<&Value> = ours.iter().filter(|l| l["kind"] == "connection").collect();
        let theirs = tshark(&path);
        if ours.len() != theirs.len() {
            wrong.push(format!("{file}: {} connections against {}", ours.len(), theirs.len()));
            continue;
        }
        for (c, stream) in ours.iter().zip(theirs.values()) {
            for (end, side) in [("client", "to_server"), ("server", "to_client")] {
                let d = &c[side];
                let number = |key: &str| d[key].as_u64().unwrap_or(0);
                // The seventh time that the probes' byte comes (see `explained`) tshark calls
                // nothing at all.
                let unnamed = u64::from(file == "T_zwnd.dmp" && side == "to_server");
                let our = Side {
                    retransmitted: number("retransmitted_bytes") - unnamed,
                    packets: number("packets") + number("capture_copies"),
                    payload: number("unique_bytes") + number("retransmitted_bytes"),
                    scale: d["window_scale"].as_u64(),
                    sack: d["sack_permitted"] == true,
                    stamps: d["timestamps"] == true,
                };
                let empty = Side::default();
                let their = stream.get(c[end].as_str().unwrap()).unwrap_or(&empty);
                compared += 6;
                if our != *their {
                    wrong.push(format!("{file} #{} {side}: {our:?} against tshark's {their:?}", c["number"]));
                }
            }
        }
    }
    assert!(compared > if find("captures", CAPTURES[0]).is_some() { 300 } else { 80 }, "{compared}");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Where a figure differs from tcptrace's, and why. `c` is our direction, `off` theirs less ours.
fn explained(file: &str, c: &Value, key: &str, off: i64) -> Option<&'static str> {
    let of = |key: &str| c[key].as_i64().unwrap_or(0);
    let syns = c["retransmissions"]["syn"].as_i64().unwrap_or(0);
    match key {
        // tcptrace counts a SYN or FIN that is retransmitted as a data packet of one byte; here
        // neither is payload, and a SYN retransmitted has a counter itself. A FIN is among our
        // retransmitted packets, without a byte.
        "retransmitted_packets" if off == syns && syns > 0 => Some("SYNs retransmitted"),
        // What fills a gap in the capture was retransmitted, and its first copy was lost on the way
        // to it: no byte comes twice. tcptrace calls it out of order.
        "retransmitted_packets" if of("retransmitted_bytes") == 0 && off == -of("retransmitted_packets") => {
            Some("first copies never came here")
        }
        "out_of_order_packets" if of("retransmitted_bytes") == 0 && off == of("retransmitted_packets") => {
            Some("first copies never came here")
        }
        "retransmitted_bytes" if off > 0 && off <= syns + of("retransmitted_packets") => {
            Some("SYNs and FINs retransmitted")
        }
        // One byte is sent seven times: six times as a probe of the closed window (packets 18432 to
        // 18442), then as data (18447). Here it is new once and seen before six times, and the last
        // of these packets is data retransmitted. tcptrace leaves probes out of the stream, so that
        // to it the seventh is the first.
        "retransmitted_bytes" if file == "T_zwnd.dmp" && of("window_probes") == 6 && off == -6 => {
            Some("probes' byte comes again")
        }
        "retransmitted_packets" if file == "T_zwnd.dmp" && of("window_probes") == 6 && off == -1 => {
            Some("it comes as data at last")
        }
        _ => None,
    }
}

#[test]
fn bad_input_ends_in_2_and_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("prose.txt"), "nothing that tcpdump ever printed\n").unwrap();
    std::fs::write(path("noise"), [0u8, 1, 2, 3, 250, 251]).unwrap();
    std::fs::write(path("empty"), "").unwrap();
    for name in ["prose.txt", "noise", "empty", "missing"] {
        let output = run(&["analyze", &path(name)]);
        assert_eq!(output.status.code(), Some(2), "{name}: {output:?}");
        assert!(tier::text(&output.stderr).contains(name), "{output:?}");
    }
    // Cut in the middle: what could be read is analysed, and the warning says where it ends.
    let file = recorded("loss.pcap");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(path("cut.pcap"), &whole[..whole.len() / 2]).unwrap();
    let output = run(&["analyze", &path("cut.pcap")]);
    assert!(output.status.success());
    let warning = tier::text(&output.stderr);
    assert!(["cut.pcap", "packet ", "byte "].iter().all(|w| warning.contains(w)), "{warning}");
}

#[test]
fn a_file_that_exists_is_written_over_only_with_force() {
    let file = recorded("lost-one.pcap");
    let file = file.to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (name, option) in [("out.pcapng", "--annotate"), ("plot.svg", "--plot")] {
        let path = folder.path().join(name);
        std::fs::write(&path, "mine").unwrap();
        let args = ["analyze", file, "--connection", "1", option, path.to_str().unwrap()];
        let refused = run(&args);
        assert_eq!(refused.status.code(), Some(2), "{option}: {}", tier::text(&refused.stderr));
        assert!(tier::text(&refused.stderr).contains("--force"), "{option}: {}", tier::text(&refused.stderr));
        assert_eq!(std::fs::read(&path).unwrap(), b"mine", "{option}");
        text(&run(&[&args[..], &["--force"]].concat()));
        assert_ne!(std::fs::read(&path).unwrap(), b"mine", "{option}");
    }
}

/// The same tables as those for people, and nothing else.
#[test]
fn tables_of_a_hostile_text_steer_no_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.txt");
    let name = "a\u{1b}]0;pwned\u{7}\u{1b}[31m\u{9b}31mb.80";
    let line = |at: u32, from: &str, to: &str, flags: &str| {
        format!("1700000000.{at:06} IP {from} > {to}: Flags [{flags}], seq 1, ack 2, win 1000, length 0\n")
    };
    let (syn, answer) = (line(1, "10.0.0.1.5000", name, "S"), line(10_001, name, "10.0.0.1.5000", "S."));
    std::fs::write(&file, syn + &answer).unwrap();
    let csv = run(&["analyze", file.to_str().unwrap(), "--csv"]);
    let said = tier::text(&csv.stdout);
    assert!(said.contains("10.0.0.1") && said.contains("\r\n"), "{said:?}");
    assert!(!said.contains(['\u{1b}', '\u{7}', '\u{9b}']), "{said:?}");
}

#[test]
fn what_is_made_of_a_private_run_or_capture_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let mode = |name: &str| std::fs::metadata(at(name)).unwrap().permissions().mode() & 0o777;
    let capture = recorded("loss.pcap");
    let capture = capture.to_str().unwrap();
    let (run, open, private) = (at("run"), at("open.pcap"), at("private.pcap"));
    for (copy, mode) in [(&open, 0o644), (&private, 0o600)] {
        std::fs::copy(capture, copy).unwrap();
        std::fs::set_permissions(copy, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    for words in [
        &["analyze", capture, "-o", &run][..],
        &["report", &run, "--html", &at("run.html"), "--svg", &at("plots")],
        &["compare", &open, &private, "--html", &at("both.html")],
        &["compare", &open, &open, "--html", &at("open.html")],
        &["analyze", &private, "-c", "1", "--plot", &at("plot.svg")],
        &["analyze", &private, "--annotate", &at("annotated.pcapng")],
    ] {
        let output = self::run(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(["run.html", "both.html", "plot.svg", "annotated.pcapng"].map(mode), [0o600; 4]);
    assert_eq!(mode("open.html"), 0o644);
    let plots = std::fs::read_dir(at("plots")).into_iter().flatten();
    assert!(plots.map(|plot| plot.unwrap().metadata().unwrap().permissions().mode() & 0o777).all(|mode| mode == 0o600));
}

#[test]
fn tables_as_comma_separated_values() {
    let file = recorded("lost-one.pcap");
    let other = recorded("refused.pcap");
    let (file, other) = (file.to_str().unwrap(), other.to_str().unwrap());
    // Lines end as RFC 4180 has it.
    let csv = |args: &[&str]| text(&run(args)).replace("\r\n", "\n");
    let all = csv(&["analyze", file, "--csv"]);
    assert!(all.starts_with("# Connections\nno.,client → server,"), "{all}");
    assert!(all.contains("\n# The costliest first\nno.,finding,cost,") && all.contains("\n1,loss,851"), "{all}");
    let one = csv(&["analyze", file, "--connection", "1", "--csv"]);
    assert!(one.starts_with("# ") && one.contains(','), "{one}");
    let between = csv(&["compare", file, other, "--csv"]);
    assert!(between.starts_with("# Packets\n") && between.contains("here they diverge"), "{between}");
}

/// A capture in which one program describes the server's process, and a comment of another names
/// the client's.
#[test]
fn processes_that_other_programs_name_stand_beside_their_ends() {
    let bytes = std::fs::read(recorded("loss.pcap")).unwrap();
    let mut capture = wire::Capture::from_bytes(&bytes).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("named.pcapng");
    let mut writer = PcapngWriter::new(std::fs::File::create(&path).unwrap(), "test").unwrap();
    writer.interfaces(capture.interfaces()).unwrap();
    writer.process(&Process { pid: 77, name: "nginx", ..Process::default() }).unwrap();
    let comment = "rustnet process=curl\u{1b}[31m pid=1234 attr=exact-tuple direction=outgoing app=HTTP";
    while let Some(frame) = capture.next_frame().unwrap() {
        // The source port, behind Ethernet and IPv4.
        let of = match frame.data[34..36] == 9_001_u16.to_be_bytes() {
            true => Particulars { process: Some((77, 0)), flags: flag::OUTBOUND, ..Particulars::default() },
            false => Particulars { comments: &[comment], ..Particulars::default() },
        };
        writer.packet(&frame, &of).unwrap();
    }
    writer.finish().unwrap();
    for threads in ["1", "3"] {
        let said = text(&run(&["analyze", path.to_str().unwrap(), "--threads", threads]));
        let [client, server] = [" curl\u{fffd}[31m[1234] → ", ":9001 nginx[77]"].map(|end| said.contains(end));
        assert!(client && server, "{said}");
    }
}

/// Comments are added; what the file says of packets, also in our option, and of processes stays.
#[test]
fn a_capture_that_is_annotated_keeps_what_it_says_of_its_packets() {
    let bytes = std::fs::read(recorded("loss.pcap")).unwrap();
    let mut capture = wire::Capture::from_bytes(&bytes).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [path, out] = ["said.pcapng", "annotated.pcapng"].map(|name| folder.path().join(name));
    let mut writer = PcapngWriter::new(std::fs::File::create(&path).unwrap(), "test").unwrap();
    writer.interfaces(capture.interfaces()).unwrap();
    writer
        .process(&Process { pid: 77, name: "nginx", since: Some(Instant::from_nanos(5)), ..Process::default() })
        .unwrap();
    while let Some(frame) = capture.next_frame().unwrap() {
        let context = Context {
            socket: Some((record::ConnectionId(frame.number), record::KnownBy::Sent)),
            name: "nginx".into(),
            again: Some(record::Again::Loss),
            ..Context::default()
        };
        let of = Particulars {
            comments: &["mine"],
            flags: flag::OUTBOUND,
            dropped: frame.number % 3,
            id: Some(frame.number << 33),
            verdict: Some(Verdict::DROPPED_BY_TC),
            process: Some((77, 78)),
            local: Some((CODE, &context.value())),
        };
        writer.packet(&frame, &of).unwrap();
    }
    writer.finish().unwrap();
    text(&run(&["analyze", path.to_str().unwrap(), "--annotate", out.to_str().unwrap()]));
    let said = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        assert!(bytes.windows(5).any(|name| name == b"nginx"));
        let mut capture = wire::Capture::from_bytes(&bytes).unwrap();
        let mut all = Vec::new();
        while let Some(frame) = capture.next_frame().unwrap() {
            let Particulars { flags, dropped, id, verdict, process, .. } = frame.particulars();
            all.push((
                frame.comments().next().map(str::to_owned),
                flags,
                dropped,
                id,
                verdict,
                process,
                frame.context(),
            ));
        }
        all
    };
    let (before, after) = (said(&path), said(&out));
    assert!(before.len() > 100 && before[0].4 == Some(Verdict::DROPPED_BY_TC) && before[0].6.is_some());
    assert_eq!(before, after);
    let described = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        let mut packets = wire::PacketReader::from_bytes(&bytes).unwrap();
        while packets.next_packet().unwrap().is_some() {}
        packets.described()
    };
    assert_eq!(described(&out), [(77, "nginx".to_owned(), Some(5))]);
}

#[test]
fn annotated_and_plotted() {
    let file = recorded("loss.pcap");
    let file = file.to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (out, plot) = (folder.path().join("annotated.pcapng"), folder.path().join("plot.svg"));
    text(&run(&["analyze", file, "--annotate", out.to_str().unwrap()]));
    let (before, after) = (json(&["analyze", "--json", file]), json(&["analyze", "--json", out.to_str().unwrap()]));
    assert_eq!(before[0]["to_client"], after[0]["to_client"], "the copy holds the same packets");
    let bytes = std::fs::read(&out).unwrap();
    let comment = b"wirelapse, connection 1: loss: ";
    assert!(bytes.windows(comment.len()).any(|w| w == comment));
    let marked = b"connection 1: retransmission: ";
    assert_eq!(
        bytes.windows(marked.len()).filter(|w| *w == marked).count(),
        8,
        "7 of data to the server and one to the client, each with its class"
    );
    let plotted = |path: &Path| {
        text(&run(&["analyze", file, "--connection", "1", "--plot", path.to_str().unwrap()]));
        std::fs::read(path).unwrap()
    };
    let svg = String::from_utf8(plotted(&plot)).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("retransmitted") && svg.contains("receive window"));
    let page = String::from_utf8(plotted(&plot.with_extension("html"))).unwrap();
    assert!(
        ["retransmitted", "receive window", "data packets to the server were retransmitted", "10.77.0.2:9001"]
            .iter()
            .all(|w| page.contains(w))
    );
    assert!(plotted(&plot.with_extension("png")).starts_with(b"\x89PNG"));
    for (path, what) in [("plot.gif", ".html, .svg or .png"), ("no/such/plot.svg", "no/such/plot.svg")] {
        let path = folder.path().join(path);
        let output = run(&["analyze", file, "--connection", "1", "--plot", path.to_str().unwrap()]);
        assert!(!output.status.success() && tier::text(&output.stderr).contains(what), "{output:?}");
    }
    let nowhere = folder.path().join("no/such/run");
    let output = run(&["analyze", file, "-o", nowhere.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty() && tier::text(&output.stderr).contains("no/such/run: No such file"), "{output:?}");
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 4, "nothing half-written: {names:?}");
}
