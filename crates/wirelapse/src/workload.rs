//! What the workload commands have in common: the server's address, socket options, quantities with units, Ctrl-C.

use std::io::{IsTerminal as _, Write as _};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use record::Nanos;

use crate::exit::BadInput;

/// The port of iperf3, and of `serve`.
pub const PORT: u16 = 5201;

/// Which server, and how to reach it.
#[derive(clap::Args)]
pub struct TargetArgs {
    /// The server, HOST or HOST:PORT (`[ADDR]:PORT` for IPv6); port 5201 unless given
    // Absent only where a command makes it optional.
    #[arg(value_name = "HOST[:PORT]", required = true)]
    server: Option<String>,
    /// Only IPv4
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Only IPv6
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Connect from this address
    #[arg(long, value_name = "ADDR")]
    bind: Option<IpAddr>,
    /// The server's token
    #[arg(long, env = "WIRELAPSE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    #[command(flatten)]
    options: SocketArgs,
}

impl TargetArgs {
    /// As the library takes it.
    pub fn target(&self) -> anyhow::Result<traffic::Target> {
        Ok(traffic::Target {
            server: self.address()?,
            token: self.token.clone(),
            local: self.bind,
            options: self.options.options(),
        })
    }

    /// The address to connect to.
    fn address(&self) -> anyhow::Result<SocketAddr> {
        let name = self.server.as_deref().ok_or_else(|| BadInput("a server is needed".into()))?;
        let all = addresses(name)?;
        let wanted = all.into_iter().find(|a| !(self.ipv4 && a.is_ipv6() || self.ipv6 && a.is_ipv4()));
        let family = if self.ipv4 { "IPv4" } else { "IPv6" };
        Ok(wanted.ok_or_else(|| BadInput(format!("{name} has no {family} address")))?)
    }
}

/// How long, how fine, and where: the same for `stream`, `rr`, `crr` and `udp`.
#[derive(clap::Args)]
pub struct MeasureArgs {
    /// How long
    #[arg(short = 't', long = "for", value_name = "TIME", value_parser = duration, default_value = "10s")]
    duration: Duration,
    /// Width of the series
    #[arg(short = 'i', long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    interval: Duration,
    /// Bind this side's threads to a CPU
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
}

impl MeasureArgs {
    /// How long to measure.
    pub fn duration(&self) -> Nanos {
        self.duration.into()
    }

    /// The width of an interval.
    pub fn interval(&self) -> Nanos {
        self.interval.into()
    }
}

/// Every address of a server, HOST or HOST:PORT (`[ADDR]:PORT` for IPv6).
pub fn addresses(name: &str) -> anyhow::Result<Vec<SocketAddr>> {
    let with_port = |host: &str| (host.trim_matches(['[', ']']), PORT).to_socket_addrs().map(Vec::from_iter);
    let all = if name.parse::<IpAddr>().is_ok() || name.ends_with(']') {
        with_port(name)
    } else if name.contains(':') {
        name.to_socket_addrs().map(Vec::from_iter)
    } else {
        with_port(name)
    };
    Ok(all.map_err(|e| BadInput(format!("{name}: {e}; give HOST, HOST:PORT or [ADDR]:PORT")))?)
}

/// Socket options, on both ends of every connection of the workload.
#[derive(clap::Args)]
#[command(next_help_heading = "Socket options (both ends)")]
struct SocketArgs {
    /// TCP_NODELAY: small segments leave at once
    #[arg(long, value_name = "on|off", value_parser = on_off, num_args = 0..=1, default_missing_value = "on", require_equals = true)]
    nodelay: Option<bool>,
    /// TCP_CORK: hold partial segments until the message is complete
    #[arg(long, value_name = "on|off", value_parser = on_off, num_args = 0..=1, default_missing_value = "on", require_equals = true)]
    cork: Option<bool>,
    /// TCP_QUICKACK: acknowledge at once (on), or delay ACKs from the start (off)
    #[arg(long, value_name = "on|off", value_parser = on_off, num_args = 0..=1, default_missing_value = "on", require_equals = true)]
    quickack: Option<bool>,
    /// Congestion control, such as cubic, bbr or reno
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// SO_SNDBUF in bytes (K, M, G for powers of 1024)
    #[arg(long, value_name = "BYTES", value_parser = bytes32)]
    send_buffer: Option<u32>,
    /// SO_RCVBUF in bytes
    #[arg(long, value_name = "BYTES", value_parser = bytes32)]
    receive_buffer: Option<u32>,
    /// TCP_NOTSENT_LOWAT in bytes
    #[arg(long, value_name = "BYTES", value_parser = bytes32)]
    notsent_lowat: Option<u32>,
    /// DSCP, 0 to 63
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=63))]
    dscp: Option<u8>,
    /// TCP_MAXSEG in bytes (this end only)
    #[arg(long, value_name = "BYTES")]
    mss: Option<u16>,
}

impl SocketArgs {
    /// As the library takes them.
    fn options(&self) -> traffic::SocketOptions {
        traffic::SocketOptions {
            nodelay: self.nodelay,
            cork: self.cork,
            quickack: self.quickack,
            congestion_control: self.congestion.clone(),
            send_buffer_bytes: self.send_buffer,
            receive_buffer_bytes: self.receive_buffer,
            notsent_lowat_bytes: self.notsent_lowat,
            dscp: self.dscp,
            mss_bytes: self.mss,
        }
    }
}

fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" | "1" | "true" => Ok(true),
        "off" | "0" | "false" => Ok(false),
        _ => Err("on or off".into()),
    }
}

/// A number of bytes: digits, then K, M, G or T for powers of 1024.
pub fn bytes(text: &str) -> Result<u64, String> {
    scaled(text, 1024)
}

