//! `wirelapse study` as a person uses it, and killed in the middle.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PLAN: &str = "workload = \"rr\"\nrepetitions = 4\nduration = \"200ms\"\nwarm_up = \"0\"\n[fixed]\ndelay = \"1ms\"\n\
                    [factors]\nresponse = [10, 1000]\n";

fn wirelapse(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirelapse"));
    command.arg("study").args(args);
    command
}

#[test]
fn wrong_use_is_told_with_its_place_and_ends_in_2() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    std::fs::write(&plan, PLAN.replace("delay", "dealy")).unwrap();
    let ended = wirelapse(&[plan.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("plan.toml:6:1") && said.contains("`delay`"), "{said}");
    let ended = wirelapse(&["timestmaps"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("timestamps"));
    assert_eq!(wirelapse(&["--resume", folder.path().to_str().unwrap()]).output().unwrap().status.code(), Some(2));
}

#[test]
fn a_dry_run_prints_every_builtin_plan_and_runs_nothing() {
    for name in ["timestamps", "small-messages", "window-scaling", "congestion"] {
        let ended = wirelapse(&[name, "--dry-run"]).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert!(ended.status.success() && said.contains("vary") && said.contains("about"), "{said}");
    }
}

#[test]
fn a_killed_study_is_finished_by_resume() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let folder = tempfile::tempdir().unwrap();
    let (plan, run) = (folder.path().join("plan.toml"), folder.path().join("run"));
    std::fs::write(&plan, PLAN).unwrap();
    let (plan, run_text) = (plan.to_str().unwrap(), run.to_str().unwrap());
    let mut child = wirelapse(&[plan, "-o", run_text]).stdout(Stdio::null()).spawn().unwrap();
    let lines = || std::fs::read_to_string(run.join("trials.ndjson")).map_or(0, |t| t.lines().count());
    let patience = Instant::now();
    while lines() < 2 && patience.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = lines();
    assert!((2..8).contains(&before), "{before} trials");
    let ended = wirelapse(&["--resume", run_text]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{said}{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(lines(), 8, "{said}");
    assert!(said.contains("95 % interval") && said.contains("8 of 8 trials count"), "{said}");
    let again = wirelapse(&[plan, "-o", run_text]).output().unwrap();
    assert_eq!(again.status.code(), Some(2), "a directory that exists is never written into");
}

#[test]
fn the_quick_study_of_overhead_tells_of_every_way() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/sys/kernel/btf/vmlinux"));
    let ended = wirelapse(&["overhead", "--quick", "--json", "--budget", "4s"]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    // Another tracer of this machine may hold the connection armed: the study then says that it cannot be trusted.
    if ended.status.code() == Some(1) && said.contains("another tracer may be at work") {
        eprintln!("skipped: {said}");
        return;
    }
    assert!(ended.status.success(), "{said}");
    let told: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    let loads: Vec<_> = told["tables"].as_array().unwrap().iter().map(|t| t["load"].as_str().unwrap()).collect();
    assert_eq!(loads, ["send_1024", "send_16384", "send_131072", "rr"]);
    for table in told["tables"].as_array().unwrap() {
        let keys = |of: &str| -> Vec<String> {
            table[of].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap().to_owned()).collect()
        };
        assert!(table["rate"].as_f64().unwrap() > 0.0 && table["cpu_ns"].as_f64().unwrap() > 0.0);
        let mut all = [keys("rows"), keys("missing")].concat();
        all.sort_unstable();
        all.dedup();
        let mut expected: Vec<&str> =
            ::study::overhead::ALL.iter().map(|way| way.key).filter(|k| *k != "nothing").collect();
        expected.sort_unstable();
        assert_eq!(all, expected);
        assert!(keys("rows").contains(&"so_timestamping".to_owned()), "{:?}", table["missing"]);
        let rr = table["load"] == "rr";
        assert_eq!(table["p99_ns"].as_f64().is_some(), rr);
        // What no run of seconds can tell is not told.
        for verdict in table["verdicts"].as_array().unwrap() {
            assert!(verdict["holds"].is_boolean() || verdict["holds"].is_null());
        }
    }
}

#[test]
fn the_study_of_overhead_has_a_dry_run_and_refuses_what_it_cannot_do() {
    let ended = wirelapse(&["overhead", "--dry-run"]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success() && said.contains("about") && said.contains("every send"), "{said}");
    assert_eq!(wirelapse(&["overhead", "--until", "1%"]).output().unwrap().status.code(), Some(2));
}
