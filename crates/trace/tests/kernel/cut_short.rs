//! Calls that sleep for room in the send buffer and end without it: by a time limit of the socket's
//! (`SO_SNDTIMEO`), or by a signal. The program's own clock says how long it slept.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use record::{Leg, Nanos, Send};
use tier::Need;
use trace::{Backend, Config};

use crate::calls::{Truth, agrees_within, buffer_full, run_delay};
use crate::traffic::{self, BACKENDS, Trace, on, pair, port, set};

/// How long a call may sleep.
const LIMIT: Option<Duration> = Some(Duration::from_millis(50));

const BTF: Need<'static> = Need::Path("/sys/kernel/btf/vmlinux");

/// Reads all that there is, but after a pause each time; ends with the connection.
fn stalling(mut socket: TcpStream, pause: Duration) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        loop {
            std::thread::sleep(pause);
            match socket.read(&mut buffer) {
                Ok(1..) => {}
                _ => return,
            }
        }
    })
}

/// What became of a program's calls.
#[derive(Debug, Default)]
struct Calls {
    /// That took nothing, and a part.
    nothing: usize,
    parts: usize,
    /// All calls together.
    took: Duration,
}

/// A system call that writes so many bytes.
type Write = fn(&mut TcpStream, usize) -> std::io::Result<usize>;

fn write(socket: &mut TcpStream, bytes: usize) -> std::io::Result<usize> {
    socket.write(&vec![0; bytes])
}

/// Writes so many bytes by calls of 50,000, or of what is left of those.
fn written(socket: &mut TcpStream, bytes: usize, write: Write) -> Calls {
    let (mut calls, mut left) = (Calls::default(), bytes);
    while left > 0 {
        let size = (left - 1) % 50_000 + 1;
        let begun = Instant::now();
        let result = write(socket, size);
        calls.took += begun.elapsed();
        match result {
            Ok(n) => {
                left -= n;
                calls.parts += usize::from(n < size);
            }
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted), "{error}");
                calls.nothing += 1;
            }
        }
    }
    calls
}

/// 500 kB to a reader that stalls, through a small send buffer.
fn to_a_stalling_reader(
    backend: Backend,
    write: impl FnOnce(&mut TcpStream, usize) -> Calls + std::marker::Send + 'static,
) -> (Vec<Send>, Calls, Truth) {
    traffic::in_namespace(None, move || {
        let (mut client, server) = pair();
        set(&client, libc::SOL_SOCKET, libc::SO_SNDBUF, 32 << 10);
        set(&server, libc::SOL_SOCKET, libc::SO_RCVBUF, 32 << 10);
        let config = on(port(server.local_addr().unwrap().port()), backend);
        let trace = Trace::start(&Config { calls: true, ..config });
        let reader = stalling(server, Duration::from_millis(240));
        let before = run_delay();
        let calls = write(&mut client, 500_000);
        let truth = Truth { waited: calls.took, for_a_processor: run_delay() - before };
        drop(client);
        reader.join().unwrap();
        (traffic::sends(&trace.finish().0), calls, truth)
    })
}

/// A program that writes on at once has waited for room as long as its calls took, however they
/// ended.
fn is_counted(backend: Backend, sends: &[Send], calls: &Calls, truth: Truth) {
    assert!(calls.nothing > 2 && calls.parts > 2, "{calls:?}");
    assert!(truth.waited > Duration::from_secs(1), "the program was to be held up: {calls:?}");
    agrees_within(20, buffer_full(sends), truth, &format!("{backend:?}, buffer full, {calls:?}"));
    let in_calls: Nanos = sends.iter().filter_map(|send| send.leg(Leg::Call).unwrap()).sum();
    agrees_within(20, in_calls, truth, &format!("{backend:?}, in calls, {calls:?}"));
}

#[test]
fn a_time_limit_ends_the_sleep() {
    tier::needs!(Need::Root, BTF);
    for backend in BACKENDS {
        let (sends, calls, truth) = to_a_stalling_reader(backend, |socket, bytes| {
            socket.set_write_timeout(LIMIT).unwrap();
            written(socket, bytes, write)
        });
        is_counted(backend, &sends, &calls, truth);
    }
}

extern "C" fn nothing(_: i32) {}

