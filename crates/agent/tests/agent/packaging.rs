//! What is shipped beside the command is right by the programs that read it.

use std::collections::{BTreeMap, BTreeSet};
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

/// The value of a key of YAML that has a line to itself.
fn value<'t>(text: &'t str, key: &str) -> &'t str {
    let of = |line: &'t str| line.trim_start_matches([' ', '-']).strip_prefix(key)?.strip_prefix(": ");
    text.lines().find_map(of).unwrap_or_else(|| panic!("no {key} in\n{text}"))
}

/// The words of a list in brackets.
fn words(list: &str) -> Vec<&str> {
    list.trim_matches(['[', ']']).split(", ").collect()
}

#[test]
fn the_examples_for_containers_start_the_agent_as_the_unit_does() {
    let unit = std::fs::read_to_string(packaging("systemd/wirelapse-agent.service")).unwrap();
    let needed: Vec<&str> =
        unit.lines().find_map(|line| line.strip_prefix("AmbientCapabilities=")).unwrap().split(' ').collect();
    let pods = std::fs::read_to_string(packaging("examples/wirelapse-daemonset.yaml")).unwrap();
    let added: Vec<String> = words(value(&pods, "add")).into_iter().map(|name| format!("CAP_{name}")).collect();
    assert_eq!(
        (added, value(&pods, "drop"), value(&pods, "hostNetwork")),
        (needed.iter().map(|&n| n.to_owned()).collect(), "[ALL]", "true")
    );

    // The configuration in it is one, its token is in a folder that is mounted, and what is probed
    // and scraped is the port that it listens at.
    let (_, rest) = pods.split_once("agent.toml: |\n").unwrap();
    let config: String =
        rest.lines().map_while(|line| line.strip_prefix("    ")).map(|line| format!("{line}\n")).collect();
    let config = agent::config::parse("agent.toml", &config).unwrap_or_else(|wrong| panic!("{wrong}\n{config}"));
    let endpoint = config.prometheus.unwrap();
    let mounted: BTreeMap<&str, &str> = pods
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- { name: ")?.split_once(", mountPath: "))
        .map(|(volume, path)| (path.split(',').next().unwrap(), volume))
        .collect();
    assert!(mounted.contains_key(endpoint.token_file.unwrap().parent().unwrap().to_str().unwrap()), "{mounted:?}");
    let port = endpoint.listen.port().to_string();
    assert_eq!((value(&pods, "containerPort"), value(&pods, "prometheus.io/port").trim_matches('"')), (&*port, &*port));
    assert!(value(&pods, "httpGet").contains(&format!("port: {port} ")), "{}", value(&pods, "httpGet"));
    for volume in mounted.values() {
        assert!(
            pods.contains(&format!("- {{ name: {volume}, configMap: "))
                || pods.contains(&format!("- {{ name: {volume}, secret: "))
                || pods.contains(&format!("- {{ name: {volume}, hostPath: ")),
            "no volume {volume}"
        );
    }

    // What is read for names of containers is there below --root; the options are those of the
    // command, the image's own or written out.
    let command = words(value(&pods, "command"));
    let root = command.iter().position(|word| *word == "--root").map(|at| command[at + 1]).unwrap();
    for folder in ["/sys/fs/cgroup", "/var/log/containers", "/run/containerd"] {
        assert!(mounted.contains_key(&*format!("{root}{folder}")), "{mounted:?}");
    }
    let file = command.iter().position(|word| *word == "--config").map(|at| command[at + 1]).unwrap();
    assert_eq!(
        (&command[..2], mounted.get(file.rsplit_once('/').unwrap().0)),
        (&["wirelapse", "agent"][..], Some(&"config"))
    );
    let containerfile = std::fs::read_to_string(packaging("../Containerfile")).unwrap();
    assert!(containerfile.contains("ENTRYPOINT [\"/usr/bin/wirelapse\"]"), "{containerfile}");
    let podman = std::fs::read_to_string(packaging("examples/podman-agent.sh")).unwrap();
    let podman: Vec<&str> = podman
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(str::split_whitespace)
        .filter(|word| *word != "\\")
        .collect();
    let (of_podman, of_image) = podman.split_at(podman.iter().position(|word| *word == "wirelapse:latest").unwrap());
    assert_eq!(of_image[1..], ["agent", "--config", "/etc/wirelapse/agent.toml", "--root", "/host"]);
    let added = of_podman.iter().position(|word| *word == "--cap-add").map(|at| of_podman[at + 1]).unwrap();
    let added: Vec<String> = added.split(',').map(|name| format!("CAP_{}", name.to_uppercase())).collect();
    assert_eq!(added, needed);
}

/// The image is built by what `make deb` is built by: its lines install the packages of the group
/// `build` that its base image has not, its Rust is the least that the crates take, and what it
/// copies is what `packaging/build` makes.
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
