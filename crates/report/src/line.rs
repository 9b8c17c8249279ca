//! A record as one line of text, for those who watch them come, and as a sentence.

use std::net::SocketAddr;

use record::{Again, Connect, Ending, Event, Nanos, Outcome, Owner};

use crate::described::Described;

/// A slow record: how long it took, what it is and where the time went, in one line without its
/// time of day. `ends` and `owner` are of its connection, where the record has none. `None` for
/// events that take no time.
pub fn slow(event: &Event, ends: Option<(SocketAddr, SocketAddr)>, owner: Option<Owner>) -> Option<String> {
    record::of_each_kind_with_legs!(event, record => words(record, ends, owner)).flatten()
}

fn words<T: Described>(record: &T, ends: Option<(SocketAddr, SocketAddr)>, owner: Option<Owner>) -> Option<String> {
    let (kind, times) = (record.kind(), record.times_so_far());
    let total = Nanos(times[kind.total()]?);
    let took = record.took(kind.total(), total);
    let mut line = format!("{took:>9}  {} {}", kind.thing(), quantity::bytes(record.bytes()));
    if let Some(owner) = record.owner().or(owner).filter(|owner| owner.pid != 0) {
        line.push_str(&format!("  {}[{}]", owner.comm, owner.pid));
    }
    if let Some((local, remote)) = record.ends().or(ends) {
        line.push_str(&format!("  {local} → {remote}"));
    }
    let legs: Vec<String> = kind
        .adding()
        .filter_map(|(i, leg)| Some(format!("{} {}", leg.name, record.took(i, Nanos(times[i]?)))))
        .collect();
    if !legs.is_empty() {
        line.push_str(&format!("  {}", legs.join(", ")));
    }
    if let Some(name) = record.name() {
        line.push_str(&format!("  {name}"));
    }
    if let Some(state) = record.state() {
        line.push_str(&format!("  {state}"));
    }
    if let Some(held) = record.held() {
        line.push_str(&format!("  {held}"));
    }
    Some(line)
}

/// What happened, as a sentence without its beginning and end: `a send of 512 B by curl[12] from …
/// to … took 43.2 ms: tcp 40.1 ms, network 3.1 ms; waited for …`. `ends` and `owner` as with
/// [`slow`].
pub fn sentence(event: &Event, ends: Option<(SocketAddr, SocketAddr)>, owner: Option<Owner>) -> Option<String> {
    let dropped = |what: &str, record: &dyn Fn() -> (u64, String), reason: &record::DropReason| {
        let (bytes, whose) = record();
        format!("a {what} of {}{whose} was dropped on this host: {reason}", quantity::bytes(bytes))
    };
    match event {
        Event::SetUp(of) | Event::Connect(of) => Some(connect(of)),
        Event::Copy(copy) => {
            let again = match copy.again? {
                Again::Probe => "a tail loss probe sent",
                Again::Recovery => "fast recovery sent",
                Again::Loss => "the retransmission timer ran out, and TCP sent",
            };
            let whose = whose(Some(copy.owner), ends);
            Some(format!("{again} {} another time{whose}", quantity::bytes(copy.payload.into())))
        }
        Event::Packet(packet) if let Some(drop) = &packet.dropped => {
            let of = || (packet.bytes.into(), whose(owner, Some((packet.local, packet.remote))));
            Some(dropped("packet", &of, &drop.reason))
        }
        Event::Datagram(datagram) if let Some(drop) = &datagram.dropped => {
            let of = || {
                (
                    summary::Timed::bytes(&**datagram),
                    whose(summary::Timed::owner(&**datagram), summary::Timed::ends(&**datagram)),
                )
            };
            Some(dropped("datagram", &of, &drop.reason))
        }
        event => record::of_each_kind_with_legs!(event, record => took(record, ends, owner)).flatten(),
    }
}

fn took<T: Described>(record: &T, ends: Option<(SocketAddr, SocketAddr)>, owner: Option<Owner>) -> Option<String> {
    let (kind, times) = (record.kind(), record.times_so_far());
    let total = record.took(kind.total(), Nanos(times[kind.total()]?));
    let whose = whose(record.owner().or(owner), record.ends().or(ends));
    let legs = kind.adding().filter_map(|(i, leg)| Some(format!("{} {}", leg.name, record.took(i, Nanos(times[i]?)))));
    let beside: Vec<String> = [legs.collect::<Vec<_>>().join(", ")]
        .into_iter()
        .filter(|legs| !legs.is_empty())
        .chain([record.name(), record.state(), record.held()].into_iter().flatten())
        .collect();
    let so_far = format!("a {} of {}{whose} took {total}", kind.thing(), quantity::bytes(record.bytes()));
    Some(if beside.is_empty() { so_far } else { format!("{so_far}: {}", beside.join("; ")) })
}

fn connect(of: &Connect) -> String {
    let whose = whose(Some(of.owner), Some((of.local, of.remote)));
    match (of.outcome, of.ending, of.handshake()) {
        (Outcome::Refused, ..) => format!("an attempt to connect{whose} was refused"),
        (Outcome::Unreachable, ..) => format!("an attempt to connect{whose} failed: the peer cannot be reached"),
        (Outcome::NoPort, ..) => format!("an attempt to connect{whose} failed: no port of this host was free"),
        (Outcome::TimedOut, ..) => format!("an attempt to connect{whose} failed: no answer came"),
        (Outcome::Unanswered, ..) => format!("a connection{whose} was not set up: the SYN-ACK was not acknowledged"),
        (_, Some(Ending::Reset), _) => {
            let by = of.ended_by.map_or_else(String::new, |by| format!(" by {}", ended_by(by)));
            format!("a connection{whose} was reset{by}")
        }
        (_, _, Some(took)) => format!("setting up a connection{whose} took {took}"),
        _ => format!("a connection{whose} was set up"),
    }
}

fn ended_by(by: record::EndedBy) -> &'static str {
    match by {
        record::EndedBy::Program => "the program",
        record::EndedBy::Exit => "this host, as the program ended",
        record::EndedBy::Killed => "this host, as the program was killed",
        record::EndedBy::Peer => "the peer",
        record::EndedBy::Kernel => "the kernel of this host",
        record::EndedBy::Network => "the network",
    }
}

/// ` by curl[12] from A to B`, as far as it is known.
fn whose(owner: Option<Owner>, ends: Option<(SocketAddr, SocketAddr)>) -> String {
    let by = owner.filter(|owner| owner.pid != 0).map(|owner| format!(" by {}[{}]", owner.comm, owner.pid));
    let between = ends.map(|(local, remote)| format!(" from {local} to {remote}"));
    by.into_iter().chain(between).collect()
}
