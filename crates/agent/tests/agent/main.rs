//! The agent against what goes wrong around it, and what is shipped with it against the programs
//! that read it.

mod cluster;
mod faults;
mod kubectl;
#[path = "../made_up/mod.rs"]
mod made_up;
#[path = "../made_up/moto.rs"]
mod moto;
mod packaging;
mod prometheus;
mod rules;
