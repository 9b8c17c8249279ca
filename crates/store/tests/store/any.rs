//! Records of any content, for properties.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use proptest::prelude::*;
use record::dns::Answered;
use record::table::Record as _;
use record::{
    Again, Arrival, Basis, CarriedSend, Comm, Components, Congestion, Connect, ConnectStamps, Connection, ConnectionId,
    ConnectionTotals, CopyFragment, CopyIcmp, CopyInterface, CopyPlace, CopyStages, Datagram, DatagramStamps,
    Direction, DropReason, Dropped, EndedBy, Ending, FastOpen, Http, Instant, Join, Judged, KnownBy, Message, Method,
    Moments, Monotonic, Nanos, Opening, Outcome, Owner, Packet, PacketCopy, Peer, Protocol, Question, Receive, Request,
    Role, Send, SenderState, SeqNumber, SocketState, Source, SpanId, Stamps, TcpFlags, Timestamp, TraceContext,
    TraceId, Unacknowledged, Upstream, WaitReason, Waits,
};

/// Times and counts of a run fit 63 bits; the store holds larger ones at that.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..1_000_000_000, 0u64..=i64::MAX as u64]
}

fn owner() -> impl Strategy<Value = Owner> {
    (any::<u32>(), "[a-z é]{0,7}").prop_map(|(pid, comm)| Owner { pid, comm: Comm::from(comm.as_str()) })
}

fn stamps() -> impl Strategy<Value = Stamps> {
    let one = || prop::option::of(number().prop_map(Instant::from_nanos));
    (one(), number(), one(), one(), prop::option::of((number(), number())), one(), any::<[u32; 3]>()).prop_map(
        |(call, send, sched, driver, nic, ack, errors)| Stamps {
            call,
            send: Instant::from_nanos(send),
            sched,
            driver,
            nic: nic.map(|(at, error)| Timestamp {
                at: Instant::from_nanos(at),
                source: Source::Nic,
                error: Nanos(error),
            }),
            ack,
            // There is an error only where there is a stamp.
            sched_error: sched.map_or(Nanos::ZERO, |_| Nanos(errors[0].into())),
            driver_error: driver.map_or(Nanos::ZERO, |_| Nanos(errors[1].into())),
            ack_error: ack.map_or(Nanos::ZERO, |_| Nanos(errors[2].into())),
        },
    )
}

/// What a field of the sender's state can hold.
trait Field: Sized {
    fn any() -> BoxedStrategy<Self>;
}

impl Field for u32 {
    fn any() -> BoxedStrategy<Self> {
        any::<Self>().boxed()
    }
}

impl Field for u64 {
    fn any() -> BoxedStrategy<Self> {
        number().boxed()
    }
}

impl Field for bool {
    fn any() -> BoxedStrategy<Self> {
        any::<Self>().boxed()
    }
}

impl Field for Nanos {
    fn any() -> BoxedStrategy<Self> {
        number().prop_map(Nanos).boxed()
    }
}

impl Field for Congestion {
    fn any() -> BoxedStrategy<Self> {
        (0u8..5).prop_map(|number| Self::from_number(number).unwrap()).boxed()
    }
}

impl<T: Field + std::fmt::Debug + 'static> Field for Option<T> {
    fn any() -> BoxedStrategy<Self> {
        prop::option::of(T::any()).boxed()
    }
}

macro_rules! any_state {
    ($($field:ident: $type:ty, $name:ident = $how:ident($raw:ident), $(null $null:literal,)? $doc:literal, from $source:literal;)*) => {
        fn state() -> BoxedStrategy<SenderState> {
            let all = Just(SenderState::default()).boxed();
            $(let all = (all, <$type as Field>::any()).prop_map(|(state, $field)| SenderState { $field, ..state }).boxed();)*
            all
        }
    };
}

// A field that is added is in it.
record::sender_state!(any_state!);

fn moment() -> impl Strategy<Value = Option<Instant<Monotonic>>> {
    prop::option::of(number().prop_map(Instant::from_nanos))
}

