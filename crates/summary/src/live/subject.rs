//! What a row and a filter look at of one connection or socket.

use std::net::IpAddr;

use record::IpPrefix;
use record::histogram::{GroupBy, OVERFLOW, SeriesKey};
use record::socket::{SocketState, Transport};

use super::requests::Asker;
use super::{Live, Names, PeerName};

/// What is known of a connection: by its series, by its socket, or by both.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub(super) local_port: Option<u16>,
    pub(super) peer_port: Option<u16>,
    pub(super) peer: Option<IpPrefix>,
    pub(super) local: Option<IpAddr>,
    /// The process: its name, and its number where that is known.
    pub(super) program: Option<&'a str>,
    pub(super) pid: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) cgroup: Option<u64>,
    pub(super) cookie: Option<u64>,
    pub(super) state: Option<SocketState>,
    pub(super) transport: Transport,
    /// Whether its socket speaks to others too: it is not connected.
    of_many: bool,
    /// Whether it stands for all that found no room.
    overflow: bool,
}

/// Where a series or a socket does not say.
const UNKNOWN: &str = "(not known)";

impl<'a> Subject<'a> {
    /// What a series is of, and the socket that it is of where that is known.
    pub fn of_key(key: &'a SeriesKey, live: Option<&'a Live>) -> Self {
        let of_series = Self {
            local_port: key.local_port,
            peer_port: key.peer_port,
            peer: key.peer,
            local: None,
            program: key.program.as_deref().filter(|name| !name.is_empty()),
            pid: None,
            uid: None,
            cgroup: key.cgroup,
            cookie: None,
            state: None,
            transport: Transport::Tcp,
            of_many: false,
            overflow: key.overflow,
        };
        live.map_or(of_series, |live| {
            let socket = Self::of_socket(live);
            // A thread may be called otherwise than its process.
            Self { program: socket.program.or(of_series.program), cgroup: of_series.cgroup.or(socket.cgroup), ..socket }
        })
    }

    /// What somebody has asked for. Most lookups of DNS are asked from a port of their own, which
    /// says nothing: where its socket is not there, all of one server are together. `program` is
    /// the name of the process, where that is known.
    pub(super) fn of_asker(key: &'a SeriesKey, asker: Asker, live: Option<&'a Live>, program: Option<&'a str>) -> Self {
        let of_key = Self::of_key(key, live);
        // Who made a socket may not have it any more.
        let has = asker.socket.and(live).is_some_and(|live| live.socket.owner.is_some());
        let maker = Some(asker.pid).filter(|pid| *pid != 0 && !has);
        Self {
            local_port: of_key.local_port.filter(|_| live.is_some() || asker.socket.is_some()),
            peer_port: of_key.peer_port.or(key.peer_port),
            peer: of_key.peer.or(key.peer),
            program: program.filter(|_| !has).or(of_key.program),
            pid: maker.or(of_key.pid),
            cookie: of_key.cookie.or(asker.socket),
            state: of_key.state.or(Some(SocketState::Established)),
            transport: if asker.over_tcp { Transport::Tcp } else { Transport::Udp },
            of_many: live.is_some() && of_key.peer.is_none(),
            ..of_key
        }
    }

    /// What a socket is of.
    pub fn of_socket(live: &'a Live) -> Self {
        let socket = &live.socket;
        let remote = Some(socket.remote).filter(|remote| remote.port() != 0);
        let owner = socket.owner.as_ref();
        Self {
            local_port: Some(socket.local.port()),
            peer_port: remote.map(|remote| remote.port()),
            peer: remote.map(|remote| remote.ip().into()),
            local: Some(socket.local.ip()),
            program: owner.map(|owner| owner.name.as_str()),
            pid: owner.map(|owner| owner.pid),
            uid: Some(socket.uid),
            cgroup: socket.cgroup,
            cookie: Some(socket.cookie),
            state: Some(socket.state),
            transport: socket.transport,
            of_many: false,
            overflow: false,
        }
    }

    /// The peer's address.
    pub fn host(&self) -> Option<IpAddr> {
        self.peer.and_then(IpPrefix::host)
    }

