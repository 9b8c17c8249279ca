"""One end of a scene: it does what its words say, and prints what it did as a line of JSON.

serve ADDRESS PORT ASK ANSWER DELAY   answers ASK bytes with ANSWER bytes
turns ADDRESS PORT CONNECTIONS PER_SECOND SECONDS ASK ANSWER
short ADDRESS PORT PER_SECOND SECONDS ASK ANSWER    each on a connection of its own
idle ADDRESS PORT CONNECTIONS
bulk ADDRESS PORT SECONDS          writes as much as the peer takes
slow ADDRESS CHUNK PAUSE           reads a little now and then
flood ADDRESS PORT COUNT BYTES PER_SECOND           datagrams
sink ADDRESS                       datagrams that nobody reads
halves ADDRESS PORT SECONDS        requests of 200 bytes in two writes, as Nagle's algorithm holds up
lines ADDRESS PORT PER_SECOND SECONDS BYTES    writes that nothing answers
tight ADDRESS BUFFER               reads all, with a receive buffer of so many bytes
dns ADDRESS DELAY                  answers questions of DNS late
asks ADDRESS SECONDS               such questions
pings ADDRESS PORT PER_SECOND SECONDS    a datagram, and the next one when its answer has come
pongs ADDRESS DELAY PORT           answers datagrams one by one
quic ADDRESS PORT                  datagrams that begin as those of a client of QUIC do
"""
import json
import resource
import selectors
import socket
import sys
import threading
import time

