//! `wirelapse lab` as a person uses it, and killed in the middle.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tier::{Need, Process, text};

fn wirelapse(args: &[&str]) -> Command {
    let mut command = tier::wirelapse!(["lab"]);
    command.args(args);
    command
}

fn output(args: &[&str]) -> Output {
    wirelapse(args).output().unwrap()
}

/// Names that no other test, and no test run beside this one, uses.
fn name(of: &str) -> String {
    format!("{of}-{}", std::process::id())
}

/// A lab in the foreground, once it has said that it is up.
fn up(name: &str, args: &[&str]) -> Process {
    let mut up = wirelapse(&["up", "--json", "--name", name]);
    let mut lab = Process::from(up.args(args).stdout(Stdio::piped()).spawn().unwrap());
    let mut said = String::new();
    BufReader::new(lab.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("\"kind\":\"lab\""), "{said:?}");
    lab
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
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Program("sleep"));
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
    let mut inside = Process::from(wirelapse(&["exec", &place, "--", "sh", "-c", daemon]).spawn().unwrap());
    // Its holder, the supervisor of `exec`, and the three that were started.
    tier::until("three programs run in host a", || inhabitants(&hosts[..1]).len() >= 5);

    owner.kill().unwrap();
    owner.wait().unwrap();
    tier::until("nobody is left in the namespaces", || inhabitants(&hosts).is_empty());
    assert!(!inside.wait().unwrap().success());
    assert_eq!(interfaces(), before, "a device outside has come or gone");
    assert_eq!(std::fs::read("/proc/sys/net/ipv4/tcp_timestamps").unwrap(), timestamps);
    let [lock, socket] = ["lock", "socket"].map(|kind| format!("{}/{lab}.{kind}", lab::registry::DIRECTORY));
    let [lock, socket] = [Path::new(&lock), Path::new(&socket)];
    tier::until("the files of the lab are gone", || !lock.exists() && !socket.exists());
    // Where nothing was left to remove them, they go with the next lab, whatever its name.
    std::fs::write(lock, "").unwrap();
    let next = name("next");
    let mut after = up(&next, &[]);
    assert!(!lock.exists(), "{}", lock.display());
    assert!(output(&["down", &next]).status.success());
    assert!(after.wait().unwrap().success());
    // The stale name is free again, and a lab that was killed is not listed.
    assert!(!text(&output(&["list"]).stdout).contains(&lab));
    let gone = output(&["exec", &place, "--", "true"]);
    assert_eq!(gone.status.code(), Some(2), "{gone:?}");
    let mut again = up(&lab, &[]);
    assert!(output(&["down", &lab]).status.success());
    assert!(again.wait().unwrap().success());
    assert!(!Path::new(lab::registry::DIRECTORY).join(format!("{lab}.lock")).exists());
}

#[test]
fn an_exec_that_is_killed_takes_its_program_with_it() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Program("sleep"));
    let lab = name("exec");
    let mut owner = up(&lab, &[]);
    let host = [namespace(&lab, "b")];
    let place = format!("{lab}:b");
    let mut killed = Process::from(wirelapse(&["exec", &place, "--", "sleep", "7777"]).spawn().unwrap());
    tier::until("the program runs", || inhabitants(&host).len() == 3);
    killed.kill().unwrap();
    killed.wait().unwrap();
    tier::until("only the holder is left", || inhabitants(&host).len() == 1);

    // A signal is handed on, and the program decides what comes of it.
    let script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done";
    let mut told =
        Process::from(wirelapse(&["exec", &place, "--", "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap());
    BufReader::new(told.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    assert!(Command::new("kill").arg(told.id().to_string()).status().unwrap().success());
    assert_eq!(told.wait().unwrap().code(), Some(5));

    // Ctrl-C on the lab itself: a clean end, with the account of the path.
    assert!(Command::new("kill").args(["-INT", &owner.id().to_string()]).status().unwrap().success());
    let mut account = String::new();
    BufReader::new(owner.stdout.as_mut().unwrap()).read_line(&mut account).unwrap();
    assert!(account.contains("\"kind\":\"path\""), "{account:?}");
    assert!(owner.wait().unwrap().success());
    tier::until("nobody is left in the namespace", || inhabitants(&host).is_empty());
}

#[test]
fn detached_labs_are_listed_with_what_they_achieved() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Program("ping"));
    let lab = name("detached");
    let up = output(&["up", "--detach", "--name", &lab, "--delay", "3ms/4ms", "--seed", "5"]);
    assert!(up.status.success() && text(&up.stdout).contains("backend built-in"), "{up:?}");
    let second = output(&["up", "--name", &lab]);
    assert_eq!(second.status.code(), Some(2));
    assert!(text(&second.stderr).contains("running already"), "{second:?}");
    let twice = output(&["up", "--detach", "--name", &lab]);
    assert_eq!(twice.status.code(), Some(2), "{twice:?}");

    let misplaced = output(&["exec", "--name", &lab, "a", "--", "true"]);
    assert_eq!(misplaced.status.code(), Some(2));
    assert!(text(&misplaced.stderr).contains(&format!("write {lab}:a")), "{misplaced:?}");
    for address in ["10.77.0.2", "fd77::2"] {
        let ping = output(&["exec", &format!("{lab}:a"), "--", "ping", "-c", "2", "-i", "0.01", address]);
        assert!(ping.status.success(), "{ping:?}");
    }
    let shown = text(&output(&["list", "--json"]).stdout);
    let line = shown.lines().find(|l| l.contains(&lab)).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    for (way, asked) in [("a_to_b", 3_000_000), ("b_to_a", 4_000_000)] {
        assert_eq!(line[way]["asked"]["delay_ns"], asked);
        let achieved = &line[way]["achieved"];
        assert_eq!(achieved["delivered"], 4, "{achieved}");
        assert!(achieved["delay"]["min_ns"].as_u64().unwrap() >= asked, "{achieved}");
    }
    assert!(output(&["down", &lab]).status.success());
    assert_eq!(output(&["down", &lab]).status.code(), Some(2));

    let one_way = ["--burst-loss", "1%x8/none", "--reorder", "none/1%@2ms", "--rate", "5mbit/none"];
    let up = output(&[&["up", "--detach", "--name", &lab], &one_way[..]].concat());
    assert!(up.status.success(), "{up:?}");
    let asked = |way: &str| listed(&lab)[way]["asked"].clone();
    let (up, down) = (asked("a_to_b"), asked("b_to_a"));
    assert!(up["loss"] != "none" && up["reorder"].is_null() && !up["rate"].is_null(), "{up}");
    assert!(down["loss"] == "none" && down["rate"].is_null(), "{down}");
    assert_eq!(down["reorder"]["by_ns"], 2_000_000, "{down}");
    assert!(output(&["down", &lab]).status.success());
}

#[test]
fn a_lab_fits_into_a_host_of_another() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
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
    tier::until("the inner lab went with the outer", || inhabitants(&inner_hosts).is_empty());
    assert_eq!(output(&["exec", &there, "--", "true"]).status.code(), Some(2));
}

