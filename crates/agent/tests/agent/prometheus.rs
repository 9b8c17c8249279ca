//! Debian's Prometheus scrapes an agent: every panel of the dashboard and every alert rule finds
//! data, and quantiles are where the durations are.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::made_up::{AtWork, SPAN, TRACE, durations, get, unix_ns};
use serde_json::Value;
use tier::{Need, Process, needs};

const WITH_REQUESTS: &str = "[histograms]\nrequests = \"http\"\n[prometheus]\nlisten = \"127.0.0.1:0\"\n";

fn packaging(file: &str) -> String {
    std::fs::read_to_string(format!("{}/../../packaging/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The value of a query: all series of its answer.
fn query(prometheus: &str, expression: &str) -> Vec<(Value, f64)> {
    let encoded: String = expression.bytes().map(|b| format!("%{b:02X}")).collect();
    let answer: Value =
        serde_json::from_str(&get(&format!("{prometheus}/api/v1/query?query={encoded}"))).unwrap_or_default();
    let result = answer["data"]["result"].as_array().cloned().unwrap_or_default();
    // A distribution counts as the number of its values.
    let number = |one: &Value| {
        let text = one["value"][1].as_str().or_else(|| one["histogram"][1]["count"].as_str());
        text.and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
    };
    result.iter().map(|one| (one["metric"].clone(), number(one))).collect()
}

struct Prometheus {
    url: String,
    _process: Process,
    _data: tempfile::TempDir,
}

fn prometheus(agent: &AtWork, options: &[&str]) -> Prometheus {
    let data = tempfile::tempdir().unwrap();
    let target = agent.address.unwrap();
    let config = format!(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: wirelapse\n    static_configs:\n      - targets: [\"{target}\"]\n"
    );
    std::fs::write(data.path().join("prometheus.yml"), config).unwrap();
    // Free a moment ago; another program that takes it meanwhile shows as a failure to listen.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let process = Process::start(
        tier::command("prometheus")
            .arg(format!("--config.file={}", data.path().join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", data.path().join("tsdb").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    );
    let started = Prometheus { url: format!("http://127.0.0.1:{port}"), _process: process, _data: data };
    tier::until("eight scrapes", || {
        query(&started.url, "count_over_time(wirelapse_series[5m])").first().is_some_and(|(_, n)| *n >= 8.0)
    });
    started
}

/// The exact quantile of the made-up durations, seconds.
fn exact(share: f64) -> f64 {
    let durations = durations();
    durations[(share * durations.len() as f64).ceil() as usize - 1].as_secs_f64()
}

/// An expression of the dashboard as Grafana asks it with everything chosen. What was before is
/// what is there now.
fn asked(expression: &str) -> String {
    let mut asked = expression.replace("$__rate_interval", "10s").replace("$__range", "10s");
    for variable in ["$instance", "$unit", "$pod", "$program", "$peer"] {
        asked = asked.replace(variable, ".*");
    }
    for before in ["20m", "1h", "1d", "7d"] {
        asked = asked.replace(&format!(" offset {before}"), "");
    }
    assert!(!asked.contains('$') && !asked.contains("offset"), "{asked}");
    asked
}

/// Every panel of the dashboard finds data.
fn panels_find_data(prometheus: &Prometheus) {
    let dashboard: Value = serde_json::from_str(&packaging("grafana/wirelapse.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() >= 12);
    for panel in panels {
        for target in panel["targets"].as_array().unwrap() {
            let asked = asked(target["expr"].as_str().unwrap());
            let found = query(&prometheus.url, &asked);
            let title = &panel["title"];
            assert!(
                !found.is_empty() && found.iter().any(|(_, n)| n.is_finite()),
                "{title}: nothing by {asked}: {found:?}"
            );
        }
    }
}

#[test]
fn every_panel_and_every_rule_finds_data() {
    needs!(Need::Program("prometheus"), Need::Program("promtool"));
    let agent = AtWork::start(WITH_REQUESTS, 3);
    let prometheus = prometheus(&agent, &[]);
    panels_find_data(&prometheus);
    // Classic buckets are of factor 2.
    let p99 =
        "histogram_quantile(0.99, sum by (le) (rate(wirelapse_send_duration_seconds_bucket{stage=\"total\"}[10s])))";
    let found = query(&prometheus.url, p99)[0].1;
    let ratio = found / exact(0.99);
    println!("p99 by classic buckets {found} s, exactly {} s", exact(0.99));
    assert!((0.5..=2.0).contains(&ratio), "{found} against {}", exact(0.99));
    // The cgroup of connections that were there before is not known: their requests are apart.
    let peers = query(&prometheus.url, "count(sum by (network_peer_address) (wirelapse_sends_total))")[0].1;
    assert_eq!(peers, 3.0);
    agent.finish();
    let rules = format!("{}/../../packaging/prometheus/wirelapse-alerts.yml", env!("CARGO_MANIFEST_DIR"));
    let checked = Command::new("promtool").args(["check", "rules", &rules]).output().unwrap();
    assert!(checked.status.success(), "{}", tier::text(&checked.stdout));
    // What a rule compares must be there; whether it fires is another test's. Of durations there is
    // the kind that is not asked for, and of targets nothing without a rule for them.
    let absent = |name: &&str| name.ends_with("_duration_seconds") || name.starts_with("wirelapse_target_");
    let rules = packaging("prometheus/wirelapse-alerts.yml");
    let mut names: Vec<&str> = rules
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')))
        .filter(|word| word.starts_with("wirelapse_") && !absent(word))
        .collect();
    names.sort_unstable();
    names.dedup();
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        let there = query(&prometheus.url, &format!("count(last_over_time({name}[5m]))"));
        assert!(there.first().is_some_and(|(_, n)| *n > 0.0), "no {name}");
    }
}

/// The buckets with an exemplar, by Prometheus' own storage of them, and each exemplar.
fn exemplars(prometheus: &Prometheus, metric: &str) -> Vec<(Value, Value)> {
    let end = unix_ns() / 1_000_000_000 + 3_600;
    let answer = get(&format!("{}/api/v1/query_exemplars?query={metric}&start=0&end={end}", prometheus.url));
    let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
    let series = answer["data"].as_array().cloned().unwrap_or_default();
    let of = |one: &Value| one["exemplars"].as_array().and_then(|all| all.last()).cloned().unwrap_or_default();
    series.iter().map(|one| (one["seriesLabels"].clone(), of(one))).collect()
}

#[test]
fn requests_of_a_trace_are_exemplars_in_either_form() {
    needs!(Need::Program("prometheus"));
    let agent = AtWork::start(WITH_REQUESTS, 2);
    let forms = [
        ("exemplar-storage", "wirelapse_request_duration_seconds_bucket"),
        ("exemplar-storage,native-histograms", "wirelapse_request_duration_seconds"),
    ];
    for (features, metric) in forms {
        let prometheus = prometheus(&agent, &[&format!("--enable-feature={features}")]);
        let found = exemplars(&prometheus, metric);
        assert!(!found.is_empty(), "{features}: no exemplars");
        for (series, exemplar) in found {
            let took: f64 = exemplar["value"].as_str().unwrap().parse().unwrap();
            assert_eq!(took, 0.02, "{series} {exemplar}");
            assert_eq!(exemplar["labels"], serde_json::json!({ "trace_id": TRACE, "span_id": SPAN }), "{series}");
            assert_eq!(series["http_response_status_class"], "2xx");
            if let Some(bound) = series["le"].as_str() {
                assert_eq!(bound, "0.03125");
            }
        }
    }
    agent.finish();
}

#[test]
fn a_scrape_is_below_two_megabytes_however_many_peers_there_are() {
    let agent = AtWork::start("[prometheus]\nlisten = \"127.0.0.1:0\"\n", 4_096);
    let url = format!("http://{}/metrics", agent.address.unwrap());
    let mut text = String::new();
    tier::until("figures", || {
        text = get(&url);
        text.contains("wirelapse_send_duration_seconds_bucket")
    });
    let series = text.lines().filter(|line| line.starts_with("wirelapse_sends_total{")).count();
    println!("{series} series, {} lines, {} bytes", text.lines().count(), text.len());
    assert!(text.len() < 2_000_000 && series == 81, "{} bytes, {series} series", text.len());
    // All that is not by itself is in the network.
    let sends = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
    let of = |label: &str| {
        text.lines().find(|line| line.starts_with("wirelapse_sends_total{") && line.contains(label)).map(sends)
    };
    assert!(of("\"10.0.0.0/16\"") > Some(4_000.0 * 1_000.0 / 2.0) && of("otel_metric_overflow").is_none());
    agent.finish();
}

#[test]
fn native_histograms_are_within_one_percent() {
    needs!(Need::Program("prometheus"));
    let agent = AtWork::start(WITH_REQUESTS, 2);
    let prometheus = prometheus(&agent, &["--enable-feature=native-histograms"]);
    panels_find_data(&prometheus);
    for share in [0.5, 0.9, 0.99] {
        let expression =
            format!("histogram_quantile({share}, sum(rate(wirelapse_send_duration_seconds{{stage=\"total\"}}[10s])))");
        let found = query(&prometheus.url, &expression).first().map_or(f64::NAN, |one| one.1);
        let ratio = found / exact(share);
        println!(
            "p{} by native histograms {found} s, exactly {} s: {:+.2} %",
            share * 100.0,
            exact(share),
            (ratio - 1.0) * 100.0
        );
        assert!((0.99..=1.01).contains(&ratio), "{found} against {}", exact(share));
    }
    let count = query(&prometheus.url, "histogram_count(wirelapse_send_duration_seconds{stage=\"total\"})");
    assert_eq!(count.len(), 2);
    assert!(count.iter().all(|(_, n)| *n > 0.0 && n % 1000.0 == 0.0), "{count:?}");
    agent.finish();
}
