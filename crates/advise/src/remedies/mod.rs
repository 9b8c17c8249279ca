//! What can be changed: one remedy a file, and the list of all.

mod aqm;
mod autocorking;
mod backlog;
mod bbr;
mod ecn;
mod fast_open;
mod fq;
mod initial_receive_window;
mod initial_window;
mod keep_alive;
mod keep_open;
mod limit_output;
mod mss_clamping;
mod mtu_probing;
mod nodelay;
mod notsent_lowat;
mod offloads;
mod one_write;
mod queue_length;
mod quick_ack;
mod rack;
mod receive_buffer;
mod reno;
mod reordering;
mod sack;
mod send_buffer;
mod slow_start_after_idle;
mod timestamps;
mod window_scaling;

use diagnose::conditions::Conditions;
use record::conversation::{FindingKind, Limit, Side, Way};

use crate::twin::Twin;

/// Where it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// On the host that sends the data.
    Sender,
    /// On the host that receives them.
    Receiver,
    /// In the program that sends the data.
    Program,
    /// By whoever runs the bottleneck.
    Path,
}

impl At {
    /// Whose side that is, of data that go that way; `None` for the path's.
    pub const fn side(self, way: Way) -> Option<Side> {
        match self {
            Self::Sender | Self::Program => Some(way.sender()),
            Self::Receiver => Some(way.receiver()),
            Self::Path => None,
        }
    }
}

/// Where a setting is written, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// A file, a language, a program.
    pub place: &'static str,
    /// What is written there.
    pub text: &'static str,
}

const fn line(place: &'static str, text: &'static str) -> Line {
    Line { place, text }
}

/// How it is tried.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// Makes the twin one with it, for data that go that way.
    InTwin(fn(&mut Twin, Way)),
    /// A twin cannot show what it does: why.
    Untried(&'static str),
}

/// A remedy.
#[derive(Clone, Copy, Debug)]
pub struct Remedy {
    /// What it is called.
    pub name: &'static str,
    /// What it does, in a few words.
    pub what: &'static str,
    /// Where it is set.
    pub at: At,
    /// The findings that make it worth trying.
    pub findings: &'static [FindingKind],
    /// The limits that do, from a twentieth of the time on.
    pub limits: &'static [Limit],
    /// Whether it can be tried with data that go that way, and why not.
    pub possible: fn(&Conditions, Way) -> Result<(), &'static str>,
    /// How it is tried.
    pub change: Change,
    /// The sysctls of its host that set it for connections to come: name and value. None where it
    /// is set elsewhere.
    pub sysctls: &'static [(&'static str, &'static str)],
    /// How it is set for good.
    pub set: &'static [Line],
    /// How it is taken back.
    pub undo: &'static [Line],
    /// What it costs, and what could go wrong.
    pub costs: &'static str,
    /// Where it is specified.
    pub source: &'static str,
}

impl Remedy {
    /// Makes the twin one with it, where a twin can show it.
    pub fn apply(&self, twin: &mut Twin, way: Way) {
        if let Change::InTwin(change) = self.change {
            change(twin, way);
        }
    }

    /// Why a twin cannot show it.
    pub const fn untried(&self) -> Option<&'static str> {
        match self.change {
            Change::InTwin(_) => None,
            Change::Untried(why) => Some(why),
        }
    }
}

/// Every remedy.
pub const ALL: [&Remedy; 29] = [
    &nodelay::REMEDY,
    &quick_ack::REMEDY,
    &one_write::REMEDY,
    &window_scaling::REMEDY,
    &receive_buffer::REMEDY,
    &send_buffer::REMEDY,
    &initial_window::REMEDY,
    &initial_receive_window::REMEDY,
    &slow_start_after_idle::REMEDY,
    &bbr::REMEDY,
    &reno::REMEDY,
    &sack::REMEDY,
    &timestamps::REMEDY,
    &rack::REMEDY,
    &reordering::REMEDY,
    &mtu_probing::REMEDY,
    &mss_clamping::REMEDY,
    &fq::REMEDY,
    &limit_output::REMEDY,
    &notsent_lowat::REMEDY,
    &aqm::REMEDY,
    &queue_length::REMEDY,
    &keep_open::REMEDY,
    &fast_open::REMEDY,
    &ecn::REMEDY,
    &autocorking::REMEDY,
    &offloads::REMEDY,
    &backlog::REMEDY,
    &keep_alive::REMEDY,
];

/// Always possible.
fn always(_: &Conditions, _: Way) -> Result<(), &'static str> {
    Ok(())
}

/// Sets a sysctl of a host of the twin.
fn sysctl(end: &mut crate::End, name: &str, value: &str) {
    end.sysctls.insert(name.into(), value.into());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_remedy_says_how_to_set_it_and_how_to_take_it_back() {
        let names: BTreeSet<&str> = ALL.iter().map(|r| r.name).collect();
        assert_eq!(names.len(), ALL.len());
        for remedy in ALL {
            assert!(!remedy.set.is_empty() && !remedy.undo.is_empty(), "{}", remedy.name);
            assert!(!remedy.findings.is_empty() || !remedy.limits.is_empty(), "{}", remedy.name);
            assert!(!remedy.costs.is_empty() && !remedy.source.is_empty(), "{}", remedy.name);
        }
    }
}
