//! What a trace tells of real sends on the running kernel, checked against what the sending program
//! knows itself.

mod backends;
mod calls;
mod connects;
mod counters;
mod counting;
mod cut_short;
mod datagrams;
mod delayed;
mod equations;
mod exchange;
mod faults;
mod found;
mod histograms;
mod lives;
mod packets;
mod receives;
mod servers;
mod stamps;
mod targets;
mod totals;
mod traffic;
mod unacknowledged;
mod waiting;
