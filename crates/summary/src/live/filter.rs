//! What a person writes to see some of the rows: `port:443 proc:nginx peer:10.0.0.0/8 p99:>50ms
//! state:established wait:window`.
//!
//! Terms are separated by blanks and all of them must hold; one that begins with `-` must not.
//! Values with a comma are alternatives, text is a regular expression in either case, and quotes
//! hold blanks together. A word without a field is looked for in the names of rows.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use record::socket::{SocketState, Transport};
use record::{IpPrefix, Leg, Nanos};
use regex::{Regex, RegexBuilder};

use super::{Names, Subject};
use crate::groups::Group;

/// What is wrong with a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError(String);

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FilterError {}

/// A field of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Either port.
    Port,
    /// The peer: an address, a network, or a name.
    Peer,
    /// The peer's name.
    Name,
    /// This host's address.
    Local,
    /// The program.
    Program,
    /// The process.
    Pid,
    /// The user who made the socket.
    User,
    /// The path of the cgroup, which has the unit in it.
    Cgroup,
    /// The pod or container, by its name or in the path of the cgroup.
    Pod,
    /// The state of a socket.
    State,
    /// TCP or UDP.
    Transport,
    /// What is wrong.
    Wait,
    /// Median of the time of sends.
    P50,
    /// Their 99th percentile.
    P99,
    /// 99th percentile of the time of requests.
    Request,
    /// Round-trip time.
    Rtt,
    /// Sends a second.
    Sends,
    /// Bytes sent a second.
    Sent,
    /// Bytes received a second.
    Received,
    /// Segments retransmitted.
    Retransmitted,
    /// How long nothing was sent or received.
    Idle,
}

/// Each field with the words for it, the first of which is shown.
const FIELDS: [(Field, &[&str]); 21] = [
    (Field::Port, &["port"]),
    (Field::Peer, &["peer"]),
    (Field::Name, &["name"]),
    (Field::Local, &["local"]),
    (Field::Program, &["proc", "program", "comm"]),
    (Field::Pid, &["pid"]),
    (Field::User, &["user"]),
    (Field::Cgroup, &["cgroup", "unit"]),
    (Field::Pod, &["pod", "container"]),
    (Field::State, &["state"]),
    (Field::Transport, &["proto"]),
    (Field::Wait, &["wait", "why"]),
    (Field::P50, &["p50"]),
    (Field::P99, &["p99"]),
    (Field::Request, &["req", "request"]),
    (Field::Rtt, &["rtt"]),
    (Field::Sends, &["sends"]),
    (Field::Sent, &["sent"]),
    (Field::Received, &["recv", "received"]),
    (Field::Retransmitted, &["retr"]),
    (Field::Idle, &["idle"]),
];

/// One term.
#[derive(Clone, Debug)]
struct Term {
    not: bool,
    /// `None` for a word that is looked for in the names of rows.
    field: Option<Field>,
    any: Vec<Test>,
}

#[derive(Clone, Debug)]
enum Test {
    Text(Regex),
    Ports(RangeInclusive<u16>),
    Network(IpPrefix),
    State(SocketState),
    Transport(Transport),
    Number(u64),
    /// Above the value, or below it.
    Beyond {
        above: bool,
        value: f64,
    },
}

/// A filter; the empty one takes every row.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    terms: Vec<Term>,
}

/// The longest compiled expression: a person's word is far below it.
const LARGEST: usize = 1 << 18;

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Ok(Self { terms: words(text).iter().map(|word| Term::parse(word)).collect::<Result<_, _>>()? })
    }
}

/// The words of a text: quotes hold blanks together, one that is not closed reaches to the end.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty() && word != "-");
    words
}