/// The same within 32 bits.
pub fn bytes32(text: &str) -> Result<u32, String> {
    u32::try_from(bytes(text)?).map_err(|_| "at most 4 GiB".into())
}

/// A rate in bits a second: digits, then K, M, G or T for powers of 1000.
pub fn bit_rate(text: &str) -> Result<u64, String> {
    scaled(text.trim_end_matches("bit/s").trim_end_matches("bit"), 1000)
}

fn scaled(text: &str, base: u64) -> Result<u64, String> {
    let (number, power) = match text.trim_end().char_indices().next_back() {
        Some((i, 'k' | 'K')) => (&text[..i], 1),
        Some((i, 'm' | 'M')) => (&text[..i], 2),
        Some((i, 'g' | 'G')) => (&text[..i], 3),
        Some((i, 't' | 'T')) => (&text[..i], 4),
        _ => (text, 0),
    };
    let number: f64 = number.trim().parse().map_err(|_| "a number, then K, M, G or T if you like".to_owned())?;
    let value = number * (base as f64).powi(power);
    if value.is_finite() && (0.0..=1e18).contains(&value) { Ok(value as u64) } else { Err("out of range".into()) }
}

/// A length of time: a number and ns, us, ms, s, m or h; seconds where none is given.
pub fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic() || c == 'µ').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.trim().parse().map_err(|_| "a number and ns, us, ms, s, m or h".to_owned())?;
    let unit = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("a number and ns, us, ms, s, m or h".into()),
    };
    let seconds = number * unit;
    if !(0.0..=1e9).contains(&seconds) {
        return Err("out of range".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// In nanoseconds.
pub fn ns(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

/// Set by Ctrl-C or SIGTERM; a second one ends the program at once.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    pub fn listen() -> anyhow::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 130, flag.clone())?;
            signal_hook::flag::register(signal, flag.clone())?;
        }
        Ok(Self(flag))
    }

    /// Set once it came: for what looks at a flag while it waits.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    pub fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// What a workload's progress answers.
    pub fn go_on(&self) -> ControlFlow<()> {
        if self.came() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Errors of the library, with those that are the caller's told apart for the exit status.
pub fn or_bad_input<T>(result: Result<T, traffic::Error>) -> anyhow::Result<T> {
    result.map_err(
        |error| {
            if error.is_wrong_use() { BadInput(error.to_string()).into() } else { anyhow::Error::new(error) }
        },
    )
}

/// One JSON object on a line.
pub fn json_line(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    std::io::stdout().write_all(&line)?;
    Ok(())
}

/// An object of `kind`, with the keys of `value` after it.
pub fn json_event(kind: &str, value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut object = serde_json::Map::new();
    object.insert("kind".into(), kind.into());
    if let serde_json::Value::Object(rest) = serde_json::to_value(value)? {
        object.extend(rest);
    }
    json_line(&object)
}

/// Whether progress is shown: to a person, not to a pipe.
pub fn shows_progress(json: bool) -> bool {
    !json && std::io::stdout().is_terminal()
}

/// Three digits and a unit, decimal: `941 Mbit/s`, `9.41 Gbit/s`.
pub fn rate(bits_per_second: f64) -> String {
    decimal(bits_per_second, "bit/s")
}

/// Three digits and a unit, decimal: `1.18 GB`.
pub fn amount(bytes: u64) -> String {
    decimal(bytes as f64, "B")
}

fn decimal(value: f64, unit: &str) -> String {
    let mut value = value;
    let mut prefix = "";
    for next in ["k", "M", "G", "T"] {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        prefix = next;
    }
    let digits = match value {
        _ if prefix.is_empty() => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {prefix}{unit}")
}

/// Three digits and a unit: `850 ns`, `12.3 µs`, `50.1 ms`, `2.00 s`.
pub fn time(ns: u64) -> String {
    Nanos(ns).to_string()
}

/// A time since 1970 as ISO 8601 in UTC, to the microsecond.
pub fn iso_utc(realtime_ns: u64) -> String {
    let (seconds, micros) = (realtime_ns / 1_000_000_000, realtime_ns % 1_000_000_000 / 1_000);
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March put the leap day last; 719,468 days lie between 0000-03-01 and 1970-01-01.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Prints a line for people, as `println!` does, but ends quietly where the reader has closed the pipe (`| head`): it has what
/// it wanted, and the sockets and threads of a workload end with the process.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::workload::print_line(format_args!($($text)*))
    };
}
pub(crate) use say;

/// What [`say!`] does with the finished text.
pub fn print_line(text: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    if let Err(error) = writeln!(std::io::stdout(), "{text}") {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        eprintln!("wirelapse: cannot write to standard output: {error}");
        std::process::exit(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read() {
        assert_eq!(bytes("64K"), Ok(65_536));
        assert_eq!(bytes("1.5M"), Ok(1_572_864));
        assert_eq!(bit_rate("1.5Gbit/s"), Ok(1_500_000_000));
        assert_eq!(duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(duration("3"), Ok(Duration::from_secs(3)));
        for wrong in ["", "x", "-1", "1y", "1e99"] {
            assert!(bytes(wrong).is_err() && duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn quantities_are_written() {
        assert_eq!(rate(941_480_000.0), "941 Mbit/s");
        assert_eq!(rate(9_416_000_000.0), "9.42 Gbit/s");
        assert_eq!(amount(12), "12 B");
        assert_eq!(time(999_600), "1.00 ms");
        assert_eq!(iso_utc(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(iso_utc(1_709_210_096_123_456_789), "2024-02-29T12:34:56.123456Z");
    }
}
