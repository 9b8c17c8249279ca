//! Frames of several lengths in turn.

use super::template::{Shape, ShapeError, Template};

/// The most frames after which lengths come again in the same order.
pub const LONGEST_TURN: u32 = 1_000;

/// Internet mix, lengths from the Ethernet header on without the frame check sequence, and how many
/// of twelve frames have each: IP packets of 40, 576 and 1,500 bytes (RFC 6985, section 3 has the
/// form in which others are given).
pub const IMIX: [(u16, u32); 3] = [(60, 7), (590, 4), (1_514, 1)];

/// Lengths in turn, each as often as its weight says and spread as evenly as that goes, so that no
/// length comes in bursts.
pub fn in_turn(weighted: &[(u16, u32)]) -> Vec<u16> {
    let whole: i64 = weighted.iter().map(|(_, weight)| i64::from(*weight)).sum();
    let mut owed: Vec<i64> = vec![0; weighted.len()];
    let next = |_| {
        owed.iter_mut().zip(weighted).for_each(|(owed, (_, weight))| *owed += i64::from(*weight));
        // The one that is most behind; the first of several.
        let at = (0..owed.len()).max_by_key(|at| (owed[*at], std::cmp::Reverse(*at)))?;
        owed[at] -= whole;
        Some(weighted[at].0)
    };
    (0..whole).filter_map(next).collect()
}

/// What the frames of a run are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Templates {
    each: Vec<Template>,
    /// Which of them a frame is, by its id.
    turn: Vec<usize>,
}

impl Templates {
    /// Of frames like `shape`, with the lengths of `turn` one after the other; with its own where
    /// there are none.
    pub fn new(shape: &Shape, turn: &[u16]) -> Result<Self, ShapeError> {
        let mut lengths = if turn.is_empty() { vec![shape.bytes] } else { turn.to_vec() };
        lengths.sort_unstable();
        lengths.dedup();
        let each = lengths.iter().map(|&bytes| Template::new(&Shape { bytes, ..shape.clone() }));
        let each = each.collect::<Result<Vec<_>, _>>()?;
        let place = |bytes: &u16| lengths.binary_search(bytes).unwrap_or(0);
        let turn = if turn.is_empty() { vec![0] } else { turn.iter().map(place).collect() };
        Ok(Self { each, turn })
    }

    /// The only one; `None` where there are several.
    pub fn only(&self) -> Option<&Template> {
        if let [one] = &self.each[..] { Some(one) } else { None }
    }

    /// That of the frame with this id.
    pub fn of(&self, id: u64) -> &Template {
        &self.each[self.turn[(id % self.turn.len() as u64) as usize]]
    }

    /// Bytes of the longest frame.
    pub fn longest(&self) -> usize {
        self.each.iter().map(|template| template.bytes().len()).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_come_as_often_as_they_weigh_and_not_in_bursts() {
        let turn = in_turn(&IMIX);
        let count = |bytes| turn.iter().filter(|length| **length == bytes).count();
        assert_eq!((turn.len(), count(60), count(590), count(1_514)), (12, 7, 4, 1));
        assert!(turn.windows(3).all(|three| three != [60; 3]), "{turn:?}");
        assert_eq!(in_turn(&[(100, 1), (200, 1)]), [100, 200]);
        assert_eq!(in_turn(&[(100, 3)]), [100; 3]);
    }

    #[test]
    fn a_frame_has_the_length_of_its_turn() {
        let shape = Shape {
            bytes: 60,
            hardware: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
            vlan: None,
            source: "10.77.0.1:9000".parse().unwrap(),
            destination: "10.77.0.2:9".parse().unwrap(),
            flows: 1,
        };
        let several = Templates::new(&shape, &[100, 60, 100]).unwrap();
        assert_eq!([0, 1, 2, 3].map(|id| several.of(id).bytes().len()), [100, 60, 100, 100]);
        assert_eq!((several.only(), several.longest()), (None, 100));
        let one = Templates::new(&shape, &[]).unwrap();
        assert_eq!((one.only().map(|t| t.bytes().len()), one.of(7).bytes().len()), (Some(60), 60));
        assert!(Templates::new(&shape, &[100, 9_001]).is_err());
    }
}
