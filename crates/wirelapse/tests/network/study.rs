//! `wirelapse study` as a person uses it, and killed in the middle.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PLAN: &str = "workload = \"rr\"\nrepetitions = 4\nduration = \"200ms\"\nwarm_up = \"0\"\n[fixed]\ndelay = \"1ms\"\n\
                    [factors]\nresponse = [10, 1000]\n";

fn wirelapse(args: &[&str]) -> Command {
    let mut command = tier::wirelapse!(["study"]);
    command.args(args);
    command
}

#[test]
fn wrong_use_is_reported_with_its_place_and_ends_in_2() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    std::fs::write(&plan, PLAN.replace("delay", "dealy")).unwrap();
    let ended = wirelapse(&[plan.to_str().unwrap()]).output().unwrap();
    let said = tier::text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("plan.toml:6:1") && said.contains("`delay`"), "{said}");
    let ended = wirelapse(&["timestmaps"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    assert!(tier::text(&ended.stderr).contains("timestamps"));
    assert_eq!(wirelapse(&["--resume", folder.path().to_str().unwrap()]).output().unwrap().status.code(), Some(2));
}

#[test]
fn what_does_not_fit_is_refused_by_a_dry_run_too() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    for (from, to, place, advice) in [
        ("workload = \"rr\"", "response = \"transactions\"", "plan.toml:1:12", "\"rr\" or \"crr\""),
        ("delay = \"1ms\"", "response = 5", "plan.toml:8:1", "both held and varied"),
        ("delay = \"1ms\"", "delay = \"1ms\"\nover = \"loopback\"", "plan.toml:6:1", "over loopback"),
        ("delay = \"1ms\"", "\"net.ipv4.tcp_timestmaps\" = 1", "plan.toml:6:1", "`net.ipv4.tcp_timestamps`"),
        ("workload = \"rr\"", "duration = \"100ms\"", "plan.toml:3:1", "duplicate key"),
        ("delay = \"1ms\"", "request_writes = 2", "plan.toml:6:1", "set request too"),
        ("delay = \"1ms\"", "congestion = \"cubik\"", "plan.toml:6:14", "did you mean `cubic`?"),
        ("delay = \"1ms\"", "delay = 20", "plan.toml:6:9", "unit is missing"),
        ("delay = \"1ms\"", "nodelay = true", "plan.toml:6:1", "socket = [\"default\", \"nodelay\"]"),
        ("delay = \"1ms\"", "latency = \"1ms\"", "plan.toml:6:1", "`delay`"),
        ("workload = \"rr\"", "rate = \"1gbit\"", "plan.toml:1:1", "below [fixed]"),
        ("workload = \"rr\"", "omit = \"1s\"", "plan.toml:1:1", "`warm_up`"),
        ("delay = \"1ms\"", "\"net.ipv4.tcp_sack\" = \"off\"", "plan.toml:6:23", "holds numbers"),
    ] {
        std::fs::write(&plan, PLAN.replacen(from, to, 1)).unwrap();
        let ended = wirelapse(&[plan.to_str().unwrap(), "--dry-run"]).output().unwrap();
        let said = tier::text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{to}: {said}");
        assert!(said.contains(place) && said.contains(advice), "{to}: {said}");
        assert!(ended.stdout.is_empty(), "{to}");
    }
}

#[test]
fn a_run_is_overwritten_with_force_alone() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let folder = tempfile::tempdir().unwrap();
    let (plan, run) = (folder.path().join("plan.toml"), folder.path().join("run"));
    let study = |repetitions: &str, more: &[&str]| {
        std::fs::write(&plan, PLAN.replacen("repetitions = 4", repetitions, 1)).unwrap();
        let words = [plan.to_str().unwrap(), "-o", run.to_str().unwrap()];
        wirelapse(&[&words, more].concat()).output().unwrap()
    };
    let kept = || std::fs::read_to_string(run.join("trials.ndjson")).unwrap().lines().count();
    assert!(study("repetitions = 2", &[]).status.success());
    let refused = study("repetitions = 1", &[]);
    assert_eq!((refused.status.code(), kept()), (Some(2), 4));
    assert!(tier::text(&refused.stderr).contains("--force"), "{}", tier::text(&refused.stderr));
    let again = study("repetitions = 1", &["--force"]);
    assert!(again.status.success(), "{}", tier::text(&again.stderr));
    assert_eq!(kept(), 2);
    // What is no run is never removed.
    std::fs::remove_dir_all(&run).unwrap();
    std::fs::create_dir(&run).unwrap();
    assert_eq!(study("repetitions = 1", &["--force"]).status.code(), Some(2));
}

