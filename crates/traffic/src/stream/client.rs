//! The client's side of a transfer.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::ops::ControlFlow;
use std::time::Duration;

use clock::{Instant, Monotonic, Nanos, Realtime};

use super::flow::{check_write_bytes, shares};
use super::{Config, Direction, Ended, Flow, FlowDatagrams, FlowOutcome, Group, Method, Outcome, Pacing, Plan, Total};
use crate::channel::Channel;
use crate::error::{Error, WireError};
use crate::iperf3::{
    ANSWER_LIMIT, FlowResult, Parameters, Results, State, UDP_HELLO, UDP_WELCOME, UDP_WELCOME_LEGACY, WirelapseAnswer,
    WirelapseRequest, flow_id,
};
use crate::options::{self, SocketOptions};
use crate::progress::{LAST_WORD, Progress, STOPPED};
use crate::sample::rate;
use crate::stop::{Stop, attended};
use crate::target::Target;
use crate::timing::{self, CpuTime};
use crate::wire::{self, Cookie, read_by};

/// The longest that the server may take for one step of the protocol.
const STEP: Nanos = Nanos::from_secs(15);
/// How often the control connection and the caller are checked.
const TICK: Nanos = Nanos::from_millis(100);

/// Carries out a transfer. `progress` is called with every interval, and every 100 ms; where it
/// breaks, the transfer ends and its outcome says so.
///
/// # Errors
/// [`Error::Config`] before anything is sent; [`Error::Connect`], [`Error::Refused`],
/// [`Error::Busy`], [`Error::Gone`], [`Error::Wire`] and [`Error::SocketOption`] until data flows,
/// and [`Error::Stopped`] where `progress` breaks before that. After that a server that goes away
/// is [`Outcome::interrupted`].
pub fn run(config: &Config, progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>) -> Result<Outcome, Error> {
    run_from(config, progress).map(|(outcome, _)| outcome)
}

/// As [`run`], with the moment at which data began to flow.
pub(crate) fn run_from(
    config: &Config,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<(Outcome, Instant<Monotonic>), Error> {
    check(config)?;
    let stop = Stop::new()?;
    let (mut control, flows) = attended(progress, &stop, || begin(config, &stop))?;
    let started_realtime = timing::realtime();
    let plan = Plan {
        udp: config.udp,
        wide: true,
        write_bytes: config.write_bytes as usize,
        method: config.method,
        pace_bits_per_second: config.pace_bits_per_second,
        burst: config.burst,
        pacing: config.pacing,
        bytes: shares(config.bytes, config.flows.into()).collect(),
        cpu: config.cpu,
        quickack: config.target.options.quickack,
    };
    let mut group = Group::start(flows, &plan, config.warm_up_s > 0)?;
    let began = group.start;
    let interrupted = watch(config, &mut control, &mut group, progress);
    let congestion_control = group.congestion_control();
    let shown = group.samples();
    let ended = group.finish();
    if ended.samples.len() > shown && !matches!(interrupted, Some(Interrupted::Caller)) {
        // Nothing is left to be broken off.
        let _ = progress(Progress::Interval(&ended.samples[shown..]));
    }
    let (answer, interrupted) = match interrupted {
        Some(Interrupted::Server(why)) => (None, Some(why)),
        other => {
            let broke = other.is_some();
            control.patience = if broke { LAST_WORD } else { STEP };
            let results = || control.results(&ended, config.udp, congestion_control.clone());
            match if broke { results() } else { attended(progress, &stop, results) } {
                Ok(answer) => (Some(answer), other.map(|_| STOPPED.to_owned())),
                Err(Error::Stopped) => (None, Some(STOPPED.to_owned())),
                Err(error) => (None, Some(format!("no results of the server: {error}"))),
            }
        }
    };
    Ok((outcome(config, &control, started_realtime, ended, answer, congestion_control, interrupted), began))
}

/// Asks for the test and opens its flows, until data may flow.
fn begin<'a>(config: &Config, stop: &'a Stop) -> Result<(Control<'a>, Vec<Flow>), Error> {
    let control = Control::open(config, stop)?;
    control.expect(State::ParamExchange, "waiting to be asked for parameters")?;
    let authtoken = config.login.as_ref().map(|login| login.token(timing::realtime()).map_err(Error::Config));
    let asked = Parameters { authtoken: authtoken.transpose()?, ..parameters(config) };
    wire::write_json(&control.stream, &asked).map_err(Error::io("sending parameters"))?;
    control.expect(State::CreateStreams, "waiting to be let in")?;
    let flows = control.open_flows(config)?;
    control.expect(State::TestStart, "waiting for the test to start")?;
    control.expect(State::TestRunning, "waiting for the test to run")?;
    Ok((control, flows))
}

