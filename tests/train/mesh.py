#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training on a mesh: the same loss curve and, with --exact, the same weights under every layout.

Usage: mesh.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. One process with one shard is the
oracle: on a mesh a batch is one shard.
"""
import array
import json
import re
import signal
import subprocess

import harness
from harness import await_checkpoint, check, host_test, test

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


def floats(npy):
    """The numbers of a file of floats."""
    check(npy[:6] == b"\x93NUMPY" and b"'<f4'" in npy[:128], "no file of floats")
    return array.array("f", npy[10 + int.from_bytes(npy[8:10], "little"):])


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
                  (model, layout, worst, [p["variable_bytes"] for p in end["devices"]]))
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
def recomputation_gives_the_same_results(b):
    for model, data in MODELS.items():
        kind = dict(model=model, data=data, steps=3, batch=13)
        for more, workers in ([], 0), (["--exact"], 2):
            kept = b.sha(*more, *mesh(LAYOUTS[2]), workers=workers, **kind)
            again = b.sha(*more, *mesh(LAYOUTS[2]), "--recompute", "2", workers=workers, **kind)
            check(again == kept, "%s %s: %s, kept: %s" % (model, more, again, kept))


@test
def a_step_takes_the_planned_memory_and_less_with_recomputation(b):
    kind = dict(model="transformer layers=4", data="synthetic-language", steps=2, batch=32)
    most = []
    for more in [], ["--recompute", "layers"]:
        end = result(b.run(b.train(*mesh(LAYOUTS[2]), "--threads", "1", *more, **kind)).stdout)
        for p in end["devices"]:
            print("# %s: %d bytes, %d planned" % (more, p["step_bytes"], p["planned_step_bytes"]))
            check(abs(p["step_bytes"] / p["planned_step_bytes"] - 1) <= 0.05, "not as planned: %s" % p)
        most.append(max(p["step_bytes"] for p in end["devices"]))
    check(most[1] < 0.6 * most[0], "%d bytes, computed again %d" % tuple(most))


@host_test
def experts_may_be_sharded_like_the_samples(b):
    # experts of transformer_block_1: two matrices of 64 x 256 each, and momentum.
    kind = dict(model="moe-transformer", data="synthetic-language", batch=24)
    want, _ = curve(b, "--shards", "1", **kind)
    check(want[0] > want[1], "it learns nothing: %s" % want)
    sha = b.sha("--shards", "1", steps=4, **kind)
    whole = result(b.run(b.train(*mesh("batch:all", "all:4"), steps=1, **kind)).stdout)["devices"][0]
    for layout, axes, parts in (("experts:cols", "cols:4", 4), ("batch:rows;experts:cols", "rows:2;cols:2", 2),
                                ("batch:all;experts:all", "all:4", 4),
                                ("batch:rows;experts:rows;ff:cols;heads:cols", "rows:2;cols:2", None)):
        got, end = curve(b, *mesh(layout, axes), workers=4, **kind)
        worst = max(abs(x - y) / abs(y) for x, y in zip(got, want))
        print("# %s: %.1e, %s bytes received" % (layout, worst, [p["received_bytes"] for p in end["devices"]]))
        check(worst <= 1e-5, "%s: %s, not %s" % (layout, got, want))
        for p in end["devices"]:
            check(p["planned_bytes"] == p["received_bytes"] > 0, "%s: %s" % (layout, p))
            held = whole["variable_bytes"] - 2 * 4 * 2 * 4 * 64 * 256 * (1 - 1 / (parts or 1))
            check(parts is None or p["variable_bytes"] == held, "%s: %s, not %d" % (layout, p, held))
        check(b.sha("--exact", *mesh(layout, axes), steps=4, **kind) == sha, "%s: other weights" % layout)


@test
def devices_hold_the_shards_of_the_layout(b):
    # mlp: 784 x 128, 128, 128 x 10, 10, and momentum for each; the step and the like are left.
    kind = dict(steps=2, batch=24)
    for layout, part in ("", 1), ("hidden:cols", 2), ("batch:rows", 1):
        end = result(b.run(b.train(*mesh(layout), **kind)).stdout)
        held = 2 * 4 * ((784 * 128 + 128 + 128 * 10) // part + 10)
        for p in end["devices"]:
            check(0 <= p["variable_bytes"] - held < 100, "%s: %s, not %d" % (layout, p, held))
    one = result(b.run(b.train(*mesh("hidden:cols"), **kind)).stdout)["devices"]
    many = result(b.run(["launch", "--workers", "4", "--", *b.train(*mesh("hidden:cols"), **kind)]).stdout)
    for a, c in zip(one, many["devices"]):
        for key in "step_bytes", "run_ns", "busy_ns":  # received data is in memory
            a.pop(key), c.pop(key)
        check(a == c, "threads and processes count otherwise: %s, %s" % (a, c))


@test
def a_process_reads_only_the_samples_of_its_devices(b):
    # 101 samples in batches of 26: five steps are 26, 26, 26, 23 and 26 again, of 7, 7, 6 and 6 (of 23: 6, 6,
    # 6 and 5) or 13 and 13 (12 and 11); in two micro-batches 13 and 13 of 4, 3, 3 and 3 (12 and 11 of 3 or 2).
    kind = dict(model="transformer layers=1", data="synthetic-language", steps=5, batch=26)
    cases = [("batch:all", "all:4", 4, [], [34, 34, 30, 29]),
             ("batch:all", "all:4", 2, [], [68, 59]),
             ("batch:rows;heads:cols;ff:cols", "rows:2;cols:2", 4, [], [64, 64, 63, 63]),
             ("batch:all", "all:4", 4, ["--micro-batches", "2"], [38, 30, 30, 29]),
             ("layers:stages;batch:rows", "stages:2;rows:2", 4, ["--micro-batches", "2"], [68, 59, 68, 59]),
             ("heads:all;ff:all", "all:4", 2, [], [127] * 2),
             ("batch:all", "all:4", 4, ["--exact"], [34, 34, 30, 29])]
    for layout, axes, workers, more, read in cases:
        command = b.train("--set", "count=101", *mesh(layout, axes), *more, **kind)
        one = result(b.run(command).stdout)
        many = result(b.run(["launch", "--workers", str(workers), "--", *command]).stdout)
        print("# %s on %s: %s" % (layout, axes, many["processes"]))
        check([p["samples_read"] for p in one["processes"]] == [127], "one: %s" % one["processes"])
        check([p["samples"] for p in many["processes"]] == [127] * workers, "%s" % many["processes"])
        check([p["samples_read"] for p in many["processes"]] == read, "%s: %s, not %s" % (layout, many, read))
        check(many["weights_sha256"] == one["weights_sha256"], "%s: other weights" % layout)


@test
def weights_and_slots_are_sharded_by_the_layout(b):
    for model, data in (*MODELS.items(), ("wide-deep", "synthetic-ctr")):
        kind = dict(model=model, data=data, steps=3, batch=16, optimizer="adam")
        whole = result(b.run(b.train(*mesh("batch:all", "all:4"), **kind)).stdout)["devices"]
        cut = result(b.run(b.train(*mesh("batch:all;weights:all", "all:4"), **kind)).stdout)["devices"]
        for a, c in zip(whole, cut):
            check(c["variable_bytes"] < a["variable_bytes"] * 0.26, "%s: %s, whole %s" % (model, c, a))
        got = b.sha("--exact", *mesh("batch:all;weights:all", "all:4"), workers=2, **kind)
        check(got == b.sha("--shards", "1", **kind), "%s: other weights" % model)


@test
def a_process_holds_only_its_shards(b):
    # Between saves, which gather everything; the rest are scalars of at most 8 bytes each.
    kind = dict(model="mlp", steps=7, batch=16, optimizer="adam")
    whole = result(b.run(b.train(*mesh("batch:all", "all:4"), **kind)).stdout)
    state = whole["devices"][0]["variable_bytes"]
    command = b.train(*mesh("batch:all;weights:all", "all:4"), "--save-steps", "3", **kind)
    one = result(b.run([*command, "--out", b.out("one")]).stdout)
    check(one["processes"][0]["whole_bytes"] <= 32, "threads: %s" % one["processes"])
    workers = b.start([[*command, "--out", b.out("many")]] * 4)  # no worker may be lost, because there is no store
    alone = result("".join(p.communicate(timeout=120)[0] for p in workers))
    kept = ["launch", "--workers", "4", "--", *command, "--out"]
    for name, got in (("alone", alone),
                      ("not kept", result(b.run([*kept, b.out("not"), "--param", "mesh_snapshot_steps=0"]).stdout))):
        for device, process in zip(got["devices"], got["processes"]):
            held = device["variable_bytes"] + process["whole_bytes"]
            check(held < 0.26 * state, "%s: %d bytes held, all are %d" % (name, held, state))
        check(got["weights_sha256"] == one["weights_sha256"], "%s: other weights" % name)
    # If workers may be lost, each has a copy to recover from.
    got = result(b.run([*kept, b.out("kept")]).stdout)
    check([p["whole_bytes"] for p in got["processes"]] == [state] * 4, "%s, not %d" % (got["processes"], state))
    check(got["weights_sha256"] == one["weights_sha256"], "kept: other weights")
    check(b.run(["ckpt", "diff", b.out("one"), b.out("many")]).returncode == 0, "other checkpoints")


@test
def queries_between_steps_return_the_values_of_devices(b):
    table, holes = b.out("halves.csv"), b.out("nan.csv")
    with open(table, "w") as f:
        f.write("a,b,y\n")
        for i in range(256):
            f.write("%d,%d,%d\n" % (i * 7919 % 101, i * 104729 % 97, i * 7919 % 101 > i * 31 % 101))
    with open(holes, "w") as f:
        f.write("a,b,y\n")
        for i in range(80):
            f.write("%s,%d,%d\n" % ("nan" if i in (9, 41) else i % 7, i % 5, i % 7 > i % 5))
    # A rule reads weights, a guard counts, workers compare their hashes.
    cases = [(dict(data=table, steps=20000), ["--set", "label=y", "--test", table, "--validation", "0.2", "--stop",
                                              "converged tolerance=0.01"], "converged"),
             (dict(data=holes, steps=20, batch=8), ["--set", "label=y missing=nan", "--test", holes, "--guard", "skip"], "steps")]
    for kind, more, ended in cases:
        want = result(b.run(b.train(*more, "--shards", "1", **kind)).stdout)
        command = b.train(*more, "--exact", "--check-steps", "7", *mesh("batch:all;weights:all", "all:2"), **kind)
        check(want["ended"] == ended, "alone: %s" % want)
        for keep in "0", "64":
            got = result(b.run(["launch", "--workers", "2", "--", *command, "--param", "mesh_snapshot_steps=" + keep]).stdout)
            for key in "steps", "ended", "skipped_steps", "weights_sha256":
                check(got[key] == want[key], "%s: %s, alone: %s" % (more, got, want))
    # Each worker by its own clock: all bring weights together when one wants to look.
    command = b.train("--converged-after", "0.3", "--param", "mesh_snapshot_steps=0", rate=1e-30, steps=10 ** 9)
    end = result(b.run(["launch", "--workers", "2", "--", *command, *mesh("batch:all;weights:all", "all:2")]).stdout)
    check(end["ended"] == "converged" and "no step has moved the weights" in end["ended_because"], str(end))


@test
def optimizer_slots_are_sharded_by_the_layout(b):
    for model, data in (*MODELS.items(), ("wide-deep", "synthetic-ctr")):
        kind = dict(model=model, data=data, steps=3, batch=16, optimizer="adam")
        whole = result(b.run(b.train(*mesh("batch:all", "all:4"), **kind)).stdout)["devices"]
        want, _ = curve(b, "--shards", "1", **{k: kind[k] for k in ("model", "data", "batch", "optimizer")})
        layout = "batch:all;slots:all"
        got, end = curve(b, *mesh(layout, "all:4"), workers=4,
                         **{k: kind[k] for k in ("model", "data", "batch", "optimizer")})
        worst = max(abs(x - y) / abs(y) for x, y in zip(got, want))
        print("# %s: %.1e, %s bytes of variables" %
              (model, worst, [p["variable_bytes"] for p in end["devices"]]))
        check(worst <= 1e-5, "%s: %s, not %s" % (model, got, want))
        for a, c in zip(whole, end["devices"]):  # a weight, and two slots of which a fourth
            check(0.5 <= c["variable_bytes"] / a["variable_bytes"] < 0.51, "%s: %s, whole %s" % (model, c, a))
            check(c["planned_bytes"] == c["received_bytes"] > 0, "%s: %s" % (model, c))
        got = b.sha("--exact", *mesh(layout, "all:4"), workers=2, **kind)
        check(got == b.sha("--shards", "1", **kind), "%s: other weights" % model)


@test
def gradients_are_reduce_scattered_after_every_micro_batch_or_after_all(b):
    # Large enough a batch that it is cheaper to add gradients than to bring samples together.
    for model, data in ("mlp", "fashion-mnist"), ("transformer", "synthetic-language"):
        kind = dict(model=model, data=data, steps=3, batch=512 if model == "mlp" else 16, optimizer="adam")
        turns = ["--micro-batches", "2"]
        want = result(b.run(b.train("--shards", "2", **kind)).stdout)["loss"]
        received = []
        for layout in "slots:all", "slots:all;gradients:all", "weights:all;gradients:all":
            end = result(b.run(b.train(*mesh("batch:all;" + layout, "all:4"), *turns, **kind)).stdout)
            check(abs(end["loss"] - want) <= 1e-5 * want, "%s %s: %s, not %s" % (model, layout, end["loss"], want))
            for p in end["devices"]:
                check(p["planned_bytes"] == p["received_bytes"] > 0, "%s %s: %s" % (model, layout, p))
            received.append(end["devices"][0]["received_bytes"])
        print("# %s: %s bytes received" % (model, received))
        check(received[1] > received[0], "%s: gradients are added once: %s" % (model, received))


@test
def images_vocabularies_and_classes_may_be_sharded(b):
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
        for p in got["devices"]:
            check(p["planned_bytes"] == p["received_bytes"] > 0, "%s: %s" % (model, p))


@test
def sizes_that_the_mesh_does_not_divide_train_too(b):
    kind = dict(model="transformer heads=7 width=28", data="synthetic-language", steps=3, batch=10)
    want = b.sha("--shards", "1", **kind)
    got = b.sha("--exact", *mesh("batch:rows;heads:cols;ff:cols", "rows:2;cols:3"), **kind)
    check(got == want, "7 heads on 3: %s, alone: %s" % (got, want))
    b.sha(*mesh("heads:all;ff:all", "all:3"), workers=3, **kind)


@test
def a_checkpoint_of_one_layout_resumes_under_another(b):
    kind = dict(batch=24)
    want = b.sha("--shards", "1", steps=8, **kind)
    out = b.out("moves")
    b.sha("--exact", *mesh("batch:rows;hidden:cols"), "--out", out, steps=3, **kind)
    b.sha("--exact", *mesh("hidden:all", "all:3"), "--out", out, "--resume", workers=3, steps=5, **kind)
    got = b.sha("--exact", *mesh("batch:rows", "rows:2"), "--out", out, "--resume", steps=8, **kind)
    check(got == want, "%s after two moves, %s without" % (got, want))


@test
def weights_stored_in_16_bits_match_one_process_and_resume(b):
    kind, half = dict(batch=24), ["--precision", "bf16 stored=bf16"]
    ways = {"alone": ["--shards", "1"],
            "mesh": ["--shards", "1", "--exact", *mesh("batch:rows;hidden:cols;slots:rows")]}
    for name, how in ways.items():
        b.sha(*how, *half, "--out", b.out(name), steps=3, **kind)
    r = b.run(["ckpt", "diff", b.out("alone"), b.out("mesh")])
    check("bfloat16" in b.run(["ckpt", "show", b.out("mesh")]).stdout, "the checkpoint has no 16 bits")
    check(r.returncode == 0, r.stdout)
    ends = {name: b.sha(*how, *half, "--out", b.out(name), "--resume", steps=6, **kind) for name, how in ways.items()}
    check(ends["alone"] == ends["mesh"], str(ends))
    whole = b.sha("--shards", "1", "--precision", "bf16", steps=6, **kind)
    check(ends["alone"] != whole, "nothing was rounded")


def answers(b, *more, workers=0, **trained):
    """Predictions as bytes of a file and as lines, and the results of eval."""
    launch = ["launch", "--no-prefix", "--workers", str(workers), "--"] if workers else []
    about = ["--model", trained["model"], "--data", trained["data"], "--from", trained["out"], *more]
    about += ["--set", "count=300"] if trained["data"].startswith("synthetic") else []
    path = b.out("answers") + ".npy"
    b.run([*launch, "predict", *about, "--output", path])
    said = b.run([*launch, "predict", *about]).stdout
    measured = json.loads(b.run([*launch, "eval", *about, "--json"]).stdout)
    with open(path, "rb") as f:
        return f.read(), said, measured


def predict(b, cases):
    cut = False # some numbers are rounded otherwise: they do run there
    for model, data, layout in cases:
        out = b.out("trained-%s-%s" % (data, layout.split(":")[0]))
        b.run(b.train("--out", out, model=model, data=data, steps=20))
        trained = dict(model=model, data=data, out=out)
        npy, said, measured = answers(b, **trained)
        for workers in 0, 4:
            exact = answers(b, "--exact", *mesh(layout), workers=workers, **trained)
            check(exact == (npy, said, measured), "%s on %d: other answers" % (model, workers))
        got_npy, _, got = answers(b, *mesh(layout), workers=4, **trained)
        worst = max(abs(x - y) for x, y in zip(floats(got_npy), floats(npy)))
        print("# %s %s: answers %.1e away" % (model, layout, worst))
        check(worst < 1e-4, "%s: %g away" % (model, worst))
        cut = cut or worst > 0
        check(abs(got["loss"] - measured["loss"]) < 1e-5, "%s: %s, not %s" % (model, got, measured))
    check(cut, "nothing was cut")


@test
def predictions_on_a_mesh_are_those_of_one_process(b):
    predict(b, [("mlp", "fashion-mnist", "batch:rows;hidden:cols")])


@host_test
def predictions_of_more_models_on_a_mesh_are_those_of_one_process(b):
    predict(b, (("mlp", "fashion-mnist", "batch:rows;hidden:cols"),
               ("mlp", "fashion-mnist", "layers:rows;batch:cols"),
               ("text-cnn vocabulary=256", "synthetic-text", "batch:rows;vocab:cols;filters:cols"),
               ("moe-transformer", "synthetic-language", "batch:rows;batch:cols;experts:cols")))


@test
def tests_of_averaged_weights_run_on_the_mesh(b):
    kind = ["train", "--model", "mlp", "--data", "fashion-mnist", "--steps", "12", "--shards", "1", "--ema", "0.9",
            "--ema-eval", "--quiet", "--json"]
    want = result(b.run(kind).stdout)
    for workers in 0, 2:
        launch = ["launch", "--workers", str(workers), "--"] if workers else []
        got = result(b.run([*launch, *kind, "--exact", *mesh("batch:rows;hidden:cols")]).stdout)
        for what in "test_loss", "accuracy", "weights_sha256":
            check(got[what] == want[what], "%s is %s, not %s" % (what, got[what], want[what]))


@test
def when_a_task_is_killed_the_others_end_and_name_it(b):
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
def micro_batches_take_less_memory(b):
    kind = dict(model="transformer layers=4", data="synthetic-language", steps=2, batch=32)
    most = []
    for turns in 1, 4:
        end = result(b.run(b.train(*mesh("batch:all", "all:2"), "--threads", "1", "--micro-batches", str(turns),
                                   **kind)).stdout)
        most.append(max(p["step_bytes"] for p in end["devices"]))
    print("# a batch at once: %d bytes, in four: %d" % tuple(most))
    check(most[1] < 0.6 * most[0], "%d bytes at once, %d in four" % tuple(most))


@test
def a_table_shows_the_costs_of_a_step(b):
    r = b.run(b.train(*mesh("batch:rows;hidden:cols"), "--explain", steps=7, batch=24))
    table = {l.split()[0]: [float(x) for x in l.split()[1:]]
             for l in r.stdout.splitlines() if re.match(r"[A-Z_]\w+ +\d+ ", l)}
    # A batch of 12 and half of the hidden units: forwards 784 and 10 wide, backwards once and twice
    # that; more, where both rows do the same rather than sum up gradients.
    least = 12 * 64 * (2 * 784 + 3 * 10)
    check(least <= table["MatMul"][1] <= 2 * least, str(table["MatMul"]))
    received = sum(row[3] for row in table.values())
    got = result(r.stdout)["devices"][0]["received_bytes"]
    check(7 * received == got, "%d bytes a step, %d in seven" % (received, got))


@test
def errors_name_the_fix(b):
    for more, part in ((["--layout", "batch:rows"], "need --mesh"),
                       (["--mesh", "rows"], "write axes and sizes"),
                       (mesh("batch:depth"), "no axis 'depth'"),
                       (mesh("gradients:rows"), "needs slots:rows or weights:rows"),
                       (mesh("batch:rows") + ["--strategy", "mirrored"], "give only one of them")):
        r = subprocess.run([b.program, *b.train(*more)], capture_output=True, text=True, timeout=60)
        check(r.returncode != 0 and part in r.stderr, "%s: %s" % (more, r.stderr))
    for command in "predict", "eval":
        r = subprocess.run([b.program, command, "--model", "mlp", "--data", "fashion-mnist", "--from", "nowhere",
                            "--layout", "batch:rows"], capture_output=True, text=True, timeout=60)
        check(r.returncode != 0 and "need --mesh" in r.stderr, "%s: %s" % (command, r.stderr))
    r = b.run(["launch", "--all-stay", "--workers", "3", "--", *b.train(*mesh("", "all:2"))], code=2)
    check("2 devices and the job 3 workers" in r.stdout + r.stderr, r.stdout + r.stderr)


@test
def a_surplus_worker_exits(b):
    got = b.sha("--exact", *mesh("batch:all", "all:2"), workers=3)
    check(got == b.sha("--shards", "1"), "other weights")


if __name__ == "__main__":
    harness.main(harness.Trainings)
