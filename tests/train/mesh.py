#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training on a mesh: the same loss curve and, with --exact, the same weights under every layout.

Usage: mesh.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. One process with one shard is the
oracle: on a mesh a batch is one shard.
"""
import json
import re
import signal
import subprocess

import harness
from harness import await_checkpoint, check, test

MODELS = {"mlp": "fashion-mnist", "fashion-cnn": "fashion-mnist", "transformer": "synthetic-language"}
LAYOUTS = ["batch:rows", "hidden:cols;filters:cols;heads:cols;ff:cols",
           "batch:rows;hidden:cols;filters:cols;heads:cols;ff:cols"]


def result(text):
    line = [l for l in text.splitlines() if "weights_sha256" in l]
    check(len(line) == 1, "%d results: %s" % (len(line), text))
    return json.loads(line[0][line[0].index("{"):])


def curve(b, *more, workers=0, **kind):
    """The loss of some steps, each by a training that ends there, and the last one's result."""
    launch = ["launch", "--workers", str(workers), "--"] if workers else []
    ends = [result(b.run([*launch, *b.train(*more, steps=n, **kind)]).stdout) for n in (2, 7)]
    return [e["loss"] for e in ends], ends[-1]


def mesh(layout, axes="rows:2;cols:2"):
    return ["--mesh", axes, "--layout", layout]


@test
def four_processes_have_the_loss_curve_of_one_under_every_layout(b):
    for model, data in MODELS.items():
        kind = dict(model=model, data=data, batch=24)
        want, _ = curve(b, "--shards", "1", **kind)
        check(want[0] > want[1], "%s learns nothing: %s" % (model, want))
        for layout in LAYOUTS:
            got, end = curve(b, *mesh(layout), workers=4, **kind)
            worst = max(abs(x - y) / abs(y) for x, y in zip(got, want))
            print("# %s %s: %.1e, %s bytes of variables" %
                  (model, layout, worst, [p["variable_bytes"] for p in end["processors"]]))
            check(worst <= 1e-5, "%s %s: %s, not %s" % (model, layout, got, want))


@test
def exact_gives_the_weights_of_one_process(b):
    for model, data in MODELS.items():
        kind = dict(model=model, data=data, steps=4, batch=13)
        want = b.sha("--shards", "1", **kind)
        for layout, workers in (LAYOUTS[2], 4), (LAYOUTS[2], 0), (LAYOUTS[1], 2):
            got = b.sha("--exact", *mesh(layout), workers=workers, **kind)
            check(got == want, "%s %s on %d: %s, alone: %s" % (model, layout, workers, got, want))


