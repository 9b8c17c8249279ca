//! Everything that can be set for one trial, as people write it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use lab::settings::set_each;
use lab::{Config, Side, parse};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::named::{Known, Setting, Sysctl};

/// What a trial runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Bulk transfer.
    Stream,
    /// Request and response on one connection.
    Rr,
    /// Request and response, a connection each.
    Crr,
    /// Bulk transfer with probes before, beside and after it.
    PingUnderLoad,
    /// Datagrams at a rate.
    Udp,
}

impl Workload {
    /// Each by the name that a plan has for it.
    const NAMED: [(&str, Self); 5] = [
        ("stream", Self::Stream),
        ("rr", Self::Rr),
        ("crr", Self::Crr),
        ("ping-under-load", Self::PingUnderLoad),
        ("udp", Self::Udp),
    ];

    /// The workload of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, workload)| *workload)
    }
}

/// One trial, fully set.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The path.
    pub path: Config,
    /// Through the path, or over loopback of host b.
    pub loopback: bool,
    /// Sysctls: which host, name, value.
    pub sysctls: Vec<(Side, Sysctl, String)>,
    /// Segmentation and receive offloads of both hosts; `None` leaves them.
    pub offloads: Option<bool>,
    /// What runs.
    pub workload: Workload,
    /// Options of the workload's sockets on both sides.
    pub options: traffic::SocketOptions,
    /// IPv6 or IPv4; where it is not said, IPv4 in the lab and the server's first address between
    /// real hosts.
    pub ipv6: Option<bool>,
    /// Which way bytes of a bulk transfer go; up, and both ways under probes, where it is not said.
    pub direction: Option<traffic::stream::Direction>,
    /// Between real hosts, with a path that is as it is and not known.
    pub real: bool,
    /// Parallel flows of a stream.
    pub flows: u32,
    /// Bytes of one write of a stream.
    pub write_bytes: u32,
    /// Shape of request and response.
    pub exchange: traffic::rr::Exchange,
    /// Bytes of each datagram, 24 to 65,507.
    pub datagram_bytes: u32,
    /// Bits of datagrams a second, 0 for as fast as it goes.
    pub datagram_rate: u64,
    /// A second stream at the same time, with this congestion control.
    pub rival: Option<String>,
    /// Threads that only use the CPU.
    pub cpu_load: u32,
    /// A file with the schedule that the path follows.
    pub schedule: Option<String>,
}

impl Default for Setup {
    fn default() -> Self {
        let server = SocketAddr::new(IpAddr::V4(Side::B.ipv4()), 0);
        let datagrams = traffic::udp::Config::new(server);
        Self {
            path: Config::default(),
            loopback: false,
            sysctls: Vec::new(),
            offloads: None,
            workload: Workload::Stream,
            options: traffic::SocketOptions::default(),
            ipv6: None,
            direction: None,
            real: false,
            flows: 1,
            write_bytes: 128 << 10,
            exchange: traffic::rr::Config::new(server).exchange,
            datagram_bytes: datagrams.datagram_bytes,
            datagram_rate: datagrams.bits_per_second,
            rival: None,
            cpu_load: 0,
            schedule: None,
        }
    }
}

/// Why a setting cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no setting of this name.
    Name(String),
    /// It cannot have this value.
    Value(String),
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        let (Refused::Name(text) | Refused::Value(text)) = refused;
        Self::Setting(text)
    }
}

fn number<T>(name: &str, text: &str, least: T, most: T) -> Result<T, Refused>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    let found = text.trim().parse::<T>().ok().filter(|n| (&least..=&most).contains(&n));
    found.ok_or_else(|| Refused::Value(format!("{name} {text:?}: must be a whole number from {least} to {most}")))
}

fn bytes<T>(name: &str, text: &str, least: T, most: T) -> Result<T, Refused>
where
    T: TryFrom<u64> + PartialOrd + std::fmt::Display,
{
    let found = quantity::parse::bytes(text).map_err(|e| Refused::Value(format!("{name} {text:?}: {e}")))?;
    T::try_from(found).ok().filter(|n| (&least..=&most).contains(&n)).ok_or_else(|| {
        Refused::Value(format!("{name} {text:?}: must be a whole number of bytes from {least} to {most}"))
    })
}

