//! Queries on a cluster: a scheduler and executors, which are this same binary, with Ballista
//! inside.
//!
//! The plan is made here, parts and all, and submitted as a **physical** plan. A logical plan would
//! be planned again by the scheduler, which does not know these tables.
//!
//! There is no authentication: docs/query.md says how to fence a cluster.

mod bound;
mod job;
mod scratch;
mod serve;
mod stages;

use std::sync::Arc;
use std::time::Duration;

use ballista_core::extension::{EndpointOverrideFn, SessionConfigExt as _};
use datafusion::prelude::SessionConfig;

use crate::Error;

pub use job::Job;
pub use serve::{Executor, Scheduler, executor, scheduler};

/// Bytes of one message: a plan names every part.
const MESSAGE: usize = 256 << 20;

/// How long an executor may be silent to another one that fetches its share, and a scheduler to one
/// that works for it.
const SILENT: Duration = Duration::from_secs(30);

/// How executors are reached that hold a share of a result: one that is stopped, or whose machine
/// is, still takes connections and does not close them, so that it is asked whether it is there. It
/// is lost where it says nothing for `silent`.
fn reached(silent: Duration) -> EndpointOverrideFn {
    Arc::new(move |endpoint| {
        Ok(endpoint
            .connect_timeout(silent)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(silent / 2)
            .keep_alive_timeout(silent / 2)
            .keep_alive_while_idle(true))
    })
}

/// Whether a query failed because an executor went away: it can start again on the others.
pub fn is_lost(failed: &Error) -> bool {
    std::iter::successors(Some(failed as &dyn std::error::Error), |&error| error.source())
        .any(|error| matches!(error.downcast_ref(), Some(Error::ExecutorLost(_))))
}

/// What a plan must keep to so that it can be divided into stages.
pub fn config() -> SessionConfig {
    SessionConfig::new_with_ballista()
        .with_ballista_override_create_grpc_client_endpoint(reached(SILENT))
        // A filter that one stage learns while it runs does not reach another.
        .set_bool("datafusion.optimizer.enable_dynamic_filter_pushdown", false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_executor_is_known_wherever_it_stands_in_an_error() {
        let lost = || Error::ExecutorLost("10.0.0.2:50051".into());
        assert!(is_lost(&lost()));
        assert!(is_lost(&Error::Engine(lost().within().context("while rows were fetched"))));
        assert!(!is_lost(&Error::Cluster("10.0.0.2:50051".into())));
    }
}
