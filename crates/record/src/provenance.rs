//! Where a run comes from: what made it, on what, and how.

use clock::{Conversion, Monotonic, Nanos, Realtime};

use crate::table::{Cell as _, Value};
use crate::{Ratio, ReceiveStage, Sampling, Utc, columns, words};

/// How sends were chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingMethod {
    /// All of them.
    Every,
    /// By arming connections in short windows.
    Windows,
    /// By drawing for each send.
    Draws,
}

/// The sampling that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingAsked {
    /// How sends are chosen.
    pub method: SamplingMethod,
    /// One in this many; 1 for every send.
    pub one_in: u32,
}

words! {
    SamplingMethod: Every = "every", Windows = "windows", Draws = "draws";
}

impl From<Sampling> for SamplingAsked {
    fn from(sampling: Sampling) -> Self {
        let (method, ratio) = match sampling {
            Sampling::Every => (SamplingMethod::Every, Ratio::ALL),
            Sampling::Windows(ratio) => (SamplingMethod::Windows, ratio),
            Sampling::Draws(ratio) => (SamplingMethod::Draws, ratio),
        };
        Self { method, one_in: ratio.0.get() }
    }
}

/// The clock of every `_ns` column that is a moment, and how to get to the time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// What to add to a `CLOCK_MONOTONIC` reading to get `CLOCK_REALTIME`, nanoseconds.
    pub realtime_offset_ns: i64,
    /// The bound on the error of the offset, to either side. Drift during the run is not in it.
    pub realtime_offset_error_ns: u64,
}

impl ClockReading {
    /// A moment of the run, nanoseconds of `CLOCK_MONOTONIC`, as nanoseconds of Unix time.
    pub fn realtime_ns(self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_add_signed(self.realtime_offset_ns)
    }

    /// A moment of the run, `CLOCK_MONOTONIC`, as a time of day in UTC: `13:05:43.123Z`.
    pub fn time_of_day(self, monotonic_ns: u64) -> String {
        let at = self.realtime_ns(monotonic_ns);
        let (millis, of_day) = (at / 1_000_000 % 1_000, at / 1_000_000_000 % 86_400);
        format!("{:02}:{:02}:{:02}.{millis:03}Z", of_day / 3600, of_day / 60 % 60, of_day % 60)
    }
}

impl From<Conversion<Monotonic, Realtime>> for ClockReading {
    fn from(conversion: Conversion<Monotonic, Realtime>) -> Self {
        Self { realtime_offset_ns: conversion.offset, realtime_offset_error_ns: conversion.error.0 }
    }
}

impl ClockReading {
    /// A moment of the run as date and time of day in UTC: `2026-11-22 13:05:43Z`.
    pub fn date_and_time(self, monotonic_ns: u64) -> String {
        let (of_day, date) = (self.time_of_day(monotonic_ns), Utc::from_nanos(self.realtime_ns(monotonic_ns)).date());
        format!("{date} {}Z", of_day.split('.').next().unwrap_or_default())
    }

    /// As a conversion that carries its error.
    pub fn conversion(self) -> Conversion<Monotonic, Realtime> {
        Conversion::new(self.realtime_offset_ns, Nanos(self.realtime_offset_error_ns))
    }
}

/// What made a run, on what, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The version of Wirelapse.
    pub version: String,
    /// The command line, word by word.
    pub command_line: Vec<String>,
    /// Host name (`uname -n`); `None` in runs of earlier versions.
    pub host: Option<String>,
    /// Kernel release (`uname -r`).
    pub kernel: String,
    /// Machine hardware name (`uname -m`).
    pub machine: String,
    /// CPUs online.
    pub cpus: u32,
    /// The backend that took the stamps: `timestamping` or `tracepoints`.
    pub backend: String,
    /// What was traced, in words.
    pub target: String,
    /// The sampling asked for.
    pub sampling: SamplingAsked,
    /// At most this many sends a second were recorded; null for no limit.
    pub max_rate: Option<u64>,
    /// Tracing was to cost at most so many millionths of the CPU time of the traced programs; null
    /// for no limit.
    pub cost_ppm: Option<u64>,
    /// Only what took at least so long was kept; null where everything was.
    pub min_latency: Option<Nanos>,
    /// Of sends, of attempts to connect and of connections with their totals, one in so many has
    /// its row; null where all have.
    pub kept_one_in: Option<u64>,
    /// The clock of the run.
    pub clock: ClockReading,
    /// By how much the clock was set forward (back where negative) at the end of the agent's run
    /// before; null where it was not.
    pub clock_stepped_ns: Option<i64>,
    /// When tracing began, `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// How the calls that write were observed; null where they were not timed.
    pub calls: Option<Observing>,
    /// How the setup of connections was observed; null where it was not.
    pub connects: Option<Observing>,
    /// How received bytes were observed; null where they were not followed.
    pub receiving: Option<Receiving>,
    /// How the beginnings of packets were read; null where they were not.
    pub http: Option<Observing>,
    /// How packets and datagrams were observed; null where they were not.
    pub packets: Option<Observing>,
    /// Why a flight recorder wrote the run; null where none did.
    pub fired: Option<Fired>,
    /// How DNS was observed; null where it was not.
    pub dns: Option<Observing>,
}

