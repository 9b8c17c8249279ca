//! The page of a fleet: which hosts, peers and services became slower than the week before, and in which leg.
//!
//! An hour is compared with the same hour of the week before, so the rhythm of a day and of a week is in neither. The pairs of hours are
//! what an interval is computed from. One slow hour follows another: as far as the ratios of neighbouring hours go together, in all groups taken
//! together, the hours count as fewer, and intervals are wider.

use std::collections::BTreeMap;

use stats::{Estimate, Judgement};

use crate::document::{Block, Document, Section, Table};
use crate::view::capital;

/// Hours in a week.
const WEEK: i64 = 168;
/// Groups that a table lists.
const LISTED: usize = 20;
/// Runs that are named for a host.
const RUNS_A_HOST: usize = 3;

/// The time that is judged, microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Its beginning, in it.
    pub start_us: i64,
    /// Its end, not in it.
    pub end_us: i64,
}

/// One hour of one leg of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hour {
    /// Hours since 1970.
    pub hour: i64,
    /// Sends.
    pub sends: u64,
    /// Their mean.
    pub mean_ns: f64,
    /// 99 % of them took at most this.
    pub p99_ns: Option<f64>,
}

/// A host, a peer or a service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// `host`, `peer` or `service`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Its hours, of both weeks, by leg.
    pub legs: BTreeMap<String, Vec<Hour>>,
}

/// A run to look at.
#[derive(Clone, Debug, PartialEq)]
pub struct Linked {
    /// Its host.
    pub host: String,
    /// Its directory below the place.
    pub directory: String,
    /// Sends.
    pub sends: u64,
    /// Their mean.
    pub mean_ns: f64,
}

/// Groups from which on what neighbouring hours have in common is known well.
const MANY: usize = 5;

/// How much the ratios of neighbouring hours go together: the correlation of one hour with the next.
#[derive(Clone, Copy)]
struct Memory {
    correlation: f64,
    /// Whether it comes from many groups; from few it is uncertain itself.
    known: bool,
}

impl Memory {
    const NONE: Self = Self { correlation: 0.0, known: true };

    /// Of the logarithms of ratios of all groups. The estimate from short series is too low by about (1 + 3 r) / n; and it is taken one
    /// standard error higher than it is.
    fn of(all: &[Vec<f64>]) -> Self {
        let (mut together, mut alone, mut values) = (0.0, 0.0, 0_usize);
        for series in all {
            let mean = series.iter().sum::<f64>() / series.len().max(1) as f64;
            together += series.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
            alone += series.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
            values += series.len();
        }
        let hours = values as f64 / all.len().max(1) as f64;
        let found = if alone > 0.0 && hours > 3.0 { (together / alone * hours + 1.0) / (hours - 3.0) } else { 0.0 };
        let correlation = (found + 1.0 / (values.max(1) as f64).sqrt()).clamp(0.0, 0.95);
        Self { correlation, known: all.len() >= MANY }
    }

    /// The mean of a series with its interval. `None` below two values.
    fn mean(self, judgement: Judgement, series: &[f64]) -> Option<Estimate> {
        let (plain, _) = judgement.of(series)?;
        let (n, r) = (series.len() as f64, self.correlation);
        if r == 0.0 {
            return Some(plain);
        }
        // n values that go together are worth so many in a mean, and in a spread.
        let longer = (1.0 + r) / (1.0 - r);
        let in_mean = (n / longer).max(2.0);
        let in_spread = if self.known { (n * (1.0 - r * r) / (1.0 + r * r)).max(2.0) } else { in_mean };
        let mean = plain.value;
        let spread = series.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
        // The spread around a mean that drifts with the values is too small.
        let spread = spread * ((n - 1.0) / n) / (1.0 - longer / n).max(0.2);
        let estimate = judgement.around(mean, (spread * longer / n).sqrt(), in_spread as usize);
        Some(Estimate { n: series.len(), ..estimate })
    }
}

/// The hours of a group that both weeks have: p99 before and in the period.
fn p99(group: &Group, period: Period) -> Vec<(f64, f64)> {
    let both = |(before, after): &(Hour, Hour)| {
        Some((before.p99_ns.filter(|p| *p > 0.0)?, after.p99_ns.filter(|p| *p > 0.0)?))
    };
    group.legs.get("total").map_or_else(Vec::new, |total| pairs(total, period).iter().filter_map(both).collect())
}

