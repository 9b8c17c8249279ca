//! The page of a fleet: which hosts, peers and services were slower for some hours, which became
//! slower than the week before, and in which leg. [`compare::fleet`] finds them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;

use compare::fleet::since::{Slowdown, Slowdowns};
use compare::fleet::{Became, Grown, Hours, Present, Standing, Verdicts};
use record::Utc;
use record::fleet::{FOR_P99, FleetRemedy, FleetRun, Group, GroupKind};
use stats::Estimate;

use super::NONE;
use crate::view::capital;
use paper::document::{Cell, Clause, Column, Document, Section, Table, Text, texts};

/// Groups that a table lists.
const LISTED: usize = 20;
/// Runs that are named for a host.
const RUNS_A_HOST: usize = 3;
/// Groups that the headline names with their hours.
const SAID: usize = 3;
/// Below this share of its sends that could be compared, a verdict says so.
const MOST: f64 = 0.5;

/// What the page is made of.
#[derive(Clone, Debug)]
pub struct Fleet<'a> {
    /// Where the runs are.
    pub place: &'a str,
    /// The period that is judged, hours since 1970.
    pub hours: Range<u64>,
    /// The end of the newest hour with sends.
    pub newest: u64,
    /// What became of the groups.
    pub verdicts: &'a Verdicts,
    /// Who was slower for some hours.
    pub slowdowns: &'a Slowdowns,
    /// The groups with their hours.
    pub groups: &'a [Hours],
    /// What there is of each kind.
    pub present: &'a [Present],
    /// Runs of the period, those with the longest mean first.
    pub runs: &'a [FleetRun],
    /// What would help, by worth.
    pub remedies: &'a [FleetRemedy],
}

/// The page.
pub fn document(fleet: &Fleet<'_>) -> Document {
    let Verdicts { compared, owners, .. } = fleet.verdicts;
    let mut verdict: Vec<Clause> = when_said(fleet);
    let mut sections: Vec<Section> = when(fleet).into_iter().collect();
    let length = fleet.hours.end - fleet.hours.start;
    for kind in GroupKind::ALL {
        let of_kind: Vec<&Became> = compared.iter().filter(|one| one.group.kind == kind).collect();
        if !of_kind.is_empty() {
            verdict.push(said(kind, &of_kind, owners.more, length).into());
            sections.push(section(kind, &of_kind));
        }
    }
    if compared.is_empty() {
        verdict.push(Clause::finding(format!(
            "Nothing can be compared as a whole: no host, peer or service has two hours with {FOR_P99} sends that the week before has too."
        )));
    }
    if owners.more {
        verdict.push(Clause::caveat(format!(
            "More became slower than the {} that are named: which of the others did so by themselves was not examined.",
            owners.named.len()
        )));
    }
    if !owners.of_few.is_empty() {
        verdict.push(Clause::caveat(
            "Which these few sends are is not known: they are of hosts, peers or services that are not compared, or of several of \
             them together.",
        ));
    }
    verdict.extend(fleet.remedies.first().map(|best| Clause::finding(would_help(best))));
    sections.extend(remedies(fleet.place, fleet.remedies));
    sections.extend(runs(fleet));
    Document {
        title: title(fleet.place).into(),
        about: format!(
            "{length} h to {} UTC, hour by hour against the week before, the same hosts, peers and services · the lower ends of all \
             intervals hold together at 95 %",
            date(fleet.hours.end)
        ),
        verdict,
        warnings: texts(left_out(fleet)),
        sections,
        ..Document::default()
    }
}

/// The page of a place where nothing can be compared, as no run has histograms: what would help.
/// `None` where nothing would.
pub fn advised(place: &str, by_worth: &[FleetRemedy]) -> Option<Document> {
    let best = by_worth.first()?;
    let unknown = Text::from("No run has histograms, as ")
        .and(Text::code("wirelapse agent"))
        .and(" keeps them, so what became slower cannot be said.");
    Some(Document {
        title: title(place).into(),
        about: "what advice says would help, by worth".into(),
        verdict: vec![Clause::finding(would_help(best)), Clause::caveat(unknown)],
        sections: remedies(place, by_worth).into_iter().collect(),
        ..Document::default()
    })
}

