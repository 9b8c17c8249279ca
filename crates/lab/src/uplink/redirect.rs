//! A rule of nf_tables in a host: TCP connections that would leave by one interface go to a port of
//! the host itself.
//!
//! The rule is of the host's network namespace, and goes with it. Messages as in
//! include/uapi/linux/netfilter/nf_tables.h.

use std::io;

use netlink_packet_core::{NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE, NLM_F_REQUEST};
use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};

const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const NFTABLES: u16 = 10;
const NEW_TABLE: u16 = 0;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
/// IPv4 and IPv6 alike (`NFPROTO_INET`).
const INET: u8 = 1;
const LOCAL_OUT: u32 = 3;
/// `NF_IP_PRI_NAT_DST`.
const PRIORITY: i32 = -100;
const META_OIF: u32 = 5;
const META_L4PROTO: u32 = 16;
const REGISTER: u32 = 1;
const NESTED: u16 = 1 << 15;
const NAME: &[u8] = b"wirelapse\0";

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (value.len() as u16 + 4).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

fn nested(kind: u16, of: &[Vec<u8>]) -> Vec<u8> {
    attribute(kind | NESTED, &of.concat())
}

/// One expression of a rule, `NFTA_LIST_ELEM`.
fn expression(name: &str, options: &[Vec<u8>]) -> Vec<u8> {
    let name = [name.as_bytes(), b"\0"].concat();
    nested(1, &[attribute(1, &name), nested(2, options)])
}

/// The rule matches where this field of the packet equals `value`.
fn equals(field: u32, value: &[u8]) -> Vec<u8> {
    let load = expression("meta", &[number(1, REGISTER), number(2, field)]);
    let compare = expression("cmp", &[number(1, REGISTER), number(2, 0), nested(3, &[attribute(1, value)])]);
    [load, compare].concat()
}

/// A message of these attributes, with its place in the batch as its sequence number.
fn message(kind: u16, flags: u16, family: u8, resource: u16, sequence: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
    let body = attributes.concat();
    let mut bytes = (20 + body.len() as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | flags).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend([family, 0]);
    bytes.extend(resource.to_be_bytes());
    bytes.extend(body);
    bytes
}

/// The batch that makes the rule: all of it, or nothing.
fn batch(interface: u32, port: u16) -> Vec<u8> {
    let table = attribute(1, NAME);
    let hook = nested(4, &[number(1, LOCAL_OUT), number(2, PRIORITY.cast_unsigned())]);
    let chain = [table.clone(), attribute(3, NAME), hook, attribute(7, b"nat\0")];
    let expressions = [
        equals(META_OIF, &interface.to_ne_bytes()),
        equals(META_L4PROTO, &[libc::IPPROTO_TCP as u8]),
        expression("immediate", &[number(1, REGISTER), nested(2, &[attribute(1, &port.to_be_bytes())])]),
        expression("redir", &[number(1, REGISTER)]),
    ];
    let rule = [table.clone(), attribute(2, NAME), nested(4, &expressions)];
    let new = |what: u16| NFTABLES << 8 | what;
    let create = NLM_F_CREATE | NLM_F_ACK;
    [
        message(BATCH_BEGIN, 0, 0, NFTABLES, 0, &[]),
        message(new(NEW_TABLE), create, INET, 0, 1, &[table]),
        message(new(NEW_CHAIN), create, INET, 0, 2, &chain),
        message(new(NEW_RULE), create | NLM_F_APPEND, INET, 0, 3, &rule),
        message(BATCH_END, 0, 0, NFTABLES, 4, &[]),
    ]
    .concat()
}

/// Has the calling thread's network namespace send TCP connections that would leave by this
/// interface to a port of the loopback address.
///
/// # Errors
/// The kernel's: it has no nf_tables, or no redirection in it.
pub(super) fn to_port(interface: u32, port: u16) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&batch(interface, port), 0)?;
    let mut acknowledged = 0;
    while acknowledged < 3 {
        let (reply, _) = socket.recv_from_full()?;
        // A header, and of an answer the error: 0 acknowledges.
        let mut rest = &reply[..];
        while let Some((length, code)) = answer(rest) {
            if code != 0 {
                return Err(io::Error::from_raw_os_error(-code));
            }
            acknowledged += 1;
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
    Ok(())
}

/// The length and the code of the answer at the beginning of these bytes.
fn answer(bytes: &[u8]) -> Option<(usize, i32)> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let code = i32::from_ne_bytes(bytes.get(16..20)?.try_into().ok()?);
    (length >= 20 && i32::from(kind) == libc::NLMSG_ERROR).then_some((length, code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_and_attribute_of_the_batch_is_whole() {
        let batch = batch(7, 4_321);
        let (mut at, mut kinds) = (0, Vec::new());
        while at < batch.len() {
            let length = u32::from_ne_bytes(batch[at..at + 4].try_into().unwrap()) as usize;
            kinds.push(u16::from_ne_bytes(batch[at + 4..at + 6].try_into().unwrap()));
            let mut inner = at + 20;
            while inner < at + length {
                let of = u16::from_ne_bytes(batch[inner..inner + 2].try_into().unwrap());
                assert!(of >= 4, "an attribute of {of} bytes");
                inner += usize::from(of).next_multiple_of(4);
            }
            assert_eq!(inner, at + length);
            at += length;
        }
        assert_eq!((at, kinds), (batch.len(), vec![16, 0xa00, 0xa03, 0xa06, 17]));
    }

    #[test]
    fn refusals_are_read() {
        let mut bytes = message(libc::NLMSG_ERROR as u16, 0, 0, 0, 1, &[]);
        bytes[16..20].copy_from_slice(&(-libc::ENOENT).to_ne_bytes());
        assert_eq!(answer(&bytes), Some((20, -libc::ENOENT)));
        assert_eq!(answer(&bytes[..19]), None);
    }
}
