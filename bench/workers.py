#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two workers of one thread against one process of two threads, the same net and the same bits; and three
workers with batches of their own (an asynchronous server) against one.

Usage: workers.py [ROUNDS]     MESHFLOW: the program (build/meshflow)

Rounds alternate; medians are compared. Prints: subject, size, ours, peer, ratio.
"""
import json
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MESHFLOW = os.environ.get("MESHFLOW", os.path.join(ROOT, "build", "meshflow"))
CASES = [("fashion-cnn", 128, 150), ("fashion-cnn", 32, 400), ("mlp", 128, 4000)]


def rate(command):
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    told = json.loads([x for x in out.splitlines() if x.startswith("{")][-1])
    return told["samples_per_second"], told["weights_sha256"]


def served(workers):
    """Samples of all workers in a second."""
    batch, steps = 64, 300
    out = subprocess.run(
        [MESHFLOW, "launch", "--workers", str(workers), "--ps", "1", "--json", "--", "train", "--model",
         "fashion-cnn", "--data", "fashion-mnist", "--batch", str(batch), "--steps", str(steps), "--threads", "1",
         "--strategy", "parameter_server mode=async", "--no-test", "--quiet", "--json"],
        capture_output=True, text=True, check=True).stdout
    return batch * steps / json.loads([x for x in out.splitlines() if x.startswith("{")][-1])["seconds"]


def throughput(rounds):
    one, three = [], []
    for _ in range(rounds):
        one.append(served(1))
        three.append(served(3))
    ours, peer = statistics.median(three), statistics.median(one)
    print("%-24s %-18s %10.0f %10.0f samples/s %6.3f  three %.0f..%.0f, one %.0f..%.0f; %d cores" %
          ("3 asynchronous workers", "fashion-cnn B=64", ours, peer, ours / peer, min(three), max(three), min(one),
           max(one), len(os.sched_getaffinity(0))), flush=True)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print("# load %s" % open("/proc/loadavg").read().split(" ", 3)[:3])
    for model, batch, steps in CASES:
        train = ["train", "--model", model, "--data", "fashion-mnist", "--batch", str(batch), "--steps",
                 str(steps), "--optimizer", "momentum", "--no-test", "--quiet", "--json"]
        one, two, bits = [], [], set()
        for _ in range(rounds):
            for rates, command in (
                    (one, [MESHFLOW, *train, "--threads", "2"]),
                    (two, [MESHFLOW, "launch", "--workers", "2", "--json", "--", *train, "--threads",
                           "1"])):
                r, sha = rate(command)
                rates.append(r)
                bits.add(sha)
        assert len(bits) == 1, "other bits"
        ours, peer = statistics.median(two), statistics.median(one)
        print("%-24s %-18s %10.0f %10.0f samples/s %6.3f  ours %.0f..%.0f, alone %.0f..%.0f" %
              ("2 workers of 1 thread", "%s B=%d" % (model, batch), ours, peer, ours / peer, min(two),
               max(two), min(one), max(one)), flush=True)
    throughput(rounds)


if __name__ == "__main__":
    main()
