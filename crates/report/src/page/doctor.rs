//! What this machine can do, and for what it cannot: why, and what is used instead.

use machine::{Capability, Group, ROOT, Setting, State};

use paper::document::{Document, Row, Section, Table, clauses};
use paper::plot::Hue;

/// Green, red and yellow of a terminal.
const AVAILABLE: Hue = Hue(2);
const MISSING: Hue = Hue(5);
const NEEDS_ROOT: Hue = Hue(4);

/// What was found of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// What it can do, and what not.
    pub capabilities: &'a [Capability],
    /// How it is set.
    pub settings: &'a [Setting],
    /// Whether this is found by root.
    pub root: bool,
}

/// What is said of a machine. `trace` is the sentence on how a trace would be made there.
pub fn document(found: &Found<'_>, trace: String) -> Document {
    let Found { capabilities, settings, root } = *found;
    let mut sections = Vec::new();
    for group in Group::ALL {
        let members: Vec<_> = capabilities.iter().filter(|c| c.group == group).collect();
        let mut section = Section::new(group.to_string());
        section.table(match group {
            Group::Interfaces => table(&merged(&members)),
            _ => table(&members.into_iter().cloned().collect::<Vec<_>>()),
        });
        sections.push(section);
    }
    let mut section = Section::new("Settings");
    let mut table = Table::new("", ["setting", "value", "for"]);
    for setting in settings {
        table.push(vec![setting.name.to_string(), setting.value.clone(), setting.purpose.to_string()]);
    }
    section.table(table);
    sections.push(section);
    sections.retain(|s| !s.blocks.is_empty());
    let mut verdict = vec![trace];
    let locked: Vec<_> = capabilities
        .iter()
        .filter(|c| c.state == State::NeedsRoot && c.name != ROOT)
        .map(|c| c.name.as_str())
        .collect();
    if !root && !locked.is_empty() {
        verdict.push(format!("Root would add, or try: {}.", locked.join(", ")));
    }
    let count = |name| capabilities.iter().filter(|c| c.state.name() == name).count();
    let needs_root = if root { String::new() } else { format!(", {} need root", locked.len()) };
    Document {
        title: "This machine".into(),
        about: format!("{} available, {} missing{needs_root}.", count("available"), count("missing")),
        verdict: clauses(verdict),
        warnings: Vec::new(),
        sections,
        ..Document::default()
    }
}

fn table(capabilities: &[Capability]) -> Table {
    let mut table = Table::new("", ["", "", ""]);
    for capability in capabilities {
        let instead = format!("instead: {}", capability.instead);
        let (mark, hue, notes) = match &capability.state {
            State::Available(detail) if detail.is_empty() => ("✓", AVAILABLE, Vec::new()),
            State::Available(detail) => ("✓", AVAILABLE, vec![detail.clone()]),
            State::Missing(reason) => ("✗", MISSING, vec![format!("why: {reason}"), instead]),
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
        let found = Found { capabilities, settings, root };
        terminal::text(&canvas, &[document(&found, "It can be traced.".into())])
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
    fn without_root_it_says_what_root_would_add() {
        let all = [entry(Group::Privileges, ROOT, State::NeedsRoot), entry(Group::Lab, "netem", State::NeedsRoot)];
        let page = drawn(&all, &[], false, false);
        assert!(page.contains("Root would add, or try: netem."), "{page}");
    }

    #[test]
    fn colour_only_where_asked_for() {
        let all = [entry(Group::Lab, "netem", State::NeedsRoot)];
        assert!(!drawn(&all, &[], true, false).contains('\x1b'));
        assert!(drawn(&all, &[], true, true).contains("\x1b[33m○\x1b[0m"));
    }
}
