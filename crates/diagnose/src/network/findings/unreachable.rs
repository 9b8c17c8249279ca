//! A destination that cannot be reached, or may not.

use std::collections::BTreeMap;

use record::Nanos;
use record::network::{Says, Transport};

use super::{Shown, View, by};
use crate::network::analysis::ErrorCase;
use crate::network::errors::is_port;

pub(super) fn draw(view: &View<'_>) -> BTreeMap<String, Vec<Shown>> {
    by(&view.errors, |case| of_case(case).map(|shown| (format!("{} {}", case.of.receiver, case.of.code), shown)))
}

fn of_case(case: &ErrorCase<'_>) -> Option<Shown> {
    let (of, row) = (case.of, &case.row);
    let is_quic = case.udp.is_some_and(|c| c.quic.is_some());
    // DNS and QUIC have findings of their own, and of a packet that is not quoted it is not known
    // who cannot be reached.
    let is_known = !of.receiver.ip().is_unspecified();
    if of.says() != Says::Unreachable || is_quic || wire::is_dns(of.sender, of.receiver) || !is_known {
        return None;
    }
    let by_host = of.source == of.receiver.ip();
    let who = if by_host { "its host".to_owned() } else { of.source.to_string() };
    let said = format!("{who} said \"{}\"", row.meaning);
    let protocol = of.transport.map_or("packets of another protocol", Transport::words);
    // The receiver refuses what the other side answers.
    let is_answer =
        case.udp.is_some_and(|c| c.client == of.receiver) || case.tcp.is_some_and(|t| t.client == of.receiver);
    let start = case.tcp.map(|t| t.start).or(case.udp.map(|c| c.start_ns.0)).unwrap_or(of.first.at);
    let waited = start.min(of.first.at)..of.last.at;
    let after = Nanos(of.first.at.saturating_sub(start));
    let (text, next) = match (case.tcp, case.udp) {
        _ if is_answer => (
            format!("{} no longer took what {} answered by {protocol}: {said}", of.receiver, of.sender),
            "the program there had closed its socket: it waits too short, or the answer took too long".to_owned(),
        ),
        (Some(t), _) if t.is_answered => (
            format!("connection {} to {}: {said} in the middle of it", t.number, of.receiver),
            "look at the routes and firewalls of who said so: the connection had worked before".to_owned(),
        ),
        (Some(t), _) => (
            format!("connection {} to {} never opened: {said} {after} after the first SYN", t.number, of.receiver),
            advice(case),
        ),
        (None, Some(_)) => (
            format!("{} cannot be reached by {protocol}: {said} {after} after the first datagram", of.receiver),
            advice(case),
        ),
        (None, None) if of.transport.is_none() => {
            (format!("{} cannot be reached by {protocol}: {said}", of.receiver.ip()), advice(case))
        }
        (None, None) => (format!("{} cannot be reached by {protocol}: {said}", of.receiver), advice(case)),
    };
    let mut packets = of.packets.clone();
    packets.extend(case.tcp.map(|t| t.first_packet).or(case.udp.map(|c| c.first_packet)));
    packets.sort_unstable();
    packets.dedup();
    Some(Shown { number: row.number, client: of.sender.ip(), waited, packets, text, next })
}

fn advice(case: &ErrorCase<'_>) -> String {
    let of = case.of;
    if is_port(of.v6, of.kind, of.code) {
        let protocol = of.transport.map_or("", Transport::words);
        return format!(
            "have something listen at {protocol} port {} there; a firewall that rejects answers like this too",
            of.receiver.port()
        );
    }
    match case.row.meaning.contains("prohibited") || case.row.meaning.contains("policy") {
        true => format!("a firewall at {} rejects it: allow it there, or use another way", of.source),
        false => format!("look at the routes of {}, and whether {} is up", of.source, of.receiver.ip()),
    }
}
