//! What the documentation tells people to type is what the command takes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use crate::shown::{block_lines, blocks, copy_run, pages, prompt, words};

/// The text of every code span of a page, outside its blocks; in a table `\|` is a bar.
fn spans(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut block = false;
    for (number, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            block = !block;
        } else if !block {
            found.extend(line.split('`').skip(1).step_by(2).map(|span| (number + 1, span.replace("\\|", "|"))));
        }
    }
    found
}

/// The words with a value for each placeholder that stands for a number, a time or a choice.
fn with_values(words: Vec<String>) -> Vec<String> {
    let value = |word: String| match word.trim_end_matches('…') {
        "PID" | "N" => "1".to_owned(),
        "TIME" => "10s".to_owned(),
        "CIDR" => "192.0.2.0/24".to_owned(),
        "SHELL" => "bash".to_owned(),
        "FIELD" => "srtt".to_owned(),
        choice if choice.contains('|') && !choice.starts_with('-') => {
            choice.split('|').next().unwrap_or_default().to_owned()
        }
        other => other.to_owned(),
    };
    words.into_iter().map(value).collect()
}

/// Runs the command with `--help` after its options: clap looks at each word before it prints help,
/// and runs nothing.
fn help(words: &[String]) -> Output {
    let options = words.iter().position(|word| word == "--").unwrap_or(words.len());
    tier::wirelapse!(&words[1..options]).arg("--help").args(&words[options..]).output().expect("wirelapse can be run")
}

