//! `wirelapse report` and `wirelapse compare` over traces of a lab's known delay.

use crate::scene;
use std::path::Path;
use std::process::Output;

use crate::scene::command::{is_tracing, tracing};
use crate::scene::path::{exchange, join, lab as lab_of, listen, quick_acks};
use crate::scene::{BTF, IP, TUN, turn};
use lab::Lab;
use tier::{Need, text};

fn wirelapse(args: &[&str]) -> Output {
    tier::wirelapse!(args).output().unwrap()
}

/// A run of requests in a lab.
fn traced(lab: &Lab, run: &Path, each: impl Fn(&mut std::net::TcpStream, &mut std::net::TcpStream)) {
    let listener = listen(lab, false);
    let port = listener.local_addr().unwrap().port().to_string();
    let tracer = tracing(&["--port", &port, "--no-live", "-o", run.to_str().unwrap()]).spawn().unwrap();
    assert!(tier::wait_for(|| is_tracing(tracer.id())));
    let (mut client, mut server) = join(lab, &listener);
    each(&mut client, &mut server);
    drop((client, server));
    std::thread::sleep(std::time::Duration::from_millis(300));
    scene::command::signal(&tracer, libc::SIGINT);
    let out = tracer.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
}

#[test]
fn a_longer_path_shows_in_its_network_leg_and_reports_are_whole_or_refused() {
    tier::needs!(Need::Root, BTF, TUN, IP);
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    // Far enough apart that late wake-ups on a busy machine are small beside it.
    for (name, millis) in [("near", 5), ("far", 25)] {
        let lab = lab_of(millis);
        quick_acks(&lab);
        traced(&lab, &dir.path().join(name), |client, server| exchange(client, server, 150));
    }
    let (near, far) = (path("near"), path("far"));
    let page = path("page.html");
    let out = wirelapse(&["compare", &near, &far, "--json", "--html", &page]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let said: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(said["kind"], "run_comparison");
    let sends = said["kinds"].as_array().unwrap().iter().find(|kind| kind["kind"] == "sends").unwrap();
    let total = sends["total"]["difference_ns"]["value"].as_f64().unwrap();
    assert!((36e6..46e6).contains(&total), "two times twenty milliseconds, and {total} ns are seen");
    let network = sends["explained"].as_array().unwrap().iter().find(|e| e["leg"] == "network").unwrap();
    let moved = network["mean_ns"][1].as_f64().unwrap() - network["mean_ns"][0].as_f64().unwrap();
    assert!((moved - 40e6).abs() < 4e6 && network["share"].as_f64().unwrap() > 0.8, "{network}");
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("far is slower than near") && html.contains("The path itself changed"));
    let split = &sends["path"];
    let least = ["least_rtt_ns", "beyond_ns"].map(|key| [0, 1].map(|run| split[key][run].as_f64().unwrap()));
    assert!(least[0][0] >= 10e6 && least[0][1] >= 50e6 && least[0][1] < 60e6, "{split}");
    assert!(said["warnings"].to_string().contains("one run of each"), "{}", said["warnings"]);

    let same = wirelapse(&["compare", &near, &near]);
    let same = text(&same.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(same.contains("No difference between") && same.contains("would have shown a change of"), "{same}");

    let report = wirelapse(&["report", &near]);
    assert!(text(&report.stdout).contains("How long each leg took"), "{}", text(&report.stderr));
    let refused = wirelapse(&["report", &near, "--html", &page]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("--force"), "{}", text(&refused.stderr));
    assert!(wirelapse(&["report", &near, &far, "--html", &page, "--force"]).status.success());
    let hidden = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().as_encoded_bytes()[0] == b'.';
    assert!(!std::fs::read_dir(dir.path()).unwrap().any(hidden));
}

#[test]
fn several_runs_of_each_path_are_compared_run_by_run() {
    tier::needs!(Need::Root, BTF, TUN, IP);
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for (name, millis) in [("near-1", 3), ("far-1", 23), ("near-2", 3), ("far-2", 23)] {
        let lab = lab_of(millis);
        quick_acks(&lab);
        traced(&lab, &dir.path().join(name), |client, server| exchange(client, server, 40));
    }
    let runs = ["near-1", "near-2", "far-1", "far-2"].map(path);
    let [a, b, c, d] = runs.each_ref().map(String::as_str);
    let page = path("several.html");
    let out = wirelapse(&["compare", "--json", "--html", &page, a, b, "--", c, d]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let said: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&said["kind"], &said["runs"][1][1]), (&"runs_comparison".into(), &"far-2".into()));
    let sends = said["kinds"].as_array().unwrap().iter().find(|kind| kind["kind"] == "sends").unwrap();
    let of = |figure: &&serde_json::Value| figure["leg"] == "total" && figure["figure"] == "p50";
    let median = sends["figures"].as_array().unwrap().iter().find(of).unwrap();
    // From 6 ms to 46.
    let change = median["change"]["value"].as_f64().unwrap();
    assert!((4.0..8.0).contains(&change), "{median}");
    assert!(
        median["spread"][0].as_f64().is_some() && median["values_ns"][0].as_array().unwrap().len() == 2,
        "{median}"
    );
    assert!(said["verdict"].to_string().contains("Runs of one side differ by up to"), "{}", said["verdict"]);
    assert!(std::fs::read_to_string(&page).unwrap().contains("Each run"));

    let alone = wirelapse(&["compare", a, "--", c, d]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(text(&alone.stderr).contains("alone on its side"), "{}", text(&alone.stderr));
    let three = wirelapse(&["compare", a, b, c]);
    assert_eq!(three.status.code(), Some(2));
    assert!(text(&three.stderr).contains("is a third"), "{}", text(&three.stderr));
}

#[test]
fn what_is_no_run_is_bad_input_and_what_cannot_be_written_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().to_str().unwrap();
    for (args, words) in [
        (vec!["report", empty], "is not a run"),
        (vec!["report", "/no/such/run"], "is not a run"),
        (vec!["compare", empty, empty], "is not a run"),
        (vec!["compare", empty], "compared with what"),
    ] {
        let out = wirelapse(&args);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", text(&out.stderr));
        assert!(text(&out.stderr).contains(words), "{args:?}: {}", text(&out.stderr));
    }
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/no-such.pcap");
    let out = wirelapse(&["compare", empty, capture]);
    assert!(text(&out.stderr).contains("a run compares only with another"), "{}", text(&out.stderr));
    let run = dir.path().join("run");
    std::fs::create_dir(&run).unwrap();
    let json = r#"{"schema": 1, "kind": "capture", "state": "finished", "version": "0", "command_line": [], "source": "<b>", "packets": 0, "unread": []}"#;
    std::fs::write(run.join("run.json"), json).unwrap();
    for table in ["conversations", "findings"] {
        std::fs::create_dir(run.join(format!("{table}.parquet"))).unwrap();
    }
    let run = run.to_str().unwrap();
    assert!(text(&wirelapse(&["report", run]).stdout).contains("holds no TCP connection"));
    let out = wirelapse(&["report", run, "--html", "/proc/page.html"]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("cannot write /proc/page.html"), "{}", text(&out.stderr));
}

