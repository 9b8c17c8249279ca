#!/usr/bin/env python3
"""Draws what goes wrong with names, TLS, QUIC, UDP and the network from seeds, provokes it between
two hosts, and counts how often `wirelapse analyze` says so.

`draw.py WIRELAPSE 1..200 [--jobs N] [--keep FOLDER]` (root). A seed is a plan: one cause with drawn
parameters, and a path with a drawn delay. Three hosts in namespaces run it, with captures at the
client, in the middle and at the server; each is judged whole, and the client's begun late and cut
to 128 bytes a packet as well. The causes are the plan's, and what the programs write of
themselves says that they came about. A verdict is

  right     a finding of the cause is there, and none that is not true
  withheld  no finding, although there is a cause
  wrong     a finding that is not true, or a part of a transaction that is off by a tenth and 15 ms

One line of JSON is printed for each plan, and the sums at the end.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
# A path that is later than this is not the plan's, seconds.
LATE = 0.01
# Of the host that serves: its web server, and two resolvers.
SERVES = ["10.9.2.2/24", "10.9.2.53/24", "10.9.2.54/24", "fd00:9:2::2/64"]


def fine(**more):
    """A plan in which nothing goes wrong: a resolver, and a web server with TLS 1.3."""
    return {"resolvers": [{}, {}], "web": {}, **more}


def ms(draw, least, most):
    return round(draw.uniform(least, most) / 1000, 3)


def first(does, **more):
    return fine(resolvers=[does, {}], **more)


def quic(does, **more):
    return {"resolvers": [{}, {}], "quic": does, **more}


def ntp(does, **more):
    return {"service": {"port": 123, **does}, "requests": 8, **more}


# Each cause: the findings that name it, those that are true beside it, and the plan of a draw.
CAUSES = {
    "nothing": ((), (), lambda d: fine()),
    "slow resolver": (("dns_slow",), (), lambda d: fine(resolvers=[{"delay": ms(d, 150, 900)}] * 2)),
    "silent resolver": (("dns_silent",), (), lambda d: first({"silent": True}, options=f"timeout:{d.choice([1, 2])}")),
    "all resolvers silent": (("dns_silent",), (), lambda d: fine(resolvers=[{"silent": True}] * 2, options="timeout:1 attempts:1", after=5.5)),
    "lost question": (("dns_retries",), (), lambda d: fine(resolvers=[{"drops": d.choice([1, 2])}], options="timeout:1")),
    "resolver that fails": (("dns_failed",), (), lambda d: first({"code": 2})),
    "resolver that refuses": (("dns_failed",), (), lambda d: first({"code": 5})),
    "suffixes first": (("dns_search",), (), lambda d: fine(options=f"ndots:{d.choice([3, 5])}", search="ns.svc.cluster.local svc.cluster.local cluster.local")),
    "answer cut short": (("dns_truncated",), (), lambda d: fine(resolvers=[{"truncates": True}] * 2)),
    "answer cut short, TCP refused": (("dns_truncated",), (), lambda d: fine(resolvers=[{"truncates": True, "tcp": False}] * 2)),
    "AAAA late": (("dns_late_aaaa",), ("dns_slow",), lambda d: fine(resolvers=[{"delay_aaaa": ms(d, 150, 900)}] * 2)),
    "AAAA silent": (("dns_late_aaaa", "dns_retries", "dns_unanswered"), (), lambda d: fine(resolvers=[{"silent_aaaa": True}] * 2, options="timeout:1 attempts:1", after=5.5)),
    "resolver closed": (("dns_unreachable",), (), lambda d: first({"closed": True})),
    "resolver too late": (("dns_too_late",), ("dns_slow",), lambda d: fine(resolvers=[{"delay": ms(d, 1300, 1900)}], options="timeout:1 attempts:1", after=2)),
    "no such name": ((), (), lambda d: fine(name="no.example.test")),
    "IPv6 broken": ((), (), lambda d: fine(resolvers=[{"has_aaaa": True}] * 2, broken6=True)),
    "accepts late": (("tls_server",), (), lambda d: fine(web={"accepts_late": ms(d, 150, 900)})),
    "looks for a certificate": (("tls_server",), (), lambda d: fine(web={"looks_up": ms(d, 150, 900), **d.choice([{}, {"most": "1.2"}])}, client={"most": "1.2"} if d.random() < 0.3 else {})),
    "client thinks": (("tls_client",), (), lambda d: fine(client={"thinks": ms(d, 150, 900), **d.choice([{}, {"most": "1.2"}])})),
    "hello again": (("tls_retry",), (), lambda d: fine(web={"group": d.choice(["secp384r1", "secp521r1"])})),
    "long certificate": (("tls_flight",), (), lambda d: fine(web={"certificate": d.choice(["large", "huge"]), **d.choice([{}, {"most": "1.2"}])}, client={"most": "1.2"} if d.random() < 0.3 else {})),
    "old version": (("tls_version",), (), lambda d: fine(web={"most": "1.2"})),
    "goes on, 1.2": ((), (), lambda d: fine(client={"most": "1.2", "times": 3})),
    "goes on, 1.3": ((), (), lambda d: fine(client={"times": 3})),
    "does not go on": (("tls_not_resumed",), (), lambda d: fine(web={"forgets": True}, client={"most": "1.2", "times": 2})),
    "unknown issuer": (("tls_failed",), (), lambda d: fine(client={"trusts_nobody": True, **d.choice([{}, {"most": "1.2"}])})),
    "no common version": (("tls_failed",), (), lambda d: fine(web={"least": "1.3"}, client={"most": "1.2"})),
    "closes in the middle": (("tls_failed",), (), lambda d: fine(web={"closes": True})),
    "client's certificate": ((), (), lambda d: fine(web={"asks": True}, client={"has_certificate": True, **d.choice([{}, {"most": "1.2"}])})),
    "no client's certificate": (("tls_failed",), (), lambda d: fine(web={"asks": True}, client=d.choice([{}, {"most": "1.2"}]))),
    "slow answer": ((), (), lambda d: fine(web={"thinks": ms(d, 150, 900)})),
    "QUIC": ((), (), lambda d: quic({})),
    "slow QUIC": (("quic_server",), ("quic_pause",), lambda d: quic({"delays": 4, "delay": ms(d, 150, 900)})),
    "QUIC asks for a token": (("quic_retry",), (), lambda d: quic({"retry": True})),
    "QUIC of another version": (("quic_version",), (), lambda d: quic({}, client={"old_version": True})),
    "QUIC held by its limit": (("quic_limit",), (), lambda d: quic({"certificate": "middle"})),
    "QUIC blocked": (("quic_unanswered",), (), lambda d: fine(quic={"drops": 10**9}, client={"patience": ms(d, 1500, 3000)})),
    "no QUIC": (("quic_unreachable",), ("icmp_unreachable",), lambda d: fine(tries_quic=True, client={"patience": ms(d, 500, 1500)})),
    "QUIC hello lost": (("quic_probes",), (), lambda d: quic({"drops": d.choice([1, 2])})),
    "QUIC without a protocol": (("quic_protocol",), (), lambda d: quic({"alpn": "other"})),
    "QUIC moves": (("quic_moved",), (), lambda d: quic({}, client={"moves": True, "requests": 3})),
    "QUIC moves by itself": (("quic_moved",), (), lambda d: quic({}, client={"moves": True, "changes_id": True, "requests": 3})),
    "slow answer of QUIC": (("quic_pause",), (), lambda d: quic({"thinks": ms(d, 400, 1500)})),
    "idle QUIC": ((), (), lambda d: quic({}, client={"requests": 3, "idle": ms(d, 300, 900)})),
    "slow NTP": (("udp_slow",), (), lambda d: ntp({"delay": ms(d, 150, 800)})),
    "lost NTP": (("udp_retries", "udp_unanswered"), (), lambda d: ntp({"drops": d.choice([1, 2])})),
    "silent NTP": (("udp_unanswered",), (), lambda d: ntp({"silent": True}, requests=1, after=5.5, resolvers=[{}, {}])),
    "closed NTP": (("icmp_unreachable",), (), lambda d: {"runs": ["python3", "-c", "import socket;s=socket.socket(2,2)\nfor i in range(3): s.sendto(b'\\x23'+bytes(47),('10.9.2.2',123))"]}),
    "RTP": ((), (), lambda d: {"stream": {"datagrams": 150}}),
    "RTP lost": (("udp_loss",), ("echo_lost",), lambda d: {"stream": {"datagrams": 200}, "wire": {"loss": d.uniform(0.04, 0.15)}}),
    "RTP reordered": (("udp_reordered",), ("udp_jitter",), lambda d: {"stream": {"datagrams": 200}, "wire": {"late": [d.uniform(0.05, 0.2), d.randint(30, 70)]}}),
    "RTP jitter": (("udp_jitter",), ("udp_pause",), lambda d: {"stream": {"datagrams": 250}, "wire": {"jitter": d.randint(120, 200)}}),
    "lost echoes": (("echo_lost",), (), lambda d: {"runs": ["ping", "-c", "30", "-i", "0.05", "-W", "2", "10.9.2.2"], "wire": {"loss": d.uniform(0.15, 0.3)}, "after": 2.5}),
    "no route": (("icmp_unreachable",), ("echo_lost",), lambda d: {"runs": ["ping", "-c", "3", "-i", "0.2", "-W", "1", "10.9.7.7"], "router": ["ip", "route", "add", d.choice(["prohibit", "unreachable"]), "10.9.7.0/24"]}),
    "small MTU": (("icmp_too_big",), (), lambda d: {"runs": ["ping", "-c", "3", "-i", "0.2", "-M", "do", "-s", "1400", "10.9.2.2"], "mtu": d.choice([1280, 1400])}),
    "hops run out": ((), (), lambda d: {"runs": ["ping", "-c", "3", "-i", "0.2", "-t", "1", "10.9.2.2"]}),
    "nobody has the address": (("neighbour_silent",), ("icmp_unreachable",), lambda d: {"runs": ["ping", "-c", "4", "-W", "2", f"10.9.1.{d.randint(100, 200)}"], "after": 1.5}),
}


def plan_of(seed):
    draw = random.Random(seed)
    names = list(CAUSES)
    cause = names[(seed - 1) % len(names)]
    named, true, make = CAUSES[cause]
    plan = {"seed": seed, "cause": cause, "named": named, "true": true, "trip": draw.choice([8, 12, 20, 35, 60, 80]), **make(draw)}
    # The two resolvers, and the web server: what they did is what they logged.
    if "web" in plan and plan["web"].get("most") == "1.2" and plan.get("client", {}).get("most") != "1.2":
        plan["true"] = (*true, "tls_version")
    return plan


def run(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more)


def certificates(folder):
    """Self-signed certificates: a small one, and others of which two are larger than a first window."""
    for name, names in (("small", 1), ("middle", 250), ("large", 700), ("huge", 1500)):
        alternatives = ",".join(f"DNS:host-{i}.example.test" for i in range(names))
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
            "-keyout", f"{folder}/key", "-out", f"{folder}/cert", "-subj", "/CN=www.example.test",
            "-addext", f"subjectAltName=DNS:www.example.test,{alternatives}")  # fmt: skip
        pathlib.Path(folder, f"{name}.pem").write_text(
            pathlib.Path(folder, "cert").read_text() + pathlib.Path(folder, "key").read_text()
        )


@contextlib.contextmanager
def hosts(plan, file):
    """Client, router and server, joined by a path with the plan's delay."""
    c, m, s = (f"wlt{plan['seed']}-{os.getpid()}-{end}" for end in "cms")
    stack = contextlib.ExitStack()
    with stack:
        for host in (c, m, s):
            run("ip", "netns", "add", host)
            stack.callback(subprocess.run, ["ip", "netns", "del", host], capture_output=True)
            run("ip", "-n", host, "link", "set", "lo", "up")
        run("ip", "link", "add", "eth0", "netns", c, "type", "veth", "peer", "name", "c", "netns", m)
        wire = subprocess.Popen(
            ["ip", "netns", "exec", m, sys.executable, str(HERE / "wire.py"), s, file], stdout=subprocess.PIPE, text=True
        )
        stack.callback(wire.wait)
        stack.callback(wire.terminate)
        if wire.stdout.readline() != "ready\n":
            raise OSError("the wire did not begin")
        for host, device, addresses in (
            (c, "eth0", ["10.9.1.2/24", "fd00:9:1::2/64"]),
            (m, "c", ["10.9.1.1/24", "fd00:9:1::1/64"]),
            (m, "s", ["10.9.2.1/24", "fd00:9:2::1/64"]),
            (s, "eth0", SERVES),
        ):
            for address in addresses:
                more = ["nodad"] if ":" in address else []
                run("ip", "-n", host, "address", "add", address, "dev", device, *more)
            run("ip", "-n", host, "link", "set", device, "up")
        for host, n in ((c, 1), (s, 2)):
            run("ip", "-n", host, "route", "add", "default", "via", f"10.9.{n}.1")
            run("ip", "-n", host, "-6", "route", "add", "default", "via", f"fd00:9:{n}::1")
        if plan.get("broken6"):
            run("ip", "-n", m, "-6", "route", "add", "blackhole", "fd00:9:2::2/128")
        enter = ["ip", "netns", "exec", m]
        run(*enter, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        if "mtu" in plan:
            run("ip", "-n", m, "link", "set", "s", "mtu", str(plan["mtu"]))
        if "router" in plan:
            run(*enter, *plan["router"])
        yield c, m, s, wire


@contextlib.contextmanager
def captures(places, folder):
    """tcpdump in each of these hosts, which has begun."""
    running = []
    for name, (host, device) in places.items():
        # The capture's buffer is shown at once, and whole packets are kept.
        running.append(
            subprocess.Popen(
                ["ip", "netns", "exec", host, "tcpdump", "-i", device, "-U", "--immediate-mode", "-w", f"{folder}/{name}.pcap"],
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    for one in running:
        while "listening on" not in (line := one.stderr.readline()):
            if not line:
                raise OSError("tcpdump did not begin")
    yield
    time.sleep(0.1)
    for one in running:
        one.terminate()
        one.wait()


def provoke(plan, folder):
    """Runs a plan, and says what its programs saw."""
    file = f"{folder}/plan.json"
    pathlib.Path(file).write_text(json.dumps(plan))
    search = f"search {plan['search']}\n" if "search" in plan else ""
    pathlib.Path(folder, "resolv.conf").write_text(
        "".join(f"nameserver {a}\n" for a in ("10.9.2.53", "10.9.2.54")[: len(plan.get("resolvers", []))])
        + search
        + f"options {plan.get('options', 'timeout:5')}\n"
    )
    with hosts(plan, file) as (c, m, s, wire):
        served = open(f"{folder}/served", "w")
        server = subprocess.Popen(
            ["ip", "netns", "exec", s, sys.executable, str(HERE / "servers.py"), file],
            stdout=subprocess.PIPE, stderr=served, text=True,
        )  # fmt: skip
        try:
            if server.stdout.readline() != "ready\n":
                raise OSError(f"the server did not begin: {pathlib.Path(folder, 'served').read_text()}")
            with captures({"client": (c, "eth0"), "middle": (m, "c"), "server": (s, "eth0")}, folder):
                # `ip netns exec` has a mount namespace of its own.
                script = 'mount --bind "$1" /etc/resolv.conf && exec "$2" "$3" "$4"'
                done = run("ip", "netns", "exec", c, "sh", "-c", script, "sh", f"{folder}/resolv.conf",
                           sys.executable, str(HERE / "client.py"), file, timeout=60)  # fmt: skip
                time.sleep(plan.get("after", 0.3))
                # The capture goes on.
                subprocess.run(["ip", "netns", "exec", c, "ping", "-c1", "-W1", "10.9.2.2"], capture_output=True)
        finally:
            server.kill()
            server.wait()
        wire.terminate()
        late = float(wire.stdout.readline())
    if late > LATE:
        raise OSError(f"the machine was too busy: the path was {late:.3f} s late")
    took = json.loads(done.stdout)
    logged = [json.loads(line) for line in pathlib.Path(folder, "served").read_text().splitlines() if line[0] == "{"]
    took["busy"] = max([line["s"] for line in logged if line.get("server") == "busy"], default=0)
    return took


def judge(plan, lines, took, is_whole):
    """Right, withheld or wrong, and why."""
    found = [line for line in lines if line["kind"].endswith("_finding") and line["kind"] != "finding"]
    kinds = collections.Counter(line["finding"] for line in found)
    # A machine that is busy makes a slow server.
    true = {*plan["named"], *plan["true"], *(["quic_server"] if took["busy"] > 0.03 else [])}
    false = [k for k in kinds if k not in true]
    if false:
        return "wrong", [line["text"] for line in found if line["finding"] in false]
    off = []
    for line in lines:
        if line["kind"] != "transaction" or not is_whole or plan.get("client", {}).get("times", 1) > 1:
            continue
        # As the client's program saw it. One that is refused has no later parts.
        for key, part in (("name_ns", "name"), ("tls_ns", "tls")):
            if part in took and line.get(key) and "error" not in took:
                # A program has the name when it is answered, or later, up to when it connects.
                seen, until = line[key] / 1e9, (line["pause_ns"] / 1e9 if part == "name" else 0)
                room = max(0.015, 0.1 * took[part])
                if not seen - room <= took[part] <= seen + until + room:
                    off.append(f"{key} {seen:.3f} s, and the program saw {took[part]:.3f} s")
    if off:
        return "wrong", off
    if plan["named"] and not any(k in kinds for k in plan["named"]):
        return "withheld", []
    return "right", []


def record(seed, shared, keep):
    """Provokes a plan and keeps its captures with what its programs saw, in a folder of `keep`."""
    plan = {**plan_of(seed), "certificates": shared}
    folder = pathlib.Path(keep, f"{seed:04}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        took = provoke(plan, folder)
        run("editcap", "-F", "pcap", "-s", "128", f"{folder}/client.pcap", f"{folder}/cut.pcap")
        count = len(run("tcpdump", "-nr", f"{folder}/cut.pcap").stdout.splitlines())
        run("editcap", "-F", "pcap", f"{folder}/client.pcap", f"{folder}/late.pcap", f"1-{max(1, count // 4)}")
    except (OSError, subprocess.SubprocessError) as error:
        took = {"spoiled": f"{error} {getattr(error, 'stderr', '')}"}
    (folder / "took.json").write_text(json.dumps(took))
    return folder


def verdicts_of(wirelapse, folder):
    """What `analyze` says of a plan's captures, judged."""
    took = json.loads((folder / "took.json").read_text())
    # The causes of today judge what was recorded before.
    plan = plan_of(json.loads((folder / "plan.json").read_text())["seed"])
    done = {"seed": plan["seed"], "cause": plan["cause"], "trip_ms": plan["trip"], "took": took}
    if "spoiled" in took:
        return done
    verdicts = {}
    for place in ("client", "middle", "server", "late", "cut"):
        said = subprocess.run([wirelapse, "analyze", "--json", f"{folder}/{place}.pcap"], capture_output=True, text=True)
        lines = [json.loads(line) for line in said.stdout.splitlines()]
        verdicts[place] = ("wrong", [said.stderr]) if said.returncode else judge(plan, lines, took, place == "client")
    return {**done, "verdicts": verdicts}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("wirelapse")
    arguments.add_argument("seeds", help="A..B, or numbers with commas between")
    arguments.add_argument("--jobs", type=int, default=2, help="plans at a time")
    arguments.add_argument("--keep", help="a folder for each plan's captures")
    arguments.add_argument("--again", action="store_true", help="judge what was kept, without provoking it again")
    asked = arguments.parse_args()
    least, _, most = asked.seeds.partition("..")
    seeds = range(int(least), int(most) + 1) if most else [int(seed) for seed in asked.seeds.split(",")]
    sums = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory() as shared, concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        keep = asked.keep or shared
        certificates(shared)

        def attempt(seed):
            folder = pathlib.Path(keep, f"{seed:04}") if asked.again else record(seed, shared, keep)
            return verdicts_of(asked.wirelapse, folder)

        for done in pool.map(attempt, seeds):
            print(json.dumps(done), flush=True)
            for place, (verdict, _) in done.get("verdicts", {}).items():
                sums[place][verdict] += 1
            sums["plans"]["ran" if "verdicts" in done else "spoiled"] += 1
    print(json.dumps({"sums": sums}))


if __name__ == "__main__":
    main()
