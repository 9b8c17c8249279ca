//! Targets of fuzzing: any bytes as records of the kernel part.

use std::collections::VecDeque;

use record::Nanos;

use crate::copies::raw::Copies;
use crate::decode::raw;
use crate::layout::RawReceive;
use crate::packets::assembly::Assembly;

/// Records of any probe, each with its length in front.
pub fn records(bytes: &[u8]) {
    let (mut assembly, mut events) = (Assembly::default(), VecDeque::new());
    let mut copies = Copies::default();
    let mut rest = bytes;
    while let [length, more @ ..] = rest {
        let (record, after) = more.split_at(usize::from(*length).min(more.len()));
        rest = after;
        let _ = crate::sends::decode::decode(record, Nanos::from_millis(4));
        let _ = crate::watch::sample::reading(record, Nanos::from_millis(4));
        if let Ok(received) = raw::<RawReceive>(record) {
            let received = crate::receive::raw::receive(&received);
            let _ = (received.last_seq(), received.leg(record::ReceiveLeg::Total));
        }
        let _ = crate::http::head(record);
        let _ = copies.take(record);
        let _ = assembly.take(record, &mut events);
    }
    assembly.finish(&mut events);
}

#[cfg(test)]
mod tests {
    #[test]
    fn corpora() {
        tier::corpus::replay("bpf_records", super::records);
    }
}
