//! Made-up fleets: how often something is named where nothing changed, and how often what did is.
//!
//! `WIRELAPSE_WRITE_DOCS=1 cargo test -p wirelapse-compare` puts the table into `docs/query.md`.

use super::*;
use tier::draw::normal;

/// Hours of a made-up week: the day that is asked about, and the one before it.
const HOURS: Range<u64> = 976..1_024;
/// The day that is asked about.
const DAY: Range<u64> = 1_000..1_024;

/// Something that is slower.
#[derive(Clone, Debug)]
pub struct Planted {
    /// The kind of group.
    pub kind: usize,
    /// Which of them.
    pub number: u64,
    /// How many times as slow.
    pub factor: f64,
    /// In which hours.
    pub hours: Range<u64>,
}

/// A made-up fleet: of each group, the logarithms of the hours go together by `memory`, and deviate
/// by `spread`.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// What its draws follow from.
    pub seed: u64,
    /// Hosts, peers, services.
    pub groups: [u64; 3],
    /// The correlation of neighbouring hours.
    pub memory: f64,
    /// The standard deviation.
    pub spread: f64,
    /// Whether some hours are by far slower than others.
    pub heavy: bool,
    /// What is slower.
    pub planted: Vec<Planted>,
}

impl Fleet {
    /// One of 30 hosts, 6 peers and 3 services.
    pub fn of(seed: u64) -> Self {
        Self { seed, groups: [30, 6, 3], memory: 0.6, spread: 0.1, heavy: false, planted: Vec::new() }
    }

    /// Of each group of one kind, the logarithm of its hours in a week.
    fn drift(&self, kind: u64, later: bool) -> Vec<Vec<f64>> {
        let of = |number: u64| {
            let draw = |at: u64| normal(&[self.seed, kind, number, u64::from(later), at]);
            // Student's with 4 degrees of freedom, with a standard deviation of one.
            let heavy = |at: u64| {
                let squares: f64 = (1..=4).map(|n| draw(at + n * 10_000).powi(2)).sum();
                draw(at) / (squares / 4.0).sqrt() / 2.0_f64.sqrt()
            };
            let next = |at: u64| if self.heavy { heavy(at) } else { draw(at) };
            let mut state = draw(999);
            let hour = |at: u64| {
                state = self.memory * state + (1.0 - self.memory * self.memory).sqrt() * next(at);
                self.spread * state
            };
            HOURS.map(hour).collect()
        };
        (0..self.groups[kind as usize]).map(of).collect()
    }

    /// Its hours of both weeks.
    pub fn rows(&self) -> Vec<FleetCellHour> {
        let mut rows = Vec::new();
        for later in [false, true] {
            let drift = [0, 1, 2].map(|kind| self.drift(kind, later));
            let slower = |kind: usize, number: u64, hour: u64| -> f64 {
                let is = |p: &&Planted| later && p.kind == kind && p.number == number && p.hours.contains(&hour);
                self.planted.iter().filter(is).map(|p| p.factor.ln()).sum()
            };
            for host in 0..self.groups[0] {
                for peer in 0..self.groups[1] {
                    for service in 0..self.groups[2] {
                        let usual = 0.5 * normal(&[self.seed, peer, service]);
                        for (at, hour) in HOURS.enumerate() {
                            let of = [host, peer, service];
                            let common: f64 = (0..3)
                                .map(|kind| drift[kind][of[kind] as usize][at] + slower(kind, of[kind], hour))
                                .sum();
                            // 400 sends whose logarithms deviate by 0.6.
                            let own = 0.03 * normal(&[self.seed, host, peer, service, u64::from(later), hour]);
                            rows.push(FleetCellHour {
                                host: format!("web-{host}"),
                                peer: format!("192.0.2.{peer}"),
                                service: format!("service-{service}.service"),
                                hour,
                                later,
                                sends: 400,
                                mean_ns: 2e6 * (usual + common + own).exp(),
                            });
                        }
                    }
                }
            }
        }
        rows
    }
}

/// A line of the table.
struct Case {
    spread: f64,
    memory: f64,
    heavy: bool,
}

const CASES: [Case; 5] = [
    Case { spread: 0.1, memory: 0.0, heavy: false },
    Case { spread: 0.1, memory: 0.6, heavy: false },
    Case { spread: 0.12, memory: 0.6, heavy: false },
    Case { spread: 0.2, memory: 0.8, heavy: false },
    Case { spread: 0.1, memory: 0.6, heavy: true },
];

