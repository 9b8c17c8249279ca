//! What a plan can set, by name: a name is read once, where it comes in, and written by one
//! function.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use lab::Side;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::brought;
use crate::setting::Refused;

macro_rules! known {
    ($($(#[$about:meta])+ $setting:ident $name:literal)+) => {
        /// A setting of the path, of a workload or of its sockets.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Known {
            $($(#[$about])+ $setting,)+
        }

        impl Known {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$setting),+];

            /// As it is written in a plan.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$setting => $name,)+
                }
            }
        }
    };
}

known! {
    /// One-way delay of the path.
    Delay "delay"
    /// How much the delay varies.
    Jitter "jitter"
    /// By which distribution it varies.
    JitterShape "jitter_shape"
    /// How much one packet's delay is like the one's before.
    JitterMemory "jitter_memory"
    /// Rate of the path.
    Rate "rate"
    /// Share of packets that are lost, each by itself.
    Loss "loss"
    /// Share of packets that are lost, several in a row.
    BurstLoss "burst_loss"
    /// Depth of the queue.
    Queue "queue"
    /// How the queue is managed.
    Qdisc "qdisc"
    /// Files of a recorded link.
    Recorded "recorded"
    /// A file with changes of the path over time.
    Schedule "schedule"
    /// From which depth on the queue marks packets.
    Ecn "ecn"
    /// Share of packets that are held back, and for how long.
    Reorder "reorder"
    /// Share of packets that come twice.
    Duplicate "duplicate"
    /// Size from which on packets vanish.
    BlackHole "black_hole"
    /// Largest packet of the path.
    Mtu "mtu"
    /// Through the path, or over loopback of one host.
    Over "over"
    /// Segmentation and receive offloads of both hosts.
    Offloads "offloads"
    /// What runs.
    Workload "workload"
    /// Which way its bytes go.
    Direction "direction"
    /// IPv4 or IPv6.
    Family "family"
    /// Connections at a time.
    Flows "flows"
    /// Bytes of one write of a stream.
    Write "write"
    /// Bytes of a datagram.
    Datagram "datagram"
    /// Rate of datagrams.
    DatagramRate "datagram_rate"
    /// Bytes of a request.
    Request "request"
    /// Bytes of a response.
    Response "response"
    /// Writes that a request is split into.
    RequestWrites "request_writes"
    /// Writes that a response is split into.
    ResponseWrites "response_writes"
    /// An option that changes Nagle's algorithm or the ACKs.
    Socket "socket"
    /// Congestion control.
    Congestion "congestion"
    /// Congestion control of a second stream at the same time.
    Rival "rival"
    /// `SO_SNDBUF`.
    SendBuffer "send_buffer"
    /// `SO_RCVBUF`.
    ReceiveBuffer "receive_buffer"
    /// `TCP_NOTSENT_LOWAT`.
    NotsentLowat "notsent_lowat"
    /// `TCP_MAXSEG`.
    Mss "mss"
    /// The upper six bits of the traffic class.
    Dscp "dscp"
    /// Threads that only use the CPU.
    CpuLoad "cpu_load"
    /// How long a server waits before it answers.
    Think "think"
}

impl Known {
    /// Settings of the path between the hosts.
    pub(crate) const OF_THE_PATH: [Self; 16] = [
        Self::Delay,
        Self::Jitter,
        Self::JitterShape,
        Self::JitterMemory,
        Self::Rate,
        Self::Loss,
        Self::BurstLoss,
        Self::Queue,
        Self::Qdisc,
        Self::Recorded,
        Self::Schedule,
        Self::Ecn,
        Self::Reorder,
        Self::Duplicate,
        Self::BlackHole,
        Self::Mtu,
    ];

    /// What else only a lab can set.
    pub(crate) const OF_THE_LAB: [Self; 2] = [Self::Over, Self::Offloads];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| known.name() == name)
    }
}

/// A sysctl below `net`, by its name with dots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysctl(Cow<'static, str>);

impl Sysctl {
    /// The timestamps option.
    pub const TIMESTAMPS: Self = Self(Cow::Borrowed("net.ipv4.tcp_timestamps"));
    /// The option of the same name.
    pub const WINDOW_SCALING: Self = Self(Cow::Borrowed("net.ipv4.tcp_window_scaling"));
    /// Least, first and largest receive buffer.
    pub const RECEIVE_BUFFERS: Self = Self(Cow::Borrowed("net.ipv4.tcp_rmem"));
    /// Least, first and largest send buffer.
    pub(crate) const SEND_BUFFERS: Self = Self(Cow::Borrowed("net.ipv4.tcp_wmem"));
    /// The congestion control of sockets that do not ask for one.
    pub(crate) const CONGESTION_CONTROL: Self = Self(Cow::Borrowed("net.ipv4.tcp_congestion_control"));

    /// The sysctl called `name`, such as `net.ipv4.tcp_timestamps`; `None` for what is no name of
    /// one.
    pub fn new(name: &str) -> Option<Self> {
        let is_one = name.starts_with("net.") && name.split(['.', '/']).all(|part| !part.is_empty());
        is_one.then(|| Self(name.to_owned().into()))
    }

