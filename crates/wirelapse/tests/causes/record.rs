//! Records the captures that `crates/diagnose/tests/diagnose/places.rs` evaluates: each cause once,
//! at both ends at the same moment. Run by hand where a cause is added (root):
//! `cargo test -p wirelapse --test causes record_all -- --ignored --nocapture`; `RECORD=a,b`
//! records these alone. `record_all_unseen` records the same causes with other delays, rates and
//! sizes.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use lab::{BitRate, Config, Depth, Direction, Lab, Loss, Recording, Reorder, Side};
use record::Nanos;

use crate::bench::{
    Dump, Part, answer, ask, delayed, drain, give, inside, join, lab, path, pause, send, shaped, sysctls, uneven,
};
use crate::in_the_lab;
use crate::waits::set;

/// Records `client` against `server` as `name`.
fn record(name: &str, lab: &Lab, client: impl Part, server: impl Part) {
    record_while(name, lab, || {
        join(lab, Side::B.ipv4().into(), client, server);
    });
}

fn record_while(name: &str, lab: &Lab, run: impl FnOnce()) {
    let dumps = Side::ALL.map(|side| Dump::start(lab, side));
    run();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../diagnose/tests/captures");
    for (dump, end) in dumps.into_iter().zip(["a", "b"]) {
        keep(dump.finish().path(), &folder, name, end);
    }
}

/// Compresses a capture, with its payload blanked, into `folder` as `NAME.END.pcap.zst`.
pub fn keep(file: &Path, folder: &Path, name: &str, end: &str) {
    let mut bytes = std::fs::read(file).unwrap();
    blank_payload(&mut bytes);
    compress(&bytes, folder, name, end);
}

/// Records `client` against `server` as `name`, over a path that damages this share of the data
/// packets on their way to b: between the path and b's capture a byte of their payload is changed.
/// Checksums are computed by the hosts and verified, as between machines of which the network cards
/// leave that to the kernel, and the captures hold every byte.
fn record_damaged(name: &str, lab: &Lab, share: f64, client: impl Part, server: impl Part) {
    for side in Side::ALL {
        inside(lab, side, "ethtool", &format!("-K {} tx off", lab::INTERFACE));
    }
    let object = tempfile::Builder::new().suffix(".o").tempfile().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/causes/damage.bpf.c");
    let mut clang = Command::new("clang");
    clang.args(["-target", "bpf", "-O2", "-g", "-Wall", "-Werror", "-c"]).arg(source);
    clang.arg(format!("-DTHRESHOLD={}u", (share * f64::from(u32::MAX)) as u32)).arg("-o").arg(object.path());
    assert!(clang.status().unwrap().success());
    let program = format!("link set dev {} xdpgeneric obj {} sec xdp", lab::INTERFACE, object.path().display());
    inside(lab, Side::B, "ip", &program);
    let dumps = Side::ALL.map(|side| Dump::of_bytes(lab, side, "0"));
    join(lab, Side::B.ipv4().into(), client, server);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../diagnose/tests/captures");
    for (dump, end) in dumps.into_iter().zip(["a", "b"]) {
        compress(&std::fs::read(dump.finish().path()).unwrap(), &folder, name, end);
    }
}

fn compress(bytes: &[u8], folder: &Path, name: &str, end: &str) {
    let to = folder.join(format!("{name}.{end}.pcap.zst"));
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    let mut zstd = Command::new("zstd");
    zstd.args(["-19", "-q", "-f", "-o"]).arg(&to).stdin(std::process::Stdio::piped());
    let mut compressor = zstd.spawn().unwrap();
    compressor.stdin.take().unwrap().write_all(bytes).unwrap();
    assert!(compressor.wait().unwrap().success());
    println!("{name}.{end}: {} bytes", to.metadata().unwrap().len());
}

/// Headers are what is looked at: payload becomes zeros, which take no room.
fn blank_payload(file: &mut [u8]) {
    let mut at = 24;
    while at + 16 <= file.len() {
        let kept = u32::from_le_bytes(file[at + 8..at + 12].try_into().unwrap()) as usize;
        let frame = &mut file[at + 16..at + 16 + kept];
        let ip = 14;
        let tcp = ip + usize::from(frame[ip] & 15) * 4;
        if frame[12..14] == [8, 0] && tcp + 12 < frame.len() {
            let payload = (tcp + usize::from(frame[tcp + 12] >> 4) * 4).min(frame.len());
            frame[payload..].fill(0);
        }
        at += 16 + kept;
    }
}