/// How often something is named.
#[derive(Clone, Copy, Debug, Default)]
struct Named {
    fleets: u32,
    /// Where nothing changed: anything.
    falsely: u32,
    /// Of each kind: exactly what is planted, found by itself.
    found: [u32; 3],
    /// The same asked by its hours.
    asked: [u32; 3],
    /// Anything else beside it.
    beside: u32,
}

impl Case {
    fn run(&self, fleets: u64) -> Named {
        let mut named = Named { fleets: fleets as u32, ..Named::default() };
        for seed in 0..fleets {
            let fleet = |planted| Fleet {
                memory: self.memory,
                spread: self.spread,
                heavy: self.heavy,
                planted,
                ..Fleet::of(seed)
            };
            named.falsely += u32::from(!slowdowns(&fleet(Vec::new()).rows(), &Asked::Within(DAY)).named.is_empty());
            for kind in 0..3 {
                // Each hour of the day in turn, up to the last three.
                let start = DAY.start + (seed * 5 + kind as u64 * 7) % 22;
                let hours = start..start + 3;
                let number = seed % fleet(Vec::new()).groups[kind];
                let rows = fleet(vec![Planted { kind, number, factor: 1.5, hours: hours.clone() }]).rows();
                let is_it = |one: &Slowdown| {
                    let name =
                        [format!("web-{number}"), format!("192.0.2.{number}"), format!("service-{number}.service")];
                    one.group
                        .as_ref()
                        .is_some_and(|group| group.kind == GroupKind::ALL[kind] && group.name == name[kind])
                        && one.hours.start < hours.end
                        && hours.start < one.hours.end
                };
                let found = slowdowns(&rows, &Asked::Within(DAY)).named;
                named.found[kind] += u32::from(found.iter().any(is_it));
                named.beside += u32::from(!found.iter().all(is_it));
                named.asked[kind] +=
                    u32::from(slowdowns(&rows, &Asked::Exactly(hours.clone())).named.iter().any(is_it));
            }
        }
        named
    }

    /// Its line in the table.
    fn line(&self, named: &Named) -> String {
        let share = |n: u32| format!("{:.1} %", 100.0 * f64::from(n) / f64::from(named.fleets));
        let three = |of: [u32; 3]| of.map(share).join(" | ");
        format!(
            "| {:.0} % | {:.1} | {} | {} | {} | {} | {:.1} % |\n",
            100.0 * self.spread,
            self.memory,
            if self.heavy { "heavy" } else { "normal" },
            share(named.falsely),
            three(named.found),
            three(named.asked),
            100.0 * f64::from(named.beside) / f64::from(3 * named.fleets),
        )
    }
}

const HEAD: &str = "| spread | correlation | tails | nothing planted | host | peer | service | asked: host | peer | service | another group too |\n\
                    |---|---|---|---|---|---|---|---|---|---|---|\n";
const BEGIN: &str = "<!-- by compare::fleet::since::power -->\n";
const END: &str = "<!-- end of it -->";

#[test]
fn few_fleets_without_a_change_are_said_to_have_one_and_most_changes_are_named() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/query.md");
    let write = std::env::var_os("WIRELAPSE_WRITE_DOCS").is_some();
    let fleets = if write { 200 } else { 16 };
    let mut table = HEAD.to_owned();
    let all: Vec<Named> = std::thread::scope(|scope| {
        let each = CASES.each_ref().map(|case| scope.spawn(|| case.run(fleets)));
        each.map(|of| of.join().unwrap()).into()
    });
    for (case, named) in CASES.iter().zip(&all) {
        let line = case.line(named);
        // 5 %, and what 16 fleets may be above it by chance.
        let above = if write { 0.0 } else { 2.0 };
        assert!(f64::from(named.falsely) <= 0.05 * fleets as f64 + above, "{line}");
        if (case.spread, case.memory, case.heavy) == (0.1, 0.6, false) {
            let share = |of: [u32; 3]| f64::from(of.iter().sum::<u32>()) / (3 * fleets) as f64;
            assert!(share(named.found) >= 0.9 - above * 0.05 && share(named.asked) >= 0.95, "{line}");
        }
        table.push_str(&line);
    }
    if write {
        let text = std::fs::read_to_string(&docs).unwrap();
        let (before, rest) = text.split_once(BEGIN).expect("its beginning");
        let (_, after) = rest.split_once(END).expect("its end");
        std::fs::write(&docs, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    }
}
