//! What the kernel part reports of a connection, as a [`Reading`].

use std::net::{Ipv6Addr, SocketAddr};

use record::{Moment, Nanos, Reading};

use crate::layout::{MOMENT_CLOSE, MOMENT_CONNECT, MOMENT_EVERY, Plain as _, RawSample};

/// Bytes of a record.
pub(crate) const SIZE: usize = size_of::<RawSample>();

/// Reads one record; `tick` is the length of a jiffy. `None` where it is cut short or of no known
/// moment.
pub(crate) fn reading(bytes: &[u8], tick: Nanos) -> Option<Reading> {
    let raw = RawSample::from_bytes(bytes)?;
    let address = |bytes: [u8; 16], port| SocketAddr::new(Ipv6Addr::from(bytes).to_canonical(), port);
    let scale = |shift| (raw.scaling != 0).then_some(shift);
    let measured = raw.srtt_us_8 > 0;
    let ends = raw.comm.iter().position(|&byte| byte == 0).unwrap_or(raw.comm.len());
    Some(Reading {
        cookie: raw.cookie,
        moment: match raw.moment.into() {
            MOMENT_EVERY => Moment::Every,
            MOMENT_CONNECT => Moment::Connect,
            MOMENT_CLOSE => Moment::Close,
            _ => return None,
        },
        local: address(raw.local, raw.local_port),
        remote: address(raw.remote, raw.remote_port),
        pid: (raw.pid > 0).then_some(raw.pid),
        comm: String::from_utf8_lossy(&raw.comm[..ends]).into_owned(),
        header_length: raw.header_length,
        mss: raw.mss,
        peer_window_scale: scale(raw.peer_scale),
        srtt: measured.then(|| Nanos(u64::from(raw.srtt_us_8) * 125)),
        rttvar: measured.then(|| Nanos(u64::from(raw.rttvar_us_4) * 250)),
        cwnd: raw.cwnd,
        retransmits: raw.retransmits,
        ato: (raw.ato > 0).then(|| Nanos(u64::from(raw.ato) * tick.0)),
        quick_acks: raw.quick_acks,
        ping_pong: raw.ping_pong,
        receive_buffer: raw.receive_buffer,
        receive_buffer_used: raw.receive_buffer_used,
        pacing_rate: (raw.pacing_rate != u64::MAX && raw.pacing_rate != u64::from(u32::MAX)).then_some(raw.pacing_rate),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw() -> RawSample {
        let mut comm = [0; 16];
        comm[..4].copy_from_slice(b"curl");
        RawSample {
            cookie: 7,
            pacing_rate: u64::MAX,
            local: "::ffff:192.0.2.1".parse::<Ipv6Addr>().unwrap().octets(),
            remote: "2001:db8::1".parse::<Ipv6Addr>().unwrap().octets(),
            local_port: 40_000,
            remote_port: 443,
            pid: 0,
            comm,
            header_length: 32,
            mss: 1448,
            srtt_us_8: 80_000,
            rttvar_us_4: 4_000,
            cwnd: 10,
            retransmits: 3,
            ato: 10,
            receive_buffer: 131_072,
            receive_buffer_used: 65_536,
            moment: 1,
            scaling: 0,
            peer_scale: 7,
            quick_acks: 16,
            ping_pong: 1,
            pad: [0; 3],
            pad2: 0,
        }
    }

    #[test]
    fn the_kernels_units_become_ours_and_what_is_not_there_is_none() {
        let sample = reading(raw().as_bytes(), Nanos(4_000_000)).unwrap();
        assert_eq!(
            (sample.local.to_string(), sample.remote.to_string()),
            ("192.0.2.1:40000".into(), "[2001:db8::1]:443".into())
        );
        assert_eq!(
            (sample.srtt, sample.rttvar, sample.ato),
            (Some(Nanos(10_000_000)), Some(Nanos(1_000_000)), Some(Nanos(40_000_000)))
        );
        assert_eq!((sample.peer_window_scale, sample.pacing_rate, sample.pid), (None, None, None));
        assert_eq!((sample.comm.as_str(), sample.moment), ("curl", Moment::Connect));
        let scaled = RawSample { scaling: 1, srtt_us_8: 0, ato: 0, pacing_rate: 125, pid: 3, ..raw() };
        let scaled = reading(scaled.as_bytes(), Nanos(1)).unwrap();
        assert_eq!(scaled.peer_window_scale, Some(7));
        assert_eq!(
            (scaled.srtt, scaled.rttvar, scaled.ato, scaled.pacing_rate, scaled.pid),
            (None, None, None, Some(125), Some(3))
        );
    }

    #[test]
    fn every_figure_is_read_from_its_own_field() {
        let s = reading(raw().as_bytes(), Nanos(1)).unwrap();
        assert_eq!((s.cookie, s.header_length, s.mss, s.cwnd, s.retransmits), (7, 32, 1448, 10, 3));
        assert_eq!((s.receive_buffer, s.receive_buffer_used, s.quick_acks, s.ping_pong), (131_072, 65_536, 16, 1));
        for (number, moment) in
            [(MOMENT_EVERY, Moment::Every), (MOMENT_CONNECT, Moment::Connect), (MOMENT_CLOSE, Moment::Close)]
        {
            let s = reading(RawSample { moment: number as _, ..raw() }.as_bytes(), Nanos(1)).unwrap();
            assert_eq!(s.moment, moment);
        }
    }

    #[test]
    fn foreign_bytes_are_no_reading() {
        assert_eq!(reading(&raw().as_bytes()[..119], Nanos(1)), None);
        assert_eq!(reading(RawSample { moment: 3, ..raw() }.as_bytes(), Nanos(1)), None);
    }
}
