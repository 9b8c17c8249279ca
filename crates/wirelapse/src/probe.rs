//! `wirelapse probe`: its own packets, timed at every stage that the socket can give.

mod arguments;
mod figures;
mod json;
mod page;
mod running;

pub use arguments::Args;
pub use running::run;