enum Interrupted {
    Caller,
    Server(String),
}

/// Looks on until the end.
fn watch(
    config: &Config,
    control: &mut Control<'_>,
    group: &mut Group,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Option<Interrupted> {
    let warm_up_ends = group.start.after(Nanos::from_secs(config.warm_up_s));
    let ends = config.bytes.map_or(warm_up_ends.after(config.duration), |_| Instant::from_nanos(u64::MAX));
    let mut warming_up = config.warm_up_s > 0;
    let interval = config.interval.max(Nanos::from_millis(1));
    loop {
        let next_sample = group.next_sample(interval);
        let now = timing::now();
        let mut wake = next_sample.min(ends).min(now.after(TICK));
        if warming_up {
            wake = wake.min(warm_up_ends);
        }
        if config.bytes.is_some() {
            wake = wake.min(now.after(Nanos::from_millis(1)));
        }
        if let Some(why) = control.news_until(wake) {
            return Some(Interrupted::Server(why));
        }
        let now = timing::now();
        if warming_up && now >= warm_up_ends {
            warming_up = false;
            if progress(Progress::Interval(group.end_warm_up())).is_break() {
                return Some(Interrupted::Caller);
            }
        }
        if now >= ends || (config.bytes.is_some() && carried(config, group)) {
            return None;
        }
        let go_on = if now >= next_sample && group.sampled() < next_sample {
            progress(Progress::Interval(group.sample()))
        } else {
            progress(Progress::Tick { elapsed: now.saturating_since(group.start) })
        };
        if go_on.is_break() {
            return Some(Interrupted::Caller);
        }
        if group.all_done(true) && group.all_done(false) && config.bytes.is_none() {
            return Some(Interrupted::Server("every flow came to an end before its time".into()));
        }
    }
}

/// Whether all bytes have been carried, and acknowledged where this side sends.
fn carried(config: &Config, group: &Group) -> bool {
    let up = config.direction == Direction::Down || (group.all_done(true) && group.unacknowledged() == 0);
    let down = config.direction == Direction::Up
        || group.all_done(false)
        || group.bytes(false) >= config.bytes.unwrap_or(u64::MAX);
    up && down
}

fn check(config: &Config) -> Result<(), Error> {
    config.target.options.validate()?;
    check_write_bytes(config.udp, config.write_bytes)?;
    let wrong = |text: &str| Err(Error::Config(text.into()));
    match config {
        Config { flows: 0, .. } => wrong("at least one flow is needed"),
        Config { flows: 129.., .. } => wrong("iperf3 allows 128 parallel flows"),
        Config { bytes: Some(0), .. } => wrong("at least one byte is needed"),
        Config { bytes: None, duration: Nanos::ZERO, .. } => wrong("a duration or a number of bytes is needed"),
        Config { udp: true, method, .. } if *method != Method::Write => {
            wrong("datagrams are sent with plain writes: zerocopy and sendfile are for TCP")
        }
        Config { bytes: Some(_), warm_up_s: 1.., .. } => wrong("a warm-up goes with a duration, not with bytes"),
        Config { warm_up_s: 601.., .. } => wrong("iperf3 allows a warm-up of 600 s"),
        _ => Ok(()),
    }
}

fn parameters(config: &Config) -> Parameters {
    let o = &config.target.options;
    let server_sends = config.direction != Direction::Up;
    let paced_by_kernel = !config.udp && config.pacing == Pacing::Kernel;
    Parameters {
        tcp: !config.udp,
        udp: config.udp,
        omit: config.warm_up_s,
        time: if config.bytes.is_some() { 0 } else { config.duration.0.div_ceil(1_000_000_000) },
        num: config.bytes.unwrap_or(0),
        parallel: config.flows.into(),
        reverse: config.direction == Direction::Down,
        bidirectional: config.direction == Direction::Both,
        nodelay: o.nodelay == Some(true),
        window: o.send_buffer_bytes.or(o.receive_buffer_bytes).map(Into::into),
        len: Some(config.write_bytes.into()),
        bandwidth: if config.udp {
            Some(config.pace_bits_per_second.unwrap_or(1 << 20))
        } else {
            config.pace_bits_per_second.filter(|_| !paced_by_kernel || server_sends)
        },
        fqrate: config.pace_bits_per_second.filter(|_| paced_by_kernel),
        burst: (config.burst > 1).then_some(config.burst.into()),
        tos: o.dscp.map(|d| u64::from(d) << 2),
        congestion: o.congestion_control.clone(),
        zerocopy: (config.method == Method::Sendfile).then_some(1),
        udp_counters_64bit: Some(1),
        get_server_output: config.get_server_output.then_some(1),
        client_version: Some("3.12".into()),
        wirelapse: Some(WirelapseRequest {
            token: config.target.token.clone(),
            options: o.clone(),
            method: config.method,
            pacing: Some(config.pacing),
            cpu: config.server_cpu,
            interval: config.interval,
            duration: config.duration,
        }),
        ..Parameters::default()
    }
}

/// The control connection.
struct Control<'a> {
    stream: Channel,
    peer: SocketAddr,
    cookie: Cookie,
    /// How long the server may take for one step of the protocol.
    patience: Nanos,
    stop: &'a Stop,
}

