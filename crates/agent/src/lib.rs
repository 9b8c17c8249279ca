//! The agent: figures of all sends, always, for the systems that an operator has.
//!
//! **Does:** takes what a tracer's histograms say ([`Agent::observe`]), keeps it as series with
//! names that people know ([`accounts`], [`naming`]), answers scrapes ([`endpoint`]), pushes to a
//! collector ([`push`]), and writes runs to a directory or an S3-compatible store ([`keeping`],
//! [`upload`]). Beside it a flight recorder writes what led to something rare ([`recorder`]).
//!
//! **Does not:** trace, or give up privileges: the caller does, between [`Agent::open`] and
//! [`Agent::start`].
//!
//! **Guarantees:** memory, connections, retries and disk are bounded whatever peers, scrapers,
//! collectors and stores do; what the bounds cost is counted.

#![forbid(unsafe_code)]

pub mod accounts;
mod asking;
pub mod cluster;
pub mod config;
mod counts;
pub mod endpoint;
mod error;
pub mod failure;
pub mod keeping;
pub mod naming;
mod now;
mod places;
mod presence;
pub mod push;
pub mod recorder;
mod tls;
pub mod upload;
mod usage;
mod work;

pub use counts::{Counts, Outcome, To};
pub use error::Error;
pub use metrics::Rule;
pub use now::Now;
pub use work::{Agent, Observed};