/// Asks `turns` times and waits between an answer and the next question.
fn slowly(turns: usize, question: usize, reply: usize, wait: u64) -> impl Part {
    move |mut stream| {
        stream.set_nodelay(true).unwrap();
        for _ in 0..turns {
            stream.write_all(&vec![1; question]).unwrap();
            stream.read_exact(&mut vec![0; reply]).unwrap();
            pause(wait);
        }
    }
}

/// Answers after some thought.
fn thoughtfully(question: usize, reply: usize, think: u64) -> impl Part {
    move |mut stream| {
        stream.set_nodelay(true).unwrap();
        while stream.read_exact(&mut vec![0; question]).is_ok() {
            pause(think);
            if stream.write_all(&vec![2; reply]).is_err() {
                break;
            }
        }
    }
}

fn slow_reader(mut stream: TcpStream) {
    let mut buffer = vec![0; 32 << 10];
    pause(500);
    while stream.read(&mut buffer).unwrap_or(0) > 0 {
        pause(10);
    }
}

fn in_two_writes(mut stream: TcpStream) {
    for _ in 0..25 {
        stream.write_all(&[1; 50]).unwrap();
        stream.write_all(&[2; 50]).unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
    }
}

fn window_scaling_off(lab: &Lab, side: Side) {
    sysctls(lab, side, &[("tcp_window_scaling", "0")]);
}

/// Holds the congestion window by the route, which the kernel takes from what an earlier connection
/// left in its table of paths.
fn hold_window(lab: &Lab, segments: u32) {
    inside(lab, Side::A, "ip", &format!("route replace 10.77.0.2/32 dev eth0 cwnd lock {segments}"));
    join(lab, Side::B.ipv4().into(), send(10_000), drain);
}

/// A path with this way from a to b, and one of `ms` back on which ACKs are collected for `slot_ms`
/// and then delivered together, as some radio and cable links do.
fn in_bunches(there: Direction, ms: u64, slot_ms: u64) -> Lab {
    let slot = format!("{slot_ms}\n").repeat(8);
    let recorded = [None, Some(Arc::new(Recording::read("bunches", &slot).unwrap()))];
    lab(&Config { a_to_b: there, recorded, ..Config::symmetric(delayed(ms)) })
}

/// Sends `bytes` at no more than `rate` bytes a second, by pacing.
fn paced(rate: i32, bytes: usize) -> impl Part {
    move |mut stream| {
        set(&stream, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, rate);
        give(&mut stream, bytes);
    }
}

fn dead(ms: u64) -> Direction {
    Direction { loss: Loss::Independent(1.0), ..delayed(ms) }
}

fn shaped_both(ms: u64, mbit: u32, queue_ms: u64) -> Lab {
    lab(&Config::symmetric(shaped(ms, mbit, queue_ms)))
}