fn title(place: &str) -> String {
    format!("Fleet in {place}")
}

/// What would help most hosts most.
fn would_help(of: &FleetRemedy) -> String {
    let hosts = if of.hosts == 1 { of.host.clone() } else { format!("{} hosts", of.hosts) };
    let range = if of.advised == 1 { String::new() } else { format!(" ({} to {})", less(of.most), less(of.least)) };
    format!(
        "{} ({}) would help {hosts} most: connections took {} less time with it in their twins{range}.",
        of.remedy,
        of.place,
        less(of.change)
    )
}

/// A change of the time, of what became faster.
fn less(change: f64) -> String {
    quantity::percent(-change)
}

/// The path of a run, as `report` takes it.
fn below(place: &str, directory: &str) -> String {
    format!("{}/{directory}", place.trim_end_matches('/'))
}

/// What `wirelapse advise` found for connections of these hosts.
fn remedies(place: &str, by_worth: &[FleetRemedy]) -> Option<Section> {
    let mut table = Table::new(
        "Time of a connection less with it, in twins: the newest advice of each host on each server",
        [
            Column::text("remedy"),
            Column::text("where"),
            Column::figures("hosts"),
            Column::figures("advised").spare(1),
            Column::figures("median"),
            Column::figures("least").spare(0),
            Column::figures("most"),
            Column::text("most at"),
            Column::text("run").spare(2),
        ],
    );
    for of in by_worth {
        table.push([
            Cell::from(&of.remedy),
            Cell::from(&of.place),
            Cell::count(of.hosts),
            Cell::count(of.advised),
            Cell::figure(less(of.change)),
            Cell::figure(less(of.least)),
            Cell::figure(less(of.most)),
            Cell::from(&of.host),
            below(place, &of.directory).into(),
        ]);
    }
    if table.rows.is_empty() {
        return None;
    }
    let mut section = Section::new("What would help");
    section.table(table);
    Some(section)
}

/// An hour since 1970: `2026-11-28 14:00`.
pub fn date(hour: u64) -> String {
    let date = Utc(hour.saturating_mul(3_600_000_000)).date();
    format!("{date} {:02}:00", hour % 24)
}

/// Who was slower for some hours, and what came nearest where nobody surely was.
fn when_said(fleet: &Fleet<'_>) -> Vec<Clause> {
    let Slowdowns { named, more, of_few, nearest, groups } = fleet.slowdowns;
    let mut said: Vec<Clause> = named.iter().take(SAID).map(|one| Clause::finding(slower(fleet, one))).collect();
    if named.len() > SAID {
        let more = if *more { ", and there are others" } else { "" };
        said.push(Clause::detail(format!("{} more were slower for some hours: see When{more}.", named.len() - SAID)));
    }
    if named.is_empty() && *groups > 0 {
        let few = match of_few.first() {
            Some(one) => format!(" as a whole; few of the sends of {} were, {}", who(one), hours(fleet, one)),
            None => String::new(),
        };
        let near = match nearest.first() {
            Some(one) => format!("; nearest: {}, {}, {}", who(one), hours(fleet, one), times(&one.ratio)),
            None => String::new(),
        };
        said.push(Clause::finding(format!("No host, peer or service surely was slower for some hours{few}{near}.")));
    }
    said
}

/// `host web-1`, or all.
fn who(of: &Slowdown) -> String {
    of.group.as_ref().map_or_else(|| "all of the fleet".into(), |group| format!("{} {}", group.kind.name(), group.name))
}

/// `from 2026-11-28 14:00 UTC on`, or until when.
fn hours(fleet: &Fleet<'_>, of: &Slowdown) -> String {
    let from = date(of.hours.start);
    if of.hours.end >= fleet.newest {
        format!("from {from} UTC on")
    } else {
        format!("from {from} to {} UTC", date(of.hours.end))
    }
}

