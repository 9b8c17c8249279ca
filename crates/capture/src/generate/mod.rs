//! Sending frames at a known rate, each with an id and its send time, by the fastest way that
//! works.

mod af_xdp;
mod live_frames;
mod mix;
pub mod replay;
mod schedule;
mod sendmmsg;
mod template;
mod tx_ring;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant as WallInstant};

use clock::Nanos;

use crate::Error;
use crate::link::Link;
pub use mix::{IMIX, LONGEST_TURN, in_turn};
pub use schedule::Spread;
pub use template::{Mark, Shape, ShapeError, mark_of};

use mix::Templates;
use schedule::Schedule;
#[cfg(test)]
pub(crate) use template::Template;

/// A way to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sending {
    /// An XDP program that the kernel runs on generated frames and that redirects them to the
    /// interface (`BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18): no packet buffer and no copy a frame.
    LiveFrames,
    /// An AF_XDP socket: frames leave shared memory for the driver, past the network stack;
    /// zero-copy where the driver has it.
    AfXdp,
    /// A packet socket's transmit ring in shared memory (`PACKET_TX_RING`), past the packet
    /// scheduler.
    TxRing,
    /// `sendmmsg` on a packet socket, past the packet scheduler: one system call for a batch.
    Sendmmsg,
}

impl Sending {
    /// Every way, the fastest first.
    pub const ALL: [Self; 4] = [Self::LiveFrames, Self::AfXdp, Self::TxRing, Self::Sendmmsg];

    /// Its name on the command line and in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LiveFrames => "live-frames",
            Self::AfXdp => "af-xdp",
            Self::TxRing => "tx-ring",
            Self::Sendmmsg => "sendmmsg",
        }
    }
}

impl fmt::Display for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no way to send.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no way to send is called {0:?}: there are live-frames, af-xdp, tx-ring and sendmmsg")]
pub struct NoSuchSending(pub String);

impl FromStr for Sending {
    type Err = NoSuchSending;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|s| s.name() == name).ok_or_else(|| NoSuchSending(name.to_owned()))
    }
}

/// What to send.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The interface, in the network namespace of the calling thread.
    pub interface: String,
    /// What the frames look like.
    pub shape: Shape,
    /// Lengths that frames have in turn, in place of that of the shape; empty for that one alone.
    pub lengths: Vec<u16>,
    /// Frames a second; `None` for as many as can be.
    pub per_second: Option<f64>,
    /// How they are spread over time.
    pub spread: Spread,
    /// How many; `None` until asked to stop.
    pub count: Option<u64>,
    /// For how long; `None` until `count` is reached.
    pub duration: Option<Duration>,
    /// By which way; `None` for the fastest that works.
    pub sending: Option<Sending>,
}

/// What was really sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    /// By which way.
    pub sending: Sending,
    /// Frames that were handed to the kernel.
    pub frames: u64,
    /// Of these, the ones that the interface did not take or counts as dropped: its peer or its
    /// queue had no room.
    pub dropped: u64,
    /// From the start to the last frame, or to the end of the duration that was asked for, where
    /// that is later.
    pub took: Nanos,
    /// Frames a second. Of frames that fall due at a rate these are the ones after the first (with
    /// bursts: after the first burst) over the time from the first to the last; of as many as can
    /// be, all over `took`. `None` where one moment holds all of them.
    pub per_second: Option<f64>,
    /// The gap between the batches that frames are sent in: mean and standard deviation of the time
    /// between two frames, as their send times say. `None` with fewer than two frames.
    pub gaps: Option<Gaps>,
}

/// The time between neighbouring frames, by their send times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gaps {
    /// How many.
    pub n: u64,
    /// Their mean, ns.
    pub mean_ns: f64,
    /// Their standard deviation, ns.
    pub deviation_ns: f64,
    /// The longest.
    pub max: Nanos,
}

impl Gaps {
    /// Frames a second, where those of the first moment were `at_once`.
    pub(crate) fn per_second(&self, at_once: u64) -> Option<f64> {
        let after = (self.n + 1).checked_sub(at_once)? as f64;
        let seconds = self.n as f64 * self.mean_ns / 1e9;
        (after > 0.0 && seconds > 0.0).then(|| after / seconds)
    }
}

