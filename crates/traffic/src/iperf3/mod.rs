//! The iperf3 protocol, both roles, for TCP and UDP.
//!
//! One control connection carries a cookie, then states of one byte each way, then JSON texts with
//! a length in front; each flow is a separate connection that opens with the same cookie. UDP flows
//! open with a datagram each way.
//!
//! ```text
//! client                                   server
//!   cookie ------------------------------>
//!          <------------------------------ PARAM_EXCHANGE
//!   parameters (JSON) ------------------->
//!          <------------------------------ CREATE_STREAMS
//!   a connection with the cookie, each -->
//!          <------------------------------ TEST_START, TEST_RUNNING
//!   ======================= data =======================
//!   TEST_END ---------------------------->
//!          <------------------------------ EXCHANGE_RESULTS
//!   results (JSON) ---------------------->
//!          <------------------------------ results (JSON), DISPLAY_RESULTS
//!   IPERF_DONE -------------------------->
//! ```
//!
//! Our client adds one key, `wirelapse`, to its parameters; a stock server ignores it, ours answers
//! it.

mod login;
mod messages;

pub use login::{Login, Padding, SKEW, Users};
pub use messages::{FlowResult, Parameters, Results, ServerSide, State, WirelapseAnswer, WirelapseRequest, flow_id};
pub use messages::{UDP_HELLO, UDP_HELLO_LEGACY, UDP_WELCOME, UDP_WELCOME_LEGACY, UdpHeader};

/// Largest parameters text that is read, in bytes. iperf3 itself allows 8 KiB.
pub const PARAMETERS_LIMIT: usize = 16 << 10;
/// Largest results text that a server reads, in bytes.
pub const RESULTS_LIMIT: usize = 256 << 10;
/// Largest results text that a client reads, in bytes: ours sends its series along.
pub const ANSWER_LIMIT: usize = 64 << 20;