fn slower(fleet: &Fleet<'_>, of: &Slowdown) -> String {
    let (who, hours) = (capital(&who(of)), hours(fleet, of));
    let leg = of.leg(fleet.groups).map_or_else(String::new, |leg| format!(", most of it in leg {leg}"));
    let by = if compare::is_known(&of.ratio) {
        format!(": sends took {} as long as usual", times(&of.ratio))
    } else {
        String::new()
    };
    format!("{who} was slower {hours}{by}{leg}.")
}

/// Who was slower for some hours, who for few of its sends, and who came nearest to it.
fn when(fleet: &Fleet<'_>) -> Option<Section> {
    let Slowdowns { named, of_few, nearest, .. } = fleet.slowdowns;
    let mut table = Table::new(
        "Mean of a send up to its ACK in these hours, against its other hours, the week before, and the others",
        [
            Column::text("who"),
            Column::text("from (UTC)"),
            Column::text("until"),
            Column::figures("ratio and interval"),
            Column::text("most in leg").spare(0),
            Column::text("slower by itself"),
        ],
    );
    for (all, sure) in [(named, "yes"), (of_few, "no, few of its sends"), (nearest, "not sure")] {
        for one in all {
            let until = if one.hours.end >= fleet.newest { "the end".to_owned() } else { date(one.hours.end) };
            table.push([
                Cell::from(&who(one)),
                date(one.hours.start).into(),
                until.into(),
                Cell::or(known(&one.ratio), |ratio| Cell::figure(times(ratio)), NONE),
                Cell::or(one.leg(fleet.groups), Cell::from, NONE),
                sure.into(),
            ]);
        }
    }
    if table.rows.is_empty() {
        return None;
    }
    let mut section = Section::new("When");
    section.table(table);
    Some(section)
}

/// A ratio that says something: an interval without bounds has no figure.
fn known(ratio: &Estimate) -> Option<&Estimate> {
    Some(ratio).filter(|ratio| compare::is_known(ratio))
}

