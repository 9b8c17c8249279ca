//! Where a trial runs: in its own lab, or between this host and a server on another one.

use std::ffi::{CStr, CString};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use lab::{Lab, PathReport, Side};
use machine::device::{Offload, set_offload};
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use traffic::tls::Trusted;
use traffic::{Server, ServerConfig};

use crate::Error;
use crate::named::Sysctl;
use crate::outcome::Check;
use crate::setting::Setup;
use crate::this_host::ThisHost;

/// Where the trials of a study run.
#[derive(Debug)]
pub enum Ground {
    /// Each in its own lab.
    Lab,
    /// From this host to a server that somebody has started on another.
    Peer(Peer),
}

/// A `wirelapse serve` on another host.
#[derive(Debug)]
pub struct Peer {
    /// All addresses that its name has; the first that a trial's address family allows is used.
    pub addresses: Vec<SocketAddr>,
    /// Its token, where it wants one.
    pub token: Option<String>,
    /// How it is recognised, where it is asked within TLS.
    pub tls: Option<Trusted>,
    /// This host's sysctls, where the study may change them.
    pub this_host: Option<ThisHost>,
}

/// The two ends of one trial, ready.
pub(crate) struct Ends {
    /// Where the server listens.
    pub server: SocketAddr,
    /// Its token.
    pub token: Option<String>,
    /// How it is recognised within TLS.
    pub tls: Option<Trusted>,
    /// The client's device that leads there.
    pub interface: CString,
    /// The lab with the client's side and the server in it, where the trial has one.
    own: Option<(Lab, Side, Server)>,
}

impl Ends {
    /// Makes the ends as `setup` wants them, and adds to `held` what was checked.
    pub fn up(setup: &Setup, ground: &Ground, held: &mut Vec<Check>) -> Result<Self, Error> {
        match ground {
            Ground::Lab => Self::in_lab(setup, held),
            Ground::Peer(peer) => Self::to_peer(setup, peer, held),
        }
    }

    fn in_lab(setup: &Setup, held: &mut Vec<Check>) -> Result<Self, Error> {
        let lab = Lab::up(&setup.path)?;
        for (side, sysctl, value) in &setup.sysctls {
            let (host, name) = (lab.host(*side), sysctl.name());
            host.set_sysctl(name, value)?;
            let read = host.sysctl(name)?;
            took(sysctl, value, &read, &format!("host {}", side.name()))?;
            held.push(Check::of(format!("{}.{name} reads {read}", side.name())));
        }
        if let Some(on) = setup.offloads {
            for side in Side::ALL {
                lab.host(side)
                    .run(|| offloads(c"eth0", on))?
                    .map_err(|source| Error::System { step: "set the offloads of a host", source })?;
            }
        }
        let listen = SocketAddr::new(setup.server_ip(), 0);
        let server = lab.host(Side::B).run(|| Server::start(ServerConfig::new(listen)))??;
        let (client, interface) = if setup.loopback { (Side::B, c"lo") } else { (Side::A, c"eth0") };
        Ok(Self {
            server: server.local_addr(),
            token: None,
            tls: None,
            interface: interface.to_owned(),
            own: Some((lab, client, server)),
        })
    }

    fn to_peer(setup: &Setup, peer: &Peer, held: &mut Vec<Check>) -> Result<Self, Error> {
        let wanted = |a: &&SocketAddr| setup.ipv6.is_none_or(|v6| a.is_ipv6() == v6);
        let server = *peer.addresses.iter().find(wanted).ok_or_else(|| {
            let family = if setup.ipv6 == Some(true) { "IPv6" } else { "IPv4" };
            Error::Setting(format!("the server has no {family} address: omit `family`, or give another --host"))
        })?;
        for (side, sysctl, value) in &setup.sysctls {
            // What is asked of both hosts is set on this one: the other is not ours.
            if let (Side::A, Some(host)) = (side, &peer.this_host) {
                let read = host.set(sysctl, value)?;
                took(sysctl, value, &read, "this host")?;
                held.push(Check::of(format!("this host's {sysctl} reads {read}")));
            }
        }
        let interface = interface_to(server)
            .map_err(|source| Error::System { step: "find the device that leads to the server", source })?;
        Ok(Self { server, token: peer.token.clone(), tls: peer.tls.clone(), interface, own: None })
    }

    /// Runs `task` where the client is.
    pub fn run<T: Send>(&self, task: impl FnOnce() -> T + Send) -> Result<T, Error> {
        match &self.own {
            Some((lab, client, _)) => Ok(lab.host(*client).run(task)?),
            None => Ok(task()),
        }
    }

    /// Ends it; gives the path's report, where it is the lab's.
    pub fn down(self, loopback: bool) -> Option<PathReport> {
        let (lab, _, server) = self.own?;
        server.stop();
        (!loopback).then(|| lab.path().report())
    }
}

fn took(sysctl: &Sysctl, value: &str, read: &str, place: &str) -> Result<(), Error> {
    if read.split_whitespace().eq(value.split_whitespace()) {
        return Ok(());
    }
    Err(Error::Setting(format!("{sysctl} was set to {value} in {place} and reads {read}")))
}

/// Turns TSO, GSO and GRO of `interface` on or off, in the network namespace of the calling thread.
fn offloads(interface: &CStr, on: bool) -> io::Result<()> {
    [Offload::Tso, Offload::Gso, Offload::Gro].into_iter().try_for_each(|offload| set_offload(interface, offload, on))
}

/// The device with the address that this host uses towards `peer`.
fn interface_to(peer: SocketAddr) -> io::Result<CString> {
    let any: SocketAddr = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().map_err(io::Error::other)?;
    let socket = UdpSocket::bind(any)?;
    socket.connect(peer)?;
    let own = socket.local_addr()?.ip();
    // What goes to an address of this host itself goes over loopback, whatever device has it.
    if own.is_loopback() || own == peer.ip() {
        return Ok(c"lo".to_owned());
    }
    let has_own = |of: &InterfaceAddress| {
        let of = of.address.as_ref();
        match own {
            IpAddr::V4(own) => of.and_then(|a| a.as_sockaddr_in()).is_some_and(|a| a.ip() == own),
            IpAddr::V6(own) => of.and_then(|a| a.as_sockaddr_in6()).is_some_and(|a| a.ip() == own),
        }
    };
    let found = getifaddrs()?.find(has_own);
    let found = found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no device has {own}")))?;
    Ok(CString::new(found.interface_name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_oneself_is_loopback() {
        assert_eq!(interface_to("127.0.0.1:9".parse().unwrap()).unwrap().as_c_str(), c"lo");
    }

    #[test]
    fn the_device_towards_a_peer_is_found() {
        tier::needs!(tier::Need::Root, tier::Need::Path("/dev/net/tun"));
        let lab = Lab::up(&lab::Config::default()).unwrap();
        for peer in [IpAddr::V4(Side::B.ipv4()), IpAddr::V6(Side::B.ipv6())] {
            let found = lab.host(Side::A).run(|| interface_to(SocketAddr::new(peer, 9))).unwrap().unwrap();
            assert_eq!(found.as_c_str(), c"eth0", "{peer}");
        }
    }
}
