//! Ways to receive and stamp packets: how many frames each can take, and how far its timestamps can
//! be trusted.
//!
//! Repeats the parameter study of Grigorjew et al., "Understanding the Performance of Different
//! Packet Reception and Timestamping Methods in Linux": technique, frame size, rate and CPU load,
//! in randomised blocks, on a testbed of veth pairs where a tap before and a tap behind a plain
//! wire give a copy of every frame. Beside it: the highest lossless rate of each technique, the
//! delay over time, and a step in the delay of a lab's path. [`two_machines`] has a script for the
//! same between two machines with NICs.

mod beside;
pub mod kept;
mod outcome;
mod plan;
mod run;
mod testbed;
mod trial;
pub mod two_machines;

pub use beside::{Beside, Figure, compare, figure};
pub use outcome::{Lossless, Measured, Missing, Outcome, Response, Series, StepTrial, Trial};
pub use plan::{CPU, Interface, Levels, Plan, frames_a_second};
pub use run::{Progress, run};
