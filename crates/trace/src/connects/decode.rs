//! From a record of `bpf/connect_record.h` to a [`Connect`]: what came of an attempt, and who ended
//! the connection.

use record::{
    Comm, Connect, ConnectStamps, ConnectionId, EndedBy, Ending, FastOpen, Instant, Lost, Monotonic, Opening, Outcome,
    Owner,
};

use crate::decode::{DecodeError, address};
use crate::layout::{
    CONNECT_EXITING, CONNECT_FAST_OPEN, CONNECT_SYN_DATA_ACKED, OPENING_ACCEPTED, OPENING_CONNECTED, OPENING_FOUND,
    RECORD_SET_UP, RawConnect, RawConnectLost, RawRequest, RawRequestKey,
};

// include/uapi/asm-generic/errno.h
const EPIPE: u32 = 32;
const EADDRNOTAVAIL: u32 = 99;
const ECONNABORTED: u32 = 103;
const ECONNRESET: u32 = 104;
const ETIMEDOUT: u32 = 110;
const ECONNREFUSED: u32 = 111;

/// Reads a record.
///
/// # Errors
/// [`DecodeError::Malformed`] where it says an opening that there is not.
pub(super) fn connect(raw: &RawConnect) -> Result<Connect, DecodeError> {
    let opening = match raw.opening.into() {
        OPENING_FOUND => Opening::Found,
        OPENING_CONNECTED => Opening::Connected,
        OPENING_ACCEPTED => Opening::Accepted,
        other => return Err(DecodeError::Malformed { field: "opening", value: other }),
    };
    let over = (raw.kind != RECORD_SET_UP && raw.closed != 0).then(|| end(raw));
    let fast_open = flag(raw, CONNECT_FAST_OPEN).then(|| {
        let taken = flag(raw, CONNECT_SYN_DATA_ACKED) || opening == Opening::Accepted;
        if taken { FastOpen::Taken } else { FastOpen::NotTaken }
    });
    let outcome = match (opening, over) {
        (Opening::Found, _) => Outcome::Found,
        _ if raw.established != 0 => Outcome::Established,
        (_, None) => Outcome::Pending,
        (_, Some(_)) if raw.error == ECONNREFUSED || raw.error == ECONNRESET => Outcome::Refused,
        (_, Some(over)) => match over.why {
            Ending::TimedOut => Outcome::TimedOut,
            Ending::Unreachable => Outcome::Unreachable,
            Ending::NoPort => Outcome::NoPort,
            _ => Outcome::Abandoned,
        },
    };
    let here = over.is_some_and(|over| matches!(over.by, EndedBy::Program | EndedBy::Exit | EndedBy::Killed));
    Ok(Connect {
        connection: Some(ConnectionId(raw.cookie)).filter(|id| id.0 != 0),
        local: address(raw.local, raw.local_port),
        remote: address(raw.remote, raw.remote_port),
        owner: Owner { pid: raw.pid, comm: Comm(raw.comm) },
        cgroup: Some(raw.cgroup).filter(|&cgroup| cgroup != 0),
        opening,
        outcome,
        stamps: ConnectStamps {
            syn: stamp(raw.syn),
            syn_ack: stamp(raw.answered),
            established: stamp(raw.established),
            accepted: stamp(raw.accepted),
            first_sent: if raw.syn_bytes > 0 { stamp(raw.syn) } else { stamp(raw.first_out) },
            first_received: stamp(raw.first_in),
            ended: over.and_then(|over| stamp(over.at)),
            closed: stamp(raw.closed),
        },
        retries: raw.retries,
        retried: times(&raw.retried),
        fast_open,
        syn_bytes: raw.syn_bytes,
        ending: over.map(|over| over.why),
        ended_by: over.map(|over| over.by),
        closer: Some(raw.closer).filter(|&pid| here && pid != 0),
        signal: Some(signal(raw)).filter(|&signal| here && signal != 0),
    })
}

/// A SYN that no connection came of.
pub(super) fn unanswered(key: &RawRequestKey, request: &RawRequest) -> Connect {
    Connect {
        local: address(key.local, key.local_port as u16),
        remote: address(key.remote, key.remote_port as u16),
        opening: Opening::Accepted,
        outcome: Outcome::Unanswered,
        stamps: ConnectStamps { syn: stamp(request.syn), syn_ack: stamp(request.answered), ..ConnectStamps::default() },
        retries: request.retries,
        retried: times(&request.retried),
        ..Connect::blank()
    }
}

/// The end of a connection or an attempt.
#[derive(Clone, Copy)]
struct End {
    why: Ending,
    by: EndedBy,
    at: u64,
}

