//! Names: queries of a host's programs, handed to the machine's resolvers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const FILE: &str = "/etc/resolv.conf";

/// Queries at a time; more are dropped, as on a busy resolver, and asked again.
const MOST: usize = 64;

/// How long a resolver may take before the next one is asked.
const PATIENCE: Duration = Duration::from_secs(3);

/// The largest datagram of DNS (RFC 6891 lets it be this long).
const LARGEST: usize = 65_535;

/// The machine's resolvers: as resolv.conf(5) has it, this machine itself where none is named.
pub(super) fn resolvers() -> Vec<IpAddr> {
    let named = read(&std::fs::read_to_string(FILE).unwrap_or_default());
    if named.is_empty() { vec![Ipv4Addr::LOCALHOST.into()] } else { named }
}

fn read(text: &str) -> Vec<IpAddr> {
    let named = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver")?.trim().parse().ok());
    named.collect()
}

/// What `/etc/resolv.conf` of a host says: the owner is its resolver, and the rest is the
/// machine's.
pub(crate) fn resolver_file() -> (String, Vec<u8>) {
    let machine = std::fs::read_to_string(FILE).unwrap_or_default();
    (FILE.into(), of_host(&machine).into_bytes())
}

fn of_host(machine: &str) -> String {
    let kept = machine.lines().filter(|line| !line.trim().starts_with("nameserver"));
    let mut text = format!("nameserver {}\n", super::RESOLVER.ip());
    kept.for_each(|line| text.extend([line, "\n"]));
    text
}

/// Hands queries to the resolvers until the socket is shut down.
pub(super) fn serve(socket: &Arc<UdpSocket>, resolvers: &Arc<[IpAddr]>) {
    let active = Arc::new(AtomicUsize::new(0));
    let mut query = vec![0; LARGEST];
    // A socket that was shut down gives datagrams without bytes or sender.
    while let Ok((length, from)) = socket.recv_from(&mut query) {
        if length == 0 && from.port() == 0 {
            return;
        }
        if active.load(Ordering::Relaxed) >= MOST {
            continue;
        }
        active.fetch_add(1, Ordering::Relaxed);
        let (query, socket, resolvers, done) =
            (query[..length].to_vec(), socket.clone(), resolvers.clone(), active.clone());
        let started = super::spawn("lab-names", move || {
            if let Some(reply) = resolvers.iter().find_map(|resolver| ask(*resolver, &query).ok()) {
                socket.send_to(&reply, from).ok();
            }
            done.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            active.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn ask(resolver: IpAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let any: IpAddr = if resolver.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(SocketAddr::new(resolver, 53))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(query)?;
    let mut reply = vec![0; LARGEST];
    let length = socket.recv(&mut reply)?;
    reply.truncate(length);
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_settings_are_kept_but_for_its_resolvers() {
        let machine = "# by hand\nnameserver 127.0.0.53\n nameserver\tfd00::53\nsearch example.org\noptions edns0\n";
        assert_eq!(read(machine), [IpAddr::from([127, 0, 0, 53]), "fd00::53".parse().unwrap()]);
        assert_eq!(of_host(machine), "nameserver 127.77.0.53\n# by hand\nsearch example.org\noptions edns0\n");
        assert!(read("nameserver nonsense\n").is_empty());
    }
}
