//! The messages of the iperf3 protocol as values.

use clock::{Instant, Nanos, Realtime};
use serde::{Deserialize, Serialize};

use crate::error::WireError;
use crate::limits::Refusal;
use crate::options::SocketOptions;
use crate::sample::Sample;
use crate::sending::{Method, Pacing};
use crate::timing::CpuTime;
use stats::sequence::Datagrams;

/// The one-byte messages of the control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum State {
    /// Flows are open; get ready.
    TestStart = 1,
    /// Send.
    TestRunning = 2,
    /// The client is done.
    TestEnd = 4,
    /// The client shall send its parameters.
    ParamExchange = 9,
    /// The client shall open its flows.
    CreateStreams = 10,
    /// The server gives up.
    ServerTerminate = 11,
    /// The client gives up.
    ClientTerminate = 12,
    /// Results, the client's first.
    ExchangeResults = 13,
    /// Results have been exchanged.
    DisplayResults = 14,
    /// Waiting for a client.
    Start = 15,
    /// All is done.
    Done = 16,
    /// The server has another client.
    AccessDenied = -1,
    /// The server has an error, given as two 32-bit numbers.
    ServerError = -2,
}

impl State {
    /// The byte on the wire.
    pub fn byte(self) -> u8 {
        (self as i8).to_ne_bytes()[0]
    }
}

impl TryFrom<u8> for State {
    type Error = WireError;

    fn try_from(byte: u8) -> Result<Self, WireError> {
        use State::{
            AccessDenied, ClientTerminate, CreateStreams, DisplayResults, Done, ExchangeResults, ParamExchange,
            ServerError, ServerTerminate, Start, TestEnd, TestRunning, TestStart,
        };
        [
            TestStart,
            TestRunning,
            TestEnd,
            ParamExchange,
            CreateStreams,
            ServerTerminate,
            ClientTerminate,
            ExchangeResults,
            DisplayResults,
            Start,
            Done,
            AccessDenied,
            ServerError,
        ]
        .into_iter()
        .find(|state| state.byte() == byte)
        .ok_or_else(|| WireError::Malformed { what: "an iperf3 state", why: format!("{byte} is none") })
    }
}

/// What a client sends the server about the test it wants. Absent keys are iperf3's defaults;
/// unknown ones are ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Parameters {
    /// Over TCP.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tcp: bool,
    /// Over UDP.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub udp: bool,
    /// Over SCTP, which is not supported here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sctp: bool,
    /// Warm-up in seconds.
    pub omit: u64,
    /// Length in seconds; 0 for no limit.
    pub time: u64,
    /// Bytes of all flows together; 0 for no limit.
    pub num: u64,
    /// Writes of all flows together; 0 for no limit.
    pub blockcount: u64,
    /// Parallel flows in each direction.
    pub parallel: u64,
    /// The server sends.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reverse: bool,
    /// Both send.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bidirectional: bool,
    /// Nagle's algorithm off.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub nodelay: bool,
    /// Socket buffers in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Bytes of a write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub len: Option<u64>,
    /// Bits a second of each flow, paced by the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<u64>,
    /// Bits a second of each flow, paced by the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fqrate: Option<u64>,
    /// Writes or datagrams that leave in a row at that rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// The whole byte of `IP_TOS`.
    #[serde(rename = "TOS", skip_serializing_if = "Option::is_none")]
    pub tos: Option<u64>,
    /// Congestion control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Send with `sendfile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zerocopy: Option<u64>,
    /// UDP packets carry a counter of 64 bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp_counters_64bit: Option<u64>,
    /// Not 0 where the server's own report is wanted with its results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get_server_output: Option<u64>,
    /// User and password, encrypted with the server's key (see [`Login`](super::Login)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authtoken: Option<String>,
    /// The version of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_version: Option<String>,
    /// What only our server understands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wirelapse: Option<WirelapseRequest>,
}

/// What our client asks of our server beyond iperf3.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WirelapseRequest {
    /// The server's token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Socket options for the server's end of each flow.
    pub options: SocketOptions,
    /// How the server sends.
    pub method: Method,
    /// Who keeps the pace where the server sends. iperf3's own keys cannot say it: a stock server
    /// keeps a pace in reverse only by `bandwidth`, which is sent in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Pacing>,
    /// The CPU for the server's flow threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<usize>,
    /// Width of the server's series.
    #[serde(rename = "interval_ns")]
    pub interval: Nanos,
    /// Length of the test, finer than iperf3's seconds.
    #[serde(rename = "duration_ns")]
    pub duration: Nanos,
}

