//! The call that writes: how long it takes, and how long the program waits for room in the send
//! buffer. The program's own clock says the truth, and so does strace.

use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use record::{Leg, Nanos, Send, WaitReason};
use tier::Need;
use trace::{Backend, Config};

use crate::traffic::{self, Trace, drain, on, pair, port, set};

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");

/// How long a program waited by its own clock, and how long of that it was awake and waited for a
/// processor.
#[derive(Clone, Copy)]
pub struct Truth {
    pub waited: Duration,
    pub for_a_processor: Duration,
}

/// How long this thread has waited for a processor since it began.
pub fn run_delay() -> Duration {
    run_delay_of("thread-self")
}

/// The same of another task (`Documentation/scheduler/sched-stats.rst`).
fn run_delay_of(task: &str) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{task}/schedstat")).unwrap();
    Duration::from_nanos(text.split_whitespace().nth(1).unwrap().parse().unwrap())
}

/// 600 kB at 10 Mbit/s through a send buffer of 64 KiB: about half a second. Gives the sends and
/// how long the program waited.
fn through_a_small_buffer(
    backend: Backend,
    write: fn(&mut TcpStream, &[u8]) -> Duration,
    setup: fn(Config) -> Config,
) -> (Vec<Send>, Truth) {
    traffic::in_namespace(Some("rate 10mbit burst 3kb limit 1mb"), move || {
        let (mut client, server) = pair();
        set(&client, libc::SOL_SOCKET, libc::SO_SNDBUF, 32 << 10);
        let trace = Trace::start(&setup(on(port(server.local_addr().unwrap().port()), backend)));
        let reader = drain(server);
        let before = run_delay();
        let waited = (0..20).map(|_| write(&mut client, &[0; 30_000])).sum();
        let truth = Truth { waited, for_a_processor: run_delay() - before };
        drop(client);
        reader.join().unwrap();
        (traffic::sends(&trace.finish().0), truth)
    })
}

/// Asleep in `write()`.
fn blocking(socket: &mut TcpStream, bytes: &[u8]) -> Duration {
    let begun = Instant::now();
    socket.write_all(bytes).unwrap();
    begun.elapsed()
}

/// Asleep in `poll()`, as a program with an event loop.
fn polling(socket: &mut TcpStream, mut bytes: &[u8]) -> Duration {
    socket.set_nonblocking(true).unwrap();
    let mut waited = Duration::ZERO;
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        if !bytes.is_empty() {
            let begun = Instant::now();
            let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
            // SAFETY: one descriptor is given and one is there.
            assert_eq!(unsafe { libc::poll(&raw mut poll, 1, 10_000) }, 1);
            waited += begun.elapsed();
        }
    }
    waited
}

pub fn buffer_full(sends: &[Send]) -> Nanos {
    sends.iter().filter_map(|s| s.buffer).map(|full| full.sum()).sum()
}

/// Within a fifth: the last of it may be no send's. A task that is woken does not run yet, which
/// may or may not be in the figure.
fn agrees(figure: Nanos, truth: Truth, what: &str) {
    agrees_within(5, figure, truth, what);
}

/// Within one in `part` below, and a twentieth above.
pub fn agrees_within(part: u32, figure: Nanos, truth: Truth, what: &str) {
    let least = least(part, truth);
    let (figure, waited) = (Duration::from(figure), truth.waited);
    assert!((least..=waited + waited / 20).contains(&figure), "{what}: {figure:?} of {waited:?}, at least {least:?}");
}

fn least(part: u32, truth: Truth) -> Duration {
    truth.waited.saturating_sub(truth.for_a_processor + truth.waited / part)
}

fn the_time_asleep_in_a_call(backend: Backend) {
    let (sends, truth) = through_a_small_buffer(backend, blocking, |config| Config { calls: true, ..config });
    assert!(truth.waited > Duration::from_millis(300), "the program was to be held up: {:?}", truth.waited);
    let calls: Nanos = sends.iter().filter_map(|s| s.leg(Leg::Call).unwrap()).sum();
    agrees(calls, truth, "in calls");
    agrees(buffer_full(&sends), truth, "buffer full");
    // All that is in flight waits in the qdisc: the small-queue limit holds the queue, or, where
    // the machine is late to lift that, the full buffer itself; the congestion window only at the
    // beginning.
    let by = |reason| -> Nanos { sends.iter().filter_map(|s| s.buffer).map(|full| full.time(reason)).sum() };
    let here = by(WaitReason::SmallQueue) + by(WaitReason::SendBuffer);
    assert!(here > by(WaitReason::CongestionWindow), "{sends:?}");
}

#[test]
fn the_time_asleep_in_a_call_by_the_better_backend() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    the_time_asleep_in_a_call(Backend::Timestamping);
}

#[test]
fn the_time_asleep_in_a_call_by_tracepoints() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    the_time_asleep_in_a_call(Backend::Tracepoints);
}

fn the_time_until_writable(backend: Backend) {
    let (sends, truth) = through_a_small_buffer(backend, polling, |config| Config { calls: true, ..config });
    assert!(truth.waited > Duration::from_millis(300), "the program was to be held up: {:?}", truth.waited);
    agrees(buffer_full(&sends), truth, "buffer full");
    let calls: Nanos = sends.iter().filter_map(|s| s.leg(Leg::Call).unwrap()).sum();
    let most = truth.waited / 10 + truth.for_a_processor;
    assert!(Duration::from(calls) < most, "calls that do not block took {calls}, of at most {most:?}");
}

#[test]
fn the_time_until_writable_by_the_better_backend() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    the_time_until_writable(Backend::Timestamping);
}

