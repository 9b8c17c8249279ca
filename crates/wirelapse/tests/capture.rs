//! `wirelapse capture` and `wirelapse generate` as a person uses them, on a veth pair in a network namespace.

use std::io::Read as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tier::{Need, needs};

fn wirelapse(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirelapse"));
    command.args(words);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A process that ends with its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

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
            while !up("left") || !up("right") {
                std::thread::sleep(Duration::from_millis(10));
            }
            test();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Sends frames while `capture` runs with these words; gives what both printed.
fn capture_and_generate(capture: &[&str], count: &str) -> (Output, Output) {
    let words = [&["capture", "-i", "right", "--filter", "udp", "--json"], capture].concat();
    let child = wirelapse(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Its sockets are open once it has dropped its rights.
    let status = format!("/proc/{}/status", child.id());
    let end = Instant::now() + Duration::from_secs(20);
    while !std::fs::read_to_string(&status).unwrap_or_default().contains("NoNewPrivs:\t1") && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
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
    let sent = wirelapse(&generate).output().unwrap();
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
            wirelapse(&["capture", "-i", "right", "-w", taken.to_str().unwrap(), "--for", "1s"]).output().unwrap();
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
        let child = wirelapse(&["capture", "-i", "right", "-w", file]).stdout(Stdio::piped()).spawn().unwrap();
        let status = format!("/proc/{}/status", child.id());
        let end = Instant::now() + Duration::from_secs(20);
        let effective = loop {
            let status = std::fs::read_to_string(&status).unwrap();
            if status.contains("NoNewPrivs:\t1") || Instant::now() > end {
                break status.lines().find_map(|l| l.strip_prefix("CapEff:\t").map(str::to_owned));
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(effective.unwrap().trim_matches('0'), "");
        let mut child = Killed(child);
        let sent =
            ["generate", "-i", "left", "--rate", "10k/s", "-c", "100", "--method", "sendmmsg", "--yes-this-interface"];
        assert!(wirelapse(&sent).status().unwrap().success());
        // SAFETY: signals a process that this test started and has not waited for.
        assert_eq!(unsafe { libc::kill(child.0.id() as i32, libc::SIGINT) }, 0);
        let mut said = String::new();
        child.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(child.0.wait().unwrap().success());
        assert!(said.contains("none was dropped"), "{said}");
        let shown = Command::new("tshark").args(["-r", file]).output().unwrap();
        assert!(shown.status.success(), "{}", text(&shown.stderr));
    });
}

#[test]
fn what_cannot_be_is_refused_with_status_2() {
    for (words, wanted) in [
        (&["capture", "-i", "nosuch0"][..], "nosuch0"),
        (&["capture", "-i", "lo", "--method", "mmap"], "rx-ring"),
        (&["capture", "-i", "lo", "--timestamps", "both"], "recvmmsg"),
        (&["generate", "-i", "lo", "-c", "1"], "--yes-this-interface"),
        (&["generate", "-i", "nosuch0", "-c", "1", "--yes-this-interface"], "nosuch0"),
        (&["generate", "-i", "lo", "-c", "1", "--size", "40", "--yes-this-interface"], "60 to 9000"),
        (&["generate", "-i", "lo", "-c", "1", "--rate", "fast", "--yes-this-interface"], "--rate"),
    ] {
        let output = wirelapse(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(wanted), "{words:?}: {}", text(&output.stderr));
    }
}
