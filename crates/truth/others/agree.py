#!/usr/bin/env python3
"""Compares what `wirelapse analyze` says of DNS, TLS, QUIC, ICMP and UDP with tshark, field by field.

`agree.py WIRELAPSE CAPTURE… [--jobs N] [--show N]`; folders stand for all files in
them, and compressed captures need `zstd`. Each field of each question, handshake, connection,
error, echo and conversation is looked up in tshark's fields of the same packets, and each of
tshark's is looked for among ours. A difference that is meant to be is one of `BY_DESIGN`, which
says why; it is taken for one only where its condition holds. All others are printed.

Exit status 1: there is a difference that `BY_DESIGN` does not have.
"""

import argparse
import collections
import concurrent.futures
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

BY_DESIGN = {
    "copy": "the same message from the same port within 100 ms is a copy of the packet, not another try",
    "same message again": "the same message again: the answer is taken for that of the latest try, and tshark's time begins with the first",
    "another name": "for tshark the number is enough, and here the names differ, or one is damaged",
    "answered before": "tshark takes the same number and name for the same question, also where that was answered",
    "cut": "tshark reads what is there of a message that the capture, or its sender, cut short, and a whole answer behind a QUIC hello that was cut short",
    "refused message": "a message that contradicts itself (a pointer forward, a count that its bytes do not hold) is counted as malformed, and tshark shows its beginning",
    "not asked": "an update, a notification or a message without a question is no lookup",
    "other port": "what tshark finds on other ports (DNS on a port of the user's, over HTTP, in a tunnel that carries it) is not read as DNS",
    "escaped": "bytes that are not letters, digits or punctuation are written as \\DDD, and tshark has them as they are, or U+FFFD for them",
    "end of the record": "a message is there with its last byte, and for tshark with the end of the record, which carries more",
    "several segments": "time runs from the first segment of the client's hello, and tshark has the hello at its last",
    "other data": "tshark takes an answer for one only if it has the request's data",
    "long hello": "8 KiB of a hello are read",
    "within": "a tunnel that is read: what is within counts, and not its own packets",
    "flight began": "the server's hello counts as sent with the first packet of its flight, which may be a piece of it, or come after a lost one",
    "fragments": "fragments that overlap or contradict each other are not put together (RFC 5722)",
    "waits": "tshark waits for bytes of TCP that are missing, and does not read what follows",
    "link": "ARCNET is not read",
    "after a SYN": "behind a SYN of the server that comes again with another number, tshark does not put its bytes together",
    "behind": "a hello behind something else in its segment (the PROXY protocol) is not looked for",
    "tunnel": "a tunnel or header that is not read (VXLAN-GPE, CAPWAP, Teredo, OpenVPN, IPsec, PPP in GRE that is cut short): its own packets count, and not what is within",
    "group": "multicast DNS has no numbers: an answer is one by its name, and a host that announces one asks for it too",
    "other protocol": "tshark expects another protocol on this port, and does not look for TLS",
    "not TLS 3": "a hello of SSL 2.0 is not read",
    "missing packets": "packets of the handshake are missing from the capture, were cut short or damaged: what follows is not joined to it",
    "ended before": "a side ended the handshake before this came",
    "after it": "another handshake in the connection of one: within it, or after it, in a tunnel or a proxy",
    "retransmitted": "a hello that was sent again is the same one",
    "not of the version": "tshark reads hellos of reserved and of its makers' own versions with the salt of a draft",
    "not read": "tshark does not read a first packet of a version that it does not know, in answer to which the server named others",
    "version kept": "tshark shows the version of the first packet, and the connection went on with another",
    "hello in several datagrams": "tshark 4.0 puts a hello together whose pieces are in order; `analyze` does in any order",
    "no beginning": "the client's first packet is not in the capture: what is known comes from later ones",
    "several on one": "several connections between the same ports: tshark has one conversation",
    "moved": "a connection that changes its address is one, and tshark has a conversation for each",
    "damaged": "a damaged packet (a checksum or a length that is wrong) does not count",
}  # fmt: skip

FIELDS = [
    "frame.number", "frame.time_epoch", "frame.len", "frame.cap_len", "frame.protocols", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst",
    "udp.srcport", "udp.dstport", "udp.stream", "udp.length", "tcp.srcport", "tcp.dstport", "tcp.stream", "tcp.len",
    "dns.id", "dns.flags.response", "dns.flags.opcode", "dns.flags.rcode", "dns.resp.ext_rcode", "dns.qry.name", "dns.qry.type",
    "dns.count.queries", "dns.count.answers", "dns.resp.type", "dns.a", "dns.aaaa", "dns.time", "dns.response_to", "dns.retransmission",
    "dns.retransmit_request_in", "tls.handshake.type", "tls.handshake.version", "tls.handshake.random",
    "tls.handshake.session_id", "tls.handshake.ciphersuite", "tls.handshake.extensions_server_name",
    "tls.handshake.extensions_alpn_str", "tls.handshake.extensions.supported_version", "tls.handshake.extension.type",
    "tls.handshake.extension.len", "tls.alert_message.desc", "quic.version", "quic.dcid", "quic.scid", "quic.long.packet_type",
    "quic.long.packet_type_v2", "quic.supported_version", "icmp.type", "icmp.code", "icmp.ident", "icmp.resptime", "icmp.resp_to",
    "icmpv6.type", "icmpv6.code", "icmpv6.echo.identifier", "icmpv6.resptime", "icmpv6.resp_to", "_ws.malformed",
]  # fmt: skip

