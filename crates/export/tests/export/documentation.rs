//! The documentation has every key of every record, and none that is not written.
//!
//! `WIRELAPSE_WRITE_DOCS=1` puts the tables of `docs/records.md` in place; without it they are
//! compared.

use std::collections::BTreeSet;

use export::ndjson::Ndjson;
use record::table::{Kind, Record};
use record::{Coverage, Event, Instant, Lost};
use serde_json::Value;
use summary::{Limits, TraceSummary};

fn page(name: &str) -> String {
    std::fs::read_to_string(format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The unit of a field, which is the end of its name.
fn unit(name: &str, kind: Kind) -> &'static str {
    let ends = |end: &str| name == end || name.ends_with(&format!("_{end}"));
    match () {
        () if kind == Kind::Moment || ends("at_ns") || ["since_ns", "start_ns", "started_ns"].contains(&name) => {
            "moment"
        }
        () if ends("ns") => "ns",
        () if ends("bytes_per_second") => "bytes/s",
        () if ends("bits_per_second") => "bits/s",
        () if ends("bytes") => "bytes",
        () if ends("segments") => "segments",
        () => "",
    }
}

fn table<R: Record>() -> String {
    let mut text = "| field | unit | meaning | null | source |\n|---|---|---|---|---|\n".to_owned();
    for column in R::COLUMNS {
        let words: Vec<String> = column.words.iter().map(|word| format!("`{word}`")).collect();
        let words = if words.is_empty() { String::new() } else { format!(": {}", words.join(", ")) };
        let source = if column.source.is_empty() { String::new() } else { format!("`{}`", column.source) };
        text += &format!(
            "| `{}` | {} | {}{words} | {} | {source} |\n",
            column.name,
            unit(column.name, column.kind),
            column.doc,
            column.null.unwrap_or_default(),
        );
    }
    text
}

fn tables() -> Vec<(&'static str, String)> {
    fn of<R: Record>() -> (&'static str, String) {
        (R::TABLE, table::<R>())
    }
    vec![
        of::<record::Provenance>(),
        of::<study::ledger::Provenance>(),
        of::<store::capture::Provenance>(),
        of::<store::HistogramRow>(),
        of::<store::RunRow>(),
        of::<store::workload::Provenance>(),
        of::<record::Connection>(),
        of::<record::Connect>(),
        of::<record::Send>(),
        of::<record::Receive>(),
        of::<record::Request>(),
        of::<record::Packet>(),
        of::<record::Datagram>(),
        of::<record::Question>(),
        of::<record::PacketCopy>(),
        of::<record::ClosedConnection>(),
        of::<Coverage>(),
        of::<record::Reading>(),
        of::<Lost>(),
        of::<record::trial::Trial>(),
        of::<record::trial::Factor>(),
        of::<record::trial::Point>(),
        of::<record::trial::Ping>(),
        of::<record::trial::Comparison>(),
        of::<traffic::kept::Interval>(),
        of::<traffic::kept::Flow>(),
        of::<traffic::kept::Probe>(),
        of::<traffic::rr::Interval>(),
        of::<traffic::kept::Bucket>(),
        of::<traffic::rr::Slow>(),
        of::<traffic::udp::Interval>(),
        of::<traffic::responsiveness::Probe>(),
        of::<traffic::responsiveness::Interval>(),
        of::<store::workload::Figure>(),
        of::<record::remedy::RemedyRow>(),
        of::<record::conversation::ConversationRow>(),
        of::<record::conversation::FindingRow>(),
        of::<record::dns::Lookup>(),
        of::<record::dns::Server>(),
        of::<record::dns::DnsFinding>(),
        of::<record::tls::Handshake>(),
        of::<record::tls::TlsFinding>(),
        of::<record::quic::QuicConnection>(),
        of::<record::quic::QuicFinding>(),
        of::<record::udp::UdpConversation>(),
        of::<record::udp::UdpStream>(),
        of::<record::udp::UdpFinding>(),
        of::<record::network::IcmpError>(),
        of::<record::network::Echo>(),
        of::<record::network::Neighbour>(),
        of::<record::network::Incomplete>(),
        of::<record::network::NetworkFinding>(),
        of::<record::transaction::Transaction>(),
        of::<capture::delay::records::Delay>(),
        of::<capture::delay::Change>(),
        of::<capture::delay::Bin>(),
        of::<capture::delay::Stretch>(),
    ]
}

#[test]
fn the_field_tables_are_those_of_the_code() {
    let current = page("records.md");
    let mut wanted = current.clone();
    for (name, table) in tables() {
        let begin = format!("<!-- fields of {name} -->\n");
        let from =
            wanted.find(&begin).unwrap_or_else(|| panic!("docs/records.md has no fields of {name}")) + begin.len();
        let to = from + wanted[from..].find("<!-- end -->").unwrap();
        wanted.replace_range(from..to, &table);
    }
    assert_eq!(wanted.matches("<!-- fields of ").count(), tables().len(), "a table that no record has");
    if std::env::var_os("WIRELAPSE_WRITE_DOCS").is_some() {
        std::fs::write(format!("{}/../../docs/records.md", env!("CARGO_MANIFEST_DIR")), wanted).unwrap();
    } else {
        assert!(current == wanted, "docs/records.md is not of the code: WIRELAPSE_WRITE_DOCS=1 writes it");
    }
}

/// The paths to all values of an object, apart by dots.
fn paths(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) if !object.is_empty() => {
            for (key, value) in object {
                paths(value, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, into);
            }
        }
        _ => drop(into.insert(path.to_owned())),
    }
}

fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<_>, Vec<_>) = (pattern.split('.').collect(), path.split('.').collect());
    pattern.len() == path.len() && pattern.iter().zip(&path).all(|(a, b)| *a == "*" || a == b)
}

/// Every path is documented in this section, and everything documented is there.
fn agree(page: &str, section: &str, found: &BTreeSet<String>) {
    let text = page.split(section).nth(1).unwrap_or_else(|| panic!("no section {section}"));
    let text = text.split("\n#").next().unwrap();
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let documented: Vec<&str> =
        cells.flat_map(|cell| cell.split('`').step_by(2).filter(|name| !name.is_empty())).collect();
    for path in found {
        assert!(documented.iter().any(|d| matches(d, path)), "{section}: {path} is not documented");
    }
    for path in documented {
        // A group has its own line where it can be null.
        let group = format!("{path}.");
        assert!(found.iter().any(|f| matches(path, f) || f.starts_with(&group)), "{section}: {path} is not written");
    }
}

fn of_the_clock(key: &str) -> bool {
    key == "clock" || key.starts_with("realtime_offset") || key == "stepped_ns"
}

fn full_provenance() -> record::Provenance {
    record::Provenance {
        calls: Some(record::Observing::default()),
        connects: Some(record::Observing::default()),
        receiving: Some(record::Receiving::default()),
        http: Some(record::Observing::default()),
        packets: Some(record::Observing::default()),
        fired: Some(record::Fired::default()),
        dns: Some(record::Observing::default()),
        ..synthetic::provenance()
    }
}

fn events() -> Vec<Event> {
    // Enough for a drop in each direction.
    synthetic::trace(1, 1)
        .into_iter()
        .chain(synthetic::others(200, 0))
        .chain([record::Question::blank().into(), <record::PacketCopy as Record>::blank().into()])
        .collect()
}

#[test]
fn every_key_of_a_line_is_documented() {
    let mut summary = TraceSummary::new(Limits::default(), Instant::from_nanos(0));
    let mut lines = Ndjson::begin(Vec::new(), &full_provenance()).unwrap();
    for event in events() {
        let received = match &event {
            Event::Packet(packet) if packet.dropped.is_some() => Some(Event::Packet(Box::new(record::Packet {
                direction: record::Direction::Received,
                ..(**packet).clone()
            }))),
            _ => None,
        };
        for event in [Some(event), received].into_iter().flatten() {
            summary.add(&event);
            lines.event(&event).unwrap();
        }
    }
    let bytes = lines.finish(&summary.figures(), &Lost::default(), &Coverage::default()).unwrap();
    let (json, records) = (page("json.md"), page("records.md"));
    let tables = [
        ("connection", "connections"),
        ("connect", "connects"),
        ("send", "sends"),
        ("receive", "receives"),
        ("request", "requests"),
        ("packet", "packets"),
        ("datagram", "datagrams"),
        ("dns", "dns"),
        ("copy", "copies"),
        ("closed", "totals"),
        ("lost", "lost"),
    ];
    let mut kinds = BTreeSet::new();
    for line in String::from_utf8(bytes).unwrap().lines() {
        let mut value: Value = serde_json::from_str(line).expect(line);
        let object = value.as_object_mut().unwrap();
        let kind = object.remove("kind").unwrap().as_str().unwrap().to_owned();
        if !kinds.insert(kind.clone()) {
            continue;
        }
        if ["send", "receive", "request"].contains(&kind.as_str()) {
            for end in ["local_address", "local_port", "remote_address", "remote_port"] {
                assert!(object.remove(end).is_some(), "{kind}: {end}");
                assert!(json.contains(&format!("`{end}`")), "{end}");
            }
        }
        let mut found = BTreeSet::new();
        paths(&value, "", &mut found);
        match tables.iter().find(|t| t.0 == kind) {
            Some((_, table)) => agree(&records, &format!("\n## `{table}`"), &found),
            None if kind == "run" => {
                // The fields of the clock stand in the line itself.
                let clock: BTreeSet<String> = found.iter().filter(|key| of_the_clock(key)).cloned().collect();
                agree(&json, "\n## `run`", &clock);
                found.retain(|key| !of_the_clock(key));
                found.extend(clock.iter().filter(|key| *key != "clock").map(|key| format!("clock.{key}")));
                agree(&records, "\n## Run of a trace", &found);
            }
            None => agree(&json, &format!("\n## `{kind}`"), &found),
        }
    }
    assert_eq!(kinds.len(), tables.len() + 2, "{kinds:?}");
}

#[test]
fn every_key_of_a_runs_file_is_documented() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let mut writer = store::Writer::create(&run, full_provenance()).unwrap();
    events().iter().for_each(|event| writer.event(event).unwrap());
    writer.finish(Instant::from_nanos(1), Lost::default(), Coverage::default()).unwrap();
    let file: Value = serde_json::from_slice(&std::fs::read(run.join("run.json")).unwrap()).unwrap();
    let mut found = BTreeSet::new();
    paths(&file, "", &mut found);
    let (run, beside) = found.into_iter().partition(|key| record::Provenance::COLUMNS.iter().any(|c| c.name == key));
    agree(&page("runs.md"), "\n### `run.json` of a trace", &beside);
    agree(&page("records.md"), "\n## Run of a trace", &run);
    let keys = |of: &str| -> BTreeSet<String> { file[of].as_object().unwrap().keys().cloned().collect() };
    agree(&page("records.md"), "\n## `lost`", &keys("lost"));
    agree(&page("records.md"), "\n## `coverage`", &keys("coverage"));
}
