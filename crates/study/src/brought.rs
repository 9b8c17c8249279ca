//! Names and values that people bring from other tools, and what they are called here.

use quantity::parse;

/// A name of another tool and what says the same in a plan.
const KNOWN: [(&str, &str); 65] = [
    // iperf3, by its options and by the keys of its JSON.
    ("parallel", "`flows`"),
    ("num_streams", "`flows`"),
    ("streams", "`flows`"),
    ("connections", "`flows`, which stream and ping-under-load have"),
    ("len", "`write` for a stream, `datagram` for datagrams"),
    ("length", "`write` for a stream, `datagram` for datagrams"),
    ("blksize", "`write` for a stream, `datagram` for datagrams"),
    ("block_size", "`write` for a stream, `datagram` for datagrams"),
    ("window", "`send_buffer` and `receive_buffer`"),
    ("sndbuf", "`send_buffer`"),
    ("rcvbuf", "`receive_buffer`"),
    ("so_sndbuf", "`send_buffer`"),
    ("so_rcvbuf", "`receive_buffer`"),
    ("bitrate", "`rate` for the path, `datagram_rate` for the sender of datagrams"),
    ("bandwidth", "`rate` for the path, `datagram_rate` for the sender of datagrams"),
    ("set_mss", "`mss`"),
    ("mtu_size", "`mtu`"),
    ("tos", "`dscp`, the upper six bits of it"),
    ("traffic_class", "`dscp`, the upper six bits of it"),
    ("congestion_control", "`congestion`"),
    ("cc", "`congestion`"),
    ("tcp_congestion", "`congestion`"),
    ("nodelay", "`socket = [\"default\", \"nodelay\"]`"),
    ("no_delay", "`socket = [\"default\", \"nodelay\"]`"),
    ("tcp_nodelay", "`socket = [\"default\", \"nodelay\"]`"),
    ("nagle", "`socket = [\"default\", \"nodelay\"]`"),
    ("cork", "`socket = [\"default\", \"cork\"]`"),
    ("tcp_cork", "`socket = [\"default\", \"cork\"]`"),
    ("quickack", "`socket = [\"default\", \"quickack\"]`"),
    ("tcp_quickack", "`socket = [\"default\", \"quickack\"]`"),
    ("udp", "`workload = \"udp\"`"),
    ("reverse", "`direction = \"down\"`"),
    ("bidir", "`direction = \"both\"`"),
    ("bidirectional", "`direction = \"both\"`"),
    ("version4", "`family = \"ipv4\"`"),
    ("version6", "`family = \"ipv6\"`"),
    ("ipv6", "`family = \"ipv6\"`"),
    ("ip_version", "`family = \"ipv4\"` or `family = \"ipv6\"`"),
    // netem and tbf.
    ("latency", "`delay`, which is one way"),
    ("rtt", "`delay`, which is one way: half of the round trip for both directions"),
    ("round_trip", "`delay`, which is one way: half of the round trip for both directions"),
    ("distribution", "`jitter_shape`"),
    ("correlation", "`jitter_memory`"),
    ("limit", "`queue`, in bytes or in time"),
    ("buffer", "`queue`, in bytes or in time"),
    ("gemodel", "`burst_loss`"),
    ("loss_burst", "`burst_loss`"),
    ("packet_loss", "`loss`"),
    ("dup", "`duplicate`"),
    ("aqm", "`qdisc`"),
    ("gso", "`offloads`"),
    ("tso", "`offloads`"),
    // netperf, flent, wrk.
    ("request_size", "`request`"),
    ("response_size", "`response`"),
    ("clients", "`flows`, which stream and ping-under-load have"),
    ("threads", "`flows`, which stream and ping-under-load have"),
    ("test", "`workload`"),
    ("protocol", "`workload`"),
    ("tool", "`workload`"),
    // What stands above [fixed].
    ("iterations", "`repetitions`, above [fixed]"),
    ("objective", "`measure`, above [fixed]"),
    ("time", "`duration`, above [fixed]"),
    ("omit", "`warm_up`, above [fixed]"),
    ("runs", "`repetitions`, above [fixed]"),
    ("metric", "`measure`, above [fixed]"),
];

