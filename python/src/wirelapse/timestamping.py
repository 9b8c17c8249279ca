"""Every timestamp that Linux gives for a socket's packets: `SO_TIMESTAMPING`, by the library of Rust.

Times are whole nanoseconds: the kernel's on CLOCK_REALTIME (`time.time_ns()`), a NIC's on its own clock. `enable` prepares a socket, which stays the caller's.
"""

from __future__ import annotations

import enum
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, Union

import cffi

__all__ = [
    "Broken", "Counts", "Enabled", "Flag", "IcmpError", "LocalError", "Matched", "Matcher", "Other", "Ready", "Received", "Report", "Stage", "Stamp",
    "TimestampingError", "ZeroCopy", "enable", "supported",
]

_ffi = cffi.FFI()
_header = Path(__file__).with_name("wirelapse_timestamping.h").read_text(encoding="utf-8")
# What is for the preprocessor, and for C++.
_ffi.cdef(re.sub(r'^(#.*|extern "C" \{|\} *// extern "C")$', "", _header, flags=re.M))
_lib: Any = _ffi.dlopen(str(Path(__file__).with_name("libwirelapse_timestamping.so")))


class Stage(enum.IntFlag):
    """Where the kernel stamps something that is sent."""

    SCHED = 1 << 0  #: it enters the packet scheduler
    DRIVER = 1 << 1  #: it is handed to the driver
    NIC = 1 << 2  #: the NIC put it on the wire
    COMPLETION = 1 << 3  #: the device reported that it went out
    ACK = 1 << 4  #: the peer acknowledged its last byte (TCP)


STAGES: Tuple[Stage, ...] = (Stage.SCHED, Stage.DRIVER, Stage.NIC, Stage.COMPLETION, Stage.ACK)


class Flag(enum.IntFlag):
    """The bits of `SO_TIMESTAMPING`, under the kernel's names (`SOF_TIMESTAMPING_*`)."""

    TX_HARDWARE = 1 << 0
    TX_SOFTWARE = 1 << 1
    RX_HARDWARE = 1 << 2
    RX_SOFTWARE = 1 << 3
    SOFTWARE = 1 << 4
    SYS_HARDWARE = 1 << 5
    RAW_HARDWARE = 1 << 6
    OPT_ID = 1 << 7
    TX_SCHED = 1 << 8
    TX_ACK = 1 << 9
    OPT_CMSG = 1 << 10
    OPT_TSONLY = 1 << 11
    OPT_STATS = 1 << 12
    OPT_PKTINFO = 1 << 13
    OPT_TX_SWHW = 1 << 14
    BIND_PHC = 1 << 15
    OPT_ID_TCP = 1 << 16
    OPT_RX_FILTER = 1 << 17
    TX_COMPLETION = 1 << 18


class Ready(enum.IntFlag):
    """What a socket has."""

    ERRORS = 1 << 0  #: something is on its error queue
    READABLE = 1 << 1  #: something can be received
    WRITABLE = 1 << 2  #: something can be sent


class TimestampingError(OSError):
    """What was asked failed: `result` is the name of the failure (`UNSUPPORTED`, `NOT_CONNECTED`, …), `errno` the kernel's number where a system call failed."""

    result: str


def _check(result: int) -> None:
    if result == _lib.WLTS_OK:
        return
    number = _lib.wlts_error_number()
    error = TimestampingError(number or None, _ffi.string(_lib.wlts_error_text()).decode())
    error.result = _ffi.string(_ffi.cast("enum wlts_result", result)).removeprefix("WLTS_")
    raise error


def supported() -> Flag:
    """The flags that the running kernel knows, found by trying each."""
    flags = _ffi.new("uint32_t *")
    _check(_lib.wlts_supported(flags))
    return Flag(flags[0])


@dataclass(frozen=True)
class Stamp:
    """One stage of one send."""

    stage: Stage
    id: int  #: the send's id modulo 2³²: the number of the datagram, or the position of its last byte
    software_ns: Optional[int]  #: the kernel's time
    hardware_ns: Optional[int]  #: the NIC's
    interface: Optional[int]  #: index of the interface it left by, with `packet_info`
    stats: Optional[Dict[str, int]]  #: TCP's figures by name, with `stats`; one that the kernel did not send is not there
    payload: bytes  #: the packet, with `with_payload`


@dataclass(frozen=True)
class IcmpError:
    """An ICMP or ICMPv6 error that came back for something this socket sent."""

    text: str
    v6: bool
    type: int
    code: int
    errno: int
    info: int  #: the path MTU, where the packet was too big
    offender: Optional[str]  #: who sent it
    software_ns: Optional[int]
    hardware_ns: Optional[int]
    payload: bytes


