//! What the documentation says, done.

mod commands;
mod done;
mod packages;
mod programs;
mod python;
mod setup;
mod shown;
