//! The flows of one side of a test, running: a thread each, sampled and ended together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use clock::{Instant, Monotonic, Nanos};

use super::flow::{FlowEnd, carry};
use super::plan::Meter;
use super::{Flow, Plan};
use crate::error::Error;
use crate::iperf3::FlowResult;
use crate::sample::{Sample, rate};
use crate::tcp_info::{self, TcpInfo};
use crate::timing::{self, CpuTime};

struct Running {
    flow: Arc<Flow>,
    meter: Arc<Meter>,
    thread: JoinHandle<FlowEnd>,
    before: Count,
    warm_up: Count,
}

#[derive(Clone, Copy, Default)]
struct Count {
    bytes: u64,
    acknowledged: Option<u64>,
    retransmitted: u32,
    datagrams: u64,
    lost: u64,
}

/// Flows under way.
pub(crate) struct Group {
    flows: Vec<Running>,
    stop: Arc<AtomicBool>,
    pub start: Instant<Monotonic>,
    sampled: Instant<Monotonic>,
    warm_up_end: Instant<Monotonic>,
    warming_up: bool,
    samples: Vec<Sample>,
}

/// One flow that has ended.
pub(crate) struct EndedFlow {
    pub flow: Arc<Flow>,
    /// Without the warm-up.
    pub bytes: u64,
    /// Without the warm-up.
    pub retransmitted: u32,
    warm_up: Count,
    /// Numbers sent, or the highest one received.
    numbers: u64,
    pub tcp: Option<TcpInfo>,
    pub end: FlowEnd,
}

/// All of them.
pub(crate) struct Ended {
    pub flows: Vec<EndedFlow>,
    pub cpu: CpuTime,
    /// Warm-up included.
    pub elapsed: Nanos,
    /// Warm-up not included.
    pub measured: Nanos,
    pub samples: Vec<Sample>,
}

impl Group {
    /// Starts every flow.
    pub fn start(flows: Vec<Flow>, plan: &Plan, warm_up: bool) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let plan = Arc::new(plan.clone());
        let mut budgets = plan.bytes.clone().into_iter();
        let mut running = Vec::with_capacity(flows.len());
        let start = timing::now();
        for flow in flows {
            let (flow, meter) = (Arc::new(flow), Arc::new(Meter::default()));
            let budget = if flow.sends { budgets.next().flatten() } else { None };
            let (f, m, s, p) = (flow.clone(), meter.clone(), stop.clone(), plan.clone());
            let thread = std::thread::Builder::new()
                .name(format!("stream-{}", flow.id))
                .spawn(move || carry(&f, &p, budget, &m, &s))
                .map_err(|source| {
                    stop.store(true, Ordering::Relaxed);
                    Error::Io { doing: "starting a flow's thread", source }
                })?;
            running.push(Running { flow, meter, thread, before: Count::default(), warm_up: Count::default() });
        }
        Ok(Self {
            flows: running,
            stop,
            start,
            sampled: start,
            warm_up_end: start,
            warming_up: warm_up,
            samples: Vec::new(),
        })
    }

    /// Ends an interval of the series.
    pub fn sample(&mut self) -> &[Sample] {
        let now = timing::now();
        let (from, width) = (self.samples.len(), now.saturating_since(self.sampled));
        for running in &mut self.flows {
            let (count, tcp) = running.count();
            let bytes = count.bytes - running.before.bytes;
            self.samples.push(Sample {
                flow: running.flow.id,
                sends: running.flow.sends,
                start: self.sampled.saturating_since(self.start),
                end: now.saturating_since(self.start),
                warm_up: self.warming_up,
                bytes,
                bits_per_second: rate(bytes, width),
                acknowledged_bytes: count
                    .acknowledged
                    .map(|all| all.saturating_sub(running.before.acknowledged.unwrap_or_default())),
                retransmitted_segments: count.retransmitted.saturating_sub(running.before.retransmitted),
                datagrams: count.datagrams - running.before.datagrams,
                tcp,
                memory: timestamping::socket_memory(&running.flow.socket).ok(),
            });
            running.before = count;
        }
        self.sampled = now;
        &self.samples[from..]
    }

    /// What came before counts no more; gives the warm-up's last interval.
    pub fn end_warm_up(&mut self) -> &[Sample] {
        let from = self.samples.len();
        self.sample();
        self.warm_up_end = self.sampled;
        self.warming_up = false;
        for running in &mut self.flows {
            running.warm_up = running.before;
        }
        &self.samples[from..]
    }

    /// When the series is to be added to next, in steps of `interval` from the start: a timer's
    /// lateness does not add up.
    pub fn next_sample(&self, interval: Nanos) -> Instant<Monotonic> {
        next_step(self.start, self.sampled, interval)
    }

    /// How many samples the series has.
    pub fn samples(&self) -> usize {
        self.samples.len()
    }

    /// When the series was last added to.
    pub fn sampled(&self) -> Instant<Monotonic> {
        self.sampled
    }

    /// Bytes carried after the warm-up by the flows that send, or by those that receive.
    pub fn bytes(&self, sends: bool) -> u64 {
        self.flows
            .iter()
            .filter(|r| r.flow.sends == sends)
            .map(|r| r.meter.bytes.load(Ordering::Relaxed) - r.warm_up.bytes)
            .sum()
    }

    /// Whether every flow that sends (or receives) has come to its end by itself.
    pub fn all_done(&self, sends: bool) -> bool {
        self.flows.iter().filter(|r| r.flow.sends == sends).all(|r| r.meter.done.load(Ordering::Acquire))
    }

    /// Bytes that were written and are not acknowledged yet.
    pub fn unacknowledged(&self) -> u64 {
        self.flows.iter().filter(|r| r.flow.sends).map(|r| super::flow::unacknowledged(&r.flow.socket)).sum()
    }

    /// The congestion control of the first flow.
    pub fn congestion_control(&self) -> Option<String> {
        tcp_info::congestion_control(&self.flows.first()?.flow.socket)
    }

    /// Ends every flow and the last interval.
    pub fn finish(mut self) -> Ended {
        let now = timing::now();
        // A sliver at the end would be a rate over next to no time.
        if now.saturating_since(self.sampled) > Nanos::from_millis(1) || self.samples.is_empty() {
            self.sample();
        }
        self.stop.store(true, Ordering::Relaxed);
        let (elapsed, measured) = (now.saturating_since(self.start), now.saturating_since(self.warm_up_end));
        let mut ended = Ended {
            flows: Vec::with_capacity(self.flows.len()),
            cpu: CpuTime::default(),
            elapsed,
            measured,
            samples: self.samples,
        };
        for running in self.flows {
            let (count, tcp) = running.count();
            let end = running.thread.join().unwrap_or_else(|_| FlowEnd {
                error: Some(std::io::Error::other("the flow's thread panicked")),
                ..FlowEnd::default()
            });
            ended.cpu += end.cpu;
            // With the write that was under way at the end, and with what a receiver still found in
            // its queue: what one side counts, the other may have seen.
            let bytes = running.meter.bytes.load(Ordering::Relaxed);
            ended.flows.push(EndedFlow {
                bytes: bytes - running.warm_up.bytes,
                retransmitted: count.retransmitted.saturating_sub(running.warm_up.retransmitted),
                warm_up: running.warm_up,
                numbers: running.meter.datagrams.load(Ordering::Relaxed),
                flow: running.flow,
                tcp,
                end,
            });
        }
        ended
    }
}

