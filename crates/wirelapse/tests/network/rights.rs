//! What processes keep of root's rights once everything is open, and that their work is done all
//! the same.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use tier::{Need, Process, needs, text, wirelapse};

/// Effective capabilities, `no_new_privs` and the mode of seccomp, of a process or of one of its
/// threads.
#[derive(Debug, PartialEq)]
struct Rights {
    capabilities: u64,
    no_new: bool,
    seccomp: u8,
}

fn rights(status: &str) -> Option<Rights> {
    let status = fs::read_to_string(status).ok()?;
    let field = |name: &str| status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
    Some(Rights {
        capabilities: u64::from_str_radix(&field("CapEff:")?, 16).ok()?,
        no_new: field("NoNewPrivs:")? == "1",
        seccomp: field("Seccomp:")?.parse().ok()?,
    })
}

/// Waits until a process has given up what it gives up last.
fn confined(pid: u32) -> Rights {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let found = rights(&format!("/proc/{pid}/status")).expect("the process runs");
        if found.seccomp == 2 || Instant::now() > end {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn interrupt(child: &Child) {
    // SAFETY: signals a process that its test started and has not waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
}

const KILL: u64 = 1 << 5;
const NET_ADMIN: u64 = 1 << 12;
const SYS_ADMIN: u64 = 1 << 21;
const SYS_NICE: u64 = 1 << 23;

#[test]
fn a_live_analysis_keeps_nothing_and_writes_its_run_for_the_caller_of_sudo() {
    needs!(Need::Root);
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(home.path(), Some(12_345), Some(12_345)).unwrap();
    let run = home.path().join("run");
    let plain = wirelapse!(&["analyze", "-i", "lo", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let found = confined(plain.id());
    let mut plain = Process::from(plain);
    interrupt(&plain);
    let mut said = String::new();
    plain.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(plain.wait().unwrap().success());
    assert!(said.contains("\"kind\":\"capture\""), "{said}");
    assert_eq!(found, Rights { capabilities: 0, no_new: true, seccomp: 2 });

    let mut kept = wirelapse!(&["analyze", "-i", "lo", "-o", run.to_str().unwrap()]);
    let kept = kept.env("SUDO_UID", "12345").env("SUDO_GID", "12345").stdout(Stdio::null()).spawn().unwrap();
    let found = confined(kept.id());
    let mut kept = Process::from(kept);
    interrupt(&kept);
    assert!(kept.wait().unwrap().success());
    let owner = |path: &Path| fs::metadata(path).unwrap().uid();
    assert_eq!((owner(&run), owner(&run.join("run.json"))), (12_345, 12_345));
    assert_eq!(found, Rights { capabilities: 0, no_new: true, seccomp: 2 });
}

/// Real, effective, saved and file user of each thread of a process, once.
fn users(pid: u32) -> Vec<String> {
    let mut found: Vec<String> = fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .filter_map(|task| fs::read_to_string(task.unwrap().path().join("status")).ok())
        .filter_map(|status| Some(status.lines().find_map(|line| line.strip_prefix("Uid:"))?.trim().replace('\t', " ")))
        .collect();
    found.dedup();
    found
}

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/tests/recorded/loss.pcap");
const DECODES: Rights = Rights { capabilities: 0, no_new: true, seccomp: 2 };

#[test]
fn a_file_is_decoded_without_a_right_of_roots() {
    needs!(Need::Root);
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let recorded = fs::read(RECORDED).unwrap();
    // It could not open this one any more when its turn comes.
    let second = folder.path().join("second.pcap");
    fs::write(&second, &recorded).unwrap();
    fs::set_permissions(&second, fs::Permissions::from_mode(0o600)).unwrap();
    for (sudo, user) in [(None, "65534 65534 65534 65534"), (Some("12345"), "12345 12345 12345 12345")] {
        let mut analyze = wirelapse!(&["analyze", "--json", pipe.to_str().unwrap(), second.to_str().unwrap()]);
        if let Some(sudo) = sudo {
            analyze.env("SUDO_UID", sudo).env("SUDO_GID", sudo);
        }
        let analyze = Process::from(analyze.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        // Before anybody has written a byte, and between two bytes.
        assert_eq!((confined(analyze.id()), users(analyze.id())), (DECODES, vec![user.to_owned()]));
        let mut into = fs::File::options().write(true).open(&pipe).unwrap();
        let (first, rest) = recorded.split_at(recorded.len() / 2);
        into.write_all(first).unwrap();
        assert_eq!((confined(analyze.id()), users(analyze.id())), (DECODES, vec![user.to_owned()]));
        into.write_all(rest).unwrap();
        drop(into);
        let output = analyze.output();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(text(&output.stdout).matches("\"kind\":\"capture\"").count(), 2, "{output:?}");
    }
}

#[test]
fn a_capture_is_replayed_without_a_right_of_roots() {
    needs!(Need::Root, Need::Program("ip"));
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let recorded = fs::read(RECORDED).unwrap();
    let mut capture = wire::Capture::from_reader(&recorded[..]).unwrap();
    let mut whole = 0u64;
    while let Some(frame) = capture.next_frame().unwrap() {
        whole += u64::from(frame.original_length as usize == frame.data.len());
    }
    let replayed = || {
        // SAFETY: moves the calling thread alone into a new network namespace.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
        let up = ["link", "set", "lo", "up"];
        assert!(std::process::Command::new("ip").args(up).status().unwrap().success());
        let words = ["generate", "-i", "lo", "--rate", "line", "--yes-this-interface", "--json", "--replay"];
        let words = [&words[..], &[pipe.to_str().unwrap()]].concat();
        let replay = Process::from(wirelapse!(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        // Opening the pipe for writing waits for whoever reads it.
        let mut into = fs::File::options().write(true).open(&pipe).unwrap();
        let (first, rest) = recorded.split_at(recorded.len() / 2);
        for part in [first, rest] {
            let found = (confined(replay.id()), users(replay.id()));
            assert_eq!(found, (DECODES, vec!["65534 65534 65534 65534".to_owned()]));
            into.write_all(part).unwrap();
        }
        drop(into);
        let output = replay.output();
        assert!(output.status.success(), "{output:?}");
        let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((line["frames"].as_u64(), line["dropped"].as_u64()), (Some(whole), Some(0)), "{line}");
    };
    std::thread::scope(|scope| {
        if let Err(panic) = scope.spawn(replayed).join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Holds every process that opens a file, until it is let go (fanotify(7)).
struct Held(fs::File);

impl Held {
    /// `None` where the kernel has no such thing.
    fn on(file: &Path) -> Option<Self> {
        // SAFETY: takes numbers.
        let fd = unsafe { libc::fanotify_init(libc::FAN_CLASS_CONTENT | libc::FAN_CLOEXEC, libc::O_RDONLY as u32) };
        if fd < 0 {
            return None;
        }
        // SAFETY: the call gave it, and nothing else has it.
        let held = Self(unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) });
        let path = std::ffi::CString::new(file.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: takes numbers and a text that outlives the call.
        let marked =
            unsafe { libc::fanotify_mark(fd, libc::FAN_MARK_ADD, libc::FAN_OPEN_PERM, libc::AT_FDCWD, path.as_ptr()) };
        (marked == 0).then_some(held)
    }

    /// Waits until a process opens it; gives that process's number, and the answer to let it go.
    fn opened(&mut self) -> (u32, [u8; 8]) {
        // struct fanotify_event_metadata: the descriptor and the process are its last two fields.
        let mut event = [0; 24];
        self.0.read_exact(&mut event).unwrap();
        let number = |at: usize| i32::from_ne_bytes(event[at..at + 4].try_into().unwrap());
        let (fd, pid) = (number(16), number(20));
        // SAFETY: the kernel opened it for the event.
        drop(unsafe { <fs::File as std::os::fd::FromRawFd>::from_raw_fd(fd) });
        let mut answer = [0; 8];
        answer[..4].copy_from_slice(&fd.to_ne_bytes());
        answer[4..].copy_from_slice(&libc::FAN_ALLOW.to_ne_bytes());
        (pid.cast_unsigned(), answer)
    }
}

/// A run of a workload, in a folder of this user.
fn workload(folder: &Path, owner: u32) -> std::path::PathBuf {
    let mut serve = Process::from(
        wirelapse!(&["serve", "--listen", "127.0.0.1:0", "--json"]).stdout(Stdio::piped()).spawn().unwrap(),
    );
    let mut line = String::new();
    BufReader::new(serve.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let to = line.split('"').find(|word| word.starts_with("127.0.0.1:")).unwrap().to_owned();
    let run = folder.join("run");
    let measured = wirelapse!(&["rr", &to, "--for", "200ms", "-o", run.to_str().unwrap()]).output().unwrap();
    assert!(measured.status.success(), "{measured:?}");
    for path in std::iter::once(run.clone()).chain(fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().path())) {
        chown(&path, Some(owner), Some(owner)).unwrap();
        for inside in fs::read_dir(&path).into_iter().flatten() {
            chown(inside.unwrap().path(), Some(owner), Some(owner)).unwrap();
        }
    }
    run
}

#[test]
fn runs_are_decoded_without_a_right_of_roots_and_shown_where_it_was_asked() {
    const READ_ALL: u64 = 1 << 2;
    needs!(Need::Root);
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Root's own; that of the caller of sudo; and another's, which takes a right to read.
    for (owner, sudo, user, kept) in [
        (0, None, "65534 65534 65534 0", 0),
        (12_345, Some("12345"), "12345 12345 12345 12345", 0),
        (777, None, "65534 65534 65534 0", READ_ALL),
    ] {
        let folder = tempfile::tempdir_in(home.path()).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let run = workload(folder.path(), owner);
        chown(folder.path(), Some(sudo.map_or(0, |_| owner)), None).unwrap();
        let [page, images] = ["page.html", "images"].map(|name| folder.path().join(name));
        let [run_name, page_name, images_name] = [&run, &page, &images].map(|path| path.to_str().unwrap());
        let written = ["--html", page_name, "--svg", images_name];
        for words in [
            [&["report", run_name][..], &written].concat(),
            vec!["report", "--json", run_name],
            [&["compare", run_name, run_name][..], &written].concat(),
        ] {
            let Some(mut held) = Held::on(&run.join("run.json")) else {
                return tier::skip(
                    "runs_are_decoded_without_a_right_of_roots",
                    "no fanotify that holds who opens a file",
                );
            };
            let mut command = wirelapse!(&words);
            if let Some(sudo) = sudo {
                command.env("SUDO_UID", sudo).env("SUDO_GID", sudo);
            }
            let command = Process::from(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
            let (pid, answer) = held.opened();
            let found = (rights(&format!("/proc/{pid}/status")).unwrap(), users(pid));
            held.0.write_all(&answer).unwrap();
            drop(held);
            let output = command.output();
            assert!(output.status.success(), "{words:?}: {output:?}");
            let expected = Rights { capabilities: kept, ..DECODES };
            assert_eq!(found, (expected, vec![user.to_owned()]), "{words:?} of {owner}");
            if words.contains(&"--html") {
                let made: Vec<_> = fs::read_dir(&images).unwrap().map(|entry| entry.unwrap().path()).collect();
                // The comparison of two workloads has no plot.
                assert_eq!(made.is_empty(), words[0] == "compare", "{words:?}");
                let as_asked = sudo.map_or(0, |_| owner);
                for file in made.iter().chain([&page]) {
                    assert_eq!(fs::metadata(file).unwrap().uid(), as_asked, "{}", file.display());
                }
                fs::remove_file(&page).unwrap();
                fs::remove_dir_all(&images).unwrap();
            }
        }
    }
}

#[test]
fn what_is_found_in_a_file_is_written_where_only_root_may() {
    needs!(Need::Root);
    let folder = tempfile::tempdir().unwrap();
    let [capture, copy, page, run] = ["private.pcap", "copy.pcapng", "page.html", "run"].map(|f| folder.path().join(f));
    fs::copy(RECORDED, &capture).unwrap();
    fs::set_permissions(&capture, fs::Permissions::from_mode(0o600)).unwrap();
    let private = |path: &Path| fs::metadata(path).unwrap().mode() & 0o077 == 0;
    // Root's own; another user's, in whose home root without rights may not even look; and as the
    // caller of sudo who may not write there, and who may.
    for (owner, sudo, written_by) in
        [(0, None, 0), (777, None, 0), (777, Some("12345"), 12_345), (12_345, Some("12345"), 12_345)]
    {
        chown(folder.path(), Some(owner), Some(owner)).unwrap();
        let words = [&copy, &page, &run, &capture].map(|path| path.to_str().unwrap());
        let mut analyze =
            wirelapse!(&["analyze", "-c", "1", "--annotate", words[0], "--plot", words[1], "-o", words[2], words[3]]);
        if let Some(sudo) = sudo {
            analyze.env("SUDO_UID", sudo).env("SUDO_GID", sudo);
        }
        let output = analyze.output().unwrap();
        assert!(output.status.success(), "owner {owner}, sudo {sudo:?}: {output:?}");
        for made in [&copy, &page, &run, &run.join("run.json")] {
            assert_eq!(fs::metadata(made).unwrap().uid(), written_by, "{}", made.display());
            assert!(private(made), "{}", made.display());
        }
        fs::remove_file(&copy).unwrap();
        fs::remove_file(&page).unwrap();
        fs::remove_dir_all(&run).unwrap();
    }
}

#[test]
fn a_capture_writes_its_later_files_too_into_the_folder_of_the_caller_of_sudo() {
    needs!(Need::Root);
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(home.path(), Some(12_345), Some(12_345)).unwrap();
    let file = home.path().join("out.pcapng");
    let words = ["capture", "-i", "lo", "-w", file.to_str().unwrap(), "--rotate-count", "1", "--for", "2s"];
    let capture = wirelapse!(&words).env("SUDO_UID", "12345").env("SUDO_GID", "12345").stderr(Stdio::piped()).spawn();
    let mut capture = Process::from(capture.unwrap());
    assert_eq!(confined(capture.id()), Rights { capabilities: 0, no_new: true, seccomp: 2 });
    let to = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..20 {
        to.send_to(b"x", to.local_addr().unwrap()).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut error = String::new();
    capture.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert!(capture.wait().unwrap().success(), "{error}");
    let files: Vec<_> = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() > 2, "{files:?}");
    for file in files {
        assert_eq!(fs::metadata(&file).unwrap().uid(), 12_345, "{}", file.display());
    }
}

/// A lab that is taken down with its owner.
struct Up {
    owner: Process,
    name: String,
}

impl Up {
    fn new(what: &str) -> Self {
        let name = format!("rights-{what}-{}", std::process::id());
        let owner = wirelapse!(&["lab", "up", "--name", &name, "--delay", "1ms", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut owner = Process::from(owner);
        let mut line = String::new();
        BufReader::new(owner.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("\"kind\":\"lab\""), "{line}");
        Self { owner, name }
    }

    fn lab(&self, words: &[&str]) -> Output {
        wirelapse!(&[&["lab"], words].concat()).output().unwrap()
    }
}

/// The processes of this name below `parent`, and it itself.
fn below(parent: u32) -> Vec<u32> {
    let mut found = vec![parent];
    for task in fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(children.split_whitespace().flat_map(|child| below(child.parse().unwrap())));
    }
    found
}

fn named(name: &str, among: &[u32]) -> Vec<u32> {
    let is = |pid: &&u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name);
    among.iter().filter(is).copied().collect()
}

#[test]
fn the_processes_of_a_lab_keep_what_their_work_takes() {
    needs!(Need::Root, Need::Path("/dev/net/tun"), Need::Program("sleep"));
    let up = Up::new("kept");
    let owner = up.owner.id();
    assert_eq!(confined(owner).capabilities, SYS_ADMIN | NET_ADMIN | SYS_NICE);
    let all = below(owner);
    let nothing = Rights { capabilities: 0, no_new: true, seccomp: 2 };
    for holder in ["lab-anchor", "lab-host-a", "lab-host-b"] {
        let [pid] = named(holder, &all)[..] else { panic!("{holder} among {all:?}") };
        assert_eq!(confined(pid), nothing, "{holder}");
    }
    let mut paths = 0;
    for task in fs::read_dir(format!("/proc/{owner}/task")).unwrap().flatten() {
        if fs::read_to_string(task.path().join("comm")).unwrap().starts_with("lab-path-") {
            let found = rights(task.path().join("status").to_str().unwrap()).unwrap();
            assert_eq!(found, Rights { capabilities: SYS_NICE, no_new: true, seccomp: 2 });
            paths += 1;
        }
    }
    assert_eq!(paths, 2);

    // A program inside has all of its rights; the process between it and the shell hands on signals
    // alone.
    let host = format!("{}:a", up.name);
    let program = wirelapse!(&["lab", "exec", &host, "--", "sleep", "600"]).spawn().unwrap();
    let mut program = Process::from(program);
    let sleep = tier::until_some("the program inside", || match named("sleep", &below(program.id()))[..] {
        [pid] => Some(pid),
        _ => None,
    });
    let supervisor = rights(&format!("/proc/{}/status", program.id())).unwrap();
    assert_eq!((supervisor.capabilities, supervisor.no_new), (KILL, true));
    let whole = rights(&format!("/proc/{sleep}/status")).unwrap();
    assert!(whole.capabilities & SYS_ADMIN != 0 && !whole.no_new, "{whole:?}");
    // SAFETY: signals a process that this test started and has not waited for.
    assert_eq!(unsafe { libc::kill(program.id() as i32, libc::SIGTERM) }, 0);
    let ended = program.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(libc::SIGTERM));

    // The owner counts, changes and takes down as before.
    let listed = up.lab(&["list", "--json"]);
    assert!(text(&listed.stdout).contains(&up.name), "{listed:?}");
    let changed = up.lab(&["change", &up.name, "--delay", "2ms", "--json"]);
    assert!(changed.status.success(), "{}", text(&changed.stderr));
    let down = up.lab(&["down", &up.name]);
    assert!(down.status.success(), "{}", text(&down.stderr));
    assert!(!text(&up.lab(&["list"]).stdout).contains(&up.name));
    let left: Vec<String> = fs::read_dir("/run/wirelapse/labs")
        .map(|entries| entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    assert!(left.iter().all(|file| !file.starts_with(&up.name)), "{left:?}");
}
