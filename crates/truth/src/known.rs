//! Verdicts that were wrong once, each as a small capture with its truth beside it.

use std::path::Path;

use record::conversation::Limit;
use serde::{Deserialize, Serialize};

use crate::account::Truth;
use crate::packet::{self, Packet};
use crate::run::Observation;
use crate::score::{Case, Outcome, Place, analysed, judge};

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

/// What the verdict on `packets` is worth by `truth`, of the connection with this port of the
/// client; and which limits were named and true.
fn outcome(packets: &[Packet], port: u16, truth: &Truth) -> Option<(Outcome, Limit, Limit)> {
    let times = || packets.iter().map(|p| p.truly_at);
    let span = (times().min()?, times().max()?);
    let report = analysed(packets, port)?;
    Some((judge(&report, truth, span), report.limits.largest(), truth.budget(span.0, span.1).largest()))
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
        let capture = file.with_extension("pcap.zst");
        let bytes = std::fs::read(&capture).unwrap_or_else(|e| panic!("{}: {e}", capture.display()));
        let mut packets = packet::read(&bytes);
        for (packet, at) in packets.iter_mut().zip(self.times.iter().flatten()) {
            packet.truly_at = *at;
        }
        outcome(&packets, self.port, &self.truth).map(|o| o.0)
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
        if self.spoiled.is_some() {
            return Ok(names);
        }
        for (talk, truths) in self.truths().iter().enumerate() {
            for place in Place::ALL {
                let truth = &truths[self.beside(talk, place) as usize];
                for number in 0..if whole_only { 1 } else { 3 } {
                    let Some((case, packets)) = self.case(talk, place, number, truth) else { continue };
                    if case.outcome != Outcome::Wrong {
                        continue;
                    }
                    let port = self.talks[talk].client.port();
                    let packets = shrunk(packets, port, truth);
                    let name = format!("{}-{talk}-{place:?}-{number}", self.plan.seed).to_lowercase();
                    let times = packets.iter().any(|p| p.at != p.truly_at);
                    let times = times.then(|| packets.iter().map(|p| p.truly_at).collect());
                    let span = || packets.iter().map(|p| p.truly_at);
                    let (from, to) = (span().min().unwrap_or(0), span().max().unwrap_or(0));
                    let known = Known { fixed: false, case, port, truth: truth.part(from, to), times };
                    std::fs::write(folder.join(format!("{name}.json")), serde_json::to_string(&known)?)?;
                    std::fs::write(folder.join(format!("{name}.pcap.zst")), packet::write(&packets))?;
                    names.push(name);
                }
            }
        }
        Ok(names)
    }
}

/// A look at the kernel every few milliseconds says little of a capture that is shorter, ns.
const SHORTEST: u64 = 100_000_000;

/// Cuts packets from both ends for as long as the same is said of the same: halves at first, then
/// less.
fn shrunk(mut packets: Vec<Packet>, port: u16, truth: &Truth) -> Vec<Packet> {
    let found = outcome(&packets, port, truth);
    let is_wrong = |some: &[Packet]| {
        let long = some.last().zip(some.first()).is_some_and(|(l, f)| l.truly_at >= f.truly_at + SHORTEST);
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