pub fn receive() -> impl Strategy<Value = Receive> {
    let stamps = prop::array::uniform4(moment());
    (number(), owner(), prop::array::uniform5(any::<u32>()), any::<u16>(), stamps, any::<bool>()).prop_map(
        |(connection, reader, n, segments, t, out_of_order)| Receive {
            connection: ConnectionId(connection),
            reader,
            thread: Some(n[4]).filter(|thread| thread % 2 == 0),
            first_seq: SeqNumber(n[0]),
            bytes: n[1],
            segments,
            stamps: Arrival { driver_rx: t[0], tcp_rx: t[1], ready: t[2], read: t[3] },
            out_of_order,
            queued: n[2],
            buffer: n[3],
            buffer_used: n[4],
        },
    )
}

fn message() -> impl Strategy<Value = Message> {
    (any::<u32>(), number(), any::<u32>()).prop_map(|(first, bytes, pieces)| Message {
        first_seq: SeqNumber(first),
        bytes,
        pieces,
    })
}

fn components() -> impl Strategy<Value = Option<Components>> {
    let time = || number().prop_map(Nanos);
    let maybe = || prop::option::of(number().prop_map(Nanos));
    let peer = prop::option::of((time(), time()).prop_map(|(receive, send)| Peer { receive, send }));
    let one = (
        time(),
        prop::option::of(waits(WaitReason::SentAtOnce)),
        time(),
        maybe(),
        maybe(),
        peer,
        time(),
        maybe(),
        maybe(),
    );
    prop::option::of(one.prop_map(
        |(application, tcp, kernel, network, peer_application, peer, transfer, wakeup, connect)| Components {
            connect,
            application,
            tcp,
            kernel,
            network,
            peer_application,
            peer,
            transfer,
            wakeup,
            upstream: None,
        },
    ))
}

/// What was asked for a request with these components: where it is joined, its wait is one of them.
fn upstream() -> impl Strategy<Value = Option<(Upstream, Nanos)>> {
    let maybe = || prop::option::of(number().prop_map(Nanos));
    let remote = prop::option::of((any::<[u8; 4]>(), any::<u16>()).prop_map(SocketAddr::from));
    let joins = prop::sample::select(Join::ALL.to_vec());
    let one = (joins, any::<u32>(), remote, maybe(), maybe(), any::<bool>(), number());
    prop::option::of(one.prop_map(|(join, requests, remote, program, network, both_ends, waited)| {
        let upstream = Upstream { join, requests, remote, program, network, both_ends };
        // Of others nothing more is known.
        let upstream = if join == Join::Joined { upstream } else { Upstream { join, ..Upstream::default() } };
        (upstream, Nanos(waited))
    }))
}

pub fn request() -> impl Strategy<Value = Request> {
    let bases = prop::sample::select(vec![Basis::OwnAck, Basis::LeastRoundTrip, Basis::BothEnds, Basis::Server]);
    let role = prop::sample::select(Role::ALL.to_vec());
    (
        number(),
        role,
        owner(),
        message(),
        message(),
        moments::<11>(),
        components(),
        bases,
        prop::option::of(any::<bool>()),
        (http(), upstream()),
    )
        .prop_map(
            |(connection, role, owner, request, answer, t, components, basis, overlapping, (http, asked))| Request {
                connection: ConnectionId(connection),
                role,
                owner,
                request,
                answer,
                moments: Moments {
                    sent: t[0],
                    first_left: t[1],
                    written: t[2],
                    left: t[3],
                    acked: t[4],
                    arrived: t[5],
                    last_arrived: t[6],
                    ready: t[7],
                    read: t[8],
                    connecting: t[9],
                    connected: t[10],
                },
                components: components.map(|components| Components {
                    upstream: asked.filter(|asked| asked.0.join == Join::Joined).map(|asked| asked.1),
                    ..components
                }),
                basis,
                overlapping,
                http,
                upstream: asked.map(|asked| asked.0),
            },
        )
}