#[test]
fn the_time_until_writable_by_tracepoints() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    the_time_until_writable(Backend::Tracepoints);
}

/// Without the program in the call its beginning is not known, and the wait is seen at the ACKs.
#[test]
fn calls_that_are_not_timed() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"));
    // Where the machine's kernel runs no tracing program in a softirq that interrupts process 1
    // (docs/testing.md), an ACK is missed, and the wait until the next one with it: one run of
    // several has to agree, and none may have more than the program's clock.
    for run in 0..5 {
        let (sends, truth) = through_a_small_buffer(Backend::Timestamping, blocking, |config| config);
        assert!(sends.iter().all(|s| s.stamps.call.is_none()));
        let full = buffer_full(&sends);
        if run == 4 || Duration::from(full) >= least(5, truth) {
            return agrees(full, truth, "buffer full");
        }
        assert!(Duration::from(full) > truth.waited / 2, "{full} of {:?}", truth.waited);
    }
}

/// strace on this thread; it ends with the value.
struct Strace(Child);

impl Strace {
    /// Comes back once strace sees the thread's calls.
    fn of_this_thread(output: &Path) -> Self {
        // SAFETY: gettid takes nothing.
        let thread = unsafe { libc::gettid() }.to_string();
        let child = Command::new("strace")
            .args(["-qq", "-T", "-e", "trace=sendto,getppid", "-p", &thread, "-o"])
            .arg(output)
            .spawn()
            .unwrap();
        let mut strace = Self(child);
        let end = Instant::now() + Duration::from_secs(60);
        while std::fs::metadata(output).map_or(0, |file| file.len()) == 0 {
            assert_eq!(strace.0.try_wait().unwrap(), None, "strace ended by itself");
            assert!(Instant::now() < end, "strace sees no call");
            // SAFETY: getppid takes nothing.
            unsafe { libc::getppid() };
            std::thread::sleep(Duration::from_millis(1));
        }
        strace
    }

    /// How long strace itself waited for a processor: the thread stands still meanwhile.
    fn run_delay(&self) -> Duration {
        run_delay_of(&self.0.id().to_string())
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        // SAFETY: kill takes two numbers; the process has not been waited for, so its number is its
        // own.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGINT) };
        let _ = self.0.wait();
    }
}

/// Bytes and time of each call in what `strace -T` wrote: `sendto(…) = 30000 <0.012345>`.
fn straced(text: &str) -> Vec<(u64, Duration)> {
    let calls = text.lines().filter(|line| line.starts_with("sendto("));
    calls
        .map(|line| {
            let (written, took) = line.rsplit_once(" = ").unwrap().1.split_once(" <").unwrap();
            (written.parse().unwrap(), Duration::from_secs_f64(took.trim_end_matches('>').parse().unwrap()))
        })
        .collect()
}

fn what_strace_says(backend: Backend) {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("strace");
    let (sends, for_a_processor) = traffic::in_namespace(Some("rate 10mbit burst 3kb limit 1mb"), {
        let output = output.clone();
        move || {
            let (mut client, server) = pair();
            set(&client, libc::SOL_SOCKET, libc::SO_SNDBUF, 32 << 10);
            let config = on(port(server.local_addr().unwrap().port()), backend);
            let trace = Trace::start(&Config { calls: true, ..config });
            let reader = drain(server);
            let strace = Strace::of_this_thread(&output);
            let before = run_delay() + strace.run_delay();
            (0..20).for_each(|_| client.write_all(&[0; 30_000]).unwrap());
            let for_a_processor = run_delay() + strace.run_delay() - before;
            drop(strace);
            drop(client);
            reader.join().unwrap();
            (traffic::sends(&trace.finish().0), for_a_processor)
        }
    });
    let straced = straced(&std::fs::read_to_string(&output).unwrap());
    assert!(straced.len() == 20 && straced.iter().all(|call| call.0 == 30_000), "{straced:?}");
    let waited: Duration = straced.iter().map(|call| call.1).sum();
    assert!(waited > Duration::from_millis(300), "the program was to be held up: {waited:?}");
    agrees(buffer_full(&sends), Truth { waited, for_a_processor }, "buffer full");

    // Where the machine's kernel leaves out a tracing program (docs/testing.md) a send has no
    // beginning of its call; and by tracepoints a call has no length that fills one packet without
    // a wait. All others have one, and are compared with the same calls.
    let end =
        sends.iter().map(|send| send.last_seq()).max_by_key(|seq| seq.0.wrapping_sub(sends[0].first_seq.0)).unwrap();
    let timed: Vec<(Nanos, Duration)> = sends
        .iter()
        .filter_map(|send| {
            let calls_after = end.0.wrapping_sub(send.last_seq().0) as usize / 30_000;
            Some((send.leg(Leg::Call).unwrap()?, straced[19 - calls_after].1))
        })
        .collect();
    assert_eq!(sends.len(), 20);
    let without = 20 - timed.len();
    assert!(backend == Backend::Tracepoints || sends.iter().filter(|s| s.stamps.call.is_none()).count() == without);
    let calls: Nanos = timed.iter().map(|call| call.0).sum();
    let waited = timed.iter().map(|call| call.1).sum();
    eprintln!(
        "{} calls {calls}, strace {waited:?}, {without} without a call, {for_a_processor:?} for a processor",
        timed.len()
    );
    assert!(timed.len() >= 10, "{sends:?}");
    agrees_within(20, calls, Truth { waited, for_a_processor }, "in calls");
}

#[test]
fn calls_take_as_long_as_strace_says() {
    tier::needs!(Need::Root, BTF, Need::Program("tc"), Need::Program("strace"));
    what_strace_says(Backend::Timestamping);
    what_strace_says(Backend::Tracepoints);
}