/// The trials of a study of this plan.
fn trials(plan: &str) -> Vec<serde_json::Value> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    std::fs::write(&path, plan).unwrap();
    let ended = wirelapse(&[path.to_str().unwrap(), "--json"]).output().unwrap();
    assert!(ended.status.success(), "{}", tier::text(&ended.stderr));
    let said = tier::text(&ended.stdout);
    let lines = said.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.filter(|line| line["kind"] == "trial").collect()
}

#[test]
fn exchanges_use_the_congestion_control_that_is_set_and_their_trials_count() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    for workload in ["rr", "crr"] {
        let plan = PLAN.replace("\"rr\"", &format!("{workload:?}")).replace("repetitions = 4", "repetitions = 2");
        let all = trials(&plan.replace("response = [10, 1000]", "congestion = [\"reno\", \"bbr\"]"));
        assert_eq!(all.len(), 4);
        for trial in &all {
            assert_eq!(trial["broken"].as_array().map(Vec::len), Some(0), "{trial}");
            assert_eq!(trial["congestion_control"], trial["labels"][0], "{trial}");
        }
    }
}

/// What waits for the thread of a path without a rate is in no promise of the path.
#[test]
fn a_path_without_a_rate_keeps_its_trials() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let plan = "repetitions = 2\nduration = \"500ms\"\nwarm_up = \"1s\"\n[fixed]\nflows = 4\n[factors]\nwrite = [1000, 100000]\n";
    let of_delay = |trial: &serde_json::Value| {
        let broken = trial["broken"].as_array().unwrap().iter().filter_map(|why| why.as_str());
        broken.filter(|why| why.contains("delay asked")).count()
    };
    let all = trials(plan);
    assert!(all.len() == 4 && all.iter().all(|trial| of_delay(trial) == 0), "{all:?}");
}

/// All that a lab can do, a plan can set.
#[test]
fn a_plan_sets_disciplines_shapes_recorded_links_and_schedules() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let folder = tempfile::tempdir().unwrap();
    let (link, steps) = (folder.path().join("link.trace"), folder.path().join("steps.csv"));
    std::fs::write(&link, (0..100).map(|ms| format!("{ms}\n")).collect::<String>()).unwrap();
    std::fs::write(&steps, "time,delay\n300ms,5ms\n").unwrap();
    let plan = format!(
        "repetitions = 1\nduration = \"300ms\"\nwarm_up = \"1s\"\n[fixed]\nrate = \"20mbit\"\njitter = \"1ms/0\"\ndelay = \"2ms\"\n\
         jitter_shape = \"exponential/uniform\"\njitter_memory = \"50%/0\"\nqdisc = \"codel/fifo\"\nschedule = {:?}\n[fixed.net.ipv4]\n\
         tcp_sack = 1\n",
        steps.to_str().unwrap()
    );
    let one = trials(&plan).remove(0);
    let [up, down] = ["a_to_b", "b_to_a"].map(|way| one["path"][way].clone());
    assert_eq!((up["asked"]["delay_ns"].as_u64(), up["changes"].as_u64()), (Some(5_000_000), Some(1)), "{up}");
    assert_eq!(up["asked"]["jitter_shape"], "exponential", "{up}");
    assert!(up["asked"]["qdisc"]["codel"].is_object() && down["asked"]["qdisc"] == "fifo", "{up} {down}");
    let held = one["held"].to_string();
    assert!(held.contains("tcp_sack reads 1"), "{held}");
    let recorded = format!("repetitions = 1\nduration = \"300ms\"\n[fixed]\nrecorded = {:?}\n", link.to_str().unwrap());
    let one = trials(&recorded).remove(0);
    assert!(one["path"]["a_to_b"]["asked"]["recorded"].is_object(), "{one}");
    // A full packet each millisecond.
    let goodput = one["responses"]["goodput"].as_f64().unwrap();
    assert!(goodput > 0.0 && goodput < 13e6, "{goodput}");
}