@dataclass(frozen=True)
class LocalError:
    """An error of this host itself, such as a datagram larger than the path MTU."""

    errno: int
    info: int


@dataclass(frozen=True)
class ZeroCopy:
    """`MSG_ZEROCOPY` sends are done with their buffers."""

    first: int
    last: int
    copied: bool


@dataclass(frozen=True)
class Other:
    """Well-formed, of an origin that the library has no name for."""

    errno: int
    info: int


@dataclass(frozen=True)
class Broken:
    """A message that cannot be read."""

    text: str


Report = Union[Stamp, IcmpError, LocalError, ZeroCopy, Other, Broken]


@dataclass(frozen=True)
class Received:
    """One datagram, or what a stream had to give."""

    payload: bytes
    cut: bool  #: more came than there was room for
    sender: Optional[str]  #: address and port; none for a stream
    software_ns: Optional[int]  #: when it entered the stack
    hardware_ns: Optional[int]  #: when the NIC received it
    interface: Optional[int]
    link: Optional[Tuple[int, int]]  #: interface of the NIC's stamp, and bytes on the link there
    ttl: Optional[int]
    dropped: Optional[int]  #: datagrams that the socket dropped so far, modulo 2³²


@dataclass(frozen=True)
class Matched:
    """A send with the stamps that came for it."""

    id: int
    tag: int
    sent_ns: int
    got: Tuple[Stage, ...]
    missing: Tuple[Stage, ...]
    at_ns: Dict[Stage, int]  #: the kernel's times, without that of the NIC
    nic_ns: Optional[int]  #: the NIC's, on its own clock

    def since_sent_ns(self, stage: Stage) -> Optional[int]:
        """Nanoseconds from the send to a stage; None where it has no time on the kernel's clock. Negative only where the clock was set."""
        at = self.at_ns.get(stage)
        return None if at is None else at - self.sent_ns


@dataclass(frozen=True)
class Counts:
    """What became of the stamps: `sent == complete + incomplete + pending`, always."""

    sent: int
    complete: int
    incomplete: int
    pending: int
    never_came: Dict[Stage, int]
    matched: int
    repeated: int
    unknown: int


def _stages(bits: int) -> Tuple[Stage, ...]:
    return tuple(stage for stage in STAGES if bits & stage)


def _text(pointer: Any) -> Optional[str]:
    return _ffi.string(pointer).decode() if pointer else None


def _bytes(pointer: Any, length: int) -> bytes:
    return bytes(_ffi.buffer(pointer, length)) if length else b""


def _times(times: Any) -> Tuple[Optional[int], Optional[int]]:
    return (times.software_ns if times.has_software else None, times.hardware_ns if times.has_hardware else None)


_FIGURES = [name for name, field in _ffi.typeof("struct wlts_stats").fields if name != "unknown"]


def _stats(report: Any) -> Optional[Dict[str, int]]:
    if not report.stats:
        return None
    stats = _ffi.new("struct wlts_stats *")
    _check(_lib.wlts_stats_read(report.stats, report.stats_length, stats))
    figures = {name: getattr(stats, name) for name in _FIGURES}
    return {name: figure.value for name, figure in figures.items() if figure.known}


def _report(report: Any) -> Report:
    software_ns, hardware_ns = _times(report.times)
    payload = _bytes(report.payload, report.payload_length)
    if report.kind == _lib.WLTS_STAMP:
        interface = report.interface if report.has_interface else None
        return Stamp(Stage(report.stage), report.id, software_ns, hardware_ns, interface, _stats(report), payload)
    if report.kind == _lib.WLTS_ICMP:
        return IcmpError(
            _text(report.text) or "", report.icmp_v6, report.icmp_type, report.icmp_code, report.error, report.info, _text(report.offender),
            software_ns, hardware_ns, payload,
        )
    if report.kind == _lib.WLTS_LOCAL:
        return LocalError(report.error, report.info)
    if report.kind == _lib.WLTS_ZERO_COPY:
        return ZeroCopy(report.first, report.last, report.copied)
    if report.kind == _lib.WLTS_BROKEN:
        return Broken(_text(report.text) or "")
    return Other(report.error, report.info)


