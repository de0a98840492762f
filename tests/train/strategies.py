#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Distributed training: the same weights with every strategy, and losses of tasks.

Usage: strategies.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. Training with one process is the oracle.
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time

import harness
from harness import await_checkpoint, check, host_test, test


# ---- the same weights ----

@test
def every_strategy_gives_the_weights_of_one_process(b):
    kind = dict(model="fashion-cnn", steps=50, batch=32)
    want = b.sha(**kind)
    for workers in 1, 2, 3, 4, 8:
        got = b.sha(workers=workers, **kind)
        check(got == want, "%d workers: %s, alone: %s" % (workers, got, want))
    for replicas in 1, 2, 3, 4:
        got = b.sha(strategy="mirrored replicas=%d" % replicas, **kind)
        check(got == want, "%d replicas: %s, alone: %s" % (replicas, got, want))
    for strategy, workers in ("central_storage replicas=2", 0), ("reduce_to_one", 3), (
            "multi_worker_mirrored collective=ring", 3):
        got = b.sha(strategy=strategy, workers=workers, **kind)
        check(got == want, "%s: %s, alone: %s" % (strategy, got, want))


@test
def augmented_images_give_the_same_weights_with_any_number_of_workers(b):
    more, kind = ("--augment", "crop=2 flip=true cutout=8"), dict(model="cnn-small", steps=4)
    want = b.sha(*more, **kind)
    check(want != b.sha(**kind), "nothing was augmented")
    for workers in 2, 3:
        check(b.sha(*more, workers=workers, **kind) == want, "%d workers: other weights" % workers)


@test
def pruned_weights_are_the_same_with_every_strategy(b):
    """Weights become zero during training, and remain so whichever task updates them."""
    prune = "--prune", "magnitude sparsity=0.8 begin=2 end=10 every=2"
    kind = dict(steps=14, batch=32)
    out = b.out("pruned")
    want = b.sha(*prune, "--out", out, **kind)
    shown = json.loads(b.run(["ckpt", "show", out, "--json"]).stdout)
    zeros = {t["name"]: t.get("zeros") for t in shown["tensors"]}
    check(zeros["dense/kernel"] + zeros["dense_1/kernel"] == round(0.8 * (784 * 128 + 128 * 10)), str(zeros))
    for strategy, workers in ("multi_worker_mirrored", 3), ("mirrored replicas=3", 0), (
            "central_storage replicas=2", 0), ("reduce_to_one", 3):
        got = b.sha(*prune, strategy=strategy, workers=workers, **kind)
        check(got == want, "%s: %s, alone: %s" % (strategy, got, want))
    one_shard = b.sha(*prune, "--shards", "1", **kind)  # which is what a mesh has
    got = b.sha(*prune, "--mesh", "rows:2;cols:2", "--layout", "batch:rows;hidden:cols", "--exact", **kind)
    check(got == one_shard, "on a mesh: %s, alone: %s" % (got, one_shard))
    r = b.run(b.train(*prune, strategy="local_sgd groups=2"), code=2)
    check("prune with another strategy" in r.stderr, r.stderr)


@test
def embedding_tables_give_the_same_weights(b):
    for model, data in ("wide-deep", "synthetic-ctr"), ("text-cnn vocabulary=256", "synthetic-text"):
        kind = dict(model=model, data=data, steps=8, batch=37, optimizer="adam")
        want = b.sha(**kind)
        for strategy, workers in ("multi_worker_mirrored", 3), ("mirrored replicas=3", 0), (
                "central_storage replicas=2", 0), ("reduce_to_one", 2):
            got = b.sha(strategy=strategy, workers=workers, **kind)
            check(got == want, "%s, %s: %s, alone: %s" % (model, strategy, got, want))


@test
def partial_and_tiny_batches_give_the_same_weights(b):
    few = b.out("few.csv")
    with open(few, "w") as f:
        f.write("a,b,c,y\n")
        for i in range(75):
            f.write("%d,%d,%d,%d\n" % (i % 7, i % 5, i % 11, i % 7 > i % 5))
    for batch in 32, 5:  # the last batch of an epoch has 11 samples; no batch has 8
        more = "--set", "label=y", "--test", few
        kind = dict(data=few, batch=batch, steps=20)
        want = b.sha(*more, **kind)
        for strategy, workers in ("multi_worker_mirrored", 3), ("mirrored replicas=3", 0), (
                "central_storage replicas=3", 0), ("reduce_to_one", 3):
            got = b.sha(*more, strategy=strategy, workers=workers, **kind)
            check(got == want, "%s, batches of %d: %s, alone: %s" % (strategy, batch, got, want))
        r = b.run(["launch", "--workers", "3", "--ps", "2", "--json", "--", *b.train(
            *more, strategy="parameter_server", **kind)])
        check(last_object(r.stdout)["weights_sha256"] == want, "servers, batches of %d: other weights" % batch)