#[test]
fn every_command_line_of_the_documentation_is_taken() {
    let mut tried = 0;
    let mut refused = Vec::new();
    for (path, page) in pages() {
        let spans = spans(&page).into_iter().filter(|(_, span)| span.starts_with("wirelapse "));
        for (number, line) in block_lines(&page).into_iter().chain(spans) {
            let output = help(&with_values(words(&line)));
            tried += 1;
            if !output.status.success() {
                let error = tier::text(&output.stderr);
                refused.push(format!(
                    "{}:{number}: {line}\n    {}",
                    path.display(),
                    error.lines().next().unwrap_or_default()
                ));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(tried > 30, "only {tried} command lines were found");
}

/// What README and the guides do with captures and runs is done, in the order of each page, with a
/// capture and a run of our own under the names that the pages use. What needs a live target is
/// only parsed, above.
#[test]
fn the_guides_steps_on_files_are_done() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut done = 0;
    for (path, page) in pages() {
        if !path.ends_with("README.md") && !path.parent().is_some_and(|folder| folder.ends_with("guides")) {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        for (number, line) in block_lines(&page) {
            let mut words = words(&line);
            if !["analyze", "report", "compare"].contains(&words[1].as_str()) {
                continue;
            }
            // Takes the runs of two hosts: compare_hosts.rs has them.
            if words.iter().any(|word| word == "--join") {
                continue;
            }
            let place = format!("{}:{number}: {line}", path.display());
            let written = words.iter().position(|word| word.starts_with("--")).unwrap_or(words.len());
            let compared = words[1] == "compare";
            let named = if compared { 2..words.len() } else { 2..written.min(3) };
            // FILE#N is a connection of a file.
            let files = words[named].iter().map(|name| name.split('#').next().unwrap_or(name));
            for name in files.filter(|name| *name != "--") {
                let here = folder.path().join(name);
                if here.exists() {
                    continue;
                }
                if name.contains('.') {
                    fs::copy(root.join("crates/wire/tests/recorded/loss.pcap"), here).expect("a capture");
                } else {
                    copy_run(&root.join("docs/pictures/run"), &here);
                }
            }
            let output =
                tier::wirelapse!(words.split_off(1)).current_dir(folder.path()).output().expect("wirelapse runs");
            assert!(output.status.success(), "{place}: {}", tier::text(&output.stderr));
            assert!(!output.stdout.is_empty(), "{place}: it shows nothing");
            done += 1;
        }
    }
    assert!(done >= 10, "{done} commands were done");
}

/// Words with `#` in place of figures with their units and bounds (`> 99.9 %`), which differ from
/// one run to the next.
fn shape(words: &str) -> String {
    let units = ["ns", "µs", "ms", "s", "%"];
    let is_figure = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let mut shape: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        let (bare, mark) = word.split_at(word.trim_end_matches([',', '.', ':', ';', ')']).len());
        if is_figure(bare) {
            shape.pop_if(|last| last == ">" || last == "<");
            shape.push(format!("#{mark}"));
        } else if units.contains(&bare) && shape.last().is_some_and(|last| last == "#") {
            shape.pop();
            shape.push(format!("#{mark}"));
        } else {
            shape.push(word.to_owned());
        }
    }
    shape.join(" ")
}

/// What blocks show below a command: page, command, lines of output.
fn shown_outputs() -> Vec<(PathBuf, String, Vec<String>)> {
    let mut found: Vec<(PathBuf, String, Vec<String>)> = Vec::new();
    for (path, page) in pages() {
        for (_, _, text) in blocks(&page) {
            let mut below = false;
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                if let Some(command) = prompt(line).filter(|_| !line.starts_with('#')) {
                    found.push((path.clone(), command.to_owned(), Vec::new()));
                    below = true;
                } else if below {
                    found.last_mut().expect("a command stands above").2.push(line.to_owned());
                }
            }
        }
    }
    found.retain(|(_, _, output)| !output.is_empty());
    found
}

/// The commands whose output pages show: the trace of a server in README, compared below with that
/// of one here; and a mistake in SQL, which the tests of `wirelapse query` compare.
#[test]
fn every_output_that_is_shown_is_compared() {
    let commands: Vec<String> = shown_outputs().into_iter().map(|(_, command, _)| words(&command).join(" ")).collect();
    let compared = [
        "sudo wirelapse trace --comm nginx --for 10s",
        "wirelapse query --runs /var/lib/wirelapse SELECT totl_ns FROM sends",
    ];
    assert_eq!(commands, compared, "a page shows an output that no test compares with a real one");
}

/// What README shows of a trace has the words of a trace of a server here that answers at once.
#[test]
fn the_output_that_readme_shows_has_the_words_of_a_real_one() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/sys/kernel/btf/vmlinux"));
    let (_, _, shown) = shown_outputs().remove(0);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut client = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
    let (mut server, _) = listener.accept().expect("a connection");
    [&client, &server].into_iter().for_each(|socket| socket.set_nodelay(true).expect("no delay"));
    let port = listener.local_addr().expect("its address").port().to_string();
    let (mut ready, said) = std::io::pipe().expect("a pipe");
    let tracer = tier::command("sh")
        .args(["-c", "exec \"$0\" \"$@\" --ready-fd 3 3>&2 2>/dev/null", env!("CARGO_BIN_EXE_wirelapse"), "trace"])
        .args(["--full", "--port", &port])
        .stdout(Stdio::piped())
        .stderr(said)
        .spawn()
        .expect("a tracer");
    ready.read_to_string(&mut String::new()).expect("that it observes");
    for _ in 0..50 {
        client.write_all(&[0; 100]).expect("bytes are taken");
        server.read_exact(&mut [0; 100]).expect("bytes come");
        server.write_all(&[0; 3_000]).expect("bytes are taken");
        client.read_exact(&mut [0; 3_000]).expect("bytes come");
    }
    // As in README's trace the sends take a small part of the time, also on a busy machine.
    std::thread::sleep(std::time::Duration::from_secs(2));
    // An end that the other side has seen acknowledges all before it.
    client.shutdown(Shutdown::Write).expect("an end");
    assert_eq!(server.read(&mut [0]).expect("an end"), 0);
    drop(server);
    assert_eq!(client.read(&mut [0]).expect("an end"), 0);
    drop(client);
    // SAFETY: a signal to the tracer, which has not been waited for.
    unsafe { libc::kill(tracer.id().cast_signed(), libc::SIGINT) };
    let real = tracer.wait_with_output().expect("a report");
    let real = shape(&tier::text(&real.stdout));
    for part in shown.iter().flat_map(|line| line.split('…')).map(shape) {
        assert!(
            real.contains(&part),
            "README shows `{part}`, and a trace says:
{real}"
        );
    }
}

