//! `--resolve`: the names of hosts.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use summary::TraceSummary;

/// How long names are asked for, all together.
const PATIENCE: Duration = Duration::from_secs(3);

/// How a request for a name begins; the address follows.
const NAME: &[u8] = b"name ";

/// The names of the peers that a report shows, the busiest first, as far as they come in time. `ask` takes what [`answer`] answers.
pub fn named(summary: &TraceSummary, mut ask: impl FnMut(&[u8]) -> Option<Vec<u8>>) -> HashMap<IpAddr, String> {
    let (mut names, begun) = (HashMap::new(), Instant::now());
    let mut peers: Vec<IpAddr> = summary.connections().iter().map(|c| c.connection.remote.ip()).collect();
    let mut seen = std::collections::HashSet::new();
    peers.retain(|peer| seen.insert(*peer));
    for peer in peers {
        if begun.elapsed() > PATIENCE {
            break;
        }
        let name = ask(&[NAME, peer.to_string().as_bytes()].concat()).unwrap_or_default();
        if let Some(name) = String::from_utf8(name).ok().filter(|name| !name.is_empty()) {
            names.insert(peer, name);
        }
    }
    names
}

/// Answers a request for a name, in a process that may still read the resolver's files; empty where there is none. `None` where something else is asked for.
pub fn answer(request: &[u8]) -> Option<Vec<u8>> {
    let address = std::str::from_utf8(request.strip_prefix(NAME)?).ok()?.parse::<IpAddr>();
    Some(address.ok().and_then(name_of).unwrap_or_default().into_bytes())
}

/// The name of a host. The library calls of the resolver are asked, as `getent hosts` does: `/etc/hosts` and the name service.
pub fn name_of(address: IpAddr) -> Option<String> {
    let at = socket2::SockAddr::from(SocketAddr::new(address, 0));
    let mut name = [0 as libc::c_char; libc::NI_MAXHOST as usize];
    // SAFETY: the address is live and of the length given, and the resolver writes at most the length of the buffer, with a zero at its end.
    let failed = unsafe {
        libc::getnameinfo(
            at.as_ptr().cast(),
            at.len(),
            name.as_mut_ptr(),
            libc::NI_MAXHOST,
            std::ptr::null_mut(),
            0,
            libc::NI_NAMEREQD,
        )
    };
    let bytes: Vec<u8> = name.iter().map(|&c| c.cast_unsigned()).take_while(|&b| b != 0).collect();
    // Names come from the network: what steers a terminal is replaced where they are drawn.
    (failed == 0).then(|| String::from_utf8_lossy(&bytes).into_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_names_are_answered_and_others_left() {
        assert_eq!(answer(b"look"), None);
        assert_eq!(answer(b"name nothing"), Some(Vec::new()));
        // As /etc/hosts has it on every machine.
        assert_eq!(name_of("127.0.0.1".parse().unwrap()).as_deref(), Some("localhost"));
    }
}
