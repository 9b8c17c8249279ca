//! `wirelapse report --runs` on fleets in which it is known what became slower, in which leg and by
//! how much: exactly that is named.

#[path = "report_fleet/service_map.rs"]
mod service_map;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;

use record::histogram::{Histogram, Series, SeriesKey};
use record::remedy::{Effect, RemedyRow};
use record::table::Record;
use record::{Coverage, Instant, IpPrefix, Leg, Lost, Nanos, Utc};
use store::rotating::Rotating;
use store::workload::{Head, Writer};
use store::{ClockReading, HistogramRow, Named, Provenance, SamplingAsked, SamplingMethod};
use tier::draw::normal;

/// 2026-05-04 00:00 UTC, in seconds since 1970; the day a week later is judged.
const DAY: u64 = 1_777_852_800;
const WEEK: u64 = 7 * 86_400;

/// Which sends these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Which {
    host: u64,
    peer: u64,
    service: u64,
    /// Of the week that is judged.
    later: bool,
    hour: u64,
}

/// How long a send's legs take, in ns: `slower` times as long as they usually do. Their logarithms
/// deviate by `spread`.
fn legs(which: Which, spread: f64, slower: [f64; 2], number: u64) -> [f64; 2] {
    let Which { host, peer, service, later, hour } = which;
    let of = |what: u64| [host, peer, service, u64::from(later), hour, number, what];
    // Hours differ, and the nights are slow in both weeks.
    let hour_of = 1.0 + 0.05 * normal(&[host, peer, service, u64::from(later), hour, u64::MAX]);
    let night = if hour < 4 { 1.5 } else { 1.0 };
    // Peers and services are not alike.
    let (far, slow) = (1.0 + 0.5 * peer as f64, 1.0 + 2.0 * service as f64);
    let tcp = 2e5 * slow * (spread * normal(&of(2))).exp() * slower[0];
    let network = 1e6 * far * night * hour_of * (spread * normal(&of(4))).exp() * slower[1];
    [tcp, network]
}

/// A made-up fleet.
struct Made {
    hosts: u64,
    peers: u64,
    services: u64,
    /// Hours of each of the two days.
    hours: u64,
    /// How far apart the durations of an hour are.
    spread: f64,
    /// Sends of an hour.
    sends: fn(Which) -> u64,
    /// By how much the legs `tcp` and `network` are slower.
    slower: fn(Which) -> [f64; 2],
}

fn host(number: u64) -> String {
    format!("web-{number}")
}

fn peer(number: u64) -> String {
    format!("192.0.2.{number}")
}

fn service(number: u64) -> String {
    format!("service-{number}.service")
}

impl Made {
    /// Writes the first hours of two days, a week apart, as agents do.
    fn write(&self, root: &Path) {
        for number in 0..self.hosts {
            let mut rotating = Rotating::open(root, &host(number)).expect("a folder");
            for later in [false, true] {
                let of_run: Vec<(Utc, Vec<(u64, Series)>)> =
                    (0..self.hours).map(|hour| (time(later, hour), self.hour(number, later, hour))).collect();
                if of_run.iter().all(|(_, series)| series.is_empty()) {
                    continue;
                }
                let start_ns = if later { WEEK } else { 0 } * 1_000_000_000;
                rotating.begin(time(later, 0), provenance(start_ns)).expect("begins");
                for (time, series) in of_run {
                    for (service_of, series) in series {
                        let named = Named { unit: Some(service(service_of)), ..Named::default() };
                        for row in HistogramRow::of(time, Nanos::from_secs(60), &series, &named) {
                            rotating.histogram(&row).expect("is written");
                        }
                    }
                }
                let end = Instant::from_nanos(start_ns + self.hours * 3_600_000_000_000);
                rotating
                    .finish(time(later, self.hours), end, Lost::default(), Coverage::default())
                    .expect("is finished");
            }
        }
    }

    fn hour(&self, host: u64, later: bool, hour: u64) -> Vec<(u64, Series)> {
        let mut all = Vec::new();
        for peer in 0..self.peers {
            for service in 0..self.services {
                let which = Which { host, peer, service, later, hour };
                let mut legs: BTreeMap<Leg, Histogram> = BTreeMap::new();
                for number in 0..(self.sends)(which) {
                    let [tcp, network] = self::legs(which, self.spread, (self.slower)(which), number);
                    for (leg, ns) in [(Leg::Tcp, tcp), (Leg::Network, network), (Leg::Total, tcp + network)] {
                        legs.entry(leg).or_default().add(Nanos(ns as u64));
                    }
                }
                if !legs.is_empty() {
                    let address = Ipv4Addr::new(192, 0, 2, peer as u8);
                    let key = SeriesKey {
                        peer: Some(IpPrefix::new(address.into(), 32)),
                        cgroup: Some(service),
                        ..SeriesKey::default()
                    };
                    all.push((service, Series { key, legs: legs.into_iter().collect(), ..Series::default() }));
                }
            }
        }
        all
    }
}

