//! Planned experiments: change one thing, hold the rest, repeat in random order, and say what the change is worth.
//!
//! **Does:** reads a plan ([`plan_file`]) or takes a built-in one ([`builtin`]), runs its trials in randomised blocks, each
//! in a lab of its own, checks from the packets that every setting took and from the path that it kept its promise,
//! keeps each trial as it comes ([`ledger`]), predicts from first principles ([`predict`]), and concludes with intervals.
//!
//! **Does not:** touch the machine it runs on: settings are those of the lab's hosts. Nor print, or decide the format.
//!
//! **Guarantees:** the same seed gives the same order of trials and the same analysis. A trial whose setting did not take,
//! or whose path broke its promise, counts nowhere and is told. Killed in any way, nothing of a study stays but its
//! finished trials, with which it can be resumed.

pub mod analysis;
pub mod builtin;
mod conclusion;
mod engine;
mod error;
pub mod ledger;
mod offload;
pub mod overhead;
mod plan;
pub mod plan_file;
pub mod plan_text;
pub mod predict;
mod setting;
mod tables;
mod trial;
mod watch;

pub use conclusion::{Compared, Conclusion, Table, of_plan};
pub use engine::{Ended, Limits, Progress, Study, run};
pub use error::Error;
pub use plan::{Factor, Place, Plan};
pub use setting::{NAMES, Setup, Workload};
pub use trial::{Point, RESPONSES, Trial};
pub use watch::{Evidence, Found, SynOptions};
