//! Sending the frames of a capture again, at the pace at which they were captured or another.

use std::io::{self, IoSlice, Read};
use std::time::{Duration, Instant as WallInstant};

use clock::{Monotonic, Nanos};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags};
use wire::{Capture, CaptureError, LinkType};

use super::sendmmsg::Marks;
use super::{Gaps, over, wait};
use crate::Error;
use crate::link::Link;
use crate::packet::PacketSocket;

/// How fast frames are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// With the gaps between them as captured, divided by this.
    Own(f64),
    /// So many a second, evenly.
    PerSecond(f64),
    /// As fast as can be.
    Fastest,
}

/// What was really sent of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Replayed {
    /// Frames that were handed to the kernel.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that were cut when they were captured: a part of a frame is not sent.
    pub cut: u64,
    /// Frames of another kind than Ethernet, without a time where times are needed, or too long for
    /// the interface.
    pub unsendable: u64,
    /// Of the sent ones, those that the interface counts as dropped.
    pub dropped: u64,
    /// From the first to the last.
    pub took: Nanos,
    /// Frames a second: the ones after the first over the time from the first to the last; as fast
    /// as can be, all over `took`. `None` where one moment holds all of them.
    pub per_second: Option<f64>,
    /// The time between frames, as they were handed over.
    pub gaps: Option<Gaps>,
    /// How much later than they were due frames went: the mean and the most.
    pub late: [Nanos; 2],
}

/// Why a capture was not sent.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file is no capture, or cannot be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The interface or the kernel refuses.
    #[error(transparent)]
    Interface(#[from] Error),
}

/// Frames of a system call.
const BATCH: usize = 64;

/// Frames that are due, one behind the other in memory.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// An interface that is open to send on: the rest of the work takes no right of root's.
pub struct Way {
    link: Link,
    socket: PacketSocket,
}

impl Way {
    /// Opens it.
    ///
    /// # Errors
    /// Where there is no such interface, or the kernel refuses.
    pub fn open(interface: &str) -> Result<Self, Error> {
        let link = Link::by_name(interface)?;
        let socket = PacketSocket::sender(&link)?;
        Ok(Self { link, socket })
    }
}

/// Sends the frames of a capture; `go_on` is asked between batches.
///
/// # Errors
/// [`ReplayError`].
pub fn run(
    Way { link, socket }: Way,
    file: impl Read + Send,
    pace: Pace,
    mut go_on: impl FnMut(u64) -> bool,
) -> Result<Replayed, ReplayError> {
    let dropped_before = link.dropped_sending();
    let mut capture = Capture::from_reader(file)?;
    let (mut sent, mut marks, mut batch) = (Replayed::default(), Marks::default(), Batch::default());
    let (mut first, mut number, mut late) = (None, 0u64, (0u128, Nanos::ZERO));
    let began = WallInstant::now();
    while let Some(frame) = capture.next_frame()? {
        if frame.original_length as usize > frame.data.len() {
            sent.cut += 1;
            continue;
        }
        let at = frame.at.map(|at| at.as_nanos()).or((!matches!(pace, Pace::Own(_))).then_some(0));
        let Some(at) = at.filter(|_| frame.link_type == LinkType::ETHERNET && frame.data.len() >= 14) else {
            sent.unsendable += 1;
            continue;
        };
        let since = at.saturating_sub(*first.get_or_insert(at)) as f64;
        let due = Nanos(match pace {
            Pace::Own(speed) => since / speed,
            Pace::PerSecond(rate) => number as f64 * 1e9 / rate,
            Pace::Fastest => 0.0,
        } as u64);
        number += 1;
        // What is gathered goes before a wait, so that it is not late.
        if Nanos::from(began.elapsed()) < due {
            batch.send(&socket, &mut sent, &mut marks)?;
            while Nanos::from(began.elapsed()) < due {
                if !go_on(sent.frames) {
                    return Ok(finished(sent, pace, &link, dropped_before, began, &marks, late));
                }
                wait(due.saturating_sub(Nanos::from(began.elapsed())));
            }
        }
        let behind = Nanos::from(began.elapsed()).saturating_sub(due);
        if !matches!(pace, Pace::Fastest) {
            late = (late.0 + u128::from(behind.0), late.1.max(behind));
        }
        batch.bytes.extend_from_slice(frame.data);
        batch.ends.push(batch.bytes.len());
        if batch.ends.len() == BATCH {
            batch.send(&socket, &mut sent, &mut marks)?;
            if !go_on(sent.frames) {
                return Ok(finished(sent, pace, &link, dropped_before, began, &marks, late));
            }
        }
    }
    batch.send(&socket, &mut sent, &mut marks)?;
    Ok(finished(sent, pace, &link, dropped_before, began, &marks, late))
}

fn finished(
    sent: Replayed,
    pace: Pace,
    link: &Link,
    dropped_before: u64,
    began: WallInstant,
    marks: &Marks,
    late: (u128, Nanos),
) -> Replayed {
    let mean = late.0 / u128::from(sent.frames.max(1));
    let (took, gaps) = (Nanos::from(began.elapsed()), marks.sums().gaps());
    let fastest = matches!(pace, Pace::Fastest);
    Replayed {
        per_second: if fastest { over(sent.frames, took) } else { gaps.and_then(|gaps| gaps.per_second(1)) },
        dropped: link.dropped_sending().saturating_sub(dropped_before),
        took,
        gaps,
        late: [Nanos(u64::try_from(mean).unwrap_or(u64::MAX)), late.1],
        ..sent
    }
}

impl Batch {
    /// Sends all of it. A frame that the interface refuses is counted and skipped.
    fn send(&mut self, socket: &PacketSocket, sent: &mut Replayed, marks: &mut Marks) -> Result<(), Error> {
        let mut next = 0;
        while next < self.ends.len() {
            match self.hand_over(socket, next) {
                Ok(gone) => {
                    let now = timestamping::now::<Monotonic>().as_nanos();
                    (0..gone).for_each(|_| marks.take(now));
                    sent.frames += gone as u64;
                    let from = if next == 0 { 0 } else { self.ends[next - 1] };
                    next += gone;
                    sent.bytes += (self.ends[next - 1] - from) as u64;
                }
                Err(error) => match error.raw_os_error() {
                    // The driver's queue is full.
                    Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR) => std::thread::sleep(Duration::from_micros(20)),
                    Some(libc::EMSGSIZE | libc::EINVAL) => {
                        sent.unsendable += 1;
                        next += 1;
                    }
                    _ => return Err(socket.failure("send frames", error)),
                },
            }
        }
        self.bytes.clear();
        self.ends.clear();
        Ok(())
    }

    /// Hands the frames from number `from` on to the kernel; gives how many it took, at least one.
    fn hand_over(&mut self, socket: &PacketSocket, from: usize) -> io::Result<usize> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let mut frames: Vec<_> = starts
            .zip(&self.ends)
            .skip(from)
            .map(|(start, &end)| ([IoSlice::new(&self.bytes[start..end])], SendAncillaryBuffer::default()))
            .collect();
        let mut messages: Vec<_> = frames.iter_mut().map(|(frame, none)| MMsgHdr::new(&*frame, none)).collect();
        match rustix::net::sendmmsg(socket, &mut messages, SendFlags::empty())? {
            0 => Err(io::Error::from(io::ErrorKind::WouldBlock)),
            sent => Ok(sent),
        }
    }
}
