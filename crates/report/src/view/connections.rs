//! What keeps connections from working: they are stuck, they fail, or take long to come about, or
//! the name of the peer is not found.

use std::net::SocketAddr;

use paper::document::{Clause, Text};
use record::{Leg, Nanos, Opening, Outcome, WaitReason};
use stats::{Distribution, Quantile};
use summary::{SetUps, TraceSummary};

use super::{Facts, names};

/// This share of the attempts fails, or is retried, where it is the answer to how a program does.
const MANY: f64 = 0.1;
/// What takes as long as this is noticed, ns.
const NOTICED: u64 = 100_000_000;

/// What is to be said of connections before anything else.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    /// The answer, where it is one of these.
    pub headline: Option<Clause>,
    /// What else is wrong.
    pub beside: Vec<Clause>,
}

impl Trouble {
    fn add(&mut self, clause: Option<(bool, Clause)>) {
        match clause {
            Some((true, clause)) if self.headline.is_none() => self.headline = Some(clause),
            Some((_, clause)) => self.beside.push(Clause::caveat(clause.text)),
            None => {}
        }
    }
}

/// What keeps connections from working, the worst first.
pub(crate) fn trouble(summary: &TraceSummary, facts: &Facts) -> Trouble {
    let mut all = Trouble::default();
    all.add(stuck(summary).map(|clause| (true, clause)));
    let (connected, accepted) = [Opening::Connected, Opening::Accepted].map(|way| summary.connects().of(way)).into();
    all.add(names::trouble(summary, facts));
    all.add(failed(summary, connected, Opening::Connected));
    all.add(failed(summary, accepted, Opening::Accepted));
    all.add(accepted_late(summary, accepted, facts));
    all.add(retried(summary, connected, facts));
    all
}

fn show(time: Nanos) -> String {
    quantity::whole(time)
}

/// Connections on which nothing was acknowledged any more.
fn stuck(summary: &TraceSummary) -> Option<Clause> {
    let stuck = summary.stuck();
    let (first, send) = *stuck.first()?;
    let idle = send.unacknowledged?.idle;
    let n = stuck.len() as u64;
    let (have, up_to) = if n == 1 { ("has", "") } else { ("have", "up to ") };
    let of = quantity::count(summary.connection_count());
    let closed = send.wait.filter(|wait| send.stamps.sched.is_none() && wait.reason() == WaitReason::ReceiveWindow);
    let peer = first.connection.remote;
    let (why, next) = if closed.is_some() {
        let next = Text::from("the program at ")
            .and(peer)
            .and(" does not read what it has: look what it does, and whether it is stopped.");
        ("the peer's receive window is full".to_owned(), next)
    } else {
        let why = match send.retransmissions {
            0 => "no ACK came".to_owned(),
            n => format!("{} without an ACK", quantity::counted(n.into(), "retransmission")),
        };
        let next = Text::from("nothing comes back from ")
            .and(peer)
            .and(": look whether that host is up (")
            .and(Text::code("ping"))
            .and("), and whether a route or a firewall has changed. TCP goes on trying for a quarter of an hour unless the program \
                  sets TCP_USER_TIMEOUT.");
        (why, next)
    };
    Some(
        Clause::finding(format!(
            "{} of {of} connections {have} been stuck for {up_to}{}: {why}.",
            quantity::count(n),
            show(idle)
        ))
        .with_next(Some(next)),
    )
}

/// Where attempts went to: the one service, where there is one.
fn service(summary: &TraceSummary, way: Opening) -> Option<SocketAddr> {
    let services = summary.connects().services();
    let mut of = services.iter().filter(|((opening, _), _)| *opening == way).map(|((_, end), _)| *end);
    of.next().filter(|_| of.next().is_none() && summary.connects().others == 0)
}

/// Attempts that came to nothing, and whether that is the answer.
fn failed(summary: &TraceSummary, of: &SetUps, way: Opening) -> Option<(bool, Clause)> {
    let failures = of.failures();
    let n: u64 = failures.iter().map(|(_, n)| n).sum();
    let (most, _) = *failures.iter().max_by_key(|(_, n)| *n)?;
    let what: Vec<String> =
        failures.iter().map(|(outcome, n)| format!("{} {}", quantity::count(*n), came_to(*outcome))).collect();
    let tried = format!("{} of {} to connect", quantity::count(n), quantity::counted(of.n(), "attempt"));
    let mut text = match service(summary, way) {
        Some(service) => Text::from(format!("{tried} to ")).and(service),
        None if way == Opening::Accepted => Text::from(format!("{tried} here")),
        None => Text::from(tried),
    };
    text = text.and(format!(" failed: {}", what.join(", ")));
    if let Some(longest) = of.failed.max().filter(|&longest| longest >= NOTICED) {
        text = text.and(format!(", after up to {}", show(Nanos(longest))));
    }
    let next = (way == Opening::Connected).then(|| whats_next(most));
    let answer = quantity::share(n.into(), of.n().into()) >= MANY || summary.total().sends == 0;
    Some((answer, Clause::finding(text.and(".")).with_next(next)))
}

