//! Every target under libFuzzer, in one program: `WIRELAPSE_FUZZ` says which. `fuzz/run` builds and
//! runs it.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

/// A target by the name of its corpus. The functions are those that the tests of each crate replay
/// the corpora through.
const TARGETS: [(&str, fn(&[u8])); 25] = [
    ("attribute", timestamping::fuzzed::attribute),
    ("bpf_records", trace::fuzzed::records),
    ("capture", wire::fuzzed::capture),
    ("connections", diagnose::fuzzed::connections),
    ("control", timestamping::fuzzed::control),
    ("datagram", wire::fuzzed::datagram),
    ("dns", wire::fuzzed::dns),
    ("flent", traffic::fuzzed::flent),
    ("frame", wire::fuzzed::frame),
    ("lab_frame", lab::fuzzed::lab_frame),
    ("netlink", machine::fuzzed::netlink),
    ("plan", study::fuzzed::plan),
    ("quic", wire::fuzzed::quic),
    ("recorded", lab::fuzzed::recorded),
    ("run_study", report::fuzzed::study),
    ("run_trace", report::fuzzed::trace),
    ("setting", lab::fuzzed::setting),
    ("settings", settings::fuzzed::settings),
    ("tapped", ping::fuzzed::tapped),
    ("text", wire::fuzzed::text),
    ("tls", wire::fuzzed::tls),
    ("traffic_answer", traffic::fuzzed::answer),
    ("traffic_control", traffic::fuzzed::control),
    ("traffic_datagrams", traffic::fuzzed::datagrams),
    ("traffic_parameters", traffic::fuzzed::parameters),
];

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

/// The target that was asked for.
fn wanted() -> fn(&[u8]) {
    let name = std::env::var("WIRELAPSE_FUZZ").unwrap_or_default();
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, run)| *run).unwrap_or_else(|| {
        eprintln!("WIRELAPSE_FUZZ names no target: {name:?}");
        std::process::exit(2)
    })
}

fuzz_target!(|bytes: &[u8]| TARGET.get_or_init(wanted)(bytes));
