#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models that learn by comparing: the same weights and figures with one process and with many.

Usage: contrast.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. Training alone is the oracle.
"""
import json
import os
import struct

import harness
from harness import check, test, write_images

MANY = ("multi_worker_mirrored", 3), ("mirrored replicas=3", 0), ("reduce_to_one", 2), ("central_storage replicas=2", 0)
PAIRS = "--pairs", "rotate=20 crop=2"


def pictures(b, n=40):
    folder = b.out("pictures")
    write_images(folder, n, 12)
    return folder


@test
def triplets_are_mined_over_the_batches_of_all_workers(b):
    data = pictures(b)
    for mining in "all", "hard", "semi_hard":
        more = "--test", data, "--loss", "triplet mining=%s margin=0.5" % mining
        kind = dict(model="triplet", data=data, batch=17, steps=6)  # the last batch of an epoch has 6
        want = b.sha(*more, **kind)
        for strategy, workers in MANY if mining == "semi_hard" else MANY[:1]:
            got = b.sha(*more, strategy=strategy, workers=workers, **kind)
            check(got == want, "%s, %s: %s, alone: %s" % (mining, strategy, got, want))


@test
def triplets_on_a_mesh_are_those_of_one_process(b):
    data = pictures(b)
    kind = dict(model="triplet", data=data, batch=16, steps=4)
    want = b.sha("--test", data, "--shards", "1", **kind)
    got = b.sha("--test", data, "--mesh", "rows:2", "--layout", "batch:rows", "--exact", **kind)
    check(got == want, "on a mesh: %s, alone: %s" % (got, want))
    stages = "--test", data, "--mesh", "stages:2", "--layout", "layers:stages", "--micro-batches", "4"
    got = b.sha(*stages, "--pipeline", "gpipe", "--exact", **kind)
    check(got == b.sha("--test", data, "--shards", "4", **kind), "a pipeline has other weights")
    r = b.run(b.train(*stages, "--pipeline", "1f1b", **kind), code=2)
    check("use --pipeline gpipe" in r.stderr, r.stderr)


@test
def losses_over_all_samples_are_rejected_for_strategies_without_them(b):
    data = pictures(b)
    command = b.train("--test", data, model="triplet", data=data)
    for launch in ["launch", "--workers", "1", "--ps", "1"], ["launch", "--workers", "2"]:
        strategy = [] if "--ps" in launch else ["--strategy", "local_sgd period=2"]
        r = b.run([*launch, "--", *command, *strategy], code=2)
        said = r.stdout + r.stderr
        check("the loss 'triplet' compares all samples of a step" in said, said)
        check("use the strategy multi_worker_mirrored" in said, said)


@test
def pairs_do_not_depend_on_the_reader(b):
    data = pictures(b)
    more = "--test", data, *PAIRS
    kind = dict(model="siamese", data=data, batch=17, steps=6)
    want = b.sha(*more, **kind)
    for strategy, workers in MANY[:2]:
        got = b.sha(*more, strategy=strategy, workers=workers, **kind)
        check(got == want, "%s: %s, alone: %s" % (strategy, got, want))


@test
def rbms_have_the_same_weights_and_chains_after_a_resume(b):
    data = pictures(b)
    for model in "rbm units=12 k=2", "rbm units=12 chains=20":
        kind = dict(model=model, data=data, batch=17)
        want = b.sha("--test", data, steps=6, **kind)
        for strategy, workers in MANY[:2] if "k=2" in model else MANY:
            got = b.sha("--test", data, strategy=strategy, workers=workers, steps=6, **kind)
            check(got == want, "%s, %s: %s, alone: %s" % (model, strategy, got, want))
        out = b.out("kept" + model[-2:])
        b.sha("--test", data, "--out", out, steps=3, **kind)
        got = b.sha("--test", data, "--out", out, "--resume", steps=6, workers=2, **kind)
        check(got == want, "%s: other weights after going on" % model)


def shown(b, *command):
    return json.loads(b.run(["contrast", *command, "--json"]).stdout)


def png_size(path):
    with open(path, "rb") as f:
        head = f.read(24)
    check(head[:8] == b"\x89PNG\r\n\x1a\n", "%s is no PNG file" % path)
    return struct.unpack(">II", head[16:24])


@test
def metrics_and_images_are_reported(b):
    data = pictures(b)

    def trained(model, *more):
        out = b.out(model.split()[0])
        b.sha("--test", data, "--out", out, "--overwrite", *more, model=model, data=data, batch=20, steps=2)
        return "--model", model, "--data", data, "--test", data, "--from", out, *more

    svg, png = b.out("e.svg"), b.out("p.png")
    got = shown(b, *trained("triplet"), "--embeddings", svg)
    check(got["queries"] == 40 and 0 <= got["recall_at_1"] <= 1, str(got))
    with open(svg, encoding="utf-8") as f:
        text = f.read()
    check(text.count("<circle") == 42 and "class1" in text, "40 points and two classes: %s" % text[:400])
    got = shown(b, *trained("siamese", *PAIRS), "--embeddings", svg)
    check(got["pairs"] == 40 and got["verification"] == got["training_verification"] >= 0.5, str(got))
    command = trained("rbm units=30")
    got = shown(b, *command, "--filters", png)
    check(0 < got["reconstruction_error"] < 1, str(got))
    check(png_size(png) == (6 * 26 + 2, 5 * 26 + 2), "30 filters of 12 x 12: %s" % (png_size(png),))
    shown(b, *command, "--samples", png, "--steps", "5")
    check(png_size(png) == (8 * 26 + 2, 8 * 26 + 2), "64 samples: %s" % (png_size(png),))
    first = open(png, "rb").read()
    shown(b, *command, "--samples", png, "--steps", "5")
    check(open(png, "rb").read() == first, "other samples for the same seed")
    shown(b, *command, "--samples", png, "--steps", "6")
    check(open(png, "rb").read() != first, "the chains do not move")
    os.remove(png)
    r = b.run(["contrast", *trained("triplet"), "--filters", png], code=2)
    check("--filters and --samples are for the model rbm" in r.stderr and not os.path.exists(png), r.stderr)
    r = b.run(["contrast", *command, "--embeddings", svg], code=2)
    check("--embeddings is for the models siamese and triplet" in r.stderr, r.stderr)


@test
def mistakes_are_named(b):
    data = pictures(b)
    for command, said in (
            (b.train(model="siamese", data=data), "--pairs makes them from images"),
            (b.train("--pairs", "rotate=200", model="siamese", data=data), "must be 0 to 90 degrees"),
            (b.train(model="rbm chains=4", data=data), "there are 4 rows"),
            (b.train("--loss", "triplet mining=soft", model="triplet", data=data), "not 'soft'")):
        r = b.run([*command, "--test", data], code=2)
        check(said in r.stderr, r.stderr)


if __name__ == "__main__":
    harness.main(harness.Trainings)
