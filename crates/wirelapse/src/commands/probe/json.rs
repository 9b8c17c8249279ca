//! The lines of `--json`: one table of fields for each kind of line. `docs/probe.md` has the same
//! tables, which a test compares.

use std::fmt::Write as _;

use ping::{Exchange, Outcome, Probe};
use record::{Disorder, Instant, Nanos, Realtime};
use report::page::probe::{Figures, SHARES};
use serde_json::{Map, Value, json};
use stats::Quantile;

use super::request::Request;

/// One key of a line.
struct Field<T> {
    key: &'static str,
    meaning: &'static str,
    /// The value; `None` where the line has no such key.
    get: fn(&Request, &T) -> Option<Value>,
}

macro_rules! fields {
    ($($key:literal, $meaning:literal: $get:expr;)*) => {
        &[$(Field { key: $key, meaning: $meaning, get: $get }),*]
    };
}

/// The times of an exchange: of each probe, and of its `request`.
const EXCHANGE: &[Field<Exchange>] = fields! {
    "sent_at_ns", "right before the call that sends, `CLOCK_REALTIME`": |_, e| always(e.send.map(Instant::as_nanos));
    "sched_ns", "from that call to the packet scheduler": |_, e| since(e, e.sched);
    "driver_ns", "from that call to the driver": |_, e| since(e, e.driver);
    "ack_ns", "from that call to TCP's ACK of the last byte": |_, e| since(e, e.ack);
    "driver_rx_ns", "from that call until the answer enters the stack": |_, e| since(e, e.driver_rx);
    "read_ns", "from that call until the program has the answer": |_, e| since(e, e.read);
    "nic_clock_ns", "on the wire, by the NIC's clock": |_, e| always(e.nic.map(Instant::as_nanos));
    "nic_rx_clock_ns", "back at the NIC, by its clock": |_, e| always(e.nic_rx.map(Instant::as_nanos));
    "total_ns", "from the call that sends to the return of the call that receives": |_, e| time(e.total());
    "kernel_out_ns", "on this host, to the driver": |_, e| time(e.kernel_out());
    "network_ns", "beyond this host where the peer's kernel answers; of a tcp request from the driver to the ACK, where that came before the answer; null where network and program cannot be separated": |_, e| time(e.network());
    "peer_ns", "of a tcp request: from the ACK to the answer; the program at the peer takes at least this long": |_, e| time(e.peer());
    "network_and_peer_ns", "beyond this host, network and peer together": |_, e| time(e.network_and_peer());
    "kernel_in_ns", "on this host, from the stack to the program": |_, e| time(e.kernel_in());
};

/// A probe, beside the times of its exchange.
const PROBE: &[Field<Probe>] = fields! {
    "kind", "`probe`": |_, _| always("probe");
    "protocol", "`tcp`, `udp` or `icmp`": |r, _| always(r.protocol.name());
    "to", "the address": |r, _| always(r.to.ip());
    "number", "from 1 on": |_, p| always(p.number);
    "outcome", "`answer`, `refused`, `closed` (connected, and closed without an answer), `icmp_error`, `no_answer`, `not_sent`, `interrupted`": |_, p| always(p.outcome.name());
    "icmp", "of `icmp_error`: which": |_, p| match &p.outcome {
        Outcome::Icmp { name, .. } => always(name),
        _ => None,
    };
    "error", "of `not_sent`: why": |_, p| match &p.outcome {
        Outcome::NotSent { errno } => always(std::io::Error::from_raw_os_error(*errno).to_string()),
        _ => None,
    };
    "from", "who answered": |_, p| always(p.from);
    "bytes", "payload bytes of the answer": |_, p| always(p.bytes);
    "ttl", "its TTL or hop limit": |_, p| always(p.ttl);
    "stray", "answers that belong to no probe in flight": |_, p| always(p.stray);
    "clock_set", "whether the system's clock was set meanwhile: then no time counts": |_, p| always(p.clock_set);
    "in_order", "whether the stages came in a possible order: otherwise no time counts": |_, p| always(p.is_sound() || p.clock_set);
    "request", "tcp, where a request was sent: the times of it": |r, p| {
        let request = p.request.as_ref().filter(|_| !p.clock_set)?;
        always(object(EXCHANGE, r, request))
    };
};

