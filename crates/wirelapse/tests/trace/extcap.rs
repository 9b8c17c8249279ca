//! `wirelapse extcap` as Wireshark calls it.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::scene::command::{is_tracing, signal};
use crate::scene::{BTF, turn};
use tier::{Need, text};
use wire::Capture;

fn asked(words: &[&str]) -> String {
    let out = tier::wirelapse!(["extcap"]).args(words).output().unwrap();
    assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    text(&out.stdout)
}

#[test]
fn the_interface_its_link_type_and_its_dialog_are_told() {
    let interfaces = asked(&["--extcap-interfaces", "--extcap-version=4.4"]);
    let lines: Vec<&str> = interfaces.lines().collect();
    assert!(lines[0].starts_with("extcap {version=") && lines.len() == 2, "{interfaces}");
    assert_eq!(lines[1], "interface {value=wirelapse}{display=Wirelapse: traced programs}");
    let dlts = asked(&["--extcap-dlts", "--extcap-interface", "wirelapse"]);
    assert_eq!(dlts, "dlt {number=101}{name=RAW}{display=Raw IP}\n");
    let config = asked(&["--extcap-config", "--extcap-interface", "wirelapse"]);
    for (number, line) in config.lines().filter(|line| line.starts_with("arg ")).enumerate() {
        assert!(line.starts_with(&format!("arg {{number={number}}}{{call=--")), "{line}");
    }
    assert_eq!(config.matches("{default=true}").count(), 1, "{config}");
    for wrong in [&["--extcap-dlts", "--extcap-interface", "eth0"][..], &["--extcap-dlts"], &[], &["--capture"]] {
        let out = tier::wirelapse!(["extcap"]).args(wrong).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{wrong:?}");
    }
}

/// A pipe, and what is read from it.
fn pipe(folder: &Path) -> (PathBuf, JoinHandle<Vec<u8>>) {
    let path = folder.join("fifo");
    let c_path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the path ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(c_path.as_ptr(), 0o600) }, 0);
    let from = path.clone();
    let reading = std::thread::spawn(move || {
        let mut all = Vec::new();
        std::fs::File::open(from).unwrap().read_to_end(&mut all).unwrap();
        all
    });
    (path, reading)
}

fn exchange(listener: &TcpListener) {
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.write_all(b"x").unwrap();
    server.read_exact(&mut [0]).unwrap();
}

#[test]
fn packets_come_through_the_pipe_until_it_is_told_to_end() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let folder = tempfile::tempdir().unwrap();
    let (fifo, reading) = pipe(folder.path());
    let mut command = tier::wirelapse!(["extcap", "--capture", "--extcap-interface", "wirelapse", "--fifo"]);
    command.arg(&fifo).args(["--port", &port]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let capture = command.spawn().unwrap();
    assert!(tier::wait_for(|| is_tracing(capture.id())), "no trace");
    std::thread::sleep(Duration::from_millis(300));
    exchange(&listener);
    std::thread::sleep(Duration::from_millis(300));
    signal(&capture, libc::SIGTERM);
    let out = capture.wait_with_output().unwrap();
    // What is said Wireshark would show as an error.
    assert!(out.status.success() && out.stdout.is_empty() && out.stderr.is_empty(), "{out:?}");
    let bytes = reading.join().unwrap();
    let mut read = Capture::from_bytes(&bytes).unwrap();
    let mut packets = 0;
    while let Some(frame) = read.next_frame().unwrap() {
        assert_eq!(frame.process().map(|process| process.0), Some(std::process::id()));
        packets += 1;
    }
    assert!(packets >= 6, "{packets}");
}

/// tshark with our folder in place of its own for extcap, which it takes from nowhere else as root.
const IN_ITS_FOLDER: &str = r#"
mount --bind "$0" "$(tshark -G folders 2>/dev/null | sed -n 's/^Extcap path:[[:space:]]*//p')"
exec tshark "$@"
"#;

#[test]
fn tshark_captures_by_it() {
    tier::needs!(Need::Root, BTF, Need::Program("tshark"));
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    // The packages install the script under this name; it calls the program by its name.
    let own = tempfile::tempdir().unwrap();
    let script = folder.path().join("wirelapse");
    let text_of = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/wireshark/extcap");
    std::fs::copy(text_of, &script).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_wirelapse")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let tshark = |words: &[&str]| -> Command {
        let mut command = tier::limit(Command::new("unshare"));
        command.args(["--mount", "--propagation", "private", "sh", "-euc", IN_ITS_FOLDER]).arg(folder.path());
        command.env("PATH", &path).args(words);
        command
    };
    let listed = text(&tshark(&["-D"]).output().unwrap().stdout);
    assert!(listed.contains("wirelapse (Wirelapse: traced programs)"), "{listed}");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("extcap.wirelapse.port:{}", listener.local_addr().unwrap().port());
    let file = own.path().join("packets.pcapng");
    let mut command = tshark(&["-q", "-i", "wirelapse", "-o", &port, "-c", "40", "-w"]);
    let mut capture = command.arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Until it has as many as it was asked for.
    while capture.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(50));
        exchange(&listener);
    }
    let out = capture.wait_with_output().unwrap();
    assert!(out.status.success() && !text(&out.stderr).contains("Error by extcap"), "{out:?}");
    let bytes = std::fs::read(&file).unwrap();
    let mut read = Capture::from_bytes(&bytes).unwrap();
    let mut with_context = 0;
    while let Some(frame) = read.next_frame().unwrap() {
        with_context += usize::from(frame.context().is_some());
    }
    assert!(with_context > 10, "{with_context} packets with their context; {}", text(&out.stderr));
}