columns! {
    Provenance: "trace_run", "run", blank = Provenance::blank();
    version = version, "version of Wirelapse";
    command_line = command_line, "its words, as a list";
    host = host, null "the run is of an earlier version", "host name";
    kernel = kernel, "kernel release";
    machine = machine, "machine hardware name";
    cpus = cpus, "CPUs online";
    backend = backend, "`timestamping` or `tracepoints`";
    target = target, "what is traced, in words";
    "sampling.method" = sampling.method, "how sends are chosen";
    "sampling.one_in" = sampling.one_in, "one in so many";
    max_rate = max_rate, null "there is no limit", "sends a second, by `--max-rate`";
    cost_ppm = cost_ppm, null "there is no limit, or the run is of an earlier version", "millionths of the traced programs' CPU time that tracing may cost, by `--cost`";
    min_latency_ns = min_latency, null "everything was kept", "only what took at least so long was kept, by `--min-latency`";
    kept_one_in = kept_one_in, null "all are kept", "of sends, of attempts to connect and of connections with their totals, one in so many has a row, by `sample` in `[store]` of the agent";
    "clock.realtime_offset_ns" = clock.realtime_offset_ns, "what to add to a moment to get the time of day (`CLOCK_REALTIME`)";
    "clock.realtime_offset_error_ns" = clock.realtime_offset_error_ns, "error bound of the offset, to either side";
    "clock.stepped_ns" = clock_stepped_ns, null "the clock was not set", "by how much the clock was set forward (back where negative), which ended the agent's run before this";
    start_ns = start_ns, "when tracing began";
    "calls.missing" = |p| p.calls.as_ref().map(|by| by.missing.clone()),
        set |p, v| put(&mut p.calls, v, |by| &mut by.missing),
        null "`--calls never`, or sends are sampled: `calls` is null",
        "what cannot be seen of the calls that write on this kernel and why, as a list of sentences";
    "calls.host_wide" = |p| p.calls.as_ref().map(|by| by.host_wide.clone()),
        set |p, v| put(&mut p.calls, v, |by| &mut by.host_wide),
        null "as `calls.missing`", "what reaches beyond the target, and its cost there, as a list of sentences";
    "connects.missing" = |p| p.connects.as_ref().map(|by| by.missing.clone()),
        set |p, v| put(&mut p.connects, v, |by| &mut by.missing),
        null "an earlier version wrote the run: `connects` is null",
        "what cannot be seen of the setup of connections on this kernel and why, as a list of sentences";
    "connects.host_wide" = |p| p.connects.as_ref().map(|by| by.host_wide.clone()),
        set |p, v| put(&mut p.connects, v, |by| &mut by.host_wide),
        null "as `connects.missing`", "what reaches beyond the target, and its cost there, as a list of sentences";
    "receiving.no_driver_rx" = |p| p.lacks(ReceiveStage::DriverRx),
        set |p, v| p.set_lacks(ReceiveStage::DriverRx, v), null "there is that stage", "why there is no stage `driver_rx`";
    "receiving.no_ready" = |p| p.lacks(ReceiveStage::Ready),
        set |p, v| p.set_lacks(ReceiveStage::Ready, v), null "there is that stage", "why there is no stage `ready`";
    "receiving.host_wide" = |p| p.receiving.as_ref().map(|by| by.host_wide.clone()),
        set |p, v| put(&mut p.receiving, v, |by| &mut by.host_wide),
        null "there is no `--receive`: `receiving` is null", "what reaches beyond the target, and its cost there, as a list of sentences";
    "http.missing" = |p| p.http.as_ref().map(|by| by.missing.clone()),
        set |p, v| put(&mut p.http, v, |by| &mut by.missing),
        null "there is no `--http`: `http` is null", "what of packets' beginnings cannot be read on this kernel and why, as a list of sentences";
    "http.host_wide" = |p| p.http.as_ref().map(|by| by.host_wide.clone()),
        set |p, v| put(&mut p.http, v, |by| &mut by.host_wide),
        null "as `http.missing`", "what reaches beyond the target, and its cost there, as a list of sentences";
    "packets.missing" = |p| p.packets.as_ref().map(|by| by.missing.clone()),
        set |p, v| put(&mut p.packets, v, |by| &mut by.missing),
        null "there is none of `--every-packet`, `--udp` and `--packets`: `packets` is null",
        "what cannot be seen of packets and datagrams on this kernel and why, as a list of sentences";
    "packets.host_wide" = |p| p.packets.as_ref().map(|by| by.host_wide.clone()),
        set |p, v| put(&mut p.packets, v, |by| &mut by.host_wide),
        null "as `packets.missing`", "what reaches beyond the target, and its cost there, as a list of sentences";
    "fired.trigger" = |p| p.fired.as_ref().map(|fired| fired.trigger.clone()),
        set |p, v| put(&mut p.fired, v, |fired| &mut fired.trigger),
        null "there is no `--until`: `fired` is null", "what a flight recorder (`--until`) waited for";
    "fired.at_ns" = |p| p.fired.as_ref().map(|fired| fired.at_ns),
        set |p, v| put(&mut p.fired, v, |fired| &mut fired.at_ns), null "as `fired.trigger`", "when it was seen";
    "fired.finding" = |p| p.fired.as_ref().map(|fired| fired.finding.clone()),
        set |p, v| put(&mut p.fired, v, |fired| &mut fired.finding), null "as `fired.trigger`", "what happened, in a sentence";
    "fired.times" = |p| p.fired.as_ref().map(|fired| fired.times),
        set |p, v| put(&mut p.fired, v, |fired| &mut fired.times),
        null "as `fired.trigger`", "how often it happened until the end of the run; 1 while that is being written";
    "dns.missing" = |p| p.dns.as_ref().map(|by| by.missing.clone()),
        set |p, v| put(&mut p.dns, v, |by| &mut by.missing),
        null "no lookups were asked for: `dns` is null", "what of DNS cannot be seen on this kernel and why, as a list of sentences";
    "dns.host_wide" = |p| p.dns.as_ref().map(|by| by.host_wide.clone()),
        set |p, v| put(&mut p.dns, v, |by| &mut by.host_wide),
        null "as `dns.missing`", "what reaches beyond the target, and its cost there, as a list of sentences";
}

