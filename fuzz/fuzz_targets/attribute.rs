//! Any bytes as netlink attributes, nested to any depth, as TCP's statistics, and as what is told of a NIC.

#![no_main]

use libfuzzer_sys::fuzz_target;
use timestamping::{TcpStats, TimestampingInfo, attributes};

fuzz_target!(|bytes: &[u8]| {
    let mut level = vec![attributes(bytes)];
    while let Some(here) = level.pop() {
        for attribute in here.flatten() {
            let _ = (attribute.number(), attribute.text());
            level.push(attribute.nested());
        }
    }
    let _ = TcpStats::parse(bytes);
    let _ = TimestampingInfo::from_netlink(bytes);
});
