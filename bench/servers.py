#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parameter servers against TensorFlow's: a worker and a server, two processes of this machine; the worker pushes a
gradient and pulls the new weights. One row each: subject, size, Meshflow, the peer, ratio (above 1: Meshflow is faster),
and the ratio of the best tenths, which are less sensitive to load. Then training with two servers that keep copies of
each other, against servers that do not: samples/s with, without, ratio.

Usage: servers.py [--rounds 5] [--sizes 4096,...]       MESHFLOW: the program (build/meshflow)

Rounds alternate; medians are compared.
"""
import argparse
import json
import os
import statistics
import subprocess

from comm import BUILD, HERE, Worker, print_rows

MESHFLOW = os.environ.get("MESHFLOW", os.path.join(BUILD, "meshflow"))
REPLICATED = [("mlp", "fashion-mnist", "adam", 1500), ("wide-deep", "synthetic-ctr", "ftrl", 1500)]


def trained(kind, launch):
    """Samples per second."""
    model, data, optimizer, steps = kind
    out = subprocess.run([MESHFLOW, "launch", *launch, "--workers", "1", "--ps", "2", "--json", "--", "train", "--model",
                          model, "--data", data, "--batch", "128", "--steps", str(steps), "--optimizer", optimizer,
                          "--threads", "1", "--no-test", "--quiet", "--json"],
                         capture_output=True, text=True, check=True).stdout
    return json.loads([x for x in out.splitlines() if x.startswith("{")][-1])["samples_per_second"]


def replication(rounds):
    for kind in REPLICATED:
        rates = [(trained(kind, []), trained(kind, ["--all-stay"])) for _ in range(rounds)]
        kept, alone = (statistics.median(r[i] for r in rates) for i in (0, 1))
        print("%-24s %-18s %10.0f %10.0f samples/s %6.3f" % ("replicated servers", "%s %s" % (kind[0], kind[2]), kept,
                                                            alone, kept / alone), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--sizes", default="4096,4194304,67108864")
    args = p.parse_args()
    python = os.path.join(BUILD, "venv", "bin", "python")
    program = os.path.join(BUILD, "release", "bench", "push_pull")
    print("# load %s" % " ".join("%.2f" % x for x in os.getloadavg()))
    ours = [Worker(mode, [program, mode]) for mode in ("sync", "async")]
    others = []
    if os.path.exists(python):
        others.append(Worker("TensorFlow", [python, os.path.join(HERE, "peer_tf_ps.py")]))
    else:
        print("# without TensorFlow: there is no build/venv")
    for size in [int(x) for x in args.sizes.split(",")]:
        print_rows(lambda w, p: "push and pull %s / %s" % (w, p), size, args.rounds, ours, others)
    for w in ours + others:
        w.close()
    replication(args.rounds)


if __name__ == "__main__":
    main()