#[test]
fn values_that_cannot_be_are_named_and_end_in_status_2() {
    for (args, word) in [
        (&["--rate", "0"][..], "rate"),
        (&["--delay", "-1ms"], "delay"),
        (&["--delay", "2ms/x"], "delay"),
        (&["--delay", "20"], "unit is missing"),
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
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Program("unshare"));
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
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Program("ping"));
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
        // The shortest of 20 round trips: no shorter than its own lab's path, and nearer to that
        // than to the next lab's but one.
        let shortest = said.split("min/avg/max/mdev = ").nth(1).and_then(|t| t.split('/').next()).unwrap();
        let shortest: f64 = shortest.parse().unwrap();
        let truth = 2.0 * f64::from(delay);
        // Delays up to 1 ms are asked for less by what the machine adds, 150 µs each way at most:
        // it may have been busier then than now.
        let least = if delay == 1 { truth - 0.3 } else { truth };
        assert!((least..truth + 3.0).contains(&shortest), "{name}: {shortest} ms over {truth} ms");
        assert!(output(&["down", &name]).status.success());
        assert!(owner.wait().unwrap().success());
    }
}

/// `run.json` of a trace of some requests, made by this command line with the run's place in it.
fn path_of_a_run(command: impl FnOnce(&Path) -> Command) -> serde_json::Value {
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
fn a_run_names_the_path_of_the_lab_that_its_program_lives_in() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Path("/sys/kernel/btf/vmlinux"));
    const WIRELAPSE: &str = env!("CARGO_BIN_EXE_wirelapse");
    let lab = name("path");
    let mut owner = up(&lab, &["--delay", "3ms/4ms"]);
    let (a, b) = (format!("{lab}:a"), format!("{lab}:b"));
    let mut serve = wirelapse(&["exec", &b, "--", WIRELAPSE, "serve", "--listen", "10.77.0.2:5201", "--json"]);
    let mut serve = Process::from(serve.stdout(Stdio::piped()).spawn().unwrap());
    let mut said = String::new();
    BufReader::new(serve.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    let requests = [WIRELAPSE, "rr", "10.77.0.2:5201", "--for", "1500ms"];

    let from_outside = path_of_a_run(|run| {
        let mut trace =
            tier::wirelapse!(["trace", "-o", run.to_str().unwrap(), "--", WIRELAPSE, "lab", "exec", &a, "--"]);
        trace.args(requests);
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
    let elsewhere = path_of_a_run(|run| tier::wirelapse!(["trace", "-o", run.to_str().unwrap(), "--", "true"]));
    assert!(elsewhere.is_null(), "{elsewhere}");
    assert!(output(&["down", &lab]).status.success());
    assert!(owner.wait().unwrap().success());
}

/// The processes that a process has made.
fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

#[test]
fn a_lab_ends_where_its_anchor_or_a_holder_is_killed() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    for which in ["anchor", "holder"] {
        let name = name(which);
        let mut lab = up(&name, &[]);
        let is_anchor =
            |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "lab-anchor\n");
        let anchor = children(lab.id()).into_iter().find(is_anchor).unwrap();
        let victim = if which == "anchor" { anchor } else { children(anchor)[0] };
        // SAFETY: a signal to a process that this lab made and holds.
        assert_eq!(unsafe { libc::kill(victim.cast_signed(), libc::SIGKILL) }, 0);
        let status = tier::until_some(&format!("the lab to end without its {which}"), || lab.try_wait().unwrap());
        assert_eq!(status.code(), Some(1), "{which}");
        assert!(!text(&output(&["list"]).stdout).contains(&name), "{which}");
        assert!(!Path::new(&format!("/run/wirelapse/labs/{name}.lock")).exists(), "{which}");
    }
}

