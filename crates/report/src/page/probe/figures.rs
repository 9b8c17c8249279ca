//! The figures of all probes of a run.

use ping::{Answerer, Exchange, Outcome, Probe};
use record::{Disorder, Nanos};
use stats::{Distribution, Precision};

/// One share of the time of a probe: its key, its words, and how to get it.
pub struct Share {
    /// The key in the summary's `shares`.
    pub key: &'static str,
    /// The name in the table.
    pub name: &'static str,
    /// What it is.
    pub meaning: &'static str,
    get: fn(&Probe) -> Option<Nanos>,
}

/// Every share, in the order of the table. One that no probe has is not shown.
pub const SHARES: [Share; 9] = [
    Share {
        key: "total",
        name: "total",
        meaning: "from the call that sends to the return of the call that receives; tcp: the handshake",
        get: |p| known(p.exchange.total()),
    },
    Share {
        key: "kernel_out",
        name: "kernel out",
        meaning: "on this host, to the driver",
        get: |p| known(p.exchange.kernel_out()),
    },
    Share {
        key: "network",
        name: "network",
        meaning: "beyond this host, where the peer's kernel answers",
        get: |p| known(p.exchange.network()),
    },
    Share {
        key: "network_and_peer",
        name: "network and peer",
        meaning: "beyond this host, where a program answers and no ACK separates the two",
        get: |p| together(&p.exchange),
    },
    Share {
        key: "kernel_in",
        name: "kernel in",
        meaning: "on this host, from the stack to the program",
        get: |p| known(p.exchange.kernel_in()),
    },
    Share {
        key: "request",
        name: "request",
        meaning: "tcp: from sending the request to reading its answer",
        get: |p| known(p.request?.total()),
    },
    Share {
        key: "request_network",
        name: "· network",
        meaning: "of the request: from the driver to the ACK; the network takes at most this long",
        get: |p| known(p.request?.network()),
    },
    Share {
        key: "request_peer",
        name: "· peer",
        meaning: "of the request: from the ACK to the answer; the program at the peer takes at least this long",
        get: |p| known(p.request?.peer()),
    },
    Share {
        key: "request_network_and_peer",
        name: "· network and peer",
        meaning: "of a request that was acknowledged with its answer: the two together",
        get: |p| together(&p.request?),
    },
];

fn known(share: Result<Option<Nanos>, Disorder>) -> Option<Nanos> {
    share.ok().flatten()
}

/// What is beyond this host, where it cannot be separated.
fn together(exchange: &Exchange) -> Option<Nanos> {
    let separate = exchange.answerer == Answerer::Kernel || known(exchange.network()).is_some();
    if separate { None } else { known(exchange.network_and_peer()) }
}

/// Where most of the time of an exchange went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// This host's kernel, both ways.
    Kernel,
    /// The network.
    Network,
    /// The program at the peer.
    Peer,
    /// Beyond this host.
    NetworkAndPeer,
}

impl Place {
    const ALL: [Self; 4] = [Self::Kernel, Self::Network, Self::Peer, Self::NetworkAndPeer];

    /// As the subject of a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "This host's kernel",
            Self::Network => "The network",
            Self::Peer => "The program at the peer",
            Self::NetworkAndPeer => "What is beyond this host, network and peer,",
        }
    }

    /// The place that takes more than half of an exchange; `None` where none does, or not every
    /// share is known.
    fn of_most(exchange: &Exchange) -> Option<Self> {
        let half = known(exchange.total())?.0 / 2;
        // The ACK of a request bounds the network's time from above only; the handshake measures
        // it.
        let network = match exchange.answerer {
            Answerer::Kernel => known(exchange.network()),
            Answerer::Program => known(exchange.network()).zip(exchange.handshake).map(|(ack, syn)| ack.min(syn)),
        };
        let kernel = known(exchange.kernel_out())? + known(exchange.kernel_in())?;
        let shares = [Some(kernel), network, known(exchange.peer()), together(exchange)];
        Self::ALL.into_iter().zip(shares).find(|(_, share)| share.is_some_and(|s| s.0 > half)).map(|(place, _)| place)
    }
}

/// What came of the probes of a run.
pub struct Figures {
    /// How the probes were made.
    pub method: &'static str,
    /// What could not be timed here, and why.
    pub limits: Vec<String>,
    /// Probes that left this host.
    pub sent: u64,
    /// Of these, the ones that something came back for.
    pub came_back: u64,
    /// How many had each outcome, in the order of their first.
    pub outcomes: Vec<(&'static str, u64)>,
    /// Answers that belong to no probe in flight.
    pub stray: u64,
    /// Probes without times, since the system's clock was set meanwhile.
    pub clock_set: u64,
    /// Probes without times, since their stages are in an impossible order.
    pub disorder: u64,
    /// The distribution of each of [`SHARES`].
    pub shares: [Distribution; SHARES.len()],
    /// Where the time of probes went, without that of requests.
    probes: Most,
    /// Where the time of requests went.
    requests: Most,
}

impl Figures {
    /// None yet, for probes made by this method, with what it cannot time.
    pub fn new(method: &'static str, limits: &[String]) -> Self {
        Self {
            method,
            limits: limits.to_vec(),
            sent: 0,
            came_back: 0,
            outcomes: Vec::new(),
            stray: 0,
            clock_set: 0,
            disorder: 0,
            shares: std::array::from_fn(|_| Distribution::new(Precision::Fine)),
            probes: Most::default(),
            requests: Most::default(),
        }
    }

