//! The path of a scenario.

use clock::Nanos;
use lab::{
    BitRate, CodelSettings, Config, Depth, Direction, Discipline, ETHERNET_OVERHEAD, FqCodelSettings, JitterShape,
    Loss, PieSettings, Reorder,
};
use serde::{Deserialize, Serialize};

use super::End;
use crate::draw::Draw;

/// Both ways of the path, and what becomes of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathPlan {
    /// Client to server, and back.
    pub ways: [Direction; 2],
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// What changes while it runs, in the order of time.
    pub steps: Vec<Step>,
}

/// From some moment on the path is another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// When, after the first connection begins.
    pub after_us: u64,
    /// Client to server, and back.
    pub ways: [Direction; 2],
}

impl PathPlan {
    /// A path on which most data go from `sender`: what is drawn of the bottleneck is on their way.
    pub(super) fn draw(draw: &mut Draw, sender: End) -> Self {
        let mtu = [1_500, 1_280, 9_000][draw.weighted(&[0.9, 0.06, 0.04])];
        let delay = Nanos((draw.log(0.05, 300.0) / 2.0 * 1e6) as u64);
        let rate = draw.chance(0.75).then(|| draw.log(0.2e6, 2e9));
        let mut there = Direction { delay, ..Direction::default() };
        if let Some(rate) = rate {
            shape(draw, &mut there, rate, mtu);
        }
        there.loss = match draw.weighted(&[0.65, 0.2, 0.15]) {
            0 => Loss::None,
            1 => Loss::Independent(draw.log(3e-4, 0.05)),
            _ => Loss::bursts(draw.log(1e-3, 0.04), draw.log(1.5, 20.0)).unwrap_or_default(),
        };
        if draw.chance(0.15) {
            there.jitter = Nanos((delay.0 as f64 * draw.log(0.01, 0.3)) as u64);
            there.jitter_shape = JitterShape::Uniform;
            there.jitter_memory = draw.even(0.0, 0.99);
        }
        if draw.chance(0.08) {
            let by = Nanos((draw.log(0.1, 20.0) * 1e6) as u64);
            there.reorder = Some(Reorder { share: draw.log(1e-3, 0.03), by });
        }
        if draw.chance(0.05) {
            there.duplicate = draw.log(1e-3, 0.05);
        }
        let mut back = Direction { delay: there.delay, ..Direction::default() };
        // The way of the ACKs: as fast, slower by far, or not the limit of anything.
        if let Some(rate) = rate {
            match draw.weighted(&[0.5, 0.3, 0.2]) {
                0 => shape(draw, &mut back, rate, mtu),
                1 => {
                    let slower = (rate / draw.log(2.0, 300.0)).max(64e3);
                    shape(draw, &mut back, slower, mtu);
                }
                _ => {}
            }
        }
        if draw.chance(0.1) {
            back.loss = Loss::Independent(draw.log(1e-3, 0.1));
        }
        let ordered = |there: Direction, back: Direction| match sender {
            End::Client => [there, back],
            End::Server => [back, there],
        };
        let mut steps = Vec::new();
        if draw.chance(0.08) {
            let after = draw.log(2e5, 3e6) as u64;
            let mut changed = there.clone();
            match changed.rate {
                Some(rate) if draw.chance(0.6) => {
                    let rate = (rate.bits() as f64 * draw.log(0.15, 4.0)).clamp(1e5, 2e9);
                    changed.rate = BitRate::new(rate as u64);
                }
                _ => changed.delay = Nanos((changed.delay.0 as f64 * draw.log(1.2, 4.0)) as u64),
            }
            steps.push(Step { after_us: after, ways: ordered(changed, back.clone()) });
        } else if draw.chance(0.06) {
            let (after, lasts) = (draw.log(1e5, 3e6) as u64, draw.log(1e5, 1.5e6) as u64);
            let dead = Direction { loss: Loss::Independent(1.0), ..there.clone() };
            let ways = ordered(there.clone(), back.clone());
            steps.push(Step { after_us: after, ways: ordered(dead, back.clone()) });
            steps.push(Step { after_us: after + lasts, ways });
        }
        Self { ways: ordered(there, back), mtu, steps }
    }

    /// As a lab takes it.
    pub fn config(&self, seed: u64) -> Config {
        let [a_to_b, b_to_a] = self.ways.clone();
        Config { mtu: self.mtu, seed, ..Config { a_to_b, b_to_a, ..Config::default() } }
    }

    /// The round trip without a queue.
    pub fn round_trip(&self) -> Nanos {
        self.ways[0].delay + self.ways[1].delay
    }

    /// The longest that it is at any time.
    pub(crate) fn longest_round_trip(&self) -> Nanos {
        let steps = self.steps.iter().map(|step| step.ways[0].delay + step.ways[1].delay);
        steps.fold(self.round_trip(), Nanos::max)
    }

    /// The least delay that a way has at any time.
    pub fn least_delay(&self, from: End) -> Nanos {
        let steps = self.steps.iter().map(|s| s.ways[from as usize].delay);
        steps.fold(self.ways[from as usize].delay, Nanos::min)
    }
}

/// A rate, with a queue that holds at least two full segments.
fn shape(draw: &mut Draw, way: &mut Direction, rate: f64, mtu: u32) {
    way.rate = BitRate::new(rate as u64);
    let least = f64::from(2 * (mtu + ETHERNET_OVERHEAD));
    // A program here lasts for some seconds: more than one in a queue would be all of it.
    let depth = (rate / 8.0 * draw.log(1e-3, 1.0)).max(least);
    way.queue = Some(Depth::Bytes(depth as u64));
    let codel = CodelSettings { ecn: draw.chance(0.3), ..CodelSettings::DEFAULT };
    way.qdisc = match draw.weighted(&[0.7, 0.1, 0.1, 0.1]) {
        0 => Discipline::Fifo,
        1 => Discipline::Codel(codel),
        2 => Discipline::FqCodel(FqCodelSettings { codel, ..FqCodelSettings::DEFAULT }),
        _ => Discipline::Pie(PieSettings::DEFAULT),
    };
    if way.qdisc == Discipline::Fifo && draw.chance(0.08) {
        way.ecn = Some(Depth::Bytes((depth * draw.even(0.1, 0.7)).max(least) as u64));
    }
}
