//! Packets whose time to live ran out, although they had enough of it: they run in circles.

use std::collections::BTreeMap;

use record::network::Says;

use super::{Shown, View, by};
use crate::network::analysis::ErrorCase;

/// Hops that no path has: with fewer, whoever sent the packet may have wanted the error
/// (traceroute).
const HOPS: u8 = 30;
/// Fewer may be those of a route that was changing.
const LEAST: u64 = 3;

pub(super) fn draw(view: &View<'_>) -> BTreeMap<String, Vec<Shown>> {
    by(&view.errors, |case| of_case(case).map(|shown| (case.of.receiver.ip().to_string(), shown)))
}

fn of_case(case: &ErrorCase<'_>) -> Option<Shown> {
    let (of, row) = (case.of, &case.row);
    let ttl = case.tcp.map(|t| t.ttl).or(case.udp.map(|c| c.hops.min(255) as u8))?;
    if of.says() != Says::TimeExceeded || ttl < HOPS || of.count < LEAST {
        return None;
    }
    Some(Shown {
        number: row.number,
        client: of.sender.ip(),
        waited: of.first.at..of.last.at,
        packets: of.packets.clone(),
        text: format!(
            "packets to {} do not arrive: {} said {} that their time to live ran out, although they passed the capture with \
             {ttl} hops to live",
            of.receiver,
            of.source,
            quantity::counted(of.count, "time")
        ),
        next: format!(
            "routers around {} send them in a circle: compare its route to {} with that of its neighbours (`tracepath`)",
            of.source,
            of.receiver.ip()
        ),
    })
}