/// What our server adds to its results for our client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WirelapseAnswer {
    /// The server's side of the test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side: Option<ServerSide>,
    /// Sent in place of results where the server will not do the test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
}

/// What the server saw of its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerSide {
    /// CPU time of its flow threads.
    pub cpu: CpuTime,
    /// Its series.
    pub series: Vec<Sample>,
    /// What became of the datagrams of each flow that it receives, by iperf3's number of the flow.
    pub datagrams: Vec<(i64, Datagrams)>,
}

/// What each side reports to the other at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Results {
    /// CPU use of the process in per cent of one CPU.
    pub cpu_util_total: f64,
    /// The part of it in user mode.
    pub cpu_util_user: f64,
    /// The part of it in the kernel.
    pub cpu_util_system: f64,
    /// 1 where a sender counts its retransmissions, 0 where it cannot, −1 for a receiver.
    #[serde(deserialize_with = "whole")]
    pub sender_has_retransmits: i64,
    /// The congestion control in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_used: Option<String>,
    /// Each flow.
    pub streams: Vec<FlowResult>,
    /// The server's own report as text, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_output_text: Option<String>,
    /// The same from a server that writes JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_output_json: Option<serde_json::Value>,
    /// What only our client understands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wirelapse: Option<WirelapseAnswer>,
}

/// A peer's report is believed up to so many flows, and so many bytes, packets or segments of each
/// (a pebibyte): sums of these cannot overflow.
const MOST_FLOWS: usize = 1024;
const MOST: u64 = 1 << 50;
/// Bytes of the longest name of a congestion control (`TCP_CA_NAME_MAX` less its end).
const LONGEST_NAME: usize = 15;

impl Results {
    /// Refuses figures that no test has. They come from the peer, and totals are made of them.
    ///
    /// # Errors
    /// [`WireError::Malformed`] with the first one.
    pub fn check(&self) -> Result<(), WireError> {
        let wrong = |why: String| Err(WireError::Malformed { what: "the iperf3 result message", why });
        if self.streams.len() > MOST_FLOWS {
            return wrong(format!("they are of {} flows", self.streams.len()));
        }
        for flow in &self.streams {
            let counted = [flow.retransmits, flow.errors, flow.packets].map(|n| u64::try_from(n).unwrap_or(0));
            if let Some(most) = counted.into_iter().chain([flow.bytes]).find(|n| *n > MOST) {
                return wrong(format!("flow {} has a count of {most}", flow.id));
            }
            if ![flow.jitter, flow.start_time, flow.end_time].into_iter().all(|seconds| seconds.abs() < 1e9) {
                return wrong(format!("flow {} has a time of more than 10⁹ s", flow.id));
            }
        }
        let named = |name: &&String| name.len() > LONGEST_NAME || !name.bytes().all(|byte| byte.is_ascii_graphic());
        if let Some(name) = self.congestion_used.iter().find(named) {
            return wrong(format!("{name:?} is no congestion control"));
        }
        let side = || self.wirelapse.iter().filter_map(|answer| answer.side.as_ref());
        let counts = side().flat_map(|side| &side.datagrams).flat_map(|(_, d)| {
            [d.expected, d.received, d.lost, d.reordered, d.duplicated, d.too_late, d.malformed, d.dropped_at_socket]
        });
        if let Some(most) = counts.into_iter().find(|n| *n > MOST) {
            return wrong(format!("its datagrams have a count of {most}"));
        }
        let series = side().flat_map(|side| &side.series);
        match series.map(|sample| sample.bytes.max(sample.datagrams)).find(|n| *n > MOST) {
            Some(most) => wrong(format!("its series has a count of {most}")),
            None => Ok(()),
        }
    }

    /// The server's own report, where it sent one.
    pub fn server_output(&self) -> Option<String> {
        let json = self.server_output_json.as_ref().map(|json| format!("{json:#}"));
        self.server_output_text.clone().or(json)
    }

    /// These results as text: a line for each flow.
    pub(crate) fn text(&self, sends: impl Fn(i64) -> bool) -> String {
        let mut text = String::new();
        for flow in &self.streams {
            let seconds = (flow.end_time - flow.start_time).max(0.0);
            let rate = if seconds > 0.0 { flow.bytes as f64 * 8.0 / seconds } else { 0.0 };
            let role = if sends(flow.id) { "sender" } else { "receiver" };
            text += &format!("[{:3}] {seconds:.2} sec  {} bytes  {rate:.0} bit/s  {role}\n", flow.id, flow.bytes);
        }
        let (total, user, system) = (self.cpu_util_total, self.cpu_util_user, self.cpu_util_system);
        text + &format!("CPU of the server: {total:.1} % (program {user:.1} %, kernel {system:.1} %)\n")
    }
}

