//! From the conditions of a slow connection to the setting that speeds it up, tried in a lab twin.
//!
//! **Does:** builds a [`Twin`] of a connection from its [`diagnose::conditions`]: a path of the
//! same delay, rate, queue and loss, hosts with the same options and buffers, and two programs that
//! write the same bytes after the same questions and pauses. Runs it as it was seen and says how
//! well it agrees with the original ([`Fit`]); where it does, tries every remedy ([`remedies`])
//! that has a reason to be tried, in randomised blocks, and ranks them by what they were worth.
//!
//! **Does not:** change the machine that it runs on: every setting is one of the twin's hosts. Nor
//! advise with a twin that is unlike the original.
//!
//! **Guarantees:** the same seed gives the same order of trials and the same losses. Every trial
//! ends within a bound, and nothing of a twin outlives its process.

mod advice;
mod candidates;
mod combination;
mod error;
mod fit;
pub mod kept;
pub mod remedies;
mod theory;
mod trial;
mod trials;
mod twin;
mod watch;

pub use advice::{Advice, After, Applied, Left, Outcome, Refused, Together, WORTHWHILE, Written};
pub use candidates::{Candidate, NotTried, candidates, lost, worth_trying};
pub use combination::{Combination, combine};
pub use error::Error;
pub use fit::{Fit, Fitted, MOST_AGAIN, MOST_APART, MOST_POINTS, fit};
pub use record::remedy::Effect;
pub use trial::{Trial, run};
pub use trials::{Compared, Done, Goal, Limits, Progress, Tried, Worth, compare};
pub use twin::{End, Twin};
pub use watch::{BROKEN, Look, Watch};
