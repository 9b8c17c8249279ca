//! `wirelapse doctor` against other programs' readings of the same machine.

use std::process::{Command, Output};

use tier::Need;

fn doctor() -> Command {
    tier::wirelapse!(["doctor", "--json"])
}

fn lines(output: &Output) -> Vec<serde_json::Value> {
    assert!(output.status.success(), "{}", tier::text(&output.stderr));
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn state<'a>(lines: &'a [serde_json::Value], name: &str) -> &'a str {
    let found: Vec<_> = lines.iter().filter(|l| l["kind"] == "capability" && l["name"] == name).collect();
    assert_eq!(found.len(), 1, "{name}");
    found[0]["state"].as_str().unwrap()
}

#[test]
fn queues_are_there_exactly_where_tc_can_make_them() {
    tier::needs!(Need::Root, Need::Path("/sys/kernel/btf/vmlinux"), Need::Program("tc"), Need::Program("unshare"));
    let lines = lines(&doctor().output().unwrap());
    for (name, arguments) in [("netem", "root netem delay 1ms"), ("fq", "root fq"), ("tc clsact", "clsact")] {
        let tc = format!("tc qdisc add dev lo {arguments}");
        let made = Command::new("unshare").args(["--net", "sh", "-c", &tc]).output().unwrap().status.success();
        assert_eq!(state(&lines, name), if made { "available" } else { "missing" }, "{name}");
    }
}

#[test]
fn hardware_timestamps_are_there_exactly_where_ethtool_sees_them() {
    tier::needs!(Need::Path("/sys/kernel/btf/vmlinux"), Need::Program("ethtool"));
    let lines = lines(&doctor().output().unwrap());
    let clean = std::fs::read_dir("/sys/class/net").unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    // Interfaces come and go while other tests run; those that stay are compared.
    for name in clean.filter(|name| name == "lo" || name.starts_with("eth") || name.starts_with("en")) {
        let told = Command::new("ethtool").args(["-T", &name]).output().unwrap();
        let text = tier::text(&told.stdout);
        assert_eq!(
            state(&lines, &format!("{name} hardware")) == "available",
            text.contains("hardware-transmit") || text.contains("hardware-receive"),
            "{text}"
        );
        assert_eq!(
            state(&lines, &format!("{name} software")) == "available",
            text.contains("software-transmit") && text.contains("software-receive"),
            "{text}"
        );
    }
}

/// A command of a user who is not root, where the TUN device may be opened by everyone, as it is on
/// most machines, or by root alone.
fn as_nobody(copy: &std::path::Path, mode: &str, arguments: &[&str]) -> Output {
    let script = "mount -t tmpfs none /dev/net && mknod /dev/net/tun c 10 200 && chmod \"$0\" /dev/net/tun && \
                  exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, mode]).arg(copy).args(arguments);
    command.env("XDG_RUNTIME_DIR", copy.parent().unwrap().join("labs")).output().unwrap()
}

#[test]
fn a_user_who_is_not_root_is_told_what_works_and_so_it_does() {
    tier::needs!(
        Need::Root,
        Need::Path("/sys/kernel/btf/vmlinux"),
        Need::Path("/dev/net/tun"),
        Need::Program("setpriv"),
        Need::Program("unshare")
    );
    // The build folder may be closed to other users, so the program is copied to where they may run
    // it.
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("wirelapse");
    std::fs::copy(env!("CARGO_BIN_EXE_wirelapse"), &copy).unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let labs = dir.path().join("labs");
    std::fs::create_dir(&labs).unwrap();
    std::os::unix::fs::chown(&labs, Some(65_534), Some(65_534)).unwrap();
    for mode in ["0666", "0600"] {
        let lines = lines(&as_nobody(&copy, mode, &["doctor", "--json"]));
        for name in ["root", "CAP_NET_ADMIN", "AF_PACKET"] {
            assert_eq!(state(&lines, name), "needs_root", "{name}");
        }
        assert_eq!(state(&lines, "BTF"), "available");
        let page = tier::text(&as_nobody(&copy, mode, &["doctor"]).stdout);
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains("Traces and captures need root.") && page.contains("Without root: "), "{page}");
        let up = as_nobody(&copy, mode, &["lab", "up", "--detach", "--delay", "1ms"]);
        assert_eq!(page.contains("Labs work too"), up.status.success(), "{page} {up:?}");
        assert_eq!(page.contains("Labs do not work: "), !up.status.success(), "{page} {up:?}");
        if up.status.success() {
            assert!(as_nobody(&copy, mode, &["lab", "down"]).status.success());
        }
    }
}

