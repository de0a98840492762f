#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Live relayout: a training on a mesh continues with another mesh and layout, without a restart.

Usage: relayout.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. With --exact the final weights equal
those of one process, whatever the layouts in between.
"""
import json
import os
import re
import signal
import subprocess
import sys
import time

import harness
from harness import check, host_test, test

WAYS = (("rows:4", "batch:rows"), ("rows:2;cols:2", "batch:rows;hidden:cols;heads:cols;ff:cols"),
        ("cols:4", "hidden:cols;heads:cols;ff:cols;vocab:cols"), ("rows:4", "batch:rows;weights:rows"),
        ("stages:2;rows:2", "layers:stages;batch:rows"), ("rows:3 | cols:1", "batch:rows"),
        ("rows:2;cols:2", "batch:rows;hidden:cols;slots:rows"))


# As many devices are needed, layouts that can be, axes that there are.
REFUSED = (("rows:3", "batch:rows", "4"), ("rows:2;cols:2", "hidden:rows;hidden:cows", "cows"))


def boards(b):
    """Not shared."""
    return os.path.join(b.dir, "boards")


def set_layout(b, job, mesh, layout):
    return subprocess.run([b.program, "job", "set", job, "--mesh", mesh, "--layout", layout],
                          capture_output=True, text=True, timeout=60,
                          env={**os.environ, "MESHFLOW_RUN_DIR": boards(b)})


def changes(err):
    return re.findall(r"after step (\d+) the mesh is '(.*?)', the layout '(.*?)': (\d+) bytes.*?([\d.]+) ms", err)


def end(b, tasks):
    """Terminates them; returns their output."""
    for p in tasks:
        p.send_signal(signal.SIGTERM)
    said = [p.communicate(timeout=120) for p in tasks]
    for p, (out, err) in zip(tasks, said):
        check(p.returncode == harness.STOPPED, "%d: %s" % (p.returncode, err))
    return said


def change_six_times(b, model, data, workers):
    name = "re%d-%s" % (workers, model)
    kind = dict(model=model, data=data, batch=24)
    command = b.train("--exact", "--mesh", WAYS[0][0], "--layout", WAYS[0][1], "--name", name, "--json",
                      steps=1000000, **kind)
    tasks = b.start([command] * workers, {"MESHFLOW_LOG": "info", "MESHFLOW_RUN_DIR": boards(b)})
    for way in WAYS[1:]:
        for _ in range(600):  # until they are there
            r = set_layout(b, name, *way)
            if r.returncode == 0 or tasks[0].poll() is not None:
                break
            time.sleep(0.1)
        if tasks[0].poll() is not None:
            check(False, tasks[0].communicate()[1])
        check(r.returncode == 0, "%s %s: %s" % (model, way, r.stderr))
        check("the mesh is '%s', the layout '%s'" % way in r.stdout, "%s: %s" % (way, r.stdout))
    for mesh, layout, why in REFUSED:
        r = set_layout(b, name, mesh, layout)
        check(r.returncode != 0 and re.search(why, r.stderr), "%s %s: %s" % (mesh, layout, r.stderr))
    said = end(b, tasks)
    done = changes(said[0][1])
    print("# %s on %d: %s" % (model, workers, ["%s bytes, %s ms" % d[3:] for d in done]))
    check([d[1:3] for d in done] == list(WAYS[1:]), "%s: %s" % (done, said[0][1]))
    result = json.loads(said[0][0])
    sha = result["weights_sha256"]
    want = b.sha("--shards", "1", steps=result["steps"], **kind)
    check(sha == want, "%s after %d changes: %s, alone %s" % (model, len(done), sha, want))


@test
def six_layouts_in_one_run_give_the_weights_of_one_process(b):
    change_six_times(b, "mlp", "fashion-mnist", 1)


@test
def all_processes_relayout_together(b):
    change_six_times(b, "mlp", "fashion-mnist", 4)


@host_test
def a_slow_worker_gets_a_smaller_share_and_weights_do_not_change(b):
    kind = dict(model="fashion-cnn", data="fashion-mnist", batch=32)
    command = b.train("--exact", "--balance", "--mesh", "all:2", "--layout", "batch:all", steps=1000000,
                      **kind)
    cores, last = sorted(os.sched_getaffinity(0)), time.monotonic() + 120
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    logs = [os.path.join(b.dir, "balance-%d" % i) for i in range(2)]
    tasks = b.start([command] * 2, {"MESHFLOW_LOG": "info", "MESHFLOW_THREADS": "1"}, logs)
    try:
        for p in loops:
            os.sched_setaffinity(p.pid, cores[-1:])
        harness.move_threads(tasks[0].pid, cores[:1])
        shares = [(0, 0)]
        while shares[-1][0] <= shares[-1][1] and tasks[0].poll() is None and time.monotonic() < last:
            harness.move_threads(tasks[1].pid, cores[-1:])  # including workers that joined later
            time.sleep(0.1)
            with open(logs[0]) as log:
                shares += [(int(x), int(y)) for x, y in re.findall(r"the mesh is 'all:(\d+),(\d+)'", log.read())]
    finally:
        for p in loops:
            p.kill()
            p.wait()
    out = end(b, tasks)[0][0]
    check(shares[-1][0] > shares[-1][1], "the slow one has as much as the other: " + open(logs[0]).read())
    print("# shares of the two: %d and %d" % shares[-1])
    result = json.loads(out)
    want = b.sha("--shards", "1", steps=result["steps"], **kind)
    check(result["weights_sha256"] == want, "other weights")


if __name__ == "__main__":
    harness.main(harness.Trainings)
