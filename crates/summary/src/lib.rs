//! Figures of a trace, from its events.
//!
//! **Does:** adds events to a [`TraceSummary`]: the distribution of every leg of every kind of record, the slowest records, and figures
//! of each connection; and to a [`Timeline`]: how long records took over time.
//!
//! **Does not:** make system calls, read clocks, or decide how figures are shown: no words, colours or widths.
//!
//! **Guarantees:** memory is bounded by [`Limits`] however many events come; every event is in the totals, also where its connection has
//! no separate figures; a leg without stamps and a leg in an impossible order are counted, never guessed.

mod attribution;
mod figures;
mod flows;
mod kind;
mod longest;
mod machine;
mod packets;
mod receives;
mod requests;
mod sends;
mod slowest;
mod timed;
mod timeline;
mod trace;

pub use attribution::Attribution;
pub use figures::{Slow, TimedFigures};
pub use flows::{FlowFigures, FlowTable};
pub use kind::{LEGS, LegPlace, TimedKind, TimedLeg};
pub use longest::Longest;
pub use packets::{DatagramFigures, Drops, PacketFigures};
pub use receives::ReceiveFigures;
pub use requests::{BASES, RequestFigures, RoleFigures};
pub use sends::{LegFigures, SendFigures, WaitStats};
pub use slowest::{SlowSend, Slowest};
pub use timed::Timed;
pub use timeline::{Interval, Timeline};
pub use trace::{ConnectionSummary, Limits, Others, TraceSummary};
