use std::fmt::Write as _;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ping::{Exchange, IcmpProber, Outcome, Probe, Prober, Settings, TcpProber, UdpProber};
use record::Nanos;
use serde_json::{Map, Value, json};
use stats::{Distribution, Precision, Quantile};
use timestamping::{Interface, ReceiveFilter, TransmitType};

use crate::exit::BadInput;

/// Time one's own packets at every stage from send to read, the kernel's share apart from the network's.
///
/// Nothing is needed at the other end. `icmp` sends echo requests. `udp` sends datagrams to a port that echoes them, to
/// `wirelapse serve`, or to a closed one, whose host answers with an ICMP error that is timed just the same. `tcp` times the
/// handshake, and with --request or --size a request on the new connection.
///
/// Ctrl-C ends it with the summary. The exit status is 1 where nothing came back at all.
#[derive(clap::Args)]
pub struct Args {
    /// By what kind of packet.
    protocol: Protocol,
    /// HOST for icmp, HOST:PORT for udp and tcp; an IPv6 address with a port as `[ADDRESS]:PORT`.
    target: String,
    /// End after so many probes; without it, on Ctrl-C.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Time from one probe to the next: 200ms, 1s, 1m; a bare number is seconds.
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    interval: Duration,
    /// How long an answer may take.
    #[arg(short = 'W', long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    timeout: Duration,
    /// Payload bytes: 56 where not given, and for tcp none, which is the handshake alone.
    #[arg(short, long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(0..=65_507))]
    size: Option<u32>,
    /// TTL or hop limit.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    ttl: Option<u8>,
    /// Differentiated services code point, 0 to 63.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..64))]
    dscp: Option<u8>,
    /// Leave by this interface.
    #[arg(short = 'I', long, value_name = "NAME")]
    interface: Option<String>,
    /// The NIC's own stamps too (name the interface, which has to be set to make them).
    #[arg(long, requires = "interface")]
    hardware: bool,
    /// tcp: send this text once connected and wait for an answer; \r, \n and \\ are understood.
    #[arg(long, value_name = "TEXT", conflicts_with = "size")]
    request: Option<String>,
    /// IPv4 only.
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// IPv6 only.
    #[arg(short = '6', long)]
    ipv6: bool,
    /// One JSON object a line: `probe` for each probe, `summary` at the end.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Protocol {
    Tcp,
    Udp,
    Icmp,
}

impl Protocol {
    const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Icmp => "icmp",
        }
    }
}

/// Set by Ctrl-C.
static STOP: AtomicBool = AtomicBool::new(false);

pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.request.is_some() && args.protocol != Protocol::Tcp {
        return Err(BadInput("--request is for tcp".into()).into());
    }
    let to = resolve(args)?;
    let settings = Settings {
        timeout: args.timeout,
        size: args.size.unwrap_or(if args.protocol == Protocol::Tcp { 0 } else { 56 }) as usize,
        ttl: args.ttl,
        dscp: args.dscp,
        interface: args.interface.clone(),
        hardware: args.hardware,
        request: args.request.as_deref().map(unescape),
    };
    check_interface(args)?;
    let mut prober: Box<dyn Prober> = match args.protocol {
        Protocol::Icmp => Box::new(IcmpProber::new(to, &settings).map_err(named)?),
        Protocol::Udp => Box::new(UdpProber::new(to, &settings).map_err(named)?),
        Protocol::Tcp => Box::new(TcpProber::new(to, &settings).map_err(named)?),
    };
    stop_on_signals();

    let mut out = std::io::stdout().lock();
    if !args.json {
        writeln!(out, "{} {} ({}): {}", args.protocol.name(), args.target, to.ip(), prober.method())?;
        for limit in prober.limits() {
            writeln!(out, "note: {limit}")?;
        }
    }
    let mut summary = Summary::default();
    let mut due = Instant::now();
    for number in 1..=args.count.unwrap_or(u64::MAX) {
        if !sleep_until(due) {
            break;
        }
        // A probe that waited longer than the interval is not made up for by a burst.
        due = (due + args.interval).max(Instant::now());
        let probe = prober.probe(number, &STOP).map_err(named)?;
        summary.add(&probe);
        if args.json {
            writeln!(out, "{}", line_json(args, to.ip(), &probe))?;
        } else {
            writeln!(out, "{}", line(&probe))?;
        }
        out.flush()?;
    }
    if args.json {
        writeln!(out, "{}", summary.json(args, to.ip(), prober.as_ref()))?;
    } else {
        write!(out, "{}", summary.text())?;
    }
    out.flush()?;
    anyhow::ensure!(summary.came_back > 0 || summary.sent == 0, "{}: nothing came back", args.target);
    Ok(())
}

