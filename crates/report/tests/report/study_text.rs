//! A study ends with the text that `wirelapse report` shows of its run, and its page has the same
//! sentences.

use paper::{Canvas, html, terminal};
use record::trial::{Measure, Response};
use report::page::study::document;
use study::ledger::{Ledger, Provenance, load};
use study::{Study, Trial, builtin, plan_file};

fn trial(block: u32, level: usize) -> Trial {
    let goodput = if level == 0 { 100e6 } else { 80e6 } + f64::from(block) * 1e5;
    let label = ["1ms", "5ms"][level];
    let broken = if block == 5 && level == 1 { vec!["the path lost frames"] } else { Vec::new() };
    let points: Vec<serde_json::Value> = (0..10)
        .map(|i| {
            serde_json::json!({"at_ns": i * 100_000_000, "bits_per_second": goodput, "srtt_ns": 2_000_000, "cwnd_bytes": 100_000,
                "receive_window_bytes": 65_535, "warm_up": i < 2})
        })
        .collect();
    serde_json::from_value(serde_json::json!({
        "part": 0, "block": block, "position": level, "levels": [level], "labels": [label],
        "started_ns": 1_700_000_000_000_000_000_u64, "took_ns": 1_000_000_000,
        "responses": {"goodput": goodput}, "held": ["the path a to b: delay as asked"],
        "broken": broken,
        "evidence": {"frames": 100, "dropped": 0, "unread": 0, "header_bytes": {}, "syns": [], "windows": [], "findings": []},
        "series": points, "path": null
    }))
    .unwrap()
}

#[test]
fn the_end_of_a_study_its_report_and_its_page_say_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan_file::parse("p.toml", "repetitions = 6\n[factors]\ndelay = [\"1ms\", \"5ms\"]\n").unwrap();
    let study = Study { name: plan.name.clone(), builtin: false, plans: vec![plan], host: None };
    let path = dir.path().join("run");
    let mut provenance = Provenance::here(&study, 7, vec!["wirelapse".into(), "study".into(), "p.toml".into()]);
    let mut ledger = Ledger::create(&path, provenance.clone()).unwrap();
    let trials: Vec<Trial> = (0..6).flat_map(|block| [0, 1].map(|level| trial(block, level))).collect();
    trials.iter().for_each(|trial| ledger.add(trial).unwrap());
    let said = builtin::conclude(&study, &trials, 7);
    ledger.conclude(&said, true).unwrap();
    provenance.state = store::State::Finished;
    let at_the_end = document(Some("run"), &provenance, &trials);
    let (kept, read, _) = load(&path).unwrap();
    let later = document(Some("run"), &kept, &read);
    let sentences: Vec<String> = said
        .verdict
        .iter()
        .map(ToString::to_string)
        .chain([&said.checked, &said.lost, &said.notes].into_iter().flatten().cloned())
        .collect();
    assert!(sentences.len() > 4, "{sentences:?}");
    for (width, colour, unicode) in [(60, false, true), (80, true, true), (140, false, true)] {
        let canvas = Canvas { width, colour, unicode };
        let [first, second] =
            [&at_the_end, &later].map(|document| terminal::text(&canvas, std::slice::from_ref(document)));
        assert_eq!(first.lines().zip(second.lines()).find(|(a, b)| a != b), None, "width {width}");
        assert_eq!(first, second);
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").replace('\u{a0}', " ");
        for sentence in &sentences {
            assert!(flat(&first).contains(&flat(sentence)), "width {width}: {sentence:?} is not in {first}");
        }
        assert!(first.contains("goodput over time") && first.contains("1ms (n = 6)"), "{first}");
    }
    let page = html::page(std::slice::from_ref(&later), "test").unwrap();
    for sentence in &sentences {
        let escaped = sentence.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
        assert!(page.contains(escaped.trim_end_matches('.')), "{sentence:?}");
    }
}

/// Trials of every combination of a study, with every response that there is: those of an odd level
/// are off by a factor, and each by noise.
fn made_up(study: &Study, factor: f64, noise: f64) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (part, plan) in study.plans.iter().enumerate() {
        for block in 0..plan.repetitions {
            for place in plan.block(block, 1) {
                let odd: usize = place.levels.iter().sum::<usize>() % 2;
                let step = f64::from((block * 7 + place.position * 5) % 11) / 11.0 - 0.5;
                let size = factor.powi(odd as i32) * (noise * step).exp();
                let mut trial = Trial::at(plan, part, &place);
                let shares = |response: Response| {
                    if response.measure() == Measure::Share { (0.5 * size).min(1.0) } else { 1e6 * size }
                };
                trial.responses = Response::ALL.into_iter().map(|r| (r, shares(r))).collect();
                trials.push(trial);
            }
        }
    }
    trials
}

#[test]
fn what_comes_first_of_a_quick_study_is_short_whatever_it_finds() {
    for built_in in &builtin::ALL {
        let study = built_in.study(true);
        let provenance = Provenance::here(&study, 7, Vec::new());
        for (factor, noise) in [(1.0, 0.0), (1.0, 0.1), (0.5, 0.05), (4.0, 3.0)] {
            let verdict = document(None, &provenance, &made_up(&study, factor, noise)).verdict;
            assert!((1..=6).contains(&verdict.len()), "{}: {verdict:?}", study.name);
            for sentence in verdict.iter().map(|clause| clause.text.to_string()) {
                let words = sentence.trim_end_matches(" (in full below).").split_whitespace().count();
                assert!(words <= 31, "{}, × {factor}, noise {noise}: {words} words: {sentence}", study.name);
            }
        }
    }
}