/// How it ended. `sk_err` is what the kernel would give the program as the reason; where there is
/// none, the connection was closed in order, or reset from this end.
fn end(raw: &RawConnect) -> End {
    let set_up = raw.established != 0 || u32::from(raw.opening) == OPENING_FOUND;
    let reset_at = if raw.reset_in != 0 { raw.reset_in } else { raw.closed };
    let closer = match flag(raw, CONNECT_EXITING) {
        false => EndedBy::Program,
        true if signal(raw) != 0 => EndedBy::Killed,
        true => EndedBy::Exit,
    };
    match raw.error {
        0 if !set_up => End { why: Ending::Closed, by: closer, at: raw.closed },
        0 => match (raw.fin_out, raw.fin_in) {
            // Data that was not read, or SO_LINGER: a RST in place of a FIN.
            (0, _) => End { why: Ending::Reset, by: closer, at: raw.closed },
            (out, came) if came == 0 || out <= came => End { why: Ending::Fin, by: closer, at: out },
            (_, came) => End { why: Ending::Fin, by: EndedBy::Peer, at: came },
        },
        ECONNRESET | EPIPE => End { why: Ending::Reset, by: EndedBy::Peer, at: reset_at },
        ECONNREFUSED if raw.reset_in != 0 => End { why: Ending::Reset, by: EndedBy::Peer, at: reset_at },
        EADDRNOTAVAIL if !set_up => End { why: Ending::NoPort, by: EndedBy::Kernel, at: raw.closed },
        ETIMEDOUT => End { why: Ending::TimedOut, by: EndedBy::Kernel, at: raw.closed },
        ECONNABORTED => End { why: Ending::Aborted, by: EndedBy::Kernel, at: raw.closed },
        _ => End { why: Ending::Unreachable, by: EndedBy::Network, at: raw.closed },
    }
}

fn flag(raw: &RawConnect, flag: u32) -> bool {
    u32::from(raw.flags) & flag != 0
}

/// The signal that killed the process that closed it: the lower seven bits, as of wait(2).
fn signal(raw: &RawConnect) -> u32 {
    raw.exit_code & 0x7f
}

fn stamp(at: u64) -> Option<Instant<Monotonic>> {
    (at != 0).then(|| Instant::from_nanos(at))
}

fn times(at: &[u64]) -> Vec<u64> {
    at.iter().copied().take_while(|&at| at != 0).collect()
}