fn one_of<T: Copy>(name: &str, text: &str, known: &[(&str, T)]) -> Result<T, Refused> {
    known.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        Refused::Value(format!("{name} {text:?}: must be one of {}", words.join(", ")))
    })
}

impl Setup {
    /// Sets one thing. Settings of the path hold for both directions, or are given as
    /// `A_TO_B/B_TO_A`.
    ///
    /// # Errors
    /// `Refused`, with the values that there are.
    pub fn set(&mut self, setting: &Setting, text: &str) -> Result<(), Refused> {
        match setting {
            Setting::Known(known) => self.set_known(*known, text),
            Setting::Sysctl(side, sysctl) => {
                for side in side.as_ref().map_or(&Side::ALL[..], std::slice::from_ref) {
                    self.sysctls.retain(|(s, known, _)| (s, known) != (side, sysctl));
                    self.sysctls.push((*side, sysctl.clone(), text.to_owned()));
                }
                Ok(())
            }
        }
    }

    fn set_known(&mut self, setting: Known, text: &str) -> Result<(), Refused> {
        let name = setting.name();
        let wrong = |e: parse::Wrong| Refused::Value(format!("{name} {text:?}: {e}"));
        match setting {
            Known::Recorded => self.set_recorded(text)?,
            Known::Schedule => self.schedule = (text != "none").then(|| text.to_owned()),
            Known::Mtu => self.path.mtu = bytes(name, text, 1_280, 65_521)?,
            Known::Over => self.loopback = one_of(name, text, &[("path", false), ("loopback", true)])?,
            Known::Offloads => self.offloads = Some(one_of(name, text, &[("on", true), ("off", false)])?),
            Known::Workload => self.workload = one_of(name, text, &Workload::NAMED)?,
            Known::Direction => {
                use traffic::stream::Direction::{Both, Down, Up};
                self.direction = Some(one_of(name, text, &[("up", Up), ("down", Down), ("both", Both)])?);
            }
            Known::Family => self.ipv6 = Some(one_of(name, text, &[("ipv4", false), ("ipv6", true)])?),
            Known::Flows => self.flows = number(name, text, 1, 128)?,
            Known::Write => self.write_bytes = bytes(name, text, 1, 4 << 20)?,
            Known::Datagram => self.datagram_bytes = bytes(name, text, traffic::udp::Header::BYTES as u32, 65_507)?,
            Known::DatagramRate => {
                self.datagram_rate =
                    quantity::parse::bit_rate(text).map_err(|e| Refused::Value(format!("{name} {text:?}: {e}")))?;
            }
            Known::Request => self.exchange.request_bytes = bytes(name, text, 1, 4 << 20)?,
            Known::Response => self.exchange.response_bytes = bytes(name, text, 1, 4 << 20)?,
            Known::RequestWrites => self.exchange.request_writes = number(name, text, 1, 1_000)?,
            Known::ResponseWrites => self.exchange.response_writes = number(name, text, 1, 1_000)?,
            Known::Think => self.exchange.think = parse::duration(text).map_err(wrong)?,
            Known::Socket => self.set_socket(text)?,
            Known::Congestion => self.options.congestion_control = Some(text.to_owned()),
            Known::Rival => self.rival = (text != "none").then(|| text.to_owned()),
            Known::SendBuffer => self.options.send_buffer_bytes = Some(bytes(name, text, 2_048, 64 << 20)?),
            Known::ReceiveBuffer => self.options.receive_buffer_bytes = Some(bytes(name, text, 2_048, 64 << 20)?),
            Known::NotsentLowat => self.options.notsent_lowat_bytes = Some(bytes(name, text, 1, u32::MAX)?),
            Known::Mss => self.options.mss_bytes = Some(bytes(name, text, 88, 32_767)?),
            Known::Dscp => self.options.dscp = Some(number(name, text, 0, 63)?),
            Known::CpuLoad => self.cpu_load = number(name, text, 0, 256)?,
            Known::Delay
            | Known::Jitter
            | Known::JitterShape
            | Known::JitterMemory
            | Known::Rate
            | Known::Loss
            | Known::BurstLoss
            | Known::Reorder
            | Known::Duplicate
            | Known::Queue
            | Known::Qdisc
            | Known::Ecn
            | Known::BlackHole => self.set_directions(name, text)?,
        }
        Ok(())
    }

