//! The path in simulated time, without a network.

mod disciplines;
mod frame;
mod line;