impl<'a> Control<'a> {
    fn open(config: &Config, stop: &'a Stop) -> Result<Self, Error> {
        let nodelay = SocketOptions { nodelay: Some(true), ..SocketOptions::default() };
        let Target { server, local, connect_within, .. } = &config.target;
        let socket = options::connect(*server, &nodelay, *local, *connect_within, stop)?;
        let cookie = Cookie::random();
        let peer = config.target.server;
        let plain = Channel::plain(TcpStream::from(socket));
        let stream = match &config.target.tls {
            None => plain,
            Some(trusted) => plain.within_tls(trusted, peer)?,
        };
        stream.begin(peer, cookie.as_bytes(), (STEP, stop), "sending the cookie")?;
        Ok(Self { stream, peer, cookie, patience: STEP, stop })
    }

    fn state(&self, during: &'static str) -> Result<State, Error> {
        let mut byte = [0];
        read_by(&self.stream, &mut byte, timing::now().after(self.patience), self.stop)
            .map_err(|e| e.into_error(self.peer, during))?;
        State::try_from(byte[0]).map_err(|source| Error::Wire { peer: self.peer, source })
    }

    fn expect(&self, wanted: State, during: &'static str) -> Result<(), Error> {
        match self.state(during)? {
            state if state == wanted => Ok(()),
            State::AccessDenied => Err(Error::Busy { peer: self.peer }),
            State::ServerError => Err(self.server_error()),
            State::ServerTerminate => Err(Error::Gone { peer: self.peer, during }),
            other => Err(Error::Wire {
                peer: self.peer,
                source: WireError::Malformed {
                    what: "the order of iperf3 states",
                    why: format!("{other:?} came where {wanted:?} was due"),
                },
            }),
        }
    }

    /// What follows `SERVER_ERROR`: two numbers, and from our server its reason.
    fn server_error(&self) -> Error {
        let deadline = timing::now().after(Nanos::from_secs(2));
        let (mut code, mut errno) = ([0; 4], [0; 4]);
        if read_by(&self.stream, &mut code, deadline, self.stop).is_err() {
            return Error::Gone { peer: self.peer, during: "reporting an error" };
        }
        // A server that wants a login sends the code alone.
        read_by(&self.stream, &mut errno, deadline, self.stop).ok();
        let said: Result<WirelapseAnswer, _> =
            wire::read_json(&self.stream, 16 << 10, "the server's reason", deadline, self.stop);
        match said {
            Ok(WirelapseAnswer { refusal: Some(refusal), .. }) => Error::Refused { peer: self.peer, refusal },
            _ => Error::Iperf3 { peer: self.peer, code: u32::from_be_bytes(code), errno: u32::from_be_bytes(errno) },
        }
    }

    /// Opens the flows: those that the client sends on come first.
    fn open_flows(&self, config: &Config) -> Result<Vec<Flow>, Error> {
        let directions: &[bool] = match config.direction {
            Direction::Up => &[true],
            Direction::Down => &[false],
            Direction::Both => &[true, false],
        };
        let mut flows = Vec::new();
        for sends in directions {
            for _ in 0..config.flows {
                let socket = if config.udp { self.open_udp(config)? } else { self.open_tcp(config)? };
                flows.push(Flow { id: flow_id(flows.len()), sends: *sends, socket });
            }
        }
        Ok(flows)
    }

    fn open_tcp(&self, config: &Config) -> Result<socket2::Socket, Error> {
        let socket = options::connect(
            config.target.server,
            &config.target.options,
            config.target.local,
            Nanos::from_secs(10),
            self.stop,
        )?;
        (&socket).write_all(self.cookie.as_bytes()).map_err(Error::io("sending a flow's cookie"))?;
        if config.target.options.cork == Some(true) {
            options::cork(&socket, true);
        }
        Ok(socket)
    }

