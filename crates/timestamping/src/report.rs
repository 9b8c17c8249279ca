//! What lay on an error queue: a stamp, an ICMP error, or something else. Pure.

use std::net::IpAddr;

use clock::{Instant, Nanos, Phc, Realtime, Source, Timestamp};

use crate::control::{Control, ExtendedError, PacketInfo, Times, controls};
use crate::{ParseError, TcpStats, TransmitStage};

/// A stamp's reading is exact to its unit; how long after the event the clock was read is not known
/// to this library.
const RESOLUTION: Nanos = Nanos(1);

impl Times {
    /// The kernel's stamp, on `CLOCK_REALTIME`.
    pub fn software(&self) -> Option<Timestamp<Realtime>> {
        self.software.map(|at| Timestamp { at, source: Source::Kernel, error: RESOLUTION })
    }

    /// The NIC's stamp, on its own clock.
    pub fn hardware(&self) -> Option<Timestamp<Phc>> {
        self.hardware.map(|at| Timestamp { at, source: Source::Nic, error: RESOLUTION })
    }
}

/// One stage of one send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransmitStamp<'a> {
    /// Which stage.
    pub stage: TransmitStage,
    /// The send's id as the kernel gives it, modulo 2³²: the number of the datagram, or the
    /// position of the send's last byte. [`crate::Matcher`] and [`crate::IdExtender`] extend it to
    /// 64 bits. Zero without `OPT_ID`.
    pub id: u32,
    /// When.
    pub times: Times,
    /// The interface it left by, where [`crate::Request::packet_info`] was asked for.
    pub interface: Option<u32>,
    /// Netlink attributes with TCP's figures, where [`crate::Request::stats`] was asked for; see
    /// [`Self::stats`].
    pub raw_stats: Option<&'a [u8]>,
    /// The packet itself, from its link-layer header on, where [`crate::Request::with_payload`] was
    /// asked for.
    pub payload: &'a [u8],
}

impl TransmitStamp<'_> {
    /// The kernel's time, on `CLOCK_REALTIME`. None for the stage `nic`.
    pub fn software(&self) -> Option<Instant<Realtime>> {
        self.times.software
    }

    /// The NIC's time.
    pub fn hardware(&self) -> Option<Instant<Phc>> {
        self.times.hardware
    }

    /// TCP's figures at that moment.
    ///
    /// # Errors
    /// [`ParseError`] where the kernel's attributes cannot be read.
    pub fn stats(&self) -> Result<Option<TcpStats>, ParseError> {
        self.raw_stats.map(TcpStats::parse).transpose()
    }
}

/// An ICMP or ICMPv6 error that came back for something this socket sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError<'a> {
    /// Whether it was ICMPv6.
    pub v6: bool,
    /// The ICMP type (RFC 792, RFC 4443).
    pub kind: u8,
    /// The ICMP code.
    pub code: u8,
    /// What the kernel makes of it: `ECONNREFUSED`, `EHOSTUNREACH`, ….
    pub errno: u32,
    /// The path MTU, where the packet was too big.
    pub info: u32,
    /// Who sent it.
    pub offender: Option<IpAddr>,
    /// When it arrived, where receive stamps are on.
    pub times: Times,
    /// The payload that did not arrive, as far as the router sent it back. ICMP sockets get their
    /// ICMP header with it.
    pub payload: &'a [u8],
}

impl IcmpError<'_> {
    /// What the error says, in the words of the RFCs.
    pub fn name(&self) -> &'static str {
        match (self.v6, self.kind, self.code) {
            (false, 3, 0) => "network unreachable",
            (false, 3, 1) => "host unreachable",
            (false, 3, 2) => "protocol unreachable",
            (false, 3, 3) | (true, 1, 4) => "port unreachable",
            (false, 3, 4) | (true, 2, _) => "packet too big",
            (false, 3, 9 | 10 | 13) | (true, 1, 1) => "prohibited by a filter",
            (false, 3, _) | (true, 1, _) => "destination unreachable",
            (false, 11, 0) | (true, 3, 0) => "TTL exceeded on the way",
            (false, 11, _) | (true, 3, _) => "reassembly time exceeded",
            (false, 12, _) | (true, 4, _) => "a header field is wrong",
            _ => "another ICMP error",
        }
    }
}

