//! What a row is of, as the options of `wirelapse trace` name it.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use record::histogram::GroupBy;
use serde::{Deserialize, Serialize};
use summary::Group;
use summary::live::{Live, Names};

/// An option of `wirelapse trace` that names connections, with its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Criterion {
    Pid(u32),
    Comm(String),
    Cgroup(PathBuf),
    Port(u16),
    Peer(IpAddr),
}

/// Criteria of one kind that are taken from a row.
const MOST: usize = 16;

impl Criterion {
    fn name(&self) -> &'static str {
        match self {
            Self::Pid(_) => "--pid",
            Self::Comm(_) => "--comm",
            Self::Cgroup(_) => "--cgroup",
            Self::Port(_) => "--port",
            Self::Peer(_) => "--peer",
        }
    }

    fn value(&self) -> OsString {
        match self {
            Self::Pid(pid) => pid.to_string().into(),
            Self::Comm(name) => name.into(),
            Self::Cgroup(path) => path.into(),
            Self::Port(port) => port.to_string().into(),
            Self::Peer(address) => address.to_string().into(),
        }
    }
}

/// What a row is of: by the sockets that it has. Empty where they do not say.
pub fn of_row<'a>(
    by: GroupBy,
    row: &Group,
    sockets: impl Iterator<Item = &'a Live> + Clone,
    names: &Names,
) -> Vec<Criterion> {
    let peer = |live: &Live| Some(live.socket.remote).filter(|remote| remote.port() != 0);
    let mut all: Vec<Criterion> = match by {
        GroupBy::Connection => {
            let Some(live) = sockets.clone().next() else { return Vec::new() };
            let local = live.socket.local.port();
            match peer(live) {
                // The port that is of this connection alone is the higher one.
                Some(remote) => vec![Criterion::Peer(remote.ip()), Criterion::Port(local.max(remote.port()))],
                None => vec![Criterion::Port(local)],
            }
        }
        GroupBy::Peer | GroupBy::Name => {
            let of_sockets = sockets.filter_map(|live| Some(peer(live)?.ip()));
            row.host.into_iter().chain(of_sockets).map(Criterion::Peer).collect()
        }
        GroupBy::Program => {
            sockets.filter_map(|live| Some(Criterion::Comm(live.socket.owner.as_ref()?.name.clone()))).collect()
        }
        GroupBy::Process => sockets.filter_map(|live| Some(Criterion::Pid(live.socket.owner.as_ref()?.pid))).collect(),
        GroupBy::Unit | GroupBy::Pod | GroupBy::Cgroup => sockets
            .filter_map(|live| names.places.get(&live.socket.cgroup?))
            .filter(|place| place.path.starts_with('/'))
            .map(|place| Criterion::Cgroup(place.path.clone().into()))
            .collect(),
        GroupBy::Port => row.label.parse().ok().map(Criterion::Port).into_iter().collect(),
    };
    let mut seen = Vec::new();
    all.retain(|one| {
        let is_new = !seen.contains(one);
        if is_new {
            seen.push(one.clone());
        }
        is_new
    });
    all.truncate(MOST);
    all
}

/// The options for what is of a row and of the whole screen. Those of the screen that are of the
/// same kind give way: of one kind, any would do.
pub fn options(of_screen: &[OsString], of_row: &[Criterion]) -> Vec<OsString> {
    let kept = of_screen.chunks(2).filter(|pair| !of_row.iter().any(|one| pair[0].to_str() == Some(one.name())));
    let mut all: Vec<OsString> = kept.flatten().cloned().collect();
    all.extend(of_row.iter().flat_map(|one| [one.name().into(), one.value()]));
    if all.is_empty() { vec!["--all".into()] } else { all }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_narrows_what_the_screen_shows() {
        let words = |all: &[&str]| all.iter().map(OsString::from).collect::<Vec<_>>();
        let screen = words(&["--port", "443", "--comm", "nginx"]);
        let row = [Criterion::Peer("192.0.2.1".parse().unwrap()), Criterion::Port(40_000)];
        assert_eq!(options(&screen, &row), words(&["--comm", "nginx", "--peer", "192.0.2.1", "--port", "40000"]));
        assert_eq!(options(&screen, &[]), screen);
        assert_eq!(options(&[], &[]), words(&["--all"]));
    }
}