def last_object(text):
    line = [l for l in text.splitlines() if "weights_sha256" in l][-1]
    return json.loads(line[line.index("{"):])


@test
def steps_with_nan_are_skipped_by_all_workers(b):
    table = b.out("nan.csv")
    with open(table, "w") as f:
        f.write("a,b,y\n")
        for i in range(80):
            f.write("%s,%d,%d\n" % ("nan" if i in (9, 41) else i % 7, i % 5, i % 7 > i % 5))
    more = "--set", "label=y missing=nan", "--test", table, "--guard", "skip"
    kind = dict(data=table, batch=8, steps=20)
    want = b.sha(*more, **kind)
    for workers in 2, 3:
        got = last_object(b.run(["launch", "--workers", str(workers), "--", *b.train(*more, **kind)]).stdout)
        check(got["weights_sha256"] == want, "%d workers: other weights" % workers)
        check(2 <= got["skipped_steps"] <= 4, "%d steps skipped" % got["skipped_steps"])
    # Saved in checkpoints: a resumed training continues to count.
    out = b.out("kept")
    b.sha(*more, "--out", out, **{**kind, "steps": 10})
    check(b.sha(*more, "--out", out, "--resume", workers=2, **kind) == want, "other weights after going on")


@test
def all_workers_end_with_the_same_step_when_training_has_converged(b):
    table = b.out("halves.csv")
    with open(table, "w") as f:
        f.write("a,b,y\n")
        for i in range(256):
            f.write("%d,%d,%d\n" % (i * 7919 % 101, i * 104729 % 97, i * 7919 % 101 > i * 31 % 101))
    more = "--set", "label=y", "--test", table, "--validation", "0.2", "--stop", "converged tolerance=0.01"
    ends = []
    for workers in 0, 2, 3:
        launch = ["launch", "--workers", str(workers), "--"] if workers else []
        ends.append(last_object(b.run([*launch, *b.train(*more, data=table, steps=20000)]).stdout))
        check(ends[-1]["ended"] == "converged", str(ends[-1]))
        check("more steps" in ends[-1]["ended_because"] or "no smaller" in ends[-1]["ended_because"],
              ends[-1]["ended_because"])
    check(len({(e["steps"], e["weights_sha256"]) for e in ends}) == 1, str(ends))


@test
def weights_that_do_not_move_for_a_given_time_are_converged(b):
    command = b.train("--converged-after", "1", rate=1e-30, steps=10 ** 9)
    end = last_object(b.run(["launch", "--workers", "2", "--", *command]).stdout)
    check(end["ended"] == "converged" and "no step has moved the weights" in end["ended_because"], str(end))


@test
def a_diverged_training_ends_with_an_error(b):
    r = b.run(b.train("--guard", "off", "--stop", "converged", rate=1e30), code=2)
    check(last_object(r.stdout)["ended"] == "diverged", r.stdout)
    check("10 consecutive losses are NaN/Inf" in r.stderr, r.stderr)


@test
def parameter_servers_reject_skipping(b):
    r = b.run(["launch", "--workers", "1", "--ps", "1", "--", *b.train("--guard", "skip")], code=2)
    check("use guard stop, or another strategy" in r.stdout + r.stderr, r.stdout + r.stderr)


@test
def training_resumes_with_other_workers_and_the_same_weights(b):
    out = b.out("other")
    want = b.sha(steps=40)
    for steps, strategy, workers in (10, None, 3), (20, "mirrored replicas=2", 0), (
            30, "reduce_to_one", 2), (35, None, 4):
        b.sha("--out", out, "--resume", steps=steps, strategy=strategy, workers=workers)
    check(b.sha("--out", out, "--resume", steps=40) == want, "other weights after going on")


def shards_of_two(log):
    """The shards of workers 0 and 1 after each assignment by speed."""
    with open(log) as f:
        return [(int(a), int(c)) for a, c in re.findall(r"workers have (\d) at [^,]*, (\d) at", f.read())]


