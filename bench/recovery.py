#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A worker is killed: time until the next step is done, with Meshflow and with torchrun and gloo. And the overhead of
fault tolerance while nothing fails.

Usage: recovery.py [--kills N] [--rounds N]     MESHFLOW: the program (build/release/meshflow)

Both train the same network with three processes of one thread, a batch of 32. For torchrun any step after the kill
counts, even one that was done before it. One row each: subject, kind, Meshflow, the peer, ratio (above 1: Meshflow is
faster).

Costs: the same training with a store and with `launch --all-stay`, which has none; and with `--guard
skip` and without. Short runs alternate, with the order reversed in every other pair; the median of the pairs' ratios
counts, with a bootstrap interval of 95 %. Below 1: there is an overhead. Two clocks: samples per second of wall time,
and steps per second of CPU time of all processes, including start and end, which is less sensitive to load.
"""
import argparse
import json
import os
import random
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BUILD = os.path.join(ROOT, "build")
MESHFLOW = os.environ.get("MESHFLOW", os.path.join(BUILD, "release", "meshflow"))
sys.path.insert(0, os.path.join(ROOT, "tests", "train"))

import chaos  # noqa: E402: how boards are read
from checkpointing import interval  # noqa: E402

WORKERS, BATCH = 3, 32


def wait(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError("it takes too long")
        time.sleep(0.002)


# ---- a worker is killed ----

def our_recoveries(kills, ps):
    """Milliseconds."""
    args = argparse.Namespace(program=MESHFLOW)
    b = chaos.Cluster(args)
    names = ["worker %d" % i for i in range(WORKERS)]
    times = []
    try:
        b.batch = BATCH
        b.launch(workers=WORKERS, ps=ps)
        b.await_step(30)
        for k in range(kills):
            b.await_all(names)
            time.sleep(0.5 + random.random())
            victim = b.pids()[names[k % WORKERS]]
            now = time.monotonic_ns()
            os.kill(victim, signal.SIGKILL)
            times.append(b.commits.after(now))
    finally:
        b.close()
    return times


class Torchrun:
    """The peer, while it runs."""

    def __init__(self, python, folder):
        self.folder = folder
        self.p = subprocess.Popen(
            [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(WORKERS),
             "--max-restarts", "1000", os.path.join(HERE, "peer_torchrun.py"), folder, str(BATCH)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            # With the store that torchrun shares with its processes, those of PyTorch 2.15 that are started
            # again find the addresses of the dead and hang.
            env={**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})

    def ranks(self):
        """(process, step, ns) of each that has done a step."""
        found = []
        for i in range(WORKERS):
            try:
                with open(os.path.join(self.folder, "rank-%d" % i), "rb") as f:
                    data = f.read(24)
            except OSError:
                continue
            if len(data) == 24 and any(data):
                found.append(struct.unpack("<3q", data))
        return found

    def since(self, ns):
        """All ranks have done a step since then."""
        return sum(t > ns for _, _, t in self.ranks()) == WORKERS

    def close(self):
        self.p.terminate()
        self.p.wait()


def torchrun_recoveries(kills):
    python = os.path.join(BUILD, "venv-torch", "bin", "python")
    if not os.path.exists(python):
        print("# without torchrun: there is no PyTorch (tools/make_peer_venv.sh torch)")
        return []
    times = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        t = Torchrun(python, folder)
        try:
            for k in range(kills):
                begin = time.monotonic_ns()
                wait(lambda: t.since(begin))
                time.sleep(0.5 + random.random())
                now = time.monotonic_ns()
                os.kill(t.ranks()[k % WORKERS][0], signal.SIGKILL)
                time.sleep(0.05) # what was under way is over
                later = time.monotonic_ns()
                wait(lambda: any(ns > later for _, _, ns in t.ranks()))
                times.append((min(ns for _, _, ns in t.ranks() if ns > later) - now) * 1e-6)
        finally:
            t.close()
    return times


def print_recoveries(kills):
    peer = torchrun_recoveries(max(2, kills // 3))
    for kind, ps in (("all-reduce", 0), ("2 servers", 2)):
        ours = our_recoveries(kills, ps)
        usual = statistics.median(ours)
        print("%-30s %-14s %10.0f %10.0f ms %8.1f    ours %.0f..%.0f, torchrun %s" %
              ("kill to next step/torchrun", kind, usual, statistics.median(peer) if peer else 0,
               statistics.median(peer) / usual if peer else 0, min(ours), max(ours),
               "%.0f..%.0f" % (min(peer), max(peer)) if peer else "-"), flush=True)


# ---- while nothing fails ----

def measure(launch, more=(), steps=1000):
    """(samples in a second on the wall, steps in a second of CPU time of all processes)."""
    p = subprocess.Popen([MESHFLOW, *launch, "train", "--model", "fashion-cnn", "--data", "fashion-mnist",
                          "--batch", str(BATCH), "--steps", str(steps), "--optimizer", "momentum",
                          "--no-test", "--quiet", "--json", *more], stdout=subprocess.PIPE, text=True,
                         env={**os.environ, "MESHFLOW_THREADS": "1"})
    told = p.stdout.read()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode != 0:
        raise RuntimeError("exit code %d: %s" % (p.returncode, told))
    told = json.loads([x for x in told.splitlines() if x.startswith("{")][-1])
    return told["samples_per_second"], steps / (usage.ru_utime + usage.ru_stime)


def print_cost(what, kind, ready, plain, rounds):
    """ready, plain: functions that measure."""
    pairs = []
    ready()  # the first one finds files that are not in memory yet
    for i in range(rounds):
        if i % 2:
            p = plain()
            pairs.append((ready(), p))
        else:
            r = ready()
            pairs.append((r, plain()))
    for k, clock in enumerate(("wall", "CPU")):
        ratios = [r[k] / p[k] for r, p in pairs]
        low, high = interval(ratios)
        print("%-30s %-14s %10.1f %10.1f /s %8.3f    95 %%: %.3f to %.3f; %d pairs" %
              ("%s, %s" % (what, clock), kind, statistics.median(r[k] for r, _ in pairs),
               statistics.median(p[k] for _, p in pairs), statistics.median(ratios), low, high, rounds),
              flush=True)


def print_costs(rounds):
    for kind, roles in (("2 workers", ["--workers", "2"]), ("2 + 2 servers", ["--workers", "2", "--ps", "2"])):
        launch = ["launch", *roles, "--json"]
        print_cost("ready for faults / not", kind, lambda: measure([*launch, "--"]),
                   lambda: measure([*launch, "--all-stay", "--"]), rounds)
    print_cost("--guard skip / without", "one process", lambda: measure([], ["--guard", "skip"]),
               lambda: measure([]), rounds)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--kills", type=int, default=12)
    p.add_argument("--rounds", type=int, default=10)
    args = p.parse_args()
    print("# load %s" % " ".join("%.2f" % x for x in os.getloadavg()))
    if args.kills:
        print_recoveries(args.kills)
    if args.rounds:
        print_costs(args.rounds)


if __name__ == "__main__":
    sys.exit(main())
