#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pipelines: layers on several meshes, micro-batches on their way through them.

Usage: pipeline.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. One process with as many shards as there
are micro-batches is the oracle: a micro-batch is one shard.
"""
import json
import re
import subprocess

import harness
from harness import check, test

MODELS = {"mlp": "fashion-mnist", "fashion-cnn": "fashion-mnist", "transformer": "synthetic-language"}
BERT = {"transformer causal=false": "synthetic-text"}


def result(text):
    line = [l for l in text.splitlines() if "weights_sha256" in l]
    check(len(line) == 1, "%d results: %s" % (len(line), text))
    return json.loads(line[0][line[0].index("{"):])


def stages(mesh, layout, *more, turns=4):
    return ["--mesh", mesh, "--layout", layout, "--micro-batches", str(turns), *more]


@test
def stages_have_the_weights_of_one_process(b):
    for model, data in {**MODELS, **BERT}.items():
        kind = dict(model=model, data=data, steps=4, batch=22)
        want = b.sha("--shards", "4", **kind)
        for how, workers in ((stages("stages:2", "layers:stages"), 2),
                             (stages("stages:2", "layers:stages", "--pipeline", "gpipe"), 0),
                             (stages("rows:2;stages:2", "layers:stages;batch:rows", "--exact"), 4),
                             (stages("rows:2;stages:2", "layers:stages;batch:rows;slots:rows;gradients:rows",
                                     "--exact"), 0),
                             (stages("rows:2 | cols:3", "batch:rows;hidden:cols;heads:cols", "--exact"), 0)):
            got = b.sha(*how, workers=workers, **kind)
            check(got == want, "%s %s on %d: %s, alone: %s" % (model, how, workers, got, want))


@test
def chunks_and_zero_bubbles_have_the_weights_of_one_process(b):
    deep = "mlp units=[64,48,40,32,24]"
    for model, data in {deep: "fashion-mnist", "transformer": "synthetic-language"}.items():
        kind = dict(model=model, data=data, steps=3, batch=22)
        want = b.sha("--shards", "4", **kind)
        for how, workers in ((stages("stages:2", "layers:stages", "--pipeline", "interleaved"), 2),
                             (stages("rows:2;stages:2", "layers:stages;batch:rows;slots:rows", "--exact",
                                     "--pipeline", "interleaved"), 0),
                             (stages("stages:3", "layers:stages", "--pipeline", "zero-bubble"), 0),
                             (stages("rows:2;stages:2", "layers:stages;batch:rows", "--exact", "--pipeline",
                                     "zero-bubble"), 2)):
            got = b.sha(*how, workers=workers, **kind)
            check(got == want, "%s %s on %d: %s, alone: %s" % (model, how, workers, got, want))
    kind = dict(model=deep, steps=3, batch=22)
    want = b.sha("--shards", "3", **kind)
    got = b.sha(*stages("stages:2", "layers:stages", "--pipeline", "interleaved", "--chunks", "3", "--stages",
                        "1,1,1,1,1,1", turns=3), **kind)
    check(got == want, "three chunks: %s, alone %s" % (got, want))


@test
def stages_and_slices_have_the_loss_of_one_process(b):
    for model, data in MODELS.items():
        kind = dict(model=model, data=data, steps=7, batch=24)
        want = result(b.run(b.train("--shards", "4", **kind)).stdout)["loss"]
        for layout in "batch:rows;weights:rows", "hidden:rows;filters:rows;heads:rows;ff:rows":
            how = stages("stages:2;rows:2", "layers:stages;" + layout)
            end = result(b.run(["launch", "--workers", "4", "--", *b.train(*how, **kind)]).stdout)
            check(abs(end["loss"] - want) <= 1e-5 * want, "%s %s: %s, not %s" %
                  (model, layout, end["loss"], want))
            for p in end["devices"]:
                check(p["planned_bytes"] == p["received_bytes"] > 0, "%s: %s" % (model, p))


@test
def four_layers_on_two_devices_are_split_evenly(b):
    kind = dict(model="mlp units=[512,256,128]", steps=6, batch=32)
    want = b.sha("--shards", "4", **kind)
    got = result(b.run(b.train(*stages("devices:2", "layers:devices", "--stages", "2,2"), **kind)).stdout)
    check(got["weights_sha256"] == want, "%s, alone %s" % (got["weights_sha256"], want))
    first = 784 * 512 + 512 + 512 * 256 + 256
    second = 256 * 128 + 128 + 128 * 10 + 10
    for p, held in zip(got["devices"], (first, second)):
        # Weights and momentum; the step and the like are left.
        check(0 <= p["variable_bytes"] - 2 * 4 * held < 100, "%s, not %d" % (p, held))
    # Per micro-batch only the output of the second layer is sent forward, and its gradient back; the second
    # device sends its loss and accuracy, and whether the loss is finite, to the first.
    there, back = got["devices"][0]["sent_bytes"], got["devices"][1]["sent_bytes"]
    check(there == 6 * 32 * 256 * 4, "%d bytes went" % there)
    check(back == there + 6 * 3 * 4, "%d bytes came" % back)


@test
def any_batch_any_number_of_micro_batches(b):
    for batch, turns in (7, 3), (5, 8), (13, 1):
        kind = dict(steps=3, batch=batch)
        want = b.sha("--shards", str(turns), **kind)
        got = b.sha(*stages("stages:3", "layers:stages", turns=turns), **kind)
        check(got == want, "%d in %d: %s, alone %s" % (batch, turns, got, want))


@test
def idle_time_of_stages_is_measured(b):
    for workers, how, ideal in ((0, [], "20.0"), (2, ["--pipeline", "gpipe"], "20.0"),
                                (0, ["--pipeline", "interleaved"], "11.1"),
                                (0, ["--pipeline", "zero-bubble"], " 7.7")):
        launch = ["launch", "--workers", str(workers), "--"] if workers else []
        command = b.train(*stages("stages:2", "layers:stages", "--explain", *how),
                          model="mlp units=[512,256,128]", steps=5, batch=64)
        r = b.run([*launch, *command])
        for p in result(r.stdout)["devices"]:
            check(0 < p["busy_ns"] <= p["run_ns"], str(p))
        lines = [l[l.index("stage "):] for l in r.stdout.splitlines() if re.search(r"stage \d: idle", l)]
        check(len(lines) == 2, r.stdout)
        for i, line in enumerate(lines):
            print("# " + line)
            check(line.startswith("stage %d: idle" % i) and "ideal %s %%" % ideal in line, line)
            shown = line[line.index(")") + 1:].split()
            check(all(re.fullmatch(r"[FBW][1-4]|[.]", t) for t in shown) and len(shown) == 24, line)


@test
def errors_name_the_fix(b):
    for more, part in ((["--stages", "2,2"], "need --mesh"),
                       (stages("stages:2", "layers:stages", "--stages", "1"), "1, but the mesh has 2"),
                       (stages("stages:2", "layers:stages", "--stages", "two"), "how many layers"),
                       (stages("stages:2", "layers:stages", "--stages", "3,3"), "the model has 2"),
                       (stages("stages:5", "layers:stages"), "too few for 5 stages"),
                       (stages("stages:2", "layers:stages;batch:stages"), "cannot split 'batch'"),
                       (stages("stages:2", "layers:stages", "--pipeline", "fast"), "only 1f1b, gpipe,"),
                       (stages("stages:2", "layers:stages", "--chunks", "2"), "--pipeline interleaved"),
                       (stages("stages:2", "layers:stages", "--pipeline", "interleaved", "--chunks", "0"), "chunks"),
                       (stages("stages:2", "layers:stages", "--pipeline", "interleaved", "--chunks", "200"),
                        "more than 256"),
                       (stages("stages:2", "layers:stages", "--pipeline", "interleaved", "--stages", "1,1"),
                        "has 4 of them")):
        r = subprocess.run([b.program, *b.train(*more)], capture_output=True, text=True, timeout=60)
        check(r.returncode != 0 and part in r.stderr, "%s: %s" % (more, r.stderr))


if __name__ == "__main__":
    harness.main(harness.Trainings)
