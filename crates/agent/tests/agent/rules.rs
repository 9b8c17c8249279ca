//! Each alert rule on made-up hosts: it fires where something is wrong and on no healthy host, with
//! classic buckets (`promtool test rules`) and with native histograms, which Debian's promtool
//! cannot read (a Prometheus that they are written to).

use std::process::{Command, Stdio};

use record::Nanos;
use record::histogram::{Histogram, SCHEMA};
use serde_json::Value;
use tier::{Need, Process, needs};

/// Minutes of made-up figures: what holds a day ago, and what holds in the last hour.
const MINUTES: u64 = 1_500;
const CHANGE: u64 = 1_440;

/// What a figure is at a minute.
type Figure = Box<dyn Fn(u64) -> f64>;

/// A counter that grows so much a minute.
fn grows(by: f64) -> Figure {
    Box::new(move |minute| by * minute as f64)
}

/// The same from the change on.
fn grows_lately(by: f64) -> Figure {
    Box::new(move |minute| by * minute.saturating_sub(CHANGE) as f64)
}

fn stays(at: f64) -> Figure {
    Box::new(move |_| at)
}

/// One series of a host.
enum Series {
    Number(&'static str, Vec<(&'static str, &'static str)>, Figure),
    /// Durations with a peer, of a stage or of another kind: so many a minute, of so many
    /// microseconds until the change and after it.
    Durations {
        name: &'static str,
        stage: Option<&'static str>,
        a_minute: u64,
        us: [u64; 2],
    },
}

/// A made-up host, and the rule that fires on it, or must not.
struct Host {
    name: &'static str,
    rule: &'static str,
    fires: bool,
    series: Vec<Series>,
}

const PEER: (&str, &str) = ("network_peer_address", "192.0.2.1");

fn sends(a_minute: f64) -> Series {
    Series::Number("wirelapse_sends_total", vec![PEER], grows(a_minute))
}

fn lost(counter: &'static str, figure: Figure) -> Series {
    Series::Number("wirelapse_lost_total", vec![("counter", counter)], figure)
}

fn exports(outcome: &'static str, figure: Figure) -> Series {
    Series::Number("wirelapse_agent_exports_total", vec![("to", "otlp"), ("outcome", outcome)], figure)
}

fn segments(sent: f64, retransmitted: f64) -> Vec<Series> {
    let of = |name, figure| Series::Number(name, vec![PEER], figure);
    vec![
        of("wirelapse_sent_segments_total", grows(sent)),
        of("wirelapse_retransmitted_segments_total", grows(retransmitted)),
        of("wirelapse_send_bytes_total", grows(300.0 * sent)),
        sends(sent),
    ]
}

/// Attempts to connect to a peer, or from it.
fn attempts(opening: &'static str, outcome: &'static str, a_minute: f64) -> Series {
    let labels = vec![PEER, ("opening", opening), ("outcome", outcome)];
    Series::Number("wirelapse_connection_attempts_total", labels, grows(a_minute))
}

fn target(name: &'static str, figure: Figure) -> Series {
    Series::Number(name, vec![("kind", "unit"), ("name", "nginx.service")], figure)
}

fn hosts() -> Vec<Host> {
    let host = |name, rule, fires, series| Host { name, rule, fires, series };
    let staged = |stage, us| {
        let name = "wirelapse_send_duration_seconds";
        vec![Series::Durations { name, stage: Some(stage), a_minute: 300, us }, sends(300.0)]
    };
    let took = |us| staged("total", us);
    let queued = |us| staged("qdisc", [us; 2]);
    let accepted = |us| {
        let name = "wirelapse_connection_accept_duration_seconds";
        vec![Series::Durations { name, stage: None, a_minute: 300, us: [us; 2] }]
    };
    let asked = |questions, unanswered| {
        let of = |name, by| Series::Number(name, vec![PEER], grows(by));
        vec![of("wirelapse_dns_questions_total", questions), of("wirelapse_dns_unanswered_total", unanswered)]
    };
    let overflow = |share: f64| {
        let label = vec![("otel_metric_overflow", "true")];
        vec![sends(1_000.0 * (1.0 - share)), Series::Number("wirelapse_sends_total", label, grows(1_000.0 * share))]
    };
    vec![
        host("slow-peer", "WirelapseSlowPeer", true, took([2_000, 30_000])),
        // A peer on the same host: nobody is harmed.
        host("microseconds", "WirelapseSlowPeer", false, took([20, 200])),
        host("far-peer", "WirelapseSlowPeer", false, took([30_000, 30_000])),
        host("got-faster", "WirelapseSlowPeer", false, took([30_000, 2_500])),
        host("retransmits", "WirelapseRetransmissions", true, segments(24_000.0, 720.0)),
        // 1.06 % of segments of 300 bytes.
        host("small-segments", "WirelapseRetransmissions", false, segments(24_000.0, 254.0)),
        host(
            "refused",
            "WirelapseConnectionsFail",
            true,
            vec![attempts("connected", "established", 270.0), attempts("connected", "refused", 30.0)],
        ),
        // A few while a peer restarts, attempts that a faster one makes needless, and scans.
        host(
            "connects",
            "WirelapseConnectionsFail",
            false,
            vec![
                attempts("connected", "established", 300.0),
                attempts("connected", "refused", 1.0),
                attempts("connected", "abandoned", 90.0),
                attempts("accepted", "unanswered", 900.0),
            ],
        ),
        host("slow-to-accept", "WirelapseAcceptQueue", true, accepted(2_000_000)),
        host("accepts", "WirelapseAcceptQueue", false, accepted(1_000)),
        host(
            "full-queue",
            "WirelapseListenDrops",
            true,
            vec![Series::Number("wirelapse_connection_listen_drops_total", vec![], grows_lately(6.0))],
        ),
        // A burst long ago, and now and then one.
        host(
            "once-full",
            "WirelapseListenDrops",
            false,
            vec![Series::Number(
                "wirelapse_connection_listen_drops_total",
                vec![],
                Box::new(|minute| 70.0 + minute as f64 / 60.0),
            )],
        ),
        host(
            "stalled",
            "WirelapsePeerDoesNotRead",
            true,
            vec![Series::Number(
                "wirelapse_connection_receive_window_limited_seconds_total",
                vec![PEER],
                grows_lately(59.0),
            )],
        ),
        // Many transfers to a peer, each of which waits for its window at times.
        host(
            "windows",
            "WirelapsePeerDoesNotRead",
            false,
            vec![
                Series::Number("wirelapse_connection_receive_window_limited_seconds_total", vec![PEER], grows(600.0)),
                Series::Number("wirelapse_send_bytes_total", vec![PEER], grows(6e9)),
            ],
        ),
        host(
            "zero-windows",
            "WirelapseZeroWindows",
            true,
            vec![
                Series::Number("wirelapse_connection_zero_windows_total", vec![PEER], grows_lately(30.0)),
                Series::Number(
                    "wirelapse_connection_receive_window_limited_seconds_total",
                    vec![PEER],
                    grows_lately(40.0),
                ),
                Series::Number("wirelapse_send_bytes_total", vec![PEER], grows(6e9)),
            ],
        ),
        // Readers that pause for moments, and one that stopped once.
        host(
            "short-zero-windows",
            "WirelapseZeroWindows",
            false,
            vec![
                Series::Number("wirelapse_connection_zero_windows_total", vec![PEER], grows(30.0)),
                Series::Number("wirelapse_connection_receive_window_limited_seconds_total", vec![PEER], grows(0.6)),
                Series::Number("wirelapse_send_bytes_total", vec![PEER], grows(6e9)),
            ],
        ),
        host("dns-lossy", "WirelapseDnsUnanswered", true, asked(100.0, 5.0)),
        host("dns", "WirelapseDnsUnanswered", false, asked(100.0, 0.2)),
        // A restart of a server that is hardly asked.
        host("dns-rare", "WirelapseDnsUnanswered", false, asked(0.5, 0.1)),
        host("qdisc", "WirelapseQdiscQueue", true, queued(100_000)),
        host("short-qdisc", "WirelapseQdiscQueue", false, queued(500)),
        host("overflow", "WirelapseOverflow", true, overflow(0.2)),
        host("some-overflow", "WirelapseOverflow", false, overflow(0.05)),
        host("missed", "WirelapseMissedSends", true, vec![sends(7_800.0), lost("slots_full", grows(12_208.0))]),
        host("late-stamps", "WirelapseMissedSends", false, vec![sends(7_800.0), lost("no_sched", grows(12_208.0))]),
        host("few-missed", "WirelapseMissedSends", false, vec![sends(7_800.0), lost("slots_full", grows(20.0))]),
        host("no-room", "WirelapseMissedConnections", true, vec![lost("connections_full", grows_lately(3.0))]),
        host("had-no-room", "WirelapseMissedConnections", false, vec![lost("connections_full", stays(70.0))]),
        host("unread", "WirelapseMissedRecords", true, vec![lost("dns_ring_buffer", grows_lately(3.0))]),
        host("was-unread", "WirelapseMissedRecords", false, vec![lost("dns_ring_buffer", stays(70.0))]),
        host("gone", "WirelapseTargetGone", true, vec![target("wirelapse_target_cgroups", stays(0.0))]),
        host("there", "WirelapseTargetGone", false, vec![target("wirelapse_target_cgroups", stays(2.0))]),
        host(
            "short-lived",
            "WirelapseTargetMissed",
            true,
            vec![target("wirelapse_target_missed_total", grows_lately(0.1))],
        ),
        host("long-lived", "WirelapseTargetMissed", false, vec![target("wirelapse_target_missed_total", stays(4.0))]),
        host("never-there", "WirelapseExportFails", true, vec![exports("failed", grows(1.0))]),
        host(
            "went-away",
            "WirelapseExportFails",
            true,
            vec![exports("done", stays(70.0)), exports("failed", grows_lately(0.2))],
        ),
        host(
            "dropped",
            "WirelapseExportFails",
            true,
            vec![exports("done", grows(1.0)), exports("runs_dropped", grows_lately(0.1))],
        ),
        // Somebody looks with `curl … | head` all the time.
        host(
            "curl-head",
            "WirelapseExportFails",
            false,
            vec![exports("done", grows(4.0)), exports("abandoned", grows(9.0))],
        ),
        host(
            "one-retry",
            "WirelapseExportFails",
            false,
            vec![exports("done", grows(1.0)), exports("failed", grows(0.1))],
        ),
        host("down", "WirelapseAgentDown", true, vec![Series::Number("up", vec![("job", "wirelapse")], stays(0.0))]),
        host("up", "WirelapseAgentDown", false, vec![Series::Number("up", vec![("job", "wirelapse")], stays(1.0))]),
    ]
}

impl Series {
    fn labels(&self, host: &str) -> Vec<(String, String)> {
        let (name, labels) = match self {
            Self::Number(name, labels, _) => (*name, labels.clone()),
            Self::Durations { name, stage, .. } => {
                (*name, [PEER].into_iter().chain(stage.map(|stage| ("stage", stage))).collect())
            }
        };
        let own = [("__name__", name), ("instance", host)].into_iter().chain(labels);
        let mut all: Vec<(String, String)> = own.map(|(label, value)| (label.into(), value.into())).collect();
        all.sort();
        all
    }