#[test]
fn a_dry_run_prints_every_builtin_plan_and_runs_nothing() {
    for name in ["timestamps", "small-messages", "window-scaling", "congestion"] {
        let ended = wirelapse(&[name, "--dry-run"]).output().unwrap();
        let said = tier::text(&ended.stdout);
        assert!(ended.status.success() && said.contains("vary") && said.contains("about"), "{said}");
    }
}

#[test]
fn a_killed_study_is_finished_by_resume_and_by_one_at_a_time() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let folder = tempfile::tempdir().unwrap();
    let (plan, run) = (folder.path().join("plan.toml"), folder.path().join("run"));
    std::fs::write(&plan, PLAN).unwrap();
    let (plan, run_text) = (plan.to_str().unwrap(), run.to_str().unwrap());
    let mut child = wirelapse(&[plan, "-o", run_text]).stdout(Stdio::null()).spawn().unwrap();
    let lines = || std::fs::read_to_string(run.join("trials.ndjson")).map_or(0, |t| t.lines().count());
    tier::until("two trials", || lines() >= 2);
    // Whoever writes it holds it, the one that began it and the one that goes on alike; stopped, it
    // is sure to be there.
    let signal = |child: &std::process::Child, signal| {
        // SAFETY: `kill` only takes numbers; the process is not reaped yet.
        assert_eq!(unsafe { libc::kill(child.id().cast_signed(), signal) }, 0);
    };
    let refused_beside = |child: &std::process::Child| {
        signal(child, libc::SIGSTOP);
        let before = lines();
        let second = wirelapse(&["--resume", run_text]).output().unwrap();
        let said = tier::text(&second.stderr);
        assert_eq!(second.status.code(), Some(2), "{said}");
        assert!(said.contains("is being written by another process"), "{said}");
        assert_eq!(lines(), before, "a second one added trials");
        signal(child, libc::SIGCONT);
    };
    refused_beside(&child);
    child.kill().unwrap();
    child.wait().unwrap();
    let before = lines();
    assert!((2..7).contains(&before), "{before} trials");
    let mut child = wirelapse(&["--resume", run_text]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    tier::until("one more trial", || lines() != before || child.try_wait().unwrap().is_some());
    refused_beside(&child);
    let ended = child.wait_with_output().unwrap();
    let said = tier::text(&ended.stdout);
    assert!(ended.status.success(), "{said}{}", tier::text(&ended.stderr));
    assert_eq!(lines(), 8, "{said}");
    assert!(said.contains("95 % interval") && said.contains("8 of 8 trials count"), "{said}");
    let again = wirelapse(&[plan, "-o", run_text]).output().unwrap();
    assert_eq!(again.status.code(), Some(2), "a directory that exists is never written into");
}

/// The processes below `pid`, and theirs.
fn below(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(pid) = all.get(next).copied() {
        next += 1;
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|c| c.parse::<u32>().ok()));
        }
    }
    all.split_off(1)
}

#[test]
fn killed_at_any_moment_it_leaves_only_its_trials() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let folder = tempfile::tempdir().unwrap();
    let (plan, run) = (folder.path().join("plan.toml"), folder.path().join("run"));
    std::fs::write(&plan, PLAN).unwrap();
    let (plan, run_text) = (plan.to_str().unwrap(), run.to_str().unwrap());
    let begin = |run_text: &str| {
        let args = if run.join("run.json").exists() { vec!["--resume", run_text] } else { vec![plan, "-o", run_text] };
        wirelapse(&args)
    };
    // Moments that fall into starting up, bringing a lab up, a trial, taking a lab down and
    // writing.
    for after_ms in [0, 3, 10, 30, 60, 100, 140, 170, 210, 260, 330] {
        // A directory without run.json is what a start that was killed at its first moment left.
        if run.exists() && !run.join("run.json").exists() {
            std::fs::remove_dir_all(&run).unwrap();
        }
        let mut child = begin(run_text).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(after_ms));
        let family = below(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        // The lab's processes hold its namespaces: when they are gone, so are those.
        let patience = Instant::now();
        while family.iter().any(|pid| std::fs::metadata(format!("/proc/{pid}")).is_ok()) {
            assert!(patience.elapsed() < Duration::from_secs(60), "{family:?} stay after {after_ms} ms");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let ended = begin(run_text).output().unwrap();
    assert!(ended.status.success(), "{}", tier::text(&ended.stderr));
    let text = std::fs::read_to_string(run.join("trials.ndjson")).unwrap();
    let mut places: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|trial| format!("{} {}", trial["block"], trial["levels"]))
        .collect();
    assert_eq!(places.len(), 8);
    places.sort();
    places.dedup();
    assert_eq!(places.len(), 8, "a trial was run twice: {places:?}");
}

