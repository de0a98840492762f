#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of a transformer block on a mesh of 2x2, against JAX on virtual devices of the same
device, in turn. The median of rounds counts where nothing else runs; on a machine that others use,
too, compare the quickest round of each and the CPU time.

Usage: build/venv-jax/bin/python bench/mesh.py [--rounds N]
"""
import argparse
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "mesh"))
import jax_programs  # noqa: E402
import numpy as np  # noqa: E402
import ours  # noqa: E402
import programs  # noqa: E402

STEPS = 2


class Ours:
    def __init__(self, *case):
        self.run = ours.Run(*case, train=True)
        self.bytes = self.run.bytes()[0]

    def steps(self):
        for _ in range(STEPS):
            self.run.step()

    def weights(self, names):
        return self.run.values(names)


class Theirs:
    def __init__(self, *case):
        self.run = jax_programs.Run(*case, train=True)
        self.bytes = self.run.bytes()[0]
        self.run.train_step()
        self.run.wait()

    def steps(self):
        for _ in range(STEPS):
            self.run.train_step()
        self.run.wait()

    def weights(self, names):
        return self.run.values(names)


def timed(run):
    """Milliseconds per step: wall time, and CPU time of all threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    run.steps()
    return (time.perf_counter() - wall) / STEPS * 1e3, (time.process_time() - cpu) / STEPS * 1e3


def summary(rounds):
    return [f(x) for f, x in zip((statistics.median, min, statistics.median),
                                 ([w for w, _ in rounds], [w for w, _ in rounds],
                                  [c for _, c in rounds]))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=25)
    args = parser.parse_args()
    kind = programs.large_block
    print("# %s" % ", ".join("%s %d" % x for x in kind.sizes.items()))
    print("# layout; ms of a step, median, quickest, CPU: ours, JAX's, ratio; bytes: ours, JAX's")
    for mesh, layout in kind.layouts:
        a, b = Ours(kind(), mesh, layout), Theirs(kind(), mesh, layout)
        rounds = [(timed(a), timed(b)) for _ in range(args.rounds)]
        columns = zip(summary([r for r, _ in rounds]), summary([r for _, r in rounds]))
        far = max(float(np.max(np.abs(x - y)))
                  for x, y in zip(a.weights(kind.gradients), b.weights(kind.gradients)))
        print("%-30s" % layout, *("%7.1f %7.1f %5.2f " % (m, t, t / m) for m, t in columns),
              "%9d %9d  weights differ by %.0e" % (a.bytes, b.bytes, far), flush=True)
        a.run.close()


if __name__ == "__main__":
    main()