#[test]
fn all_labs_are_ended_only_by_someone_who_says_so() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let name = name("kept");
    let _lab = up(&name, &[]);
    let refused = wirelapse(&["down", "--all"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--yes") && text(&refused.stderr).contains(&name));
    assert!(text(&output(&["list"]).stdout).contains(&name), "it is still there");
}

/// The shortest of some round trips, ms, as `ping` says it.
fn pinged(lab: &str, to: &str) -> f64 {
    let ping = output(&["exec", &format!("{lab}:a"), "--", "ping", "-q", "-c", "10", "-i", "0.02", to]);
    let said = text(&ping.stdout);
    let shortest = said.split("min/avg/max/mdev = ").nth(1).and_then(|t| t.split('/').next());
    shortest.unwrap_or_else(|| panic!("{ping:?}")).parse().unwrap()
}

/// Bits a second that iperf3 carries from host a to host b, or back with `-R`.
fn carried(lab: &str, more: &[&str]) -> f64 {
    carried_between(lab, ["a", "b"], more)
}

fn carried_between(lab: &str, [a, b]: [&str; 2], more: &[&str]) -> f64 {
    let to = b;
    let (a, b) = (format!("{lab}:{a}"), format!("{lab}:{b}"));
    let server = wirelapse(&["exec", &b, "--", "iperf3", "-s", "-1"]).stdout(Stdio::null()).spawn();
    let _server = Process::from(server.unwrap());
    tier::until("iperf3 listens", || {
        let out = output(&["exec", &b, "--", "cat", "/proc/net/tcp6", "/proc/net/tcp"]);
        text(&out.stdout).contains(":1451 ")
    });
    let client = ["exec", &a, "--", "iperf3", "-4", "-c", to, "-t", "2", "-O", "1", "-J"];
    let out = output(&[&client[..], more].concat());
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {out:?}"));
    report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or_else(|| panic!("{report}"))
}

#[test]
fn a_change_is_seen_by_ping_and_iperf3() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Program("ping"), Need::Program("iperf3"),);
    let lab = name("changed");
    let mut owner = up(&lab, &["--delay", "5ms", "--rate", "20mbit", "--queue", "40ms"]);
    let close = |what: &str, got: f64, expected: f64, to: f64| {
        assert!((got / expected - 1.0).abs() < to, "{what}: {got} instead of {expected}");
    };
    // TCP carries 1,448 of 1,538 bytes on the wire.
    let goodput = 1_448.0 / 1_538.0;
    close("round trip before", pinged(&lab, "10.77.0.2"), 10.0, 0.1);
    close("rate before", carried(&lab, &[]), 20e6 * goodput, 0.05);

    // One direction alone: the other is as before.
    let out = output(&["change", &lab, "--delay", "25ms/", "--rate", "/5mbit", "--json"]);
    assert!(out.status.success(), "{out:?}");
    let line: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(line["before"]["a_to_b"]["delay_ns"], 5_000_000);
    assert_eq!(line["after"]["a_to_b"]["delay_ns"], 25_000_000);
    assert_eq!(line["after"]["b_to_a"]["delay_ns"], 5_000_000);
    assert_eq!(
        (&line["after"]["a_to_b"]["rate"], &line["after"]["b_to_a"]["rate"]),
        (&20_000_000.into(), &5_000_000.into())
    );
    close("round trip after", pinged(&lab, "10.77.0.2"), 30.0, 0.05);
    close("rate from a to b after", carried(&lab, &[]), 20e6 * goodput, 0.05);
    close("rate from b to a after", carried(&lab, &["-R"]), 5e6 * goodput, 0.05);

    // Everything off again, and a loss that drops all.
    let off = ["--delay", "0", "--rate", "none", "--queue", "none", "--loss", "100%/"];
    let out = output(&[&["change", &lab][..], &off].concat());
    assert!(text(&out.stdout).contains("is now  delay 0 ns, no rate limit, loss 100 %"), "{out:?}");
    let ping =
        output(&["exec", &format!("{lab}:a"), "--", "ping", "-q", "-c", "5", "-i", "0.01", "-W", "1", "10.77.0.2"]);
    assert!(text(&ping.stdout).contains(" 100% packet loss"), "{ping:?}");
    let listed = text(&output(&["list", "--json"]).stdout);
    let line: serde_json::Value = serde_json::from_str(listed.lines().find(|l| l.contains(&lab)).unwrap()).unwrap();
    assert_eq!((&line["a_to_b"]["changes"], &line["b_to_a"]["changes"]), (&2.into(), &2.into()));
    assert!(output(&["down", &lab]).status.success());
    assert!(owner.wait().unwrap().success());
}

