//! What this machine can do, and for what it cannot: why, and what is used instead.

use machine::{Capability, Group, Setting, State};

use paper::document::{Clause, Document, Row, Section, Table, Text, clauses};
use paper::plot::Hue;

/// Green, red and yellow of a terminal.
const AVAILABLE: Hue = Hue(2);
const MISSING: Hue = Hue(5);
const NEEDS_ROOT: Hue = Hue(4);

/// What was found of a machine.
#[derive(Clone, Debug)]
pub struct Found<'a> {
    /// What it can do, and what not.
    pub capabilities: &'a [Capability],
    /// How it is set.
    pub settings: &'a [Setting],
    /// Whether this is found by root.
    pub root: bool,
    /// The backend of traces and why that one; or why there is none.
    pub trace: Result<(&'a str, &'a str), &'a str>,
    /// The path of labs; or why there are none.
    pub labs: Result<&'static str, String>,
    /// How much memory traces take here.
    pub memory: Option<String>,
}

/// What is said of a machine: what works there and what is missing; all of it with `full`.
pub fn document(found: &Found<'_>, full: bool) -> Document {
    let Found { capabilities, settings, root, .. } = *found;
    // What is only proposed is missing on every machine.
    let own: Vec<_> = capabilities.iter().filter(|c| c.group != Group::Callbacks).collect();
    let count = |name| own.iter().filter(|c| c.state.name() == name).count();
    let needs_root = if root { String::new() } else { format!(", {} need root", count(State::NeedsRoot.name())) };
    let mut document = Document {
        title: "This machine".into(),
        about: format!("{} available, {} missing{needs_root}.", count("available"), count("missing")),
        verdict: clauses(verdict(found)),
        ..Document::default()
    };
    if !full {
        let mut section = Section::new("What is missing");
        let missing = own.into_iter().filter(|c| matches!(c.state, State::Missing(_)));
        let (interfaces, others): (Vec<_>, Vec<_>) = missing.partition(|c| c.group == Group::Interfaces);
        section.table(missing_table(others.into_iter().chain(&merged(&interfaces))));
        document.sections.extend((!section.blocks.is_empty()).then_some(section));
        document.then = Some(
            Text::code("--full").and(" shows everything that was tried, what it is for, and the settings of TCP."),
        );
        return document;
    }
    document.verdict.extend(found.memory.clone().map(Clause::detail));
    for group in Group::ALL {
        let members: Vec<_> = capabilities.iter().filter(|c| c.group == group).collect();
        let mut section = Section::new(group.to_string());
        section.table(match group {
            Group::Interfaces => table(&merged(&members)),
            _ => table(&members.into_iter().cloned().collect::<Vec<_>>()),
        });
        document.sections.push(section);
    }
    let mut section = Section::new("Settings");
    let mut table = Table::new("", ["setting", "value", "for"]);
    for setting in settings {
        table.push(vec![setting.name.to_string(), setting.value.clone(), setting.purpose.to_string()]);
    }
    section.table(table);
    document.sections.push(section);
    document.sections.retain(|s| !s.blocks.is_empty());
    document
}

/// Whether traces and labs work for this user, and what does without root.
fn verdict(found: &Found<'_>) -> Vec<Text> {
    let mut said = Vec::new();
    let traces = match found.trace {
        Ok((backend, why)) => format!("Traces work, by the {backend} backend: {why}."),
        Err(_) if !found.root => "Traces and captures need root.".to_owned(),
        Err(why) => format!("Traces do not work: {why}."),
    };
    let labs = match &found.labs {
        Ok(path) => format!("Labs work, on the {path} path."),
        Err(why) => format!("Labs do not work: {why}."),
    };
    said.push(Text::from(traces));
    if found.root {
        said.push(labs.into());
        return said;
    }
    let what = |what: &str, commands: &[&str]| {
        let mut text = Text::from(format!("{what} ("));
        for (i, command) in commands.iter().enumerate() {
            text = text.and(if i > 0 { ", " } else { "" }).and(Text::code(*command));
        }
        text.and(")")
    };
    let mut without = Text::from("Without root: ")
        .and(what("captures and runs are read", &["analyze", "compare", "report", "query"]))
        .and(what(", packets of this user's own are timed", &["probe"]))
        .and(what(", and workloads run", &["serve", "stream", "rr", "crr", "udp"]));
    without = without.and(". ").and(match &found.labs {
        Ok(path) => {
            Text::from(format!("Labs work too, on the {path} path: ")).and(Text::code("wirelapse lab up")).and(".")
        }
        Err(_) => labs.into(),
    });
    said.push(without);
    let tried = Text::code("sudo wirelapse doctor").and(" tries what only root can.");
    said.push(tried);
    said
}

