//! Names, files and places that mean no good: nothing steers the terminal, nothing hangs or takes
//! all memory, and a disk that is full is said.

use crate::limited;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tier::{Need, needs, text};

/// Clears the screen, sets the title (OSC), moves (a C1 control), and turns the text around
/// (U+202E, U+2066).
const STEERS: &str = "\u{1b}[2J\u{1b}]0;own\u{7}\u{9b}5A\u{202e}txt\u{2066}";

fn wirelapse(words: &[&str]) -> Command {
    let mut command = tier::wirelapse!(words);
    command.stdin(Stdio::null());
    command
}

/// What a command says, on both of its outputs.
fn said(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

/// Runs a command that has to end by itself, in 2 GiB of address space. Its output is short.
fn ended(mut command: Command) -> Output {
    static MEMORY: libc::rlimit = libc::rlimit { rlim_cur: 2 << 30, rlim_max: 2 << 30 };
    // SAFETY: a system call on a constant, between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::setrlimit(libc::RLIMIT_AS, &raw const MEMORY);
            Ok(())
        });
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ended = tier::wait_for(|| child.try_wait().unwrap().is_some());
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(ended, "{command:?} goes on: {}", said(&output));
    output
}

#[test]
fn no_word_of_a_command_line_steers_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join(format!("{STEERS}.toml"));
    fs::write(&plan, "name = \"\\u001b[2J\\u009b5A\\u202e\"\n[factors]\nsocket = [\"default\", \"nodelay\"]\n")
        .unwrap();
    let file = folder.path().join(STEERS);
    fs::write(&file, "no capture").unwrap();
    let run = folder.path().join(format!("run-{STEERS}"));
    fs::create_dir(&run).unwrap();
    fs::write(run.join("run.json"), "{}").unwrap();
    let [plan, file, run] = [&plan, &file, &run].map(|path| path.to_str().unwrap());
    let option = format!("--{STEERS}");
    let host = format!("{STEERS}:a");
    for words in [
        // What clap says of them.
        &[STEERS][..],
        &["analyze", &option],
        &["trace", "--for", STEERS],
        &["generate", "-i", "lo", "--rate", STEERS],
        &["stream", STEERS],
        &["serve", "--listen", STEERS],
        &["completions", STEERS],
        &["study", "timestamps", "--until", STEERS],
        // What the commands say.
        &["analyze", file],
        &["analyze", file, file],
        &["compare", file, file],
        &["report", run],
        &["report", file],
        &["report", run, "--html", &format!("/no/{STEERS}")],
        &["study", plan, "--dry-run"],
        &["study", STEERS],
        &["study", file],
        &["ping-under-load", "--read", file],
        &["capture", "-i", STEERS],
        &["delay", "--before", file, "--after", run],
        &["lab", "exec", &host, "--", "true"],
        &["lab", "down", STEERS],
        &["serve", "--listen", "127.0.0.1:0", "--token-file", STEERS],
        &["rr", "127.0.0.1:1", "--tls-ca", STEERS],
        &["probe", "tcp", STEERS],
    ] {
        let output = wirelapse(words).output().unwrap();
        let said = said(&output);
        let steers = said.find(|c: char| paper::steers(c) && !matches!(c, '\n' | '\t'));
        assert_eq!(steers, None, "{words:?}: {said:?}");
        assert!(!said.is_empty(), "{words:?}");
        assert_eq!(output.status.success(), words.contains(&"--dry-run"), "{words:?}: {said}");
    }
    let renamed = wirelapse(&["no such"]).arg0(STEERS).output().unwrap();
    assert!(!said(&renamed).contains(|c: char| paper::steers(c) && c != '\n'), "{renamed:?}");
    // Colours of clap's own stay where nothing foreign is.
    let plain = wirelapse(&["no-such"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(text(&plain.stderr).contains("\u{1b}["), "{plain:?}");
}

/// Runs commands, and finds nothing in what they say and write that steers a terminal: as text, as
/// CSV, as JSON and as a page.
fn steers_nothing(commands: &[&[&str]]) {
    let page = tempfile::NamedTempFile::new().unwrap();
    let html = page.path().to_str().unwrap();
    let forms = [&[][..], &["--csv"], &["--json"], &["--force", "--html", html], &["--force", "--plot", html]];
    for words in commands {
        // What the program that is traced gets ends the words.
        let at = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        let mut taken = 0;
        for form in forms {
            fs::write(html, "").unwrap();
            let words = [&words[..at], form, &words[at..]].concat();
            let output = wirelapse(&words).output().unwrap();
            if output.status.code() == Some(2) && !form.is_empty() {
                // The command has no such form.
                continue;
            }
            let said = said(&output) + &fs::read_to_string(html).unwrap();
            let steers = said.find(|c: char| paper::steers(c) && !matches!(c, '\n' | '\t'));
            // CSV ends its lines as RFC 4180 says.
            let ends = form == ["--csv"] && !said.replace("\r\n", "").contains(|c: char| paper::steers(c) && c != '\n');
            assert!(steers.is_none() || ends, "{words:?}: {said:?}");
            assert!(output.status.success() && !said.is_empty(), "{words:?}: {said}");
            taken += 1;
        }
        assert!(taken > 0, "{words:?}");
    }
}

#[test]
fn no_word_of_a_capture_steers_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcapng");
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/tests/recorded/loss.pcap");
    let mut capture = wire::Capture::from_reader(fs::File::open(recorded).unwrap()).unwrap();
    let mut writer = wire::capture::PcapngWriter::new(fs::File::create(&path).unwrap(), STEERS).unwrap();
    let steers = || Some(STEERS.to_owned());
    let of = wire::capture::Interface {
        name: steers(),
        description: steers(),
        filter: steers(),
        ..capture.interfaces()[0].clone()
    };
    writer.interfaces(&[of]).unwrap();
    while let Some(frame) = capture.next_frame().unwrap() {
        writer.frame(&frame, &[STEERS]).unwrap();
    }
    writer.finish().unwrap();
    let path = path.to_str().unwrap();
    let run = folder.path().join(format!("run{STEERS}"));
    let run = run.to_str().unwrap();
    steers_nothing(&[
        &["analyze", path],
        &["analyze", path, "--story"],
        &["analyze", path, "--dump"],
        &["analyze", path, "-c", "1"],
    ]);
    assert!(wirelapse(&["analyze", path, "-o", run]).status().unwrap().success());
    steers_nothing(&[&["report", run], &["compare", path, path]]);
}

