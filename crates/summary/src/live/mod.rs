//! Rows of what goes on at this moment: the sends of the tracer's series, the sockets that are
//! alive, and the requests on them, put together by what a person asks for.

mod filter;
mod requests;
mod rows;
mod sockets;
mod trouble;

pub use filter::{Field, Filter, FilterError};
pub use requests::{RequestGroup, RequestHistory};
pub use rows::{Names, rows};
pub use sockets::{Live, SocketHistory};
pub use trouble::Trouble;
