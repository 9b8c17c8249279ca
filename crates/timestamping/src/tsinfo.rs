//! Ethtool's time-stamping information over generic netlink
//! (`Documentation/networking/ethtool-netlink.rst`).

use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

use crate::attribute::{Attribute, attributes, put};
use crate::info::{HardwareCounts, TimestampingInfo};
use crate::{Error, ParseError};

/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_ID`, `CTRL_ATTR_FAMILY_NAME`
/// (`include/uapi/linux/genetlink.h`).
const CONTROLLER: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// `ETHTOOL_MSG_TSINFO_GET` and the attributes of its header
/// (`include/uapi/linux/ethtool_netlink.h`).
const TSINFO_GET: u8 = 25;
const HEADER: u16 = 1;
const HEADER_INDEX: u16 = 1;
const HEADER_FLAGS: u16 = 3;
/// `ETHTOOL_FLAG_COMPACT_BITSETS | ETHTOOL_FLAG_STATS`.
const COMPACT_WITH_STATS: u32 = 1 | 4;
const COMPACT: u32 = 1;
/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;

/// Names the system call that failed.
fn failed(call: &'static str) -> impl FnOnce(rustix::io::Errno) -> Error {
    move |errno| Error::System { call, source: errno.into() }
}

/// Asks the kernel about the interface with this index.
pub(crate) fn by_netlink(index: u32) -> Result<TimestampingInfo, Error> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::GENERIC))
        .map_err(failed("socket(AF_NETLINK)"))?;
    let mut name = Vec::new();
    put(&mut name, FAMILY_NAME, b"ethtool\0");
    let reply = ask(&socket, CONTROLLER, GET_FAMILY, &name)?;
    let family = find(&reply, FAMILY_ID)?.and_then(|a| a.number()).and_then(|n| u16::try_from(n).ok());
    let family = family.ok_or(ParseError::Malformed {
        what: "the reply of the netlink controller",
        offset: 0,
        why: "it names no family",
    })?;

    let request = |flags: u32| {
        let (mut header, mut body) = (Vec::new(), Vec::new());
        put(&mut header, HEADER_INDEX, &index.to_ne_bytes());
        put(&mut header, HEADER_FLAGS, &flags.to_ne_bytes());
        put(&mut body, HEADER | NESTED, &header);
        body
    };
    // A kernel before 6.10 refuses the flag that asks for counts.
    let reply = ask(&socket, family, TSINFO_GET, &request(COMPACT_WITH_STATS))
        .or_else(|_| ask(&socket, family, TSINFO_GET, &request(COMPACT)))?;
    Ok(parse(&reply)?)
}

fn find(reply: &[u8], kind: u16) -> Result<Option<Attribute<'_>>, ParseError> {
    for attribute in attributes(reply) {
        let attribute = attribute?;
        if attribute.kind == kind {
            return Ok(Some(attribute));
        }
    }
    Ok(None)
}

/// Sends one request; gives the attributes of the reply.
fn ask(socket: &OwnedFd, family: u16, command: u8, body: &[u8]) -> Result<Vec<u8>, Error> {
    let length = 16 + 4 + body.len();
    let mut message = Vec::with_capacity(length);
    message.extend_from_slice(&(length as u32).to_ne_bytes());
    message.extend_from_slice(&family.to_ne_bytes());
    message.extend_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]); // sequence number and port
    message.extend_from_slice(&[command, 1, 0, 0]); // struct genlmsghdr: command, version
    message.extend_from_slice(body);
    // A netlink message without an address goes to the kernel.
    send(socket, &message, SendFlags::empty()).map_err(failed("send(netlink)"))?;
    let mut buffer = vec![0u8; 16 * 1024];
    let (_, got) = recv(socket, &mut buffer, RecvFlags::empty()).map_err(failed("recv(netlink)"))?;
    buffer.truncate(got);
    match message_body(&buffer)? {
        Ok(body) => Ok(body.to_vec()),
        Err(errno) => Err(Error::System { call: "netlink request", source: std::io::Error::from_raw_os_error(errno) }),
    }
}

/// The attributes of the first netlink message in `bytes`, or the error number that it holds. Pure.
fn message_body(bytes: &[u8]) -> Result<Result<&[u8], i32>, ParseError> {
    let what = "a netlink message";
    let cut = |need| ParseError::Truncated { what, offset: 0, need, have: bytes.len() };
    let header = bytes.get(..16).ok_or(cut(16))?;
    let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
    let kind = u16::from_ne_bytes([header[4], header[5]]);
    if length < 20 {
        return Err(ParseError::Malformed { what, offset: 0, why: "it is shorter than its headers" });
    }
    let message = bytes.get(..length).ok_or(cut(length))?;
    if i32::from(kind) == libc::NLMSG_ERROR {
        let errno = i32::from_ne_bytes([message[16], message[17], message[18], message[19]]);
        return Ok(Err(errno.saturating_neg()));
    }
    Ok(Ok(&message[20..]))
}

impl TimestampingInfo {
    /// Reads a netlink message of generic netlink's family `ethtool` that answers
    /// `ETHTOOL_MSG_TSINFO_GET` (Documentation/netlink/specs/ethtool.yaml); the inner result is the
    /// error number that it holds instead. Pure.
    ///
    /// # Errors
    /// [`ParseError`] where the message or an attribute of it is cut short or malformed.
    pub fn from_netlink(message: &[u8]) -> Result<Result<Self, i32>, ParseError> {
        match message_body(message)? {
            Ok(attributes) => parse(attributes).map(Ok),
            Err(errno) => Ok(Err(errno)),
        }
    }
}

/// Reads the attributes of an `ETHTOOL_MSG_TSINFO_GET_REPLY`. Pure.
fn parse(reply: &[u8]) -> Result<TimestampingInfo, ParseError> {
    let (mut sets, mut phc, mut counts) = ([0u32; 3], None, None);
    for attribute in attributes(reply) {
        let attribute = attribute?;
        match attribute.kind {
            2..=4 => sets[usize::from(attribute.kind) - 2] = bitset(&attribute)?,
            5 => phc = attribute.number().and_then(|n| u32::try_from(n).ok()),
            6 => counts = Some(statistics(&attribute)?),
            _ => {}
        }
    }
    Ok(TimestampingInfo { phc, counts, ..TimestampingInfo::from_bits(sets[0], sets[1], sets[2]) })
}

/// The first 32 bits of a compact bitset (`ETHTOOL_A_BITSET_VALUE`): all that are defined.
fn bitset(attribute: &Attribute<'_>) -> Result<u32, ParseError> {
    for inner in attribute.nested() {
        let inner = inner?;
        if inner.kind == 4 {
            return Ok(inner.data.first_chunk().map_or(0, |word| u32::from_ne_bytes(*word)));
        }
    }
    Ok(0)
}

fn statistics(attribute: &Attribute<'_>) -> Result<HardwareCounts, ParseError> {
    let mut counts = HardwareCounts::default();
    for inner in attribute.nested() {
        let inner = inner?;
        match inner.kind {
            1 => counts.stamped = inner.number(),
            2 => counts.lost = inner.number(),
            3 => counts.failed = inner.number(),
            _ => {}
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flags, ReceiveFilter, TransmitType};
    use proptest::prelude::*;

    fn set(kind: u16, bits: u32) -> Vec<u8> {
        let (mut inner, mut out) = (Vec::new(), Vec::new());
        put(&mut inner, 2, &20u32.to_ne_bytes());
        put(&mut inner, 4, &bits.to_ne_bytes());
        put(&mut out, kind | NESTED, &inner);
        out
    }

    #[test]
    fn a_nic_with_a_clock_is_read() {
        let flags = Flags::TX_HARDWARE | Flags::RX_HARDWARE | Flags::RAW_HARDWARE;
        let mut reply = [set(2, flags.bits()), set(3, 0b11), set(4, 0b1000_0000_0000_0011)].concat();
        put(&mut reply, 5, &3u32.to_ne_bytes());
        let mut counts = Vec::new();
        put(&mut counts, 1, &500u32.to_ne_bytes());
        put(&mut counts, 2, &(1u64 << 40).to_ne_bytes());
        put(&mut reply, 6 | NESTED, &counts);
        let info = parse(&reply).unwrap();
        assert!(info.has_hardware_transmit() && info.has_hardware_receive());
        assert_eq!(info.phc, Some(3));
        assert_eq!(info.transmit, [TransmitType::Off, TransmitType::On]);
        assert_eq!(info.receive, [ReceiveFilter::None, ReceiveFilter::All, ReceiveFilter::NtpAll]);
        let counts = info.counts.unwrap();
        assert_eq!((counts.stamped, counts.lost, counts.failed), (Some(500), Some(1 << 40), None));
    }

    #[test]
    fn an_error_of_the_kernel_is_one() {
        let mut message = vec![36, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        message.extend_from_slice(&(-libc::ENODEV).to_ne_bytes());
        message.resize(36, 0);
        assert_eq!(message_body(&message), Ok(Err(libc::ENODEV)));
        assert!(matches!(message_body(&message[..30]), Err(ParseError::Truncated { .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_end_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = message_body(&bytes);
            let _ = parse(&bytes);
        }
    }
}
