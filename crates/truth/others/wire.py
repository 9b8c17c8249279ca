"""A wire between two hosts: `python3 wire.py OTHER PLAN.json` joins the device `s` of this network
namespace and `eth0` of OTHER, prints `ready`, and passes frames on after half of the plan's round
trip. What the plan's `wire` says befalls those on their way to OTHER: `loss` (a share), `late` (a
share that comes so many milliseconds after its time) and `jitter` (milliseconds at most, in order).
At SIGTERM it prints by how many seconds the latest frame was later than that.
"""

import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import signal
import struct
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 2, 0x1000


def tap(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return device


def main():
    plan = json.load(open(sys.argv[2]))
    does, draw = plan.get("wire", {}), random.Random(plan["seed"])
    near = tap("s")
    namespace = os.open(f"/run/netns/{sys.argv[1]}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(namespace, 0):
        raise OSError(ctypes.get_errno(), "setns")
    far = tap("eth0")
    print("ready", flush=True)
    half, waiting, number, last, late = plan["trip"] / 2000, [], 0, 0, 0
    signal.signal(signal.SIGTERM, lambda *_: (print(late, flush=True), os._exit(0)))
    share, by = does.get("late", [0, 0])
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            due, _, to, frame = heapq.heappop(waiting)
            late = max(late, now - due)
            try:
                os.write(to, frame)
            except OSError:
                # A device that is down takes nothing.
                pass
        left = max(0, waiting[0][0] - now) if waiting else None
        for of in select.select([near, far], [], [], left)[0]:
            frame = os.read(of, 65536)
            at, number = time.monotonic() + half, number + 1
            # Only what the plan is about is lost: IPv4 to the server.
            if of == near and frame[12:14] == b"\x08\x00":
                if draw.random() < does.get("loss", 0):
                    continue
                if draw.random() < share:
                    at += by / 1000
                elif "jitter" in does:
                    last = at = max(last, at + draw.random() * does["jitter"] / 1000)
            heapq.heappush(waiting, (at, number, far if of == near else near, frame))


main()
