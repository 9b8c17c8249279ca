//! What the programs at both ends of a connection do.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{End, Host, PathPlan};
use crate::draw::Draw;

/// A connection: when it begins, and what its programs do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Talk {
    /// When it begins, after the first one.
    pub after_us: u64,
    /// What client and server do.
    pub program: Program,
}

/// The scripts of both ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// One of [`Program::NAMES`], or what a test calls it.
    pub name: Cow<'static, str>,
    /// What client and server do, in this order. Afterwards each closes its direction and reads to
    /// the end.
    pub scripts: [Vec<Act>; 2],
}

/// One step of a script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Writes so many bytes, `piece` in each call, with a pause between two calls.
    Write {
        /// Bytes in all.
        bytes: u64,
        /// Bytes of one call.
        piece: u32,
        /// The pause between two calls.
        pause_us: u64,
    },
    /// Reads so many bytes, up to `piece` in each call, with a pause between two calls.
    Read {
        /// Bytes in all.
        bytes: u64,
        /// Bytes of one call, at most.
        piece: u32,
        /// The pause between two calls.
        pause_us: u64,
    },
    /// Does something else.
    Think {
        /// For so long.
        us: u64,
    },
    /// All of it so many times.
    Repeat {
        /// How often.
        times: u32,
        /// What.
        acts: Vec<Act>,
    },
    /// Closes its direction (`shutdown`), and goes on reading.
    Shutdown,
    /// Closes with a RST, whatever there still is.
    Reset,
}

/// Bytes of one call of a program that does not care.
const PIECE: u32 = 64 << 10;

/// As much as a call takes, without pauses.
const fn write(bytes: u64) -> Act {
    Act::Write { bytes, piece: PIECE, pause_us: 0 }
}

const fn read(bytes: u64) -> Act {
    Act::Read { bytes, piece: PIECE, pause_us: 0 }
}

impl Program {
    /// Every program that is drawn.
    pub const NAMES: [&str; 9] =
        ["bulk", "paced", "dialogue", "bursts", "slow_reader", "stop_and_go", "half_close", "reset", "late_reader"];

    /// One side writes as fast as it can, the other reads.
    pub fn bulk(sender: End, bytes: u64) -> Self {
        Self::one_way("bulk", sender, vec![write(bytes)], vec![])
    }

    /// What `sender` does and what the other end does; before a download the client asks for it.
    fn one_way(name: &'static str, sender: End, sends: Vec<Act>, receives: Vec<Act>) -> Self {
        let scripts = match sender {
            End::Client => [sends, receives],
            End::Server => {
                let ask = [vec![write(100)], receives].concat();
                [ask, [vec![read(100)], sends].concat()]
            }
        };
        Self { name: name.into(), scripts }
    }

    /// Questions and answers, each end thinking before it goes on.
    pub fn dialogue(times: u32, sizes: [u64; 2], think_us: [u64; 2], pieces: u64) -> Self {
        let in_pieces = |bytes: u64| Act::Write { bytes, piece: bytes.div_ceil(pieces) as u32, pause_us: 0 };
        let turn = |own: usize| match own {
            0 => vec![in_pieces(sizes[0]), read(sizes[1]), Act::Think { us: think_us[0] }],
            _ => vec![read(sizes[0]), Act::Think { us: think_us[1] }, in_pieces(sizes[1])],
        };
        let scripts = [0, 1].map(|own| vec![Act::Repeat { times, acts: turn(own) }]);
        Self { name: "dialogue".into(), scripts }
    }
}

/// What a transfer from `sender` can reach at best, bytes a second: the least of the path's rate,
/// the windows over the round trip, pacing, and what the losses leave (Mathis and others, "The
/// macroscopic behavior of the TCP congestion avoidance algorithm", 1997).
fn reachable(path: &PathPlan, hosts: &[Host; 2], sender: End) -> f64 {
    let way = &path.ways[sender as usize];
    let (own, peer) = (&hosts[sender as usize], &hosts[sender.other() as usize]);
    let rtt = (path.round_trip().0 as f64 / 1e9).max(2e-4);
    let over_rtt = |bytes: Option<u32>| bytes.map_or(f64::INFINITY, |b| f64::from(b) / 2.0 / rtt);
    let loss = way.loss.share();
    let lossy = if loss > 0.0 { 1.2 * f64::from(path.mtu) / (rtt * loss.sqrt()) } else { f64::INFINITY };
    [
        way.rate.map_or(1e8, |r| r.bits() as f64 / 8.0),
        over_rtt(peer.receive_buffer),
        over_rtt(peer.window_clamp),
        over_rtt(own.send_buffer),
        own.max_pacing.map_or(f64::INFINITY, f64::from),
        lossy,
    ]
    .into_iter()
    .fold(f64::INFINITY, f64::min)
    .max(1e4)
}

