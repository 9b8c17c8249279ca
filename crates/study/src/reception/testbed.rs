//! The testbed: source, tap, device, tap, sink, with a copy of every frame at both taps on two interfaces that measure.
//!
//! All of it is veth pairs in a network namespace of the calling thread, joined by the kernel's `mirred` action: what arrives from
//! the source is copied to [`TAPS`]`[0]` and goes on into the device, a plain pair; what leaves it is copied to `TAPS[1]` and dropped,
//! as a sink would. The namespace goes with its last thread, however that ends.

use std::ffi::CStr;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use capture::generate::Shape;
use machine::netlink::{Netlink, filter, qdisc, veth};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::tc::TcHandle;

use crate::Error;

/// Where the source sends.
pub(super) const SOURCE: &str = "source";
/// The interfaces that a copy of every frame arrives on: before and behind the device.
pub(super) const TAPS: [&str; 2] = ["before", "after"];

const PAIRS: [[&CStr; 2]; 4] =
    [[c"source", c"split"], [c"copy0", c"before"], [c"wire0", c"wire1"], [c"copy1", c"after"]];

// include/uapi/linux/pkt_sched.h
const CLSACT: TcHandle = TcHandle { major: 0xffff, minor: 0 };
const CLSACT_PARENT: TcHandle = TcHandle { major: 0xffff, minor: 0xfff1 };
const INGRESS: TcHandle = TcHandle { major: 0xffff, minor: 0xfff2 };
// include/uapi/linux/pkt_cls.h and tc_act/tc_mirred.h
const TCA_BPF_ACT: u16 = 1;
const TCA_BPF_OPS_LEN: u16 = 4;
const TCA_BPF_OPS: u16 = 5;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;
const TC_ACT_SHOT: i32 = 2;
const TC_ACT_PIPE: i32 = 3;
const TC_ACT_STOLEN: i32 = 4;
const REDIRECT: i32 = 1;
const MIRROR: i32 = 2;
const NLA_F_NESTED: u16 = 1 << 15;

/// One `mirred` action: what it does, to which device, and what becomes of the frame then.
type Action = (i32, u32, i32);

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.len() + 7);
    bytes.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The options of a `bpf` filter that matches every frame, with these actions. `matchall` would do the same, and fewer kernels have it.