impl Term {
    fn parse(word: &str) -> Result<Self, FilterError> {
        let (not, rest) = word.strip_prefix('-').map_or((false, word), |rest| (true, rest));
        let named = rest.split_once(':').filter(|(name, value)| {
            // An IPv6 address, or `:443`, is text.
            !name.is_empty() && !value.starts_with(':') && name.chars().all(|c| c.is_ascii_alphanumeric())
        });
        let Some((name, value)) = named else { return Ok(Self { not, field: None, any: vec![text(rest)?] }) };
        let lower = name.to_lowercase();
        let Some((field, _)) = FIELDS.iter().find(|(_, names)| names.contains(&lower.as_str())) else {
            // Digits make it an address rather than a name that is wrong.
            if name.chars().any(|c| c.is_ascii_digit()) {
                return Ok(Self { not, field: None, any: vec![text(rest)?] });
            }
            let known = FIELDS.iter().map(|(_, names)| names[0]).collect::<Vec<_>>().join(", ");
            return Err(FilterError(format!("there is no field {name}: there are {known}")));
        };
        if value.is_empty() {
            return Err(FilterError(format!("{name}: needs a value")));
        }
        let any = match field {
            // A comma may stand in a regular expression.
            Field::Name | Field::Program | Field::User | Field::Cgroup | Field::Pod | Field::Wait => vec![text(value)?],
            field => value.split(',').map(|value| test(*field, name, value)).collect::<Result<_, _>>()?,
        };
        Ok(Self { not, field: Some(*field), any })
    }
}

fn text(value: &str) -> Result<Test, FilterError> {
    let compiled = RegexBuilder::new(value).case_insensitive(true).size_limit(LARGEST).build();
    compiled.map(Test::Text).map_err(|_| FilterError(format!("{value} is no regular expression")))
}

fn test(field: Field, name: &str, value: &str) -> Result<Test, FilterError> {
    let wrong = |expected: &str| FilterError(format!("{name}:{value} is not {expected}"));
    let word = value.to_lowercase();
    match field {
        Field::Port => {
            let (first, last) = value.split_once('-').unwrap_or((value, value));
            match (first.parse(), last.parse()) {
                (Ok(first), Ok(last)) if first <= last => Ok(Test::Ports(first..=last)),
                _ => Err(wrong("a port, or a range as in 8000-8100")),
            }
        }
        Field::Peer | Field::Local => {
            Ok(network(value).map_or_else(|| text(value), |network| Ok(Test::Network(network)))?)
        }
        Field::Pid => value.parse().map(Test::Number).map_err(|_| wrong("the number of a process")),
        Field::State => {
            let state = SocketState::ALL.into_iter().find(|state| !word.is_empty() && state.name().starts_with(&word));
            state.map(Test::State).ok_or_else(|| wrong(&one_of(SocketState::ALL.map(SocketState::name))))
        }
        Field::Transport => {
            let found = Transport::ALL.into_iter().find(|transport| transport.name() == word);
            found.map(Test::Transport).ok_or_else(|| wrong(&one_of(Transport::ALL.map(Transport::name))))
        }
        Field::P50 | Field::P99 | Field::Request | Field::Rtt | Field::Idle => {
            let time = |text: &str| quantity::parse::duration(text).ok().map(|time| time.0 as f64);
            beyond(value, time).ok_or_else(|| wrong("a time such as >50ms"))
        }
        Field::Sent | Field::Received => {
            let bytes = |text: &str| quantity::parse::bytes(text).ok().map(|bytes| bytes as f64);
            beyond(value, bytes).ok_or_else(|| wrong("bytes a second such as >1M"))
        }
        Field::Sends | Field::Retransmitted => {
            let count = |text: &str| quantity::parse::count(text).ok().map(|count| count as f64);
            beyond(value, count).ok_or_else(|| wrong("a number such as >100"))
        }
        Field::Name | Field::Program | Field::User | Field::Cgroup | Field::Pod | Field::Wait => text(value),
    }
}

fn one_of<const N: usize>(words: [&str; N]) -> String {
    format!("one of {}", words.join(", "))
}

/// `>50ms` or `<50ms`; without a sign it is `>`. An equals sign after it changes nothing: rates and
/// times are no whole numbers.
fn beyond(value: &str, parse: impl Fn(&str) -> Option<f64>) -> Option<Test> {
    let (above, rest) = match value.strip_prefix('<') {
        Some(rest) => (false, rest),
        None => (true, value.strip_prefix('>').unwrap_or(value)),
    };
    Some(Test::Beyond { above, value: parse(rest.strip_prefix('=').unwrap_or(rest))? })
}

