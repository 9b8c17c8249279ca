//! `wirelapse probe`: its own packets, timed at every stage that the socket can give.

mod arguments;
mod json;
mod request;
mod running;

pub use arguments::Args;
pub use running::run;
