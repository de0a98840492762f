#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parameter servers against TensorFlow's: a worker and a server, two processes of this machine; the worker pushes a
gradient and pulls the new weights. One row each: subject, size, Meshflow, the peer, ratio (above 1: Meshflow is faster),
and the ratio of the best tenths, which are less sensitive to load.

Usage: servers.py [--rounds 5] [--sizes 4096,...]

Rounds alternate between Meshflow and TensorFlow; medians are compared.
"""
import argparse
import os

from comm import BUILD, HERE, Worker, print_rows


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


if __name__ == "__main__":
    main()