/// One message of an error queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Report<'a> {
    /// A stamp.
    Stamp(TransmitStamp<'a>),
    /// An ICMP error.
    Icmp(IcmpError<'a>),
    /// An error of this host itself, such as a datagram larger than the path MTU.
    Local {
        /// The error number.
        errno: u32,
        /// The MTU, for `EMSGSIZE`.
        info: u32,
    },
    /// `MSG_ZEROCOPY` sends are done with their buffers.
    ZeroCopy {
        /// The first of them.
        first: u32,
        /// The last of them.
        last: u32,
        /// Whether the kernel copied after all.
        copied: bool,
    },
    /// Well-formed, but of an origin that this library has no name for.
    Other(ExtendedError),
}

/// `SO_EE_ORIGIN_ZEROCOPY` (`include/uapi/linux/errqueue.h`).
const ORIGIN_ZEROCOPY: u8 = 5;
/// `SO_EE_CODE_ZEROCOPY_COPIED`.
const ZEROCOPY_COPIED: u8 = 1;

/// Reads one message of an error queue from its control messages and its payload.
///
/// # Errors
/// [`ParseError`] where the control messages are cut short or contradict their format, or none says
/// what this is.
pub fn report<'a>(control: &'a [u8], payload: &'a [u8]) -> Result<Report<'a>, ParseError> {
    let (mut error, mut times, mut interface, mut raw_stats) = (None, Times::default(), None, None);
    for message in controls(control) {
        match message? {
            Control::Error(e) => error = Some(e),
            Control::Times(t) => times = t,
            Control::Interface(i) => interface = Some(i),
            Control::PacketInfo(PacketInfo { interface: i, .. }) => interface = Some(i),
            Control::Stats(attributes) => raw_stats = Some(attributes),
            _ => {}
        }
    }
    let what = "a message of the error queue";
    let error = error.ok_or(ParseError::Malformed { what, offset: 0, why: "nothing says of what kind it is" })?;
    Ok(match error.origin {
        libc::SO_EE_ORIGIN_TIMESTAMPING if error.errno == libc::ENOMSG as u32 => {
            let stage = match error.info {
                // A NIC's stamp comes under the same name as the driver's; only the field it is in
                // distinguishes them.
                0 if times.software.is_none() && times.hardware.is_some() => TransmitStage::Nic,
                0 => TransmitStage::Driver,
                1 => TransmitStage::Sched,
                2 => TransmitStage::Ack,
                3 => TransmitStage::Completion,
                _ => return Ok(Report::Other(error)),
            };
            if times == Times::default() {
                return Err(ParseError::Malformed { what, offset: 0, why: "a stamp without a time" });
            }
            // The kernel hands TCP's figures out a second time, in place of the packet.
            let payload = if raw_stats.is_some() { &[] } else { payload };
            Report::Stamp(TransmitStamp { stage, id: error.data, times, interface, raw_stats, payload })
        }
        libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6 => Report::Icmp(IcmpError {
            v6: error.origin == libc::SO_EE_ORIGIN_ICMP6,
            kind: error.kind,
            code: error.code,
            errno: error.errno,
            info: error.info,
            offender: error.offender,
            times,
            payload,
        }),
        libc::SO_EE_ORIGIN_LOCAL => Report::Local { errno: error.errno, info: error.info },
        ORIGIN_ZEROCOPY => {
            Report::ZeroCopy { first: error.info, last: error.data, copied: error.code == ZEROCOPY_COPIED }
        }
        _ => Report::Other(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{SO_TIMESTAMPING_NEW, put};
    use proptest::prelude::*;

    fn message(errno: i32, origin: u8, info: u32, id: u32, times: [i64; 3]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let times: Vec<u8> = times.iter().flat_map(|n| [0i64.to_ne_bytes(), n.to_ne_bytes()].concat()).collect();
        put(&mut bytes, libc::SOL_SOCKET, SO_TIMESTAMPING_NEW, &times);
        let mut error = errno.to_ne_bytes().to_vec();
        error.extend_from_slice(&[origin, 0, 0, 0]);
        error.extend_from_slice(&info.to_ne_bytes());
        error.extend_from_slice(&id.to_ne_bytes());
        put(&mut bytes, libc::SOL_IP, libc::IP_RECVERR, &error);
        bytes
    }

    #[test]
    fn driver_and_nic_are_distinguished_by_the_field_of_the_time() {
        for (times, stage) in [([5, 0, 0], TransmitStage::Driver), ([0, 0, 5], TransmitStage::Nic)] {
            let bytes = message(libc::ENOMSG, libc::SO_EE_ORIGIN_TIMESTAMPING, 0, 9, times);
            let Ok(Report::Stamp(stamp)) = report(&bytes, &[]) else { panic!() };
            assert_eq!((stamp.stage, stamp.id), (stage, 9));
        }
    }

    #[test]
    fn unknown_stages_are_passed_on_and_timeless_stamps_refused() {
        let bytes = message(libc::ENOMSG, libc::SO_EE_ORIGIN_TIMESTAMPING, 77, 9, [5, 0, 0]);
        assert!(matches!(report(&bytes, &[]), Ok(Report::Other(e)) if e.info == 77));
        let bytes = message(libc::ENOMSG, libc::SO_EE_ORIGIN_TIMESTAMPING, 1, 9, [0, 0, 0]);
        assert!(matches!(report(&bytes, &[]), Err(ParseError::Malformed { .. })));
        assert!(matches!(report(&[], &[]), Err(ParseError::Malformed { .. })));
    }

    #[test]
    fn an_icmp_error_is_no_stamp() {
        let bytes = message(libc::ECONNREFUSED, libc::SO_EE_ORIGIN_ICMP, 0, 0, [5, 0, 0]);
        assert!(matches!(report(&bytes, b"x"), Ok(Report::Icmp(e)) if e.payload == b"x" && e.times.software.is_some()));
    }

    proptest! {
        #[test]
        fn any_bytes_end_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = report(&bytes, &[]);
        }

        #[test]
        fn any_origin_and_stage_end_without_a_panic(errno: i32, origin in 0u8..9, info in 0u32..6, id: u32, times: [i64; 3], cut in 0usize..200) {
            let mut bytes = message(errno, origin, info, id, times);
            bytes.truncate(cut);
            if let Ok(Report::Stamp(s)) = report(&bytes, &[]) {
                prop_assert!(s.software().is_some() || s.hardware().is_some());
                prop_assert_eq!(s.id, id);
            }
        }
    }
}
