//! A recorded link: the moments at which it could carry a packet, as mahimahi writes them.
//!
//! One line is a millisecond, from the start, at which 1,504 bytes may leave (an IP packet of 1,500
//! and the four of mahimahi's TUN device): several packets, one, or a part of one. What is not used
//! is gone. After the last line the recording begins anew, the last line being its length.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::ethernet::{BitRate, ETHERNET_OVERHEAD};

/// Bytes that one line lets through.
pub const OPPORTUNITY: u32 = 1_504;
/// What mahimahi charges beside the IP packet.
const TUN_HEADER: u32 = 4;
/// The most lines that are taken: 10 minutes of 1.2 Gbit/s.
const MOST_LINES: usize = 60_000_000 / 8;

/// What is said of a recording: the rest is in its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// The file's name.
    pub file: String,
    /// Its lines.
    pub lines: u64,
    /// How long it lasts before it begins anew.
    #[serde(rename = "period_ns")]
    pub period: clock::Nanos,
    /// What it carries on average, bits a second, its packets of 1,500 bytes with what Ethernet
    /// adds.
    pub mean_rate: BitRate,
}

/// A recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// What is said of it.
    pub about: Recorded,
    milliseconds: Vec<u32>,
}

impl Recording {
    /// Reads the text of a file called `file`.
    ///
    /// # Errors
    /// [`Error::File`] with the line that is wrong.
    pub fn read(file: &str, text: &str) -> Result<Self, Error> {
        let wrong = |line: usize, problem: String| Error::File { file: file.into(), line: line + 1, problem };
        let mut milliseconds: Vec<u32> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let at = line.parse::<u32>().map_err(|_| {
                wrong(
                    number,
                    format!("{line:?} is no whole number of milliseconds, which each line of a recorded link is"),
                )
            })?;
            if milliseconds.last().is_some_and(|last| *last > at) {
                return Err(wrong(number, format!("{at} ms comes after a later moment: the lines go forward in time")));
            }
            if milliseconds.len() == MOST_LINES {
                return Err(wrong(number, format!("there are more than {MOST_LINES} lines")));
            }
            milliseconds.push(at);
        }
        let last = milliseconds.last().copied().unwrap_or(0);
        if last == 0 {
            let problem =
                if milliseconds.is_empty() { "there is no line" } else { "the last line is 0 ms: it takes no time" };
            return Err(wrong(text.lines().count().max(1) - 1, problem.into()));
        }
        let lines = milliseconds.len() as u64;
        let bits = lines * u64::from(1_500 + ETHERNET_OVERHEAD) * 8 * 1_000 / u64::from(last);
        let about = Recorded {
            file: file.into(),
            lines,
            period: clock::Nanos(u64::from(last) * 1_000_000),
            mean_rate: BitRate::new(bits).unwrap_or(BitRate::mbit(1)),
        };
        Ok(Self { about, milliseconds })
    }

    fn at(&self, opportunity: u64) -> u64 {
        let (round, index) = (opportunity / self.about.lines, (opportunity % self.about.lines) as usize);
        round * self.about.period.0 + u64::from(self.milliseconds[index]) * 1_000_000
    }

    /// The first opportunity later than `at`, ns from the start.
    fn after(&self, at: u64) -> u64 {
        let (round, within) = (at / self.about.period.0, at % self.about.period.0);
        let index = self.milliseconds.partition_point(|ms| u64::from(*ms) * 1_000_000 <= within);
        // The end of one round is the beginning of the next: an opportunity at 0 ms has its moment
        // there.
        round * self.about.lines + index as u64
    }
}

/// A recording as it is played.
#[derive(Clone, Debug)]
pub(crate) struct Player {
    recording: std::sync::Arc<Recording>,
    start: u64,
    next: u64,
    left: u32,
    /// Bytes of the packet under way that have not left yet.
    unsent: u32,
}

impl Player {
    pub(crate) fn new(recording: std::sync::Arc<Recording>, start: u64) -> Self {
        Self { recording, start, next: 0, left: 0, unsent: 0 }
    }

    /// When the next opportunity is.
    pub(crate) fn next(&self) -> u64 {
        self.start.saturating_add(self.recording.at(self.next))
    }

    /// Whether a packet is under way.
    pub(crate) fn busy(&self) -> bool {
        self.unsent > 0
    }

    /// Takes the next opportunity.
    pub(crate) fn take(&mut self) {
        self.next += 1;
        self.left = OPPORTUNITY;
    }

    /// Lets all opportunities up to `until` go by unused.
    pub(crate) fn waste(&mut self, until: u64) {
        if self.next() <= until {
            self.next = self.next.max(self.recording.after(until.saturating_sub(self.start)));
        }
        self.left = 0;
    }

    /// Whether the opportunity has room left.
    pub(crate) fn has_room(&self) -> bool {
        self.left > 0
    }

    /// Begins a segment of so many bytes on the wire.
    pub(crate) fn begin(&mut self, on_wire: u32) {
        self.unsent = on_wire.saturating_sub(ETHERNET_OVERHEAD).max(1) + TUN_HEADER;
    }

    /// Sends as much of it as there is room for; whether it is sent whole.
    pub(crate) fn send(&mut self) -> bool {
        let now = self.unsent.min(self.left);
        self.unsent -= now;
        self.left -= now;
        self.unsent == 0
    }
}