DNS_PORTS = {53, 5353, 5355}
RETRY_RANDOM = "cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c"
TYPES = {1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 12: "PTR", 15: "MX", 16: "TXT", 28: "AAAA", 33: "SRV", 35: "NAPTR", 43: "DS",
         46: "RRSIG", 47: "NSEC", 48: "DNSKEY", 64: "SVCB", 65: "HTTPS", 251: "IXFR", 252: "AXFR", 255: "ANY", 257: "CAA"}  # fmt: skip
CODES = {0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED", 6: "YXDOMAIN", 7: "YXRRSET",
         8: "NXRRSET", 9: "NOTAUTH", 10: "NOTZONE", 16: "BADVERS", 23: "BADCOOKIE"}  # fmt: skip
TLS_VERSIONS = {0x300: "SSL 3.0", 0x301: "TLS 1.0", 0x302: "TLS 1.1", 0x303: "TLS 1.2", 0x304: "TLS 1.3"}
QUIC_V2 = 0x6B3343CF
COPY_NS = 100_000_000


def number(text):
    return int(text, 0) if text else None


def nanoseconds(text):
    """Of seconds with a fraction."""
    seconds, _, fraction = text.partition(".")
    return (-1 if text.startswith("-") else 1) * (abs(int(seconds or 0)) * 10**9 + int(f"{fraction:0<9}"[:9]))


class Frame:
    """A packet as tshark reads it."""

    def __init__(self, line):
        self.fields = {name: value.split("\x1f") if value else [] for name, value in zip(FIELDS, line.split("\t"))}
        self.number = int(self.fields["frame.number"][0])
        self.at = nanoseconds(self.fields["frame.time_epoch"][0])
        protocols = self.fields["frame.protocols"][0].split(":")
        left = {name: list(values) for name, values in self.fields.items()}

        def take(*names):
            return [left[name].pop(0) if left[name] else None for name in names]

        # The innermost of what is not quoted, and what is quoted.
        self.ends = self.transport = self.error = None
        self.quoted = None
        # The ends and lengths of all datagrams, those of tunnels among them.
        self.datagrams = []
        ends = None
        for protocol in protocols:
            if protocol in ("ip", "ipv6"):
                ends = take(f"{protocol}.src", f"{protocol}.dst")
                if self.error is None:
                    self.ends, self.transport = ends, None
            elif protocol in ("udp", "udplite", "tcp"):
                if protocol == "udp":
                    ports = take("udp.srcport", "udp.dstport", "udp.stream", "udp.length")
                elif protocol == "tcp":
                    ports = take("tcp.srcport", "tcp.dstport", "tcp.stream", "tcp.len")
                else:
                    continue
                here = (protocol, *[int(p) if p else None for p in ports])
                if self.error is None:
                    self.transport = here
                    if protocol == "udp" and ends:
                        self.datagrams.append(((ends[0], here[1]), (ends[1], here[2]), here[4]))
                elif self.quoted is None:
                    self.quoted = (ends, here)
            elif protocol in ("icmp", "icmpv6"):
                kind, code = take(f"{protocol}.type", f"{protocol}.code")
                if self.error is None and kind is not None:
                    kind, code = int(kind), int(code or 0)
                    is_error = kind in (3, 4, 5, 11, 12) if protocol == "icmp" else kind < 128
                    self.error = (protocol, kind, code, is_error, self.ends)
        if self.error and self.error[3] and self.quoted is None and ends is not self.error[4]:
            self.quoted = (ends, None)

    def all(self, name):
        return self.fields[name]

    def first(self, name):
        values = self.fields[name]
        return values[0] if values else None

    def has(self, name):
        return bool(self.fields[name])

    @property
    def is_quoting(self):
        return bool(self.error and self.error[3])

    @property
    def is_malformed(self):
        labels = any("<Unknown extended label>" in name for name in self.all("dns.qry.name"))
        return labels or self.has("_ws.malformed") or "_ws.malformed" in self.fields["frame.protocols"][0]

    def flow(self):
        """Protocol, source and destination as `address port`."""
        if not self.ends or not self.transport:
            return None
        return self.transport[0], (self.ends[0], self.transport[1]), (self.ends[1], self.transport[2])