/// Runs `run` while the way from `side` stands still now and then, as a radio link or a paused
/// machine does: nothing arrives for `ms`, then all of it does.
fn standing_still(lab: &Lab, side: Side, way: &Direction, [ms, every]: [u64; 2], run: impl FnOnce()) {
    let over = std::sync::atomic::AtomicBool::new(false);
    let is_over = || over.load(std::sync::atomic::Ordering::Relaxed);
    thread::scope(|scope| {
        scope.spawn(|| {
            pause(every);
            while !is_over() {
                // Whoever comes next waits so much longer, and the path keeps order: all behind it
                // wait for it.
                let held = Direction { delay: way.delay + Nanos::from_millis(ms), ..way.clone() };
                lab.path().change(side, &held).unwrap();
                pause(3);
                lab.path().change(side, way).unwrap();
                pause(ms + every);
            }
        });
        run();
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// Server behind TLS: two round trips of a handshake, then requests that the server thinks about.
fn tls_client(turns: usize) -> impl Part {
    move |mut stream| {
        stream.set_nodelay(true).unwrap();
        stream.write_all(&[1; 517]).unwrap();
        stream.read_exact(&mut [0; 3_000]).unwrap();
        stream.write_all(&[1; 80]).unwrap();
        for _ in 0..turns {
            stream.write_all(&[1; 300]).unwrap();
            stream.read_exact(&mut [0; 2_000]).unwrap();
        }
    }
}

fn tls_server(think: u64) -> impl Part {
    move |mut stream| {
        stream.set_nodelay(true).unwrap();
        stream.read_exact(&mut [0; 517]).unwrap();
        stream.write_all(&[2; 3_000]).unwrap();
        stream.read_exact(&mut [0; 80]).unwrap();
        while stream.read_exact(&mut [0; 300]).is_ok() {
            pause(think);
            if stream.write_all(&[2; 2_000]).is_err() {
                break;
            }
        }
    }
}

/// What a scene is recorded for.
#[derive(Clone, Copy)]
enum Set {
    /// The captures that rules are made with.
    Tuned,
    /// Others, of other delays, rates and sizes, with which no rule is made.
    Unseen,
    /// Others again: each number so far on the way from the first set's to the second's.
    Between(f64),
}

impl Set {
    fn of<T: Parameter>(self, tuned: T, unseen: T) -> T {
        match self {
            Self::Tuned => tuned,
            Self::Unseen => unseen,
            Self::Between(share) => tuned.towards(unseen, share),
        }
    }
}

/// What differs between sets.
trait Parameter: Copy {
    /// So far on the way to `other`.
    fn towards(self, other: Self, share: f64) -> Self;
}

macro_rules! numbers {
    ($($number:ty: $wide:expr),*) => {
        $(impl Parameter for $number {
            fn towards(self, other: Self, share: f64) -> Self {
                let [from, to] = [self, other].map($wide);
                (from + (to - from) * share).round().max(1.0) as Self
            }
        })*
    };
}

numbers!(u16: f64::from, u32: f64::from, i32: f64::from, u64: |n| n as f64, usize: |n| n as f64);

impl Parameter for f64 {
    fn towards(self, other: Self, share: f64) -> Self {
        self + (other - self) * share
    }
}

impl Parameter for &str {
    fn towards(self, other: Self, _: f64) -> Self {
        other
    }
}

type Scene = (&'static str, fn(&str, Set));

const SCENES: &[Scene] = &[
    ("path_rate", |n, v| {
        record(
            n,
            &uneven(shaped(v.of(10, 24), v.of(20, 33), v.of(40, 200)), v.of(10, 24)),
            send(v.of(2 << 20, 3 << 20)),
            drain,
        );
    }),
    ("path_rate_no_stamps", |n, v| {
        let lab = uneven(shaped(v.of(10, 18), v.of(20, 12), v.of(40, 150)), v.of(10, 18));
        sysctls(&lab, Side::A, &[("tcp_timestamps", "0")]);
        record(n, &lab, send(v.of(2 << 20, 1 << 20)), drain);
    }),
    ("path_rate_download", |n, v| {
        let lab = lab(&Config {
            b_to_a: shaped(v.of(10, 22), v.of(20, 30), v.of(40, 200)),
            ..Config::symmetric(delayed(v.of(10, 22)))
        });
        record(
            n,
            &lab,
            |mut s| {
                s.write_all(&[1; 100]).unwrap();
                drain(s);
            },
            |mut s: TcpStream| {
                s.read_exact(&mut [0; 100]).unwrap();
                give(&mut s, v.of(2 << 20, 3 << 20));
            },
        );
    }),
    ("bufferbloat", |n, v| {
        record(n, &uneven(shaped(v.of(5, 12), v.of(10, 16), 2_500), v.of(5, 12)), send(v.of(2 << 20, 3 << 20)), drain);
    }),
    ("bufferbloat_no_stamps", |n, v| {
        let lab = uneven(shaped(v.of(5, 9), v.of(10, 7), 2_500), v.of(5, 9));
        sysctls(&lab, Side::A, &[("tcp_timestamps", "0")]);
        record(n, &lab, send(v.of(2 << 20, 1_500_000)), drain);
    }),
    ("loss_1_percent", |n, v| {
        let there = Direction { loss: Loss::Independent(v.of(0.01, 0.02)), ..delayed(v.of(20, 32)) };
        record(n, &uneven(there, v.of(20, 32)), send(v.of(1_500_000, 1_000_000)), drain);
    }),
    ("loss_in_bursts", |n, v| {
        let there = Direction {
            loss: Loss::bursts(v.of(0.06, 0.04), v.of(15.0, 9.0)).unwrap(),
            ..shaped(v.of(5, 13), v.of(200, 120), 500)
        };
        record(n, &uneven(there, v.of(5, 13)), send(v.of(3 << 20, 2 << 20)), drain);
    }),
    ("outage", |n, v| {
        let ms = v.of(10, 26);
        let lab = path(ms);
        let cut_off = |mut stream: TcpStream| {
            give(&mut stream, v.of(300_000, 500_000));
            pause(50);
            lab.path().change(Side::A, &dead(ms)).unwrap();
            give(&mut stream, 20_000);
            pause(v.of(1_500, 900));
            lab.path().change(Side::A, &delayed(ms)).unwrap();
            give(&mut stream, v.of(300_000, 500_000));
        };
        record(n, &lab, cut_off, drain);
    }),
    ("reordering", |n, v| {
        let reorder = Some(Reorder { share: v.of(0.02, 0.03), by: Nanos::from_millis(v.of(12, 20)) });
        let lab = uneven(
            Direction { rate: Some(BitRate::mbit(v.of(50, 30))), reorder, ..delayed(v.of(10, 17)) },
            v.of(10, 17),
        );
        sysctls(&lab, Side::A, &[("tcp_recovery", "3")]);
        record(n, &lab, send(2 << 20), drain);
    }),
    ("jitter", |n, v| {
        let restless = Direction { jitter: Nanos::from_millis(v.of(8, 12)), ..delayed(v.of(20, 35)) };
        record(n, &uneven(restless, v.of(20, 35)), send(v.of(1 << 20, 1_500_000)), drain);
    }),
    ("receive_window", |n, v| {
        let lab = path(v.of(20, 12));
        sysctls(&lab, Side::B, &[("tcp_rmem", v.of("4096 65536 65536", "4096 131072 131072"))]);
        record(n, &lab, send(v.of(1_500_000, 2 << 20)), drain);
    }),
    ("no_scaling_client", |n, v| {
        let lab = path(v.of(10, 27));
        window_scaling_off(&lab, Side::A);
        record(n, &lab, send(v.of(2 << 20, 3 << 20)), drain);
    }),
    ("no_scaling_server", |n, v| {
        let lab = path(v.of(10, 33));
        window_scaling_off(&lab, Side::B);
        record(n, &lab, send(v.of(2 << 20, 3 << 20)), drain);
    }),
    ("slow_reader", |n, v| {
        let lab = path(v.of(2, 6));
        sysctls(&lab, Side::B, &[("tcp_rmem", v.of("4096 65536 131072", "4096 65536 262144"))]);
        record(n, &lab, send(v.of(2 << 20, 3 << 20)), slow_reader);
    }),
    ("closed_window", |n, v| {
        let lab = path(v.of(5, 14));
        sysctls(&lab, Side::B, &[("tcp_rmem", "4096 65536 65536")]);
        record(n, &lab, send(v.of(400_000, 600_000)), move |s: TcpStream| {
            pause(v.of(2_500, 1_700));
            drain(s);
        });
    }),
    ("send_buffer", |n, v| {
        let small_buffer = move |s: TcpStream| {
            socket2::SockRef::from(&s).set_send_buffer_size(v.of(24 << 10, 12 << 10)).unwrap();
            send(v.of(1 << 20, 2 << 20))(s);
        };
        record(n, &path(v.of(15, 22)), small_buffer, drain);
    }),
    ("held_window", |n, v| {
        let lab = path(v.of(15, 25));
        hold_window(&lab, v.of(20, 34));
        record(n, &lab, send(v.of(1 << 20, 2 << 20)), drain);
    }),
    ("slow_start", |n, v| record(n, &path(v.of(50, 75)), send(v.of(600_000, 900_000)), drain)),
    ("nagle", |n, v| {
        record(n, &path(v.of(1, 4)), in_two_writes, |mut stream: TcpStream| {
            let mut request = [0; 100];
            while stream.read_exact(&mut request).is_ok() {
                stream.write_all(&request[..10]).unwrap();
            }
        });
    }),
    ("delayed_ack", |n, v| {
        let lab = path(v.of(1, 3));
        hold_window(&lab, 1);
        record(n, &lab, ask(v.of(20, 30), 2 * 1448, 10), answer(2 * 1448, 10));
    }),
    ("round_trips", |n, v| {
        record(
            n,
            &path(v.of(10, 31)),
            ask(v.of(20, 16), v.of(100, 700), v.of(100, 900)),
            answer(v.of(100, 700), v.of(100, 900)),
        );
    }),
    ("sender_pauses", |n, v| {
        record(
            n,
            &path(v.of(5, 15)),
            move |mut s: TcpStream| {
                for _ in 0..10 {
                    give(&mut s, v.of(20_000, 31_000));
                    pause(v.of(100, 170));
                }
            },
            drain,
        );
    }),
    ("bursts", |n, v| {
        record(
            n,
            &uneven(shaped(v.of(10, 16), v.of(100, 60), 100), v.of(10, 16)),
            move |mut s: TcpStream| {
                for _ in 0..15 {
                    give(&mut s, v.of(65_536, 90_000));
                    pause(v.of(80, 140));
                }
            },
            drain,
        );
    }),
    ("server_thinks", |n, v| {
        record(
            n,
            &path(v.of(5, 18)),
            ask(v.of(12, 9), 200, v.of(3_000, 9_000)),
            thoughtfully(200, v.of(3_000, 9_000), v.of(120, 260)),
        );
    }),
    ("server_thinks_tls", |n, v| record(n, &path(v.of(10, 23)), tls_client(v.of(4, 6)), tls_server(v.of(400, 550)))),
    ("first_byte_late", |n, v| {
        record(
            n,
            &path(v.of(10, 28)),
            ask(1, v.of(200, 800), v.of(200_000, 400_000)),
            thoughtfully(v.of(200, 800), v.of(200_000, 400_000), v.of(2_000, 3_300)),
        );
    }),
    ("client_thinks", |n, v| {
        record(
            n,
            &path(v.of(5, 11)),
            slowly(v.of(10, 7), 200, v.of(3_000, 6_000), v.of(150, 320)),
            answer(200, v.of(3_000, 6_000)),
        );
    }),
    ("tiny_segments", |n, v| {
        record(
            n,
            &path(v.of(5, 9)),
            move |mut s: TcpStream| {
                s.set_nodelay(true).unwrap();
                for _ in 0..30 {
                    for _ in 0..v.of(8, 11) {
                        s.write_all(&vec![7; v.of(30, 70)]).unwrap();
                    }
                    pause(v.of(20, 35));
                }
            },
            drain,
        );
    }),
    ("idle_restart", |n, v| {
        record(
            n,
            &path(v.of(20, 34)),
            move |mut s: TcpStream| {
                give(&mut s, v.of(1 << 20, 1_600_000));
                pause(v.of(2_200, 3_100));
                give(&mut s, v.of(1 << 20, 1_600_000));
            },
            drain,
        );
    }),
    ("mtu_black_hole", |n, v| {
        let lab = uneven(Direction { black_hole: Some(v.of(1_400, 1_300)), ..delayed(v.of(5, 21)) }, v.of(5, 21));
        record(
            n,
            &lab,
            move |mut s: TcpStream| {
                s.write_all(&[1; 300]).unwrap();
                s.read_exact(&mut [0; 10]).unwrap();
                give(&mut s, v.of(40_000, 60_000));
                pause(2_600);
            },
            |mut s: TcpStream| {
                s.read_exact(&mut [0; 300]).unwrap();
                s.write_all(&[2; 10]).unwrap();
                s.set_read_timeout(Some(std::time::Duration::from_millis(2_700))).unwrap();
                drain(s);
            },
        );
    }),
    ("delay_step", |n, v| {
        let lab = path(v.of(2, 7));
        let moved = |mut s: TcpStream| {
            s.set_nodelay(true).unwrap();
            for turn in 0..v.of(200, 240) {
                if turn == v.of(100, 110) {
                    Side::ALL.into_iter().for_each(|side| lab.path().change(side, &delayed(v.of(6, 15))).unwrap());
                }
                s.write_all(&[1; 50]).unwrap();
                s.read_exact(&mut [0; 50]).unwrap();
            }
        };
        record(n, &lab, moved, answer(50, 50));
    }),
    ("syn_retry", |n, v| {
        let ms = v.of(10, 29);
        let lab = uneven(dead(ms), ms);
        thread::scope(|scope| {
            scope.spawn(|| {
                pause(800);
                lab.path().change(Side::A, &delayed(ms)).unwrap();
            });
            record(n, &lab, ask(v.of(12, 20), 50, 50), answer(50, 50));
        });
    }),
    ("reset", |n, v| {
        record(
            n,
            &path(v.of(5, 17)),
            move |mut s: TcpStream| {
                give(&mut s, v.of(100_000, 160_000));
                pause(v.of(100, 250));
                socket2::SockRef::from(&s).set_linger(Some(std::time::Duration::ZERO)).unwrap();
            },
            drain,
        );
    }),
    ("policer", |n, v| {
        record(
            n,
            &uneven(shaped(v.of(10, 19), v.of(10, 15), v.of(3, 4)), v.of(10, 19)),
            send(v.of(1 << 20, 1_500_000)),
            drain,
        );
    }),
    ("ecn_queue", |n, v| {
        let there = Direction {
            ecn: Some(Depth::Time(Nanos::from_millis(v.of(8, 12)))),
            ..shaped(v.of(10, 15), v.of(20, 35), 200)
        };
        let lab = uneven(there, v.of(10, 15));
        Side::ALL.into_iter().for_each(|side| sysctls(&lab, side, &[("tcp_ecn", "1")]));
        record(n, &lab, send(v.of(2 << 20, 3 << 20)), drain);
    }),
    ("stalls", |n, v| {
        let way = shaped(v.of(10, 17), v.of(30, 18), 200);
        let lab = uneven(way.clone(), v.of(10, 17));
        sysctls(&lab, Side::A, &[("tcp_congestion_control", "bbr")]);
        standing_still(&lab, Side::A, &way, [v.of(140, 90), v.of(300, 200)], || {
            record(n, &lab, send(v.of(6 << 20, 4 << 20)), drain);
        });
    }),
    ("stalls_of_acks", |n, v| {
        let back = delayed(v.of(12, 8));
        let lab = path(v.of(12, 8));
        hold_window(&lab, v.of(30, 44));
        standing_still(&lab, Side::B, &back, [v.of(110, 160), v.of(250, 400)], || {
            record(n, &lab, send(v.of(3 << 20, 7 << 20)), drain);
        });
    }),
    ("lost_acks", |n, v| {
        let back = Direction { loss: Loss::Independent(v.of(0.2, 0.3)), ..delayed(v.of(10, 14)) };
        record(
            n,
            &lab(&Config {
                a_to_b: shaped(v.of(10, 14), v.of(20, 28), v.of(40, 55)),
                b_to_a: back,
                ..Config::symmetric(delayed(v.of(10, 14)))
            }),
            send(v.of(2 << 20, 3 << 20)),
            drain,
        );
    }),
    ("duplicates", |n, v| {
        let twice = Direction { duplicate: v.of(0.02, 0.04), ..shaped(v.of(10, 20), v.of(20, 26), v.of(40, 60)) };
        record(n, &uneven(twice, v.of(10, 20)), send(v.of(1 << 20, 2 << 20)), drain);
    }),
    ("two_flows", |n, v| {
        let lab = uneven(shaped(v.of(10, 13), v.of(20, 32), v.of(60, 90)), v.of(10, 13));
        record_while(n, &lab, || {
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| join(&lab, Side::B.ipv4().into(), send(v.of(1_500_000, 2_500_000)), drain));
                }
            });
        });
    }),
    ("both_ways", |n, v| {
        let bytes = v.of(1_500_000, 2_200_000);
        let both = move |mut s: TcpStream| {
            let mut other = s.try_clone().unwrap();
            let reading = thread::spawn(move || {
                let mut buffer = vec![0; 256 << 10];
                let mut read = 0;
                while read < bytes {
                    match other.read(&mut buffer) {
                        Ok(n @ 1..) => read += n,
                        _ => break,
                    }
                }
            });
            give(&mut s, bytes);
            reading.join().unwrap();
        };
        record(n, &shaped_both(v.of(10, 16), v.of(20, 27), v.of(40, 150)), both, both);
    }),
    ("damage", |n, v| {
        let lab = path(v.of(15, 21));
        record_damaged(n, &lab, v.of(0.01, 0.02), send(v.of(1_500_000, 1_000_000)), drain);
    }),
    ("bbr", |n, v| {
        let lab = uneven(shaped(v.of(20, 12), v.of(20, 40), 200), v.of(20, 12));
        sysctls(&lab, Side::A, &[("tcp_congestion_control", "bbr")]);
        record(n, &lab, send(4 << 20), drain);
    }),
    ("paced", |n, v| {
        let lab = uneven(shaped(v.of(10, 22), v.of(100, 60), 200), v.of(10, 22));
        record(n, &lab, paced(v.of(1_000_000, 2_000_000), v.of(2_000_000, 4_000_000)), drain);
    }),
    ("own_link_full", |n, v| {
        let lab = path(v.of(1, 6));
        let rate =
            format!("qdisc replace dev {} root tbf rate {}mbit burst 20k latency 50ms", lab::INTERFACE, v.of(50, 30));
        inside(&lab, Side::A, "tc", &rate);
        record(n, &lab, send(v.of(2_000_000, 3_000_000)), drain);
    }),
    ("written_at_a_rate", |n, v| {
        let lab = uneven(shaped(v.of(10, 22), v.of(100, 60), 200), v.of(10, 22));
        let (writes, every) = (v.of(250, 200), v.of(7, 13));
        record(
            n,
            &lab,
            move |mut stream: TcpStream| {
                for _ in 0..writes {
                    stream.write_all(&[0; 8_192]).unwrap();
                    pause(every);
                }
            },
            drain,
        );
    }),
    ("bunched_acks", |n, v| {
        let lab = in_bunches(delayed(v.of(10, 16)), v.of(10, 16), v.of(12, 25));
        hold_window(&lab, v.of(40, 60));
        record(n, &lab, send(v.of(2 << 20, 3 << 20)), drain);
    }),
    ("bunched_acks_path_rate", |n, v| {
        let lab = in_bunches(shaped(v.of(10, 16), v.of(20, 15), v.of(80, 120)), v.of(10, 16), v.of(12, 25));
        record(n, &lab, send(v.of(2 << 20, 3 << 20)), drain);
    }),
];