/// What is not there: why, and what is used instead.
fn missing_table<'a>(capabilities: impl Iterator<Item = &'a Capability>) -> Table {
    let mut table = Table::new("", ["", "", ""]);
    for capability in capabilities {
        if let State::Missing(why) = &capability.state {
            let words = format!("{why}. Instead: {}", capability.instead);
            table.push(Row::of([MARK_MISSING.to_owned(), capability.name.clone(), words]).in_hue(Some(MISSING)));
        }
    }
    table
}

/// What stands before what is missing.
const MARK_MISSING: &str = "✗";

fn table(capabilities: &[Capability]) -> Table {
    let mut table = Table::new("", ["", "", ""]);
    for capability in capabilities {
        let instead = format!("instead: {}", capability.instead);
        let (mark, hue, notes) = match &capability.state {
            State::Available(detail) if detail.is_empty() => ("✓", AVAILABLE, Vec::new()),
            State::Available(detail) => ("✓", AVAILABLE, vec![detail.clone()]),
            State::Missing(reason) => (MARK_MISSING, MISSING, vec![format!("why: {reason}"), instead]),
            State::NeedsRoot => ("○", NEEDS_ROOT, vec![instead]),
        };
        let cells = [mark.to_owned(), capability.name.clone(), capability.purpose.clone()];
        table.push(Row::of(cells).noted(notes).in_hue(Some(hue)));
    }
    table
}

