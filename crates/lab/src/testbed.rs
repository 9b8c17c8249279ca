//! A testbed for measuring what a device does to frames: source, tap, device, tap, sink, and a host
//! that measures.
//!
//! ```text
//! host a: source ── eth0 ──tap──> device ──tap──> eth0 of host b (the sink)
//!                          │                │
//! host m:               before            after
//! ```
//!
//! Every frame that host a sends into the device is copied to the interface `before` of the
//! measuring host, and every frame that host b receives from the device to `after` (tc `mirred`).
//! Frames from b to a are not copied. In host a, what is sent on `source` leaves by `eth0` too:
//! generators that send past the queue of a device are seen by the tap this way.

use std::ffi::{CStr, OsStr};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::process::Command;

use machine::netlink::{Netlink, veth};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};

use crate::anchor::{Anchor, Holder};
use crate::config::Config;
use crate::direction::Direction;
use crate::end::Side;
use crate::host::{self, Host, INTERFACE};
use crate::links::{self, index_of, report_of_devices};
use crate::mirror::{self, Action, Hook};
use crate::path::Backend;
use crate::report::DirectionReport;
use crate::{Error, Lab, Path};

/// The device under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The lab's path: its delay, rate, loss and order are known.
    Path,
    /// A plain wire, for calibration.
    Wire,
    /// The kernel's bridge.
    Bridge,
    /// The kernel as a router. Frames to host b go to its hardware address, `ROUTER`.
    Router,
    /// Nothing joins the interfaces `left` and `right` of host d until a program does that is run
    /// there: one in user space, or one that puts an XDP or tc program on them.
    Program,
}

impl Device {
    /// Every device, in the order of the documentation.
    pub const ALL: [Self; 5] = [Self::Path, Self::Wire, Self::Bridge, Self::Router, Self::Program];

    /// Its name on the command line and in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Wire => "wire",
            Self::Bridge => "bridge",
            Self::Router => "router",
            Self::Program => "program",
        }
    }

    /// Whether it has host d.
    const fn has_host(self) -> bool {
        matches!(self, Self::Bridge | Self::Router | Self::Program)
    }
}

/// The hardware address at which a router takes frames from host a.
pub const ROUTER: [u8; 6] = [0x02, 0x77, 0, 0, 0, 0x11];
/// The same from host b.
const ROUTER_B: [u8; 6] = [0x02, 0x77, 0, 0, 0, 0x12];

/// A host that a testbed adds to a and b.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Host m, with the interfaces `before` and `after`.
    Measuring,
    /// Host d, with the interfaces `left` (to a) and `right` (to b).
    Device,
}

impl Place {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Measuring, Self::Device];

    /// `m` or `d`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measuring => "m",
            Self::Device => "d",
        }
    }

    const fn number(self) -> usize {
        2 + self as usize
    }
}

impl Lab {
    /// Makes a testbed and brings it up. The path of `config` is the device where `device` says so,
    /// and is not used otherwise.
    ///
    /// # Errors
    /// As [`Lab::up`].
    pub fn up_testbed(config: &Config, device: Device) -> Result<Self, Error> {
        config.check()?;
        let names: &[&str] = if device.has_host() { &["a", "b", "m", "d"] } else { &["a", "b", "m"] };
        let start = || Anchor::start(&host::files(names, config.uplink));
        let lab = if device == Device::Path {
            Self::with_chosen_path(config, start)?
        } else {
            Self::with_device(config, device, start()?)?
        };
        lab.put_taps().map_err(Error::system("put the taps of a testbed in place (tc clsact, bpf and mirred)"))?;
        Ok(lab)
    }

    fn with_device(config: &Config, device: Device, anchor: Anchor) -> Result<Self, Error> {
        let made = join(&anchor, device, config.mtu);
        made.map_err(Error::system(format!("make a testbed with a {} as its device", device.name())))?;
        let nets = [0, 1].map(|i: usize| anchor.hosts[i].net.try_clone());
        let [a, b] = nets.map(|net| net.map_err(Error::system("keep a host's network namespace")));
        let backend = Box::new(Fixed { device, nets: [a?, b?] });
        let path = Path::new(config, backend, "the device of a testbed".into());
        let uplink = crate::uplink(&anchor, config.uplink)?;
        Ok(Self { path, _uplink: uplink, anchor })
    }

