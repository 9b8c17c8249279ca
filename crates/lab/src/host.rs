//! A host of a lab: a network namespace, with its own `/proc` and `/sys`, and its end of the path.

use std::ffi::OsStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::process::Command;

use crate::Error;
use crate::anchor::{Holder, HostFiles};
use crate::end::{End, Side};
use crate::links;

/// The name of a host's end of the path, in each host.
pub const INTERFACE: &str = "eth0";

/// What hosts of these names are made with; `a` and `b` are names of their addresses in each. With
/// an uplink they have its resolver.
pub(crate) fn files(names: &[&str], uplink: bool) -> Vec<HostFiles> {
    let of = |side: Side| {
        [IpAddr::V4(side.ipv4()), IpAddr::V6(side.ipv6())].map(|address| (address, side.name().to_owned()))
    };
    let addresses: Vec<(IpAddr, String)> = Side::ALL.into_iter().flat_map(of).collect();
    let resolver = uplink.then(crate::uplink::resolver_file);
    names.iter().map(|name| HostFiles::new(name, &addresses, resolver.clone())).collect()
}

/// A host of a running lab.
#[derive(Clone, Copy, Debug)]
pub struct Host<'lab> {
    pub(crate) side: Side,
    pub(crate) holder: &'lab Holder,
}

impl Host<'_> {
    /// Which host it is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Its IPv4 address.
    pub fn ipv4(&self) -> Ipv4Addr {
        self.side.ipv4()
    }

    /// Its IPv6 address.
    pub fn ipv6(&self) -> Ipv6Addr {
        self.side.ipv6()
    }

    /// The network namespace, for `setns` or to be sent to another process.
    pub fn network_namespace(&self) -> BorrowedFd<'_> {
        self.holder.net.as_fd()
    }

    /// Runs `task` on its own thread inside the host's network namespace, and waits for it. Sockets
    /// it opens are the host's, wherever they are used later. Files are the caller's:
    /// `/proc/sys/net` is the host's, `/proc/net` and `/sys` are not (use [`Host::command`] for
    /// programs that read those).
    ///
    /// # Errors
    /// [`Error::System`] where the namespace cannot be entered. A panic of the task goes on in the
    /// caller.
    pub fn run<T: Send>(&self, task: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let outcome = links::inside(&self.holder.net, task);
        outcome.map_err(Error::system(format!("run inside host {}", self.side.name())))
    }

    /// A command that runs inside the host: its network, mount, UTS and pid namespaces. It ends
    /// when the lab does.
    ///
    /// Between caller and program stands a small supervisor process, which hands signals on and
    /// ends as the program ends; [`std::process::Child::id`] is the supervisor's, see
    /// [`program_pid`].
    ///
    /// # Errors
    /// [`Error::System`] where a descriptor for it cannot be had.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command, Error> {
        let target = self.holder.pidfd.try_clone();
        target
            .and_then(|target| crate::enter::command(program.as_ref(), target))
            .map_err(Error::system(format!("prepare a command for host {}", self.side.name())))
    }

    /// Sets a sysctl of the host, such as `net.ipv4.tcp_timestamps`. Names outside `net.` belong to
    /// the whole machine and are refused.
    ///
    /// # Errors
    /// [`Error::Value`] for such names, [`Error::System`] where the kernel does not know it or take
    /// the value.
    pub fn set_sysctl(&self, name: &str, value: impl ToString) -> Result<(), Error> {
        let path = sysctl_path(name)?;
        let value = value.to_string();
        self.run(|| std::fs::write(&path, &value))?
            .map_err(Error::system(format!("set {name} to {value:?} in host {}", self.side.name())))
    }

    /// Reads a sysctl of the host.
    ///
    /// # Errors
    /// As [`Host::set_sysctl`].
    pub fn sysctl(&self, name: &str) -> Result<String, Error> {
        let path = sysctl_path(name)?;
        let text = self.run(|| std::fs::read_to_string(&path))?;
        text.map(|t| t.trim().to_owned()).map_err(Error::system(format!("read {name} in host {}", self.side.name())))
    }

    /// Gives the host its addresses on the link [`INTERFACE`], and brings it and loopback up. Runs
    /// inside the host.
    pub(crate) fn configure(side: Side, mtu: u32) -> io::Result<()> {
        side.address().configure(mtu)
    }

    /// Its end of the path.
    pub(crate) fn end(&self) -> End<'_> {
        End { holder: self.holder, address: self.side.address() }
    }
}

fn sysctl_path(name: &str) -> Result<String, Error> {
    let path = name.replace('.', "/");
    let valid = name.starts_with("net.") && !path.split('/').any(|part| part.is_empty() || part == "..");
    let problem = "only names such as net.ipv4.tcp_timestamps belong to a host".into();
    if valid {
        Ok(format!("/proc/sys/{path}"))
    } else {
        Err(Error::Value { what: "sysctl", value: name.into(), problem })
    }
}

/// The process id, in the caller's pid namespace, of the program that a [`Host::command`] started:
/// the supervisor's one child. `None` where it has ended.
pub fn program_pid(child: &std::process::Child) -> Option<u32> {
    let id = child.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}
