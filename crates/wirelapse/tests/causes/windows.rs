//! What bounds the bytes in flight: the receiver's window, the sender's, and the queue on the path.

use std::io::Read as _;
use std::net::TcpStream;

use diagnose::{Limit, Side as End, Way};
use lab::{BitRate, Config, Direction, Loss, Side};
use record::Nanos;

use crate::bench::{
    at_once, captured, captured_at, delayed, drain, inside, join, lab, path, pause, send, shaped, sysctls, uneven,
};
use crate::{assert_clean, in_the_lab};

#[test]
fn a_side_without_window_scaling_is_named() {
    in_the_lab!();
    let run = |side: Side, name: &str| {
        let lab = path(10);
        sysctls(&lab, side, &[("tcp_window_scaling", "0")]);
        let seen = captured(&lab, send(2 << 20), drain);
        assert_eq!(
            seen.report.window_scaling.left_out_by,
            Some(if side == Side::A { End::Client } else { End::Server })
        );
        let text = &seen.must("window_scaling_missing").text;
        assert!(text.contains(&format!("the {name} left it out")), "{text}");
        seen.must_not(&["receive_window", "receiver_application", "zero_window"]);
        seen.mostly(Limit::ReceiveWindow, 0.5);
    };
    at_once(&[&|| run(Side::A, "client"), &|| run(Side::B, "server"), &|| {
        // Missing as well, but the transfer is over before the window mattered.
        let lab = path(10);
        sysctls(&lab, Side::A, &[("tcp_window_scaling", "0")]);
        let seen = captured(&lab, send(40_000), drain);
        assert_eq!(seen.report.window_scaling.in_use, Some(false));
        assert_clean(&seen);
    }]);
}

/// The text on a world without window scaling, on its own path: 25.4 ms and 1 Gbit/s. Its 19.8
/// Mbit/s came of 65,535 bytes each 25.4 ms, which is 20.6.
#[test]
fn the_world_without_window_scaling() {
    in_the_lab!();
    let way = Direction { delay: Nanos::from_micros(12_700), rate: Some(BitRate::mbit(1_000)), ..Direction::default() };
    let run = |scaling: &str, bytes: usize| {
        let lab = lab(&Config::symmetric(way.clone()));
        sysctls(&lab, Side::A, &[("tcp_window_scaling", scaling)]);
        captured(&lab, send(bytes), drain)
    };
    at_once(&[
        &|| {
            let seen = run("0", 4 << 20);
            let f = seen.must("window_scaling_missing");
            assert!(f.text.contains("because the client left it out"), "{}", f.text);
            assert!(f.text.contains("cannot pass 65,535 bytes"), "{}", f.text);
            let words: Vec<&str> = f.text.split(' ').collect();
            let unit = words.iter().position(|w| *w == "Mbit/s").unwrap_or_else(|| panic!("a ceiling: {}", f.text));
            let ceiling: f64 = words[unit - 1].parse().unwrap();
            // A busy machine makes the RTT longer, never shorter.
            assert!((15.0..=20.7).contains(&ceiling), "{}", f.text);
            let r = &seen.report;
            let rate = r.to_server.unique_bytes as f64 * 8e3 / r.duration_ns.0 as f64;
            assert!(rate < 20.7, "{rate} Mbit/s through the window");
            assert!(seen.report.verdict.to_string().contains("window scaling"), "{}", r.verdict);
            seen.mostly(Limit::ReceiveWindow, 0.6);
        },
        &|| {
            let seen = run("1", 4 << 20);
            assert_clean(&seen);
            assert_eq!(seen.report.window_scaling.in_use, Some(true));
            assert!(seen.report.to_client.max_window > 65_535, "{}", seen.account());
        },
    ]);
}

#[test]
fn a_receive_buffer_too_small_for_the_path() {
    in_the_lab!();
    let run = |memory: &str, ms: u64| {
        let lab = path(ms);
        sysctls(&lab, Side::B, &[("tcp_rmem", memory)]);
        captured(&lab, send(1_500_000), drain)
    };
    at_once(&[
        &|| {
            let seen = run("4096 65536 65536", 20);
            let f = seen.must("receive_window");
            assert_eq!(f.direction, Some(Way::ToServer));
            seen.must_not(&["receiver_application", "window_scaling_missing", "zero_window", "send_buffer"]);
            seen.mostly(Limit::ReceiveWindow, 0.5);
        },
        &|| {
            let seen = run("4096 6291456 6291456", 20);
            seen.must_not(&["receive_window"]);
            assert_clean(&seen);
        },
    ]);
}

