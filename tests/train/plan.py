#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predictions of the planner match the counters of the training, and the chosen layout trains.

Usage: plan.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. Times are printed, not asserted: they
depend on the load of the machine.
"""
import json
import os
import subprocess
import tempfile

import harness
from harness import check, test

LAYOUTS = {
    "mlp": ("fashion-mnist", ["", "batch:rows;hidden:cols", "batch:rows;batch:cols;weights:rows"]),
    "fashion-cnn": ("fashion-mnist", ["batch:rows;batch:cols", "batch:rows;filters:cols;hidden:cols",
                                      "batch:rows;weights:rows;weights:cols"]),
    "transformer": ("synthetic-language", ["batch:rows;batch:cols", "batch:rows;heads:cols;ff:cols",
                                           "batch:rows;vocab:cols;weights:rows"]),
}


def plan(b, *args, code=0):
    r = subprocess.run([b.program, "plan", *args], capture_output=True, text=True, timeout=120)
    check(r.returncode == code, "plan %s: %d: %s" % (args, r.returncode, r.stdout + r.stderr))
    return r


def train(b, *more, **kind):
    text = b.run(b.train(*more, **kind)).stdout
    return json.loads([l for l in text.splitlines() if "weights_sha256" in l][-1])


@test
def predicted_bytes_and_variables_are_those_of_a_training(b):
    for model, (data, layouts) in LAYOUTS.items():
        for layout in layouts:
            on = ["--mesh", "rows:2;cols:2", "--layout", layout]
            said = json.loads(plan(b, "--model", model, "--data", data, "--batch", "18", "--optimizer",
                                   "momentum", "--json", *on).stdout)
            said = said["layouts"][0]
            end = train(b, *on, model=model, data=data, batch=18, steps=3)
            for name, steps in ("sent_bytes", 3), ("received_bytes", 3), ("collectives", 3), ("variable_bytes", 1):
                most = max(p[name] for p in end["devices"])
                check(most == steps * said[name], "%s %s %s: %d counted, %d said in each of %d steps" %
                      (model, layout, name, most, said[name], steps))
            print("# %s %s: %d bytes a step; %.2f ms predicted" %
                  (model, layout, said["sent_bytes"], 1e3 * said["step_seconds"]))


@test
def predicted_bytes_and_variables_of_a_pipeline_are_those_of_a_training(b):
    for model, (data, _) in LAYOUTS.items():
        for mesh, layout, turns in (("stages:2", "layers:stages", "3"),
                                    ("stages:2;rows:2", "layers:stages;batch:rows;weights:rows", "4")):
            on = ["--mesh", mesh, "--layout", layout, "--micro-batches", turns]
            said = json.loads(plan(b, "--model", model, "--data", data, "--batch", "18", "--optimizer",
                                   "momentum", "--json", *on).stdout)["layouts"][0]
            check(said["stages"] == 2 and said["micro_batches"] == int(turns), "%s" % said)
            end = train(b, *on, model=model, data=data, batch=18, steps=3)
            for name, steps in ("sent_bytes", 3), ("received_bytes", 3), ("collectives", 3), ("variable_bytes", 1):
                most = max(p[name] for p in end["devices"])
                check(most == steps * said[name], "%s %s %s: %d counted, %d said in each of %d steps" %
                      (model, layout, name, most, said[name], steps))
            print("# %s %s: %d bytes a step; %.2f ms predicted, %.2f of them waiting; memory %d predicted, %d measured" %
                  (model, layout, said["sent_bytes"], 1e3 * said["step_seconds"], 1e3 * said["wait_seconds"],
                   said["memory_bytes"], max(p["variable_bytes"] + p["step_bytes"] for p in end["devices"])))


@test
def trials_of_the_best_layouts_measure_memory(b):
    asked = ["--model", "fashion-cnn", "--data", "fashion-mnist", "--batch", "32", "--optimizer", "momentum",
             "--mesh", "rows:2;cols:2", "--json"]
    layouts = json.loads(plan(b, *asked).stdout)["layouts"]
    tried = [l for l in layouts if l["tried"]]
    best = layouts[0]
    check(best["tried"] and best["step_seconds"] == min(l["step_seconds"] for l in layouts), "%s" % best)
    check(1 <= len(tried) < len(layouts), "%d of %d were tried" % (len(tried), len(layouts)))
    for l in [best] + [l for l in tried[1:] if l["stages"] == 1][:2]:
        more = ["--micro-batches", str(l["micro_batches"])] if l["micro_batches"] > 1 else []
        end = train(b, "--mesh", l["mesh"], "--layout", l["layout"], *more, model="fashion-cnn",
                    data="fashion-mnist", batch=32, steps=20)
        took = max(p["variable_bytes"] + p["step_bytes"] for p in end["devices"])
        print("# %s: %d bytes said, %d measured" % (l["layout"], l["memory_bytes"], took))
        check(abs(l["memory_bytes"] / took - 1) <= 0.05, "%d said, %d measured" % (l["memory_bytes"], took))
    untried = json.loads(plan(b, *asked, "--param", "plan_trial_ms=0").stdout)["layouts"]
    check(not any(l["tried"] or l["step_seconds"] != l["model_seconds"] for l in untried), "tried all the same")


@test
def training_uses_the_layout_of_the_planner(b):
    kind = dict(model="fashion-cnn", batch=32, steps=5)
    end = train(b, "--auto", "--devices", "4", **kind)
    # What is chosen depends on the machine, and on what else it does.
    chosen = ["--mesh", end["mesh"], "--layout", end["layout"]]
    if end["micro_batches"] > 1:
        chosen += ["--micro-batches", str(end["micro_batches"])]
    said = json.loads(plan(b, "--model", "fashion-cnn", "--batch", "32", "--optimizer", "momentum", *chosen,
                           "--json").stdout)["layouts"][0]
    check(len(end["devices"]) == 4, "%s" % end["devices"])
    check(max(p["sent_bytes"] for p in end["devices"]) == 5 * said["sent_bytes"], "%s, %s" % (end, said))
    print("# %s on %s: %.2f ms predicted, %.2f measured" %
          (end["layout"], end["mesh"], 1e3 * end["predicted_step_seconds"], 1e3 * end["measured_step_seconds"]))
    same = train(b, *chosen, **kind)
    check(same["loss"] == end["loss"], "%s by choice, %s when told so" % (end["loss"], same["loss"]))


def kept(folder):
    """Lines of what past trainings took."""
    with open(os.path.join(folder, "meshflow", "planner")) as f:
        return [l.rstrip("\n").split("\t") for l in f if not l.startswith("#")]


@test
def the_planner_uses_past_measurements(b):
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(XDG_CACHE_HOME=folder, MESHFLOW_REPLAN_PERCENT="0")
        kind = dict(model="mlp", batch=64, steps=30)
        first = train(b, "--auto", "--mesh", "all:2", **kind)
        lines = kept(folder)
        check(len(lines) == 1 and lines[0][1].startswith("mlp, 64 samples, momentum, 2 devices") and
              lines[0][2] == "all:2 %s %d" % (first["layout"], first["micro_batches"]), "%s" % lines)
        other = "batch:all" if first["layout"] != "batch:all" else "hidden:all"
        with open(os.path.join(folder, "meshflow", "planner"), "w") as f:
            for ratio, way in ("4", lines[0][2]), ("0.25", "all:2 %s 1" % other):
                f.write("%s\t%s\t%s\n" % (ratio, lines[0][1], way))
        second = train(b, "--auto", "--mesh", "all:2", **kind)
        check(second["layout"] != first["layout"], "%s, then %s" % (first["layout"], second["layout"]))
        print("# %.2f times what was predicted; then '%s'" % (float(lines[0][0]), other))
    del os.environ["XDG_CACHE_HOME"], os.environ["MESHFLOW_REPLAN_PERCENT"]


@test
def a_training_that_is_slower_than_predicted_is_replanned(b):
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(XDG_CACHE_HOME=folder, MESHFLOW_REPLAN_PERCENT="1")
        kind = dict(model="mlp", batch=64, steps=120)
        end = train(b, "--auto", "--mesh", "all:2", "--exact", **kind)
        del os.environ["XDG_CACHE_HOME"], os.environ["MESHFLOW_REPLAN_PERCENT"]
        check(end["replanned"] >= 2, "%s" % end)
        shards = str(end["micro_batches"])  # more than one where the first choice was a pipeline
        check(end["weights_sha256"] == b.sha("--shards", shards, **kind), "other weights than one process: %s" % end)
        print("# planned again %d times; %s in the end" % (end["replanned"], end["layout"]))


@test
def workers_use_the_layout_of_the_chief(b):
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(XDG_CACHE_HOME=folder, MESHFLOW_REPLAN_PERCENT="0")
        kind = dict(model="mlp", batch=64, steps=30)
        text = b.run(["launch", "--workers", "2", "--", *b.train("--auto", "--exact", **kind)]).stdout
        end = [l for l in text.splitlines() if "weights_sha256" in l][-1]
        end = json.loads(end[end.index("{"):])
        lines = kept(folder)
        del os.environ["XDG_CACHE_HOME"], os.environ["MESHFLOW_REPLAN_PERCENT"]
        check(end["workers"] == 2 and len(end["devices"]) == 2 and end["mesh"] == "all:2", "%s" % end)
        check(end["weights_sha256"] == b.sha("--shards", "1", **kind), "other weights than one process: %s" % end)
        check(len(lines) == 1 and "2 devices of 2 workers on 1 hosts" in lines[0][1], "%s" % lines)
        print("# %s on %s: %.2f ms predicted, %.2f measured" %
              (end["layout"], end["mesh"], 1e3 * end["predicted_step_seconds"], 1e3 * end["measured_step_seconds"]))


@test
def the_planner_supports_other_machines(b):
    far = json.loads(plan(b, "--model", "mlp", "--batch", "1024", "--simulate", "256", "--json").stdout)
    best = far["layouts"][0]
    check(best["layout"] and eval("*".join(a.split(":")[1] for a in best["mesh"].split(";"))) == 256, "%s" % best)
    print("# 256 machines: %s on %s, %d layouts in %.1f s" %
          (best["layout"], best["mesh"], far["predicted"], far["search_seconds"] + far["links_seconds"]))


@test
def layers_are_assigned_to_minimize_traffic(b):
    # Links are so slow that bytes decide, and weights are too many for one.
    said = json.loads(plan(b, "--model", "mlp units=[1024,1024,1024]", "--batch", "64", "--simulate", "2",
                           "--bandwidth", "1", "--memory", "20", "--json").stdout)
    best = said["layouts"][0]
    check(said["fits"] and said["pipelines"] > 0 and best["stages"] == 2 and best["layout"].startswith("layers:"),
          "%s" % best)
    check(best["sent_bytes"] == min(l["sent_bytes"] for l in said["layouts"] if l["fits"]), "not the least: %s" % best)
    print("# %(layout)s, %(micro_batches)d micro-batches, %(sent_bytes)d bytes" % best)


@test
def insufficient_memory_is_reported(b):
    wide = "mlp units=[1000]"
    r = plan(b, "--model", wide, "--devices", "2", "--memory", "1", code=1)
    check("no layout fits 1 MiB: the minimum is" in r.stdout and "no layout fits 1 MiB" in r.stderr, r.stdout + r.stderr)
    r = subprocess.run([b.program, *b.train("--auto", "--devices", "2", "--memory", "1", model=wide)],
                       capture_output=True, text=True, timeout=60)
    check(r.returncode != 0 and "no layout fits 1 MiB" in r.stderr, r.stderr)


@test
def errors_name_the_fix(b):
    for more, part in ((["--layout", "batch:rows"], "needs --mesh"),
                       (["--mesh", "all:2", "--devices", "2"], "without --devices"),
                       (["--devices", "2", "--simulate", "2"], "give one of them"),
                       (["--devices", "2", "--latency", "5"], "need --simulate"),
                       (["--mesh", "all:2", "--layout", "color:all"], "no dimension 'color'")):
        r = subprocess.run([b.program, "plan", "--model", "mlp", *more], capture_output=True, text=True, timeout=60)
        check(r.returncode != 0 and part in r.stderr, "%s: %s" % (more, r.stderr))
    r = subprocess.run([b.program, *b.train("--devices", "2")], capture_output=True, text=True, timeout=60)
    check(r.returncode == 2 and "need --auto" in r.stderr, r.stderr)


if __name__ == "__main__":
    harness.main(harness.Trainings)