    /// The holder of a place that a testbed adds; `None` where there is none.
    pub(crate) fn place(&self, place: Place) -> Option<&Holder> {
        self.anchor.hosts.get(place.number())
    }

    fn holder(&self, place: Place) -> Result<&Holder, Error> {
        let problem = "is a host of testbeds alone".into();
        self.place(place).ok_or_else(|| Error::Value { what: "host", value: place.name().into(), problem })
    }

    /// Runs `task` inside a host that a testbed adds, as [`Host::run`].
    ///
    /// # Errors
    /// [`Error::Value`] where the lab has no such host, [`Error::System`] where it cannot be
    /// entered.
    pub fn run_in<T: Send>(&self, place: Place, task: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let outcome = links::inside(&self.holder(place)?.net, task);
        outcome.map_err(Error::system(format!("run inside host {}", place.name())))
    }

    /// A command inside a host that a testbed adds, as [`Host::command`].
    ///
    /// # Errors
    /// As [`Lab::run_in`].
    pub fn command_in(&self, place: Place, program: impl AsRef<OsStr>) -> Result<Command, Error> {
        let target = self.holder(place)?.pidfd.try_clone();
        target
            .and_then(|target| crate::enter::command(program.as_ref(), target))
            .map_err(Error::system(format!("prepare a command for host {}", place.name())))
    }

    /// Copies of every frame at both taps for the measuring host, and the source.
    fn put_taps(&self) -> io::Result<()> {
        let [a, b] = [&self.anchor.hosts[0].net, &self.anchor.hosts[1].net];
        let Some(measuring) = self.place(Place::Measuring) else { return Ok(()) };
        links::inside(&measuring.net, no_ipv6)?;
        for (host, copy, name) in [(a, c"copy0", "before"), (b, c"copy1", "after")] {
            links::inside(host, || pair(copy, name, measuring.net.as_fd()))??;
        }
        links::inside(&measuring.net, || {
            let mut netlink = Netlink::open()?;
            mirror::up(&mut netlink, c"before")?;
            mirror::up(&mut netlink, c"after")?;
            mirror::wait_for(&[c"before", c"after"]);
            Ok::<_, io::Error>(())
        })??;
        links::inside(a, || {
            mirror::make_pairs(&[[c"source", c"split"]])?;
            mirror::take_redirected(c"split")?;
            mirror::every_frame(c"split", Hook::Arrival, &[Action::Move(c"eth0")])?;
            mirror::every_frame(c"eth0", Hook::Departure, &[Action::CopyAndPass(c"copy0")])?;
            mirror::wait_for(&[c"source", c"split", c"copy0", c"eth0"]);
            Ok::<_, io::Error>(())
        })??;
        links::inside(b, || {
            mirror::every_frame(c"eth0", Hook::Arrival, &[Action::CopyAndPass(c"copy1")])?;
            mirror::wait_for(&[c"copy1", c"eth0"]);
            Ok(())
        })?
    }
}

/// Without IPv6 a device sends nothing by itself. A kernel without it has no such file.
fn no_ipv6() {
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").ok();
}

/// A veth pair from the calling thread's host to another one, where its peer is called `peer`. This
/// end is brought up.
fn pair(own: &CStr, peer: &str, other: BorrowedFd<'_>) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    no_ipv6();
    let attributes = vec![LinkAttribute::IfName(peer.into()), LinkAttribute::NetNsFd(other.as_raw_fd())];
    netlink.request(veth(&own.to_string_lossy(), attributes), NLM_F_CREATE | NLM_F_EXCL)?;
    mirror::up(&mut netlink, own)
}