/// Of a run that begins so long after the first one, as the clock of each host counts.
fn provenance(start_ns: u64) -> Provenance {
    Provenance {
        version: "0.1.0".into(),
        command_line: vec!["wirelapse".into(), "agent".into()],
        host: None,
        kernel: "6.18.0".into(),
        machine: "x86_64".into(),
        cpus: 2,
        backend: "timestamping".into(),
        target: "all connections".into(),
        sampling: SamplingAsked { method: SamplingMethod::Every, one_in: 1 },
        max_rate: None,
        cost_ppm: None,
        clock: ClockReading { realtime_offset_ns: (DAY * 1_000_000_000).cast_signed(), realtime_offset_error_ns: 120 },
        start_ns,
        calls: None,
        connects: None,
        min_latency: None,
        receiving: None,
        http: None,
        packets: None,
        fired: None,
        dns: None,
        kept_one_in: None,
        clock_stepped_ns: None,
    }
}

fn time(later: bool, hour: u64) -> Utc {
    Utc((DAY + if later { WEEK } else { 0 } + hour * 3600) * 1_000_000)
}

/// How much slower a group is said to be: the interval of the ratio of p99, and the leg.
#[derive(Clone, Debug, PartialEq)]
struct Slower {
    interval: (f64, f64),
    leg: String,
}

/// What a report says.
struct Said {
    text: String,
    /// By name: those that are slower by themselves.
    slower: BTreeMap<String, Slower>,
    /// All names that are compared.
    compared: Vec<String>,
}

fn said(root: &Path) -> Said {
    asked(root, &["--last", "18h"])
}

fn asked(root: &Path, when: &[&str]) -> Said {
    let page = root.join("page.html");
    let mut command = tier::wirelapse!(["report", "--force", "--html"]);
    command.arg(&page).args(when).arg("--runs").arg(root).env("XDG_CACHE_HOME", root.join("cache"));
    let out = command.output().expect("wirelapse runs");
    assert!(out.status.success(), "{}", tier::text(&out.stderr));
    let page = std::fs::read_to_string(page).expect("a page");
    let (mut slower, mut compared) = (BTreeMap::new(), Vec::new());
    for row in page.split("<tr").skip(1) {
        let cells: Vec<String> = row.split("<td").skip(1).map(|cell| without_tags(&format!("<{cell}"))).collect();
        let Some((low, high)) = cells.get(5).and_then(|cell| interval(cell)) else { continue };
        compared.push(cells[0].clone());
        if cells.last().is_some_and(|last| last == "yes") {
            slower.insert(cells[0].clone(), Slower { interval: (low, high), leg: cells[6].clone() });
        }
    }
    let body = page.split_once("<body").map_or(page.as_str(), |(_, body)| body);
    Said { text: without_tags(body.split_once("<script").map_or(body, |(body, _)| body)), slower, compared }
}