impl Talk {
    /// A program of which most data go from `sender`, with as many bytes as take a third of a
    /// second to some seconds.
    pub(super) fn draw(draw: &mut Draw, path: &PathPlan, hosts: &[Host; 2], sender: End) -> Self {
        let speed = reachable(path, hosts, sender);
        let rtt_us = path.round_trip().0 as f64 / 1e3;
        let seconds = draw.log(0.3, 6.0);
        let bytes = (speed * seconds).clamp(2e4, 8e6) as u64;
        let us = |seconds: f64| (seconds * 1e6) as u64;
        let kind = Program::NAMES[draw.weighted(&[0.3, 0.1, 0.16, 0.1, 0.1, 0.08, 0.05, 0.03, 0.08])];
        let program = match kind {
            "bulk" => {
                let piece = draw.log(1e3, 1e6) as u32;
                Program::one_way(kind, sender, vec![Act::Write { bytes, piece, pause_us: 0 }], vec![])
            }
            "paced" => {
                // From messages now and then to nearly all that the path takes.
                let pause = draw.log(1e-3, 0.2);
                let piece = (speed * pause * draw.log(0.01, 0.8)).clamp(50.0, 3e5);
                let count = (seconds / pause).clamp(3.0, 2_000.0);
                let bytes = (piece * count).min(8e6) as u64;
                let sends = Act::Write { bytes, piece: piece as u32, pause_us: us(pause) };
                Program::one_way(kind, sender, vec![sends], vec![])
            }
            "dialogue" => {
                let sizes = [draw.log(20.0, 2e4) as u64, draw.log(20.0, 2e5) as u64];
                let mut think = || if draw.chance(0.4) { draw.log(200.0, 4e5) } else { 0.0 };
                let think = [think() as u64, think() as u64];
                let moved = (sizes[0] + sizes[1]) as f64 / speed;
                let turn = moved + (rtt_us + (think[0] + think[1]) as f64) / 1e6;
                let times = (seconds / turn).clamp(2.0, 300.0) as u32;
                let pieces = if draw.chance(0.3) { draw.whole(2, 4) } else { 1 };
                Program::dialogue(times, sizes, think, pieces)
            }
            "bursts" => {
                let (count, share) = (draw.log(3.0, 30.0), draw.even(0.2, 0.9));
                let burst = (bytes as f64 / count).max(2_000.0) as u64;
                let pause = us(seconds / count * share);
                let acts = vec![write(burst), Act::Think { us: pause }];
                Program::one_way(kind, sender, vec![Act::Repeat { times: count as u32, acts }], vec![])
            }
            "slow_reader" => {
                let pause = draw.log(2e-3, 0.1);
                let piece = (speed * draw.log(0.05, 0.7) * pause).clamp(500.0, 1e6);
                let bytes = (piece * seconds / pause).min(bytes as f64).max(2e4) as u64;
                let reads = Act::Read { bytes, piece: piece as u32, pause_us: us(pause) };
                Program::one_way(kind, sender, vec![write(bytes)], vec![reads])
            }
            "stop_and_go" => {
                let parts = draw.whole(2, 5);
                let acts = (0..parts).flat_map(|_| {
                    let pause = draw.log(0.02, 1.0);
                    [write(bytes / parts), Act::Think { us: us(pause) }]
                });
                Program::one_way(kind, sender, acts.collect(), vec![])
            }
            "half_close" => {
                let question = draw.log(50.0, 5e4) as u64;
                let think = draw.log(1e3, 1e6) as u64;
                let scripts = [
                    vec![write(question), Act::Shutdown, read(bytes)],
                    vec![read(question), Act::Think { us: think }, write(bytes)],
                ];
                Program { name: kind.into(), scripts }
            }
            "reset" => {
                let part = (bytes as f64 * draw.even(0.2, 0.9)) as u64;
                let (own, peer) = (vec![write(bytes)], vec![read(part), Act::Reset]);
                Program::one_way(kind, sender, own, peer)
            }
            _ => {
                let wait = Act::Think { us: draw.log(5e4, 3e6) as u64 };
                Program::one_way(kind, sender, vec![write(bytes)], vec![wait])
            }
        };
        Self { after_us: 0, program }
    }
}
