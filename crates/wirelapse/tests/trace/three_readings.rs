//! One TCP connection read three ways at once: by a trace (both backends), by the program's own
//! SO_TIMESTAMPING, and by a capture of its packets. They must agree, and none may disturb another.

use crate::scene;
use std::io::Write as _;
use std::time::Duration;

use crate::scene::capture::Dump;
use crate::scene::path::{drain, join, listen};
use crate::scene::watch::{Seen, Watch};
use crate::scene::{BTF, TUN, median};
use record::{Instant, Nanos, Realtime, Send, Source, Timestamp};
use tier::Need;
use timestamping::{Enabled, ErrorQueue, Matched, Matcher, Ready, Report, Request, Stages, TransmitStage, now, wait};

const STAGES: [TransmitStage; 3] = [TransmitStage::Sched, TransmitStage::Driver, TransmitStage::Ack];

/// A program that times its own sends.
struct OwnStamps {
    enabled: Enabled,
    matcher: Matcher<u64>,
    queue: ErrorQueue,
    messages: u64,
    /// Stamps that belong to no send of the program.
    strange: u64,
}

impl OwnStamps {
    fn ask(socket: &std::net::TcpStream) -> Self {
        let enabled = Request::new().transmit(Stages::SCHED | Stages::DRIVER | Stages::ACK).enable(socket).unwrap();
        let matcher = Matcher::new(enabled.counting(), enabled.stages(), 1024);
        Self { enabled, matcher, queue: ErrorQueue::default(), messages: 0, strange: 0 }
    }

    /// Reads until nothing is missing, for up to five seconds without news.
    fn read(&mut self, socket: &std::net::TcpStream) {
        while self.matcher.pending() > 0 && wait(socket, Ready::default(), Duration::from_secs(5)).unwrap().errors {
            self.queue
                .read(socket, |report| {
                    let Ok(Report::Stamp(stamp)) = report else { panic!("{report:?} is no stamp") };
                    self.messages += 1;
                    self.strange += u64::from(self.matcher.stamp(&stamp).is_none());
                })
                .unwrap();
        }
    }

    fn finished(&mut self) -> Vec<Matched<u64>> {
        self.matcher.give_up();
        std::iter::from_fn(|| self.matcher.finished()).collect()
    }
}

/// A stage of a traced send on the wall clock.
fn traced(seen: &Seen, send: &Send, stage: TransmitStage) -> Option<Instant<Realtime>> {
    let at = match stage {
        TransmitStage::Sched => send.stamps.sched,
        TransmitStage::Driver => send.stamps.driver,
        _ => send.stamps.ack,
    }?;
    Some(seen.clock.convert(Timestamp { at, source: Source::Kernel, error: Nanos::ZERO }).at)
}

#[test]
fn a_trace_the_programs_own_stamps_and_a_capture_agree() {
    tier::needs!(Need::Root, BTF, TUN, Need::Program("tcpdump"));
    const ROUNDS: u64 = 120;
    let lab = scene::path::lab(1);
    let (mut client, server) = join(&lab, &listen(&lab, false));
    let reader = drain(server);
    let mut watch = Watch::start(&client);
    let mut own = OwnStamps::ask(&client);
    let dump = Dump::start(&lab);
    let mut written = 0u64;
    for round in 0..ROUNDS {
        let bytes = [1, 100, 1_448, 10_000][round as usize % 4];
        let before = now::<Realtime>();
        client.write_all(&vec![0; bytes]).unwrap();
        own.matcher.sent(bytes, before, written + bytes as u64);
        written += bytes as u64;
        // Longer than the round trip, so that no send is merged with one that waits: it would take
        // over its stamps.
        std::thread::sleep(Duration::from_millis(4));
        // The error queue has the room of a receive buffer, so it is emptied now and then.
        if round % 20 == 19 {
            own.read(&client);
        }
    }
    own.read(&client);
    watch.until(&client, written);
    let segments = dump.finish(client.local_addr().unwrap());
    let matched = own.finished();
    assert!(own.enabled.stages() == (Stages::SCHED | Stages::DRIVER | Stages::ACK));
    // The error queue held the program's own stamps, each once, and nothing of the traces.
    assert_eq!((matched.len() as u64, own.strange), (ROUNDS, 0));
    // What the kernel retransmits on a busy machine passes qdisc and driver once more.
    let again = 2 * u64::from(scene::path::tcp_info(&client).tcpi_total_retrans);
    let extra = own.messages.checked_sub(ROUNDS * 3).expect("every stamp of every send");
    assert!(extra <= again, "{extra} stamps more than three a send, {again} by retransmissions");
    assert!(matched.iter().all(Matched::is_complete));
    let mut before = None;
    for send in &matched {
        for pair in STAGES.windows(2) {
            send.between(pair[0], pair[1]).unwrap();
        }
        assert!(before < Some(send.sent), "sends come in order");
        before = Some(send.sent);
    }

    for seen in watch.finish(&client) {
        assert_eq!(seen.sends.len() as u64, ROUNDS, "{}", seen.account());
        assert_eq!(seen.summary.lost.disorder, 0, "{}", seen.account());
        let first = seen.sends[0].first_seq;
        for stage in STAGES {
            let apart: Vec<u64> = matched
                .iter()
                .map(|own| {
                    // The id is the position of the send's last byte, which is how both count.
                    let last = first.add(own.id as u32);
                    let send = seen.sends.iter().find(|send| send.last_seq() == last);
                    let send = send.unwrap_or_else(|| panic!("{}: no send ends with {last}", seen.backend));
                    let at = traced(&seen, send, stage);
                    let at = at.unwrap_or_else(|| panic!("{}: no {stage} in {send:?}", seen.backend));
                    at.as_nanos().abs_diff(own.at(stage).unwrap().as_nanos())
                })
                .collect();
            eprintln!(
                "{}: {stage} {} µs from the program's own at the median, n {ROUNDS}",
                seen.backend,
                median(apart.iter().copied()) / 1_000
            );
            assert!(median(apart) < 50_000, "{}: {stage}", seen.backend);
        }
        // And the packets left when both say that the driver had them.
        let apart = seen.sends.iter().map(|send| {
            let byte = send.last_seq();
            let bears = |s: &&wire::Segment| !byte.is_before(s.seq) && byte.is_before(s.seq.add(s.payload));
            let packet = segments.iter().find(bears);
            let packet = packet.unwrap_or_else(|| panic!("{}: no packet bears {byte}", seen.backend));
            traced(&seen, send, TransmitStage::Driver).unwrap().as_nanos().abs_diff(packet.at.as_nanos())
        });
        let apart = median(apart);
        eprintln!("{}: driver {} µs from the capture at the median", seen.backend, apart / 1_000);
        assert!(apart < 50_000, "{}: {apart} ns from the capture", seen.backend);
    }
    drop(client);
    assert_eq!(reader.join().unwrap(), written);
}
