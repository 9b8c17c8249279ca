//! Targets of fuzzing: any bytes, through each entry that takes the kernel's.

use crate::{Report, TcpStats, TimestampingInfo, attributes, controls, report};

/// The control messages of one message from the error queue, with what follows as its payload.
pub fn control(bytes: &[u8]) {
    let [length, rest @ ..] = bytes else { return };
    let (control, payload) = rest.split_at(rest.len().min(usize::from(*length) * 4));
    assert!(controls(control).count() <= control.len());
    if let Ok(Report::Stamp(stamp)) = report(control, payload) {
        let _ = (stamp.software(), stamp.hardware(), stamp.stats());
    }
}

/// Netlink attributes, nested to any depth, as TCP's statistics, and as the answer about a NIC.
pub fn attribute(bytes: &[u8]) {
    assert!(attributes(bytes).count() <= bytes.len());
    let mut level = vec![attributes(bytes)];
    while let Some(here) = level.pop() {
        for attribute in here.flatten() {
            let _ = (attribute.number(), attribute.text());
            level.push(attribute.nested());
        }
    }
    let _ = TcpStats::parse(bytes);
    let _ = TimestampingInfo::from_netlink(bytes);
}

#[cfg(test)]
mod tests {
    use tier::corpus::replay;

    /// Cut at every byte: what the kernel gives is cut where a buffer ends.
    fn at_every_byte(run: fn(&[u8])) -> impl Fn(&[u8]) {
        move |bytes| (0..=bytes.len()).for_each(|end| run(&bytes[..end]))
    }

    #[test]
    fn corpora() {
        replay("control", at_every_byte(super::control));
        replay("attribute", at_every_byte(super::attribute));
    }
}