/// A name of another tool for what no setting of a plan is, and what to do.
const ELSEWHERE: [(&str, &str); 6] = [
    ("burst", "a path's rate has no burst: leave it out, and set `queue`"),
    ("netem", "each of its words is a setting: `delay`, `jitter`, `loss`, `duplicate`, `reorder`, `rate`"),
    ("tbf", "its rate is `rate`, and its limit or latency `queue`"),
    ("server", "a lab has both hosts; `wirelapse study PLAN.toml --host HOST` measures between real ones"),
    ("host", "a lab has both hosts; `wirelapse study PLAN.toml --host HOST` measures between real ones"),
    ("json", "that is an option of the command: `wirelapse study PLAN.toml --json`"),
];

/// What says in a plan what `name` says elsewhere.
pub fn answer(name: &str) -> Option<String> {
    let plain = name.trim_start_matches('-').to_ascii_lowercase().replace('-', "_");
    if let Some((_, here)) = KNOWN.iter().find(|(known, _)| *known == plain) {
        return Some(format!("here it is {here}"));
    }
    if let Some((_, instead)) = ELSEWHERE.iter().find(|(known, _)| *known == plain) {
        return Some((*instead).to_owned());
    }
    // As it is given to sysctl(8).
    if let Some(sysctl) = plain.strip_prefix("sysctl").map(|rest| rest.trim_start().trim_start_matches("_w "))
        && sysctl.starts_with("net.")
    {
        return Some(format!("the sysctl is \"{sysctl}\", within quotation marks"));
    }
    // A sysctl without the way to it.
    ["net.ipv4", "net.core", "net.ipv6"].into_iter().find_map(|group| {
        let file = std::path::Path::new("/proc/sys").join(group.replace('.', "/")).join(&plain);
        let is_name = !plain.is_empty() && !plain.contains('/');
        (is_name && file.is_file()).then(|| format!("the sysctl is \"{group}.{plain}\", within quotation marks"))
    })
}

/// Workloads by the names of other tools' tests.
const WORKLOADS: [(&str, &str); 14] = [
    ("tcp", "stream"),
    ("bulk", "stream"),
    ("iperf", "stream"),
    ("iperf3", "stream"),
    ("tcp_stream", "stream"),
    ("tcp_rr", "rr"),
    ("sockperf", "rr"),
    ("qperf", "rr"),
    ("tcp_crr", "crr"),
    ("http", "crr"),
    ("udp_stream", "udp"),
    ("rrul", "ping-under-load"),
    ("bufferbloat", "ping-under-load"),
    ("ping", "ping-under-load"),
];

/// What is measured, by the names that it has elsewhere.
const MEASURES: [(&str, &str); 15] = [
    ("throughput", "goodput"),
    ("bandwidth", "goodput"),
    ("bitrate", "goodput"),
    ("rate", "goodput"),
    ("latency", "latency_p50"),
    ("p50", "latency_p50"),
    ("p99", "latency_p99"),
    ("rtt", "round_trip"),
    ("retransmits", "retransmitted"),
    ("retransmissions", "retransmitted"),
    ("loss", "datagrams_lost"),
    ("rps", "transactions"),
    ("tps", "transactions"),
    ("requests", "transactions"),
    ("cpu", "cpu_per_gigabyte"),
];

/// What is measured here under a name of another tool.
pub fn measure(name: &str) -> Option<&'static str> {
    found(&MEASURES, name)
}

fn found(list: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    let plain = name.trim().to_ascii_lowercase().replace('-', "_");
    list.iter().find(|(known, _)| *known == plain).map(|(_, here)| *here)
}

/// What to write in place of a value as another tool takes it, for a setting that refuses it.
pub fn value(setting: &str, text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match setting {
        "workload" => {
            let here = words.iter().rev().find_map(|word| found(&WORKLOADS, word))?;
            Some(format!("workload {text:?}: here that is `workload = \"{here}\"`"))
        }
        "delay" => delay_of_netem(&words),
        "loss" => loss_of_netem(&words),
        "qdisc" if ["pfifo", "bfifo", "pfifo_fast", "droptail", "none"].contains(&text) => {
            Some(format!("qdisc {text:?}: here that is `qdisc = \"fifo\"`, with `queue` for its limit"))
        }
        "ecn" if matches!(text, "on" | "off" | "0" | "1") => Some(
            "ecn is how full the queue of the path is when it begins to mark, such as `ecn = \"20ms\"`, or \"none\"; hosts ask for it with \
             `\"net.ipv4.tcp_ecn\" = 1`"
                .into(),
        ),
        _ => None,
    }
}