FILES = min(40_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
counts = {"sent": 0, "received": 0, "connections": 0}


def say(**more):
    print(json.dumps({**counts, **more}), flush=True)


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def listen(address, port=0, buffer=0):
    listener = socket.socket(family(address))
    if buffer:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    listener.bind((address, port))
    listener.listen(4096)
    say(port=listener.getsockname()[1])
    return listener


def serve(address, port, ask, answer, delay):
    listener, ask, answer = listen(address, int(port)), int(ask), b"a" * int(answer)
    listener.setblocking(False)
    ready = selectors.DefaultSelector()
    ready.register(listener, selectors.EVENT_READ)
    ready.register(sys.stdin, selectors.EVENT_READ)
    asked = {}
    while True:
        for key, _ in ready.select():
            if key.fileobj is sys.stdin:
                if not sys.stdin.readline():
                    return
                say()
            elif key.fileobj is listener:
                try:
                    one = listener.accept()[0]
                except BlockingIOError:
                    continue
                counts["connections"] += 1
                ready.register(one, selectors.EVENT_READ)
            else:
                one = key.fileobj
                data = one.recv(65536)
                counts["received"] += len(data)
                got = asked.get(one, 0) + len(data)
                while got >= ask and ask:
                    got -= ask
                    time.sleep(float(delay))
                    one.sendall(answer)
                    counts["sent"] += len(answer)
                asked[one] = got
                if not data:
                    ready.unregister(one)
                    asked.pop(one, None)
                    one.close()


def connect(address, port):
    one = socket.socket(family(address))
    one.connect((address, int(port)))
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    counts["connections"] += 1
    return one


def turn(one, ask, answer):
    one.sendall(b"q" * ask)
    counts["sent"] += ask
    left = answer
    while left:
        data = one.recv(left)
        counts["received"] += len(data)
        left -= len(data)


def paced(per_second, seconds, what):
    """As often as that, whatever each takes: what is late is made up for. Gives how late it was at most."""
    began, n, late = time.monotonic(), 0, 0
    while n < per_second * seconds:
        wait = began + n / per_second - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        what(n)
        n += 1
        late = max(late, time.monotonic() - began - n / per_second)
    return late


def turns(address, port, connections, per_second, seconds, ask, answer):
    all_of_it = [connect(address, port) for _ in range(int(connections))]
    say(ports=[one.getsockname()[1] for one in all_of_it])
    sys.stdin.readline()
    late = paced(float(per_second), float(seconds), lambda n: turn(all_of_it[n % len(all_of_it)], int(ask), int(answer)))
    say(late=late)
    sys.stdin.readline()


def short(address, port, per_second, seconds, ask, answer):
    def one(_):
        with connect(address, port) as this:
            turn(this, int(ask), int(answer))

    say()
    sys.stdin.readline()
    say(late=paced(float(per_second), float(seconds), one))
    sys.stdin.readline()


def idle(address, port, connections):
    say()
    sys.stdin.readline()
    all_of_it = [connect(address, port) for _ in range(int(connections))]
    say(held=len(all_of_it))
    sys.stdin.readline()


def bulk(address, port, seconds):
    say()
    sys.stdin.readline()
    one, end = connect(address, port), time.monotonic() + float(seconds)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    one.setblocking(False)
    while time.monotonic() < end:
        try:
            counts["sent"] += one.send(b"b" * 16384)
        except BlockingIOError:
            time.sleep(0.005)
    say()
    sys.stdin.readline()


def slow(address, chunk, pause):
    listener = listen(address, buffer=65536)

    def read():
        one = listener.accept()[0]
        while data := one.recv(int(chunk)):
            counts["received"] += len(data)
            time.sleep(float(pause))

    threading.Thread(target=read, daemon=True).start()
    while sys.stdin.readline():
        say()


def flood(address, port, count, length, per_second):
    one = socket.socket(family(address), socket.SOCK_DGRAM)
    one.connect((address, int(port)))
    say()
    sys.stdin.readline()

    def send(_):
        counts["sent"] += one.send(b"u" * int(length))

    say(late=paced(float(per_second), int(count) / float(per_second), send))
    sys.stdin.readline()


def sink(address):
    one = socket.socket(family(address), socket.SOCK_DGRAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    one.bind((address, 0))
    say(port=one.getsockname()[1])
    while sys.stdin.readline():
        say()


def halves(address, port, seconds):
    one = connect(address, port)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
    say()
    sys.stdin.readline()
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        one.sendall(b"h" * 100)
        turn(one, 100, 50)
    say()
    sys.stdin.readline()


def lines(address, port, per_second, seconds, length):
    one = connect(address, port)
    say()
    sys.stdin.readline()

    def write(_):
        one.sendall(b"l" * int(length))
        counts["sent"] += int(length)

    say(late=paced(float(per_second), float(seconds), write))
    sys.stdin.readline()


def tight(address, buffer):
    listener = listen(address, buffer=int(buffer))
    one = listener.accept()[0]
    while data := one.recv(65536):
        counts["received"] += len(data)
    sys.stdin.readline()


def dns(address, delay):
    one = socket.socket(family(address), socket.SOCK_DGRAM)
    one.bind((address, 53))
    say()
    while True:
        question, asker = one.recvfrom(512)
        time.sleep(float(delay))
        header = question[:2] + b"\x81\x80\0\x01\0\x01\0\0\0\0"
        one.sendto(header + question[12:] + b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\0\0\x01", asker)


def asks(address, seconds):
    say()
    sys.stdin.readline()
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        with socket.socket(family(address), socket.SOCK_DGRAM) as one:
            one.sendto(b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x04slow\x07example\0\0\x01\0\x01", (address, 53))
            one.recv(512)
        counts["received"] += 1
    say()
    sys.stdin.readline()


def pings(address, port, per_second, seconds):
    one = socket.socket(family(address), socket.SOCK_DGRAM)
    one.connect((address, int(port)))
    say(port=one.getsockname()[1])
    sys.stdin.readline()
    times = []

    def ping(_):
        began = time.monotonic()
        one.send(b"ping")
        one.recv(64)
        times.append(time.monotonic() - began)

    late = paced(float(per_second), float(seconds), ping)
    say(late=late, times=times)
    sys.stdin.readline()


def pongs(address, delay, port):
    one = socket.socket(family(address), socket.SOCK_DGRAM)
    one.bind((address, int(port)))
    say(port=one.getsockname()[1])
    while True:
        _, asker = one.recvfrom(64)
        time.sleep(float(delay))
        one.sendto(b"pong", asker)


def quic(address, port):
    one = socket.socket(family(address), socket.SOCK_DGRAM)
    one.connect((address, int(port)))
    say(port=one.getsockname()[1])
    sys.stdin.readline()
    # An Initial packet, a Handshake packet, and two with a short header (RFC 9000, section 17).
    for first in (b"\xc3\0\0\0\x01", b"\xe3\0\0\0\x01", b"\x43abcd", b"\x43abcd"):
        one.send(first + bytes(1_195))
        if first[0] != 0xe3:
            one.recv(64)
    say()
    sys.stdin.readline()


globals()[sys.argv[1]](*sys.argv[2:])