class Enabled:
    """A socket that stamps. Made by `enable`; used by one thread at a time."""

    def __init__(self, sock: socket.socket, handle: Any) -> None:
        self.socket = sock
        self._handle = handle
        self._queue = _ffi.gc(_lib.wlts_queue_new(0, 2048, 0), _lib.wlts_queue_free)
        self._receivers: Dict[int, Any] = {}

    @property
    def flags(self) -> Flag:
        """The flags that are set."""
        return Flag(_lib.wlts_enabled_flags(self._handle))

    @property
    def left_out(self) -> Flag:
        """The flags that a lenient request went on without."""
        return Flag(_lib.wlts_enabled_left_out(self._handle))

    @property
    def stages(self) -> Stage:
        """The stages at which sends are stamped."""
        return Stage(_lib.wlts_enabled_stages(self._handle))

    @property
    def counts_bytes(self) -> bool:
        """Whether ids are positions of bytes (TCP) and not numbers of datagrams."""
        return bool(_lib.wlts_enabled_counts_bytes(self._handle))

    def send(self, data: bytes, *, stages: Optional[Stage] = None, id: Optional[int] = None, to: Optional[str] = None) -> int:
        """Sends `data` as one write or one datagram; gives how many bytes were taken.

        `stages` stamps this send alone, `id` is the id of its stamps (Linux 6.13, not for TCP), and `to` is where to, as `"192.0.2.1:53"`, for a socket that is
        not connected.
        """
        options = _ffi.new("struct wlts_send_options *")
        if stages is not None:
            options.has_stages, options.stages = True, int(stages)
        if id is not None:
            options.has_id, options.id = True, id
        address = None if to is None else _ffi.new("char[]", to.encode())
        if address is not None:
            options.to = address
        sent = _ffi.new("size_t *")
        _check(_lib.wlts_send(self._handle, self.socket.fileno(), _ffi.from_buffer(data), len(data), options, sent))
        return int(sent[0])

    def wait(self, timeout: float, what: Ready = Ready(0)) -> Ready:
        """Waits until something is on the error queue or, as `what` says, can be received or sent; at most `timeout` seconds. `Ready(0)` where that is over."""
        found = _ffi.new("uint8_t *")
        _check(_lib.wlts_wait(self.socket.fileno(), int(what), int(timeout * 1e9), found))
        return Ready(found[0])

    def read(self) -> List[Report]:
        """What is on the error queue, at most a batch of 64; never waits."""
        reports: List[Report] = []
        self._read(lambda report: reports.append(_report(report)))
        return reports

    def _read(self, each: Any) -> int:
        failed: List[BaseException] = []

        # A callback cannot raise through C.
        def keep(_context: Any, report: Any) -> None:
            try:
                each(report)
            except BaseException as error:
                failed.append(error)

        callback = _ffi.callback("void(void *, const struct wlts_report *)", keep)
        count = _ffi.new("size_t *")
        _check(_lib.wlts_queue_read(self._queue, self.socket.fileno(), callback, _ffi.NULL, count))
        if failed:
            raise failed[0]
        return int(count[0])

    def receive(self, size: int = 65536) -> List[Received]:
        """Receives what is there with its stamps, up to `size` bytes of each message; never waits. A stream that has ended gives a message of no bytes."""
        if size not in self._receivers:
            self._receivers[size] = _ffi.gc(_lib.wlts_receiver_new(1 if self.counts_bytes else 16, size, 0), _lib.wlts_receiver_free)
        all_received: List[Received] = []
        broken: List[str] = []

        def keep(_context: Any, received: Any) -> None:
            if received.broken:
                broken.append(_text(received.broken) or "")
                return
            software_ns, hardware_ns = _times(received.times)
            all_received.append(Received(
                _bytes(received.payload, received.payload_length), received.cut, _text(getattr(received, "from")), software_ns, hardware_ns,
                received.interface if received.has_interface else None,
                (received.link_interface, received.link_length) if received.has_link else None,
                received.ttl if received.has_ttl else None, received.dropped if received.has_dropped else None,
            ))

        callback = _ffi.callback("void(void *, const struct wlts_received *)", keep)
        count = _ffi.new("size_t *")
        _check(_lib.wlts_receiver_read(self._receivers[size], self.socket.fileno(), callback, _ffi.NULL, count))
        if broken:
            error = TimestampingError(None, broken[0])
            error.result = "UNREADABLE"
            raise error
        return all_received

    def reserve(self, stamps: int) -> int:
        """Makes room for so many stamps in the receive buffer; gives how many there is room for then."""
        room = _ffi.new("uint32_t *")
        _check(_lib.wlts_reserve_stamps(self.socket.fileno(), stamps, room))
        return int(room[0])

    def matcher(self, capacity: int = 1024) -> Matcher:
        """A matcher of the stamps of this socket, which holds up to `capacity` sends."""
        return Matcher(self, capacity)