    /// The peer's name.
    pub fn name(&self, names: &Names) -> Option<PeerName> {
        names.peer(self.cookie, self.pid, self.host()?)
    }

    /// The row that it is in.
    pub fn label(&self, by: GroupBy, names: &Names) -> String {
        if self.overflow && !self.found_room(by) {
            return OVERFLOW.into();
        }
        let port = |port: Option<u16>| port.map_or_else(|| "-".into(), |port| port.to_string());
        let place = || self.cgroup.and_then(|id| names.places.get(&id));
        match by {
            GroupBy::Peer => self.peer(),
            GroupBy::Name => self.name(names).map_or_else(|| self.peer(), |name| name.name),
            GroupBy::Program => self.program.unwrap_or(UNKNOWN).to_owned(),
            GroupBy::Process => match (self.program, self.pid) {
                (Some(name), Some(pid)) => format!("{name}[{pid}]"),
                (name, _) => name.unwrap_or(UNKNOWN).to_owned(),
            },
            GroupBy::Unit => place().and_then(|place| place.unit.clone()).unwrap_or_else(|| "(no unit)".into()),
            GroupBy::Pod => place().and_then(|place| place.pod.clone()).unwrap_or_else(|| "(no container)".into()),
            GroupBy::Port => port(self.local_port.into_iter().chain(self.peer_port).min()),
            GroupBy::Cgroup => self.cgroup.map_or_else(|| UNKNOWN.into(), |id| names.cgroup(id)),
            GroupBy::Connection => self.connection(names),
        }
    }

    /// Whether what found no room for a series of its own still says which row it is in.
    fn found_room(&self, by: GroupBy) -> bool {
        match by {
            GroupBy::Peer | GroupBy::Name => self.peer.is_some(),
            GroupBy::Program | GroupBy::Process => self.program.is_some(),
            GroupBy::Unit | GroupBy::Pod | GroupBy::Cgroup => self.cgroup.is_some(),
            GroupBy::Port => self.local_port.or(self.peer_port).is_some(),
            GroupBy::Connection => false,
        }
    }

    fn peer(&self) -> String {
        match (self.peer, self.state) {
            (Some(peer), _) => peer.to_string(),
            (None, Some(SocketState::Listening)) => "(listening)".into(),
            (None, Some(_)) => "(no peer)".into(),
            (None, None) => UNKNOWN.into(),
        }
    }

    /// What stands behind the ends: what is spoken, where that is not TCP.
    fn speaks(&self, names: &Names) -> &'static str {
        match self.transport {
            Transport::Tcp => "",
            Transport::Udp if self.cookie.is_some_and(|cookie| names.is_quic(cookie)) => " QUIC",
            Transport::Udp => " UDP",
        }
    }

    fn connection(&self, names: &Names) -> String {
        let port = |port: Option<u16>| port.map_or_else(|| "-".into(), |port| port.to_string());
        let local = port(self.local_port);
        let udp = self.speaks(names);
        match (self.peer.filter(|_| !self.of_many), self.state) {
            (None, Some(_)) if !udp.is_empty() => format!(":{local}{udp}"),
            (None, Some(state)) => format!(":{local} {}", state.name()),
            (peer, _) => {
                let text = peer.map_or_else(|| UNKNOWN.to_owned(), |peer| peer.to_string());
                let text = if peer.is_some_and(|peer| peer.address().is_ipv6()) { format!("[{text}]") } else { text };
                format!(":{local} → {text}:{}{udp}", port(self.peer_port))
            }
        }
    }

    /// The label of the row with the name of its host in place of the address; `None` where rows
    /// are of no host, or of several.
    pub(super) fn around_host(&self, by: GroupBy, names: &Names) -> Option<[String; 2]> {
        self.host().filter(|_| by != GroupBy::Connection || !(self.of_many || self.overflow))?;
        let port = |port: Option<u16>| port.map_or_else(|| "-".into(), |port| port.to_string());
        match by {
            GroupBy::Peer => Some([String::new(), String::new()]),
            GroupBy::Connection => {
                let udp = self.speaks(names);
                Some([format!(":{} → ", port(self.local_port)), format!(":{}{udp}", port(self.peer_port))])
            }
            _ => None,
        }
    }
}