def theirs_of(file):
    words = ["tshark", "-r", file, "-n", "-T", "fields", "-E", "occurrence=a", "-E", "aggregator=\x1f",
             "-o", "tcp.reassemble_out_of_order:TRUE"]  # fmt: skip
    for field in FIELDS:
        words += ["-e", field]
    done = subprocess.run(words, capture_output=True)
    text = done.stdout.decode(errors="replace")
    return [Frame(line) for line in text.split("\n") if line.count("\t") == len(FIELDS) - 1 and not line.startswith("\t")]


class Tally:
    """What was compared in one capture."""

    def __init__(self, file):
        self.file = file
        self.equal, self.meant, self.other = collections.Counter(), collections.Counter(), []

    def compare(self, field, packet, ours, theirs, **reasons):
        """`reasons` are those of `BY_DESIGN` that hold here."""
        if ours == theirs:
            self.equal[field] += 1
            return
        for reason, holds in reasons.items():
            if holds:
                reason = reason.replace("_", " ")
                assert reason in BY_DESIGN, reason
                self.meant[f"{field}: {reason}"] += 1
                return
        self.other.append((field, packet, ours, theirs))


def escapes(text):
    """Bytes as text in which nothing steers a terminal or ends a quotation, as `analyze` writes them."""
    return "".join(f"\\{chr(b)}" if b in b'\\"`' else chr(b) if 0x21 <= b < 0x7F else f"\\{b:03}" for b in text.encode())


def question_names(frame):
    names = [escapes(name).lower().replace("<root>", ".") for name in frame.all("dns.qry.name")]
    kinds = [TYPES.get(int(kind), f"TYPE{kind}") for kind in frame.all("dns.qry.type")]
    return list(zip(names, kinds))


def answered_with(answer):
    """The addresses of the answer section: those of the other sections come after them."""
    count, left = int(answer.first("dns.count.answers") or 0), [list(answer.all("dns.a")), list(answer.all("dns.aaaa"))]
    found = []
    for kind in answer.all("dns.resp.type")[:count]:
        of = left[0] if kind == "1" else left[1] if kind == "28" else []
        found += of[:1]
        del of[:1]
    return found


def is_dns(frame):
    flow = frame.flow()
    ports = {flow[1][1], flow[2][1]} if flow else set()
    return bool(ports & ({53} if flow and flow[0] == "tcp" else DNS_PORTS))


