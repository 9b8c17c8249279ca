//! Scenarios drawn from seeds, the true account of what limited each connection, and the score of
//! `analyze` and `trace` beside it.
//!
//! **Does:** draws a path, hosts and programs from a seed ([`Plan::draw`]); runs them in a lab with
//! a capture at both ends ([`Plan::run`]); says what limited each connection at each moment from
//! the kernel's and the path's own figures ([`Truth`]); changes captures as filters and taps do
//! ([`Transform`]), and judges what `diagnose` says of each ([`Observation::cases`]); runs a plan
//! again with the remedy that a finding names, and compares what it promised ([`worth()`]); runs a
//! tracer beside a plan and judges what `trace` says of each connection ([`traced`]).
//!
//! **Does not:** ship. It is for tests alone, and no rule of `diagnose` decides what is true.
//!
//! **Guarantees:** a seed gives the same plan and the same transforms again. The shares of a truth
//! add up to the time that they are asked for. What the machine was too busy to see is not judged.

mod account;
mod capacity;
mod draw;
mod each;
pub mod known;
mod packet;
mod plan;
mod run;
mod sample;
mod score;
pub mod traced;
mod transform;
mod worth;

pub use account::{Cause, Moment, Truth};
pub use each::each;
pub use plan::{Act, End, Host, PathPlan, Plan, Program, Step, Talk};
pub use run::Observation;
pub use score::{Case, Count, Outcome, Place, cause_name, mistakes, tables};
pub use transform::Transform;
pub use worth::{Kept, Remedy, Worth, worth};