#[test]
#[ignore = "writes into the repository: run by hand where a cause is added"]
fn record_all() {
    in_the_lab!();
    let only = std::env::var("RECORD").ok();
    for (name, scene) in SCENES.iter().filter(|s| only.as_deref().is_none_or(|o| o.split(',').any(|n| n == s.0))) {
        scene(name, Set::Tuned);
    }
}

#[test]
#[ignore = "writes into the repository: run by hand where a cause is added"]
fn record_all_unseen() {
    in_the_lab!();
    let only = std::env::var("RECORD").ok();
    for (name, scene) in SCENES.iter().filter(|s| only.as_deref().is_none_or(|o| o.split(',').any(|n| n == s.0))) {
        scene(&format!("unseen/{name}"), Set::Unseen);
    }
}

/// `SHARE=0.4 RECORD=a,b …` records these in `between`, with numbers so far on the way from the
/// first set's to the second's.
#[test]
#[ignore = "writes into the repository: run by hand where a cause is added"]
fn record_between() {
    in_the_lab!();
    let only = std::env::var("RECORD").unwrap();
    let share: f64 = std::env::var("SHARE").unwrap().parse().unwrap();
    for (name, scene) in SCENES.iter().filter(|s| only.split(',').any(|n| n == s.0)) {
        scene(&format!("between/{name}"), Set::Between(share));
    }
}