def compare_dns(tally, lines, frames):
    lookups = [line for line in lines if line["kind"] == "lookup"]
    known = [f for f in frames.values() if f.has("dns.id") and not f.is_quoting]
    asked, tries = set(), {}
    # The packets of the first 23 tries are named: of further ones, the number is compared.
    many = {(row["client"], row["name"], row["type"]) for row in lookups if row["tries"] > 23}
    for client, name, kind in sorted(many):
        ours = sum(row["tries"] for row in lookups if (row["client"], row["name"], row["type"]) == (client, name, kind))
        theirs = [f.number for f in known if f.first("dns.flags.response") in ("0", "False") and f.ends[0] == client and is_dns(f) and (name, kind) in question_names(f)]
        tally.compare("dns: tries", theirs[0] if theirs else 0, ours, len(theirs), another_name=len(theirs) < ours)
    capture = next((line for line in lines if line["kind"] == "capture"), None)
    refused = capture["dns"]["malformed"] if capture else 0
    for row in lookups:
        packets = [int(p) for p in row["packets"].split()]
        questions = packets[: min(row["tries"], 23)]
        is_group = row["protocol"] != "dns"
        for i, q in enumerate(questions):
            asked.add((q, row["name"], row["type"]))
            tries[q] = i
            frame = frames.get(q)
            if frame is None or not frame.has("dns.id"):
                over_tcp = frame is not None and frame.transport is not None and frame.transport[0] == "tcp"
                tally.compare("dns.id", q, "a question", None, cut=frame is not None and frame.is_malformed, waits=over_tcp)
                continue
            names = question_names(frame)
            escaped = "\\" in row["name"] and any("\ufffd" in n or "\\" in n for n in frame.all("dns.qry.name"))
            ours = (row["name"], row["type"])
            # tshark escapes some names itself.
            said = [n for n, _ in names] + [n.lower() for n in frame.all("dns.qry.name")]
            tally.compare("dns.qry.name", q, row["name"], row["name"] if row["name"] in said else names, escaped=escaped)
            tally.compare("dns.qry.type", q, ours[1], ours[1] if ours[1] in [k for _, k in names] else names)
            tally.compare("client of the question", q, row["client"], frame.ends[0])
            tally.compare("server of the question", q, True, frame.ends[1] in row["servers"].split())
        if len(packets) != len(questions) + 1 or row["tries"] > 23:
            continue
        answer, question = frames.get(packets[-1]), frames.get(questions[row["answered_try"] - 1])
        if answer is None or answer.is_quoting or not answer.has("dns.id"):
            if answer is None or not answer.is_quoting:
                tally.compare("dns.flags.response", packets[-1], "an answer", None)
            continue
        said = set(answer.all("dns.id"))
        if row["protocol"] != "mdns":
            tally.compare("dns.id", packets[-1], bool(said & set(question.all("dns.id"))), True, waits=not question.has("dns.id") and row["over_tcp"])
        code = int(answer.first("dns.flags.rcode") or 0)
        if answer.has("dns.resp.ext_rcode"):
            code |= int(answer.first("dns.resp.ext_rcode"), 0) << 4
        several = len(answer.all("dns.id")) > 1
        if not several:
            tally.compare("dns.flags.rcode", packets[-1], row["code"], CODES.get(code, f"RCODE{code}"))
            ours, theirs = row["addresses"].split(), answered_with(answer)
            tally.compare("dns.a, dns.aaaa", packets[-1], sorted(ours), sorted(theirs), cut=answer.is_malformed)
        if answer.has("dns.time") and not several:
            to = int(answer.first("dns.response_to") or 0)
            at = frames[questions[row["answered_try"] - 1]].at
            ours = row["took_ns"] - row["earlier_tries_ns"]
            again = question.number != to and to in frames and set(frames[to].all("dns.id")) & said and frames[to].at <= at
            tally.compare("dns.time", packets[-1], ours, nanoseconds(answer.first("dns.time")), same_message_again=again, group=is_group)
            tally.compare("dns.response_to", packets[-1], question.number, to, same_message_again=again, group=is_group)
    for frame in known:
        if not frame.has("dns.flags.response") or frame.first("dns.flags.response") in ("1", "True"):
            continue
        names = question_names(frame)
        flow = frame.flow()
        port = flow and (flow[1][1], flow[2][1])
        earlier = [
            f
            for f in known
            if f.number < frame.number and f.flow() == flow and set(f.all("dns.id")) & set(frame.all("dns.id")) and frame.at - f.at < COPY_NS
        ] if names else []
        not_asked = any(code != "0" for code in frame.all("dns.flags.opcode")) or not names
        wanted = names if port and 5353 in port else names[:1]
        if len(frame.all("dns.id")) > 1:
            wanted = names
        for name, kind in wanted or [("", "")]:
            ours = any(q == frame.number and k == kind and (n == name or "\\" in n) for q, n, k in asked)
            if not ours and frame.ends and (frame.ends[0], name, kind) in many:
                continue
            tally.compare(
                "dns question", frame.number, ours, True,
                tunnel=is_within(frame, "ppp") or len(frame.datagrams) > 1, link=is_within(frame, "arcnet"), other_port=not is_dns(frame), not_asked=not_asked, copy=bool(earlier),
                refused_message=frame.is_malformed or refused > 0,
                group=port and (5353 in port),
            )  # fmt: skip
        is_named = frame.number in tries or not any((frame.ends[0], *question) in many for question in names)
        if frame.has("dns.retransmission") and is_named:
            original = frames.get(int(frame.first("dns.retransmit_request_in") or 0))
            tally.compare(
                "dns.retransmission", frame.number, tries.get(frame.number, 0) > 0, True,
                another_name=original is None or question_names(original) != names or original.is_malformed, other_port=not is_dns(frame), copy=bool(original and frame.at - original.at < COPY_NS), group=port and (5353 in port),
                answered_before=bool(original) and any(original.number in (int(p) for p in row["packets"].split()[: row["tries"]]) and row["answered"] not in ("not_known", "unanswered") for row in lookups),
            )  # fmt: skip


def hellos_of(frames, transport):
    """The handshakes of each conversation, by tshark."""
    streams = collections.defaultdict(list)
    for frame in frames.values():
        if frame.is_quoting or not frame.transport or frame.transport[0] != transport:
            continue
        stream = frame.transport[3]
        of = streams[stream]
        kinds = [int(kind) for kind in frame.all("tls.handshake.type") if kind]
        if 1 in kinds:
            again = of and of[-1]["retry"] and not of[-1]["again"] and not of[-1]["server"]
            if again:
                of[-1]["again"] = frame
            else:
                of.append({"client": frame, "server": None, "retry": None, "again": None, "kinds": [], "alerts": []})
        if 2 in kinds:
            is_retry = (frame.first("tls.handshake.random") or "").replace(":", "") == RETRY_RANDOM
            if not of:
                of.append({"client": None, "server": None, "retry": None, "again": None, "kinds": [], "alerts": []})
            if is_retry:
                of[-1]["retry"] = frame
            elif of[-1]["server"] is None:
                of[-1]["server"] = frame
        if of and of[-1]["server"] is not None:
            of[-1]["kinds"] += kinds
        if of:
            of[-1]["alerts"] += frame.all("tls.alert_message.desc")
    return streams


def offered(hello):
    """Session, ticket or key of an earlier session, as the client's hello has it."""
    kinds = [int(kind) for kind in hello.all("tls.handshake.extension.type")]
    lengths = [int(length) for length in hello.all("tls.handshake.extension.len")]
    ticket = any(kind == 35 and length > 0 for kind, length in zip(kinds, lengths))
    versions = hello.all("tls.handshake.extensions.supported_version")
    session = bool(hello.first("tls.handshake.session_id")) and "0x0304" not in versions
    return 41 in kinds or ticket or session


