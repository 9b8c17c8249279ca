//! The figures of an agent at one moment, and the metrics that they are.

use std::collections::BTreeMap;

use record::histogram::{Connections, Exemplars, Names, Requests, Series, StatusClass};
use record::{Again, Coverage, EndedBy, Ending, Loss, Lost, Nanos, Opening, Outcome, Role, WaitReason};

use crate::{Family, Kind, Point, Value};

/// A series under the labels that it is published with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labelled {
    /// Names in OpenTelemetry's spelling, and values, in the order in which they are written.
    pub labels: Vec<(&'static str, String)>,
    /// Since when it counts, nanoseconds of Unix time.
    pub since_ns: u64,
    /// Its figures; the key is not published.
    pub figures: Series,
    /// Its connections.
    pub connections: Connections,
    /// The names that it looked up; its peer is the server.
    pub names: Names,
    /// Its requests.
    pub requests: Requests,
    /// Requests that can be looked up, by the distribution that has their time.
    pub exemplars: BTreeMap<(Role, StatusClass), Exemplars>,
}

/// What the agent itself takes, and what became of what it sent on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agent {
    /// The version of Wirelapse.
    pub version: String,
    /// Time on a CPU in user space.
    pub cpu_user: Nanos,
    /// Time on a CPU in the kernel.
    pub cpu_system: Nanos,
    /// Resident memory, bytes.
    pub memory_bytes: u64,
    /// The most memory that its BPF maps can take, bytes.
    pub kernel_memory_bytes: u64,
    /// By name of the destination and of the outcome: requests, parts or scrapes.
    pub exports: Vec<(Vec<(&'static str, String)>, u64)>,
    /// Bytes of the store that wait to be uploaded.
    pub waiting_bytes: u64,
    /// How often the clock was set.
    pub clock_steps: u64,
}

/// A rule of the target, which names cgroups, and what it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Its kind and its name.
    pub labels: Vec<(&'static str, String)>,
    /// How many cgroups it names now.
    pub cgroups: u64,
    /// How many have come since the start.
    pub came: u64,
    /// How many of these were gone before they could be followed.
    pub missed: u64,
}

/// How the agent's flight recorder goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorder {
    /// Whether it waits for something to happen, or writes what did.
    pub at_work: bool,
    /// Runs that it has written.
    pub runs: u64,
    /// How often something happened that it waits for, in these runs.
    pub triggers: u64,
    /// How often it ended without a run.
    pub failures: u64,
}

/// The figures of an agent at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When, nanoseconds of Unix time.
    pub time_ns: u64,
    /// The same on the monotonic clock.
    pub taken_ns: u64,
    /// When the agent started, nanoseconds of Unix time.
    pub since_ns: u64,
    /// The series of sends.
    pub series: Vec<Labelled>,
    /// The most series that are published, without that of the overflow.
    pub max_series: u64,
    /// The exponential buckets with upper bounds that classic ones have, in their order.
    pub bounds: Vec<i32>,
    /// What was missed.
    pub lost: Lost,
    /// How much was observed.
    pub coverage: Coverage,
    /// What the cgroups, units and containers of the target name.
    pub targets: Vec<Rule>,
    /// Its flight recorder, where there is one.
    pub recorder: Option<Recorder>,
    /// The agent's own figures.
    pub agent: Agent,
}

/// A value of a series with the labels of its own.
type Marked<'a> = ([Option<(&'static str, &'a str)>; 2], Value<'a>);

/// Which end of its connections this host was.
fn by(opening: Opening) -> [Option<(&'static str, &'static str)>; 2] {
    [Some(("opening", opening.name())), None]
}

/// Why segments were retransmitted, as network people say it.
fn cause(again: Again) -> &'static str {
    match again {
        Again::Probe => "tail_probe",
        Again::Recovery => "fast",
        Again::Loss => "timeout",
    }
}

/// Retransmitted segments by their cause. That of a few is not known.
fn retransmitted(of: &Series) -> impl Iterator<Item = (&'static str, u64)> {
    let known = Again::ALL.map(cause).into_iter().zip(of.retransmitted_for);
    let rest = of.retransmitted_for.iter().fold(of.retransmitted_segments, |rest, n| rest.saturating_sub(*n));
    known.chain((rest > 0).then_some(("unknown", rest)))
}

