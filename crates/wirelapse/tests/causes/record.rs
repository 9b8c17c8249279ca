//! Records the captures that `crates/diagnose/tests/places.rs` evaluates: each cause once, at both ends at the same moment. Run by hand
//! where a cause is added (root): `cargo test -p wirelapse --test causes record -- --ignored --nocapture`; `RECORD=name` records
//! one of them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::thread;

use lab::{BitRate, Config, Depth, Direction, Lab, Loss, Reorder, Side};
use record::Nanos;

use crate::bench::{
    Dump, Part, answer, ask, delayed, drain, give, inside, join, lab, path, pause, send, shaped, sysctls, uneven,
};
use crate::in_the_lab;

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
    std::fs::create_dir_all(&folder).unwrap();
    for (dump, end) in dumps.into_iter().zip(["a", "b"]) {
        let file = dump.finish();
        let mut bytes = std::fs::read(file.path()).unwrap();
        blank_payload(&mut bytes);
        let to = folder.join(format!("{name}.{end}.pcap.zst"));
        let mut pack = Command::new("zstd")
            .args(["-19", "-q", "-f", "-o"])
            .arg(&to)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        pack.stdin.take().unwrap().write_all(&bytes).unwrap();
        assert!(pack.wait().unwrap().success());
        println!("{name}.{end}: {} bytes", to.metadata().unwrap().len());
    }
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

/// Holds the congestion window by the route, which the kernel takes from what an earlier connection left in its table of paths.
fn hold_window(lab: &Lab, segments: u32) {
    inside(lab, Side::A, "ip", &format!("route replace 10.77.0.2/32 dev eth0 cwnd lock {segments}"));
    join(lab, Side::B.ipv4().into(), send(10_000), drain);
}

fn dead(ms: u64) -> Direction {
    Direction { loss: Loss::Independent(1.0), ..delayed(ms) }
}

