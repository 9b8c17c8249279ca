//! `wirelapse doctor`.

use std::io::Write as _;
use std::num::NonZeroU32;

use ::trace::capabilities::{self as bpf, BPF_TIMESTAMPING, TRACEPOINTS_BACKEND};
use ::trace::{Config, Memory};
use anyhow::Context as _;
use machine::{BTF, Capability, Group, Setting, State};
use record::{Ratio, Sampling};
use report::page::doctor;

use crate::options::Json;
use crate::{memory, terminal};

/// Check what works on this machine, and what to do about the rest
///
/// Each capability is tried, not guessed from the kernel version. The exit status is 1 if no user
/// can trace on this machine; what only needs root does not count as missing. Objects of --json:
/// `capability`, `setting` and `trace`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    json: Json,
}

/// No trace is possible where all of one of these are missing.
const NEEDED: [&[&str]; 2] = [&[BTF], &[BPF_TIMESTAMPING, TRACEPOINTS_BACKEND]];

/// What the tracer finds by loading programs.
fn bpf_capabilities() -> impl Iterator<Item = Capability> {
    bpf::all().into_iter().map(|found| {
        let state = match found.state {
            bpf::State::Available => State::Available(String::new()),
            bpf::State::Missing { reason } => State::Missing(reason),
            bpf::State::NeedsRoot => State::NeedsRoot,
        };
        Capability::new(Group::Bpf, found.name, state, found.purpose, found.instead)
    })
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut capabilities = machine::capabilities();
    capabilities.extend(bpf_capabilities());
    let settings = machine::settings();
    capabilities.sort_by_key(|capability| capability.group);
    let (every, sampled) = (limit(Sampling::Every)?, limit(hundredth())?);
    let mut out = crate::output::stdout().lock();
    if args.json.json {
        for capability in &capabilities {
            writeln!(out, "{}", capability_json(capability))?;
        }
        for setting in &settings {
            writeln!(out, "{}", setting_json(setting))?;
        }
        let (backend, why) = backend(&capabilities);
        let trace = serde_json::json!({
            "kind": "trace",
            "backend": backend,
            "why": why,
            "connections": every.0,
            "kernel_memory_bytes": every.1.at_once,
            "kernel_memory_most_bytes": every.1.most(),
            "connections_sampled": sampled.0,
            "kernel_memory_sampled_bytes": sampled.1.at_once,
            "kernel_memory_sampled_most_bytes": sampled.1.most(),
        });
        writeln!(out, "{trace}")?;
    } else {
        let trace = match backend(&capabilities) {
            (Some(backend), why) => format!(
                "wirelapse trace would use the {backend} backend: {why}. It would follow up to {} in {} of kernel memory, {} of it from the \
                 start; or {} in {}, {} of it from the start, with --sample 1/100. That goes by the memory that is left: --max-connections sets \
                 another limit.",
                quantity::counted(every.0.into(), "connection"),
                quantity::bytes(every.1.most()),
                quantity::bytes(every.1.at_once),
                quantity::count(sampled.0.into()),
                quantity::bytes(sampled.1.most()),
                quantity::bytes(sampled.1.at_once),
            ),
            (None, why) => format!("wirelapse trace: no backend: {why}."),
        };
        let (root, capabilities, settings) = (machine::is_root(), &capabilities[..], &settings[..]);
        let found = doctor::Found { capabilities, settings, root };
        let document = doctor::document(&found, trace);
        out.write_all(paper::terminal::text(&terminal::canvas(), &[document]).as_bytes())?;
    }
    out.flush()?;
    missing_need(&capabilities).map_or(Ok(()), Err).context("no trace is possible on this machine")
}

/// One in a hundred stretches of time.
fn hundredth() -> Sampling {
    NonZeroU32::new(100).map_or(Sampling::Every, |every| Sampling::Windows(Ratio(every)))
}

/// How many connections a trace of these sends would follow on this machine, and the kernel memory
/// that it would take.
fn limit(sampling: Sampling) -> anyhow::Result<(u32, Memory)> {
    let mut config = Config { sampling, ..Config::default() };
    config.max_connections = memory::connections(&config);
    Ok((config.max_connections, config.memory()?))
}

