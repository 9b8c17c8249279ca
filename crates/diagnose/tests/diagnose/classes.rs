//! The classes of retransmissions against the kernel that made them: transfers over lab paths,
//! recorded at both ends with what the kernel said of each retransmission
//! (`crates/wirelapse/tests/causes/classes.rs`). Rules were made with the files of `tuned`; those
//! of `unseen` and of `drawn_1` to `drawn_4` (drawn by chance from a seed) come from other paths,
//! seeds and round trips, and no rule was made with them. The tables in `docs/analyze.md` are this
//! test's.

use crate::files;
use crate::truth;
use std::path::Path;

use crate::truth::{Score, Truth};
use diagnose::{Follower, Keep, Options, Report};

fn reports(path: &str) -> Vec<Report> {
    let keep = Keep::First(1_000, 200_000);
    let mut follower = Follower::new(Options { keep, ..Options::default() });
    files::segments(path).iter().for_each(|s| follower.take(s));
    follower.reports().collect()
}

/// Of one set: at the sender and at the receiver.
fn scores(set: &str) -> [Score; 2] {
    let folder = format!("{}/tests/retransmissions/{set}", env!("CARGO_MANIFEST_DIR"));
    let mut names: Vec<String> = Path::new(&folder)
        .read_dir()
        .unwrap()
        .filter_map(|e| Some(e.unwrap().file_name().to_str()?.strip_suffix(".truth")?.to_owned()))
        .collect();
    names.sort();
    let only = std::env::var("ONLY").ok();
    let mut all = [Score::default(), Score::default()];
    for name in names.iter().filter(|n| only.as_ref().is_none_or(|o| o == *n)) {
        let truth = Truth::parse(&std::fs::read_to_string(format!("{folder}/{name}.truth")).unwrap());
        for (end, all) in ["a", "b"].into_iter().zip(&mut all) {
            let mut one = Score::default();
            for report in reports(&format!("{folder}/{name}.{end}.pcap.zst")) {
                let at_sender = end == "a";
                one.add(&report, &truth, if at_sender { 0 } else { truth.delay }, at_sender);
            }
            println!("{name}.{end}: {} of {}", one.right(), one.total());
            one.wrong.iter().take(8).for_each(|line| println!("    {line}"));
            all.join(&one);
        }
    }
    all
}

#[test]
fn classes_are_the_kernels() {
    let mut wrong = Vec::new();
    let only = std::env::var("SET").ok();
    let sets = [
        ("tuned", "rules made with these"),
        ("unseen", "others"),
        ("drawn_1", "drawn by chance, seed 1"),
        ("drawn_2", "drawn by chance, seed 2"),
        ("drawn_3", "drawn by chance, seed 3"),
        ("drawn_4", "drawn by chance, seed 4"),
    ];
    for (set, words) in sets.into_iter().filter(|s| only.as_deref().is_none_or(|o| o == s.0)) {
        for (score, end) in scores(set).iter().zip(["sender", "receiver"]) {
            let table = score.table(&format!("at the {end}, {words}"));
            println!("\n{table}");
            if !include_str!("../../../../docs/analyze.md").contains(&table) {
                wrong.push(format!("docs/analyze.md does not hold the table of {set} at the {end}"));
            }
            for class in truth::TRUTHS {
                let Some((_, _, f1)) = score.f1(class) else { continue };
                // With few of a class one mistake is many per cent. What was drawn by chance is
                // measured, and the docs say what is below.
                if f1 < 0.95 && score.of(class) >= 20 && !set.starts_with("drawn") {
                    wrong.push(format!("{set} at the {end}: {class:?} has F1 {f1:.3}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One trace whose label the sending kernel gave: nine retransmissions, all of timeouts. Those of a
/// lone segment may be probes as well, as a capture sees it.
#[test]
fn a_capture_of_timeouts_is_read_as_the_kernel_counted() {
    let reports = reports(concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/tests/recorded/timeouts.pcap"));
    let to_server = &reports[0].to_server.retransmissions;
    assert_eq!((reports.len(), to_server.timeout + to_server.timer), (1, 9), "{to_server:?}");
    assert!(to_server.timeout >= 7, "{to_server:?}");
    assert_eq!(to_server.fast + to_server.sack_recovery + to_server.tail_loss_probe + to_server.unclear, 0);
}

/// One trace whose label another tool gave: nine retransmissions, all of timeouts.
#[test]
fn a_labelled_trace_is_read_as_it_is_labelled() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/captures/R_rto_rto001.trace");
    tier::needs!(tier::Need::Path(path));
    let reports = reports(path);
    let by = |f: fn(&diagnose::Retransmissions) -> u32| -> u32 {
        reports.iter().flat_map(|r| [&r.to_server, &r.to_client]).map(|d| f(&d.retransmissions)).sum()
    };
    assert_eq!(by(|r| r.timeout), 9);
    assert_eq!(by(|r| r.fast + r.sack_recovery + r.tail_loss_probe + r.unclear), 0);
}
