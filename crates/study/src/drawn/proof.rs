//! That every setting took and the path kept its promise: by the packets, and by the path's own
//! account.

use record::trial::Response;
use std::collections::BTreeMap;

use crate::outcome::Trial;
use crate::plan::Plan;
use crate::{analysis, response};
use lab::{DirectionReport, PathReport};
use record::Nanos;

use paper::document::{Column, Table, columns};

/// Rows of a table of combinations.
const ROWS: usize = 200;

/// What the packets prove of each combination.
pub fn settings(plans: &[Plan], trials: &[Trial]) -> Table {
    let head = columns(["plan", "levels"], ["trials", "do not count", "frames seen", "not seen"])
        .into_iter()
        .chain(["TCP header bytes: frames", "SYN options"].map(Column::text));
    let mut table = Table::new("By combination, from the packets", head);
    let mut rows = 0;
    for (part, plan) in plans.iter().enumerate() {
        for levels in analysis::combinations(plan) {
            let of: Vec<&Trial> = trials.iter().filter(|t| t.part == part && t.levels == levels).collect();
            rows += 1;
            if of.is_empty() || rows > ROWS {
                continue;
            }
            let mut headers: BTreeMap<u8, u64> = BTreeMap::new();
            let mut syns: Vec<String> = Vec::new();
            for trial in &of {
                trial.evidence.header_bytes.iter().for_each(|(bytes, n)| *headers.entry(*bytes).or_default() += n);
                for syn in &trial.evidence.syns {
                    let text = format!(
                        "{}: window scale {}, timestamps {}, SACK {}, MSS {}",
                        if syn.from_server { "SYN-ACK" } else { "SYN" },
                        syn.window_scale.map_or_else(|| "none".into(), |s| s.to_string()),
                        if syn.timestamps { "yes" } else { "no" },
                        if syn.sack { "yes" } else { "no" },
                        syn.mss.map_or_else(|| "none".into(), |m| m.to_string())
                    );
                    if !syns.contains(&text) {
                        syns.push(text);
                    }
                }
            }
            let headers = headers.iter().map(|(bytes, n)| format!("{bytes}: {}", quantity::count(*n)));
            table.push(vec![
                plan.name.clone(),
                plan.label(&levels).join(", "),
                of.len().to_string(),
                of.iter().filter(|t| !t.counts()).count().to_string(),
                quantity::count(of.iter().map(|t| t.evidence.frames).sum()),
                quantity::count(of.iter().map(|t| t.evidence.dropped).sum()),
                headers.collect::<Vec<_>>().join(", "),
                syns.join("; "),
            ]);
        }
    }
    if rows > ROWS {
        table.title = format!("The first {ROWS} of {rows} combinations, from the packets");
    }
    table
}

/// The smallest and the largest, in words.
fn range<T: PartialOrd + Copy>(values: impl Iterator<Item = T>, words: impl Fn(T) -> String) -> String {
    let mut reach: Option<(T, T)> = None;
    for v in values {
        reach =
            Some(reach.map_or((v, v), |(low, high)| (if v < low { v } else { low }, if v > high { v } else { high })));
    }
    match reach.map(|(low, high)| (words(low), words(high))) {
        None => "—".into(),
        Some((low, high)) if low == high => low,
        Some((low, high)) => format!("{low} … {high}"),
    }
}

/// One direction's account of a path's.
type Way = fn(&PathReport) -> &DirectionReport;

/// What the path was asked for, beside what it was.
pub fn path(plans: &[Plan], trials: &[Trial]) -> Table {
    let figures = [
        "delay asked",
        "median delay",
        "rate asked",
        "rate while busy",
        "loss asked",
        "loss",
        "dropped by the queue",
        "trials",
    ];
    let head = columns(["plan", "levels", "way"], figures);
    let mut table = Table::new("By combination, by the path's own account; ranges are over trials", head);
    let ways: [(&str, Way); 2] = [("a to b", |p| &p.a_to_b), ("b to a", |p| &p.b_to_a)];
    let rate = |bits: f64| response::quantity(Response::Goodput, bits);
    for (part, plan) in plans.iter().enumerate() {
        for levels in analysis::combinations(plan) {
            let of = trials.iter().filter(|t| t.part == part && t.levels == levels);
            let reports: Vec<&PathReport> = of.filter_map(|t| t.path.as_ref()).collect();
            let Some(first) = reports.first() else { continue };
            if table.rows.len() >= ROWS {
                continue;
            }
            for (way, side) in ways {
                let asked = &side(first).asked;
                let did = || reports.iter().filter_map(|r| side(r).achieved.as_ref());
                table.push(vec![
                    plan.name.clone(),
                    plan.label(&levels).join(", "),
                    way.into(),
                    asked.delay.to_string(),
                    range(did().filter_map(|d| Some(d.delay?.p50.0)), |ns| Nanos(ns).to_string()),
                    asked.rate.map_or_else(|| "none".into(), |r| rate(r.bits() as f64)),
                    range(did().filter_map(|d| d.busy_rate), rate),
                    quantity::percent(asked.loss.share()),
                    range(did().filter_map(|d| d.loss), quantity::percent),
                    range(did().map(|d| d.dropped_queue), quantity::count),
                    reports.len().to_string(),
                ]);
            }
        }
    }
    if table.rows.len() >= ROWS {
        table.title.push_str(&format!("; the first {} rows", table.rows.len()));
    }
    table
}
