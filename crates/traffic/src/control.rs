//! The messages of this project's own workloads: a request in JSON after the opening, and the
//! server's answer.

use std::net::TcpStream;

use clock::Nanos;
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::error::Error;
use crate::exchange::Exchange;
use crate::limits::Refusal;
use crate::options::{self, SocketOptions};
use crate::stop::Stop;
use crate::target::Target;
use crate::timing;
use crate::wire::{self, OWN_OPENING};

/// Longest request or answer, in bytes.
pub(crate) const LIMIT: usize = 16 << 10;
/// Longest report at the end of a test, in bytes.
pub(crate) const REPORT_LIMIT: usize = 4 << 20;
/// How long one step may take.
pub(crate) const STEP: Nanos = Nanos::from_secs(15);

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The server's token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// What the server gave within TLS, in place of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<u128>,
    /// Options for the server's sockets.
    #[serde(default)]
    pub options: SocketOptions,
    /// The longest that it will take.
    #[serde(rename = "duration_ns")]
    pub duration: Nanos,
    /// Which workload.
    pub workload: Workload,
}

/// The workloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Workload {
    /// Requests and responses on this very connection.
    Rr(Exchange),
    /// A separate listener, where every connection is one request and one response.
    Crr {
        /// The transaction.
        exchange: Exchange,
        /// How many go on at once.
        at_once: u32,
    },
    /// Datagrams at a rate, up or down.
    Udp(UdpRequest),
    /// Within TLS: a pass for one test that is measured on the connection that asks for it.
    Pass,
    /// Every datagram is sent back.
    Echo {
        /// The largest one in bytes.
        datagram_bytes: u32,
    },
}

/// A flow of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UdpRequest {
    /// The server sends.
    pub down: bool,
    /// Bytes of each datagram.
    pub datagram_bytes: u32,
    /// Bits a second; 0 for as fast as it goes.
    pub bits_per_second: u64,
    /// Datagrams that leave in a row. Earlier versions know of none, and send them one by one.
    #[serde(default = "crate::sending::no_burst")]
    pub burst: u32,
    /// Width of the receiver's series.
    #[serde(rename = "interval_ns")]
    pub interval: Nanos,
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Go on.
    Ready(Ready),
    /// It will not.
    Refused(Refusal),
}

/// Where to go on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// The port of a separate listener (`crr`), or 0.
    #[serde(default)]
    pub port: u16,
    /// What the first datagram of a UDP flow must hold, or 0.
    #[serde(default)]
    pub session: u64,
    /// What a test without TLS is asked for with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<u128>,
    /// Which boot of which machine the server runs in: equal to the client's where they share
    /// clocks.
    #[serde(default)]
    pub boot_id: String,
}

/// A short name of this boot of this machine: equal at both ends where they share their clocks.
pub(crate) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Connects, asks, and gives the connection once the server is ready. Within TLS where the target
/// says so, except for [`Workload::Rr`], which is measured on this very connection: it shows a pass
/// that was given within TLS.
pub(crate) fn ask(
    target: &Target,
    options: &SocketOptions,
    request: &Request,
    stop: &Stop,
) -> Result<(Channel, Ready), Error> {
    let Some(trusted) = &target.tls else { return ask_on(connect(target, options, stop)?, target, request, stop) };
    let within = |control: Channel| control.within_tls(trusted, target.server);
    if !matches!(request.workload, Workload::Rr(_)) {
        return ask_on(within(connect(target, options, stop)?)?, target, request, stop);
    }
    let asked = Request { workload: Workload::Pass, ..request.clone() };
    let private = within(connect(target, &SocketOptions::default(), stop)?)?;
    let (_, Ready { pass, .. }) = ask_on(private, target, &asked, stop)?;
    let with_pass = Request { token: None, pass, ..request.clone() };
    ask_on(connect(target, options, stop)?, target, &with_pass, stop)
}

fn connect(target: &Target, options: &SocketOptions, stop: &Stop) -> Result<Channel, Error> {
    let socket = options::connect(target.server, options, target.local, target.connect_within, stop)?;
    Ok(Channel::plain(TcpStream::from(socket)))
}

fn ask_on(control: Channel, target: &Target, request: &Request, stop: &Stop) -> Result<(Channel, Ready), Error> {
    let server = target.server;
    let during = "asking for the workload";
    let mut message = OWN_OPENING.to_vec();
    let text = serde_json::to_vec(request).map_err(|e| Error::Config(e.to_string()))?;
    message.extend_from_slice(&(text.len() as u32).to_be_bytes());
    message.extend_from_slice(&text);
    control.begin(server, &message, (STEP, stop), during)?;
    let deadline = timing::now().after(STEP);
    let mut first = [0; 4];
    wire::read_by(&control, &mut first[..1], deadline, stop).map_err(|e| e.into_error(server, during))?;
    if first[0] == 0xff {
        return Err(Error::Busy { peer: server });
    }
    let mut text = Vec::new();
    let read = wire::read_by(&control, &mut first[1..], deadline, stop).and_then(|()| {
        let length = wire::parse_length(first, LIMIT, "the server's answer").map_err(wire::ReadError::Wire)?;
        text.resize(length, 0);
        wire::read_by(&control, &mut text, deadline, stop)
    });
    match read {
        // A stock iperf3 takes the opening for a cookie, asks for parameters and hangs up.
        Err(wire::ReadError::Gone) => {
            return Err(Error::Config(format!(
                "the server at {server} does not answer this workload: it needs `wirelapse serve` (a stock iperf3 \
                 only takes `stream`)"
            )));
        }
        other => other.map_err(|e| e.into_error(server, during))?,
    }
    match serde_json::from_slice(&text) {
        Ok(Answer::Ready(ready)) => Ok((control, ready)),
        Ok(Answer::Refused(refusal)) => Err(Error::Refused { peer: server, refusal }),
        Err(e) => Err(Error::Wire {
            peer: server,
            source: crate::WireError::Malformed { what: "the server's answer", why: e.to_string() },
        }),
    }
}