/// Joins hosts a and b by a device that is no path.
fn join(anchor: &Anchor, device: Device, mtu: u32) -> io::Result<()> {
    let [a, b] = [&anchor.hosts[0].net, &anchor.hosts[1].net];
    let plain_veth = |from: &OwnedFd, peer: &str, other: &OwnedFd| {
        links::inside(from, || {
            let attributes = vec![LinkAttribute::IfName(peer.into()), LinkAttribute::NetNsFd(other.as_raw_fd())];
            Netlink::open()?.request(veth(INTERFACE, attributes), NLM_F_CREATE | NLM_F_EXCL)
        })?
    };
    let between = anchor.hosts.get(Place::Device.number());
    match between {
        None => plain_veth(a, INTERFACE, b)?,
        Some(between) => {
            links::inside(&between.net, no_ipv6_unless(device))?;
            plain_veth(a, "left", &between.net)?;
            plain_veth(b, "right", &between.net)?;
        }
    }
    for (net, side) in [(a, Side::A), (b, Side::B)] {
        links::inside(net, || Host::configure(side, mtu))??;
    }
    let Some(between) = between else { return Ok(()) };
    links::inside(&between.net, || {
        let mut netlink = Netlink::open()?;
        for name in [c"left", c"right"] {
            set_mtu(&mut netlink, name, mtu)?;
            mirror::up(&mut netlink, name)?;
        }
        match device {
            Device::Bridge => bridge(&mut netlink)?,
            Device::Router => router(&mut netlink, mtu)?,
            _ => {}
        }
        // A bridge's port takes no frames until the kernel has noticed its wire.
        mirror::wait_for(&[c"left", c"right"]);
        Ok::<_, io::Error>(())
    })??;
    if device == Device::Router {
        for (net, side, mac) in [(a, Side::A, ROUTER), (b, Side::B, ROUTER_B)] {
            links::inside(net, || {
                let mut netlink = Netlink::open()?;
                let (link, peer) = (index_of(c"eth0")?, side.other());
                links::add_neighbour(&mut netlink, link, IpAddr::V4(peer.ipv4()), mac)?;
                links::add_neighbour(&mut netlink, link, IpAddr::V6(peer.ipv6()), mac)
            })??;
        }
    }
    Ok(())
}

/// A router needs IPv6; other devices are to send nothing by themselves.
fn no_ipv6_unless(device: Device) -> impl FnOnce() + Send {
    move || {
        if device != Device::Router {
            no_ipv6();
        }
    }
}

fn set_mtu(netlink: &mut Netlink, name: &CStr, mtu: u32) -> io::Result<()> {
    let mut link = LinkMessage::default();
    link.header.index = index_of(name)?;
    link.attributes = vec![LinkAttribute::Mtu(mtu)];
    netlink.request(RouteNetlinkMessage::SetLink(link), 0)
}

/// Puts `left` and `right` into a bridge.
fn bridge(netlink: &mut Netlink) -> io::Result<()> {
    let mut message = LinkMessage::default();
    let kind = LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)]);
    message.attributes = vec![LinkAttribute::IfName("bridge".into()), kind];
    netlink.request(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)?;
    let controller = index_of(c"bridge")?;
    for name in [c"left", c"right"] {
        let mut link = LinkMessage::default();
        link.header.index = index_of(name)?;
        link.attributes = vec![LinkAttribute::Controller(controller)];
        netlink.request(RouteNetlinkMessage::SetLink(link), 0)?;
    }
    mirror::up(netlink, c"bridge")
}

/// Has the kernel route between `left` and `right`. The hosts are on one network, so each has its
/// own route.
fn router(netlink: &mut Netlink, mtu: u32) -> io::Result<()> {
    for file in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        std::fs::write(format!("/proc/sys/net/{file}"), "1")?;
    }
    let ends = [(c"left", Side::A, ROUTER, 254), (c"right", Side::B, ROUTER_B, 253)];
    for (name, side, mac, number) in ends {
        let link = index_of(name)?;
        links::configure(netlink, link, mac, mtu)?;
        let own = [
            (IpAddr::V4(Ipv4Addr::new(10, 77, 0, number)), IpAddr::V4(side.ipv4()), 32),
            (IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, number.into())), IpAddr::V6(side.ipv6()), 128),
        ];
        for (address, host, prefix) in own {
            links::add_address_to(netlink, link, address, host, prefix)?;
            links::add_neighbour(netlink, link, host, side.mac())?;
        }
    }
    Ok(())
}

/// A device that is as it is.
#[derive(Debug)]
struct Fixed {
    device: Device,
    nets: [OwnedFd; 2],
}

impl Backend for Fixed {
    fn name(&self) -> &'static str {
        self.device.name()
    }

    fn report(&self, from: Side) -> DirectionReport {
        report_of_devices(
            Direction::default(),
            0,
            [from, from.other()].map(|side| &self.nets[side as usize]),
            INTERFACE,
        )
    }

    fn change(&mut self, _: Side, _: &Direction) -> Result<(), Error> {
        let problem = "is no path of the lab: it cannot be changed".into();
        Err(Error::Value { what: "device", value: self.device.name().into(), problem })
    }
}
