//! More hosts and links than two and one, from a file.
//!
//! ```toml
//! hosts = ["client", "router", "server"]
//!
//! [[link]]
//! between = ["client", "router"]
//! delay = "5ms"
//! rate = "100mbit/10mbit"       # client to router / back
//!
//! [[link]]
//! between = ["router", "server"]
//! delay = "20ms"
//! recorded = ["down.trace", "up.trace"]
//! schedule = "steps.csv"
//! ```
//!
//! A host with more than one link forwards between them; routes are the shortest by links. Settings are those of the command line
//! ([`SETTINGS`]), `mtu`, `recorded` (one file for both directions, or a list of one for each) and `schedule`. Files are named from the
//! topology's folder.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Error;
use crate::config::Config;
use crate::recorded::Recording;
use crate::schedule::Schedule;
use crate::settings::{Change, SETTINGS, Setting, set_each};

/// The most hosts, and the most links.
pub const MOST: usize = 64;

/// Hosts and the links between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// The hosts' names, in the order of the file.
    pub hosts: Vec<String>,
    /// The links.
    pub links: Vec<Link>,
}

/// A link between two hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Their places among the hosts; the first direction of the path is from the first to the second.
    pub between: [usize; 2],
    /// Its path.
    pub config: Config,
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

impl Topology {
    /// Reads the text of a file called `file`, and the recordings and schedules that it names; its paths draw from `seed` on.
    ///
    /// # Errors
    /// [`Error::File`] with the line that is wrong, and the nearest name where one is not known. Where it is a file that a link names that cannot be
    /// followed, the error is of that file.
    pub fn read(file: &str, text: &str, seed: u64) -> Result<Self, Error> {
        Reader { file, text }.topology(seed)
    }

    /// For each host and link to which it is not joined: by which of its links the shortest way begins. `None` where there is no way.
    pub(crate) fn first_link(&self, from: usize, to_link: usize) -> Option<usize> {
        let mut first: Vec<Option<usize>> = vec![None; self.hosts.len()];
        let mut next = VecDeque::from([from]);
        let mut seen = vec![false; self.hosts.len()];
        seen[from] = true;
        while let Some(host) = next.pop_front() {
            if host != from && self.links[to_link].between.contains(&host) {
                return first[host];
            }
            for (number, link) in self.links.iter().enumerate() {
                let Some(side) = link.between.iter().position(|end| *end == host) else { continue };
                let other = link.between[1 - side];
                if !seen[other] {
                    seen[other] = true;
                    first[other] = first[host].or(Some(number));
                    next.push_back(other);
                }
            }
        }
        None
    }
}

