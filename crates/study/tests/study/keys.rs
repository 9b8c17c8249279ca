//! Every key that a study writes is in docs/study.md, and what version 1 wrote is still read.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use study::ledger::{Ledger, Provenance, load};
use study::{Study, Trial, builtin, plan_file};

const PLAN: &str = "repetitions = 3\n[factors]\ndelay = [\"1ms\", \"5ms\"]\n";

fn study() -> Study {
    let plan = plan_file::parse("p.toml", PLAN).unwrap();
    Study { name: plan.name.clone(), builtin: false, plans: vec![plan], host: None }
}

/// A trial as version 1 wrote it, with everything that it can hold.
fn version_1(block: u32, level: usize) -> Value {
    json!({
        "part": 0, "block": block, "position": level, "levels": [level], "labels": ["x"], "started_ns": 5, "took_ns": 6,
        "responses": {"goodput": 1e8 + level as f64}, "held": ["a"], "broken": [],
        "evidence": {
            "frames": 9, "dropped": 1, "unread": 2, "header_bytes": {"32": 9}, "first_header_bytes": {"32": 9},
            "syns": [{"from_server": true, "window_scale": 7, "timestamps": true, "sack": true, "mss": 1460, "count": 1}],
            "windows": [[0, 65535]],
            "findings": [{"kind": "k", "text": "t", "count": 1, "cost_ns": 2, "packets": [3]}]
        },
        "series": [{"at_ns": 1, "bits_per_second": 2.0, "down_bits_per_second": 3.0, "srtt_ns": 4, "cwnd_bytes": 5,
            "receive_window_bytes": 6, "receive_used_bytes": 7, "receive_buffer_bytes": 8, "warm_up": false}],
        "counters": {"TcpExtTCPTimeouts": 1}, "cpu_busy": 0.5,
        "pings": [{"probe": "tcp", "at_ns": 1, "round_trip_ns": 2}], "path": null
    })
}

/// Objects whose keys are names of the user's or the kernel's, not ours; a path's report is
/// described with the lab.
const NAMES: [&str; 5] = ["responses", "header_bytes", "first_header_bytes", "counters", "path"];

fn keys(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                into.insert(key.clone());
                if !NAMES.contains(&key.as_str()) {
                    keys(value, into);
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|value| keys(value, into)),
        _ => {}
    }
}

#[test]
fn every_key_of_a_run_is_in_the_documentation() {
    let study = study();
    let trials: Vec<Trial> =
        (0..3).flat_map(|block| [0, 1].map(|level| serde_json::from_value(version_1(block, level)).unwrap())).collect();
    let said = builtin::conclude(&study, &trials, 1);
    let mut all = BTreeSet::new();
    // The fields of run.json have their table in docs/records.md; `study` is described here.
    keys(&serde_json::to_value(&study).unwrap(), &mut all);
    keys(&serde_json::to_value(&trials).unwrap(), &mut all);
    keys(&serde_json::to_value(&said).unwrap(), &mut all);
    let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/study.md")).unwrap();
    let section = docs.split("\n## The keys of a run").nth(1).expect("docs/study.md describes the keys of a run");
    let missing: Vec<&String> = all.iter().filter(|key| !section.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/study.md, \"The keys of a run\", lacks {missing:?}");
}

#[test]
fn a_run_of_another_user_is_not_gone_on_with_nor_decoded() {
    use std::os::unix::fs::chown;
    tier::needs!(tier::Need::Root);
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    drop(Ledger::create(&run, Provenance::here(&study(), 1, Vec::new())).unwrap());
    for name in ["", "run.json", "trials.ndjson"] {
        let path = run.join(name);
        chown(&path, Some(777), Some(777)).unwrap();
        // What is in it would be refused in other words.
        let described = std::fs::read(run.join("run.json")).unwrap();
        std::fs::write(run.join("run.json"), "no run").unwrap();
        let refused = Ledger::resume(&run).map(drop).unwrap_err();
        assert!(refused.is_wrong_use() && refused.to_string().contains("belongs to user 777"), "{name}: {refused}");
        std::fs::write(run.join("run.json"), described).unwrap();
        chown(&path, Some(0), Some(0)).unwrap();
    }
    Ledger::resume(&run).unwrap();
}

#[test]
fn a_run_of_version_1_is_read_and_goes_on_in_this_version() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let study = study();
    let provenance = Provenance { schema: 1, ..Provenance::here(&study, 1, Vec::new()) };
    drop(Ledger::create(&run, provenance).unwrap());
    std::fs::write(run.join("trials.ndjson"), format!("{}\n", version_1(0, 0))).unwrap();
    let (mut ledger, trials) = Ledger::resume(&run).unwrap();
    assert_eq!((trials.len(), trials[0].series[0].bits_per_second, trials[0].evidence.unread), (1, 2.0, 2));
    ledger.add(&serde_json::from_value(version_1(0, 1)).unwrap()).unwrap();
    ledger.conclude(&builtin::conclude(&study, &trials, 1), false).unwrap();
    let (kept, trials, _) = load(&run).unwrap();
    assert_eq!((kept.schema, trials.len()), (store::SCHEMA, 2));
    let text = std::fs::read_to_string(run.join("trials.ndjson")).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["series"][0]["goodput_bits_per_second"], 2.0);
    assert_eq!((&last["plan_index"], &last["evidence"]["frames_dropped"]), (&0.into(), &1.into()));
    // A later version is refused, not guessed at.
    let text = std::fs::read_to_string(run.join("run.json")).unwrap();
    std::fs::write(run.join("run.json"), text.replace(&format!("\"schema\": {}", store::SCHEMA), "\"schema\": 99"))
        .unwrap();
    assert!(load(&run).is_err());
}
