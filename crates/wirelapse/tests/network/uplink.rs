//! `wirelapse lab up --uplink`: a machine in a namespace, an outside with a web server and a
//! resolver beside it, and a lab on that machine.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use tier::{Need, Process, text};

/// Answers each query for an IPv4 address with its own, and each connection with `hello`, on IPv4
/// and IPv6.
const OUTSIDE: &str = r#"
import socket, sys, threading
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); names.bind(("10.77.1.2", 53))
web = socket.create_server(("::", 80), family=socket.AF_INET6, dualstack_ipv6=True)
def hello():
    while True:
        c, _ = web.accept()
        c.sendall(b"hello, " + c.recv(100)); c.close()
threading.Thread(target=hello, daemon=True).start()
print("ready", flush=True)
while True:
    q, to = names.recvfrom(4096)
    i = 12
    while q[i]: i += q[i] + 1
    n = 1 if q[i+1:i+3] == b"\0\1" else 0
    r = q[:2] + b"\x81\x80\0\1" + bytes([0, n]) + bytes(4) + q[12:i+5]
    names.sendto(r + (b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton("10.77.1.2") if n else b""), to)
"#;

fn wirelapse(args: &[&str]) -> Command {
    let mut command = tier::wirelapse!(["lab"]);
    command.args(args);
    command
}

fn run(args: &[&str]) -> String {
    let out = wirelapse(args).output().unwrap();
    text(&out.stdout) + &text(&out.stderr)
}

#[test]
fn hosts_reach_the_outside_and_nothing_of_it_stays() {
    let needs = ["python3", "bash", "getent", "mount", "ip"].map(Need::Program);
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Path("/etc/resolv.conf"));
    tier::needs!(needs[0], needs[1], needs[2], needs[3], needs[4]);
    let dir = tempfile::tempdir().unwrap();
    let (topology, resolver) = (dir.path().join("net.toml"), dir.path().join("resolv.conf"));
    let net = "hosts = [\"machine\", \"third\", \"outside\"]\n[[link]]\nbetween = [\"machine\", \"third\"]\n[[link]]\nbetween = [\"machine\", \"outside\"]\n";
    std::fs::write(&topology, net).unwrap();
    std::fs::write(&resolver, "nameserver 10.77.1.2\nsearch example.org\n").unwrap();
    let (outer, inner) = (format!("outer-{}", std::process::id()), format!("inner-{}", std::process::id()));
    let up = wirelapse(&["up", "-d", "--name", &outer, "--topology", topology.to_str().unwrap()]).output().unwrap();
    assert!(up.status.success(), "{up:?}");
    let [machine, outside] = ["machine", "outside"].map(|host| format!("{outer}:{host}"));

    let mut server = wirelapse(&["exec", &outside, "--", "python3", "-c", OUTSIDE]);
    let mut server = Process::from(server.stdout(Stdio::piped()).spawn().unwrap());
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    let state = || {
        run(&[
            "exec",
            &machine,
            "--",
            "sh",
            "-c",
            "ip rule; ip route; ip link; cat /proc/sys/net/ipv4/ip_forward /proc/net/netfilter/* 2>&1",
        ])
    };
    let before = state();
    let start = format!(
        "mount --bind {} /etc/resolv.conf; exec \"$0\" lab up --uplink --json --name {inner}",
        resolver.display()
    );
    let mut owner = wirelapse(&["exec", &machine, "--", "sh", "-c", &start]);
    owner.arg(env!("CARGO_BIN_EXE_wirelapse"));
    let mut owner = Process::from(owner.stdout(Stdio::piped()).spawn().unwrap());
    let mut said = String::new();
    BufReader::new(owner.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("\"kind\":\"lab\""), "{said:?}");

    let a = format!("{inner}:a");
    let names = run(&["exec", &a, "--", "sh", "-c", "cat /etc/resolv.conf; getent ahostsv4 www"]);
    assert!(names.starts_with("nameserver 127.77.0.53\nsearch example.org\n"), "{names}");
    assert!(names.contains("10.77.1.2"), "{names}");
    let fetch =
        |at: &str| run(&["exec", &a, "--", "bash", "-c", &format!("exec 3<>/dev/tcp/{at} && echo you >&3 && cat <&3")]);
    assert_eq!(fetch("www.example.org/80"), "hello, you\n");
    assert_eq!(fetch("fd77:1::2/80"), "hello, you\n");
    // The other host is on the path, and not outside.
    let refused = fetch("10.77.0.2/80");
    assert!(refused.contains("refused"), "{refused}");
    // Where the outside refuses, the program sees its connection reset.
    let refused = fetch("10.77.1.2/81");
    assert!(refused.contains("reset"), "{refused}");

    assert_eq!(state(), before, "the machine is as it was while the uplink is there");
    owner.kill().unwrap();
    owner.wait().unwrap();
    drop(server);
    assert_eq!(state(), before);
    run(&["down", &outer]);
}
