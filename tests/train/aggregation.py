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
    shards = None # the gradients, when they have been found

    def weights(self, strategy, *more, workers=0, servers=0, rate=1.0):
        out = self.out("run-%d" % len(os.listdir(self.dir)))
        launch = ["launch", "--workers", str(workers), "--ps", str(servers), "--"] if workers else []
        self.run([*launch, *self.train("--out", out, "--shards", str(SHARDS), *more, model="mlp units=[]", steps=1,
                                       optimizer="sgd", rate=rate, strategy=strategy)])
        self.run(["ckpt", "convert", out, out + ".npz"])
        with np.load(out + ".npz") as f:
            return {name: f[name].astype(np.float64) for name in ("dense/kernel", "dense/bias")}


def gradients(b):
    """Of each shard: the mean over its samples. Where training begins, and these."""
    if not b.shards:
        before = b.weights(None, rate=1e-7) # a rate of 0 is the usual one
        b.shards = before, find_gradients(b, before)
    return b.shards


def find_gradients(b, before):
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


# Where each group, or micro-batch, is one shard and one member.
WAYS_OF_4 = {way: of for way, of in WAYS.items() if not way.startswith("weighted")}
WAYS_OF_4["weighted weights=[1,3,2,2]"] = lambda g: (g[0] + 3 * g[1] + 2 * g[2] + 2 * g[3]) / 8


def compare(b, way, of, strategy, *more, **kind):
    before, shards = gradients(b)
    after = b.weights("%s aggregation=%s" % (strategy, way), *more, **kind)
    for name, g in shards.items():
        got, want = (before[name] - after[name]).ravel(), of(g)
        off = np.abs(got - want).max() / np.abs(want).max()
        check(off < 1e-4, "%s of %s, %s: %g off" % (way, name, strategy, off))


@test
def every_aggregation_matches_numpy_on_the_shards_gradients(b):
    for way, of in WAYS.items():
        for strategy, workers, servers in (("mirrored replicas=2", 0, 0), ("central_storage replicas=2", 0, 0),
                                           ("multi_worker_mirrored", 2, 0), ("reduce_to_one", 2, 0),
                                           ("parameter_server", 2, 2)):
            compare(b, way, of, strategy, workers=workers, servers=servers)


@test
def every_aggregation_of_local_sgd_matches_numpy_on_the_groups_updates(b):
    """After one step a group has changed its weights by the gradient of its shard."""
    for way, of in WAYS_OF_4.items():
        compare(b, way, of, "local_sgd groups=4 period=1", workers=2)


@test
def every_aggregation_of_a_mesh_matches_numpy_on_the_micro_batches_gradients(b):
    """A micro-batch is one shard."""
    for way, of in WAYS_OF_4.items():
        compare(b, way, of, "mesh axes='all:4' layout='batch:all'", "--micro-batches", "4",
                workers=2 if way in ("median", "adasum") else 0)


# Where a member is a worker, its weights depend on the workers.
ALIKE = [way for way in WAYS if not way.startswith("weighted")]


@test
def servers_give_the_same_bits_for_1_2_and_4_workers_and_as_an_all_reduce(b):
    """With 7 shards for 30 samples, and momentum; the weights of mlp are cut between servers."""
    kind = dict(steps=3, batch=30)
    for way in ALIKE:
        more = ["--shards", "8" if way == "sum" else "7"]
        want = b.sha(*more, strategy="mirrored replicas=2 aggregation=" + way, **kind)
        for workers, servers, name in (1, 3, "parameter_server"), (2, 1, "central_storage"), (4, 2, "parameter_server"):
            got = b.sha(*more, strategy="%s aggregation=%s" % (name, way), workers=workers, servers=servers, **kind)
            check(got == want, "%s, %d workers, %d servers: other weights" % (way, workers, servers))
    way = "weighted weights=[1,3]"
    want = b.sha(strategy="multi_worker_mirrored aggregation=" + way, workers=2, **kind)
    got = b.sha(strategy="parameter_server aggregation=" + way, workers=2, servers=2, **kind)
    check(got == want, "weighted: other weights")