/// Sends this thread a signal every 50 ms, which ends the calls that it sleeps in.
fn interrupted<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the handler does nothing, and the structure is plain numbers.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
    }
    // SAFETY: gettid takes nothing.
    let (thread, over) = (unsafe { libc::gettid() }, AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
                // SAFETY: tgkill takes three numbers.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR2) };
            }
        });
        let done = work();
        over.store(true, Relaxed);
        done
    })
}

#[test]
fn a_signal_ends_the_sleep() {
    tier::needs!(Need::Root, BTF);
    for backend in BACKENDS {
        let (sends, calls, truth) =
            to_a_stalling_reader(backend, |socket, bytes| interrupted(|| written(socket, bytes, write)));
        is_counted(backend, &sends, &calls, truth);
    }
}

/// By `sendfile()`, of a file of zeros.
fn send_file(socket: &mut TcpStream, bytes: usize) -> std::io::Result<usize> {
    let file = tempfile::tempfile()?;
    file.set_len(bytes as u64)?;
    // SAFETY: both descriptors are open, and no place in the file is given.
    let sent = unsafe { libc::sendfile(socket.as_raw_fd(), file.as_raw_fd(), std::ptr::null_mut(), bytes) };
    usize::try_from(sent).map_err(|_| std::io::Error::last_os_error())
}

/// By `sendmmsg()`, in two messages.
fn send_two(socket: &mut TcpStream, bytes: usize) -> std::io::Result<usize> {
    let zeros = vec![0u8; bytes];
    let (one, two) = zeros.split_at(bytes / 2);
    let mut parts =
        [one, two].map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
    let mut messages = [0, 1].map(|i| {
        // SAFETY: the structure is plain numbers and addresses.
        let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (&raw mut parts[i], 1);
        message
    });
    // SAFETY: two messages are given, whose bytes live until the call is over.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), 2, 0) };
    let sent = usize::try_from(sent).map_err(|_| std::io::Error::last_os_error())?;
    Ok(messages[..sent].iter().map(|message| message.msg_len as usize).sum())
}

#[test]
fn other_calls_that_write_sleep_as_well() {
    tier::needs!(Need::Root, BTF);
    for backend in BACKENDS {
        for write in [send_file as Write, send_two] {
            let (sends, calls, truth) = to_a_stalling_reader(backend, move |socket, bytes| {
                socket.set_write_timeout(LIMIT).unwrap();
                written(socket, bytes, write)
            });
            agrees_within(20, buffer_full(&sends), truth, &format!("{backend:?}, {calls:?}"));
        }
    }
}

/// A program that goes about something else after its call was cut short: it waits for room no
/// longer than there is none, and sleeps in no call.
#[test]
fn what_a_program_does_after_its_call_was_cut_short_is_no_wait() {
    tier::needs!(Need::Root, BTF);
    for backend in BACKENDS {
        let (sends, asleep) = traffic::in_namespace(None, move || {
            let (mut client, server) = pair();
            set(&client, libc::SOL_SOCKET, libc::SO_SNDBUF, 32 << 10);
            let config = on(port(server.local_addr().unwrap().port()), backend);
            let trace = Trace::start(&Config { calls: true, ..config });
            client.set_write_timeout(LIMIT).unwrap();
            let begun = Instant::now();
            let (mut left, mut nothing) = (10_000_000, 0);
            while nothing < 3 {
                match write(&mut client, left) {
                    Ok(taken) => left -= taken,
                    Err(_) => nothing += 1,
                }
            }
            let asleep = begun.elapsed();
            let reader = traffic::drain(server);
            std::thread::sleep(Duration::from_millis(500));
            assert!(write(&mut client, left.min(1_000)).is_ok());
            drop(client);
            reader.join().unwrap();
            (traffic::sends(&trace.finish().0), asleep)
        });
        let full = Duration::from(buffer_full(&sends));
        let most = asleep + Duration::from_millis(100);
        assert!((asleep / 2..=most).contains(&full), "{backend:?}: {full:?} without room, {asleep:?} asleep");
        let in_calls: Nanos = sends.iter().filter_map(|send| send.leg(Leg::Call).unwrap()).sum();
        assert!(Duration::from(in_calls) <= most, "{backend:?}: {in_calls} in calls, {asleep:?} asleep");
    }
}
