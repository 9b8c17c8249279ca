//! Two interfaces at which the frames of a device are seen.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use clock::Nanos;

use super::clocks::{self, TapClock};
use super::join::{Join, PATIENCE};
use super::{Account, Clocks, Identity, Key, Recording, Tap};
use crate::{Counts, Error, Options, Receiver, Technique};

/// How long a tap's receiver waits for a frame before it looks whether the run is over.
const TURN: Duration = Duration::from_millis(100);

/// A frame that a receiver has not handed over yet passed less than this ago, once the receiver has
/// waited for nothing.
const HANDED_OVER_WITHIN: Nanos = Nanos(300_000_000);

/// Frames on their way through the device when the taps open are not counted: those of this time.
const LEAD: Nanos = Nanos(100_000_000);

/// How long to wait at the end for frames that are still in the device.
const TAIL: Duration = Duration::from_nanos(PATIENCE.0);

/// Batches between the receivers and the join.
const BATCHES: usize = 1024;

/// Two open taps.
pub struct Taps {
    taps: [Opened; 2],
    /// As it was asked for, or as the first frames decide.
    identity: OnceLock<Identity>,
}

struct Opened {
    receiver: Box<dyn Receiver>,
    clock: TapClock,
}

/// What two taps saw.
pub struct Watched {
    /// What became of the frames.
    pub account: Account,
    /// The matched ones.
    pub recording: Recording,
    /// By what frames were recognised.
    pub identity: Identity,
    /// What each tap's receiver counted.
    pub counts: [Counts; 2],
    /// The clocks.
    pub clocks: Clocks,
    /// The bound on the error that a difference of two stamps has by their own account.
    pub stamp_error: Nanos,
    /// How long frames were counted.
    pub lasted: Nanos,
    /// Why it ended, where that was not asked for.
    pub failed: Option<Error>,
}

/// What the two taps saw up to now, for whoever waits.
#[derive(Clone, Copy, Debug)]
pub struct SoFar {
    /// What became of the frames.
    pub account: Account,
    /// For how long.
    pub lasted: Nanos,
}

/// Frames by which it is decided how they are recognised, where that is not said: one of them with
/// an id of `generate` is enough.
const LOOKED_AT: usize = 256;

/// How long they are waited for.
const LOOKING: Duration = Duration::from_millis(500);

/// Frames of a tap in the order in which it saw them, with their keys by id and by content; both
/// are the same once it is decided which.
struct Batch {
    tap: Tap,
    frames: Vec<(u64, [Option<Key>; 2])>,
    read_ns: u64,
    error: Nanos,
}

impl Taps {
    /// Opens both taps. Without an `identity` it is by the ids of `generate` where the first frames
    /// have such, else by content.
    ///
    /// # Errors
    /// As [`crate::open`]; [`Error::Clocks`] where the two interfaces stamp by two clocks that
    /// cannot be compared.
    pub fn open(technique: Technique, options: [&Options; 2], identity: Option<Identity>) -> Result<Self, Error> {
        let interfaces = options.map(|o| o.interface.as_str());
        let one = crate::open(technique, options[0])?;
        let other = crate::open(technique, options[1])?;
        let [first, second] = clocks::pair(interfaces, options[0].stamps)?;
        let taps = [Opened { receiver: one, clock: first }, Opened { receiver: other, clock: second }];
        Ok(Self { taps, identity: identity.map(OnceLock::from).unwrap_or_default() })
    }

    /// What the two receivers are.
    pub fn about(&self) -> [&crate::About; 2] {
        [self.taps[0].receiver.about(), self.taps[1].receiver.about()]
    }

