#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls that a master dispatches to workers, as processes of this machine, some of which are killed.

Usage: closures.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. One process that runs all calls itself
is the oracle: the output of `graph map` must be the same, byte for byte.
"""
import json
import os
import signal
import struct
import subprocess
import time

import harness
from harness import check, test

NODE = 'node { name: "%s" op: "%s" %s }\n'
FLOAT = 'attr { key: "%s" value { type: DT_FLOAT } }'
INT = 'attr { key: "%s" value { type: DT_INT32 } }'


def ints(name, values):
    dims = "dim { size: %d }" % len(values) if isinstance(values, list) else ""
    listed = values if isinstance(values, list) else [values]
    return NODE % (name, "Const", INT % "dtype" + ' attr { key: "value" value { tensor { dtype: DT_INT32 '
                   "tensor_shape { %s } int_val: %s } } }" % (dims, listed))


def graph(busy=0):
    """y = log(x) + v, checked; busy: number of additional matrix products without an effect."""
    text = NODE % ("x", "Placeholder", FLOAT % "dtype" + ' attr { key: "shape" value { shape { '
                   "dim { size: -1 } dim { size: 3 } } } }")
    text += NODE % ("seven", "Const", FLOAT % "dtype" + ' attr { key: "value" value { tensor { dtype: DT_FLOAT '
                    "tensor_shape { } float_val: 7 } } }")
    text += NODE % ("v", "VarHandleOp", FLOAT % "dtype" + ' attr { key: "shape" value { shape { } } }')
    text += NODE % ("init", "AssignVariableOp", 'input: "v" input: "seven" ' + FLOAT % "dtype")
    text += NODE % ("now", "ReadVariableOp", 'input: "v" ' + FLOAT % "dtype")
    text += NODE % ("log", "Log", 'input: "x" ' + FLOAT % "T")
    text += NODE % ("checked", "CheckNumerics", 'input: "log" attr { key: "message" value { s: "no logarithm" } } '
                    + FLOAT % "T")
    last = "now"
    text += ints("dims", [500, 500]) + ints("axes", [0, 1])
    text += NODE % ("zero", "Const", FLOAT % "dtype" + ' attr { key: "value" value { tensor { dtype: DT_FLOAT '
                    "tensor_shape { } float_val: 0 } } }")
    for i in range(busy):
        text += NODE % ("r%d" % i, "RandomUniform", 'input: "dims" ' + FLOAT % "dtype" + INT % "T")
        text += NODE % ("p%d" % i, "MatMul", 'input: "r%d" input: "r%d" ' % (i, i) + FLOAT % "T")
        text += NODE % ("s%d" % i, "Sum", 'input: "p%d" input: "axes" ' % i + FLOAT % "T" + INT % "Tidx")
        text += NODE % ("z%d" % i, "Mul", 'input: "s%d" input: "zero" ' % i + FLOAT % "T")
        text += NODE % ("a%d" % i, "AddV2", 'input: "%s" input: "z%d" ' % (last, i) + FLOAT % "T")
        last = "a%d" % i
    return text + NODE % ("y", "AddV2", 'input: "checked" input: "%s" ' % last + FLOAT % "T")


def npy(rows):
    """A file of these rows of floats, as numpy.save() writes it."""
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (len(rows), len(rows[0]))
    head += " " * ((-len(head) - 11) % 64) + "\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() +
            b"".join(struct.pack("<%df" % len(r), *r) for r in rows))


class Bench(harness.Bench):
    def map(self, name, *more, rows=300, busy=0, bad=None):
        """Arguments of `graph map` that write `name`."""
        values = [[1.0 + i, 2.0 + i, 0.5 + i] for i in range(rows)]
        if bad is not None:
            values[bad][1] = -1.0
        with open(self.out("g.pbtxt"), "w") as f:
            f.write(graph(busy))
        with open(self.out("x.npy"), "wb") as f:
            f.write(npy(values))
        return ["graph", "map", self.out("g.pbtxt"), "--rows", "x=" + self.out("x.npy"), "--save",
                "y=" + self.out(name), "--target", "init", "--json", *more]

    def run(self, *command, code=0):
        r = subprocess.run([self.program, *command], capture_output=True, text=True, timeout=120)
        check(r.returncode == code or (code is None and r.returncode > 0),
              "%s: exit code %d: %s" % (" ".join(command), r.returncode, r.stderr[-1500:]))
        return json.loads(r.stdout.splitlines()[-1]) if code == 0 else r.stderr

    def start(self, jobs, args):
        """A process for each task of {"worker": 3, "master": 1}, by name."""
        port = 20000 + os.getpid() % 10000
        cluster, found = {}, {}
        for job, n in jobs.items():
            cluster[job] = ["127.0.0.1:%d" % (port + len(found) + i) for i in range(n)]
            found.update({"%s %d" % (job, i): None for i in range(n)})
        for name in found:
            job, index = name.split()
            config = {"cluster": cluster, "task": {"type": job, "index": int(index)}}
            found[name] = subprocess.Popen(
                [self.program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env=dict(os.environ, TF_CONFIG=json.dumps(config), MESHFLOW_THREADS="1"))
        self.running += found.values()
        return found

    def same(self, a, b):
        with open(self.out(a), "rb") as f, open(self.out(b), "rb") as g:
            check(f.read() == g.read(), "%s and %s differ" % (a, b))


def end(p, code=0):
    out, err = p.communicate(timeout=120)
    check(p.returncode == code or (code is None and p.returncode > 0), "exit code %d: %s" % (p.returncode, err[-1500:]))
    return json.loads(out.splitlines()[-1]) if code == 0 and out.strip() else err


def wait_until_busy(p):
    """It computes: it has used more of a processor than its start takes."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with open("/proc/%d/stat" % p.pid) as f:
            used = sum(int(x) for x in f.read().rsplit(")")[-1].split()[11:13])
        if used > 0.2 * os.sysconf("SC_CLK_TCK"):
            return
        time.sleep(0.02)
    check(False, "process %d has nothing to do" % p.pid)