/// Puts a field of an observation that need not be there: a value makes it be there.
fn put<T: Default, C: crate::table::Cell>(
    of: &mut Option<T>,
    value: Value<'_>,
    field: impl FnOnce(&mut T) -> &mut C,
) -> Result<(), &'static str> {
    if value != Value::Null {
        *field(of.get_or_insert_default()) = C::from_value(value)?;
    }
    Ok(())
}

impl Provenance {
    /// Why there is no such stage of received bytes.
    fn lacks(&self, stage: ReceiveStage) -> Option<String> {
        let missing = &self.receiving.as_ref()?.missing;
        missing.iter().find(|(of, _)| *of == stage).map(|(_, why)| why.clone())
    }

    fn set_lacks(&mut self, stage: ReceiveStage, why: Value<'_>) -> Result<(), &'static str> {
        if let Some(why) = Option::<String>::from_value(why)? {
            self.receiving.get_or_insert_default().missing.push((stage, why));
        }
        Ok(())
    }

    fn blank() -> Self {
        Self {
            version: String::new(),
            command_line: Vec::new(),
            host: None,
            kernel: String::new(),
            machine: String::new(),
            cpus: 0,
            backend: String::new(),
            target: String::new(),
            sampling: Sampling::Every.into(),
            max_rate: None,
            cost_ppm: None,
            min_latency: None,
            kept_one_in: None,
            clock_stepped_ns: None,
            clock: ClockReading { realtime_offset_ns: 0, realtime_offset_error_ns: 0 },
            start_ns: 0,
            calls: None,
            connects: None,
            receiving: None,
            http: None,
            packets: None,
            fired: None,
            dns: None,
        }
    }
}

/// Why a flight recorder wrote a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// What it waited for.
    pub trigger: String,
    /// When that was seen, `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// What happened, in a sentence.
    pub finding: String,
    /// How often it happened until the end of the run.
    pub times: u64,
}

/// How packets and datagrams, calls, or the setup of connections were observed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observing {
    /// What could not be seen, each with its reason.
    pub missing: Vec<String>,
    /// What reached beyond the target while the trace ran, and what it costs there.
    pub host_wide: Vec<String>,
}

/// How received bytes were observed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receiving {
    /// The stages that could not be seen, each with the reason.
    pub missing: Vec<(ReceiveStage, String)>,
    /// What reached beyond the target while the trace ran, and what it costs there.
    pub host_wide: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_of_a_run_has_its_time_of_day() {
        let clock = ClockReading { realtime_offset_ns: 1_709_210_096_000_000_000, realtime_offset_error_ns: 0 };
        assert_eq!(clock.time_of_day(123_456_789), "12:34:56.123Z");
    }
}
