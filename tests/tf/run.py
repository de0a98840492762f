#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Meshflow against TensorFlow: signatures, ops, gradients, layers, training, its loop, checkpoints, data files, what clients read, clusters, restarts, graphs, programs.

Usage: run.py [--soak] [--seed N] [--filter TEXT] [--jobs N] [--table FILE]

Prints TAP, last a line `N passed, N failed, N skipped`. The work is done by worker processes, so that a
crash on either side ends one case and not the run. --table writes the coverage table (docs/reference/ops.md)."""
import argparse
import json
import os
import queue
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import checkpoints  # noqa: E402
import client  # noqa: E402
import cluster  # noqa: E402
import composed  # noqa: E402
import control_flow  # noqa: E402
import coverage  # noqa: E402
import devices  # noqa: E402
import documents  # noqa: E402
import models  # noqa: E402
import newcomers  # noqa: E402
import data  # noqa: E402
import loop  # noqa: E402
import oplist  # noqa: E402
import programs  # noqa: E402
import reading  # noqa: E402
import restarts  # noqa: E402
import training  # noqa: E402

SILENCE_SECONDS = 180  # without a word from a worker: it hangs


class Worker:
    """A worker process and the thread that feeds it."""

    def __init__(self):
        self.process = None

    def start(self):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "worker.py")],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, start_new_session=True)
        self.said = b""

    def stop(self):
        if self.process:
            os.killpg(self.process.pid, signal.SIGKILL)  # with its child
            self.process.wait()
            self.process = None

    def answer(self):
        """The next line of the worker, parsed; None if it died or stopped responding."""
        while b"\n" not in self.said:
            ready, _, _ = select.select([self.process.stdout], [], [], SILENCE_SECONDS)
            more = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not more:
                return None
            self.said += more
        line, _, self.said = self.said.partition(b"\n")
        return json.loads(line)

    def do(self, unit):
        """The outcome of a unit. If the process crashes in a case, or must be stopped, another one continues
        after that case."""
        total = {}
        for _ in range(200):
            if not self.process:
                self.start()
            last = None
            self.process.stdin.write(json.dumps(unit).encode() + b"\n")
            self.process.stdin.flush()
            said = self.answer()
            while said and said["what"] == "at":
                last = said
                said = self.answer()
            if said and said["what"] == "done":
                return merge(total, said)
            if not said:
                self.stop()
            if not last:
                self.log.seek(0)
                return merge(total, dict(failures=["worker died: " + self.log.read()[-2000:]]))
            total = merge(total, last)
            if last["text"].startswith("meshflow"):
                total["failures"].append("Meshflow crashed or hung: " + last["text"])
            else:
                total["not_compared"] += 1
            unit = dict(unit, start=last["index"] + 1)
        return merge(total, dict(failures=["dies again and again"]))


def merge(a, b):
    """Two outcomes as one."""
    out = dict(a)
    for k, v in b.items():
        if isinstance(v, list):
            out[k] = a.get(k, []) + v
        elif k == "tolerance":
            out[k] = max(a.get(k, 0), v)
        elif isinstance(v, int) and k != "index":
            out[k] = a.get(k, 0) + v
    return out


def units(args):
    """What there is to do, longest first within a kind."""
    ops = oplist.ops()
    out = [dict(kind="signature", name=o.name) for o in ops]
    out += [dict(kind="op", name=o.name, count=args.generated) for o in ops if o.samples]
    out += [dict(kind="gradient", name=o.name) for o in ops]
    out += [dict(kind="control", name=n) for n in control_flow.NAMES]
    out += [dict(kind="reading", name=n) for n in reading.NAMES]
    out += [dict(kind="composed", name=n) for n in composed.NAMES]
    out += [dict(kind="model", name=n) for n in models.NAMES]
    out += [dict(kind="training", name=n) for n in training.NAMES]
    out += [dict(kind="checkpoint", name=n) for n in checkpoints.names()]
    out += [dict(kind="data", name=n) for n in data.names()]
    out += [dict(kind="loop", name=n) for n in loop.NAMES]
    out += [dict(kind="cluster", name=n) for n in cluster.NAMES]
    out += [dict(kind="devices", name=n) for n in devices.NAMES]
    out += [dict(kind="document", name=n) for n in documents.NAMES]
    out += [dict(kind="client", name=n) for n in client.NAMES]
    out += [dict(kind="restart", name=n) for n in restarts.names(args.soak)]
    out += [dict(kind="graphs", name=str(i), count=args.graphs_per_unit)
            for i in range(args.graphs // args.graphs_per_unit)]
    out += [dict(kind="program", name=n) for n in programs.applicable(args.soak)]
    out += [dict(kind="served", name=n) for n in programs.served(args.soak)]
    out += [dict(kind="mixed", name=n) for n in programs.MIXED]
    out += [dict(kind="remote", name=n) for n in programs.at_theirs(args.soak)]
    out += [dict(kind="newcomer", name=n) for n in newcomers.names(args.soak)]
    for u in out:
        u["seed"] = args.seed
    return [u for u in out if re.search(args.filter, "%s %s" % (u["kind"], u["name"]))]


def title(unit, r):
    name = {"signature": "signature of %s", "op": "%s", "gradient": "gradient of %s",
            "graphs": "random graphs %s", "model": "as Keras: %s", "training": "training: %s",
            "data": "data files: %s", "checkpoint": "checkpoints: %s", "loop": "loop: %s", "cluster": "cluster: %s",
            "client": "client: %s", "composed": "composed: %s", "devices": "devices: %s",
            "document": "document %s", "restart": "restarts: %s",
            "control": "gradients through control flow: %s", "reading": "reading: %s", "program": "program %s",
            "served": "served program %s", "mixed": "mixed cluster %s", "remote": "program at TensorFlow's servers %s",
            "newcomer": "program of a new kind %s"}[unit["kind"]] % unit["name"]
    if unit["kind"] in ("op", "gradient", "graphs"):
        name += ": %d cases equal, %d refused by both" % (r.get("compared", 0), r.get("refused", 0))
    return name


class Tally:
    def __init__(self):
        self.lock = threading.Lock()
        self.passed = self.failed = 0
        self.results = []

    def add(self, unit, r):
        with self.lock:
            self.results.append((unit, r))
            bad = r["failures"]
            self.passed, self.failed = self.passed + (not bad), self.failed + bool(bad)
            print("%sok %d - %s" % ("not " if bad else "", self.passed + self.failed,
                                    title(unit, r)))
            for line in bad[:8]:
                print("  " + line.replace("\n", "\n  "))
            if len(bad) > 8:
                print("  ... and %d more" % (len(bad) - 8))
            sys.stdout.flush()


def work(todo, tally):
    worker, runner = Worker(), programs.Runner()
    while True:
        try:
            unit = todo.get_nowait()
        except queue.Empty:
            break
        if unit["kind"] == "program":
            result = programs.run(unit["name"], runner)
        elif unit["kind"] == "served":
            result = programs.serve(unit["name"], runner)
        elif unit["kind"] == "mixed":
            result = programs.mixed(unit["name"], runner)
        elif unit["kind"] == "remote":
            result = programs.remote(unit["name"], runner)
        elif unit["kind"] == "newcomer":
            result = newcomers.check(unit["name"], runner)
        elif unit["kind"] == "restart":
            result = restarts.check(unit["name"], runner)
        else:
            result = worker.do(unit)
        tally.add(unit, result)
    worker.stop()
    runner.stop()


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--soak", action="store_true", help="the long sweep")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--filter", default="", help="only units whose 'kind name' matches")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--generated", type=int, help="generated cases per op")
    p.add_argument("--graphs", type=int, help="random graphs")
    p.add_argument("--table", help="write the coverage table here")
    args = p.parse_args()
    args.generated = args.generated if args.generated is not None else 400 if args.soak else 10
    args.graphs = args.graphs if args.graphs is not None else 4000 if args.soak else 60
    args.graphs_per_unit = 50 if args.soak else 10
    start = time.time()
    todo, tally = queue.Queue(), Tally()
    for unit in units(args):
        todo.put(unit)
    if todo.empty():
        print("not ok 1 - no unit matches '%s'\n0 passed, 1 failed, 0 skipped" % args.filter)
        return 1
    threads = [threading.Thread(target=work, args=(todo, tally)) for _ in range(args.jobs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if args.table:
        coverage.write(args.table, tally.results)
    if not args.filter:
        tally.add(dict(kind="signature", name="the list of ops in docs/reference/ops.md"),
                  dict(failures=coverage.stale()))
    for name, why in programs.not_applicable():
        print("# program %s: %s" % (name, why))
    total = [sum(r.get(k, 0) for _, r in tally.results)
             for k in ("compared", "refused", "no_kernel", "not_compared")]
    print("# %d cases equal, %d refused by both, %d without a kernel in TensorFlow, "
          "%d not compared; seed %d, %.0f s" % (*total, args.seed, time.time() - start))
    print("%d passed, %d failed, 0 skipped" % (tally.passed, tally.failed))
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
