//! Which connections: the options by which a target is named, and finding what they name.

use std::ffi::OsString;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};

use clap_complete::engine::ArgValueCandidates;
use machine::who;
use trace::{IpNet, PortRange, Target};

use crate::commands::completions::values;
use crate::exit::BadInput;
use crate::options::heading;

/// The options. Those of different kinds must all hold; of one kind, any. A cgroup, a unit and a
/// container are one kind.
#[derive(Default, clap::Args)]
#[command(next_help_heading = heading::WHAT)]
pub struct Criteria {
    /// Only connections of this process and its children; may be repeated
    #[arg(short, long = "pid", value_name = "PID", group = "criteria")]
    pub pid: Vec<u32>,
    /// Only connections of processes with this name (as `ps -o comm` shows it), also those that
    /// start later; may be repeated
    #[arg(long, value_name = "NAME", group = "criteria", value_parser = clap::builder::NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(values::programs))]
    pub comm: Vec<String>,
    /// Only connections of sockets made in this cgroup or below it, also when it is made anew; *
    /// and ? stand for characters of a name; may be repeated
    #[arg(long, value_name = "PATH", group = "criteria", value_hint = clap::ValueHint::DirPath)]
    pub cgroup: Vec<PathBuf>,
    /// Only connections of this systemd unit, also when it restarts: nginx means nginx.service, and
    /// 'app-*' every unit so named; may be repeated
    #[arg(long, value_name = "UNIT", group = "criteria", value_parser = clap::builder::NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(values::units))]
    pub unit: Vec<String>,
    /// Only connections of this container or pod, by its name (Docker, Podman, containerd,
    /// Kubernetes), id or pod UID, also when it restarts; 8 digits of an id are enough; may be
    /// repeated
    #[arg(long, value_name = "NAME", group = "criteria", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub container: Vec<String>,
    /// Only connections with one of these local or remote ports: 443 or 80,443,8000-8100; may be
    /// repeated
    #[arg(long, value_name = "PORTS", group = "criteria", value_delimiter = ',')]
    pub port: Vec<PortRange>,
    /// Only connections to this address, network or host name (all its addresses); may be repeated
    #[arg(long, value_name = "PEER", group = "criteria")]
    pub peer: Vec<String>,
}

/// A target that was found, and how people call it.
pub struct Aimed {
    /// As the library takes it.
    pub target: Target,
    /// Its criteria in words: those of one kind with "or".
    pub words: Vec<String>,
}

impl Criteria {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pid.is_empty()
            && self.comm.is_empty()
            && self.cgroup.is_empty()
            && self.unit.is_empty()
            && self.container.is_empty()
            && self.port.is_empty()
            && self.peer.is_empty()
    }

    /// The options as they are written, for another command that takes them.
    pub fn options(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        let mut add = |name: &str, value: OsString| words.extend([OsString::from(name), value]);
        self.pid.iter().for_each(|pid| add("--pid", pid.to_string().into()));
        self.comm.iter().for_each(|name| add("--comm", name.into()));
        self.cgroup.iter().for_each(|path| add("--cgroup", path.into()));
        self.unit.iter().for_each(|unit| add("--unit", unit.into()));
        self.container.iter().for_each(|name| add("--container", name.into()));
        self.port.iter().for_each(|ports| add("--port", ports.to_string().into()));
        self.peer.iter().for_each(|peer| add("--peer", peer.into()));
        words
    }

    /// Finds what is named; `all` where nothing narrows the target. Cgroups, units and containers
    /// are followed as they come and go.
    ///
    /// # Errors
    /// [`BadInput`] and [`trace::Error`] where one of them is not there.
    pub fn aim(&self, all: bool) -> anyhow::Result<Aimed> {
        let aimed = self.aim_once_there(all)?;
        aimed.target.check()?;
        Ok(aimed)
    }

    /// The same for who waits for cgroups, units and containers that are not there yet.
    ///
    /// # Errors
    /// [`BadInput`] where a peer is not there.
    pub fn aim_once_there(&self, all: bool) -> anyhow::Result<Aimed> {
        let cgroups = self.cgroup.iter().map(|path| format!("cgroup {}", path.display()));
        let units = self.unit.iter().map(|unit| format!("unit {}", who::unit_name(unit)));
        let containers = self.container.iter().map(|name| format!("container {name}"));
        let places: Vec<String> = cgroups.chain(units).chain(containers).collect();
        let mut peers = Vec::new();
        for peer in &self.peer {
            peers.extend(addresses(peer)?);
        }
        let words = [
            any("process", &self.pid),
            any("program", &self.comm),
            (!places.is_empty()).then(|| places.join(" or ")),
            any("port", &self.port),
            any("peer", &self.peer),
        ];
        let target = Target {
            pids: self.pid.clone(),
            comms: self.comm.clone(),
            cgroups: self.cgroup.clone(),
            units: self.unit.clone(),
            containers: self.container.clone(),
            ports: self.port.clone(),
            peers,
            all,
            ..Target::default()
        };
        Ok(Aimed { target, words: words.into_iter().flatten().collect() })
    }
}

/// What following cgroups reads while a trace is at work: the hierarchy, and the files that name
/// containers, below `root`.
pub fn followed(target: &Target, root: &Path) -> Vec<PathBuf> {
    let mount = who::mount().filter(|_| target.by_cgroup());
    let names = who::Names::FOLDERS.iter().map(|folder| root.join(folder));
    mount.into_iter().chain(names.filter(|_| !target.containers.is_empty())).collect()
}

/// The values of one kind, with "or".
fn any<T: ToString>(kind: &str, values: &[T]) -> Option<String> {
    let values: Vec<String> = values.iter().map(T::to_string).collect();
    (!values.is_empty()).then(|| format!("{kind} {}", values.join(" or ")))
}

/// The addresses or the network that a peer is named by.
fn addresses(peer: &str) -> anyhow::Result<Vec<IpNet>> {
    let wrong = match peer.parse::<IpNet>() {
        Ok(net) => return Ok(vec![net]),
        Err(wrong) => wrong,
    };
    // What is written as an address or a network and is none is no host name.
    if peer.contains(['/', ':']) || peer.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(BadInput(wrong.to_string()).into());
    }
    let found = (peer, 0).to_socket_addrs();
    let found = found.map_err(|error| BadInput(format!("--peer {peer}: no address of this host is known: {error}")))?;
    let mut all: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    all.sort();
    all.dedup();
    Ok(all.into_iter().map(IpNet::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_networks_addresses_and_hosts() {
        let of = |peer: &str| addresses(peer).map(|all| all.iter().map(IpNet::to_string).collect::<Vec<_>>());
        assert_eq!(of("10.0.0.0/8").unwrap(), ["10.0.0.0/8"]);
        assert_eq!(of("::1").unwrap(), ["::1/128"]);
        assert!(of("localhost").unwrap().iter().any(|net| net == "127.0.0.1/32" || net == "::1/128"));
        for bad in ["10.0.0.0/33", "10.0.0", "", "1:2", "no-such-host.invalid"] {
            assert!(of(bad).is_err_and(|error| error.is::<BadInput>()), "{bad}");
        }
    }
}
