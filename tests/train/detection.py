#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Distributed training of a detector: the same weights and matches as one process, wherever proposals are filtered.

Usage: detection.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. How well it finds objects is the subject of
accuracy.py.
"""
import json
import os
import re

import harness
from harness import check, test

SMALL = "faster-rcnn width=4 units=16 proposals=8"
KIND = dict(model=SMALL, data="scenes", steps=3, batch=13, optimizer="adam", rate=0.003)
SCENES = ["--set", "count=40"]
LAYERS = 12  # that have weights: four convolutions, normalised, and four more
MAIN = ["--mesh", "devices:3 | main:1", "--layout", "batch:devices", "--stages", "%d,0" % LAYERS]


def end_of(b, *more, workers=0, **kind):
    """The final results of a training with a test."""
    launch = ["launch", "--workers", str(workers), "--"] if workers else []
    command = [x for x in b.train(*SCENES, *more, **{**KIND, **kind}) if x != "--no-test"]
    lines = [l for l in b.run([*launch, *command]).stdout.splitlines() if "weights_sha256" in l]
    check(len(lines) == 1, "%d results" % len(lines))
    return json.loads(lines[0][lines[0].index("{"):])


@test
def workers_have_the_weights_and_the_matches_of_one_process(b):
    want = end_of(b)
    check(want["matched_anchors"] > 2, "hardly an anchor is matched: %s" % want)
    for strategy, workers in (None, 3), ("mirrored replicas=3", 0), ("reduce_to_one", 2):
        got = end_of(b, strategy=strategy, workers=workers)
        for what in "weights_sha256", "matched_anchors", "mean_average_precision", "loss":
            check(got[what] == want[what], "%s of %s: %s, alone: %s" %
                  (what, strategy or "workers", got[what], want[what]))


@test
def shards_laid_together_give_the_same_weights(b):
    check(b.sha(*SCENES, "--disable", "shards", **KIND) == b.sha(*SCENES, **KIND), "other weights")


@test
def the_main_device_filters_the_proposals_of_all_devices(b):
    """Candidates are gathered from three devices, filtered on a fourth, and go back: on the way nothing
    changes."""
    want = b.sha(*SCENES, "--shards", "1", **KIND)
    main = {**KIND, "model": SMALL + " mesh=1"}
    check(b.sha(*SCENES, "--exact", *MAIN, **main) == want, "other weights")
    trace = b.out("trace.json")
    check(b.sha(*SCENES, "--exact", *MAIN, "--trace", trace, workers=3, **{**main, "steps": 12}) ==
          b.sha(*SCENES, "--shards", "1", **{**KIND, "steps": 12}), "other weights of three processes")
    with open(trace) as f:
        events = json.load(f)["traceEvents"]
    main = {e["pid"] for e in events if e["name"] == "CombinedNonMaxSuppression" and "rpn/filter" in
            e["args"]["node"]}
    check(len(main) == 1, "the filter ran on workers %s" % main)
    for what, where in ("candidate_boxes", main), ("candidate_scores", main), ("filter", {0, 1, 2}):
        came = {e["pid"] for e in events if e["name"] == "_MeshReceive" and "rpn/" + what in e["args"]["node"]}
        check(came == where, "%s came to workers %s" % (what, came))


@test
def images_may_be_sharded_over_devices(b):
    want = b.sha(*SCENES, "--shards", "1", **KIND)
    for mesh, layout, more, model in (("rows:2;cols:2", "height:rows;width:cols", [], SMALL),
                                      ("rows:2 | main:1", "height:rows", ["--stages", "%d,0" % LAYERS],
                                       SMALL + " mesh=1")):
        got = b.sha(*SCENES, "--exact", "--mesh", mesh, "--layout", layout, *more, **{**KIND, "model": model})
        check(got == want, "%s: %s, alone: %s" % (layout, got, want))


@test
def detections_are_printed_and_drawn(b):
    out, svg = b.out("run"), b.out("found.svg")
    model = ["--model", SMALL, "--data", "scenes", "--from", out, *SCENES]
    b.run(b.train(*SCENES, "--out", out, **{**KIND, "steps": 60}))
    check(b.run(["predict", *model, "--draw", svg]).stdout == "", "--draw prints")
    with open(svg) as f:
        text = f.read()
    check(text.startswith("<svg") and text.count("<image ") == 12 and "stroke-dasharray" in text,
          "no drawing of 12 scenes: %.300s" % text)
    for line in b.run(["predict", *model]).stdout.splitlines():
        check(re.fullmatch(r"\d+ [01]\.\d{3} \[[01]\.\d{3}(,[01]\.\d{3}){3}\] .+", line), line)
    mlp = b.out("mlp")
    b.run(b.train("--out", mlp, steps=1))
    r = b.run(["predict", "--model", "mlp", "--data", "fashion-mnist", "--from", mlp, "--draw", svg], code=1)
    check("the model must be faster-rcnn" in r.stderr, r.stderr)
    r = b.run(["predict", *model, "--draw", os.path.join(out, "no", "where.svg")], code=1)
    check("where.svg" in r.stderr, r.stderr)


@test
def invalid_combinations_are_rejected(b):
    for model, data, says in (("faster-rcnn", "fashion-mnist", "boxes with classes"),
                              ("fashion-cnn", "scenes", "label"),
                              ("faster-rcnn anchors=[3]", "scenes", "pairs of height and width"),
                              ("faster-rcnn anchors=[0,4]", "scenes", "at least one pixel")):
        r = b.run(b.train(model=model, data=data, steps=1), code=2)
        check(says in r.stderr and "Sanitizer" not in r.stderr, "%s on %s: %s" % (model, data, r.stderr))
    r = b.run(b.train(*SCENES, *MAIN, model=SMALL + " mesh=2", data="scenes", steps=1), code=2)
    check("there is no mesh 2, only 0 to 1" in r.stderr, r.stderr)
    r = b.run(b.train("--loss", "detection", data="fashion-mnist", steps=1), code=2)
    check("use the model faster-rcnn" in r.stderr, r.stderr)


if __name__ == "__main__":
    harness.main(harness.Trainings)
