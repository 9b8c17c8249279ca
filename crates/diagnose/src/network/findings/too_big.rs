//! Packets that are larger than a link of the path takes.

use std::collections::BTreeMap;

use record::Nanos;
use record::network::Says;

use super::{Shown, View, by};
use crate::network::analysis::ErrorCase;

pub(super) fn draw(view: &View<'_>) -> BTreeMap<String, Vec<Shown>> {
    by(&view.errors, |case| of_case(case).map(|shown| (format!("{} {}", case.of.source, case.of.sender.ip()), shown)))
}

fn of_case(case: &ErrorCase<'_>) -> Option<Shown> {
    let (of, row) = (case.of, &case.row);
    if of.says() != Says::TooBig {
        return None;
    }
    let whose = match (case.tcp, case.udp) {
        (Some(t), _) => format!("connection {}", t.number),
        (None, Some(c)) => format!("UDP conversation {}", c.number),
        (None, None) => format!("{} → {}", of.sender, of.receiver),
    };
    let size =
        of.mtu.map_or("an unknown number of bytes".to_owned(), |mtu| format!("{} bytes", quantity::count(mtu.into())));
    let until = of.last_larger.map_or(of.last.at, |last| last.at.max(of.last.at));
    let (obeyed, next) = match row.obeyed {
        Some(true) => (
            "; the sender then sent none that is larger".to_owned(),
            format!("nothing has to be done; an MTU of {size} at {} saves the detour", of.sender.ip()),
        ),
        Some(false) => (
            format!(
                "; the sender sent {} more packets that are larger, until {} later",
                quantity::count(of.larger),
                Nanos(until.saturating_sub(of.first.at))
            ),
            format!(
                "{} does not heed the message: look for a firewall there that drops ICMP, and for a program that sets \
                 IP_MTU_DISCOVER; have the router cut the MSS of TCP (clamping), or send smaller datagrams",
                of.sender.ip()
            ),
        ),
        None => (
            "; what the sender sent later is not in the capture, or was divided after it".to_owned(),
            format!("see in a capture after the host's network card whether {} sends smaller packets", of.sender.ip()),
        ),
    };
    Some(Shown {
        number: row.number,
        client: of.sender.ip(),
        waited: of.first.at..until,
        packets: of.packets.iter().copied().chain(of.last_larger.map(|last| last.packet)).collect(),
        text: format!(
            "{whose}: {} takes packets of {size} at most for {}, as it said {}{obeyed}",
            of.source,
            of.receiver.ip(),
            quantity::counted(of.count, "time")
        ),
        next,
    })
}