@test
def a_slow_worker_gets_fewer_shards_and_the_weights_are_the_same(b):
    """It is stopped for nine tenths of the time, until its shards are fewer."""
    kind = dict(model="fashion-cnn", batch=64)
    logs = [b.out("log%d" % i) for i in range(2)]
    workers = b.start([b.train(steps=100000, **kind)] * 2, {"MESHFLOW_LOG": "info"}, logs)
    while not any(first > second for first, second in shards_of_two(logs[0])):
        check(all(w.poll() is None for w in workers), "a worker has ended")
        workers[1].send_signal(signal.SIGSTOP)
        time.sleep(0.045)
        workers[1].send_signal(signal.SIGCONT)
        time.sleep(0.005)
    workers[0].send_signal(signal.SIGTERM)
    ends = [w.communicate(timeout=60)[0] for w in workers]
    check([w.returncode for w in workers] == [harness.STOPPED] * 2, str(ends))
    result = last_object(ends[0])
    check(result["weights_sha256"] == b.sha(steps=result["steps"], **kind), "other weights")


@test
def workers_get_shards_in_proportion_to_their_threads(b):
    """From the first step on: there are too few steps for a speed check."""
    kind = dict(steps=6, batch=96)
    want = b.sha("--shards", "12", **kind)
    workers = b.start([b.train("--shards", "12", "--threads", str(n), **kind) for n in (1, 2, 3)],
                      {"MESHFLOW_LOG": "info"})
    ends = [w.communicate(timeout=60) for w in workers]
    check([w.returncode for w in workers] == [0, 0, 0], str(ends))
    check(json.loads(ends[0][0].splitlines()[-1])["weights_sha256"] == want, "other weights")
    check("shards are assigned by the number of threads: workers have 2, 4, 6" in ends[0][1], ends[0][1])


def pulse(workers, of):
    """Each runs this many of `period` slices of time, until the first has ended."""
    turn = 0
    while all(w.poll() is None for w in workers):
        for w, n in zip(workers, of):
            w.send_signal(signal.SIGCONT if turn % max(of) < n else signal.SIGSTOP)
        turn += 1
        time.sleep(0.01)
    for w in workers:
        if w.poll() is None:
            w.send_signal(signal.SIGCONT)


@host_test
def workers_of_speeds_1_2_3_get_shards_1_2_3(b):
    """By measured speed: the workers run a third, two thirds, all of the time."""
    kind = dict(model="fashion-cnn", steps=1500, batch=96)
    logs = [b.out("log%d" % i) for i in range(3)]
    workers = b.start([b.train("--shards", "12", "--threads", "1", **kind)] * 3,
                      {"MESHFLOW_LOG": "info"}, logs)
    pulse(workers, (1, 2, 3))
    ends = [w.communicate(timeout=120) for w in workers]
    with open(logs[0]) as f:
        log = f.read()
    check([w.returncode for w in workers] == [0, 0, 0], str(ends) + log)
    deals = [tuple(map(int, d)) for d in re.findall(r"workers have (\d+) at [^,]*, (\d+) at [^,]*, (\d+) at", log)]
    check(deals and any(abs(a - 2) <= 1 and abs(c - 4) <= 1 and abs(e - 6) <= 1 and a < c < e
                        for a, c, e in deals), "they came to %s" % deals)
    check(deals[-1][0] < deals[-1][1] < deals[-1][2], "in the end %s" % (deals[-1],))


@test
def trimmed_mean_and_adasum_do_not_depend_on_the_number_of_workers(b):
    ways = {" aggregation=trimmed_mean trim=0.2", " aggregation=adasum"}
    wants = {b.sha(steps=10)}
    for how in sorted(ways):
        want = b.sha(strategy="mirrored replicas=1" + how, steps=10)
        for strategy, workers in ("multi_worker_mirrored", 3), ("mirrored replicas=2", 0):
            got = b.sha(strategy=strategy + how, workers=workers, steps=10)
            check(got == want, "%s%s: %s, not %s" % (strategy, how, got, want))
        wants.add(want)
    check(len(wants) == 3, "two of sum, trimmed mean and adasum are the same")


def frozen_and_free(b, before, after):
    """Names of the weights whose bits are those of another checkpoint, and of those that differ."""
    r = subprocess.run([b.program, "ckpt", "diff", before, after], capture_output=True, text=True)
    changed = set(re.findall(r"^  (\S+): ", r.stdout, re.M))
    shown = json.loads(b.run(["ckpt", "show", after, "--json"]).stdout)
    weights = {t["name"] for t in shown["tensors"]
               if re.fullmatch(r"(conv2d|dense)(_\d+)?/(kernel|bias)", t["name"])}
    return weights - changed, weights & changed


