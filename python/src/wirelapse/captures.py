"""What limited each connection of a capture, as objects.

Fields have the names and the meaning of the keys of `wirelapse analyze --json` (docs/keys.md). Times in `_ns` are whole nanoseconds.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, TypeVar, Union, get_args, get_origin, get_type_hints

from .command import lines

# One object that the command prints, with its own keys: of DNS, TLS and QUIC.
Row = Dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """The duration of a connection by what limited it; adds up exactly."""

    application_ns: int
    handshake_ns: int
    slow_start_ns: int
    congestion_window_ns: int
    receive_window_ns: int
    loss_recovery_ns: int
    ack_waiting_ns: int
    path_rate_ns: int
    unknown_ns: int
    more: Row = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """What was found, and what a remedy would be worth."""

    kind: str
    direction: Optional[str]
    packets: List[int]  #: the packets that it rests on
    at_ns: int
    count: int
    cost_ns: int
    saves_ns: Optional[int]  #: how much sooner the connection would be over without it, at most
    text: str
    worth: str
    more: Row = field(default_factory=dict)


@dataclass(frozen=True)
class Withheld:
    """What the capture can neither show nor rule out, and why."""

    kind: str
    direction: Optional[str]
    reason: str
    more: Row = field(default_factory=dict)


@dataclass(frozen=True)
class Pause:
    """One of the longest times without data."""

    who: str
    thinking: bool
    ns: int
    from_packet: int
    to_packet: int
    more: Row = field(default_factory=dict)


@dataclass(frozen=True)
class Idle:
    """The sides that the application's share of the time belongs to."""

    client_thinking_ns: int
    server_thinking_ns: int
    client_pausing_ns: int
    server_pausing_ns: int
    round_trips_ns: int
    longest: List[Pause]
    more: Row = field(default_factory=dict)


@dataclass(frozen=True)
class Vantage:
    """Where the capture was taken."""

    place: str
    to_server_ns: Optional[int]
    to_client_ns: Optional[int]
    only_direction: Optional[str]
    from_the_middle: bool
    missed_bytes: int
    whole_bytes: int
    more: Row = field(default_factory=dict)


@dataclass(frozen=True)
class OptionState:
    """Whether both sides offered an option of TCP, and whether it is in use; None where the handshake is not in the capture."""

    client: Optional[bool]
    server: Optional[bool]
    in_use: Optional[bool]
    left_out_by: Optional[str]
    more: Row = field(default_factory=dict)


@dataclass(frozen=True)
class Quantiles:
    """Times of some samples; None where there are too few."""

    samples: int
    min_ns: Optional[int]
    median_ns: Optional[int]
    p99_ns: Optional[int]
    max_ns: Optional[int]
    more: Row = field(default_factory=dict)


@dataclass(frozen=True)
class Direction:
    """The data that went one way, and its ACKs. Further keys are in `more`."""

    packets: int
    payload_packets: int
    unique_bytes: int
    retransmitted_bytes: int
    retransmitted_packets: int
    spurious_retransmissions: int
    retransmissions: Dict[str, int]  #: by their kind
    lost_before_capture: int
    out_of_order_packets: int
    zero_window_packets: int
    mss: Optional[int]
    max_window: int
    max_in_flight: int
    rtt: Quantiles
    handshake_rtt_ns: Optional[int]
    more: Row = field(default_factory=dict)


@dataclass(frozen=True)
class Connection:
    """One connection of TCP: what limited it, and why."""

    number: int
    client: str
    server: str
    start_ns: int
    duration_ns: int
    verdict: str
    step_shortens: str
    limits: Limits
    unclear: Optional[str]
    idle: Idle
    handshake_seen: bool
    simultaneous_open: bool
    ending: str
    vantage: Vantage
    window_scaling: OptionState
    sack: OptionState
    timestamps: OptionState
    ecn: OptionState
    accurate_ecn: bool
    to_server: Direction
    to_client: Direction
    findings: List[Finding]
    withheld: List[Withheld]
    more: Row = field(default_factory=dict)


