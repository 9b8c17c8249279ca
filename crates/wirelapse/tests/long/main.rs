//! A long time in a short one. Each counts what the kernel holds, so nothing else runs beside it.

mod agent_day;
#[path = "../scene/mod.rs"]
mod scene;
mod soak;