/// One flow at its end, from one side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowResult {
    /// iperf3's number of the flow.
    #[serde(deserialize_with = "whole")]
    pub id: i64,
    /// Bytes carried after the warm-up.
    pub bytes: u64,
    /// Segments retransmitted, −1 where unknown.
    #[serde(deserialize_with = "whole")]
    pub retransmits: i64,
    /// Jitter in seconds (UDP receiver).
    pub jitter: f64,
    /// Datagrams lost (UDP receiver).
    #[serde(deserialize_with = "whole")]
    pub errors: i64,
    /// Of these, in the warm-up.
    #[serde(deserialize_with = "whole")]
    pub omitted_errors: i64,
    /// Datagrams: the sender's count, or the highest number received.
    #[serde(deserialize_with = "whole")]
    pub packets: i64,
    /// Of these, in the warm-up.
    #[serde(deserialize_with = "whole")]
    pub omitted_packets: i64,
    /// The start in seconds: always 0.
    pub start_time: f64,
    /// Seconds after the start.
    pub end_time: f64,
}

/// iperf3 3.12 writes its −1 for "unknown" as 2⁶⁴ − 1; other versions may write whole numbers with
/// a point.
fn whole<'de, D: serde::Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let number = serde_json::Number::deserialize(from)?;
    Ok(number
        .as_i64()
        .or_else(|| number.as_u64().map(u64::cast_signed))
        .or_else(|| number.as_f64().map(|f| f as i64))
        .unwrap_or(-1))
}

/// The number that iperf3 gives to the flow that was opened as the `index`th, from 0: 1, 3, 4, 5, …
pub fn flow_id(index: usize) -> i64 {
    if index == 0 { 1 } else { index as i64 + 2 }
}

/// The datagram that opens a UDP flow.
pub const UDP_HELLO: [u8; 4] = *b"9876";
/// What iperf3 before 3.7 opened a UDP flow with.
pub const UDP_HELLO_LEGACY: [u8; 4] = 123_456_789_u32.to_le_bytes();
/// The server's answer to it.
pub const UDP_WELCOME: [u8; 4] = *b"6789";
/// The answer of older servers.
pub const UDP_WELCOME_LEGACY: [u8; 4] = 987_654_321_u32.to_le_bytes();

/// What each of iperf3's datagrams begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpHeader {
    /// When it was sent, on the sender's clock, in whole microseconds given as nanoseconds.
    pub sent: Instant<Realtime>,
    /// Counted from 1.
    pub number: u64,
}

impl UdpHeader {
    /// Bytes of the longer form.
    pub const BYTES: usize = 16;

    /// Reads it; `wide` where the counter has 64 bits.
    ///
    /// # Errors
    /// [`WireError::Truncated`].
    pub fn parse(bytes: &[u8], wide: bool) -> Result<Self, WireError> {
        let need = if wide { 16 } else { 12 };
        let Some(bytes) = bytes.get(..need) else {
            return Err(WireError::Truncated { what: "an iperf3 datagram", need, have: bytes.len() });
        };
        let word = |i: usize| u32::from_be_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        let number = if wide { u64::from(word(8)) << 32 | u64::from(word(12)) } else { word(8).into() };
        let sent = Nanos::from_secs(word(0).into()) + Nanos::from_micros(word(4).into());
        Ok(Self { sent: Instant::from_nanos(sent.0), number })
    }