def chosen_version(hello):
    versions = hello.all("tls.handshake.extensions.supported_version") or hello.all("tls.handshake.version")
    version = int(versions[0], 0)
    return TLS_VERSIONS.get(version, f"{version:#06x}")


def compare_tls(tally, lines, frames):
    theirs = hellos_of(frames, "tcp")
    ours = collections.defaultdict(list)
    for row in lines:
        if row["kind"] == "tls_handshake":
            first = frames.get(int(row["packets"].split()[0]))
            stream = first.transport[3] if first and first.transport else None
            ours[stream].append(row)
    for stream in sorted(set(ours) | {s for s, of in theirs.items() if of}, key=lambda s: -1 if s is None else s):
        a, b = ours.get(stream, []), theirs.get(stream, [])
        has_missing = any(row["withheld"] and ("missing" in row["withheld"] or "kept too little" in row["withheld"] or "other than" in row["withheld"]) for row in a)
        where = int(a[0]["packets"].split()[0]) if a else (b[0]["client"] or b[0]["server"]).number
        tally.compare("tls handshakes", where, len(a), len(b), tunnel=not a and (is_within(frames[where], "openvpn") or bool(frames[where].datagrams)), behind=not a and is_within(frames[where], "proxy"), not_TLS_3=not a and not frames[where].has("tls.handshake.random"), other_protocol=len(a) == 1 and not b, missing_packets=has_missing, after_it=len(b) > len(a) > 0)
        for row, hello in zip(a, b):
            compare_handshake(tally, row, hello, has_missing)


def compare_handshake(tally, row, hello, has_missing):
    client, server = hello["client"], hello["server"]
    where = int(row["packets"].split()[0])
    unread = {"missing_packets": has_missing}
    if client is not None:
        name = client.first("tls.handshake.extensions_server_name")
        tally.compare("tls.handshake.extensions_server_name", where, row["name"], name and escapes(name).lower(), **unread)
        protocols = [escapes(p) for p in client.all("tls.handshake.extensions_alpn_str")]
        tally.compare("tls.handshake.extensions_alpn_str", where, row["offered_protocols"].split(), protocols, long_hello=row["hello_bytes"] > 8192, escaped=any("\ufffd" in p for p in client.all("tls.handshake.extensions_alpn_str")), **unread)
        tally.compare("tls: a session is offered", where, row["resumption_offered"], offered(client), **unread)
    tally.compare("tls: HelloRetryRequest", where, row["retried"], hello["retry"] is not None, **unread)
    if server is None:
        # A record whose end is not there.
        tally.compare("tls: server's hello", where, row["version"], None, end_of_the_record=row["flight_ns"] is None, after_a_SYN=row["outcome"] == "done", **unread)
        return
    ended = {**unread, "ended_before": row["version"] is None and row["outcome"] == "failed"}
    version = chosen_version(server)
    tally.compare("tls.handshake.version", where, row["version"], version, **ended)
    tally.compare("tls.handshake.ciphersuite", where, row["cipher"], number(server.first("tls.handshake.ciphersuite")), **ended)
    protocol = server.first("tls.handshake.extensions_alpn_str")
    tally.compare("tls: protocol chosen", where, row["protocol"], protocol and escapes(protocol), **unread)
    if client is not None and row["hello_ns"] is not None:
        asked = hello["again"] or client
        theirs = server.at - asked.at
        more = len(server.all("tls.handshake.type")) > 1 and row["hello_ns"] < theirs
        segments = asked is client and where < client.number and row["hello_ns"] > theirs
        tally.compare("tls: time of the hello", where, row["hello_ns"], theirs, end_of_the_record=more, several_segments=segments, **unread)
    if row["outcome"] == "done":
        is_13 = version == "TLS 1.3" or version.startswith("0x7")
        resumed = "41" in server.all("tls.handshake.extension.type") if is_13 else 16 not in hello["kinds"]
        tally.compare("tls: a session goes on", where, row["resumed"], resumed, **unread)
    if row["alert"] is not None:
        tally.compare("tls.alert_message.desc", where, row["alert"], ALERTS.get(hello["alerts"][0]) if hello["alerts"] else None, **unread)


ALERTS = {"0": "close_notify", "10": "unexpected_message", "20": "bad_record_mac", "40": "handshake_failure", "42": "bad_certificate",
          "43": "unsupported_certificate", "44": "certificate_revoked", "45": "certificate_expired", "46": "certificate_unknown",
          "47": "illegal_parameter", "48": "unknown_ca", "49": "access_denied", "50": "decode_error", "51": "decrypt_error",
          "70": "protocol_version", "71": "insufficient_security", "80": "internal_error", "86": "inappropriate_fallback",
          "90": "user_canceled", "100": "no_renegotiation", "109": "missing_extension", "110": "unsupported_extension",
          "112": "unrecognized_name", "113": "bad_certificate_status_response", "115": "unknown_psk_identity",
          "116": "certificate_required", "120": "no_application_protocol"}  # fmt: skip


