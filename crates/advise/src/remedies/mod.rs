//! What can be changed: one remedy a file, and the list of all.

mod aqm;
mod bbr;
mod fq;
mod initial_window;
mod keep_open;
mod mtu_probing;
mod nodelay;
mod notsent_lowat;
mod one_write;
mod quick_ack;
mod receive_buffer;
mod reno;
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
    /// Makes the twin one with it.
    pub change: fn(&mut Twin, Way),
    /// How it is set for good.
    pub set: &'static [Line],
    /// How it is taken back.
    pub undo: &'static [Line],
    /// What it costs, and what could go wrong.
    pub costs: &'static str,
    /// Where it is specified.
    pub source: &'static str,
}

/// Every remedy.
pub const ALL: [&Remedy; 17] = [
    &nodelay::REMEDY,
    &quick_ack::REMEDY,
    &one_write::REMEDY,
    &window_scaling::REMEDY,
    &receive_buffer::REMEDY,
    &send_buffer::REMEDY,
    &initial_window::REMEDY,
    &slow_start_after_idle::REMEDY,
    &bbr::REMEDY,
    &reno::REMEDY,
    &sack::REMEDY,
    &timestamps::REMEDY,
    &mtu_probing::REMEDY,
    &fq::REMEDY,
    &notsent_lowat::REMEDY,
    &aqm::REMEDY,
    &keep_open::REMEDY,
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