impl Reader<'_> {
    fn wrong(&self, at: Range<usize>, problem: impl Into<String>) -> Error {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        Error::File { file: self.file.into(), line: before.matches('\n').count() + 1, problem: problem.into() }
    }

    fn topology(&self, seed: u64) -> Result<Topology, Error> {
        let table = DeTable::parse(self.text)
            .map_err(|e| self.wrong(e.span().unwrap_or(0..0), e.message().to_owned()))?
            .into_inner();
        let (mut hosts, mut links) = (None, None);
        for (key, value) in &table {
            match key.get_ref().as_ref() {
                "hosts" => hosts = Some(value),
                "link" => links = Some(value),
                other => {
                    let near = quantity::nearest(other, ["hosts", "link"]).unwrap_or_default();
                    return Err(self.wrong(
                        key.span(),
                        format!("there is no key {other:?} in a topology: did you mean {near:?}?"),
                    ));
                }
            }
        }
        let hosts = hosts.ok_or_else(|| self.wrong(0..0, "there are no hosts: write hosts = [\"a\", \"b\"]"))?;
        let hosts = self.hosts(hosts)?;
        let links =
            links.ok_or_else(|| self.wrong(0..0, "there is no link: write [[link]] and between = [\"a\", \"b\"]"))?;
        let list =
            links.get_ref().as_array().ok_or_else(|| self.wrong(links.span(), "a link is a table: write [[link]]"))?;
        let mut topology = Topology { hosts, links: Vec::new() };
        for link in list {
            let number = topology.links.len() as u64;
            if topology.links.len() == MOST {
                return Err(self.wrong(link.span(), format!("there are more than {MOST} links")));
            }
            let config = Config { seed: seed.wrapping_add(number), ..Config::default() };
            let link = self.link(link, &topology.hosts, config)?;
            topology.links.push(link);
        }
        // Each host is joined to the first.
        for (number, name) in topology.hosts.iter().enumerate().skip(1) {
            let joined = topology.links.iter().position(|link| link.between.contains(&number));
            let reached = joined.is_some_and(|link| {
                topology.links[link].between.contains(&0) || topology.first_link(0, link).is_some()
            });
            if !reached {
                return Err(self.wrong(
                    hosts_span(&table),
                    format!("no link joins host {name:?} with host {:?}", topology.hosts[0]),
                ));
            }
        }
        Ok(topology)
    }

    fn hosts(&self, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, Error> {
        let list = value
            .get_ref()
            .as_array()
            .ok_or_else(|| self.wrong(value.span(), "hosts is a list of names, such as [\"a\", \"b\"]"))?;
        let mut hosts: Vec<String> = Vec::new();
        for host in list {
            let name = host.get_ref().as_str().ok_or_else(|| self.wrong(host.span(), "a host's name is text"))?;
            let valid = (1..=15).contains(&name.len())
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                && !name.starts_with('-');
            if !valid {
                return Err(self.wrong(
                    host.span(),
                    format!("{name:?} is no name of a host: 1 to 15 letters, digits and hyphens"),
                ));
            }
            if hosts.iter().any(|there| there == name) {
                return Err(self.wrong(host.span(), format!("host {name:?} is there twice")));
            }
            hosts.push(name.to_owned());
        }
        if (2..=MOST).contains(&hosts.len()) {
            Ok(hosts)
        } else {
            Err(self.wrong(value.span(), format!("there are {} hosts: a topology has 2 to {MOST}", hosts.len())))
        }
    }

    fn link(&self, value: &Spanned<DeValue<'_>>, hosts: &[String], mut config: Config) -> Result<Link, Error> {
        let table =
            value.get_ref().as_table().ok_or_else(|| self.wrong(value.span(), "a link is a table: write [[link]]"))?;
        let mut between = None;
        let mut changes = <[Change; 2]>::default();
        let mut schedule = None;
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match name {
                "between" => {
                    between = Some(self.between(value, hosts)?);
                    continue;
                }
                "recorded" => {
                    config.recorded = self.recorded(value)?;
                    continue;
                }
                "schedule" => {
                    schedule = Some(value);
                    continue;
                }
                _ => {}
            }
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.as_str().to_owned(),
                DeValue::Float(number) => number.as_str().to_owned(),
                _ => return Err(self.wrong(value.span(), format!("{name} is text, such as \"5ms\""))),
            };
            if name == "mtu" {
                config.mtu = quantity::parse::bytes_u32(&text)
                    .map_err(|e| self.wrong(value.span(), format!("mtu {text:?}: {e}")))?;
                continue;
            }
            let setting = Setting::named(name).ok_or_else(|| {
                let known =
                    ["between", "mtu", "recorded", "schedule"].into_iter().chain(SETTINGS.iter().map(|s| s.name));
                self.wrong(
                    key.span(),
                    format!(
                        "a link has no setting {name:?}: did you mean {:?}?",
                        quantity::nearest(name, known).unwrap_or_default()
                    ),
                )
            })?;
            set_each(&mut changes, setting, &text)
                .map_err(|e| self.wrong(value.span(), format!("{name} {text:?}: {e}")))?;
        }
        let between = between.ok_or_else(|| {
            self.wrong(value.span(), "the link says not between which hosts it is: write between = [\"a\", \"b\"]")
        })?;
        config.a_to_b = changes[0].applied(&config.a_to_b).map_err(|e| self.wrong(value.span(), e.to_string()))?;
        config.b_to_a = changes[1].applied(&config.b_to_a).map_err(|e| self.wrong(value.span(), e.to_string()))?;
        let abouts = config.recorded.each_ref().map(|recording| recording.as_ref().map(|r| r.about.clone()));
        [config.a_to_b.recorded, config.b_to_a.recorded] = abouts;
        config.check().map_err(|e| self.wrong(value.span(), e.to_string()))?;
        if let Some(schedule) = schedule {
            let (name, text) = self.named_file(schedule, "schedule")?;
            config.schedule = Schedule::read(&name, &text, [&config.a_to_b, &config.b_to_a], config.mtu)?;
        }
        Ok(Link { between, config })
    }

    /// One recorded link for both directions, or a list of one for each.
    fn recorded(&self, value: &Spanned<DeValue<'_>>) -> Result<[Option<Arc<Recording>>; 2], Error> {
        let read = |value| {
            let (name, text) = self.named_file(value, "recorded")?;
            Ok::<_, Error>(Some(Arc::new(Recording::read(&name, &text)?)))
        };
        let Some(list) = value.get_ref().as_array() else {
            let recording = read(value)?;
            return Ok([recording.clone(), recording]);
        };
        match list.iter().collect::<Vec<_>>()[..] {
            [there, back] => Ok([read(there)?, read(back)?]),
            _ => Err(self.wrong(
                value.span(),
                "recorded is one file for both directions, or a list of two: from the first host to the second, and back",
            )),
        }
    }

    /// The name and the text of a file that a link names, from the topology's folder.
    fn named_file(&self, value: &Spanned<DeValue<'_>>, what: &str) -> Result<(String, String), Error> {
        let name = value
            .get_ref()
            .as_str()
            .ok_or_else(|| self.wrong(value.span(), format!("{what} is the name of a file, as text")))?;
        let path = Path::new(self.file).parent().unwrap_or(Path::new("")).join(name);
        let text = std::fs::read_to_string(&path)
            .map_err(|e| self.wrong(value.span(), format!("{what} {}: {e}", path.display())))?;
        Ok((path.display().to_string(), text))
    }

    fn between(&self, value: &Spanned<DeValue<'_>>, hosts: &[String]) -> Result<[usize; 2], Error> {
        let wrong = || self.wrong(value.span(), "between names two hosts, such as [\"a\", \"b\"]");
        let list = value.get_ref().as_array().ok_or_else(wrong)?;
        let mut ends = Vec::with_capacity(2);
        for end in list {
            let name = end.get_ref().as_str().ok_or_else(wrong)?;
            let place = hosts.iter().position(|host| host == name).ok_or_else(|| {
                let near = quantity::nearest(name, hosts.iter().map(String::as_str)).unwrap_or_default();
                self.wrong(end.span(), format!("there is no host {name:?}: did you mean {near:?}?"))
            })?;
            ends.push(place);
        }
        match ends[..] {
            [a, b] if a != b => Ok([a, b]),
            _ => Err(wrong()),
        }
    }
}