def quic_version(version):
    draft = version & 0xFF if version >> 8 == 0xFF0000 else None
    return "QUIC v1" if version == 1 else "QUIC v2" if version == QUIC_V2 else f"draft {draft}" if draft is not None else f"{version:#010x}"


def is_retry(frame):
    if frame.first("quic.version") == f"{QUIC_V2:#010x}":
        return frame.first("quic.long.packet_type_v2") == "0"
    return "3" in frame.all("quic.long.packet_type")


def compare_quic(tally, lines, frames):
    rows = [row for row in lines if row["kind"] == "quic_connection"]
    streams = collections.defaultdict(list)
    for frame in frames.values():
        if not frame.is_quoting and frame.transport and frame.transport[0] == "udp":
            streams[frame.transport[3]].append(frame)
    on = collections.Counter()
    for row in rows:
        first = frames.get(int(row["packets"].split()[0]))
        on[first.transport[3] if first and first.transport else None] += 1
    heads = {int(row["packets"].split()[0]) for row in rows}
    hellos = set()
    for row in rows:
        where = int(row["packets"].split()[0])
        first = frames.get(where)
        if first is None or not first.transport:
            tally.compare("quic connection", where, "a connection", None)
            continue
        # Up to the next connection between these ports.
        all_of = streams[first.transport[3]]
        until = min((n for n in heads if n > where and frames[n].transport and frames[n].transport[3] == first.transport[3]), default=1 << 60)
        of = [f for f in all_of if where <= f.number < until]
        client = (row["client_address"], row["client_port"])
        no_beginning = bool(row["withheld"] and "first packet" in row["withheld"])
        by_client = [f for f in of if f.flow()[1] == client and f.has("quic.version")]
        by_server = [f for f in of if f.flow()[1] != client and f.has("quic.version")]
        version = number(first.first("quic.version"))
        tally.compare("quic.version", where, row["first_version"], None if version is None else quic_version(version), no_beginning=no_beginning, not_read=version is None)
        original = (first.first("quic.dcid") or "").replace(":", "")
        mine = (first.first("quic.scid") or "").replace(":", "")
        tally.compare("quic.dcid", where, row["original_id"], original, no_beginning=no_beginning, not_read=version is None)
        tally.compare("quic.scid", where, row["client_id"], mine, not_read=version is None, no_beginning=no_beginning, several_on_one=any(f.has("quic.scid") and f.first("quic.scid").replace(":", "") == row["client_id"] for f in by_client))
        is_unknown = row["first_version"].startswith("0x")
        hello = next((f for f in by_client if "1" in f.all("tls.handshake.type")), None)
        if hello is not None:
            hellos.add(hello.number)
            name = hello.first("tls.handshake.extensions_server_name")
            tally.compare("quic: server's name", where, row["name"], name and escapes(name).lower(), no_beginning=no_beginning, not_of_the_version=is_unknown)
            protocols = [escapes(p) for p in hello.all("tls.handshake.extensions_alpn_str")]
            tally.compare("quic: protocols", where, row["offered_protocols"].split(), protocols, no_beginning=no_beginning, not_of_the_version=is_unknown)
        elif row["name"] is not None or row["offered_protocols"]:
            tally.compare("quic: server's name", where, row["name"], None, hello_in_several_datagrams=row["hello_datagrams"] > 1, version_kept=row["version"] != row["first_version"])
        tally.compare("quic: Retry", where, row["retried"], any(map(is_retry, by_server)))
        negotiated = next((f for f in by_server if number(f.first("quic.version")) == 0), None)
        versions = [quic_version(int(v, 0)) for v in negotiated.all("quic.supported_version")] if negotiated is not None else []
        tally.compare("quic.supported_version", where, row["server_versions"], ", ".join(versions), no_beginning=no_beginning)
        answer = next((f for f in by_server if "2" in f.all("tls.handshake.type")), None)
        if answer is not None:
            server_id = next((f.first("quic.scid").replace(":", "") for f in by_server if f.has("quic.scid") and number(f.first("quic.version")) not in (0, None) and not is_retry(f)), None)
            tally.compare("quic: server's scid", where, row["server_id"], server_id)
            is_cut = row["cipher"] is None and "cannot be decrypted" in (row["withheld"] or "")
            tally.compare("quic: cipher suite", where, row["cipher"], number(answer.first("tls.handshake.ciphersuite")), no_beginning=no_beginning, cut=is_cut)
            if row["hello_ns"] is not None and hello is not None:
                ours = row["negotiation_ns"] + row["retry_ns"] + row["hello_ns"]
                tally.compare("quic: time of the hello", where, ours, answer.at - first.at, no_beginning=no_beginning, flight_began=ours < answer.at - first.at)
        elif row["cipher"] is not None:
            tally.compare("quic: cipher suite", where, row["cipher"], None, version_kept=row["version"] != row["first_version"], hello_in_several_datagrams=True)
        if on[first.transport[3]] == 1:
            ours = [row["client_datagrams"], row["client_bytes"], row["server_datagrams"], row["server_bytes"]]
            sizes = [[f.transport[4] - 8 for f in all_of if (f.flow()[1] == client) == is_client] for is_client in (True, False)]
            theirs = [figure for of_side in sizes for figure in (len(of_side), sum(of_side))]
            # Datagrams of the conversation before the connection are not its own.
            tally.compare("quic: datagrams and bytes", where, ours, theirs, moved=row["moves"] > 0, no_beginning=no_beginning or bool(all_of and all_of[0].number < where))
    for stream, of in streams.items():
        for frame in of:
            if "1" in frame.all("tls.handshake.type") and frame.has("quic.version") and frame.number not in hellos:
                known = any(f.number in hellos for f in of if f.number < frame.number)
                version = number(frame.first("quic.version"))
                strange = quic_version(version).startswith("0x") or version >> 8 != 0xFF0000 and version not in (1, QUIC_V2)
                tally.compare("quic hello", frame.number, False, True, retransmitted=known, not_of_the_version=strange)


