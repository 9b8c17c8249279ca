//! The structures that the BPF programs and this crate share: the twin of `bpf/record.h`.

/// A structure whose every bit pattern is a value, read from and written as bytes.
///
/// # Safety
/// The type is `repr(C)`, has no padding, and every bit pattern of it is valid.
pub(crate) unsafe trait Plain: Copy {
    /// The structure at the start of `bytes`; `None` where they are too few.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < size_of::<Self>() {
            return None;
        }
        // SAFETY: there are enough bytes, any bit pattern is valid, and the read asks for no alignment.
        Some(unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() })
    }

    /// The bytes of the structure.
    fn as_bytes(&self) -> &[u8] {
        // SAFETY: the structure has no padding, so all its bytes are initialised, and they live as long as `self`.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }
}

macro_rules! shared {
    ($($(#[$doc:meta])* struct $name:ident: $size:literal { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $name { $(pub $field: $type,)* }

        const _: () = {
            assert!(size_of::<$name>() == $size);
            // No padding: the fields fill the structure.
            assert!(0 $(+ size_of::<$type>())* == $size);
        };

        // SAFETY: repr(C), of integers, arrays of them and other Plain structures only, without padding (asserted).
        unsafe impl $crate::layout::Plain for $name {}
    )*};
}

pub(crate) use shared;

pub(crate) const RECORD_CONNECTION: u32 = 1;
pub(crate) const RECORD_SEND: u32 = 2;
pub(crate) const RECORD_CLOSED: u32 = 3;

pub(crate) const CONFIG_PIDS: u32 = 1 << 1;
pub(crate) const CONFIG_PORTS: u32 = 1 << 2;
pub(crate) const CONFIG_PEERS: u32 = 1 << 3;
pub(crate) const CONFIG_CGROUP: u32 = 1 << 4;
pub(crate) const CONFIG_WINDOWS: u32 = 1 << 5;
pub(crate) const CONFIG_AT_CONNECT: u32 = 1 << 6;
pub(crate) const CONFIG_AT_CLOSE: u32 = 1 << 7;

/// How long a sampling window is, ns.
pub(crate) const WINDOW_NS: u64 = 10_000_000;

/// What one pass of the iterator over the sockets is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    Follow = 0,
    Open = 1,
    Close = 2,
    Totals = 3,
    Finish = 4,
    Look = 5,
}

shared! {
    struct RawConnection: 96 {
        kind: u32,
        pid: u32,
        cookie: u64,
        at: u64,
        local: [u8; 16],
        remote: [u8; 16],
        local_port: u16,
        remote_port: u16,
        opening: u8,
        pad: [u8; 3],
        comm: [u8; 16],
        congestion_control: [u8; 16],
    }

    struct RawState: 64 {
        pacing_rate: u64,
        cwnd: u32,
        ssthresh: u32,
        in_flight: u32,
        unacked: u32,
        unsent: u32,
        peer_window: u32,
        mss: u32,
        srtt_us_8: u32,
        send_buffer: u32,
        send_buffer_used: u32,
        busy: u32,
        receive_window_limited: u32,
        send_buffer_limited: u32,
        congestion: u8,
        pad: [u8; 3],
    }

    struct RawSend: 192 {
        kind: u32,
        pid: u32,
        cookie: u64,
        send: u64,
        sched: u64,
        driver: u64,
        nic: u64,
        ack: u64,
        oldest: u64,
        waited: u64,
        first_seq: u32,
        bytes: u32,
        merged: u32,
        merged_bytes: u32,
        state: RawState,
        comm: [u8; 16],
        retransmissions: u16,
        reason: u8,
        pad: u8,
        sched_span: u32,
        driver_span: u32,
        nic_interface: u32,
        nic_network: u32,
        pad2: u32,
    }

    struct RawTotals: 48 {
        followed: u64,
        armed: u64,
        bytes_written: u64,
        bytes_armed: u64,
        bytes_acked: u64,
        retransmitted: u32,
        pad: u32,
    }

    struct RawClosed: 64 {
        kind: u32,
        pad: u32,
        cookie: u64,
        totals: RawTotals,
    }

    struct RawLost: 120 {
        ring_buffer: u64,
        slots_full: u64,
        connections_full: u64,
        merged: u64,
        unfinished: u64,
        closed_unacked: u64,
        no_sched: u64,
        no_driver: u64,
        no_ack: u64,
        after_ack: u64,
        repeated: u64,
        unstamped: u64,
        over_rate: u64,
        connection_records: u64,
        nic_late: u64,
    }

    struct RawConfig: 32 {
        cgroup_id: u64,
        flags: u32,
        slots: u32,
        draw_below: u32,
        max_rate: u32,
        pid_namespace: u32,
        cgroup_level: i32,
    }

    struct RawControl: 32 {
        window: u64,
        pass: u32,
        shared: u32,
        by_process: u32,
        every: u32,
        foreign: u32,
        pad: u32,
    }

    /// A slot of the arena (`bpf/slots.h`); only the record matters here.
    struct RawSlot: 256 {
        key: u32,
        epoch: u32,
        blocked_in_call: u64,
        clocks: [u32; 11],
        changes: u32,
        record: RawSend,
    }

    /// A row of the arena (`bpf/slots.h`).
    struct RawRow: 288 {
        cookie: u64,
        head: u32,
        tail: u32,
        sched_next: u32,
        driver_next: u32,
        write_seq: u32,
        last_key: u32,
        popped_key: u32,
        popped: u32,
        since: u64,
        clocks: [u64; 11],
        blocked: u32,
        changes: u32,
        epoch: u32,
        opening: u32,
        blocked_in_call: u64,
        followed_since: u64,
        armed_since: u64,
        position: u64,
        armed_position: u64,
        acked: u64,
        retransmitted: u32,
        callbacks: u8,
        frozen: u8,
        armed: u16,
        window_end: u64,
        sched_last: u64,
        driver_last: u64,
        driver_end: u32,
        pad: u32,
        totals: RawTotals,
    }
}
