//! `wirelapse trace` where it is not in the machine's own namespaces: a container's numbers, a
//! lab's network.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use tier::{Need, Process};

const WIRELAPSE: &str = env!("CARGO_BIN_EXE_wirelapse");

fn sends(stdout: &[u8]) -> Vec<serde_json::Value> {
    let text = tier::text(stdout);
    let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines.filter(|line| line["kind"] == "send").collect()
}

#[test]
fn in_a_pid_namespace_processes_have_their_numbers_there() {
    tier::needs!(Need::Root, Need::Path("/sys/kernel/btf/vmlinux"), Need::Program("unshare"), Need::Program("bash"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let mut number = String::new();
        BufReader::new(&socket).read_line(&mut number).unwrap();
        (&socket).write_all(b"done\n").unwrap();
        number.trim().parse::<u64>().unwrap()
    });
    // The traced program sends its own number.
    let program = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; echo $$ >&3; read answer <&3");
    let traced = Command::new("unshare")
        .args(["--fork", "--pid", "--mount-proc", WIRELAPSE, "trace", "--json", "--", "bash", "-c", &program])
        .output()
        .unwrap();
    assert!(traced.status.success(), "{}", tier::text(&traced.stderr));
    let number = server.join().unwrap();
    let sends = sends(&traced.stdout);
    assert_eq!(sends.len(), 1, "{sends:?}");
    // In a namespace that has just begun numbers are small, so it cannot be the machine's by
    // chance.
    assert!(number < 100 && sends[0]["pid"] == number, "{number}: {sends:?}");
}

#[test]
fn in_a_labs_host_the_sends_take_the_paths_round_trip() {
    tier::needs!(Need::Root, Need::Path("/sys/kernel/btf/vmlinux"), Need::Path("/dev/net/tun"));
    let name = format!("namespaces{}", std::process::id());
    let (a, b) = (format!("{name}:a"), format!("{name}:b"));
    let mut up = tier::wirelapse!(["lab", "up", "--name", &name, "--delay", "10ms"]);
    up.stdout(Stdio::piped());
    let mut lab = Process::from(up.spawn().unwrap());
    // Its first line says that it is up.
    lab.first_line();
    let mut serve =
        tier::wirelapse!(["lab", "exec", &b, "--", WIRELAPSE, "serve", "--json", "--listen", "10.77.0.2:5201"]);
    let mut server = Process::from(serve.stdout(Stdio::piped()).spawn().unwrap());
    let (_, _output) = server.first_line();
    let traced =
        tier::wirelapse!(["lab", "exec", &a, "--", WIRELAPSE, "trace", "--json", "--", WIRELAPSE, "rr", "10.77.0.2"])
            .args(["--request", "900", "--for", "500ms"])
            .output()
            .unwrap();
    assert!(traced.status.success(), "{}", tier::text(&traced.stderr));
    let sends = sends(&traced.stdout);
    assert!(sends.len() >= 5, "{sends:?}");
    for send in &sends {
        assert_eq!(send["pid"], sends[0]["pid"], "one process makes them all");
        assert_eq!(send["remote_address"], "10.77.0.2", "{send}");
        assert!(send["network_ns"].as_u64().unwrap() >= 19_900_000, "{send}");
    }
}