impl Running {
    fn count(&self) -> (Count, Option<TcpInfo>) {
        let tcp = TcpInfo::of(&self.flow.socket);
        let count = Count {
            bytes: self.meter.bytes.load(Ordering::Relaxed),
            acknowledged: tcp.filter(|_| self.flow.sends).map(|t| t.acked_bytes),
            retransmitted: tcp.map_or(0, |t| t.retransmitted_segments),
            datagrams: self.meter.datagrams.load(Ordering::Relaxed),
            lost: self.meter.lost.load(Ordering::Relaxed),
        };
        (count, tcp)
    }
}

impl EndedFlow {
    /// The two ends of the flow, this side's first.
    pub fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        let local = self.flow.socket.local_addr().ok()?.as_socket()?;
        let remote = self.flow.socket.peer_addr().ok()?.as_socket()?;
        Some((local, remote))
    }

    /// As iperf3 reports it to the other side.
    pub fn result(&self, measured: Nanos, udp: bool) -> FlowResult {
        let datagrams = self.end.datagrams.unwrap_or_default();
        FlowResult {
            id: self.flow.id,
            bytes: self.bytes,
            retransmits: if self.flow.sends && !udp { self.retransmitted.into() } else { -1 },
            jitter: datagrams.jitter.as_secs_f64(),
            errors: i64::try_from(datagrams.lost).unwrap_or(i64::MAX),
            omitted_errors: i64::try_from(self.warm_up.lost).unwrap_or(i64::MAX),
            packets: i64::try_from(self.numbers).unwrap_or(i64::MAX),
            omitted_packets: i64::try_from(self.warm_up.datagrams).unwrap_or(i64::MAX),
            start_time: 0.0,
            end_time: measured.as_secs_f64(),
        }
    }
}

impl Ended {
    /// Per cent of one CPU over the time, as iperf3 gives it: in all, in the program, in the
    /// kernel.
    pub fn cpu_percent(&self) -> [f64; 3] {
        let percent = |spent: Nanos| 100.0 * spent.0 as f64 / self.elapsed.0.max(1) as f64;
        [percent(self.cpu.total()), percent(self.cpu.user), percent(self.cpu.system)]
    }
}

/// The first step after `now` of those that follow each other from `start` on.
fn next_step(start: Instant<Monotonic>, now: Instant<Monotonic>, interval: Nanos) -> Instant<Monotonic> {
    let done = now.saturating_since(start).0 / interval.0.max(1);
    start.after(Nanos((done + 1).saturating_mul(interval.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(start: u64, now: u64, interval: u64) -> u64 {
        next_step(Instant::from_nanos(start), Instant::from_nanos(now), Nanos(interval)).as_nanos()
    }

    #[test]
    fn a_late_sample_does_not_put_off_the_next() {
        assert_eq!(step(1_000, 1_000, 100), 1_100);
        assert_eq!(step(1_000, 1_104, 100), 1_200);
        assert_eq!(step(1_000, 1_199, 100), 1_200);
        // One that came a whole step late is made up for by one long interval.
        assert_eq!(step(1_000, 1_250, 100), 1_300);
        assert_eq!(step(0, u64::MAX - 1, u64::MAX), u64::MAX);
    }
}