/// The class of an HTTP status as a label, where one is known.
fn status_class(class: StatusClass) -> Option<(&'static str, &'static str)> {
    const CLASSES: [&str; 9] = ["1xx", "2xx", "3xx", "4xx", "5xx", "6xx", "7xx", "8xx", "9xx"];
    let word = CLASSES.get(usize::from(class?).checked_sub(1)?)?;
    Some(("http.response.status_class", word))
}

fn role(role: Role) -> Option<(&'static str, &'static str)> {
    Some(("role", role.name()))
}

const fn family<'a>(
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    kind: Kind,
    points: Vec<Point<'a>>,
) -> Family<'a> {
    Family { name, unit, help, kind, points }
}

const NO_LABELS: &[(&str, String)] = &[];

impl Snapshot {
    /// All metrics, in a fixed order. A metric without points is among them.
    pub fn families(&self) -> Vec<Family<'_>> {
        let mut families = self.of_sends();
        families.extend(self.of_connections());
        families.extend(self.of_requests());
        families.extend(self.of_names());
        families.extend(self.of_the_agent());
        families
    }

    fn of_sends(&self) -> Vec<Family<'_>> {
        // That of a server of DNS is one of sends only where there are any.
        let is_of_sends = |of: &Labelled| of.names.questions == 0 || of.figures.sends > 0 || of.figures.bytes > 0;
        let counter = |name, unit, help, get: fn(&Series) -> u64| {
            let of = |one: &Labelled| is_of_sends(one).then(|| ([None; 2], Value::Whole(get(&one.figures))));
            family(name, unit, help, Kind::Counter, self.marked(|one| of(one).into_iter().collect()))
        };
        let again = self.marked(|one| {
            let of = retransmitted(&one.figures).map(|(cause, n)| ([Some(("cause", cause)), None], Value::Whole(n)));
            if is_of_sends(one) { of.collect() } else { Vec::new() }
        });
        let durations = self.marked(|one| {
            let legs = one.figures.legs.iter();
            legs.map(|(leg, all)| ([Some(("stage", leg.name())), None], Value::Histogram(all, None))).collect()
        });
        let waited = self.marked(|one| {
            let reasons = WaitReason::ALL.into_iter().zip(one.figures.waited).filter(|(_, time)| time.0 > 0);
            reasons
                .map(|(reason, time)| ([Some(("reason", reason.name())), None], Value::Real(time.as_secs_f64())))
                .collect()
        });
        vec![
            family(
                "wirelapse.send.duration",
                "s",
                "Time of sends in each stage between send() and the peer's ACK.",
                Kind::Histogram,
                durations,
            ),
            counter("wirelapse.sends", "{send}", "Sends that were timed.", |one| one.sends),
            counter("wirelapse.send.bytes", "By", "Bytes written, by TCP's own counters.", |one| one.bytes),
            counter("wirelapse.unacked_sends", "{send}", "Sends that ended without an ACK.", |one| one.unacked),
            counter("wirelapse.vague_stages", "{stage}", "Stages shorter than the bound on their error.", |one| {
                one.vague
            }),
            counter(
                "wirelapse.sent_segments",
                "{segment}",
                "Segments sent with data, retransmitted ones included, by TCP's counters.",
                |one| one.sent_segments,
            ),
            family(
                "wirelapse.retransmitted_segments",
                "{segment}",
                "Segments retransmitted, by TCP's counters and by cause: a time-out, fast recovery, a tail loss probe.",
                Kind::Counter,
                again,
            ),
            counter(
                "wirelapse.spurious_segments",
                "{segment}",
                "Retransmitted segments that the peer had already, as its DSACKs say.",
                |one| one.spurious_segments,
            ),
            counter("wirelapse.dropped_segments", "{segment}", "Segments that this host dropped.", |one| {
                one.dropped_segments
            }),
            family(
                "wirelapse.waited",
                "s",
                "Time that sends waited in TCP, by the reason that accounts for most of it.",
                Kind::Counter,
                waited,
            ),
        ]
    }

    fn of_connections(&self) -> Vec<Family<'_>> {
        let each = |values: fn(&Connections) -> Vec<Marked<'_>>| self.marked(|one| values(&one.connections));
        vec![
            family(
                "wirelapse.connection.attempts",
                "{attempt}",
                "Attempts to set up a connection, by what came of them.",
                Kind::Counter,
                each(|of| {
                    let marked = |(opening, outcome): &(Opening, Outcome)| {
                        [Some(("opening", opening.name())), Some(("outcome", outcome.name()))]
                    };
                    of.attempts.iter().map(|(key, n)| (marked(key), Value::Whole(*n))).collect()
                }),
            ),
            family(
                "wirelapse.connection.retries",
                "{segment}",
                "Retransmissions of SYNs (connected) and of SYN-ACKs (accepted).",
                Kind::Counter,
                each(|of| of.retries.iter().map(|(opening, n)| (by(*opening), Value::Whole(*n))).collect()),
            ),
            family(
                "wirelapse.connection.handshake.duration",
                "s",
                "From the SYN until the connection was established on this host.",
                Kind::Histogram,
                each(|of| {
                    of.handshakes.iter().map(|(opening, all)| (by(*opening), Value::Histogram(all, None))).collect()
                }),
            ),
            family(
                "wirelapse.connection.accept.duration",
                "s",
                "Time of connections in the accept queue, until a program accepted them.",
                Kind::Histogram,
                each(|of| {
                    let waited = Some(&of.accept_waits).filter(|waits| waits.count() > 0);
                    waited.map(|waits| ([None; 2], Value::Histogram(waits, None))).into_iter().collect()
                }),
            ),
            family(
                "wirelapse.connection.round_trip.duration",
                "s",
                "Round trips as TCP has smoothed them, of each connection about seven times a second.",
                Kind::Histogram,
                self.points(|of| (of.round_trips.count() > 0).then_some(Value::Histogram(&of.round_trips, None))),
            ),
            family(
                "wirelapse.connection.receive_window.limited",
                "s",
                "Time for which the peer's receive window, closed or too small, held data back, by TCP's own clock.",
                Kind::Counter,
                self.points(|of| (of.bytes > 0).then(|| Value::Real(of.window_limited.as_secs_f64()))),
            ),
            family(
                "wirelapse.connection.zero_windows",
                "{window}",
                "Times that the peer's receive window was seen to close: it took no more data.",
                Kind::Counter,
                self.points(|of| (of.bytes > 0).then_some(Value::Whole(of.zero_windows))),
            ),
            family(
                "wirelapse.connection.listen_drops",
                "{segment}",
                "SYNs and ACKs that listeners dropped: their accept queue was full, or there was no memory.",
                Kind::Counter,
                self.points(|of| (of.listen_drops > 0).then_some(Value::Whole(of.listen_drops))),
            ),
            family(
                "wirelapse.connection.ends",
                "{connection}",
                "Established connections that ended, by how and by whom.",
                Kind::Counter,
                each(|of| {
                    let marked = |(ending, by): &(Ending, EndedBy)| {
                        [Some(("ending", ending.name())), Some(("ended_by", by.name()))]
                    };
                    of.ends.iter().map(|(key, n)| (marked(key), Value::Whole(*n))).collect()
                }),
            ),
        ]
    }

    /// The values of each series, with the labels that they have beside its own.
    fn marked<'a>(&'a self, values: impl Fn(&'a Labelled) -> Vec<Marked<'a>>) -> Vec<Point<'a>> {
        let of = |one: &'a Labelled| {
            let point = |(more, value)| Point { labels: &one.labels, more, since_ns: one.since_ns, value };
            values(one).into_iter().map(point)
        };
        self.series.iter().flat_map(of).collect()
    }

    /// A value of each series that has one.
    fn points<'a>(&'a self, value: impl Fn(&'a Series) -> Option<Value<'a>>) -> Vec<Point<'a>> {
        self.marked(|one| value(&one.figures).map(|value| ([None; 2], value)).into_iter().collect())
    }

    fn of_requests(&self) -> Vec<Family<'_>> {
        let each = |values: fn(&Requests) -> Vec<Marked<'_>>| self.marked(|one| values(&one.requests));
        vec![
            family(
                "wirelapse.request.duration",
                "s",
                "From the beginning of a request to the end of its answer, by the class of the answer's status.",
                Kind::Histogram,
                self.marked(|one| {
                    let answered = one.requests.answered.iter();
                    answered
                        .map(|(key @ (end, class), took)| {
                            let value = Value::Histogram(took, one.exemplars.get(key));
                            ([role(*end), status_class(*class)], value)
                        })
                        .collect()
                }),
            ),
            family(
                "wirelapse.request.unanswered",
                "{request}",
                "Requests whose connection ended before an answer came.",
                Kind::Counter,
                each(|of| of.unanswered.iter().map(|(end, n)| ([role(*end), None], Value::Whole(*n))).collect()),
            ),
            family(
                "wirelapse.request.untimed",
                "{request}",
                "Requests that overlap others on their connection, or of which a moment is missing.",
                Kind::Counter,
                each(|of| of.untimed.iter().map(|(end, n)| ([role(*end), None], Value::Whole(*n))).collect()),
            ),
            family(
                "wirelapse.request.spent",
                "s",
                "Time of requests by where it was spent: TCP, the kernels, the network, the programs.",
                Kind::Counter,
                each(|of| {
                    let component = |of: record::Component| Some(("component", of.name()));
                    let spent = of.spent.iter();
                    spent
                        .map(|((end, of), time)| ([role(*end), component(*of)], Value::Real(time.as_secs_f64())))
                        .collect()
                }),
            ),
        ]
    }

    fn of_names(&self) -> Vec<Family<'_>> {
        let each = |values: fn(&Names) -> Vec<Marked<'_>>| {
            self.marked(|one| if one.names.questions > 0 { values(&one.names) } else { Vec::new() })
        };
        let counter = |name, unit, help, points| family(name, unit, help, Kind::Counter, points);
        let histogram = |name, help, points| family(name, "s", help, Kind::Histogram, points);
        vec![
            counter(
                "wirelapse.dns.questions",
                "{question}",
                "Questions sent to servers of DNS; the peer is the server.",
                each(|of| vec![([None; 2], Value::Whole(of.questions))]),
            ),
            counter(
                "wirelapse.dns.retries",
                "{question}",
                "Questions that were asked again, as an earlier one had not brought what was wanted.",
                each(|of| vec![([None; 2], Value::Whole(of.retries))]),
            ),
            counter(
                "wirelapse.dns.unanswered",
                "{question}",
                "Questions that were not answered.",
                each(|of| vec![([None; 2], Value::Whole(of.unanswered))]),
            ),
            counter(
                "wirelapse.dns.answers",
                "{answer}",
                "Answers of servers of DNS, by their response code.",
                each(|of| {
                    let of_code =
                        |(code, n): (_, &u64)| ([Some(("code", String::as_str(code))), None], Value::Whole(*n));
                    of.answers.iter().map(of_code).collect()
                }),
            ),
            histogram(
                "wirelapse.dns.answer.duration",
                "From a question to its answer.",
                each(|of| vec![([None; 2], Value::Histogram(&of.took, None))]),
            ),
            histogram(
                "wirelapse.dns.lookup.duration",
                "From the first question of a lookup to the answer that it ended with, retries included.",
                each(|of| vec![([None; 2], Value::Histogram(&of.lookups, None))]),
            ),
        ]
    }

    fn of_the_agent(&self) -> Vec<Family<'_>> {
        let one = |name, unit, help, kind, value| family(name, unit, help, kind, vec![self.own(None, value)]);
        let lost = self.lost.kinds().filter(|(_, loss, _)| *loss != Loss::Noted);
        let lost = lost.map(|(key, _, n)| self.own(Some(("counter", key)), Value::Whole(n)));
        let seconds = |time: Nanos| Value::Real(time.as_secs_f64());
        let cpu = [("user", self.agent.cpu_user), ("system", self.agent.cpu_system)];
        let exports = self.agent.exports.iter().map(|(labels, n)| Point {
            labels,
            more: [None; 2],
            since_ns: self.since_ns,
            value: Value::Whole(*n),
        });
        let of_targets = |name, unit, help, kind, get: fn(&Rule) -> u64| {
            let points = self.targets.iter().map(|of| Point {
                labels: &of.labels,
                more: [None; 2],
                since_ns: self.since_ns,
                value: Value::Whole(get(of)),
            });
            family(name, unit, help, kind, points.collect())
        };
        let of_recorder = |name, unit, help, kind, get: fn(&Recorder) -> u64| {
            let points = self.recorder.iter().map(|of| self.own(None, Value::Whole(get(of)))).collect();
            family(name, unit, help, kind, points)
        };
        let (whole, coverage) = (Value::Whole, self.coverage);
        vec![
            family(
                "wirelapse.lost",
                "{event}",
                "What was missed or could not be timed, by counter.",
                Kind::Counter,
                lost.collect(),
            ),
            of_targets(
                "wirelapse.target.cgroups",
                "{cgroup}",
                "Cgroups that a unit, container or cgroup of the target names now; 0 while it is not there.",
                Kind::Gauge,
                |of| of.cgroups,
            ),
            of_targets(
                "wirelapse.target.started",
                "{cgroup}",
                "Cgroups of the target that came since the agent began: starts of units and containers.",
                Kind::Counter,
                |of| of.came,
            ),
            of_targets(
                "wirelapse.target.missed",
                "{cgroup}",
                "Of the cgroups that came, those that were gone before they could be followed.",
                Kind::Counter,
                |of| of.missed,
            ),
            of_recorder(
                "wirelapse.recorder.at_work",
                "",
                "1 while the flight recorder waits for a trigger or writes a run; 0 in its pause after a run, and while it fails.",
                Kind::Gauge,
                |of| of.at_work.into(),
            ),
            of_recorder(
                "wirelapse.recorder.runs",
                "{run}",
                "Runs that the flight recorder wrote.",
                Kind::Counter,
                |of| of.runs,
            ),
            of_recorder(
                "wirelapse.recorder.triggers",
                "{trigger}",
                "Times that a trigger of the flight recorder happened, from the first until the end of each run.",
                Kind::Counter,
                |of| of.triggers,
            ),
            of_recorder(
                "wirelapse.recorder.failures",
                "{failure}",
                "Times that the flight recorder could not begin, or ended without a run.",
                Kind::Counter,
                |of| of.failures,
            ),
            one(
                "wirelapse.series",
                "{series}",
                "Series that are published.",
                Kind::Gauge,
                whole(self.series.len() as u64),
            ),
            one(
                "wirelapse.series.limit",
                "{series}",
                "The most series that are published.",
                Kind::Gauge,
                whole(self.max_series),
            ),
            one(
                "wirelapse.followed",
                "s",
                "Time for which connections were followed, summed over them.",
                Kind::Counter,
                seconds(coverage.followed),
            ),
            one(
                "wirelapse.observed",
                "s",
                "Of the time followed, that for which sends were observed.",
                Kind::Counter,
                seconds(coverage.armed),
            ),
            one(
                "wirelapse.written.bytes",
                "By",
                "Bytes written on the connections that are followed, by TCP's own counters.",
                Kind::Counter,
                whole(coverage.bytes_written),
            ),
            one(
                "wirelapse.observed.bytes",
                "By",
                "Of the bytes written, those written while sends were observed.",
                Kind::Counter,
                whole(coverage.bytes_armed),
            ),
            family(
                "wirelapse.agent.cpu.time",
                "s",
                "CPU time of the agent's process; what its BPF programs take is in the processes that send.",
                Kind::Counter,
                cpu.into_iter().map(|(mode, time)| self.own(Some(("cpu.mode", mode)), seconds(time))).collect(),
            ),
            one(
                "wirelapse.agent.memory",
                "By",
                "Resident memory of the agent.",
                Kind::Gauge,
                whole(self.agent.memory_bytes),
            ),
            one(
                "wirelapse.agent.kernel_memory",
                "By",
                "The most memory that the agent's BPF maps can take.",
                Kind::Gauge,
                whole(self.agent.kernel_memory_bytes),
            ),
            family(
                "wirelapse.agent.exports",
                "{export}",
                "Scrapes answered, OTLP requests and parts of the store, by outcome.",
                Kind::Counter,
                exports.collect(),
            ),
            one(
                "wirelapse.agent.waiting",
                "By",
                "What waits to be uploaded to the store.",
                Kind::Gauge,
                whole(self.agent.waiting_bytes),
            ),
            one(
                "wirelapse.agent.clock_steps",
                "{step}",
                "Times that the clock was set; each ends a run of the store.",
                Kind::Counter,
                whole(self.agent.clock_steps),
            ),
            family(
                "wirelapse.agent.info",
                "",
                "Always 1; its label says the version.",
                Kind::Gauge,
                vec![self.own(Some(("version", &self.agent.version)), Value::Whole(1))],
            ),
        ]
    }

    fn own<'a>(&'a self, more: Option<(&'static str, &'a str)>, value: Value<'a>) -> Point<'a> {
        Point { labels: NO_LABELS, more: [more, None], since_ns: self.since_ns, value }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use record::histogram::Exemplar;
    use record::{Leg, SpanId, TraceContext, TraceId};

    /// The trace of the one request that is an exemplar.
    pub(crate) const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    pub(crate) const SPAN: &str = "b7ad6b7169203331";

    fn exemplars() -> Exemplars {
        let context = TraceContext {
            trace: TraceId::from_digits(TRACE.as_bytes()).unwrap(),
            span: SpanId::from_digits(SPAN.as_bytes()).unwrap(),
            sampled: true,
        };
        let mut exemplars = Exemplars::default();
        exemplars.offer(Exemplar {
            context,
            took: Nanos(500_000_000),
            ended_ns: 1_700_000_050_123_456_789,
            known_ns: 51,
        });
        exemplars
    }

    /// Two series, one of them with a name that needs escaping, and the overflow.
    pub(crate) fn example() -> Snapshot {
        let series = |labels: Vec<(&'static str, String)>, durations: &[u64]| Labelled {
            labels,
            since_ns: 1_700_000_000_000_000_000,
            figures: Series {
                legs: [
                    (Leg::Tcp, [Nanos(0), Nanos(1)].into_iter().collect()),
                    (Leg::Total, durations.iter().map(|ns| Nanos(*ns)).collect()),
                ]
                .into(),
                sends: durations.len() as u64,
                bytes: 1_448,
                retransmitted_segments: 9,
                retransmitted_for: [1, 2, 5],
                spurious_segments: 2,
                listen_drops: 6,
                round_trips: [Nanos(500_000_000)].into_iter().collect(),
                window_limited: Nanos::from_millis(250),
                zero_windows: 3,
                waited: {
                    let mut waited = [Nanos::ZERO; WaitReason::ALL.len()];
                    waited[WaitReason::Nagle as usize] = Nanos::from_millis(40);
                    waited
                },
                ..Series::default()
            },
            connections: Connections {
                attempts: [((Opening::Connected, Outcome::Refused), 5)].into(),
                retries: [(Opening::Accepted, 2)].into(),
                handshakes: [(Opening::Accepted, [Nanos(500_000_000)].into_iter().collect())].into(),
                ends: [((Ending::Reset, EndedBy::Peer), 4)].into(),
                ..Connections::default()
            },
            names: Names {
                questions: 3,
                retries: 1,
                unanswered: 1,
                answers: [("NOERROR".to_owned(), 2)].into(),
                took: [Nanos(1_000_000)].into_iter().collect(),
                lookups: [Nanos(500_000_000)].into_iter().collect(),
            },
            requests: Requests {
                answered: [((Role::Server, Some(5)), [Nanos(500_000_000)].into_iter().collect())].into(),
                unanswered: [(Role::Client, 7)].into(),
                untimed: [(Role::Client, 8)].into(),
                spent: [((Role::Server, record::Component::Application), Nanos::from_millis(125))].into(),
            },
            exemplars: [((Role::Server, Some(5)), exemplars())].into(),
        };
        let peer = |address: &str| ("network.peer.address", address.to_owned());
        Snapshot {
            time_ns: 1_700_000_060_000_000_000,
            taken_ns: 60,
            since_ns: 1_700_000_000_000_000_000,
            series: vec![
                series(
                    vec![peer("192.0.2.1"), ("cgroup", "/a \"b\"\\c\nd é".into())],
                    &[500_000_000, 500_000_001, 1_000_000],
                ),
                series(vec![peer("2001:db8::/48")], &[70_000_000_000, 1_000_000_000]),
                series(vec![(crate::OVERFLOW, "true".into())], &[3]),
            ],
            max_series: 2,
            bounds: crate::text::usual_bounds(),
            lost: Lost { slots_full: 7, ..Lost::default() },
            targets: vec![Rule {
                labels: vec![("kind", "unit".into()), ("name", "nginx.service".into())],
                cgroups: 1,
                came: 2,
                missed: 0,
            }],
            recorder: Some(Recorder { at_work: true, runs: 2, triggers: 77, failures: 1 }),
            coverage: Coverage { followed: Nanos(10), armed: Nanos(5), bytes_written: 100, bytes_armed: 50 },
            agent: Agent {
                version: "0.1.0".into(),
                exports: vec![(vec![("to", "prometheus".into()), ("outcome", "done".into())], 12)],
                ..Agent::default()
            },
        }
    }

    #[test]
    fn what_was_inferred_or_repeated_is_not_missed() {
        let noted = Lost { inferred: 1_000, repeated: 7, after_ack: 7, ..Lost::default() };
        let healthy = Snapshot { lost: noted, ..Snapshot::default() };
        let families = healthy.families();
        let lost = families.iter().find(|family| family.name == "wirelapse.lost").unwrap();
        assert!(lost.points.iter().all(|point| point.value == Value::Whole(0)));
        assert!(lost.points.iter().any(|point| point.more[0] == Some(("counter", "slots_full"))));
    }

    #[test]
    fn names_follow_the_conventions() {
        let snapshot = example();
        let names: Vec<String> = snapshot.families().iter().map(crate::name::metric).collect();
        assert_eq!(
            names,
            [
                "wirelapse_send_duration_seconds",
                "wirelapse_sends_total",
                "wirelapse_send_bytes_total",
                "wirelapse_unacked_sends_total",
                "wirelapse_vague_stages_total",
                "wirelapse_sent_segments_total",
                "wirelapse_retransmitted_segments_total",
                "wirelapse_spurious_segments_total",
                "wirelapse_dropped_segments_total",
                "wirelapse_waited_seconds_total",
                "wirelapse_connection_attempts_total",
                "wirelapse_connection_retries_total",
                "wirelapse_connection_handshake_duration_seconds",
                "wirelapse_connection_accept_duration_seconds",
                "wirelapse_connection_round_trip_duration_seconds",
                "wirelapse_connection_receive_window_limited_seconds_total",
                "wirelapse_connection_zero_windows_total",
                "wirelapse_connection_listen_drops_total",
                "wirelapse_connection_ends_total",
                "wirelapse_request_duration_seconds",
                "wirelapse_request_unanswered_total",
                "wirelapse_request_untimed_total",
                "wirelapse_request_spent_seconds_total",
                "wirelapse_dns_questions_total",
                "wirelapse_dns_retries_total",
                "wirelapse_dns_unanswered_total",
                "wirelapse_dns_answers_total",
                "wirelapse_dns_answer_duration_seconds",
                "wirelapse_dns_lookup_duration_seconds",
                "wirelapse_lost_total",
                "wirelapse_target_cgroups",
                "wirelapse_target_started_total",
                "wirelapse_target_missed_total",
                "wirelapse_recorder_at_work",
                "wirelapse_recorder_runs_total",
                "wirelapse_recorder_triggers_total",
                "wirelapse_recorder_failures_total",
                "wirelapse_series",
                "wirelapse_series_limit",
                "wirelapse_followed_seconds_total",
                "wirelapse_observed_seconds_total",
                "wirelapse_written_bytes_total",
                "wirelapse_observed_bytes_total",
                "wirelapse_agent_cpu_time_seconds_total",
                "wirelapse_agent_memory_bytes",
                "wirelapse_agent_kernel_memory_bytes",
                "wirelapse_agent_exports_total",
                "wirelapse_agent_waiting_bytes",
                "wirelapse_agent_clock_steps_total",
                "wirelapse_agent_info",
            ]
        );
    }
}