fn http() -> impl Strategy<Value = Http> {
    let method = prop::option::of(prop::sample::select(Method::ALL.to_vec()));
    let protocol = prop::option::of(prop::sample::select(Protocol::ALL.to_vec()));
    (method, prop::option::of("[!-~]{0,20}"), prop::option::of(any::<u16>()), protocol, prop::option::of(trace()))
        .prop_map(|(method, path, status, protocol, trace)| Http { method, path, status, protocol, trace })
}

fn trace() -> impl Strategy<Value = TraceContext> {
    (1_u128.., 1_u64.., any::<bool>()).prop_map(|(trace, span, sampled)| TraceContext {
        trace: TraceId(trace.to_be_bytes()),
        span: SpanId(span.to_be_bytes()),
        sampled,
    })
}

/// Waits for up to three reasons other than `not`.
fn waits(not: WaitReason) -> impl Strategy<Value = Waits> {
    let reasons = WaitReason::ALL.into_iter().filter(|reason| *reason != not).collect::<Vec<_>>();
    prop::collection::vec((prop::sample::select(reasons), any::<u32>()), 0..4).prop_map(|all| {
        let mut waits = Waits::default();
        all.into_iter().for_each(|(reason, time)| waits.add(reason, Nanos(time.into())));
        waits
    })
}

pub fn send() -> impl Strategy<Value = Send> {
    (
        any::<u64>(),
        owner(),
        any::<(u32, u32, u16)>(),
        stamps(),
        state(),
        (prop::option::of(waits(WaitReason::SentAtOnce)), prop::option::of(waits(WaitReason::SendBuffer))),
        (prop::option::of((number(), number())), any::<bool>()),
    )
        .prop_map(|(id, owner, (seq, bytes, retransmissions), stamps, state, (buffer, wait), (open, alone))| {
            Send {
                connection: ConnectionId(id),
                owner,
                thread: Some(seq).filter(|_| alone),
                first_seq: SeqNumber(seq),
                bytes,
                stamps,
                state,
                buffer,
                wait,
                retransmissions,
                unacknowledged: open
                    .map(|(at, idle)| Unacknowledged { at: Instant::from_nanos(at), idle: Nanos(idle) }),
                ack_alone: Some(alone),
            }
        })
}

pub fn connection() -> impl Strategy<Value = Connection> {
    let end = || any::<(IpAddr, u16)>().prop_map(SocketAddr::from);
    let opening = prop::sample::select(vec![Opening::Found, Opening::Connected, Opening::Accepted]);
    (any::<u64>(), end(), end(), owner(), (opening, any::<Option<bool>>()), number(), "[a-z]{0,8}").prop_map(
        |(id, local, remote, owner, (opening, accepted), since, congestion_control)| Connection {
            id: ConnectionId(id),
            local,
            remote,
            owner,
            opening,
            accepted,
            since: Instant::from_nanos(since),
            congestion_control,
        },
    )
}

pub fn connect() -> impl Strategy<Value = Connect> {
    let opening = prop::sample::select(Opening::ALL.to_vec());
    let words = (
        prop::sample::select(Outcome::ALL.to_vec()),
        prop::option::of(prop::sample::select(Ending::ALL.to_vec())),
        prop::option::of(prop::sample::select(EndedBy::ALL.to_vec())),
        prop::option::of(prop::sample::select(FastOpen::ALL.to_vec())),
    );
    let numbers = (any::<(Option<u64>, u32, u32, Option<u32>, Option<u32>)>(), prop::option::of(number()));
    (ends(), owner(), opening, words, moments::<8>(), prop::collection::vec(number(), 0..9), numbers).prop_map(
        |((local, remote), owner, opening, (outcome, ending, ended_by, fast_open), at, retried, (n, cgroup))| Connect {
            connection: n.0.map(ConnectionId),
            local,
            remote,
            owner,
            cgroup,
            opening,
            outcome,
            stamps: ConnectStamps {
                syn: at[0],
                syn_ack: at[1],
                established: at[2],
                accepted: at[3],
                first_sent: at[4],
                first_received: at[5],
                ended: at[6],
                closed: at[7],
            },
            retries: n.1,
            retried,
            fast_open,
            syn_bytes: n.2,
            ending,
            ended_by,
            closer: n.3,
            signal: n.4,
        },
    )
}