    /// Watches until `go_on`, which is asked a few times a second, says no.
    pub fn watch(mut self, mut go_on: impl FnMut(&SoFar) -> bool) -> Watched {
        let over = AtomicBool::new(false);
        let identity = &self.identity;
        let mut undecided = Undecided::default();
        let mut join = Join::default();
        let (mut stamp_error, mut failed) = ([Nanos::ZERO; 2], None);
        let mut lasted = Nanos::ZERO;
        std::thread::scope(|scope| {
            let (sender, batches) = sync_channel(BATCHES);
            let [one, other] = &mut self.taps;
            let threads = [(Tap::Before, one), (Tap::After, other)].map(|(tap, opened)| {
                let (own, over) = (sender.clone(), &over);
                let work = move || receive(opened, tap, identity, over, &own);
                let started = std::thread::Builder::new().spawn_scoped(scope, work);
                started.map_err(|source| sender.send(Err(Error::system("start a thread for a tap")(source)))).ok()
            });
            drop(sender);
            let began = Instant::now();
            let (mut asked, mut ending, mut counting) = (began, None, false);
            loop {
                match batches.recv_timeout(TURN) {
                    Ok(Ok(batch)) => undecided.take(batch, identity),
                    Ok(Err(error)) => failed = Some(error),
                    Err(RecvTimeoutError::Timeout) => undecided.decide(identity, false),
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                for batch in undecided.decided(identity) {
                    if !std::mem::replace(&mut counting, true) {
                        // Until now frames may have passed the first tap unseen.
                        let at = batch.frames.first().map_or(batch.read_ns, |seen| seen.0);
                        join.count_from(at.saturating_add(LEAD.0));
                    }
                    let error = &mut stamp_error[batch.tap as usize];
                    *error = batch.error.max(*error);
                    let place = usize::from(identity.get() != Some(&Identity::Id));
                    let frames = batch.frames.into_iter().map(|(at, keys)| (at, keys[place]));
                    join.take(batch.tap, frames, batch.read_ns);
                }
                let Some(since) = ending else {
                    if asked.elapsed() >= TURN || failed.is_some() {
                        asked = Instant::now();
                        lasted = Nanos::from(began.elapsed());
                        if !go_on(&SoFar { account: join.account(), lasted }) || failed.is_some() {
                            ending = Some(Instant::now());
                            undecided.decide(identity, true);
                            join.count_until_now();
                        }
                    }
                    continue;
                };
                if since.elapsed() >= TAIL || (since.elapsed() >= HANDED_OVER_WITHIN.into() && join.is_settled()) {
                    over.store(true, Ordering::Relaxed);
                }
            }
            for thread in threads.into_iter().flatten() {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
        });
        let (account, recording) = join.finish();
        let counts = [self.taps[0].receiver.counts(), self.taps[1].receiver.counts()];
        let clocks = clocks::clocks([&self.taps[0].clock, &self.taps[1].clock]);
        let stamp_error = stamp_error[0] + stamp_error[1];
        let identity = self.identity.get().copied().unwrap_or(BY_CONTENT);
        Watched { account, recording, identity, counts, clocks, stamp_error, lasted, failed }
    }
}

const BY_CONTENT: Identity = Identity::Content { translated: false };

/// Batches that wait until it is decided how frames are recognised.
#[derive(Default)]
struct Undecided {
    batches: Vec<Batch>,
    frames: usize,
    since: Option<Instant>,
}

impl Undecided {
    fn take(&mut self, batch: Batch, identity: &OnceLock<Identity>) {
        if batch.frames.iter().any(|(_, [id, _])| id.is_some()) {
            identity.get_or_init(|| Identity::Id);
        }
        if !batch.frames.is_empty() {
            self.since.get_or_insert_with(Instant::now);
        }
        self.frames += batch.frames.len();
        self.batches.push(batch);
        self.decide(identity, false);
    }

    /// By content, where no frame had an id and enough of them were compared, or nothing more is
    /// waited for.
    fn decide(&self, identity: &OnceLock<Identity>, over: bool) {
        let long = self.since.is_some_and(|since| since.elapsed() >= LOOKING);
        if over || long || self.frames >= LOOKED_AT {
            identity.get_or_init(|| BY_CONTENT);
        }
    }

    /// All that waits, once it is decided.
    fn decided(&mut self, identity: &OnceLock<Identity>) -> Vec<Batch> {
        if identity.get().is_some() { std::mem::take(&mut self.batches) } else { Vec::new() }
    }
}

fn receive(
    opened: &mut Opened,
    tap: Tap,
    identity: &OnceLock<Identity>,
    over: &AtomicBool,
    batches: &SyncSender<Result<Batch, Error>>,
) {
    let Opened { receiver, clock } = opened;
    let mut expected = 0;
    while !over.load(Ordering::Relaxed) {
        clock.refresh();
        // Before the wait: what comes while it lasts is younger.
        let now = clock.now();
        // As many as the last time: what grows is copied.
        let (mut frames, mut error) = (Vec::with_capacity(expected), Nanos::ZERO);
        let received = receiver.next_batch(TURN, &mut |frame| {
            if let Some((at, by)) = clock.read(frame) {
                error = error.max(by);
                let keys = match identity.get() {
                    Some(identity) => [identity.key(frame.data); 2],
                    None => [Identity::Id.key(frame.data), BY_CONTENT.key(frame.data)],
                };
                frames.push((at, keys));
            }
        });
        expected = frames.len();
        let read_ns = match received {
            Ok(0) => now.map_or(0, |now| now.saturating_sub(HANDED_OVER_WITHIN.0)),
            Ok(_) => 0,
            Err(error) => {
                // The run may be over already.
                let _ = batches.send(Err(error));
                return;
            }
        };
        if batches.send(Ok(Batch { tap, frames, read_ns, error })).is_err() {
            return;
        }
    }
}
