"""The near host of a plan: looks a name up as any program does, connects, and asks.

`python3 client.py PLAN.json` prints how long each part took, in seconds, as one line of JSON.
"""

import asyncio
import json
import random
import select
import socket
import ssl
import struct
import subprocess
import sys
import time

NAME, WEB, WEB6 = "www.example.test", "10.9.2.2", "fd00:9:2::2"


def context_of(does, folder):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    context.load_verify_locations("/etc/ssl/certs/ca-certificates.crt")
    if not does.get("trusts_nobody"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if does.get("most") == "1.2":
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if does.get("has_certificate"):
        context.load_cert_chain(f"{folder}/small.pem")
    return context


def handshake(context, to, does, session):
    """TLS over `to`, with a pause before the client trusts what the server sent."""
    to_us, from_us = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(to_us, from_us, server_hostname=NAME, session=session)
    pause = does.get("thinks", 0)
    seen = 0
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            if out := from_us.read():
                to.sendall(out)
            data = to.recv(65536)
            if not data:
                raise OSError("closed")
            to_us.write(data)
            seen += len(data)
            if pause and seen > 600:
                # All of the flight is there before the client looks at it.
                while select.select([to], [], [], 0.05)[0] and (data := to.recv(65536)):
                    to_us.write(data)
                time.sleep(pause)
                pause = 0
        except ssl.SSLError:
            if out := from_us.read():
                to.sendall(out)
            raise
    if out := from_us.read():
        to.sendall(out)

    def call(function, *words):
        while True:
            try:
                done = function(*words)
                if out := from_us.read():
                    to.sendall(out)
                return done
            except ssl.SSLWantReadError:
                if out := from_us.read():
                    to.sendall(out)
                data = to.recv(65536)
                to_us.write(data) if data else to_us.write_eof()

    return tls, call


def connect(addresses, took):
    """The first of these that answers, each 0.3 s after the one before (RFC 8305)."""
    tries = []
    for address in addresses:
        to = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        to.setblocking(False)
        to.connect_ex((address, 443))
        tries.append(to)
        _, done, _ = select.select([], tries, [], 10 if address == addresses[-1] else 0.3)
        for won in done:
            if (error := won.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)) == 0:
                [other.close() for other in tries if other is not won]
                won.setblocking(True)
                won.settimeout(20)
                return won
            tries.remove(won)
    raise OSError("no connection")


def over_tcp(plan, context, addresses, took):
    does, session = plan.get("client", {}), None
    for i in range(does.get("times", 1)):
        began = time.time()
        to = connect(addresses, took)
        took["connect"] = time.time() - began
        to.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.time()
        tls, call = handshake(context, to, does, session)
        took["tls"], took["resumed"] = time.time() - began, tls.session_reused
        began = time.time()
        call(tls.write, f"GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode())
        read = call(tls.read, 1)
        took["wait"] = time.time() - began
        while len(read) < 3000:
            more = call(tls.read, 65536)
            if not more:
                raise OSError("closed")
            read += more
        session = tls.session
        to.close()


async def over_quic(plan, address, took):
    from aioquic.asyncio.client import connect
    from aioquic.quic.configuration import QuicConfiguration

    does = plan.get("client", {})
    configuration = QuicConfiguration(
        is_client=True,
        alpn_protocols=["hq-interop"] + [f"{i:0200}" for i in range(does.get("protocols", 0))],
        verify_mode=ssl.CERT_NONE,
        server_name=NAME,
        idle_timeout=20,
    )
    if does.get("old_version"):
        configuration.supported_versions = [0x1A2A3A4A, 1]
        configuration.original_version = 0x1A2A3A4A
    began = time.time()
    async with asyncio.timeout(does.get("patience", 15)):
        async with connect(address, 443, configuration=configuration) as c:
            took["handshake"] = time.time() - began
            for i in range(does.get("requests", 1)):
                began = time.time()
                reader, writer = await c.create_stream()
                writer.write(b"GET /\r\n")
                writer.write_eof()
                await reader.read(1)
                took["wait"] = time.time() - began
                await reader.read()
                if does.get("moves") and i == 0:
                    # Another port, as behind a NAT that forgot the first one.
                    other = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
                    other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                    other.bind(("::", 0))
                    if does.get("changes_id"):
                        c.change_connection_id()
                    await asyncio.get_running_loop().create_datagram_endpoint(lambda: c, sock=other)
                await asyncio.sleep(does.get("idle", 0))


def rtp(plan):
    """A stream of RTP with gaps, late ones, or pauses of the path, which is the rig's to make."""
    does = plan["stream"]
    to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    draw = random.Random(plan["seed"])
    to.bind(("0.0.0.0", 5004))
    began = time.time()
    for i in range(does["datagrams"]):
        time.sleep(max(0, began + i * 0.02 - time.time()))
        to.sendto(struct.pack(">BBHII", 0x80, 0, i, i * 160, 7) + draw.randbytes(160), (WEB, 5006))


def datagrams(plan):
    """Requests of NTP: again after a second without an answer, four times at most."""
    for i in range(plan["requests"]):
        to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        to.connect((WEB, plan["service"]["port"]))
        to.settimeout(1)
        request = b"\x23" + bytes(39) + struct.pack(">Q", time.time_ns())
        for _ in range(4):
            to.send(request)
            try:
                to.recv(4096)
                break
            except OSError:
                pass
        time.sleep(0.05)


def main():
    plan = json.load(open(sys.argv[1]))
    took = {}
    # What takes long for the first time is done before.
    context = context_of(plan.get("client", {}), plan["certificates"])
    "x".encode("idna")
    socket.getaddrinfo("127.0.0.1", 1)
    if "quic" in plan:
        import aioquic.asyncio.client  # noqa: F401
    for address in (WEB, "10.9.2.53", "10.9.2.54"):
        subprocess.run(["ping", "-c1", "-W2", address], stdout=subprocess.DEVNULL)
    try:
        if "resolvers" in plan:
            began = time.time()
            try:
                found = socket.getaddrinfo(plan.get("name", NAME), 443, type=socket.SOCK_STREAM)
            finally:
                took["name"] = time.time() - began
            addresses = list(dict.fromkeys(f[4][0] for f in found))
            if "quic" in plan or plan.get("tries_quic"):
                try:
                    asyncio.run(over_quic(plan, WEB, took))
                except (OSError, TimeoutError, ConnectionError) as error:
                    took["quic_error"] = repr(error)
                    if "web" in plan:
                        over_tcp(plan, context, addresses, took)
            elif "web" in plan:
                over_tcp(plan, context, addresses, took)
        if "stream" in plan:
            rtp(plan)
        elif "service" in plan:
            datagrams(plan)
        if "runs" in plan:
            subprocess.run(plan["runs"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20)
    except Exception as error:
        took["error"] = repr(error)
    print(json.dumps(took))


main()
