//! The delay of a device, from frames that a tap before it and a tap behind it have seen.

mod clocks;
mod cuts;
mod drift;
mod figures;
pub mod files;
mod identity;
pub mod in_kernel;
mod join;
pub mod live;
mod matching;
pub mod records;
mod series;
pub mod survey;

pub use clocks::Clocks;
pub use drift::Drift;
pub use figures::{Bin, Figures, Offset, QUANTILES, Recording};
pub use identity::{Identity, Key};
pub use join::PATIENCE;
pub use matching::{Account, Match, Matcher, Tap};
pub use series::{Change, Stretch};

#[cfg(test)]
mod samples {
    use crate::generate::{Mark, Shape, Template};

    /// A generated frame with this id.
    pub(super) fn generated(id: u64) -> Vec<u8> {
        let template = Template::new(&Shape {
            bytes: 60,
            hardware: [[0; 6]; 2],
            vlan: None,
            source: "10.0.0.1:1".parse().unwrap(),
            destination: "10.0.0.2:2".parse().unwrap(),
            flows: 1,
        })
        .unwrap();
        let mut frame = template.bytes().to_vec();
        template.write(&mut frame, Mark { id, sent_ns: 0 });
        frame
    }
}
