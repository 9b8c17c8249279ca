//! Commands on files: what they read, what they write, and what they make of their options.

mod agreement;
mod analyze;
mod analyze_input;
mod delay;
mod pages_seen;
mod quantities;
mod top;
