"""One program of many that talk over a network: programs.py KIND serve|ask ADDRESS PORT.

Who asks sends in the way that KIND names, and reads what comes back; who serves reads all of it,
answers in the same way, and ends."""

import ctypes
import mmap
import os
import socket
import struct
import sys
import tempfile

kind, role, address, port = sys.argv[1:4] + [int(sys.argv[4])]
family = socket.AF_INET6 if ":" in address else socket.AF_INET
DATA = bytes(range(256)) * 400
SO_ZEROCOPY, MSG_ZEROCOPY, MSG_MORE = 60, 0x4000000, 0x8000
SOL_UDP, UDP_SEGMENT, UDP_GRO = 17, 103, 104
LINUX = ctypes.CDLL(None, use_errno=True)


def file():
    at = tempfile.TemporaryFile()
    at.write(DATA)
    at.seek(0)
    return at


def zerocopy(end):
    end.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
    left = memoryview(DATA)
    while left:
        left = left[end.send(left, MSG_ZEROCOPY) :]


def splice(end):
    of = file()
    out, into = os.pipe()
    while True:
        n = os.splice(of.fileno(), into, 4096)
        if not n:
            break
        while n:
            n -= os.splice(out, end.fileno(), n)


def many(end):
    left = memoryview(DATA)
    while left:
        parts = [left[at : at + 700] for at in range(0, min(len(left), 14000), 700)]
        left = left[end.sendmsg(parts) :]


def small(end):
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for at in range(50):
        end.sendall(DATA[at : at + 10])


def cork(end):
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    for at in range(50):
        end.sendall(DATA[at : at + 100])
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)


def more(end):
    for at in range(50):
        end.send(DATA[at : at + 100], MSG_MORE if at < 49 else 0)


def urgent(end):
    end.sendall(DATA[:100])
    end.send(b"!", socket.MSG_OOB)
    end.sendall(DATA[:100])


def child(end):
    if not os.fork():
        end.sendall(DATA)
        os._exit(0)
    os.wait()


def io_uring(end):
    """One send by a ring of four entries: io_uring_setup(2), io_uring_enter(2)."""
    params = bytearray(120)
    at = (ctypes.c_char * 120).from_buffer(params)
    ring = LINUX.syscall(425, 4, at)
    if ring < 0:
        raise OSError(ctypes.get_errno(), "io_uring_setup")
    sq_entries = struct.unpack_from("I", params, 0)[0]
    tail, array = struct.unpack_from("I", params, 44)[0], struct.unpack_from("I", params, 64)[0]
    queue = mmap.mmap(ring, array + 4 * sq_entries, offset=0)
    entries = mmap.mmap(ring, 64 * sq_entries, offset=0x10000000)
    keep = ctypes.create_string_buffer(DATA[:20000], 20000)
    # IORING_OP_SEND: opcode, flags, priority, descriptor, offset, address, length, MSG_WAITALL.
    struct.pack_into("=BBHiQQIi", entries, 0, 26, 0, 0, end.fileno(), 0, ctypes.addressof(keep), 20000, 0x100)
    struct.pack_into("I", queue, array, 0)
    struct.pack_into("I", queue, tail, 1)
    if LINUX.syscall(426, ring, 1, 1, 1, None, 0) != 1:
        raise OSError(ctypes.get_errno(), "io_uring_enter")


WAYS = {
    "sendfile": lambda end: end.sendfile(file()),
    "zerocopy": zerocopy,
    "splice": splice,
    "many": many,
    "small": small,
    "cork": cork,
    "more": more,
    "urgent": urgent,
    "child": child,
    "io_uring": io_uring,
}


def send(end):
    WAYS.get(kind, lambda end: end.sendall(DATA))(end)


def drain(end):
    while end.recv(65536):
        pass


def stream():
    if role == "serve":
        listener = socket.create_server((address, port), family=family)
        end, _ = listener.accept()
        drain(end)
        send(end)
        return
    end = socket.socket(family)
    if kind == "segment":
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    end.connect((address, port))
    if kind == "reset":
        end.sendall(DATA[:1000])
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.close()
        return
    send(end)
    end.shutdown(socket.SHUT_WR)
    drain(end)


def datagrams():
    end = socket.socket(family, socket.SOCK_DGRAM)
    end.settimeout(5)
    if role == "serve":
        if kind == "udp-gro":
            end.setsockopt(SOL_UDP, UDP_GRO, 1)
        end.bind((address, port))
        come = 0
        while come < 12000:
            data, peer = end.recvfrom(65535)
            come += len(data)
            end.sendto(b"%d" % come, peer)
        return
    end.connect((address, port))
    if kind in ("udp-gso", "udp-gro"):
        end.sendmsg([DATA[:12000]], [(SOL_UDP, UDP_SEGMENT, struct.pack("H", 1200))])
        while end.recv(100) != b"12000":
            pass
        return
    each = 6000 if kind == "fragments" else 1200
    for _ in range(12000 // each):
        end.send(DATA[:each])
        end.recv(100)


datagrams() if kind.startswith("udp") or kind == "fragments" else stream()