/// The summary.
const SUMMARY: &[Field<Figures>] = fields! {
    "kind", "`summary`": |_, _| always("summary");
    "protocol", "`tcp`, `udp` or `icmp`": |r, _| always(r.protocol.name());
    "target", "as it was given": |r, _| always(&r.target);
    "to", "its address": |r, _| always(r.to.ip());
    "method", "how probes are made": |_, f| always(f.method);
    "limits", "what this machine cannot time, and why": |_, f| always(&f.limits);
    "sent", "probes that left this host": |_, f| always(f.sent);
    "outcomes", "each outcome with its count": |_, f| {
        always(f.outcomes.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect::<Map<_, _>>())
    };
    "stray", "answers that belong to no probe in flight": |_, f| always(f.stray);
    "clock_set", "probes without times, since the system's clock was set meanwhile": |_, f| always(f.clock_set);
    "disorder", "probes without times, since their stages are in an impossible order": |_, f| always(f.disorder);
    "shares", "each share that some probe has, with its figures": |_, f| always(shares(f));
};

fn always(value: impl serde::Serialize) -> Option<Value> {
    Some(json!(value))
}

fn time(time: Result<Option<Nanos>, Disorder>) -> Option<Value> {
    always(time.ok().flatten())
}

/// From the call that sends.
fn since(exchange: &Exchange, at: Option<Instant<Realtime>>) -> Option<Value> {
    time(Ok(at.and_then(|at| at.since(exchange.send?).ok())))
}

fn object<T>(fields: &[Field<T>], request: &Request, of: &T) -> Map<String, Value> {
    fields.iter().filter_map(|field| Some((field.key.to_owned(), (field.get)(request, of)?))).collect()
}

/// `n`, the least, percentiles and the greatest of each share. A percentile that so few probes
/// cannot give is null.
fn shares(figures: &Figures) -> Map<String, Value> {
    let quantiles = |d: &stats::Distribution| {
        let mut map = Map::new();
        map.insert("n".into(), json!(d.n()));
        map.insert("min_ns".into(), json!(d.min()));
        for quantile in Quantile::SHOWN {
            map.insert(format!("{}_ns", quantile.to_string().replace('.', "_")), json!(d.quantile(quantile)));
        }
        map.insert("max_ns".into(), json!(d.max()));
        Value::Object(map)
    };
    figures.shares().map(|(share, d)| (share.key.to_owned(), quantiles(d))).collect()
}

/// Every key with its meaning, for `--help`.
pub fn keys() -> String {
    fn list<T>(text: &mut String, of: &str, fields: &[Field<T>]) {
        let _ = writeln!(text, "\nKeys of --json, {of}:");
        for field in fields {
            let _ = writeln!(text, "  {}: {}", field.key, field.meaning);
        }
    }
    let mut text = String::new();
    list(&mut text, "a probe", PROBE);
    list(&mut text, "the times of a probe and of its `request`", EXCHANGE);
    list(&mut text, "the summary", SUMMARY);
    text.push_str("\nThe summary's shares:\n");
    for share in &SHARES {
        let _ = writeln!(text, "  {}: {}", share.key, share.meaning);
    }
    text.trim_start().to_owned()
}

/// The line of one probe.
pub fn probe(request: &Request, probe: &Probe) -> Value {
    let nothing = Exchange::default();
    let mut line = object(PROBE, request, probe);
    line.extend(object(EXCHANGE, request, if probe.clock_set { &nothing } else { &probe.exchange }));
    Value::Object(line)
}

/// The last line.
pub fn summary(request: &Request, figures: &Figures) -> Value {
    Value::Object(object(SUMMARY, request, figures))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows<T>(fields: &[Field<T>]) -> Vec<String> {
        fields.iter().map(|f| format!("| `{}` | {} |", f.key, f.meaning)).collect()
    }

    #[test]
    fn the_documentation_has_these_tables_and_no_other_rows() {
        let page = include_str!("../../../../../docs/probe.md");
        let shares = SHARES.iter().map(|s| format!("| `{}` | {} |", s.key, s.meaning));
        let expected: Vec<String> =
            [rows(EXCHANGE), rows(PROBE), rows(SUMMARY), shares.collect()].into_iter().flatten().collect();
        for row in &expected {
            assert!(page.contains(row.as_str()), "docs/probe.md lacks the row\n{row}");
        }
        let found = page.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(found, expected.len(), "docs/probe.md has rows that no field stands for");
    }
}