#[test]
fn a_full_disk_is_reported_and_what_was_measured_is_shown() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"), tier::Need::Program("unshare"));
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    std::fs::write(&plan, PLAN).unwrap();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    // A disk of 24 KiB in a mount namespace of its own: room for run.json and a few trials.
    let script = "mount -t tmpfs -o size=24k none \"$1\" && exec \"$2\" study \"$3\" -o \"$1/run\"";
    let ended = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .args([disk.as_os_str(), env!("CARGO_BIN_EXE_wirelapse").as_ref(), plan.as_os_str()])
        .output()
        .unwrap();
    let (said, why) = (tier::text(&ended.stdout), tier::text(&ended.stderr));
    assert_eq!(ended.status.code(), Some(1), "{said}{why}");
    assert!(why.contains("No space left") && why.contains("trials.ndjson"), "{why}");
    assert!(said.contains("trials count"), "{said}");
}

#[test]
fn two_studies_at_once_do_not_meet() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    std::fs::write(&plan, PLAN.replace("delay = \"1ms\"", "delay = \"1ms\"\n\"net.ipv4.tcp_timestamps\" = 0")).unwrap();
    let other = folder.path().join("other.toml");
    std::fs::write(&other, PLAN.replace("delay = \"1ms\"", "delay = \"1ms\"\n\"net.ipv4.tcp_timestamps\" = 1"))
        .unwrap();
    let started: Vec<_> = [&plan, &other]
        .map(|p| wirelapse(&[p.to_str().unwrap(), "--json"]).stdout(Stdio::piped()).spawn().unwrap())
        .into();
    for (child, bytes) in started.into_iter().zip(["20", "32"]) {
        let ended = child.wait_with_output().unwrap();
        let text = String::from_utf8(ended.stdout).unwrap();
        let trials: Vec<serde_json::Value> = text
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .filter(|e: &serde_json::Value| e["kind"] == "trial")
            .collect();
        assert!(ended.status.success() && trials.len() == 8, "{text}");
        // Each has its own hosts, and so its own sysctls.
        for trial in trials {
            let lengths: Vec<&String> = trial["evidence"]["header_bytes"].as_object().unwrap().keys().collect();
            assert_eq!(lengths, [bytes], "{trial}");
        }
    }
}

#[test]
fn the_quick_study_of_overhead_has_fewer_ways_and_a_figure_in_each() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/sys/kernel/btf/vmlinux"));
    let ended = wirelapse(&["overhead", "--quick", "--json"]).output().unwrap();
    let said = tier::text(&ended.stderr);
    // Another tracer of this machine may hold the connection armed: the study then says that it
    // cannot be trusted.
    if ended.status.code() == Some(1) && said.contains("another tracer may be at work") {
        tier::skip("the_quick_study_of_overhead_has_fewer_ways_and_a_figure_in_each", said.trim());
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
        assert_eq!(all, ["again", "every", "floor", "sampled_100", "so_timestamping", "unmatched"]);
        assert!(keys("rows").contains(&"so_timestamping".to_owned()), "{:?}", table["missing"]);
        for row in table["rows"].as_array().unwrap() {
            // On a machine that others keep busy, a load's slices fall short of its budget, and the
            // table says what would help.
            let said = || table["verdicts"].to_string().contains("a longer --budget gives more");
            assert!(row["rate"]["value"].is_number() || said(), "too few slices: {row}, {}", table["verdicts"]);
        }
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
    let said = tier::text(&ended.stdout);
    assert!(ended.status.success() && said.contains("about") && said.contains("every send"), "{said}");
    let quick = wirelapse(&["overhead", "--dry-run", "--quick"]).output().unwrap();
    assert!(tier::text(&quick.stderr).contains("rarely a verdict"), "{quick:?}");
    let short = wirelapse(&["overhead", "--dry-run", "--budget", "4s"]).output().unwrap();
    let said = tier::text(&short.stderr);
    assert!(said.contains("too short for figures of 28 ways"), "{said}");
    assert_eq!(wirelapse(&["overhead", "--until", "1%"]).output().unwrap().status.code(), Some(2));
}