    /// Its name with dots.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The name without the groups that it is in.
    fn last(&self) -> &str {
        self.0.rsplit('.').next().unwrap_or(&self.0)
    }

    /// Whether TCP alone has it.
    pub(crate) fn is_of_tcp(&self) -> bool {
        self.0.starts_with("net.ipv4.tcp_")
    }

    /// Its file.
    pub(crate) fn path(&self) -> PathBuf {
        Path::new("/proc/sys").join(self.0.replace('.', "/"))
    }
}

impl fmt::Display for Sysctl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// One thing that a plan sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// One with a name of ours.
    Known(Known),
    /// A sysctl of one host, or of both.
    Sysctl(Option<Side>, Sysctl),
}

impl Setting {
    /// The names of all settings, for whoever chose one that there is not.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        Known::ALL.iter().map(|known| known.name()).chain(["net.…"])
    }

    /// The setting, where it is a sysctl.
    pub(crate) fn sysctl(&self) -> Option<&Sysctl> {
        match self {
            Self::Sysctl(_, sysctl) => Some(sysctl),
            Self::Known(_) => None,
        }
    }

    /// The setting, where it is a sysctl of this host.
    pub(crate) fn sysctl_of(&self, host: Side) -> Option<&Sysctl> {
        match self {
            Self::Sysctl(side, sysctl) if side.is_none_or(|side| side == host) => Some(sysctl),
            _ => None,
        }
    }

    /// The name without what leads to it: `tcp_timestamps` of `a.net.ipv4.tcp_timestamps`.
    pub(crate) fn short(&self) -> &str {
        match self {
            Self::Known(known) => known.name(),
            Self::Sysctl(_, sysctl) => sysctl.last(),
        }
    }

    /// The hosts that it is set in, in a word.
    pub(crate) fn hosts(&self) -> &'static str {
        match self {
            Self::Sysctl(Some(side), _) => side.name(),
            _ => "both",
        }
    }
}

impl From<Known> for Setting {
    fn from(known: Known) -> Self {
        Self::Known(known)
    }
}

impl PartialEq<Known> for Setting {
    fn eq(&self, known: &Known) -> bool {
        matches!(self, Self::Known(own) if own == known)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(known) => f.write_str(known.name()),
            Self::Sysctl(None, sysctl) => sysctl.fmt(f),
            Self::Sysctl(Some(side), sysctl) => write!(f, "{}.{sysctl}", side.name()),
        }
    }
}

impl FromStr for Setting {
    type Err = Refused;

    /// A sysctl is of both hosts, with `a.` or `b.` before it of one; it may be written with the
    /// slashes that it has in `/proc/sys`.
    fn from_str(name: &str) -> Result<Self, Refused> {
        if let Some(known) = Known::named(name) {
            return Ok(known.into());
        }
        let dotted = brought::dotted(name);
        let whole = dotted.as_deref().unwrap_or(name);
        let (side, rest) = match whole.split_at_checked(2) {
            Some(("a.", rest)) => (Some(Side::A), rest),
            Some(("b.", rest)) => (Some(Side::B), rest),
            _ => (None, whole),
        };
        if let Some(sysctl) = Sysctl::new(rest) {
            return Ok(Self::Sysctl(side, sysctl));
        }
        let advice = match (brought::answer(name), quantity::near(name, Self::names())) {
            (Some(answer), _) => answer,
            (None, Some(known)) => format!("did you mean `{known}`?"),
            (None, None) => format!("there are {}", Self::names().collect::<Vec<_>>().join(", ")),
        };
        Err(Refused::Name(format!("there is no setting {name:?}: {advice}")))
    }
}

impl Serialize for Setting {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        name.parse().map_err(|refused: Refused| serde::de::Error::custom(crate::Error::from(refused)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_reads_back_from_its_name() {
        let sysctls = [None, Some(Side::A), Some(Side::B)].map(|side| Setting::Sysctl(side, Sysctl::TIMESTAMPS));
        for setting in Known::ALL.iter().map(|known| Setting::from(*known)).chain(sysctls) {
            assert_eq!(setting.to_string().parse(), Ok(setting));
        }
        for (slashes, dots) in [
            ("net/ipv4/tcp_sack", "net.ipv4.tcp_sack"),
            ("a.net/ipv4/tcp_sack", "a.net.ipv4.tcp_sack"),
            ("/proc/sys/net/core/somaxconn", "net.core.somaxconn"),
        ] {
            assert_eq!(slashes.parse::<Setting>().unwrap().to_string(), dots);
        }
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        for name in ["", "a.", "b.delay", "kernel.hostname", "net..ipv4", "net.ipv4/../../kernel/hostname", "net."] {
            assert!(matches!(name.parse::<Setting>(), Err(Refused::Name(_))), "{name}");
        }
        assert_eq!(
            "dealy".parse::<Setting>(),
            Err(Refused::Name("there is no setting \"dealy\": did you mean `delay`?".into()))
        );
        for (name, words) in [("nodelay", "socket = "), ("parallel", "`flows`"), ("tcp_sack", "net.ipv4.tcp_sack")] {
            let Err(Refused::Name(said)) = name.parse::<Setting>() else { panic!("{name}") };
            assert!(said.contains(words), "{said}");
        }
    }
}
