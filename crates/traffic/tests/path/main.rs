//! Workloads over a path whose delay and rate are known.

mod path;
mod responsiveness;