    fn open_udp(&self, config: &Config) -> Result<socket2::Socket, Error> {
        let unspecified = if config.target.server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let local = config.target.local.map_or_else(|| unspecified.parse().ok(), |ip| Some(SocketAddr::new(ip, 0)));
        let local = local.unwrap_or(config.target.server);
        let socket = UdpSocket::bind(local).map_err(|source| Error::Listen { address: local, source })?;
        let socket = socket2::Socket::from(socket);
        config.target.options.apply_before_connect(&socket, config.target.server.ip())?;
        socket
            .connect(&config.target.server.into())
            .map_err(|source| Error::Connect { peer: config.target.server, source })?;
        // Asking once more is left to a server that lost the first: a stock one would take it for
        // another flow.
        socket.send(&UDP_HELLO).map_err(Error::io("opening a UDP flow"))?;
        socket.set_read_timeout(Some(Duration::from_secs(5))).map_err(Error::io("opening a UDP flow"))?;
        let mut buffer = [0; 65_536];
        for _ in 0..1000 {
            match (&socket).read(&mut buffer) {
                Ok(4) if buffer[..4] == UDP_WELCOME || buffer[..4] == UDP_WELCOME_LEGACY => return Ok(socket),
                // Data of a reverse flow can overtake the welcome.
                Ok(_) => {}
                Err(_) => break,
            }
        }
        Err(Error::Gone { peer: self.peer, during: "opening a UDP flow (is UDP let through on that port?)" })
    }

    /// Waits until `wake_ns`, or until the server says something: then why the test is over.
    fn news_until(&mut self, wake: Instant<Monotonic>) -> Option<String> {
        let mut byte = [0];
        match read_by(&self.stream, &mut byte, wake, self.stop) {
            Ok(()) => Some(match State::try_from(byte[0]) {
                Ok(State::ServerError) => self.server_error().to_string(),
                Ok(State::ServerTerminate) => format!("the server at {} ended the test", self.peer),
                Ok(other) => format!("the server at {} said {other:?} in the middle of the test", self.peer),
                Err(error) => format!("{}: {error}", self.peer),
            }),
            Err(_) if timing::now() >= wake => None,
            Err(_) => Some(format!("the server at {} went away in the middle of the test", self.peer)),
        }
    }

    /// Says that the test is over and exchanges results.
    fn results(&self, ended: &Ended, udp: bool, congestion: Option<String>) -> Result<Results, Error> {
        let during = "exchanging results";
        self.stream.write_all(&[State::TestEnd.byte()]).map_err(Error::io(during))?;
        self.expect(State::ExchangeResults, during)?;
        let cpu = ended.cpu_percent();
        let ours = Results {
            cpu_util_total: cpu[0],
            cpu_util_user: cpu[1],
            cpu_util_system: cpu[2],
            sender_has_retransmits: if ended.flows.iter().any(|f| f.flow.sends) { i64::from(!udp) } else { -1 },
            congestion_used: congestion,
            streams: ended.flows.iter().map(|f| f.result(ended.measured, udp)).collect(),
            server_output_text: None,
            server_output_json: None,
            wirelapse: None,
        };
        wire::write_json(&self.stream, &ours).map_err(Error::io(during))?;
        let deadline = timing::now().after(self.patience);
        let theirs: Results = wire::read_json(&self.stream, ANSWER_LIMIT, "the server's results", deadline, self.stop)
            .map_err(|e| e.into_error(self.peer, during))?;
        theirs.check().map_err(|source| Error::Wire { peer: self.peer, source })?;
        self.expect(State::DisplayResults, during)?;
        // The server may be gone as soon as it has sent its results.
        self.stream.write_all(&[State::Done.byte()]).ok();
        Ok(theirs)
    }
}