    /// Adds a probe; one that was interrupted counts nowhere.
    pub fn add(&mut self, probe: &Probe) {
        if probe.outcome == Outcome::Interrupted {
            return;
        }
        self.sent += u64::from(!matches!(probe.outcome, Outcome::NotSent { .. }));
        self.came_back += u64::from(probe.outcome.came_back());
        self.stray += probe.stray;
        let name = probe.outcome.name();
        match self.outcomes.iter_mut().find(|(n, _)| *n == name) {
            Some((_, count)) => *count += 1,
            None => self.outcomes.push((name, 1)),
        }
        if !probe.is_sound() {
            self.clock_set += u64::from(probe.clock_set);
            self.disorder += u64::from(!probe.clock_set);
            return;
        }
        for (distribution, share) in self.shares.iter_mut().zip(&SHARES) {
            if let Some(time) = (share.get)(probe) {
                distribution.record(time.0);
            }
        }
        self.probes.add(&probe.exchange);
        if let Some(request) = &probe.request {
            self.requests.add(request);
        }
    }

    /// The shares that some probe has.
    pub fn shares(&self) -> impl Iterator<Item = (&'static Share, &Distribution)> {
        const { &SHARES }.iter().zip(&self.shares).filter(|(_, d)| d.n() > 0)
    }

    /// The place that takes more than half of the time in nine of ten requests or more; of probes,
    /// where no request was answered.
    pub fn most_of_the_time(&self) -> Option<MostOfTheTime> {
        let (of, what) = if self.requests.n > 0 { (&self.requests, "request") } else { (&self.probes, "probe") };
        let (place, count) = Place::ALL.into_iter().zip(of.by_place).max_by_key(|(_, count)| *count)?;
        (count > 0 && count * 10 >= of.n * 9).then_some(MostOfTheTime { place, count, n: of.n, what })
    }
}

/// That a place takes more than half of the time of `count` of `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MostOfTheTime {
    /// Where.
    pub place: Place,
    /// In how many.
    pub count: u64,
    /// Of how many.
    pub n: u64,
    /// `probe` or `request`.
    pub what: &'static str,
}

/// How many exchanges each place took more than half of.
#[derive(Clone, Copy, Debug, Default)]
struct Most {
    n: u64,
    by_place: [u64; Place::ALL.len()],
}

impl Most {
    fn add(&mut self, exchange: &Exchange) {
        if known(exchange.total()).is_some() {
            self.n += 1;
            if let Some(place) = Place::of_most(exchange) {
                self.by_place[place as usize] += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Instant;

    fn request(peer_ns: u64) -> Exchange {
        let at = |ns| Some(Instant::from_nanos(ns));
        Exchange {
            answerer: Answerer::Program,
            send: at(100),
            driver: at(110),
            ack: at(130),
            driver_rx: at(130 + peer_ns),
            read: at(140 + peer_ns),
            ..Exchange::default()
        }
    }

    fn figures(peers: &[u64]) -> Figures {
        let mut figures = Figures::new("method", &[]);
        for (number, &peer_ns) in (1..).zip(peers) {
            figures.add(&Probe {
                number,
                outcome: Outcome::Answer,
                exchange: Exchange::default(),
                request: Some(request(peer_ns)),
                from: None,
                bytes: 1,
                ttl: None,
                stray: 0,
                clock_set: false,
            });
        }
        figures
    }

    #[test]
    fn a_place_is_named_only_where_nearly_every_probe_says_so() {
        let of = |f: &Figures| f.most_of_the_time().map(|m| (m.place, m.count, m.n, m.what));
        assert_eq!(of(&figures(&[1_000; 10])), Some((Place::Peer, 10, 10, "request")));
        let mut nine = vec![1_000; 9];
        nine.push(1);
        assert_eq!(of(&figures(&nine)), Some((Place::Peer, 9, 10, "request")));
        nine[0] = 1;
        assert_eq!(of(&figures(&nine)), None);
        assert_eq!(of(&figures(&[])), None);
    }

    #[test]
    fn the_network_is_named_only_where_the_handshake_took_as_long() {
        // 40 ns in all, and the ACK after 25.
        let at = |ns| Some(Instant::from_nanos(ns));
        let mut exchange = Exchange { ack: at(135), driver_rx: at(136), read: at(140), ..request(0) };
        assert_eq!(Place::of_most(&exchange), None, "no handshake");
        exchange.handshake = Some(Nanos(19));
        assert_eq!(Place::of_most(&exchange), None, "a handshake of 19 ns");
        exchange.handshake = Some(Nanos(26));
        assert_eq!(Place::of_most(&exchange), Some(Place::Network));
    }

    #[test]
    fn a_request_is_the_networks_and_the_peers_or_both_together() {
        let figures = figures(&[1_000, 2_000]);
        let of = |key: &str| figures.shares().find(|(s, _)| s.key == key).map(|(_, d)| (d.n(), d.min()));
        assert_eq!(of("request_network"), Some((2, Some(20))));
        assert_eq!(of("request_peer"), Some((2, Some(1_000))));
        assert_eq!(of("request_network_and_peer"), None);
    }
}
