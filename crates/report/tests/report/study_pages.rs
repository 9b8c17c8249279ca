//! Pages of studies that nature could make: whatever was measured, no figure is absurd, no name is
//! there twice, every link has its place.

use record::trial::Response;
use std::collections::BTreeSet;

use lab::Side;
use paper::document::{Block, Document, Table};
use paper::plot::{Layer, Scale};
use paper::{Canvas, html, terminal};
use report::page;
use study::ledger::Provenance;
use study::{Factor, Known, Plan, Setting, Study, Sysctl, Trial};

/// Numbers that scatter well enough (xorshift, Marsaglia 2003).
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n.max(1)
    }

    fn share(&mut self) -> f64 {
        self.below(1 << 30) as f64 / f64::from(1 << 30)
    }

    /// About normal, with a tail: one in ten is three times as far off.
    fn noise(&mut self) -> f64 {
        let z = (0..6).map(|_| self.share()).sum::<f64>() - 3.0;
        if self.below(10) == 0 { 3.0 * z } else { z }
    }
}

/// Factors whose names and levels read alike where they are cut.
fn timestamps(side: Side) -> Factor {
    Factor::new(Setting::Sysctl(Some(side), Sysctl::TIMESTAMPS), [1, 0])
}

fn factors(seeded: &mut Seeded) -> Vec<Factor> {
    let known = [
        Factor::new(Known::Delay, ["1ms", "5ms", "25ms", "100ms"]),
        timestamps(Side::A),
        timestamps(Side::B),
        Factor::new(Known::Congestion, ["cubic", "bbr", "reno"]),
        Factor::new(
            Setting::Sysctl(Some(Side::B), Sysctl::RECEIVE_BUFFERS),
            ["4096 131072 6291456", "4096 131072 67108864"],
        ),
        Factor::new(Known::Write, ["1448", "16K", "128K", "1M", "2M"]),
    ];
    let first = seeded.below(6) as usize;
    (0..=seeded.below(3) as usize).map(|i| known[(first + i) % known.len()].clone()).collect()
}

fn made(seed: u64) -> (Provenance, Vec<Trial>) {
    let mut seeded = Seeded(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let response = [Response::Goodput, Response::LatencyP99, Response::Retransmitted][seeded.below(3) as usize];
    let spread = [1e-6, 0.01, 0.3, 4.0][seeded.below(4) as usize];
    let effect = [0.0, 0.01, 1.5, 12.0][seeded.below(4) as usize];
    let blocks = [1, 2, 3, 6, 12][seeded.below(5) as usize];
    let plan = Plan {
        name: ["plan", "rr <b>& such", "net.ipv4: one, two"][seeded.below(3) as usize].into(),
        factors: factors(&mut seeded),
        fixed: vec![(Known::Rate.into(), "1gbit".into())],
        response,
        repetitions: blocks,
        duration: record::Nanos::from_secs(1),
        warm_up: record::Nanos::ZERO,
        frames: 0,
        until: (seeded.below(4) == 0).then_some(0.05),
    };
    let mut trials = Vec::new();
    for block in 0..blocks {
        for place in plan.block(block, seed) {
            let level = place.levels.iter().sum::<usize>() as f64;
            let zero = response == Response::Retransmitted && seeded.below(3) == 0;
            let value = if zero { 0.0 } else { 1e8 * (effect * level + spread * seeded.noise()).exp() };
            trials.push(Trial {
                responses: [(response, value)].into(),
                broken: if seeded.below(30) == 0 { vec!["the path broke its promise".into()] } else { Vec::new() },
                cpu_busy: Some(0.5),
                ..Trial::at(&plan, 0, &place)
            });
        }
    }
    let study = Study { name: "made".into(), builtin: false, plans: vec![plan], host: None };
    (Provenance::here(&study, seed, Vec::new()), trials)
}

fn words_of(document: &Document) -> Vec<String> {
    let of_table = |t: &Table| {
        let head = t.columns.iter().map(|column| column.name.clone());
        head.chain((0..t.rows.len()).flat_map(|row| t.written(row))).collect::<Vec<_>>()
    };
    let mut all: Vec<String> = document.verdict.iter().map(|clause| clause.text.to_string()).collect();
    for block in document.sections.iter().flat_map(|s| &s.blocks) {
        match block {
            Block::Words(text) | Block::Warning(text) => all.push(text.to_string()),
            Block::List(lines) => all.extend(lines.iter().map(ToString::to_string)),
            Block::Table(t) => all.extend(of_table(t)),
            Block::Plot(plot) => {
                all.extend([plot.title.clone(), plot.caption.clone()]);
                all.extend(plot.table.iter().flat_map(of_table));
                for layer in &plot.layers {
                    if let Layer::Intervals { items, .. } = layer {
                        all.extend(items.iter().map(|i| i.label.clone()));
                    }
                }
            }
            _ => {}
        }
    }
    all
}

/// Every number before a per cent sign.
fn per_cents(text: &str) -> Vec<f64> {
    let before = |at: usize| {
        let number: String =
            text[..at].trim_end().chars().rev().take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ',')).collect();
        number.chars().rev().filter(|c| *c != ',').collect::<String>().parse().ok()
    };
    text.match_indices('%').filter_map(|(at, _)| before(at)).collect()
}