#[test]
fn no_name_of_a_program_or_a_data_file_steers_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let flent = folder.path().join("a.flent");
    let names = serde_json::json!({
        "version": 4, "metadata": {"NAME": STEERS, "TITLE": STEERS, "HOST": STEERS, "TIME": STEERS},
        "x_values": [0.0], "results": {STEERS: [1.0]},
    });
    fs::write(&flent, names.to_string()).unwrap();
    let flent = flent.to_str().unwrap();
    steers_nothing(&[&["ping-under-load", "--read", flent]]);

    needs!(Need::Root, Need::Path("/sys/kernel/btf/vmlinux"), Need::Path("/bin/bash"));
    // A name of 15 bytes at most.
    let program = folder.path().join("\u{1b}[2J\u{9b}5A\u{202e}x");
    fs::copy("/bin/bash", &program).unwrap();
    let program = program.to_str().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // For as long as the commands take.
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; for i in 1 2 3 4 5; do echo $i >&3; sleep 0.02; done");
    let run = folder.path().join("run");
    let run = run.to_str().unwrap();
    assert!(wirelapse(&["trace", "-o", run, "--", program, "-c", &script]).status().unwrap().success());
    steers_nothing(&[&["trace", "--", program, "-c", &script], &["report", run], &["compare", run, run]]);
    let endless = script.replace("1 2 3 4 5", "{1..2000}");
    let mut sender = tier::Process::from(Command::new(program).args(["-c", &endless]).spawn().unwrap());
    steers_nothing(&[
        &["top", "--by", "program", "--port", &port.to_string(), "--once"],
        &["top", "--by", "program", "--port", &port.to_string(), "--once", "--for", "1s"],
    ]);
    sender.kill().unwrap();
}

