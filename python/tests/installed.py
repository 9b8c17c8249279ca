"""What is asked of the package where it is installed: python installed.py RUN CAPTURE."""

import importlib.metadata
import os
import socket
import subprocess
import sys
import unittest

import wirelapse
from wirelapse import captures, timestamping
from wirelapse.timestamping import Flag, Ready, Stage

RUN, CAPTURE = sys.argv[1:3]


class Command(unittest.TestCase):
    def test_it_is_the_one_of_this_package(self):
        self.assertEqual(os.path.dirname(wirelapse.command()), os.path.dirname(sys.executable))
        said = subprocess.check_output([wirelapse.command(), "--version"], text=True)
        number = wirelapse.__version__.partition("+")[0]
        self.assertTrue(said.startswith(f"wirelapse {number}"), (said, wirelapse.__version__))
        self.assertIn("License-Expression: MIT OR Apache-2.0", str(importlib.metadata.metadata("wirelapse")))


class Runs(unittest.TestCase):
    def test_tables_are_arrow(self):
        run = wirelapse.read(RUN)
        self.assertEqual((run.kind, run.finished), ("trace", True))
        self.assertEqual(set(run), {"connections", "connects", "sends", "totals"})
        sends = run["sends"]
        self.assertEqual(sends.num_rows, run.info["rows"]["sends"])
        self.assertGreater(max(ns for ns in sends["total_ns"].to_pylist() if ns is not None), 0)
        with self.assertRaisesRegex(KeyError, "it has connections, connects, sends, totals"):
            run["nothing"]

    def test_what_is_no_run_is_refused(self):
        with self.assertRaises(FileNotFoundError):
            wirelapse.read(os.path.dirname(RUN))


class Captures(unittest.TestCase):
    def test_verdicts_are_objects(self):
        found = wirelapse.analyze(CAPTURE)
        self.assertEqual(len(found.connections), found.capture.connections)
        self.assertGreater(found.capture.connections, 0)
        for connection in found.connections:
            limits = [value for name, value in vars(connection.limits).items() if name != "more"]
            self.assertEqual(sum(limits), connection.duration_ns, connection)
            self.assertTrue(connection.verdict)
            self.assertIsInstance(connection.to_server.rtt, captures.Quantiles)

    def test_what_cannot_be_read_says_why(self):
        with self.assertRaises(wirelapse.WirelapseError) as failed:
            wirelapse.analyze("/no/such/file.pcap")
        self.assertEqual(failed.exception.status, 2, failed.exception)
        self.assertIn("/no/such/file.pcap", str(failed.exception))


class Timestamping(unittest.TestCase):
    def pair(self):
        listener = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        listener.close()
        self.addCleanup(client.close)
        self.addCleanup(server.close)
        return client, server

    def test_sends_of_tcp_have_their_stages(self):
        client, server = self.pair()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stages = Stage.SCHED | Stage.DRIVER | Stage.ACK
        stamped = timestamping.enable(client, stages=stages, stats=True)
        self.assertEqual((stamped.stages, stamped.counts_bytes, stamped.left_out), (stages, True, Flag(0)))
        self.assertIn(Flag.OPT_ID_TCP, stamped.flags)
        self.assertGreaterEqual(stamped.reserve(16), 16)
        matcher = stamped.matcher()
        for number in range(1, 6):
            self.assertEqual(matcher.send(b"request", tag=number), 7)
            self.assertEqual(server.recv(64), b"request")
            (send,) = matcher.wait(5)
            self.assertEqual((send.tag, send.id, send.missing), (number, number * 7 - 1, ()))
            times = [send.since_sent_ns(stage) for stage in (Stage.SCHED, Stage.DRIVER, Stage.ACK)]
            self.assertEqual(sorted(times), times)
            self.assertGreater(times[0], 0)
            self.assertLess(times[2], 5_000_000_000)
        counts = matcher.counts
        self.assertEqual((counts.sent, counts.complete, counts.incomplete, counts.pending, matcher.others), (5, 5, 0, 0, []))

    def test_stamps_carry_the_figures_of_tcp(self):
        client, server = self.pair()
        stamped = timestamping.enable(client, stages=Stage.ACK, stats=True)
        self.assertEqual(stamped.send(b"x"), 1)
        server.recv(1)
        self.assertIn(Ready.ERRORS, stamped.wait(5))
        (stamp,) = stamped.read()
        self.assertEqual((stamp.stage, stamp.id, stamp.payload, stamp.hardware_ns), (Stage.ACK, 0, b"", None))
        self.assertEqual(stamp.stats["bytes_sent"], 1)
        self.assertGreater(stamp.stats["smoothed_rtt_ns"], 0)

    def test_datagrams_are_received_with_stamps_and_refused_with_icmp(self):
        receiver, sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(sender.close)
        receiver.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % receiver.getsockname()[1]
        received = timestamping.enable(receiver, receive_software=True, ttl=True)
        sent = timestamping.enable(sender, stages=Stage.DRIVER, per_send=True, icmp_errors=True)
        self.assertEqual(sent.send(b"one", stages=Stage.DRIVER, to=address), 3)
        self.assertIn(Ready.READABLE, received.wait(5, Ready.READABLE))
        (datagram,) = received.receive(2)
        self.assertEqual((datagram.payload, datagram.cut, datagram.ttl), (b"on", True, 64))
        self.assertEqual(datagram.sender, "127.0.0.1:%d" % sender.getsockname()[1])
        (stamp,) = sent.read()
        self.assertEqual(stamp.stage, Stage.DRIVER)
        self.assertLessEqual(stamp.software_ns, datagram.software_ns)

        receiver.close()
        sent.send(b"two", to=address)
        sent.wait(5)
        (refused,) = sent.read()
        self.assertEqual((refused.text, refused.offender, refused.payload), ("port unreachable", "127.0.0.1", b"two"))

    def test_flags_are_those_of_the_kernel(self):
        known = timestamping.supported()
        self.assertIn(Flag.OPT_TSONLY, known)
        self.assertEqual(known & ~Flag((1 << 19) - 1), Flag(0))

    def test_what_cannot_be_is_an_error(self):
        unconnected = socket.socket()
        self.addCleanup(unconnected.close)
        with self.assertRaises(timestamping.TimestampingError) as failed:
            timestamping.enable(unconnected, stages=Stage.ACK)
        self.assertEqual(failed.exception.result, "NOT_CONNECTED")
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with self.assertRaises(timestamping.TimestampingError) as failed:
            timestamping.enable(datagrams, stages=Stage.ACK)
        self.assertEqual(failed.exception.result, "WRONG_SOCKET")
        stamped = timestamping.enable(datagrams, stages=Stage.DRIVER)
        with self.assertRaisesRegex(timestamping.TimestampingError, "not an IP address"):
            stamped.send(b"x", to="nowhere")
        datagrams.close()
        with self.assertRaises(timestamping.TimestampingError):
            stamped.read()


unittest.main(argv=sys.argv[:1])
