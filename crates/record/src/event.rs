//! What a tracer reports, one event after the other, and the one list of the kinds of record that a
//! trace keeps.

use std::borrow::Borrow as _;

use crate::{
    Connect, Connection, ConnectionId, ConnectionTotals, CopyDropped, Datagram, Exchange, Head, Packet, PacketCopy,
    Question, Receive, Request, Send,
};

/// Hands the list of the kinds of record that a trace keeps to the macro that is named in brackets,
/// after `[…]` with whatever else is passed on. [`Event`], the tables of a run, lines of JSON and
/// everything else that treats all kinds alike follow from this list.
///
/// ```ignore
/// TABLE: VARIANT(WHAT THE EVENT HOLDS) of RECORD, PRESENCE, PLACE, TIMES;
/// ```
///
/// - PRESENCE: `always`, or `later` where runs of earlier versions have no such table.
/// - PLACE: `placed` where the record names its own ends, or `of_connection` where it names its
///   connection alone, so that lines repeat the ends of that.
/// - TIMES: `legs` where it has legs that add up to a total, or `moments`.
#[macro_export]
macro_rules! kinds {
    ([$($use:tt)+] $($pass:tt)*) => {
        $($use)+! {
            [$($pass)*]
            /// A connection is followed from here on. Comes before any send of it.
            connections: Connection(Connection) of Connection, always, placed, moments;
            /// An attempt to set up a connection is over, and so is the connection that came of it;
            /// or tracing is.
            connects: Connect(Box<Connect>) of Connect, later, placed, moments;
            /// A send is finished: acknowledged, or given up (then without an `ack` stamp).
            sends: Send(Send) of Send, always, of_connection, legs;
            /// Received bytes were read, or never will be. They may come after the end of their
            /// connection, which a program may read from for as long as it holds the socket.
            receives: Receive(Receive) of Receive, later, of_connection, legs;
            /// A request and its answer are over.
            requests: Request(Box<Request>) of Request, later, of_connection, legs;
            /// A packet of TCP is done with: acknowledged, dropped, or given up.
            packets: Packet(Box<Packet>) of Packet, later, placed, legs;
            /// A datagram of UDP is done with: handed to the driver, read, dropped, or given up.
            datagrams: Datagram(Box<Datagram>) of Datagram, later, placed, legs;
            /// A question of DNS is over, and so is the lookup that it is a try of.
            dns: Question(Box<Question>) of Question, later, placed, moments;
            /// A packet passed, and its headers were copied. Comes before the send that it carries.
            copies: Copy(Box<PacketCopy>) of PacketCopy, later, placed, moments;
        }
    };
}

macro_rules! events {
    ([] $($(#[$doc:meta])* $table:ident: $variant:ident($holds:ty) of $record:ident, $presence:ident, $place:ident, $times:ident;)*) => {
        /// One thing that a tracer saw.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(clippy::large_enum_variant, reason = "nearly all events are sends: a box would be an allocation for each")]
        pub enum Event {
            $($(#[$doc])* $variant($holds),)*
            /// A connection is established, or accepted: what is known of it so far.
            SetUp(Box<Connect>),
            /// A packet begins with what says what its connection carries. Comes before the sends
            /// and receives of its bytes, and can come before the connection itself.
            Head(Box<Head>),
            /// A datagram of UDP was answered, or a connection of QUIC begins.
            Exchange(Box<Exchange>),
            /// A packet that was copied was dropped on this host.
            CopyDropped(Box<CopyDropped>),
            /// A connection is followed no more.
            Closed {
                /// Which.
                connection: ConnectionId,
                /// What the kernel counted on it meanwhile.
                totals: ConnectionTotals,
            },
        }

        $(impl From<$record> for Event {
            fn from(record: $record) -> Self {
                Self::$variant(record.into())
            }
        })*

        impl Event {
            /// The connection of a record that names no ends itself.
            pub fn connection_without_ends(&self) -> Option<ConnectionId> {
                match self {
                    $(Self::$variant(record) => events!(@$place record, $record),)*
                    Self::SetUp(_) | Self::Head(_) | Self::Exchange(_) | Self::CopyDropped(_) | Self::Closed { .. } => None,
                }
            }
        }
    };
    (@of_connection $held:ident, $record:ident) => {{
        let record: &$record = $held.borrow();
        Some(record.connection)
    }};
    (@placed $held:ident, $record:ident) => {{
        let _ = $held;
        None
    }};
}

kinds!([events]);

/// Evaluates an expression on the record that an event holds, whatever its kind: `Some` of its
/// value, or `None` for an event that holds no record that is kept.
///
/// ```ignore
/// record::of_each_kind!(event, record => write(record))
/// ```
#[macro_export]
macro_rules! of_each_kind {
    ($event:expr, $record:ident => $body:expr) => {
        $crate::kinds!([$crate::of_kinds] all $event, $record => $body)
    };
}

/// As [`of_each_kind`], of the kinds that have legs: `None` for all other events.
#[macro_export]
macro_rules! of_each_kind_with_legs {
    ($event:expr, $record:ident => $body:expr) => {
        $crate::kinds!([$crate::of_kinds] with_legs $event, $record => $body)
    };
}

/// The arms of both.
#[doc(hidden)]
#[macro_export]
macro_rules! of_kinds {
    ([$which:ident $event:expr, $name:ident => $body:expr]
        $($(#[$doc:meta])* $table:ident: $variant:ident($holds:ty) of $record:ident, $presence:ident, $place:ident, $times:ident;)*) => {
        match $event {
            $($crate::Event::$variant(held) => $crate::of_kinds!(@$which $times held, $record, $name => $body),)*
            $crate::Event::SetUp(_)
            | $crate::Event::Head(_)
            | $crate::Event::Exchange(_)
            | $crate::Event::CopyDropped(_)
            | $crate::Event::Closed { .. } => None,
        }
    };
    (@with_legs moments $held:ident, $record:ident, $name:ident => $body:expr) => {{
        let _ = $held;
        None
    }};
    (@$which:ident $times:ident $held:ident, $record:ident, $name:ident => $body:expr) => {{
        let $name: &$crate::$record = std::borrow::Borrow::borrow($held);
        Some($body)
    }};
}
