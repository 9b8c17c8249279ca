//! Every kind of page that a command writes, and the site, looked at by a browser as wide as a
//! screen and as narrow as a telephone. The pages of studies and of a trace with every kind of
//! record are looked at in the tests of the reports' own crate.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tier::Process;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn done(folder: &Path, args: &[&str]) {
    let out = tier::wirelapse!(args).current_dir(folder).output().expect("wirelapse runs");
    assert!(out.status.success(), "{args:?}: {}", tier::text(&out.stderr));
}

#[test]
fn pages_of_captures_traces_and_delays_fit() {
    for need in tier::browser::NEEDS {
        tier::needs!(need);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let run = root().join("docs/pictures/run");
    let run = run.to_str().expect("a path");
    done(dir, &["report", run, "--html", "trace.html"]);
    done(dir, &["report", run, run, "--html", "traces.html"]);
    done(dir, &["compare", run, run, "--html", "traces-compared.html"]);
    for name in ["loss", "timeouts", "small-messages", "closed-window", "refused"] {
        let file = format!("{name}.pcap");
        fs::copy(root().join("crates/wire/tests/recorded").join(&file), dir.join(&file)).expect("a capture");
        done(dir, &["analyze", &file, "-o", name]);
        done(dir, &["report", name, "--html", &format!("capture-{name}.html")]);
        done(dir, &["analyze", &file, "-c", "1", "--plot", &format!("connection-{name}.html")]);
    }
    done(dir, &["compare", "loss.pcap", "timeouts.pcap", "--html", "captures-compared.html"]);
    fs::copy(dir.join("loss.pcap"), dir.join("after.pcap")).expect("a capture");
    done(dir, &["delay", "--before", "loss.pcap", "--after", "after.pcap", "--html", "delay.html"]);
    assert_eq!(tier::browser::problems(&pages(dir)), Vec::<String>::new());
}

#[test]
fn pages_of_workloads_fit() {
    for need in tier::browser::NEEDS {
        tier::needs!(need);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let mut serve = tier::wirelapse!(["serve", "--listen", "127.0.0.1:0", "--json"]);
    let mut serve = Process::from(serve.stdout(Stdio::piped()).spawn().expect("a server"));
    let (line, _out) = serve.first_line();
    let listening: serde_json::Value = serde_json::from_str(&line).expect("an event");
    let to = listening["address"].as_str().expect("an address");
    for args in [
        &["stream", to, "--for", "2s", "--interval", "100ms", "--both"][..],
        &["rr", to, "--for", "1s", "--rate", "200"],
        &["crr", to, "--for", "1s", "--rate", "100"],
        &["udp", to, "--for", "1s"],
        &[
            "ping-under-load",
            to,
            "--before",
            "500ms",
            "--for",
            "1s",
            "--after",
            "500ms",
            "-P",
            "1",
            "--probe-interval",
            "20ms",
        ],
    ] {
        done(dir, &[args, &["-o", args[0]]].concat());
        done(dir, &["report", args[0], "--html", &format!("{}.html", args[0])]);
    }
    assert_eq!(tier::browser::problems(&pages(dir)), Vec::<String>::new());
}

#[test]
fn pages_of_the_site_fit() {
    for need in tier::browser::NEEDS {
        tier::needs!(need);
    }
    let parser = tier::command("/usr/bin/python3").args(["-c", "import markdown_it"]).stderr(Stdio::null()).status();
    if !parser.is_ok_and(|status| status.success()) {
        tier::skip("pages_of_the_site_fit", "needs Python's markdown_it");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    let built = tier::command(root().join("docs/site/build")).arg(&site).output().expect("the site can be built");
    assert!(built.status.success(), "{}", tier::text(&built.stderr));
    let mut all = pages(&site);
    all.extend(pages(&site.join("guides")));
    assert!(all.len() > 30, "{all:?}");
    assert_eq!(tier::browser::problems(&all), Vec::<String>::new());
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    all.filter(|path| path.extension().is_some_and(|extension| extension == "html")).collect()
}
