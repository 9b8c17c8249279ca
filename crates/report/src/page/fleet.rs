//! The page of a fleet: which hosts, peers and services became slower than the week before, and in which leg.
//!
//! An hour is compared with the same hour of the week before, so the rhythm of a day and of a week is in neither. The pairs of hours are
//! what an interval is computed from. One slow hour follows another: as far as the ratios of neighbouring hours go together, in all groups taken
//! together, the hours count as fewer, and intervals are wider.
//!
//! What is compared are sends alike: in both weeks the same hosts with the same peers for the same services, each as often. Whoever asks has seen to
//! that, and `own` finds which group a slow-down is of.

mod own;

use std::collections::BTreeMap;

use stats::{Estimate, Judgement};

use crate::view::capital;
use paper::document::{Block, Document, Section, Table, clauses};

pub use own::{Cell, Name, Owners};

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

/// What groups are of, in the order of the page.
pub const KINDS: [&str; 3] = ["host", "peer", "service"];

/// Sends that an hour needs for a p99: of fewer, 1 in 100 is none.
pub const FOR_P99: u64 = 100;

/// One hour of one leg of a group: of its sends that are alike in both weeks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hour {
    /// Hours since 1970.
    pub hour: i64,
    /// How much they count, the same in both weeks.
    pub sends: f64,
    /// How many were seen.
    pub seen: u64,
    /// Their mean.
    pub mean_ns: f64,
    /// 99 % of them took at most this; `None` where they are fewer than [`FOR_P99`].
    pub p99_ns: Option<f64>,
}

/// A host, a peer or a service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// `host`, `peer` or `service`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// All its sends of these hours the week before, with whomever.
    pub sends_before: u64,
    /// Those of the period.
    pub sends: u64,
    /// Its hours, of both weeks, by leg.
    pub legs: BTreeMap<String, Vec<Hour>>,
}

impl Group {
    fn named(&self) -> Name {
        Name { kind: self.kind, name: self.name.clone() }
    }
}

/// What there is of one kind, beyond the groups that are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// `host`, `peer` or `service`.
    pub kind: &'static str,
    /// How many groups there are in either week.
    pub groups: u64,
    /// Of these, how many have sends the week before and none in the period.
    pub gone: u64,
    /// How many have none the week before.
    pub new: u64,
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
    /// The leg with the largest increase of its mean, where it surely grew.
    leg: Option<Grown>,
    /// The share of its sends that have sends alike in the other week.
    alike: f64,
}

/// A leg that takes longer.
struct Grown {
    leg: String,
    /// By how much its mean grew.
    by_ns: f64,
    /// The ratio of its mean, as a logarithm: of this period to the week before, and its interval.
    ratio: Estimate,
}

impl Change<'_> {
    fn is_slower(&self) -> bool {
        self.ratio.low > 0.0
    }
}

/// The hours that both weeks have: before, and in the period.
fn pairs(hours: &[Hour], period: Period) -> Vec<(Hour, Hour)> {
    let first = period.start_us.div_euclid(3_600_000_000);
    let by_hour: BTreeMap<i64, Hour> = hours.iter().map(|hour| (hour.hour, *hour)).collect();
    by_hour
        .range(first..)
        .filter_map(|(hour, after)| Some((*by_hour.get(&(hour - WEEK))?, *after)))
        .filter(|(before, after)| before.hour < first && before.sends > 0.0 && after.sends > 0.0)
        .collect()
}

/// By how much a leg grew, over the hours. Hours in which it takes long have the largest increases, so it is sure by the ratios.
fn grown(leg: &str, hours: &[Hour], period: Period, judgement: Judgement, memory: Memory) -> Option<Grown> {
    let pairs = pairs(hours, period);
    let ratios: Vec<f64> = pairs.iter().map(|(before, after)| (after.mean_ns / before.mean_ns).ln()).collect();
    let ratio = memory.mean(judgement, &ratios)?;
    let by_ns = pairs.iter().map(|(before, after)| after.mean_ns - before.mean_ns).sum::<f64>() / pairs.len() as f64;
    Some(Grown { leg: leg.to_owned(), by_ns, ratio })
}