/// Every plan, topology and schedule that a page shows is one that the command takes.
#[test]
fn the_files_that_pages_show_are_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut plans = 0;
    for (path, page) in pages() {
        for (number, kind, text) in blocks(&page) {
            if kind != "toml" || !text.contains("repetitions") {
                continue;
            }
            let plan = folder.path().join("plan.toml");
            fs::write(&plan, text).expect("a plan");
            let output = tier::wirelapse!(&["study", plan.to_str().expect("a path"), "--dry-run"]).output();
            let output = output.expect("wirelapse can be run");
            assert!(output.status.success(), "{}:{number}: {}", path.display(), tier::text(&output.stderr));
            plans += 1;
        }
    }
    assert!(plans >= 3, "{plans} plans");
}

/// The topology and the schedule that docs/lab.md shows make a lab.
#[test]
fn the_topology_and_the_schedule_that_the_docs_show_make_a_lab() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let (_, page) = pages().into_iter().find(|(path, _)| path.ends_with("docs/lab.md")).expect("docs/lab.md");
    let folder = tempfile::tempdir().expect("a folder");
    for (option, begin) in [("--topology", "hosts = "), ("--schedule", "time,delay,")] {
        let (_, _, text) =
            blocks(&page).into_iter().find(|(_, _, text)| text.starts_with(begin)).expect("a block with it");
        let file = folder.path().join("file");
        fs::write(&file, text).expect("a file");
        let name = format!("docs{}", std::process::id());
        let args = ["lab", "up", "-d", "--name", &name, option, file.to_str().expect("a path")];
        let up = tier::wirelapse!(&args).output().expect("wirelapse can be run");
        assert!(up.status.success(), "{option}: {}", tier::text(&up.stderr));
        let down = tier::wirelapse!(&["lab", "down", &name]).output().expect("wirelapse can be run");
        assert!(down.status.success(), "{option}: {}", tier::text(&down.stderr));
    }
}

#[test]
fn every_option_of_the_documentation_is_one() {
    // Of other programs: iperf3, tcpdump, cargo, this repository's scripts and examples.
    let others = [
        "--bidir",
        "--authorized-users-path",
        "--number",
        "--ignored",
        "--nocapture",
        "--nics",
        "--limit",
        "--report",
        "--write",
        "--check",
        "--rr",
        "--cases",
        "--record",
        "--flavour",
        "--image",
    ];
    let mut known: BTreeSet<String> = others.map(str::to_owned).into();
    let commands = String::from_utf8(help(&["wirelapse".to_owned()]).stdout).expect("help is text");
    let names = commands.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = names
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    for name in names.chain(["lab up", "lab change", "lab down", "lab exec", "lab list"]) {
        if name == "help" {
            continue;
        }
        let words: Vec<String> = ["wirelapse"].into_iter().chain(name.split(' ')).map(str::to_owned).collect();
        let text = String::from_utf8(help(&words).stdout).expect("help is text");
        assert!(text.contains("Usage:"), "{name} has help");
        known.extend(
            text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '-'))
                .filter(|word| word.starts_with("--"))
                .map(str::to_owned),
        );
    }
    let mut unknown = Vec::new();
    for (path, page) in pages() {
        for (number, span) in spans(&page) {
            let option = span.split([' ', '=', '[']).next().unwrap_or_default();
            if option.len() > 2 && option.starts_with("--") && !known.contains(option) {
                unknown.push(format!("{}:{number}: {span}", path.display()));
            }
        }
    }
    assert!(unknown.is_empty(), "no command has these options:\n{}", unknown.join("\n"));
}

