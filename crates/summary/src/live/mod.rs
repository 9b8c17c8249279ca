//! Rows of what goes on at this moment: the sends of the tracer's series, the sockets that are
//! alive, and the requests on them, put together by what a person asks for.

mod filter;
mod heat;
mod names;
mod order;
mod requests;
mod rows;
mod sockets;
mod subject;
mod trouble;

pub use filter::{Field, Filter, FilterError};
pub use heat::{Heat, STRETCH, STRETCHES, Strip};
pub use names::{NameSource, Names, PeerName, Placement};
pub use order::Order;
pub use requests::{RequestGroup, RequestHistory, SlowRequest};
pub use rows::{Now, View, rows};
pub use sockets::{Live, SocketHistory};
pub use subject::Subject;
pub use trouble::Trouble;
