//! Copies of every frame: veth pairs, and the kernel's `mirred` action that copies and moves frames
//! between devices.
//!
//! Every call acts on the network namespace of its thread. What it makes hangs on devices, and goes
//! with them.

use std::ffi::CStr;
use std::io;

use machine::device::Offload;
use machine::netlink::{Netlink, filter, macvlan, qdisc, veth};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::link::LinkAttribute;
use netlink_packet_route::tc::TcHandle;

use crate::links::index_of;

// include/uapi/linux/pkt_sched.h
const CLSACT: TcHandle = TcHandle { major: 0xffff, minor: 0 };
const CLSACT_PARENT: TcHandle = TcHandle { major: 0xffff, minor: 0xfff1 };
const INGRESS: TcHandle = TcHandle { major: 0xffff, minor: 0xfff2 };
const EGRESS: TcHandle = TcHandle { major: 0xffff, minor: 0xfff3 };
// include/uapi/linux/pkt_cls.h and tc_act/tc_mirred.h
const TCA_BPF_ACT: u16 = 1;
const TCA_BPF_OPS_LEN: u16 = 4;
const TCA_BPF_OPS: u16 = 5;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;
const TC_ACT_OK: i32 = 0;
const TC_ACT_SHOT: i32 = 2;
const TC_ACT_PIPE: i32 = 3;
const TC_ACT_STOLEN: i32 = 4;
const REDIRECT: i32 = 1;
const MIRROR: i32 = 2;
const NLA_F_NESTED: u16 = 1 << 15;

/// Where on a device frames are met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// As they come in.
    Arrival,
    /// As they are sent.
    Departure,
}

/// What is done with a frame. Devices are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// A copy leaves by this device; the next action has the frame.
    Copy(&'a CStr),
    /// A copy leaves by this device, and the frame goes on its way.
    CopyAndPass(&'a CStr),
    /// A copy leaves by this device, and the frame is dropped, as a sink would.
    CopyAndDrop(&'a CStr),
    /// The frame leaves by this device.
    Move(&'a CStr),
}

/// One `mirred` action: what it does, to which device, and what becomes of the frame then.
type Parameters = (i32, u32, i32);

impl Action<'_> {
    fn parameters(self) -> io::Result<Parameters> {
        Ok(match self {
            Self::Copy(to) => (MIRROR, index_of(to)?, TC_ACT_PIPE),
            Self::CopyAndPass(to) => (MIRROR, index_of(to)?, TC_ACT_OK),
            Self::CopyAndDrop(to) => (MIRROR, index_of(to)?, TC_ACT_SHOT),
            Self::Move(to) => (REDIRECT, index_of(to)?, TC_ACT_STOLEN),
        })
    }
}

/// Has the kernel do this with every frame of a device. A device takes it once.
///
/// # Errors
/// The kernel's: it has no `clsact`, `cls_bpf` or `act_mirred`, or there is no such device.
pub fn every_frame(device: &CStr, hook: Hook, actions: &[Action<'_>]) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    let device = index_of(device)?;
    let flags = NLM_F_CREATE | NLM_F_EXCL;
    let actions = actions.iter().map(|action| action.parameters()).collect::<io::Result<Vec<_>>>()?;
    netlink.request(qdisc(device, "clsact", CLSACT, CLSACT_PARENT, Vec::new()), flags)?;
    let parent = if hook == Hook::Arrival { INGRESS } else { EGRESS };
    netlink.request(filter(device, "bpf", parent, options(&actions)), flags)
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.len() + 7);
    bytes.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The options of a `bpf` filter that matches every frame, with these actions. `matchall` would do
/// the same, and fewer kernels have it.
fn options(actions: &[Parameters]) -> Vec<u8> {
    let mut list = Vec::new();
    for (order, &(what, to, then)) in (1..).zip(actions) {
        // struct tc_mirred: index, capabilities, action, two reference counts; then what it does,
        // and to which device.
        let parms: Vec<u8> =
            [0, 0, then, 0, 0, what, to.cast_signed()].into_iter().flat_map(i32::to_ne_bytes).collect();
        let mut action = attribute(TCA_ACT_KIND, b"mirred\0");
        action.extend(attribute(TCA_ACT_OPTIONS | NLA_F_NESTED, &attribute(TCA_MIRRED_PARMS, &parms)));
        list.extend(attribute(order | NLA_F_NESTED, &action));
    }
    let mut options = attribute(TCA_BPF_ACT | NLA_F_NESTED, &list);
    options.extend(attribute(TCA_BPF_OPS_LEN, &1u16.to_ne_bytes()));
    // One instruction of classic BPF: return −1, which matches (BPF_RET | BPF_K).
    let mut program = 6u16.to_ne_bytes().to_vec();
    program.extend([0, 0]);
    program.extend(u32::MAX.to_ne_bytes());
    options.extend(attribute(TCA_BPF_OPS, &program));
    options
}

/// Makes veth pairs and brings them up. In the whole network namespace devices that are made later
/// have no IPv6: without it a device sends nothing by itself.
///
/// # Errors
/// The kernel's.
pub fn make_pairs(pairs: &[[&CStr; 2]]) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    // A kernel without IPv6 has no such file.
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").ok();
    for pair in pairs {
        let [one, other] = pair.map(|name| name.to_string_lossy().into_owned());
        netlink.request(veth(&one, vec![LinkAttribute::IfName(other)]), NLM_F_CREATE | NLM_F_EXCL)?;
    }
    pairs.as_flattened().iter().try_for_each(|name| up(&mut netlink, name))
}

/// Makes a macvlan device that takes every frame of `lower`, and brings it up.
///
/// # Errors
/// The kernel's: it may have no macvlan.
pub fn make_macvlan(name: &CStr, lower: &CStr) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    netlink.request(macvlan(&name.to_string_lossy(), index_of(lower)?), NLM_F_CREATE | NLM_F_EXCL)?;
    up(&mut netlink, name)
}

/// Brings a device up.
pub(crate) fn up(netlink: &mut Netlink, name: &CStr) -> io::Result<()> {
    crate::links::up(netlink, index_of(name)?)
}

/// Has one end of a veth pair take frames that XDP redirects to the other: it wants NAPI for that,
/// which GRO switches on.
///
/// # Errors
/// The kernel's.
pub fn take_redirected(device: &CStr) -> io::Result<()> {
    machine::device::set_offload(device, Offload::Gro, true)
}

/// Waits up to two seconds: the kernel drops what is sent until it has noticed that the wires are
/// there.
pub fn wait_for(devices: &[&CStr]) {
    for _ in 0..200 {
        if devices.iter().all(|name| runs(name)) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Whether the kernel says of a device that it runs (`IFF_RUNNING`: its operational state is up).
fn runs(name: &CStr) -> bool {
    machine::device::flags(name).is_ok_and(|flags| i32::from(flags) & libc::IFF_RUNNING != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_nest() {
        assert_eq!(attribute(1, b"mirred\0").len(), 12);
        let bytes = options(&[(MIRROR, 7, TC_ACT_PIPE)]);
        let actions = usize::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
        assert_eq!(bytes[actions - 4..actions], 7i32.to_ne_bytes());
        assert_eq!(bytes.len(), actions + 8 + 12);
    }
}
