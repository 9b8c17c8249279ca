//! What to measure, and for how long.

use std::time::Duration;

use capture::Technique;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;

/// What to measure, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The techniques.
    pub techniques: Vec<Technique>,
    /// Frame sizes, bytes on the wire with frame check sequence.
    pub frame_sizes: Vec<u16>,
    /// The kinds of interface that the copies arrive on.
    pub interfaces: Vec<Interface>,
    /// Link speeds, bits a second: frames are sent as densely as such a link carries them.
    pub line_rates: Vec<u64>,
    /// How often every combination is measured.
    pub repetitions: u32,
    /// How long frames are sent in a trial.
    pub trial: Duration,
    /// Trials of the search for one technique's highest lossless rate.
    pub search: u32,
    /// Time series, and frames of each.
    pub series: (u32, u64),
    /// Frames of the experiment with a step, and frames a second.
    pub step: (u64, f64),
    /// Where the random draws begin.
    pub seed: u64,
    /// Whether it is the short form.
    pub quick: bool,
}

/// A kind of interface that frames are received on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// One end of a pair of virtual Ethernet devices: XDP programs run in its driver.
    Veth,
    /// A macvlan device on top of such an end, as containers have: XDP programs run in the network
    /// stack (generic mode).
    Macvlan,
}

impl Interface {
    /// Its name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Veth => "veth",
            Self::Macvlan => "macvlan",
        }
    }
}

/// What a frame takes on the wire beside its bytes: preamble, start of frame and gap (IEEE 802.3).
const BETWEEN_FRAMES: u64 = 20;

/// Levels of technique, frame size, rate, CPU and interface, from 0, in the order of the plan's
/// lists.
pub type Levels = [usize; 5];

/// CPU levels: idle, stressed.
pub const CPU: [&str; 2] = ["idle", "stressed"];

/// What opening, waiting and matching of a trial take, by experience.
const OVERHEAD: Duration = Duration::from_millis(350);

/// What is varied, in one trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub technique: Technique,
    /// Bytes on the wire, frame check sequence included.
    pub frame_size: u16,
    /// Frames a second; `None` for as many as can be.
    pub per_second: Option<f64>,
    pub stressed: bool,
    pub interface: Interface,
}

impl Plan {
    /// The whole study; the quick form has fewer levels, repetitions and frames.
    pub fn whole(quick: bool, seed: u64) -> Self {
        let techniques = Technique::ALL.to_vec();
        if quick {
            return Self {
                techniques,
                frame_sizes: vec![64, 1518],
                interfaces: vec![Interface::Veth],
                line_rates: vec![100_000_000, 1_000_000_000],
                repetitions: 3,
                trial: Duration::from_millis(100),
                search: 5,
                series: (5, 30_000),
                step: (75_000, 20_000.0),
                seed,
                quick,
            };
        }
        Self {
            techniques,
            frame_sizes: vec![64, 256, 1518],
            interfaces: vec![Interface::Veth, Interface::Macvlan],
            line_rates: vec![100_000_000, 1_000_000_000, 10_000_000_000],
            repetitions: 5,
            trial: Duration::from_millis(300),
            search: 8,
            series: (5, 1_000_000),
            step: (750_000, 20_000.0),
            seed,
            quick,
        }
    }

    /// How long it takes, about.
    pub fn forecast(&self) -> Duration {
        let trials = self.combinations() as u32 * self.repetitions;
        let search = self.techniques.len() as u32 * (self.search + 1);
        let series = Duration::from_secs_f64(f64::from(self.series.0) * self.series.1 as f64 / 150_000.0);
        let step = Duration::from_secs_f64(self.step.0 as f64 / self.step.1);
        (self.trial + OVERHEAD) * (trials + search) + series + step
    }

    /// Trials of a block.
    pub fn combinations(&self) -> usize {
        self.techniques.len() * self.frame_sizes.len() * self.line_rates.len() * CPU.len() * self.interfaces.len()
    }

    /// The combinations of a block, in its random order: levels of technique, frame size, rate, CPU
    /// and interface.
    pub fn block(&self, block: u32) -> Vec<Levels> {
        let mut all = Vec::with_capacity(self.combinations());
        for technique in 0..self.techniques.len() {
            for size in 0..self.frame_sizes.len() {
                for rate in 0..self.line_rates.len() {
                    for cpu in 0..CPU.len() {
                        all.extend((0..self.interfaces.len()).map(|interface| [technique, size, rate, cpu, interface]));
                    }
                }
            }
        }
        all.shuffle(&mut Pcg64Mcg::seed_from_u64(self.seed.wrapping_mul(0x9e37_79b9).wrapping_add(block.into())));
        all
    }

    pub(super) fn setting(&self, [technique, size, rate, cpu, interface]: Levels) -> Setting {
        let frame_size = self.frame_sizes[size];
        Setting {
            technique: self.techniques[technique],
            frame_size,
            per_second: Some(frames_a_second(self.line_rates[rate], frame_size)),
            stressed: cpu == 1,
            interface: self.interfaces[interface],
        }
    }
}

/// The most frames of a size that a link of this speed carries in a second.
pub fn frames_a_second(bits_a_second: u64, frame_size: u16) -> f64 {
    bits_a_second as f64 / ((u64::from(frame_size) + BETWEEN_FRAMES) * 8) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_rates_are_those_of_ethernet() {
        assert_eq!(frames_a_second(10_000_000_000, 64).round(), 14_880_952.0);
        assert_eq!(frames_a_second(1_000_000_000, 1518).round(), 81_274.0);
    }

    #[test]
    fn every_block_has_every_combination_in_its_own_order() {
        let plan = Plan::whole(false, 1);
        let (one, other) = (plan.block(0), plan.block(1));
        assert_ne!(one, other);
        assert_eq!(one, plan.block(0));
        let sorted = |mut block: Vec<Levels>| {
            block.sort_unstable();
            block.dedup();
            block
        };
        assert_eq!(sorted(one).len(), 7 * 3 * 3 * 2 * 2);
        assert_eq!(sorted(other).len(), plan.combinations());
    }

    #[test]
    fn the_quick_form_takes_about_two_minutes_and_the_full_one_under_twenty_five() {
        assert!(Plan::whole(true, 1).forecast() < Duration::from_secs(150));
        assert!(Plan::whole(false, 1).forecast() < Duration::from_secs(25 * 60));
    }
}
