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
//! A host with more than one link forwards between them; routes are the shortest by links. Settings
//! are those of the command line ([`SETTINGS`]), `mtu`, `recorded` (one file for both directions,
//! or a list of one for each) and `schedule`. Files are named from the topology's folder.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use settings::{Table, Value, Wrong};

use crate::Error;
use crate::config::Config;
use crate::recorded::Recording;
use crate::schedule::Schedule;
use crate::settings::{Change, SETTINGS, set_each};

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
    /// Their places among the hosts; the first direction of the path is from the first to the
    /// second.
    pub between: [usize; 2],
    /// Its path.
    pub config: Config,
}

impl Topology {
    /// Reads the text of a file called `file`, and the recordings and schedules that it names; its
    /// paths draw from `seed` on.
    ///
    /// # Errors
    /// [`Error::Topology`] with the place that is wrong, and the nearest name where one is not
    /// known. [`Error::File`] where a file that a link names cannot be followed.
    pub fn read(file: &str, text: &str, seed: u64) -> Result<Self, Error> {
        settings::read(file, text, "a topology", |keys| topology(keys, seed))
    }

    /// For each host and link to which it is not joined: by which of its links the shortest way
    /// begins. `None` where there is no way.
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

fn topology(keys: &mut Table<'_>, seed: u64) -> Result<Topology, Error> {
    let hosts = keys.need("hosts", "there are no hosts: write hosts = [\"a\", \"b\"]")?;
    let hosts_at = hosts.at();
    let mut topology = Topology { hosts: names(hosts)?, links: Vec::new() };
    let links = keys.need("link", "there is no link: write [[link]] and between = [\"a\", \"b\"]")?;
    for (value, number) in links.list("a link is a table: write [[link]]")?.into_iter().zip(0_u64..) {
        if topology.links.len() == MOST {
            return Err(value.wrong(format!("there are more than {MOST} links")).into());
        }
        let config = Config { seed: seed.wrapping_add(number), ..Config::default() };
        let link = value.table("[[link]]", |keys| link(keys, &topology.hosts, config))?;
        topology.links.push(link);
    }
    // Each host is joined to the first.
    for (number, name) in topology.hosts.iter().enumerate().skip(1) {
        let joined = topology.links.iter().position(|link| link.between.contains(&number));
        let reached = joined
            .is_some_and(|link| topology.links[link].between.contains(&0) || topology.first_link(0, link).is_some());
        if !reached {
            let first = &topology.hosts[0];
            return Err(hosts_at.wrong(format!("no link joins host {name:?} with host {first:?}")).into());
        }
    }
    Ok(topology)
}

/// The names of the hosts.
fn names(value: Value<'_>) -> Result<Vec<String>, Wrong> {
    let at = value.at();
    let mut hosts: Vec<String> = Vec::new();
    for host in value.list("hosts is a list of names, such as [\"a\", \"b\"]")? {
        let name = host.text()?;
        let valid = (1..=15).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !name.starts_with('-');
        if !valid {
            return Err(host.wrong(format!("{name:?} is not a host's name: 1 to 15 letters, digits and hyphens")));
        }
        if hosts.contains(&name) {
            return Err(host.wrong(format!("host {name:?} is there twice")));
        }
        hosts.push(name);
    }
    match hosts.len() {
        2..=MOST => Ok(hosts),
        other => Err(at.wrong(format!("there are {other} hosts: a topology has 2 to {MOST}"))),
    }
}

fn link(keys: &mut Table<'_>, hosts: &[String], mut config: Config) -> Result<Link, Error> {
    if let Some(value) = keys.take("recorded") {
        config.recorded = recorded(value)?;
    }
    let schedule = keys.take("schedule");
    if let Some(value) = keys.take("mtu") {
        config.mtu = value.parsed(quantity::parse::bytes_u32)?;
    }
    let mut changes = <[Change; 2]>::default();
    for setting in &SETTINGS {
        if let Some(value) = keys.take(setting.name) {
            value.parsed(|text| set_each(&mut changes, setting, text))?;
        }
    }
    let between = keys.need("between", "the link has no ends: write between = [\"a\", \"b\"]")?;
    let between = ends(between, hosts)?;
    let at = keys.at();
    let fits = |error: Error| at.wrong(error.to_string());
    config.a_to_b = changes[0].applied(&config.a_to_b).map_err(fits)?;
    config.b_to_a = changes[1].applied(&config.b_to_a).map_err(fits)?;
    let abouts = config.recorded.each_ref().map(|recording| recording.as_ref().map(|r| r.about.clone()));
    [config.a_to_b.recorded, config.b_to_a.recorded] = abouts;
    config.check().map_err(fits)?;
    if let Some(schedule) = schedule {
        let (name, text) = named_file(&schedule)?;
        config.schedule = Schedule::read(&name, &text, [&config.a_to_b, &config.b_to_a], config.mtu)?;
    }
    Ok(Link { between, config })
}

/// One recorded link for both directions, or a list of one for each.
fn recorded(value: Value<'_>) -> Result<[Option<Arc<Recording>>; 2], Error> {
    let at = value.at();
    let single = value.kind() != "array";
    let mut recordings = Vec::new();
    for value in value.list_or_one() {
        let (name, text) = named_file(&value)?;
        recordings.push(Some(Arc::new(Recording::read(&name, &text)?)));
    }
    match recordings.try_into() {
        Ok(both) => Ok(both),
        Err(one) if single => Ok([one[0].clone(), one[0].clone()]),
        Err(_) => Err(at
            .wrong(
                "recorded is one file for both directions, or a list of two: from the first host to the second, and back",
            )
            .into()),
    }
}

/// The name and the text of a file that a link names, from the topology's folder.
fn named_file(value: &Value<'_>) -> Result<(String, String), Wrong> {
    let path = Path::new(value.at().file()).parent().unwrap_or(Path::new("")).join(value.name()?);
    let text =
        std::fs::read_to_string(&path).map_err(|e| value.wrong(format!("cannot read {}: {e}", path.display())))?;
    Ok((path.display().to_string(), text))
}

/// The places of two hosts among all.
fn ends(value: Value<'_>, hosts: &[String]) -> Result<[usize; 2], Wrong> {
    const TWO: &str = "between names two hosts, such as [\"a\", \"b\"]";
    let at = value.at();
    let mut ends = Vec::with_capacity(2);
    for end in value.list(TWO)? {
        let name = end.text()?;
        ends.push(hosts.iter().position(|host| *host == name).ok_or_else(|| {
            let near = quantity::nearest(&name, hosts.iter().map(String::as_str)).unwrap_or_default();
            end.wrong(format!("there is no host {name:?}: did you mean `{near}`?"))
        })?);
    }
    match ends[..] {
        [a, b] if a != b => Ok([a, b]),
        _ => Err(at.wrong(TWO)),
    }
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
            ("recorded = \"slwo\"", "net.toml:4:", "slwo"),
            ("recorded = [\"slow\"]", "net.toml:4:", "list of two"),
            ("recorded = 5", "net.toml:4:", "No such file"),
            ("recorded = \"slow\"\nrate = \"1mbit\"", "net.toml:2:", "rate"),
            ("recorded = \"steps.csv\"", "steps.csv:1: ", "milliseconds"),
            // A queue needs a rate or a recorded link.
            ("schedule = \"steps.csv\"", "steps.csv:3: ", "rate"),
            ("scedule = \"steps.csv\"", "net.toml:4:", "did you mean `schedule`"),
        ] {
            let said = read(link).unwrap_err();
            assert!(said.contains(at) && said.contains(word), "{link}: {said}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_line_and_nearest_name() {
        for (from, to, line, word) in [
            ("\"router\", \"server\"]\nmtu", "\"ruoter\", \"server\"]\nmtu", 8, "did you mean `router`"),
            ("delay = \"5ms\"", "dealy = \"5ms\"", 4, "did you mean `delay`"),
            ("delay = \"5ms\"", "delay = \"5 parsecs\"", 4, "5 parsecs"),
            ("delay = \"5ms\"", "queue = \"5ms\"\nrate = \"none\"", 2, "rate"),
            ("hosts", "host", 1, "did you mean `hosts`"),
            ("\"server\"]\n[[link]]", "\"server\", \"server\"]\n[[link]]", 1, "twice"),
            ("\"server\"]\n[[link]]", "\"server\", \"alone\"]\n[[link]]", 1, "alone"),
            ("mtu = 1400", "mtu = 10", 7, "mtu"),
            ("between = [\"client\", \"router\"]", "between = [\"client\"]", 3, "two hosts"),
            ("between = [\"client\", \"router\"]\n", "", 2, "between"),
            ("[[link]]", "[[link]", 2, ""),
        ] {
            let text = LINE.replacen(from, to, 1).replace("rate = \"none\"\nrate = \"100mbit/10mbit\"\n", "");
            let said = Topology::read("net.toml", &text, 1).unwrap_err().to_string();
            assert!(said.starts_with(&format!("net.toml:{line}:")) && said.contains(word), "{from:?}: {said}");
        }
    }
}