#[test]
fn no_figure_is_absurd_and_no_name_is_there_twice() {
    for seed in 0..60 {
        let (provenance, trials) = made(seed);
        let document = page::study::document(Some("run"), &provenance, &trials);
        for sentence in document.verdict.iter().map(|clause| clause.text.to_string()) {
            // "… (in full below)" is not counted.
            assert!(sentence.split_whitespace().count() <= 34, "{seed}: {sentence}");
        }
        for text in words_of(&document) {
            for share in per_cents(&text) {
                assert!(share <= 9_900.0, "{seed}: {text}");
            }
            assert!(!text.contains("NaN") && !text.contains("inf "), "{seed}: {text}");
        }
        let measures = document.sections.iter().flat_map(|s| &s.blocks).filter_map(|b| match b {
            Block::Table(t) => t.column("Hedges' g").map(|column| (t, column)),
            _ => None,
        });
        for (table, column) in measures {
            for row in &table.rows {
                let g = row.cells[column].to_string().parse::<f64>().unwrap_or(0.0);
                assert!(g.abs() < 100.0, "{seed}: {row:?}");
            }
        }
        for plot in document.plots() {
            for axis in [&plot.x, &plot.y] {
                if let Scale::Names { names } = &axis.scale {
                    let different: BTreeSet<String> = names.iter().map(ToString::to_string).collect();
                    assert_eq!(different.len(), names.len(), "{seed}, {}: {names:?}", plot.id);
                }
            }
        }
        let text =
            terminal::text(&Canvas { width: 100, colour: false, unicode: true }, std::slice::from_ref(&document));
        assert!(text.lines().count() > 10, "{seed}: {text}");
    }
}

/// Studies with levels that are close to each other: delays, sizes, rates and shares.
fn close(factor: Known, levels: &[&str], response: Response, spread: f64) -> Document {
    let plan = Plan {
        name: "close".into(),
        factors: vec![Factor::new(factor, levels.iter().copied()), timestamps(Side::A)],
        fixed: vec![(Known::Rate.into(), "1gbit".into())],
        response,
        repetitions: 5,
        duration: record::Nanos::from_secs(1),
        warm_up: record::Nanos::ZERO,
        frames: 0,
        until: None,
    };
    let mut seeded = Seeded(77);
    let mut trials = Vec::new();
    for block in 0..5 {
        for place in plan.block(block, 1) {
            let value = 25_400_000.0 * (1.0 + spread * seeded.noise());
            let series = (0..10).map(|i| {
                serde_json::from_value(
                    serde_json::json!({"at_ns": i * 100_000_000, "goodput_bits_per_second": value + f64::from(i),
                    "srtt_ns": 190_000, "cwnd_bytes": 1_448, "receive_window_bytes": 65_535 + i, "warm_up": false}),
                )
                .unwrap()
            });
            trials.push(Trial {
                responses: [(response, value)].into(),
                series: series.collect(),
                ..Trial::at(&plan, 0, &place)
            });
        }
    }
    let study = Study { name: "close".into(), builtin: false, plans: vec![plan], host: None };
    page::study::document(None, &Provenance::here(&study, 1, Vec::new()), &trials)
}