fn logarithms(p99: &[(f64, f64)]) -> Vec<f64> {
    p99.iter().map(|(before, after)| (after / before).ln()).collect()
}

/// What became of a group.
struct Change<'a> {
    group: &'a Group,
    /// The ratio of p99, as a logarithm: of this period to the week before, and its interval.
    ratio: Estimate,
    /// The p99 before and in the period: medians over the hours.
    before_ns: f64,
    after_ns: f64,
    /// Sends in these hours, before and in the period.
    sends_before: u64,
    sends: u64,
    /// The leg with the largest increase of its mean, and its share of the increase of the total.
    leg: Option<(String, f64, f64)>,
}

/// The hours that both weeks have: before, and in the period.
fn pairs(hours: &[Hour], period: Period) -> Vec<(Hour, Hour)> {
    let first = period.start_us.div_euclid(3_600_000_000);
    let by_hour: BTreeMap<i64, Hour> = hours.iter().map(|hour| (hour.hour, *hour)).collect();
    by_hour
        .range(first..)
        .filter_map(|(hour, after)| Some((*by_hour.get(&(hour - WEEK))?, *after)))
        .filter(|(before, after)| before.hour < first && before.sends > 0 && after.sends > 0)
        .collect()
}

fn weighted_mean(hours: impl Iterator<Item = Hour>) -> f64 {
    let (sum, n) =
        hours.fold((0.0, 0.0), |(sum, n), hour| (sum + hour.mean_ns * hour.sends as f64, n + hour.sends as f64));
    if n > 0.0 { sum / n } else { 0.0 }
}

/// By how much the mean of a leg grew.
fn growth(hours: &[Hour], period: Period) -> Option<f64> {
    let pairs = pairs(hours, period);
    if pairs.is_empty() {
        return None;
    }
    Some(weighted_mean(pairs.iter().map(|(_, after)| *after)) - weighted_mean(pairs.iter().map(|(before, _)| *before)))
}

fn change<'a>(group: &'a Group, period: Period, judgement: Judgement, memory: Memory) -> Option<Change<'a>> {
    let total = group.legs.get("total")?;
    let pairs = pairs(total, period);
    let p99 = p99(group, period);
    let ratio = memory.mean(judgement, &logarithms(&p99))?;
    let middle = |values: Vec<f64>| stats::median(&values);
    let whole = growth(total, period)?;
    let legs = group.legs.iter().filter(|(leg, _)| *leg != "total");
    let leg = legs
        .filter_map(|(leg, hours)| Some((leg.clone(), growth(hours, period)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, grew)| *grew > 0.0)
        .map(|(leg, grew)| (leg, grew, grew / whole));
    Some(Change {
        group,
        ratio,
        before_ns: middle(p99.iter().map(|p| p.0).collect())?,
        after_ns: middle(p99.iter().map(|p| p.1).collect())?,
        sends_before: pairs.iter().map(|(before, _)| before.sends).sum(),
        sends: pairs.iter().map(|(_, after)| after.sends).sum(),
        leg,
    })
}

/// The page. `place` is where the runs are, `until` the end of the period as a date.
pub fn document(place: &str, period: Period, until: &str, groups: &[Group], linked: &[Linked]) -> Document {
    let of_all: Vec<Vec<f64>> = groups.iter().map(|group| logarithms(&p99(group, period))).collect();
    let comparable = groups.iter().filter(|g| change(g, period, Judgement::ALONE, Memory::NONE).is_some()).count();
    let judgement = Judgement { comparisons: comparable, sequential: false };
    let series: Vec<Vec<f64>> = of_all.into_iter().filter(|series| series.len() > 1).collect();
    let memory = Memory::of(&series);
    let changes: Vec<Change<'_>> = groups.iter().filter_map(|group| change(group, period, judgement, memory)).collect();
    let hours = (period.end_us - period.start_us) / 3_600_000_000;
    let mut verdict = Vec::new();
    let mut sections = Vec::new();
    for kind in ["host", "peer", "service"] {
        let of_kind: Vec<&Change<'_>> = changes.iter().filter(|change| change.group.kind == kind).collect();
        let seen = of_kind.iter().filter(|change| change.ratio.low > 0.0).count();
        if !of_kind.is_empty() {
            verdict.push(said(kind, &of_kind, seen));
            sections.push(section(kind, &of_kind));
        }
    }
    if changes.is_empty() {
        verdict.push(
            "No host, peer or service has two hours that the week before has too: nothing can be compared.".into(),
        );
    }
    if let Some(section) = runs(place, &changes, linked) {
        sections.push(section);
    }
    let mut warnings = Vec::new();
    let without = groups.len() - comparable;
    if without > 0 {
        warnings.push(format!(
            "{} without two hours in both weeks {} not compared.",
            quantity::counted(without as u64, "group"),
            if without == 1 { "is" } else { "are" }
        ));
    }
    warnings.extend(silent(groups, period));
    Document {
        title: format!("Fleet in {place}"),
        about: format!(
            "{hours} h to {until}, hour by hour against the week before · all intervals hold together at 95 %"
        ),
        verdict,
        warnings,
        sections,
    }
}

