//! `advise` on captures that others took: what it finds in a twin, and what it says where there can
//! be none.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tier::Need;

use crate::limited::with_threads;

fn recorded(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/recorded").join(file)
}

fn run(words: &[&str]) -> Output {
    tier::wirelapse!(words).output().unwrap()
}

/// The advice on a file, by a user who has no lab.
fn without_root(file: &Path) -> (Option<i32>, String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("capture");
    fs::copy(file, &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o644)).unwrap();
    let words = ["advise", copy.to_str().unwrap(), "--json"];
    let output = with_threads(folder.path(), 100, &words).output().unwrap();
    let advice = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), String::from_utf8(output.stderr).unwrap(), advice)
}

fn withheld(advice: &Value) -> String {
    advice["withheld"].as_array().unwrap().iter().map(|why| why.as_str().unwrap()).collect::<Vec<_>>().join("; ")
}

/// The first of the dumps of small messages, line by line.
fn first_dump() -> Vec<String> {
    let text = fs::read_to_string(recorded("small-messages.txt")).unwrap();
    text.lines().take_while(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn written(lines: &[String]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), lines.join("\n") + "\n").unwrap();
    file
}

#[test]
fn a_dump_of_small_messages_is_enough_to_name_a_remedy_and_the_run_says_the_same() {
    tier::needs!(Need::Root, Need::Path("/dev/net/tun"));
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("advice");
    let file = format!("{}#1", recorded("small-messages.txt").display());
    let output = run(&["advise", &file, "--budget", "90s", "-o", kept.to_str().unwrap(), "--json"]);
    assert!(output.status.success(), "{output:?}");
    let advice: Value = serde_json::from_slice(&output.stdout).unwrap();
    let best = &advice["remedies"][0];
    assert_eq!(best["effect"], "helps", "{best} {}", withheld(&advice));
    let names = ["TCP_NODELAY", "quick ACKs", "one write instead of several"];
    assert!(names.contains(&best["remedy"].as_str().unwrap()), "{best}");
    // What would be tried where there is time is tried, and the rest says why it is not.
    let not = advice["not_tried"].as_array().unwrap();
    assert!(not.iter().all(|one| !one["because"].as_str().unwrap().is_empty()), "{not:?}");
    let again = run(&["report", kept.to_str().unwrap(), "--json"]);
    assert_eq!(serde_json::from_slice::<Value>(&again.stdout).unwrap(), advice, "{again:?}");
    let page = String::from_utf8(run(&["report", kept.to_str().unwrap()]).stdout).unwrap();
    assert!(page.contains(best["remedy"].as_str().unwrap()) && page.contains("What helps"), "{page}");
}

#[test]
fn what_a_capture_lacks_is_named_and_nothing_is_advised() {
    tier::needs!(Need::Root);
    let dump = first_dump();
    let one_way: Vec<String> = dump.iter().filter(|line| line.contains(" 10.77.0.1.46142 > ")).cloned().collect();
    for (lines, why) in [(&dump[3..], "the handshake is not in the capture"), (&one_way, "one direction only")] {
        let (code, said, advice) = without_root(written(lines).path());
        assert!(code == Some(0) && withheld(&advice).contains(why), "{why}: {code:?} {said} {advice}");
        assert!(advice["fit"].is_null() && advice["remedies"].as_array().unwrap().iter().all(|r| r["n"] == 0));
    }
    let (code, said, advice) = without_root(written(&dump).path());
    assert!(code == Some(0) && withheld(&advice).contains("without root"), "{code:?} {said} {advice}");
    // What would be tried is there all the same.
    assert_eq!(advice["remedies"][0]["effect"], "not_tried", "{advice}");
}

#[test]
fn of_ten_thousand_connections_the_one_that_lost_most_is_chosen() {
    tier::needs!(Need::Root);
    let slow = first_dump();
    // The others answer at once: the second dump of the file, which waits for nothing.
    let text = fs::read_to_string(recorded("small-messages.txt")).unwrap();
    let quick = text.split("\n\n").nth(1).unwrap();
    let mut all = String::new();
    for port in 10_000..19_999 {
        writeln!(all, "{}\n", quick.replace("10.77.0.1.46144", &format!("10.77.0.1.{port}"))).unwrap();
    }
    all.push_str(&slow.join("\n"));
    let (code, said, advice) = without_root(written(&[all]).path());
    let chosen = advice["chosen"].as_str().unwrap_or_else(|| panic!("{code:?} {said} {advice}"));
    assert!(chosen.contains("Connection 10000 was chosen of 10,000"), "{chosen}");
}

#[test]
fn captures_of_strangers_are_advised_on_or_it_is_said_why_not() {
    tier::needs!(Need::Root);
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures");
    let folders = [recorded(""), shared];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let mut n = 0;
    for file in files.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e != "md")) {
        let (code, said, advice) = without_root(&file);
        assert!(!said.contains("panicked"), "{}: {said}", file.display());
        match code {
            Some(0) => assert!(!withheld(&advice).is_empty(), "{}: {advice}", file.display()),
            Some(2) => assert!(said.starts_with("wirelapse: "), "{}: {said}", file.display()),
            other => panic!("{}: {other:?} {said}", file.display()),
        }
        n += 1;
    }
    assert!(n >= 5, "{n}");
}
