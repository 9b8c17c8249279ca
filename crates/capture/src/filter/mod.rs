//! Filters in libpcap's language, compiled once and run in the kernel, or on packets in memory.
//!
//! libpcap compiles them to classic BPF. Packet sockets take that as it is (`SO_ATTACH_FILTER`);
//! for XDP, [`xdp`] translates it. [`packets`] runs it itself.

pub(crate) mod packets;
pub(crate) mod xdp;

use pcap::{Capture, Linktype};
use wire::LinkType;

use crate::Error;

/// One instruction of classic BPF (`struct sock_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Classic {
    pub code: u16,
    pub jump_true: u8,
    pub jump_false: u8,
    pub k: u32,
}

/// `BPF_RET | BPF_K`: return this many bytes of the frame.
const RETURN_K: u16 = 0x06;

/// A compiled filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program(pub Vec<Classic>);

impl Program {
    /// Keeps `snap_length` bytes of every frame.
    pub fn everything(snap_length: u32) -> Self {
        Self(vec![Classic { code: RETURN_K, jump_true: 0, jump_false: 0, k: snap_length }])
    }

    /// `expression` for a packet socket on `interface`: the kernel takes VLAN tags out of frames
    /// before such a socket sees them, and only a live handle of libpcap knows to look for them
    /// beside the frame.
    pub fn for_packet_socket(interface: &str, expression: &str, snap_length: u32) -> Result<Self, Error> {
        let handle = Capture::from_device(interface).and_then(|c| c.snaplen(96).open());
        match handle {
            Ok(handle) => compiled(expression, snap_length, handle.compile(expression, true)),
            Err(error) => Err(refused(expression, &error)),
        }
    }

    /// `expression` for frames as they are on the wire.
    pub fn for_wire(link: LinkType, expression: &str, snap_length: u32) -> Result<Self, Error> {
        match Capture::dead(Linktype(i32::from(link.0))) {
            Ok(handle) => compiled(expression, snap_length, handle.compile(expression, true)),
            Err(error) => Err(refused(expression, &error)),
        }
    }
}

fn refused(expression: &str, error: &pcap::Error) -> Error {
    let reason = match error {
        pcap::Error::PcapError(reason) => reason.clone(),
        other => other.to_string(),
    };
    Error::Filter { expression: expression.to_owned(), reason }
}

fn compiled(
    expression: &str,
    snap_length: u32,
    program: Result<pcap::BpfProgram, pcap::Error>,
) -> Result<Program, Error> {
    let program = program.map_err(|error| refused(expression, &error))?;
    let mut instructions = program
        .get_instructions()
        .iter()
        .map(|instruction| read(&instruction.to_string()))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| Error::Filter {
            expression: expression.to_owned(),
            reason: "its program has another form than classic BPF".into(),
        })?;
    for instruction in &mut instructions {
        if instruction.code == RETURN_K && instruction.k != 0 {
            instruction.k = snap_length;
        }
    }
    Ok(Program(instructions))
}

/// An instruction as libpcap's wrapper prints it: `code jt jf k`. Its fields are private.
fn read(text: &str) -> Option<Classic> {
    let mut numbers = text.split(' ');
    let mut next = || numbers.next();
    Some(Classic {
        code: next()?.parse().ok()?,
        jump_true: next()?.parse().ok()?,
        jump_false: next()?.parse().ok()?,
        k: next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_compiles_and_keeps_the_snap_length() {
        let program = Program::for_wire(LinkType::ETHERNET, "udp port 53", 128).unwrap();
        let kept: Vec<u32> = program.0.iter().filter(|i| i.code == RETURN_K).map(|i| i.k).collect();
        assert!(kept.contains(&128) && kept.contains(&0) && kept.len() == 2, "{kept:?}");
    }

    #[test]
    fn a_mistake_is_named() {
        let error = Program::for_wire(LinkType::ETHERNET, "udp prot 53", 128).unwrap_err();
        assert!(
            matches!(&error, Error::Filter { expression, reason } if expression == "udp prot 53" && !reason.is_empty())
        );
    }
}