/// Two runs of the same plan, as of two kernels.
#[test]
fn two_studies_are_compared_and_what_else_differs_is_said() {
    use study::ledger::{Ledger, Provenance};
    use study::{Study, Trial, builtin, plan_file};
    let folder = tempfile::tempdir().unwrap();
    let keep = |name: &str, kernel: &str, held: &str, slower: f64| {
        let text = format!(
            "name = \"delay\"\nrepetitions = 5\n[fixed]\nrate = \"{held}\"\n[factors]\ndelay = [\"1ms\", \"5ms\"]\n"
        );
        let plan = plan_file::parse("p.toml", &text).unwrap();
        let study = Study { name: "delay".into(), builtin: false, plans: vec![plan.clone()], host: None };
        let provenance = Provenance { kernel: kernel.into(), ..Provenance::here(&study, 1, Vec::new()) };
        let run = folder.path().join(name);
        let mut ledger = Ledger::create(&run, provenance).unwrap();
        let mut trials = Vec::new();
        for block in 0..5 {
            for place in plan.block(block, 1) {
                let goodput = if place.levels == [1] { 5e7 * slower } else { 9e7 } + f64::from(block) * 1e4;
                let responses = [(record::trial::Response::Goodput, goodput)].into();
                let trial = Trial { responses, ..Trial::at(&plan, 0, &place) };
                ledger.add(&trial).unwrap();
                trials.push(trial);
            }
        }
        ledger.conclude(&builtin::conclude(&study, &trials, 1), true).unwrap();
        run.display().to_string()
    };
    let (a, b) = (keep("old", "6.12.1", "100mbit", 1.0), keep("new", "7.2.0", "200mbit", 0.8));
    let run = |args: &[&str]| {
        let out = tier::wirelapse!(args).env("COLUMNS", "120").output().unwrap();
        assert!(out.status.success(), "{}", text(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let text = run(&["compare", &a, &b]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains(
            "Kernel 7.2.0 against 6.12.1, within blocks, relative to the first (delay, 1ms): a difference in goodput is \
             seen in 1 of 1 other combination."
        ),
        "{text}"
    );
    assert!(text.contains("delay, 5ms: goodput relative to the first changed by −20.0 %"), "{text}");
    assert!(
        text.contains("Each combination by itself: a difference in goodput is seen in 1 of 2 combinations"),
        "{text}"
    );
    assert!(text.contains("cannot be put down to the kernel: other conditions differ, too"), "{text}");
    assert!(text.contains("delay, rate: 100mbit in old, 200mbit in new"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&run(&["compare", &a, &b, "--json"])).unwrap();
    assert_eq!((json["kind"].as_str(), json["rows"].as_array().map(Vec::len)), (Some("study_comparison"), Some(2)));
    assert_eq!(json["factors"], serde_json::json!([{"what": "kernel", "first": "6.12.1", "second": "7.2.0"}]));
    let other_kernel = keep("newer", "7.2.0", "100mbit", 1.0);
    let text = run(&["compare", &a, &other_kernel]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("a difference in goodput is seen in none of 1 other combination."), "{text}");
    assert!(text.contains("Each combination by itself: a difference in goodput is seen in none of 2"), "{text}");
    assert!(text.contains("Configuration, drivers and load") && !text.contains("other conditions"), "{text}");
    let page = folder.path().join("page.html").display().to_string();
    run(&["compare", &a, &b, "--html", &page]);
    assert!(std::fs::read_to_string(page).unwrap().contains("id=\"between\""));
}
