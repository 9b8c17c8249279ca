//! Targets of fuzzing: any bytes, through each entry that takes those of a peer or of a file.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;

use clock::{Instant, Nanos};

use crate::control::Answer;
use crate::iperf3::{Parameters, Results, State, UdpHeader};
use crate::limits::Limits;
use crate::load::Flent;
use crate::server::arrivals::{Understood, Wanted, understood};
use crate::server::iperf3::agreed;
use crate::server::reflector::Reflector;
use crate::server::workload::needs;
use crate::udp::flow::{Account, Arrived};
use crate::udp::{Header, Report, Tracker};

/// What comes on a connection to a server: piece by piece, as `understood` asks for it, then what
/// an iperf3 client says next.
pub fn control(bytes: &[u8]) {
    let limits = Limits::default();
    let mut have = 0;
    loop {
        match understood(&bytes[..have]) {
            Ok(Understood::Needs(more)) => {
                assert!(more > have && more <= have + 4096, "{more} bytes asked for after {have}");
                if more > bytes.len() {
                    return;
                }
                have = more;
            }
            Ok(Understood::Wanted(Wanted::Own(request))) => {
                if let Ok((threads, memory)) = needs(&request, &limits) {
                    assert!(threads <= 64, "{threads} threads");
                    assert!(memory < 1 << 30, "{memory} bytes");
                }
                return;
            }
            Ok(Understood::Wanted(Wanted::Iperf3(_))) => break,
            Ok(Understood::Wanted(Wanted::Http)) => return,
            Err(_) => return,
        }
    }
    parameters(&bytes[have..]);
}

/// What an iperf3 client asks for, as JSON.
pub fn parameters(bytes: &[u8]) {
    let limits = Limits::default();
    let Ok(parameters) = serde_json::from_slice::<Parameters>(bytes) else { return };
    if let Ok(agreed) = agreed(&parameters, &limits) {
        assert!(agreed.memory() < 2 << 30, "{} bytes", agreed.memory());
    }
}

/// What a server answers: states, then JSON.
pub fn answer(bytes: &[u8]) {
    let [first, text @ ..] = bytes else { return };
    let _ = State::try_from(*first);
    if let Ok(Answer::Refused(refusal)) = serde_json::from_slice(text) {
        let _ = refusal.to_string();
    }
    let _ = serde_json::from_slice::<Report>(text);
    if let Ok(results) = serde_json::from_slice::<Results>(text) {
        let _ = results.server_output();
        if results.check().is_ok() {
            let datagrams = results.streams.iter().map(crate::stream::client::datagrams_of);
            let total: u64 = datagrams.map(|d| d.expected + d.lost + d.received).sum();
            let bytes: u64 = results.streams.iter().map(|flow| flow.bytes).sum();
            assert!(total.max(bytes) < 1 << 63);
        }
    }
}

/// Datagrams of all kinds that a port answers or counts, 40 bytes at most each.
pub fn datagrams(bytes: &[u8]) {
    let (peer, reflector): (SocketAddr, _) = (([192, 0, 2, 1], 9).into(), Reflector::default());
    let mut tracker = Tracker::default();
    let mut account = Account::new(true, Nanos::from_millis(10));
    for (i, datagram) in bytes.chunks(40).enumerate() {
        let now = Instant::from_nanos(i as u64 * 3_000_000);
        if let Ok(answer) = reflector.answer(datagram.to_vec(), peer, now) {
            assert!(answer.len() <= datagram.len(), "an answer is longer than what asked for it");
        }
        for wide in [false, true] {
            if let Ok(header) = UdpHeader::parse(datagram, wide) {
                tracker.arrived(header.number, header.sent, now);
            }
        }
        if let Ok(header) = Header::parse(datagram) {
            account.take(Arrived { header, length: datagram.len(), at: now }, &AtomicU64::new(0));
        }
        for (v6, raw) in [(false, false), (false, true), (true, false), (true, true)] {
            let _ = crate::load::probe::echo_number(datagram, v6, raw, 7);
        }
        let _ = crate::TcpInfo::parse(datagram);
    }
    let counts = tracker.counts();
    assert_eq!(counts.expected, counts.received + counts.lost);
    let _ = account.close();
}

/// A data file of flent.
pub fn flent(bytes: &[u8]) {
    if let Ok(flent) = Flent::parse(bytes) {
        flent.read_series();
    }
}

#[cfg(test)]
mod tests {
    use tier::corpus::replay;

    #[test]
    fn corpora() {
        replay("traffic_control", super::control);
        replay("traffic_parameters", super::parameters);
        replay("traffic_answer", super::answer);
        replay("traffic_datagrams", super::datagrams);
        replay("flent", super::flent);
    }
}