fn change<'a>(group: &'a Group, period: Period, judgement: Judgement, memory: Memory) -> Option<Change<'a>> {
    let p99 = p99(group, period);
    let ratio = memory.mean(judgement, &logarithms(&p99))?;
    let middle = |values: Vec<f64>| stats::median(&values);
    let legs = group.legs.iter().filter(|(leg, _)| *leg != "total");
    let leg = legs
        .filter_map(|(leg, hours)| grown(leg, hours, period, judgement, memory))
        .max_by(|a, b| a.by_ns.total_cmp(&b.by_ns))
        .filter(|grown| grown.ratio.low > 0.0);
    let seen: u64 = group.legs.get("total")?.iter().map(|hour| hour.seen).sum();
    Some(Change {
        group,
        ratio,
        before_ns: middle(p99.iter().map(|p| p.0).collect())?,
        after_ns: middle(p99.iter().map(|p| p.1).collect())?,
        leg,
        alike: seen as f64 / (group.sends_before + group.sends).max(1) as f64,
    })
}

/// What became of these groups, as far as they can be compared. All intervals hold together.
fn changes(groups: &[Group], period: Period) -> Vec<Change<'_>> {
    let series: Vec<Vec<f64>> = groups.iter().map(|group| logarithms(&p99(group, period))).collect();
    let comparable = series.iter().filter(|series| series.len() > 1).count();
    let judgement = Judgement { comparisons: comparable, sequential: false };
    let memory = Memory::of(&series.into_iter().filter(|series| series.len() > 1).collect::<Vec<_>>());
    groups.iter().filter_map(|group| change(group, period, judgement, memory)).collect()
}

/// Finds which of these groups are slower by themselves. `without` gives the groups anew, without all sends of some of them.
///
/// # Errors
/// Those of `without`.
pub fn owners<E>(
    period: Period,
    groups: &[Group],
    cells: &[Cell],
    mut without: impl FnMut(&[Name]) -> Result<Vec<Group>, E>,
) -> Result<Owners, E> {
    let slower = |groups: &[Group]| -> Vec<Name> {
        changes(groups, period).iter().filter(|change| change.is_slower()).map(|change| change.group.named()).collect()
    };
    let at_all = slower(groups);
    own::owners(cells, |named| match named {
        [] => Ok(at_all.clone()),
        named => {
            let mut left = slower(&without(named)?);
            left.retain(|group| at_all.contains(group));
            Ok(left)
        }
    })
}

/// What the page is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet<'a> {
    /// Where the runs are.
    pub place: &'a str,
    /// The time that is judged.
    pub period: Period,
    /// Its end as a date.
    pub until: &'a str,
    /// What is compared.
    pub groups: &'a [Group],
    /// What there is of each kind.
    pub present: &'a [Present],
    /// The same sends by host, peer and service together.
    pub cells: &'a [Cell],
    /// The groups that are slower by themselves.
    pub owners: &'a Owners,
    /// Runs of the period.
    pub linked: &'a [Linked],
}

/// The page.
pub fn document(fleet: &Fleet<'_>) -> Document {
    let period = fleet.period;
    let changes = changes(fleet.groups, period);
    let hours = (period.end_us - period.start_us) / 3_600_000_000;
    let mut verdict = Vec::new();
    let mut sections = Vec::new();
    for kind in KINDS {
        let of_kind: Vec<&Change<'_>> = changes.iter().filter(|change| change.group.kind == kind).collect();
        if !of_kind.is_empty() {
            verdict.push(said(kind, &of_kind, fleet));
            sections.push(section(kind, &of_kind, fleet));
        }
    }
    if changes.is_empty() {
        verdict.push(format!(
            "No host, peer or service has two hours with {FOR_P99} sends that the week before has too: nothing can be compared."
        ));
    }
    if fleet.owners.more {
        verdict.push(format!(
            "More became slower than the {} that are named: which of the others did so by themselves was not looked into.",
            fleet.owners.named.len()
        ));
    }
    if !fleet.owners.of_few.is_empty() {
        verdict.push(
            "Which these few sends are is not known: they are of hosts, peers or services that are not looked at, or of some of them together."
                .to_owned(),
        );
    }
    if let Some(section) = runs(fleet) {
        sections.push(section);
    }
    Document {
        title: format!("Fleet in {}", fleet.place).into(),
        about: format!(
            "{hours} h to {}, hour by hour against the week before, the same hosts, peers and services · all intervals hold together at 95 %",
            fleet.until
        ),
        verdict: clauses(verdict),
        warnings: left_out(fleet, changes.len()),
        sections,
    }
}

