//! The words of Wirelapse as types: clocks, timestamps, stages, legs, sends, connections, and what
//! was lost.
//!
//! **Does:** defines the values that every other crate passes on, their arithmetic, and the rules
//! that keep a figure honest (no subtraction across clocks, no negative duration, losses as
//! counters that add up).
//!
//! **Does not:** make a system call, read a clock, or allocate on behalf of a hot path. Times and
//! bytes come from the caller.
//!
//! **Guarantees:** nothing here panics on any input; an impossible order of stages is a value
//! ([`Disorder`]), never a wrapped number.

#![forbid(unsafe_code)]

mod conclusion;
pub mod congestion;
mod connect;
mod connection;
pub mod conversation;
mod copy;
mod datagram;
pub mod dns;
mod event;
mod exchange;
mod field;
mod figures;
pub mod fleet;
pub mod histogram;
mod http;
pub mod json;
mod kinds;
mod leg;
mod lost;
pub mod network;
mod owner;
mod packet;
mod prefix;
mod provenance;
mod question;
pub mod quic;
mod receive;
pub mod remedy;
mod request;
mod sampling;
pub mod script;
mod send;
mod sequence;
pub mod service_map;
mod sink;
pub mod socket;
mod stage;
mod steering;
pub mod table;
pub mod tls;
mod trace_context;
pub mod transaction;
pub mod trial;
pub mod udp;
mod utc;
mod wait;

pub use clock::{Clock, Conversion, Disorder, Instant, Monotonic, Nanos, Phc, Realtime, Source, Tai, Timestamp};
pub use conclusion::Conclusion;
pub use connect::{Connect, ConnectStamps, EndedBy, Ending, FastOpen, Outcome};
pub use connection::{ClosedConnection, Connection, ConnectionId, ConnectionTotals, Judged, Opening};
pub use copy::{
    Again, CarriedSend, CopyDropped, CopyFragment, CopyIcmp, CopyInterface, CopyPlace, CopyReceiver, CopyStages,
    KnownBy, PacketCopy, SocketState,
};
pub use datagram::{Datagram, DatagramLeg, DatagramStamps};
pub use event::Event;
pub use exchange::Exchange;
pub use field::{Field, FieldFigures, Moment, Reading, ReadingsBy, Scale, Unit};
pub use figures::{Figure, Figures};
pub use http::{Head, Http, Label, Method, Protocol, Says};
pub use leg::{LegName, LegPlace, TimedLeg};
pub use lost::{Loss, Lost};
pub use owner::{Comm, Owner};
pub use packet::{Direction, DropReason, Dropped, Packet, PacketLeg, TcpFlags};
pub use prefix::IpPrefix;
pub use provenance::{ClockReading, Fired, Observing, Provenance, Receiving, SamplingAsked, SamplingMethod};
pub use question::Question;
pub use receive::{Arrival, Receive, ReceiveLeg, ReceiveStage};
pub use request::{Basis, Component, Components, Join, Message, Moments, Peer, Request, Role, Upstream};
pub use sampling::{Coverage, Ratio, Sampling};
pub use send::{Congestion, Send, SenderState, Stamps, Unacknowledged};
pub use sequence::{SeqNumber, StreamOffset};
pub use sink::{End, Sink, SinkError};
pub use stage::{Leg, Stage};
pub use steering::{harmless_json, has_steering, steers};
pub use trace_context::{SpanId, TraceContext, TraceId};
pub use utc::Utc;
pub use wait::{WaitReason, Waits};
