//! The row of a connection in a run.

use std::net::SocketAddr;

use super::limit::put;
use super::{Budget, Direction, Ending, Limit, Verdict};
use crate::table::{Cell as _, NO_END, set_address, set_port};
use crate::{Nanos, columns};

/// One TCP connection of a capture, in the figures that a run keeps. Moments are on the capture's
/// clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationRow {
    /// Its number, from 1.
    pub number: u64,
    /// Who opened it.
    pub client: SocketAddr,
    /// Who was called.
    pub server: SocketAddr,
    /// Its first packet.
    pub start_ns: Nanos,
    /// From its first packet to its last.
    pub duration_ns: Nanos,
    /// What is said of it in one line.
    pub verdict: Verdict,
    /// How it ended.
    pub ending: Ending,
    /// From the client to the server.
    pub to_server: Carried,
    /// From the server to the client.
    pub to_client: Carried,
    /// Its duration by what limited it.
    pub limits: Budget,
}

impl ConversationRow {
    fn blank() -> Self {
        Self {
            number: 0,
            client: NO_END,
            server: NO_END,
            start_ns: Nanos::ZERO,
            duration_ns: Nanos::ZERO,
            verdict: Verdict::default(),
            ending: Ending::default(),
            to_server: Carried::default(),
            to_client: Carried::default(),
            limits: Budget::default(),
        }
    }
}

macro_rules! conversations {
    (
        each way { $($name:ident: $type:ty = $of:expr, $doc:literal;)* }
        $($columns:tt)*
    ) => {
        /// The figures of a direction that a run keeps.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Carried {
            $(#[doc = $doc] pub $name: $type,)*
        }

        impl From<&Direction> for Carried {
            fn from(direction: &Direction) -> Self {
                $(let $name: $type = { let figure: fn(&Direction) -> $type = $of; figure(direction) };)*
                Self { $($name),* }
            }
        }

        columns! {
            ConversationRow: "conversations", "", blank = Self::blank();
            $($columns)*
        }
    };
}

conversations! {
    each way {
        packets: u64 = |d| d.packets, "Packets.";
        bytes: u64 = |d| d.unique_bytes, "Payload bytes, each counted once.";
        retransmitted_packets: u64 = |d| d.retransmitted_packets, "Packets that brought data again.";
        rtt_p50_ns: Option<Nanos> = |d| d.rtt.median_ns, "Median RTT: from data passing the capture to its ACK.";
    }
    conversation = number, "its number, from 1";
    client_address = |c| c.client.ip(), set |c, v| set_address(&mut c.client, v), "who opened it: IP address";
    client_port = |c| c.client.port(), set |c, v| set_port(&mut c.client, v), "port of the client";
    server_address = |c| c.server.ip(), set |c, v| set_address(&mut c.server, v), "who accepted it: IP address";
    server_port = |c| c.server.port(), set |c, v| set_port(&mut c.server, v), "port of the server";
    start_ns = start_ns, "its first packet";
    duration_ns = duration_ns, "from its first packet to its last";
    verdict = |c| c.verdict.to_string(), set |c, v| { c.verdict.limited = String::from_value(v)?; Ok(()) },
        "what is said of it, in one line: the three columns below, and `what to do:` before the last";
    limited = |c| c.verdict.step.is_some().then(|| c.verdict.limited.clone()), set |c, v| {
        if let Some(limited) = Option::from_value(v)? {
            c.verdict.limited = limited;
        }
        Ok(())
    }, null "an earlier version wrote it", "what limited it, and for which part of its time";
    costly = verdict.finding, null "an earlier version wrote it, or nothing cost much", "the finding that cost most";
    next_step = verdict.step, null "an earlier version wrote it", "what to do";
    ending = ending, "how it ended";
    to_server_packets = to_server.packets, "packets from the client to the server";
    to_server_bytes = to_server.bytes, "payload in that direction, each byte counted once";
    to_server_retransmitted_packets = to_server.retransmitted_packets, formerly "to_server_resent_packets", "packets that brought data again";
    to_server_rtt_p50_ns = to_server.rtt_p50_ns, null "no data was acknowledged", "median RTT: from data passing the capture to its ACK";
    to_client_packets = to_client.packets, "packets from the server to the client";
    to_client_bytes = to_client.bytes, "payload in that direction, each byte counted once";
    to_client_retransmitted_packets = to_client.retransmitted_packets, formerly "to_client_resent_packets", "packets that brought data again";
    to_client_rtt_p50_ns = to_client.rtt_p50_ns, null "no data was acknowledged", "median RTT: from data passing the capture to its ACK";
    application_ns = |c| c.limits.of(Limit::Application), set |c, v| put(&mut c.limits, Limit::Application, v),
        "time limited by the application; these nine add up to `duration_ns`";
    handshake_ns = |c| c.limits.of(Limit::Handshake), set |c, v| put(&mut c.limits, Limit::Handshake, v), "time limited by the handshake";
    slow_start_ns = |c| c.limits.of(Limit::SlowStart), set |c, v| put(&mut c.limits, Limit::SlowStart, v), "time limited by slow start";
    congestion_window_ns = |c| c.limits.of(Limit::CongestionWindow), set |c, v| put(&mut c.limits, Limit::CongestionWindow, v),
        "time limited by the congestion window";
    receive_window_ns = |c| c.limits.of(Limit::ReceiveWindow), set |c, v| put(&mut c.limits, Limit::ReceiveWindow, v),
        "time limited by the receive window";
    loss_recovery_ns = |c| c.limits.of(Limit::LossRecovery), set |c, v| put(&mut c.limits, Limit::LossRecovery, v),
        "time limited by loss recovery";
    ack_waiting_ns = |c| c.limits.of(Limit::AckWaiting), set |c, v| put(&mut c.limits, Limit::AckWaiting, v),
        "time limited by waiting for ACKs";
    path_rate_ns = |c| c.limits.of(Limit::PathRate), set |c, v| put(&mut c.limits, Limit::PathRate, v), "time limited by the path's rate";
    unknown_ns = |c| c.limits.of(Limit::Unknown), set |c, v| put(&mut c.limits, Limit::Unknown, v),
        "time of which the capture does not show what limited it";
}
