//! The report for people: grouped, aligned, 80 columns wide.

use std::fmt::Write as _;

use machine::{Capability, Group, Setting, State};

const WIDTH: usize = 80;
/// Where the second column begins, in groups and among settings.
const NAME: usize = 24;

/// What a piece of text is painted with, where the output is a terminal.
#[derive(Clone, Copy)]
enum Paint {
    Bold,
    Dim,
    Green,
    Red,
    Yellow,
}

struct Page {
    text: String,
    colour: bool,
}

impl Page {
    fn paint(&self, paint: Paint, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match paint {
            Paint::Bold => "1",
            Paint::Dim => "2",
            Paint::Green => "32",
            Paint::Red => "31",
            Paint::Yellow => "33",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// A line that starts with `start` (already painted, `columns` wide) and goes on with `text`, wrapped below itself.
    fn hang(&mut self, start: &str, columns: usize, text: &str, paint: Option<Paint>) {
        self.text.push_str(start);
        for (number, line) in wrap(text, WIDTH - columns).iter().enumerate() {
            if number > 0 {
                let _ = write!(self.text, "\n{:columns$}", "");
            }
            let painted = paint.map_or_else(|| line.clone(), |paint| self.paint(paint, line));
            self.text.push_str(&painted);
        }
        self.text.push('\n');
    }

    fn note(&mut self, label: &str, text: &str) {
        let start = format!("    {}", self.paint(Paint::Dim, &format!("{label:<8}")));
        self.hang(&start, 12, text, None);
    }

    fn capability(&mut self, capability: &Capability) {
        let (mark, paint) = match capability.state {
            State::Available(_) => ("✓", Paint::Green),
            State::Missing(_) => ("✗", Paint::Red),
            State::NeedsRoot => ("○", Paint::Yellow),
        };
        let mark = self.paint(paint, mark);
        let name = &capability.name;
        // A name too long for its column pushes its text one space along rather than onto a line of its own.
        let columns = 4 + NAME.max(name.chars().count() + 1);
        let start = format!("  {mark} {name:<width$}", width = columns - 4);
        self.hang(&start, columns, &capability.purpose, None);
        match &capability.state {
            State::Available(detail) if detail.is_empty() => {}
            State::Available(detail) => self.hang(&" ".repeat(columns), columns, detail, Some(Paint::Dim)),
            State::Missing(reason) => {
                self.note("why", reason);
                self.note("instead", &capability.instead);
            }
            State::NeedsRoot => self.note("instead", &capability.instead),
        }
    }
}

/// Lines of at most `width` characters, broken at blanks; a longer word has a line of its own.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is always a line");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Interfaces that can do the same share one entry, so that a host with a hundred of them still fits on a page.
fn merged(capabilities: &[&Capability]) -> Vec<Capability> {
    let mut all: Vec<(Capability, Vec<String>)> = Vec::new();
    for &capability in capabilities {
        let split = capability.name.rsplit_once(' ').filter(|(_, kind)| matches!(*kind, "software" | "hardware"));
        let Some((interface, kind)) = split else {
            all.push((capability.clone(), Vec::new()));
            continue;
        };
        let name = format!("{kind} timestamps");
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

/// The whole report.
pub fn draw(capabilities: &[Capability], settings: &[Setting], root: bool, colour: bool) -> String {
    let mut page = Page { text: String::new(), colour };
    for group in Group::ALL {
        let members: Vec<_> = capabilities.iter().filter(|c| c.group == group).collect();
        if members.is_empty() {
            continue;
        }
        let title = page.paint(Paint::Bold, &group.to_string());
        let _ = writeln!(page.text, "{title}");
        if group == Group::Interfaces {
            merged(&members).iter().for_each(|capability| page.capability(capability));
        } else {
            members.iter().for_each(|capability| page.capability(capability));
        }
        page.text.push('\n');
    }
    if !settings.is_empty() {
        let title = page.paint(Paint::Bold, "Settings");
        let _ = writeln!(page.text, "{title}");
        for setting in settings {
            let start = format!("  {}{}", setting.name, " = ");
            page.hang(&start, start.chars().count(), &setting.value, None);
            page.hang("      ", 6, setting.purpose, Some(Paint::Dim));
        }
        page.text.push('\n');
    }
    let count = |name| capabilities.iter().filter(|c| c.state.name() == name).count();
    let mut summary = format!("{} available, {} missing", count("available"), count("missing"));
    let locked: Vec<_> = capabilities
        .iter()
        .filter(|c| c.state == State::NeedsRoot && c.name != "root")
        .map(|c| c.name.as_str())
        .collect();
    if root || locked.is_empty() {
        summary.push('.');
    } else {
        let _ = write!(summary, ", {} need root. Root would add, or try: {}.", locked.len(), locked.join(", "));
    }
    page.hang("", 0, &summary, None);
    page.text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(group: Group, name: &str, state: State) -> Capability {
        Capability::new(group, name, state, "what it is for", "what is used instead")
    }

    #[test]
    fn no_line_is_wider_than_the_page_and_nothing_is_cut() {
        let long = "a reason that is much longer than one line can hold, so that it has to go on below itself, twice";
        let all = [
            entry(Group::Kernel, "short", State::Missing(long.into())),
            entry(Group::Kernel, "a name that is longer than its column", State::Available(long.into())),
        ];
        let settings = [Setting { name: "net.ipv4.tcp_rmem", value: "4096 131072 6291456".into(), purpose: "buffers" }];
        let page = draw(&all, &settings, true, false);
        assert!(page.lines().all(|line| line.chars().count() <= WIDTH), "{page}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let shown = words(&page);
        assert!(words(long).iter().all(|word| shown.contains(word)));
        assert!(page.contains("✗ short") && page.contains("instead what is used instead"));
        assert!(page.ends_with("1 available, 1 missing.\n"));
    }

    #[test]
    fn interfaces_that_do_the_same_share_an_entry() {
        let none = || State::Missing("the driver gives none".into());
        let all = [
            entry(Group::Interfaces, "eth0 hardware", none()),
            entry(Group::Interfaces, "eth1 hardware", State::Available("sent and received".into())),
            entry(Group::Interfaces, "lo hardware", none()),
        ];
        let page = draw(&all, &[], true, false);
        assert!(page.contains("eth0, lo: the driver gives none"));
        assert!(page.contains("eth1: sent and received"));
        assert_eq!(page.matches("hardware timestamps").count(), 2);
    }

    #[test]
    fn without_root_it_says_what_root_would_add() {
        let all = [entry(Group::Privileges, "root", State::NeedsRoot), entry(Group::Lab, "netem", State::NeedsRoot)];
        let page = draw(&all, &[], false, false);
        assert!(page.contains("Root would add, or try: netem."), "{page}");
    }

    #[test]
    fn colour_only_where_asked_for() {
        let all = [entry(Group::Lab, "netem", State::NeedsRoot)];
        assert!(!draw(&all, &[], true, false).contains('\x1b'));
        assert!(draw(&all, &[], true, true).contains("\x1b[33m○\x1b[0m"));
    }
}