/// What is in no comparison.
fn left_out(fleet: &Fleet<'_>, compared: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    let without = fleet.groups.len() - compared;
    if without > 0 {
        warnings.push(format!(
            "{} without two hours of {FOR_P99} sends with the same hosts, peers and services in both weeks {} not compared.",
            quantity::counted(without as u64, "group"),
            if without == 1 { "is" } else { "are" }
        ));
    }
    for present in fleet.present {
        let kind = present.kind;
        let looked_at = fleet.groups.iter().filter(|group| group.kind == kind).count() as u64;
        if looked_at < present.groups {
            warnings.push(format!(
                "{looked_at} of {} are looked at: those with most sends.",
                quantity::counted(present.groups, kind)
            ));
        }
        let say = |n: u64, what: &str| (n > 0).then(|| format!("{} {what}", quantity::counted(n, kind)));
        let parts = [
            say(present.gone, "had sends the week before and none in this period"),
            say(present.new, "had none the week before"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if !parts.is_empty() {
            warnings.push(format!("{}: in no comparison.", parts.join("; ")));
        }
    }
    warnings
}

fn said(kind: &'static str, changes: &[&Change<'_>], fleet: &Fleet<'_>) -> String {
    let all = quantity::counted(changes.len() as u64, kind);
    let mut own: Vec<&&Change<'_>> = changes.iter().filter(|change| is_own(change, fleet)).collect();
    own.sort_by(|a, b| b.ratio.value.total_cmp(&a.ratio.value));
    let by_others = changes.iter().filter(|change| change.is_slower()).count() - own.len();
    if let Some(worst) = own.first() {
        let names: Vec<&str> = own.iter().map(|change| change.group.name.as_str()).collect();
        let at_least = if fleet.owners.more { "At least " } else { "" };
        let most = if own.len() > 1 { format!("; most {}", worst.group.name) } else { String::new() };
        return format!(
            "{at_least}{} of {all} became slower: {}{most}: its p99 is {} the week before's{}{}{}.",
            own.len(),
            names.join(", "),
            times(&worst.ratio),
            in_leg(worst),
            of_some(worst),
            more_sends(worst)
        );
    }
    if by_others > 0 && fleet.owners.more {
        return format!("{by_others} of {all} {} a longer p99.", has(by_others));
    }
    let of_few = changes.iter().filter(|change| fleet.owners.of_few.contains(&change.group.named())).count();
    if of_few > 0 {
        return format!(
            "None of {all} is seen to have become slower as a whole: {of_few} {} a longer p99 from few of {} sends.",
            has(of_few),
            its(of_few)
        );
    }
    if by_others > 0 {
        return format!(
            "None of {all} became slower by itself: {by_others} with a longer p99 {} it with what is named here alone.",
            has(by_others)
        );
    }
    let smallest = changes.iter().map(|c| c.ratio.half_width()).fold(f64::INFINITY, f64::min);
    format!(
        "None of {all} is seen to have become slower; the narrowest interval would show {}.",
        quantity::change(smallest.exp_m1())
    )
}

fn has(n: usize) -> &'static str {
    if n == 1 { "has" } else { "have" }
}

fn its(n: usize) -> &'static str {
    if n == 1 { "its" } else { "their" }
}

fn is_own(change: &Change<'_>, fleet: &Fleet<'_>) -> bool {
    change.is_slower() && fleet.owners.named.contains(&change.group.named())
}

fn in_leg(change: &Change<'_>) -> String {
    match &change.leg {
        Some(Grown { leg, by_ns, ratio }) => {
            format!("; the mean of leg {leg} grew most, by {} to {}", quantity::time_to(*by_ns, 3), times(ratio))
        }
        None => "; the mean of no leg surely grew".into(),
    }
}

/// What is compared can be a small part.
fn of_some(change: &Change<'_>) -> String {
    if change.alike >= 0.5 {
        return String::new();
    }
    format!(
        "; compared are {:.0} % of its sends, as the others are with hosts, peers or services of one week only",
        100.0 * change.alike
    )
}

/// Much more traffic, or much less, can be the reason.
fn more_sends(change: &Change<'_>) -> String {
    let ratio = change.group.sends as f64 / change.group.sends_before.max(1) as f64;
    if (0.67..1.5).contains(&ratio) { String::new() } else { format!("; it had {ratio:.1} × as many sends") }
}

/// `2.1 × (1.9 × to 2.4 ×)`.
fn times(ratio: &Estimate) -> String {
    format!("{:.2} × ({:.2} to {:.2})", ratio.value.exp(), ratio.low.exp(), ratio.high.exp())
}