#[test]
fn no_series_is_twice_in_a_legend_and_no_two_ticks_read_the_same() {
    let mut plots = 0;
    for (factor, levels) in [
        (Known::Delay, &["0.19ms", "0.2ms", "0.21ms"][..]),
        (Known::Delay, &["0.19ms", "0.2ms", "1s"]),
        (Known::Write, &["1448", "1449", "1450"]),
        (Known::Rate, &["999mbit", "1gbit", "1001mbit"]),
        (Known::Loss, &["0.1%", "0.11%", "0.12%"]),
        (Known::Flows, &["1", "2", "3", "4"]),
    ] {
        for response in [Response::Goodput, Response::LatencyP50, Response::ReceiveWindow, Response::Retransmitted] {
            for spread in [1e-8, 1e-6, 1e-3, 0.3] {
                let document = close(factor, levels, response, spread);
                for plot in document.plots() {
                    let place = format!("{}, {response}, {spread}: {}", factor.name(), plot.id);
                    for about in [1, 4, 7, 12] {
                        for axis in [&plot.x, &plot.y] {
                            let ticks: Vec<String> = axis.ticks(about).into_iter().map(|t| t.1).collect();
                            let different: BTreeSet<&String> = ticks.iter().collect();
                            assert_eq!(different.len(), ticks.len(), "{place}: {ticks:?}");
                        }
                    }
                    // A series may have a line and intervals, of one name and one colour.
                    let lines = plot.layers.iter().filter(|l| matches!(l, Layer::Line { .. })).filter_map(Layer::key);
                    let names: Vec<&str> = lines.map(|key| key.0).collect();
                    let different: BTreeSet<&str> = names.iter().copied().collect();
                    assert_eq!(different.len(), names.len(), "{place}: {names:?}");
                    let keys: BTreeSet<(&str, u8)> =
                        plot.layers.iter().filter_map(Layer::key).map(|k| (k.0, k.1.0)).collect();
                    let names: BTreeSet<&str> = keys.iter().map(|key| key.0).collect();
                    assert_eq!(names.len(), keys.len(), "{place}: {keys:?}");
                    plots += 1;
                }
            }
        }
    }
    assert!(plots > 500, "{plots} plots");
}

#[test]
fn every_link_of_a_page_has_its_place_and_no_place_is_there_twice() {
    for seed in 0..20 {
        let (provenance, trials) = made(seed);
        let document = page::study::document(Some("run"), &provenance, &trials);
        let page = html::page(&[document.clone(), document.clone()], "test").unwrap();
        // Blocks of shade are for terminals.
        assert!(!page.contains("@@@"), "{seed}");
        let body = page.split_once("<body>").unwrap().1.split_once("<script").unwrap().0;
        let ids: Vec<&str> = body.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        let places: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), places.len(), "{seed}: {ids:?}");
        let links: Vec<&str> = body.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        assert!(links.len() > 4 && links.iter().all(|link| places.contains(link)), "{seed}: {links:?}");
        for rows in ["study-made-run-", "study-made-run-2-"] {
            for plot in document.plots() {
                for layer in &plot.layers {
                    let Layer::Dots { links, points, .. } = layer else { continue };
                    assert!(links.is_empty() || links.len() == points.len());
                    let found = links.iter().all(|link| places.contains(format!("{rows}{link}").as_str()));
                    assert!(found, "{seed}: {links:?} of {places:?}");
                }
            }
        }
        let tables = body.matches("<table>").count();
        assert_eq!(body.matches("href=\"data:text/csv;charset=utf-8;base64,").count(), tables, "{seed}");
        assert!(body.contains("id=\"study-made-run-trial-0\""), "{seed}");
    }
}

#[test]
fn pages_of_studies_fit_into_every_window() {
    for need in tier::browser::NEEDS {
        tier::needs!(need);
    }
    let folder = tempfile::tempdir().unwrap();
    let pages: Vec<_> = (1..=12)
        .map(|seed| {
            let (provenance, trials) = made(seed);
            let file = folder.path().join(format!("{seed}.html"));
            std::fs::write(&file, html::page(&[page::study::document(None, &provenance, &trials)], "test").unwrap())
                .unwrap();
            file
        })
        .collect();
    let near = close(Known::Delay, &["0.19ms", "0.2ms", "0.21ms"], Response::ReceiveWindow, 1e-6);
    let file = folder.path().join("near.html");
    std::fs::write(&file, html::page(&[near], "test").unwrap()).unwrap();
    let pages: Vec<_> = pages.into_iter().chain([file]).collect();
    assert_eq!(tier::browser::problems(&pages), Vec::<String>::new());
}
