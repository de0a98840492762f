#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Variants of a training reach the accuracy of the plain one: low precision, pruned and compressed models.

Usage: quality.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. Trainings of one seed give the same bits on every
machine of a numerics class, so the bars do not depend on chance. accuracy.py has the long trainings."""
import json
import os
import subprocess

import harness
from harness import check, test

EPOCHS = 4


class Bench(harness.Bench):
    def run(self, *command):
        r = subprocess.run([self.program, *command], capture_output=True, text=True, timeout=300)
        check(r.returncode == 0, "%s: %s" % (" ".join(command), r.stderr))
        return json.loads(r.stdout.splitlines()[-1])

    def train(self, *more):
        return self.run("train", "--model", "mlp", "--data", "fashion-mnist", "--epochs", str(EPOCHS), "--batch", "128",
                        "--optimizer", "adam", "--lr", "0.003", "--schedule", "one_cycle", "--seed", "3", "--quiet",
                        "--json", *more)


@test
def bf16_and_fp16_are_within_half_a_percent_of_fp32(b):
    want = b.train()["accuracy"]
    check(want > 0.86, "fp32: %s" % want)
    for precision in "bf16", "fp16":
        got = b.train("--precision", precision)["accuracy"]
        check(got >= want - 0.005, "%s: %s, fp32: %s" % (precision, got, want))


@test
def pruned_models_reach_their_sparsity_and_lose_at_most_one_percent(b):
    out = b.out("run")
    want = b.train("--out", out)["accuracy"]
    for how, least in ("magnitude sparsity=0.8", 4), ("units share=0.3", 1.4):
        small = b.out(how.split()[0])
        r = b.run("compress", out, "--prune", how, "--epochs", "1", "--no-speed", "--json", "--out", small)
        check(r["after"]["accuracy"] >= want - 0.01, "%s: %s" % (how, r))
        check(r["before"]["bytes"] >= least * r["after"]["bytes"], "%s: %s" % (how, r))
        size = os.path.getsize(os.path.join(small, "model.mfz"))
        check(abs(size - r["after"]["bytes"]) < 4096, "%s: %d bytes on disk: %s" % (how, size, r))
        check(abs(b.run("eval", "--from", small, "--json")["accuracy"] - r["after"]["accuracy"]) < 1e-6, how)


if __name__ == "__main__":
    harness.main(Bench)
