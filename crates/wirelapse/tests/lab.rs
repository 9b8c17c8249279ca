//! `wirelapse lab` as a person uses it, and killed in the middle.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

fn wirelapse(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirelapse"));
    command.arg("lab").args(args);
    command
}

fn output(args: &[&str]) -> Output {
    wirelapse(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Names that no other test, and no test run beside this one, uses.
fn name(of: &str) -> String {
    format!("{of}-{}", std::process::id())
}

/// A process that is killed where its test fails.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // One that has been waited for is not signalled again.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl std::ops::Deref for Process {
    type Target = Child;
    fn deref(&self) -> &Child {
        &self.0
    }
}

impl std::ops::DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

/// A lab in the foreground, once it has said that it is up.
fn up(name: &str, args: &[&str]) -> Process {
    let mut up = wirelapse(&["up", "--json", "--name", name]);
    let mut lab = Process(up.args(args).stdout(Stdio::piped()).spawn().unwrap());
    let mut said = String::new();
    BufReader::new(lab.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("\"kind\":\"lab\""), "{said:?}");
    lab
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "still not so: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Every process whose network namespace is one of `namespaces`.
fn inhabitants(namespaces: &[u64]) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let in_them = processes.filter(|entry| {
        std::fs::metadata(entry.path().join("ns/net")).is_ok_and(|net| namespaces.contains(&net.ino()))
    });
    in_them.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn namespace(lab: &str, host: &str) -> u64 {
    let place = format!("{lab}:{host}");
    let out = output(&["exec", &place, "--", "stat", "-Lc", "%i", "/proc/self/ns/net"]);
    text(&out.stdout).trim().parse().unwrap_or_else(|e| panic!("{e}: {out:?}"))
}

#[test]
fn killed_in_the_middle_it_leaves_nothing() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"), tier::Need::Program("sleep"));
    let lab = name("killed");
    let interfaces = || {
        let mut all: Vec<_> = std::fs::read_dir("/sys/class/net").unwrap().map(|e| e.unwrap().file_name()).collect();
        all.sort();
        all
    };
    let (timestamps, before) = (std::fs::read("/proc/sys/net/ipv4/tcp_timestamps").unwrap(), interfaces());
    let mut owner = up(&lab, &["--delay", "1ms"]);
    let hosts = [namespace(&lab, "a"), namespace(&lab, "b")];
    let place = format!("{lab}:a");
    let daemon = "sysctl -qw net.ipv4.tcp_timestamps=0; setsid sleep 7777 & setsid sleep 7777 & exec sleep 7777";
    let mut inside = Process(wirelapse(&["exec", &place, "--", "sh", "-c", daemon]).spawn().unwrap());
    // Its holder, the supervisor of `exec`, and the three that were started.
    eventually("three programs run in host a", || inhabitants(&hosts[..1]).len() >= 5);

    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("nobody is left in the namespaces", || inhabitants(&hosts).is_empty());
    assert!(!inside.wait().unwrap().success());
    assert_eq!(interfaces(), before, "a device outside has come or gone");
    assert_eq!(std::fs::read("/proc/sys/net/ipv4/tcp_timestamps").unwrap(), timestamps);
    // The stale name is free again, and a lab that was killed is not listed.
    assert!(!text(&output(&["list"]).stdout).contains(&lab));
    let gone = output(&["exec", &place, "--", "true"]);
    assert_eq!(gone.status.code(), Some(2), "{gone:?}");
    let mut again = up(&lab, &[]);
    assert!(output(&["down", &lab]).status.success());
    assert!(again.wait().unwrap().success());
    assert!(!std::path::Path::new(lab::registry::DIRECTORY).join(format!("{lab}.lock")).exists());
}

#[test]
fn an_exec_that_is_killed_takes_its_program_with_it() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"), tier::Need::Program("sleep"));
    let lab = name("exec");
    let mut owner = up(&lab, &[]);
    let host = [namespace(&lab, "b")];
    let place = format!("{lab}:b");
    let mut killed = Process(wirelapse(&["exec", &place, "--", "sleep", "7777"]).spawn().unwrap());
    eventually("the program runs", || inhabitants(&host).len() == 3);
    killed.kill().unwrap();
    killed.wait().unwrap();
    eventually("only the holder is left", || inhabitants(&host).len() == 1);

    // A signal is handed on, and the program decides what comes of it.
    let script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done";
    let mut told =
        Process(wirelapse(&["exec", &place, "--", "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap());
    BufReader::new(told.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    assert!(Command::new("kill").arg(told.id().to_string()).status().unwrap().success());
    assert_eq!(told.wait().unwrap().code(), Some(5));

    // Ctrl-C on the lab itself: a clean end, with the account of the path.
    assert!(Command::new("kill").args(["-INT", &owner.id().to_string()]).status().unwrap().success());
    let mut account = String::new();
    BufReader::new(owner.stdout.as_mut().unwrap()).read_line(&mut account).unwrap();
    assert!(account.contains("\"kind\":\"path\""), "{account:?}");
    assert!(owner.wait().unwrap().success());
    eventually("nobody is left in the namespace", || inhabitants(&host).is_empty());
}

#[test]
fn detached_labs_are_listed_with_what_they_achieved() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"), tier::Need::Program("ping"));
    let lab = name("detached");
    let up = output(&["up", "--detach", "--name", &lab, "--delay", "3ms/4ms", "--seed", "5"]);
    assert!(up.status.success() && text(&up.stdout).contains("backend built-in"), "{up:?}");
    let second = output(&["up", "--name", &lab]);
    assert_eq!(second.status.code(), Some(2));
    assert!(text(&second.stderr).contains("running already"), "{second:?}");
    let twice = output(&["up", "--detach", "--name", &lab]);
    assert_eq!(twice.status.code(), Some(2), "{twice:?}");

    for address in ["10.77.0.2", "fd77::2"] {
        let ping = output(&["exec", &format!("{lab}:a"), "--", "ping", "-c", "2", "-i", "0.01", address]);
        assert!(ping.status.success(), "{ping:?}");
    }
    let listed = text(&output(&["list", "--json"]).stdout);
    let line = listed.lines().find(|l| l.contains(&lab)).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    for (way, asked) in [("a_to_b", 3_000_000), ("b_to_a", 4_000_000)] {
        assert_eq!(line[way]["asked"]["delay_ns"], asked);
        let achieved = &line[way]["achieved"];
        assert_eq!(achieved["delivered"], 4, "{achieved}");
        assert!(achieved["delay"]["min_ns"].as_u64().unwrap() >= asked, "{achieved}");
    }
    assert!(output(&["down", &lab]).status.success());
    assert_eq!(output(&["down", &lab]).status.code(), Some(2));
}

#[test]
fn a_lab_fits_into_a_host_of_another() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let (outer, inner) = (name("outer"), name("inner"));
    let mut owner = up(&outer, &[]);
    let place = format!("{outer}:a");
    let made = output(&["exec", &place, "--", env!("CARGO_BIN_EXE_wirelapse"), "lab", "up", "-d", "--name", &inner]);
    assert!(made.status.success(), "{made:?}");
    let there = format!("{inner}:b");
    let host = output(&["exec", &there, "--", "hostname"]);
    assert_eq!(text(&host.stdout), "b\n", "{host:?}");
    let inner_hosts = [namespace(&inner, "a"), namespace(&inner, "b")];
    assert!(output(&["down", &outer]).status.success());
    assert!(owner.wait().unwrap().success());
    eventually("the inner lab went with the outer", || inhabitants(&inner_hosts).is_empty());
    assert_eq!(output(&["exec", &there, "--", "true"]).status.code(), Some(2));
}

#[test]
fn values_that_cannot_be_are_named_and_end_in_status_2() {
    for (args, word) in [
        (&["--rate", "0"][..], "rate"),
        (&["--delay", "-1ms"], "delay"),
        (&["--delay", "2ms/x"], "delay"),
        (&["--mtu", "10"], "mtu"),
        (&["--loss", "150%"], "loss"),
        (&["--burst-loss", "1%"], "burst-loss"),
        (&["--queue", "10ms"], "queue"),
        (&["--rate", "1gbit", "--queue", "1KB"], "queue"),
        (&["--jitter", "1ms"], "jitter"),
        (&["--name", "../x"], "name"),
        (&["--name", ""], "name"),
    ] {
        let out = wirelapse(&["up"]).args(args).output().unwrap();
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(word), "{args:?}: {said}");
    }
}

#[test]
fn without_the_tun_device_it_says_what_is_missing() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"), tier::Need::Program("unshare"));
    // A mount namespace in which an empty file system hides it.
    let script = "mount -t tmpfs none /dev/net && exec \"$0\" lab up --name \"$1\" --delay 1ms --backend built-in";
    let out = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_wirelapse"), &name("hidden")])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{out:?}");
    assert!(said.contains("/dev/net/tun") && said.contains("modprobe tun"), "{said}");
}