/// An address or a network.
fn network(value: &str) -> Option<IpPrefix> {
    let (address, bits) = value.split_once('/').map_or((value, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(most), |bits| bits.parse().ok()).filter(|bits| *bits <= most)?;
    Some(IpPrefix::new(address, bits))
}

impl Subject<'_> {
    /// Whether a test holds; `None` where it is of rows.
    fn passes(&self, field: Field, test: &Test, names: &Names) -> Option<bool> {
        let named = |regex: &Regex| self.name(names).is_some_and(|name| regex.is_match(&name.name));
        let address = |address: Option<IpAddr>| match test {
            Test::Network(network) => address.is_some_and(|a| IpPrefix::new(a, network.bits()) == *network),
            Test::Text(regex) => address.is_some_and(|address| regex.is_match(&address.to_string())),
            _ => false,
        };
        let written =
            |text: Option<&str>| matches!((test, text), (Test::Text(regex), Some(text)) if regex.is_match(text));
        Some(match field {
            Field::Port => {
                let ports = [self.local_port, self.peer_port];
                matches!(test, Test::Ports(range) if ports.iter().flatten().any(|port| range.contains(port)))
            }
            Field::Peer => address(self.host()) || matches!(test, Test::Text(regex) if named(regex)),
            Field::Name => matches!(test, Test::Text(regex) if named(regex)),
            Field::Local => address(self.local),
            Field::Program => written(self.program),
            Field::Pid => matches!(test, Test::Number(pid) if self.pid.is_some_and(|own| u64::from(own) == *pid)),
            Field::User => {
                let of = |uid: u32| names.users.get(&uid).cloned().unwrap_or_else(|| uid.to_string());
                written(self.uid.map(of).as_deref())
            }
            Field::Cgroup => written(self.cgroup.map(|id| names.cgroup(id)).as_deref()),
            Field::Pod => {
                let place = self.cgroup.and_then(|id| names.places.get(&id));
                written(place.map(|place| place.path.as_str())) || written(place.and_then(|place| place.pod.as_deref()))
            }
            Field::State => matches!(test, Test::State(state) if self.state == Some(*state)),
            Field::Transport => matches!(test, Test::Transport(transport) if self.transport == *transport),
            _ => return None,
        })
    }
}

impl Filter {
    /// Whether it takes everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether a socket or a series is let through.
    pub(super) fn takes(&self, subject: &Subject<'_>, names: &Names) -> bool {
        self.terms.iter().all(|term| {
            let Some(field) = term.field else { return true };
            let mut tried = term.any.iter().filter_map(|test| subject.passes(field, test, names)).peekable();
            tried.peek().is_none() || tried.any(|passes| passes) != term.not
        })
    }

    /// Whether a row is, by its figures and its names: its label, and that of its peer.
    pub(super) fn takes_row(&self, row: &Group) -> bool {
        self.terms.iter().all(|term| match term.field {
            None => {
                let found = |regex: &Regex| regex.is_match(&row.label) || regex.is_match(&row.named());
                term.any.iter().any(|test| matches!(test, Test::Text(regex) if found(regex))) != term.not
            }
            Some(field) => {
                let mut tried = term.any.iter().filter_map(|test| of_row(field, test, row)).peekable();
                tried.peek().is_none() || tried.any(|passes| passes) != term.not
            }
        })
    }
}

/// Whether a test of rows holds; `None` where it is of sockets.
fn of_row(field: Field, test: &Test, row: &Group) -> Option<bool> {
    let time = |time: Option<Nanos>| time.map(|time| time.0 as f64);
    let value = match field {
        Field::P50 => time(row.quantile(Leg::Total, 0.5)),
        Field::P99 => time(row.quantile(Leg::Total, 0.99)),
        Field::Request => time(row.requests.quantile(0.99)),
        Field::Rtt => time(row.sockets.rtt.map(|[_, most]| most)),
        Field::Sends => Some(row.per_second(row.figures.sends)),
        Field::Sent => Some(row.sent_per_second()),
        Field::Received => Some(row.received_per_second()),
        Field::Retransmitted => Some(row.retransmitted() as f64),
        Field::Idle => time(row.sockets.quiet),
        Field::Wait => {
            let name = row.trouble.map(|trouble| trouble.name().replace('_', " "));
            let is = |name: &String| matches!(test, Test::Text(regex) if regex.is_match(name));
            return Some(name.as_ref().is_some_and(is));
        }
        _ => return None,
    };
    let beyond = |value| matches!(test, Test::Beyond { above, value: bound } if if *above { value > *bound } else { value < *bound });
    Some(value.is_some_and(beyond))
}