    /// What the lab has for each direction of a path.
    fn set_directions(&mut self, name: &str, text: &str) -> Result<(), Refused> {
        let wrong = |e: parse::Wrong| Refused::Value(format!("{name} {text:?}: {e}"));
        let Some(setting) = lab::settings::Setting::named(name) else {
            return Err(Refused::Name(format!("a path of the lab has no {name}")));
        };
        let mut changes = <[lab::Change; 2]>::default();
        set_each(&mut changes, setting, text).map_err(wrong)?;
        for (change, way) in changes.iter().zip([&mut self.path.a_to_b, &mut self.path.b_to_a]) {
            *way = change.applied(way).map_err(|e| Refused::Value(e.to_string()))?;
            // A level without reordering is a path that keeps the order, whatever its jitter.
            way.reorder = way.reorder.filter(|reorder| reorder.share > 0.0);
        }
        Ok(())
    }

    /// A recorded link of a file for both directions, or of two files with a blank between them.
    fn set_recorded(&mut self, text: &str) -> Result<(), Refused> {
        let wrong = |problem: String| Refused::Value(format!("recorded {text:?}: {problem}"));
        let files: Vec<&str> = text.split_whitespace().filter(|file| *file != "none").collect();
        let read = |file: &&str| {
            let content = std::fs::read_to_string(file).map_err(|e| wrong(format!("{file}: {e}")))?;
            lab::Recording::read(file, &content).map(Arc::new).map_err(|e| wrong(e.to_string()))
        };
        let ways = match &files[..] {
            [] => [None, None],
            [one] => {
                let link = read(one)?;
                [Some(link.clone()), Some(link)]
            }
            [a_to_b, b_to_a] => [Some(read(a_to_b)?), Some(read(b_to_a)?)],
            _ => return Err(wrong("there is one file, or one for each direction".into())),
        };
        for (way, link) in [&mut self.path.a_to_b, &mut self.path.b_to_a].into_iter().zip(&ways) {
            way.recorded = link.as_ref().map(|link| link.about.clone());
        }
        self.path.recorded = ways;
        Ok(())
    }

    /// Reads the schedule, for the path that everything else has made.
    ///
    /// # Errors
    /// `Refused` where the file cannot be read, or has a step that this path cannot take.
    pub fn follow_schedule(&mut self) -> Result<(), Refused> {
        let Some(file) = &self.schedule else { return Ok(()) };
        let wrong = |problem: String| Refused::Value(format!("schedule {file:?}: {problem}"));
        let text = std::fs::read_to_string(file).map_err(|e| wrong(e.to_string()))?;
        let path = &self.path;
        let schedule = lab::Schedule::read(file, &text, [&path.a_to_b, &path.b_to_a], path.mtu);
        self.path.schedule = schedule.map_err(|e| wrong(e.to_string()))?;
        Ok(())
    }

    /// Nagle's algorithm as it is by default, or one socket option that changes it or the ACKs.
    fn set_socket(&mut self, text: &str) -> Result<(), Refused> {
        let o = &mut self.options;
        (o.nodelay, o.cork, o.quickack) = one_of(
            "socket",
            text,
            &[
                ("default", (Some(false), None, None)),
                ("nodelay", (Some(true), None, None)),
                ("cork", (Some(false), Some(true), None)),
                ("quickack", (Some(false), None, Some(true))),
            ],
        )?;
        Ok(())
    }

    /// Where the workload's server listens.
    pub fn server_ip(&self) -> IpAddr {
        match (self.loopback, self.ipv6 == Some(true)) {
            (true, false) => IpAddr::from([127, 0, 0, 1]),
            (true, true) => std::net::Ipv6Addr::LOCALHOST.into(),
            (false, false) => Side::B.ipv4().into(),
            (false, true) => Side::B.ipv6().into(),
        }
    }

    /// Round trip of the empty path, seconds; `None` between real hosts, where it is not known
    /// before.
    pub fn round_trip_s(&self) -> Option<f64> {
        let path = || (self.path.a_to_b.delay + self.path.b_to_a.delay).as_secs_f64();
        (!self.real).then(|| if self.loopback { 0.0 } else { path() })
    }