@test
def fine_tuning_a_head_keeps_the_bits_of_frozen_weights(b):
    """Of another training's checkpoint all but the last layer is frozen, by patterns of names."""
    first = b.out("first")
    b.sha("--out", first, model="fashion-cnn", steps=3)
    more = "--init", first, "--freeze", "conv2d*", "--freeze", "dense/*"
    kind = dict(model="fashion-cnn", steps=4, seed=8)
    shas = {}
    for name, workers, ps, strategy in (("one worker", 1, 0, None), ("three", 3, 0, "multi_worker_mirrored"),
                                        ("two and a server", 2, 1, "parameter_server")):
        out = b.out(name.replace(" ", "-"))
        r = b.run(["launch", "--workers", str(workers), "--ps", str(ps), "--json", "--",
                   *b.train(*more, "--out", out, strategy=strategy, **kind)])
        told = last_object(r.stdout)
        check(told["workers"] == workers, "%s: %d took part" % (name, told["workers"]))
        shas[name] = told["weights_sha256"]
        frozen, free = frozen_and_free(b, first, out)
        check(free == {"dense_1/kernel", "dense_1/bias"} and
              {"conv2d/kernel", "conv2d/bias", "dense/kernel", "dense/bias"} <= frozen,
              "%s: frozen %s, free %s" % (name, sorted(frozen), sorted(free)))
    check(len(set(shas.values())) == 1, str(shas))


@test
def traffic_per_step_does_not_grow_with_the_workers_of_a_host(b):
    """Each has 8 samples of a batch, whatever their number: in shared memory all bytes are given once."""
    def sent(workers, steps, collective):
        r = b.run(["launch", "--workers", str(workers), "--json", "--", *b.train(
            steps=steps, batch=8 * workers, strategy="multi_worker_mirrored collective=" + collective)])
        told = last_object(r.stdout)
        check(told["workers"] == workers, "%d took part" % told["workers"])
        return told["sent_bytes"]

    def by_step(workers, collective):
        return (sent(workers, 6, collective) - sent(workers, 2, collective)) / 4

    weights = 4 * (784 * 128 + 128 + 128 * 10 + 10)
    shared = {n: by_step(n, "shared") for n in (2, 4, 8)}
    check(len(set(shared.values())) == 1 and weights <= shared[2] < 1.01 * weights, str(shared))
    # Over sockets every partial sum travels once, as in a ring without a fixed order of addition.
    ring = {n: by_step(n, "ring") for n in (2, 4, 8)}
    check(all(ring[n] < 1.05 * weights * 2 * (n - 1) / n for n in ring), str(ring))


@test
def averaged_weights_are_the_same_every_time(b):
    kind = dict(strategy="local_sgd period=7", workers=3, steps=30)
    want = b.sha(**kind)
    check(b.sha(**kind) == want, "other weights the second time")
    check(b.sha(steps=30) != want, "nothing was averaged")


@test
def groups_end_with_the_weights_of_one_process(b):
    for more, kind in ([], dict(model="fashion-cnn", batch=37)), (["--precision", "fp16"], {}), (
            ["--save-steps", "9"], dict(optimizer="adam")):
        for groups in 4, 3:
            kind.update(strategy="local_sgd groups=%d period=7" % groups, steps=30)
            want = b.sha(*more, **kind)
            for workers in 2, 3, 4, 5:
                got = b.sha(*more, workers=workers, **kind)
                check(got == want, "%d workers: %s, alone: %s" % (workers, got, want))
    r = b.run(b.train(strategy="local_sgd groups=9"), code=2)
    check("9 groups cannot share 8 shards; give --shards 9 or more" in r.stderr, r.stderr)


@test
def groups_resume_with_other_workers_and_keep_their_number(b):
    out = b.out("groups")
    kind = dict(strategy="local_sgd groups=4 period=5")
    want = b.sha("--save-steps", "10", **kind)
    for steps, workers in (10, 3), (20, 0), (30, 5):
        b.sha("--save-steps", "10", "--out", out, "--resume", workers=workers, **{**kind, "steps": steps})
    r = b.run(b.train("--out", out, "--resume", strategy="local_sgd groups=2 period=5"), code=2)
    check("training began with 4 groups, not 2" in r.stderr, r.stderr)
    got = b.sha("--save-steps", "10", "--out", out, "--resume", workers=2, strategy="local_sgd period=5")
    check(got == want, "other weights after going on")


# ---- loss of a task ----

