//! What is shipped beside the command is right by the programs that read it.

use std::collections::BTreeSet;
use std::process::Command;

use tier::{Need, needs};

fn packaging(file: &str) -> String {
    format!("{}/../../packaging/{file}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_example_and_its_commented_keys_are_a_configuration() {
    let text = std::fs::read_to_string(packaging("examples/agent.toml")).unwrap();
    agent::config::parse("agent.toml", &text).unwrap();
    // With every key of a section put in place, after the lines of the head.
    let all: String = text
        .lines()
        .skip(3)
        .map(|line| format!("{}\n", line.strip_prefix("# ").unwrap_or(line)))
        // A directory needs no spool.
        .filter(|line| !line.starts_with("spool"))
        .collect();
    let config = agent::config::parse("agent.toml", &all).unwrap_or_else(|wrong| panic!("{wrong}\n{all}"));
    assert_eq!(config.histograms, agent::config::Histograms::default(), "the defaults that the file names");
    let (prometheus, store) = (config.prometheus.unwrap(), config.store.unwrap());
    assert!(prometheus.listen.ip().is_loopback() && prometheus.tls.is_some() && config.otlp.is_some());
    assert_eq!(store.max_bytes, 1 << 30);
}

#[test]
fn the_service_is_hardened() {
    needs!(Need::Program("systemd-analyze"));
    let file = packaging("systemd/wirelapse-agent.service");
    let done =
        tier::limit(Command::new("systemd-analyze")).args(["security", "--offline=true", &file]).output().unwrap();
    let text = tier::text(&done.stdout);
    let Some(level) =
        text.lines().rev().find_map(|line| line.split_once("service: ")?.1.split(' ').next()?.parse::<f64>().ok())
    else {
        // An older one knows no --offline.
        return tier::skip("the_service_is_hardened", "systemd-analyze gives no level here");
    };
    assert!(level <= 2.5, "{text}");
}

/// The system calls of a group, as the systemd that is here knows it.
fn group(name: &str, into: &mut BTreeSet<String>) {
    let done = tier::limit(Command::new("systemd-analyze")).args(["syscall-filter", name]).output().unwrap();
    for word in tier::text(&done.stdout).lines().skip(1).map(str::trim).filter(|word| !word.starts_with('#')) {
        match word.starts_with('@') {
            true => group(word, into),
            false => drop(into.insert(word.to_owned())),
        }
    }
}

#[test]
fn the_service_lets_the_agent_begin_and_give_up_its_rights() {
    needs!(Need::Program("systemd-analyze"));
    let unit = std::fs::read_to_string(packaging("systemd/wirelapse-agent.service")).unwrap();
    let mut allowed = BTreeSet::new();
    for line in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let (taken, words) = line.strip_prefix('~').map_or((false, line), |words| (true, words));
        let mut of = BTreeSet::new();
        for word in words.split_ascii_whitespace() {
            match word.starts_with('@') {
                true => group(word, &mut of),
                false => drop(of.insert(word.to_owned())),
            }
        }
        allowed = if taken { &allowed - &of } else { &allowed | &of };
    }
    assert!(allowed.len() > 100, "{allowed:?}");
    let needed = "bpf perf_event_open capset capget prctl seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self \
                  setpriority clone3 socket bind listen accept4 connect sendmsg epoll_wait rename fsync unlinkat mkdir";
    let refused: Vec<&str> = needed.split_ascii_whitespace().filter(|call| !allowed.contains(*call)).collect();
    assert!(refused.is_empty(), "the unit refuses {refused:?}");
}

/// The image is built by what `make deb` is built by: its lines install the packages of the group `build` that its base image has not, its Rust is the least that
/// the crates take, and what it copies is what `packaging/build` makes.
#[test]
fn the_containerfile_installs_what_the_build_takes() {
    let read = |file: &str| std::fs::read_to_string(format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let containerfile = read("Containerfile");
    let line = |begins: &str| {
        containerfile.lines().find(|line| line.starts_with(begins)).unwrap_or_else(|| panic!("no line {begins}"))
    };
    let installed: BTreeSet<&str> = line("RUN apt-get").split_whitespace().collect();
    // The image of Rust is made from that of build tools; Python is for `make check`.
    let there = ["gcc", "libc6-dev", "make", "python3", "python3-markdown-it"];
    let packages = read("setup/packages");
    let needed = packages.lines().filter_map(|line| line.strip_prefix("build ")?.split_whitespace().next());
    let missing: Vec<&str> = needed.filter(|name| !there.contains(name) && !installed.contains(name)).collect();
    assert!(missing.is_empty(), "the Containerfile does not install {missing:?}");
    let least = read("Cargo.toml");
    let least = least.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap().trim_matches('"');
    let image = line("FROM docker.io/library/rust:");
    assert!(image.contains(&format!("rust:{least}-")), "{image}: the crates take Rust {least} at least");
    let kind = line("RUN WIRELAPSE_VERSION").rsplit(' ').next().unwrap();
    assert!(line("COPY --from=build").contains(&format!("/target/package/{kind}/wirelapse ")));
    assert!(read("packaging/build").contains(&format!("\"$kind\" = {kind}")), "packaging/build knows no {kind}");
}
