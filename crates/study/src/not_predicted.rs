//! Why first principles say nothing of a response.

use std::fmt;

use record::Nanos;
use record::trial::Response;

use crate::predict::datagrams;
use crate::setting::{Setup, Workload};

/// Why there is no prediction of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPredicted {
    /// Nothing here is worked out for such a response of such a workload.
    NoFormula,
    /// The path is the loopback device.
    Loopback,
    /// The path is that between real hosts.
    RealHosts,
    /// The path does what no formula holds.
    Disturbed,
    /// The path is another one from moment to moment.
    Changing,
    /// A time, over a path whose delay varies or that loses much.
    Varying,
    /// The delay of datagrams where they nearly fill the path, or where it has none to speak of.
    QueueDecides,
    /// Exchanges over a path without a rate.
    NoRate,
    /// The path takes less time than the hosts.
    HostsDecide,
    /// Datagrams with neither a rate of the path nor of the sender.
    NobodysRate,
    /// Datagrams that are fragmented.
    LargerThanMtu,
    /// What a flow gets beside a rival.
    Rival,
    /// A stream with nothing that bounds it.
    NoBound,
}

impl fmt::Display for NotPredicted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoFormula => {
                "first principles are worked out only for the goodput of stream and udp, the transactions and the median latency of rr and crr, \
                 lost datagrams, their median delay, and the shortest round trip"
            }
            Self::Loopback => "loopback has no rate and no delay: hosts decide",
            Self::RealHosts => {
                "between real hosts the path's rate is not known, and no window that the plan sets bounds it"
            }
            Self::Disturbed => "the path reorders, duplicates or drops by size, which no formula here knows",
            Self::Changing => "the path changes while it is measured",
            Self::Varying => "the path's delay varies, or a tenth of the packets is lost, and a median depends on both",
            Self::QueueDecides => "the datagrams nearly fill the path, or hardly take any time on it: its queue and the hosts decide",
            Self::NoRate => "the path has no rate: hosts decide",
            Self::HostsDecide => "the path takes less time than the hosts: these decide",
            Self::NobodysRate => "neither the path nor the sender has a rate: hosts decide",
            Self::LargerThanMtu => "datagrams are larger than the MTU",
            Self::Rival => "what a flow gets beside a rival is what is asked",
            Self::NoBound => {
                "the path has no rate, and no window or loss with a known formula bounds it: hosts decide"
            }
        })
    }
}

/// Why there is no prediction of a response where there is none.
pub fn none_because(response: Response, setup: &Setup) -> NotPredicted {
    let disturbed = |d: &lab::Direction| d.reorder.is_some() || d.duplicate > 0.0 || d.black_hole.is_some();
    let ways = [&setup.path.a_to_b, &setup.path.b_to_a];
    match (response, setup.workload) {
        (Response::Goodput, Workload::Stream | Workload::Udp)
        | (Response::DatagramsLost | Response::OneWayP50, Workload::Udp)
        | (Response::MinRoundTrip, Workload::Stream)
        | (Response::Transactions | Response::LatencyP50, Workload::Rr | Workload::Crr) => {}
        _ => {
            return NotPredicted::NoFormula;
        }
    }
    if setup.loopback {
        return NotPredicted::Loopback;
    }
    if setup.real {
        return NotPredicted::RealHosts;
    }
    if setup.schedule.is_some() || ways.iter().any(|way| way.recorded.is_some()) {
        return NotPredicted::Changing;
    }
    if setup.workload != Workload::Rr && setup.workload != Workload::Crr && ways.into_iter().any(disturbed) {
        return NotPredicted::Disturbed;
    }
    let is_time = matches!(response, Response::LatencyP50 | Response::OneWayP50 | Response::MinRoundTrip);
    if is_time && ways.iter().any(|way| way.jitter > Nanos::ZERO || way.loss.share() >= 0.1) {
        return NotPredicted::Varying;
    }
    match setup.workload {
        _ if response == Response::MinRoundTrip && ways.iter().all(|way| way.rate.is_some()) => {
            NotPredicted::HostsDecide
        }
        _ if response == Response::OneWayP50 && datagrams(setup).is_some() => NotPredicted::QueueDecides,
        Workload::Rr | Workload::Crr if ways.iter().any(|way| way.rate.is_none()) => NotPredicted::NoRate,
        Workload::Rr | Workload::Crr => NotPredicted::HostsDecide,
        Workload::Udp if ways.iter().all(|way| way.rate.is_none()) && setup.datagram_rate == 0 => {
            NotPredicted::NobodysRate
        }
        Workload::Udp => NotPredicted::LargerThanMtu,
        _ if setup.rival.is_some() => NotPredicted::Rival,
        _ => NotPredicted::NoBound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::of;

    #[test]
    fn where_there_is_no_prediction_the_reason_is_said() {
        let said = |settings: &[(&str, &str)], response: Response| {
            let mut setup = Setup::default();
            settings.iter().for_each(|(name, value)| setup.set(&name.parse().unwrap(), value).unwrap());
            assert_eq!(of(response, &setup), None, "{settings:?} has a prediction");
            none_because(response, &setup)
        };
        let loopback = ("over", "loopback");
        for (settings, response, reason) in [
            (&[loopback][..], Response::Goodput, "loopback has no rate"),
            (&[loopback, ("workload", "rr")], Response::Transactions, "loopback has no rate"),
            (&[("delay", "1ms")], Response::Goodput, "the path has no rate"),
            (&[("rate", "1gbit"), ("duplicate", "1%")], Response::Goodput, "duplicates"),
            (&[("rate", "1gbit"), ("rival", "reno")], Response::Goodput, "rival"),
            (&[("workload", "rr"), ("delay", "1ms")], Response::Transactions, "the path has no rate"),
            (
                &[("workload", "rr"), ("delay", "0"), ("rate", "1gbit")],
                Response::Transactions,
                "less time than the hosts",
            ),
            (&[("workload", "udp"), ("datagram_rate", "0")], Response::Goodput, "neither the path nor the sender"),
            (&[("workload", "udp"), ("datagram", "9000"), ("rate", "1gbit")], Response::Goodput, "larger than the MTU"),
            (&[("rate", "1gbit"), ("delay", "1ms")], Response::RoundTrip, "only for the goodput"),
            (&[("rate", "1gbit"), ("delay", "1ms"), ("workload", "rr")], Response::LatencyP99, "only for the goodput"),
            (
                &[("rate", "1gbit"), ("delay", "5ms"), ("jitter", "1ms"), ("workload", "rr")],
                Response::LatencyP50,
                "delay varies",
            ),
            (&[("rate", "1gbit"), ("delay", "0")], Response::MinRoundTrip, "less time than the hosts"),
            (
                &[("rate", "10mbit"), ("delay", "5ms"), ("workload", "udp"), ("datagram_rate", "10M")],
                Response::OneWayP50,
                "nearly fill the path",
            ),
        ] {
            let why = said(settings, response);
            assert!(why.to_string().contains(reason), "{settings:?}: {why}");
        }
    }
}
