//! Figures of a trace, from its events.
//!
//! **Does:** adds events to a [`TraceSummary`]: the distribution of every leg of every kind of
//! record, the slowest records, and figures of each connection, and a [`Timeline`] of each kind:
//! how long records took over time. It is a [`record::Sink`]. Joins sends and receives to
//! [`Requests`]. Joins the requests of two hosts ([`hosts`]), and compares runs with one another
//! ([`between`]). Counts readings of a field ([`FieldHistogram`]). Gathers the connections of a
//! capture that findings cost most ([`Overview`]). Says whether an event is what somebody waits
//! for ([`Trigger`]).
//!
//! **Does not:** make system calls, read clocks, or decide how figures are shown: no words, colours
//! or widths.
//!
//! **Guarantees:** memory is bounded by [`Limits`] however many events come; every event is in the
//! totals, also where its connection has no separate figures; a leg without stamps and a leg in an
//! impossible order are counted, never guessed.

#![forbid(unsafe_code)]

mod attribution;
pub mod between;
mod connects;
mod curve;
mod fields;
mod figures;
mod flows;
mod groups;
pub mod hosts;
mod joining;
mod kind;
mod labels;
mod largest;
mod limits;
pub mod live;
mod longest;
mod machine;
mod names;
mod overview;
mod pacing;
mod packets;
mod profile;
mod proxied;
mod rate_by_window;
mod receives;
mod requests;
mod retransmitted;
mod sends;
mod shares;
mod slowest;
mod timed;
mod timeline;
mod trace;
mod transfers;
mod trigger;
mod window;

pub use attribution::Attribution;
pub use connects::{ConnectFigures, Service, SetUps};
pub use curve::cumulative;
pub use fields::{FieldGroups, FieldHistogram};
pub use figures::{Slow, TimedFigures};
pub use flows::{FlowFigures, FlowTable};
pub use groups::{Group, SeriesHistory, SortBy};
pub use joining::{CLIENT_PORTS, Requests};
pub use kind::{LEGS, TimedKind};
pub use labels::{LabelFigures, LabelTable, grouped};
pub use limits::Limits;
pub use longest::Longest;
pub use names::{LookedUp, NameFigures, ServerFigures};
pub use overview::{Hurt, Overview};
pub use pacing::{PacingFigures, RateSetBy};
pub use packets::{DatagramFigures, Drops, PacketFigures};
pub use profile::{Part, Profile};
pub use proxied::ProxiedFigures;
pub use receives::ReceiveFigures;
pub use record::{LegPlace, TimedLeg};
pub use requests::{BASES, RequestFigures, RoleFigures};
pub use sends::{LegFigures, SendFigures, WaitStats};
pub use shares::{Divided, divided};
pub use slowest::{SlowSend, Slowest};
pub use timed::Timed;
pub use timeline::{Heat, Interval, Timeline};
pub use trace::{ConnectionSummary, Others, STUCK, TraceSummary, is_stuck};
pub use transfers::{Transfer, Transfers};
pub use trigger::{Needs, NotATrigger, Trigger};
pub use window::SmallWindow;
