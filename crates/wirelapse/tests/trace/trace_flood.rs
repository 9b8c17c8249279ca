//! Packets faster than `wirelapse trace --packets` can write them: each is in the file, or counted.

use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::time::Instant;

use crate::scene::{BTF, turn};
use crate::trace_packets::{copying, end};
use tier::Need;
use wire::Capture;

/// Datagrams of each of two threads.
const EACH: usize = 200_000;
/// Datagrams of a call.
const BATCH: usize = 50;

/// Sends as fast as the kernel takes them; gives how many it took.
fn flood(to: std::net::SocketAddr) -> usize {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(to).unwrap();
    let mut payload = [7u8; 32];
    let mut part = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
    // SAFETY: a message of zeros is one without an address, control data or parts.
    let mut messages: Vec<libc::mmsghdr> = (0..BATCH).map(|_| unsafe { std::mem::zeroed() }).collect();
    for message in &mut messages {
        message.msg_hdr.msg_iov = &raw mut part;
        message.msg_hdr.msg_iovlen = 1;
    }
    let mut sent = 0;
    while sent < EACH {
        // SAFETY: the messages and what they point to outlive the call.
        let done = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), BATCH as u32, 0) };
        assert!(done > 0, "{}", std::io::Error::last_os_error());
        sent += done as usize;
    }
    sent
}

#[test]
fn a_flood_is_in_the_file_or_counted_to_the_packet() {
    tier::needs!(Need::Root, BTF);
    let _turn = turn();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let trace = copying(to.port(), file.path(), &[]);
    let begun = Instant::now();
    let sent: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(|| flood(to))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let rate = 2.0 * sent as f64 / begun.elapsed().as_secs_f64();
    let (done, said) = end(trace);
    assert!(done, "{said}");
    let bytes = std::fs::read(file.path()).unwrap();
    let mut capture = Capture::from_bytes(&bytes).unwrap();
    let (mut copies, mut told) = (0, 0);
    while let Some(frame) = capture.next_frame().unwrap() {
        copies += 1 + u64::from(frame.context().unwrap().receiver.is_some());
        told += frame.dropped_before();
    }
    let missed = capture.interfaces()[0].dropped_by_system.unwrap();
    println!("{rate:.0} copies a second; {copies} in the file, {missed} missed");
    // Each is copied as it leaves and as its socket gets it, whatever becomes of it there.
    assert_eq!(copies + missed, 2 * sent as u64, "{told} missed before a packet");
    assert!(told <= missed && said.contains("missed"), "{said}");
}
