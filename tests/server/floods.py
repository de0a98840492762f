#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Untrusted input to a server: it must neither exit nor hang, and must release memory and descriptors afterwards.

Usage: floods.py PROGRAM [PATTERN] [--connections N]

Prints TAP lines and, last, `N passed, N failed, N skipped`. Default: 1000 connections of all kinds.
"""
import itertools
import os
import random
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "train"))
import harness
import http2
from harness import check, test
from http2 import CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS, frame

MASTER = "/tensorflow.MasterService/"
WORKER = "/tensorflow.WorkerService/"
AT_ONCE = 100  # connections that are open together


# ---- protobuf encoding ----

def varint(n):
    out = b""
    while n >= 128:
        out, n = out + bytes([n % 128 + 128]), n // 128
    return out + bytes([n])


def field(number, body):
    return varint(number << 3 | 2) + varint(len(body)) + body


def nested(levels):
    """A CreateSessionRequest whose one node has functions in functions in functions as attributes."""
    value = b""
    for _ in range(levels):
        entry = field(1, b"f") + field(2, value)
        value = field(10, field(1, b"g") + field(2, entry))
    return field(1, field(1, field(1, b"n") + field(2, b"NoOp") + field(5, field(1, b"a") + field(2, value))))


# ---- a server ----

class Bench(harness.Bench):
    def __init__(self, args):
        super().__init__(args)
        self.connections = args.connections
        self.random = random.Random(7)

    def serve(self, *more, env=None):
        self.log = open(self.out("log"), "w+")
        p = subprocess.Popen([self.program, "server", "--cluster", '{"worker": ["127.0.0.1:0"]}', *more],
                             stdout=subprocess.PIPE, stderr=self.log, text=True,
                             env={**os.environ, **(env or {})})
        self.running.append(p)
        line = p.stdout.readline()
        check(line.startswith("serving at grpc://"), "it does not serve: %r" % line)
        self.server, self.target = p, line.split()[-1]
        self.address = ("127.0.0.1", int(self.target.rsplit(":", 1)[1]))
        self.step()
        return p

    def step(self):
        """A client that behaves gets its answer."""
        with open(self.out("graph.pbtxt"), "w") as f:
            f.write("node { name: 'c' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value'"
                    " value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 42 } } } }")
        r = subprocess.run([self.program, "graph", "run", self.out("graph.pbtxt"), "--target", self.target,
                            "--fetch", "c"], capture_output=True, text=True, timeout=120)
        check(r.returncode == 0 and "42" in r.stdout, "no step: %s%s" % (r.stdout, r.stderr))

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.server.pid))

    def memory(self):
        """MiB."""
        with open("/proc/%d/status" % self.server.pid) as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024

    def settled(self):
        """Descriptors when there is nothing to do."""
        time.sleep(3)
        return self.descriptors()

    def settle(self, descriptors):
        """A closed connection is detected soon; a silent one after five seconds."""
        end = time.monotonic() + 60
        while self.descriptors() > descriptors and time.monotonic() < end:
            check(self.server.poll() is None, "the server has ended: %s" % self.server.poll())
            time.sleep(0.1)
        return self.descriptors()

    def stop(self):
        self.server.send_signal(signal.SIGTERM)
        check(self.server.wait(60) == 0, "it does not end well: %d" % self.server.returncode)


def connect(b, i):
    """From many addresses, so that ports do not run out."""
    s = socket.socket()
    s.settimeout(60)
    s.bind(("127.1.%d.%d" % (i // 250 % 250 + 1, i % 250 + 1), 0))
    s.connect(b.address)
    return s


def hang_up(s, rudely):
    if rudely:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


# ---- inputs ----

def hello_of_tls():
    out = ssl.MemoryBIO()
    try:
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="x").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def kinds(rng):
    """What a connection sends, by name."""
    open_, create = http2.opening(), MASTER + "CreateSession"
    ask = frame(HEADERS, END_HEADERS, 1, http2.request_headers(create))
    claim = lambda n: frame(DATA, 0, 1, b"\0" + struct.pack(">I", n) + b"x" * 10)
    every = [MASTER + m for m in ("ExtendSession", "RunStep", "CloseSession", "Reset", "MakeCallable")] + \
            [WORKER + m for m in ("RegisterGraph", "RunGraph", "RecvTensor", "CleanupGraph", "Nope")]
    return {
        "nothing": b"",
        "garbage": rng.randbytes(rng.randrange(1, 3000)),
        "HTTP/1": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 3,
        "TLS": hello_of_tls(),
        "half a preface": http2.PREFACE[:10],
        "garbage after the preface": http2.PREFACE + rng.randbytes(500),
        "a frame of 16 MiB": open_ + b"\xff\xff\xff" + struct.pack(">BBI", DATA, 0, 1) + rng.randbytes(1000),
        "frames of no stream": open_ + b"".join(frame(DATA, 0, 2 * k + 2, b"x") for k in range(50)),
        "a message of 4 GiB": open_ + ask + claim(0xffffffff),
        "a message that is cut off": open_ + ask + claim(1000) + frame(DATA, END_STREAM, 1),
        "a message that is garbage": open_ + http2.call(1, create, rng.randbytes(300)),
        "garbage to every method": open_ + b"".join(http2.call(2 * k + 1, m, rng.randbytes(50))
                                                    for k, m in enumerate(every)),
        "deep nesting": open_ + http2.call(1, create, nested(2000)),
        "headers of 100 KiB": open_ + frame(HEADERS, END_HEADERS, 1, http2.request_headers(
            create, [("x-%d" % k, "y" * 1000) for k in range(12)])) +
            frame(HEADERS, END_HEADERS, 3, http2.request_headers(create, [("x", "y" * 15000)] * 7)),
        "headers without end": open_ + frame(HEADERS, 0, 1, http2.request_headers(create)) +
            frame(CONTINUATION, 0, 1, http2.header("a", "b" * 1000)) * 50,
        "rapid resets": open_ + b"".join(
            frame(HEADERS, END_HEADERS, 2 * k + 1, http2.request_headers(create)) +
            frame(RST_STREAM, 0, 2 * k + 1, struct.pack(">I", 8)) for k in range(200)),
        "many open streams": open_ + b"".join(
            frame(HEADERS, END_HEADERS, 2 * k + 1, http2.request_headers(create)) for k in range(300)),
        "settings and pings": open_ + (frame(SETTINGS, 0, 0) + frame(PING, 0, 0, b"12345678")) * 200,
    }


def flood(b, n):
    """n connections, a hundred at a time; some wait for a response, some disconnect abruptly."""
    held = []
    for i, name in zip(range(n), itertools.cycle(kinds(b.random))):
        if i % 500 == 0:
            all_kinds = kinds(b.random)
        s = connect(b, i)
        try:
            s.sendall(all_kinds[name])
            if b.random.random() < 0.3:
                s.settimeout(0.01)
                s.recv(1000)
        except OSError:
            pass  # it was shown the door
        held.append(s)
        if len(held) > AT_ONCE:
            hang_up(held.pop(b.random.randrange(len(held))), b.random.random() < 0.8)
    for s in held:
        hang_up(s, False)


# ---- tests ----

@test
def invalid_input_leaves_no_resources(b):
    b.serve()
    before = b.settled()
    flood(b, 300)  # one-time allocations are done
    b.step()
    b.settle(before)
    memory, since = b.memory(), time.monotonic()
    flood(b, b.connections)
    took = time.monotonic() - since
    b.step()
    after = b.settle(before)
    time.sleep(3)  # it has nothing to do, and tidies up
    print("# %d connections in %.1f s: descriptors %d, then %d; memory %.1f MiB, then %.1f" %
          (b.connections, took, before, after, memory, b.memory()))
    check(after <= before, "%d descriptors, and %d before" % (after, before))
    check(b.memory() < memory + 64, "%.1f MiB, and %.1f before" % (b.memory(), memory))
    b.stop()


@test
def silent_connections_are_closed(b):
    b.serve()
    before = b.settled()
    silent = [connect(b, i) for i in range(300)]
    for s in silent[::2]:
        s.sendall(http2.PREFACE[:12])
    b.step()  # others are served
    check(b.settle(before) <= before, "%d descriptors, and %d before" % (b.descriptors(), before))
    for s in silent:
        s.settimeout(10)
        try:
            while s.recv(1000):
                pass
        except ConnectionResetError:
            pass
        s.close()
    b.stop()


@test
def abandoned_calls_leave_no_resources(b):
    b.serve("--memory", "64")
    before, memory = b.settled(), b.memory()
    most, many = 0, kinds(b.random)["many open streams"]
    for i in range(100):
        s = connect(b, i)
        s.sendall(many)
        hang_up(s, i % 2)
        most = max(most, b.memory())
    end = time.monotonic() + 60
    while b.descriptors() > before and time.monotonic() < end:
        most = max(most, b.memory())
    b.step()
    b.settle(before)
    time.sleep(3)
    print("# 30,000 calls with --memory 64: memory %.1f MiB, %.1f meanwhile, then %.1f" % (memory, most, b.memory()))
    check(b.memory() < memory + 64, "%.1f MiB, and %.1f before" % (b.memory(), memory))
    b.stop()


@test
def abandoned_sessions_are_bounded(b):
    b.serve(env={"MESHFLOW_SERVER_SESSIONS": "40"})
    c = http2.Connection(b.address)
    for _ in range(40):
        answer, text = c.ask(MASTER + "CreateSession")
        check(answer, "no session: %r" % text)
    c.close()
    c = http2.Connection(b.address)
    for _ in range(1000):
        answer, text = c.ask(MASTER + "CreateSession")
        check(answer is None and b"already has 40 sessions" in text, "%r" % text)
    for i in range(40):
        answer, text = c.ask(WORKER + "CreateWorkerSession", field(1, b"s%d" % i))
    check(answer is None and b"sessions: close some" in text, "%r" % text)
    answer, text = c.ask(MASTER + "Reset")
    check(answer is not None, "%r" % text)
    c.close()
    b.step()
    b.stop()


@test
def requests_beyond_the_memory_limit_are_rejected(b):
    b.serve("--memory", "16")
    c = http2.Connection(b.address)
    for n in range(900):  # each keeps its graph
        answer, text = c.ask(MASTER + "CreateSession", field(99, b"x" * 15000))
        if answer is None:
            break
    check(answer is None and b"no memory for" in text, "%d sessions; %r" % (n, text))
    c.ask(MASTER + "Reset")
    c.close()
    b.step()
    b.stop()


def incarnation(b):
    """What keys of values begin with."""
    c = http2.Connection(b.address)
    answer, _ = c.ask(WORKER + "GetStatus")
    c.close()
    at = answer.index(b"CPU", answer.index(b"device:CPU:0") + 12)
    number = struct.unpack("<Q", re.search(rb"\x31(.{8})", answer[at:], re.S).group(1))[0]
    return b"/job:worker/replica:0/task:0/device:CPU:0;%016x;/job:x;edge_1_a;0:0" % number


@test
def values_of_unknown_steps_leave_no_resources(b):
    b.serve()
    key = field(2, incarnation(b))
    before = b.settled()
    memory = b.memory()
    for i in range(20):
        s = connect(b, i)
        s.sendall(http2.opening())
        for k in range(500):
            s.sendall(http2.call(2 * k + 1, WORKER + "RecvTensor", b"\x08" + varint(i * 1000 + k + 1) + key) +
                      (frame(RST_STREAM, 0, 2 * k + 1, struct.pack(">I", 8)) if k % 2 else b""))
        hang_up(s, i % 2)
    b.step()
    after = b.settle(before)
    print("# 10,000 values: descriptors %d, then %d; memory %.1f MiB, then %.1f" %
          (before, after, memory, b.memory()))
    check(after <= before and b.memory() < memory + 24, "%d descriptors and %.1f MiB, %d and %.1f before" %
          (after, b.memory(), before, memory))
    b.stop()


def main():
    options = harness.parser()
    options.add_argument("--connections", type=int, default=1000)
    harness.main(Bench, options)


if __name__ == "__main__":
    main()