#[test]
fn a_change_that_cannot_be_is_refused_and_changes_nothing() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let lab = name("refused");
    let _owner = up(&lab, &["--delay", "5ms"]);
    for (args, word) in [
        (&[][..], "nothing to change"),
        (&["--delay", "x"], "delay"),
        (&["--delay", "/"], "A_TO_B/"),
        // The first direction could be changed, the second not: neither is.
        (&["--jitter", "1ms/6ms"], "jitter"),
        (&["--queue", "10ms"], "rate"),
        (&["--loss", "101%"], "loss"),
        (&["--delay", "2min"], "minute"),
    ] {
        let out = output(&[&["change", &lab], args].concat());
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(word), "{args:?}: {said}");
    }
    let none = output(&["change", &name("nosuch"), "--delay", "1ms"]);
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    let listed = text(&output(&["list", "--json"]).stdout);
    let line: serde_json::Value = serde_json::from_str(listed.lines().find(|l| l.contains(&lab)).unwrap()).unwrap();
    for way in ["a_to_b", "b_to_a"] {
        assert_eq!((&line[way]["asked"]["jitter_ns"], &line[way]["changes"]), (&0.into(), &0.into()), "{line}");
    }
}

/// The line of a lab in `lab list --json`.
fn listed(lab: &str) -> serde_json::Value {
    let listed = text(&output(&["list", "--json"]).stdout);
    let line = listed.lines().find(|line| line.contains(lab)).unwrap_or_else(|| panic!("{lab} is not in {listed}"));
    serde_json::from_str(line).unwrap()
}

#[test]
fn a_schedule_is_followed_and_each_step_accounted_for() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Program("ping"));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("steps.csv");
    std::fs::write(&file, "time,delay,loss\n0,10ms,0\n2s,/40ms,\n4s,5ms/,100%/0\n5s,0,0\n").unwrap();
    let lab = name("schedule");
    let mut owner = up(&lab, &["--schedule", file.to_str().unwrap()]);
    let place = format!("{lab}:a");
    let began = || {
        let up = listed(&lab)["up_ns"].as_u64().unwrap();
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64() - up as f64 / 1e9
    };
    let began = began();
    // A ping each 50 ms for at least 6 s, with the time of each answer.
    let ping = output(&["exec", &place, "--", "ping", "-D", "-c", "120", "-i", "0.05", "-W", "1", "10.77.0.2"]);
    let said = text(&ping.stdout);
    // The round trips of those that were sent in this time of the path, seconds.
    let times = |from: f64, to: f64| -> Vec<f64> {
        let answers = said.lines().filter_map(|line| {
            let at: f64 = line.strip_prefix('[')?.split(']').next()?.parse().ok()?;
            let time: f64 = line.split("time=").nth(1)?.split(' ').next()?.parse().ok()?;
            let sent = at - time / 1e3 - began;
            (from..to).contains(&sent).then_some(time)
        });
        answers.collect()
    };
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    // Each window keeps away from the changes.
    assert!((20.0..24.0).contains(&median(times(0.0, 1.9))), "{said}");
    assert!((50.0..54.0).contains(&median(times(2.1, 3.9))), "{said}");
    assert_eq!(times(4.1, 4.9), [0.0; 0], "nothing arrives while all is lost: {said}");
    assert!(median(times(5.1, 100.0)) < 3.0, "{said}");

    let line = listed(&lab);
    for (way, starts, asked) in [
        ("a_to_b", &[0u64, 4_000, 5_000][..], &[10u64, 5, 0][..]),
        ("b_to_a", &[0, 2_000, 4_000, 5_000], &[10, 40, 40, 0]),
    ] {
        let steps = line[way]["steps"].as_array().unwrap();
        assert_eq!(steps.len(), starts.len(), "{line}");
        for ((step, start), asked) in steps.iter().zip(starts).zip(asked) {
            let at = step["at_ns"].as_u64().unwrap();
            assert!(at >= start * 1_000_000 && at < start * 1_000_000 + 900_000_000, "{step}");
            assert_eq!(step["asked"]["delay_ns"], asked * 1_000_000, "{step}");
        }
        let delivered: u64 = steps.iter().map(|step| step["achieved"]["delivered"].as_u64().unwrap()).sum();
        assert_eq!(line[way]["achieved"]["delivered"], delivered, "the steps add up to the whole");
    }
    // A request that was on its way at the change is delivered in the step of the change, after the
    // delay that it was given before.
    let nothing = &line["a_to_b"]["steps"][1]["achieved"];
    let delivered = nothing["delivered"].as_u64().unwrap();
    assert!(nothing["lost"].as_u64().unwrap() > 10 && delivered <= 1, "{line}");
    assert!(delivered == 0 || nothing["delay"]["min_ns"].as_u64().unwrap() >= 10_000_000, "{line}");
    let seen = line["b_to_a"]["steps"][1]["achieved"]["delay"]["p50_ns"].as_u64().unwrap();
    assert!((40_000_000..41_500_000).contains(&seen), "{line}");
    // For people, no delay stands for all steps together.
    let shown = text(&output(&["list"]).stdout);
    let ours = &shown[shown.find(&format!("lab {lab}")).unwrap()..];
    let row =
        |begins: &str| ours.lines().find(|row| row.contains(begins)).unwrap_or_else(|| panic!("{begins}:\n{ours}"));
    assert!(row("asked now").contains("delay 0 ns"), "{ours}");
    assert!(row("all steps").contains("loss ") && !row("all steps").contains("p50"), "{ours}");
    assert!(output(&["down", &lab]).status.success());
    assert!(owner.wait().unwrap().success());

    // A file that cannot be followed is refused before there is a lab.
    std::fs::write(&file, "time,delay\n0,10ms\n1s,x\n").unwrap();
    let bad = output(&["up", "--name", &lab, "--schedule", file.to_str().unwrap()]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(text(&bad.stderr).contains("steps.csv:3: delay \"x\""), "{bad:?}");
}

