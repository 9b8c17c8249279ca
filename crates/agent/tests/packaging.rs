//! What is shipped beside the command is right by the programs that read it.

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