fn outcome(
    config: &Config,
    control: &Control<'_>,
    started_realtime: Instant<Realtime>,
    ended: Ended,
    answer: Option<Results>,
    congestion_control: Option<String>,
    interrupted: Option<String>,
) -> Outcome {
    let side = answer.as_ref().and_then(|a| a.wirelapse.as_ref()).and_then(|w| w.side.clone());
    let told = |id| side.as_ref()?.datagrams.iter().find(|(flow, _)| *flow == id).map(|(_, counts)| *counts);
    let mut flows = Vec::with_capacity(ended.flows.len());
    for flow in &ended.flows {
        let Some((local, remote)) = flow.addresses().or(Some((config.target.server, config.target.server))) else {
            continue;
        };
        let theirs = answer.as_ref().and_then(|a| a.streams.iter().find(|s| s.id == flow.flow.id));
        let ours = (flow.bytes, ended.measured);
        let there = theirs.map(|t| (t.bytes, (t.end_time - t.start_time).max(0.0)));
        let there = there.map(|(bytes, seconds)| (bytes, Nanos((seconds * 1e9) as u64)));
        let sends = flow.flow.sends;
        let (sent, received) = if sends { (Some(ours), there) } else { (there, Some(ours)) };
        flows.push(FlowOutcome {
            flow: flow.flow.id,
            client_sends: sends,
            local,
            remote,
            sent_bytes: sent.map(|s| s.0),
            sent_in: sent.map(|s| s.1),
            received_bytes: received.map(|r| r.0),
            received_in: received.map(|r| r.1),
            retransmitted_segments: match (config.udp, sends) {
                (true, _) => None,
                (false, true) => Some(flow.retransmitted.into()),
                (false, false) => theirs.and_then(|t| u64::try_from(t.retransmits).ok()),
            },
            datagrams: (flow.end.datagrams.or_else(|| told(flow.flow.id)).map(Into::into))
                .or_else(|| theirs.filter(|_| config.udp).map(datagrams_of)),
            zerocopy: flow.end.zerocopy,
            tcp: flow.tcp,
            error: flow.end.error.as_ref().map(ToString::to_string),
        });
    }
    let bytes: u64 = ended.flows.iter().map(|f| f.bytes).sum();
    let server_cpu = answer.as_ref().map(|a| {
        let of = |percent: f64| Nanos((percent.max(0.0) / 100.0 * ended.elapsed.0 as f64) as u64);
        side.as_ref().map_or(CpuTime { user: of(a.cpu_util_user), system: of(a.cpu_util_system) }, |s| s.cpu)
    });
    let server_bytes = answer.as_ref().map_or(0, |a| a.streams.iter().map(|s| s.bytes).sum());
    Outcome {
        started_realtime,
        cookie: control.cookie.to_string(),
        elapsed: ended.elapsed,
        up: total(&flows, true),
        down: total(&flows, false),
        flows,
        congestion_control,
        server_congestion_control: answer.as_ref().and_then(|a| a.congestion_used.clone()),
        cpu: ended.cpu,
        cpu_seconds_per_gigabyte: ended.cpu.seconds_per_gigabyte(bytes),
        server_cpu,
        server_cpu_seconds_per_gigabyte: server_cpu.and_then(|c| c.seconds_per_gigabyte(server_bytes)),
        pace_bits_per_second: config.pace_bits_per_second,
        socket_options: config.target.options.clone(),
        server_is_wirelapse: side.is_some(),
        server_output: answer.as_ref().and_then(Results::server_output),
        series: ended.samples,
        server_series: side.map(|s| s.series).unwrap_or_default(),
        interrupted,
    }
}

/// What a stock receiver tells of its datagrams.
pub(crate) fn datagrams_of(result: &FlowResult) -> FlowDatagrams {
    let whole = |n: i64| u64::try_from(n).unwrap_or(0);
    let (expected, lost) = (whole(result.packets), whole(result.errors));
    FlowDatagrams {
        expected,
        lost,
        received: expected.saturating_sub(lost),
        jitter: Nanos((result.jitter.max(0.0) * 1e9) as u64),
        ..Default::default()
    }
}

fn total(flows: &[FlowOutcome], up: bool) -> Option<Total> {
    let flows: Vec<&FlowOutcome> = flows.iter().filter(|f| f.client_sends == up).collect();
    let first = flows.first()?;
    let sum = |of: fn(&FlowOutcome) -> Option<u64>| flows.iter().map(|f| of(f)).sum::<Option<u64>>();
    let sent_bytes = sum(|f| f.sent_bytes).unwrap_or(0);
    let received_bytes = sum(|f| f.received_bytes);
    let longest = |of: fn(&FlowOutcome) -> Option<Nanos>| flows.iter().filter_map(|f| of(f)).max();
    debug_assert!(first.client_sends == up);
    Some(Total {
        flows: flows.len(),
        sent_bytes,
        received_bytes,
        sent_bits_per_second: rate(sent_bytes, longest(|f| f.sent_in).unwrap_or_default()),
        goodput_bits_per_second: received_bytes.zip(longest(|f| f.received_in)).map(|(bytes, time)| rate(bytes, time)),
        retransmitted_segments: sum(|f| f.retransmitted_segments),
    })
}