#[test]
fn a_recorded_link_carries_what_it_recorded() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Program("iperf3"));
    let dir = tempfile::tempdir().unwrap();
    // From a to b half a second of 12 packets each 10 ms and half a second of 2: 700 packets a
    // second; back 1,000 a second.
    let mut lines = String::new();
    for moment in 1..=100 {
        let packets = if moment <= 50 { 12 } else { 2 };
        lines += &format!("{}\n", moment * 10).repeat(packets);
    }
    let (down, back) = (dir.path().join("down.trace"), dir.path().join("back.trace"));
    std::fs::write(&down, &lines).unwrap();
    std::fs::write(&back, "1\n").unwrap();
    let lab = name("recorded");
    let files = [down.to_str().unwrap(), back.to_str().unwrap()];
    let mut owner = up(&lab, &["--recorded", files[0], files[1], "--delay", "5ms", "--queue", "1s"]);
    for (more, packets) in [(&[][..], 700.0), (&["-R"], 1_000.0)] {
        // 1,448 bytes of data in each packet of 1,500, of which 1,504 bytes of room are used.
        let expected = packets * 1_448.0 * 8.0;
        let got = carried(&lab, &[&["-t", "4"][..], more].concat());
        assert!((got / expected - 1.0).abs() < 0.05, "{got} instead of {expected} bit/s {more:?}");
    }
    let line = listed(&lab);
    assert_eq!(line["a_to_b"]["asked"]["recorded"]["lines"], 700);
    assert_eq!(line["a_to_b"]["asked"]["recorded"]["mean_rate"], 700 * 1_538 * 8);
    assert!(output(&["down", &lab]).status.success());
    assert!(owner.wait().unwrap().success());
    std::fs::write(&back, "1\nfast\n").unwrap();
    let bad = output(&["up", "--name", &lab, "--recorded", files[1]]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(text(&bad.stderr).contains("back.trace:2: "), "{bad:?}");
}

/// The round trip that `ping` sees while iperf3 fills the path: its median, ms, and what iperf3
/// carries.
fn under_load(lab: &str) -> (f64, f64) {
    let place = format!("{lab}:a");
    let ping = ["exec", &place, "--", "ping", "-c", "160", "-i", "0.05", "10.77.0.2"];
    let mut ping = Process::from(wirelapse(&ping).stdout(Stdio::piped()).spawn().unwrap());
    let rate = carried(lab, &["-t", "7", "-P", "4", "-C", "reno"]);
    let mut said = String::new();
    std::io::Read::read_to_string(ping.stdout.as_mut().unwrap(), &mut said).unwrap();
    let of = |line: &str| line.split("time=").nth(1)?.split(' ').next()?.parse::<f64>().ok();
    // The first four seconds are TCP's beginning; iperf3 goes on for eight.
    let mut times: Vec<f64> = said.lines().filter_map(of).skip(75).take(70).collect();
    times.sort_by(f64::total_cmp);
    assert!(times.len() > 20, "{said}");
    (times[times.len() / 2], rate)
}

#[test]
fn a_queue_discipline_keeps_the_round_trip_short_under_load() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Program("iperf3"), Need::Program("ping"),);
    let lab = name("qdisc");
    let mut owner = up(&lab, &["--delay", "10ms", "--rate", "20mbit", "--queue", "150ms"]);
    let mut said = String::new();
    for (qdisc, least, most) in
        [("fifo", 75.0, 180.0), ("codel", 20.0, 60.0), ("fq_codel", 20.0, 27.0), ("pie", 20.0, 70.0)]
    {
        let changed = output(&["change", &lab, "--qdisc", qdisc]);
        assert!(changed.status.success(), "{changed:?}");
        let (round_trip, rate) = under_load(&lab);
        said += &format!("{qdisc}: {round_trip:.1} ms, {:.2} Mbit/s\n", rate / 1e6);
        assert!((least..most).contains(&round_trip), "{said}");
        // The wire does not run dry; what a busy machine keeps the senders from sending is not of
        // the discipline.
        assert!(rate > 20e6 * 0.4, "{said}");
    }
    print!("{said}");
    // What waits in a queue is not of the delay, and is said beside it.
    let shown = text(&output(&["list"]).stdout);
    assert!(shown.contains("transit, with"), "{shown}");
    let line = listed(&lab);
    assert!(line["a_to_b"]["achieved"]["dropped_early"].as_u64().unwrap() > 0, "{line}");
    assert!(output(&["down", &lab]).status.success());
    assert!(owner.wait().unwrap().success());
}