/// Interfaces that can do the same share one entry, so that a host with a hundred of them still
/// fits on a page.
fn merged(capabilities: &[&Capability]) -> Vec<Capability> {
    let mut all: Vec<(Capability, Vec<String>)> = Vec::new();
    for &capability in capabilities {
        let Some((interface, stamps)) = &capability.of else {
            all.push((capability.clone(), Vec::new()));
            continue;
        };
        let name = format!("{} timestamps", stamps.name());
        match all.iter_mut().find(|(c, _)| c.name == name && c.state == capability.state) {
            Some((_, interfaces)) => interfaces.push(interface.to_owned()),
            None => all.push((Capability { name, ..capability.clone() }, vec![interface.to_owned()])),
        }
    }
    all.sort_by(|(a, _), (b, _)| b.name.cmp(&a.name));
    all.into_iter()
        .map(|(mut capability, interfaces)| {
            let on = interfaces.join(", ");
            match &mut capability.state {
                State::Available(text) | State::Missing(text) if !on.is_empty() => *text = format!("{on}: {text}"),
                _ => {}
            }
            capability
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Stamps;
    use paper::{Canvas, terminal};

    fn entry(group: Group, name: &str, state: State) -> Capability {
        Capability::new(group, name, state, "what it is for", "what is used instead")
    }

    fn drawn(capabilities: &[Capability], settings: &[Setting], root: bool, colour: bool) -> String {
        let canvas = Canvas { width: 80, colour, unicode: true };
        terminal::text(&canvas, &[document(&found(capabilities, settings, root), true)])
    }

    fn found<'a>(capabilities: &'a [Capability], settings: &'a [Setting], root: bool) -> Found<'a> {
        let trace = if root { Ok(("timestamping", "it calls back")) } else { Err("only root can load its programs") };
        Found { capabilities, settings, root, trace, labs: Ok("built-in"), memory: Some("That much.".into()) }
    }

    #[test]
    fn no_line_is_wider_than_the_canvas_and_nothing_is_cut() {
        let long = "a reason that is much longer than one line can hold, so that it has to go on below itself, twice";
        let all = [
            entry(Group::Kernel, "short", State::Missing(long.into())),
            entry(Group::Kernel, "a name that is longer than its column", State::Available(long.into())),
        ];
        let settings = [Setting { name: "net.ipv4.tcp_rmem", value: "4096 131072 6291456".into(), purpose: "buffers" }];
        let page = drawn(&all, &settings, true, false);
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let shown = words(&page);
        assert!(words(long).iter().all(|word| shown.contains(word)));
        assert!(page.contains("✗  short") && page.contains("instead: what is used instead"), "{page}");
        assert!(page.contains("\n1 available, 1 missing.\n"), "{page}");
    }

    #[test]
    fn interfaces_that_do_the_same_share_an_entry() {
        let none = || State::Missing("the driver gives none".into());
        let all = [("eth0", none()), ("eth1", State::Available("sent and received".into())), ("lo", none())];
        let all = all.map(|(name, state)| Capability {
            of: Some((name.into(), Stamps::Hardware)),
            ..entry(Group::Interfaces, &format!("{name} hardware"), state)
        });
        let page = drawn(&all, &[], true, false);
        assert!(page.contains("eth0, lo: the driver gives none"));
        assert!(page.contains("eth1: sent and received"));
        assert_eq!(page.matches("hardware timestamps").count(), 2);
    }

    #[test]
    fn the_verdict_and_what_is_missing_come_first_and_the_rest_where_it_is_asked_for() {
        let all = [
            entry(Group::Bpf, "fentry", State::Missing("refused".into())),
            entry(Group::Lab, "veth", State::Available(String::new())),
        ];
        let settings = [Setting { name: "net.ipv4.tcp_rmem", value: "1 2 3".into(), purpose: "buffers" }];
        let canvas = Canvas { width: 80, colour: false, unicode: true };
        let page = |full| terminal::text(&canvas, &[document(&found(&all, &settings, true), full)]);
        let in_one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (brief, full) = (in_one_line(page(false)), in_one_line(page(true)));
        let at = |word: &str| brief.find(word).unwrap_or_else(|| panic!("no {word}: {brief}"));
        assert!(at("Traces work") < at("Labs work") && at("Labs work") < at("# What is missing"), "{brief}");
        assert!(at("refused. Instead: what is used instead") < at("`--full` shows"), "{brief}");
        for more in ["veth", "tcp_rmem", "That much."] {
            assert!(!brief.contains(more) && full.contains(more), "{more}: {brief}{full}");
        }
    }

    #[test]
    fn without_root_it_says_what_a_user_can_do() {
        let all = [entry(Group::Bpf, "sockops", State::NeedsRoot)];
        let page = |labs| {
            let canvas = Canvas { width: 80, colour: false, unicode: true };
            let page = terminal::text(&canvas, &[document(&Found { labs, ..found(&all, &[], false) }, false)]);
            page.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let said = page(Ok("built-in"));
        assert!(said.contains("Traces and captures need root.") && said.contains("Labs work too"), "{said}");
        assert!(said.contains("`analyze`, `compare`") && said.contains("sudo wirelapse doctor"), "{said}");
        let said = page(Err("they are forbidden".into()));
        assert!(said.contains("Labs do not work: they are forbidden."), "{said}");
        assert!(!said.contains("Traces work"), "{said}");
    }

    #[test]
    fn colour_only_where_asked_for() {
        let all = [entry(Group::Lab, "netem", State::NeedsRoot)];
        assert!(!drawn(&all, &[], true, false).contains('\x1b'));
        assert!(drawn(&all, &[], true, true).contains("\x1b[33m○\x1b[0m"));
    }
}
