//! The hot loops of TCP flows: no allocation, and no clock read unless paced.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use clock::Nanos;
use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::net::{RecvFlags, SendFlags};
use socket2::Socket;

use super::plan::{Meter, Plan};
use super::{Method, Pacing, ZerocopyCounts, datagrams, zerocopy};
use crate::error::{Error, may_retry};
use crate::options;
use crate::sending::Pacer;
use crate::timing::{self, CpuTime};
use stats::sequence::Datagrams;

/// How long a flow's thread sits in one system call before it looks whether it should stop.
const SLICE: std::time::Duration = std::time::Duration::from_millis(50);

/// One connection of a test.
pub(crate) struct Flow {
    pub id: i64,
    pub sends: bool,
    pub socket: Socket,
}

/// What a flow's thread leaves behind.
#[derive(Debug, Default)]
pub(crate) struct FlowEnd {
    pub cpu: CpuTime,
    pub datagrams: Option<Datagrams>,
    pub zerocopy: Option<ZerocopyCounts>,
    pub error: Option<io::Error>,
}

/// Spends the time of one flow; returns when asked to stop, when its bytes are sent, or when the
/// peer is gone.
pub(crate) fn carry(flow: &Flow, plan: &Plan, bytes: Option<u64>, meter: &Meter, stop: &AtomicBool) -> FlowEnd {
    let before = CpuTime::of_this_thread();
    let mut end = FlowEnd::default();
    let result = plan.cpu.map_or(Ok(()), |cpu| timing::pin_this_thread(cpu).map_err(io::Error::other)).and_then(|()| {
        flow.socket.set_read_timeout(Some(SLICE))?;
        flow.socket.set_write_timeout(Some(SLICE))?;
        match (plan.udp, flow.sends) {
            (false, true) => send(&flow.socket, plan, bytes, meter, stop, &mut end.zerocopy),
            (false, false) => receive(&flow.socket, plan, meter, stop),
            (true, true) => datagrams::send(&flow.socket, plan, bytes, meter, stop),
            (true, false) => {
                let (counts, result) = datagrams::receive(&flow.socket, plan, meter, stop);
                end.datagrams = Some(counts);
                result
            }
        }
    });
    meter.done.store(true, Ordering::Release);
    end.error = result.err();
    end.cpu = CpuTime::of_this_thread().since(before);
    end
}

/// A file of `length` zero bytes in memory.
fn memory_file(length: usize) -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create(c"wirelapse-stream", rustix::fs::MemfdFlags::CLOEXEC)?;
    let file = std::fs::File::from(fd);
    io::Write::write_all(&mut &file, &vec![0; length])?;
    Ok(file.into())
}

fn one_send(socket: &Socket, buffer: &[u8], flags: SendFlags) -> io::Result<u64> {
    Ok(rustix::net::send(socket, buffer, SendFlags::NOSIGNAL | flags)? as u64)
}

fn one_sendfile(socket: &Socket, file: &OwnedFd, length: usize) -> io::Result<u64> {
    Ok(rustix::fs::sendfile(socket, file, Some(&mut 0), length)? as u64)
}

