//! What is read of a record is what the object's own type information says of its bytes, wherever
//! the fields are.

use libbpf_rs::btf::types::{Composite, MemberAttr, Struct};
use libbpf_rs::btf::{Btf, BtfType};
use record::{Nanos, WaitReason, Waits};

use super::*;
use crate::sends::backend::TIMESTAMPING;
use crate::sends::decode::{Record, decode};

/// The place of a field, as `state.cwnd`, in a structure of the object: its first byte.
fn place(btf: &Btf<'_>, structure: &str, field: &str) -> usize {
    let mut within: Struct<'_> = btf.type_by_name(structure).unwrap();
    let mut at = 0;
    for name in field.split('.') {
        let member = within.iter().find(|m| m.name.is_some_and(|n| n == name)).unwrap();
        let MemberAttr::Normal { offset } = member.attr else { panic!("{field} is a bit field") };
        at += offset as usize / 8;
        let ty = btf.type_by_id::<BtfType<'_>>(member.ty).unwrap().skip_mods_and_typedefs();
        if let Ok(Ok(inner)) = Composite::try_from(ty).map(Struct::try_from) {
            within = inner;
        }
    }
    at
}

#[test]
fn a_send_is_read_from_where_the_kernel_part_writes_it() {
    let btf = Btf::from_raw("timestamping", TIMESTAMPING.today).unwrap().unwrap();
    let mut bytes = [0u8; size_of::<RawSend>()];
    let mut put = |field: &str, value: &[u8]| {
        let at = place(&btf, "send_record", field);
        bytes[at..at + value.len()].copy_from_slice(value);
    };
    put("kind", &RECORD_SEND.to_ne_bytes());
    put("pid", &101u32.to_ne_bytes());
    put("cookie", &102u64.to_ne_bytes());
    put("send", &1_000u64.to_ne_bytes());
    put("sched", &1_100u64.to_ne_bytes());
    put("driver", &1_200u64.to_ne_bytes());
    put("ack", &1_300u64.to_ne_bytes());
    put("wait", &[WAIT_CLOCKS as u8]);
    let mut clocks = [0u8; 4 * CLOCKS as usize];
    clocks[4 * REASON_NAGLE as usize] = 1;
    put("waits", &clocks);
    put("call", &990u64.to_ne_bytes());
    put("full", &70u64.to_ne_bytes());
    let mut clocks = [0u8; 4 * CLOCKS as usize];
    clocks[4 * REASON_CONGESTION_WINDOW as usize] = 1;
    put("full_waits", &clocks);
    put("first_seq", &103u32.to_ne_bytes());
    put("bytes", &104u32.to_ne_bytes());
    put("comm", b"curl");
    put("retransmissions", &107u16.to_ne_bytes());
    put("state.cwnd", &108u32.to_ne_bytes());
    put("state.ssthresh", &109u32.to_ne_bytes());
    put("state.in_flight", &110u32.to_ne_bytes());
    put("state.unacked", &111u32.to_ne_bytes());
    put("state.unsent", &112u32.to_ne_bytes());
    put("state.peer_window", &113u32.to_ne_bytes());
    put("state.mss", &114u32.to_ne_bytes());
    put("state.srtt_us_8", &800u32.to_ne_bytes());
    put("state.pacing_rate", &115u64.to_ne_bytes());
    put("state.send_buffer", &116u32.to_ne_bytes());
    put("state.send_buffer_used", &117u32.to_ne_bytes());
    put("state.busy", &3u32.to_ne_bytes());
    put("state.receive_window_limited", &2u32.to_ne_bytes());
    put("state.send_buffer_limited", &1u32.to_ne_bytes());
    put("state.min_rtt_us", &118u32.to_ne_bytes());
    put("state.rto", &21u32.to_ne_bytes());
    put("state.reordering", &119u32.to_ne_bytes());
    put("state.delivery_rate", &120u64.to_ne_bytes());
    put("state.congestion", &[TCP_CA_LOSS as u8]);
    let Record::Send(send, None) = decode(&bytes, Nanos(10)).unwrap() else { panic!("not a send") };
    let stamps = &send.stamps;
    assert_eq!((send.owner.pid, send.owner.comm.to_string(), send.connection.0), (101, "curl".into(), 102));
    assert_eq!((stamps.send.as_nanos(), stamps.sched.unwrap().as_nanos()), (1_000, 1_100));
    assert_eq!((stamps.driver.unwrap().as_nanos(), stamps.ack.unwrap().as_nanos()), (1_200, 1_300));
    assert_eq!((send.first_seq.0, send.bytes, send.retransmissions), (103, 104, 107));
    let wait = send.wait.unwrap();
    assert_eq!(wait, Waits::of(WaitReason::Nagle, Nanos(100)));
    let (call, full) = (send.stamps.call.unwrap(), send.buffer.unwrap());
    assert_eq!((call.as_nanos(), full), (990, Waits::of(WaitReason::CongestionWindow, Nanos(70))));
    let state = &send.state;
    assert_eq!((state.cwnd, state.ssthresh, state.in_flight, state.unacked), (108, 109, 110, 111));
    assert_eq!((state.unsent, state.peer_window, state.mss, state.srtt), (112, 113, 114, Nanos(100_000)));
    assert_eq!((state.pacing_rate, state.send_buffer, state.send_buffer_used), (Some(115), 116, 117));
    assert_eq!((state.min_rtt, state.rto), (Some(Nanos(118_000)), Some(Nanos(210))));
    assert_eq!((state.reordering, state.delivery_rate), (Some(119), Some(120)));
    assert_eq!((state.busy, state.receive_window_limited), (Nanos(30), Nanos(20)));
    assert_eq!((state.send_buffer_limited, state.congestion), (Nanos(10), record::Congestion::Loss));
}

#[test]
fn bytes_are_the_structure_and_the_structure_the_bytes() {
    let prefix = RawPrefix { bits: 96, address: [7; 16] };
    assert_eq!(RawPrefix::from_bytes(prefix.as_bytes()), Some(prefix));
    assert_eq!(RawPrefix::from_bytes(&prefix.as_bytes()[1..]), None);
    assert!(RawRow::zeroed().as_bytes().iter().all(|&byte| byte == 0));
}
