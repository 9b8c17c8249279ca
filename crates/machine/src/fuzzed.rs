//! Targets of fuzzing: any bytes as an answer of rtnetlink.

/// A datagram on the netlink socket, which may answer the request of number 1.
pub fn netlink(bytes: &[u8]) {
    let _ = crate::netlink::answer(bytes, 1);
    let _ = crate::netlink::queues(bytes, 1, &mut Vec::new());
}

#[cfg(test)]
mod tests {
    #[test]
    fn corpora() {
        tier::corpus::replay("netlink", super::netlink);
    }
}
