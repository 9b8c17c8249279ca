//! One trial: frames through the testbed, received at both taps by one technique, and matched.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver as Heard, channel};
use std::time::{Duration, Instant};

use capture::delay::{Account, Identity, Key, Matcher, Recording, Tap};
use capture::generate::{self, Plan, Sending, Sent, Spread};
use capture::{Counts, Options, Stamps, Technique};
use clock::Nanos;

use super::outcome::Measured;
use super::plan::Setting;
use super::testbed::{self, Bed};
use crate::Error;

/// How much is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount {
    pub frames: Option<u64>,
    pub duration: Option<Duration>,
}

/// Bytes kept of a frame: its headers and id.
const SNAP: u32 = 128;
/// How long a receiver waits for a frame before it looks whether the trial is over.
const SILENCE: Duration = Duration::from_millis(20);
/// How long a receiver may take over what is still in its buffers.
const DRAIN: Duration = Duration::from_secs(3);
/// How long a frame waits for its other half.
const PATIENCE: Nanos = Nanos(1_000_000_000);
/// Frames that wait for their other half at most.
const WAITING: usize = 4 << 20;

/// A frame at a tap: when, which tap, and which frame.
pub(super) type Seen = (u64, Tap, Key);

/// What one tap's receiver saw.
pub(super) struct Received {
    pub seen: Vec<Seen>,
    pub counts: Counts,
    pub cpu: Nanos,
}

/// Why a technique has no figures here.
pub(super) type Refusal = String;

pub(super) fn options(interface: &str, stamps: Stamps) -> Options {
    Options { snap_length: SNAP, stamps, ..Options::of(interface) }
}

/// Receives until `over`, and until nothing is left. `ready` hears that the receiver is open, or
/// why it is not.
pub(super) fn receive(
    technique: Technique,
    interface: &str,
    tap: Tap,
    over: &AtomicBool,
    ready: &std::sync::mpsc::Sender<Result<(), Refusal>>,
) -> Option<Received> {
    let mut receiver = match capture::open(technique, &options(interface, Stamps::Software)) {
        Ok(receiver) => receiver,
        Err(why) => {
            ready.send(Err(why.to_string())).ok();
            return None;
        }
    };
    ready.send(Ok(())).ok();
    let mut seen = Vec::with_capacity(1 << 20);
    let before = traffic::thread_cpu_time();
    let mut last = None;
    loop {
        let batch = receiver.next_batch(SILENCE, &mut |frame| {
            if let (Some(key), Some(stamp)) = (Identity::Id.key(frame.data), frame.software) {
                seen.push((stamp.at.as_nanos(), tap, key));
            }
        });
        if over.load(Ordering::Relaxed) {
            let since = *last.get_or_insert_with(Instant::now);
            if !matches!(batch, Ok(1..)) || since.elapsed() > DRAIN {
                break;
            }
        } else if batch.is_err() {
            break;
        }
    }
    let cpu = traffic::thread_cpu_time().saturating_sub(before);
    Some(Received { seen, counts: receiver.counts(), cpu })
}

/// Waits for both receivers.
pub(super) fn both(heard: &Heard<Result<(), Refusal>>) -> Result<(), Refusal> {
    for _ in [Tap::Before, Tap::After] {
        heard.recv().map_err(|_| "its receiver ended".to_owned())??;
    }
    Ok(())
}

/// Joins what the taps saw.
pub(super) fn matched(received: [Received; 2]) -> (Account, Recording, Vec<f64>) {
    let mut all: Vec<Seen> = received.into_iter().flat_map(|r| r.seen).collect();
    all.sort_unstable_by_key(|&(at, tap, _)| (at, tap == Tap::After));
    let mut matcher = Matcher::new(PATIENCE, WAITING);
    let (mut recording, mut delays) = (Recording::default(), Vec::new());
    for (at, tap, key) in all {
        recording.seen(tap, at);
        if let Some(found) = matcher.take(tap, Some(key), at) {
            delays.push(found.delay_ns as f64);
            recording.matched(found);
        }
    }
    (matcher.finish(), recording, delays)
}

/// Keeps every CPU busy while it lives.
struct Stress<'a>(&'a AtomicBool);

impl Drop for Stress<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn spin(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..1_000 {
            std::hint::spin_loop();
        }
    }
}

/// Sends frames into the testbed by a way that has the kernel forward each of them on the sender's
/// CPU before the next one.
pub(super) fn send(
    interface: &str,
    setting: &Setting,
    amount: Amount,
    go_on: &dyn Fn() -> bool,
) -> Result<Sent, Error> {
    send_counted(interface, setting, amount, &AtomicU64::new(0), go_on)
}

/// As [`send`], with `so_far` the frames that have been sent.
pub(super) fn send_counted(
    interface: &str,
    setting: &Setting,
    amount: Amount,
    so_far: &AtomicU64,
    go_on: &dyn Fn() -> bool,
) -> Result<Sent, Error> {
    let plan = Plan {
        interface: interface.into(),
        shape: testbed::shape(setting.frame_size),
        lengths: Vec::new(),
        per_second: setting.per_second,
        spread: Spread::Constant,
        count: amount.frames,
        duration: amount.duration,
        sending: Some(Sending::Sendmmsg),
    };
    let sent = generate::run(&plan, |frames| {
        so_far.store(frames, Ordering::Relaxed);
        go_on()
    });
    sent.map_err(|e| Error::Setting(format!("frames cannot be generated: {e}")))
}

/// Runs one trial in the testbed of the calling thread; a technique that does not work here gives
/// its reason.
pub(super) fn run(
    setting: &Setting,
    amount: Amount,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Result<(Measured, Recording), Refusal>, Error> {
    let (over, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let bed = Bed::of(setting.interface);
    std::thread::scope(|scope| {
        let _stress = Stress(&stop);
        let (ready, heard) = channel();
        let threads = [(bed.taps[0], Tap::Before), (bed.taps[1], Tap::After)].map(|(interface, tap)| {
            let (ready, over) = (ready.clone(), &over);
            let refused = ready.clone();
            let work = move || receive(setting.technique, interface, tap, over, &ready);
            let started = std::thread::Builder::new().spawn_scoped(scope, work);
            started.map_err(|error| refused.send(Err(format!("no thread for its receiver: {error}")))).ok()
        });
        let opened = both(&heard);
        let before = bed.arrived();
        let sent = opened.clone().map(|()| {
            if setting.stressed {
                for _ in 0..cpus {
                    let started = std::thread::Builder::new().spawn_scoped(scope, || spin(&stop));
                    started.map_err(|source| Error::System { step: "start a thread", source })?;
                }
            }
            send(bed.source, setting, amount, go_on)
        });
        stop.store(true, Ordering::Relaxed);
        over.store(true, Ordering::Relaxed);
        let received = threads.map(|thread| thread?.join().unwrap_or(None));
        if let Err(why) = opened {
            return Ok(Err(why));
        }
        let sent = match sent {
            Ok(sent) => sent?,
            Err(why) => return Ok(Err(why)),
        };
        let [Some(one), Some(other)] = received else { return Ok(Err("its receiver ended".into())) };
        let after = bed.arrived();
        let arrived = [0, 1].map(|i: usize| after[i].saturating_sub(before[i]));
        let counts = [one.counts, other.counts];
        let cpu_ns = (one.cpu + other.cpu).0 as f64;
        let (account, recording, delays) = matched([one, other]);
        Ok(Ok((Measured::of(&sent, arrived, counts, cpu_ns, account, &delays), recording)))
    })
}