/// What is in no comparison.
fn left_out(fleet: &Fleet<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let without = fleet.verdicts.without;
    if without > 0 {
        warnings.push(format!(
            "{} not compared: without two hours of {FOR_P99} sends with the same hosts, peers and services in both weeks.",
            quantity::counted(without as u64, "group"),
        ));
    }
    for present in fleet.present {
        let kind = present.kind.name();
        if present.asked < present.groups {
            warnings.push(format!(
                "{} of {} are compared: those with most sends.",
                quantity::count(present.asked),
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

/// What became of the groups of one kind.
fn said(kind: GroupKind, became: &[&Became], more: bool, length: u64) -> String {
    let all = quantity::counted(became.len() as u64, kind.name());
    let count = |is: fn(&Standing) -> bool| became.iter().filter(|one| is(&one.standing)).count();
    let mut own: Vec<&&Became> = became.iter().filter(|one| one.standing == Standing::Itself).collect();
    own.sort_by(|a, b| ratio(b).total_cmp(&ratio(a)));
    if let Some(worst) = own.first() {
        let names: Vec<&str> = own.iter().map(|one| one.group.name.as_str()).collect();
        let at_least = if more { "At least " } else { "" };
        let most = if own.len() > 1 { format!("; most {}", worst.group.name) } else { String::new() };
        return format!(
            "{at_least}{} of {all} became slower over the {length} h as a whole: {}{most}: its p99 is {} the week before's{}{}{}.",
            own.len(),
            names.join(", "),
            worst.p99.by.as_ref().and_then(known).map_or_else(|| "longer than".into(), times),
            in_leg(worst),
            of_some(worst),
            more_sends(worst)
        );
    }
    let undistinguished = count(|standing| *standing == Standing::NotDistinguished);
    if undistinguished > 0 {
        return format!("{undistinguished} of {all} {} a longer p99.", has(undistinguished));
    }
    let of_few = count(|standing| *standing == Standing::FewOfItsSends);
    if of_few > 0 {
        let its = if of_few == 1 { "its" } else { "their" };
        return format!(
            "None of {all} is seen to have become slower as a whole: {of_few} {} a longer p99 from few of {its} sends.",
            has(of_few),
        );
    }
    let by_others = count(|standing| matches!(standing, Standing::With(_)));
    if by_others > 0 {
        return format!(
            "None of {all} became slower over the {length} h by itself: {by_others} with a longer p99 {} it only with what is named here.",
            has(by_others)
        );
    }
    let low = |one: &Became| one.p99.by.filter(compare::is_known).map(|by| (by, one.group.name.clone()));
    let nearest = became.iter().filter_map(|one| low(one)).max_by(|a, b| a.0.low.total_cmp(&b.0.low));
    let nearest = nearest.map_or_else(String::new, |(by, name)| format!("; nearest: {name}, p99 {}", times(&by)));
    format!("None of {all} is seen to have become slower over the {length} h as a whole{nearest}.")
}

fn ratio(of: &Became) -> f64 {
    of.p99.by.map_or(0.0, |by| by.value)
}

fn has(n: usize) -> &'static str {
    if n == 1 { "has" } else { "have" }
}

fn in_leg(became: &Became) -> String {
    match &became.leg {
        Some(Grown { leg, by_ns, ratio }) => {
            let to = known(ratio).map_or_else(String::new, |ratio| format!(" to {}", times(ratio)));
            format!("; the mean of leg {leg} grew most, by {}{to}", quantity::time_to(*by_ns, 3))
        }
        None => "; the mean of no leg surely grew".into(),
    }
}

/// What is compared can be a small part.
fn of_some(became: &Became) -> String {
    if became.alike >= MOST {
        return String::new();
    }
    format!(
        "; {:.0} % of its sends are compared, as the others are with hosts, peers or services of one week only",
        100.0 * became.alike
    )
}

/// Much more traffic, or much less, can be the reason.
fn more_sends(became: &Became) -> String {
    let [before, after] = became.sends;
    let ratio = after as f64 / before.max(1) as f64;
    if (0.67..1.5).contains(&ratio) { String::new() } else { format!("; it had {ratio:.1} × as many sends") }
}

/// A ratio, less 1, as `2.10 × (1.90 to 2.40)`.
fn times(ratio: &Estimate) -> String {
    format!("{:.2} × ({:.2} to {:.2})", 1.0 + ratio.value, 1.0 + ratio.low, 1.0 + ratio.high)
}

fn section(kind: GroupKind, became: &[&Became]) -> Section {
    let mut sorted: Vec<&&Became> = became.iter().collect();
    let low = |one: &Became| one.p99.by.map_or(f64::NEG_INFINITY, |by| by.low);
    sorted.sort_by(|a, b| low(b).total_cmp(&low(a)));
    let mut section = Section::new(format!("{}s", capital(kind.name())));
    let mut table = Table::new(
        "p99 of a send up to its ACK, against the same hours of the week before",
        [
            Column::text(kind.name()),
            Column::figures("sends before").spare(0),
            Column::figures("sends").spare(1),
            Column::figures("p99 before"),
            Column::figures("p99"),
            Column::figures("ratio and interval"),
            Column::text("leg that grew most"),
            Column::figures("its mean grew by").spare(3),
            Column::figures("its ratio and interval").spare(2),
            Column::figures("compared").spare(4),
            Column::text("slower by itself"),
        ],
    );
    for one in sorted.iter().take(LISTED) {
        let [before, after] = one.p99.values.map(|ns| Cell::figure(quantity::time_to(ns, 3)));
        const NO_LEG: &str = "no leg surely grew";
        let leg = one.leg.as_ref();
        table.push([
            name(&one.group),
            Cell::count(one.sends[0]),
            Cell::count(one.sends[1]),
            before,
            after,
            Cell::or(one.p99.by.as_ref().and_then(known), |by| Cell::figure(times(by)), NONE),
            Cell::or(leg, |grown| Cell::from(&grown.leg), NO_LEG),
            Cell::or(leg, |grown| Cell::figure(quantity::time_to(grown.by_ns, 3)), NO_LEG),
            Cell::or(leg.and_then(|grown| known(&grown.ratio)), |ratio| Cell::figure(times(ratio)), NO_LEG),
            Cell::share(one.alike),
            by_itself(&one.standing).into(),
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

/// A group's name; that of a peer is its address, which can be named.
fn name(group: &Group) -> Cell {
    match group.name.parse::<IpAddr>() {
        Ok(address) if group.kind == GroupKind::Peer => address.into(),
        _ => Cell::from(&group.name),
    }
}

/// Whether a group is slower by itself, or with which others.
fn by_itself(standing: &Standing) -> String {
    match standing {
        Standing::NotSeen => "not seen".into(),
        Standing::Itself => "yes".into(),
        Standing::NotDistinguished => "not examined".into(),
        Standing::FewOfItsSends => "no, few of its sends".into(),
        Standing::With(groups) if groups.is_empty() => "no, with what is named".into(),
        Standing::With(groups) => {
            let with = |group: &Group| format!("{} {}", group.kind.name(), group.name);
            format!("no, with {}", groups.iter().map(with).collect::<Vec<_>>().join(", "))
        }
    }
}

/// The runs to read next: of the hosts that became slower, those with the longest mean.
fn runs(fleet: &Fleet<'_>) -> Option<Section> {
    let when = fleet.slowdowns.named.iter().filter_map(|one| one.group.as_ref());
    let named: Vec<&Group> = fleet.verdicts.owners.named.iter().chain(when).collect();
    let slow = |host: &str| named.iter().any(|group| group.kind == GroupKind::Host && group.name == host);
    let mut table = Table::new(
        "Runs of hosts that were slower, the slowest first",
        [Column::text("host"), Column::figures("sends"), Column::figures("mean"), Column::text("run")],
    );
    let mut listed: BTreeMap<&str, usize> = BTreeMap::new();
    for run in fleet.runs.iter().filter(|run| slow(&run.host)) {
        let n = listed.entry(run.host.as_str()).or_default();
        *n += 1;
        if *n <= RUNS_A_HOST {
            let mean = Cell::figure(quantity::time_to(run.mean_ns, 3));
            table.push([
                Cell::from(&run.host),
                Cell::count(run.sends),
                mean,
                below(fleet.place, &run.directory).into(),
            ]);
        }
    }
    if table.rows.is_empty() {
        return None;
    }
    let mut section = Section::new("Runs to look at");
    section.table(table);
    section.say(Text::code("wirelapse report RUN").and(" shows one of them."));
    Some(section)
}

#[cfg(test)]
mod tests {
    use super::*;
    use compare::fleet::Owners;
    use compare::{Change, Scale};
    use stats::Judgement;

    fn group(kind: GroupKind, name: &str) -> Group {
        Group { kind, name: name.into() }
    }

    /// A group with a p99 that is longer by this factor.
    fn became(group: Group, factor: f64, standing: Standing) -> Became {
        let ratio = Judgement::ALONE.around(factor.ln(), 0.02, 24).map(f64::exp_m1);
        let grown = Grown { leg: "network".into(), by_ns: 1e6, ratio };
        Became {
            group,
            sends: [24_000, 24_000],
            p99: Change { by: Some(ratio), ..Change::without_interval([1e6, 1e6 * factor], Scale::Ratio) },
            leg: (factor > 1.1).then_some(grown),
            alike: 1.0,
            standing,
        }
    }

    fn page(compared: Vec<Became>, present: &[Present], runs: &[FleetRun]) -> Document {
        let own = compared.iter().filter(|one| one.standing == Standing::Itself);
        let owners = Owners { named: own.map(|one| one.group.clone()).collect(), ..Owners::default() };
        let verdicts = Verdicts { compared, without: 1, owners };
        of(&verdicts, &Slowdowns::default(), present, runs)
    }

    #[test]
    fn what_would_help_is_said_once_with_the_hosts_and_the_range() {
        let remedy = |hosts, advised| FleetRemedy {
            remedy: "TCP_NODELAY".into(),
            place: "the client's program".into(),
            hosts,
            host: "web-1".into(),
            directory: "host=web-1/run=9".into(),
            advised,
            change: -0.5,
            most: -0.762,
            least: -0.2,
        };
        let with = |remedies: &[FleetRemedy]| {
            let (verdicts, slowdowns) = (Verdicts::default(), Slowdowns::default());
            let fleet = Fleet {
                place: "/runs",
                newest: 493_848,
                hours: 493_824..493_848,
                verdicts: &verdicts,
                slowdowns: &slowdowns,
                groups: &[],
                present: &[],
                runs: &[],
                remedies,
            };
            document(&fleet)
        };
        let page = with(&[remedy(12, 14), remedy(1, 1)]);
        let said: Vec<String> = page.verdict.iter().map(|clause| clause.text.to_string()).collect();
        let helps = "TCP_NODELAY (the client's program) would help 12 hosts most: connections took 50 % less time with it in their twins (76 % to 20 %).";
        assert!(said.iter().any(|clause| clause == helps), "{said:?}");
        assert_eq!(said.iter().filter(|clause| clause.contains("would help")).count(), 1);
        let one = with(&[remedy(1, 1)]);
        let said = one.verdict.last().unwrap().text.to_string();
        assert!(
            said.ends_with("would help web-1 most: connections took 50 % less time with it in their twins."),
            "{said}"
        );
        let section = page.sections.iter().find(|section| section.title == "What would help").unwrap();
        assert!(format!("{section:?}").contains("/runs/host=web-1/run=9"));
        let alone = advised("/runs/", &[remedy(1, 1)]).expect("a page");
        assert!(
            alone.verdict[0].text.to_string().starts_with("TCP_NODELAY (the client's program) would help web-1 most")
        );
        assert!(format!("{:?}", alone.sections).contains("/runs/host=web-1/run=9"));
        assert!(with(&[]).sections.iter().all(|section| section.title != "What would help"));
    }

    /// 24 hours to 2026-05-04 00:00.
    fn of(verdicts: &Verdicts, slowdowns: &Slowdowns, present: &[Present], runs: &[FleetRun]) -> Document {
        let hours = 493_824..493_848;
        document(&Fleet {
            place: "/runs",
            newest: hours.end,
            hours,
            verdicts,
            slowdowns,
            groups: &[],
            present,
            runs,
            remedies: &[],
        })
    }

    fn slowdown(name: &str, hours: Range<u64>, factor: f64, error: f64) -> Slowdown {
        let ratio = Judgement::ALONE.around(factor.ln(), error, 24).map(f64::exp_m1);
        Slowdown { group: Some(group(GroupKind::Host, name)), hours, ratio }
    }

    #[test]
    fn who_was_slower_is_said_with_its_hours_and_else_who_came_nearest() {
        let named =
            vec![slowdown("web-1", 493_842..493_848, 3.0, 0.05), slowdown("web-2", 493_830..493_833, 1.5, 0.05)];
        let nearest =
            vec![slowdown("web-3", 493_830..493_831, 1.2, 0.2), slowdown("web-4", 493_830..493_831, 1.0, 40.0)];
        let found = Slowdowns { named, nearest: nearest.clone(), groups: 9, ..Slowdowns::default() };
        let run = FleetRun { host: "web-2".into(), directory: "host=web-2/run=9".into(), sends: 5, mean_ns: 2e6 };
        let page = of(&Verdicts::default(), &found, &[], &[run]);
        let said: Vec<String> = page.verdict.iter().map(|clause| clause.text.to_string()).collect();
        assert!(
            said[0].starts_with("Host web-1 was slower from 2026-05-03 18:00 UTC on: sends took 3.00 × (2."),
            "{said:?}"
        );
        assert!(
            said[1].starts_with("Host web-2 was slower from 2026-05-03 06:00 to 2026-05-03 09:00 UTC: "),
            "{said:?}"
        );
        assert!(format!("{:?}", page.sections).contains("/runs/host=web-2/run=9"));
        let found = Slowdowns { nearest, groups: 9, ..Slowdowns::default() };
        let page = of(&Verdicts::default(), &found, &[], &[]);
        let said = page.verdict[0].text.to_string();
        assert!(
            said.starts_with("No host, peer or service surely was slower for some hours; nearest: host web-3, from"),
            "{said}"
        );
        // An interval that says nothing has no figure.
        let table = format!("{:?}", page.sections);
        assert!(table.contains("1.20 × (") && !table.contains("1.00 × (") && table.contains("host web-4"), "{table}");
    }

    #[test]
    fn what_no_interval_has_is_no_figure() {
        let wide = became(group(GroupKind::Host, "web-1"), 1.0, Standing::NotSeen);
        let by = Judgement::ALONE.around(0.0, 60.0, 24).map(f64::exp_m1);
        let wide = Became { p99: Change { by: Some(by), ..wide.p99 }, ..wide };
        let page = page(vec![wide], &[], &[]);
        let said = page.verdict[0].text.to_string();
        assert_eq!(said, "None of 1 host is seen to have become slower over the 24 h as a whole.");
        assert!(!format!("{:?}", page.sections).contains("00 × ("), "{:?}", page.sections);
    }

    #[test]
    fn what_became_slower_is_named_with_its_leg_its_runs_and_its_traffic() {
        let host = |name, factor, standing| became(group(GroupKind::Host, name), factor, standing);
        let slow = Became { sends: [24_000, 72_000], alike: 0.4, ..host("web-1", 1.5, Standing::Itself) };
        let run = FleetRun { host: "web-1".into(), directory: "host=web-1/run=9".into(), sends: 5, mean_ns: 2e6 };
        let present = Present { kind: GroupKind::Host, asked: 3, groups: 300, gone: 1, new: 0 };
        let page = page(vec![slow, host("web-2", 1.0, Standing::NotSeen)], &[present], &[run]);
        let said = page.verdict[0].text.to_string();
        assert!(
            said.starts_with("1 of 2 hosts became slower over the 24 h as a whole: web-1: its p99 is 1.50 × (1."),
            "{said}"
        );
        assert!(said.contains("; the mean of leg network grew most, by 1.00 ms to 1.50 × ("), "{said}");
        assert!(
            said.contains("; 40 % of its sends are compared") && said.ends_with("; it had 3.0 × as many sends."),
            "{said}"
        );
        let links = page.sections.iter().find(|s| s.title == "Runs to look at").unwrap();
        assert!(format!("{links:?}").contains("/runs/host=web-1/run=9"));
        for said in ["1 group not compared", "1 host had sends the week before and none", "3 of 300 hosts are compared"]
        {
            assert!(
                page.warnings.iter().any(|warning| warning.to_string().starts_with(said)),
                "{said}: {:?}",
                page.warnings
            );
        }
    }

    #[test]
    fn what_is_not_slower_by_itself_is_said_with_what_it_is_slower() {
        let with = Standing::With(vec![group(GroupKind::Host, "web-1")]);
        let slow = |name| became(group(GroupKind::Peer, name), 1.5, with.clone());
        let all =
            vec![slow("192.0.2.1"), slow("192.0.2.2"), became(group(GroupKind::Service, "a"), 1.0, Standing::NotSeen)];
        let page = page(all, &[], &[]);
        assert!(
            page.verdict[0]
                .text
                .to_string()
                .starts_with("None of 2 peers became slower over the 24 h by itself: 2 with"),
            "{:?}",
            page.verdict
        );
        assert!(
            page.verdict[1].text.to_string().starts_with(
                "None of 1 service is seen to have become slower over the 24 h as a whole; nearest: a, p99 1.00 × ("
            ),
            "{:?}",
            page.verdict
        );
        assert_eq!(format!("{:?}", page.sections).matches("no, with host web-1").count(), 2);
    }

    #[test]
    fn where_nothing_can_be_compared_that_is_said() {
        assert!(page(Vec::new(), &[], &[]).verdict[0].text.to_string().starts_with("Nothing can be compared"));
    }
}
