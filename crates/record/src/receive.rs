//! Bytes that came in: one received segment (or GRO frame) with its byte range and its stages.

use std::fmt;

use crate::leg::legs;
use crate::{ConnectionId, Disorder, Instant, Lost, Monotonic, Nanos, Owner, SeqNumber, columns};

/// A place on the receiving side where a timestamp is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiveStage {
    /// The stack received the packet from the driver.
    DriverRx,
    /// TCP took it up for its socket.
    TcpRx,
    /// The socket became readable with it.
    Ready,
    /// The application copied its last byte out.
    Read,
}

impl ReceiveStage {
    /// All of them, in the order a byte passes them.
    pub const ALL: [Self; 4] = [Self::DriverRx, Self::TcpRx, Self::Ready, Self::Read];

    /// The word used in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DriverRx => "driver_rx",
            Self::TcpRx => "tcp_rx",
            Self::Ready => "ready",
            Self::Read => "read",
        }
    }

    /// What a trace without this stage lacks, where it can do without it.
    pub const fn without(self) -> Option<&'static str> {
        match self {
            Self::DriverRx => Some("So there is no softirq, and what follows begins at tcp_rx."),
            Self::Ready => Some("So wakeup is from tcp_rx to read, and socket is within it."),
            Self::TcpRx | Self::Read => None,
        }
    }

    /// The counter of receives that were read without a stamp of this stage.
    const fn counter(self) -> Option<fn(&mut Lost) -> &mut u64> {
        match self {
            Self::DriverRx => Some(|lost| &mut lost.receive_no_driver_rx),
            Self::TcpRx => Some(|lost| &mut lost.receive_no_tcp_rx),
            Self::Ready => Some(|lost| &mut lost.receive_no_ready),
            Self::Read => None,
        }
    }
}

impl fmt::Display for ReceiveStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

legs! {
    /// The time between two stages of a receive.
    ReceiveLeg:
    /// `driver_rx` → `tcp_rx`: from the driver through IP to TCP, and the wait while the socket was
    /// locked.
    Softirq = "softirq", "from the stack to TCP", Adds;
    /// `tcp_rx` → `ready`: in TCP, until all bytes before it were there too.
    Socket = "socket", "in TCP, until readable", Adds, within Wakeup;
    /// `ready` (or `tcp_rx`, where there is no `ready`) → `read`: until the application had copied
    /// it.
    Wakeup = "wakeup", "until the program had read it", Adds;
    /// From the first stage that there is to `read`.
    Total = "total", "from arrival to read", Total;
}

impl ReceiveLeg {
    /// The legs that add up to the total.
    pub const ADDITIVE: [Self; 3] = [Self::Softirq, Self::Socket, Self::Wakeup];
}

/// When received bytes passed each stage; `None` where the stage gave no stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Received by the stack: the kernel's own receive stamp of the packet, read on this clock when
    /// TCP took it up.
    pub driver_rx: Option<Instant<Monotonic>>,
    /// Taken up by TCP.
    pub tcp_rx: Option<Instant<Monotonic>>,
    /// Readable.
    pub ready: Option<Instant<Monotonic>>,
    /// Copied by the application; `None` where it never was.
    pub read: Option<Instant<Monotonic>>,
}

impl Arrival {
    /// When the bytes passed `stage`.
    pub const fn at(&self, stage: ReceiveStage) -> Option<Instant<Monotonic>> {
        match stage {
            ReceiveStage::DriverRx => self.driver_rx,
            ReceiveStage::TcpRx => self.tcp_rx,
            ReceiveStage::Ready => self.ready,
            ReceiveStage::Read => self.read,
        }
    }

    /// When the bytes had reached this host, by the first stage that there is.
    pub fn arrived(&self) -> Option<Instant<Monotonic>> {
        self.driver_rx.or(self.tcp_rx).or(self.ready)
    }
}

/// New bytes that came in one segment, or in one frame of segments that GRO had put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receive {
    /// The connection they came on.
    pub connection: ConnectionId,
    /// Who read the last of them; pid 0 where no process did.
    pub reader: Owner,
    /// Its thread, by the number that the kernel has for it outside of containers. `None` where no
    /// process did, and in runs of earlier versions.
    pub thread: Option<u32>,
    /// The sequence number of the first byte.
    pub first_seq: SeqNumber,
    /// How many bytes; what had come before is not among them.
    pub bytes: u32,
    /// Segments on the wire that the frame was made of.
    pub segments: u16,
    /// When they passed each stage.
    pub stamps: Arrival,
    /// Whether bytes before them were still missing when they came.
    pub out_of_order: bool,
    /// Bytes that waited in the socket to be read when they arrived.
    pub queued: u32,
    /// Size of the receive buffer, bytes of memory (not of payload), when they were read.
    pub buffer: u32,
    /// Memory of it in use then.
    pub buffer_used: u32,
}

impl Receive {
    /// The sequence number of the last byte.
    pub fn last_seq(&self) -> SeqNumber {
        self.first_seq.add(self.bytes.wrapping_sub(1))
    }

    /// Counts each stage that gave no stamp although the bytes were read. What no program read need
    /// not have passed every stage.
    pub fn count_unstamped(&self, lost: &mut Lost) {
        if self.stamps.read.is_none() {
            return;
        }
        for stage in ReceiveStage::ALL.into_iter().filter(|stage| self.stamps.at(*stage).is_none()) {
            if let Some(counter) = stage.counter() {
                *counter(lost) += 1;
            }
        }
    }

