#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training with gradient codecs: the same weights for any number of workers and through breaks, and
nearly the same loss as without.

Usage: codecs.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`.
"""
import json
import os
import subprocess

import harness
from harness import check, host_test, test

CODECS = ["fp16", "bf16", "int8", "int8 rounding=stochastic", "top_k", "top_k momentum=0.9 warmup=8",
          "power_sgd", "grain=2; *bias*: none; dense/*: top_k ratio=0.1; bf16"]


class Bench(harness.Bench):
    def run(self, workers, *more, model="fashion-cnn", steps=12, batch=32, rate="0.02", optimizer="momentum",
            code=0):
        train = ["train", "--model", model, "--data", "fashion-mnist", "--batch", str(batch), "--steps",
                 str(steps), "--optimizer", optimizer, "--lr", rate, "--no-test", "--quiet", "--json", *more]
        launch = ["launch", "--workers", str(workers), "--json", "--"] if workers else []
        r = subprocess.run([self.program, *launch, *train], capture_output=True, text=True, timeout=300)
        check(r.returncode == code, "%s: exit code %d: %s" % (" ".join(train), r.returncode, r.stderr))
        return json.loads(r.stdout.splitlines()[-1]) if code == 0 else r.stderr

    def sha(self, workers, *more, **kind):
        return self.run(workers, *more, **kind)["weights_sha256"]


@test
def weights_are_the_same_for_1_2_3_4_and_8_workers_with_every_codec(b):
    plain = b.sha(0)
    for i, codec in enumerate(CODECS): # all numbers with all of them would take minutes
        alone = b.sha(0, "--codec", codec)
        check(alone != plain, "%s changes nothing" % codec)
        for workers in [2, 4] if i % 2 else [1, 3] + [8] * ("grain" not in codec):
            sha = b.sha(workers, "--codec", codec)
            check(sha == alone, "%s, %d workers: %s, alone: %s" % (codec, workers, sha, alone))


@test
def weights_are_the_same_over_connections(b):
    for codec in "int8", "power_sgd":
        want = b.sha(0, "--codec", codec)
        for collective in "ring", "tree":
            sha = b.sha(3, "--codec", codec, "--strategy", "multi_worker_mirrored collective=%s" % collective)
            check(sha == want, "%s by %s: %s, alone: %s" % (codec, collective, sha, want))


@test
def the_codecs_none_and_lossless_are_exact(b):
    plain = b.sha(0)
    for codec, workers in ("none", 0), ("none", 3), ("lossless", 0), ("lossless", 3), ("grain=4; lossless", 2):
        check(b.sha(workers, "--codec", codec) == plain, "%s: other weights with %d workers" % (codec, workers))


@test
def a_run_resumed_with_other_workers_gives_the_same_weights(b):
    """What codecs keep is in the checkpoint."""
    for i, codec in enumerate(["top_k", "top_k momentum=0.9", "power_sgd", "grain=2; power_sgd rank=1"]):
        out = os.path.join(b.dir, "stops-%d" % i)
        for steps, workers in (7, 2), (20, 0), (31, 3):
            b.run(workers, "--codec", codec, "--out", out, "--resume", "--save-steps", "5", model="mlp", steps=steps)
        sha = b.sha(4, "--codec", codec, "--out", out, "--resume", model="mlp", steps=40)
        check(sha == b.sha(0, "--codec", codec, model="mlp", steps=40), "%s: other weights" % codec)


@test
def resume_with_another_codec_resets_the_codec_state(b):
    out = os.path.join(b.dir, "other")
    b.run(2, "--codec", "top_k", "--out", out, model="mlp", steps=5)
    other = "--codec", "grain=2; top_k", "--out", out, "--resume"
    said = b.run(2, *other, model="mlp", code=2)
    check("--codec was top_k and is 'grain=2; top_k'" in said, said)
    said = b.run(2, *other, "--allow-changes", model="mlp", code=2)
    check("was made with another codec" in said, said)


@test
def the_last_batch_of_an_epoch_may_have_fewer_samples_than_shards(b):
    kind = dict(model="mlp", steps=6, batch=19999)  # of 60,000: three and one of three samples
    for codec in "top_k", "power_sgd":
        want = b.sha(0, "--codec", codec, **kind)
        check(b.sha(4, "--codec", codec, **kind) == want, "%s: other weights" % codec)


@test
def invalid_combinations_of_workers_and_grains_are_rejected(b):
    said = b.run(3, "--codec", "grain=4; fp16", code=2)
    check("are enough for 2 workers, not for 3; give --shards 12" in said, said)
    said = b.run(0, "--codec", "top_k", "--precision", "fp16", code=2)
    check("codec top_k adds a part of the gradients" in said, said)


@test
def fewer_bytes_are_sent(b):
    for codec, least in ("grain=4; lossless", 1.1), ("grain=4; fp16", 1.9), ("grain=4; int8", 3.8), ("grain=4; top_k", 100), ("power_sgd", 40):
        r = b.run(2, "--codec", codec)
        times = r["sent_bytes_without_codec"] / r["sent_bytes"]
        check(times > least, "%s: %.1f times fewer, not %g" % (codec, times, least))


def last_loss(b, optimizer, rate, *more):
    """The mean of the test set is too expensive here, and one batch too noisy: a few seeds."""
    seeds = "1", "2", "3"
    return sum(b.run(0, "--seed", seed, *more, model="mlp", steps=400, batch=64, optimizer=optimizer,
                     rate=rate)["loss"] for seed in seeds) / len(seeds)


@host_test # not for hosts, but long
def codecs_reach_nearly_the_same_loss(b):
    without = {}
    for codec, optimizer, rate in [("fp16", "momentum", "0.02"), ("bf16", "momentum", "0.02"),
                                   ("int8", "momentum", "0.02"), ("top_k", "sgd", "0.2"),
                                   ("top_k momentum=0.9", "sgd", "0.02"), ("power_sgd", "momentum", "0.02")]:
        with_momentum = "momentum=" in codec  # the codec's takes the place of the optimizer's
        kind = "momentum" if with_momentum else optimizer, rate
        if kind not in without:
            without[kind] = last_loss(b, *kind)
        plain = without[kind]
        loss = last_loss(b, optimizer, rate, "--codec", codec)
        check(loss < 1.2 * plain, "%s: loss %.3f, without %.3f" % (codec, loss, plain))


if __name__ == "__main__":
    harness.main(Bench)