fn every_frame(actions: &[Action]) -> Vec<u8> {
    let mut list = Vec::new();
    for (order, &(what, to, then)) in (1..).zip(actions) {
        // struct tc_mirred: index, capabilities, action, two reference counts; then what it does, and to which device.
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

fn index(name: &CStr) -> io::Result<u32> {
    // SAFETY: a nul-terminated name that lives over the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

fn on_arrival(netlink: &mut Netlink, device: &CStr, actions: &[Action]) -> io::Result<()> {
    let device = index(device)?;
    let flags = NLM_F_CREATE | NLM_F_EXCL;
    netlink.request(qdisc(device, "clsact", CLSACT, CLSACT_PARENT, Vec::new()), flags)?;
    netlink.request(filter(device, "bpf", INGRESS, every_frame(actions)), flags)
}

/// Puts the calling thread into a new network namespace and makes the testbed there. Threads that it starts are in it too.
pub(super) fn enter() -> Result<(), Error> {
    let step = |step| move |source| Error::System { step, source };
    // SAFETY: unshare changes the calling thread alone.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(step("make a network namespace (it takes root)")(io::Error::last_os_error()));
    }
    make().map_err(step("make the testbed of veth pairs and mirrors (tc bpf and mirred)"))
}

/// Makes a source in the calling thread's network namespace: what is sent on [`SOURCE`] leaves by `device`, where packet sockets see it.
/// Frames that are sent on `device` past its queue are seen by no packet socket.
pub(super) fn feed(device: &CStr) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    make_pairs(&mut netlink, &PAIRS[..1])?;
    on_arrival(&mut netlink, c"split", &[(REDIRECT, index(device)?, TC_ACT_STOLEN)])?;
    wait_for(&PAIRS[..1]);
    Ok(())
}

fn make_pairs(netlink: &mut Netlink, pairs: &[[&CStr; 2]]) -> io::Result<()> {
    // Without IPv6 a device sends nothing by itself. A kernel without it has no such file.
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").ok();
    for pair in pairs {
        let [one, other] = pair.map(|name| name.to_string_lossy().into_owned());
        netlink.request(veth(&one, vec![LinkAttribute::IfName(other)]), NLM_F_CREATE | NLM_F_EXCL)?;
    }
    for name in pairs.as_flattened() {
        let mut link = LinkMessage::default();
        link.header.index = index(name)?;
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
        netlink.request(RouteNetlinkMessage::SetLink(link), 0)?;
    }
    Ok(())
}

/// Waits up to two seconds: the kernel drops what is sent until it has noticed that the wires are there.
fn wait_for(pairs: &[[&CStr; 2]]) {
    for _ in 0..200 {
        if pairs.as_flattened().iter().all(|name| runs(name)) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn make() -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    make_pairs(&mut netlink, &PAIRS)?;
    let first = [(MIRROR, index(c"copy0")?, TC_ACT_PIPE), (REDIRECT, index(c"wire0")?, TC_ACT_STOLEN)];
    on_arrival(&mut netlink, c"split", &first)?;
    on_arrival(&mut netlink, c"wire1", &[(MIRROR, index(c"copy1")?, TC_ACT_SHOT)])?;
    wait_for(&PAIRS);
    Ok(())
}

/// Whether the kernel says of a device that it runs (`IFF_RUNNING`: its operational state is up).
fn runs(name: &CStr) -> bool {
    // SAFETY: socket(2) takes numbers.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return false;
    }
    // SAFETY: a descriptor that was just made and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all zeroes are a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.to_bytes().iter().take(libc::IFNAMSIZ - 1)) {
        *to = *from as libc::c_char;
    }
    // SAFETY: the request lives over the call, and has room for what the kernel writes.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &raw mut request) } != 0 {
        return false;
    }
    // SAFETY: SIOCGIFFLAGS fills this member.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    i32::from(flags) & libc::IFF_RUNNING != 0
}

/// Frames that have arrived at each tap's interface so far.
pub(super) fn arrived() -> [u64; 2] {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    TAPS.map(|tap| frames_of(&table, tap).unwrap_or(0))
}

/// The frames that a device has received, from `/proc/net/dev`: the second figure of its line.
fn frames_of(table: &str, device: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.trim().strip_prefix(device)?.strip_prefix(':'))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Frames of this size on the wire, frame check sequence included.
pub(super) fn shape(frame_size: u16) -> Shape {
    let at = |last, port| SocketAddr::from(([10, 0, 0, last], port));
    Shape {
        bytes: frame_size.saturating_sub(4),
        hardware: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
        vlan: None,
        source: at(1, 9),
        destination: at(2, 9),
        flows: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_frames_are_read_from_the_line_of_the_device() {
        let table = "Inter-|   Receive\n face |bytes    packets\nbefore: 6000 100 0 0\n  after:12 2 0 0\n";
        assert_eq!(TAPS.map(|tap| frames_of(table, tap)), [Some(100), Some(2)]);
        assert_eq!(frames_of(table, "wire0"), None);
    }

    #[test]
    fn attributes_are_padded_and_nest() {
        assert_eq!(attribute(1, b"mirred\0").len(), 12);
        let options = every_frame(&[(MIRROR, 7, TC_ACT_PIPE)]);
        let actions = usize::from(u16::from_ne_bytes([options[0], options[1]]));
        assert_eq!(options[actions - 4..actions], 7i32.to_ne_bytes());
        assert_eq!(options.len(), actions + 8 + 12);
    }
}