fn shaped_both(ms: u64, mbit: u32, queue_ms: u64) -> Lab {
    lab(&Config::symmetric(shaped(ms, mbit, queue_ms)))
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

type Scene = (&'static str, fn(&str));

const SCENES: &[Scene] = &[
    ("path_rate", |n| record(n, &uneven(shaped(10, 20, 40), 10), send(2 << 20), drain)),
    ("path_rate_no_stamps", |n| {
        let lab = uneven(shaped(10, 20, 40), 10);
        sysctls(&lab, Side::A, &[("tcp_timestamps", "0")]);
        record(n, &lab, send(2 << 20), drain);
    }),
    ("path_rate_download", |n| {
        let lab = lab(&Config { b_to_a: shaped(10, 20, 40), ..Config::symmetric(delayed(10)) });
        record(
            n,
            &lab,
            |mut s| {
                s.write_all(&[1; 100]).unwrap();
                drain(s);
            },
            |mut s: TcpStream| {
                s.read_exact(&mut [0; 100]).unwrap();
                give(&mut s, 2 << 20);
            },
        );
    }),
    ("bufferbloat", |n| record(n, &uneven(shaped(5, 10, 2_500), 5), send(2 << 20), drain)),
    ("bufferbloat_no_stamps", |n| {
        let lab = uneven(shaped(5, 10, 2_500), 5);
        sysctls(&lab, Side::A, &[("tcp_timestamps", "0")]);
        record(n, &lab, send(2 << 20), drain);
    }),
    ("loss_1_percent", |n| {
        record(n, &uneven(Direction { loss: Loss::Independent(0.01), ..delayed(20) }, 20), send(1_500_000), drain);
    }),
    ("loss_in_bursts", |n| {
        let there = Direction { loss: Loss::bursts(0.06, 15.0).unwrap(), ..shaped(5, 200, 500) };
        record(n, &uneven(there, 5), send(3 << 20), drain);
    }),
    ("outage", |n| {
        let lab = path(10);
        let cut_off = |mut stream: TcpStream| {
            give(&mut stream, 300_000);
            pause(50);
            lab.path().change(Side::A, &dead(10)).unwrap();
            give(&mut stream, 20_000);
            pause(1_500);
            lab.path().change(Side::A, &delayed(10)).unwrap();
            give(&mut stream, 300_000);
        };
        record(n, &lab, cut_off, drain);
    }),
    ("reordering", |n| {
        let reorder = Some(Reorder { share: 0.02, by: Nanos::from_millis(12) });
        let lab = uneven(Direction { rate: Some(BitRate::mbit(50)), reorder, ..delayed(10) }, 10);
        sysctls(&lab, Side::A, &[("tcp_recovery", "3")]);
        record(n, &lab, send(2 << 20), drain);
    }),
    ("jitter", |n| {
        let restless = Direction { jitter: Nanos::from_millis(8), ..delayed(20) };
        record(n, &uneven(restless, 20), send(1 << 20), drain);
    }),
    ("receive_window", |n| {
        let lab = path(20);
        sysctls(&lab, Side::B, &[("tcp_rmem", "4096 65536 65536")]);
        record(n, &lab, send(1_500_000), drain);
    }),
    ("no_scaling_client", |n| {
        let lab = path(10);
        window_scaling_off(&lab, Side::A);
        record(n, &lab, send(2 << 20), drain);
    }),
    ("no_scaling_server", |n| {
        let lab = path(10);
        window_scaling_off(&lab, Side::B);
        record(n, &lab, send(2 << 20), drain);
    }),
    ("slow_reader", |n| {
        let lab = path(2);
        sysctls(&lab, Side::B, &[("tcp_rmem", "4096 65536 131072")]);
        record(n, &lab, send(2 << 20), slow_reader);
    }),
    ("closed_window", |n| {
        let lab = path(5);
        sysctls(&lab, Side::B, &[("tcp_rmem", "4096 65536 65536")]);
        record(n, &lab, send(400_000), |s: TcpStream| {
            pause(2_500);
            drain(s);
        });
    }),
    ("send_buffer", |n| {
        let small_buffer = |s: TcpStream| {
            socket2::SockRef::from(&s).set_send_buffer_size(24 << 10).unwrap();
            send(1 << 20)(s);
        };
        record(n, &path(15), small_buffer, drain);
    }),
    ("held_window", |n| {
        let lab = path(15);
        hold_window(&lab, 20);
        record(n, &lab, send(1 << 20), drain);
    }),
    ("slow_start", |n| record(n, &path(50), send(600_000), drain)),
    ("nagle", |n| {
        record(n, &path(1), in_two_writes, |mut stream: TcpStream| {
            let mut request = [0; 100];
            while stream.read_exact(&mut request).is_ok() {
                stream.write_all(&request[..10]).unwrap();
            }
        });
    }),
    ("delayed_ack", |n| {
        let lab = path(1);
        hold_window(&lab, 1);
        record(n, &lab, ask(20, 2 * 1448, 10), answer(2 * 1448, 10));
    }),
    ("round_trips", |n| record(n, &path(10), ask(20, 100, 100), answer(100, 100))),
    ("sender_pauses", |n| {
        record(
            n,
            &path(5),
            |mut s: TcpStream| {
                for _ in 0..10 {
                    give(&mut s, 20_000);
                    pause(100);
                }
            },
            drain,
        );
    }),
    ("bursts", |n| {
        record(
            n,
            &uneven(shaped(10, 100, 100), 10),
            |mut s: TcpStream| {
                for _ in 0..15 {
                    give(&mut s, 65_536);
                    pause(80);
                }
            },
            drain,
        );
    }),
    ("server_thinks", |n| record(n, &path(5), ask(12, 200, 3_000), thoughtfully(200, 3_000, 120))),
    ("server_thinks_tls", |n| record(n, &path(10), tls_client(4), tls_server(400))),
    ("first_byte_late", |n| record(n, &path(10), ask(1, 200, 200_000), thoughtfully(200, 200_000, 2_000))),
    ("client_thinks", |n| record(n, &path(5), slowly(10, 200, 3_000, 150), answer(200, 3_000))),
    ("tiny_segments", |n| {
        record(
            n,
            &path(5),
            |mut s: TcpStream| {
                s.set_nodelay(true).unwrap();
                for _ in 0..30 {
                    for _ in 0..8 {
                        s.write_all(&[7; 30]).unwrap();
                    }
                    pause(20);
                }
            },
            drain,
        );
    }),
    ("idle_restart", |n| {
        record(
            n,
            &path(20),
            |mut s: TcpStream| {
                give(&mut s, 1 << 20);
                pause(2_200);
                give(&mut s, 1 << 20);
            },
            drain,
        );
    }),
    ("mtu_black_hole", |n| {
        let lab = uneven(Direction { black_hole: Some(1_400), ..delayed(5) }, 5);
        record(
            n,
            &lab,
            |mut s: TcpStream| {
                s.write_all(&[1; 300]).unwrap();
                s.read_exact(&mut [0; 10]).unwrap();
                give(&mut s, 40_000);
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
    ("delay_step", |n| {
        let lab = path(2);
        let moved = |mut s: TcpStream| {
            s.set_nodelay(true).unwrap();
            for turn in 0..200 {
                if turn == 100 {
                    Side::ALL.into_iter().for_each(|side| lab.path().change(side, &delayed(6)).unwrap());
                }
                s.write_all(&[1; 50]).unwrap();
                s.read_exact(&mut [0; 50]).unwrap();
            }
        };
        record(n, &lab, moved, answer(50, 50));
    }),
    ("syn_retry", |n| {
        let lab = uneven(dead(10), 10);
        thread::scope(|scope| {
            scope.spawn(|| {
                pause(800);
                lab.path().change(Side::A, &delayed(10)).unwrap();
            });
            record(n, &lab, ask(12, 50, 50), answer(50, 50));
        });
    }),
    ("reset", |n| {
        record(
            n,
            &path(5),
            |mut s: TcpStream| {
                give(&mut s, 100_000);
                pause(100);
                socket2::SockRef::from(&s).set_linger(Some(std::time::Duration::ZERO)).unwrap();
            },
            drain,
        );
    }),
    ("policer", |n| record(n, &uneven(shaped(10, 10, 3), 10), send(1 << 20), drain)),
    ("ecn_queue", |n| {
        let there = Direction { ecn: Some(Depth::Time(Nanos::from_millis(8))), ..shaped(10, 20, 200) };
        let lab = uneven(there, 10);
        Side::ALL.into_iter().for_each(|side| sysctls(&lab, side, &[("tcp_ecn", "1")]));
        record(n, &lab, send(2 << 20), drain);
    }),
    ("lost_acks", |n| {
        let back = Direction { loss: Loss::Independent(0.2), ..delayed(10) };
        record(
            n,
            &lab(&Config { a_to_b: shaped(10, 20, 40), b_to_a: back, ..Config::symmetric(delayed(10)) }),
            send(2 << 20),
            drain,
        );
    }),
    ("duplicates", |n| {
        let twice = Direction { duplicate: 0.02, ..shaped(10, 20, 40) };
        record(n, &uneven(twice, 10), send(1 << 20), drain);
    }),
    ("two_flows", |n| {
        let lab = uneven(shaped(10, 20, 60), 10);
        record_while(n, &lab, || {
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| join(&lab, Side::B.ipv4().into(), send(1_500_000), drain));
                }
            });
        });
    }),
    ("both_ways", |n| {
        let both = |mut s: TcpStream| {
            let mut other = s.try_clone().unwrap();
            let reading = thread::spawn(move || {
                let mut buffer = vec![0; 256 << 10];
                let mut read = 0;
                while read < 1_500_000 {
                    match other.read(&mut buffer) {
                        Ok(n @ 1..) => read += n,
                        _ => break,
                    }
                }
            });
            give(&mut s, 1_500_000);
            reading.join().unwrap();
        };
        record(n, &shaped_both(10, 20, 40), both, both);
    }),
    ("bbr", |n| {
        let lab = uneven(shaped(20, 20, 200), 20);
        sysctls(&lab, Side::A, &[("tcp_congestion_control", "bbr")]);
        record(n, &lab, send(4 << 20), drain);
    }),
];

#[test]
#[ignore = "writes into the repository: run by hand where a cause is added"]
fn record_all() {
    in_the_lab!();
    let only = std::env::var("RECORD").ok();
    for (name, scene) in SCENES.iter().filter(|s| only.as_deref().is_none_or(|o| o == s.0)) {
        scene(name);
    }
}