@test
def local_sgd_gives_the_same_bits_for_1_2_and_4_workers(b):
    """The last steps of 5 are in a round of their own; with 6 workers some do a group together."""
    for way in WAYS_OF_4:
        strategy = "local_sgd groups=4 period=2 aggregation=" + way
        want = b.sha(strategy=strategy, steps=5)
        for workers in (2, 4, 6) if way == "adasum" else (2, 4):
            check(b.sha(strategy=strategy, workers=workers, steps=5) == want, "%s, %d workers: other weights" % (way, workers))


@test
def an_exact_mesh_gives_the_bits_of_one_process_under_any_layout(b):
    """Data parallelism, two axes, slices of weights, slices of gradients, and stages of a pipeline."""
    layouts = ("axes='all:2' layout='batch:all'", "axes='rows:2;cols:2' layout='batch:rows;hidden:cols'",
               "axes='all:2' layout='batch:all;weights:all'", "axes='all:2' layout='batch:all;slots:all;gradients:all'",
               "axes='devices:2' layout='layers:devices'")
    kind = dict(steps=3, batch=30)
    for i, way in enumerate(WAYS_OF_4):
        want = b.sha("--shards", "4", strategy="mirrored replicas=4 aggregation=" + way, **kind)
        for layout in (layouts[i % 2], *layouts[2:]):
            got = b.sha("--micro-batches", "4", strategy="mesh %s exact=true aggregation=%s" % (layout, way), **kind)
            check(got == want, "%s, %s: other weights" % (way, layout))


@test
def unsupported_aggregations_are_rejected_with_the_reason(b):
    tables = dict(model="wide-deep", data="synthetic-ctr")
    for strategy, servers, kind, said in (
            ("parameter_server mode=async aggregation=median", 1, {}, "aggregation=median needs mode=sync"),
            ("parameter_server mode=semi aggregation=sum", 1, {}, "aggregation=sum needs mode=sync"),
            ("parameter_server aggregation=weighted weights=[1]", 1, {}, "give one for each worker"),
            ("parameter_server aggregation=median", 1, tables, "use aggregation=mean"),
            ("parameter_server aggregation=adasum partition=fixed shards=2", 2, {}, "use partition=whole"),
            ("local_sgd groups=3 aggregation=weighted weights=[1,2]", 0, {}, "2 weights for 3 members: give one for each group"),
            ("mesh axes='all:2' layout='batch:all' aggregation=median", 0, {}, "give --micro-batches N"),
            ("mesh axes='all:2' layout='batch:all' aggregation=weighted weights=[1,2]", 0, {"micro": 3},
             "2 weights for 3 micro-batches: give one for each"),
            ("mesh axes='all:2' layout='batch:all' aggregation=adasum", 0, {"micro": 2, **tables}, "use aggregation=mean"),
            ("local_sgd aggregation=weighted weights=[1,inf]", 0, {}, "weights=inf is out of range; it must be finite"),
            ("local_sgd aggregation=mode", 0, {}, "there is no aggregation 'mode'")):
        kind = dict(kind)
        more = ["--micro-batches", str(kind.pop("micro"))] if "micro" in kind else []
        launch = [] if strategy.startswith("mesh") else ["launch", "--workers", "2", "--ps", str(servers), "--"]
        r = b.run([*launch, *b.train(*more, strategy=strategy, **kind)], code=2)
        check(said in r.stderr, "%s: %s" % (strategy, r.stderr))


@test
def a_sum_that_would_depend_on_the_workers_is_rejected(b):
    r = b.run(b.train("--shards", "6", strategy="mirrored replicas=2 aggregation=sum"), code=2)
    check("a power of two" in r.stderr, r.stderr)


if __name__ == "__main__":
    harness.main(Bench)