#[test]
fn hosts_know_each_other_by_name_and_the_machine_does_not() {
    tier::needs!(
        Need::Root,
        Need::Path("/dev/net/tun"),
        Need::Path("/etc/hosts"),
        Need::Program("getent"),
        Need::Program("ping"),
    );
    let lab = name("names");
    let before = std::fs::read("/etc/hosts").unwrap();
    let mut owner = up(&lab, &[]);
    let (a, b) = (format!("{lab}:a"), format!("{lab}:b"));
    for (host, other, address) in [(&a, "b", "10.77.0.2"), (&b, "a", "10.77.0.1")] {
        let found = output(&["exec", host, "--", "getent", "ahostsv4", other]);
        assert!(text(&found.stdout).starts_with(address), "{found:?}");
        let found = output(&["exec", host, "--", "getent", "hosts", other]);
        assert!(text(&found.stdout).contains(other), "{found:?}");
    }
    let ping = output(&["exec", &a, "--", "ping", "-c", "1", "-W", "2", "b"]);
    assert!(ping.status.success(), "{ping:?}");
    // What the machine calls by name is still known, and the file itself is as it was.
    let hosts = output(&["exec", &a, "--", "cat", "/etc/hosts"]);
    assert!(text(&hosts.stdout).starts_with(&*text(&before)), "{hosts:?}");
    assert_eq!(std::fs::read("/etc/hosts").unwrap(), before);
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert_eq!(std::fs::read("/etc/hosts").unwrap(), before);
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains("/etc/hosts ") || before.is_empty(), "{mounts}");
}

/// Host b has a name with an IPv6 address first, and serves on IPv4 alone.
#[test]
fn clients_try_the_next_address_of_a_name() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Path("/etc/hosts"));
    let lab = name("addresses");
    let mut owner = up(&lab, &["--delay", "1ms"]);
    let (a, b) = (format!("{lab}:a"), format!("{lab}:b"));
    let serve = ["exec", &b, "--", env!("CARGO_BIN_EXE_wirelapse"), "serve", "--listen", "0.0.0.0:5201", "--json"];
    let mut serve = Process::from(wirelapse(&serve).stdout(Stdio::piped()).spawn().unwrap());
    let (line, _out) = serve.first_line();
    assert!(line.contains("listening"), "{line}");
    let client = |words: &[&str]| {
        let of = ["exec", &a, "--", env!("CARGO_BIN_EXE_wirelapse")];
        output(&[&of[..], words].concat())
    };
    for words in [
        &["rr", "b", "--for", "200ms"][..],
        &["crr", "b", "--for", "200ms"],
        &["stream", "b", "--for", "200ms"],
        &["udp", "b", "--for", "200ms"],
        &["ping-under-load", "b", "--before", "200ms", "--for", "300ms", "--after", "200ms", "-P", "1"],
        &["probe", "tcp", "b:5201", "--count", "2"],
    ] {
        let out = client(words);
        let (said, noted) = (text(&out.stdout), text(&out.stderr));
        assert!(out.status.success(), "{words:?}: {said}{noted}");
        assert!(said.contains("10.77.0.2"), "{words:?}: {said}");
        assert!(
            noted.contains("]:5201: connection refused; the next address of that name is tried"),
            "{words:?}: {noted}"
        );
    }
    // Probes without a connection go where one is answered: nothing echoes on IPv6, whose host
    // refuses.
    for words in [&["probe", "udp", "b:5201", "--count", "2"][..], &["probe", "icmp", "b", "--count", "1"]] {
        let out = client(words);
        assert!(out.status.success(), "{words:?}: {out:?}");
        let wanted = if words[1] == "udp" { "10.77.0.2" } else { "fd77::2" };
        assert!(text(&out.stdout).contains(wanted), "{words:?}: {out:?}");
    }
    // One family alone, and where nothing listens every address is named.
    let out = client(&["rr", "b", "--for", "200ms", "-6"]);
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    let out = client(&["rr", "b:9", "--for", "200ms"]);
    let noted = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    assert!(
        noted.contains("any address of the server") && noted.contains("10.77.0.2:9: ") && noted.contains("]:9: "),
        "{noted}"
    );
    assert!(output(&["down", &lab]).status.success());
    assert!(owner.wait().unwrap().success());
}

/// A command of uid 65534 where the TUN device may be opened by everyone, as it is on most
/// machines.
fn as_nobody(dir: &Path, args: &[&str]) -> Command {
    let script = "mount -t tmpfs none /dev/net && mknod /dev/net/tun c 10 200 && chmod 666 /dev/net/tun && \
                  exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all \"$0\" lab \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_wirelapse")]).args(args);
    command.env("XDG_RUNTIME_DIR", dir).stdin(Stdio::null());
    command
}