@test
def a_killed_worker_is_named_by_the_others(b):
    out = b.out("killed")
    command = b.train("--out", out, "--save-steps", "5", steps=100000)
    workers = b.start([command] * 3)
    await_checkpoint(out)
    workers[1].send_signal(signal.SIGKILL)
    start = time.monotonic()
    for i in 0, 2:
        _, err = workers[i].communicate(timeout=20)
        check(workers[i].returncode not in (0, -9), "worker %d: exit code 0" % i)
        check("worker 1" in err, "worker %d does not name the dead one: %s" % (i, err))
    check(time.monotonic() - start < 10, "it took %.1f s" % (time.monotonic() - start))


@test
def stopped_by_a_signal_all_end_at_the_same_step_with_a_checkpoint(b):
    for strategy in "multi_worker_mirrored", "reduce_to_one", "local_sgd period=4":
        out = b.out("stopped")
        command = b.train("--out", out, "--save-steps", "5", steps=100000, strategy=strategy)
        workers = b.start([command] * 3)
        await_checkpoint(out)
        for w in workers:
            w.send_signal(signal.SIGINT)
        ends = [w.communicate(timeout=20) for w in workers]
        check([w.returncode for w in workers] == [harness.STOPPED] * 3, "%s: %s" % (strategy, ends))
        steps = json.loads(ends[0][0].splitlines()[-1])["steps"]
        check(os.path.exists(os.path.join(out, "model.ckpt-%d.index" % steps)),
              "%s: no checkpoint of step %d" % (strategy, steps))
        shutil.rmtree(out)


@test
def a_signal_to_one_worker_stops_all(b):
    out = b.out("one")
    workers = b.start([b.train("--out", out, "--save-steps", "5", steps=100000)] * 3)
    await_checkpoint(out)
    workers[2].send_signal(signal.SIGTERM)
    ends = [w.communicate(timeout=20) for w in workers]
    check([w.returncode for w in workers] == [harness.STOPPED] * 3, str(ends))


# ---- mistakes ----

@test
def workers_with_different_settings_fail_and_name_both(b):
    multi = "multi_worker_mirrored"
    for first, second, mine, theirs in (
            (dict(seed=3), dict(seed=4), "--seed is '3' for worker 0", "'4' for worker 1"),
            (dict(rate=0.05), dict(rate=0.1), "--lr is '0.05' for worker 0", "'0.1' for worker 1"),
            (dict(batch=32), dict(batch=64), "--batch is '32' for worker 0", "'64' for worker 1"),
            (dict(model="mlp"), dict(model="fashion-cnn"), "--model is 'mlp' for worker 0",
             "'fashion-cnn' for worker 1"),
            (dict(more=["--codec", "int8"]), {}, "--codec is 'int8' for worker 0", "not set for worker 1"),
            ({}, dict(strategy=multi + " aggregation=median"), "strategy is 'multi_worker_mirrored' for worker 0",
             "aggregation=median' for worker 1")):
        workers = b.start([b.train("--timeout", "600", *kind.pop("more", []), **kind)
                           for kind in (dict(first), dict(second))])
        ends = [w.communicate(timeout=60)[1] for w in workers]  # long before the timeout
        check(all(w.returncode not in (0, -9) for w in workers), "they train: %s" % ends)
        for err in ends:
            flat = " ".join(err.split())
            check(value_of(mine, flat) and value_of(theirs, flat), "%s, %s: %s" % (mine, theirs, err))


def value_of(phrase, text):
    """Either task may be named first."""
    value, who = phrase.rsplit(" for ", 1)
    return "%s for %s" % (value.split(" is ")[-1], who) in text and value.split(" is ")[0].lstrip("'") in text


@test
def only_the_chief_writes(b):
    outs = [b.out("of-%d" % i) for i in range(3)]
    workers = b.start([b.train("--out", out, "--save-steps", "10") for out in outs])
    ends = [w.communicate(timeout=60) for w in workers]
    check([w.returncode for w in workers] == [0, 0, 0], str(ends))
    check(glob.glob(os.path.join(outs[0], "*.index")), "the chief has written no checkpoint")
    check(not os.path.exists(outs[1]) and not os.path.exists(outs[2]), "another one writes, too")
    check("weights_sha256" in ends[0][0] and not ends[1][0] and not ends[2][0],
          "not only the chief tells the result")


@test
def single_process_strategies_reject_several_processes(b):
    r = b.run(["launch", "--workers", "2", "--", *b.train(strategy="mirrored")], code=2)
    check("is for one process" in r.stdout + r.stderr, r.stdout + r.stderr)


if __name__ == "__main__":
    harness.main(harness.Trainings)