    /// The durations up to a minute.
    fn histogram(&self, minute: u64) -> Option<Histogram> {
        let Self::Durations { a_minute, us, .. } = self else { return None };
        let mut histogram = Histogram::default();
        for (us, minutes) in us.iter().zip([minute.min(CHANGE), minute.saturating_sub(CHANGE)]) {
            let mut one: Histogram = [Nanos(us * 1_000)].into_iter().collect();
            one.buckets.values_mut().for_each(|n| *n *= minutes * a_minute);
            one.sum = Nanos(one.sum.0 * minutes * a_minute);
            histogram.merge(&one);
        }
        Some(histogram)
    }
}

fn rules() -> String {
    format!("{}/../../packaging/prometheus/wirelapse-alerts.yml", env!("CARGO_MANIFEST_DIR"))
}

/// The rules' names and expressions. Of YAML what is used there: an expression is one line, or
/// those below it that are further to the right.
fn expressions() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(rules()).unwrap();
    let mut all: Vec<(String, String)> = Vec::new();
    let mut within = false;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("      - alert: ") {
            all.push((name.into(), String::new()));
        } else if let Some(expression) = line.strip_prefix("        expr: ") {
            within = expression == ">-";
            if !within {
                all.last_mut().unwrap().1 = expression.into();
            }
        } else if within && line.starts_with("          ") {
            let expression = &mut all.last_mut().unwrap().1;
            expression.push_str(line);
            expression.push('\n');
        } else {
            within = false;
        }
    }
    all
}