#[test]
fn what_does_not_end_is_not_read_to_its_end() {
    needs!(Need::Program("mkfifo"));
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let pipe = |name: &str| {
        assert!(Command::new("mkfifo").arg(folder.path().join(name)).status().unwrap().success());
        path(name)
    };
    let link = |name: &str| {
        std::os::unix::fs::symlink("/dev/zero", folder.path().join(name)).unwrap();
        path(name)
    };
    for run in ["endless", "waits", "huge"] {
        fs::create_dir(path(run)).unwrap();
    }
    link("endless/run.json");
    pipe("waits/run.json");
    fs::File::create(path("huge/run.json")).unwrap().set_len(1 << 40).unwrap();
    let runs = ["endless", "waits", "huge"].map(path);
    let (zero, fifo) = (link("zero.toml"), pipe("fifo.pcap"));
    fs::write(path("empty"), "").unwrap();
    let (empty, here) = (path("empty"), folder.path().to_str().unwrap());
    for words in [
        &["report", &runs[0]][..],
        &["report", &runs[1]],
        &["report", &runs[2]],
        &["compare", &runs[0], &runs[1]],
        &["study", "--resume", &runs[0]],
        &["study", "--resume", &runs[1]],
        &["study", &zero, "--dry-run"],
        &["study", "/dev/zero", "--dry-run"],
        &["analyze", "/dev/zero"],
        &["analyze", &empty],
        &["analyze", here],
        &["delay", "--before", &fifo, "--after", &empty],
        &["ping-under-load", "--read", "/dev/zero"],
        &["serve", "--listen", "127.0.0.1:0", "--token-file", "/dev/zero"],
        &["serve", "--listen", "127.0.0.1:0", "--tls-cert", "/dev/zero", "--tls-key", "/dev/zero"],
        &["rr", "127.0.0.1:1", "--token-file", "/dev/zero"],
    ] {
        let output = ended(wirelapse(words));
        let said = said(&output);
        assert!(output.status.code() == Some(2) && !said.contains("panicked"), "{words:?}: {:?} {said}", output.status);
        assert!(!said.contains("out of memory"), "{words:?}: {said}");
    }
    // What a shell puts in the place of a file is a pipe, and is read.
    let run = "printf 't\\n' | exec \"$0\" rr 127.0.0.1:1 --token-file /dev/stdin";
    let output = Command::new("sh").args(["-c", run, env!("CARGO_BIN_EXE_wirelapse")]).output().unwrap();
    assert!(text(&output.stderr).contains("refused"), "{output:?}");
}

#[test]
fn a_reader_that_has_gone_ends_a_command_quietly() {
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/connections");
    let files: Vec<String> = fs::read_dir(capture)
        .unwrap()
        .map(|entry| entry.unwrap().path().to_str().unwrap().to_owned())
        .filter(|path| wirelapse(&["analyze", path]).output().unwrap().status.success())
        .take(3)
        .collect();
    assert_eq!(files.len(), 3);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    for words in [
        &[&["analyze"], &files[..]].concat()[..],
        &[&["analyze", "--json"], &files[..]].concat(),
        &[&["analyze", "--story"], &files[..]].concat(),
        &["doctor"],
        &["doctor", "--json"],
        &["completions", "bash"],
        &["man"],
        &["lab", "list"],
        &["study", "timestamps", "--dry-run"],
        &["--help"],
        &["serve", "--listen", "127.0.0.1:0", "--tls-cert", "/none", "--tls-key", "/none"],
    ] {
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        let output = wirelapse(words).stdout(write).stderr(Stdio::piped()).output().unwrap();
        assert!(!text(&output.stderr).contains("panicked"), "{words:?}: {}", text(&output.stderr));
        assert!(output.status.code().is_some(), "{words:?}: {:?}", output.status);
    }
}