/// All of them over the time that sending took.
pub(crate) fn over(frames: u64, took: Nanos) -> Option<f64> {
    (frames > 0 && took > Nanos::ZERO).then(|| frames as f64 / took.as_secs_f64())
}

/// Sums that [`Gaps`] are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct GapSums {
    pub n: u64,
    pub sum: f64,
    pub squares: f64,
    pub max: u64,
}

impl GapSums {
    /// Takes a gap, nanoseconds.
    pub(crate) fn take(&mut self, gap_ns: u64) {
        self.n += 1;
        self.sum += gap_ns as f64;
        self.squares += (gap_ns as f64).powi(2);
        self.max = self.max.max(gap_ns);
    }

    pub(crate) fn gaps(&self) -> Option<Gaps> {
        let n = self.n as f64;
        (self.n > 0).then(|| {
            let mean = self.sum / n;
            let variance = (self.squares / n - mean * mean).max(0.0);
            Gaps { n: self.n, mean_ns: mean, deviation_ns: variance.sqrt(), max: Nanos(self.max) }
        })
    }
}

/// How long the kernel may take for the last frames of a ring: while a receiving CPU is busy, it
/// takes none.
const LAST: Duration = Duration::from_secs(1);

/// Calls `kick` until nothing is `left` in a ring, or [`LAST`] has passed. Gives what is left.
fn emptied<S>(ring: &S, left: impl Fn(&S) -> u64, kick: impl Fn(&S) -> Result<(), Error>) -> Result<u64, Error> {
    let until = WallInstant::now() + LAST;
    while left(ring) > 0 && WallInstant::now() < until {
        kick(ring)?;
        if left(ring) > 0 {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    Ok(left(ring))
}

/// Sends frames with consecutive ids.
pub(crate) trait Sender {
    /// Sends the next `count` frames at most, the first with id `first`; gives how many went. Fewer
    /// where a queue is full.
    fn send(&mut self, first: u64, count: u32) -> Result<u32, Error>;

    /// Has the kernel take what is still in a ring, for at most [`LAST`]. Gives how many frames it
    /// did not take: they were not sent.
    fn finish(&mut self) -> Result<u64, Error> {
        Ok(0)
    }

    /// Frames that went to the interface so far and that it did not take, where only the sender
    /// sees those.
    fn dropped(&self) -> u64 {
        0
    }

    /// The most frames that one call is worth.
    fn batch(&self) -> u32;

    /// The gaps between frames so far.
    fn gaps(&self) -> GapSums;
}

fn open(sending: Sending, link: &Link, templates: &Templates, at_line_rate: bool) -> Result<Box<dyn Sender>, Error> {
    let one = || {
        templates.only().ok_or_else(|| Error::Sending {
            way: sending.name(),
            interface: link.name.clone(),
            reason: ONE_LENGTH.into(),
        })
    };
    Ok(match sending {
        Sending::LiveFrames => Box::new(live_frames::LiveFrames::open(link, one()?, at_line_rate)?),
        Sending::AfXdp => Box::new(af_xdp::AfXdp::open(link, one()?)?),
        Sending::TxRing => Box::new(tx_ring::TxRing::open(link, templates)?),
        Sending::Sendmmsg => Box::new(sendmmsg::Sendmmsg::open(link, templates)?),
    })
}

/// Why a way to send is none for frames of several lengths.
const ONE_LENGTH: &str = "it sends frames of one length alone; tx-ring and sendmmsg send several";

/// The fastest of these ways that opens; the error is that of the slowest.
fn fastest(
    ways: &[Sending],
    link: &Link,
    templates: &Templates,
    at_line_rate: bool,
) -> Result<(Sending, Box<dyn Sender>), Error> {
    let mut refused = None;
    for &sending in ways {
        match open(sending, link, templates, at_line_rate) {
            Ok(sender) => return Ok((sending, sender)),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.unwrap_or(Error::NoInterface(link.name.clone())))
}

/// The ways that are slower than this one.
fn slower(than: Sending) -> Option<&'static [Sending]> {
    let (_, slower) = Sending::ALL.split_at(Sending::ALL.iter().position(|way| *way == than)? + 1);
    (!slower.is_empty()).then_some(slower)
}

/// Why frames were not sent.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The frames cannot be.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The interface or the kernel refuses.
    #[error(transparent)]
    Interface(#[from] Error),
}

/// Sends a plan's frames; `go_on` is asked between batches.
///
/// # Errors
/// [`GenerateError`] where the plan cannot be carried out.
pub fn run(plan: &Plan, mut go_on: impl FnMut(u64) -> bool) -> Result<Sent, GenerateError> {
    let templates = Templates::new(&plan.shape, &plan.lengths)?;
    let link = Link::by_name(&plan.interface)?;
    let at_line_rate = plan.per_second.is_none();
    let (mut sending, mut sender) = match plan.sending {
        Some(sending) => (sending, open(sending, &link, &templates, at_line_rate)?),
        None => fastest(&Sending::ALL, &link, &templates, at_line_rate)?,
    };
    let dropped_before = link.dropped_sending();
    let mut schedule = Schedule::new(plan.per_second, plan.spread);
    let most = plan.count.unwrap_or(u64::MAX);
    let began = WallInstant::now();
    let elapsed = || Nanos::from(began.elapsed());
    let end = plan.duration.map(Nanos::from);
    // What fell due before the end is sent even if the sender was held up, for a tenth of the time
    // more: a link that is too slow ends, too.
    let latest = end.map(|end| if at_line_rate { end } else { end + Nanos(end.0 / 10) });
    let (mut frames, mut last) = (0u64, Nanos::ZERO);
    let took = loop {
        let now = elapsed();
        if frames >= most || !go_on(frames) || latest.is_some_and(|latest| now >= latest) {
            break now;
        }
        let within = end.map_or(now, |end| now.min(end.saturating_sub(Nanos(1))));
        let due = schedule.due(within).min(most) - frames;
        if due > 0 {
            let wanted = due.min(sender.batch().into()) as u32;
            match sender.send(frames, wanted) {
                Ok(went) => frames += u64::from(went),
                // The interface takes no frame that comes this way: that shows when the first one
                // is sent.
                Err(error) => match slower(sending) {
                    Some(ways) if frames == 0 && plan.sending.is_none() && matches!(error, Error::Sending { .. }) => {
                        (sending, sender) = fastest(ways, &link, &templates, at_line_rate)?;
                    }
                    _ => return Err(error.into()),
                },
            }
            last = elapsed();
        } else if let Some(end) = end.filter(|end| now >= *end) {
            break last.max(end);
        } else {
            wait(schedule.pause(now));
        }
    };
    frames -= sender.finish()?;
    // An interface may count some of those that it does not take.
    let dropped = link.dropped_sending().saturating_sub(dropped_before).max(sender.dropped());
    let gaps = sender.gaps().gaps();
    let at_once = if let Spread::Bursts { frames } = plan.spread { frames.into() } else { 1 };
    let per_second = if at_line_rate { over(frames, took) } else { gaps.and_then(|gaps| gaps.per_second(at_once)) };
    Ok(Sent { sending, frames, dropped, took, per_second, gaps })
}

/// Waits for a frame to fall due. Sleeping is late by tens of microseconds: the last of it is spent
/// spinning.
fn wait(pause: Nanos) {
    const SPIN: Nanos = Nanos(100_000);
    if pause > SPIN {
        std::thread::sleep(Duration::from(pause.saturating_sub(SPIN)).min(Duration::from_millis(50)));
    } else {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_at_a_rate_have_one_gap_less_than_there_are_frames() {
        let tenths = |n| Gaps { n, mean_ns: 1e8, ..Gaps::default() };
        assert_eq!(tenths(9).per_second(1), Some(10.0));
        // Four bursts of five, one a second: three seconds from the first frame to the last.
        let bursts = Gaps { n: 19, mean_ns: 3e9 / 19.0, ..Gaps::default() };
        assert!((bursts.per_second(5).unwrap() - 5.0).abs() < 1e-9);
        assert_eq!((tenths(4).per_second(5), Gaps { n: 9, ..Gaps::default() }.per_second(1)), (None, None));
        assert_eq!((over(500, Nanos::from_secs(2)), over(0, Nanos::from_secs(2))), (Some(250.0), None));
    }
}