/// The text of a piece of a page.
fn without_tags(html: &str) -> String {
    let pieces = html.split('<').map(|piece| piece.split_once('>').map_or("", |(_, text)| text));
    pieces.collect::<Vec<_>>().join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `2.00 × (1.90 to 2.10)`.
fn interval(text: &str) -> Option<(f64, f64)> {
    let (low, high) = text.split_once(" × (")?.1.strip_suffix(')')?.split_once(" to ")?;
    Some((low.parse().ok()?, high.parse().ok()?))
}

impl Made {
    /// The ratio of p99 that a group has truly: ten times as many sends of the same mix in both
    /// weeks, over the hours.
    fn truth(&self, is_of: impl Fn(Which) -> bool) -> f64 {
        let of_hour = |hour: u64| {
            let mut weeks = [Vec::new(), Vec::new()];
            for (host, peer, service) in self.all() {
                let which = |later| Which { host, peer, service, later, hour };
                let both = (self.sends)(which(false)).min((self.sends)(which(true)));
                if !is_of(which(true)) {
                    continue;
                }
                for number in 0..10 * both {
                    for (at, later) in [false, true].into_iter().enumerate() {
                        // The same hour of the same week, but for what makes it slower.
                        let slower = if later { (self.slower)(which(true)) } else { [1.0; 2] };
                        let number = ((at as u64 + 1) << 40) + number;
                        weeks[at].push(legs(which(true), self.spread, slower, number).iter().sum::<f64>());
                    }
                }
            }
            let p99 = weeks.map(|mut all| {
                all.sort_by(f64::total_cmp);
                all[all.len() * 99 / 100]
            });
            (p99[1] / p99[0]).ln()
        };
        let (nights, days) = (4.0, self.hours as f64 - 4.0);
        ((nights * of_hour(1) + days * of_hour(12)) / (nights + days)).exp()
    }

    fn all(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let (peers, services) = (self.peers, self.services);
        (0..self.hosts).flat_map(move |host| {
            (0..peers).flat_map(move |peer| (0..services).map(move |service| (host, peer, service)))
        })
    }
}

/// Sends whose mix differs between the weeks in every way that is no slow-down.
fn mixed(which: Which) -> u64 {
    let Which { host, peer, service, later, hour } = which;
    match (host, peer, service) {
        // One host is gone, another one is new.
        (4, ..) if later => 0,
        (5, ..) if !later => 0,
        // Few sends, and then many: of one peer always less than a p99 needs, of the other just
        // enough.
        (_, 4, _) => {
            if later {
                60
            } else {
                3
            }
        }
        (_, 5, _) => {
            if later {
                120
            } else {
                16
            }
        }
        // One host has the far peer in place of the near one.
        (0, 3, _) => {
            if later {
                120
            } else {
                24
            }
        }
        (0, 0, _) => {
            if later {
                24
            } else {
                120
            }
        }
        // One host has the other service.
        (2, _, 0) => {
            if later {
                90
            } else {
                30
            }
        }
        (2, _, 1) => {
            if later {
                30
            } else {
                90
            }
        }
        // One host has its sends in the slow hours.
        (3, ..) if later && hour < 4 => 150,
        _ => 50,
    }
}

/// The far host that is new is slow by itself.
fn as_before(which: Which) -> [f64; 2] {
    if which.host == 5 { [3.0; 2] } else { [1.0; 2] }
}

/// As far apart as durations mostly are.
const LOGNORMAL: f64 = 0.4;

/// A fleet of 18 hours: as few as tell what is slower from what is not.
const FLEET: Made =
    Made { hosts: 6, peers: 6, services: 2, hours: 18, spread: LOGNORMAL, sends: mixed, slower: as_before };

fn made(made: Made) -> (Made, tempfile::TempDir) {
    let root = tempfile::tempdir().expect("a folder");
    made.write(root.path());
    (made, root)
}

/// Whether there is the program that answers queries.
fn is_there(test: &str) -> bool {
    let there = tier::wirelapse!(["query", "--help"]).output().expect("wirelapse runs").status.success();
    if !there {
        tier::skip(test, "needs the program wirelapse-query");
    }
    there
}

#[test]
fn a_fleet_in_which_nothing_became_slower_is_said_to_have_nothing() {
    if !is_there("a_fleet_in_which_nothing_became_slower_is_said_to_have_nothing") {
        return;
    }
    let (_, root) = made(FLEET);
    let said = said(root.path());
    assert_eq!(said.slower, BTreeMap::new(), "{}", said.text);
    for kind in ["hosts", "peers", "services"] {
        let none = format!("{kind} is seen to have become slower");
        assert!(said.text.contains(&none), "{none}: {}", said.text);
    }
    // What cannot be compared is not, and is counted.
    let compared =
        ["web-0", "web-1", "web-2", "web-3", "192.0.2.0", "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.5"];
    let mut found = said.compared.clone();
    found.retain(|name| !name.starts_with("service"));
    found.sort();
    let mut compared = compared.map(str::to_owned).to_vec();
    compared.sort();
    assert_eq!(found, compared, "{}", said.text);
    assert!(
        said.text.contains("1 host had sends the week before and none in this period; 1 host had none"),
        "{}",
        said.text
    );
}

#[test]
fn exactly_what_became_slower_is_named_with_its_leg_and_by_how_much() {
    if !is_there("exactly_what_became_slower_is_named_with_its_leg_and_by_how_much") {
        return;
    }
    let slower = |which: Which| {
        let [mut tcp, mut network] = as_before(which);
        if which.later && which.host == 1 {
            tcp *= 12.0;
        }
        if which.later && which.peer == 2 {
            network *= 2.0;
        }
        [tcp, network]
    };
    let (made, root) = made(Made { slower, ..FLEET });
    let said = said(root.path());
    let names: Vec<&str> = said.slower.keys().map(String::as_str).collect();
    assert_eq!(names, ["192.0.2.2", "web-1"], "{}", said.text);
    for (name, leg, truth) in [
        (peer(2), "network", made.truth(|which| which.peer == 2)),
        (host(1), "tcp", made.truth(|which| which.host == 1)),
    ] {
        let Slower { interval: (low, high), leg: of } = &said.slower[&name];
        assert_eq!(of, leg, "{name}: {}", said.text);
        assert!(*low <= truth && truth <= *high, "{name}: {truth} is not within {low} to {high}: {}", said.text);
        assert!(high / low < 2.0, "{name}: {low} to {high} says little: {}", said.text);
    }
    // The others have it from these.
    assert!(said.text.contains("services became slower over the 18 h by itself"), "{}", said.text);
}

#[test]
fn durations_that_lie_in_one_bucket_are_compared() {
    if !is_there("durations_that_lie_in_one_bucket_are_compared") {
        return;
    }
    let steady = |_: Which| 50;
    let slower = |which: Which| if which.later && which.peer == 2 { [1.0, 2.0] } else { [1.0; 2] };
    // A path that takes the same time again and again; a bucket is 9 % wide.
    let (made, root) = made(Made { hosts: 3, spread: 0.002, sends: steady, slower, ..FLEET });
    let said = said(root.path());
    assert_eq!(said.slower.keys().collect::<Vec<_>>(), [&peer(2)], "{}", said.text);
    assert_eq!(said.compared.len(), 11, "{}", said.text);
    let (truth, Slower { interval: (low, high), leg }) = (made.truth(|which| which.peer == 2), &said.slower[&peer(2)]);
    assert_eq!(leg, "network", "{}", said.text);
    assert!(low / 1.09 <= truth && truth <= high * 1.09, "{truth}: {low} to {high}");
    assert!(high / low < 1.5, "{low} to {high} says little");
}

#[test]
fn an_incident_of_hours_is_named_with_its_hours_by_itself_and_when_asked_for() {
    if !is_there("an_incident_of_hours_is_named_with_its_hours_by_itself_and_when_asked_for") {
        return;
    }
    let steady = |_: Which| 50;
    let slower = |which: Which| {
        let slow = which.later && which.host == 3 && (14..18).contains(&which.hour);
        if slow { [1.0, 3.0] } else { [1.0; 2] }
    };
    let fleet = Made { peers: 3, services: 1, hours: 24, sends: steady, slower, ..FLEET };
    let (_, root) = made(fleet);
    let named = "Host web-3 was slower from 2026-05-11 14:00 to 2026-05-11 18:00 UTC: sends took ";
    let between = ["--between", "2026-05-11T14:00", "2026-05-11T18:00"];
    for when in [&["--last", "24h"][..], &["--last", "12h"], &between, &["--between", "14:00", "18:00"]] {
        let said = asked(root.path(), when);
        assert!(
            said.text.contains(named) && said.text.contains(", most of it in leg network."),
            "{when:?}: {}",
            said.text
        );
    }
    // What came nearest has intervals, and no figure is one that nothing shows.
    let said = asked(root.path(), &["--since", "19:00"]);
    assert!(
        said.text.contains("No host, peer or service surely was slower for some hours; nearest: "),
        "{}",
        said.text
    );
    assert!(!said.text.contains("000000"), "{}", said.text);
    let out =
        tier::wirelapse!(["report", "--since", "2026-05-12T03:00", "--runs"]).arg(root.path()).output().expect("runs");
    assert!(out.status.code() == Some(2) && tier::text(&out.stderr).contains("ends at 2026-05-12 00:00"), "{out:?}");
}

#[test]
fn a_place_with_advice_alone_says_what_would_help() {
    if !is_there("a_place_with_advice_alone_says_what_would_help") {
        return;
    }
    let root = tempfile::tempdir().expect("a folder");
    let advised = |effect, change| {
        let run = root.path().join("host=web-1/run=1");
        std::fs::create_dir_all(run.parent().expect("below the root")).expect("a folder");
        let writer = Writer::create(&run).expect("a run");
        let (remedy, place) = ("TCP_NODELAY".into(), "the client's program".into());
        writer
            .table(&[RemedyRow { server: "192.0.2.7:80".into(), remedy, place, effect, change, ..Record::blank() }])
            .expect("is written");
        let (config, outcome) = (serde_json::Value::Null, serde_json::Value::Null);
        writer
            .finish(Head { provenance: Record::blank(), workload: "advise".into(), config, outcome })
            .expect("is finished");
        run
    };
    let run = advised(Effect::Helps, Some(-0.5));
    let said = said(root.path()).text;
    assert!(said.contains("would help web-1 most: connections took 50 % less time with it"), "{said}");
    assert!(said.contains("what became slower cannot be said"), "{said}");

    std::fs::remove_dir_all(run).expect("is removed");
    advised(Effect::NoDifference, Some(0.0));
    let refused = tier::wirelapse!(["report", "--runs"]).arg(root.path()).output().expect("wirelapse runs");
    assert_eq!(refused.status.code(), Some(2));
    assert!(tier::text(&refused.stderr).contains("no run has histograms"), "{}", tier::text(&refused.stderr));
}
