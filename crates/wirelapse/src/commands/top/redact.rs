//! `--redact`: what stands in place of addresses and names, so that a screen or a file can be shown
//! to others. What is equal stays equal; ports, numbers of processes and figures stay as they are.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use record::histogram::Series;
use record::socket::{Socket, SocketChanges};
use record::{Comm, Connection, Event, Exchange, IpPrefix, Question, Says};

use super::replay::Slice;

/// What a name is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Program,
    Host,
    Unit,
    Pod,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Host => "host",
            Self::Unit => "unit",
            Self::Pod => "pod",
        }
    }
}

/// Replaces addresses and names by the order in which they come.
#[derive(Debug, Default)]
pub struct Redaction {
    addresses: HashMap<IpAddr, IpAddr>,
    names: HashMap<(Kind, String), String>,
}

impl Redaction {
    /// An address of 10.0.0.0/8 or 2001:db8::/32. Those that say nothing of a network stay:
    /// loopback and none.
    fn address(&mut self, address: IpAddr) -> IpAddr {
        if address.is_loopback() || address.is_unspecified() {
            return address;
        }
        let n = self.addresses.len() as u32 + 1;
        *self.addresses.entry(address).or_insert_with(|| match address {
            IpAddr::V4(_) => Ipv4Addr::from_bits(10 << 24 | n & 0x00ff_ffff).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(n)).into(),
        })
    }

    fn end(&mut self, end: SocketAddr) -> SocketAddr {
        SocketAddr::new(self.address(end.ip()), end.port())
    }

    /// What stands in place of a name.
    pub fn name(&mut self, kind: Kind, name: &str) -> String {
        let key = (kind, name.to_owned());
        if let Some(known) = self.names.get(&key) {
            return known.clone();
        }
        let n = self.names.keys().filter(|(of, _)| *of == kind).count() + 1;
        self.names.entry(key).or_insert_with(|| format!("{}-{n}", kind.word())).clone()
    }

    fn program(&mut self, name: &str) -> String {
        self.name(Kind::Program, name)
    }

    fn question(&mut self, question: &mut Question) {
        question.name = self.name(Kind::Host, &question.name);
        let found = question.addresses.split(' ').filter_map(|address| address.parse().ok());
        let shown: Vec<String> = found.map(|address| self.address(address).to_string()).collect();
        question.addresses = shown.join(" ");
        (question.local, question.server) = (self.end(question.local), self.end(question.server));
        question.owner.comm = self.comm(question.owner.comm);
    }

    fn connection(&mut self, connection: &mut Connection) {
        (connection.local, connection.remote) = (self.end(connection.local), self.end(connection.remote));
        connection.owner.comm = self.comm(connection.owner.comm);
    }

    /// The same of an interval of a run.
    pub fn slice(&mut self, slice: &mut Slice) {
        slice.connections.iter_mut().for_each(|connection| self.connection(connection));
        slice.series.iter_mut().for_each(|series| self.series(series));
        self.sockets(&mut slice.sockets);
        slice.sends.iter_mut().for_each(|send| send.owner.comm = self.comm(send.owner.comm));
        slice.requests.iter_mut().for_each(|request| request.owner.comm = self.comm(request.owner.comm));
        slice.questions.iter_mut().for_each(|question| self.question(question));
        slice.exchanges.iter_mut().for_each(|of| self.exchange(of));
        slice.hellos.iter_mut().for_each(|(_, server)| *server = self.name(Kind::Host, server));
    }

    fn exchange(&mut self, of: &mut Exchange) {
        (of.local, of.peer) = (self.end(of.local), self.end(of.peer));
        of.owner.comm = self.comm(of.owner.comm);
    }

    fn comm(&mut self, comm: Comm) -> Comm {
        self.program(&comm.text()).as_str().into()
    }

    /// The same of an event: of those that the screen takes.
    pub fn event(&mut self, event: &mut Event) {
        match event {
            Event::Connection(connection) => self.connection(connection),
            Event::Question(question) => self.question(question),
            Event::Exchange(of) => self.exchange(of),
            Event::SetUp(of) | Event::Connect(of) => of.owner.comm = self.comm(of.owner.comm),
            Event::Head(head) => {
                if let Says::Tls { server: Some(name), .. } = &mut head.says {
                    *name = self.name(Kind::Host, name);
                }
            }
            Event::Send(send) => send.owner.comm = self.comm(send.owner.comm),
            Event::Receive(receive) => receive.reader.comm = self.comm(receive.reader.comm),
            _ => {}
        }
    }

    /// The same of a series.
    pub fn series(&mut self, series: &mut Series) {
        let key = &mut series.key;
        key.peer = key.peer.map(|peer| peer.host().map_or(peer, |host| IpPrefix::from(self.address(host))));
        key.program = key.program.take().map(|name| self.program(&name));
    }

    /// The same of sockets.
    pub fn sockets(&mut self, changes: &mut SocketChanges) {
        changes.changed.iter_mut().chain(&mut changes.closed).for_each(|socket| self.socket(socket));
    }

    fn socket(&mut self, socket: &mut Socket) {
        (socket.local, socket.remote) = (self.end(socket.local), self.end(socket.remote));
        if let Some(owner) = &mut socket.owner {
            owner.name = self.program(&owner.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::histogram::SeriesKey;

    #[test]
    fn what_is_equal_stays_equal_and_nothing_else_is_kept() {
        let mut redaction = Redaction::default();
        let peer: IpAddr = "192.0.2.1".parse().unwrap();
        let key = SeriesKey { peer: Some(peer.into()), program: Some("nginx".into()), ..SeriesKey::default() };
        let mut series = Series::new(key);
        redaction.series(&mut series);
        let expected = ("10.0.0.1".to_owned(), Some("program-1".to_owned()));
        assert_eq!((series.key.peer.unwrap().to_string(), series.key.program), expected);
        let other = redaction.end("[2001:db8:1::7]:443".parse().unwrap());
        assert_eq!(other.to_string(), "[2001:db8::2]:443");
        assert_eq!(redaction.end(SocketAddr::new(peer, 80)).to_string(), "10.0.0.1:80");
        assert_eq!(redaction.end("127.0.0.1:80".parse().unwrap()).to_string(), "127.0.0.1:80");
        assert_eq!((redaction.program("curl"), redaction.program("nginx")), ("program-2".into(), "program-1".into()));
        let mut asked = Question { name: "a.example".into(), addresses: "192.0.2.1".into(), ..Question::blank() };
        redaction.question(&mut asked);
        assert_eq!((asked.name.as_str(), asked.addresses.as_str()), ("host-1", "10.0.0.1"));
        assert_eq!(redaction.name(Kind::Host, "a.example"), "host-1");
    }
}