#[test]
fn the_backend_it_names_is_the_one_that_trace_uses() {
    tier::needs!(Need::Root, Need::Path("/sys/kernel/btf/vmlinux"));
    let lines = lines(&doctor().output().unwrap());
    let named: Vec<_> = lines.iter().filter(|l| l["kind"] == "trace").collect();
    assert_eq!(named.len(), 1);
    let backend = named[0]["backend"].as_str().unwrap();
    let capability = if backend == "timestamping" { "bpf_timestamping" } else { "tracepoints_backend" };
    assert_eq!(state(&lines, capability), "available");
    assert!(!named[0]["why"].as_str().unwrap().is_empty());
    let traced = tier::wirelapse!(["trace", "--json", "--", "true"]).output().unwrap();
    let text = tier::text(&traced.stdout);
    let run: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!((&run["kind"], &run["backend"]), (&"run".into(), &backend.into()), "{text}");
}

/// The callbacks that a kernel names are those that the tracer can be called by.
#[test]
fn callbacks_are_there_exactly_where_bpf_timestamping_loads() {
    tier::needs!(Need::Root, Need::Path("/sys/kernel/btf/vmlinux"));
    let lines = lines(&doctor().output().unwrap());
    assert_eq!(state(&lines, "callbacks of a send"), state(&lines, "bpf_timestamping"));
    let group: Vec<_> = lines.iter().filter(|line| line["group"] == "callbacks").collect();
    assert!(group.len() >= 7, "{group:?}");
    // A short page is about this machine, not about kernels to come.
    let page = tier::text(&tier::wirelapse!(["doctor"]).output().unwrap().stdout);
    assert!(!page.contains("callbacks of UDP"), "{page}");
    let page = tier::text(&tier::wirelapse!(["doctor", "--full"]).output().unwrap().stdout);
    assert!(page.contains("callbacks of UDP") && page.contains("Callbacks of the kernel"), "{page}");
}

#[test]
fn the_limit_of_connections_is_that_of_the_machine() {
    tier::needs!(Need::Root, Need::Path("/sys/kernel/btf/vmlinux"));
    let trace = || lines(&doctor().output().unwrap()).into_iter().find(|l| l["kind"] == "trace").unwrap();
    let connections = || trace()["connections"].as_u64().unwrap();
    let trace = trace();
    let (every, sampled) = (trace["connections"].as_u64().unwrap(), trace["connections_sampled"].as_u64().unwrap());
    assert!((1_024..1 << 20).contains(&every) && sampled >= every, "{trace}");
    // A trace says the same of itself, as long as the memory that is left does not change between
    // the two.
    let told = tier::wirelapse!(["trace", "--", "true"]).output().unwrap();
    let in_one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = in_one_line(tier::text(&told.stdout) + &tier::text(&told.stderr));
    let (_, after) = text.split_once(" in the kernel, for ").unwrap_or_else(|| panic!("{text}"));
    let of_trace: u64 = after.split_once(" connections").unwrap().0.replace(',', "").parse().unwrap();
    let after = connections();
    assert!(every != after || of_trace == every, "{of_trace}, {every}, {after}");
    let page = in_one_line(tier::text(&tier::wirelapse!(["doctor", "--full"]).output().unwrap().stdout));
    assert!(page.contains("A trace would follow up to ") && page.contains("with --sample 1/100"), "{page}");
    for keys in [
        ["kernel_memory_bytes", "kernel_memory_most_bytes"],
        ["kernel_memory_sampled_bytes", "kernel_memory_sampled_most_bytes"],
    ] {
        // At most a sixteenth of what is left, 64 MiB, is for connections; the ring buffer and
        // tables are beside it.
        let [at_once, most] = keys.map(|key| trace[key].as_u64().unwrap());
        assert!(at_once > 4 << 20 && at_once < most && most < (64 + 16 + 20) << 20, "{trace}");
    }
}