#[test]
fn a_reader_slower_than_the_sender() {
    in_the_lab!();
    let slow = |mut stream: TcpStream| {
        let mut buffer = vec![0; 32 << 10];
        // Long enough for the buffers to fill, then at a rate below what the sender would give.
        pause(500);
        while stream.read(&mut buffer).unwrap_or(0) > 0 {
            pause(10);
        }
    };
    at_once(&[
        &|| {
            let lab = path(2);
            sysctls(&lab, Side::B, &[("tcp_rmem", "4096 65536 131072")]);
            let seen = captured(&lab, send(2 << 20), slow);
            seen.must("receiver_application");
            let closed = seen.must("zero_window");
            assert!(closed.cost_ns >= Nanos::from_millis(200), "{closed:?}");
            seen.must_not(&["loss", "window_scaling_missing", "receive_window"]);
            seen.mostly(Limit::ReceiveWindow, 0.6);
        },
        &|| {
            // The reader sleeps as long, but everything fits the window meanwhile.
            let seen = captured(&path(2), send(30_000), slow);
            seen.must_not(&["receive_window"]);
            assert_clean(&seen);
        },
        &|| {
            // A window as small, never closed: the reader keeps up. At a rate, so that a window's
            // worth does not come in one piece, which no reader could take before the next ACK
            // shows how full its buffer is.
            let lab = uneven(shaped(20, 20, 200), 20);
            sysctls(&lab, Side::B, &[("tcp_rmem", "4096 65536 131072")]);
            let seen = captured_at(&lab, Side::B, send(1 << 20), drain);
            seen.must_not(&["receiver_application", "zero_window"]);
        },
    ]);
}

#[test]
fn a_send_buffer_too_small_for_the_path() {
    in_the_lab!();
    // Held by the route at so many segments, which looks the same from outside: on one level
    // however long.
    let run = |window: Option<u32>| {
        let lab = path(15);
        if let Some(n) = window {
            inside(&lab, Side::A, "ip", &format!("route replace 10.77.0.2/32 dev eth0 cwnd lock {n}"));
        }
        // The kernel takes the limit from what an earlier connection left in its table of paths.
        join(&lab, Side::B.ipv4().into(), send(10_000), drain);
        captured(&lab, send(1 << 20), drain)
    };
    at_once(&[
        &|| {
            let seen = run(Some(20));
            let f = seen.must("send_buffer");
            assert_eq!(f.direction, Some(Way::ToServer));
            seen.must_not(&["congestion_window", "receive_window", "bufferbloat"]);
            // A busy machine wakes the writer late once the buffer has room, and that is the
            // application's time.
            let (window, application) = (seen.share(Limit::CongestionWindow), seen.share(Limit::Application));
            assert!(window > 0.1 && window + application > 0.5, "{}", seen.account());
        },
        &|| {
            let seen = run(None);
            seen.must_not(&["send_buffer"]);
            assert_clean(&seen);
        },
    ]);
}

#[test]
fn a_congestion_window_that_losses_keep_small() {
    in_the_lab!();
    at_once(&[
        &|| {
            let lossy = Direction { loss: Loss::Independent(0.01), ..delayed(20) };
            let seen = captured(&uneven(lossy, 20), send(1_500_000), drain);
            let f = seen.must("congestion_window");
            assert!(f.text.contains("retransmissions had cut it"), "{}", f.text);
            seen.must_not(&["send_buffer", "bufferbloat", "receive_window"]);
            seen.mostly(Limit::CongestionWindow, 0.4);
        },
        &|| {
            // Nothing lost: the window grows until everything is through.
            let seen = captured(&path(50), send(600_000), drain);
            seen.must_not(&["congestion_window", "send_buffer", "bufferbloat"]);
            seen.mostly(Limit::SlowStart, 0.4);
            assert_clean(&seen);
        },
    ]);
}

#[test]
fn a_queue_that_is_too_long() {
    in_the_lab!();
    at_once(&[
        &|| {
            let seen = captured(&uneven(shaped(5, 10, 2_500), 5), send(2 << 20), drain);
            let f = seen.must("bufferbloat");
            assert_eq!(f.direction, Some(Way::ToServer));
            // A queue that fills is no step of the path's delay.
            seen.must_not(&["path_delay_step", "receive_window", "send_buffer"]);
            seen.mostly(Limit::PathRate, 0.5);
        },
        &|| {
            // As long a path, with no queue at all.
            let seen = captured(&path(100), send(800_000), drain);
            seen.must_not(&["bufferbloat", "path_delay_step"]);
            assert_clean(&seen);
        },
        &|| {
            // The same rate behind a queue of 10 ms.
            let seen = captured(&uneven(shaped(5, 10, 10), 5), send(1 << 20), drain);
            seen.must_not(&["bufferbloat"]);
        },
    ]);
}

#[test]
fn timestamps_at_the_paths_rate() {
    in_the_lab!();
    let run = |stamps: &str, bytes: usize| {
        let lab = uneven(shaped(1, 100, 20), 1);
        sysctls(&lab, Side::A, &[("tcp_timestamps", stamps)]);
        captured(&lab, send(bytes), drain)
    };
    at_once(&[
        &|| {
            let seen = run("1", 16 << 20);
            let f = seen.must("timestamps");
            assert!(f.text.contains("12 bytes of every packet"), "{}", f.text);
            seen.mostly(Limit::PathRate, 0.5);
        },
        &|| {
            let seen = run("0", 16 << 20);
            seen.must_not(&["timestamps"]);
            assert_eq!(seen.report.timestamps.left_out_by, Some(End::Client));
        },
    ]);
}
