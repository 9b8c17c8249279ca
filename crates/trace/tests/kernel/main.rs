//! What a trace tells of real sends on the running kernel, checked against what the sending program knows itself.

mod backends;
mod counting;
mod datagrams;
mod exchange;
mod faults;
mod packets;
mod receives;
mod stamps;
mod targets;
mod traffic;
mod waiting;