/// What the kernel part has lost.
pub(super) fn lost(raw: &RawConnectLost) -> Lost {
    Lost {
        connect_ring_buffer: raw.ring_buffer,
        connect_requests_full: raw.requests_full,
        connect_listen_drops: raw.listen_drops,
        ..Lost::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Plain as _, RECORD_CONNECT};

    fn of(change: impl FnOnce(&mut RawConnect)) -> Connect {
        let mut raw = RawConnect {
            kind: RECORD_CONNECT,
            cookie: 7,
            opening: OPENING_CONNECTED as u8,
            syn: 100,
            established: 200,
            closed: 900,
            ..RawConnect::zeroed()
        };
        change(&mut raw);
        connect(&raw).unwrap()
    }

    fn ended(change: impl FnOnce(&mut RawConnect)) -> (Outcome, Option<Ending>, Option<EndedBy>, Option<u64>) {
        let connect = of(change);
        (connect.outcome, connect.ending, connect.ended_by, connect.stamps.ended.map(Instant::as_nanos))
    }

    #[test]
    fn each_figure_is_read_from_its_own_field() {
        let c = of(|r| {
            (r.pid, r.local, r.remote, r.local_port, r.remote_port) = (1, [2; 16], [3; 16], 4, 5);
            (r.answered, r.accepted, r.first_out, r.first_in, r.fin_out) = (150, 250, 260, 270, 300);
            (r.retries, r.retried[0], r.retried[1], r.closer) = (6, 110, 120, 8);
            r.comm[..4].copy_from_slice(b"curl");
        });
        assert_eq!((c.connection, c.owner), (Some(ConnectionId(7)), Owner { pid: 1, comm: Comm::from("curl") }));
        assert_eq!((c.local, c.remote), (address([2; 16], 4), address([3; 16], 5)));
        let s = c.stamps;
        let stamps = [s.syn, s.syn_ack, s.established, s.accepted, s.first_sent, s.first_received, s.ended, s.closed];
        let nanos = [100, 150, 200, 250, 260, 270, 300, 900];
        assert_eq!(stamps.map(|at| at.map(Instant::as_nanos)), nanos.map(Some));
        assert_eq!((c.retries, c.retried, c.closer, c.syn_bytes), (6, vec![110, 120], Some(8), 0));
    }

    #[test]
    fn each_figure_of_a_syn_without_an_answer_is_read_from_its_own_field() {
        let key =
            RawRequestKey { local: [1; 16], remote: [2; 16], local_port: 3, remote_port: 4, ..RawRequestKey::zeroed() };
        let mut request = RawRequest { syn: 5, answered: 6, retries: 7, ..RawRequest::zeroed() };
        request.retried[0] = 8;
        let c = unanswered(&key, &request);
        assert_eq!((c.local, c.remote), (address([1; 16], 3), address([2; 16], 4)));
        assert_eq!([c.stamps.syn, c.stamps.syn_ack].map(|at| at.map(Instant::as_nanos)), [Some(5), Some(6)]);
        assert_eq!((c.retries, c.retried), (7, vec![8]));
    }

    #[test]
    fn the_first_fin_says_who_closed() {
        let established = |by, at| (Outcome::Established, Some(Ending::Fin), Some(by), Some(at));
        assert_eq!(ended(|r| (r.fin_out, r.fin_in) = (300, 400)), established(EndedBy::Program, 300));
        assert_eq!(ended(|r| r.fin_out = 300), established(EndedBy::Program, 300));
        assert_eq!(ended(|r| (r.fin_out, r.fin_in) = (500, 400)), established(EndedBy::Peer, 400));
        let killed = of(|r| (r.fin_out, r.flags, r.exit_code, r.closer) = (300, CONNECT_EXITING as u8, 9, 42));
        assert_eq!((killed.ended_by, killed.signal, killed.closer), (Some(EndedBy::Killed), Some(9), Some(42)));
        let exit = of(|r| (r.fin_out, r.flags, r.exit_code) = (300, CONNECT_EXITING as u8, 1 << 8));
        assert_eq!((exit.ended_by, exit.signal), (Some(EndedBy::Exit), None));
    }

    #[test]
    fn errors_of_the_socket_say_why_it_ended() {
        let established = |why, by, at| (Outcome::Established, Some(why), Some(by), Some(at));
        let reset = established(Ending::Reset, EndedBy::Peer, 700);
        assert_eq!(ended(|r| (r.error, r.reset_in) = (ECONNRESET, 700)), reset);
        assert_eq!(ended(|r| (r.error, r.reset_in, r.fin_in) = (EPIPE, 700, 300)), reset);
        assert_eq!(ended(|_| ()), established(Ending::Reset, EndedBy::Program, 900));
        assert_eq!(ended(|r| r.error = ETIMEDOUT), established(Ending::TimedOut, EndedBy::Kernel, 900));
        assert_eq!(ended(|r| r.error = ECONNABORTED), established(Ending::Aborted, EndedBy::Kernel, 900));
        assert_eq!(ended(|r| r.error = 113), established(Ending::Unreachable, EndedBy::Network, 900));
    }

    #[test]
    fn attempts_that_failed_say_how() {
        let failed = |error, reset_in| {
            let (outcome, why, by, _) =
                ended(|r| (r.established, r.error, r.reset_in, r.closer) = (0, error, reset_in, 3));
            (outcome, why.unwrap(), by.unwrap())
        };
        assert_eq!(failed(ECONNREFUSED, 300), (Outcome::Refused, Ending::Reset, EndedBy::Peer));
        assert_eq!(failed(ECONNREFUSED, 0), (Outcome::Refused, Ending::Unreachable, EndedBy::Network));
        assert_eq!(failed(EADDRNOTAVAIL, 0), (Outcome::NoPort, Ending::NoPort, EndedBy::Kernel));
        assert_eq!(failed(113, 0), (Outcome::Unreachable, Ending::Unreachable, EndedBy::Network));
        assert_eq!(failed(ETIMEDOUT, 0), (Outcome::TimedOut, Ending::TimedOut, EndedBy::Kernel));
        assert_eq!(failed(0, 0), (Outcome::Abandoned, Ending::Closed, EndedBy::Program));
        let pending = of(|r| (r.established, r.closed) = (0, 0));
        assert_eq!((pending.outcome, pending.ending, pending.stamps.ended), (Outcome::Pending, None, None));
    }

    #[test]
    fn what_is_open_has_no_end_and_data_in_the_syn_was_sent_with_it() {
        let open = of(|r| (r.closed, r.fin_in) = (0, 400));
        assert_eq!((open.outcome, open.ending, open.ended_by), (Outcome::Established, None, None));
        let fast = of(|r| (r.syn_bytes, r.flags) = (500, (CONNECT_FAST_OPEN | CONNECT_SYN_DATA_ACKED) as u8));
        assert_eq!((fast.fast_open, fast.stamps.first_sent), (Some(FastOpen::Taken), fast.stamps.syn));
        assert_eq!(of(|r| r.flags = CONNECT_FAST_OPEN as u8).fast_open, Some(FastOpen::NotTaken));
        let mut raw = RawConnect::zeroed();
        raw.opening = 9;
        assert_eq!(connect(&raw), Err(DecodeError::Malformed { field: "opening", value: 9 }));
    }

    #[test]
    fn each_counter_is_read_from_its_own_field() {
        let l = lost(&RawConnectLost { ring_buffer: 1, requests_full: 2, listen_drops: 3 });
        assert_eq!((l.connect_ring_buffer, l.connect_requests_full, l.connect_listen_drops), (1, 2, 3));
    }

    #[test]
    fn retransmissions_keep_their_times() {
        let connect = of(|r| (r.retries, r.retried[0], r.retried[1]) = (2, 1_100, 3_100));
        assert_eq!((connect.retries, connect.retried), (2, vec![1_100, 3_100]));
    }
}
