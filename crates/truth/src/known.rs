//! Verdicts that were wrong once, each as a small capture with its truth beside it.

use std::path::Path;

use record::conversation::Limit;
use serde::{Deserialize, Serialize};

use crate::account::Truth;
use crate::packet::{self, Packet};
use crate::run::Observation;
use crate::score::{CHANGED, Case, Judged, Outcome, analysed, judge};

/// What is known of a capture in the folder, beside which it lies as `NAME.pcap.zst`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Known {
    /// Whether the verdict is right today, and has to stay so.
    pub fixed: bool,
    /// The verdict as it was found, with the truth of its whole capture.
    pub case: Case,
    /// The client's port.
    pub port: u16,
    /// What limited the connection when, on the clock of the capture.
    pub truth: Truth,
    /// The true times of the packets where they are not those of the capture, in its order.
    pub times: Option<Vec<u64>>,
}

/// The capture that lies beside `file`, with the true times of its packets.
fn capture(file: &Path, times: Option<&Vec<u64>>) -> Vec<Packet> {
    let capture = file.with_extension("pcap.zst");
    let bytes = std::fs::read(&capture).unwrap_or_else(|e| panic!("{}: {e}", capture.display()));
    let mut packets = packet::read(&bytes);
    for (packet, at) in packets.iter_mut().zip(times.into_iter().flatten()) {
        packet.truly_at = *at;
    }
    packets
}

/// What the verdict on `packets` is worth by `truth`, of the connection with this port of the
/// client; and which limits were named and true.
fn outcome(packets: &[Packet], port: u16, truth: &Truth) -> Option<(Outcome, Limit, Limit)> {
    let span = packet::span(packets, port)?;
    let report = analysed(packets, port)?;
    Some((judge(&report, truth, span), report.limits.largest(), truth.budget(span.0, span.1).leading()[0]))
}

impl Known {
    /// Reads `NAME.json`.
    ///
    /// # Panics
    /// Where it is not what this crate wrote.
    pub fn read(file: &Path) -> Self {
        let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
    }

    /// What the verdict on the capture beside `file` is worth today.
    ///
    /// # Panics
    /// Where there is no such capture.
    pub fn judge(&self, file: &Path) -> Option<Outcome> {
        outcome(&capture(file, self.times.as_ref()), self.port, &self.truth).map(|o| o.0)
    }

    /// The verdict of today on the capture beside `file`, in the place of the one that was found.
    ///
    /// # Panics
    /// Where there is no such capture.
    pub fn again(self, file: &Path) -> Case {
        let packets = capture(file, self.times.as_ref());
        match analysed(&packets, self.port).zip(packet::span(&packets, self.port)) {
            Some((report, span)) => self.case.said_anew(&report, &self.truth, span),
            None => self.case,
        }
    }

    /// Writes it and its capture into `folder`.
    fn write(&self, packets: &[Packet], folder: &Path, name: &str) -> std::io::Result<()> {
        std::fs::write(folder.join(format!("{name}.json")), serde_json::to_string(self)?)?;
        std::fs::write(folder.join(format!("{name}.pcap.zst")), packet::write(packets))
    }

    /// A verdict that was found on `packets`, of which `truth` says more than they span.
    fn of(case: Case, port: u16, truth: &Truth, packets: &[Packet]) -> Self {
        let times = packets.iter().any(|p| p.at != p.truly_at);
        let times = times.then(|| packets.iter().map(|p| p.truly_at).collect());
        let (from, to) = packet::span(packets, port).unwrap_or_default();
        Self { fixed: false, case, port, truth: truth.part(from, to), times }
    }
}

impl Observation {
    /// Shrinks each wrong verdict of a place that was not kept yet to as few packets as are wrong
    /// in the same way, and writes it into `folder`. Gives the names.
    ///
    /// # Errors
    /// Those of the folder.
    pub fn keep_wrong(&self, folder: &Path, whole_only: bool) -> std::io::Result<Vec<String>> {
        let mut names = Vec::new();
        self.each_judged(if whole_only { 0 } else { CHANGED }, |Judged { name, port, truth, case, packets }| {
            if case.outcome == Outcome::Wrong {
                let packets = shrunk(packets, port, truth);
                Known::of(case, port, truth, &packets).write(&packets, folder, &name)?;
                names.push(name);
            }
            Ok(())
        })
        .map(|()| names)
    }

    /// Writes every capture that is judged into `folder` as it is, so that another version of the
    /// rules can be judged by the same packets.
    ///
    /// # Errors
    /// Those of the folder.
    pub fn record(&self, folder: &Path) -> std::io::Result<()> {
        self.each_judged(CHANGED, |Judged { name, port, truth, case, packets }| {
            Known::of(case, port, truth, &packets).write(&packets, folder, &name)
        })
    }
}

/// A look at the kernel every few milliseconds says little of a capture that is shorter, ns.
const SHORTEST: u64 = 100_000_000;

/// Cuts packets from both ends for as long as the same is said of the same: halves at first, then
/// less.
fn shrunk(mut packets: Vec<Packet>, port: u16, truth: &Truth) -> Vec<Packet> {
    let found = outcome(&packets, port, truth);
    let is_wrong = |some: &[Packet]| {
        let long = packet::span(some, port).is_some_and(|(from, to)| to >= from + SHORTEST);
        long && outcome(some, port, truth) == found
    };
    let mut part = packets.len() / 2;
    while part > 0 {
        if is_wrong(&packets[..packets.len() - part]) {
            packets.truncate(packets.len() - part);
        } else if is_wrong(&packets[part..]) {
            packets.drain(..part);
        } else {
            part /= 2;
            continue;
        }
        part = part.min(packets.len() / 2);
    }
    packets
}
