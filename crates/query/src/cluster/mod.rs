//! Queries on a cluster: a scheduler and executors, which are this same binary, with Ballista inside.
//!
//! The plan is made here, parts and all, and submitted as a **physical** plan. A logical plan would be planned again by the scheduler,
//! which does not know these tables.
//!
//! There is no authentication: docs/query.md says how to fence a cluster.

mod bound;
mod job;
mod serve;
mod stages;

use ballista_core::extension::SessionConfigExt as _;
use datafusion::prelude::SessionConfig;

use crate::Error;

pub use job::Job;
pub use serve::{Executor, Scheduler, executor, scheduler};

/// Bytes of one message: a plan names every part.
const MESSAGE: usize = 256 << 20;

/// What is said where an executor is lost with something that it had worked out.
const LOST: &str = "went away with its share";

/// Whether a query failed because an executor went away: it can begin anew on the others.
pub fn is_lost(failed: &Error) -> bool {
    match failed {
        Error::Cluster(why) => why.contains(LOST),
        Error::Engine(error) => error.to_string().contains(LOST),
        _ => false,
    }
}

/// What a plan must keep to so that it can be divided into stages.
pub fn config() -> SessionConfig {
    SessionConfig::new_with_ballista()
        // A filter that one stage learns while it runs does not reach another.
        .set_bool("datafusion.optimizer.enable_dynamic_filter_pushdown", false)
}
