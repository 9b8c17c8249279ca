//! A test of an iperf3 client, ours or a stock one.

use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use clock::{Instant, Nanos};
use socket2::Socket;

use super::accounts::{Event, Served, Shared, Taken};
use super::config::{Login, Shown};
use super::listening::family_of;
use super::lock::lock;
use super::sessions::Session;
use super::waiting::Waits;
use crate::channel::Channel;
use crate::iperf3::{
    FlowResult, PARAMETERS_LIMIT, Parameters, RESULTS_LIMIT, Results, ServerSide, State, WirelapseAnswer, flow_id,
};
use crate::limits::{Bounded, Limits, Refusal, WRONG_TOKEN};
use crate::options::{self, SocketOptions};
use crate::stream::{Ended, Flow, Group, Method, Pacing, Plan, Sample};
use crate::timing;
use crate::wire::{self, Cookie, ReadError, read_by};
use crate::workload::Workload;

/// What iperf3 gives clients that say nothing: 128 KiB over TCP, a datagram that fits Ethernet.
const TCP_BLOCK: u64 = 128 << 10;
const UDP_BLOCK: u64 = 1460;
/// How long a client may take for one step of the protocol.
const STEP: Nanos = Nanos::from_secs(10);
/// How long the openings of UDP flows may take in all: they follow each other within a round trip,
/// and other tests of the same address wait meanwhile.
const UDP_STEP: Nanos = Nanos::from_secs(3);
/// Samples of the series that a server keeps of one test, at most: a client that asks for more gets
/// wider intervals. They take some 40 MB of memory, and as much as results, which a client reads up
/// to [`crate::iperf3::ANSWER_LIMIT`].
const SAMPLES: u64 = 100_000;
/// How long a wrong login waits for its refusal.
const WRONG_LOGIN: Nanos = Nanos::from_secs(1);
/// What a test may take beyond its own time: slow starts and ends over slow paths.
const GRACE: Nanos = Nanos::from_secs(30);

/// What the client wants, once it has been found to be allowed.
pub(crate) struct Agreed {
    plan: Plan,
    options: SocketOptions,
    receives: usize,
    sends: usize,
    warm_up: Nanos,
    length: Nanos,
    interval: Option<Nanos>,
}

impl Agreed {
    /// Bytes that its buffers and its series take at most.
    pub fn memory(&self) -> u64 {
        let flows = (self.receives + self.sends) as u64;
        let samples = self.interval.map_or(0, |interval| (self.warm_up + self.length).0 / interval.0.max(1) * flows);
        flows * self.plan.write_bytes.max(65_536) as u64 + samples.saturating_mul(size_of::<Sample>() as u64)
    }
}

/// Carries out the test of one control connection.
pub(super) fn serve(shared: &Arc<Shared>, control: &Channel, peer: SocketAddr, cookie: Cookie, waits: Arc<Waits>) {
    // The steps of the protocol are small writes that answer each other; flows are as the client
    // asks.
    control.stream().set_nodelay(true).ok();
    let test = Test { shared, control, peer, cookie };
    let mut served = Served::new(peer, Workload::Stream);
    match test.carry_out(&mut served, waits) {
        Ok(()) => shared.count(|c| &c.tests),
        Err(why) => {
            shared.count(|c| &c.broken_off);
            served.ended = Some(why);
        }
    }
    shared.tell(Event::Ended(served));
}