fn hosts_span(table: &DeTable<'_>) -> Range<usize> {
    table.iter().find(|(key, _)| key.get_ref() == "hosts").map_or(0..0, |(_, value)| value.span())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "hosts = [\"client\", \"router\", \"server\"]\n[[link]]\nbetween = [\"client\", \"router\"]\ndelay = \"5ms\"\nrate = \"100mbit/10mbit\"\n\n[[link]]\nbetween = [\"router\", \"server\"]\nmtu = 1400\n";

    #[test]
    fn a_line_is_read_and_routed() {
        let line = Topology::read("line.toml", LINE, 1).unwrap();
        assert_eq!(line.hosts, ["client", "router", "server"]);
        let rates = [&line.links[0].config.a_to_b, &line.links[0].config.b_to_a].map(|d| d.rate.unwrap().bits());
        assert_eq!((rates, line.links[1].config.mtu), ([100_000_000, 10_000_000], 1_400));
        assert_eq!((line.first_link(0, 1), line.first_link(2, 0)), (Some(0), Some(1)));
    }

    #[test]
    fn a_link_is_recorded_and_follows_a_schedule() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("net.toml");
        let read = |link: &str| {
            let text = format!("hosts = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\n{link}\n");
            Topology::read(&file.display().to_string(), &text, 1).map_err(|e| e.to_string())
        };
        std::fs::write(folder.path().join("slow"), "10\n").unwrap();
        std::fs::write(folder.path().join("fast"), "1\n").unwrap();
        std::fs::write(folder.path().join("steps.csv"), "time,delay,queue\n0,5ms,\n2s,9ms/,20ms\n").unwrap();
        let topology = read("recorded = [\"slow\", \"fast\"]\nschedule = \"steps.csv\"\nqueue = \"50ms\"").unwrap();
        let config = &topology.links[0].config;
        let rates = [&config.a_to_b, &config.b_to_a].map(|d| d.mean_rate().unwrap().bits());
        assert_eq!((rates, config.schedule.steps().len()), ([1_230_400, 12_304_000], 2));
        let both = read("recorded = \"slow\"").unwrap();
        assert_eq!(both.links[0].config.recorded[0], both.links[0].config.recorded[1]);
        for (link, at, word) in [
            ("recorded = \"slwo\"", "net.toml, line 4: ", "slwo"),
            ("recorded = [\"slow\"]", "net.toml, line 4: ", "list of two"),
            ("recorded = 5", "net.toml, line 4: ", "name of a file"),
            ("recorded = \"slow\"\nrate = \"1mbit\"", "net.toml, line 2: ", "rate"),
            ("recorded = \"steps.csv\"", "steps.csv, line 1: ", "milliseconds"),
            // A queue needs a rate or a recorded link.
            ("schedule = \"steps.csv\"", "steps.csv, line 3: ", "rate"),
            ("scedule = \"steps.csv\"", "net.toml, line 4: ", "did you mean \"schedule\""),
        ] {
            let said = read(link).unwrap_err();
            assert!(said.contains(at) && said.contains(word), "{link}: {said}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_line_and_nearest_name() {
        for (from, to, line, word) in [
            ("\"router\", \"server\"]\nmtu", "\"ruoter\", \"server\"]\nmtu", 8, "did you mean \"router\""),
            ("delay = \"5ms\"", "dealy = \"5ms\"", 4, "did you mean \"delay\""),
            ("delay = \"5ms\"", "delay = \"5 parsecs\"", 4, "delay"),
            ("delay = \"5ms\"", "queue = \"5ms\"\nrate = \"none\"", 2, "rate"),
            ("hosts", "host", 1, "did you mean \"hosts\""),
            ("\"server\"]\n[[link]]", "\"server\", \"server\"]\n[[link]]", 1, "twice"),
            ("\"server\"]\n[[link]]", "\"server\", \"alone\"]\n[[link]]", 1, "alone"),
            ("mtu = 1400", "mtu = 10", 7, "mtu"),
            ("between = [\"client\", \"router\"]", "between = [\"client\"]", 3, "two hosts"),
            ("between = [\"client\", \"router\"]\n", "", 2, "between"),
            ("[[link]]", "[[link]", 2, ""),
        ] {
            let text = LINE.replacen(from, to, 1).replace("rate = \"none\"\nrate = \"100mbit/10mbit\"\n", "");
            let said = Topology::read("net.toml", &text, 1).unwrap_err().to_string();
            assert!(said.starts_with(&format!("net.toml, line {line}: ")) && said.contains(word), "{from:?}: {said}");
        }
    }
}