/// How long after a change the dashboard has a mark for it.
const MARKED: u64 = 12;

/// The dashboard's marks for changes: the name of each, its expression for a host, and the one host
/// that has changed in that way.
fn marks(host: &str) -> Vec<(String, String, &'static str)> {
    let path = format!("{}/../../packaging/grafana/wirelapse.json", env!("CARGO_MANIFEST_DIR"));
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let of = |mark: &Value| {
        let mut expression = mark["target"]["expr"].as_str().unwrap().replace("$instance", host);
        for variable in ["$unit", "$pod", "$program", "$peer"] {
            expression = expression.replace(variable, ".*");
        }
        (mark["name"].as_str().unwrap().to_owned(), expression)
    };
    let all: Vec<_> = dashboard["annotations"]["list"].as_array().unwrap().iter().map(of).collect();
    let changed = [("Slower than before", "slow-peer"), ("Faster than before", "got-faster")];
    let of = |(name, host)| {
        let (name, expression) = all.iter().find(|(of, _)| of == name).expect("the mark");
        (name.clone(), expression.clone(), host)
    };
    changed.map(of).into()
}

#[test]
fn each_rule_has_a_host_on_which_it_fires_and_one_on_which_it_does_not() {
    for (rule, expression) in expressions() {
        assert!(expression.contains("wirelapse"), "{rule}: {expression}");
        for fires in [true, false] {
            assert!(hosts().iter().any(|host| host.rule == rule && host.fires == fires), "{rule}, {fires}");
        }
    }
    // What counts as missed is what the counters say.
    let missed: Vec<&str> =
        record::Lost::default().kinds().filter(|(_, loss, _)| *loss == record::Loss::Missed).map(|one| one.0).collect();
    for (_, expression) in expressions() {
        let regex = expression.split("counter=~\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        for counter in regex.split('|').filter(|counter| !counter.is_empty()) {
            assert!(missed.contains(&counter), "{counter}");
        }
    }
}