pub fn closed() -> impl Strategy<Value = (ConnectionId, ConnectionTotals)> {
    let judged = prop::option::of(prop::array::uniform6(number().prop_map(Nanos)).prop_map(|t| Judged {
        busy: t[0],
        receive_window_limited: t[1],
        send_buffer_limited: t[2],
        receive_window: t[3],
        send_buffer: t[4],
        not_marked: t[5],
    }));
    let counted = (any::<u64>(), prop::array::uniform5(number()), any::<u32>(), prop::option::of(any::<u32>()), judged);
    counted.prop_map(|(id, n, segments_retransmitted, zero_windows, judged)| {
        let totals = ConnectionTotals {
            followed: Nanos(n[0]),
            bytes_written: n[1],
            bytes_armed: n[2],
            bytes_acked: n[3],
            segments_retransmitted,
            zero_windows,
            armed: Nanos(n[4]),
            judged,
        };
        (ConnectionId(id), totals)
    })
}

fn ends() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    any::<((IpAddr, u16), (IpAddr, u16))>().prop_map(|(local, remote)| (local.into(), remote.into()))
}

fn moments<const N: usize>() -> impl Strategy<Value = [Option<Instant<Monotonic>>; N]> {
    prop::array::uniform(prop::option::of(number().prop_map(Instant::from_nanos)))
}

fn dropped() -> impl Strategy<Value = Option<Dropped>> {
    prop::option::of(
        ("[A-Z_]{1,12}", number())
            .prop_map(|(reason, at)| Dropped { at: Instant::from_nanos(at), reason: DropReason(reason.into()) }),
    )
}

pub fn packet() -> impl Strategy<Value = Packet> {
    let numbers = any::<(u64, u32, u32, u32, u32, u8, bool, bool)>();
    (numbers, ends(), moments::<3>(), prop::option::of(number()), dropped()).prop_map(
        |((id, seq, bytes, frame_bytes, segments, flags, retransmission, sent), (local, remote), at, gap, dropped)| {
            Packet {
                connection: ConnectionId(id),
                local,
                remote,
                direction: if sent { Direction::Sent } else { Direction::Received },
                first_seq: SeqNumber(seq),
                bytes,
                frame_bytes,
                segments,
                flags: TcpFlags(flags),
                retransmission,
                sched: at[0],
                driver: at[1],
                ack: at[2],
                gap: gap.map(Nanos),
                dropped,
            }
        },
    )
}

pub fn datagram() -> impl Strategy<Value = Datagram> {
    let stamps = (any::<bool>(), moments::<4>()).prop_map(|(sent, at)| match sent {
        true => DatagramStamps::Sent { send: at[0], sched: at[1], driver: at[2] },
        false => DatagramStamps::Received { driver_rx: at[0], udp_rx: at[1], ready: at[2], read: at[3] },
    });
    (any::<(u64, u32, u32)>(), owner(), ends(), stamps, dropped()).prop_map(
        |((id, bytes, segments), owner, (local, remote), stamps, dropped)| Datagram {
            socket: ConnectionId(id),
            owner,
            local,
            remote,
            bytes,
            segments,
            stamps,
            dropped,
        },
    )
}

pub fn question() -> impl Strategy<Value = Question> {
    let answered = prop_oneof![Just(Answered::Found), Just(Answered::Failed), Just(Answered::NotKnown)];
    let times = (number(), prop::option::of(number()), number(), prop::option::of(number()));
    let text = ("[a-z.]{1,30}", prop::option::of("[A-Z]{3,8}"), prop_oneof!["", "192\\.0\\.2\\.[1-9]"]);
    (any::<(u32, u32, u32, Option<u32>, [bool; 3])>(), owner(), ends(), times, text, answered).prop_map(
        |(
            (lookup, number, tries, cgroup, [over_tcp, truncated, ends_lookup]),
            owner,
            (local, server),
            at,
            text,
            answered,
        )| {
            let ((asked, took, since_first, until_retry), (name, code, addresses)) = (at, text);
            Question {
                lookup: lookup.into(),
                number,
                tries,
                owner,
                cgroup: cgroup.map(u64::from),
                local,
                server,
                over_tcp,
                name,
                kind: "AAAA".into(),
                asked: Instant::from_nanos(asked),
                took: took.map(Nanos),
                answered,
                code,
                truncated,
                ends_lookup,
                since_first: Nanos(since_first),
                until_retry: until_retry.map(Nanos),
                addresses,
            }
        },
    )
}

