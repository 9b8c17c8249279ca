"""The far host of a plan: a resolver, a web server over TLS and QUIC, and a few services of UDP.

`python3 servers.py PLAN.json` prints `ready` and then serves until it is killed. Each server does
what the plan says of it and nothing else, and writes what it did as lines of JSON to standard
error: the truth of the plan.
"""

import asyncio
import json
import socket
import ssl
import struct
import sys
import threading
import time

WEB, RESOLVERS = "10.9.2.2", ("10.9.2.53", "10.9.2.54")
WEB6 = "fd00:9:2::2"
NAME = b"\x03www\x07example\x04test\x00"


def log(**what):
    print(json.dumps(what), file=sys.stderr, flush=True)


def name_of(question):
    """The name of a message's first question, and where its type begins."""
    at, labels = 12, []
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]])
        at += 1 + question[at]
    return b".".join(labels).lower(), at + 1


def answer(question, does, over_tcp):
    """An answer to a question, by what the resolver does."""
    name, at = name_of(question)
    kind = struct.unpack(">H", question[at : at + 2])[0]
    code, records = does.get("code", 0), []
    if not code and name != b"www.example.test":
        code = 3
    cut = does.get("truncates") and not over_tcp
    if not code and not cut:
        if kind == 1:
            records = [socket.inet_aton(WEB)]
        elif kind == 28 and does.get("has_aaaa"):
            records = [socket.inet_pton(socket.AF_INET6, WEB6)]
    body = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 60, len(r)) + r for r in records)
    flags = 0x8180 | code | (0x200 if cut else 0)
    return question[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0) + question[12 : at + 4] + body


def resolver(address, does):
    """Answers questions as `does` says: `silent`, `drops` the first so many, waits `delay`
    seconds (`delay_aaaa` with AAAA), gives `code`, or `truncates` and serves `tcp`."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((address, 53))
    seen = [0]

    def reply(question, to):
        udp.sendto(answer(question, does, False), to)
        log(resolver=address, sent=time.time())

    def serve():
        while True:
            question, to = udp.recvfrom(4096)
            name, at = name_of(question)
            is_aaaa = question[at + 1] == 28
            seen[0] += 1
            log(resolver=address, name=name.decode(), aaaa=is_aaaa, at=time.time())
            if does.get("silent") or (is_aaaa and does.get("silent_aaaa")) or seen[0] <= does.get("drops", 0):
                continue
            wait = does.get("delay", 0) + (does.get("delay_aaaa", 0) if is_aaaa else 0)
            threading.Timer(wait, reply, (question, to)).start() if wait else reply(question, to)

    def serve_tcp():
        tcp = socket.create_server((address, 53))
        while True:
            to, _ = tcp.accept()
            while len(size := to.recv(2)) == 2:
                reply = answer(to.recv(struct.unpack(">H", size)[0]), does, True)
                to.sendall(struct.pack(">H", len(reply)) + reply)
            to.close()

    threading.Thread(target=serve, daemon=True).start()
    if does.get("tcp", True):
        threading.Thread(target=serve_tcp, daemon=True).start()


def context_of(does, folder):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{folder}/{does.get('certificate', 'small')}.pem")
    context.set_alpn_protocols(["http/1.1"])
    if does.get("most") == "1.2":
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if does.get("least") == "1.3":
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if group := does.get("group"):
        context.set_ecdh_curve(group)
    if does.get("asks"):
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(f"{folder}/small.pem")
    if wait := does.get("looks_up"):

        def look_up(_socket, _name, _context):
            time.sleep(wait)
            log(server="waited for a name's certificate", s=wait)

        context.sni_callback = look_up
    return context


def web(address, does, folder):
    """HTTPS: may accept late, think before a request's answer, close within the handshake, or have
    other keys for tickets with each connection."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, 443), family=family)
    context = context_of(does, folder)

    def serve(to):
        to.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        time.sleep(does.get("accepts_late", 0))
        if does.get("closes"):
            to.recv(4096)
            return to.close()
        try:
            with (context_of(does, folder) if does.get("forgets") else context).wrap_socket(to, server_side=True) as s:
                s.recv(4096)
                time.sleep(does.get("thinks", 0))
                s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n" + b"x" * 3000)
                s.recv(4096)
        except OSError as error:
            log(server=str(error))

    def accept():
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def quic(does, folder):
    """QUIC: may lose the first datagrams, wait before its hello, send a Retry, or think before an
    answer."""
    from aioquic.asyncio.protocol import QuicConnectionProtocol
    from aioquic.asyncio.server import QuicServer
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.events import StreamDataReceived
    from aioquic.quic.retry import QuicRetryTokenHandler

    class Answers(QuicConnectionProtocol):
        def quic_event_received(self, event):
            if isinstance(event, StreamDataReceived) and event.end_stream:
                asyncio.get_running_loop().call_later(does.get("thinks", 0), self.answer, event.stream_id)

        def answer(self, stream):
            log(server="answers", at=time.time())
            self._quic.send_stream_data(stream, b"x" * 20_000, end_stream=True)
            self.transmit()

    class Server(QuicServer):
        seen = 0

        def datagram_received(self, data, address):
            self.seen += 1
            if self.seen <= does.get("drops", 0):
                return log(server="dropped")
            if self.seen <= does.get("delays", 0):
                log(server="waits", s=does["delay"])
                asyncio.get_running_loop().call_later(does["delay"], super().datagram_received, data, address)
            else:
                began = time.time()
                super().datagram_received(data, address)
                log(server="busy", s=time.time() - began)

    configuration = QuicConfiguration(is_client=False, alpn_protocols=[does.get("alpn", "hq-interop")])
    configuration.load_cert_chain(f"{folder}/{does.get('certificate', 'small')}.pem")

    async def serve():
        loop = asyncio.get_running_loop()
        server = lambda: Server(configuration=configuration, create_protocol=Answers, retry=bool(does.get("retry")))
        await loop.create_datagram_endpoint(server, local_addr=(WEB, 443))
        print("ready", flush=True)
        await asyncio.Event().wait()

    asyncio.run(serve())


def service(does):
    """A service of UDP: answers each datagram after `delay` seconds, but for the first `drops`."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((WEB, does["port"]))
    seen = 0

    def reply(data, to):
        # As NTP has it: mode 4, a server.
        udp.sendto(bytes([(data[0] & 0xF8) | 4]) + data[1:], to)

    while True:
        data, to = udp.recvfrom(4096)
        seen += 1
        if not does.get("silent") and seen > does.get("drops", 0):
            threading.Timer(does.get("delay", 0), reply, (data, to)).start()


def main():
    plan = json.load(open(sys.argv[1]))
    folder = plan["certificates"]
    for address, does in zip(RESOLVERS, plan.get("resolvers", [])):
        if not does.get("closed"):
            resolver(address, does)
    if "web" in plan:
        for address in (WEB, WEB6):
            web(address, plan["web"], folder)
    if "stream" in plan:
        heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        heard.bind((WEB, 5006))
    if "service" in plan:
        threading.Thread(target=service, args=(plan["service"],), daemon=True).start()
    if "quic" in plan:
        quic(plan["quic"], folder)
    print("ready", flush=True)
    threading.Event().wait()


main()