class Matcher:
    """Sends, and matches the stamps to the sends they are of."""

    def __init__(self, enabled: Enabled, capacity: int) -> None:
        self.enabled = enabled
        self._matcher = _ffi.gc(_lib.wlts_matcher_new(enabled._handle, capacity), _lib.wlts_matcher_free)
        self._last = 0
        #: Messages of the error queue that are no stamps, in their order.
        self.others: List[Report] = []

    def send(self, data: bytes, *, tag: int = 0, id: Optional[int] = None, to: Optional[str] = None) -> int:
        """Sends `data`, stamped, and notes it under `tag`; gives how many bytes were taken. An `id` must be larger than those before."""
        if id is not None and id < self._last:
            raise ValueError(f"the id {id} is not larger than those before")
        before = int(_lib.wlts_now_ns())
        sent = self.enabled.send(data, id=None if id is None else id & 0xFFFFFFFF, to=to)
        if id is None:
            _lib.wlts_matcher_sent(self._matcher, sent, before, tag)
        else:
            self._last = id + 1
            _lib.wlts_matcher_sent_with_id(self._matcher, id, before, tag)
        return sent

    def read(self) -> List[Matched]:
        """Takes what is on the error queue, and gives the sends that are finished by it; never waits."""

        def take(report: Any) -> None:
            if report.kind == _lib.WLTS_STAMP:
                _lib.wlts_matcher_stamp(self._matcher, report)
            else:
                self.others.append(_report(report))

        while self.enabled._read(take) == 64:
            pass
        return self._finished()

    def wait(self, timeout: float) -> List[Matched]:
        """Waits until no send waits for a stamp, at most `timeout` seconds, and gives up those that still do: they are given with the stamps that came."""
        finished: List[Matched] = []
        end = int(_lib.wlts_now_ns()) + int(timeout * 1e9)
        while self.counts.pending and (left := end - int(_lib.wlts_now_ns())) > 0:
            self.enabled.wait(left / 1e9)
            finished += self.read()
        _lib.wlts_matcher_give_up(self._matcher, 2**64 - 1)
        return finished + self._finished()

    def _finished(self) -> List[Matched]:
        all_finished = []
        matched = _ffi.new("struct wlts_matched *")
        while _lib.wlts_matcher_finished(self._matcher, matched):
            got = _stages(matched.got)
            at_ns: Dict[Stage, int] = {stage: matched.at_ns[STAGES.index(stage)] for stage in got if stage is not Stage.NIC}
            nic_ns = matched.nic_ns if Stage.NIC in got else None
            all_finished.append(Matched(matched.id, matched.tag, matched.sent_ns, got, _stages(matched.missing), at_ns, nic_ns))
        return all_finished

    @property
    def counts(self) -> Counts:
        """What became of the stamps so far."""
        counts = _lib.wlts_matcher_counts(self._matcher)
        never_came = {stage: counts.never_came[STAGES.index(stage)] for stage in STAGES}
        return Counts(counts.sent, counts.complete, counts.incomplete, counts.pending, never_came, counts.matched, counts.repeated, counts.unknown)


def enable(
    sock: socket.socket,
    *,
    stages: Stage = Stage(0),
    per_send: bool = False,
    receive_software: bool = False,
    receive_hardware: bool = False,
    only_own_receive_stamps: bool = False,
    stats: bool = False,
    packet_info: bool = False,
    with_payload: bool = False,
    without_ids: bool = False,
    icmp_errors: bool = False,
    ttl: bool = False,
    count_drops: bool = False,
    bind_phc: Optional[int] = None,
    flags: Flag = Flag(0),
    lenient: bool = False,
) -> Enabled:
    """Asks a socket (TCP, UDP, ping, raw or packet) for timestamps. A TCP socket has to be connected.

    stages: where to stamp what is sent; with `per_send`, only sends that ask for it.
    receive_software, receive_hardware: stamp what is received, in the stack or in the NIC; `only_own_receive_stamps` leaves out what other sockets asked for.
    stats: TCP's own figures with each stamp. packet_info: the interface too. with_payload: the packet too. without_ids: no ids.
    icmp_errors: ICMP errors on the error queue. ttl, count_drops: the TTL, and how many datagrams were dropped, with what is received.
    bind_phc: index of the virtual PTP clock of hardware stamps. flags: further flags.
    lenient: go on without what the kernel lacks; `left_out` has it.

    Raises TimestampingError where the kernel lacks something, the options contradict each other, or the socket is of the wrong kind.
    """
    request = _ffi.new("struct wlts_request *")
    request.stages, request.flags = int(stages), int(flags)
    request.per_send, request.receive_software, request.receive_hardware = per_send, receive_software, receive_hardware
    request.only_own_receive_stamps, request.stats, request.packet_info = only_own_receive_stamps, stats, packet_info
    request.with_payload, request.without_ids, request.icmp_errors = with_payload, without_ids, icmp_errors
    request.ttl, request.count_drops, request.lenient = ttl, count_drops, lenient
    if bind_phc is not None:
        request.bind_phc, request.phc = True, bind_phc
    handle = _ffi.new("struct wlts_enabled **")
    _check(_lib.wlts_enable(sock.fileno(), request, handle))
    return Enabled(sock, _ffi.gc(handle[0], _lib.wlts_enabled_free))