fn came_to(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Refused => "refused",
        Outcome::Unreachable => "unreachable",
        Outcome::NoPort => "without a free port on this host",
        Outcome::TimedOut => "timed out",
        Outcome::Abandoned => "given up by the program without an answer",
        Outcome::Unanswered => "without an ACK from the peer",
        Outcome::Pending => "still without an answer at the end",
        Outcome::Established | Outcome::Found => "established",
    }
}

fn whats_next(outcome: Outcome) -> Text {
    match outcome {
        Outcome::Refused => Text::from("nothing listens on that port there, or a firewall rejects the SYN: ")
            .and(Text::code("ss -ltn"))
            .and(" on that host shows which ports have a listener."),
        Outcome::Unreachable => Text::from("there is no way to that address: look at ")
            .and(Text::code("ip route get"))
            .and(" with it, and whether the host is up."),
        Outcome::NoPort => Text::from("each connection to the same peer needs a port of its own, also for a minute after it was closed (TIME-WAIT): keep \
             connections open and use them again, or widen ")
        .and(Text::code("net.ipv4.ip_local_port_range"))
        .and("."),
        _ => Text::from(
            "no answer comes to the SYN: the host is down, a firewall drops it, or the accept queue of the program that listens is full (",
        )
        .and(Text::code("nstat -az TcpExtListenDrops"))
        .and(" there counts that)."),
    }
}

/// How long something took, in one clause.
fn spread(times: &Distribution) -> String {
    let most = show(Nanos(times.max().unwrap_or(0)));
    match times.quantile(Quantile::P50) {
        Some(median) if times.n() > 2 => format!("up to {most} (median {})", show(Nanos(median))),
        _ => format!("up to {most}"),
    }
}

/// The time of the sends themselves, which that of set-up is compared with.
fn sends(summary: &TraceSummary) -> u128 {
    summary.total().leg(Leg::Total).sum()
}

/// Connections that waited long in the accept queue.
fn accepted_late(summary: &TraceSummary, of: &SetUps, facts: &Facts) -> Option<(bool, Clause)> {
    let waits = &of.accept_wait;
    let late = waits.count_between(NOTICED, u64::MAX);
    let drops = facts.lost.connect_listen_drops;
    let queue = match service(summary, Opening::Accepted) {
        Some(service) => Text::from("the accept queue of ").and(service),
        None => Text::from("the accept queue"),
    };
    let text = match (late, drops) {
        (0, 0) => return None,
        (0, drops) => Text::from(format!("{} dropped, as ", were_dropped(drops))).and(queue).and(" was full"),
        _ => {
            let waited = format!("{} waited {} in ", quantity::counted(waits.n(), "connection"), spread(waits));
            let text = Text::from(waited).and(queue);
            if drops > 0 {
                text.and(format!(", and {} dropped because it was full", were_dropped(drops)))
            } else {
                text
            }
        }
    };
    let next = Text::from(
        "the program calls accept() too late: it is busy, or blocked. A longer queue (the backlog of listen(), net.core.somaxconn) only \
         lets more of them wait.",
    );
    let answer = waits.sum() >= sends(summary) && quantity::share(late.max(drops).into(), of.n().max(1).into()) >= MANY;
    Some((answer, Clause::finding(text.and(".")).with_next(Some(next))))
}

fn were_dropped(n: u64) -> String {
    match n {
        1 => "1 SYN or ACK was".into(),
        n => format!("{} SYNs or ACKs were", quantity::count(n)),
    }
}