#[test]
fn with_classic_buckets_each_rule_fires_where_it_must_and_nowhere_else() {
    needs!(Need::Program("promtool"));
    let mut series = String::new();
    let mut line = |labels: &[(String, String)], value: &dyn Fn(u64) -> f64| {
        let name = &labels.iter().find(|(label, _)| label == "__name__").unwrap().1;
        let labels: Vec<String> = labels
            .iter()
            .filter(|(label, _)| label != "__name__")
            .map(|(label, value)| format!("{label}=\"{value}\""))
            .collect();
        let values: Vec<String> = (0..=MINUTES).map(|minute| value(minute).to_string()).collect();
        series.push_str(&format!(
            "      - series: '{name}{{{}}}'\n        values: '{}'\n",
            labels.join(","),
            values.join(" ")
        ));
    };
    let mut asked = String::new();
    for host in hosts() {
        for one in &host.series {
            let labels = one.labels(host.name);
            let Series::Number(_, _, figure) = one else {
                for bound in (-20..=5).map(|power| 2_f64.powi(power)).chain([f64::INFINITY]) {
                    let mut labels = labels.clone();
                    let le = if bound.is_finite() { bound.to_string() } else { "+Inf".into() };
                    labels.push(("le".into(), le));
                    labels.iter_mut().find(|(label, _)| label == "__name__").unwrap().1.push_str("_bucket");
                    line(&labels, &|minute| {
                        let histogram = one.histogram(minute).unwrap();
                        let within =
                            histogram.buckets.iter().filter(|(at, _)| 2_f64.powf(f64::from(**at) / 8.0) <= bound);
                        within.map(|(_, n)| *n as f64).sum()
                    });
                }
                continue;
            };
            line(&labels, figure.as_ref());
        }
        for (rule, _) in expressions() {
            let fires = host.fires && rule == host.rule;
            asked.push_str(&format!(
                "      - expr: count(ALERTS{{alertstate=\"firing\",alertname=\"{rule}\",instance=\"{}\"}}) > 0\n        eval_time: {MINUTES}m\n        exp_samples: {}\n",
                host.name,
                if fires { "[{ value: 1 }]" } else { "[]" }
            ));
        }
        for (_, expression, changed) in marks(host.name) {
            asked.push_str(&format!(
                "      - expr: count({expression})\n        eval_time: {}m\n        exp_samples: {}\n",
                CHANGE + MARKED,
                if host.name == changed { "[{ value: 1 }]" } else { "[]" }
            ));
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("test.yml");
    let text = format!(
        "rule_files: [ \"{}\" ]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n{series}    promql_expr_test:\n{asked}",
        std::fs::canonicalize(rules()).unwrap().display()
    );
    std::fs::write(&file, text).unwrap();
    let done = Command::new("promtool").args(["test", "rules"]).arg(&file).output().unwrap();
    let said = format!("{}{}", tier::text(&done.stdout), tier::text(&done.stderr));
    assert!(done.status.success(), "{}", said.chars().take(4_000).collect::<String>());
}

/// A message of protocol buffers, as far as a remote write needs it.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(mut n: u64, out: &mut Vec<u8>) {
        while n >= 0x80 {
            out.push(n as u8 | 0x80);
            n >>= 7;
        }
        out.push(n as u8);
    }

    fn whole(mut self, field: u64, n: u64) -> Self {
        Self::varint(field << 3, &mut self.0);
        Self::varint(n, &mut self.0);
        self
    }

    /// Zigzag, of either sign.
    fn signed(self, field: u64, n: i64) -> Self {
        self.whole(field, ((n << 1) ^ (n >> 63)).cast_unsigned())
    }

    fn double(mut self, field: u64, x: f64) -> Self {
        Self::varint(field << 3 | 1, &mut self.0);
        self.0.extend(x.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        Self::varint(field << 3 | 2, &mut self.0);
        Self::varint(bytes.len() as u64, &mut self.0);
        self.0.extend(bytes);
        self
    }
}

/// A series of a remote write (`prometheus.TimeSeries`) with these minutes of it.
fn time_series(one: &Series, host: &str, minutes: std::ops::RangeInclusive<u64>, end_ms: i64) -> Message {
    let mut series = Message::default();
    for (label, value) in one.labels(host) {
        series = series.bytes(1, &Message::default().bytes(1, label.as_bytes()).bytes(2, value.as_bytes()).0);
    }
    for minute in minutes {
        let ms = (end_ms - (MINUTES - minute) as i64 * 60_000).cast_unsigned();
        series = match (one, one.histogram(minute)) {
            (Series::Number(_, _, figure), _) => {
                series.bytes(2, &Message::default().double(1, figure(minute)).whole(2, ms).0)
            }
            (_, Some(histogram)) => series.bytes(4, &native(&histogram, ms).0),
            _ => series,
        };
    }
    series
}

/// `prometheus.Histogram`: a span for each bucket.
fn native(histogram: &Histogram, ms: u64) -> Message {
    let mut message = Message::default().whole(1, histogram.count()).double(3, histogram.sum.as_secs_f64());
    message = message.signed(4, SCHEMA.into()).double(5, 1e-128).whole(6, histogram.zero);
    let (mut next, mut before) = (0, 0);
    for (bucket, n) in histogram.buckets.iter().filter(|(_, n)| **n > 0) {
        let span = Message::default().signed(1, i64::from(*bucket) - next).whole(2, 1);
        message = message.bytes(11, &span.0).signed(12, n.cast_signed() - before);
        (next, before) = (i64::from(*bucket) + 1, n.cast_signed());
    }
    message.whole(15, ms)
}

/// Snappy's block format without any compression.
fn snappy(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Message::varint(bytes.len() as u64, &mut out);
    for chunk in bytes.chunks(1 << 16) {
        out.push(61 << 2);
        out.extend(((chunk.len() - 1) as u16).to_le_bytes());
        out.extend(chunk);
    }
    out
}

#[test]
fn with_native_histograms_each_rule_fires_where_it_must_and_nowhere_else() {
    needs!(Need::Program("prometheus"));
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("prometheus.yml"), "").unwrap();
    let port = crate::made_up::free_port();
    let _prometheus = Process::start(
        tier::command("prometheus")
            .arg(format!("--config.file={}", data.path().join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", data.path().join("tsdb").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(["--enable-feature=native-histograms", "--web.enable-remote-write-receiver"])
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    );
    let url = format!("http://127.0.0.1:{port}");
    tier::until("Prometheus", || crate::made_up::get(&format!("{url}/-/ready")).contains("Ready"));
    let end_ms = crate::made_up::unix_ns().cast_signed() / 1_000_000;
    let hosts = hosts();
    for from in (0..=MINUTES).step_by(30) {
        let minutes = from..=(from + 29).min(MINUTES);
        let mut write = Message::default();
        for host in &hosts {
            for one in &host.series {
                write = write.bytes(1, &time_series(one, host.name, minutes.clone(), end_ms).0);
            }
        }
        let request = ureq::post(&format!("{url}/api/v1/write"))
            .header("content-encoding", "snappy")
            .header("x-prometheus-remote-write-version", "0.1.0")
            .content_type("application/x-protobuf");
        request.send(&snappy(&write.0)[..]).unwrap();
    }
    // The hosts of which an expression holds some minutes before the end.
    let holds = |what: &str, expression: &str, before: u64| {
        let encoded: String = expression.bytes().map(|b| format!("%{b:02X}")).collect();
        let time = end_ms / 1_000 - (before * 60).cast_signed();
        let answer = crate::made_up::get(&format!("{url}/api/v1/query?time={time}&query={encoded}"));
        let answer: Value = serde_json::from_str(&answer).expect("an answer");
        let found = answer["data"]["result"].as_array().unwrap_or_else(|| panic!("{what}: {answer}"));
        let hosts = found.iter().filter_map(|one| one["metric"]["instance"].as_str().map(str::to_owned));
        hosts.collect::<Vec<_>>()
    };
    for (name, expression, changed) in marks(".*") {
        assert_eq!(holds(&name, &expression, MINUTES - CHANGE - MARKED), [changed], "{name}");
    }
    for (rule, expression) in expressions() {
        let mut fires = holds(&rule, &expression, 0);
        let mut must: Vec<&str> =
            hosts.iter().filter(|host| host.fires && host.rule == rule).map(|host| host.name).collect();
        fires.sort_unstable();
        must.sort_unstable();
        assert_eq!(fires, must, "{rule}");
    }
}