#[test]
fn instructions_are_counted_only_where_the_clock_counts_them() {
    let planned = wirelapse(&["overhead", "--instructions", "--dry-run"]).output().unwrap();
    let said = tier::text(&planned.stdout);
    assert!(planned.status.success() && said.contains("16 KiB sends") && said.contains("--receive"), "{said}");
    let refused = wirelapse(&["overhead", "--instructions"]).output().unwrap();
    let said = tier::text(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("does not count instructions"), "{said}");
    assert_eq!(wirelapse(&["timestamps", "--instructions"]).output().unwrap().status.code(), Some(2));
}

/// The script for two machines, with hosts of a testbed in their place: a host that sends, and one
/// with two ports that get a copy of each frame.
#[test]
fn the_script_for_two_machines_measures_and_its_results_are_read_back() {
    tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"), tier::Need::Program("bash"));
    let dir = tempfile::tempdir().unwrap();
    let lab = format!("two{}", std::process::id());
    let run = |args: &[&str]| tier::wirelapse!(args).output().unwrap();
    let up = run(&["lab", "up", "--detach", "--name", &lab, "--testbed", "wire"]);
    assert!(up.status.success(), "{}", tier::text(&up.stderr));
    let printed = run(&["study", "reception", "--two-machines", "--quick"]);
    assert!(printed.status.success(), "{}", tier::text(&printed.stderr));
    let printed = tier::text(&printed.stdout);
    // One trial of each clock, of the slowest frames, and one with a busy CPU.
    let chosen = |line: &&str| {
        let is_one = |name: &str, cpu: &str| line.contains(&format!("{name}/0_recvmmsg_1518_100000000_{cpu} "));
        !line.starts_with("trial ")
            || is_one("software", "idle")
            || is_one("software", "stressed")
            || is_one("hardware", "idle")
    };
    let script: Vec<&str> = printed.lines().filter(chosen).collect();
    let wirelapse = env!("CARGO_BIN_EXE_wirelapse");
    let results = dir.path().join("results");
    let mut bash = tier::command("bash");
    bash.args(["-c", &script.join("\n")]).envs([("ONE", "before"), ("TWO", "after"), ("OUT", "source")]);
    bash.env("WIRELAPSE", wirelapse).env("RESULTS", &results);
    for (side, host) in [("HERE", "m"), ("THERE", "a")] {
        bash.env(side, format!("{wirelapse} lab exec {lab}:{host} --"));
    }
    let ended = bash.output().unwrap();
    assert!(run(&["lab", "down", &lab]).status.success());
    let results = results.to_str().unwrap();
    let read = run(&["study", "reception", "--two-machines", results, "--json"]);
    assert!(read.status.success(), "{}{}", tier::text(&read.stderr), tier::text(&ended.stderr));
    let said: serde_json::Value = serde_json::from_str(tier::text(&read.stdout).lines().next().unwrap()).unwrap();
    let outcome = &said["outcome"];
    assert_eq!((&outcome["timestamps"], &outcome["techniques"][0]), (&"software".into(), &"recvmmsg".into()), "{said}");
    let trials = outcome["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2, "{said}");
    for trial in trials {
        let measured = &trial["measured"];
        assert!(measured["matched"].as_u64() > Some(1_000), "{trial}");
        assert!(measured["matched"].as_u64() <= measured["sent"].as_u64(), "{trial}");
    }
    // veth has no clock: the reason is in a file, and no trial.
    let failed = std::fs::read_to_string(format!("{results}/hardware/0_recvmmsg_1518_100000000_idle.failed")).unwrap();
    assert!(failed.contains("hardware timestamps"), "{failed}");
    let page = run(&["study", "reception", "--two-machines", results, "--full"]);
    assert!(
        tier::text(&page.stdout).contains("between two machines, software timestamps"),
        "{}",
        tier::text(&page.stdout)
    );
    let nothing = run(&["study", "reception", "--two-machines", dir.path().to_str().unwrap()]);
    assert_eq!(nothing.status.code(), Some(2), "{}", tier::text(&nothing.stderr));
    assert_eq!(run(&["study", "timestamps", "--two-machines"]).status.code(), Some(2));
}
