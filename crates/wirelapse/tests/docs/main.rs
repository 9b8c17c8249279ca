//! What the documentation says, done.

mod commands;
mod done;
mod python;
mod shown;
