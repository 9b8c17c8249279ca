//! `wirelapse doctor`.

use std::io::Write as _;
use std::num::NonZeroU32;
use std::process::Stdio;

use ::trace::capabilities::{self as bpf, BPF_TIMESTAMPING, TRACEPOINTS_BACKEND};
use ::trace::{Config, Memory};
use anyhow::Context as _;
use machine::{BTF, Capability, Group, NAMESPACES, NETEM, Setting, State, TUN, programs};
use record::{Ratio, Sampling};
use report::page::doctor;

use crate::options::{Json, heading};
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
    /// Show every capability and setting, not only what is missing
    #[arg(long, conflicts_with = "json", help_heading = heading::OUTPUT)]
    full: bool,
    /// Try labs alone, in a user namespace: what this command starts where the user is not root
    #[arg(long, hide = true, conflicts_with = "full")]
    lab_without_root: bool,
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

/// The option of that name.
const LAB_WITHOUT_ROOT: &str = "--lab-without-root";

/// What labs are made of, as a user who is not root has it.
fn lab_without_root() -> anyhow::Result<Vec<Capability>> {
    let mut command = programs::command(&std::env::current_exe()?);
    programs::end_with_parent(&mut command);
    let told = command.args(["doctor", LAB_WITHOUT_ROOT]).stdin(Stdio::null()).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !told.status.success() {
        let said = text(&told.stderr);
        let why = said.strip_prefix("wirelapse: ").unwrap_or(&said);
        anyhow::bail!("{}", why.lines().next().unwrap_or("they cannot be tried"));
    }
    text(&told.stdout).lines().map(|line| of_json(&serde_json::from_str(line)?).context("no capability")).collect()
}

/// What [`capability_json`] wrote.
fn of_json(value: &serde_json::Value) -> Option<Capability> {
    let text = |key: &str| value[key].as_str();
    let state = match text("state")? {
        "available" => State::Available(text("detail").unwrap_or_default().to_owned()),
        "missing" => State::Missing(text("reason")?.to_owned()),
        _ => State::NeedsRoot,
    };
    Some(Capability::new(Group::Lab, text("name")?, state, text("for")?, text("instead")?))
}

/// Whether labs work with these, and on which path; or why not.
fn labs(capabilities: &[Capability]) -> Result<&'static str, String> {
    let state = |name| capabilities.iter().find(|c| c.name == name).map_or(&State::NeedsRoot, |c| &c.state);
    let lacks = |name| match state(name) {
        State::Available(_) => None,
        State::Missing(why) => Some(why.clone()),
        State::NeedsRoot => Some("only root can make them".to_owned()),
    };
    match (lacks(NAMESPACES), lacks(TUN), lacks(NETEM)) {
        (Some(why), ..) => Err(why),
        (None, None, _) => Ok("built-in"),
        (None, Some(_), None) => Ok("netem"),
        (None, Some(tun), Some(netem)) => Err(format!("/dev/net/tun: {tun}; netem: {netem}")),
    }
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.lab_without_root {
        // While this process has one thread.
        ::lab::rootless::enter()?;
        let mut out = crate::output::stdout().lock();
        machine::lab().iter().try_for_each(|capability| writeln!(out, "{}", capability_json(capability)))?;
        return Ok(out.flush()?);
    }
    let root = machine::is_root();
    let mut capabilities = machine::capabilities();
    let mut no_user_labs = None;
    if !root {
        match lab_without_root() {
            Ok(lab) => {
                capabilities.retain(|capability| capability.group != Group::Lab);
                capabilities.extend(lab);
            }
            Err(why) => no_user_labs = Some(why.to_string()),
        }
    }
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
        let (backend, why) = backend(&capabilities);
        let memory = backend.map(|_| memory_words(&every, &sampled));
        let found = doctor::Found {
            capabilities: &capabilities,
            settings: &settings,
            root,
            trace: backend.map(|name| (name, why.as_str())).ok_or(why.as_str()),
            labs: no_user_labs.map_or_else(|| labs(&capabilities), Err),
            memory,
        };
        let document = doctor::document(&found, args.full);
        out.write_all(paper::terminal::text(&terminal::canvas(), &[document]).as_bytes())?;
    }
    out.flush()?;
    missing_need(&capabilities).map_or(Ok(()), Err).context("no trace is possible on this machine")
}

/// How many connections traces would follow here, and in how much memory.
fn memory_words(every: &(u32, Memory), sampled: &(u32, Memory)) -> String {
    format!(
        "A trace would follow up to {} in {} of kernel memory, {} of it from the start; or {} in {}, {} of it from the start, with \
         --sample 1/100. That goes by the memory that is left: --max-connections sets another limit.",
        quantity::counted(every.0.into(), "connection"),
        quantity::bytes(every.1.most()),
        quantity::bytes(every.1.at_once),
        quantity::count(sampled.0.into()),
        quantity::bytes(sampled.1.most()),
        quantity::bytes(sampled.1.at_once),
    )
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
    fn labs_take_namespaces_and_one_of_two_paths() {
        let of = |name, there| {
            let state = if there { State::Available(String::new()) } else { State::Missing(format!("no {name}")) };
            Capability::new(Group::Lab, name, state, "x", "y")
        };
        let found = |namespaces, tun, netem| labs(&[of(NAMESPACES, namespaces), of(TUN, tun), of(NETEM, netem)]);
        assert_eq!(found(true, true, false), Ok("built-in"));
        assert_eq!(found(true, false, true), Ok("netem"));
        assert_eq!(found(true, false, false), Err("/dev/net/tun: no TUN; netem: no netem".into()));
        assert_eq!(found(false, true, true), Err("no network namespaces".into()));
        assert!(labs(&[]).is_err());
    }

    #[test]
    fn what_is_told_of_a_lab_is_read_as_it_was() {
        let states = [State::Available("whole".into()), State::Available(String::new()), State::Missing("why".into())];
        for state in states.into_iter().chain([State::NeedsRoot]) {
            let capability = Capability::new(Group::Lab, TUN, state, "for", "instead");
            assert_eq!(of_json(&capability_json(&capability)), Some(capability));
        }
        assert_eq!(of_json(&serde_json::json!({ "state": "missing" })), None);
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
