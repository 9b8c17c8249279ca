//! A running topology: its hosts, and a path for each link.

use std::net::IpAddr;

use machine::netlink::Netlink;
use serde::{Deserialize, Serialize};

use crate::anchor::{Anchor, Holder, HostFiles};
use crate::end::Side;
use crate::end::{Address, End};
use crate::path::BuiltIn;
use crate::topology::Topology;
use crate::uplink::Uplink;
use crate::{Error, Path, PathReport, links, tap};

/// Hosts joined by the links of a topology. Dropping it takes everything down, as a [`crate::Lab`].
#[derive(Debug)]
pub struct Network {
    // Declared first, dropped first: the paths' threads end before the namespaces do.
    paths: Vec<Path>,
    topology: Topology,
    _uplink: Option<Uplink>,
    anchor: Anchor,
}

/// A link and what it did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkReport {
    /// The hosts: `a_to_b` is from the first to the second.
    pub between: [String; 2],
    /// Its path.
    pub path: PathReport,
}

/// A host and its addresses.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostReport {
    /// Its name.
    pub name: String,
    /// Its interfaces, with the addresses of each.
    pub interfaces: Vec<(String, IpAddr, IpAddr)>,
}

impl Network {
    /// Makes the hosts and links of a topology, each link by the built-in path; with `uplink` each
    /// host reaches the outside (TCP and DNS).
    ///
    /// # Errors
    /// As [`crate::Lab::up`].
    pub fn up(topology: Topology, uplink: bool) -> Result<Self, Error> {
        if let Some(reason) = tap::missing() {
            return Err(Error::Backend { backend: "built-in", reason });
        }
        let ends = addresses(&topology);
        // A host is known by the address of its first link.
        let mut names = Vec::new();
        for (number, name) in topology.hosts.iter().enumerate() {
            if let Some((_, address)) = ends.iter().find(|(host, _)| *host == number) {
                names.push((IpAddr::V4(address.ipv4()), name.clone()));
                names.push((IpAddr::V6(address.ipv6()), name.clone()));
            }
        }
        let files: Vec<HostFiles> = {
            let resolver = uplink.then(crate::uplink::resolver_file);
            topology.hosts.iter().map(|name| HostFiles::new(name, &names, resolver.clone())).collect()
        };
        let anchor = Anchor::start(&files)?;
        let mut paths = Vec::with_capacity(topology.links.len());
        for (number, link) in topology.links.iter().enumerate() {
            let of = |side: Side| {
                let (host, address) = ends[number * 2 + side as usize];
                End { holder: &anchor.hosts[host], address }
            };
            let built = BuiltIn::up(&link.config, [of(Side::A), of(Side::B)])?;
            paths.push(Path::new(&link.config, Box::new(built), "a link of a topology".into()));
        }
        for (number, name) in topology.hosts.iter().enumerate() {
            let routed =
                links::inside(&anchor.hosts[number].net, || route(&topology, &ends, number)).and_then(|done| done);
            routed.map_err(Error::system(format!("make the routes of host {name}")))?;
        }
        let uplink = crate::uplink(&anchor, uplink)?;
        Ok(Self { paths, topology, _uplink: uplink, anchor })
    }

    /// Whether the processes that hold its namespaces are all alive.
    ///
    /// # Errors
    /// [`Error::Gone`] where one of them was killed.
    pub fn check(&self) -> Result<(), Error> {
        self.anchor.check()
    }

    /// Each link, with what it was asked to be and did.
    pub fn links(&self) -> Vec<LinkReport> {
        let named = |ends: [usize; 2]| ends.map(|end| self.topology.hosts[end].clone());
        let paths = self.topology.links.iter().zip(&self.paths);
        paths.map(|(link, path)| LinkReport { between: named(link.between), path: path.report() }).collect()
    }

    /// Each host with its addresses.
    pub fn hosts(&self) -> Vec<HostReport> {
        let ends = addresses(&self.topology);
        let of = |number: usize| {
            let own = ends.iter().filter(|(host, _)| *host == number);
            own.map(|(_, a)| (a.interface(), IpAddr::V4(a.ipv4()), IpAddr::V6(a.ipv6()))).collect()
        };
        let names = self.topology.hosts.iter().enumerate();
        names.map(|(number, name)| HostReport { name: name.clone(), interfaces: of(number) }).collect()
    }

    /// The path between two hosts, and whether its first direction is from the second of them.
    pub(crate) fn path(&self, between: &[String; 2]) -> Option<(&Path, bool)> {
        let place = |name: &String| self.topology.hosts.iter().position(|host| host == name);
        let wanted = [place(&between[0])?, place(&between[1])?];
        let turned = [wanted[1], wanted[0]];
        let number = self.topology.links.iter().position(|link| link.between == wanted || link.between == turned)?;
        Some((&self.paths[number], self.topology.links[number].between == turned))
    }

    pub(crate) fn holder(&self, name: &str) -> Option<&Holder> {
        let place = self.topology.hosts.iter().position(|host| host == name)?;
        self.anchor.hosts.get(place)
    }
}

/// The ends of the links in their order, first end first, each with its host. Interfaces of a host
/// are numbered in that order.
fn addresses(topology: &Topology) -> Vec<(usize, Address)> {
    let mut interfaces = vec![0u8; topology.hosts.len()];
    let mut ends = Vec::with_capacity(topology.links.len() * 2);
    for (link, number) in topology.links.iter().zip(0u8..) {
        for (side, host) in Side::ALL.into_iter().zip(link.between) {
            ends.push((host, Address { link: number, side, interface: interfaces[host] }));
            interfaces[host] += 1;
        }
    }
    ends
}

/// Routes to all links that a host is not joined to, and forwarding where it stands between links.
/// Runs inside the host.
fn route(topology: &Topology, ends: &[(usize, Address)], host: usize) -> std::io::Result<()> {
    let own: Vec<Address> = ends.iter().filter(|(of, _)| *of == host).map(|(_, address)| *address).collect();
    if own.len() > 1 {
        for file in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            std::fs::write(format!("/proc/sys/net/{file}"), "1")?;
        }
    }
    let mut netlink = Netlink::open()?;
    for number in 0..topology.links.len() {
        if topology.links[number].between.contains(&host) {
            continue;
        }
        let Some(first) = topology.first_link(host, number) else { continue };
        let Some(out) = own.iter().find(|address| usize::from(address.link) == first) else { continue };
        let next = Address { side: out.side.other(), ..*out };
        let to = ends[number * 2].1;
        let interface = links::index_of(&std::ffi::CString::new(out.interface())?)?;
        links::add_route(&mut netlink, interface, (IpAddr::V4(to.ipv4()), 24), IpAddr::V4(next.ipv4()))?;
        links::add_route(&mut netlink, interface, (IpAddr::V6(to.ipv6()), 64), IpAddr::V6(next.ipv6()))?;
    }
    Ok(())
}
