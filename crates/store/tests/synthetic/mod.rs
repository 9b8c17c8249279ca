//! Records made up for tests.

use record::{
    Comm, ConnectionId, Instant, Merged, Nanos, Owner, Send, SenderState, SeqNumber, Stamps, Wait, WaitReason,
};
use store::{ClockReading, Provenance, SamplingAsked, SamplingMethod};

pub fn provenance() -> Provenance {
    Provenance {
        version: "0.0.0".into(),
        command_line: vec!["wirelapse".into(), "trace".into()],
        kernel: "6.18.0".into(),
        machine: "x86_64".into(),
        cpus: 2,
        backend: "timestamping".into(),
        target: "port 80".into(),
        sampling: SamplingAsked { method: SamplingMethod::Windows, one_in: 100 },
        max_rate: None,
        min_latency: None,
        clock: ClockReading { realtime_offset_ns: 1_700_000_000_000_000_000, realtime_offset_error_ns: 120 },
        start_ns: 1_000_000_000,
        calls: Some(store::Observing::default()),
        connects: Some(store::Observing::default()),
        receiving: Some(store::Receiving {
            missing: vec![(record::ReceiveStage::Ready, "no tracepoint".into())],
            ..store::Receiving::default()
        }),
        http: Some(store::Observing::default()),
        packets: Some(store::Observing { missing: vec!["drops".into()], ..store::Observing::default() }),
    }
}

pub fn plain_send() -> Send {
    let at = Instant::from_nanos;
    Send {
        connection: ConnectionId(7),
        owner: Owner { pid: 4_321, comm: Comm::from("curl") },
        first_seq: SeqNumber(1),
        bytes: 100,
        stamps: Stamps {
            sched: Some(at(2_000)),
            driver: Some(at(3_000)),
            ack: Some(at(50_003_000)),
            ..Stamps::sent_at(at(1_000))
        },
        merged: Merged::default(),
        state: SenderState { cwnd: 10, ..SenderState::default() },
        buffer: None,
        wait: Some(Wait { reason: WaitReason::SentAtOnce, by_reason: Nanos(0) }),
        retransmissions: 0,
    }
}