fn section(kind: &str, changes: &[&Change<'_>], fleet: &Fleet<'_>) -> Section {
    let mut sorted: Vec<&&Change<'_>> = changes.iter().collect();
    sorted.sort_by(|a, b| b.ratio.low.total_cmp(&a.ratio.low));
    let mut section = Section::new(format!("{}s", capital(kind)));
    let mut table = Table::new(
        "p99 of a send from call to ACK, against the same hours of the week before",
        [
            kind,
            "sends before",
            "sends",
            "p99 before",
            "p99",
            "ratio and interval",
            "leg that grew most",
            "its mean grew by",
            "its ratio and interval",
            "compared",
            "slower by itself",
        ],
    );
    for change in sorted.iter().take(LISTED) {
        let leg = change.leg.as_ref();
        table.push(vec![
            change.group.name.clone(),
            quantity::count(change.group.sends_before),
            quantity::count(change.group.sends),
            quantity::time_to(change.before_ns, 3),
            quantity::time_to(change.after_ns, 3),
            times(&change.ratio),
            leg.map_or_else(String::new, |grown| grown.leg.clone()),
            leg.map_or_else(String::new, |grown| quantity::time_to(grown.by_ns, 3)),
            leg.map_or_else(String::new, |grown| times(&grown.ratio)),
            format!("{:.0} %", 100.0 * change.alike),
            by_itself(change, fleet),
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

/// Whether a group is slower by itself, or with which others.
fn by_itself(change: &Change<'_>, fleet: &Fleet<'_>) -> String {
    if !change.is_slower() {
        return "not seen".into();
    }
    if is_own(change, fleet) {
        return "yes".into();
    }
    if fleet.owners.more {
        return "not looked into".into();
    }
    let group = change.group.named();
    if fleet.owners.of_few.contains(&group) {
        return "no, few of its sends".into();
    }
    let with: Vec<String> =
        fleet.owners.beside(&group, fleet.cells).map(|other| format!("{} {}", other.kind, other.name)).collect();
    format!("no, with {}", if with.is_empty() { "what is named".to_owned() } else { with.join(", ") })
}

/// The runs to look at: of the hosts that became slower, those with the longest mean.
fn runs(fleet: &Fleet<'_>) -> Option<Section> {
    let slow = |host: &str| fleet.owners.named.iter().any(|group| group.kind == "host" && group.name == host);
    let mut table = Table::new("Runs of hosts that became slower, the slowest first", ["host", "sends", "mean", "run"]);
    let mut listed: BTreeMap<&str, usize> = BTreeMap::new();
    for run in fleet.linked.iter().filter(|run| slow(&run.host)) {
        let n = listed.entry(run.host.as_str()).or_default();
        *n += 1;
        if *n <= RUNS_A_HOST {
            let directory = format!("{}/{}", fleet.place.trim_end_matches('/'), run.directory);
            table.push(vec![
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
    use tier::draw::normal;

    /// 48 hours of a group: the day before the end, and the same day a week earlier; the later one slower by this factor in leg network.
    fn group(name: &str, factor: f64) -> Group {
        let mut group =
            Group { kind: "host", name: name.into(), sends_before: 24_000, sends: 24_000, ..Group::default() };
        for week in [0, 1] {
            for hour in 0..24_i64 {
                let wobble = 1.0 + 0.01 * ((hour * 7 + week) % 5) as f64;
                let slow = if week == 1 { factor } else { 1.0 };
                let (network, tcp) = (1e6 * slow * wobble, 2e5 * wobble);
                let of = |mean_ns: f64| Hour {
                    hour: 1000 + hour + week * WEEK,
                    sends: 1000.0,
                    seen: 1000,
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

    /// The page of groups that have no sends in common.
    fn page(groups: &[Group], present: &[Present], linked: &[Linked]) -> Document {
        let cell = |group: &Group| Cell {
            host: group.name.clone(),
            peer: group.name.clone(),
            service: String::new(),
            sends: 1.0,
            ratio: 0.1,
        };
        let cells: Vec<Cell> = groups.iter().map(cell).collect();
        let without = |named: &[Name]| -> Result<Vec<Group>, ()> {
            Ok(groups.iter().filter(|group| !named.contains(&group.named())).cloned().collect())
        };
        let owners = owners(period(), groups, &cells, without).unwrap();
        document(&Fleet {
            place: "/runs",
            period: period(),
            until: "2026-05-08",
            groups,
            present,
            cells: &cells,
            owners: &owners,
            linked,
        })
    }

    #[test]
    fn what_became_slower_is_named_with_its_leg_and_its_runs() {
        let groups = [group("web-1", 1.5), group("web-2", 1.0)];
        let run = Linked { host: "web-1".into(), directory: "host=web-1/run=9".into(), sends: 5, mean_ns: 2e6 };
        let page = page(&groups, &[], &[run]);
        assert!(page.verdict[0].text.contains("1 of 2 hosts became slower: web-1: its p99"), "{:?}", page.verdict);
        assert!(page.verdict[0].text.contains("leg network"), "{:?}", page.verdict);
        let links = page.sections.iter().find(|s| s.title == "Runs to look at").unwrap();
        assert!(format!("{links:?}").contains("/runs/host=web-1/run=9"));
    }

    #[test]
    fn what_did_not_change_is_not_named() {
        let groups = [group("web-1", 1.0), group("web-2", 1.0)];
        let page = page(&groups, &[], &[]);
        assert!(page.verdict[0].text.starts_with("None of 2 hosts"), "{:?}", page.verdict);
    }

    /// Peers with p99 that wobble by 15 % around the same level in both weeks, and drift: each hour is like the one before by `memory`. The first one is slower in
    /// leg `tcp` by this factor.
    fn fleet(number: u64, peers: u64, memory: f64, factor: f64) -> Vec<Group> {
        let of = |peer: u64| {
            let mut group = Group { kind: "peer", name: format!("192.0.2.{peer}"), ..Group::default() };
            let mut state = normal(&[number, peer, 9_999]);
            for at in 0..48_u64 {
                state = memory * state + (1.0 - memory * memory).sqrt() * normal(&[number, peer, at]);
                let (week, hour) = (i64::from(at >= 24), (at % 24) as i64);
                let slow = if week == 1 && peer == 0 { factor } else { 1.0 };
                let level = (0.15 * state).exp();
                let (tcp, network) = (1e6 * level * (slow * 1.2 - 0.2), 2e5 * level);
                for (leg, ns) in [("network", network), ("tcp", tcp), ("total", tcp + network)] {
                    let hour = Hour {
                        hour: 1000 + hour + week * WEEK,
                        sends: 500.0,
                        seen: 500,
                        mean_ns: ns,
                        p99_ns: Some(ns * 3.0),
                    };
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
                    let page = page(&fleet(*number, peers, memory, 1.0), &[], &[]);
                    !page.verdict[0].text.starts_with("None of")
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
                let page = page(&groups, &[], &[]);
                let named = page.verdict[0].text.starts_with("1 of 40 peers became slower: 192.0.2.0: ");
                found += usize::from(named && page.verdict[0].text.contains("the mean of leg tcp grew most"));
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
        groups[0].sends *= 3;
        groups[1].legs.clear();
        let present = Present { kind: "host", groups: 300, gone: 1, new: 0 };
        let page = page(&groups, &[present], &[]);
        assert!(page.verdict[0].text.ends_with("; it had 3.0 × as many sends."), "{:?}", page.verdict);
        for said in
            ["1 group without two hours", "1 host had sends the week before and none", "3 of 300 hosts are looked at"]
        {
            assert!(page.warnings.iter().any(|warning| warning.starts_with(said)), "{said}: {:?}", page.warnings);
        }
    }

    #[test]
    fn what_shares_sends_with_a_slow_host_is_not_said_to_be_slower() {
        let peer = |name: &str, factor| Group { kind: "peer", ..group(name, factor) };
        let groups = [group("web-1", 2.0), group("web-2", 1.0), peer("192.0.2.1", 1.5), peer("192.0.2.2", 1.5)];
        let cell = |host: &str, peer: &str, ratio: f64| Cell {
            host: host.into(),
            peer: peer.into(),
            service: String::new(),
            sends: 500.0,
            ratio: ratio.ln(),
        };
        let cells =
            ["192.0.2.1", "192.0.2.2"].map(|peer| [cell("web-1", peer, 2.0), cell("web-2", peer, 1.0)]).concat();
        let without = |_: &[Name]| -> Result<Vec<Group>, ()> {
            Ok(vec![group("web-2", 1.0), peer("192.0.2.1", 1.0), peer("192.0.2.2", 1.0)])
        };
        let owners = owners(period(), &groups, &cells, without).unwrap();
        let page = document(&Fleet {
            place: "/runs",
            period: period(),
            until: "2026-05-08",
            groups: &groups,
            present: &[],
            cells: &cells,
            owners: &owners,
            linked: &[],
        });
        assert!(page.verdict[0].text.starts_with("1 of 2 hosts became slower: web-1: "), "{:?}", page.verdict);
        assert!(
            page.verdict[1].text.starts_with("None of 2 peers became slower by itself: 2 with"),
            "{:?}",
            page.verdict
        );
        assert_eq!(format!("{:?}", page.sections).matches("no, with host web-1").count(), 2);
    }

    #[test]
    fn one_hour_is_not_enough() {
        let mut short = group("web-1", 9.0);
        short.legs.values_mut().for_each(|hours| hours.retain(|hour| hour.hour % WEEK == 1000 % WEEK));
        let page = page(&[short], &[], &[]);
        assert!(page.verdict[0].text.contains("nothing can be compared"), "{:?}", page.verdict);
    }
}