#[test]
fn an_ordinary_user_has_labs() {
    tier::needs!(
        Need::Root,
        Need::Path("/dev/net/tun"),
        Need::Program("unshare"),
        Need::Program("setpriv"),
        Need::Program("ping"),
    );
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(dir.path(), Some(65_534), Some(65_534)).unwrap();
    let up = as_nobody(dir.path(), &["up", "-d", "--delay", "3ms"]).output().unwrap();
    if text(&up.stderr).contains("user namespace") {
        return tier::skip("lab::an_ordinary_user_has_labs", text(&up.stderr).trim());
    }
    assert!(up.status.success() && text(&up.stdout).contains("without root"), "{up:?}");
    let inside = |args: &[&str]| as_nobody(dir.path(), args).output().unwrap();
    let ping = inside(&["exec", "a", "--", "ping", "-q", "-c", "5", "-i", "0.05", "b"]);
    let said = text(&ping.stdout);
    let shortest = said.split("min/avg/max/mdev = ").nth(1).and_then(|t| t.split('/').next());
    let shortest: f64 = shortest.unwrap_or_else(|| panic!("{ping:?}")).parse().unwrap();
    assert!((6.0..9.0).contains(&shortest), "{said}");
    let changed = inside(&["change", "--delay", "8ms/"]);
    assert!(text(&changed.stdout).contains("is now     delay 8.00 ms"), "{changed:?}");
    assert!(text(&inside(&["list"]).stdout).contains("lab lab\n"));
    // Root sees its own labs, not those of others.
    assert!(!text(&output(&["list"]).stdout).contains("lab lab\n"));
    let hosts = text(&inside(&["exec", "b", "--", "stat", "-Lc", "%i", "/proc/self/ns/net"]).stdout);
    let host: u64 = hosts.trim().parse().unwrap();
    // Its owner killed, nothing stays but a name that is free.
    let lock = dir.path().join("wirelapse/labs/lab.lock");
    let owner = std::fs::metadata(&lock).unwrap().ino();
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let of_owner = locks.lines().find(|line| line.contains(&format!(":{owner} "))).unwrap_or_else(|| panic!("{locks}"));
    let pid: i32 = of_owner.split_whitespace().nth(4).unwrap().parse().unwrap();
    // SAFETY: a signal to the owner of the lab that this test made.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    tier::until("nobody is left in the namespace", || inhabitants(&[host]).is_empty());
    assert!(text(&inside(&["list"]).stdout).contains("no lab"));
    assert!(!lock.exists());
}

/// Two clients and two servers at either end of one slow link.
const DUMBBELL: &str = "hosts = [\"c1\", \"c2\", \"left\", \"right\", \"s1\", \"s2\"]\n\
    [[link]]\nbetween = [\"c1\", \"left\"]\ndelay = \"1ms\"\n[[link]]\nbetween = [\"c2\", \"left\"]\ndelay = \"1ms\"\n\
    [[link]]\nbetween = [\"left\", \"right\"]\ndelay = \"5ms\"\nrate = \"20mbit\"\nqueue = \"50ms\"\n\
    [[link]]\nbetween = [\"right\", \"s1\"]\ndelay = \"1ms\"\n[[link]]\nbetween = [\"right\", \"s2\"]\ndelay = \"10ms\"\n";
const STAR: &str = "hosts = [\"hub\", \"x\", \"y\", \"z\"]\n[[link]]\nbetween = [\"hub\", \"x\"]\ndelay = \"2ms\"\n\
    [[link]]\nbetween = [\"hub\", \"y\"]\ndelay = \"3ms\"\n[[link]]\nbetween = [\"z\", \"hub\"]\ndelay = \"4ms\"\n";
const LINE: &str = "hosts = [\"n1\", \"n2\", \"n3\", \"n4\"]\n[[link]]\nbetween = [\"n1\", \"n2\"]\ndelay = \"1ms\"\n\
    [[link]]\nbetween = [\"n2\", \"n3\"]\ndelay = \"2ms\"\n[[link]]\nbetween = [\"n3\", \"n4\"]\ndelay = \"3ms\"\n";

