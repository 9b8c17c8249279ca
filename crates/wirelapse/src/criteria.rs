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
    /// Only connections of sockets made in this cgroup or below it; may be repeated
    #[arg(long, value_name = "PATH", group = "criteria", value_hint = clap::ValueHint::DirPath)]
    pub cgroup: Vec<PathBuf>,
    /// Only connections of this systemd unit: nginx means nginx.service; may be repeated
    #[arg(long, value_name = "UNIT", group = "criteria", value_parser = clap::builder::NonEmptyStringValueParser::new(), add = ArgValueCandidates::new(values::units))]
    pub unit: Vec<String>,
    /// Only connections of this container or pod, by its name (Docker, Podman, containerd,
    /// Kubernetes), id or pod UID; 8 digits of an id are enough; may be repeated
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

    /// Finds units, containers and hosts; `all` where nothing narrows the target.
    ///
    /// # Errors
    /// [`BadInput`] where one of them is not there.
    pub fn aim(&self, all: bool) -> anyhow::Result<Aimed> {
        let mut folders = self.cgroup.clone();
        let mut places: Vec<String> = self.cgroup.iter().map(|path| format!("cgroup {}", path.display())).collect();
        if !self.unit.is_empty() || !self.container.is_empty() {
            let mount = who::mount()
                .ok_or_else(|| BadInput("--unit and --container need cgroup v2, which is not mounted".into()))?;
            for unit in &self.unit {
                let name = who::unit_name(unit);
                folders.extend(there(who::unit_cgroups(&mount, unit), || {
                    format!("no unit {name} runs here: `systemctl list-units` lists those that do")
                })?);
                places.push(format!("unit {name}"));
            }
            for name in &self.container {
                folders.extend(there(who::container_cgroups(&mount, Path::new("/"), name), || {
                    format!(
                        "no container or pod {name} runs here: name one as `docker ps`, `podman ps` or `crictl ps` lists it, or by the \
                         first 8 digits of its id or more"
                    )
                })?);
                places.push(format!("container {name}"));
            }
        }
        if folders.len() > Target::CGROUPS {
            let text = format!(
                "{} cgroups are named, and at most {} can be: name one above them",
                folders.len(),
                Target::CGROUPS
            );
            return Err(BadInput(text).into());
        }
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
            cgroups: folders,
            ports: self.port.clone(),
            peers,
            all,
        };
        Ok(Aimed { target, words: words.into_iter().flatten().collect() })
    }
}

/// What was found, or why that is nothing.
fn there(found: Vec<PathBuf>, missing: impl FnOnce() -> String) -> Result<Vec<PathBuf>, BadInput> {
    if found.is_empty() { Err(BadInput(missing())) } else { Ok(found) }
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
