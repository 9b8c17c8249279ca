//! `wirelapse capture` and `wirelapse generate` as a person uses them, on a veth pair in a network
//! namespace.

use std::io::{Read as _, Write as _};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tier::{Need, Process, needs, text, wirelapse};

/// What a JSON line says.
fn json(output: &Output) -> Vec<serde_json::Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ip(words: &str) {
    assert!(Command::new("ip").args(words.split(' ')).status().unwrap().success(), "ip {words}");
}

/// Runs `test` on a thread in a network namespace with a veth pair `left` and `right`.
fn on_a_wire(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: moves the calling thread alone into a new network namespace.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
            ip("link add left type veth peer name right");
            for end in ["left", "right"] {
                ip(&format!("link set {end} addrgenmode none"));
                ip(&format!("link set {end} up"));
            }
            let up = |end: &str| {
                let shown = Command::new("ip").args(["-o", "link", "show", end]).output().unwrap();
                text(&shown.stdout).contains("state UP")
            };
            tier::until("both ends to be up", || up("left") && up("right"));
            test();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Waits for a capture: its sockets are open once it has dropped its rights.
fn wait_until_open(pid: u32) {
    let status = format!("/proc/{pid}/status");
    tier::until("the capture to be open", || {
        std::fs::read_to_string(&status).unwrap_or_default().contains("NoNewPrivs:\t1")
    });
}

/// Sends frames while `capture` runs with these words; gives what both printed.
fn capture_and_generate(capture: &[&str], count: &str) -> (Output, Output) {
    let words = [&["capture", "-i", "right", "--filter", "udp", "--json"], capture].concat();
    let child = wirelapse!(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until_open(child.id());
    let generate = [
        "generate",
        "-i",
        "left",
        "--rate",
        "20k/s",
        "-c",
        count,
        "--method",
        "sendmmsg",
        "--json",
        "--yes-this-interface",
    ];
    let sent = wirelapse!(&generate).output().unwrap();
    (child.wait_with_output().unwrap(), sent)
}

#[test]
fn what_is_generated_is_captured_and_others_read_the_file() {
    needs!(Need::Root, Need::Program("ip"), Need::Program("tshark"), Need::Program("capinfos"));
    on_a_wire(|| {
        let dir = tempfile::tempdir().unwrap();
        for (method, name) in [("rx-ring", "a.pcapng"), ("recvmmsg", "b.pcapng"), ("xdp", "c.pcapng")] {
            let path = dir.path().join(name);
            let file = path.to_str().unwrap();
            let (captured, sent) =
                capture_and_generate(&["--method", method, "-c", "500", "--for", "20s", "-w", file], "500");
            assert!(sent.status.success(), "{}", text(&sent.stderr));
            assert!(captured.status.success(), "{method}: {}", text(&captured.stderr));
            assert_eq!(json(&sent)[0]["frames"], 500);
            let over = json(&captured).pop().unwrap();
            assert_eq!((&over["received"], &over["dropped"]), (&500.into(), &0.into()), "{method}");
            let shown =
                Command::new("tshark").args(["-r", file, "-T", "fields", "-e", "frame.time_epoch"]).output().unwrap();
            let times: Vec<f64> = text(&shown.stdout).lines().map(|t| t.parse().unwrap()).collect();
            assert_eq!(times.len(), 500, "{method}: {}", text(&shown.stderr));
            assert!(times.is_sorted(), "{method}");
            let info = Command::new("capinfos").args(["-T", "-r", "-c", "-M", file]).output().unwrap();
            assert!(text(&info.stdout).contains("500"), "{method}: {}", text(&info.stdout));
        }
    });
}

/// What is sent once the descriptor has its line feed is in the file from the first frame on.
#[test]
fn a_capture_says_on_a_descriptor_that_it_receives() {
    needs!(Need::Root, Need::Program("ip"));
    let refused = wirelapse!(&["capture", "-i", "lo", "--ready-fd", "77"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("no such descriptor"), "{}", text(&refused.stderr));
    on_a_wire(|| {
        for method in ["rx-ring", "recvmsg", "libpcap", "af-xdp", "xdp"] {
            let (mut ready, said) = std::io::pipe().unwrap();
            let child = tier::command("sh")
                .args(["-c", "exec \"$0\" \"$@\" --ready-fd 3 3>&1 >&2", env!("CARGO_BIN_EXE_wirelapse"), "capture"])
                .args(["-i", "right", "--filter", "udp", "--method", method, "-c", "3", "--for", "60s"])
                .stdout(said)
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            // The descriptor is closed with the line feed, or where the capture could not begin.
            let mut line = String::new();
            ready.read_to_string(&mut line).unwrap();
            generate("3", "100", "1k/s");
            let out = child.wait_with_output().unwrap();
            assert_eq!((line.as_str(), out.status.code()), ("\n", Some(0)), "{method}: {}", text(&out.stderr));
            assert!(text(&out.stderr).contains("3 frames"), "{method}: {}", text(&out.stderr));
        }
    });
}

/// Ten frames have nine gaps, and the rate is that of the gaps.
#[test]
fn a_rate_is_that_of_the_gaps_between_frames() {
    needs!(Need::Root, Need::Program("ip"));
    on_a_wire(|| {
        let always = ["generate", "-i", "left", "--rate", "100/s", "--method", "sendmmsg", "--yes-this-interface"];
        let sent = json(&wirelapse!(&[&always[..], &["-c", "10", "--json"]].concat()).output().unwrap()).remove(0);
        let [rate, gap] = ["frames_per_second", "gap_mean_ns"].map(|key| sent[key].as_f64().unwrap());
        assert!((rate * gap / 1e9 - 1.0).abs() < 1e-6, "{sent}");
        let one = wirelapse!(&[&always[..], &["-c", "1", "--json"]].concat()).output().unwrap();
        assert!(json(&one)[0]["frames_per_second"].is_null());
        let said = text(&wirelapse!(&[&always[..], &["-c", "1"]].concat()).output().unwrap().stdout);
        assert!(said.contains("1 frame in") && said.contains("one moment holds them all"), "{said}");
    });
}

#[test]
fn files_rotate_and_an_existing_file_is_not_overwritten() {
    needs!(Need::Root, Need::Program("ip"));
    on_a_wire(|| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.pcapng.zst");
        let file = path.to_str().unwrap();
        let words = ["-c", "1000", "--for", "20s", "--rotate-count", "300", "-W", "2", "--zstd", "-w", file];
        let (captured, _) = capture_and_generate(&words, "1000");
        let files = json(&captured).pop().unwrap()["files"].clone();
        let names: Vec<&str> =
            files.as_array().unwrap().iter().map(|f| f.as_str().unwrap().rsplit('/').next().unwrap()).collect();
        assert_eq!(names, ["out_00003.pcapng.zst", "out_00004.pcapng.zst"]);
        let taken = dir.path().join("taken.pcapng");
        std::fs::write(&taken, b"mine").unwrap();
        let refused =
            wirelapse!(&["capture", "-i", "right", "-w", taken.to_str().unwrap(), "--for", "1s"]).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
        assert!(text(&refused.stderr).contains("--force"));
        assert_eq!(std::fs::read(&taken).unwrap(), b"mine");
    });
}

#[test]
fn capture_keeps_no_capability_and_interrupted_it_ends_with_a_whole_file() {
    needs!(Need::Root, Need::Program("ip"), Need::Program("tshark"));
    on_a_wire(|| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.pcapng");
        let file = path.to_str().unwrap();
        let child = wirelapse!(&["capture", "-i", "right", "-w", file]).stdout(Stdio::piped()).spawn().unwrap();
        let status = || std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        // The last of what it gives up.
        tier::until("its filter of system calls", || status().contains("Seccomp:\t2"));
        let effective = status().lines().find_map(|l| l.strip_prefix("CapEff:\t").map(str::to_owned));
        assert_eq!(effective.unwrap().trim_matches('0'), "");
        let mut child = Process::from(child);
        let sent =
            ["generate", "-i", "left", "--rate", "10k/s", "-c", "100", "--method", "sendmmsg", "--yes-this-interface"];
        assert!(wirelapse!(&sent).status().unwrap().success());
        // SAFETY: signals a process that this test started and has not waited for.
        assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(said.contains("none was dropped"), "{said}");
        let shown = Command::new("tshark").args(["-r", file]).output().unwrap();
        assert!(shown.status.success(), "{}", text(&shown.stderr));
    });
}

#[test]
fn a_capture_is_replayed_as_it_was_at_its_own_pace_or_another() {
    needs!(Need::Root, Need::Program("ip"));
    on_a_wire(|| {
        let dir = tempfile::tempdir().unwrap();
        let [first, second] = ["a.pcapng", "b.pcapng"].map(|name| dir.path().join(name));
        let (captured, _) = capture_and_generate(&["-c", "300", "--for", "20s", "-w", first.to_str().unwrap()], "300");
        assert!(captured.status.success(), "{}", text(&captured.stderr));
        let took = |words: &[&str]| {
            let file = first.to_str().unwrap();
            let all = [&["generate", "-i", "left", "--replay", file, "--json", "--yes-this-interface"], words].concat();
            let output = wirelapse!(&all).output().unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
            let line = json(&output).remove(0);
            assert_eq!(
                (&line["frames"], &line["cut"], &line["unsendable"]),
                (&300.into(), &0.into(), &0.into()),
                "{line}"
            );
            line["took_ns"].as_u64().unwrap()
        };
        // 300 frames at 20,000 a second take 15 ms.
        assert!(took(&[]) >= 14_000_000);
        assert!(took(&["--speed", "0.1"]) >= 140_000_000);
        assert!(took(&["--rate", "1000/s"]) >= 290_000_000);
        let words = ["-c", "300", "--for", "20s", "-w", second.to_str().unwrap()];
        let words = [&["capture", "-i", "right", "--filter", "udp", "--json"][..], &words].concat();
        let mut child = Process::from(wirelapse!(&words).stdout(Stdio::piped()).spawn().unwrap());
        wait_until_open(child.id());
        took(&["--rate", "line"]);
        assert!(child.wait().unwrap().success());
        let frames = |path: &std::path::Path| {
            let mut capture = wire::Capture::from_reader(std::fs::File::open(path).unwrap()).unwrap();
            let mut frames = Vec::new();
            while let Some(frame) = capture.next_frame().unwrap() {
                frames.push(frame.data.to_vec());
            }
            frames
        };
        assert_eq!(frames(&first), frames(&second));
    });
}

/// Every technique.
const METHODS: [&str; 7] = ["recvmsg", "recvmmsg", "rx-ring", "libpcap", "af-xdp", "xdp", "io-uring"];

/// A capture on `right` that is open.
fn capturing(words: &[&str]) -> Process {
    let words = [&["capture", "-i", "right", "--json"], words].concat();
    let child = Process::from(wirelapse!(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    wait_until_open(child.id());
    child
}

/// What an ended capture said last, its errors and its status.
fn over(mut capture: Process) -> (serde_json::Value, String, Option<i32>) {
    let (mut out, mut errors) = (String::new(), String::new());
    capture.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    capture.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    let last = out.lines().last().map(|line| serde_json::from_str(line).unwrap()).unwrap_or_default();
    (last, errors, capture.wait().unwrap().code())
}

#[test]
fn frames_of_several_lengths_are_sent_in_turn() {
    needs!(Need::Root, Need::Program("ip"));
    on_a_wire(|| {
        for method in ["tx-ring", "sendmmsg"] {
            let words = ["capture", "-i", "right", "--filter", "udp", "--json", "-c", "240", "--for", "20s"];
            let child = wirelapse!(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            wait_until_open(child.id());
            let send = ["generate", "-i", "left", "--size", "imix", "--flows", "12", "-c", "240", "--rate", "10k/s"];
            let sent =
                wirelapse!(&[&send[..], &["--method", method, "--json", "--yes-this-interface"]].concat()).output();
            let sent = sent.unwrap();
            assert!(sent.status.success(), "{}", text(&sent.stderr));
            let sent: serde_json::Value = serde_json::from_str(&text(&sent.stdout)).unwrap();
            assert_eq!((&sent["frames"], &sent["size_bytes"]), (&240.into(), &serde_json::Value::Null), "{sent}");
            let captured = text(&child.wait_with_output().unwrap().stdout);
            let last: serde_json::Value = serde_json::from_str(captured.lines().last().unwrap()).unwrap();
            // Twenty turns of 7 × 60, 4 × 590 and 1,514 bytes.
            assert_eq!((&last["received"], &last["bytes"]), (&240.into(), &(20 * 4_294).into()), "{method}: {last}");
        }
        let refused = [
            "generate",
            "-i",
            "left",
            "--size",
            "60,100",
            "-c",
            "1",
            "--method",
            "live-frames",
            "--yes-this-interface",
        ];
        let refused = wirelapse!(&refused).output().unwrap();
        assert!(text(&refused.stderr).contains("one length alone"), "{}", text(&refused.stderr));
    });
}

/// Sends frames of this size on `left`.
fn generate(count: &str, size: &str, rate: &str) {
    let words = [
        "generate",
        "-i",
        "left",
        "-c",
        count,
        "--size",
        size,
        "--rate",
        rate,
        "--method",
        "sendmmsg",
        "--yes-this-interface",
    ];
    let output = wirelapse!(&words).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// A sender that is held up makes up for it: whatever the machine does meanwhile, as many frames
/// leave as the rate and the time ask for, up to a tenth of the time later.
#[test]
fn a_rate_for_a_time_is_so_many_frames() {
    needs!(Need::Root, Need::Program("ip"), Need::Program("ethtool"));
    on_a_wire(|| {
        assert!(Command::new("ethtool").args(["-K", "right", "gro", "on"]).status().unwrap().success());
        for (method, rate, frames, seconds, at_the_latest) in [
            ("sendmmsg", "20k/s", 20_000, "1s", Duration::from_millis(1_100)),
            ("live-frames", "200k/s", 400_000, "2s", Duration::from_millis(2_200)),
        ] {
            let words = [
                "generate",
                "-i",
                "left",
                "--rate",
                rate,
                "--for",
                seconds,
                "--method",
                method,
                "--json",
                "--yes-this-interface",
            ];
            let sent = wirelapse!(&words).output().unwrap();
            assert!(sent.status.success(), "{}", text(&sent.stderr));
            let sent: serde_json::Value = serde_json::from_slice(&sent.stdout).unwrap();
            // One that is held up until a tenth more than the time is over ends, and says how many
            // frames went.
            let ended = sent["took_ns"].as_u64().unwrap() >= u64::try_from(at_the_latest.as_nanos()).unwrap();
            assert!(sent["frames"] == frames || ended, "{sent}");
        }
    });
}

fn signal(capture: &Process, signal: i32) {
    // SAFETY: signals a process that this test started and has not waited for.
    assert_eq!(unsafe { libc::kill(capture.id() as i32, signal) }, 0);
}

/// Whether others than us find the file whole, and how many frames it holds.
fn frames_in(path: &std::path::Path) -> usize {
    let shown = Command::new("tshark").arg("-r").arg(path).output().unwrap();
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    text(&shown.stdout).lines().count()
}

#[test]
fn an_interface_that_goes_down_or_away_ends_the_capture_with_a_whole_file() {
    needs!(Need::Root, Need::Program("ip"), Need::Program("tshark"));
    for (method, end) in METHODS.into_iter().flat_map(|m| [(m, "link set right down"), (m, "link del right")]) {
        on_a_wire(|| {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("out.pcapng");
            let capture = capturing(&["--method", method, "--filter", "udp", "-w", path.to_str().unwrap()]);
            generate("50", "60", "10k/s");
            std::thread::sleep(Duration::from_millis(300));
            ip(end);
            let (last, errors, status) = over(capture);
            assert_eq!((status, &last["received"]), (Some(1), &50.into()), "{method}: {errors}");
            assert!(errors.contains("right") && errors.contains("down or away"), "{method}: {errors}");
            assert_eq!(frames_in(&path), 50, "{method}");
        });
    }
}

#[test]
fn a_full_disk_leaves_a_file_that_is_readable_up_to_there_by_any_technique() {
    needs!(Need::Root, Need::Program("ip"), Need::Program("tshark"));
    on_a_wire(|| {
        // SAFETY: moves the calling thread alone into a new mount namespace.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_FS | libc::CLONE_NEWNS) }, 0);
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().to_str().unwrap();
        let mount = |words: &[&str]| assert!(Command::new("mount").args(words).status().unwrap().success());
        mount(&["--make-rprivate", "/"]);
        mount(&["-t", "tmpfs", "-o", "size=256k", "small", at]);
        let path = dir.path().join("out.pcapng");
        for method in METHODS {
            let capture = capturing(&["--method", method, "--filter", "udp", "-w", path.to_str().unwrap()]);
            generate("2000", "1000", "20k/s");
            let (_, errors, status) = over(capture);
            assert_eq!(status, Some(1), "{method}: {errors}");
            assert!(errors.contains("out.pcapng") && errors.contains("No space left"), "{method}: {errors}");
            let frames = frames_in(&path);
            assert!((100..300).contains(&frames), "{method}: {frames}");
            assert!(errors.contains(&format!("it holds the {frames} frames before")), "{method}: {frames}, {errors}");
            std::fs::remove_file(&path).unwrap();
        }
    });
}

/// One end of a veth pair takes no frames from XDP unless the other has an XDP program or GRO, and
/// counts none of those that it does not take.
#[test]
fn frames_that_the_interface_does_not_take_are_sent_another_way_or_refused_or_counted() {
    needs!(Need::Root, Need::Program("ip"), Need::Program("ethtool"));
    let sending = |words: &[&str]| {
        let always = ["generate", "-i", "left", "--rate", "1000/s", "--json", "--yes-this-interface"];
        Process::from(
            wirelapse!(&[&always, words].concat()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(),
        )
    };
    on_a_wire(|| {
        let at_first = arrived();
        let sent = json(&sending(&["-c", "500"]).output()).remove(0);
        assert_eq!((&sent["frames"], &sent["dropped"]), (&500.into(), &0.into()), "{sent}");
        assert_ne!(sent["method"], "live-frames");
        assert!(arrived() >= at_first + 500, "{sent}");
        let refused = sending(&["-c", "500", "--method", "live-frames"]).output();
        assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stdout));
        assert!(text(&refused.stderr).contains("gro on"), "{}", text(&refused.stderr));
        assert!(Command::new("ethtool").args(["-K", "right", "gro", "on"]).status().unwrap().success());
        let before = arrived();
        let under_way = sending(&["-c", "2000", "--method", "live-frames"]);
        tier::until("a hundred frames", || arrived() >= before + 100);
        ip("link set right down");
        let ended = under_way.output();
        assert!(ended.status.success(), "{}", text(&ended.stderr));
        let sent = json(&ended).remove(0);
        let (came, dropped) = (arrived() - before, sent["dropped"].as_u64().unwrap());
        // The hosts' own frames, such as those that look for routers, come on top of those that are
        // generated.
        assert_eq!(sent["frames"], 2000);
        assert!(dropped > 0 && (2000..2020).contains(&(came + dropped)), "{came} came: {sent}");
    });
}

/// Frames that `right` has received so far: what a busy machine drops on the wire is not among
/// them.
fn arrived() -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = table.lines().find_map(|line| line.trim().strip_prefix("right:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn captures_that_are_stopped_for_five_seconds_count_every_frame_they_missed() {
    needs!(Need::Root, Need::Program("ip"));
    // AF_XDP takes the frames away from the others, and an interface has one XDP program.
    for methods in [&["rx-ring", "recvmmsg", "recvmsg", "libpcap", "io-uring", "xdp"][..], &["af-xdp"]] {
        on_a_wire(|| {
            let captures: Vec<Process> = methods
                .iter()
                .map(|method| capturing(&["--method", method, "--filter", "udp", "--buffer", "128KiB"]))
                .collect();
            let before = arrived();
            generate("50", "1000", "10k/s");
            captures.iter().for_each(|capture| signal(capture, libc::SIGSTOP));
            let stopped = Instant::now();
            generate("20000", "1000", "10k/s");
            std::thread::sleep(Duration::from_secs(5).saturating_sub(stopped.elapsed()));
            captures.iter().for_each(|capture| signal(capture, libc::SIGCONT));
            generate("50", "1000", "10k/s");
            captures.iter().for_each(|capture| signal(capture, libc::SIGINT));
            let arrived = arrived() - before;
            for (method, capture) in methods.iter().zip(captures) {
                let (last, errors, status) = over(capture);
                let of = |key: &str| last[key].as_u64().unwrap();
                assert_eq!(status, Some(0), "{method}: {errors}");
                assert!(of("dropped") > 0 && of("received") >= 50, "{method}: {last}");
                assert_eq!(of("received") + of("dropped"), arrived, "{method}: {last}");
            }
        });
    }
}

#[test]
fn a_driver_without_xdp_is_said_and_its_frames_come_all_the_same() {
    needs!(Need::Root, Need::Program("ip"));
    on_a_wire(|| {
        ip("link set lo up");
        for method in ["xdp", "af-xdp"] {
            let words =
                ["capture", "-i", "lo", "--method", method, "--filter", "udp", "-c", "20", "--for", "20s", "--json"];
            let child = wirelapse!(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            wait_until_open(child.id());
            let words =
                ["generate", "-i", "lo", "-c", "20", "--rate", "10k/s", "--method", "sendmmsg", "--yes-this-interface"];
            assert!(wirelapse!(&words).output().unwrap().status.success());
            let (last, errors, status) = over(Process::from(child));
            assert_eq!((status, &last["received"]), (Some(0), &20.into()), "{method}: {errors}");
            let remarks = last["remarks"].to_string();
            assert!(
                remarks.contains("the driver has no XDP") && remarks.contains("generic mode"),
                "{method}: {remarks}"
            );
        }
    });
}

#[test]
fn captures_of_a_group_share_the_frames_by_flow() {
    needs!(Need::Root, Need::Program("ip"));
    on_a_wire(|| {
        let both =
            ["rx-ring", "rx-ring"].map(|method| capturing(&["--method", method, "--filter", "udp", "--fanout", "7"]));
        let words = [
            "generate",
            "-i",
            "left",
            "-c",
            "1000",
            "--rate",
            "20k/s",
            "--flows",
            "100",
            "--method",
            "sendmmsg",
            "--yes-this-interface",
        ];
        assert!(wirelapse!(&words).output().unwrap().status.success());
        both.iter().for_each(|capture| signal(capture, libc::SIGINT));
        let received = both.map(|capture| over(capture).0["received"].as_u64().unwrap());
        assert_eq!(received.iter().sum::<u64>(), 1000, "{received:?}");
        assert!(received.iter().all(|n| *n > 0), "{received:?}");
    });
}

#[test]
fn a_capture_that_is_killed_leaves_no_program_and_no_promiscuous_mode() {
    needs!(Need::Root, Need::Program("ip"));
    on_a_wire(|| {
        let described = || text(&Command::new("ip").args(["-d", "link", "show", "right"]).output().unwrap().stdout);
        for method in ["xdp", "af-xdp", "rx-ring"] {
            let mut capture = capturing(&["--method", method, "--promiscuous"]);
            let with = described();
            assert!(with.contains("xdp") || with.contains("promiscuity 1"), "{method}: {with}");
            signal(&capture, libc::SIGKILL);
            capture.wait().unwrap();
            tier::until("the program to go", || !described().contains("xdp"));
            let left = described();
            assert!(!left.contains("xdp") && left.contains("promiscuity 0"), "{method}: {left}");
        }
    });
}

/// An analysis that is open, of this interface.
fn analysing(interface: &str) -> Process {
    let words = ["analyze", "-i", interface, "--json"];
    let child = Process::from(wirelapse!(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    wait_until_open(child.id());
    child
}

#[test]
fn a_live_analysis_takes_each_packet_once_on_one_interface_and_on_all() {
    needs!(Need::Root, Need::Program("ip"));
    on_a_wire(|| {
        ip("link set lo up");
        for interface in ["lo", "any"] {
            let analysis = analysing(interface);
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let to = listener.local_addr().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(move || std::net::TcpStream::connect(to).unwrap().write_all(&[7; 1_000_000]).unwrap());
                let mut all = Vec::new();
                assert_eq!(listener.accept().unwrap().0.read_to_end(&mut all).unwrap(), 1_000_000);
            });
            std::thread::sleep(Duration::from_millis(200));
            signal(&analysis, libc::SIGINT);
            let output = analysis.output();
            assert!(output.status.success(), "{interface}: {}", text(&output.stderr));
            let lines = json(&output);
            let connections: Vec<_> = lines.iter().filter(|l| l["kind"] == "connection").collect();
            assert_eq!(connections.len(), 1, "{interface}: {lines:?}");
            // A segment that comes twice would count twice; one that TCP itself repeats on a busy
            // machine does.
            let totals = &lines.last().unwrap()["totals"];
            let payload = totals["payload_bytes"].as_u64().unwrap();
            assert!(
                (1_000_000..1_500_000).contains(&payload) && totals["capture_copies"] == 0,
                "{interface}: {totals}"
            );
        }
    });
}

#[test]
fn a_live_analysis_of_an_interface_that_goes_shows_what_came_and_fails() {
    needs!(Need::Root, Need::Program("ip"));
    on_a_wire(|| {
        let analysis = analysing("right");
        generate("50", "60", "10k/s");
        std::thread::sleep(Duration::from_millis(300));
        ip("link del right");
        let output = analysis.output();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains("right") && errors.contains("down or away"), "{errors}");
        let last = json(&output).pop().unwrap();
        assert_eq!(last["packets"], 50, "{last}");
        assert!(last["problems"].to_string().contains("down or away"), "{last}");
    });
}

#[test]
fn two_captures_at_the_same_time_both_see_every_frame_and_an_mtu_that_changes_ends_none() {
    needs!(Need::Root, Need::Program("ip"));
    on_a_wire(|| {
        let both = ["rx-ring", "recvmmsg"]
            .map(|method| capturing(&["--method", method, "--filter", "udp", "-c", "100", "--for", "20s"]));
        generate("50", "60", "10k/s");
        ip("link set left mtu 9000");
        ip("link set right mtu 9000");
        generate("50", "8000", "10k/s");
        for capture in both {
            let (last, errors, status) = over(capture);
            assert_eq!((status, &last["received"], &last["dropped"]), (Some(0), &100.into(), &0.into()), "{errors}");
            assert_eq!(last["bytes"], 50 * 60 + 50 * 8000);
        }
    });
}

#[test]
fn memory_smaller_than_a_frame_is_refused_or_counts_what_does_not_fit() {
    needs!(Need::Root, Need::Program("ip"));
    on_a_wire(|| {
        for method in ["rx-ring", "recvmmsg", "xdp", "io-uring"] {
            let words = ["capture", "-i", "right", "--method", method, "--buffer", "100", "--for", "1s", "--json"];
            let child = wirelapse!(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let output = child.wait_with_output().unwrap();
            // The least that a technique works with is used, or the option is refused by its name.
            let refused = output.status.code() == Some(2) && text(&output.stderr).contains("buffer");
            assert!(refused || output.status.success(), "{method}: {:?} {}", output.status, text(&output.stderr));
        }
    });
}

#[test]
fn without_root_a_capture_names_the_rights_that_it_takes() {
    needs!(Need::Root, Need::Program("setpriv"));
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"])
        .args([env!("CARGO_BIN_EXE_wirelapse"), "capture", "-i", "lo", "--for", "1s"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("CAP_NET_RAW"), "{}", text(&output.stderr));
}

#[test]
fn what_cannot_be_is_refused_with_status_2() {
    for (words, wanted) in [
        (&["capture", "-i", "nosuch0"][..], "nosuch0"),
        (&["capture", "-i", "lo", "--method", "mmap"], "rx-ring"),
        (&["capture", "-i", "lo", "--method", "af-xdp", "--fanout", "1"], "rx-ring"),
        (&["capture", "-i", "lo", "--timestamps", "both"], "recvmmsg"),
        (&["generate", "-i", "lo", "-c", "1"], "--yes-this-interface"),
        (&["generate", "-i", "nosuch0", "-c", "1", "--yes-this-interface"], "nosuch0"),
        (&["generate", "-i", "lo", "-c", "1", "--size", "40", "--yes-this-interface"], "60 to 9000"),
        (&["generate", "-i", "lo", "-c", "1", "--rate", "fast", "--yes-this-interface"], "--rate"),
        (&["generate", "-i", "lo", "--replay", "nosuch.pcapng", "--yes-this-interface"], "nosuch.pcapng"),
        (&["generate", "-i", "lo", "--replay", "x", "--rate", "1Gbit/s", "--yes-this-interface"], "own pace"),
        (&["generate", "-i", "lo", "--replay", "x", "--speed", "0", "--yes-this-interface"], "--speed"),
    ] {
        let output = wirelapse!(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(wanted), "{words:?}: {}", text(&output.stderr));
    }
}
