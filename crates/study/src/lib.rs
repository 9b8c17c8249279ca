//! Planned experiments: change one thing, hold the rest, repeat in random order, and say what the
//! change is worth.
//!
//! **Does:** reads a plan ([`plan_file`]) or takes a built-in one ([`builtin`]), runs its trials in
//! randomised blocks, each in its own lab or between this host and a server on another
//! ([`Ground`]), checks from the packets that every setting took and from the path that it kept its
//! promise, keeps each trial as it comes ([`ledger`]), predicts from first principles
//! ([`predict`]), and concludes with intervals.
//!
//! **Does not:** touch the machine it runs on, unless it is given [`ThisHost`]: settings are those
//! of the lab's hosts. Nor print, or decide the format.
//!
//! **Guarantees:** the same seed gives the same order of trials and the same analysis. A trial with
//! a setting that did not take effect, or a path that missed what was asked for, counts nowhere and
//! is reported. Killed in any way, nothing of a study stays but its finished trials, with which it
//! can be resumed; a real host's sysctls are put back by a process that outlives it.

mod account;
pub mod analysis;
pub mod between;
mod brought;
pub mod builtin;
mod chart;
mod conclusion;
mod counters;
pub mod drawn;
mod engine;
mod error;
mod evidence;
mod fit;
#[cfg(any(test, fuzzing))]
pub mod fuzzed;
mod ground;
pub mod ledger;
mod measure;
mod misses;
mod named;
mod not_predicted;
mod outcome;
pub mod overhead;
mod plan;
pub mod plan_file;
pub mod plan_text;
pub mod predict;
mod processors;
mod proof;
pub mod reception;
pub mod response;
mod sentence;
mod setting;
mod tables;
mod this_host;
mod trial;

pub use account::of_plan;
pub use conclusion::{Compared, Conclusion, prediction};
pub use engine::{Ended, Limits, Progress, Study, is_narrow, run};
pub use error::Error;
pub use evidence::{Evidence, Found, SynOptions};
pub use ground::{Ground, Peer};
pub use named::{Known, Setting, Sysctl};
pub use outcome::{Check, Ping, Point, Trial};
pub use plan::{Factor, Place, Plan};
pub use sentence::Sentence;
pub use setting::{Setup, Workload};
pub use this_host::ThisHost;