/// The backend that `trace` takes by default, and why that one. The order is the tracer's own.
fn backend(capabilities: &[Capability]) -> (Option<&'static str>, String) {
    let state = |name| capabilities.iter().find(|c| c.name == name).map(|c| &c.state);
    match (state(BPF_TIMESTAMPING), state(TRACEPOINTS_BACKEND)) {
        (Some(State::Available(_)), _) => {
            (Some("timestamping"), "the kernel calls back at each stage, for the traced sockets alone".into())
        }
        (Some(State::NeedsRoot), _) => (None, "only root can load its programs".into()),
        (Some(State::Missing(reason)), Some(State::Available(_))) => {
            (Some("tracepoints"), format!("BPF timestamping does not load here ({reason})"))
        }
        (Some(State::Missing(first)), Some(State::Missing(second))) => (None, format!("{first}; {second}")),
        _ => (None, "neither was tried".into()),
    }
}

fn missing_need(capabilities: &[Capability]) -> Option<anyhow::Error> {
    NEEDED.iter().find_map(|alternatives| {
        let reasons: Option<Vec<_>> = alternatives
            .iter()
            .map(|name| match &capabilities.iter().find(|c| c.name == *name)?.state {
                State::Missing(reason) => Some(format!("{name}: {reason}")),
                _ => None,
            })
            .collect();
        reasons.map(|reasons| anyhow::anyhow!(reasons.join("; ")))
    })
}

fn capability_json(capability: &Capability) -> serde_json::Value {
    let (detail, reason) = match &capability.state {
        State::Available(detail) => ((!detail.is_empty()).then_some(detail.as_str()), None),
        State::Missing(reason) => (None, Some(reason.as_str())),
        State::NeedsRoot => (None, Some("needs root")),
    };
    serde_json::json!({
        "kind": "capability",
        "group": capability.group.name(),
        "name": capability.name,
        "state": capability.state.name(),
        "detail": detail,
        "reason": reason,
        "for": capability.purpose,
        "instead": capability.instead,
    })
}

fn setting_json(setting: &Setting) -> serde_json::Value {
    serde_json::json!({ "kind": "setting", "name": setting.name, "value": setting.value, "for": setting.purpose })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn btf(state: State) -> Capability {
        Capability::new(Group::Kernel, BTF, state, "types", "nothing")
    }

    #[test]
    fn the_backend_is_named_with_the_reason_for_it() {
        let both = |stamps, points| {
            let of = |name, state| Capability::new(Group::Bpf, name, state, "x", "y");
            backend(&[of(BPF_TIMESTAMPING, stamps), of(TRACEPOINTS_BACKEND, points)])
        };
        let (yes, no) = (|| State::Available(String::new()), |why: &str| State::Missing(why.into()));
        assert_eq!(both(yes(), yes()).0, Some("timestamping"));
        let (name, why) = both(no("no kfunc"), yes());
        assert_eq!(name, Some("tracepoints"));
        assert!(why.contains("no kfunc"), "{why}");
        assert_eq!(both(no("one"), no("two")), (None, "one; two".into()));
        assert_eq!(both(State::NeedsRoot, State::NeedsRoot).0, None);
    }

    #[test]
    fn only_what_nothing_replaces_is_a_failure() {
        assert!(missing_need(&[btf(State::Available(String::new()))]).is_none());
        assert!(missing_need(&[btf(State::NeedsRoot)]).is_none());
        let error = missing_need(&[btf(State::Missing("not built in".into()))]).unwrap();
        assert_eq!(error.to_string(), "BTF: not built in");
        let other = |name, state| Capability::new(Group::Bpf, name, state, "x", "y");
        let missing = || State::Missing("no".into());
        assert!(missing_need(&[other("netem", missing())]).is_none());
        let one = [other(BPF_TIMESTAMPING, missing()), other(TRACEPOINTS_BACKEND, State::Available(String::new()))];
        assert!(missing_need(&one).is_none());
        let none = [other(BPF_TIMESTAMPING, missing()), other(TRACEPOINTS_BACKEND, missing())];
        assert_eq!(missing_need(&none).unwrap().to_string(), "bpf_timestamping: no; tracepoints_backend: no");
    }

    #[test]
    fn every_state_has_its_keys() {
        let there = capability_json(&btf(State::Available("5 MB".into())));
        assert_eq!((&there["state"], &there["detail"]), (&"available".into(), &"5 MB".into()));
        assert!(there["reason"].is_null());
        let absent = capability_json(&btf(State::Missing("not built in".into())));
        assert_eq!((&absent["state"], &absent["reason"]), (&"missing".into(), &"not built in".into()));
        let root = capability_json(&btf(State::NeedsRoot));
        assert_eq!((&root["state"], &root["reason"]), (&"needs_root".into(), &"needs root".into()));
    }
}
