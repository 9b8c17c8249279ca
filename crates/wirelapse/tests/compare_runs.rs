//! `wirelapse report` and `wirelapse compare` over traces of a lab's known delay.

mod scene;

use std::path::Path;
use std::process::{Command, Output};

use lab::Lab;
use scene::command::{is_tracing, text, tracing, wait_for};
use scene::path::{exchange, join, lab as lab_of, listen, quick_acks};
use scene::{BTF, IP, TUN, turn};
use tier::Need;

fn wirelapse(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wirelapse")).args(args).output().unwrap()
}

/// A run of requests in a lab.
fn traced(lab: &Lab, run: &Path, each: impl Fn(&mut std::net::TcpStream, &mut std::net::TcpStream)) {
    let listener = listen(lab, false);
    let port = listener.local_addr().unwrap().port().to_string();
    let tracer = tracing(&["--port", &port, "--no-live", "-o", run.to_str().unwrap()]).spawn().unwrap();
    assert!(wait_for(|| is_tracing(tracer.id())));
    let (mut client, mut server) = join(lab, &listener);
    each(&mut client, &mut server);
    drop((client, server));
    std::thread::sleep(std::time::Duration::from_millis(300));
    scene::command::signal(&tracer, libc::SIGINT);
    let out = tracer.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
}

#[test]
fn a_longer_path_is_told_by_its_network_leg_and_reports_are_whole_or_refused() {
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
    assert!(std::fs::read_to_string(&page).unwrap().contains("far is slower than near"));

    let same = wirelapse(&["compare", &near, &near]);
    let same = text(&same.stdout);
    assert!(same.contains("No difference between") && same.contains("smallest shift"), "{same}");

    let report = wirelapse(&["report", &near]);
    assert!(text(&report.stdout).contains("How long each leg took"), "{}", text(&report.stderr));
    let refused = wirelapse(&["report", &near, "--html", &page]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("--force"), "{}", text(&refused.stderr));
    assert!(wirelapse(&["report", &near, &far, "--html", &page, "--force"]).status.success());
    assert!(!dir.path().join(".unfinished-page.html").exists());
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
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("cannot write /proc/page.html"), "{}", text(&out.stderr));
}