    /// The two stages of a leg, by their moments, where both are there.
    pub fn span(&self, leg: ReceiveLeg) -> Option<(Instant<Monotonic>, Instant<Monotonic>)> {
        let s = &self.stamps;
        match leg {
            ReceiveLeg::Softirq => s.driver_rx.zip(s.tcp_rx),
            ReceiveLeg::Socket => s.tcp_rx.zip(s.ready),
            ReceiveLeg::Wakeup => s.ready.or(s.tcp_rx).zip(s.read),
            ReceiveLeg::Total => s.arrived().zip(s.read),
        }
    }

    /// How long a leg took: `Ok(None)` where a stage of it gave no stamp.
    ///
    /// # Errors
    /// [`Disorder`] where the later stage has the earlier time.
    pub fn leg(&self, leg: ReceiveLeg) -> Result<Option<Nanos>, Disorder> {
        self.span(leg).map_or(Ok(None), |(from, to)| to.since(from).map(Some))
    }
}

columns! {
    Receive: "receives", "receive", blank = Receive {
        connection: ConnectionId::default(),
        reader: Owner::default(),
        thread: None,
        first_seq: SeqNumber::default(),
        bytes: 0,
        segments: 0,
        stamps: Arrival::default(),
        out_of_order: false,
        queued: 0,
        buffer: 0,
        buffer_used: 0,
    };
    connection_id = connection, "its connection";
    pid = reader.pid, "process that read the last byte; 0 where it was not read", from "task_struct.tgid";
    comm = reader.comm, "name of its thread", from "task_struct.comm";
    tid = thread, null "no process read it, or the run is of an earlier version", "number of that thread in the host's pid namespace", from "task_struct.pid";
    first_seq = first_seq, "TCP sequence number of the first byte";
    bytes = bytes, "new bytes: without those that were received before";
    segments = segments, "segments on the wire that it was made of", from "gso_segs";
    driver_rx_at_ns = stamps.driver_rx, null "the kernel gave no stamp", "stage `driver_rx`: the stack received it", from "skb.tstamp";
    tcp_rx_at_ns = stamps.tcp_rx, null "it was not seen (in states after ESTABLISHED)", "stage `tcp_rx`: TCP accepted it", from "tcp_probe";
    ready_at_ns = stamps.ready, null "it was not seen", "stage `ready`: the socket was readable up to its last byte", from "sk_data_ready";
    read_at_ns = stamps.read, null "it was never read", "stage `read`: the program had copied its last byte", from "tcp_rcv_space_adjust";
    softirq_ns = |r| r.leg(ReceiveLeg::Softirq).ok().flatten(), null "a stage is missing, or the two are in an impossible order",
        "`driver_rx` to `tcp_rx`";
    socket_ns = |r| r.leg(ReceiveLeg::Socket).ok().flatten(), null "as `softirq_ns`", "`tcp_rx` to `ready`";
    wakeup_ns = |r| r.leg(ReceiveLeg::Wakeup).ok().flatten(), null "as `softirq_ns`", "`ready` (or `tcp_rx`, where there is no `ready`) to `read`";
    total_ns = |r| r.leg(ReceiveLeg::Total).ok().flatten(), null "as `softirq_ns`", "the first stage that there is to `read`";
    out_of_order = out_of_order, "bytes before it were missing when it came", from "rcv_nxt";
    queued_bytes = queued, "waiting in the socket to be read when it came", from "rcv_nxt - copied_seq";
    receive_buffer_bytes = buffer, "size of the receive buffer, in memory, when it was read; 0 where it never was", from "sk_rcvbuf";
    receive_buffer_used_bytes = buffer_used, "of that, in use", from "sk_rmem_alloc";
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn receive(stamps: Arrival) -> Receive {
        Receive {
            connection: ConnectionId(1),
            reader: Owner::default(),
            thread: None,
            first_seq: SeqNumber(u32::MAX),
            bytes: 2,
            segments: 1,
            stamps,
            out_of_order: false,
            queued: 0,
            buffer: 0,
            buffer_used: 0,
        }
    }

    #[test]
    fn a_byte_range_goes_over_the_wrap() {
        assert_eq!(receive(Arrival::default()).last_seq(), SeqNumber(0));
    }

    #[test]
    fn what_was_read_is_counted_where_a_stamp_is_missing() {
        let at = Some(Instant::from_nanos(5));
        let mut lost = Lost::default();
        receive(Arrival { tcp_rx: at, ..Arrival::default() }).count_unstamped(&mut lost);
        assert_eq!(lost, Lost::default());
        receive(Arrival { tcp_rx: at, read: at, ..Arrival::default() }).count_unstamped(&mut lost);
        receive(Arrival { ready: at, read: at, ..Arrival::default() }).count_unstamped(&mut lost);
        let counted = Lost { receive_no_driver_rx: 2, receive_no_tcp_rx: 1, receive_no_ready: 1, ..Lost::default() };
        assert_eq!(lost, counted);
    }

    proptest! {
        #[test]
        fn the_legs_that_are_there_add_up(t in prop::array::uniform4(0u64..1_000), there in prop::array::uniform2(any::<bool>())) {
            let at = |i: usize| Some(Instant::from_nanos(t[i]));
            let r = receive(Arrival {
                driver_rx: at(0).filter(|_| there[0]),
                tcp_rx: at(1),
                ready: at(2).filter(|_| there[1]),
                read: at(3),
            });
            let parts: Result<Vec<_>, _> = ReceiveLeg::ADDITIVE.into_iter().map(|l| r.leg(l)).collect();
            if let Ok(parts) = parts {
                let sum: Nanos = parts.into_iter().flatten().sum();
                prop_assert_eq!(r.leg(ReceiveLeg::Total), Ok(Some(sum)));
            }
        }
    }
}
