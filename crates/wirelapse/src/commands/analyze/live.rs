//! Capturing on an interface, by the technique that is best there.

use std::path::Path;
use std::time::{Duration, Instant};

use ::capture::{Error, Options};
use diagnose::Follower;
use wire::{Frame, LinkType, Packet, Payload, Reassembly};

use super::Reading;
use crate::interrupt::Interrupt;

/// Headers with all their options, tunnels included, fit in this, or those of UDP with the question
/// of a DNS message; other payload is not read.
const SNAP_LENGTH: u32 = 256;
/// The longest wait for a packet: how late an end by time or a signal can be.
const TURN: Duration = Duration::from_millis(100);
/// How long the kernel may keep a packet back before it hands it over with others.
const HELD_BACK: Duration = Duration::from_millis(30);
/// How long reading what is in memory may take at the end.
const REST: Duration = Duration::from_secs(2);

/// Packets of a capture that go to the follower as they come.
struct Taken<'a> {
    reading: Reading,
    reassembly: Reassembly,
    payload: Payload,
    link_type: LinkType,
    follower: &'a mut Follower,
}

impl Taken<'_> {
    fn take(&mut self, received: &::capture::Frame<'_>) {
        self.reading.packets += 1;
        // Software timestamps are asked for; a packet without one came before the kernel had begun
        // to stamp.
        let at = received.software.map_or_else(timestamping::now, |stamp| stamp.at);
        let bytes = received.bytes();
        let mut frame = Frame::new(self.reading.packets, at, self.link_type, &bytes);
        frame.original_length = received.wire_length();
        match wire::dissect_keeping(&frame, &mut self.reassembly, &mut self.payload) {
            Ok(packet) => {
                if !matches!(packet, Packet::Tcp(_)) {
                    self.reading.not_tcp(None);
                }
                self.follower.take_packet(&packet);
            }
            Err(why) => self.reading.not_tcp(Some(why)),
        }
        self.follower.dns.reaches(at.as_nanos());
        if self.payload.is_of(self.reading.packets) {
            self.follower.take_payload(&mut self.payload);
        }
    }
}

/// Captures until Ctrl-C, until `limit` is over, or until the interface goes. Once the interface is
/// open, this process keeps no right but to write these files. Gives with what was read why the
/// capture ended early, if it did.
pub fn capture<'a>(
    interface: &str,
    limit: Option<Duration>,
    follower: &mut Follower,
    files: impl IntoIterator<Item = &'a Path>,
) -> anyhow::Result<(Reading, Option<Error>)> {
    let options = Options { snap_length: SNAP_LENGTH, batch: 256, ..Options::of(interface) };
    let mut receiver = ::capture::open(::capture::best(interface)?, &options)?;
    let interrupt = Interrupt::listen()?;
    rights::keep_for_capture(false, files)?;
    let started = Instant::now();
    let link_type = receiver.about().link_type;
    let mut taken = Taken {
        reading: Reading::live(interface),
        reassembly: Reassembly::new(),
        payload: Payload::default(),
        link_type,
        follower,
    };
    let mut gone = None;
    while gone.is_none() && !interrupt.came() && limit.is_none_or(|l| started.elapsed() < l) {
        let wait = limit.map_or(TURN, |l| l.saturating_sub(started.elapsed()).min(TURN));
        match receiver.next_batch(wait, &mut |frame| taken.take(frame)) {
            Ok(_) => {}
            Err(error @ Error::InterfaceGone(_)) => gone = Some(error),
            Err(error) => return Err(error.into()),
        }
    }
    // What came before the end and is still in memory belongs to it; what comes meanwhile does not.
    let end = timestamping::now();
    let counts = receiver.counts();
    let (until, mut is_later) = (Instant::now() + REST, false);
    while gone.is_none() && !is_later && Instant::now() < until {
        let batch = receiver.next_batch(HELD_BACK, &mut |frame| {
            is_later |= frame.software.is_some_and(|stamp| stamp.at > end);
            if !is_later {
                taken.take(frame);
            }
        });
        if !matches!(batch, Ok(1..)) {
            break;
        }
    }
    let given_up = taken.reassembly.take_unfinished();
    let unfinished = given_up.into_iter().chain(taken.reassembly.under_way());
    unfinished.for_each(|of| taken.follower.network.unfinished(of));
    let mut reading = taken.reading;
    reading.dropped(counts.dropped + counts.dropped_by_interface);
    if let Some(gone) = &gone {
        reading.ended_early(&gone.to_string());
    }
    Ok((reading, gone))
}