#[test]
fn what_no_command_takes_is_refused() {
    for line in [
        "wirelapse trace --no-such-option",
        "wirelapse trace --port http",
        "wirelapse no-such-command",
        "wirelapse rr HOST --rate fast",
    ] {
        assert_eq!(help(&words(line)).status.code(), Some(2), "{line}");
    }
    assert_eq!(words("wirelapse trace -- 'a b' \"c\"  on the terminal"), ["wirelapse", "trace", "--", "a b", "c"]);
    assert_eq!(words("wirelapse trace --json | jq -c ."), ["wirelapse", "trace", "--json"]);
}

/// What follows `before` within quotes, each time that it occurs in a text.
fn quoted<'a>(text: &'a str, before: &str) -> Vec<&'a str> {
    text.split(before).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// The text of every source below a folder, without the tests at its end.
fn sources(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            all.push(text.split("#[cfg(test)]").next().unwrap_or_default().to_owned());
        }
    }
    all
}

#[test]
fn programs_that_are_started_are_documented_and_found_where_root_may_find_them() {
    let workspace = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let page = fs::read_to_string(workspace.join("docs/privileges.md")).expect("the page");
    let (_, listed) = page.split_once("## Programs that are started").expect("its list");
    let mut started = BTreeSet::new();
    for folder in fs::read_dir(workspace.join("crates")).expect("the crates") {
        let folder = folder.expect("a crate").path();
        if ["tier", "truth", "synthetic"].iter().any(|tests| folder.ends_with(tests)) {
            continue;
        }
        for text in sources(&folder.join("src")) {
            // A name alone would be looked for in PATH, which may be a user's.
            for program in quoted(&text, "Command::new(\"") {
                assert!(program.starts_with('/'), "{}: {program} is started by PATH", folder.display());
            }
            if text.contains("programs::find(") {
                for by in ["program(\"", "find(\""] {
                    started.extend(quoted(&text, by).into_iter().map(str::to_owned));
                }
            }
        }
    }
    assert!(started.len() >= 3, "{started:?}");
    for program in &started {
        assert!(listed.contains(&format!("`{program}`")), "docs/privileges.md does not list {program}");
    }
}

#[test]
fn names_of_others_steer_no_terminal() {
    for args in [["report", "/tmp/\u{1b}[2Jx"], ["analyze", "/tmp/\u{1b}]0;x\u{7}"], ["compare", "/tmp/\u{9b}31m"]] {
        let output = tier::wirelapse!(args).arg("y").output().expect("wirelapse runs");
        let text = tier::text(&output.stderr);
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{args:?}: {text:?}");
    }
}

/// What a shell is offered after these words.
fn completed(shell: &str, words: &[&str]) -> Vec<String> {
    let last = (words.len() - 1).to_string();
    let output = tier::wirelapse!(["--", "wirelapse"])
        .args(&words[1..])
        .env("WIRELAPSE_COMPLETE", shell)
        .env("_CLAP_COMPLETE_INDEX", last)
        .env("_CLAP_IFS", "\n")
        .output()
        .expect("wirelapse can be run");
    assert!(output.status.success(), "{shell}: {}", tier::text(&output.stderr));
    // Two shells add what a value is.
    let value = |line: &str| line.split([':', '\t']).next().unwrap_or_default().to_owned();
    tier::text(&output.stdout).lines().map(value).collect()
}

#[test]
fn values_complete_in_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let script = tier::wirelapse!(["completions", shell]).output().expect("wirelapse can be run");
        assert!(tier::text(&script.stdout).contains("WIRELAPSE_COMPLETE"), "{shell}");
        for (words, wanted) in [
            (&["wirelapse", "ana"][..], "analyze"),
            (&["wirelapse", "watch", "window"], "window-scale"),
            (&["wirelapse", "study", "small"], "small-messages"),
            (&["wirelapse", "capture", "-i", "l"], "lo"),
            (&["wirelapse", "lab", "up", "--backend", "net"], "netem"),
        ] {
            let offered = completed(shell, words);
            assert!(offered.iter().any(|value| value.trim_end() == wanted), "{shell} {words:?}: {offered:?}");
        }
        assert!(completed(shell, &["wirelapse", "watch", "zzz"]).iter().all(|value| !value.starts_with('z')));
    }
}