fn send(
    socket: &Socket,
    plan: &Plan,
    bytes: Option<u64>,
    meter: &Meter,
    stop: &AtomicBool,
    zerocopied: &mut Option<ZerocopyCounts>,
) -> io::Result<()> {
    let mut pacer = None;
    match (plan.pace_bits_per_second, plan.pacing) {
        (Some(rate), Pacing::Kernel) => options::max_pacing_rate(socket, rate.div_ceil(8)).map_err(io::Error::other)?,
        (Some(rate), Pacing::Program) => pacer = Some(Pacer::new(rate)),
        (None, _) => {}
    }
    let buffer = vec![0u8; plan.one_write()];
    let file = if plan.method == Method::Sendfile { Some(memory_file(buffer.len())?) } else { None };
    let mut counts = ZerocopyCounts::default();
    let mut completions = match plan.method {
        Method::Zerocopy => Some(zerocopy::enable(socket).map_err(io::Error::other)?),
        _ => None,
    };
    let mut total = 0u64;
    let end = bytes.unwrap_or(u64::MAX);
    let result = loop {
        if total >= end || stop.load(Ordering::Relaxed) {
            break Ok(());
        }
        let length = usize::try_from(end - total).map_or(buffer.len(), |left| left.min(buffer.len()));
        let sent = match (&file, &mut completions) {
            (Some(file), _) => one_sendfile(socket, file, length),
            (None, Some(completions)) => match one_send(socket, &buffer[..length], zerocopy::FLAG) {
                Ok(n) => {
                    counts.sends += 1;
                    // Notifications hold memory of the socket until they are read.
                    if counts.sends % 32 == 0 {
                        zerocopy::reap(completions, socket, &mut counts);
                    }
                    Ok(n)
                }
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {
                    zerocopy::reap(completions, socket, &mut counts);
                    counts.fell_back += 1;
                    one_send(socket, &buffer[..length], SendFlags::empty())
                }
                Err(e) => Err(e),
            },
            (None, None) => one_send(socket, &buffer[..length], SendFlags::empty()),
        };
        match sent {
            Ok(n) => {
                total += n;
                meter.bytes.store(total, Ordering::Relaxed);
                if let Some(pacer) = &mut pacer {
                    pacer.wait(total, stop);
                }
            }
            Err(e) if may_retry(&e) => {}
            Err(e) => break Err(e),
        }
    };
    if let Some(completions) = &mut completions {
        // The last pages are given back once the peer has acknowledged them; a dead path must not
        // hold us here.
        let deadline = timing::now().after(Nanos::from_secs(1));
        while counts.completed < counts.sends && timing::now() < deadline {
            zerocopy::reap(completions, socket, &mut counts);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        *zerocopied = Some(counts);
    }
    result
}

fn one_receive(socket: &Socket, buffer: &mut [u8], flags: RecvFlags) -> io::Result<u64> {
    Ok(rustix::net::recv(socket, buffer, flags)?.0 as u64)
}

fn receive(socket: &Socket, plan: &Plan, meter: &Meter, stop: &AtomicBool) -> io::Result<()> {
    let mut buffer = vec![0u8; plan.write_bytes.max(4096)];
    let mut total = 0u64;
    while !stop.load(Ordering::Relaxed) {
        match one_receive(socket, &mut buffer, RecvFlags::empty()) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                total += n;
                meter.bytes.store(total, Ordering::Relaxed);
                if let Some(on) = plan.quickack {
                    options::quickack(socket, on);
                }
            }
            Err(e) if may_retry(&e) => {}
            Err(e) => return Err(e),
        }
    }
    // What had arrived when the test ended was delivered, only not read yet. A buffer's worth and
    // no more: a peer that goes on sending must not hold us.
    let mut left = socket.recv_buffer_size().unwrap_or(0) as u64 * 2;
    while let Ok(n @ 1..) = one_receive(socket, &mut buffer, RecvFlags::DONTWAIT) {
        total += n;
        meter.bytes.store(total, Ordering::Relaxed);
        if n > left {
            break;
        }
        left -= n;
    }
    Ok(())
}

/// Bytes written to a socket that the peer has not acknowledged (`SIOCOUTQ`).
pub(crate) fn unacknowledged(socket: &impl AsFd) -> u64 {
    // SAFETY: SIOCOUTQ (the same number as TIOCOUTQ) writes an int.
    let request = unsafe { Getter::<{ libc::TIOCOUTQ as Opcode }, libc::c_int>::new() };
    // SAFETY: the request points to nothing of ours.
    unsafe { ioctl(socket, request) }.map_or(0, |bytes| u64::try_from(bytes).unwrap_or(0))
}

/// The shares of `bytes` that `flows` flows send.
pub(crate) fn shares(bytes: Option<u64>, flows: u64) -> impl Iterator<Item = Option<u64>> {
    (0..flows).map(move |i| bytes.map(|b| b / flows + u64::from(i < b % flows)))
}

/// What both sides check of a write size.
pub(crate) fn check_write_bytes(udp: bool, bytes: u32) -> Result<(), Error> {
    let (low, high) = if udp { (16, 65_507) } else { (1, 256 << 20) };
    if (low..=high).contains(&bytes) {
        return Ok(());
    }
    Err(Error::Config(format!("a {} of {bytes} bytes: it has {low} to {high}", if udp { "datagram" } else { "write" })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for (bytes, flows) in [(10, 3), (0, 4), (3, 4), (u64::MAX, 7)] {
            let all: Vec<u64> = shares(Some(bytes), flows).flatten().collect();
            assert_eq!(all.len() as u64, flows);
            assert_eq!(all.iter().sum::<u64>(), bytes);
        }
    }

    #[test]
    fn a_pacer_never_runs_ahead() {
        let stop = AtomicBool::new(false);
        let mut pacer = Pacer::new(80_000_000);
        let start = timing::now();
        let now = pacer.wait(100_000, &stop);
        assert!(now.saturating_since(start) >= Nanos(9_900_000), "{now:?} {start:?}");
        stop.store(true, Ordering::Relaxed);
        pacer.wait(u64::MAX, &stop);
    }
}