/// What the client wants, where each of its figures is within its bound.
pub(crate) fn agreed(p: &Parameters, limits: &Limits) -> Result<Agreed, Refusal> {
    let own = p.wirelapse.clone().unwrap_or_default();
    if p.sctp || p.tcp == p.udp {
        return Err(Refusal::Request { why: "only TCP and UDP are served".into() });
    }
    let (parallel, seconds) = (p.parallel.max(1), p.omit.saturating_add(p.time));
    let block = p.len.filter(|n| *n > 0).unwrap_or(if p.udp { UDP_BLOCK } else { TCP_BLOCK });
    Limits::check(Bounded::Flows, parallel, limits.flows.into())?;
    Limits::check(Bounded::Duration, seconds, limits.duration_s)?;
    Limits::check(Bounded::Bytes, p.num.max(p.blockcount.saturating_mul(block)), limits.bytes)?;
    let largest = if p.udp { limits.message_bytes.min(65_507) } else { limits.message_bytes };
    Limits::check(Bounded::Message, block, largest.into())?;
    if p.udp && block < 16 {
        return Err(Refusal::Request { why: format!("datagrams of {block} bytes: they have at least 16") });
    }
    let options = SocketOptions {
        nodelay: own.options.nodelay.or(p.nodelay.then_some(true)),
        congestion_control: own.options.congestion_control.or_else(|| p.congestion.clone()),
        send_buffer_bytes: own.options.send_buffer_bytes.or(buffer_size(p.window)),
        receive_buffer_bytes: own.options.receive_buffer_bytes.or(buffer_size(p.window)),
        dscp: own.options.dscp.or(p.tos.map(|tos| (tos.min(255) >> 2) as u8)),
        mss_bytes: None,
        ..own.options
    };
    options.validate().map_err(|e| Refusal::Request { why: e.to_string() })?;
    for bytes in [options.send_buffer_bytes, options.receive_buffer_bytes].into_iter().flatten() {
        Limits::check(Bounded::SocketBuffer, bytes.into(), limits.socket_buffer_bytes.into())?;
    }
    let length = match (p.time, own.duration) {
        (0, _) => Nanos::from_secs(limits.duration_s),
        (seconds, own) => Nanos::from_secs(seconds).max(own.min(Nanos::from_secs(limits.duration_s))),
    };
    let warm_up = Nanos::from_secs(p.omit);
    let flows = if p.bidirectional { parallel * 2 } else { parallel };
    let interval = p.wirelapse.is_some().then(|| {
        let narrowest = Nanos((warm_up + length).0.saturating_mul(flows) / SAMPLES);
        own.interval.max(narrowest).max(Nanos::from_millis(10))
    });
    let (program, kernel) = (p.bandwidth.filter(|rate| *rate > 0 || p.udp), p.fqrate.filter(|rate| *rate > 0));
    let one = parallel as usize;
    Ok(Agreed {
        plan: Plan {
            udp: p.udp,
            wide: p.udp_counters_64bit.is_some_and(|n| n != 0),
            write_bytes: block as usize,
            method: match (own.method, p.zerocopy) {
                _ if p.udp => Method::Write,
                (Method::Write, Some(1..)) => Method::Sendfile,
                (method, _) => method,
            },
            pace_bits_per_second: program.or(kernel),
            burst: p.burst.map_or(1, |burst| burst.clamp(1, crate::MOST_BURST.into()) as u32),
            pacing: own.pacing.unwrap_or(if program.is_some() { Pacing::Program } else { Pacing::Kernel }),
            bytes: crate::stream::shares((p.num > 0).then_some(p.num), parallel).collect(),
            cpu: own.cpu,
            quickack: options.quickack,
        },
        options,
        receives: if p.reverse && !p.bidirectional { 0 } else { one },
        sends: if p.reverse || p.bidirectional { one } else { 0 },
        warm_up,
        length,
        interval,
    })
}

struct Test<'a> {
    shared: &'a Arc<Shared>,
    control: &'a Channel,
    peer: SocketAddr,
    cookie: Cookie,
}

