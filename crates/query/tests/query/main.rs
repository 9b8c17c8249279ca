//! Queries over made-up fleets: of the program, and beside other programs on the same files.

#[cfg(feature = "cluster")]
mod cluster;
#[path = "../fleet/mod.rs"]
mod fleet;
mod others;
mod program;
mod prompt;
mod query;
mod s3;