@dataclass(frozen=True)
class NotRead:
    """What could not be read, how often, and where first."""

    what: str
    count: int
    first_packet: int
    first_byte: int
    more: Row = field(default_factory=dict)


@dataclass(frozen=True)
class Capture:
    """The file as a whole."""

    file: str
    format: str
    packets: int
    connections: int
    not_tcp: int
    not_read: List[NotRead]
    problems: List[str]
    more: Row = field(default_factory=dict)


@dataclass(frozen=True)
class Analysis:
    """What `analyze` found. The lists of rows are of the lines of that kind, in their order."""

    capture: Capture
    connections: List[Connection]
    transactions: List[Row] = field(default_factory=list)
    lookups: List[Row] = field(default_factory=list)
    name_servers: List[Row] = field(default_factory=list)
    dns_findings: List[Row] = field(default_factory=list)
    tls_handshakes: List[Row] = field(default_factory=list)
    tls_findings: List[Row] = field(default_factory=list)
    quic_connections: List[Row] = field(default_factory=list)
    quic_findings: List[Row] = field(default_factory=list)
    others: List[Row] = field(default_factory=list)  #: lines of kinds that this package has no name for


T = TypeVar("T")


@functools.lru_cache(maxsize=None)
def _hints(kind: Any) -> Dict[str, Any]:
    return get_type_hints(kind)


def _made(kind: Any, value: Any, place: str) -> Any:
    """A value of JSON as this type. Raises ValueError where it is another."""
    origin = get_origin(kind)
    if origin is Union:
        if value is None:
            return None
        kind = next(one for one in get_args(kind) if one is not type(None))
        origin = get_origin(kind)
    if origin is list and isinstance(value, list):
        return [_made(get_args(kind)[0], one, place) for one in value]
    if origin is dict and isinstance(value, dict):
        return {key: _made(get_args(kind)[1], one, f"{place}.{key}") for key, one in value.items()}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and isinstance(value, dict):
        return _object(kind, value, place)
    # A truth value is a whole number too, for Python.
    if origin is None and type(value) is kind:
        return value
    raise ValueError(f"{place}: {value!r} is not of the type {kind}")


def _object(kind: Callable[..., T], row: Row, place: str) -> T:
    hints = _hints(kind)
    names = [name for name in hints if name != "more"]
    missing = [name for name in names if name not in row]
    if missing:
        raise ValueError(f"{place} has no {', '.join(missing)}: the command `wirelapse` is of another version than this package")
    known = {name: _made(hints[name], row[name], f"{place}.{name}") for name in names}
    return kind(**known, more={key: value for key, value in row.items() if key not in hints})


_ROWS = {
    "transaction": "transactions", "lookup": "lookups", "name_server": "name_servers", "dns_finding": "dns_findings", "tls_handshake": "tls_handshakes",
    "tls_finding": "tls_findings", "quic_connection": "quic_connections", "quic_finding": "quic_findings",
}


def analyze(capture: Union[str, os.PathLike[str]]) -> Analysis:
    """Reads a capture (pcap, pcapng, … also compressed) and says what limited each of its connections.

    Raises WirelapseError where the command cannot read it.
    """
    connections: List[Connection] = []
    rows: Dict[str, List[Row]] = {name: [] for name in [*_ROWS.values(), "others"]}
    whole: Optional[Capture] = None
    for line in lines(["analyze", "--json", "--", os.fspath(capture)]):
        row = json.loads(line)
        kind = row.pop("kind")
        if kind == "connection":
            connections.append(_object(Connection, row, f"connection {row.get('number')}"))
        elif kind == "capture":
            whole = _object(Capture, row, "capture")
        else:
            rows[_ROWS.get(kind, "others")].append(row if kind in _ROWS else {"kind": kind, **row})
    if whole is None:
        raise ValueError("the command `wirelapse` printed no line about the whole capture")
    return Analysis(capture=whole, connections=connections, **rows)