/// Runs the shell script `script` with a full disk of `size` at `$D`, and the command as `$0`.
fn on_a_full_disk(script: &str, size: &str, folder: &Path, arguments: &[&OsStr]) -> Output {
    let whole = format!("set -e; mount -t tmpfs -o size={size} none \"$D\"; set +e; {script}");
    let mut shell = Command::new("unshare");
    shell.args(["-m", "sh", "-c", &whole, env!("CARGO_BIN_EXE_wirelapse")]).args(arguments).env("D", folder);
    shell.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_full_disk_is_said_with_the_file_and_leaves_nothing_half_written() {
    needs!(Need::Root, Need::Program("unshare"), Need::Program("mount"));
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("in.pcap");
    let mut bytes = Vec::new();
    let traffic = wire::generate::Traffic {
        pattern: wire::generate::Pattern::Mixed,
        packets: 4_000,
        connections: 20,
        seed: 1,
        loss_one_in: 50,
    };
    wire::generate::write_traffic(&mut bytes, &traffic).unwrap();
    fs::write(&capture, bytes).unwrap();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    for (words, left) in [
        ("analyze \"$1\" --annotate \"$D/out.pcapng\"", ""),
        ("analyze \"$1\" -c 1 --plot \"$D/out.html\"", ""),
        ("analyze \"$1\" -c 1 --plot \"$D/out.svg\"", ""),
        ("compare \"$1\" \"$1\" --html \"$D/out.html\"", ""),
        ("delay --before \"$1\" --after \"$D/../in.pcap\" --match content --html \"$D/out.html\"", ""),
        // Of a run, what is whole stays.
        ("analyze \"$1\" -o \"$D/out\"", "out"),
    ] {
        let script = format!("\"$0\" {words} > /dev/null; echo \"status $?\"; ls -A \"$D\"");
        let output = on_a_full_disk(&script, "4k", &disk, &[capture.as_os_str()]);
        let (listed, error) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(listed.trim_end(), format!("status 1\n{left}").trim_end(), "{words}: {error}");
        assert!(error.contains("No space left") && error.contains("disk/out"), "{words}: {error}");
    }
    // Nor an empty run, which would keep its name from the next try.
    for words in [
        "\"$0\" analyze \"$1\" -o \"$D/out\"",
        "\"$0\" study small-messages --quick -o \"$D/out\"",
        // Interrupted, it keeps what it has.
        "timeout --foreground --preserve-status -s INT 6 \"$0\" study reception --quick -o \"$D/out\"",
        "\"$0\" delay --before \"$1\" --after \"$D/../in.pcap\" --match content --calibrate \"$D/out\"",
        "\"$0\" trace --port 9 --for 1s -o \"$D/out\"",
    ] {
        let script =
            format!("cat /dev/zero > \"$D/full\" 2> /dev/null; {words} > /dev/null; echo \"status $?\"; ls -A \"$D\"");
        let output = on_a_full_disk(&script, "4k", &disk, &[capture.as_os_str()]);
        let error = text(&output.stderr);
        assert_eq!(text(&output.stdout).trim_end(), "status 1\nfull", "{words}: {error}");
        assert!(error.contains("No space left") && error.contains("disk/out"), "{words}: {error}");
    }
    // Standard output, whose lines would be missed, and the descriptor that is waited for.
    for (words, what) in [
        ("analyze \"$1\" --json > /dev/full", "standard output"),
        ("serve --listen 127.0.0.1:0 --json > /dev/full", "standard output"),
        ("trace --port 9 --for 1s --ready-fd 3 3> /dev/full", "--ready-fd"),
        ("lab up --name full-$$ --delay 1ms --json > /dev/full", "standard output"),
    ] {
        let output = on_a_full_disk(&format!("\"$0\" {words}"), "4k", &disk, &[capture.as_os_str()]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words}: {error}");
        assert!(error.contains("No space left") && error.contains(what), "{words}: {error}");
    }
}

/// Everything that a command might look for, from a folder of a user.
#[test]
fn root_starts_no_program_from_the_path_of_a_user() {
    use std::os::unix::fs::PermissionsExt as _;
    needs!(Need::Root);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let traps = ["tput", "stty", "xdg-open", "less", "more", "ip", "tc", "sh", "uname", "modprobe", "wirelapse-query"];
    for trap in traps {
        let file = folder.path().join(trap);
        fs::write(&file, format!("#!/bin/sh\necho $0 $* >> {}\n", log.display())).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/tests/recorded/loss.pcap");
    let (run, page) = (folder.path().join("run"), folder.path().join("page.html"));
    let (run, page) = (run.to_str().unwrap(), page.to_str().unwrap());
    for words in [
        &["doctor"][..],
        &["analyze", capture, "-o", run],
        &["report", run],
        &["report", run, "--html", page, "--open"],
        &["compare", capture, capture],
        &["query", "--list"],
        &["lab", "list"],
        &["study", "timestamps", "--dry-run"],
        &["capture", "-i", "lo", "--for", "100ms"],
        &["trace", "--all", "--for", "100ms"],
        &["stream", "127.0.0.1:1"],
        &["--help"],
    ] {
        let output = wirelapse(words).env("PATH", folder.path()).stdin(Stdio::null()).output().unwrap();
        let started = fs::read_to_string(&log).unwrap_or_default();
        assert_eq!(started, "", "{words:?}: {}", text(&output.stderr));
    }
}

#[test]
fn no_planted_link_is_written_through_and_what_is_written_belongs_to_the_caller_of_sudo() {
    use std::os::unix::fs::MetadataExt as _;
    needs!(Need::Root);
    let folder = tempfile::tempdir().unwrap();
    let [victim, planted] = ["victim", "t.perfetto"].map(|name| folder.path().join(name));
    fs::write(&victim, "kept").unwrap();
    std::os::unix::fs::symlink(&victim, &planted).unwrap();
    let mut trace = wirelapse(&["trace", "--force", "--perfetto"]);
    let output = trace.arg(&planted).args(["--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");

    let page = folder.path().join("page.html");
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/tests/recorded/loss.pcap");
    let mut compare = wirelapse(&["compare", capture, capture, "--html"]);
    let output = compare.arg(&page).envs([("SUDO_UID", "1234"), ("SUDO_GID", "1235")]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = fs::metadata(&page).unwrap();
    assert_eq!((page.uid(), page.gid()), (1234, 1235));
}

#[test]
fn without_threads_nothing_panics_and_an_analysis_is_the_same() {
    needs!(Need::Root);
    let test = "without_threads_nothing_panics_and_an_analysis_is_the_same";
    let skip = || tier::skip(test, "needs a cgroup controller of processes");
    let Some(group) = tier::PidsCgroup::new("threads", 2) else { return skip() };
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("in.pcap");
    let mut bytes = Vec::new();
    let traffic = wire::generate::Traffic {
        pattern: wire::generate::Pattern::Mixed,
        packets: 40_000,
        connections: 200,
        seed: 1,
        loss_one_in: 100,
    };
    wire::generate::write_traffic(&mut bytes, &traffic).unwrap();
    assert!(bytes.len() > 1 << 20, "{} bytes are read by one thread", bytes.len());
    fs::write(&capture, bytes).unwrap();
    let analyze = ["analyze", "--json", "--threads", "8", capture.to_str().unwrap()];
    let (free, limited) = (
        wirelapse(&analyze).output().unwrap(),
        group.command(env!("CARGO_BIN_EXE_wirelapse"), &analyze).output().unwrap(),
    );
    assert!(limited.status.success() && limited.stdout == free.stdout, "{}", text(&limited.stderr));
    assert!(text(&free.stderr).is_empty() && text(&limited.stderr).contains("2 of 8 threads"), "{limited:?}");
    // A user's own limit (RLIMIT_NPROC) likewise.
    fs::set_permissions(&capture, fs::Permissions::from_mode(0o644)).unwrap();
    let limited = limited::with_threads(folder.path(), 2, &analyze).output().unwrap();
    assert!(limited.status.success() && limited.stdout == free.stdout, "{}", text(&limited.stderr));
    assert!(text(&limited.stderr).contains("2 of 8 threads"), "{limited:?}");

    let mut server = wirelapse(&["serve", "--listen", "127.0.0.1:0", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.as_mut().unwrap()), &mut line).unwrap();
    let address = line.split('"').find(|word| word.starts_with("127.0.0.1:")).expect("an address").to_owned();
    for words in [
        &["stream", &address, "--for", "300ms", "-P", "8"][..],
        &["rr", &address, "--for", "300ms", "-c", "16"],
        &["crr", &address, "--for", "300ms", "-c", "16"],
        &["udp", &address, "--for", "300ms"],
        &["ping-under-load", &address, "--before", "100ms", "--for", "300ms", "--after", "100ms"],
        &["doctor"],
        &["capture", "-i", "lo", "--for", "100ms"],
        &["analyze", "-i", "lo", "--for", "100ms"],
        &["watch", "srtt", "--for", "100ms"],
        &["trace", "--all", "--for", "100ms"],
        &["trace", "--", "true"],
        &["generate", "-i", "lo", "--count", "1"],
        &["lab", "exec", "none:a", "--", "true"],
        &["study", "reception", "--quick"],
        &["study", "overhead", "--quick"],
        &["serve", "--listen", "127.0.0.1:0"],
    ] {
        let mut limited = group.command(env!("CARGO_BIN_EXE_wirelapse"), words);
        // A server that could start goes on, and is ended.
        let mut child = limited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let most = Duration::from_secs(if words[0] == "serve" { 1 } else { 60 });
        let waited = tier::wait_within(most, || child.try_wait().unwrap().is_some());
        child.kill().ok();
        let said = said(&child.wait_with_output().unwrap());
        assert!(waited || words[0] == "serve", "{words:?} goes on: {said}");
        assert!(!said.contains("panicked"), "{words:?}: {said}");
    }
    server.kill().unwrap();
    server.wait().unwrap();
}