def is_within(frame, protocol):
    return protocol in frame.first("frame.protocols").split(":")


def end(address, port):
    return f"{address} {port if port is not None else 0}"


def compare_icmp(tally, lines, frames):
    theirs, ours = collections.Counter(), collections.Counter()
    where, quotes = {}, {}
    for frame in frames.values():
        if not frame.is_quoting:
            continue
        _, kind, code, _, ends = frame.error
        # Without a quotation, only to whom it goes is known.
        flow = [(ends[1], None), ("::" if ":" in ends[1] else "0.0.0.0", None)]
        if frame.quoted:
            inner, transport = frame.quoted
            ports = transport[1:3] if transport else (None, None)
            flow = list(zip(inner, ports))
        key = (ends[0], kind, code, *[end(*of) for of in flow])
        theirs[key] += 1
        where.setdefault(key, frame.number)
        quotes[key] = frame
    for row in lines:
        if row["kind"] == "icmp_error":
            key = (row["source"], row["type"], row["code"], end(row["sender_address"], row["sender_port"]), end(row["receiver_address"], row["receiver_port"]))
            ours[key] += row["count"]
            where.setdefault(key, row["first_packet"])
    for key in set(ours) | set(theirs):
        frame = quotes.get(key)
        damaged = frame is not None and frame.is_malformed
        # What is quoted ends within its headers.
        is_short = any(other[:4] == key[:4] and other[4].split()[0] in ("::", "0.0.0.0") for other in ours)
        tally.compare("icmp error: type, code and what it quotes", where[key], (ours[key], key), (theirs[key], key), damaged=damaged, cut=is_short or frame is not None and frame.quoted is None)
    sent, got = collections.Counter(), collections.defaultdict(list)
    places, replies, fragments = {}, collections.Counter(), collections.Counter()
    for frame in frames.values():
        if not frame.error or frame.error[3]:
            continue
        protocol, kind, _, _, ends = frame.error
        request, reply = (8, 0) if protocol == "icmp" else (128, 129)
        if kind not in (request, reply):
            continue
        ident = number(frame.first("icmp.ident" if protocol == "icmp" else "icmpv6.echo.identifier"))
        key = (*(ends if kind == request else ends[::-1]), ident)
        places.setdefault(key, frame.number)
        if kind == request:
            sent[key] += 1
            fragments[key] |= is_within(frame, "ipv6.fraghdr")
        else:
            replies[key] += 1
            if frame.has(f"{protocol}.resptime"):
                got[key].append((float(frame.first(f"{protocol}.resptime")), frame.number))
    rows = {(row["client"], row["server"], row["identifier"]): row for row in lines if row["kind"] == "echo"}
    for key in set(sent) | set(got) | set(rows):
        row = rows.get(key)
        at = places.get(key) or row["first_packet"]
        tally.compare("echo: sent", at, row and row["sent"], sent[key], fragments=fragments[key], cut=row is None and (frames[at].is_malformed or frames[at].first("frame.cap_len") != frames[at].first("frame.len")), link=is_within(frames[at], "arcnet"), tunnel=row is None and (is_within(frames[at], "ah") or bool(frames[at].datagrams)))
        if row is None:
            continue
        times = [time for time, _ in got[key]]
        other_data = len(times) < row["answered"] <= replies[key]
        tally.compare("icmp.resptime: answered", at, row["answered"], len(times), other_data=other_data)
        tally.compare("echo: lost", at, row["lost"] + row["not_known"], sent[key] - len(times), other_data=other_data, fragments=row["sent"] < sent[key])
        if times and row["answered"] == len(times):
            for figure, theirs_ms in (("min_ns", min(times)), ("max_ns", max(times))):
                # tshark gives milliseconds with three digits.
                near = abs(row[figure] - theirs_ms * 1e6) <= 1_001
                tally.compare(f"icmp.resptime: {figure[:3]}", at, near or row[figure], True)