@test
def processors_hold_what_the_layout_says(b):
    # mlp: 784 x 128, 128, 128 x 10, 10, and momentum for each; the step and the like are left.
    kind = dict(steps=2, batch=24)
    for layout, part in ("", 1), ("hidden:cols", 2), ("batch:rows", 1):
        end = result(b.run(b.train(*mesh(layout), **kind)).stdout)
        held = 2 * 4 * ((784 * 128 + 128 + 128 * 10) // part + 10)
        for p in end["processors"]:
            check(0 <= p["variable_bytes"] - held < 100, "%s: %s, not %d" % (layout, p, held))
    one = result(b.run(b.train(*mesh("hidden:cols"), **kind)).stdout)["processors"]
    many = result(b.run(["launch", "--workers", "4", "--", *b.train(*mesh("hidden:cols"), **kind)]).stdout)
    check(one == many["processors"], "threads and processes count otherwise: %s, %s" % (one, many))


@test
def weights_and_slots_are_stored_in_slices_where_the_layout_says_so(b):
    for model, data in (*MODELS.items(), ("wide-deep", "synthetic-ctr")):
        kind = dict(model=model, data=data, steps=3, batch=16, optimizer="adam")
        whole = result(b.run(b.train(*mesh("batch:all", "all:4"), **kind)).stdout)["processors"]
        cut = result(b.run(b.train(*mesh("batch:all;weights:all", "all:4"), **kind)).stdout)["processors"]
        for a, c in zip(whole, cut):
            check(c["variable_bytes"] < a["variable_bytes"] * 0.26, "%s: %s, whole %s" % (model, c, a))
        got = b.sha("--exact", *mesh("batch:all;weights:all", "all:4"), workers=2, **kind)
        check(got == b.sha("--shards", "1", **kind), "%s: other weights" % model)


@test
def images_vocabularies_and_classes_may_be_cut(b):
    for model, data, layout in (("fashion-cnn", "fashion-mnist", "height:rows;width:cols"),
                                ("resnet8", "fashion-mnist", "batch:rows;height:cols"),
                                ("cnn-small dropout=0", "fashion-mnist", "batch:rows;filters:cols"),
                                ("transformer", "synthetic-language", "batch:rows;vocab:cols"),
                                ("text-cnn vocabulary=256", "synthetic-text", "batch:rows;vocab:cols"),
                                ("mlp", "fashion-mnist", "hidden:rows;classes:cols")):
        kind = dict(model=model, data=data, steps=4, batch=10)
        want = result(b.run(b.train("--shards", "1", **kind)).stdout)
        got = result(b.run(b.train(*mesh(layout), **kind)).stdout)
        check(abs(got["loss"] - want["loss"]) <= 1e-5 * want["loss"], "%s: %s" % (model, got))
        check(got["weights_sha256"] != want["weights_sha256"], "%s: nothing was cut" % model)
        for p in got["processors"]:
            check(p["planned_bytes"] == p["received_bytes"] > 0, "%s: %s" % (model, p))


@test
def sizes_that_the_mesh_does_not_divide_train_too(b):
    kind = dict(model="transformer heads=7 width=28", data="synthetic-language", steps=3, batch=10)
    want = b.sha("--shards", "1", **kind)
    got = b.sha("--exact", *mesh("batch:rows;heads:cols;ff:cols", "rows:2;cols:3"), **kind)
    check(got == want, "7 heads on 3: %s, alone: %s" % (got, want))
    b.sha(*mesh("heads:all;ff:all", "all:3"), workers=3, **kind)


@test
def a_checkpoint_of_one_layout_goes_on_under_another(b):
    kind = dict(batch=24)
    want = b.sha("--shards", "1", steps=8, **kind)
    out = b.out("moves")
    b.sha("--exact", *mesh("batch:rows;hidden:cols"), "--out", out, steps=3, **kind)
    b.sha("--exact", *mesh("hidden:all", "all:3"), "--out", out, "--resume", workers=3, steps=5, **kind)
    got = b.sha("--exact", *mesh("batch:rows", "rows:2"), "--out", out, "--resume", steps=8, **kind)
    check(got == want, "%s after two moves, %s without" % (got, want))


@test
def when_one_is_killed_the_others_end_and_say_who(b):
    out = b.out("killed")
    command = b.train(*mesh("batch:rows;hidden:cols"), "--out", out, "--save-steps", "50", steps=100000)
    tasks = b.start([command] * 4)
    await_checkpoint(out)
    check(all(p.poll() is None for p in tasks), "a task has ended: %s" %
          [p.communicate()[1] for p in tasks if p.poll() is not None])
    tasks[2].send_signal(signal.SIGKILL)
    for i in 0, 1, 3:
        _, err = tasks[i].communicate(timeout=60)
        check(tasks[i].returncode != 0 and "worker 2" in err, "task %d: %s" % (i, err))


@test
def a_table_tells_what_a_step_costs(b):
    r = b.run(b.train(*mesh("batch:rows;hidden:cols"), "--explain", steps=7, batch=24))
    table = {l.split()[0]: [float(x) for x in l.split()[1:]]
             for l in r.stdout.splitlines() if re.match(r"[A-Z_]\w+ +\d+ ", l)}
    # A batch of 12 and half of the hidden units: forwards 784 and 10 wide, backwards once and twice
    # that; more, where both rows do the same rather than sum up gradients.
    least = 12 * 64 * (2 * 784 + 3 * 10)
    check(least <= table["MatMul"][1] <= 2 * least, str(table["MatMul"]))
    received = sum(row[3] for row in table.values())
    got = result(r.stdout)["processors"][0]["received_bytes"]
    check(7 * received == got, "%d bytes a step, %d in seven" % (received, got))


@test
def mistakes_are_told_with_what_to_do(b):
    for more, part in ((["--layout", "batch:rows"], "need --mesh"),
                       (["--mesh", "rows"], "write axes and sizes"),
                       (mesh("batch:depth"), "no axis 'depth'"),
                       (mesh("batch:rows") + ["--strategy", "mirrored"], "give one of them")):
        r = subprocess.run([b.program, *b.train(*more)], capture_output=True, text=True, timeout=60)
        check(r.returncode != 0 and part in r.stderr, "%s: %s" % (more, r.stderr))
    r = b.run(["launch", "--workers", "3", "--", *b.train(*mesh("", "all:2"))], code=1)
    check("2 processors and the job 3 workers" in r.stdout + r.stderr, r.stdout + r.stderr)


if __name__ == "__main__":
    harness.main(harness.Trainings)