/// An interface that does not exist is wrong use; everything else is a failure.
fn named(error: timestamping::Error) -> anyhow::Error {
    match error {
        timestamping::Error::NoInterface(_) | timestamping::Error::NotByInterface { .. } => {
            BadInput(error.to_string()).into()
        }
        other => other.into(),
    }
}

/// Whether the interface is there, and where hardware stamps are asked for, makes them. It is not set here: the setting is one
/// for the whole machine and would outlive a killed probe.
fn check_interface(args: &Args) -> anyhow::Result<()> {
    let Some(name) = &args.interface else { return Ok(()) };
    let interface = Interface::by_name(name).map_err(named)?;
    if !args.hardware {
        return Ok(());
    }
    let info = interface.timestamping_info().map_err(named)?;
    if !info.has_hardware_transmit() {
        return Err(BadInput(format!("interface {name} has no hardware timestamps: leave out --hardware")).into());
    }
    let config = interface.hardware().map_err(named)?;
    if config.transmit == TransmitType::Off || config.receive == ReceiveFilter::None {
        let advice = format!("hwstamp_ctl -i {name} -t 1 -r 1");
        return Err(BadInput(format!("interface {name} is not set to stamp packets: run {advice}, as root")).into());
    }
    Ok(())
}

fn resolve(args: &Args) -> anyhow::Result<SocketAddr> {
    let (host, port) = split(&args.target, args.protocol).map_err(BadInput)?;
    let found = (host, port).to_socket_addrs().map_err(|e| BadInput(format!("host {host}: {e}")))?;
    let fits = |a: &SocketAddr| (!args.ipv4 || a.is_ipv4()) && (!args.ipv6 || a.is_ipv6());
    let family = if args.ipv6 { "IPv6" } else { "IPv4" };
    let mut found = found.filter(fits);
    found.next().ok_or_else(|| BadInput(format!("host {host} has no {family} address")).into())
}

