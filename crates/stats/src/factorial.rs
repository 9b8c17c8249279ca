//! Main effects and two-way interactions of a factorial plan that was run in blocks.
//!
//! Every effect is a contrast within a block, so what differs between blocks drops out, and the
//! blocks' contrasts are the sample from which its interval is made.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bootstrap::Estimate;
use crate::judgement::Judgement;
use crate::mean;

/// One run of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Which block it was run in.
    pub block: u32,
    /// The level of each factor, counted from 0.
    pub levels: Vec<usize>,
    /// What was measured.
    pub value: f64,
    /// How far the value can be off to either side in every block alike, because it is counted in
    /// whole units.
    pub unit: f64,
    /// By how much it can be too small in every block alike, beside the values of other
    /// combinations.
    pub late: f64,
}

/// A contrast with its interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The factor and its level, compared with level 0; two of them are an interaction: by how much
    /// the first one's effect changes with the second.
    pub of: Vec<(usize, usize)>,
    /// In the unit of the values, judged together with all other effects of the plan.
    pub size: Estimate,
    /// The p that belongs to that interval.
    pub p: f64,
    /// How far the size can be off in every block alike, by what its values are no finer than. The
    /// interval reaches this much further.
    #[serde(default)]
    pub resolution: f64,
}

/// The effects of a plan, and what they rest on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effects {
    /// Main effects first, then interactions.
    pub effects: Vec<Effect>,
    /// Blocks in which every combination was measured.
    pub blocks: usize,
    /// Blocks excluded because some combination is missing.
    pub incomplete_blocks: usize,
}

/// Effects of factors with so many `levels` each, judged together; `sequential` where the number of
/// blocks was decided by what was seen in them. A combination measured twice in a block counts with
/// its last value.
pub fn effects(levels: &[usize], cells: &[Cell], sequential: bool) -> Effects {
    let combinations: usize = levels.iter().product();
    let mut blocks: BTreeMap<u32, BTreeMap<&[usize], &Cell>> = BTreeMap::new();
    for cell in cells.iter().filter(|c| c.value.is_finite() && c.levels.len() == levels.len()) {
        blocks.entry(cell.block).or_default().insert(&cell.levels, cell);
    }
    let all = blocks.len();
    blocks.retain(|_, cells| cells.len() == combinations);
    let mut wanted: Vec<Vec<(usize, usize)>> = Vec::new();
    for (factor, &count) in levels.iter().enumerate() {
        wanted.extend((1..count).map(|level| vec![(factor, level)]));
    }
    for first in 0..levels.len() {
        for second in first + 1..levels.len() {
            for i in 1..levels[first] {
                wanted.extend((1..levels[second]).map(|j| vec![(first, i), (second, j)]));
            }
        }
    }
    let judgement = Judgement { comparisons: wanted.len(), sequential };
    let judged = |of: Vec<(usize, usize)>| {
        let contrasts: Vec<f64> = blocks.values().map(|cells| contrast(cells, &of, |c, sign| sign * c.value)).collect();
        let off = |cells| contrast(cells, &of, |c, _| c.unit) + contrast(cells, &of, |c, sign| sign * c.late).abs();
        let resolution = mean(&blocks.values().map(off).collect::<Vec<f64>>())?;
        let (size, p) = judgement.no_finer_than(resolution, &contrasts)?;
        Some(Effect { of, size, p, resolution })
    };
    let found = wanted.into_iter().filter_map(judged).collect();
    Effects { effects: found, incomplete_blocks: all - blocks.len(), blocks: blocks.len() }
}

/// Mean over all other factors of the difference (of differences) between the levels named and
/// level 0: each cell gives `share`, by its sign in that difference.
fn contrast(cells: &BTreeMap<&[usize], &Cell>, of: &[(usize, usize)], share: impl Fn(&Cell, f64) -> f64) -> f64 {
    let (mut sum, mut corners) = (0.0, 0u32);
    for (levels, cell) in cells {
        let mut sign = 1.0;
        let mut at_top = true;
        let taken = of.iter().all(|&(factor, level)| match levels[factor] {
            l if l == level => true,
            0 => {
                sign = -sign;
                at_top = false;
                true
            }
            _ => false,
        });
        if taken {
            sum += share(cell, sign);
            corners += u32::from(at_top);
        }
    }
    sum / f64::from(corners.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_put_in_are_found() {
        let mut cells = Vec::new();
        for block in 0..10 {
            for a in 0..2usize {
                for b in 0..3usize {
                    let wobble = f64::from((block * 7 + a as u32 * 3 + b as u32 * 5) % 4) / 100.0;
                    let value = f64::from(block)
                        + 4.0 * a as f64
                        + 2.0 * f64::from(u8::from(b == 2))
                        + 1.5 * f64::from(u8::from(a == 1 && b == 2))
                        + wobble;
                    cells.push(Cell { block, levels: vec![a, b], value, ..Cell::default() });
                }
            }
        }
        cells.push(Cell { block: 99, levels: vec![0, 0], value: 1e9, ..Cell::default() });
        let e = effects(&[2, 3], &cells, false);
        assert_eq!((e.blocks, e.incomplete_blocks, e.effects.len()), (10, 1, 5));
        let size = |of: &[(usize, usize)]| e.effects.iter().find(|e| e.of == of).unwrap();
        // The interaction is in one of three levels of b, and in one of two of a.
        assert!((size(&[(0, 1)]).size.value - 4.5).abs() < 0.03, "{e:?}");
        assert!((size(&[(1, 2)]).size.value - 2.75).abs() < 0.03);
        assert!((size(&[(0, 1), (1, 2)]).size.value - 1.5).abs() < 0.05);
        assert!(size(&[(1, 1)]).size.value.abs() < 0.03);
        assert!(size(&[(0, 1)]).p < 0.05);
    }

    #[test]
    fn effects_are_no_finer_than_their_values() {
        // Two levels differ by 0.1 in every block alike, and each value may be off by 0.06.
        let of = |unit: f64, late: f64| {
            let cell = |block: u32, level: usize| Cell {
                block,
                levels: vec![level],
                value: f64::from(block) + 0.1 * level as f64,
                unit,
                late: late * level as f64,
            };
            let cells: Vec<Cell> = (0..8).flat_map(|b| [cell(b, 0), cell(b, 1)]).collect();
            effects(&[2], &cells, false).effects[0].clone()
        };
        assert!(!of(0.0, 0.0).size.covers(0.0));
        let coarse = of(0.06, 0.0);
        assert!(coarse.size.covers(0.0) && coarse.p > 0.9 && (coarse.resolution - 0.12).abs() < 1e-12, "{coarse:?}");
        // One level begins later than the other.
        let late = of(0.0, 0.2);
        assert!(late.size.covers(0.0) && (late.resolution - 0.2).abs() < 1e-12, "{late:?}");
    }
}