#[test]
fn topologies_carry_between_all_their_hosts() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Program("ping"), Need::Program("iperf3"));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("net.toml");
    for (what, toml, trips) in [
        ("dumbbell", DUMBBELL, &[("c1", "s1", 14.0), ("c2", "s2", 32.0), ("c1", "c2", 4.0), ("s2", "left", 30.0)][..]),
        ("star", STAR, &[("x", "y", 10.0), ("z", "x", 12.0)]),
        ("line", LINE, &[("n1", "n4", 12.0), ("n4", "n2", 10.0)]),
    ] {
        std::fs::write(&file, toml).unwrap();
        let lab = name(what);
        let up = output(&["up", "-d", "--name", &lab, "--topology", file.to_str().unwrap()]);
        assert!(up.status.success(), "{up:?}");
        for (from, to, expected) in trips {
            for more in [&[][..], &["-6"]] {
                let place = format!("{lab}:{from}");
                let ping = ["exec", &place, "--", "ping", "-q", "-c", "10", "-i", "0.02"];
                let ping = output(&[&ping[..], more, &[to]].concat());
                let said = text_of(&ping);
                let least = said.split("min/avg/max/mdev = ").nth(1).and_then(|t| t.split('/').next());
                let least: f64 = least.unwrap_or_else(|| panic!("{what} {from} {to}: {said}")).parse().unwrap();
                assert!(
                    (*expected - 0.5..expected + 2.5).contains(&least),
                    "{what}: {from} to {to} {least} ms, {expected} asked"
                );
            }
        }
        if what == "dumbbell" {
            // Frames that come whole over a link without a rate are cut where they are forwarded
            // into the slow one.
            for way in [&[][..], &["-R"]] {
                let bits = carried_between(&lab, ["c1", "s1"], way);
                assert!((12e6..20e6).contains(&bits), "{way:?}: {bits}");
            }
            let changed = output(&["change", &lab, "--link", "right,left", "--delay", "25ms/"]);
            let (said, [same, was]) =
                (text(&changed.stdout), ["left to right  as before  delay 5.00 ms", "right to left  was"]);
            assert!(said.contains(same) && said.contains(was) && said.contains("is now     delay 25.0 ms"), "{said}");
            let line = listed(&lab);
            assert_eq!(line["links"][2]["path"]["b_to_a"]["asked"]["delay_ns"], 25_000_000, "from right to left");
            assert_eq!(line["links"][2]["path"]["a_to_b"]["asked"]["delay_ns"], 5_000_000);
            assert_eq!(line["hosts"][0]["name"], "c1");
            for (args, word) in [
                (&["change", &lab, "--delay", "1ms"][..], "--link"),
                (&["change", &lab, "--link", "c1,s1", "--delay", "1ms"], "no link between"),
                (&["exec", &format!("{lab}:c3"), "--", "true"], "did you mean"),
            ] {
                let out = output(args);
                assert_eq!(out.status.code(), Some(2), "{out:?}");
                assert!(text(&out.stderr).contains(word), "{out:?}");
            }
            assert!(text(&output(&["list"]).stdout).contains("left to right  asked"), "{:?}", output(&["list"]));
        }
        assert!(output(&["down", &lab]).status.success());
    }
    // A line each 2 ms there, each 4 ms back, and a delay that begins with the link.
    let lines = |step: usize| (1..=500).map(|n| format!("{}\n", n * step)).collect::<String>();
    std::fs::write(dir.path().join("there"), lines(2)).unwrap();
    std::fs::write(dir.path().join("back"), lines(4)).unwrap();
    std::fs::write(dir.path().join("steps.csv"), "time,delay\n0,10ms\n").unwrap();
    let links = "hosts = [\"n\", \"m\", \"o\"]\n[[link]]\nbetween = [\"n\", \"m\"]\nrecorded = [\"there\", \"back\"]\nqueue = \"100ms\"\n\
        [[link]]\nbetween = [\"m\", \"o\"]\nschedule = \"steps.csv\"\n";
    std::fs::write(&file, links).unwrap();
    let lab = name("recorded");
    let up = output(&["up", "-d", "--name", &lab, "--topology", file.to_str().unwrap()]);
    assert!(up.status.success(), "{up:?}");
    for (way, most) in [(&[][..], 6.152e6 * 1_448.0 / 1_538.0), (&["-R"], 3.076e6 * 1_448.0 / 1_538.0)] {
        let bits = carried_between(&lab, ["n", "o"], way);
        assert!((0.7 * most..1.1 * most).contains(&bits), "{way:?}: {bits}");
    }
    let line = listed(&lab);
    assert_eq!(line["links"][1]["path"]["a_to_b"]["asked"]["delay_ns"], 10_000_000, "{line}");
    assert!(output(&["down", &lab]).status.success());
    std::fs::write(&file, "hosts = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"bee\"]\n").unwrap();
    let bad = output(&["up", "--name", &name("bad"), "--topology", file.to_str().unwrap()]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(text(&bad.stderr).contains("net.toml:3:") && text(&bad.stderr).contains("did you mean `b`"), "{bad:?}");
}

fn text_of(out: &Output) -> String {
    text(&out.stdout) + &text(&out.stderr)
}

#[test]
fn a_topology_that_is_killed_leaves_nothing() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("star.toml");
    std::fs::write(&file, STAR).unwrap();
    let lab = name("killedstar");
    let mut up = wirelapse(&["up", "--json", "--name", &lab, "--topology", file.to_str().unwrap()]);
    let mut owner = Process::from(up.stdout(Stdio::piped()).spawn().unwrap());
    let mut said = String::new();
    BufReader::new(owner.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("\"kind\":\"network\""), "{said}");
    let hosts: Vec<u64> = ["hub", "x", "y", "z"].iter().map(|host| namespace(&lab, host)).collect();
    owner.kill().unwrap();
    owner.wait().unwrap();
    tier::until("nobody is left in the namespaces", || inhabitants(&hosts).is_empty());
    assert!(!text(&output(&["list"]).stdout).contains(&lab));
}