/// What a table keeps of a copy: neither its bytes nor the kernel's name of it.
pub fn copy() -> impl Strategy<Value = PacketCopy> {
    let state = prop_oneof![
        Just(SocketState::Udp { held: true }),
        Just(SocketState::Udp { held: false }),
        Just(SocketState::Listener),
        Just(SocketState::Gone),
    ];
    let place = prop_oneof![
        Just(None),
        ("[a-z]{1,9}", prop::option::of("[0-9a-f]{12}"))
            .prop_map(|(unit, container)| Some(CopyPlace { unit: Some(unit), container }))
    ];
    let again = prop::option::of(prop::sample::select(Again::ALL.to_vec()));
    let known_by = prop::sample::select(KnownBy::ALL.to_vec());
    let wait = prop::option::of((prop::sample::select(WaitReason::ALL.to_vec()), number().prop_map(Nanos)));
    let carried = prop::option::of((number(), any::<[u32; 3]>(), wait)).prop_map(|of| {
        of.map(|(number, [sends, first_seq, bytes], wait)| CarriedSend {
            number,
            sends,
            first_seq: SeqNumber(first_seq),
            bytes,
            wait,
        })
    });
    let stages = moments::<10>().prop_map(|[send, sched, driver, nic, ack, nic_rx, driver_rx, tcp_rx, ready, read]| {
        CopyStages { send, sched, driver, nic, ack, nic_rx, driver_rx, tcp_rx, ready, read }
    });
    let joined = (known_by, carried, stages, prop::option::of(any::<u32>()), dropped());
    (number(), owner(), ends(), any::<[u32; 10]>(), any::<[bool; 2]>(), (state, place, again, "[a-z0-9]{0,8}"), joined)
        .prop_map(|(at, owner, (local, remote), n, [sent, checksum_pending], (state, place, again, name), joined)| {
            PacketCopy {
                id: at,
                known_by: joined.0,
                carried: joined.1,
                stages: joined.2,
                thread: joined.3,
                dropped: joined.4,
                at: Instant::from_nanos(at),
                socket: ConnectionId(at),
                owner,
                cgroup: sent.then_some(at),
                place: place.map(Arc::new),
                state,
                direction: if sent { Direction::Sent } else { Direction::Received },
                local,
                remote,
                interface: Arc::new(CopyInterface { name, number: n[0], network: n[1], ..CopyInterface::default() }),
                length: n[2],
                first_seq: SeqNumber(n[3]),
                payload: n[4],
                flags: TcpFlags(n[5] as u8),
                segments: n[6],
                segment_bytes: n[7],
                checksum_pending,
                again,
                missed: n[8],
                icmp: checksum_pending.then_some(CopyIcmp { kind: n[9], code: n[8] }),
                fragment: sent.then_some(CopyFragment { offset: n[9], datagram: n[8] }),
                ..PacketCopy::blank()
            }
        })
}

/// With something in each field that a trace may leave empty.
pub fn provenance() -> store::Provenance {
    store::Provenance {
        sampling: store::SamplingAsked { method: store::SamplingMethod::Windows, one_in: 100 },
        clock: store::ClockReading { realtime_offset_ns: 1_700_000_000_000_000_000, realtime_offset_error_ns: 120 },
        calls: Some(store::Observing::default()),
        connects: Some(store::Observing::default()),
        receiving: Some(store::Receiving {
            missing: vec![(record::ReceiveStage::Ready, "no tracepoint".into())],
            ..store::Receiving::default()
        }),
        http: Some(store::Observing::default()),
        packets: Some(store::Observing { missing: vec!["drops".into()], ..store::Observing::default() }),
        ..synthetic::provenance()
    }
}