/// `delay TIME [ JITTER [ CORRELATION ] ] [ distribution NAME ]` (tc-netem(8)).
fn delay_of_netem(words: &[&str]) -> Option<String> {
    let [delay, jitter, rest @ ..] = words else { return None };
    let is_time = |text: &str| parse::duration(text).is_ok();
    if !is_time(delay) || !is_time(jitter) {
        return None;
    }
    let mut lines = vec![format!("`delay = \"{delay}\"`"), format!("`jitter = \"{jitter}\"`")];
    if let Some(memory) = rest.first().filter(|word| parse::share(word).is_ok()) {
        lines.push(format!("`jitter_memory = \"{memory}\"`"));
    }
    if let Some(["distribution", shape]) = rest.windows(2).find(|pair| pair[0] == "distribution") {
        let shape = if *shape == "paretonormal" { "pareto" } else { shape };
        lines.push(format!("`jitter_shape = \"{shape}\"`"));
    }
    Some(format!("each has a setting here: {}", lines.join(", ")))
}

/// `loss random SHARE [ CORRELATION ]` and `loss gemodel P [ R [ 1-H [ 1-K ] ] ]`, whose shares are
/// those of `burst_loss`.
fn loss_of_netem(words: &[&str]) -> Option<String> {
    let is_share = |text: &str| parse::share(text).is_ok();
    match words {
        ["random", loss] if is_share(loss) => Some(format!("here that is `loss = \"{loss}\"`")),
        ["gemodel", begins, rest @ ..] if [*begins].iter().chain(rest).all(|text| is_share(text)) => {
            let certain = quantity::percent_exact(1.0 - parse::share(begins).ok()?).replace(' ', "");
            let of = |place: usize, usual: &str| rest.get(place).map_or_else(|| usual.to_owned(), ToString::to_string);
            let [ends, in_bad, in_good] = [of(0, &certain), of(1, "100%"), of(2, "0%")];
            Some(format!("here that is `burst_loss = \"{begins},{ends},{in_bad},{in_good}\"`"))
        }
        ["random", loss, _] | [loss, _] if is_share(loss) => Some(format!(
            "losses that come together are `burst_loss = \"{loss}x4\"`: which share is lost, and how many in a row"
        )),
        _ => None,
    }
}

/// A sysctl with dots, where it is written with slashes as in `/proc/sys`.
pub fn dotted(name: &str) -> Option<String> {
    let path = name.trim_start_matches("/proc/sys/");
    (path.starts_with("net/") || ["a.net/", "b.net/"].iter().any(|start| path.starts_with(start)))
        .then(|| path.replace('/', "."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named::Setting;
    use crate::setting::Setup;

    #[test]
    fn every_answer_names_a_setting_that_there_is() {
        let above = ["duration", "warm_up", "repetitions", "measure", "workload"];
        for (known, here) in KNOWN {
            assert!(!Setting::names().any(|setting| setting == known), "{known}");
            let said = here.split('`').nth(1).unwrap();
            let (name, value) = said.split_once(" = ").unwrap_or((said, ""));
            assert!(Setting::names().any(|setting| setting == name) || above.contains(&name), "{known}: {name}");
            for value in value.trim_matches(['[', ']']).split(", ").filter(|value| !value.is_empty()) {
                assert_eq!(
                    Setup::default().set(&name.parse().unwrap(), value.trim_matches('"')),
                    Ok(()),
                    "{known}: {said}"
                );
            }
        }
        assert_eq!(answer("--parallel"), Some("here it is `flows`".into()));
        for (_, workload) in WORKLOADS {
            assert_eq!(Setup::default().set(&"workload".parse().unwrap(), workload), Ok(()));
        }
        for (_, measure) in MEASURES {
            assert!(record::trial::Response::from_name(measure).is_some(), "{measure}");
        }
        assert_eq!(
            answer("tcp_timestamps").unwrap(),
            "the sysctl is \"net.ipv4.tcp_timestamps\", within quotation marks"
        );
        assert_eq!(answer("somaxconn").unwrap(), "the sysctl is \"net.core.somaxconn\", within quotation marks");
        assert_eq!((answer("zzzz"), answer("")), (None, None));
        assert_eq!(dotted("net/ipv4/tcp_sack").as_deref(), Some("net.ipv4.tcp_sack"));
        assert_eq!(
            (dotted("/proc/sys/net/core/somaxconn").as_deref(), dotted("delay")),
            (Some("net.core.somaxconn"), None)
        );
    }
}
