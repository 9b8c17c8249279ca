//! What a lab is asked to be.

use std::sync::Arc;

use clock::Nanos;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::direction::{Direction, value};
use crate::recorded::Recording;
use crate::schedule::Schedule;

/// A lab: what each direction of its path is like, and how it is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// From host `a` to host `b`.
    pub a_to_b: Direction,
    /// From host `b` to host `a`.
    pub b_to_a: Direction,
    /// Largest IP packet, bytes: 1,280 (what IPv6 needs) to 65,521.
    pub mtu: u32,
    /// Where the random draws begin: the same seed and the same frames in the same order meet the
    /// same fates.
    pub seed: u64,
    /// Who makes the path.
    pub backend: Choice,
    /// What becomes of the path while it runs.
    #[serde(skip)]
    pub schedule: Schedule,
    /// Recorded links in place of a rate, from `a` to `b` and back.
    #[serde(skip)]
    pub recorded: [Option<Arc<Recording>>; 2],
    /// Whether hosts reach the outside: TCP and DNS, past the path.
    #[serde(default)]
    pub uplink: bool,
}

/// Who makes the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// tbf alone where that is all it takes and the rate is high; else built-in wherever there is
    /// TUN/TAP, else netem.
    #[default]
    Auto,
    /// In user space, between two TAP devices.
    BuiltIn,
    /// The kernel's netem and tbf qdiscs on a veth pair.
    Netem,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            a_to_b: Direction::default(),
            b_to_a: Direction::default(),
            mtu: 1_500,
            seed: 1,
            backend: Choice::Auto,
            schedule: Schedule::default(),
            recorded: [None, None],
            uplink: false,
        }
    }
}

impl Config {
    /// A path that is the same both ways.
    pub fn symmetric(direction: Direction) -> Self {
        Self { a_to_b: direction.clone(), b_to_a: direction, ..Self::default() }
    }

    /// A path with only `delay` in each direction.
    pub fn with_delay(delay: Nanos) -> Self {
        Self::symmetric(Direction { delay, ..Direction::default() })
    }

    /// Whether there can be such a path.
    ///
    /// # Errors
    /// [`Error::Value`] names the first value that cannot be.
    pub fn check(&self) -> Result<(), Error> {
        if !(1_280..=65_521).contains(&self.mtu) {
            let problem = "must be 1280 (what IPv6 needs) to 65521 (what a TAP device carries)";
            return Err(value("mtu", self.mtu, problem));
        }
        self.a_to_b.check(self.mtu)?;
        self.b_to_a.check(self.mtu)
    }
}