impl Test<'_> {
    fn carry_out(&self, served: &mut Served, waits: Arc<Waits>) -> Result<(), String> {
        self.say(State::ParamExchange)?;
        let asked: Parameters = self.json(PARAMETERS_LIMIT, "the client's parameters")?;
        let (agreed, session, _places) = self.agree(&asked).map_err(|refusal| self.refuse(&asked, refusal))?;
        drop(waits);
        let flows = self.open_flows(&agreed).map_err(|error| match error {
            OpenError::Refused(refusal) => self.refuse(&asked, refusal),
            OpenError::Broken(why) => why,
        })?;
        self.say(State::TestStart)?;
        self.say(State::TestRunning)?;
        self.shared.tell(Event::Began { peer: self.peer, workload: Workload::Stream });
        let mut group = Group::start(flows, &agreed.plan, agreed.warm_up > Nanos::ZERO)
            .map_err(|error| self.refuse(&asked, Refusal::Kernel { why: error.to_string() }))?;
        let over = self.watch(&agreed, &mut group, &session);
        let congestion = group.congestion_control();
        let ended = group.finish();
        served.elapsed = ended.elapsed;
        for flow in &ended.flows {
            let total = if flow.flow.sends { &mut served.sent_bytes } else { &mut served.received_bytes };
            *total += flow.bytes;
        }
        over.and_then(|()| self.exchange(&asked, ended, congestion))
    }

    fn say(&self, state: State) -> Result<(), String> {
        self.control.write_all(&[state.byte()]).map_err(|e| format!("the client went away: {e}"))
    }

    fn json<T: serde::de::DeserializeOwned>(&self, limit: usize, what: &'static str) -> Result<T, String> {
        let deadline = timing::now().after(STEP);
        wire::read_json(self.control, limit, what, deadline, &self.shared.stop).map_err(|e| match e {
            ReadError::Wire(error) => error.to_string(),
            ReadError::Gone => format!("{what} never came"),
            ReadError::Stopped => "the server is stopping".into(),
        })
    }

    /// Checks what is asked against the bounds.
    fn agree(&self, p: &Parameters) -> Result<(Agreed, Session, [Taken; 2]), Refusal> {
        let limits = &self.shared.config.limits;
        let refused_at = timing::now().after(WRONG_LOGIN);
        let admitted = self.shared.config.admit(&Shown {
            within_tls: self.control.is_private(),
            token: p.wirelapse.as_ref().and_then(|own| own.token.as_deref()),
            login: Some(Login(p.authtoken.as_deref())),
        });
        // At a time that does not depend on what was wrong with it, by which what is encrypted
        // could be found out piece by piece.
        if admitted == Err(Refusal::Login) {
            self.shared.pause(self.control, refused_at);
        }
        admitted?;
        let agreed = agreed(p, limits)?;
        let flows = (agreed.receives + agreed.sends) as u64;
        let session = self.shared.await_session(self.peer.ip(), self.control)?;
        let places = [self.shared.take_threads(flows)?, self.shared.take_memory(agreed.memory())?];
        Ok((agreed, session, places))
    }

    /// Says to the client why not: to a stock one by the number that says the most.
    fn refuse(&self, asked: &Parameters, refusal: Refusal) -> String {
        let code: u32 = match &refusal {
            Refusal::OverLimit { what: Bounded::Flows, .. } => 6,
            Refusal::OverLimit { what: Bounded::Duration | Bounded::Bytes, .. } => 5,
            Refusal::OverLimit { what: Bounded::Message | Bounded::Memory, .. } => 7,
            Refusal::OverLimit { what: Bounded::SocketBuffer, .. } => 8,
            Refusal::OverLimit { what: Bounded::Sessions | Bounded::Threads, .. } => 121,
            Refusal::Token | Refusal::Login | Refusal::Tls => 142,
            Refusal::Request { .. } | Refusal::Kernel { .. } => 13,
        };
        if refusal == Refusal::Token {
            self.shared.pause(self.control, timing::now().after(WRONG_TOKEN.into()));
        }
        self.shared.count(|c| &c.refused);
        self.shared.tell(Event::Refused { peer: self.peer, refusal: refusal.clone() });
        let mut message = vec![State::ServerError.byte()];
        message.extend_from_slice(&code.to_be_bytes());
        message.extend_from_slice(&0u32.to_be_bytes());
        let why = format!("refused: {refusal}");
        if self.control.write_all(&message).is_ok() && asked.wirelapse.is_some() {
            wire::write_json(self.control, &WirelapseAnswer { refusal: Some(refusal), side: None }).ok();
        }
        // Closing with bytes that were not read would reset the connection under the client's
        // reading.
        self.control.end_writing();
        let mut rest = [0; 64];
        read_by(self.control, &mut rest, timing::now().after(Nanos::from_millis(500)), &self.shared.stop).ok();
        why
    }

    /// Lets the client open its flows.
    fn open_flows(&self, agreed: &Agreed) -> Result<Vec<Flow>, OpenError> {
        let number = agreed.receives + agreed.sends;
        let sockets = if agreed.plan.udp {
            let (to, from) = sync_channel(number);
            self.take_udp_turn(to).map_err(OpenError::Broken)?;
            let sockets = self.collect(number, UDP_STEP, &from, |socket| socket);
            lock(&self.shared.udp_waiting).remove(&self.peer.ip());
            sockets
        } else {
            let (to, from) = sync_channel(number);
            self.shared.await_flows(self.cookie, to);
            let sockets = self.collect(number, STEP, &from, Socket::from);
            self.shared.await_no_more(&self.cookie);
            sockets
        };
        let mut flows = Vec::with_capacity(number);
        for (index, socket) in sockets.map_err(OpenError::Broken)?.into_iter().enumerate() {
            agreed
                .options
                .apply_connected(&socket, family_of(self.peer))
                .map_err(|e| OpenError::Refused(Refusal::Kernel { why: e.to_string() }))?;
            if agreed.options.cork == Some(true) && !agreed.plan.udp {
                options::cork(&socket, true);
            }
            // The client's sending flows come first.
            flows.push(Flow { id: flow_id(index), sends: index >= agreed.receives, socket });
        }
        Ok(flows)
    }

    fn collect<T>(
        &self,
        number: usize,
        patience: Nanos,
        from: &Receiver<(u64, T)>,
        into: impl Fn(T) -> Socket,
    ) -> Result<Vec<Socket>, String> {
        self.say(State::CreateStreams)?;
        let deadline = timing::now().after(patience);
        let mut sockets = Vec::with_capacity(number);
        while sockets.len() < number {
            match from.recv_timeout(Duration::from_millis(100)) {
                Ok((order, socket)) => sockets.push((order, into(socket))),
                Err(RecvTimeoutError::Disconnected) => return Err("the server is stopping".into()),
                Err(RecvTimeoutError::Timeout) => {
                    if self.shared.stopping() {
                        return Err("the server is stopping".into());
                    }
                    if timing::now() > deadline || self.client_is_gone() {
                        return Err(format!("the client opened {} of {number} flows", sockets.len()));
                    }
                }
            }
        }
        sockets.sort_by_key(|(order, _)| *order);
        Ok(sockets.into_iter().map(|(_, socket)| socket).collect())
    }

    /// Waits until no other test of the same address waits for its UDP flows: a UDP header does not
    /// name its test.
    fn take_udp_turn(&self, to: SyncSender<(u64, Socket)>) -> Result<(), String> {
        let deadline = timing::now().after(STEP);
        loop {
            if let Entry::Vacant(turn) = lock(&self.shared.udp_waiting).entry(self.peer.ip()) {
                turn.insert(to);
                return Ok(());
            }
            if self.shared.stopping() || self.client_is_gone() || timing::now() > deadline {
                return Err("other tests of the same address kept its UDP flows waiting".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn client_is_gone(&self) -> bool {
        self.control.stream().set_nonblocking(true).ok();
        let gone = matches!(self.control.stream().peek(&mut [0]), Ok(0))
            || self.control.stream().take_error().is_ok_and(|error| error.is_some());
        self.control.stream().set_nonblocking(false).ok();
        gone
    }

    /// Looks on until the client says that the test is over.
    fn watch(&self, agreed: &Agreed, group: &mut Group, session: &Session) -> Result<(), String> {
        let mut carried = 0;
        let warm_up_ends = group.start.after(agreed.warm_up);
        let mut warming_up = agreed.warm_up > Nanos::ZERO;
        let limit = warm_up_ends.after(agreed.length).after(GRACE);
        loop {
            let mut wake = limit.min(timing::now().after(wire::SLICE));
            let next_sample =
                agreed.interval.map_or(Instant::from_nanos(u64::MAX), |interval| group.next_sample(interval));
            wake = wake.min(next_sample);
            if warming_up {
                wake = wake.min(warm_up_ends);
            }
            let mut byte = [0];
            match read_by(self.control, &mut byte, wake, &self.shared.stop) {
                Ok(()) => match State::try_from(byte[0]) {
                    Ok(State::TestEnd) => return Ok(()),
                    Ok(State::ClientTerminate) => return Err("the client gave up".into()),
                    Ok(other) => return Err(format!("the client said {other:?} in the middle of the test")),
                    Err(error) => return Err(error.to_string()),
                },
                Err(ReadError::Stopped) => {
                    self.say(State::ServerTerminate).ok();
                    return Err("the server is stopping".into());
                }
                Err(_) if timing::now() < wake => {
                    let ended = session.ended().map(|reason| reason.why());
                    return Err(ended.unwrap_or("the client went away").into());
                }
                Err(_) => {}
            }
            let now = timing::now();
            let all = group.bytes(true) + group.bytes(false);
            session.advance(all.saturating_sub(carried));
            carried = carried.max(all);
            if warming_up && now >= warm_up_ends {
                group.end_warm_up();
                warming_up = false;
            }
            if now >= next_sample && group.sampled() < next_sample {
                group.sample();
            }
            if now >= limit {
                self.say(State::ServerTerminate).ok();
                return Err("the test went over its time".into());
            }
        }
    }

    /// Results, the client's first.
    fn exchange(&self, asked: &Parameters, ended: Ended, congestion: Option<String>) -> Result<(), String> {
        // A stock client that receives reads on after TEST_END, whole blocks and blocking, before
        // it looks at the control connection again. Its last block is rarely whole: only the end of
        // the flow lets it go on.
        if !asked.udp {
            for flow in ended.flows.iter().filter(|f| f.flow.sends) {
                flow.flow.socket.shutdown(std::net::Shutdown::Write).ok();
            }
        }
        self.say(State::ExchangeResults)?;
        let _theirs: Results = self.json(RESULTS_LIMIT, "the client's results")?;
        let cpu = ended.cpu_percent();
        let streams: Vec<FlowResult> = ended.flows.iter().map(|f| f.result(ended.measured, asked.udp)).collect();
        let datagrams = ended.flows.iter().filter_map(|f| Some((f.flow.id, f.end.datagrams?))).collect();
        let sending: Vec<i64> = ended.flows.iter().filter(|f| f.flow.sends).map(|f| f.flow.id).collect();
        let mut ours = Results {
            cpu_util_total: cpu[0],
            cpu_util_user: cpu[1],
            cpu_util_system: cpu[2],
            sender_has_retransmits: if ended.flows.iter().any(|f| f.flow.sends) { i64::from(!asked.udp) } else { -1 },
            congestion_used: congestion,
            streams,
            server_output_text: None,
            server_output_json: None,
            wirelapse: asked.wirelapse.is_some().then_some(WirelapseAnswer {
                side: Some(ServerSide { cpu: ended.cpu, series: ended.samples, datagrams }),
                refusal: None,
            }),
        };
        if asked.get_server_output.is_some_and(|wanted| wanted != 0) {
            ours.server_output_text = Some(ours.text(|flow| sending.contains(&flow)));
        }
        wire::write_json(self.control, &ours).map_err(|e| format!("the client went away: {e}"))?;
        self.say(State::DisplayResults)?;
        // The client closes when it has read all; whether it says so first is no matter.
        let mut byte = [0];
        read_by(self.control, &mut byte, timing::now().after(STEP), &self.shared.stop).ok();
        Ok(())
    }
}

enum OpenError {
    Refused(Refusal),
    Broken(String),
}

fn buffer_size(window: Option<u64>) -> Option<u32> {
    window.filter(|bytes| *bytes > 0).map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iperf3::WirelapseRequest;

    #[test]
    fn the_series_of_a_long_test_of_many_flows_has_wider_intervals() {
        let own = WirelapseRequest { interval: Nanos(1), ..WirelapseRequest::default() };
        let asked = |time, parallel| Parameters {
            tcp: true,
            time,
            parallel,
            bidirectional: true,
            wirelapse: Some(own.clone()),
            ..Parameters::default()
        };
        let limits = Limits::default();
        let short = agreed(&asked(10, 1), &limits).unwrap_or_else(|refusal| panic!("{refusal}"));
        assert_eq!(short.interval, Some(Nanos::from_millis(10)));
        let long = agreed(&asked(3600, 128), &limits).unwrap_or_else(|refusal| panic!("{refusal}"));
        let samples = Nanos::from_secs(3600).0 * 256 / long.interval.unwrap().0;
        assert!(samples <= SAMPLES, "{samples} samples");
        assert!(long.memory() < 128 << 20, "{} bytes", long.memory());
        assert!(SAMPLES * (size_of::<Sample>() as u64) < 64 << 20, "{} bytes each", size_of::<Sample>());
    }
}
