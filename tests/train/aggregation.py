#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What becomes of gradients, against NumPy.

Usage: aggregation.py PROGRAM [PATTERN]       with a Python that has NumPy (build/venv)

Prints TAP lines and, last, `N passed, N failed, N skipped`. All weights are read after one step of
plain SGD with a rate of 1. The gradient of each shard is found by weighing the shards differently, one
replica having one shard each, and solving for them.
"""
import os

import numpy as np

import harness
from harness import check, test

SHARDS = 4


class Bench(harness.Trainings):
    def weights(self, strategy, *more, workers=0, rate=1.0):
        out = self.out("run-%d" % len(os.listdir(self.dir)))
        launch = ["launch", "--workers", str(workers), "--"] if workers else []
        self.run([*launch, *self.train("--out", out, "--shards", str(SHARDS), *more, model="mlp units=[]", steps=1,
                                       optimizer="sgd", rate=rate, strategy=strategy)])
        self.run(["ckpt", "convert", out, out + ".npz"])
        with np.load(out + ".npz") as f:
            return {name: f[name].astype(np.float64) for name in ("dense/kernel", "dense/bias")}


def gradients(b, before):
    """Of each shard: the mean over its samples."""
    weights = np.ones((SHARDS, SHARDS)) + 2 * np.eye(SHARDS)
    moved = [b.weights("mirrored replicas=%d aggregation=weighted weights=[%s]" %
                       (SHARDS, ",".join("%g" % x for x in w))) for w in weights]
    found = {}
    for name in before:
        by_weights = np.stack([(before[name] - m[name]).ravel() for m in moved])
        found[name] = np.linalg.solve(weights / weights.sum(1, keepdims=True), by_weights)
    return found


def adasum(g):
    while len(g) > 1:
        g = [(1 - a @ c / (2 * a @ a)) * a + (1 - a @ c / (2 * c @ c)) * c for a, c in zip(g[::2], g[1::2])]
    return g[0]


WAYS = {
    "mean": lambda g: g.mean(0),
    "sum": lambda g: g.sum(0),
    "weighted weights=[1,3]": lambda g: (g[:2].mean(0) + 3 * g[2:].mean(0)) / 4,
    "trimmed_mean trim=0.25": lambda g: np.sort(g, 0)[1:-1].mean(0),
    "median": lambda g: np.median(g, 0),
    "adasum": adasum,
}


@test
def every_aggregation_is_what_numpy_makes_of_the_shards_gradients(b):
    before = b.weights(None, rate=1e-7) # a rate of 0 is the usual one
    shards = gradients(b, before)
    for way, of in WAYS.items():
        for strategy, workers in (("mirrored replicas=2", 0), ("central_storage replicas=2", 0),
                                  ("multi_worker_mirrored", 2), ("reduce_to_one", 2)):
            after = b.weights("%s aggregation=%s" % (strategy, way), workers=workers)
            for name, g in shards.items():
                got, want = (before[name] - after[name]).ravel(), of(g)
                off = np.abs(got - want).max() / np.abs(want).max()
                check(off < 1e-4, "%s of %s, %s: %g off" % (way, name, strategy, off))


@test
def a_sum_is_refused_where_it_would_depend_on_the_workers(b):
    r = b.run(b.train("--shards", "6", strategy="mirrored replicas=2 aggregation=sum"), code=2)
    check("a power of two" in r.stderr, r.stderr)


if __name__ == "__main__":
    harness.main(Bench)
