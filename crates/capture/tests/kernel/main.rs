//! Receivers and senders on a veth pair in a network namespace.

mod faults;
mod generate;
mod techniques;
mod wire_pair;