def compare_udp(tally, lines, frames):
    rows = {}
    for row in lines:
        if row["kind"] == "udp_conversation":
            client, server = ((row[f"{of}_address"], row[f"{of}_port"]) for of in ("client", "server"))
            rows[frozenset((client, server))] = (row, client, server)
    theirs = {}
    for frame in frames.values():
        # What is within a datagram that is one of ours is in a tunnel.
        is_tunnelled = False
        for source, destination, length in frame.datagrams:
            key = frozenset((source, destination))
            is_innermost = frame.transport and frame.transport[0] == "udp" and frame.flow()[1:] == (source, destination)
            if {source[1], destination[1]} & DNS_PORTS or not (is_innermost or key in rows):
                continue
            of = theirs.setdefault(key, {"at": frame.number, "start": frame.at, "by": collections.Counter(), "bytes": collections.Counter(), "damaged": False, "tunnel": is_tunnelled, "ppp": is_within(frame, "ppp"), "within": any(is_within(frame, of) for of in ("vxlan", "geneve", "gtp"))})
            of["last"] = frame.at
            of["by"][source] += 1
            of["bytes"][source] += (length or 8) - 8
            of["damaged"] |= frame.is_malformed or not 8 <= (length or 0) <= int(frame.first("frame.len"))
            is_tunnelled |= key in rows
    for key in set(rows) | set(theirs):
        of = theirs.get(key)
        row, client, server = rows.get(key, (None, None, None))
        at = of["at"] if of else row["first_packet"]
        tally.compare("udp.stream", at, row is not None, of is not None, damaged=bool(of and of["damaged"]), tunnel=bool(of and (of["tunnel"] or of["ppp"])), within=bool(of and of["within"]))
        if not of or not row:
            continue
        tally.compare("udp: first packet", at, row["first_packet"], of["at"], damaged=of["damaged"])
        for side, ends in (("client", client), ("server", server))[: len(key)]:
            tally.compare("udp: datagrams", at, row[f"{side}_datagrams"], of["by"][ends], damaged=of["damaged"])
            tally.compare("udp.length", at, row[f"{side}_bytes"], of["bytes"][ends], damaged=of["damaged"])
        tally.compare("udp: duration", at, row["duration_ns"], of["last"] - of["start"], damaged=of["damaged"])


def plain(file, folder):
    """The capture without compression: tshark 4.0 reads no zstd."""
    for suffix, words in ((".zst", ["zstd", "-dcq"]), (".gz", None)):
        if file.name.endswith(suffix):
            out = pathlib.Path(folder, file.name.removesuffix(suffix))
            out.write_bytes(gzip.decompress(file.read_bytes()) if words is None else subprocess.run([*words, file], check=True, capture_output=True).stdout)
            return out
    return file


def agreement(wirelapse, file):
    with tempfile.TemporaryDirectory() as folder:
        path = plain(file, folder)
        tally = Tally(str(file))
        said = subprocess.run([wirelapse, "analyze", "--json", str(path)], capture_output=True, text=True)
        lines = [json.loads(line) for line in said.stdout.splitlines()]
        if not lines:
            return tally
        frames = {frame.number: frame for frame in theirs_of(str(path))}
        for compare in (compare_dns, compare_tls, compare_quic, compare_icmp, compare_udp):
            compare(tally, lines, frames)
        return tally


def files_of(paths):
    for path in map(pathlib.Path, paths):
        yield from sorted(f for f in path.rglob("*") if f.is_file()) if path.is_dir() else [path]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("wirelapse")
    arguments.add_argument("captures", nargs="+")
    arguments.add_argument("--jobs", type=int, default=2, help="captures at a time")
    arguments.add_argument("--show", type=int, default=20, help="differences that are printed at most")
    asked = arguments.parse_args()
    equal, meant, other, count = collections.Counter(), collections.Counter(), [], 0
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        for tally in pool.map(lambda file: agreement(asked.wirelapse, file), files_of(asked.captures)):
            count += 1
            equal.update(tally.equal)
            meant.update(tally.meant)
            other += [(tally.file, *difference) for difference in tally.other]
    unlike = collections.Counter(field for _, field, *_ in other)
    print(f"{count} captures")
    print(f"{'field':45} {'equal':>8} {'meant':>6} {'other':>6}")
    meant_by = collections.Counter()
    for what, times in meant.items():
        meant_by[what.split(": ")[0] if what.count(": ") == 1 else what.rsplit(": ", 1)[0]] += times
    for field in sorted(set(equal) | set(unlike) | set(meant_by)):
        print(f"{field:45} {equal[field]:8} {meant_by[field]:6} {unlike[field]:6}")
    print(f"{'all':45} {equal.total():8} {meant.total():6} {len(other):6}")
    for what, times in sorted(meant.items()):
        print(f"  {times:6} {what}: {BY_DESIGN[what.rsplit(': ', 1)[1]]}")
    for difference in other[: asked.show]:
        print("  other:", *difference)
    sys.exit(1 if other else 0)


if __name__ == "__main__":
    main()
