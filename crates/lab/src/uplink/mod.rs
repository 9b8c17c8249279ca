//! The way from a lab's hosts to the outside: TCP connections and DNS, carried by the lab's owner.
//!
//! A host's connections that are for none of the lab's networks are redirected, within the host, to
//! a port of the owner, which opens the same connection from the machine's own network and copies
//! bytes. Queries for names go to the machine's resolvers in the same way. So nothing of the
//! machine is changed, no forwarding and no rule, and a lab without root has it too. Other UDP, and
//! ICMP, do not get out.

mod names;
mod redirect;

use std::ffi::CString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use machine::netlink::{Netlink, link_flags, veth};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::link::LinkFlags;
use rustix::net::sockopt;
use rustix::thread::CapabilitySet;

use crate::anchor::Holder;
use crate::{Error, links};

pub(crate) use names::resolver_file;

/// The interface that a host's packets to the outside are routed to.
const INTERFACE: &str = "uplink";

/// Where a host finds the owner's resolver.
const RESOLVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 77, 0, 53)), 53);

/// Connections of a host at a time; more are reset.
const MOST: usize = 256;

/// How long the outside may take to take a connection.
const PATIENCE: Duration = Duration::from_secs(20);

/// The uplinks of a lab. They end with it.
#[derive(Debug)]
pub(crate) struct Uplink {
    listeners: Vec<TcpListener>,
    names: Vec<Arc<UdpSocket>>,
}

/// What a host has for its uplink, made inside it.
struct Ends {
    /// Redirected connections come to these, IPv4 and IPv6.
    redirected: Vec<TcpListener>,
    names: UdpSocket,
    names_tcp: TcpListener,
}

impl Uplink {
    /// For these hosts.
    ///
    /// # Errors
    /// Where a step fails: without nf_tables in the kernel.
    pub(crate) fn start(hosts: &[Holder]) -> Result<Self, Error> {
        let resolvers: Arc<[IpAddr]> = names::resolvers().into();
        let (mut listeners, mut sockets) = (Vec::new(), Vec::new());
        for host in hosts {
            let ends = links::inside(&host.net, prepare).and_then(|ends| ends);
            let ends = ends.map_err(Error::system("make the uplink of a host (nf_tables with redirection)"))?;
            let failed = |error| Error::system("start the uplink of a host")(error);
            let active = Arc::new(AtomicUsize::new(0));
            for listener in ends.redirected {
                listeners.push(listener.try_clone().map_err(failed)?);
                let active = active.clone();
                spawn("lab-uplink", move || accept(&listener, &active, original)).map_err(failed)?;
            }
            let listener = ends.names_tcp;
            listeners.push(listener.try_clone().map_err(failed)?);
            let first = resolvers.first().copied();
            spawn("lab-names", move || {
                accept(&listener, &active, |_| {
                    first.map(|ip| SocketAddr::new(ip, 53)).ok_or(io::ErrorKind::NotFound.into())
                });
            })
            .map_err(failed)?;
            let socket = Arc::new(ends.names);
            sockets.push(socket.clone());
            let resolvers = resolvers.clone();
            spawn("lab-names", move || names::serve(&socket, &resolvers)).map_err(failed)?;
        }
        Ok(Self { listeners, names: sockets })
    }
}

impl Drop for Uplink {
    fn drop(&mut self) {
        // Their threads wake up and end. Connections end with the programs in the hosts.
        for listener in &self.listeners {
            rustix::net::shutdown(listener, rustix::net::Shutdown::Both).ok();
        }
        for socket in &self.names {
            rustix::net::shutdown(socket, rustix::net::Shutdown::Both).ok();
        }
    }
}

/// Gives the host a default route, what is sent there to the owner, and the owner's sockets. Runs
/// inside the host.
fn prepare() -> io::Result<Ends> {
    let mut netlink = Netlink::open()?;
    // Nothing takes what arrives at its other end.
    netlink.request(veth(INTERFACE, Vec::new()), NLM_F_CREATE | NLM_F_EXCL)?;
    // Without a link-local address the host solicits no router there; a machine without IPv6 has no
    // such setting.
    std::fs::write(format!("/proc/sys/net/ipv6/conf/{INTERFACE}/addr_gen_mode"), "1").ok();
    let index = links::index_of(&CString::new(INTERFACE)?)?;
    links::up(&mut netlink, links::index_of(c"lo")?)?;
    // Without address resolution, which no one would answer.
    netlink.request(link_flags(index, LinkFlags::Up | LinkFlags::Noarp), 0)?;
    links::add_default_route(&mut netlink, index, IpAddr::V4(Ipv4Addr::UNSPECIFIED))?;
    let first = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = first.local_addr()?.port();
    let mut redirected = vec![first];
    // A machine without IPv6 has an uplink without it.
    if let Ok(second) = TcpListener::bind((Ipv6Addr::LOCALHOST, port)) {
        links::add_default_route(&mut netlink, index, IpAddr::V6(Ipv6Addr::UNSPECIFIED))?;
        redirected.push(second);
    }
    redirect::to_port(index, port)?;
    let (names, names_tcp) = (UdpSocket::bind(RESOLVER)?, TcpListener::bind(RESOLVER)?);
    Ok(Ends { redirected, names, names_tcp })
}

/// A thread that is left without rights: what it reads comes from programs in the hosts and from
/// outside.
fn spawn(name: &str, task: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let started = std::thread::Builder::new().name(name.into()).spawn(move || {
        crate::rights::keep(CapabilitySet::empty());
        task();
    });
    started.map(drop)
}

/// Where a redirected connection was to go.
fn original(client: &TcpStream) -> io::Result<SocketAddr> {
    Ok(match client.local_addr()? {
        SocketAddr::V4(_) => sockopt::ip_original_dst(client)?.into(),
        SocketAddr::V6(_) => sockopt::ipv6_original_dst(client)?.into(),
    })
}

/// Takes connections until the listener is shut down.
fn accept<F>(listener: &TcpListener, active: &Arc<AtomicUsize>, to: F)
where
    F: Fn(&TcpStream) -> io::Result<SocketAddr>,
{
    while let Ok((client, _)) = listener.accept() {
        let Ok(to) = to(&client) else {
            reset(client);
            continue;
        };
        if active.fetch_add(1, Ordering::Relaxed) >= MOST {
            active.fetch_sub(1, Ordering::Relaxed);
            reset(client);
            continue;
        }
        let done = active.clone();
        let started = spawn("lab-uplink", move || {
            carry(client, to);
            done.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            active.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Carries one connection until both directions have ended. Where the outside does not take it, the
/// client sees a reset.
fn carry(client: TcpStream, to: SocketAddr) {
    let Ok(server) = TcpStream::connect_timeout(&to, PATIENCE) else { return reset(client) };
    for socket in [&client, &server] {
        socket.set_nodelay(true).ok();
    }
    std::thread::scope(|scope| {
        let back = std::thread::Builder::new().name("lab-uplink".into());
        let started = back.spawn_scoped(scope, || copy(&server, &client));
        if started.is_ok() {
            copy(&client, &server);
        }
    });
}

/// Copies until the end of `from`, or until one side fails.
fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    if io::copy(&mut from, &mut to).is_ok() {
        to.shutdown(Shutdown::Write).ok();
    } else {
        for socket in [from, to] {
            socket.shutdown(Shutdown::Both).ok();
        }
    }
}

fn reset(client: TcpStream) {
    sockopt::set_socket_linger(&client, Some(Duration::ZERO)).ok();
    drop(client);
}