/// Connections with a retransmitted SYN, and whether setting them up took most of the time.
fn retried(summary: &TraceSummary, of: &SetUps, facts: &Facts) -> Option<(bool, Clause)> {
    let retried = of.retried.min(of.outcome(Outcome::Established));
    let most = of.handshake.max().filter(|&most| most >= NOTICED)?;
    if retried == 0 {
        return None;
    }
    let text = format!(
        "Connecting took up to {}: {} of {} were set up with a retransmitted SYN.",
        show(Nanos(most)),
        quantity::count(retried),
        quantity::counted(of.n(), "connection")
    );
    let next = match facts.lost.connect_listen_drops {
        0 => Text::from(
            "the SYN or its answer was lost on the path, or the accept queue of the program that listens was full: ",
        )
        .and(Text::code("nstat -az TcpExtListenDrops"))
        .and(" on its host tells which."),
        n => Text::from(format!(
            "the accept queue of the program that listens was full, and {} dropped: it has to call accept() sooner.",
            were_dropped(n)
        )),
    };
    let answer = of.handshake.sum() >= sends(summary) && quantity::share(retried.into(), of.n().into()) >= MANY;
    Some((answer, Clause::finding(text).with_next(Some(next))))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::view::sentences;
    use record::{
        Connect, Connection, ConnectionId, Coverage, Event, Instant, Lost, Owner, Sampling, Send, SenderState, Stamps,
        Unacknowledged, Waits,
    };
    use summary::Limits;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant<record::Monotonic> {
        Instant::from_nanos(ms * MS)
    }

    pub(crate) fn facts(listen_drops: u64) -> Facts {
        Facts {
            target: "port 80".into(),
            backend: "timestamping".into(),
            sampling: Sampling::Every,
            coverage: Coverage::default(),
            lost: Lost { connect_listen_drops: listen_drops, ..Lost::default() },
            lasted: Nanos(10_000 * MS),
            no_nic: None,
            calls: Vec::new(),
            connects: Vec::new(),
            receiving: Vec::new(),
            http: Vec::new(),
            packets: Vec::new(),
            copies: Vec::new(),
            dns: Vec::new(),
        }
    }

    /// So many sends of 20 ms on each of `n` connections.
    fn traced(n: u64, sends: u64) -> TraceSummary {
        let mut summary = TraceSummary::new(Limits::default(), at(0));
        for id in 1..=n {
            summary.add(&Event::Connection(Connection {
                id: ConnectionId(id),
                local: "10.0.0.1:40000".parse().unwrap(),
                remote: "10.0.0.2:80".parse().unwrap(),
                owner: Owner::default(),
                opening: Opening::Connected,
                since: at(0),
                congestion_control: "cubic".into(),
                accepted: None,
            }));
            (0..sends).for_each(|i| summary.add(&Event::Send(send(id, i * 25, Some(20)))));
        }
        summary
    }

    fn send(id: u64, sent: u64, acked: Option<u64>) -> Send {
        Send {
            connection: ConnectionId(id),
            bytes: 1,
            stamps: Stamps {
                sched: Some(at(sent)),
                driver: Some(at(sent)),
                ack: acked.map(|ms| at(sent + ms)),
                ..Stamps::sent_at(at(sent))
            },
            state: SenderState { srtt: Nanos(20 * MS), min_rtt: Some(Nanos(20 * MS)), ..SenderState::default() },
            ..Send::blank()
        }
    }

    fn hung(id: u64, sent: u64, until: u64, idle: u64, retransmissions: u16) -> Send {
        let unacknowledged = Some(Unacknowledged { at: at(until), idle: Nanos(idle * MS) });
        Send { unacknowledged, retransmissions, ..send(id, sent, None) }
    }

    fn tried(outcome: Outcome, took: u64, retries: u32) -> Event {
        Event::Connect(Box::new(connect(outcome, took, retries)))
    }

    fn connect(outcome: Outcome, took: u64, retries: u32) -> Connect {
        let mut one = Connect { remote: "10.0.0.2:80".parse().unwrap(), outcome, retries, ..Connect::blank() };
        one.opening = Opening::Connected;
        one.stamps.syn = Some(at(0));
        match outcome {
            Outcome::Established => one.stamps.established = Some(at(took)),
            _ => one.stamps.ended = Some(at(took)),
        }
        one
    }

    fn said(summary: &TraceSummary, facts: &Facts) -> Vec<String> {
        let all = sentences(summary, facts);
        assert!(all[1..].iter().all(|clause| clause.next.is_none()), "one headline has one next step: {all:?}");
        all.iter().map(|clause| clause.text.to_string().replace('\u{a0}', " ")).collect()
    }

    #[test]
    fn a_stuck_connection_is_the_headline_and_its_time_is_in_the_figures() {
        let mut summary = traced(3, 30);
        summary.add(&Event::Send(hung(2, 1_000, 7_600, 6_600, 5)));
        let said = said(&summary, &facts(0));
        assert_eq!(said[0], "1 of 3 connections has been stuck for 6.60 s: 5 retransmissions without an ACK.");
        assert!(
            said[1].contains("of the time of 91 sends (this leg: median 20.0 ms, the longest over 6.60 s)"),
            "{said:?}"
        );
        assert_eq!(summary.total().leg(Leg::Total).max(), Some(6_600 * MS));
        assert_eq!(summary.slowest().sorted()[0].total, Nanos(6_600 * MS));
    }

    #[test]
    fn a_peer_that_does_not_read_is_told_from_a_path_that_is_dead() {
        let mut summary = traced(1, 30);
        let mut closed = hung(1, 1_000, 7_600, 6_600, 0);
        (closed.stamps.sched, closed.stamps.driver) = (None, None);
        closed.wait = Some(Waits::of(WaitReason::ReceiveWindow, Nanos(6_600 * MS)));
        summary.add(&Event::Send(closed));
        let said = said(&summary, &facts(0));
        assert_eq!(said[0], "1 of 1 connections has been stuck for 6.60 s: the peer's receive window is full.");
        assert!(said[1].starts_with("The tcp leg"), "{said:?}");
    }

    #[test]
    fn what_is_merely_on_its_way_is_not_stuck() {
        let mut summary = traced(1, 30);
        // Much is on its way, and ACKs come.
        summary.add(&Event::Send(hung(1, 1_000, 7_600, 15, 0)));
        assert!(!said(&summary, &facts(0))[0].contains("stuck"));
        // Satellites take long.
        let mut summary = traced(1, 30);
        let state = SenderState { srtt: Nanos(600 * MS), ..SenderState::default() };
        summary.add(&Event::Send(Send { state, ..hung(1, 1_000, 2_200, 1_200, 0) }));
        assert!(!said(&summary, &facts(0))[0].contains("stuck"));
    }

    #[test]
    fn attempts_that_all_fail_are_the_headline() {
        let mut summary = TraceSummary::new(Limits::default(), at(0));
        (0..10).for_each(|_| summary.add(&tried(Outcome::Refused, 10, 0)));
        assert_eq!(said(&summary, &facts(0)), ["10 of 10 attempts to connect to 10.0.0.2:80 failed: 10 refused."]);
        let mut summary = TraceSummary::new(Limits::default(), at(0));
        (0..2).for_each(|_| summary.add(&tried(Outcome::Abandoned, 4_000, 3)));
        assert_eq!(
            said(&summary, &facts(0)),
            [
                "2 of 2 attempts to connect to 10.0.0.2:80 failed: 2 given up by the program without an answer, after up to 4.00 s."
            ]
        );
    }

    #[test]
    fn few_failures_among_many_stand_below() {
        let mut summary = traced(2, 30);
        (0..99).for_each(|_| summary.add(&tried(Outcome::Established, 20, 0)));
        summary.add(&tried(Outcome::Refused, 20, 0));
        let said = said(&summary, &facts(0));
        assert!(said[0].starts_with("The network leg"), "{said:?}");
        assert!(said.iter().any(|s| s.starts_with("1 of 100 attempts to connect to 10.0.0.2:80 failed")), "{said:?}");
    }

    #[test]
    fn connections_that_take_seconds_to_come_about_are_the_headline() {
        let mut summary = traced(6, 1);
        (0..3).for_each(|_| summary.add(&tried(Outcome::Established, 10, 0)));
        (1..4).for_each(|i| summary.add(&tried(Outcome::Established, i * 2_377, 3)));
        let first = said(&summary, &facts(0));
        assert_eq!(first[0], "Connecting took up to 7.13 s: 3 of 6 connections were set up with a retransmitted SYN.");
        // From the end that listens, with both ends traced.
        for i in 1..4 {
            let mut accepted =
                Connect { local: "10.0.0.2:80".parse().unwrap(), ..connect(Outcome::Established, 10, 0) };
            (accepted.opening, accepted.stamps.accepted) = (Opening::Accepted, Some(at(10 + i * 2_000)));
            summary.add(&Event::Connect(Box::new(accepted)));
        }
        let both = said(&summary, &facts(12));
        assert_eq!(
            both[0],
            "3 connections waited up to 6.00 s (median 4.01 s) in the accept queue of 10.0.0.2:80, and 12 SYNs or ACKs were dropped because it was full."
        );
        assert!(both.iter().any(|s| s.starts_with("Connecting took up to 7.13 s")), "{both:?}");
    }
}