/// Hosts that were there the week before and are silent: what became of peers and services is then of fewer hosts.
fn silent(groups: &[Group], period: Period) -> Option<String> {
    let first = period.start_us.div_euclid(3_600_000_000);
    let hosts = || groups.iter().filter(|group| group.kind == "host").filter_map(|group| group.legs.get("total"));
    let gone = hosts().filter(|hours| hours.iter().all(|hour| hour.hour < first)).count();
    let new = hosts().filter(|hours| hours.iter().all(|hour| hour.hour >= first)).count();
    let say = |n: usize, what: &str| (n > 0).then(|| format!("{} {what}", quantity::counted(n as u64, "host")));
    let parts: Vec<String> =
        [say(gone, "had sends the week before and none in this period"), say(new, "had none the week before")]
            .into_iter()
            .flatten()
            .collect();
    (!parts.is_empty()).then(|| {
        format!("{}: a peer or service that they share can seem faster or slower for that alone.", parts.join("; "))
    })
}

fn said(kind: &str, changes: &[&Change<'_>], seen: usize) -> String {
    let all = quantity::counted(changes.len() as u64, kind);
    let worst = changes.iter().filter(|c| c.ratio.low > 0.0).max_by(|a, b| a.ratio.value.total_cmp(&b.ratio.value));
    match worst {
        Some(worst) => format!(
            "{seen} of {all} became slower; most {}: its p99 is {} the week before's{}{}.",
            worst.group.name,
            times(&worst.ratio),
            in_leg(worst),
            more_sends(worst)
        ),
        None => {
            let smallest = changes.iter().map(|c| c.ratio.half_width()).fold(f64::INFINITY, f64::min);
            format!(
                "None of {all} is seen to have become slower; the narrowest interval would show {}.",
                quantity::change(smallest.exp_m1())
            )
        }
    }
}

fn in_leg(change: &Change<'_>) -> String {
    change.leg.as_ref().map_or_else(String::new, |(leg, grew, _)| {
        format!("; the mean of leg {leg} grew most, by {}", quantity::time_to(*grew, 3))
    })
}

/// Much more traffic, or much less, can be the reason.
fn more_sends(change: &Change<'_>) -> String {
    let ratio = change.sends as f64 / change.sends_before as f64;
    if (0.67..1.5).contains(&ratio) { String::new() } else { format!("; it had {ratio:.1} × as many sends") }
}

/// `2.1 × (1.9 × to 2.4 ×)`.
fn times(ratio: &Estimate) -> String {
    format!("{:.2} × ({:.2} to {:.2})", ratio.value.exp(), ratio.low.exp(), ratio.high.exp())
}

fn section(kind: &str, changes: &[&Change<'_>]) -> Section {
    let mut sorted: Vec<&&Change<'_>> = changes.iter().collect();
    sorted.sort_by(|a, b| b.ratio.low.total_cmp(&a.ratio.low));
    let mut section = Section::new(format!("{}s", capital(kind)));
    let mut table = Table::new(
        "p99 of a send from call to ACK, against the same hours of the week before",
        &[
            kind,
            "sends before",
            "sends",
            "p99 before",
            "p99",
            "ratio and interval",
            "leg that grew most",
            "its mean grew by",
        ],
    );
    for change in sorted.iter().take(LISTED) {
        let leg = change.leg.as_ref();
        table.rows.push(vec![
            change.group.name.clone(),
            quantity::count(change.sends_before),
            quantity::count(change.sends),
            quantity::time_to(change.before_ns, 3),
            quantity::time_to(change.after_ns, 3),
            times(&change.ratio),
            leg.map_or_else(String::new, |(leg, ..)| leg.clone()),
            leg.map_or_else(String::new, |(_, grew, _)| quantity::time_to(*grew, 3)),
        ]);
    }
    section.table(table);
    if sorted.len() > LISTED {
        section.say(format!(
            "{} more are not listed: these are the {LISTED} that slowed most surely.",
            sorted.len() - LISTED
        ));
    }
    section
}

/// The runs to look at: of the hosts that became slower, those with the longest mean.
fn runs(place: &str, changes: &[Change<'_>], linked: &[Linked]) -> Option<Section> {
    let slow = |host: &str| changes.iter().any(|c| c.group.kind == "host" && c.group.name == host && c.ratio.low > 0.0);
    let mut table =
        Table::new("Runs of hosts that became slower, the slowest first", &["host", "sends", "mean", "run"]);
    let mut listed: BTreeMap<&str, usize> = BTreeMap::new();
    for run in linked.iter().filter(|run| slow(&run.host)) {
        let n = listed.entry(run.host.as_str()).or_default();
        *n += 1;
        if *n <= RUNS_A_HOST {
            let directory = format!("{}/{}", place.trim_end_matches('/'), run.directory);
            table.rows.push(vec![
                run.host.clone(),
                quantity::count(run.sends),
                quantity::time_to(run.mean_ns, 3),
                directory,
            ]);
        }
    }
    if table.rows.is_empty() {
        return None;
    }
    let mut section = Section::new("Runs to look at");
    section.table(table);
    section.blocks.push(Block::Words("`wirelapse report RUN` shows one of them.".into()));
    Some(section)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 48 hours of a group: the day before the end, and the same day a week earlier; the later one slower by this factor in leg network.
    fn group(name: &str, factor: f64) -> Group {
        let mut group = Group { kind: "host", name: name.into(), ..Group::default() };
        for week in [0, 1] {
            for hour in 0..24_i64 {
                let wobble = 1.0 + 0.01 * ((hour * 7 + week) % 5) as f64;
                let slow = if week == 1 { factor } else { 1.0 };
                let (network, tcp) = (1e6 * slow * wobble, 2e5 * wobble);
                let of = |mean_ns: f64| Hour {
                    hour: 1000 + hour + week * WEEK,
                    sends: 1000,
                    mean_ns,
                    p99_ns: Some(mean_ns * 3.0),
                };
                for (leg, ns) in [("network", network), ("tcp", tcp), ("total", network + tcp)] {
                    group.legs.entry(leg.into()).or_default().push(of(ns));
                }
            }
        }
        group
    }

    fn period() -> Period {
        let hour = 3_600_000_000;
        Period { start_us: (1000 + WEEK) * hour, end_us: (1024 + WEEK) * hour }
    }

    #[test]
    fn what_became_slower_is_named_with_its_leg_and_its_runs() {
        let groups = [group("web-1", 1.5), group("web-2", 1.0)];
        let run = Linked { host: "web-1".into(), directory: "host=web-1/run=9".into(), sends: 5, mean_ns: 2e6 };
        let page = document("/runs", period(), "2026-05-08", &groups, &[run]);
        assert!(page.verdict[0].contains("1 of 2 hosts became slower; most web-1"), "{:?}", page.verdict);
        assert!(page.verdict[0].contains("leg network"), "{:?}", page.verdict);
        let links = page.sections.iter().find(|s| s.title == "Runs to look at").unwrap();
        assert!(format!("{links:?}").contains("/runs/host=web-1/run=9"));
    }

    #[test]
    fn what_did_not_change_is_not_named() {
        let groups = [group("web-1", 1.0), group("web-2", 1.0)];
        let page = document("/runs", period(), "2026-05-08", &groups, &[]);
        assert!(page.verdict[0].starts_with("None of 2 hosts"), "{:?}", page.verdict);
    }

    /// A number between 0 and 1 that follows from these (SplitMix64).
    fn drawn(of: [u64; 3]) -> f64 {
        let mixed = of.into_iter().fold(0x9e37_79b9_7f4a_7c15_u64, |state, value| {
            let mut z = (state ^ value.wrapping_mul(0xbf58_476d_1ce4_e5b9)).wrapping_add(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(fleet: u64, group: u64, at: u64) -> f64 {
        let (a, b) = (drawn([fleet, group, 2 * at]), drawn([fleet, group, 2 * at + 1]));
        (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    /// Peers with p99 that wobble by 15 % around the same level in both weeks, and drift: each hour is like the one before by `memory`. The first one is slower in
    /// leg `tcp` by this factor.
    fn fleet(number: u64, peers: u64, memory: f64, factor: f64) -> Vec<Group> {
        let of = |peer: u64| {
            let mut group = Group { kind: "peer", name: format!("192.0.2.{peer}"), ..Group::default() };
            let mut state = normal(number, peer, 9_999);
            for at in 0..48_u64 {
                state = memory * state + (1.0 - memory * memory).sqrt() * normal(number, peer, at);
                let (week, hour) = (i64::from(at >= 24), (at % 24) as i64);
                let slow = if week == 1 && peer == 0 { factor } else { 1.0 };
                let level = (0.15 * state).exp();
                let (tcp, network) = (1e6 * level * (slow * 1.2 - 0.2), 2e5 * level);
                for (leg, ns) in [("network", network), ("tcp", tcp), ("total", tcp + network)] {
                    let hour =
                        Hour { hour: 1000 + hour + week * WEEK, sends: 500, mean_ns: ns, p99_ns: Some(ns * 3.0) };
                    group.legs.entry(leg.into()).or_default().push(hour);
                }
            }
            group
        };
        (0..peers).map(of).collect()
    }

    #[test]
    fn a_fleet_without_a_change_is_rarely_said_to_have_one() {
        for (memory, peers) in [(0.0, 40), (0.3, 40), (0.6, 40), (0.8, 40), (0.6, 2), (0.6, 100)] {
            let fleets = 100;
            let claims = (0..fleets)
                .filter(|number| {
                    let page = document("/runs", period(), "2026-05-08", &fleet(*number, peers, memory, 1.0), &[]);
                    !page.verdict[0].starts_with("None of")
                })
                .count();
            assert!(claims * 20 <= fleets as usize, "{claims} of {fleets} with {peers} peers at {memory}");
        }
    }

    #[test]
    fn a_change_is_found_in_its_leg_with_an_interval_that_has_the_truth() {
        for (memory, factor) in [(0.0, 1.3), (0.3, 1.6), (0.6, 3.0)] {
            let (fleets, mut found, mut held) = (100, 0, 0);
            for number in 0..fleets {
                let groups = fleet(number, 40, memory, factor);
                let page = document("/runs", period(), "2026-05-08", &groups, &[]);
                let named = page.verdict[0].starts_with("1 of 40 peers became slower; most 192.0.2.0: ");
                found += usize::from(named && page.verdict[0].contains("the mean of leg tcp grew most"));
                let series: Vec<Vec<f64>> = groups.iter().map(|g| logarithms(&p99(g, period()))).collect();
                let judgement = Judgement { comparisons: 40, sequential: false };
                let ratio = Memory::of(&series).mean(judgement, &series[0]).unwrap();
                held += usize::from((ratio.low..=ratio.high).contains(&f64::ln(factor)));
            }
            assert!(found * 100 >= fleets as usize * 90, "{factor} found in {found} of {fleets} at {memory}");
            assert!(held * 100 >= fleets as usize * 95, "{factor} within {held} of {fleets} at {memory}");
        }
    }

    #[test]
    fn traffic_and_hosts_that_differ_are_said() {
        let mut groups = vec![group("web-1", 1.5), group("web-2", 1.0), group("web-3", 1.0)];
        for hours in groups[0].legs.values_mut() {
            hours.iter_mut().filter(|hour| hour.hour >= 1000 + WEEK).for_each(|hour| hour.sends *= 3);
        }
        groups[1].legs.values_mut().for_each(|hours| hours.retain(|hour| hour.hour < 1000 + WEEK));
        let page = document("/runs", period(), "2026-05-08", &groups, &[]);
        assert!(page.verdict[0].ends_with("; it had 3.0 × as many sends."), "{:?}", page.verdict);
        assert!(
            page.warnings.iter().any(|w| w.starts_with("1 host had sends the week before and none")),
            "{:?}",
            page.warnings
        );
    }

    #[test]
    fn one_hour_is_not_enough() {
        let mut short = group("web-1", 9.0);
        short.legs.values_mut().for_each(|hours| hours.retain(|hour| hour.hour % WEEK == 1000 % WEEK));
        let page = document("/runs", period(), "2026-05-08", &[short], &[]);
        assert!(page.verdict[0].contains("nothing can be compared"), "{:?}", page.verdict);
    }
}