/// Host and port of a target. ICMP has no port.
fn split(target: &str, protocol: Protocol) -> Result<(&str, u16), String> {
    let bracketed = |t: &'_ str| t.starts_with('[') && t.ends_with(']');
    if protocol == Protocol::Icmp {
        let host = if bracketed(target) { &target[1..target.len() - 1] } else { target };
        if host.contains(':') && host.parse::<IpAddr>().is_err() && !host.contains('%') {
            return Err(format!("{target}: icmp takes a host without a port"));
        }
        return Ok((host, 0));
    }
    let missing = || format!("{target}: {} takes HOST:PORT, or [ADDRESS]:PORT for IPv6", protocol.name());
    let (host, port) = target.rsplit_once(':').ok_or_else(missing)?;
    let host = if bracketed(host) { &host[1..host.len() - 1] } else { host };
    // An IPv6 address without brackets: which colon comes before the port cannot be known.
    if host.is_empty() || (host.contains(':') && !target.starts_with('[')) {
        return Err(missing());
    }
    match port.parse() {
        Ok(0) | Err(_) => Err(format!("{target}: the port is a number from 1 to 65535, not {port:?}")),
        Ok(port) => Ok((host, port)),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == 'µ');
    let scale = match &text[digits.len()..] {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        unit => return Err(format!("{unit:?} is no unit of time: us, ms, s or m")),
    };
    let seconds = digits.parse::<f64>().map_err(|_| "not a time: write it like 200ms or 1.5s".to_owned())? * scale;
    if !(0.0..=86_400.0).contains(&seconds) {
        return Err("a time from 0 to a day".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn unescape(text: &str) -> Vec<u8> {
    let (mut bytes, mut chars) = (Vec::new(), text.chars());
    while let Some(c) = chars.next() {
        let c = match c {
            '\\' => match chars.next() {
                Some('r') => '\r',
                Some('n') => '\n',
                Some(other) => other,
                None => '\\',
            },
            c => c,
        };
        bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    bytes
}

extern "C" fn on_signal(_: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

fn stop_on_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores to an atomic, which is allowed at any moment; a zeroed sigaction has an empty
        // mask and no flags, so waiting calls return.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Sleeps until `due`; `false` where it was told to stop.
fn sleep_until(due: Instant) -> bool {
    loop {
        if STOP.load(Ordering::Relaxed) {
            return false;
        }
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

fn line(probe: &Probe) -> String {
    let mut text = format!("{:>4}  {}", probe.number, outcome(probe));
    if probe.clock_set {
        return text + ", and the system's clock was set meanwhile: no times";
    }
    if !probe.is_sound() {
        return text + ", with stages in an impossible order: no times";
    }
    shares(&mut text, &probe.exchange);
    if let Some(request) = &probe.request {
        text.push_str("\n      request");
        shares(&mut text, request);
    }
    text
}

fn outcome(probe: &Probe) -> String {
    let mut text = match &probe.outcome {
        Outcome::Answer => "answer".to_owned(),
        Outcome::Refused => "refused (port closed)".to_owned(),
        Outcome::Closed => "connected, and closed without an answer".to_owned(),
        Outcome::Icmp { name, from: Some(from) } => format!("{name}, says {from}"),
        Outcome::Icmp { name, from: None } => (*name).to_owned(),
        Outcome::NoAnswer => "no answer".to_owned(),
        Outcome::NotSent { errno } => format!("not sent: {}", std::io::Error::from_raw_os_error(*errno)),
        Outcome::Interrupted => "interrupted".to_owned(),
    };
    if probe.bytes > 0 {
        let _ = write!(text, ", {} B", probe.bytes);
    }
    if let Some(ttl) = probe.ttl {
        let _ = write!(text, ", ttl {ttl}");
    }
    text
}

/// The total with its shares, then each step between stages.
fn shares(text: &mut String, exchange: &Exchange) {
    if let Ok(Some(total)) = exchange.total() {
        let _ = write!(text, ": {total}");
        let parts =
            [("kernel", exchange.kernel_out()), ("network", exchange.network()), ("kernel", exchange.kernel_in())];
        let parts: Vec<_> =
            parts.into_iter().filter_map(|(name, part)| Some(format!("{name} {}", part.ok().flatten()?))).collect();
        if !parts.is_empty() {
            let _ = write!(text, " = {}", parts.join(" + "));
        }
    }
    let mut stages: Vec<_> = exchange.stages().into_iter().filter_map(|(name, at)| Some((name, at?))).collect();
    // Whether a request's ACK or its answer comes first is the peer's choice; every other order is fixed.
    stages.sort_by_key(|(_, at)| *at);
    if let [(first, _), _, ..] = stages[..] {
        let _ = write!(text, "  [{first}");
        for pair in stages.windows(2) {
            if let Ok(step) = pair[1].1.since(pair[0].1) {
                let _ = write!(text, " +{step} {}", pair[1].0);
            }
        }
        text.push(']');
    }
    if let (Some(_), Some(_), Ok(Some(wire))) = (exchange.nic, exchange.nic_rx, exchange.network()) {
        let _ = write!(text, "  [nic +{wire} nic_rx, the NIC's clock]");
    }
}

fn exchange_json(exchange: &Exchange) -> Map<String, Value> {
    let mut map = Map::new();
    let mut put = |key: &str, value: Option<u64>| drop(map.insert(key.to_owned(), json!(value)));
    put("sent_at_ns", exchange.send.map(|s| s.as_nanos()));
    for (name, at) in &exchange.stages()[1..] {
        let since = at.and_then(|at| at.since(exchange.send?).ok());
        put(&format!("{name}_ns"), since.map(|n| n.0));
    }
    put("nic_clock_ns", exchange.nic.map(|n| n.as_nanos()));
    put("nic_rx_clock_ns", exchange.nic_rx.map(|n| n.as_nanos()));
    let shares = [
        ("total_ns", exchange.total()),
        ("kernel_out_ns", exchange.kernel_out()),
        ("network_ns", exchange.network()),
        ("kernel_in_ns", exchange.kernel_in()),
    ];
    for (key, share) in shares {
        put(key, share.ok().flatten().map(|n| n.0));
    }
    map
}

fn line_json(args: &Args, to: IpAddr, probe: &Probe) -> Value {
    let nothing = Exchange::default();
    let mut map = exchange_json(if probe.clock_set { &nothing } else { &probe.exchange });
    let mut put = |key: &str, value: Value| drop(map.insert(key.to_owned(), value));
    put("kind", json!("probe"));
    put("protocol", json!(args.protocol.name()));
    put("to", json!(to));
    put("number", json!(probe.number));
    put("outcome", json!(probe.outcome.name()));
    match &probe.outcome {
        Outcome::Icmp { name, .. } => put("icmp", json!(name)),
        Outcome::NotSent { errno } => put("error", json!(std::io::Error::from_raw_os_error(*errno).to_string())),
        _ => {}
    }
    put("from", json!(probe.from));
    put("bytes", json!(probe.bytes));
    put("ttl", json!(probe.ttl));
    put("stray", json!(probe.stray));
    put("clock_set", json!(probe.clock_set));
    put("in_order", json!(probe.is_sound() || probe.clock_set));
    if let Some(request) = probe.request.as_ref().filter(|_| !probe.clock_set) {
        put("request", Value::Object(exchange_json(request)));
    }
    Value::Object(map)
}

/// The shares that the summary shows, by their keys.
const SHARES: [(&str, &str); 5] = [
    ("total", "total"),
    ("kernel out", "kernel_out"),
    ("network", "network"),
    ("kernel in", "kernel_in"),
    ("request", "request"),
];

struct Summary {
    sent: u64,
    came_back: u64,
    by_outcome: Vec<(&'static str, u64)>,
    stray: u64,
    clock_set: u64,
    disorder: u64,
    shares: [Distribution; SHARES.len()],
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            sent: 0,
            came_back: 0,
            by_outcome: Vec::new(),
            stray: 0,
            clock_set: 0,
            disorder: 0,
            shares: std::array::from_fn(|_| Distribution::new(Precision::Fine)),
        }
    }
}

impl Summary {
    fn add(&mut self, probe: &Probe) {
        if probe.outcome == Outcome::Interrupted {
            return;
        }
        self.sent += u64::from(!matches!(probe.outcome, Outcome::NotSent { .. }));
        self.came_back += u64::from(probe.outcome.came_back());
        self.stray += probe.stray;
        let name = probe.outcome.name();
        match self.by_outcome.iter_mut().find(|(n, _)| *n == name) {
            Some((_, count)) => *count += 1,
            None => self.by_outcome.push((name, 1)),
        }
        if !probe.is_sound() {
            self.clock_set += u64::from(probe.clock_set);
            self.disorder += u64::from(!probe.clock_set);
            return;
        }
        let e = &probe.exchange;
        let request = probe.request.as_ref().and_then(|r| r.total().ok().flatten());
        let shares = [e.total(), e.kernel_out(), e.network(), e.kernel_in()].map(|s| s.ok().flatten());
        for (distribution, share) in self.shares.iter_mut().zip(shares.into_iter().chain([request])) {
            if let Some(share) = share {
                distribution.record(share.0);
            }
        }
    }

    fn text(&self) -> String {
        let mut text = format!("\n{} sent", self.sent);
        for (name, count) in &self.by_outcome {
            let _ = write!(text, ", {count} {}", name.replace('_', " "));
        }
        for (name, count) in [
            ("stray answer(s)", self.stray),
            ("with the clock set meanwhile", self.clock_set),
            ("with stages in an impossible order", self.disorder),
        ] {
            if count > 0 {
                let _ = write!(text, ", {count} {name}");
            }
        }
        text.push('\n');
        if self.shares.iter().all(|d| d.n() == 0) {
            return text;
        }
        let _ = write!(text, "{:<12}{:>6}{:>10}", "", "n", "min");
        for quantile in Quantile::SHOWN {
            let _ = write!(text, "{:>10}", quantile.to_string());
        }
        let _ = writeln!(text, "{:>10}", "max");
        for ((name, _), distribution) in SHARES.iter().zip(&self.shares).filter(|(_, d)| d.n() > 0) {
            let cell = |value: Option<u64>| value.map_or("-".to_owned(), |v| Nanos(v).to_string());
            let _ = write!(text, "{name:<12}{:>6}{:>10}", distribution.n(), cell(distribution.min()));
            for quantile in Quantile::SHOWN {
                let _ = write!(text, "{:>10}", cell(distribution.quantile(quantile)));
            }
            let _ = writeln!(text, "{:>10}", cell(distribution.max()));
        }
        text
    }

    fn json(&self, args: &Args, to: IpAddr, prober: &dyn Prober) -> Value {
        let shares: Map<String, Value> = SHARES
            .iter()
            .zip(&self.shares)
            .filter(|(_, d)| d.n() > 0)
            .map(|((_, key), d)| {
                let mut map = Map::new();
                map.insert("n".into(), json!(d.n()));
                map.insert("min_ns".into(), json!(d.min()));
                for quantile in Quantile::SHOWN {
                    map.insert(format!("{}_ns", quantile.to_string().replace('.', "_")), json!(d.quantile(quantile)));
                }
                map.insert("max_ns".into(), json!(d.max()));
                ((*key).to_owned(), Value::Object(map))
            })
            .collect();
        json!({
            "kind": "summary", "protocol": args.protocol.name(), "target": args.target, "to": to,
            "method": prober.method(), "limits": prober.limits(),
            "sent": self.sent, "outcomes": self.by_outcome.iter().map(|(n, c)| ((*n).to_owned(), json!(c))).collect::<Map<_, _>>(),
            "stray": self.stray, "clock_set": self.clock_set, "disorder": self.disorder, "shares": shares,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_split_and_wrong_ones_named() {
        assert_eq!(split("host:80", Protocol::Tcp), Ok(("host", 80)));
        assert_eq!(split("[2001:db8::1]:80", Protocol::Udp), Ok(("2001:db8::1", 80)));
        assert_eq!(split("2001:db8::1", Protocol::Icmp), Ok(("2001:db8::1", 0)));
        assert_eq!(split("[::1]", Protocol::Icmp), Ok(("::1", 0)));
        assert_eq!(split("host", Protocol::Icmp), Ok(("host", 0)));
        for (target, protocol) in [
            ("host", Protocol::Tcp),
            ("2001:db8::1:80", Protocol::Tcp),
            ("host:0", Protocol::Udp),
            ("host:http", Protocol::Tcp),
            (":80", Protocol::Tcp),
            ("host:80", Protocol::Icmp),
        ] {
            assert!(split(target, protocol).is_err(), "{target}");
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "ms", "-1s", "1h", "nan", "inf", "90000s", "1µ"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn escapes_are_understood() {
        assert_eq!(unescape(r"GET / HTTP/1.0\r\n\r\n\\é"), "GET / HTTP/1.0\r\n\r\n\\é".as_bytes());
    }
}
