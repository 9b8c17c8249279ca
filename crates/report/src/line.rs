//! A record as one line of text, for those who watch them come.

use std::net::SocketAddr;

use record::{Event, Nanos, Owner};

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