@test
def any_number_of_workers_gives_the_results_of_one_process(b):
    alone = b.run(*b.map("want.npy", "--batch", "7"))
    check(alone["calls"] == 43 and len(alone["workers"]) == 1, alone)
    for options in (["--masters", "1"], ["--masters", "1", "--workers", "3"], ["--masters", "2", "--workers", "2"],
                    ["--workers", "3"]):
        got = b.run("launch", *options, "--json", "--", *b.map("got.npy", "--batch", "7"))
        b.same("got.npy", "want.npy")
        ran = sum(w["calls"] for w in got["workers"])
        check(ran == 43 + len(got["workers"]), "%s: %d calls" % (options, ran))  # and `init`


@test
def a_chief_is_the_master_and_connections_may_be_of_any_kind(b):
    b.run(*b.map("want.npy"))
    for transport in "local", "grpc":
        tasks = b.start({"chief": 1, "worker": 2}, b.map("got.npy", "--transport", transport))
        got = end(tasks["chief 0"])
        b.same("got.npy", "want.npy")
        check([w["name"] for w in got["workers"]] == ["worker 0", "worker 1"], got)
        for name in "worker 0", "worker 1":
            end(tasks[name])


@test
def calls_of_a_killed_or_stopped_worker_are_run_by_others(b):
    b.run(*b.map("want.npy", "--batch", "5"))
    for how, said in (signal.SIGKILL, "is lost"), (signal.SIGSTOP, "no message from it for"):
        tasks = b.start({"worker": 3, "master": 1}, b.map("got.npy", "--batch", "5", "--timeout", "3", busy=40))
        victim = tasks["worker 1"]
        wait_until_busy(victim)
        victim.send_signal(how)
        out, err = tasks["master 0"].communicate(timeout=120)
        check(tasks["master 0"].returncode == 0, err)
        got = json.loads(out.splitlines()[-1])["workers"]
        b.same("got.npy", "want.npy")
        check("worker 1 is lost" in err and said in err, err)
        check([w["lost"] for w in got] == [False, True, False], got)
        check(got[1]["moved"] >= 1, "it was not busy: %s" % got)
        end(tasks["worker 0"])
        end(tasks["worker 2"])
        victim.kill()


@test
def without_workers_the_master_reports_why_it_ends(b):
    tasks = b.start({"worker": 2, "master": 1}, b.map("got.npy", "--batch", "1", "--timeout", "5", busy=40))
    for name in "worker 0", "worker 1":
        wait_until_busy(tasks[name])
    for name in "worker 0", "worker 1":
        tasks[name].kill()
    err = end(tasks["master 0"], None)
    check("no worker is left: worker" in err and "is lost" in err, err)


@test
def workers_end_when_the_master_is_lost_and_name_it(b):
    for how, said in (signal.SIGKILL, "is lost"), (signal.SIGSTOP, "no message from master 0 for"):
        tasks = b.start({"worker": 2, "master": 2}, b.map("got.npy", "--batch", "1", "--timeout", "3", busy=40))
        wait_until_busy(tasks["worker 0"])
        tasks["master 0"].send_signal(how)
        for name in "worker 0", "worker 1", "master 1":
            err = end(tasks[name], None)
            check("master 0" in err and said in err, "%s: %s" % (name, err))
        tasks["master 0"].kill()


@test
def a_launcher_leaves_failed_workers_to_the_masters(b):
    b.run(*b.map("want.npy", "--batch", "5"))
    script = ('case "$TF_CONFIG" in *\'"worker","index":1\'*) "$0" "$@" & sleep 1; kill -9 $!; wait $!; exit 7;; '
              'esac; exec "$0" "$@"')
    args = b.map("got.npy", "--batch", "5", busy=40)
    got = b.run("launch", "--masters", "1", "--workers", "3", "--json", "--", "sh", "-c", script, b.program, *args)
    b.same("got.npy", "want.npy")
    check(got["calls"] == 60, got)


@test
def a_call_that_fails_names_worker_and_node(b):
    err = b.run("launch", "--masters", "1", "--workers", "2", "--", *b.map("got.npy", bad=250), code=None)
    check("no logarithm" in err and "{{node checked}}" in err and "worker " in err, err)


@test
def invalid_calls_list_the_valid_options(b):
    err = b.run("launch", "--masters", "1", "--all-stay", "--", "train", "--model", "mlp", "--data",
                "fashion-mnist", code=None)
    check("master 0, which cannot join a training" in err, err)
    err = b.run(*b.map("y.npy", "--fetch", "v"), code=None)
    check("'v:0' has the type resource, which cannot be sent to another process" in err, err)
    err = b.run(*b.map("y.npy", "--fetch", "now"), code=None)
    check("has not one row for each" in err, err)


if __name__ == "__main__":
    harness.main(Bench)