#[test]
fn eight_labs_at_once_do_not_disturb_one_another() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"), tier::Need::Program("ping"));
    let labs: Vec<(String, Process)> = (1..=8u64)
        .map(|i| {
            let name = name(&format!("eight{i}"));
            let owner = up(&name, &["--delay", &format!("{i}ms"), "--seed", "1"]);
            (name, owner)
        })
        .collect();
    let pings: Vec<_> = labs
        .iter()
        .map(|(name, _)| {
            let mut ping =
                wirelapse(&["exec", &format!("{name}:a"), "--", "ping", "-c", "20", "-i", "0.02", "10.77.0.2"]);
            ping.stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for ((name, mut owner), (ping, delay)) in labs.into_iter().zip(pings.into_iter().zip(1..)) {
        let said = text(&ping.wait_with_output().unwrap().stdout);
        assert!(said.contains(" 0% packet loss"), "{said}");
        // The shortest of 20 round trips: no shorter than its own lab's path, and nearer to that than to the next lab's but one.
        let shortest = said.split("min/avg/max/mdev = ").nth(1).and_then(|t| t.split('/').next()).unwrap();
        let shortest: f64 = shortest.parse().unwrap();
        let truth = 2.0 * f64::from(delay);
        assert!((truth..truth + 3.0).contains(&shortest), "{name}: {shortest} ms over {truth} ms");
        assert!(output(&["down", &name]).status.success());
        assert!(owner.wait().unwrap().success());
    }
}

/// `run.json` of a trace of some requests, made by this command line with the run's place in it.
fn path_of_a_run(command: impl FnOnce(&std::path::Path) -> Command) -> serde_json::Value {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let out = command(&run).stdin(Stdio::null()).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    let text = std::fs::read_to_string(run.join("run.json")).unwrap();
    let mut file: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(file["state"], "finished");
    file["path"].take()
}

#[test]
fn a_run_tells_the_path_of_the_lab_that_its_program_lives_in() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"), tier::Need::Path("/sys/kernel/btf/vmlinux"));
    const WIRELAPSE: &str = env!("CARGO_BIN_EXE_wirelapse");
    let lab = name("path");
    let mut owner = up(&lab, &["--delay", "3ms/4ms"]);
    let (a, b) = (format!("{lab}:a"), format!("{lab}:b"));
    let mut serve = wirelapse(&["exec", &b, "--", WIRELAPSE, "serve", "--listen", "10.77.0.2:5201", "--json"]);
    let mut serve = Process(serve.stdout(Stdio::piped()).spawn().unwrap());
    let mut said = String::new();
    BufReader::new(serve.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    let requests = [WIRELAPSE, "rr", "10.77.0.2:5201", "--for", "1500ms"];

    let from_outside = path_of_a_run(|run| {
        let mut trace = Command::new(WIRELAPSE);
        trace.args(["trace", "-o", run.to_str().unwrap(), "--", WIRELAPSE, "lab", "exec", &a, "--"]).args(requests);
        trace
    });
    let from_inside = path_of_a_run(|run| {
        let mut trace = wirelapse(&["exec", &a, "--", WIRELAPSE, "trace", "-o", run.to_str().unwrap(), "--"]);
        trace.args(requests);
        trace
    });
    for path in [from_outside, from_inside] {
        assert_eq!(path["lab"], lab.as_str(), "{path}");
        for (way, asked) in [("a_to_b", 3_000_000), ("b_to_a", 4_000_000)] {
            assert_eq!(path[way]["asked"]["delay_ns"], asked, "{path}");
            assert!(path[way]["achieved"]["delivered"].as_u64().unwrap() > 20, "{path}");
        }
    }
    let elsewhere = path_of_a_run(|run| {
        let mut trace = Command::new(WIRELAPSE);
        trace.args(["trace", "-o", run.to_str().unwrap(), "--", "true"]);
        trace
    });
    assert!(elsewhere.is_null(), "{elsewhere}");
    assert!(output(&["down", &lab]).status.success());
    assert!(owner.wait().unwrap().success());
}
