//! What a connection waits for between its segments: the applications, ACKs, and the path's round
//! trip.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;

use diagnose::{Limit, Way};
use lab::Side;
use record::Nanos;

use crate::bench::{answer, ask, at_once, captured, captured_at, drain, give, inside, join, path, pause, sysctls};
use crate::{assert_clean, in_the_lab};

pub fn set(stream: &TcpStream, level: i32, option: i32, value: i32) {
    // SAFETY: the option is an int, and its size is given.
    let done = unsafe {
        libc::setsockopt(stream.as_raw_fd(), level, option, (&raw const value).cast(), size_of::<i32>() as u32)
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Reads requests of 100 bytes and answers each with 10.
fn short_answers(mut stream: TcpStream) {
    let mut request = [0; 100];
    while stream.read_exact(&mut request).is_ok() {
        stream.write_all(&request[..10]).unwrap();
    }
}

/// Two writes for each request: the second waits for the ACK of the first under Nagle's algorithm.
fn in_two_writes(mut stream: TcpStream) {
    for _ in 0..25 {
        stream.write_all(&[1; 50]).unwrap();
        stream.write_all(&[2; 50]).unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
    }
}

#[test]
fn nagle_meets_a_delayed_ack() {
    in_the_lab!();
    at_once(&[
        &|| {
            // At the client and at the server: the stall is the same from both ends.
            for at in Side::ALL {
                let seen = captured_at(&path(1), at, in_two_writes, short_answers);
                let stall = seen.must("nagle_delayed_ack");
                assert!(stall.count >= 5 && stall.direction == Some(Way::ToServer), "{stall:?}");
                assert!(stall.text.contains("let the next 50 bytes"), "{}", stall.text);
                seen.mostly(Limit::AckWaiting, 0.5);
            }
        },
        &|| {
            // The same writes, but Nagle's algorithm is off: the ACKs are as late, and no one waits
            // for them.
            let lab = path(1);
            let nodelay = |stream: TcpStream| {
                stream.set_nodelay(true).unwrap();
                in_two_writes(stream);
            };
            let seen = captured(&lab, nodelay, short_answers);
            assert_clean(&seen);
            assert!(seen.share(Limit::AckWaiting) < 0.1, "{}", seen.account());
        },
        &|| {
            // A cork holds the part-filled segment back, not Nagle's algorithm: the application's
            // own doing.
            let lab = path(1);
            let corked = |mut stream: TcpStream| {
                for _ in 0..5 {
                    set(&stream, libc::IPPROTO_TCP, libc::TCP_CORK, 1);
                    stream.write_all(&[1; 50]).unwrap();
                    pause(60);
                    stream.write_all(&[2; 50]).unwrap();
                    set(&stream, libc::IPPROTO_TCP, libc::TCP_CORK, 0);
                    stream.read_exact(&mut [0; 10]).unwrap();
                }
            };
            let seen = captured(&lab, corked, short_answers);
            assert_clean(&seen);
            seen.mostly(Limit::Application, 0.8);
            seen.must("sender_application");
        },
    ]);
}

#[test]
fn a_delayed_ack_holds_a_full_segment() {
    in_the_lab!();
    // A window of one segment, by the route: the second half of each question waits for the ACK of
    // the first.
    let run = |window: u32, quick: bool| {
        let lab = path(1);
        inside(
            &lab,
            Side::A,
            "ip",
            &format!("route replace 10.77.0.2/32 dev eth0 initcwnd {window} cwnd lock {window}"),
        );
        if quick {
            inside(&lab, Side::B, "ip", "route replace 10.77.0.1/32 dev eth0 quickack 1");
        }
        // The kernel takes the route's limit from what an earlier connection left in its table of
        // paths.
        join(&lab, Side::B.ipv4().into(), ask(1, 100, 100), answer(100, 100));
        captured(&lab, ask(20, 2 * 1448, 10), answer(2 * 1448, 10))
    };
    at_once(&[
        &|| {
            let seen = run(1, false);
            let stall = seen.must("delayed_ack_stall");
            assert!(stall.count >= 5 && stall.direction == Some(Way::ToServer), "{stall:?}");
            seen.must_not(&["nagle_delayed_ack", "loss"]);
            seen.mostly(Limit::AckWaiting, 0.5);
        },
        &|| {
            let seen = run(1, true);
            seen.must_not(&["delayed_ack_stall"]);
            assert_clean(&seen);
        },
        &|| {
            let seen = run(2, false);
            seen.must_not(&["delayed_ack_stall"]);
            assert_clean(&seen);
        },
    ]);
}

#[test]
fn a_dialogue_of_round_trips() {
    in_the_lab!();
    at_once(&[
        &|| {
            let seen = captured(&path(10), ask(20, 100, 100), answer(100, 100));
            assert_clean(&seen);
            let turns = seen.must("round_trips");
            assert_eq!(turns.count, 20);
            assert!(turns.cost_ns >= Nanos::from_millis(20 * 20), "{turns:?}");
            seen.mostly(Limit::Application, 0.6);
        },
        &|| {
            // As many questions and answers, asked all at once.
            let at_once = |mut stream: TcpStream| {
                stream.write_all(&[1; 20 * 100]).unwrap();
                stream.read_exact(&mut [0; 20 * 100]).unwrap();
            };
            let seen = captured(&path(10), at_once, answer(100, 100));
            seen.must_not(&["round_trips"]);
            assert_clean(&seen);
        },
        &|| {
            // As many turns, but the answers take thought: the path's part is small.
            let thoughtful = |mut stream: TcpStream| {
                while stream.read_exact(&mut [0; 100]).is_ok() {
                    pause(60);
                    stream.write_all(&[2; 100]).unwrap();
                }
            };
            let seen = captured(&path(3), ask(10, 100, 100), thoughtful);
            seen.must_not(&["round_trips"]);
            seen.mostly(Limit::Application, 0.8);
        },
    ]);
}

#[test]
fn a_sender_with_nothing_to_send() {
    in_the_lab!();
    at_once(&[
        &|| {
            let drip = |mut stream: TcpStream| {
                for _ in 0..10 {
                    give(&mut stream, 20_000);
                    pause(100);
                }
            };
            let seen = captured(&path(5), drip, drain);
            let thinking = seen.must("sender_application");
            assert!(thinking.cost_ns >= Nanos::from_millis(800), "{thinking:?}");
            seen.mostly(Limit::Application, 0.7);
            assert_clean(&seen);
        },
        &|| {
            // As much time goes by, but the path takes it.
            let seen = captured(&path(100), |mut s| give(&mut s, 400_000), drain);
            seen.must_not(&["sender_application"]);
            assert_clean(&seen);
        },
    ]);
}

#[test]
fn small_segments_one_after_the_other() {
    in_the_lab!();
    // Eight at a time, well within the window, then a pause of two round trips: their ACKs let
    // nothing go.
    let drip = |nodelay: bool| {
        move |mut stream: TcpStream| {
            stream.set_nodelay(nodelay).unwrap();
            for _ in 0..30 {
                for _ in 0..8 {
                    stream.write_all(&[7; 30]).unwrap();
                }
                pause(20);
            }
        }
    };
    at_once(&[
        &|| {
            let seen = captured(&path(5), drip(true), drain);
            let tiny = seen.must("tiny_segments");
            assert!(tiny.count >= 200, "{tiny:?}");
            seen.mostly(Limit::Application, 0.5);
        },
        &|| {
            let seen = captured(&path(5), drip(false), drain);
            seen.must_not(&["tiny_segments"]);
        },
        &|| {
            // As many and as small, but each waits for its answer.
            let seen = captured(&path(1), ask(120, 30, 30), answer(30, 30));
            seen.must_not(&["tiny_segments"]);
        },
    ]);
}

#[test]
fn a_small_window_after_a_pause() {
    in_the_lab!();
    let run = |restarts: &str| {
        let lab = path(20);
        sysctls(&lab, Side::A, &[("tcp_slow_start_after_idle", restarts)]);
        let twice = |mut stream: TcpStream| {
            give(&mut stream, 1 << 20);
            pause(2_200);
            give(&mut stream, 1 << 20);
        };
        captured(&lab, twice, drain)
    };
    at_once(&[
        &|| {
            let seen = run("1");
            let restart = seen.must("slow_start_after_idle");
            assert_eq!((restart.count, restart.direction), (1, Some(Way::ToServer)));
            assert!(restart.cost_ns >= Nanos::from_millis(40), "{restart:?}");
            seen.mostly(Limit::Application, 0.5);
        },
        &|| {
            let seen = run("0");
            seen.must_not(&["slow_start_after_idle"]);
            assert_eq!(seen.report.to_server.idle_times, 1, "{}", seen.account());
        },
    ]);
}
