//! Values that options can have on this machine, for shells that complete them. What cannot be read
//! completes to nothing: whoever presses Tab wants no error.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter as _};

/// The names of a folder's entries.
fn entries(folder: &str) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

fn candidates(names: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    // A name that steers a terminal is not offered: a shell may show it as it is.
    let names: BTreeSet<String> = names.into_iter().filter(|name| !name.contains(paper::steers)).collect();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// The network interfaces of this namespace.
pub fn interfaces() -> Vec<CompletionCandidate> {
    candidates(entries("/sys/class/net"))
}

/// The labs that are up.
pub fn labs() -> Vec<CompletionCandidate> {
    candidates(lab::registry::names().unwrap_or_default())
}

/// The hosts of the labs that are up: as `lab exec` takes them.
pub fn lab_hosts() -> Vec<CompletionCandidate> {
    let labs = lab::registry::names().unwrap_or_default();
    let of = |lab: &String| ["a", "b"].map(|host| format!("{lab}:{host}"));
    match labs.as_slice() {
        [_] => candidates(["a".into(), "b".into()]),
        labs => candidates(labs.iter().flat_map(of)),
    }
}

/// The systemd services that run, without `.service`.
pub fn units() -> Vec<CompletionCandidate> {
    let names = entries("/sys/fs/cgroup/system.slice");
    candidates(names.filter_map(|name| Some(name.strip_suffix(".service")?.to_owned())))
}

/// The names of the programs that run, without the kernel's threads, which have no
/// command line.
pub fn programs() -> Vec<CompletionCandidate> {
    let processes = entries("/proc").filter(|name| name.bytes().all(|b| b.is_ascii_digit()));
    let name = |pid: String| {
        let has_memory = fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok().filter(|_| has_memory)?;
        Some(name.trim_end().to_owned())
    };
    candidates(processes.filter_map(name))
}

/// The congestion controls that the kernel has.
pub fn congestion_controls() -> Vec<CompletionCandidate> {
    let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    candidates(known.split_whitespace().map(str::to_owned))
}

/// The built-in studies, and files for plans.
pub fn study(typed: &OsStr) -> Vec<CompletionCandidate> {
    let described = study::builtin::ALL.iter().map(|builtin| (builtin.name, Some(builtin.about)));
    let others = super::super::study::OTHERS.map(|name| (name, None));
    let known = described.chain(others).map(|(name, about)| CompletionCandidate::new(name).help(about.map(Into::into)));
    or_files(known, typed)
}

/// Interfaces, and capture files.
pub fn interface_or_file(typed: &OsStr) -> Vec<CompletionCandidate> {
    or_files(interfaces(), typed)
}

/// Those of the names that begin as what was typed, and files.
fn or_files(names: impl IntoIterator<Item = CompletionCandidate>, typed: &OsStr) -> Vec<CompletionCandidate> {
    let begins = |name: &CompletionCandidate| name.get_value().as_encoded_bytes().starts_with(typed.as_encoded_bytes());
    let shows = |name: &CompletionCandidate| !name.get_value().to_string_lossy().contains(paper::steers);
    names.into_iter().filter(begins).chain(PathCompleter::file().complete(typed)).filter(shows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(candidates: Vec<CompletionCandidate>) -> Vec<String> {
        candidates.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn what_this_machine_has_is_offered() {
        assert!(names(interfaces()).contains(&"lo".into()));
        assert!(names(congestion_controls()).iter().any(|name| name == "cubic" || name == "reno"));
        let own = fs::read_to_string("/proc/self/comm").unwrap();
        assert!(names(programs()).contains(&own.trim_end().into()));
    }

    #[test]
    fn studies_and_files_are_offered_by_what_was_typed() {
        assert!(names(study(OsStr::new(""))).contains(&"reception".into()));
        assert_eq!(names(study(OsStr::new("timest"))), ["timestamps"]);
        assert!(names(interface_or_file(OsStr::new("/proc/self/stat"))).contains(&"/proc/self/status".into()));
    }
}