#[cfg(test)]
mod tests {
    use super::super::{NameSource, PeerName, Placement};
    use super::*;
    use proptest::prelude::*;
    use record::histogram::SeriesKey;

    fn error(text: &str) -> String {
        text.parse::<Filter>().unwrap_err().to_string()
    }

    fn takes(filter: &str) -> bool {
        let mut names = Names::default();
        let path = "/system.slice/web1.service".to_owned();
        names.places.insert(1, Placement { path, unit: None, pod: Some("shop/cart".into()) });
        names.resolved.insert("10.1.2.3".parse().unwrap(), "db.example".into());
        let key = SeriesKey {
            peer: Some("10.1.2.3".parse::<IpAddr>().unwrap().into()),
            peer_port: Some(40_000),
            local_port: Some(443),
            program: Some("nginx".into()),
            cgroup: Some(1),
            overflow: false,
        };
        filter.parse::<Filter>().unwrap().takes(&Subject::of_key(&key, None), &names)
    }

    #[test]
    fn fields_of_a_connection() {
        for holds in [
            "",
            "port:443",
            "port:80,443",
            "port:400-500 proc:nginx peer:10.0.0.0/8",
            "proc:^NGI",
            "peer:10.1.2.3",
            "peer:^10\\.1",
            "unit:web1",
            "name:^db",
            "peer:db.example",
            "pod:cart",
            "container:web1",
            "-port:80",
            "-proc:curl p99:>50ms anything",
            "proto:tcp",
        ] {
            assert!(takes(holds), "{holds}");
        }
        for fails in [
            "port:80",
            "-port:443",
            "proc:curl",
            "peer:10.2.0.0/16",
            "state:established",
            "pod:x",
            "proto:udp",
            "name:web",
            "user:root",
        ] {
            assert!(!takes(fails), "{fails}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(error("prot:443").starts_with("there is no field prot: there are port, peer"));
        assert_eq!(error("port:http"), "port:http is not a port, or a range as in 8000-8100");
        assert_eq!(error("port:9-8"), "port:9-8 is not a port, or a range as in 8000-8100");
        assert_eq!(error("p99:>50"), "p99:>50 is not a time such as >50ms");
        assert_eq!(error("proc:a("), "a( is no regular expression");
        assert_eq!(error("proc:"), "proc: needs a value");
        assert!(error("state:open2").contains("one of established, connecting"));
    }

    #[test]
    fn addresses_and_quotes_are_text() {
        for text in ["fe80::1", "::1", ":443 → 192.0.2.1:40000", "\"proc name\"", "-", "192.0.2.1:443", "2001:db8::1"]
        {
            assert!(text.parse::<Filter>().is_ok(), "{text}");
        }
        assert_eq!(words("a \"b c\" proc:\"d e"), ["a", "b c", "proc:d e"]);
    }

    #[test]
    fn rows_are_compared_by_their_figures() {
        let mut row = Group { label: "192.0.2.1".into(), length: Nanos::from_millis(1_000), ..Group::default() };
        row.figures.sends = 50;
        row.figures.legs.insert(Leg::Total, [Nanos::from_millis(60)].into_iter().collect());
        row.trouble = Some(super::super::Trouble::ReceiveWindow(0.5));
        row.around_host = Some([String::new(), String::new()]);
        row.name = Some(PeerName { name: "web.example".into(), source: NameSource::Dns, others: false });
        let takes = |text: &str| text.parse::<Filter>().unwrap().takes_row(&row);
        for holds in ["p99:>50ms", "p99:<1s", "sends:>=49", "wait:window", "WEB", "0\\.2", "-wait:nagle", "port:1"] {
            assert!(takes(holds), "{holds}");
        }
        for fails in ["p99:>1s", "p50:<50ms", "sends:51", "wait:nagle", "req:>1ms", "-web", "idle:>1s"] {
            assert!(!takes(fails), "{fails}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_filter_or_an_error(text in "[ -~→]{0,40}", field in 0..FIELDS.len(), value in "\\PC{0,12}") {
            let _ = text.parse::<Filter>();
            let _ = format!("{}:{value}", FIELDS[field].1[0]).parse::<Filter>();
        }
    }
}