    /// Writes it at the start of `bytes`, which hold at least [`UdpHeader::BYTES`].
    pub fn emit(self, bytes: &mut [u8], wide: bool) {
        let sent = self.sent.as_nanos();
        bytes[..4].copy_from_slice(&((sent / 1_000_000_000) as u32).to_be_bytes());
        bytes[4..8].copy_from_slice(&((sent % 1_000_000_000 / 1_000) as u32).to_be_bytes());
        if wide {
            bytes[8..16].copy_from_slice(&self.number.to_be_bytes());
        } else {
            bytes[8..12].copy_from_slice(&(self.number as u32).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn states_have_the_bytes_of_iperf3() {
        assert_eq!(State::AccessDenied.byte(), 0xff);
        assert_eq!(State::ServerError.byte(), 0xfe);
        assert_eq!(State::try_from(9), Ok(State::ParamExchange));
        assert!(matches!(State::try_from(99), Err(WireError::Malformed { .. })));
        for byte in 0..=255u8 {
            if let Ok(state) = State::try_from(byte) {
                assert_eq!(state.byte(), byte);
            }
        }
    }

    #[test]
    fn flows_are_numbered_as_iperf3_does() {
        assert_eq!((0..5).map(flow_id).collect::<Vec<_>>(), [1, 3, 4, 5, 6]);
    }

    #[test]
    fn parameters_of_a_stock_client_are_read() {
        let text = r#"{"tcp":true,"omit":0,"time":3,"num":0,"blockcount":0,"parallel":4,"reverse":true,"len":131072,
            "pacing_timer":1000,"client_version":"3.12","flowlabel":7}"#;
        let p: Parameters = serde_json::from_str(text).unwrap();
        assert!(p.tcp && p.reverse && !p.bidirectional && p.parallel == 4 && p.len == Some(131_072));
        let back = serde_json::to_value(&p).unwrap();
        assert_eq!(back["tcp"], true);
        assert!(back.get("udp").is_none() && back.get("wirelapse").is_none());
    }

    #[test]
    fn figures_that_no_test_has_are_refused() {
        let of =
            |flow: &str| -> Results { serde_json::from_str(&format!(r#"{{"streams":[{flow},{flow}]}}"#)).unwrap() };
        let honest = r#"{"id":1,"bytes":1000000000000,"retransmits":-1,"packets":1000,"end_time":3600.5}"#;
        assert_eq!(of(honest).check(), Ok(()));
        for (key, value) in [
            ("bytes", "18446744073709551615"),
            ("retransmits", "9223372036854775807"),
            ("errors", "9223372036854775807"),
            ("packets", "9223372036854775807"),
            ("end_time", "1e300"),
            ("jitter", "-1e12"),
        ] {
            let error = of(&format!(r#"{{"id":1,"{key}":{value}}}"#)).check();
            assert!(matches!(error, Err(WireError::Malformed { .. })), "{key}");
        }
    }

    #[test]
    fn a_name_that_no_congestion_control_has_is_refused() {
        let of = |name: &str| {
            let answer = serde_json::json!({"streams": [], "congestion_used": name});
            serde_json::from_value::<Results>(answer).unwrap().check()
        };
        assert_eq!([of("cubic"), of("bpf_dctcp-1.0")], [Ok(()), Ok(())]);
        for name in ["cubic)\nwirelapse: forged", "a b", "\u{1b}[31m", "sixteen_letters_", "\u{202e}"] {
            assert!(matches!(of(name), Err(WireError::Malformed { .. })), "{name:?}");
        }
    }

    #[test]
    fn the_servers_own_report_is_kept_as_text_or_as_all_of_its_json() {
        let of = |answer: &str| serde_json::from_str::<Results>(answer).unwrap().server_output();
        assert_eq!(of(r#"{"streams":[]}"#), None);
        assert_eq!(of(r#"{"streams":[],"server_output_text":"a\nb"}"#).as_deref(), Some("a\nb"));
        let report =
            r#"{"start":{"version":"iperf 3.12"},"end":{"sum":{"bytes":18446744073709551615,"seconds":1e-7}}}"#;
        let kept = of(&format!(r#"{{"streams":[],"server_output_json":{report}}}"#)).unwrap();
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&kept), value(report));
        assert!(kept.lines().count() > 5, "{kept}");
    }

    #[test]
    fn unknown_counts_of_a_stock_peer_are_minus_one() {
        let text = r#"{"id":1,"retransmits":18446744073709551615,"packets":12.0,"errors":-1}"#;
        let flow: FlowResult = serde_json::from_str(text).unwrap();
        assert_eq!((flow.id, flow.retransmits, flow.packets, flow.errors), (1, -1, 12, -1));
    }

    proptest! {
        #[test]
        fn datagrams_come_back(sent_us in 0u64..u64::from(u32::MAX) * 1_000_000, number: u64, wide: bool) {
            let number = if wide { number } else { number & 0xffff_ffff };
            let header = UdpHeader { sent: Instant::from_nanos(sent_us * 1_000), number };
            let mut bytes = [0; 16];
            header.emit(&mut bytes, wide);
            prop_assert_eq!(UdpHeader::parse(&bytes, wide), Ok(header));
        }

        #[test]
        fn foreign_texts_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), wide: bool) {
            let _ = UdpHeader::parse(&bytes, wide);
            let _ = serde_json::from_slice::<Parameters>(&bytes);
            let _ = serde_json::from_slice::<Results>(&bytes);
        }
    }
}