    /// Between real hosts: the sysctls are this host's (`a`), since the server's are not ours to
    /// set.
    pub fn keep_to_this_host(&mut self) {
        self.real = true;
        self.sysctls.retain(|(side, ..)| *side == Side::A);
    }

    /// What a sysctl is set to in a host; `None` where the plan leaves it.
    pub fn sysctl(&self, side: Side, sysctl: &Sysctl) -> Option<&str> {
        self.sysctls.iter().find(|(s, known, _)| (*s, known) == (side, sysctl)).map(|(_, _, v)| v.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(setup: &mut Setup, name: &str, text: &str) -> Result<(), Refused> {
        setup.set(&name.parse()?, text)
    }

    #[test]
    fn settings_are_set() {
        let mut s = Setup::default();
        for (name, text) in [
            ("delay", "25ms/5ms"),
            ("rate", "1gbit"),
            ("queue", "20ms"),
            ("loss", "0.5%"),
            ("net.ipv4.tcp_timestamps", "0"),
            ("a.net.ipv4.tcp_timestamps", "1"),
            ("socket", "cork"),
            ("family", "ipv6"),
            ("reorder", "1%@2ms"),
            ("duplicate", "0.5%/0"),
            ("qdisc", "codel:target=2ms/fifo"),
            ("jitter", "2ms/"),
            ("jitter_shape", "pareto/uniform"),
            ("jitter_memory", "50%/0"),
            ("black_hole", "1400/none"),
            ("dscp", "46"),
        ] {
            set(&mut s, name, text).unwrap();
        }
        assert_eq!(s.path.b_to_a.reorder.map(|r| r.by), Some(record::Nanos::from_millis(2)));
        assert_eq!([s.path.a_to_b.duplicate, s.path.b_to_a.duplicate], [0.005, 0.0]);
        assert_eq!([s.path.a_to_b.black_hole, s.path.b_to_a.black_hole], [Some(1_400), None]);
        assert_eq!(s.options.dscp, Some(46));
        assert_eq!([s.path.a_to_b.jitter, s.path.b_to_a.jitter], [record::Nanos::from_millis(2), record::Nanos::ZERO]);
        assert_eq!([s.path.a_to_b.qdisc.name(), s.path.b_to_a.qdisc.name()], ["codel", "fifo"]);
        set(&mut s, "burst_loss", "1%x8/none").unwrap();
        assert!((s.path.a_to_b.loss.share() - 0.01).abs() < 1e-12 && s.path.b_to_a.loss == lab::Loss::None);
        set(&mut s, "loss", "0").unwrap();
        set(&mut s, "net/ipv4/tcp_sack", "0").unwrap();
        let sack = Sysctl::new("net.ipv4.tcp_sack").unwrap();
        assert_eq!(s.sysctl(Side::A, &sack), Some("0"));
        s.sysctls.retain(|(_, sysctl, _)| *sysctl != sack);
        set(&mut s, "reorder", "0%").unwrap();
        assert_eq!(s.path.a_to_b.reorder, None);
        assert!((s.round_trip_s().unwrap() - 0.03).abs() < 1e-9);
        assert_eq!(s.sysctl(Side::A, &Sysctl::TIMESTAMPS), Some("1"));
        assert_eq!(s.sysctl(Side::B, &Sysctl::TIMESTAMPS), Some("0"));
        assert_eq!(s.sysctls.len(), 2);
        assert_eq!((s.options.cork, s.server_ip()), (Some(true), Side::B.ipv6().into()));
    }

    #[test]
    fn wrong_values_are_refused() {
        let mut s = Setup::default();
        for (name, text) in [
            ("delay", "1x"),
            ("delay", "20"),
            ("recorded", "/there/is/none"),
            ("family", "ipx"),
            ("flows", "0"),
            ("mtu", "100"),
            ("socket", "x"),
        ] {
            assert!(matches!(set(&mut s, name, text), Err(Refused::Value(_))), "{name} {text}");
        }
    }

    #[test]
    fn every_name_is_known() {
        for known in Known::ALL {
            let taken = Setup::default().set(&(*known).into(), "?");
            assert!(!matches!(taken, Err(Refused::Name(_))), "{}", known.name());
        }
    }
}
