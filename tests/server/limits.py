#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Limits of a server: graphs stay within --memory, kernels end with their step, and the process terminates on a signal,
whatever is running.

Usage: limits.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`.
"""
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "train"))
import harness
from harness import check, host_test, test

MIB = 1 << 20
SLACK = 96  # MiB: the program itself, what gRPC and the allocator keep, and blocks that are freed at the moment


# ---- graphs as text ----

def attr(name, value):
    return "attr { key: '%s' value { %s } }" % (name, value)


def node(name, op, *inputs, **attrs):
    return "node { name: '%s' op: '%s' %s %s }\n" % (
        name, op, " ".join("input: '%s'" % i for i in inputs),
        " ".join(attr(k, v) for k, v in attrs.items()))


def const(name, dtype, shape, values):
    dims = " ".join("dim { size: %d }" % d for d in shape)
    return node(name, "Const", dtype="type: " + dtype,
                value="tensor { dtype: %s tensor_shape { %s } %s }" % (dtype, dims, values))


def text(name, value):
    return const(name, "DT_STRING", [], "string_val: '%s'" % value)


def ints(name, *values, dtype="DT_INT32", shape=None):
    field = "int64_val" if dtype == "DT_INT64" else "int_val"
    return const(name, dtype, [len(values)] if shape is None else shape,
                 " ".join("%s: %d" % (field, v) for v in values))


def scalar(name, value, dtype="DT_INT32"):
    return ints(name, value, dtype=dtype, shape=[])


def joined(first, times, levels):
    """`first`, 'j1', 'j2', ...: each `times` times the one before."""
    out, last = "", first
    for i in range(1, levels + 1):
        out += node("j%d" % i, "StringJoin", *[last] * times, N="i: %d" % times)
        last = "j%d" % i
    return out


def random_floats(name, *shape):
    return ints(name + "/shape", *shape) + node(name, "RandomUniform", name + "/shape", T="type: DT_INT32",
                                                dtype="type: DT_FLOAT", seed="i: 1", seed2="i: 2")


def length(of):
    return node("length", "StringLength", of)


# ---- a server ----

class Bench(harness.Bench):
    def serve(self, *more):
        self.log = self.out("log")
        p = subprocess.Popen([self.program, "server", "--cluster", '{"worker": ["127.0.0.1:0"]}', "--threads", "2",
                              *more], stdout=subprocess.PIPE, stderr=open(self.log, "w"), text=True)
        self.running.append(p)
        line = p.stdout.readline()
        check(line.startswith("serving at grpc://"), "it does not serve: %r" % line)
        self.server, self.target = p, line.split()[-1]
        self.answers()
        self.base = self.memory("VmRSS")

    def client(self, graph, *more):
        path = self.out("graph%d.pbtxt" % len(self.running))
        with open(path, "w") as f:
            f.write(graph)
        p = subprocess.Popen([self.program, "graph", "run", path, "--target", self.target, *more],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.running.append(p)
        return p

    def run(self, graph, *more):
        p = self.client(graph, *more)
        out, err = p.communicate(timeout=300)
        check(self.server.poll() is None, "the server has ended: %s %s" % (self.server.poll(), self.said()))
        return p.returncode, out + err

    def answers(self):
        """A client that behaves gets its answer."""
        code, said = self.run(scalar("c", 42), "--fetch", "c:0")
        check(code == 0 and "42" in said, said)

    def said(self):
        with open(self.log) as f:
            return f.read()

    def memory(self, what):
        """MiB."""
        with open("/proc/%d/status" % self.server.pid) as f:
            return int(re.search(what + r":\s+(\d+)", f.read()).group(1)) / 1024

    def ticks(self):
        """Of processor time, so far."""
        with open("/proc/%d/stat" % self.server.pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def computes(self):
        """Wait until it has computed for a while."""
        until = self.ticks() + 50
        while self.ticks() < until:
            check(self.server.poll() is None, "the server has ended")
            time.sleep(0.05)

    def rests(self):
        """Wait until it computes nothing any more."""
        end = time.monotonic() + 120
        before, quiet = self.ticks(), 0
        while quiet < 5:
            check(time.monotonic() < end, "it still computes: %s" % self.said())
            time.sleep(0.1)
            now = self.ticks()
            quiet = quiet + 1 if now - before <= 1 else 0
            before = now

    def within(self, limit, what):
        """The peak, and the current value."""
        most = self.memory("VmHWM")
        self.rests()
        print("# %s: %.0f MiB at first, %.0f at most, %.0f afterwards" % (what, self.base, most, self.memory("VmRSS")))
        check(most < self.base + limit + SLACK, "%s took %.0f MiB, %.0f at first, with a limit of %d" %
              (what, most, self.base, limit))

    def gives_back(self, limit):
        """What a step has taken is free again: as much fits as before, and the system has most of it."""
        self.rests()
        left = self.memory("VmRSS")
        check(left < self.base + limit / 2 + SLACK, "%.0f MiB are kept, %.0f at first" % (left, self.base))
        self.answers()

    def stop(self):
        self.server.send_signal(signal.SIGTERM)
        check(self.server.wait(60) == 0, "it does not end well: %d %s" % (self.server.returncode, self.said()))


def exhausted(code, said):
    check(code != 0 and ("OOM" in said or "memory" in said), "not refused: %d %s" % (code, said))


# ---- memory ----

@test
def joined_strings_stay_within_the_memory_limit(b):
    b.serve("--memory", "128")
    graph = text("s", "x" * 65536) + joined("s", 4, 16) + length("j16")
    exhausted(*b.run(graph, "--fetch", "length:0", "--timeout", "60000"))
    b.within(128, "StringJoin of 65536 * 4^16 bytes")
    b.gives_back(128)
    b.stop()


@test
def split_strings_stay_within_the_memory_limit(b):
    b.serve("--memory", "192")
    graph = (text("s", "a," * 1000) + joined("s", 10, 4) + ints("one", 1) +
             node("v", "Reshape", "j4", "one", T="type: DT_STRING") + text("comma", ",") +
             node("split", "StringSplitV2", "v", "comma") +
             node("n", "Size", "split:1", T="type: DT_STRING"))
    exhausted(*b.run(graph, "--fetch", "n:0"))
    b.within(192, "StringSplitV2 into 10 million pieces")
    b.gives_back(192)
    b.stop()


@host_test  # a minute: part of `make soak`
def replaced_and_formatted_text_stays_within_the_memory_limit(b):
    b.serve("--memory", "128")
    graphs = {
        "RegexReplace": text("s", "x" * 65536) + text("pattern", ".") + text("with", "y" * 65536) +
        node("r", "RegexReplace", "s", "pattern", "with") + length("r"),
        "StringFormat": random_floats("x", 4096, 4096) +
        node("r", "StringFormat", "x", T="list { type: DT_FLOAT }", summarize="i: -1",
             template="s: '%s'", placeholder="s: '%s'") + length("r"),
        "AsString": random_floats("x", 2048, 2048) + node("n", "AsString", "x", T="type: DT_FLOAT") +
        ints("axes", 0, 1) + node("r", "ReduceJoin", "n", "axes") + length("r"),
    }
    for name, graph in graphs.items():
        exhausted(*b.run(graph, "--fetch", "length:0"))
        b.within(128, name)
    b.gives_back(128)
    b.stop()


def keeps(b, graph, target, runs):
    """A step that keeps something, again and again, until it is refused."""
    code, said = b.run(graph, *["--target", target] * runs)
    exhausted(code, said)


@test
def queues_and_tables_stay_within_the_memory_limit(b):
    b.serve("--memory", "128")
    queue = (node("q", "FIFOQueueV2", component_types="list { type: DT_FLOAT }", shared_name="s: 'q'") +
             random_floats("x", 1 << 20) +
             node("put", "QueueEnqueueV2", "q", "x", Tcomponents="list { type: DT_FLOAT }"))
    keeps(b, queue, "put", 60)
    b.within(128, "a queue")
    b.run(node("q", "FIFOQueueV2", component_types="list { type: DT_FLOAT }", shared_name="s: 'q'") +
          node("close", "QueueCloseV2", "q", cancel_pending_enqueues="b: true"), "--target", "close")
    b.stop()

    b.serve("--memory", "128")
    table = (node("t", "MutableHashTableV2", key_dtype="type: DT_INT64", value_dtype="type: DT_INT64",
                  shared_name="s: 't'") +
             ints("k/shape", 200000) + scalar("low", 0, "DT_INT64") + scalar("high", 1 << 62, "DT_INT64") +
             node("k", "RandomUniformInt", "k/shape", "low", "high", T="type: DT_INT32", Tout="type: DT_INT64") +
             node("put", "LookupTableInsertV2", "t", "k", "k", Tin="type: DT_INT64", Tout="type: DT_INT64"))
    keeps(b, table, "put", 60)
    b.within(128, "a table")
    b.stop()


@test
def lists_and_stacks_of_any_size_stay_within_the_memory_limit(b):
    b.serve("--memory", "128")
    reserve = (ints("shape", 1) + scalar("n", 2000000000) +
               node("list", "TensorListReserve", "shape", "n", element_dtype="type: DT_FLOAT",
                    shape_type="type: DT_INT32") + node("out", "TensorListLength", "list"))
    check(b.run(reserve, "--fetch", "out:0")[0] != 0, "two billion elements were reserved")
    array = (scalar("n", 2000000000) + node("a", "TensorArrayV3", "n", dtype="type: DT_FLOAT") +
             node("out", "TensorArraySizeV3", "a", "a:1"))
    check(b.run(array, "--fetch", "out:0")[0] != 0, "an array of two billion was made")
    b.within(128, "lists of two billion")
    b.gives_back(128)
    b.stop()


@test
def millions_of_scalars_stay_within_the_memory_limit(b):
    """Of each the number is the smallest part."""
    b.serve("--memory", "384")
    types = {"output_types": "list { type: DT_INT64 }", "output_shapes": "list { shape { } }"}
    graph = (scalar("zero", 0, "DT_INT64") + scalar("one", 1, "DT_INT64") + scalar("many", 1 << 62, "DT_INT64") +
             node("numbers", "RangeDataset", "zero", "many", "one", **types) +
             node("mixed", "ShuffleDataset", "numbers", "many", "one", "one", **types) +
             node("it", "IteratorV2", container="s: ''", shared_name="s: 'it'", **types) +
             node("make", "MakeIterator", "mixed", "it") + node("next", "IteratorGetNext", "it", **types))
    code, said = b.run(graph, "--target", "make", "--fetch", "next:0")
    exhausted(code, said)
    b.within(384, "a shuffle of 2^62 numbers")
    b.stop()


# ---- time ----

def long_runs(b):
    """What would take from many seconds to years, by name; each has a node 'long'."""
    for i in range(30):
        os.makedirs(b.out("tree/d%d" % i), exist_ok=True)
    boxes = random_floats("boxes", 300000, 4)
    return {
        "MatchingFiles": text("p", b.out("tree/") + "d*/../" * 7 + "d*") + node("long", "MatchingFiles", "p"),
        "SelfAdjointEigV2": random_floats("a", 1500, 1500) +
        node("long", "SelfAdjointEigV2", "a", T="type: DT_FLOAT", compute_v="b: true"),
        "Svd": random_floats("a", 1200, 1200) + node("long", "Svd", "a", T="type: DT_FLOAT"),
        "NonMaxSuppression": boxes + random_floats("scores", 300000) + scalar("n", 300000) +
        node("long", "NonMaxSuppression", "boxes", "scores", "n", iou_threshold="f: 1"),
        "LogUniformCandidateSampler": ints("true", 0, dtype="DT_INT64", shape=[1, 1]) +
        node("long", "LogUniformCandidateSampler", "true", num_true="i: 1", num_sampled="i: 1000000",
             unique="b: true", range_max="i: 1000000", seed="i: 1", seed2="i: 2"),
        "CropAndResizeGradImage": ints("g/shape", 1, 2000000000, 2, 1) +
        ints("size", 1, 2, 2, 1) + ints("i", 0) + const("box", "DT_FLOAT", [1, 4], "float_val: 0") +
        const("zero", "DT_FLOAT", [], "float_val: 0") +
        node("g", "Fill", "g/shape", "zero", T="type: DT_FLOAT", index_type="type: DT_INT32") +
        node("long", "CropAndResizeGradImage", "g", "box", "i", "size", T="type: DT_FLOAT"),
        "MaxPool": random_floats("x", 1, 2000, 2000, 1) +
        node("long", "MaxPool", "x", T="type: DT_FLOAT", ksize="list { i: [1, 999, 999, 1] }",
             strides="list { i: [1, 1, 1, 1] }", padding="s: 'VALID'"),
        "RegexReplace": text("s", "x" * 65536) + joined("s", 4, 4) + text("p", "(x+)+y") + text("w", "") +
        node("long", "RegexReplace", "j4", "p", "w"),
    }


@test
def kernels_end_at_the_deadline_of_the_step(b):
    b.serve("--allow-dir", b.dir)
    for name, graph in long_runs(b).items():
        code, said = b.run(graph, "--fetch", "long:0", "--timeout", "700")
        check(code != 0, "%s: an answer was not expected: %s" % (name, said[:200]))
        print("# %s: %s" % (name, said.strip()[:150]))
        b.rests()
    b.answers()
    b.stop()


@test
def kernels_end_when_the_client_disconnects(b):
    b.serve("--allow-dir", b.dir)
    for name in ("MatchingFiles", "Svd"):
        p = b.client(long_runs(b)[name], "--fetch", "long:0")
        b.computes()
        p.kill()
        p.wait()
        b.rests()
    b.answers()
    b.stop()


@test
def an_empty_crop_returns_at_once(b):
    b.serve()
    graph = (ints("i/shape", 1, 4, 4, 0) + const("zero", "DT_FLOAT", [], "float_val: 0") +
             node("image", "Fill", "i/shape", "zero", T="type: DT_FLOAT", index_type="type: DT_INT32") +
             const("box", "DT_FLOAT", [1, 4], "float_val: 0") + ints("of", 0) + ints("size", 2147483647, 2) +
             node("crop", "CropAndResize", "image", "box", "of", "size", T="type: DT_FLOAT") +
             node("shape", "Shape", "crop", T="type: DT_FLOAT"))
    code, said = b.run(graph, "--fetch", "shape:0")
    check(code == 0 and "2147483647" in said, said)
    b.stop()


# ---- the end ----

@test
def a_busy_server_ends_on_a_signal(b):
    b.serve("--allow-dir", b.dir)
    for name in ("MatchingFiles", "Svd", "NonMaxSuppression"):
        b.client(long_runs(b)[name], "--fetch", "long:0")
    b.computes()
    b.stop()


@test
def a_server_names_running_steps_after_its_grace_period(b):
    b.serve("--grace", "0")
    b.client(long_runs(b)["Svd"], "--fetch", "long:0")
    b.computes()
    b.server.send_signal(signal.SIGTERM)
    check(b.server.wait(60) == 75, "exit code %d" % b.server.returncode)
    check("--grace" in b.said() and "'long' for" in b.said(), b.said())


def main():
    harness.main(Bench, harness.parser())


if __name__ == "__main__":
    main()
